"""Least protection over all combinations: one round for each variable that may come first.

In a round all rows are split by that variable. The parts are independent of each other, so threads
share them out; no two touch the same row.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.kernels.arrays import AnyIntegers
from sfumato.kernels.lattice.groups import keys
from sfumato.kernels.lattice.limits import Limits
from sfumato.kernels.lattice.walk import split_first, walk

Say = Callable[[str, int, int], None]

_NARROW, _WIDE = 26, 56
"""Bits of a combination in a word that has its size above: 32 bits where that will do."""
_PARALLEL = 1 << 21
"""Rows times combinations from which threads pay."""
_LARGE = 1 << 16
"""Rows from which it pays to put them in order for every round."""
_PARTS = 8
"""Pieces of work per thread and round, so that none waits long for the others."""


@dataclass(frozen=True)
class Asked:
    """The question: sensitive and known columns, the limits and both thresholds."""

    sensitive: tuple[int, ...]
    known: tuple[int, ...]
    limits: Limits
    p: Fraction
    q: Fraction

    @property
    def limited(self) -> bool:
        """Whether some combination is left out."""
        return sum(self.limits.sizes(self.known)) != (1 << len(self.known)) - 1


@dataclass(frozen=True, eq=False)
class Least:
    """Arrays of sensitive variables x rows; None where the least is at maximum information."""

    protective: AnyIntegers
    peers: AnyIntegers
    mask: AnyIntegers
    breach: AnyIntegers
    fewest: AnyIntegers | None
    alternatives: AnyIntegers | None


def minima(codes: AnyIntegers, counts: AnyIntegers, asked: Asked, say: Say | None) -> Least:
    """The least protection of every row over all combinations within the limits."""
    bits = _NARROW if codes.shape[1] <= _NARROW else _WIDE
    shape, word = (len(codes), len(asked.sensitive)), np.int32 if bits == _NARROW else np.int64
    share, smallest = np.empty((*shape, 2), np.int32), np.full(shape, np.iinfo(word).max, word)
    share[:] = (1, 0)
    least = (share, smallest, np.empty(len(codes), word))
    far, none = np.iinfo(np.int32).max, np.empty((0, 0), np.int32)
    more = (
        np.full(shape, far, np.int32) if asked.limited else none,
        np.full(shape, far, np.int32) if asked.limited or asked.q else none,
        np.full(shape, np.iinfo(word).max, word) if asked.p else np.empty((0, 0), word),
    )
    rows = _rounds(codes, counts, asked, (bits, least, more), say)
    combination = word((1 << bits) - 1)
    back = np.empty_like(rows)
    back[rows] = np.arange(len(rows))
    protective, peers, words = (one.T[:, back] for one in (share[..., 0], share[..., 1], smallest))
    fewest, alternatives, breach = (one.T[:, back] if len(one) else None for one in more)
    if breach is None:
        breach = np.where(protective == 0, words, word(0))
    breach[breach == np.iinfo(word).max] = 0
    return Least(protective, peers, words & combination, breach & combination, fewest, alternatives)


def _rounds(
    codes: AnyIntegers, counts: AnyIntegers, asked: Asked, results: tuple[Any, ...], say: Say | None
) -> AnyIntegers:
    """Walk through all combinations; the order in which the results now have the rows."""
    bits, least, more = results
    columns, known, limits = _order(codes, asked), len(asked.known), asked.limits
    table, size = _compact(codes, columns)
    tree = _tree(columns, asked, size)
    least[2][:] = tree[-1]
    shares = [one for share in (asked.p, asked.q) for one in share.as_integer_ratio()]
    bounds = (limits.most, limits.dearest, *shares, bits)
    below = [limits.below(columns[at], columns[at + 1 : known]) for at in range(known)]
    total, done = len(codes) * sum(below), 0
    rows, weights = np.arange(len(codes)), counts.astype(np.int32)
    spare = np.empty(len(codes), np.uint32)
    workers = (os.cpu_count() or 1) if total >= _PARALLEL else 1
    with ThreadPoolExecutor(workers) as pool:
        for first in np.flatnonzero(below).tolist():
            if first == 0 or len(codes) >= _LARGE:
                # Rows that stay together longest lie together, so that the cache holds them.
                sorted_ = np.argsort(keys(codes, columns[first:])[rows], kind="stable")
                for one in (rows, table, weights, *least, *more):
                    one[:] = one[sorted_] if len(one) else one
            order, starts = split_first(codes[rows, columns[first]])
            fixed = (order, spare, first, (table, weights), tree, bounds, least, more)
            running = {
                pool.submit(walk, groups, *fixed): int((groups[:, 1] - groups[:, 0]).sum())
                for groups in _parts(starts, len(codes) // (_PARTS * workers))
            }
            for part in as_completed(running):
                part.result()
                done += running[part] * below[first]
                if say is not None:
                    say("combinations", done, total)
    return rows


def _tree(
    columns: list[int], asked: Asked, size: int
) -> tuple[AnyIntegers, AnyIntegers, AnyIntegers, int, int, int]:
    """The columns as the walk wants them."""
    place = {column: at for at, column in enumerate(asked.sensitive)}
    return (
        np.array([place.get(column, -1) for column in columns]),
        np.array([1 << column for column in columns]),
        asked.limits.costs[columns],
        len(asked.known),
        size,
        sum(1 << at for at, column in enumerate(columns) if column in place),
    )


def _order(codes: AnyIntegers, asked: Asked) -> list[int]:
    """The known columns, those that split most first, so that groups are soon small; the rest."""
    agree = {one: int((np.bincount(codes[:, one]) ** 2).sum()) for one in asked.known}
    rest = [one for one in asked.sensitive if one not in agree]
    return [*sorted(asked.known, key=lambda one: (agree[one], one)), *rest]


def _compact(codes: AnyIntegers, columns: Sequence[int]) -> tuple[AnyIntegers, int]:
    """The columns in this order, no code in two of them; in few bytes, and how many codes."""
    sizes = [int(codes[:, column].max()) + 1 for column in columns]
    kind = np.uint16 if sum(sizes) <= np.iinfo(np.uint16).max else np.uint32
    out = np.empty((len(codes), len(columns)), kind)
    for at, column in enumerate(columns):
        np.add(codes[:, column], sum(sizes[:at]), out=out[:, at], casting="unsafe")
    return out, sum(sizes)


def _parts(starts: AnyIntegers, enough: int) -> Iterator[AnyIntegers]:
    """Groups that are not empty, bundled until there are enough rows."""
    groups = np.column_stack([starts[:-1], starts[1:]])
    groups = groups[groups[:, 0] < groups[:, 1]]
    first = 0
    for at in range(len(groups)):
        if groups[at, 1] - groups[first, 0] >= enough or at == len(groups) - 1:
            yield groups[first : at + 1]
            first = at + 1
