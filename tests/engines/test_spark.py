"""On Spark every method gives what it gives on one machine, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.contract.examples import CASES, made
from tests.engines.spark_frames import download, upload

import sfumato as sf
from sfumato import catalogue
from sfumato.engines import LocalEngine, engine_for
from sfumato.engines.summaries import (
    Count,
    Deviation,
    Distinct,
    Infinite,
    Maximum,
    Mean,
    Minimum,
    Quantile,
    Summary,
)
from sfumato.errors import DataError, MethodError
from sfumato.testing.samples import KEY

pytestmark = [
    pytest.mark.spark,
    # Py4J leaves its sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
ON_SPARK = [
    # `make test-all` takes further examples of a method.
    case
    if str(case.id).endswith("-0")
    else pytest.param(*case.values, id=str(case.id), marks=pytest.mark.study)
    for case in CASES
    if "spark" in catalogue.methods()[str(case.values[0])].runs_on
    # A k is looked for in memory only; bounds are kept by up to 200 rounds of two jobs each, which
    # the contract tests run on random parts.
    and str(case.id) not in ("deterministic-1", "deterministic-2")
]


@pytest.fixture(scope="module")
def pair(session: Any) -> tuple[sf.Dataset, sf.Dataset]:
    """The cohort here and on Spark, in two uneven parts and another order."""
    frame = sf.datasets.cohort(400)
    shuffled = frame[np.random.default_rng(1).permutation(len(frame))]
    schema = sf.datasets.cohort_schema()
    there = sf.Dataset(upload(session, shuffled).repartition(3), schema)
    engine = engine_for(there.frame)
    return sf.Dataset(frame, schema), engine.keep(engine.prepare(there))


def _fetch(data: sf.Dataset) -> pl.DataFrame:
    frame = download(data.frame)
    return frame.sort(frame.columns)


def _sort(data: sf.Dataset) -> pl.DataFrame:
    return pl.DataFrame(data.frame).sort(data.columns)


@pytest.mark.parametrize(("name", "example"), ON_SPARK)
def test_a_method_gives_the_same_values(
    name: str, example: Any, pair: tuple[sf.Dataset, sf.Dataset]
) -> None:
    here, there = pair
    local = made(name, example).apply(here, key=KEY)
    distributed = made(name, example).apply(there, key=KEY)
    assert distributed.columns == local.columns
    assert distributed.schema == local.schema
    released, wanted = _fetch(distributed), _sort(local)
    assert released.columns == wanted.columns  # no id leaves with the records
    for column in wanted.columns:
        assert released[column].cast(wanted[column].dtype).equals(wanted[column]), column


def test_draws_follow_the_record_from_step_to_step(pair: tuple[sf.Dataset, sf.Dataset]) -> None:
    released = []
    for data in pair:
        bare = sf.methods.Drop().apply(data)
        noised = sf.methods.Noise(variables=["height"], variance_share=0.2).apply(bare, key=KEY)
        released.append(noised)
    assert _fetch(released[1])["height"].equals(_sort(released[0])["height"])


def test_summaries_and_combinations_are_the_same(pair: tuple[sf.Dataset, sf.Dataset]) -> None:
    here, there = pair
    summaries: list[Summary] = [
        Count(), Distinct(), Minimum(), Maximum(), Mean(), Deviation(), Quantile(0.1),
        Quantile(0.5), Infinite(),
    ]  # fmt: skip
    wanted = {"height": summaries, "income": summaries, "children": summaries}
    assert engine_for(there.frame).aggregate(there, wanted) == LocalEngine().aggregate(here, wanted)
    names = ["sex", "region", "children"]
    counts = []
    for data in pair:
        found = engine_for(data.frame).distinct(data, names)
        rows = zip(found.values.iter_rows(), found.counts.tolist(), strict=True)
        counts.append({tuple(map(str, row)): count for row, count in rows})
    assert counts[0] == counts[1]


def test_codes_for_missing_are_missing_there_too(session: Any) -> None:
    frame = pl.DataFrame({"x": [1.0, -9.0, float("nan"), 4.0], "g": ["a", "?", "a", None]})
    schema = sf.Schema(
        {"x": sf.Column(role="sensitive", missing=(-9.0,)), "g": sf.Column(missing=("?",))}
    )
    here = sf.Dataset(frame, schema)
    there = sf.Dataset(upload(session, frame), schema)
    engine = engine_for(there.frame)
    assert engine.aggregate(there, {"x": [Count(), Mean()]}) == LocalEngine().aggregate(
        here, {"x": [Count(), Mean()]}
    )
    found = engine.distinct(there, ["g"])
    assert dict(zip(found.values["g"], found.counts.tolist(), strict=True)) == {"a": 2, None: 2}
    noise = sf.methods.Noise(variables=["x"], variance=0.5)
    released = _fetch(noise.apply(there, key=KEY))["x"].to_list()
    wanted = noise.apply(here, key=KEY).frame["x"].sort().to_list()
    assert sorted(map(str, released)) == sorted(map(str, wanted))


def test_equal_records_get_ids_of_their_own(session: Any) -> None:
    frame = pl.DataFrame({"x": [1.5] * 40 + [2.5] * 2})
    there = sf.Dataset(upload(session, frame).repartition(4))
    here = sf.Dataset(frame)
    noise = sf.methods.Noise(variables=["x"], variance=1.0)
    released = _fetch(noise.apply(there, key=KEY))["x"]
    assert released.equals(noise.apply(here, key=KEY).frame["x"].sort())
    assert released.n_unique() > 35


def test_what_cannot_run_says_so_before_it_starts(pair: tuple[sf.Dataset, sf.Dataset]) -> None:
    there = pair[1]
    with pytest.raises(MethodError, match="'regenerate' does not run on Spark"):
        sf.methods.Regenerate(variables=["height", "income"]).apply(there)
    with pytest.raises(DataError, match="on a cluster"):
        there.column("height")
    assert "400" not in repr(there)


def test_many_parts_are_joined_on_the_cluster(
    session: Any, pair: tuple[sf.Dataset, sf.Dataset]
) -> None:
    here, there = pair
    wanted: dict[str, list[Summary]] = {"height": [Quantile(0.3), Mean(), Count()]}
    session.conf.set("spark.sql.shuffle.partitions", "20")
    try:
        found = engine_for(there.frame).aggregate(there, wanted)
    finally:
        session.conf.set("spark.sql.shuffle.partitions", "2")
    assert found == LocalEngine().aggregate(here, wanted)


def test_a_type_that_is_not_known_is_named(session: Any) -> None:
    frame = session.sql("SELECT array(1, 2) AS list, 1 AS x")
    with pytest.raises(DataError, match="'list'"):
        sf.Dataset(frame)


def test_parts_without_records_do_no_harm(session: Any) -> None:
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0]})
    there = sf.Dataset(upload(session, frame).repartition(8))
    released = sf.methods.Topcode(variables=["x"], top=2.0).apply(there)
    assert _fetch(released)["x"].to_list() == [1.0, 2.0, 2.0]
    empty = sf.Dataset(upload(session, frame).filter("x > 9"))
    assert len(sf.methods.Topcode(variables=["x"], top=2.0).apply(empty)) == 0
