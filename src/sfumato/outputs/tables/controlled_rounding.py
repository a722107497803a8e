"""Controlled rounding: every cell becomes one of the two nearest multiples, and sums still hold.

Rounding each cell by itself breaks the sums, and the broken sums give cells away: two cells of 5
with a total of 15 are each a 6 or a 7. When the rounded table adds up, it is itself
a table that could be true, and every cell can be moved alone by up to base - 1 with its margins:
nobody learns more of a cell than that it lies within base - 1 of what is shown.
"""

from __future__ import annotations

import numpy as np

from sfumato.kernels.arrays import Floats
from sfumato.outputs.output import OutputRefused
from sfumato.outputs.tables.lattice import Lattice

_FARTHEST = 2
"""In tables of three and more ways a cell may have to go to the second nearest multiple."""


def round_table(lattice: Lattice, counts: Floats, base: int) -> Floats:
    """The additive table of multiples of the base that is nearest to the counts.

    Multiples of the base stay as they are. The result depends on the counts alone.

    Examples
    --------
    >>> lattice = Lattice((3,))
    >>> round_table(lattice, np.array([7.0, 7.0, 7.0, 21.0]), 5).tolist()
    [5.0, 5.0, 10.0, 20.0]
    """
    for farthest in range(1, _FARTHEST + 1):
        multiples = _solve_rounding(lattice, counts / base, farthest)
        if multiples is not None:
            return base * multiples
    raise OutputRefused(
        "No rounded table adds up to its margins.",
        hint="use another base, or hide small cells instead: protection='suppress'.",
    )


def _solve_rounding(lattice: Lattice, counts: Floats, farthest: int) -> Floats | None:
    """The multiple of the base for each cell, by an integer programme."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import hstack

    low, fraction = np.floor(counts), counts - np.floor(counts)
    between = (fraction > 0).astype(float)
    # Equal cells differ a little in cost, so that the best table is unique.
    order = 1e-6 * np.arange(lattice.cells) / lattice.cells
    nearest = (1 - 2 * fraction) * 4.0**-lattice.depth + order
    # One step up; where that is not enough, a second one, or one down.
    costs, room, signs = [nearest], [between], [1.0]
    if farthest > 1:
        second_nearest = np.ones(lattice.cells) + order
        costs += [second_nearest, second_nearest]
        room += [between, np.minimum(between, low)]
        signs += [1.0, -1.0]
    right = -(lattice.sums @ low)
    sums = hstack([sign * lattice.sums for sign in signs], format="csc")
    solution = milp(
        np.concatenate(costs),
        bounds=Bounds(0.0, np.concatenate(room)),
        constraints=LinearConstraint(sums, right, right),
        integrality=np.ones(lattice.cells * len(costs)),
    )
    if solution.x is None:
        return None
    steps = np.rint(solution.x).reshape(len(costs), -1)
    multiples: Floats = low + np.tensordot(np.array(signs), steps, axes=1)
    return multiples
