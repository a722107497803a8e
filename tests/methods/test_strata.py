"""Joining levels until every stratum is large enough."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.engines import LocalEngine
from sfumato.errors import MethodError
from sfumato.methods._strata.strata import (
    Likeness,
    find_large_strata,
    merge_levels,
    rename_levels,
)

LEVELS = ["a", "b", "c", "d", "", None]
CENTRE = {level: [float(at)] for at, level in enumerate(LEVELS)}
LAND = {"a": ("ab", "all"), "b": ("ab", "all"), "c": ("cd", "all"), "d": ("cd", "all")}
HOW = [
    Likeness(None, None, CENTRE),
    Likeness(LAND, None, CENTRE),
    Likeness(None, ["c", "a", "d", "b"], CENTRE),
    Likeness(None, ["a", "b"], CENTRE),
]
rows = st.lists(st.tuples(st.sampled_from(LEVELS), st.sampled_from(LEVELS)), min_size=6)


@given(rows, st.sampled_from(HOW), st.sampled_from(HOW), st.integers(2, 6))
def test_every_stratum_is_large_enough_and_no_record_is_lost(records, first, second, k):
    counts = Counter(records)
    strata = sorted(counts, key=str)
    likeness = {"x": first, "y": second}
    joined = merge_levels(
        strata, [counts[one] for one in strata], by=["x", "y"], likeness=likeness, k=k
    )
    frame = pl.DataFrame(
        {
            name: pl.Series([record[at] for record in records], dtype=pl.String)
            for at, name in enumerate(["x", "y"])
        }
    )
    new = frame.with_columns(rename_levels(frame[name], levels) for name, levels in joined.items())
    sizes = new.group_by("x", "y").len()["len"]
    assert sizes.min() >= k
    assert sizes.sum() == len(records)
    for name in frame.columns:
        if name not in joined:
            assert new[name].equals(frame[name], null_equal=True)
    again = merge_levels(
        strata, [counts[one] for one in strata], by=["x", "y"], likeness=likeness, k=k
    )
    assert again == joined


def test_nothing_is_joined_where_nothing_needs_to_be():
    assert merge_levels([("a",), ("b",)], [5, 5], by=["x"], likeness={"x": HOW[0]}, k=5) == {}


def test_the_hierarchy_gives_the_name_and_the_order_its_neighbour():
    sizes = [1, 9, 9, 9]
    strata = [("a",), ("b",), ("c",), ("d",)]
    by_land = merge_levels(strata, sizes, by=["x"], likeness={"x": HOW[1]}, k=3)
    assert by_land["x"] == [("a", "ab"), ("b", "ab"), ("c", "c"), ("d", "d")]
    by_order = merge_levels(strata, sizes, by=["x"], likeness={"x": HOW[2]}, k=3)
    assert dict(by_order["x"])["a"] in ("c or a", "a or d")
    by_likeness = merge_levels(strata, sizes, by=["x"], likeness={"x": HOW[0]}, k=3)
    assert dict(by_likeness["x"])["a"] == "a or b"


def test_too_few_records_in_all():
    with pytest.raises(MethodError, match="There are 2 records, and k = 3"):
        merge_levels([("a",)], [2], by=["x"], likeness={"x": HOW[0]}, k=3)


@pytest.mark.parametrize(
    "values",
    [
        pl.Series([1, 1, 2]),
        pl.Series([True, True, False]),
        pl.Series([1.5, 1.5, None]),
        pl.Series(["1", "1", "x"]).cast(pl.Categorical),
    ],
)
def test_records_of_small_strata_are_found_whatever_the_type(values):
    data = sf.Dataset(pl.DataFrame({"x": values, "n": [1, 2, 3]}))
    is_large = find_large_strata(data, ["x"], 2, LocalEngine())
    assert is_large(data.batch(["x"])).nonzero()[0].tolist() == [0, 1]
    assert not find_large_strata(data, [], 4, LocalEngine())(data.batch(["x"])).any()
