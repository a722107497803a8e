"""Boxes: the simplest change of a table in whole numbers."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.outputs.tables.lattice import Lattice
from sfumato.outputs.tables.secondary_suppression import find_cheapest_hypercube


@settings(max_examples=80)
@given(
    st.sampled_from([(3,), (2, 3), (2, 2, 2), (3, 2, 4), (2, 2, 2, 2)]),
    st.integers(0, 10_000),
    st.sampled_from([-2.0, -1.0, 1.0, 2.0]),
)
def test_a_box_keeps_every_sum_and_is_the_cheapest(sizes, seed, by):
    rng = np.random.default_rng(seed)
    lattice = Lattice(sizes)
    values = lattice.with_margins(rng.integers(0, 5, sizes).astype(float))
    price = rng.integers(0, 20, lattice.cells).astype(float)
    never = rng.random(lattice.cells) < 0.1
    never[-1] = True
    cell = int(rng.choice(np.flatnonzero(~never)))
    found = find_cheapest_hypercube(
        lattice, cell, by, cost=price, values=values, unsuppressible=never
    )
    expected = _by_trying_all(lattice, cell, by, price, values, never)
    if found is None:
        assert expected is None
        return
    assert found[cell] == by
    assert np.abs(lattice.sums @ found).max() == 0
    assert not found[never].any()
    assert (values + found >= 0).all()
    assert price[found != 0].sum() == expected


def _by_trying_all(lattice, cell, by, price, values, never):
    """The least price over all boxes, each made from its own equations."""
    start = np.unravel_index(cell, lattice.shape)
    best = None
    for other in product(*(range(size) for size in lattice.shape)):
        if any(one == two for one, two in zip(start, other, strict=True)):
            continue
        change = np.zeros(lattice.shape)
        for corner in product((0, 1), repeat=len(start)):
            place = tuple((start, other)[which][axis] for axis, which in enumerate(corner))
            sign = 1.0
            for axis, which in enumerate(corner):
                total = lattice.sizes[axis] in (start[axis], other[axis])
                sign *= -1.0 if which and not total else 1.0
            change[place] = sign * by
        flat = change.ravel()
        if not flat[never].any() and (values + flat >= 0).all():
            cost = price[flat != 0].sum()
            best = cost if best is None else min(best, cost)
    return best
