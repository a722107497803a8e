"""How likely all records are at some parameters, with levels and components summed out.

`total_two` is for two levels that differ by shifts alone: what is left to add up over records is
log(1 + exp(line)), and the lines are linear in what was seen. Loops over a block of records have
no branches and no sums, so that a processor works on several records at a time; sums are made by
halves afterwards.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_BLOCK = 256
_LOG2E, _MAGIC = 1.4426950408889634, 6755399441055744.0
_HIGH, _LOW = 0.693145751953125, 1.42860682030941723212e-6
"""ln 2 in two parts, so that n ln 2 is exact."""
_SHIFT = np.int64(52)
_FAR = -700.0


@njit("void(f8[::1], f8[::1], i8[::1])", cache=True, nogil=True, error_model="numpy")
def exponential(values, shift, bits):  # type: ignore[no-untyped-def]
    """Write exp over values between -700 and 0, to 14 digits.

    exp(v) = 2ⁿ exp(r): adding a large number rounds v / ln 2 to n, whose bits are then added to
    the exponent. `bits` are those of `shift`, an array to work with.
    """
    for at in range(_BLOCK):
        shift[at] = values[at] * _LOG2E + _MAGIC
    for at in range(_BLOCK):
        n = shift[at] - _MAGIC
        r = (values[at] - n * _HIGH) - n * _LOW
        found = 1.0 / 39916800.0
        found = found * r + 1.0 / 3628800.0
        found = found * r + 1.0 / 362880.0
        found = found * r + 1.0 / 40320.0
        found = found * r + 1.0 / 5040.0
        found = found * r + 1.0 / 720.0
        found = found * r + 1.0 / 120.0
        found = found * r + 1.0 / 24.0
        found = found * r + 1.0 / 6.0
        found = found * r + 0.5
        found = found * r + 1.0
        values[at] = found * r + 1.0
    for at in range(_BLOCK):
        bits[at] = (bits[at] << _SHIFT) + np.int64(1023 << 52)
    for at in range(_BLOCK):
        values[at] *= shift[at]


@njit(
    "void(f8[:,::1], i8[::1], f8[::1], f8[:,::1], f8[:,::1], f8[::1])",
    cache=True,
    nogil=True,
    error_model="numpy",
)
def total_two(columns, cell, density, table, lines, totals):  # type: ignore[no-untyped-def]
    """Add log(1 + exp(line)) over the records to the total of each draw.

    Parameters
    ----------
    columns : (column, record) clean columns (the first is 1), released numbers, the outcome.
    cell : of the table.
    density, table : log odds by what was released of the category; (draw, cell) by the table.
    lines : (draw, column) log odds by all else.
    totals : (draw) added to.
    """
    records, several = columns.shape[1], table.shape[1] > 1
    line, small, shift = np.zeros(_BLOCK), np.zeros(_BLOCK), np.zeros(_BLOCK)
    bits = shift.view(np.int64)
    for begin in range(0, records, _BLOCK):
        many = min(_BLOCK, records - begin)
        for draw in range(len(lines)):
            first = lines[draw, 0] + (0.0 if several else table[draw, 0])
            line[:] = 2.0 * _FAR
            for at in range(many):
                line[at] = first + density[begin + at]
            for w in range(1, len(columns)):
                weight = lines[draw, w]
                for at in range(many):
                    line[at] += weight * columns[w, begin + at]
            if several:
                for at in range(many):
                    line[at] += table[draw, cell[begin + at]]
            for at in range(_BLOCK):
                small[at] = max(-abs(line[at]), _FAR)
                line[at] = max(line[at], 0.0)
            exponential(small, shift, bits)
            for at in range(_BLOCK):
                small[at] += 1.0
            # Each factor is 2 at most, so that no product is beyond all numbers.
            half = _BLOCK // 2
            while half > 0:
                for at in range(half):
                    line[at] += line[at + half]
                    small[at] *= small[at + half]
                half //= 2
            totals[draw] += line[0] + np.log(small[0])


@njit(
    "void(f8[:,::1], i8[:,::1], f8[:,::1], f8[:,:,::1], f8[:,:,::1], f8[:,:,:,::1], f8[:,:,::1],"
    "f8[:,:,::1], f8[:,:,::1], f8[:,:,::1], f8[:,:,::1], i8[:,::1], f8[::1])",
    cache=True,
    nogil=True,
    error_model="numpy",
)
def total(  # type: ignore[no-untyped-def]  # noqa: PLR0912 - one loop, compiled once
    rows,
    place,
    density,
    table,
    base,
    precision,
    away,
    constant,
    lean,
    splits,
    later,
    roles,
    totals,
):
    """Add the log likelihood of the records, but for a constant, to the total of each draw.

    Parameters are those of `sfumato.kernels.sampling.gibbs.visit` for one group and one
    component, with the draw as the first axis of all that is drawn.
    """
    wide, columns = rows.shape[1], lean.shape[2]
    levels, size = away.shape[1], away.shape[2]
    residual, left = np.zeros(size), np.zeros(size)
    odds, scores = np.zeros(len(roles)), np.zeros(levels)
    for draw in range(len(totals)):
        for i in range(len(rows)):
            m, c = place[i, 0], place[i, 1]
            for a in range(size):
                line = 0.0
                for w in range(wide):
                    line += base[draw, a, w] * rows[i, w]
                residual[a] = line
            for s in range(splits.shape[1]):
                line = 0.0
                for w in range(columns):
                    line += splits[draw, s, w] * rows[i, w]
                odds[s] = line
            top = -np.inf
            for k in range(levels):
                score = table[draw, c, k] + density[i, k] + constant[draw, m, k]
                for s in range(splits.shape[1]):
                    if roles[s, k] >= 0:
                        line = odds[s] + later[draw, s, k]
                        line = -line if roles[s, k] == 1 else line
                        score -= max(line, 0.0) + np.log1p(np.exp(-abs(line)))
                shift = 0.0
                for w in range(1, columns):
                    shift += lean[draw, k, w] * rows[i, w]
                for a in range(size):
                    left[a] = residual[a] - away[draw, k, a]
                left[size - 1] -= shift
                for a in range(size):
                    line = 0.5 * precision[draw, m, a, a] * left[a]
                    for b in range(a):
                        line += precision[draw, m, a, b] * left[b]
                    score -= line * left[a]
                scores[k] = score
                top = max(top, score)
            sum_of = 0.0
            for k in range(levels):
                sum_of += np.exp(scores[k] - top)
            totals[draw] += top + np.log(sum_of)
