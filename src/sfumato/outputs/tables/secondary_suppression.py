"""Secondary suppression: which further cells to hide so that nobody can work out sensitive ones.

A hidden cell is safe when some other table, with the same cells shown, holds a value in its place
that is low enough, and another one that is high enough. Such a table differs from the true one
only in hidden cells. So for each sensitive cell we look for the cheapest change of the table that
moves the cell as far as it must and keeps every sum; the cells it touches are hidden too. Hiding
more never undoes what was reached, so one pass over the cells is enough (the method of Kelly,
Golden & Assad 1992 and Castro 2006, by linear programmes).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from sfumato.kernels.arrays import Floats, Integers, Mask
from sfumato.outputs.output import OutputRefused
from sfumato.outputs.tables.lattice import Lattice
from sfumato.outputs.tables.primary_suppression import Layer
from sfumato.progress import current_progress

_TOLERANCE = 1e-6
_TOUCHED = 1e-6
"""A change below this share of the required one is the solver's rounding."""
_NOTICEABLE = 1e-3
_MOST_ROUNDS = 40
_INTEGRAL_WAYS = 2
"""Up to two-way tables, the ends of a cell's interval are whole numbers by themselves."""


def find_suppression_pattern(
    lattice: Lattice, layers: list[Layer], *, unsuppressible: Mask, cost: Floats | None = None
) -> Mask:
    """All cells to hide: the sensitive ones of every layer, and what keeps them so.

    Parameters
    ----------
    lattice : the shape of the table.
    layers : what the cells hold. One pattern protects all of them.
    unsuppressible : cells whose value everybody knows: empty ones, and the number of all records.
    cost : of hiding a cell. Default: more for larger counts, and more for margins.
    """
    # One pattern for all layers: a count and a mean give the sum.
    hidden: Mask = np.any([layer.sensitive for layer in layers], axis=0)
    cost = compute_costs(lattice, layers[0].values) if cost is None else cost
    for layer in layers:
        hidden = _PatternSearch(lattice, layer, hidden, unsuppressible, cost).run()
    for layer in layers:
        for cells in layer.insiders:
            # The cells an insider knows do not move for him; all others must still do.
            his = np.zeros(lattice.cells, bool)
            his[cells] = True
            others = replace(layer, sensitive=layer.sensitive & ~his)
            search = _PatternSearch(lattice, others, hidden & ~his, unsuppressible | his, cost)
            hidden = (hidden & his) | search.run()
    return hidden


def compute_costs(lattice: Lattice, counts: Floats) -> Floats:
    """Small cells are missed least; a margin is missed more than the cells it sums up."""
    costs: Floats = np.log2(2 + np.abs(counts)) * 4.0**lattice.depth
    return costs


