"""A real cluster for the tests of the Spark engine: one master, two workers, separate processes.

It starts once, so all tests that need it run in one process: `pytest -n 0 -m spark`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from tests.engines.spark_frames import UPLOADS
from tools.spark_cluster import Cluster, explain_missing, open_session, start_cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    if lacking := explain_missing():
        if os.environ.get("SFUMATO_NOTHING_SKIPPED"):
            pytest.fail(lacking)
        pytest.skip(lacking)
    with start_cluster() as started:
        yield started


@pytest.fixture(scope="session")
def session(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    # For a few hundred records, planning and compiling queries takes longer than running them.
    quick = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.locality.wait": "0",
    }
    opened = open_session(cluster.master, **quick)
    opened.conf.set(UPLOADS, str(tmp_path_factory.mktemp("uploads")))
    yield opened
    opened.stop()
