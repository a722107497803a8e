"""Rules that clusters must keep about confidential variables: t-closeness, l-diversity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import Floats, Integers
from sfumato.kernels.clustering.distances import cluster_scores

Kind = Literal["ordered", "equal", "distinct", "entropy", "recursive"]

_KINDS: tuple[Kind, ...] = ("ordered", "equal", "distinct", "entropy", "recursive")
"""As numbered in `distances`."""
DIVERSITY = _KINDS[2:]
"""Those where more is safer."""


@dataclass(frozen=True)
class Rule:
    """What every cluster must keep about one confidential variable.

    kind : "ordered" or "equal" is t-closeness: the earth mover's distance between the cluster and
        the whole is at most `limit`. "distinct", "entropy" or "recursive" is l-diversity: distinct
        values, the exponential of their entropy, or the l of (c, l) is at least `limit`.
    limit : t or l.
    column : which column of the confidential codes.
    c : of recursive diversity: the commonest value is rarer than c times those from the l-th on.
    tree : of "equal" with a hierarchy: a row per level above the values, a group number for each
        code; the root is left out. Two values are as far apart as their first common level is high.
    """

    kind: Kind
    limit: float
    column: int = 0
    c: float = 1.0
    tree: npt.NDArray[np.integer[Any]] | None = None


Whole = tuple[
    int,
    Integers,
    Integers,
    Floats,
    Floats,
    Integers,
    Integers,
    Integers,
    Integers,
    Integers,
    Integers,
    Integers,
    Integers,
]
"""The rules and the whole data as plain arrays, for the compiled functions."""


def prepared(
    sensitive: npt.NDArray[np.integer[Any]], rules: Sequence[Rule]
) -> tuple[npt.NDArray[np.int32], Whole]:
    """The codes, a row per variable and only codes that occur, and what the rules compare with."""
    sensitive = sensitive.reshape(len(sensitive), -1)
    codes = np.empty((sensitive.shape[1], len(sensitive)), np.int32)
    counts, seen = [], []
    for at, column in enumerate(sensitive.T):
        found, inverse, count = np.unique(column, return_inverse=True, return_counts=True)
        codes[at] = inverse.ravel()
        counts.append(count)
        seen.append(found)
    return codes, compared(len(sensitive), counts, seen, rules)


def compared(
    n: int, counts: Sequence[Integers], seen: Sequence[npt.NDArray[Any]], rules: Sequence[Rule]
) -> Whole:
    """The whole data as the rules need it: how often each of the codes that occur does so."""
    below = [np.cumsum(count, dtype=np.int64) for count in counts]
    trees = [_tree(rule, seen[rule.column]) for rule in rules]
    totals = [
        np.bincount(level, counts[rule.column]).astype(np.int64)[level]
        for rule, tree in zip(rules, trees, strict=True)
        for level in tree
    ]
    return (
        n,
        np.array([_KINDS.index(rule.kind) for rule in rules], np.int64),
        np.array([rule.column for rule in rules], np.int64),
        np.array([rule.limit for rule in rules], np.float64),
        np.array([rule.c for rule in rules], np.float64),
        _firsts([len(count) for count in counts]),
        _joined(below),
        _joined([np.concatenate(([0], np.cumsum(count))) for count in below]),
        _joined([np.repeat(np.arange(len(count)), count) for count in counts]),
        _firsts([tree.size for tree in trees]),
        np.array([len(tree) for tree in trees], np.int64),
        _joined([tree.ravel() for tree in trees]),
        _joined(totals),
    )


def _tree(rule: Rule, seen: npt.NDArray[Any]) -> Integers:
    """The groups of the codes that occur, at every level; the values themselves are the lowest."""
    if rule.kind != "equal":
        return np.empty((0, len(seen)), np.int64)
    levels = [np.arange(len(seen))]
    if rule.tree is not None:
        levels += [np.unique(row[seen], return_inverse=True)[1].ravel() for row in rule.tree]
    return np.array(levels, np.int64)


def _firsts(lengths: Sequence[int]) -> Integers:
    return np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))).astype(np.int64)


def _joined(arrays: Sequence[npt.NDArray[Any]]) -> Integers:
    return np.concatenate([np.empty(0, np.int64), *arrays]).astype(np.int64)


def achieved_t(
    sensitive: npt.NDArray[np.integer[Any]],
    order: Integers,
    starts: Integers,
    kind: Literal["ordered", "equal"] = "ordered",
    tree: npt.NDArray[np.integer[Any]] | None = None,
) -> Floats:
    """The earth mover's distance of every cluster to the whole, for one confidential variable.

    "ordered": the sum of the absolute differences of the two cumulative distributions over the m
    values that occur, divided by m − 1. "equal": the total variation; with a `tree`, its mean over
    the levels (Li, Li & Venkatasubramanian 2007, section 4).

    Examples
    --------
    >>> achieved_t(np.array([0, 1, 2, 3]), np.arange(4), np.array([0, 2, 4])).round(3).tolist()
    [0.333, 0.333]
    """
    return scores(sensitive, order, starts, Rule(kind, 0.0, tree=tree))


def achieved_l(
    sensitive: npt.NDArray[np.integer[Any]],
    order: Integers,
    starts: Integers,
    kind: Literal["distinct", "entropy", "recursive"] = "distinct",
    c: float = 1.0,
) -> Floats:
    """The diversity of every cluster: the largest l that it keeps, 0 where it keeps none.

    Examples
    --------
    >>> achieved_l(np.array([0, 0, 0, 3]), np.arange(4), np.array([0, 2, 4])).tolist()
    [1.0, 2.0]
    """
    return scores(sensitive, order, starts, Rule(kind, 0.0, c=c))


def scores(
    sensitive: npt.NDArray[np.integer[Any]], order: Integers, starts: Integers, rule: Rule
) -> Floats:
    """The t or l of every cluster."""
    codes, whole = prepared(sensitive, [rule])
    found: Floats = cluster_scores(codes[rule.column], order, starts, 0, whole)
    return found
