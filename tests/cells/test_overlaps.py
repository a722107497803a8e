from __future__ import annotations

import itertools

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.cells.overlaps import CellMeanings
from sfumato.cells.text_numbers import read_text_numbers

runs = st.tuples(st.integers(0, 8), st.integers(0, 2)).map(lambda run: (run[0], sum(run)))
cells = st.lists(
    st.tuples(st.lists(runs, min_size=1, max_size=3), st.integers(1, 4)), min_size=1, max_size=5
)


def list_values(cell: list[tuple[int, int]]) -> set[int]:
    return {value for low, high in cell for value in range(low, high + 1)}


@settings(max_examples=60, deadline=None)
@given(cells)
def test_fewest_values_and_blocks_against_all_that_cells_may_stand_for(drawn):
    meanings = CellMeanings([[(float(a), float(b)) for a, b in runs] for runs, _ in drawn])
    counts = [count for _, count in drawn]
    every = range(len(drawn))
    values = [list_values(runs) for runs, _ in drawn]
    fewest = min(len({*truth}) for truth in itertools.product(*values))
    assert meanings.count_fewest(every) == fewest
    blocks = sorted(meanings.list_blocks(every, counts), reverse=True)
    assert sum(blocks) == sum(counts)
    # No j values have more records than the j largest blocks: each record may choose by itself.
    for j in range(1, 4):
        for chosen in itertools.combinations(range(11), j):
            holders = sum(
                count for cell, count in zip(values, counts, strict=True) if cell & {*chosen}
            )
            assert holders <= sum(blocks[:j])
    groups = meanings.find_groups()
    for one, other in itertools.combinations(every, 2):
        if values[one] & values[other]:
            assert groups[one] == groups[other]


@pytest.mark.parametrize(
    ("text", "number", "unit"),
    [
        ("90000", 9e4, ""), ("90,000", 9e4, ""), ("90 000", 9e4, ""), ("90'000", 9e4, ""),
        ("90000.00", 9e4, ""), ("9e4", 9e4, ""), ("90k", 9e4, ""), ("€ 90000", 9e4, ""),
        ("EUR 90,000.00", 9e4, ""), ("90000 usd", 9e4, ""), ("1,5", 1.5, ""), (".5", 0.5, ""),
        ("-5", -5.0, ""), ("(5)", -5.0, ""), ("\u22125", -5.0, ""), ("5 mg", 5.0, "mg"),
        ("10 %", 10.0, "%"), ("1.234.567,8", 1234567.8, ""), ("\uff19\uff10", 90.0, ""),
    ],
)  # fmt: skip
def test_numbers_in_text(text, number, unit):
    reading = read_text_numbers(pl.Series([text]))[0]
    assert (reading.numbers[0], reading.units[0]) == (number, unit)


@pytest.mark.parametrize("text", ["", "E11.9", "<5", "120/80", "12 5", "2020-01-31", "inf", "A+"])
def test_other_text_is_no_number(text):
    assert not read_text_numbers(pl.Series([text]))
