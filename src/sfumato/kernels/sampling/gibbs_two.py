"""The pass over the records for two levels that differ by shifts alone, twice as fast."""

from __future__ import annotations

import numpy as np
from numba import njit

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_UNIT = 2.0**-53
_BLOCK = 512


@njit(
    "void(f8[:,::1], i8[:,::1], f8[::1], f8[::1], f8[:,::1], i8[::1], u8, u1[::1],f8[:,:,:,::1])",
    cache=True,
    nogil=True,
    error_model="numpy",
)
def visit_two(rows, place, density, table, lines, options, key, code, sums):  # type: ignore[no-untyped-def]
    """Draw the level of the records of some groups, and add up what follows from them.

    Squares cancel, and the log odds of the second level are linear in what was seen.

    Parameters
    ----------
    rows, place, options, key, code, sums : see `sfumato.kernels.sampling.gibbs`.
    density, table : log odds by what was released of the category, and by cell of the table.
    lines : (group, column) log odds by all else.
    """
    wide = rows.shape[1]
    first = options[2]
    # Draws and products take turns: the processor need not know the one to go on with the other.
    for begin in range(options[0], options[1], _BLOCK):
        end = min(begin + _BLOCK, options[1])
        for i in range(begin, end):
            mixed = key + np.uint64(i) * _STEP
            mixed = (mixed ^ (mixed >> _30)) * _FIRST
            mixed = (mixed ^ (mixed >> _27)) * _SECOND
            mark = float((mixed ^ (mixed >> _31)) >> _11) * _UNIT
            line = table[place[i, 1]] + density[i]
            g = place[i, 2]
            for w in range(wide):
                line += lines[g, w] * rows[i, w]
            code[i] = np.uint8(mark * (1.0 + np.exp(-line)) < 1.0)
        for i in range(begin, end):
            g, k = place[i, 2] - first, code[i]
            for a in range(wide):
                for b in range(a + 1):
                    sums[g, k, a, b] += rows[i, a] * rows[i, b]
