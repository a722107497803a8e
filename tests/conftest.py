"""What all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, settings

import sfumato as sf
from sfumato.data import Dataset

# Shared machines are slow at times; a test that is slow once is not wrong.
settings.register_profile(
    "house", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("house")

LIBRARIES = ("polars", "pandas", "pyarrow")


def in_library(frame: pl.DataFrame, library: str):
    """The same records in another frame library."""
    if library == "pandas":
        return frame.to_pandas()
    return frame.to_arrow() if library == "pyarrow" else frame


@pytest.fixture(scope="session")
def cohort_frame() -> pl.DataFrame:
    return sf.datasets.cohort(300)


@pytest.fixture
def cohort(cohort_frame: pl.DataFrame) -> Dataset:
    return sf.Dataset(cohort_frame, sf.datasets.cohort_schema())


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of public data; never part of the project."""
    where = os.environ.get("SFUMATO_DATA")
    if not where:
        if os.environ.get("SFUMATO_NOTHING_SKIPPED"):
            pytest.fail("SFUMATO_DATA is not set, and nothing may be skipped here")
        pytest.skip("SFUMATO_DATA is not set")
    return Path(where)
