"""The feasibility interval of every hidden cell of a table, exactly.

Question: between which two values must a hidden cell lie, given everything that is published?
Assumes: the attacker knows every cell that is shown and every margin, that cells add up to their
totals, and that counts and sums of values that are never negative are not negative. He does not
know which hidden cells are primary and which are secondary suppressions: both look the same, and
the threshold alone tells him nothing about any one of them. That counts are whole numbers is not
used here; in tables of one and two variables it would change no end, and in larger ones
`secondary_suppression` sees to it that whole-number tables exist where it matters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Integers, Mask
from sfumato.outputs.tables.lattice import Lattice
from sfumato.progress import current_progress

_OPTIMAL, _UNBOUNDED = 0, 3


@dataclass(frozen=True, eq=False)
class FeasibilityIntervals:
    """The lowest and the highest value that each cell can have; the same where it is shown."""

    low: Floats
    high: Floats


def compute_feasibility_intervals(
    lattice: Lattice, shown: Floats, *, nonnegative: bool = True
) -> FeasibilityIntervals:
    """The exact interval of every hidden cell (NaN), by two linear programmes for each.

    Parameters
    ----------
    lattice : the shape of the table.
    shown : the cells, flat; NaN where hidden.
    nonnegative : whether everybody knows that no cell is below zero.

    Examples
    --------
    >>> lattice = Lattice((2,))
    >>> intervals = compute_feasibility_intervals(lattice, np.array([np.nan, np.nan, 23.0]))
    >>> intervals.low.tolist(), intervals.high.tolist()
    ([0.0, 0.0, 23.0], [23.0, 23.0, 23.0])
    """
    hidden = np.isnan(shown)
    low, high = shown.copy(), shown.copy()
    progress, done, total = current_progress(), 0, int(hidden.sum())
    # Numbers near 1 keep the solver's tolerances meaningful.
    sizes = np.abs(shown[~hidden & (shown != 0)])
    scale = float(np.median(sizes)) if len(sizes) else 1.0
    for cells, matrix, right in _split_components(
        lattice, np.where(hidden, 0.0, shown) / scale, hidden
    ):
        for index, cell in enumerate(cells):
            low[cell] = scale * _find_end(matrix, right, index, 1.0, nonnegative=nonnegative)
            high[cell] = scale * _find_end(matrix, right, index, -1.0, nonnegative=nonnegative)
            done += 1
            progress("attacking the table", done, total)
    return FeasibilityIntervals(low, high)


def _split_components(
    lattice: Lattice, known: Floats, hidden: Mask
) -> Iterator[tuple[Integers, Any, Floats]]:
    """Groups of hidden cells that share no line with any other: each is attacked by itself."""
    from scipy.sparse.csgraph import connected_components

    cells = np.flatnonzero(hidden)
    if not len(cells):
        return
    matrix, right = lattice.sums[:, cells].tocsr(), -(lattice.sums @ known)
    lines = np.flatnonzero(np.diff(matrix.indptr))
    matrix, right = matrix[lines], right[lines]
    # Signs would cancel: only whether two cells meet in a line counts.
    incidence = abs(matrix)
    _, component = connected_components(incidence.T @ incidence, directed=False)
    for number in range(component.max() + 1):
        members = np.flatnonzero(component == number)
        columns = matrix[:, members]
        rows = np.flatnonzero(np.diff(columns.indptr))
        yield cells[members], columns[rows], right[rows]


def _find_end(matrix: Any, right: Floats, index: int, sign: float, *, nonnegative: bool) -> float:
    from scipy.optimize import linprog

    # Sign 1 minimises the cell, sign -1 maximises it.
    objective = np.zeros(matrix.shape[1])
    objective[index] = sign
    bounds = (0 if nonnegative else None, None)
    solution = linprog(objective, A_eq=matrix, b_eq=right, bounds=bounds, method="highs")
    if solution.status == _UNBOUNDED:
        return -sign * np.inf
    if solution.status != _OPTIMAL:
        raise MeasureError(
            "The cells that are shown do not add up to the margins, so no attack can be tried.",
            hint="do the cells and the margins come from the same table?",
        )
    # Ends within the solver's tolerance of zero are zero.
    return 0.0 if abs(solution.fun) < 1e-9 else float(sign * solution.fun)  # noqa: PLR2004
