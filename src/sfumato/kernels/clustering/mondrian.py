"""Clusters of at least k similar records, by cutting the data in two again and again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from sfumato.kernels.arrays import AnyIntegers, Integers
from sfumato.kernels.clustering.cuts import partition
from sfumato.kernels.clustering.distances import ROUNDING, cluster_scores, keeps, workspace
from sfumato.kernels.clustering.orders import grouped
from sfumato.kernels.clustering.rules import DIVERSITY, Rule, Whole, prepared

Values = Sequence[npt.NDArray[Any] | None]
_KEY_BITS = 63


def mondrian(
    codes: AnyIntegers,
    k: int,
    *,
    ordered: Sequence[bool],
    values: Values | None = None,
    sensitive: AnyIntegers | None = None,
    rules: Sequence[Rule] = (),
) -> tuple[Integers, Integers]:
    """Clusters of at least k records with narrow ranges, as (order, starts).

    `order` lists the records cluster after cluster, cluster i being `order[starts[i]:starts[i+1]]`.

    Records with the same values in all variables always stay together. Where k or more of them
    share all values they are a cluster of their own, untouched, unless the records left over would
    be too few (or break a rule): then those nearest to the others join them. What is left is cut
    at the variable in which the part is widest, between two values beside the median; where that
    leaves fewer than k on a side the next widest variable is tried. Levels of a nominal variable
    are dealt to two sides of similar size; they have no order. A part that no variable can cut is
    a cluster. With rules, a cut counts only if both sides keep all of them.

    Only values decide, so the clusters do not depend on the order of the records. Time grows as
    n log n, memory as n (LeFevre, DeWitt & Ramakrishnan 2006, "Mondrian multidimensional
    k-anonymity", strict cuts).

    Parameters
    ----------
    codes : a row per record, a column per variable, 0 up to the number of levels less one; for
        ordered variables in their order.
    k : the fewest records in a cluster.
    ordered : per variable, whether its codes have an order.
    values : per ordered variable, the number that each code stands for; widths are then measured
        in these units, not in codes.
    sensitive : confidential codes, a column per variable.
    rules : what every cluster must keep about them.

    Examples
    --------
    >>> order, starts = mondrian(np.array([[1], [9], [2], [8]]), 2, ordered=[True])
    >>> order.tolist(), starts.tolist()
    ([0, 2, 3, 1], [0, 2, 4])
    """
    codes = np.asarray(codes)
    _check(codes, k, ordered, sensitive, rules)
    secret, whole = prepared(_none(codes) if sensitive is None else np.asarray(sensitive), rules)
    _check_possible(rules, secret, whole)
    order, starts = distinct_rows(codes)
    scale = _scale(codes, ordered, values)
    alone = _untouched(codes, order, starts, k, scale, secret, whole)
    groups = np.flatnonzero(alone)
    rest = np.flatnonzero(~alone)
    kept, kept_starts = _members(order, starts, groups)
    if not len(rest):
        return kept, kept_starts
    if rules:  # each record counts by itself
        order, _ = _members(order, starts, rest)
        starts, rest = np.arange(len(order) + 1), np.arange(len(order))
    cut, cut_starts = _cut_up(codes, order, starts, rest, k, scale, secret, whole)
    return np.concatenate([kept, cut]), np.concatenate([kept_starts, len(kept) + cut_starts[1:]])


@dataclass(frozen=True)
class _Scale:
    """Units of the variables: which are nominal, their levels, what a code is worth."""

    nominal: npt.NDArray[np.bool_]
    levels: Integers
    scaled: npt.NDArray[np.float64]
    firsts: Integers


def _check(
    codes: AnyIntegers,
    k: int,
    ordered: Sequence[bool],
    sensitive: AnyIntegers | None,
    rules: Sequence[Rule],
) -> None:
    if codes.ndim != 2 or len(ordered) != codes.shape[1] or not codes.shape[1]:  # noqa: PLR2004
        raise ValueError("Codes need a column per variable, and `ordered` an entry for each.")
    if k < 1 or len(codes) < k:
        raise ValueError(f"Clusters of {k} records need at least as many: there are {len(codes)}.")
    if codes.min() < 0 or (sensitive is not None and sensitive.min() < 0):
        raise ValueError("Codes start at 0.")
    if rules and sensitive is None:
        raise ValueError("Rules need confidential codes.")


def _check_possible(rules: Sequence[Rule], secret: npt.NDArray[np.int32], whole: Whole) -> None:
    """Refuse a diversity that even all records together do not have; every t is possible."""
    everyone = np.arange(secret.shape[1]), np.array([0, secret.shape[1]])
    for at, rule in enumerate(rules):
        best = cluster_scores(secret[rule.column], *everyone, at, whole)[0]
        if rule.kind in DIVERSITY and best < rule.limit * (1 - ROUNDING):
            raise ValueError(
                f"No cluster can reach a diversity ({rule.kind}) of {rule.limit:g}: "
                f"all records together have {best:.6g}."
            )


def _none(codes: AnyIntegers) -> AnyIntegers:
    return np.zeros((len(codes), 0), np.int64)


def _scale(codes: AnyIntegers, ordered: Sequence[bool], values: Values | None) -> _Scale:
    lowest, highest = _extremes(codes)
    levels = highest.astype(np.int64) + 1
    worth = []
    for at, count in enumerate(levels):
        given = values[at] if values is not None and ordered[at] else None
        units = np.arange(count) if given is None else np.asarray(given)[:count]
        units = units.astype(np.float64)
        span = float(units[-1] - units[lowest[at]])
        worth.append(units / span if span > 0 else units * 0.0)
    firsts = np.concatenate(([0], np.cumsum(levels)))
    return _Scale(~np.asarray(ordered, np.bool_), levels, np.concatenate(worth), firsts)


def distinct_rows(codes: AnyIntegers) -> tuple[Integers, Integers]:
    """Records with equal rows together, in an order only values decide, as (order, starts)."""
    key, free = np.zeros(len(codes), np.int64), _KEY_BITS
    for at, most in enumerate(_extremes(codes)[1]):
        bits = int(most).bit_length()
        if bits > free:  # number what there is so far, which needs fewer bits
            key = np.unique(key, return_inverse=True)[1].ravel().astype(np.int64)
            free = _KEY_BITS - int(key.max()).bit_length()
        _append(key, codes, at, bits)
        free -= bits
    return grouped(key)


@njit(cache=True, nogil=True)
def _append(key, codes, column, bits):  # type: ignore[no-untyped-def]
    for row in range(len(key)):
        key[row] = (key[row] << bits) | codes[row, column]


@njit(cache=True, nogil=True)
def _extremes(codes):  # type: ignore[no-untyped-def]
    """The lowest and the highest code of each variable."""
    low, high = codes[0].copy(), codes[0].copy()
    for row in range(1, len(codes)):
        for column in range(codes.shape[1]):
            low[column] = min(low[column], codes[row, column])
            high[column] = max(high[column], codes[row, column])
    return low, high


def _untouched(
    codes: AnyIntegers,
    order: Integers,
    starts: Integers,
    k: int,
    scale: _Scale,
    secret: npt.NDArray[np.int32],
    whole: Whole,
) -> npt.NDArray[np.bool_]:
    """Which groups of equal rows are clusters of their own."""
    sizes = np.diff(starts)
    alone = sizes >= k
    if len(whole[1]):
        alone[alone] = _kept(secret, order, *_bounds(starts, np.flatnonzero(alone)), whole)
    back = 1
    free = np.flatnonzero(alone)
    while True:
        rest = np.flatnonzero(~alone)
        count = int(sizes[rest].sum())
        if not count or (count >= k and not len(whole[1])):
            return alone
        if count >= k:
            left, _ = _members(order, starts, rest)
            if _kept(secret, left, np.array([0]), np.array([count]), whole)[0]:
                return alone
        if back == 1:
            near = _nearness(codes, order[starts[rest]], order[starts[free]], sizes[free], scale)
            free = free[np.argsort(near, kind="stable")]
        alone[free[:back]] = False
        back *= 2


def _nearness(
    codes: AnyIntegers, rest: Integers, rows: Integers, sizes: Integers, scale: _Scale
) -> Any:
    """What it would cost each group to be one cluster with all that is left over."""
    wide = np.zeros(len(rows))
    for at, first in enumerate(scale.firsts[:-1]):
        others, own = codes[rest, at], codes[rows, at]
        if scale.nominal[at]:
            there = np.unique(others)
            wide += (len(there) - np.isin(own, there)) / max(1, scale.levels[at] - 1)
        else:
            high, low = np.maximum(own, others.max()), np.minimum(own, others.min())
            wide += scale.scaled[first + high] - scale.scaled[first + low]
    return wide * sizes


def _bounds(starts: Integers, groups: Integers) -> tuple[Integers, Integers]:
    return starts[groups], starts[groups + 1]


def _members(order: Integers, starts: Integers, groups: Integers) -> tuple[Integers, Integers]:
    """The records of some groups, group after group, as (order, starts)."""
    out: tuple[Integers, Integers] = _copied(order, starts, groups)
    return out


@njit(cache=True, nogil=True)
def _copied(order, starts, groups):  # type: ignore[no-untyped-def]
    ends = np.zeros(len(groups) + 1, np.int64)
    for at in range(len(groups)):
        ends[at + 1] = ends[at] + starts[groups[at] + 1] - starts[groups[at]]
    out = np.empty(ends[-1], np.int64)
    for at in range(len(groups)):
        first = starts[groups[at]] - ends[at]
        for to in range(ends[at], ends[at + 1]):
            out[to] = order[first + to]
    return out, ends


@njit(cache=True, nogil=True)
def _kept(secret, order, firsts, lasts, whole):  # type: ignore[no-untyped-def]
    """Which stretches of the order keep all rules."""
    most = 0
    for at in range(len(firsts)):
        most = max(most, lasts[at] - firsts[at])
    value, count, held = workspace(most, whole)
    out = np.empty(len(firsts), np.bool_)
    for at in range(len(firsts)):
        out[at] = keeps(secret, order, firsts[at], lasts[at], whole, value, count, held)
    return out


@njit(cache=True, nogil=True)
def _columns(codes, rows):  # type: ignore[no-untyped-def]
    """The codes of some records, variable after variable."""
    out = np.empty((codes.shape[1], len(rows)), np.int32)
    for at in range(len(rows)):
        for column in range(codes.shape[1]):
            out[column, at] = codes[rows[at], column]
    return out


def _cut_up(
    codes: AnyIntegers,
    order: Integers,
    starts: Integers,
    rest: Integers,
    k: int,
    scale: _Scale,
    secret: npt.NDArray[np.int32],
    whole: Whole,
) -> tuple[Integers, Integers]:
    """Cut groups of equal rows, each counting with its size; the clusters of their records."""
    first = order[starts[rest]]
    columns = _columns(codes, first)
    # With rules a group is one record, and the compiled code needs to know which.
    ids = first.copy() if len(whole[1]) else rest.copy()
    weights = np.diff(starts)[rest]
    ends = np.empty(len(rest), np.int64)
    clusters = partition(
        columns, ids, weights, scale.nominal, scale.levels, scale.scaled, scale.firsts,
        k, secret, whole, ends,
    )  # fmt: skip
    edges = np.concatenate(([0], ends[:clusters]))
    if len(whole[1]):
        return ids, edges
    records, inner = _members(order, starts, ids)
    return records, inner[edges]
