"""Both engines give the same bytes for every verb, whatever the partitions."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import drawn

import sfumato as sf
from sfumato.engines import Chance, LocalEngine
from sfumato.engines.summaries import (
    Count,
    Deviation,
    Maximum,
    Mean,
    Minimum,
    Quantile,
    Summary,
)
from sfumato.engines.verbs import RANK
from sfumato.kernels.exact_sums import exact_parts, exact_sum
from sfumato.randomness import Key
from sfumato.testing.partitioned import PartitionedEngine

ALL: list[Summary] = [
    Count(),
    Minimum(),
    Maximum(),
    Mean(),
    Deviation(),
    Quantile(0.1),
    Quantile(0.5),
]
floats = st.floats(-1e12, 1e12)


@given(st.lists(floats, max_size=50))
def test_sums_are_exact(values):
    exact = sum(map(Fraction, values), Fraction(0))
    parts = exact_parts(np.array(values, float))
    assert sum(map(Fraction, parts), Fraction(0)) == exact


@given(st.lists(st.floats(-1e300, 1e300), max_size=50), st.randoms())
def test_what_is_kept_for_a_sum_is_exact_in_any_order(values, chance):
    parts = exact_parts(np.array(values, float))
    assert sum(map(Fraction, parts), Fraction(0)) == sum(map(Fraction, values), Fraction(0))
    chance.shuffle(values)
    shuffled = exact_parts(np.array(values, float))
    assert sum(map(Fraction, shuffled), Fraction(0)) == sum(map(Fraction, parts), Fraction(0))


def test_many_values_are_summed_as_exactly_as_few():
    values = np.random.default_rng(3).normal(size=20_001) * 1e6
    assert exact_sum(values) == math.fsum(values.tolist())
    assert math.isnan(exact_sum(np.append(values, math.nan)))


@given(st.lists(st.one_of(st.none(), floats), min_size=1, max_size=40), st.integers(0, 9))
def test_summaries_do_not_depend_on_partitions(values, seed):
    data = sf.Dataset(pl.DataFrame({"x": pl.Series(values, dtype=pl.Float64)}))
    local = LocalEngine().aggregate(data, {"x": ALL})["x"]
    split = PartitionedEngine(seed).aggregate(data, {"x": ALL})["x"]
    assert repr(local) == repr(split)
    known = [one for one in values if one is not None]
    assert local["count"] == len(known)
    if len(known) > 1:
        assert local["mean"] == pytest.approx(np.mean(known), rel=1e-9, abs=1e-9)
        assert local["sd"] == pytest.approx(np.std(known, ddof=1), rel=1e-6, abs=1e-6)
        assert local["quantile 0.1"] == pytest.approx(np.quantile(known, 0.1), rel=1e-9, abs=1e-9)
    if not known:
        assert math.isnan(local["mean"])


@drawn("seed", range(5))
def test_distinct_counts_the_same_combinations(seed, cohort):
    for columns in (["sex"], ["sex", "region", "ethnicity"], []):
        found = [
            engine.distinct(cohort, columns) for engine in (LocalEngine(), PartitionedEngine(seed))
        ]
        rows = [
            sorted(map(repr, zip(one.values.rows() or [()], one.counts.tolist(), strict=True)))
            for one in found
        ]
        assert rows[0] == rows[1]
        assert found[0].counts.sum() == len(cohort)


def noisy(batch, draws):
    return batch.select(x=pl.col("height") + pl.Series(draws.normal("height")))


def centred(batch, starts, draws):
    heights = batch["height"].to_list()
    means = [
        math.fsum(heights[low:high]) / (high - low)
        for low, high in itertools.pairwise(starts)
        for _ in range(high - low)
    ]
    return batch.select(y=pl.col("height") - pl.Series(means) + pl.Series(draws.uniform("height")))


@drawn("seed", range(5))
def test_rows_and_groups_do_not_depend_on_partitions(seed, cohort):
    chance = Chance(Key(bytes(32)), 2)
    engines = (LocalEngine(), PartitionedEngine(seed), PartitionedEngine(seed + 100, parts=11))
    rows = [
        engine.map_rows(cohort, noisy, reads=["height"], chance=chance).frame["x"].to_list()
        for engine in engines
    ]
    assert rows[0] == rows[1] == rows[2]
    for by in (["sex", "region"], []):
        grouped = [
            engine.map_groups(cohort, centred, by=by, reads=["height"], chance=chance)
            .frame["y"]
            .to_list()
            for engine in engines
        ]
        assert grouped[0] == grouped[1] == grouped[2]


@drawn("seed", range(5))
def test_ranks_do_not_depend_on_partitions_or_ties(seed, cohort):
    for score in ("height", "children", "income"):
        local = LocalEngine().rank(cohort, [score]).column(RANK)
        assert local.equals(PartitionedEngine(seed).rank(cohort, [score]).column(RANK))
        assert sorted(local) == list(range(len(cohort)))


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=40), st.floats(0, 1))
def test_a_quantile_is_that_of_the_sorted_values(values, p):
    data = sf.Dataset(pl.DataFrame({"x": pl.Series(values, dtype=pl.Float64)}))
    found = LocalEngine().aggregate(data, {"x": [Quantile(p)]})["x"][Quantile(p).name]
    position = p * (len(values) - 1)
    ordered = sorted(values)
    low, high = ordered[math.floor(position)], ordered[math.ceil(position)]
    share = position - math.floor(position)
    wanted = low if share == 0 else low + share * (high - low)
    assert found == wanted or (math.isnan(found) and math.isnan(wanted))


def test_a_sample_is_of_the_same_records_in_any_order(cohort):
    names = ["sex", "income"]
    drawn = LocalEngine().sample(cohort, names, 40)
    shuffled = cohort.take(np.random.default_rng(5).permutation(len(cohort)))
    assert LocalEngine().sample(shuffled, names, 40).equals(drawn)
    assert drawn.height == 40
    assert LocalEngine().sample(cohort, names, 999).height == len(cohort)
    # No better than chance: the first records of the file are not drawn before others.
    numbered = cohort.with_columns(pl.DataFrame({"row": range(len(cohort))}))
    rows = LocalEngine().sample(numbered, ["row"], 150)["row"].to_numpy()
    assert 0.3 < rows.mean() / len(cohort) < 0.7


def test_a_small_table_is_attached_where_values_agree():
    data = sf.Dataset(
        pl.DataFrame({"a": ["x", None, "y", "?"], "b": [1, 2, 1, 1]}),
        sf.Schema({"a": sf.Column(missing=("?",))}),
    )
    table = pl.DataFrame({"a": ["x", None], "b": [1, 1], "size": [7, 9]})
    assert LocalEngine().attach(data, table, ["a", "b"]).frame["size"].to_list() == [
        7, None, None, 9
    ]  # fmt: skip


def test_pairs_stand_side_by_side_whatever_the_order_and_who_is_gone(cohort):
    released = cohort.without(["height"]).take(np.arange(len(cohort))[::-2])
    pairs = LocalEngine().pairs(cohort, released, ["income", "height"])
    frame = pairs.frame
    assert frame.columns == ["original income", "original height", "released income", "is released"]
    present = frame["is released"]
    assert present.sum() == len(released)
    assert frame["original income"].equals(cohort.frame["income"].alias("original income"))
    assert (
        frame.filter(present)
        .select((pl.col("original income") == pl.col("released income")).all())
        .item()
    )
    assert frame.filter(~present)["released income"].null_count() == (~present).sum()


def test_parts_are_gathered_once_each(cohort):
    for engine in (LocalEngine(), PartitionedEngine(3)):
        parts = engine.gather(cohort, lambda batch: batch["children"].sum(), reads=["children"])
        assert sum(parts) == cohort.frame["children"].sum()
