"""What a cluster tells about a confidential variable: its distance to the whole, its diversity.

The compiled half of `rules`, which makes the tuple `whole` that these functions share.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_ORDERED, _EQUAL, _DISTINCT, _ENTROPY = range(4)
ROUNDING = 1e-12
"""Relative slack of a comparison: a bound that is met exactly must not fail by its last bit."""
_SMALL = 24
"""Up to so many codes are sorted by insertion."""
_LIMB = 60
"""Bits of the lower half of a long sum."""


@njit(cache=True, nogil=True)
def cluster_scores(codes, order, starts, rule, whole):  # type: ignore[no-untyped-def]
    """The t or l of every cluster."""
    out = np.empty(len(starts) - 1)
    widest = 0
    for cluster in range(len(out)):
        widest = max(widest, starts[cluster + 1] - starts[cluster])
    value, count, held = workspace(widest, whole)
    for cluster in range(len(out)):
        first, size = starts[cluster], starts[cluster + 1] - starts[cluster]
        for at in range(size):
            value[at] = codes[order[first + at]]
        runs = tally(value, count, size, held)
        out[cluster] = score(rule, value, count, runs, size, held, whole)
    return out


@njit(cache=True, nogil=True)
def workspace(size, whole):  # type: ignore[no-untyped-def]
    """Room for the codes of a part, their counts, and a count of every code."""
    firsts = whole[5]
    widest = 1
    for column in range(len(firsts) - 1):
        widest = max(widest, firsts[column + 1] - firsts[column])
    return np.empty(size, np.int64), np.empty(size, np.int64), np.zeros(widest, np.int64)


@njit(cache=True, nogil=True)
def keeps(codes, order, first, last, whole, value, count, held):  # type: ignore[no-untyped-def]
    """Whether the records of a part, `order[first:last]`, keep every rule."""
    kinds, columns, limits = whole[1], whole[2], whole[3]
    size = last - first
    for rule in range(len(kinds)):
        row = codes[columns[rule]]
        for at in range(size):
            value[at] = row[order[first + at]]
        runs = tally(value, count, size, held)
        found = score(rule, value, count, runs, size, held, whole)
        if kinds[rule] <= _EQUAL:
            if found > limits[rule] * (1.0 + ROUNDING):
                return False
        elif found < limits[rule] * (1.0 - ROUNDING):
            return False
    return True


@njit(cache=True, nogil=True)
def ascend(items, size):  # type: ignore[no-untyped-def]
    """Sort the first few numbers in place: insertion with shrinking gaps (Ciura 2001, extended)."""
    gap = 1
    while gap < size // 3:
        gap = gap * 9 // 4 + 1
    while gap:
        for at in range(gap, size):
            moved, to = items[at], at
            while to >= gap and items[to - gap] > moved:
                items[to] = items[to - gap]
                to -= gap
            items[to] = moved
        gap = gap * 4 // 9
    return items


@njit(cache=True, nogil=True)
def tally(value, count, size, held):  # type: ignore[no-untyped-def]
    """Sort the codes of a part, leave each once with its count; how many there are.

    `held` must be zero and as long as there are codes; it is left so.
    """
    runs = 0
    if len(held) <= 4 * size and size > _SMALL:
        for at in range(size):
            held[value[at]] += 1
        for code in range(len(held)):
            if held[code]:
                value[runs], count[runs] = code, held[code]
                held[code] = 0
                runs += 1
        return runs
    ascend(value, size)
    for at in range(size):
        if runs and value[runs - 1] == value[at]:
            count[runs - 1] += 1
        else:
            value[runs], count[runs] = value[at], 1
            runs += 1
    return runs


@njit(cache=True, nogil=True)
def score(rule, value, count, runs, size, held, whole):  # type: ignore[no-untyped-def]
    """The t or l of a part whose sorted codes and counts are given."""
    n, kinds, columns, _, ratios, firsts, below, sums, ranked, places, heights, trees, totals = (
        whole
    )
    kind, column = kinds[rule], columns[rule]
    if kind == _ORDERED:
        first, last = firsts[column], firsts[column + 1]
        return moved(
            value, count, runs, size, n, below[first:last],
            sums[first + column : last + column + 1], ranked[column * n : (column + 1) * n],
        )  # fmt: skip
    if kind == _EQUAL:
        codes = firsts[column + 1] - firsts[column]
        far = 0.0
        for level in range(heights[rule]):
            at = places[rule] + level * codes
            far += _varied(value, count, runs, size, n, trees[at:], totals[at:], held)
        return far / heights[rule]
    if kind == _DISTINCT:
        return float(runs)
    if kind == _ENTROPY:
        spread = 0.0
        for run in range(runs):
            spread += count[run] * np.log(count[run])
        return np.exp(np.log(size) - spread / size)
    return _recursive(ascend(count, runs), runs, size, ratios[rule])


@njit(cache=True, nogil=True)
def moved(value, count, runs, size, n, below, sums, ranked):  # type: ignore[no-untyped-def]
    """Ordered distance: sum over the codes of |share at or below it here − in the whole|.

    `below` counts the records of the whole up to each code, `sums` adds those counts up, `ranked`
    has the code of each rank. Between two codes of the part its own share stands still, so the sum
    is a difference of `sums` on either side of the code where the whole overtakes it. All in whole
    numbers; a stretch is cut where the product would leave 64 bits.
    """
    codes = len(below)
    if codes == 1:
        return 0.0
    step = max(1, (1 << _LIMB) // (n * size))
    high, low, here, at = 0, 0, 0, 0
    for run in range(runs + 1):
        end = value[run] if run < runs else codes - 1
        reached = here * n
        turn = ranked[(reached + size - 1) // size - 1] if here else 0
        while at < end:
            to = min(end, at + step)
            cross = min(max(turn, at), to)
            low += (cross - at) * reached - size * (sums[cross] - sums[at])
            low += size * (sums[to] - sums[cross]) - (to - cross) * reached
            high += low >> _LIMB
            low &= (1 << _LIMB) - 1
            at = to
        if run < runs:
            here += count[run]
    return (high * 2.0**_LIMB + low) / (float(n) * size * (codes - 1))


@njit(cache=True, nogil=True)
def _varied(value, count, runs, size, n, groups, totals, held):  # type: ignore[no-untyped-def]
    """Equal distance on groups of codes: what the part has too much of, as a share."""
    for run in range(runs):
        held[groups[value[run]]] += count[run]
    over = 0
    for run in range(runs):
        group = groups[value[run]]
        over += max(0, n * held[group] - size * totals[value[run]] if held[group] else 0)
        held[group] = 0
    return over / (float(n) * size)


@njit(cache=True, nogil=True)
def _recursive(ascending, runs, size, ratio):  # type: ignore[no-untyped-def]
    """The largest l with: the commonest count < ratio × the counts from the l-th commonest on."""
    commonest, rest, found = ascending[runs - 1], size, 0
    for place in range(runs):
        if commonest < ratio * rest:
            found = place + 1
        rest -= ascending[runs - 1 - place]
    return float(found)
