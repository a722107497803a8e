"""What a site hides or joins before anything leaves: every count that is shown is at least k.

Bins along one variable are joined until each holds enough, so that none is lost. Cells of two
variables are hidden. Hidden counts must not follow from totals: the total of all records is always
known, and those of rows and columns are where the request asks for them too. So wherever a count is
hidden, at least one more is hidden beside it, and together they are at least k.
"""

from __future__ import annotations

import numpy as np

from sfumato.kernels.arrays import Integers, Mask
from sfumato.outputs.output import OutputRefused

_ALONE = 2


def hide_small_counts(
    counts: Integers, k: int, *, rows: bool = False, columns: bool = False
) -> Integers:
    """The counts with 0 where they are below k, or needed to hide those that are.

    Parameters
    ----------
    counts : in the cells of two variables.
    k : the least count that is shown.
    rows, columns : whether the total of each row, or column, is known from elsewhere.

    Examples
    --------
    >>> hide_small_counts(np.array([[1, 7], [30, 20]]), 3).tolist()
    [[0, 0], [30, 20]]
    >>> hide_small_counts(np.array([[1, 7], [30, 20]]), 3, columns=True).tolist()
    [[0, 0], [0, 0]]
    """
    hidden = (counts > 0) & (counts < k)
    while True:
        before = hidden.sum()
        # A flat view: what is hidden there is hidden in the grid.
        lines = [(counts.ravel(), hidden.reshape(-1))]
        lines += list(zip(counts, hidden, strict=True)) if rows else []
        lines += list(zip(counts.T, hidden.T, strict=True)) if columns else []
        for line, mask in lines:
            _hide_more(line, mask, k)
        if hidden.sum() == before:
            return np.where(hidden, 0, counts)


def _hide_more(counts: Integers, hidden: Mask, k: int) -> None:
    """Hide the smallest counts of a line until those that are hidden protect one another."""
    while hidden.any() and (hidden.sum() < _ALONE or counts[hidden].sum() < k):
        shown = np.flatnonzero(~hidden & (counts > 0))
        if not len(shown):
            return
        hidden[shown[np.argmin(counts[shown])]] = True


def join_small_bins(counts: Integers, k: int) -> list[int]:
    """The edges of bins that hold none or at least k, as positions among those that were agreed.

    The smallest bin is joined with the next one that holds records, on the side where that is
    nearer, then where it is smaller. Empty bins beyond stay empty.

    Examples
    --------
    >>> join_small_bins(np.array([0, 2, 0, 9, 8, 0]), 3)
    [0, 1, 4, 5, 6]
    """
    if 0 < counts.sum() < k:
        raise OutputRefused(f"Fewer than {k} records are to be shown.", hint="take larger groups.")
    edges = list(range(len(counts) + 1))
    sums = counts.tolist()
    while small := [count for count in sums if 0 < count < k]:
        index = sums.index(min(small))
        filled = [other for other, count in enumerate(sums) if count and other != index]
        nearest = min(filled, key=lambda other: (abs(other - index), sums[other], other))
        first, last = sorted((index, nearest))
        sums[first : last + 1] = [sum(sums[first : last + 1])]
        del edges[first + 1 : last + 1]
    return edges


def choose_groups(sizes: Integers, fewest: int, k: int) -> Mask:
    """Which groups are large enough; more are left out where the rest would tell a small one.

    Examples
    --------
    >>> choose_groups(np.array([2, 40, 90]), 10, 3).tolist()
    [False, False, True]
    >>> choose_groups(np.array([8, 40, 90]), 10, 3).tolist()
    [False, True, True]
    """
    chosen = sizes >= fewest
    while 0 < sizes[~chosen].sum() < k and chosen.any():
        chosen[np.flatnonzero(chosen)[np.argmin(sizes[chosen])]] = False
    if not chosen.any():
        raise OutputRefused("No group has enough records.", hint="use broader groups, or none.")
    return np.asarray(chosen)


def merge_intervals(events: Integers, ends: Integers, k: int) -> list[int]:
    """Where intervals of time end, so that each holds no event or k, and no end without or k.

    Parameters
    ----------
    events, ends : in each step of time.
    k : the least number that is shown.

    Examples
    --------
    >>> merge_intervals(np.array([0, 4, 1, 2, 0]), np.array([0, 0, 3, 0, 3]), 3)
    [2, 4, 5]
    """
    stops: list[int] = []
    waiting = np.zeros(2, np.int64)
    for step, counts in enumerate(zip(events.tolist(), ends.tolist(), strict=True), start=1):
        waiting += counts
        if waiting.any() and _are_publishable(waiting, k):
            stops.append(step)
            waiting[:] = 0
    if waiting.any():
        # What is left joins the interval before, and if need be those before that.
        last = len(events)
        while stops and not _are_publishable(waiting, k):
            start = stops[-2] if len(stops) > 1 else 0
            waiting += (events[start : stops[-1]].sum(), ends[start : stops[-1]].sum())
            stops.pop()
        if not _are_publishable(waiting, k):
            raise OutputRefused(
                f"There are fewer than {k} events, or fewer than {k} ends without one.",
                hint="take larger groups, or a longer time.",
            )
        stops.append(last)
    return stops


def _are_publishable(counts: Integers, k: int) -> bool:
    return bool(((counts == 0) | (counts >= k)).all())
