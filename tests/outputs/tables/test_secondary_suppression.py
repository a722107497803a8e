"""What is hidden stays hidden: held against an attacker of another make."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.outputs.tables import attacker

from sfumato.outputs.output import OutputRefused
from sfumato.outputs.rules import Rules
from sfumato.outputs.tables.attack import compute_feasibility_intervals
from sfumato.outputs.tables.lattice import Lattice
from sfumato.outputs.tables.primary_suppression import assess_counts
from sfumato.outputs.tables.secondary_suppression import find_suppression_pattern

SHAPES = [(4,), (2, 2), (3, 3), (2, 4), (2, 2, 2), (2, 3, 2)]


@st.composite
def tables(draw, shapes=SHAPES, largest=12):
    sizes = draw(st.sampled_from(shapes))
    cells = st.integers(0, largest) | st.integers(0, 3)
    inside = draw(st.lists(cells, min_size=int(np.prod(sizes)), max_size=int(np.prod(sizes))))
    return sizes, np.array(inside, float).reshape(sizes)


def protected(sizes, inside, k=3, rules=None):
    """The pattern of a table of counts, and what is shown."""
    lattice = Lattice(sizes)
    counts = lattice.with_margins(inside)
    layer = assess_counts(lattice, counts, k=k, rules=rules or Rules())
    never = counts == 0
    never[-1] = True
    hidden = find_suppression_pattern(lattice, [layer], unsuppressible=never)
    return layer, hidden, np.where(hidden, np.nan, counts)


@settings(max_examples=15)
@given(tables())
def test_hidden_empty_and_full_cells_stay_open_too(table):
    sizes, inside = table
    if inside.sum() < 6:
        return
    for rules in (Rules(zeros="hide"), Rules(full="hide")):
        try:
            layer, _, shown = protected(sizes, inside, rules=rules)
        except OutputRefused:
            continue
        found = attacker.linear(sizes, shown, only=layer.sensitive)
        for cell in np.flatnonzero(layer.sensitive):
            assert found[int(cell)][0] <= layer.low[cell] + 1e-6
            assert found[int(cell)][1] >= layer.high[cell] - 1e-6


@settings(max_examples=45)
@given(tables(), st.sampled_from([3, 5]))
@example(((2, 2), np.array([[2.0, 0], [0, 20]])), 3)
@example(((2, 2, 2), np.array([1.0, 5, 5, 1, 5, 1, 1, 5]).reshape(2, 2, 2)), 3)
def test_no_attacker_can_tell_that_a_small_cell_is_small(table, k):
    sizes, inside = table
    if inside.sum() < k + 3:
        return
    try:
        layer, hidden, shown = protected(sizes, inside, k)
    except OutputRefused:
        # Only where no pattern at all could do it: everything but what is known hidden.
        _nothing_could(sizes, inside, k)
        return
    assert hidden[layer.sensitive].all()
    assert not np.isnan(shown[-1])
    found = attacker.linear(sizes, shown, only=layer.sensitive)
    for cell in np.flatnonzero(layer.sensitive):
        low, high = found[int(cell)]
        assert low <= 1e-6
        assert high >= k - 1e-6


def _nothing_could(sizes, inside, k):
    counts = Lattice(sizes).with_margins(inside)
    hidden = counts > 0
    hidden[-1] = False
    shown = np.where(hidden, np.nan, counts)
    found = attacker.linear(sizes, shown)
    small = np.flatnonzero((counts > 0) & (counts < k))
    whole = attacker.whole(sizes, shown) if inside.sum() < 25 and inside.size < 9 else found
    assert any(
        found[int(cell)][1] < k - 1e-6 or found[int(cell)][0] > 1e-6 or whole[int(cell)][1] < k
        for cell in small
    )


@settings(max_examples=30)
@given(tables([(4,), (2, 2), (2, 3), (2, 2, 2)], largest=5))
def test_nor_one_who_knows_that_people_come_in_whole_numbers(table):
    sizes, inside = table
    if inside.sum() < 6 or inside.sum() > 26:
        return
    try:
        layer, _, shown = protected(sizes, inside)
    except OutputRefused:
        return
    found = attacker.whole(sizes, shown)
    for cell in np.flatnonzero(layer.sensitive):
        low, high = found[int(cell)]
        assert low == 0
        assert high >= 3


@settings(max_examples=15)
@given(tables())
def test_the_attack_finds_the_exact_ends(table):
    sizes, inside = table
    if inside.sum() < 6:
        return
    try:
        _, hidden, shown = protected(sizes, inside)
    except OutputRefused:
        return
    found, expected = (
        compute_feasibility_intervals(Lattice(sizes), shown),
        attacker.linear(sizes, shown),
    )
    for cell in np.flatnonzero(hidden):
        assert found.low[cell] == pytest.approx(expected[int(cell)][0], abs=1e-6)
        assert found.high[cell] == pytest.approx(expected[int(cell)][1], abs=1e-6)
        assert found.low[cell] - 1e-6 <= Lattice(sizes).with_margins(inside)[cell]


def test_a_suppressed_3_is_not_23_less_20():
    """The trap of ACRO 1.0.2, with k = 5: hiding the 3 alone gives it away."""
    lattice = Lattice((2, 2))
    counts = lattice.with_margins(np.array([[20.0, 3], [30, 40]]))
    alone = np.where(counts == 3, np.nan, counts)
    found = compute_feasibility_intervals(lattice, alone)
    assert (found.low[1], found.high[1]) == pytest.approx((3, 3))
    _, hidden, shown = protected((2, 2), np.array([[20.0, 3], [30, 40]]), k=5)
    assert hidden.sum() == 4
    low, high = attacker.linear((2, 2), shown)[1]
    assert low == pytest.approx(0)
    assert high >= 5


def test_empty_and_full_cells_are_hidden_where_the_rules_say_so():
    inside = np.array([[9.0, 0, 0], [5, 6, 7], [8, 5, 9]])
    layer, hidden, shown = protected((3, 3), inside, rules=Rules(full="hide"))
    assert hidden[:3].all()
    found = attacker.linear((3, 3), shown)
    assert found[0][0] <= 8 + 1e-6  # somebody of the row may be elsewhere
    assert found[1][1] >= 1 - 1e-6
    layer, hidden, _ = protected((3, 3), inside, rules=Rules(zeros="hide"))
    assert layer.sensitive[1]
    assert hidden[1]
    assert not protected((3, 3), inside)[1].any()


def test_fifty_by_fifty_takes_seconds():
    from time import process_time

    rng = np.random.default_rng(1)
    inside = rng.poisson(rng.gamma(0.8, 8, (50, 50))).astype(float)
    start = process_time()
    layer, hidden, _ = protected((50, 50), inside)
    assert process_time() - start < 20
    assert hidden.sum() < 1.2 * layer.sensitive.sum()
