"""Without PySpark or Java, who asks for Spark is told what to install."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tools import spark_cluster

from sfumato.cli import options
from sfumato.engines import spark_source
from sfumato.errors import DataError, PlanError


def test_without_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(DataError, match=r"pip install '\.\[spark\]'"):
        options.load("table:people")
    assert "PySpark" in spark_cluster.explain_missing()


def test_without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(Path(__file__).parent))
    with pytest.raises(DataError, match="Spark needs Java"):
        spark_source.open_session("local[1]")
    assert "Java" in spark_cluster.explain_missing()


def test_engines_that_do_not_go_together() -> None:
    with pytest.raises(PlanError, match="--engine local"):
        options.is_spark("local", "spark://localhost:7077")
    assert options.is_spark(None, None, "table:people")
    assert not options.is_spark(None, None, "people.csv")
