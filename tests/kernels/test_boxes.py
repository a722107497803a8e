"""Boxes covered by other boxes, against every point of a small domain."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.kernels.trees import boxes
from sfumato.kernels.trees import equivalence_classes as box_classes
from sfumato.kernels.trees.boxes import COVERED, OPEN, UNDECIDED, Cells

ENOUGH = 1_000_000


def slow(rows):
    """Enumerate the points of each record; a point must lie in another record's box."""
    result = []
    for index, row in enumerate(rows):
        others = [other for item, other in enumerate(rows) if item != index]
        points = product(*row)
        result.append(
            all(
                any(all(v in cell for v, cell in zip(p, o, strict=True)) for o in others)
                for p in points
            )
        )
    return np.array(result, bool)


def coded(rows, sizes):
    """Cells as sets of codes into the arrays of the kernel."""
    cells = np.empty((len(sizes), len(rows)), np.int32)
    tables = []
    for j, size in enumerate(sizes):
        distinct = sorted({row[j] for row in rows}, key=sorted)
        number = {cell: index for index, cell in enumerate(distinct)}
        cells[j] = [number[row[j]] for row in rows]
        low, high, starts = [], [], [0]
        for cell in distinct:
            values = sorted(cell)
            low += [v for v in values if v - 1 not in cell]
            high += [v for v in values if v + 1 not in cell]
            starts.append(len(low))
        gaps = None if len(low) == len(distinct) else np.array(starts, np.int64)
        tables.append(Cells(np.array(low, np.int32), np.array(high, np.int32), size, gaps))
    return cells, tables


def interval(size):
    ends = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1))
    return ends.map(lambda e: frozenset(range(min(e), max(e) + 1)))


