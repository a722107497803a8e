"""Controlled rounding: every cell becomes one of the two nearest multiples, and sums still hold.

Rounding each cell by itself breaks the sums, and the broken sums give cells away: two cells of 5
with a total of 15 are each a 6 or a 7. When the rounded table adds up, it is itself
a table that could be true, and every cell can be moved alone by up to base - 1 with its margins:
nobody learns more of a cell than that it lies within base - 1 of what is shown.
"""

from __future__ import annotations

import numpy as np

from sfumato.kernels.arrays import Floats
from sfumato.outputs.judged import OutputRefused
from sfumato.outputs.tables.lattice import Lattice

_FURTHER = 2
"""In tables of three and more ways a cell may have to go to the second nearest multiple."""


def rounded(lattice: Lattice, counts: Floats, base: int) -> Floats:
    """The additive table of multiples of the base that is nearest to the counts.

    Multiples of the base stay as they are. The result depends on the counts alone.

    Examples
    --------
    >>> lattice = Lattice((3,))
    >>> rounded(lattice, np.array([7.0, 7.0, 7.0, 21.0]), 5).tolist()
    [5.0, 5.0, 10.0, 20.0]
    """
    for further in range(1, _FURTHER + 1):
        steps = _nearest(lattice, counts / base, further)
        if steps is not None:
            return base * steps
    raise OutputRefused(
        "No rounded table adds up to its margins.",
        hint="use another base, or hide small cells instead: protection='suppress'.",
    )


def _nearest(lattice: Lattice, counts: Floats, further: int) -> Floats | None:
    """The steps of the base for each cell, by an integer programme."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import hstack

    low, part = np.floor(counts), counts - np.floor(counts)
    between = (part > 0).astype(float)
    # Cells alike cost a little apart, so that one table is the best and not many.
    order = 1e-6 * np.arange(lattice.cells) / lattice.cells
    near = (1 - 2 * part) * 4.0**-lattice.depth + order
    # One step up; where that is not enough, a second one, or one down.
    prices, room, signs = [near], [between], [1.0]
    if further > 1:
        far = np.ones(lattice.cells) + order
        prices += [far, far]
        room += [between, np.minimum(between, low)]
        signs += [1.0, -1.0]
    right = -(lattice.sums @ low)
    found = milp(
        np.concatenate(prices),
        bounds=Bounds(0.0, np.concatenate(room)),
        constraints=LinearConstraint(
            hstack([sign * lattice.sums for sign in signs], format="csc"), right, right
        ),
        integrality=np.ones(lattice.cells * len(prices)),
    )
    if found.x is None:
        return None
    steps = np.rint(found.x).reshape(len(prices), -1)
    moved: Floats = low + np.tensordot(np.array(signs), steps, axes=1)
    return moved
