"""How much a standard deviation may say beside the mean and the number of records.

Question: how many sets of values fit the number of a cell, its mean and its standard deviation,
for somebody who is one of them and knows their own value?
Assumes: mean and number are known exactly, also where they are not in the table. Possible values
lie on the grid on which quantiles are rounded, or on that of the variable where it is coarser,
between the least and the greatest value of the table.

Three people with a mean and a standard deviation are two equations: each of the three computes the
other two. So standard deviations are rounded until many sets fit, all of a table to one step, so
that no cell follows from its neighbours and the margin with more digits. Where even the coarsest
step leaves few, the cell shows none.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.kernels.arrays import Floats
from sfumato.outputs.quantiles import snap_to_grid

FEWEST_SETS = 10
"""Sets of values that must fit what a cell shows."""
MOST_MEMBERS = 20
"""Larger cells are taken to leave many sets open."""
_MOST_LEVELS = 15
"""Grids of so few values are counted in full."""
_MOST_STEPS = 200
_TOLERANCE = 1e-9
_COARSENING = (1.0, 2.0)
"""The steps tried, times the step of the quantiles: a 200th or a 100th of the spread.

Coarser ones would spoil all other cells for the sake of one that is small."""


@dataclass(frozen=True)
class ValueGrid:
    """The values that a variable can have, as an attacker thinks.

    Parameters
    ----------
    low, high : between which values.
    unit : the distance of two values.
    """

    low: float
    high: float
    unit: float

    @classmethod
    def of(cls, values: Floats, step: float) -> ValueGrid:
        """The grid of a variable: its own, where that is coarser than the step."""
        distinct = np.unique(values)
        gaps = np.diff(distinct)
        own = float(gaps.min()) if len(gaps) else 0.0
        return cls(float(distinct[0]), float(distinct[-1]), max(own, step))

    @property
    def levels(self) -> int:
        """How many values it has."""
        return round((self.high - self.low) / self.unit) + 1 if self.unit > 0 else 1


def round_deviations(
    cells: Sequence[tuple[int, Floats]], deviations: Floats, grid: ValueGrid, step: float
) -> Floats:
    """Standard deviations as a table may show them; NaN where a cell may show none.

    Parameters
    ----------
    cells : each cell's index and its values.
    deviations : of each cell.
    grid : the values that are possible.
    step : the finest rounding.

    Examples
    --------
    >>> cells = [(0, np.array([31.0, 44.0, 52.0])), (1, np.arange(20.0, 60.0))]
    >>> grid = ValueGrid(low=18.0, high=90.0, unit=1.0)
    >>> round_deviations(cells, np.array([10.6, 11.69]), grid, 0.5).tolist()
    [nan, 11.5]
    """
    shown = deviations.copy()
    if grid.levels <= 2 or step <= 0:  # noqa: PLR2004 - their sums are counts in disguise
        return shown
    small = [(cell, values) for cell, values in cells if 1 < len(values) <= MOST_MEMBERS]
    steps = [times * step for times in _COARSENING]
    needed = {cell: _find_step(values, deviations[cell], grid, steps) for cell, values in small}
    # One step for all: else a margin and its other cells tell a coarse one with more digits.
    common = max([step, *(found for found in needed.values() if found is not None)])
    for cell, found in needed.items():
        if found is None:
            shown[cell] = math.nan
    known = ~np.isnan(shown)
    shown[known] = [snap_to_grid(value, common) for value in shown[known]]
    return shown


def _find_step(
    values: Floats, deviation: float, grid: ValueGrid, steps: Sequence[float]
) -> float | None:
    """The finest step at which every member of a cell has many sets before them."""
    for step in steps:
        centre = snap_to_grid(deviation, step)
        low = max(centre - step / 2, 0.0) ** 2 * (len(values) - 1)
        high = (centre + step / 2) ** 2 * (len(values) - 1)
        if all(
            count_sets(others, low=low, high=high, mean=float(values.mean()), grid=grid)
            >= FEWEST_SETS
            for others in _list_others(np.sort(values))
        ):
            return step
    return None


def _list_others(ordered: Floats) -> Iterator[Floats]:
    """What each member does not know; of many, what the first and the last do not."""
    members = range(len(ordered)) if len(ordered) <= _MOST_LEVELS else (0, len(ordered) - 1)
    for member in members:
        yield np.delete(ordered, member)


def count_sets(others: Floats, *, low: float, high: float, mean: float, grid: ValueGrid) -> int:
    """How many sets of other values have the same sum, and squares between two bounds; at least.

    Parameters
    ----------
    others : the values of the others.
    low, high : bounds of the squared distances of all members from the mean.
    mean : of all members.
    grid : the values that are possible.

    Examples
    --------
    >>> grid = ValueGrid(low=0.0, high=100.0, unit=1.0)
    >>> others = np.array([30.0, 50.0])
    >>> count_sets(others, low=200.0, high=200.0, mean=40.0, grid=grid)
    1
    """
    # The member's own part of the squares stays as it is.
    own = mean * (len(others) + 1) - others.sum() - mean
    bounds = (low - own**2, high - own**2)
    count = _count_by_levels if grid.levels <= _MOST_LEVELS else _count_by_shifts
    return count(others, bounds, mean, grid)


def _count_by_levels(
    others: Floats, bounds: tuple[float, float], mean: float, grid: ValueGrid
) -> int:
    """All sets on a grid of few values, from one value to the next."""
    levels = grid.low + grid.unit * np.arange(grid.levels)
    total = round((others.sum() - grid.low * len(others)) / grid.unit)
    states: Counter[tuple[int, int, int]] = Counter({(0, 0, 0): 1})
    # Squares in whole units: a set is told by how many have each level.
    for index in range(len(levels)):
        grown: Counter[tuple[int, int, int]] = Counter()
        for (size, sums, squares), number in states.items():
            for times in range(len(others) - size + 1):
                if sums + times * index > total:
                    break
                state = (size + times, sums + times * index, squares + times * index**2)
                grown[state] += number
        states = grown
    shift = grid.low - mean
    return sum(
        number
        for (size, sums, squares), number in states.items()
        if size == len(others) and sums == total
        and _is_between(
            squares * grid.unit**2 + 2 * shift * sums * grid.unit + size * shift**2, bounds
        )
    )  # fmt: skip


def _count_by_shifts(
    others: Floats, bounds: tuple[float, float], mean: float, grid: ValueGrid
) -> int:
    """Sets in which three of the others have values further up or down, the rest as they are."""
    ordered = np.sort(others)
    free = ordered[np.unique([0, len(ordered) // 2, len(ordered) - 1])]
    rest = float(((others - mean) ** 2).sum() - ((free - mean) ** 2).sum())
    most = min(_MOST_STEPS, grid.levels)
    shifts = grid.unit * np.arange(-most, most + 1)
    if len(free) == 1:
        return 1
    if len(free) == 2:  # noqa: PLR2004 - what one gains the other loses
        candidates = np.stack([free[0] + shifts, free[1] - shifts], axis=1)
    else:
        second, third = np.meshgrid(shifts, shifts, indexing="ij")
        candidates = np.stack(
            [free[0] + second, free[1] + third, free[2] - second - third], axis=-1
        ).reshape(-1, 3)
    margin = grid.unit / 2
    inside = ((candidates >= grid.low - margin) & (candidates <= grid.high + margin)).all(axis=1)
    candidates = np.sort(candidates[inside], axis=1)
    squares = ((candidates - mean) ** 2).sum(axis=1) + rest
    slack = _TOLERANCE * max(bounds[1], 1.0)
    fitting = candidates[(squares >= bounds[0] - slack) & (squares <= bounds[1] + slack)]
    return len(np.unique(np.round(fitting / grid.unit, 3), axis=0))


def _is_between(number: float, bounds: tuple[float, float]) -> bool:
    slack = _TOLERANCE * max(bounds[1], 1.0)
    return bounds[0] - slack <= number <= bounds[1] + slack
