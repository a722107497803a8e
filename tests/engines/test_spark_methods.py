"""Methods that need more than a record, on a real Spark: cuts by counts, ranks, odd shapes."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
from tests.engines.spark_frames import download, upload

import sfumato as sf
from sfumato.engines import LocalEngine, engine_for
from sfumato.engines.verbs import RANK
from sfumato.methods._strata import pieces
from sfumato.methods.clustering import distributed

pytestmark = [
    pytest.mark.spark,
    # Py4J leaves its sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def make_table() -> pl.DataFrame:
    """One huge stratum, many tiny ones, gaps, and thousands of categories."""
    random = np.random.default_rng(2)
    part = np.concatenate([np.zeros(1500, np.int64), np.repeat(np.arange(1, 101), 3)])
    return pl.DataFrame(
        {
            "x": pl.Series(random.integers(0, 60, len(part))).set(
                pl.Series(random.random(len(part)) < 0.05), None
            ),
            "town": pl.Series(random.integers(0, 10_000, len(part))).cast(pl.String),
            "part": part,
            "cost": random.integers(0, 9, len(part)),
        }
    )


SCHEMA = sf.Schema(
    {"x": "quasi", "town": sf.Column(role="quasi", kind="nominal"), "cost": "sensitive"}
)
METHODS = [
    sf.methods.KAnonymity(variables=["x"], k=3, strata=["part"]),
    sf.methods.TCloseness(variables=["x", "town"], confidential="cost", k=10, t=0.3),
    sf.methods.KAnonymity(variables=["cost"], k=7, clustering="origin"),
]


@pytest.fixture(scope="module")
def tables(session: Any) -> tuple[sf.Dataset, sf.Dataset]:
    frame = make_table()
    # More parts than records in some of them, and some without any.
    spread = upload(session, frame).repartition(3)
    there = sf.Dataset(spread, SCHEMA)
    engine = engine_for(there.frame)
    return sf.Dataset(frame, SCHEMA), engine.keep(engine.prepare(there))


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_cuts_by_counts_give_the_same_classes(
    method: Any, tables: tuple[sf.Dataset, sf.Dataset]
) -> None:
    here, there = tables
    local = method.apply(here)
    with patch.object(distributed, "MOST_ROWS", 400):
        distributed_release = method.apply(there)
    wanted = pl.DataFrame(local.frame)
    released = download(distributed_release.frame).select(wanted.columns)
    assert distributed_release.schema == local.schema
    assert released.cast(wanted.schema).sort(wanted.columns).equals(wanted.sort(wanted.columns))


def test_a_large_stratum_in_pieces_has_the_same_centres(session: Any) -> None:
    draw = np.random.default_rng(4)
    frame = pl.DataFrame(
        {
            "x": draw.normal(size=500),
            "y": draw.integers(0, 40, 500),
            "part": ["a"] * 480 + ["b"] * 20,
        }
    )
    spread = sf.Dataset(upload(session, frame).repartition(3))
    engine = engine_for(spread.frame)
    there = engine.keep(engine.prepare(spread))
    method = sf.methods.Deterministic(variables=["x", "y"], strata=["part"], k=4)
    wanted = pl.DataFrame(method.apply(sf.Dataset(frame)).frame)
    with patch.object(pieces, "MOST_IN_PIECE", 200):
        moved = method.apply(there)
    released = download(moved.frame).select(wanted.columns)
    assert released.cast(wanted.schema).sort(wanted.columns).equals(wanted.sort(wanted.columns))


def test_ranks_are_those_of_one_machine(tables: tuple[sf.Dataset, sf.Dataset]) -> None:
    here, there = tables
    local = LocalEngine().rank(here, ["x", "cost"])
    ranked = engine_for(there.frame).rank(there, ["x", "cost"])
    wanted = pl.DataFrame(local.frame).sort(RANK)
    released = download(ranked.frame).sort(RANK).select(wanted.columns)
    assert released.cast(wanted.schema).equals(wanted)
