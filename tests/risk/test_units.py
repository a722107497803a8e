"""Whom rows are about: every verb against plain Python that goes through the units one by one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.units import COUNTS_PERSONS, Units

KINDS = ("rows", "standing for several", "persons")


@st.composite
def units_and_rows(draw: Any) -> tuple[Units, list[Any], np.random.Generator]:
    """Units; of each row who it is about, as a list of names; and chance."""
    kind, size = draw(st.sampled_from(KINDS)), draw(st.integers(1, 15))
    random = np.random.default_rng(draw(st.integers(0, 10**6)))
    if kind == "rows":
        return Units(size), [[row] for row in range(size)], random
    if kind == "standing for several":
        counts = random.integers(1, 5, size)
        names = [[(row, i) for i in range(counts[row])] for row in range(size)]
        return Units.standing_for(size, counts), names, random
    numbers = random.integers(0, draw(st.sampled_from([1, 3, 12, 60])), size).astype(np.int32)
    return Units.of(numbers), [[number] for number in numbers.tolist()], random


def collect(names: list[Any], rows: Any) -> set[Any]:
    return {name for row, chosen in zip(names, rows, strict=True) if chosen for name in row}


@given(units_and_rows())
def test_counts_are_of_different_units(drawn):
    units, names, random = drawn
    everybody = collect(names, [True] * len(names))
    rows = random.random(len(names)) < 0.5
    assert len(units) == len(names)
    assert units.count == len(everybody)
    assert units.count_among(rows) == len(collect(names, rows))
    assert units.share(rows) == len(collect(names, rows)) / len(everybody)
    assert units.count_records() == sum(map(len, names))
    # As far as anybody knows, each has one row: then nothing is said of persons.
    assert units.one_row_each == (len(everybody) == units.count_records())
    assert units.details() == ({} if units.one_row_each else {"persons": len(everybody)})
    assert units.describe() == (() if units.one_row_each else (COUNTS_PERSONS,))
    assert units.describe("so") == (() if units.one_row_each else ("so",))


@given(units_and_rows())
def test_in_a_group_everybody_counts_once(drawn):
    units, names, random = drawn
    groups = random.integers(-1, 4, len(names)).astype(np.int32)
    expected = [len(collect(names, groups == group)) for group in range(5)]
    assert units.count_groups(groups, 5).tolist() == expected
    most = int(groups.max(initial=-1)) + 1
    assert units.count_groups(groups).tolist() == expected[:most]
    present = np.flatnonzero(groups >= 0)
    if units.counts is None:
        once = units.take(present).find_once(groups[present])
        pairs = [(names[row][0], groups[row]) for row in present[once].tolist()]
        assert len(pairs) == len(set(pairs)) == sum(expected)


@given(units_and_rows())
def test_a_guess_finds_a_person_by_the_worst_row(drawn):
    units, names, random = drawn
    groups = random.integers(0, 4, len(names))
    among = random.integers(1, 9, 4)
    best: dict[Any, float] = {}
    for row, group in zip(names, groups.tolist(), strict=True):
        for name in row:
            best[name] = max(best.get(name, 0.0), 1 / among[group])
    expected = math.fsum(best.values()) / len(best)
    assert units.average_chance(among, groups) == pytest.approx(expected, abs=1e-15)
    sizes = units.count_groups(groups, 4)
    assert units.average_chance(among, groups, sizes) == units.average_chance(among, groups)


@given(units_and_rows())
def test_rows_become_units_in_the_order_of_their_numbers(drawn):
    units, _, random = drawn
    values = random.integers(-3, 4, len(units)).astype(float)
    values[random.random(len(units)) < 0.2] = np.nan
    second = random.random(len(units))
    # Rows of one each stay where they are, whatever their numbers.
    numbers = units.numbers if units.one_row_each else np.unique(units.numbers)
    of_unit = [np.flatnonzero(units.numbers == number) for number in numbers]
    for function, slow in ((np.fmax, max), (np.fmin, min)):
        expected = [
            slow([v for v in values[rows] if not math.isnan(v)], default=math.nan)
            for rows in of_unit
        ]
        assert units.reduce(function, values) == pytest.approx(expected, nan_ok=True)
    table = random.random((len(units), 2)) < 0.5
    either = [table[rows].any(axis=0).tolist() for rows in of_unit]
    assert units.reduce(np.logical_or, table).tolist() == either
    means = [
        np.mean(known) if len(known := values[rows][~np.isnan(values[rows])]) else math.nan
        for rows in of_unit
    ]
    assert units.average(values) == pytest.approx(means, nan_ok=True)
    whole = np.nan_to_num(values)
    first = [min(rows.tolist(), key=lambda row: (whole[row], second[row])) for rows in of_unit]
    assert units.choose_rows(whole, second).tolist() == first
    assert units.most_rows == max(map(len, of_unit))
    for rows in of_unit:
        for row in rows.tolist():
            assert list(units.find_rows(row)) == rows.tolist()


@given(units_and_rows())
def test_a_statement_that_holds_for_one_unit_only(drawn):
    units, _, random = drawn
    rows = np.flatnonzero(random.random(len(units)) < random.choice([0.1, 0.5]))
    owners = {int(units.numbers[row]) for row in rows}
    found = units.find_only(rows)
    assert found == (rows[0] if len(owners) == 1 else -1)


@given(units_and_rows())
def test_some_rows_are_about_the_same_units(drawn):
    units, names, random = drawn
    mask = random.random(len(units)) < 0.6
    order = random.permutation(len(units))
    for rows in (mask, np.flatnonzero(mask), order, slice(1, None), slice(None)):
        some, theirs = units.take(rows), [names[row] for row in np.arange(len(units))[rows]]
        assert len(some) == len(theirs)
        assert some.count == len(collect(theirs, [True] * len(theirs)))
        assert some.one_row_each == units.one_row_each, "rows of persons with several stay so"
        assert some.declared == units.declared


def test_where_each_has_one_row_no_array_is_made():
    units = Units(10**15)
    some = units.take(slice(5, None))
    assert (units.count, some.count, units.most_rows) == (10**15, 10**15 - 5, 1)
    assert (units.describe(), units.details()) == ((), {})
    values = np.ones(3)
    assert Units(3).reduce(np.fmax, values) is values
    assert Units(3).average(values) is values
    assert "numbers" not in vars(units)


@pytest.mark.parametrize("persons", [None, [5, 7, 9], [5, 7, 5]])
def test_the_units_of_data(persons):
    frame = pl.DataFrame({"age": [30, 31, 32], "sex": ["f", "m", "f"]})
    roles: dict[str, Any] = {"age": "quasi"}
    if persons is not None:
        frame, roles = frame.with_columns(id=pl.Series(persons)), {**roles, "id": "person"}
    data = sf.Dataset(frame, sf.Schema(roles))
    for units in (data.units, data.without(["age"]).units):
        assert units.declared == (persons is not None)
        assert units.one_row_each == (units.count == 3) == (persons != [5, 7, 5])
    if persons is not None:
        assert data.without(["id"]).units.numbers.tolist() == data.units.numbers.tolist()
    assert data.take(np.array([0, 1])).units.one_row_each, "asked of the rows that are left"
