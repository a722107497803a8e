"""Rounded tables add up, stay near, and give no cell away."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from tests.outputs.tables import attacker
from tests.outputs.tables.test_secondary_suppression import tables

from sfumato.outputs.tables.controlled_rounding import _solve_rounding, round_table
from sfumato.outputs.tables.lattice import Lattice


@settings(max_examples=60)
@given(tables([(4,), (3, 3), (2, 4), (2, 2, 2)]), st.sampled_from([3, 5, 10]))
def test_every_cell_is_one_of_the_two_nearest_multiples_and_sums_hold(table, base):
    sizes, inside = table
    lattice = Lattice(sizes)
    counts = lattice.with_margins(inside)
    made = round_table(lattice, counts, base)
    rows = np.array(attacker.margin_rows(sizes))
    inner = made.reshape(lattice.shape)[tuple(slice(0, size) for size in sizes)].ravel()
    assert (rows @ inner).tolist() == made.tolist()
    assert (made % base == 0).all()
    assert (np.abs(made - counts) < base).all()


@settings(max_examples=20)
@given(tables([(3,), (2, 2), (2, 3), (2, 2, 2)]))
def test_nobody_learns_more_than_the_base_allows(table):
    """The attacker knows that every cell and margin lies within base - 1 of what is shown."""
    sizes, inside = table
    lattice, base = Lattice(sizes), 5
    made = round_table(lattice, lattice.with_margins(inside), base)
    rows = np.array(attacker.margin_rows(sizes))
    matrix = np.vstack([rows, -rows])
    limits = np.concatenate([made + base - 1, -(made - base + 1)])
    inner = made.reshape(lattice.shape)[tuple(slice(0, size) for size in sizes)].ravel()
    for at in range(int(np.prod(sizes))):
        objective = np.eye(int(np.prod(sizes)))[at]
        low = linprog(objective, A_ub=matrix, b_ub=limits, bounds=(0, None)).fun
        high = -linprog(-objective, A_ub=matrix, b_ub=limits, bounds=(0, None)).fun
        cell = float(inner[at])
        assert low == pytest.approx(max(cell - base + 1, 0), abs=1e-6)
        assert high == pytest.approx(cell + base - 1, abs=1e-6)


def test_rounding_each_cell_by_itself_would_give_cells_away():
    """Why the sums must hold: 7 + 7 = 14 becomes 5 + 5 = 15, and each is a 6 or a 7."""
    inside = np.array([[1.0, 1], [-1, -1], [1, 0], [0, 1], [-1, 0], [0, -1]])
    limits = np.array([17.0, -13, 7, 7, -3, -3])
    low = linprog([1, 0], A_ub=inside, b_ub=limits).fun
    assert low == pytest.approx(6)
    made = round_table(Lattice((2,)), np.array([7.0, 7, 14]), 5)
    assert made[0] + made[1] == made[2]


def test_a_cell_may_go_to_the_second_nearest_where_it_must():
    lattice = Lattice((2, 2, 2))
    counts = lattice.with_margins(np.arange(8.0).reshape(2, 2, 2))
    steps = _solve_rounding(lattice, counts / 5, 2)
    assert steps is not None
    assert np.abs(lattice.sums @ steps).max() == 0
    assert np.abs(5 * steps - counts).max() < 10
