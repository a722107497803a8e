"""Frames to a cluster and back, by what PySpark 3.5 and 4 both have."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import polars as pl

UPLOADS = "sfumato.tests.uploads"
"""The setting of a session that says where files of records lie."""


def upload(session: Any, frame: pl.DataFrame) -> Any:
    """A Spark frame of these records. They lie in a file, so that a killed worker loses nothing."""
    path = Path(session.conf.get(UPLOADS)) / f"{uuid.uuid4()}.parquet"
    frame.write_parquet(path)
    return session.read.parquet(str(path))


def download(frame: Any) -> pl.DataFrame:
    """All records of a Spark frame."""
    from sfumato.engines.spark import _fetch_table

    return pl.DataFrame(_fetch_table(frame))
