"""The nearest records of other persons or groups: compiled."""

from __future__ import annotations

import numpy as np

from sfumato.kernels.compiled import compiled


@compiled(small=1 << 14)
def pick_units(neighbours, rows, units, wanted):  # type: ignore[no-untyped-def]
    """For each row itself and its nearest others, no two of them of one unit; -1 where too few.

    neighbours : a line for each row: all records near it, the nearest first.
    rows : which record each is.
    units : a line for each record: the number of its unit, by kind.
    wanted : how many records, the row itself counted.
    """
    picked = np.full((len(rows), wanted), -1, np.int64)
    for line in range(len(rows)):
        picked[line, 0] = rows[line]
        count = 1
        for place in range(neighbours.shape[1]):
            if count == wanted:
                break
            other = neighbours[line, place]
            is_new = True
            for earlier in range(count):
                for kind in range(units.shape[1]):
                    if units[other, kind] == units[picked[line, earlier], kind]:
                        is_new = False
            if is_new:
                picked[line, count] = other
                count += 1
    return picked
