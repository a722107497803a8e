"""What the values in each cell of a table add up to, and who gives most of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.engines.summaries import exact_sum
from sfumato.errors import DataError
from sfumato.kernels.arrays import Floats, Integers
from sfumato.outputs.tables.gathered import Gathered
from sfumato.outputs.tables.lattice import Lattice
from sfumato.outputs.tables.quantiles import grid_of, quantiles_of
from sfumato.progress import current_progress

QUANTILE = "q"


@dataclass(frozen=True, eq=False, kw_only=True)
class Contributions:
    """Additive numbers of the cells, and the largest contributions to each.

    Parameters
    ----------
    totals : the sum of each cell.
    sizes : the sum of the contributions without their signs.
    largest : the largest of these, in falling order, one row a cell.
    signed : whether some contribution is negative.
    """

    totals: Floats
    sizes: Floats
    largest: Floats
    signed: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class Magnitudes:
    """Everything a table of values needs, margins among the cells.

    Parameters
    ----------
    records : how many records with a value each cell has.
    weights : what they weigh together.
    sums : of the values, weighted.
    squares : of their squares, weighted.
    cases : of a variable of two values, how many records of each cell have the larger one.
    alike : whether all values of some cell are the same.
    statistics : what was asked for, by name.
    """

    records: Floats
    weights: Contributions
    sums: Contributions
    squares: Contributions
    cases: Floats | None
    alike: bool
    statistics: dict[str, Floats]


def values_of(data: Dataset, name: str) -> Floats:
    """A numeric variable; NaN where missing."""
    column = data.column(name)
    if not (column.dtype.is_numeric() or column.dtype == pl.Boolean):
        raise DataError(
            f"Variable '{name}' holds no numbers, so it cannot be added up or averaged.",
            hint="count its levels instead: make it the rows or columns of a table.",
        )
    numbers = column.cast(pl.Float64).fill_null(math.nan).to_numpy()
    if np.isinf(numbers).any():
        raise DataError(f"Variable '{name}' holds infinite values.", hint="declare them missing.")
    return numbers


def weights_of(data: Dataset, name: str | None) -> Floats | None:
    """The weights of the records, which must all be there and above 0."""
    if name is None:
        return None
    weights = values_of(data, name)
    if np.isnan(weights).any() or (weights <= 0).any():
        raise DataError(f"Weights must be above 0; '{name}' has others, or gaps.")
    return weights


def weighed(gathered: Gathered, weights: Floats, largest: int) -> Contributions:
    """The weights in each cell of a table of counts."""
    made = _Made(gathered.lattice, largest)
    for cell, part in _parts(gathered, weights, None):
        made.add(cell, part[0])
    return made.done()


def magnitudes(
    gathered: Gathered,
    values: Floats,
    weights: Floats | None,
    *,
    wanted: Sequence[str],
    k: int,
    largest: int,
) -> Magnitudes:
    """Add up the values of each cell, in an order that does not depend on the records'."""
    lattice = gathered.lattice
    records = np.zeros(lattice.cells)
    made = [_Made(lattice, largest) for _ in range(3)]
    statistics = {name: np.full(lattice.cells, np.nan) for name in wanted}
    ordered = np.sort(values[~np.isnan(values)])
    step = grid_of(ordered, k) if len(ordered) > k else 0.0
    two = len(ordered) > 0 and bool(np.isin(ordered, ordered[[0, -1]]).all())
    cases, alike = np.zeros(lattice.cells), False
    for cell, (some, heavy) in _parts(gathered, values, weights):
        records[cell] = len(some)
        weight = np.ones(len(some)) if heavy is None else heavy
        for one, terms in zip(made, (weight, weight * some, weight * some**2), strict=True):
            one.add(cell, terms)
        cases[cell] = int((some == ordered[-1]).sum())
        alike = alike or bool(len(some) >= k and some[0] == some[-1])
        for name, value in _statistics(wanted, some, weight, k, step).items():
            statistics[name][cell] = value
    weigh, sums, squares = (one.done() for one in made)
    return Magnitudes(
        records=records,
        weights=weigh,
        sums=sums,
        squares=squares,
        cases=cases if two else None,
        alike=alike,
        statistics=statistics,
    )


class _Made:
    """Contributions, filled cell by cell."""

    def __init__(self, lattice: Lattice, largest: int) -> None:
        self.totals, self.sizes = np.zeros(lattice.cells), np.zeros(lattice.cells)
        self.largest = np.zeros((lattice.cells, largest))
        self.signed = False

    def add(self, cell: int, terms: Floats) -> None:
        """Take note of one cell."""
        sizes = np.abs(terms)
        self.totals[cell] = math.fsum(exact_sum(terms))
        self.sizes[cell] = math.fsum(exact_sum(sizes))
        most = min(self.largest.shape[1], len(sizes))
        self.largest[cell, :most] = np.sort(np.partition(sizes, len(sizes) - most)[-most:])[::-1]
        self.signed = self.signed or bool((terms < 0).any())

    def done(self) -> Contributions:
        """All cells together."""
        return Contributions(
            totals=self.totals, sizes=self.sizes, largest=self.largest, signed=self.signed
        )


def _parts(
    gathered: Gathered, values: Floats, weights: Floats | None
) -> Iterator[tuple[int, tuple[Floats, Floats | None]]]:
    """The values of each cell that has any, in rising order; the cells inside, then the margins."""
    present = np.flatnonzero(~np.isnan(values))
    inside, some = gathered.cell_of_each()[present], values[present]
    heavy = None if weights is None else weights[present]
    lattice, say = gathered.lattice, current_progress()
    every = list(product((False, True), repeat=len(lattice.sizes)))
    for done, summed in enumerate(every):
        say("adding up", done, len(every))
        cells = margin(lattice, summed)[inside]
        order = np.lexsort((some, cells) if heavy is None else (heavy, some, cells))
        cells, ordered = cells[order], some[order]
        ends = np.flatnonzero(np.append(cells[1:] != cells[:-1], True)) + 1
        start = 0
        for end in ends.tolist() if len(cells) else ():
            part = None if heavy is None else heavy[order[start:end]]
            yield int(cells[start]), (ordered[start:end], part)
            start = end


def margin(lattice: Lattice, summed: Sequence[bool]) -> Integers:
    """For each cell the one that sums it up over some variables."""
    places = np.indices(lattice.shape).reshape(len(lattice.sizes), -1)
    for axis, over in enumerate(summed):
        if over:
            places[axis] = lattice.sizes[axis]
    return np.asarray(np.ravel_multi_index(tuple(places), lattice.shape))


def _statistics(
    wanted: Sequence[str], values: Floats, weights: Floats, k: int, step: float
) -> dict[str, float]:
    """What was asked for of one cell, its values in rising order."""
    quantiles = [name for name in wanted if name.startswith(QUANTILE)]
    shares = [float(name.removeprefix(QUANTILE)) / 100 for name in quantiles]
    found = dict(zip(quantiles, quantiles_of(values, shares, k, step), strict=True))
    return found | {
        name: _moment(name, values, weights) for name in wanted if name not in quantiles
    }


def _moment(name: str, values: Floats, weights: Floats) -> float:
    total = math.fsum(exact_sum(weights))
    mean = math.fsum(exact_sum(weights * values)) / total
    if name == "mean":
        return mean
    spread = math.fsum(exact_sum(weights * (values - mean) ** 2)) / total
    return math.sqrt(spread * len(values) / (len(values) - 1)) if len(values) > 1 else math.nan
