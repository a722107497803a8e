"""Primary suppression: which cells are sensitive by themselves, and how wide they must stay.

A count is sensitive below the threshold; a sum under the dominance rule or the p% rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from sfumato.kernels.arrays import Floats, Integers, Mask
from sfumato.outputs.rules import Rules
from sfumato.outputs.tables.aggregation import Contributions
from sfumato.outputs.tables.lattice import Lattice

_LAST_BIT = 1e-9
"""A share of a count may be a bit too large: 0.9 times 30 is 27."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Layer:
    """One set of additive numbers behind a table: counts, sums, sums of squares.

    Parameters
    ----------
    values : the cells, flat, margins among them.
    low : what the attacker must not be able to rule out from below, where sensitive.
    high : the same from above.
    sensitive : the cells that need this.
    nonnegative : whether everybody knows that no cell is below zero.
    integral : whether everybody knows that cells hold whole numbers, as counts do. Then the other
        tables that protect a cell are made of whole numbers too.
    insiders : for each contributor who is alone in a cell, the cells whose value he knows.
    """

    values: Floats
    low: Floats
    high: Floats
    sensitive: Mask
    nonnegative: bool = True
    integral: bool = False
    insiders: tuple[Integers, ...] = ()


def assess_counts(
    lattice: Lattice, counts: Floats, *, k: int, rules: Rules, few: Mask | None = None
) -> Layer:
    """Counts below the threshold, and empty or full cells where the rules hide them.

    The attacker may rule out neither 0 nor k for a small count: he can be sure neither that
    anybody is there nor that they are few. For a hidden empty cell he may not rule out 1, and for
    a full one not that somebody of its line is elsewhere. `few` are cells in which too few persons
    or groups are, however many records they have: for these he may not rule out k records more or
    less.
    """
    low, high = counts.copy(), counts.copy()
    sensitive = (counts > 0) & (counts < k)
    low[sensitive], high[sensitive] = 0.0, k  # threshold rule
    if few is not None:
        few_units = few & ~sensitive
        low[few_units], high[few_units] = counts[few_units] - k, counts[few_units] + k
        sensitive = sensitive | few_units
    full = find_full_cells(lattice, counts)
    if rules.full == "hide":
        low[full] = np.minimum(low[full], counts[full] - 1)
        sensitive = sensitive | full
    empty = find_empty_cells(lattice, counts)
    if rules.zeros == "hide":
        high[empty] = 1.0
        sensitive = sensitive | empty
    elif rules.full == "hide":
        # A line of zeros beside a hidden cell would show that the cell is full.
        neighbours = empty & _find_neighbours(lattice, full)
        high[neighbours] = 1.0
        sensitive = sensitive | neighbours
    return Layer(values=counts, low=low, high=high, sensitive=sensitive, integral=True)


def find_empty_cells(lattice: Lattice, counts: Floats) -> Mask:
    """Inner cells that nobody is in, although somebody is in each of their levels."""
    empty: Mask = (counts == 0) & (lattice.depth == 0)
    return empty


def find_full_cells(lattice: Lattice, counts: Floats, share: float = 1.0) -> Mask:
    """Inner cells that hold all records of a line of several cells, or this share of them."""
    full = np.zeros(lattice.cells, bool)
    table, inner = counts.reshape(lattice.shape), lattice.depth == 0
    for axis, size in enumerate(lattice.sizes):
        if size > 1 and len(lattice.sizes) > 1:
            total = np.take(table, [size], axis=axis)
            full |= ((table >= share * total - _LAST_BIT) & (table > 0)).ravel() & inner
    return full


def _find_neighbours(lattice: Lattice, cells: Mask) -> Mask:
    """The cells that share a line with one of these."""
    neighbours = np.zeros(lattice.shape, bool)
    table = cells.reshape(lattice.shape)
    for axis in range(len(lattice.sizes)):
        neighbours |= table.any(axis=axis, keepdims=True)
    return neighbours.ravel()


def assess_weights(counts: Layer, weights: Floats) -> Layer:
    """Weighted counts: the same cells, moved as far in proportion as their counts."""
    with np.errstate(divide="ignore", invalid="ignore"):
        mean_weight = np.where(counts.values > 0, weights / counts.values, 0.0)
    # An empty cell moves by the mean weight of all records.
    overall = weights[-1] / counts.values[-1]
    mean_weight = np.where(mean_weight > 0, mean_weight, overall)
    below = mean_weight * (counts.values - counts.low)
    above = mean_weight * (counts.high - counts.values)
    return Layer(
        values=weights,
        low=np.where(counts.sensitive, weights - below, weights),
        high=np.where(counts.sensitive, weights + above, weights),
        sensitive=counts.sensitive,
    )


def assess_sums(
    lattice: Lattice,
    counts: Layer,
    contributions: Contributions,
    *,
    rules: Rules,
    contributors: Integers | None = None,
) -> Layer:
    """Sums that one or a few contributors dominate, and sums over too few records.

    The required width is the one at which the rule would be met (Willenborg & de Waal 2001,
    section 6.3). p% rule: p % of the largest contribution less the sum of all but the two
    largest. Dominance (n, k) rule: what is missing until the n largest make up no more than their
    share. Contributions count by their absolute value. Whoever is alone in a hidden cell knows its
    value; the other cells must stay as wide for him. `contributors` says how many each cell has,
    where they are not its records.
    """
    sizes, largest = contributions.sizes, contributions.largest
    need = np.zeros(len(contributions.totals))
    remainder = sizes - largest[:, :2].sum(axis=1)
    share = rules.p_percent or 0.1
    if rules.p_percent is not None:
        # The second largest contributor estimates the largest by subtracting himself.
        need = np.maximum(need, rules.p_percent * largest[:, 0] - remainder)
    for number, most in rules.dominances:
        need = np.maximum(need, largest[:, :number].sum(axis=1) / most - sizes)
    # A last bit of rounding is no contribution.
    need[need <= 1e-12 * sizes] = 0.0
    # Too few records need a width of their own, also where their values are zero.
    typical = sizes[-1] / max(counts.values[-1], 1.0)
    least = share * np.maximum(largest[:, 0], typical)
    need = np.where(counts.sensitive, np.maximum(need, least), need)
    low = contributions.totals - need
    return Layer(
        values=contributions.totals,
        low=low if contributions.signed else np.maximum(low, 0.0),
        high=contributions.totals + need,
        sensitive=need > 0,
        nonnegative=not contributions.signed,
        insiders=_find_insiders(lattice, counts.values if contributors is None else contributors),
    )


def _find_insiders(lattice: Lattice, counts: Floats | Integers) -> tuple[Integers, ...]:
    """Whoever is alone in a cell knows it, and every margin in which he is alone as well."""
    insiders = []
    for cell in np.flatnonzero((counts == 1) & (lattice.depth == 0)).tolist():
        position = np.unravel_index(cell, lattice.shape)
        ends = [(int(index), size) for index, size in zip(position, lattice.sizes, strict=True)]
        margins = [np.ravel_multi_index(corner, lattice.shape) for corner in product(*ends)]
        insiders.append(np.array([cell for cell in margins if counts[cell] == 1], np.int64))
    return tuple(insiders)
