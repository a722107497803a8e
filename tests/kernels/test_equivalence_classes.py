from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.kernels.trees.equivalence_classes import Classes, find_classes, join_classes

WIDTHS = st.sampled_from([1, 2, 5, 300, 1 << 20, (1 << 31) - 2])


def classify_slowly(columns, records):
    """By the tuples of their cells, numbered as they come."""
    numbers: dict[tuple[int, ...], int] = {}
    of, first, counts = [], [], []
    for row, cells in enumerate(zip(*columns, strict=True)):
        if cells not in numbers:
            numbers[cells] = len(numbers)
            first.append(row)
            counts.append(0)
        of.append(numbers[cells])
        counts[numbers[cells]] += records[row]
    return of, first, counts


@st.composite
def variables(draw):
    widths = draw(st.lists(WIDTHS, min_size=1, max_size=6))
    rows = draw(st.integers(1, 40))
    columns = []
    for width in widths:
        # Few different codes, the largest among them, so that rows are equal now and then.
        codes = sorted({0, width - 1, draw(st.integers(0, width - 1))})
        columns.append(draw(st.lists(st.sampled_from(codes), min_size=rows, max_size=rows)))
    return columns, widths


def compare(found: Classes, expected):
    assert [array.tolist() for array in (found.of, found.first, found.counts)] == [*expected]


@given(variables(), st.data())
def test_classes_are_those_of_equal_tuples_however_wide_the_codes_are(made, data):
    columns, widths = made
    rows = len(columns[0])
    records = data.draw(st.lists(st.integers(1, 9), min_size=rows, max_size=rows))
    arrays = [np.array(column, np.int32) for column in columns]
    one_each, weighted = (classify_slowly(columns, counts) for counts in ([1] * rows, records))
    counts = np.array(records)
    compare(join_classes(zip(arrays, widths, strict=True), rows), one_each)
    compare(join_classes(zip(arrays, widths, strict=True), rows, counts), weighted)
    compare(find_classes(np.stack(arrays), widths), one_each)
    compare(find_classes(np.stack(arrays), widths, counts), weighted)


@pytest.mark.parametrize("widths", [[3, 4], [50, 60, 70], [1 << 30] * 4])
def test_compiled_classes_of_many_rows_are_those_of_sorted_rows(widths):
    chance = np.random.default_rng(5)
    cells = np.stack([chance.integers(0, 9, 60_000) * (width // 9) for width in widths])
    cells = cells.astype(np.int32)
    _, first, counts = np.unique(cells, axis=1, return_index=True, return_counts=True)
    as_they_come = np.argsort(first)
    for found in (
        find_classes(cells, widths),
        join_classes(zip(cells, widths, strict=True), cells.shape[1]),
    ):
        assert found.first.tolist() == first[as_they_come].tolist()
        assert found.counts.tolist() == counts[as_they_come].tolist()
        assert (cells[:, found.first[found.of]] == cells).all()


def test_nothing_known_is_one_class_and_no_row_is_none():
    assert join_classes([], 3).of.tolist() == [0, 0, 0]
    assert len(join_classes([], 0).first) == 0
