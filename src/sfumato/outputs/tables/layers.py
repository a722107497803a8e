"""What the cells of a table hold, and which of them are sensitive."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from sfumato.kernels.arrays import Floats, Integers, Mask
from sfumato.outputs.rules import Rules
from sfumato.outputs.tables.lattice import Lattice
from sfumato.outputs.tables.magnitudes import Contributions


@dataclass(frozen=True, eq=False, kw_only=True)
class Layer:
    """One set of additive numbers behind a table: counts, sums, sums of squares.

    Parameters
    ----------
    values : the cells, flat, margins among them.
    low : what the attacker must not be able to rule out from below, where sensitive.
    high : the same from above.
    sensitive : the cells that need this.
    nonnegative : whether everybody knows that no cell is below nothing.
    whole : whether everybody knows that cells hold whole numbers, as counts do. Then the other
        tables that protect a cell are made of whole numbers too.
    insiders : for each contributor who is alone in a cell, the cells whose value he knows.
    """

    values: Floats
    low: Floats
    high: Floats
    sensitive: Mask
    nonnegative: bool = True
    whole: bool = False
    insiders: tuple[Integers, ...] = ()


def count_layer(lattice: Lattice, counts: Floats, *, k: int, rules: Rules) -> Layer:
    """Counts below the threshold, and empty or full cells where the rules hide them.

    Of a small count the attacker may rule out neither 0 nor k: he can be sure neither that
    anybody is there nor that they are few. Of a hidden empty cell he may not rule out 1, and of
    a full one not that somebody of its line is elsewhere.
    """
    low, high = counts.copy(), counts.copy()
    sensitive = (counts > 0) & (counts < k)
    low[sensitive], high[sensitive] = 0.0, k
    full = full_cells(lattice, counts)
    if rules.full == "hide":
        low[full] = np.minimum(low[full], counts[full] - 1)
        sensitive = sensitive | full
    empty = empty_cells(lattice, counts)
    if rules.zeros == "hide":
        high[empty] = 1.0
        sensitive = sensitive | empty
    elif rules.full == "hide":
        beside = empty & _beside(lattice, full)
        high[beside] = 1.0
        sensitive = sensitive | beside
    return Layer(values=counts, low=low, high=high, sensitive=sensitive, whole=True)


def empty_cells(lattice: Lattice, counts: Floats) -> Mask:
    """Cells inside that nobody is in, although somebody is in each of their levels."""
    found: Mask = (counts == 0) & (lattice.depth == 0)
    return found


def full_cells(lattice: Lattice, counts: Floats) -> Mask:
    """Cells inside that hold all records of a line of several cells."""
    found = np.zeros(lattice.cells, bool)
    table, inside = counts.reshape(lattice.shape), lattice.depth == 0
    for axis, size in enumerate(lattice.sizes):
        if size > 1 and len(lattice.sizes) > 1:
            total = np.take(table, [size], axis=axis)
            found |= ((table == total) & (table > 0)).ravel() & inside
    return found


def _beside(lattice: Lattice, cells: Mask) -> Mask:
    """The cells that share a line with one of these."""
    found = np.zeros(lattice.shape, bool)
    table = cells.reshape(lattice.shape)
    for axis in range(len(lattice.sizes)):
        found |= table.any(axis=axis, keepdims=True)
    return found.ravel()


def weight_layer(counts: Layer, weights: Floats) -> Layer:
    """Weighted counts: the same cells, moved as far in proportion as their counts."""
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(counts.values > 0, weights / counts.values, 0.0)
    typical = weights[-1] / counts.values[-1]
    each = np.where(each > 0, each, typical)
    return Layer(
        values=weights,
        low=np.where(counts.sensitive, weights - each * (counts.values - counts.low), weights),
        high=np.where(counts.sensitive, weights + each * (counts.high - counts.values), weights),
        sensitive=counts.sensitive,
    )


def sum_layer(lattice: Lattice, counts: Layer, given: Contributions, *, rules: Rules) -> Layer:
    """Sums that one or a few contributors make up, and sums over too few records.

    The width that is asked for is the one at which the rule would be met (Willenborg & de Waal
    2001, section 6.3): p % of the largest contribution less what the others add up to; or what
    is missing until the n largest are no more than their share. Contributions count without
    their sign. Whoever is alone in a hidden cell knows its value; the others must stay as wide
    for him.
    """
    need = np.zeros(len(given.totals))
    rest = given.sizes - given.largest[:, :2].sum(axis=1)
    share = rules.p_percent or 0.1
    if rules.p_percent is not None:
        need = np.maximum(need, rules.p_percent * given.largest[:, 0] - rest)
    if rules.dominance is not None:
        count, most = rules.dominance
        need = np.maximum(need, given.largest[:, :count].sum(axis=1) / most - given.sizes)
    # A last bit of rounding is no contribution.
    need[need <= 1e-12 * given.sizes] = 0.0
    few = counts.sensitive
    typical = given.sizes[-1] / max(counts.values[-1], 1.0)
    need = np.where(few, np.maximum(need, share * np.maximum(given.largest[:, 0], typical)), need)
    sensitive: Mask = need > 0
    low = given.totals - need
    return Layer(
        values=given.totals,
        low=low if given.signed else np.maximum(low, 0.0),
        high=given.totals + need,
        sensitive=sensitive,
        nonnegative=not given.signed,
        insiders=_insiders(lattice, counts.values),
    )


def _insiders(lattice: Lattice, counts: Floats) -> tuple[Integers, ...]:
    """Who is alone in a cell knows it, and every margin in which he is alone as well."""
    found = []
    for cell in np.flatnonzero((counts == 1) & (lattice.depth == 0)).tolist():
        place = np.unravel_index(cell, lattice.shape)
        each = [(int(at), size) for at, size in zip(place, lattice.sizes, strict=True)]
        sums = [np.ravel_multi_index(one, lattice.shape) for one in product(*each)]
        found.append(np.array([one for one in sums if counts[one] == 1], np.int64))
    return tuple(found)
