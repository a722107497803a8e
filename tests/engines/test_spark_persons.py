"""Rows of one person on a real Spark: the same draws, days and groups as on one machine."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from tests.engines.spark_frames import download, upload
from tests.methods.test_persons import SCHEMA, make_visits

import sfumato as sf
from sfumato.engines import engine_for
from sfumato.errors import MethodError

pytestmark = [
    pytest.mark.spark,
    # Py4J leaves its sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
KEY = bytes(range(32))
DATES = SCHEMA.with_columns(
    {"born": sf.Column(role="other", kind="date"), "seen": sf.Column(role="other", kind="date")}
)
METHODS = [
    sf.methods.ShiftDates(window=364, unit="weeks"),
    sf.methods.ShiftDates(origin="seen"),
    sf.methods.Noise(variables=["height", "age"], variance_share=0.3),
    sf.methods.CorrelatedNoise(variables=["age", "height"], noise_share=0.3, partly=True),
    sf.methods.Misclassify(variables=["sex", "ward"], retention=0.6, towards="equal"),
    sf.methods.Suppress(variables=["sex", "size"], k=3),
    sf.methods.Recode(variables=["ward"], fewest=12),
]


def make_table() -> pl.DataFrame:
    frame = make_visits(60, 4)
    days = pl.lit("2001-01-01").str.to_date()
    return frame.with_columns(
        (days - pl.duration(days=pl.col("height") * 10)).cast(pl.Date).alias("born"),
        (days + pl.duration(days=pl.col("age") * 7)).cast(pl.Date).alias("seen"),
        pl.int_range(pl.len()).alias("row"),
    )


@pytest.fixture(scope="module")
def tables(session: Any) -> tuple[sf.Dataset, sf.Dataset]:
    frame = make_table()
    there = sf.Dataset(upload(session, frame).repartition(3), DATES)
    engine = engine_for(there.frame)
    return sf.Dataset(frame, DATES), engine.keep(engine.prepare(there))


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_persons_are_treated_as_on_one_machine(method, tables):
    here, there = tables
    expected = method.apply(here, key=KEY).frame.sort("row")
    released = download(method.apply(there, key=KEY).frame).sort("row")
    assert released.select(here.columns).equals(expected)


def test_clusters_of_persons_are_refused(tables):
    with pytest.raises(MethodError, match="only where one machine holds"):
        sf.methods.KAnonymity(k=3).apply(tables[1])
