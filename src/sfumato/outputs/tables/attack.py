"""What anybody can work out about the hidden cells of a table, exactly.

Question: between which two values must a hidden cell lie, given everything that is published?
Assumes: the attacker knows every cell that is shown and every margin, that cells add up to their
totals, and that counts and sums of values that are never negative are not negative. He does not
know which hidden cells were small and which were hidden for their sake: both look the same, and
knowing the threshold alone tells him nothing about any one of them. That counts are whole numbers
is not used here; in tables of one and two variables it would change no end, and in larger ones
`search` sees to it that whole-number tables exist where it matters.
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
class Bounds:
    """The lowest and the highest value that each cell can have; the same where it is shown."""

    low: Floats
    high: Floats


def intervals(lattice: Lattice, shown: Floats, *, nonnegative: bool = True) -> Bounds:
    """The exact interval of every hidden cell (NaN), by two linear programmes for each.

    Parameters
    ----------
    lattice : the shape of the table.
    shown : the cells, flat; NaN where hidden.
    nonnegative : whether everybody knows that no cell is below nothing.

    Examples
    --------
    >>> lattice = Lattice((2,))
    >>> found = intervals(lattice, np.array([np.nan, np.nan, 23.0]))
    >>> found.low.tolist(), found.high.tolist()
    ([0.0, 0.0, 23.0], [23.0, 23.0, 23.0])
    """
    hidden = np.isnan(shown)
    low, high = shown.copy(), shown.copy()
    say, done, total = current_progress(), 0, int(hidden.sum())
    # Numbers near 1 keep the solver's tolerances meaningful.
    sizes = np.abs(shown[~hidden & (shown != 0)])
    scale = float(np.median(sizes)) if len(sizes) else 1.0
    for cells, matrix, right in _parts(lattice, np.where(hidden, 0.0, shown) / scale, hidden):
        for place, cell in enumerate(cells):
            low[cell] = scale * _end(matrix, right, place, 1.0, nonnegative=nonnegative)
            high[cell] = scale * _end(matrix, right, place, -1.0, nonnegative=nonnegative)
            done += 1
            say("attacking the table", done, total)
    return Bounds(low, high)


def _parts(lattice: Lattice, known: Floats, hidden: Mask) -> Iterator[tuple[Integers, Any, Floats]]:
    """Groups of hidden cells that share no line with any other: each is attacked by itself."""
    from scipy.sparse.csgraph import connected_components

    cells = np.flatnonzero(hidden)
    if not len(cells):
        return
    matrix, right = lattice.sums[:, cells].tocsr(), -(lattice.sums @ known)
    lines = np.flatnonzero(np.diff(matrix.indptr))
    matrix, right = matrix[lines], right[lines]
    # Signs would cancel: only whether two cells meet in a line counts.
    meeting = abs(matrix)
    _, part = connected_components(meeting.T @ meeting, directed=False)
    for number in range(part.max() + 1):
        mine = np.flatnonzero(part == number)
        columns = matrix[:, mine]
        rows = np.flatnonzero(np.diff(columns.indptr))
        yield cells[mine], columns[rows], right[rows]


def _end(matrix: Any, right: Floats, place: int, sign: float, *, nonnegative: bool) -> float:
    from scipy.optimize import linprog

    objective = np.zeros(matrix.shape[1])
    objective[place] = sign
    bounds = (0 if nonnegative else None, None)
    found = linprog(objective, A_eq=matrix, b_eq=right, bounds=bounds, method="highs")
    if found.status == _UNBOUNDED:
        return -sign * np.inf
    if found.status != _OPTIMAL:
        raise MeasureError(
            "The cells that are shown do not add up to the margins, so no attack can be tried.",
            hint="do the cells and the margins come from the same table?",
        )
    # Ends within the solver's tolerance of nothing are nothing.
    return 0.0 if abs(found.fun) < 1e-9 else float(sign * found.fun)  # noqa: PLR2004