def nested(size):
    """A value, its pair, its four, or everything."""
    return st.tuples(st.integers(0, size - 1), st.sampled_from([1, 2, 4, size])).map(
        lambda e: frozenset(
            range(e[0] // e[1] * e[1], min(e[0] // e[1] * e[1] + e[1], size))
            if e[1] < size
            else range(size)
        )
    )


KINDS = {
    "exact": lambda size: st.integers(0, size - 1).map(lambda v: frozenset([v])),
    "disjoint": lambda size: st.integers(0, size - 1).map(
        lambda v: frozenset(range(v // 2 * 2, min(v // 2 * 2 + 2, size)))
    ),
    "nested": nested,
    "interval": interval,
    "set": lambda size: st.frozensets(st.integers(0, size - 1), min_size=1),
}


@st.composite
def files(draw, kinds=tuple(KINDS)):
    columns = draw(st.integers(1, 4))
    sizes = [draw(st.integers(1, 5)) for _ in range(columns)]
    cell = [KINDS[draw(st.sampled_from(kinds))](size) for size in sizes]
    rows = draw(st.lists(st.tuples(*cell), min_size=1, max_size=24))
    rows += draw(st.lists(st.sampled_from(rows), max_size=2))
    return rows, sizes


def by_tree(monkeypatch):
    monkeypatch.setattr("sfumato.kernels.trees.boxes.PATTERNS", -1)


@given(files())
@settings(max_examples=300)
def test_same_as_looking_at_every_point(file):
    rows, sizes = file
    result = boxes.find_covered(*coded(rows, sizes), budget=ENOUGH)
    assert ((result == COVERED) == slow(rows)).all()
    assert (result != UNDECIDED).all()


@given(files(kinds=("exact", "nested")))
@settings(max_examples=150)
def test_nested_cells_by_look_up_and_by_tree(file):
    rows, sizes = file
    truth = slow(rows)
    assert ((boxes.find_covered(*coded(rows, sizes), budget=ENOUGH) == COVERED) == truth).all()
    with pytest.MonkeyPatch.context() as patch:
        by_tree(patch)
        assert ((boxes.find_covered(*coded(rows, sizes), budget=ENOUGH) == COVERED) == truth).all()


@given(files(), st.integers(0, 12), st.randoms(use_true_random=False))
@settings(max_examples=150)
def test_neither_a_small_budget_nor_the_order_makes_a_record_safe(file, budget, chance):
    rows, sizes = file
    truth = slow(rows)
    result = boxes.find_covered(*coded(rows, sizes), budget=budget)
    assert truth[result == COVERED].all()
    assert not truth[result == OPEN].any()
    order = list(range(len(rows)))
    chance.shuffle(order)
    again = boxes.find_covered(*coded([rows[index] for index in order], sizes), budget=budget)
    assert (again == result[order]).all()


@pytest.mark.parametrize("kind", ["nested", "interval"])
@pytest.mark.parametrize("seed", range(4))
def test_many_records_against_a_plain_search(kind, seed):
    """Deep trees and full tables, which small files never reach."""
    random = np.random.default_rng(seed)
    rows = []
    for _ in range(300):
        cells = []
        for _ in range(3):
            value, wide = random.integers(0, 16), random.choice([1, 1, 1, 1, 2, 2, 4, 16])
            start = value // wide * wide if kind == "nested" else value
            cells.append(frozenset(range(start, min(start + wide, 16))))
        rows.append(tuple(cells))
    result = boxes.find_covered(*coded(rows, [16] * 3), budget=ENOUGH)
    masks = np.zeros((len(rows), 16, 16, 16), bool)
    for mask, row in zip(masks, rows, strict=True):
        mask[np.ix_(*[sorted(cell) for cell in row])] = True
    total = masks.sum(axis=0, dtype=np.int64)
    truth = [bool((total[mask] > 1).all()) for mask in masks]
    assert ((result == COVERED) == truth).all()
    assert 0 < sum(truth) < len(rows)


def test_no_budget_leaves_undecided_what_needs_a_look():
    rows = [(frozenset([0, 1]),), (frozenset([0]),), (frozenset([1, 2]),), (frozenset([1]),)]
    for patched in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            if patched:
                by_tree(patch)
            assert boxes.find_covered(*coded(rows, [3]), budget=0).tolist() == [-1, -1, 0, -1]
            assert boxes.find_covered(*coded(rows, [3]), budget=99).tolist() == [1, 1, 0, 1]


def test_identical_boxes_need_no_budget():
    rows = [(frozenset([0, 1]), frozenset([1, 2]))] * 2
    assert boxes.find_covered(*coded(rows, [3, 3]), budget=0).tolist() == [1, 1]


def test_a_record_of_too_many_pieces_is_undecided_and_hides_nobody(monkeypatch):
    monkeypatch.setattr(boxes, "_PIECES", 1)
    rows = [(frozenset([0, 2]),), (frozenset([0]),), (frozenset([1]),), (frozenset([1]),)]
    assert boxes.find_covered(*coded(rows, [3]), budget=99).tolist() == [-1, -1, 1, 1]


def test_no_records():
    cells = np.empty((1, 0), np.int32)
    none = np.zeros(0, np.int32)
    assert boxes.find_covered(cells, [Cells(none, none, 1)], budget=9).shape == (0,)


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=40), st.booleans())
def test_classes_of_equal_records(rows, wide):
    cells = np.array(rows, np.int32).T.copy()
    sizes = [1 << 30] * 3 if wide else [4] * 3  # more than one packed number, or one
    result = box_classes.find_classes(cells, sizes)
    assert [int(n) for n in result.counts[result.of]] == [rows.count(row) for row in rows]
    assert all(rows[result.first[of]] == row for of, row in zip(result.of, rows, strict=True))


@pytest.mark.parametrize("rows", [0, 1, 50_000])
def test_classes_are_the_same_by_a_table_of_all_combinations_and_without(rows, monkeypatch):
    cells = np.random.default_rng(1).integers(0, 5, (3, rows)).astype(np.int32)
    looked_up = box_classes.find_classes(cells, [5] * 3)
    monkeypatch.setattr(box_classes, "_DENSE", 0)
    hashed = box_classes.find_classes(cells, [5] * 3)
    for part in ("of", "first", "counts"):
        assert np.array_equal(getattr(looked_up, part), getattr(hashed, part))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=40))
def test_first_rows_of_a_group_in_a_class(rows):
    of, groups = np.array(rows, np.int64).reshape(-1, 2).T
    expected = [row not in rows[:position] for position, row in enumerate(rows)]
    assert box_classes.mark_first_rows(of, groups).tolist() == expected
