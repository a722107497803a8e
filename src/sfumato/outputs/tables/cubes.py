"""The simplest change of a table in whole numbers: the corners of a box, up and down in turn."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from sfumato.kernels.arrays import Floats, Mask
from sfumato.outputs.tables.lattice import Lattice


def cheapest_box(
    lattice: Lattice, cell: int, by: float, *, price: Floats, values: Floats, never: Mask
) -> Floats | None:
    """Move a cell by so much, and the other corners of a box with it, so that every sum holds.

    A box is one other place along each variable. Along a line a cell and its neighbour move
    against each other, a cell and its total together. Of all boxes whose corners may move, the
    one that costs least is taken; the first in order where several cost the same.
    """
    start = np.unravel_index(cell, lattice.shape)
    signs = [
        np.where(_together(size, int(at)), 1.0, -1.0)
        for size, at in zip(lattice.sizes, start, strict=True)
    ]
    cost = np.zeros(lattice.shape)
    table, room, free = (one.reshape(lattice.shape) for one in (price, values, ~never))
    for corner in product((False, True), repeat=len(start)):
        # Along a variable the corner stays where the cell is, or goes to the other place.
        at = tuple(
            slice(None) if away else slice(p, p + 1) for away, p in zip(corner, start, strict=True)
        )
        move: Any = by
        for axis, away in enumerate(corner):
            if away:
                shape = [1] * len(start)
                shape[axis] = -1
                move = move * signs[axis].reshape(shape)
        possible = free[at] & (room[at] + move >= 0)
        cost = cost + np.where(possible, table[at], np.inf)
    for axis, place in enumerate(start):
        cost[tuple([slice(None)] * axis + [place])] = np.inf  # the other place is another one
    if not np.isfinite(cost).any():
        return None
    return _change(lattice, cell, by, np.unravel_index(int(np.argmin(cost)), lattice.shape), signs)


def _together(size: int, at: int) -> Mask:
    """Which places move the same way as this one: its total; where it is the total, all others."""
    places = np.arange(size + 1)
    return places == size if at < size else places < size


def _change(
    lattice: Lattice, cell: int, by: float, other: tuple[np.intp, ...], signs: list[Floats]
) -> Floats:
    change = np.zeros(lattice.shape)
    start = np.unravel_index(cell, lattice.shape)
    for corner in product((False, True), repeat=len(start)):
        place = tuple(o if away else s for away, o, s in zip(corner, other, start, strict=True))
        move = by
        for axis, away in enumerate(corner):
            move *= signs[axis][other[axis]] if away else 1.0
        change[place] = move
    return change.ravel()
