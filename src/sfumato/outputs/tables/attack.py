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

_ZERO = 1e-9
"""Ends within the solver's tolerance of zero are zero."""


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
        attacker = _Attacker(matrix, right, nonnegative=nonnegative)
        for index, cell in enumerate(cells):
            low[cell], high[cell] = (scale * end for end in attacker.find_ends(index))
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


class _Attacker:
    """Linear programmes over the same hidden cells, each begun where the one before ended."""

    def __init__(self, matrix: Any, right: Floats, *, nonnegative: bool) -> None:
        import highspy

        rows, cells = matrix.shape
        columns = matrix.tocsc()
        model = highspy.HighsLp()
        model.num_row_, model.num_col_ = rows, cells
        model.col_cost_ = np.zeros(cells)
        model.col_lower_ = np.full(cells, 0.0 if nonnegative else -np.inf)
        model.col_upper_ = np.full(cells, np.inf)
        model.row_lower_ = model.row_upper_ = right
        model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        model.a_matrix_.start_ = columns.indptr
        model.a_matrix_.index_ = columns.indices
        model.a_matrix_.value_ = columns.data
        self._status = highspy.HighsModelStatus
        self._solver = highspy.Highs()  # type: ignore[no-untyped-call]
        self._solver.silent()
        # A new objective leaves the last table possible: primal simplex goes on from there.
        self._solver.setOptionValue("presolve", "off")
        self._solver.setOptionValue("solver", "simplex")
        self._solver.setOptionValue("simplex_strategy", 4)
        self._solver.passModel(model)
        # Cells that were zero in a table that the attacker found need no search for their lowest.
        self._seen_empty = np.zeros(cells, bool)
        self._nonnegative = nonnegative

    def find_ends(self, index: int) -> tuple[float, float]:
        """The least and the most that a cell can hold."""
        low = 0.0 if self._seen_empty[index] else self._find_end(index, 1.0)
        return low, self._find_end(index, -1.0)

    def _find_end(self, index: int, sign: float) -> float:
        # Sign 1 minimises the cell, sign -1 maximises it.
        self._solver.changeColCost(index, sign)
        self._solver.run()
        status = self._solver.getModelStatus()
        self._solver.changeColCost(index, 0.0)
        if status == self._status.kUnbounded:
            return -sign * np.inf
        if status != self._status.kOptimal:
            raise MeasureError(
                "The cells that are shown do not add up to the margins, so no attack can be tried.",
                hint="do the cells and the margins come from the same table?",
            )
        table = np.array(self._solver.getSolution().col_value)
        if self._nonnegative:
            self._seen_empty |= table < _ZERO
        return 0.0 if abs(table[index]) < _ZERO else float(table[index])
