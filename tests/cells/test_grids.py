"""Grids for the ends of ranges, against plain arithmetic with fractions and the calendar."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.cells.grids import (
    CALENDAR_STEPS,
    CalendarGrid,
    NumberGrid,
    choose_grid,
    require_grid,
    round_limit,
    spread_ends,
)
from sfumato.cells.group_grids import GroupGrid
from sfumato.errors import PlanError
from sfumato.schema import hierarchies

UNITS = st.builds(
    lambda mantissa, power: Decimal(mantissa).scaleb(power),
    st.sampled_from([1, 2, 5]),
    st.integers(-4, 4),
)
days = st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20), UNITS)
def test_fractions_lie_in_their_cell(values, unit):
    grid = NumberGrid(unit, whole=False)
    cells = grid.locate(pl.Series(values))
    begins, after = grid.begin(cells).to_list(), grid.begin(cells + 1).to_list()
    for value, low, high in zip(values, begins, after, strict=True):
        assert low <= value < high


@given(st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=20), st.integers(1, 5000))
def test_whole_numbers_lie_in_their_cell(values, unit):
    for dtype in (pl.Int64, pl.Int128, pl.Decimal(38, 0)):
        grid = NumberGrid(Decimal(unit), whole=True)
        cells = grid.locate(pl.Series(values, dtype=dtype)).tolist()
        assert cells == [value // unit for value in values]


@given(days, st.sampled_from(CALENDAR_STEPS))
def test_days_lie_in_their_period(day, step):
    grid = CalendarGrid(step)
    cell = grid.locate(pl.Series([day]))
    (low,), (high,) = grid.widen(cell, cell, 5)
    assert low <= day <= high
    if step not in ("day", "5 days", "10 days"):
        # All days of a period that begins with a month and ends with one.
        assert low.day == 1
        assert high == dt.date.max or (high + dt.timedelta(days=1)).day == 1
    if high < dt.date.max:
        (after,), _ = grid.widen(cell + 1, cell + 1, 5)
        assert after == high + dt.timedelta(days=1)


@settings(max_examples=60)
@given(st.integers(-(10**6), 10**6), st.integers(0, 10**5), st.integers(1, 8), st.booleans(), UNITS)
def test_ranges_are_widened_to_round_steps(first, width, parts, whole, unit):
    unit = max(unit.to_integral_value(), Decimal(1)) if whole else unit
    grid = NumberGrid(unit, whole=whole)
    dtype = np.int64 if whole else np.float64
    (low,), (high,) = grid.widen(np.array([first], dtype), np.array([first + width], dtype), parts)
    exact = Fraction(unit)
    begins = [Fraction(low), Fraction(high) + (1 if whole else 0)]
    inner = [first * exact, (first + width + 1) * exact]
    slack = Fraction(0) if whole else Fraction(1, 10**6)
    assert begins[0] <= inner[0] + slack
    assert begins[1] >= inner[1] - slack
    # A step is at least a part of the range, and rounds by less than a step on each side.
    steps = [m * 10**power for power in range(12) for m in (1, 2, 5)]
    step = next(step for step in steps if step * parts >= width + 1) * exact
    assert inner[0] - begins[0] < step + slack
    assert begins[1] - inner[1] < step + slack
    assert abs(begins[0] / step - round(begins[0] / step)) < Fraction(1, 1000)


def test_very_large_and_very_small_numbers():
    for values in ([1e300, -1e300], [1e-300, 3e-300], [5e-324, 0.0], [1.7e308, 1.7e308]):
        levels = pl.Series(sorted(values))
        grid = choose_grid(levels, whole=False, enough=2)
        cells = grid.locate(levels)
        (low,), (high,) = grid.widen(cells[:1], cells[1:], 5)
        assert low <= min(values) <= max(values) <= high
        assert np.isfinite([low, high]).all()
    big = pl.Series([-(2**63), 2**63 - 1])
    ones = NumberGrid(Decimal(1), whole=True)
    low, high = ones.widen(ones.locate(big[:1]), ones.locate(big[1:]), 5)
    assert low[0] <= -(2**63)
    assert high[0] >= 2**63 - 1


def test_cells_narrower_than_floats_tell_apart():
    values = pl.Series([1e15 + 0.5, 1e15 + 2.5])
    grid = NumberGrid(Decimal("0.001"), whole=False)
    cells = grid.locate(values)
    (low,), (high,) = grid.widen(cells[:1], cells[1:], 5)
    assert low <= values[0] < values[1] <= high


def test_the_coarsest_grid_with_enough_cells():
    ages = pl.Series(list(range(17, 91)))
    assert choose_grid(ages, whole=True, enough=3) == NumberGrid(Decimal(10), whole=True)
    assert choose_grid(ages, whole=True, enough=500) == NumberGrid(Decimal(1), whole=True)
    births = pl.date_range(dt.date(1940, 1, 1), dt.date(1999, 12, 31), "7d", eager=True)
    assert choose_grid(births, whole=False, enough=50) == CalendarGrid("year")
    assert choose_grid(births, whole=False, enough=200) == CalendarGrid("quarter")
    # One huge value does not make the grid of the others coarse.
    incomes = pl.Series([*(float(100 * number) for number in range(1, 500)), 1e9])
    grid = choose_grid(incomes, whole=False, enough=400)
    assert isinstance(grid, NumberGrid)
    assert grid.unit <= 100


def test_declared_grids_are_of_the_variables_kind():
    numbers, births = pl.Series([1, 2]), pl.Series([dt.date(2000, 1, 1)])
    halves = require_grid("x", 0.5, numbers, whole=False)
    assert halves == NumberGrid(Decimal("0.5"), whole=False)
    assert require_grid("x", "year", births, whole=False) == CalendarGrid("year")
    with pytest.raises(PlanError, match="not of its kind"):
        require_grid("x", "year", numbers, whole=True)
    with pytest.raises(PlanError, match="not of its kind"):
        require_grid("x", 5, births, whole=False)
    with pytest.raises(PlanError, match="fraction"):
        require_grid("x", 0.5, numbers, whole=True)


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6), st.integers(2, 10))
def test_ends_lie_outside(low, width, parts):
    least, most = spread_ends(low, low + width, whole=False, parts=parts)
    assert least <= low
    assert low + width <= most


@given(st.integers(-20000, 20000), st.integers(0, 20000))
def test_ends_of_days_lie_outside(low, width):
    least, most = spread_ends(low, low + width, whole=False, date=True, parts=10)
    assert least <= low <= low + width <= most


@example(limit=123456.789, quartile=0.0, spread=1e-12, up=False)
@example(limit=123456.789, quartile=0.0, spread=1e-12, up=True)
@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.floats(0, 1e6), st.booleans())
def test_limits_move_to_one_side(limit, quartile, spread, up):
    rounded = round_limit(limit, (quartile, quartile + spread), whole=False, up=up)
    assert rounded >= limit if up else rounded <= limit


def test_groups_of_neighbours_are_a_grid():
    ages = hierarchies.intervals(0, 99, [5, 10])
    column = sf.Column(role="quasi", kind="integer", hierarchy=ages)
    grid = GroupGrid.read(column, pl.Series([21, 34]))
    assert grid is not None
    cells = grid.locate(pl.Series([21, 34, 7]))
    assert cells.tolist() == [4, 6, 1]
    assert grid.widen(cells[:1], cells[1:2], 5) == ([20], [34])
    # More than six groups of five years: those of ten.
    assert grid.widen(cells[2:], grid.locate(pl.Series([52])), 5) == ([0], [59])
    assert GroupGrid.read(column, pl.Series([120])) is None
    torn = sf.Column(kind="integer", hierarchy={"1": ("odd",), "2": ("even",), "3": ("odd",)})
    assert GroupGrid.read(torn, pl.Series([1, 2, 3])) is None
    data = sf.Dataset(pl.DataFrame({"age": [21, 22, 27, 34]}), sf.Schema({"age": column}))
    released = sf.methods.KAnonymity(k=2).apply(data).frame["age"].to_list()
    assert released == ["[20;24]", "[20;24]", "[25;34]", "[25;34]"]
