"""The search for what else must be hidden, for one set of additive numbers."""

from __future__ import annotations

import numpy as np

from sfumato.kernels.arrays import Floats, Integers, Mask
from sfumato.outputs.judged import OutputRefused
from sfumato.outputs.tables.cubes import cheapest_box
from sfumato.outputs.tables.lattice import Lattice
from sfumato.outputs.tables.layers import Layer
from sfumato.progress import current_progress

_TOLERANCE = 1e-6
_TOUCHED = 1e-6
"""A change below this share of the one asked for is the solver's rounding."""
_SEEN = 1e-3
_MOST_ROUNDS = 40
_INTEGRAL_WAYS = 2
"""Up to two-way tables, the ends of a cell's interval are whole numbers by themselves."""


class Search:
    """What is hidden so far, and how far each cell is known to be able to move.

    Numbers are scaled to be near 1, so that the solver's tolerances mean something.
    """

    def __init__(
        self, lattice: Lattice, layer: Layer, hidden: Mask, never: Mask, price: Floats
    ) -> None:
        self.whole = layer.whole and len(lattice.sizes) > _INTEGRAL_WAYS
        self.scale = 1.0 if layer.whole else _scale(layer)
        self.lattice, self.layer, self.price = lattice, layer, price
        self.values = layer.values / self.scale
        self.low, self.high = layer.low / self.scale, layer.high / self.scale
        self.hidden, self.never = hidden.copy(), never & ~hidden
        self.lowest, self.highest = self.values.copy(), self.values.copy()

    def run(self) -> Mask:
        """Protect every sensitive cell, those that need the most first."""
        for up in (True, False):
            self._shake(up=up)
        say = current_progress()
        order = self._order()
        for done, cell in enumerate(order.tolist()):
            say("hiding cells", done, len(order))
            if self._short(up=True)[cell]:
                self._move(cell, self.high[cell] - self.values[cell])
            if self._short(up=False)[cell]:
                self._move(cell, self.low[cell] - self.values[cell])
        return self.hidden

    def _short(self, *, up: bool) -> Mask:
        """The sensitive cells that are not yet known to move as far as they need."""
        need = self.high - self.values if up else self.values - self.low
        moves = self.highest - self.values if up else self.values - self.lowest
        # By the need of each cell: among large ones, the need of a small one is next to nothing.
        return self.layer.sensitive & (moves < (1 - _TOLERANCE) * need)

    def _order(self) -> Integers:
        cells = np.flatnonzero(self.layer.sensitive)
        values = self.values[cells]
        need = np.maximum(self.high[cells] - values, values - self.low[cells])
        # Ties by the number of the cell, which follows the levels and not the records.
        found: Integers = cells[np.lexsort((cells, -need))]
        return found

    def _shake(self, *, up: bool) -> None:
        """Move as many sensitive cells as possible at once, among those hidden already."""
        free = np.flatnonzero(self.hidden)
        for _ in range(_MOST_ROUNDS):
            need = np.abs((self.high if up else self.low) - self.values)
            short = self._short(up=up) & (need > _SEEN)
            if not short.any():
                return
            gain = np.where(short, -1.0 if up else 1.0, 0.0)[free]
            most = np.where(short, need, np.inf)
            low, high = self._reach(free)
            np.minimum(high, most[free], out=high) if up else np.maximum(low, -most[free], out=low)
            change = self._solved(free, gain, low, high)
            if change is None or (self.whole and _parted(change)):
                return
            self._note(change, _SEEN)
            if (self._short(up=up) & short).sum() == short.sum():
                return

    def _move(self, cell: int, by: float) -> None:
        """Move one cell as far as it must, at the least cost; hide what it takes."""
        change = self._cheapest(cell, by, np.flatnonzero(self.hidden))
        if change is None:
            change = self._cheapest(cell, by, np.flatnonzero(~self.never))
        if change is not None and self.whole and _parted(change):
            change = self._in_whole_numbers(cell, by)
        if change is None:
            raise OutputRefused(
                "A small cell of the table cannot be hidden: whatever else is hidden, its value "
                "follows from the total.",
                hint="use fewer or coarser categories, or rounding: protection='round'.",
            )
        if self.whole:
            change = np.rint(change)
        self.hidden |= np.abs(change) > _TOUCHED * abs(by)
        change[~self.hidden] = 0.0
        self._note(change, _SEEN * abs(by))

    def _in_whole_numbers(self, cell: int, by: float) -> Floats | None:
        """A table of whole numbers that moves the cell: a box if there is one, else any."""
        price = np.where(self.hidden, 0.0, self.price)
        found = cheapest_box(
            self.lattice, cell, by, price=price, values=self.values, never=self.never
        )
        if found is not None:
            return found
        return self._cheapest(cell, by, np.flatnonzero(~self.never), whole=True)

    def _reach(self, free: Integers) -> tuple[Floats, Floats]:
        """How far each cell may move down and up at all."""
        endless = np.full(len(free), np.inf)
        return (-self.values[free] if self.layer.nonnegative else -endless), endless

    def _cheapest(
        self, cell: int, by: float, free: Integers, *, whole: bool = False
    ) -> Floats | None:
        """The cheapest change of these cells that moves one by so much, where there is one."""
        price = np.where(self.hidden, 0.0, self.price)[free]
        low, high = self._reach(free)
        here = int(np.searchsorted(free, cell))
        low[here] = high[here] = by
        # In units of the move: the solver must not take a small one for its own rounding.
        unit = 1.0 if self.whole else abs(by)
        found = self._solved(
            free, price, low / unit, high / unit, both=bool(price.any()), whole=whole
        )
        return None if found is None else unit * found

    def _solved(
        self,
        free: Integers,
        price: Floats,
        low: Floats,
        high: Floats,
        *,
        both: bool = False,
        whole: bool = False,
    ) -> Floats | None:
        """The change that keeps every sum and costs least.

        `both`: moving down costs as much as moving up. `whole`: in whole numbers.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import hstack

        sums = self.lattice.sums[:, free]
        if both:
            sums = hstack([sums, -sums], format="csc")
            price = np.concatenate([price, price])
            low, high = (
                np.concatenate([np.maximum(low, 0.0), np.maximum(-high, 0.0)]),
                np.concatenate([np.maximum(high, 0.0), np.maximum(-low, 0.0)]),
            )
        keep = LinearConstraint(sums, 0.0, 0.0)
        found = milp(
            price,
            bounds=Bounds(low, high),
            constraints=keep,
            integrality=np.full(len(price), int(whole)),
            # Near the cheapest is near enough, and much sooner found.
            options={"mip_rel_gap": 0.2},
        )
        if found.x is None:
            return None
        moved = np.rint(found.x) if whole else found.x
        change = np.zeros(self.lattice.cells)
        change[free] = moved[: len(free)] - moved[len(free) :] if both else moved
        return change

    def _note(self, change: Floats, least: float) -> None:
        """One change shows how far every cell it touches can move, there and back.

        Moves below the least may be the solver's rounding, and show nothing.
        """
        seen = np.abs(change) >= least
        for direction in (change, -change):
            far = 1.0
            if self.layer.nonnegative:
                falling = direction < 0
                steps = self.values[falling] / -direction[falling]
                far = float(steps.min(initial=np.inf))
                far = 1.0 if np.isinf(far) else float(np.floor(far)) if self.whole else far
            moved = self.values + far * direction
            np.minimum(self.lowest, moved, out=self.lowest, where=seen)
            np.maximum(self.highest, moved, out=self.highest, where=seen)


def _parted(change: Floats) -> bool:
    """Whether a change is not in whole numbers."""
    return bool(np.abs(change - np.rint(change)).max() > _TOUCHED)


def _scale(layer: Layer) -> float:
    sizes = np.abs(layer.values[layer.sensitive])
    need = np.abs(layer.high - layer.low)[layer.sensitive]
    found = float(np.median(np.maximum(sizes, need))) if len(sizes) else 1.0
    return found or 1.0