class _PatternSearch:
    """The cells hidden so far in one layer, and how far each is known to be able to move.

    Numbers are scaled to be near 1, so that the solver's tolerances mean something.
    """

    def __init__(
        self, lattice: Lattice, layer: Layer, hidden: Mask, unsuppressible: Mask, cost: Floats
    ) -> None:
        self.integral = layer.integral and len(lattice.sizes) > _INTEGRAL_WAYS
        scale = 1.0 if layer.integral else _choose_scale(layer)
        self.lattice, self.layer, self.cost = lattice, layer, cost
        self.values = layer.values / scale
        self.low, self.high = layer.low / scale, layer.high / scale
        self.hidden, self.unsuppressible = hidden.copy(), unsuppressible & ~hidden
        self.lowest, self.highest = self.values.copy(), self.values.copy()

    def run(self) -> Mask:
        """Protect every sensitive cell, those that need the most first."""
        for up in (True, False):
            self._move_together(up=up)
        progress = current_progress()
        order = self._order_cells()
        for done, cell in enumerate(order.tolist()):
            progress("hiding cells", done, len(order))
            if self._is_short(up=True)[cell]:
                self._move_cell(cell, self.high[cell] - self.values[cell])
            if self._is_short(up=False)[cell]:
                self._move_cell(cell, self.low[cell] - self.values[cell])
        return self.hidden

    def _is_short(self, *, up: bool) -> Mask:
        """The sensitive cells that are not yet known to move as far as they need."""
        need = self.high - self.values if up else self.values - self.low
        moves = self.highest - self.values if up else self.values - self.lowest
        # Relative to the need of each cell: beside large ones, that of a small one is tiny.
        return self.layer.sensitive & (moves < (1 - _TOLERANCE) * need)

    def _order_cells(self) -> Integers:
        cells = np.flatnonzero(self.layer.sensitive)
        values = self.values[cells]
        need = np.maximum(self.high[cells] - values, values - self.low[cells])
        # Ties by the index of the cell, which follows the levels and not the records.
        order: Integers = cells[np.lexsort((cells, -need))]
        return order

    def _move_together(self, *, up: bool) -> None:
        """Move as many sensitive cells as possible at once, among those hidden already."""
        free = np.flatnonzero(self.hidden)
        for _ in range(_MOST_ROUNDS):
            need = np.abs((self.high if up else self.low) - self.values)
            short = self._is_short(up=up) & (need > _NOTICEABLE)
            if not short.any():
                return
            gain = np.where(short, -1.0 if up else 1.0, 0.0)[free]
            most = np.where(short, need, np.inf)
            low, high = self._get_reach(free)
            np.minimum(high, most[free], out=high) if up else np.maximum(low, -most[free], out=low)
            change = self._solve(free, gain, low, high)
            if change is None or (self.integral and _is_fractional(change)):
                return
            self._record_moves(change, _NOTICEABLE)
            if (self._is_short(up=up) & short).sum() == short.sum():
                return

    def _move_cell(self, cell: int, by: float) -> None:
        """Move a cell as far as it must, at the least cost; hide what it takes."""
        # First among the cells hidden already, which costs nothing.
        change = self._find_cheapest(cell, by, np.flatnonzero(self.hidden))
        if change is None:
            change = self._find_cheapest(cell, by, np.flatnonzero(~self.unsuppressible))
        if change is not None and self.integral and _is_fractional(change):
            change = self._find_integral_change(cell, by)
        if change is None:
            raise OutputRefused(
                "A small cell of the table cannot be hidden: whatever else is hidden, its value "
                "follows from the total.",
                hint="use fewer or coarser categories, or rounding: protection='round'.",
            )
        if self.integral:
            change = np.rint(change)
        self.hidden |= np.abs(change) > _TOUCHED * abs(by)
        change[~self.hidden] = 0.0
        self._record_moves(change, _NOTICEABLE * abs(by))

    def _find_integral_change(self, cell: int, by: float) -> Floats | None:
        """A change in whole numbers that moves the cell: a hypercube if there is one, else any."""
        change = find_cheapest_hypercube(
            self.lattice,
            cell,
            by,
            cost=np.where(self.hidden, 0.0, self.cost),
            values=self.values,
            unsuppressible=self.unsuppressible,
        )
        if change is not None:
            return change
        return self._find_cheapest(cell, by, np.flatnonzero(~self.unsuppressible), integral=True)

    def _get_reach(self, free: Integers) -> tuple[Floats, Floats]:
        """How far each cell may move down and up at all."""
        endless = np.full(len(free), np.inf)
        return (-self.values[free] if self.layer.nonnegative else -endless), endless

    def _find_cheapest(
        self, cell: int, by: float, free: Integers, *, integral: bool = False
    ) -> Floats | None:
        """The cheapest change of the free cells that moves one by so much, if there is one."""
        cost = np.where(self.hidden, 0.0, self.cost)[free]
        low, high = self._get_reach(free)
        index = int(np.searchsorted(free, cell))
        low[index] = high[index] = by
        # In units of the move: the solver must not take a small one for its own rounding.
        unit = 1.0 if self.integral else abs(by)
        change = self._solve(
            free, cost, low / unit, high / unit, absolute=bool(cost.any()), integral=integral
        )
        return None if change is None else unit * change

    def _solve(
        self,
        free: Integers,
        cost: Floats,
        low: Floats,
        high: Floats,
        *,
        absolute: bool = False,
        integral: bool = False,
    ) -> Floats | None:
        """The change that keeps every sum and costs least.

        `absolute`: moving down costs as much as moving up. `integral`: in whole numbers.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import hstack

        sums = self.lattice.sums[:, free]
        if absolute:
            # Upward and downward moves are variables of their own, none below zero.
            sums = hstack([sums, -sums], format="csc")
            cost = np.concatenate([cost, cost])
            low, high = (
                np.concatenate([np.maximum(low, 0.0), np.maximum(-high, 0.0)]),
                np.concatenate([np.maximum(high, 0.0), np.maximum(-low, 0.0)]),
            )
        solution = milp(
            cost,
            bounds=Bounds(low, high),
            constraints=LinearConstraint(sums, 0.0, 0.0),
            integrality=np.full(len(cost), int(integral)),
            # Nearly the cheapest is good enough, and much quicker to find.
            options={"mip_rel_gap": 0.2},
        )
        if solution.x is None:
            return None
        moves = np.rint(solution.x) if integral else solution.x
        change = np.zeros(self.lattice.cells)
        change[free] = moves[: len(free)] - moves[len(free) :] if absolute else moves
        return change

    def _record_moves(self, change: Floats, least: float) -> None:
        """One change shows how far every cell it touches can move, there and back.

        Moves below the least may be the solver's rounding, and show nothing.
        """
        noticeable = np.abs(change) >= least
        for direction in (change, -change):
            length = 1.0
            if self.layer.nonnegative:
                falling = direction < 0
                lengths = self.values[falling] / -direction[falling]
                # As far as no falling cell drops below zero.
                length = float(lengths.min(initial=np.inf))
                if np.isinf(length):
                    length = 1.0
                elif self.integral:
                    length = float(np.floor(length))
            moved = self.values + length * direction
            np.minimum(self.lowest, moved, out=self.lowest, where=noticeable)
            np.maximum(self.highest, moved, out=self.highest, where=noticeable)


def _is_fractional(change: Floats) -> bool:
    return bool(np.abs(change - np.rint(change)).max() > _TOUCHED)


def _choose_scale(layer: Layer) -> float:
    sizes = np.abs(layer.values[layer.sensitive])
    need = np.abs(layer.high - layer.low)[layer.sensitive]
    scale = float(np.median(np.maximum(sizes, need))) if len(sizes) else 1.0
    return scale or 1.0


def find_cheapest_hypercube(
    lattice: Lattice, cell: int, by: float, *, cost: Floats, values: Floats, unsuppressible: Mask
) -> Floats | None:
    """Move a cell by so much, and the other corners of a hypercube with it: every sum holds.

    This is the simplest change of a table in whole numbers. A hypercube takes one other position
    along each variable. Along a line a cell and its neighbour move against each other, a cell and
    its total together. Of all hypercubes whose corners may move the cheapest is taken; the first
    in order where several cost the same.

    References: Giessing & Repsilber (2002), the hypercube method GHMITER.
    """
    start = np.unravel_index(cell, lattice.shape)
    signs = [
        np.where(_moves_together(size, int(index)), 1.0, -1.0)
        for size, index in zip(lattice.sizes, start, strict=True)
    ]
    total = np.zeros(lattice.shape)
    costs, room, free = (cells.reshape(lattice.shape) for cells in (cost, values, ~unsuppressible))
    for corner in product((False, True), repeat=len(start)):
        # Along a variable the corner stays where the cell is, or goes to the other position.
        selection = tuple(
            slice(None) if other else slice(index, index + 1)
            for other, index in zip(corner, start, strict=True)
        )
        move: Any = by
        for axis, other in enumerate(corner):
            if other:
                shape = [1] * len(start)
                shape[axis] = -1
                move = move * signs[axis].reshape(shape)
        possible = free[selection] & (room[selection] + move >= 0)
        total = total + np.where(possible, costs[selection], np.inf)
    for axis, index in enumerate(start):
        total[tuple([slice(None)] * axis + [index])] = np.inf  # the other position must differ
    if not np.isfinite(total).any():
        return None
    opposite = np.unravel_index(int(np.argmin(total)), lattice.shape)
    change = np.zeros(lattice.shape)
    for corner in product((False, True), repeat=len(start)):
        move = by
        for axis, other in enumerate(corner):
            move *= signs[axis][opposite[axis]] if other else 1.0
        ends = zip(corner, opposite, start, strict=True)
        change[tuple(there if other else here for other, there, here in ends)] = move
    return change.ravel()


def _moves_together(size: int, index: int) -> Mask:
    """Which positions of a line move the same way: a cell and its total, the total and all."""
    positions = np.arange(size + 1)
    return positions == size if index < size else positions < size
