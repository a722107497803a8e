"""Cells as likelihoods: what a range, a set, a mask and `*` say of a true value."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.analysis.generalised_cells import build_cells, find_single_levels
from sfumato.analysis.problem import Category, GeneralisedNumber
from sfumato.analysis.tight_ranges import bound_grid_steps, number_classes
from sfumato.errors import DataError


def read(cells, **column: Any) -> Any:
    return build_cells(pl.Series("v", cells), sf.Column(cells="generalised", **column))


def test_ranges_of_whole_numbers_reach_half_a_unit_further():
    number = read(["[20;29]", "31", "*", None], kind="integer", domain=(0, 99))
    assert isinstance(number, GeneralisedNumber)
    assert number.whole
    assert number.lower.tolist() == [19.5, 30.5, -0.5, -0.5]
    assert number.upper.tolist() == [29.5, 31.5, 99.5, 99.5]
    assert number.known.tolist() == [False, True, False, False]
    assert number.true(np.array([30.6, 31.4])).tolist() == [31.0, 31.0]
    # The naive fit takes middles, and leaves out what says nothing.
    np.testing.assert_array_equal(number.at_face_value(), [24.5, 31.0, np.nan, np.nan])


def test_fractions_stay_within_the_ends():
    number = read(["[1.5;2]", "1.75", "*"], kind="continuous")
    assert not number.whole
    assert number.lower.tolist() == [1.5, 1.75, -np.inf]
    assert number.upper.tolist() == [2.0, 1.75, np.inf]
    assert number.known.tolist() == [False, True, False]


def test_dates_and_periods_are_days():
    number = read(["[1970-01-02;1970-01-31]", "1970-02"], kind="date")
    assert number.whole
    assert number.lower.tolist() == [0.5, 30.5]
    assert number.upper.tolist() == [30.5, 58.5]


def test_what_coarsen_writes_is_a_number_again():
    frame = pl.DataFrame({"size": [1, 4, 7], "height": [1.0, 5.5, 9.0]})
    columns = {
        "size": sf.Column(role="quasi", kind="integer", domain=(1, 12)),
        "height": sf.Column(role="quasi", kind="continuous", domain=(0.0, 10.0)),
    }
    data = sf.Dataset(frame, sf.Schema(columns))
    released = sf.methods.Coarsen(variables=["size", "height"], intervals=4).apply(data)
    numbers: list[Any] = [
        build_cells(released.column(name), released.schema[name]) for name in columns
    ]
    assert [number.whole for number in numbers] == [True, False]
    for number, name in zip(numbers, columns, strict=True):
        true = frame[name].cast(pl.Float64).to_numpy()
        assert ((number.lower <= true) & (true <= number.upper)).all()


def test_sets_ranges_of_levels_and_wildcards_are_sets_of_levels():
    levels = ("low", "middle", "high", "never")
    category = read(["low", "[middle;high]", "*", None], kind="ordinal", domain=levels)
    assert isinstance(category, Category)
    # Nobody but `*` could have the last level: nothing can be learnt of it.
    assert category.levels == ("low", "middle", "high")
    possible = category.density == 0
    assert possible.tolist() == [[True, False, False], [False, True, True], [True] * 3, [True] * 3]
    np.testing.assert_array_equal(find_single_levels(category), [0, np.nan, np.nan, np.nan])


def test_levels_that_stand_only_in_sets_are_levels():
    category = read(["{a;b}", "{b;c}", "{a;b;c}"], kind="nominal")
    assert category.levels == ("a", "b", "c")
    assert (category.density == 0).sum(axis=1).tolist() == [2, 2, 3]


def test_masks_that_may_hold_unknown_codes_are_refused():
    with pytest.raises(DataError, match="not listed"):
        read(["93701", "937**", "93702"], kind="nominal")


def test_sets_of_numbers_with_gaps_are_refused():
    assert read(["{1;2;3}", "5"], kind="integer").lower.tolist() == [0.5, 4.5]
    with pytest.raises(DataError, match="sets of numbers"):
        read(["{1;2;9}", "5"], kind="integer")
    with pytest.raises(DataError, match="sets of numbers"):
        read(["{1;2;3}", "5.5"], kind="continuous")


def test_no_value_of_the_data_stands_in_the_message():
    with pytest.raises(DataError) as caught:
        read(["{1;2;987654}", "5"], kind="integer")
    assert "987654" not in str(caught.value)


# Grids of ranges


def bound(low, high, *, parts: int = 5, limits=None, whole: bool = True) -> list[float]:
    ends = np.array(low, float), np.array(high, float)
    steps = bound_grid_steps(*ends, "number", whole=whole, parts=parts, limits=limits)
    return [float(step) for step in steps]


def test_the_step_of_a_range_divides_both_ends():
    # The unit is 1; with two parts for each range, the divisor of the ends is what bounds it.
    assert bound([60, 100, 1], [74, 119, 2], parts=2) == [5.0, 10.0, 1.0]
    # One step is at least a fifth of the range, and the least that is.
    assert bound([0, 1], [99, 2]) == [20.0, 1.0]
    # A value, and what may be anything.
    assert bound([3, 5], [3, np.inf]) == [np.inf, np.inf]
    assert bound([0.25], [0.5], whole=False) == pytest.approx([0.05])


def test_an_end_at_the_limit_of_the_domain_may_have_been_cut_off():
    assert bound([100, 105, 1], [119, 119, 2], limits=(100, 119)) == [np.inf, 5.0, 1.0]


def count_days(day: str) -> float:
    return float((dt.date.fromisoformat(day) - dt.date(1970, 1, 1)).days)


@pytest.mark.parametrize(
    ("low", "high", "step"),
    [
        ("1960-01-01", "1969-12-31", 120 * 31),
        ("1964-07-01", "1965-03-31", 3 * 31),
        ("1961-01-01", "1964-12-31", 12 * 31),
        ("1964-07-11", "1964-07-20", 11),
        ("1964-07-06", "1964-07-20", 6),
        ("1964-07-07", "1964-07-20", 1),
    ],
)
def test_the_step_of_dates_is_a_period_of_the_calendar(low, high, step):
    ends = np.array([count_days(low)]), np.array([count_days(high)])
    assert bound_grid_steps(*ends, "date", whole=True, parts=5, limits=None).tolist() == [step]


@given(
    st.lists(st.integers(0, 5000), min_size=20, max_size=60),
    st.sampled_from([2, 3, 5]),
    st.booleans(),
)
def test_somebody_of_every_class_is_near_each_end(values, k, fractions):
    """The claim on which the sampler rests, held against what `k_anonymity` writes."""
    true = np.array(values) / (7.0 if fractions else 1.0)
    frame = pl.DataFrame({"v": true if fractions else values, "w": np.arange(len(true)) % 3})
    kind: Any = "continuous" if fractions else "integer"
    columns = {"v": sf.Column(role="quasi", kind=kind), "w": sf.Column(role="quasi")}
    data = sf.Dataset(frame, sf.Schema(columns))
    released = sf.methods.KAnonymity(variables=["v", "w"], k=k).apply(data)
    if not released.schema["v"].generalised:
        return
    classes = number_classes(released.frame, np.ones(len(true), bool))
    number: Any = build_cells(released.column("v"), released.schema["v"], classes, k)
    back = number.scale.back if number.scale else np.array
    inside = (back(number.lower) <= true + 1e-9) & (true - 1e-9 <= back(number.upper))
    # On the logarithm a range that begins at 0 begins just above it.
    assert (inside | (true < 1e-3 * back(number.upper))).all()
    for group in np.unique(number.classes[number.classes >= 0]):
        members = number.classes == group
        assert (true[members] <= back(number.near_lower)[members] + 1e-9).any()
        assert (true[members] >= back(number.near_upper)[members] - 1e-9).any()


def test_classes_with_a_record_left_out_say_nothing():
    cells = pl.DataFrame({"v": ["a", "a", "b", "b", None]})
    complete = np.array([True, False, True, True, True])
    classes = number_classes(cells, complete)
    assert classes[0] == -1
    assert classes[1] == classes[2] >= 0
    assert classes[3] not in (-1, classes[1])
