"""Records aggregated into the cells of a table: counts, sums, the largest contributions, quantiles.

Every number is the same whatever the order of the records: values are sorted within their cell
and added up exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Literal

import numpy as np
import polars as pl

from sfumato.cells.codes import encode, encode_unordered
from sfumato.data import Dataset
from sfumato.engines import engine_for
from sfumato.engines.summaries import exact_sum
from sfumato.errors import DataError
from sfumato.io import frames
from sfumato.kernels.arrays import Floats, Integers
from sfumato.outputs.output import OutputRefused
from sfumato.outputs.quantiles import (
    FIVE,
    choose_step,
    count_needed_records,
    safe_quantiles,
    snap_to_grid,
)
from sfumato.outputs.rules import Rules, Unit
from sfumato.outputs.tables.lattice import Lattice
from sfumato.progress import current_progress

Missing = Literal["level", "leave out"]
_MOST_VARIABLES = 4
_MOST_CELLS = 200_000
_CELL = "__cell"
_COUNT = "__count"
_QUANTILE = "q"


@dataclass(frozen=True, eq=False, kw_only=True)
class CellCounts:
    """The levels of each variable and how many records each cell has.

    Parameters
    ----------
    data : the records that are counted, with the variables of the table.
    names : the variables that span the cells.
    labels : the levels of each, as text; the last is the label of its total.
    counts : records in each cell, flat, margins among them.
    occupied : the inner cells that hold records: their values, and the index of the cell.
    share_left_out : the share of records left out because one of the variables is missing.
    """

    data: Dataset
    names: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    counts: Floats
    occupied: pl.DataFrame
    share_left_out: float

    @property
    def lattice(self) -> Lattice:
        """The shape of the table."""
        return Lattice(tuple(len(labels) - 1 for labels in self.labels))

    def find_cells(self) -> Integers:
        """The index of the inner cell to which each record belongs."""
        batch = self.data.batch(self.names)
        joined = batch.join(
            self.occupied, on=list(self.names), how="left", nulls_equal=True, maintain_order="left"
        )
        return joined[_CELL].to_numpy()


def count_cells(
    data: Dataset, names: Sequence[str], *, missing: Missing, rules: Rules
) -> CellCounts:
    """Count the records in the cells that these variables span."""
    _check_variables(data, names)
    names = list(names)
    counted = engine_for(data.frame).distinct(data, names)
    distinct = counted.values.with_columns(pl.Series(_COUNT, counted.counts))
    if missing == "leave out":
        distinct = distinct.drop_nulls(names)
    total, records = int(counted.counts.sum()), int(distinct[_COUNT].sum())
    if records < rules.records:
        raise OutputRefused(
            f"A table needs at least {rules.records} records; there are fewer.",
            hint="put groups together, or ask the output checker for other rules.",
        )
    labels, codes = [], []
    for name in names:
        levels, code = _code_levels(data, distinct[name])
        _require_few_levels(name, len(levels), records, rules)
        labels.append((*levels, _make_unique("All", levels)))
        codes.append(code)
    lattice = Lattice(tuple(len(levels) - 1 for levels in labels))
    if len(names) > _MOST_VARIABLES or prod(lattice.shape) > _MOST_CELLS:
        raise OutputRefused(
            f"The table is too large: at most {_MOST_VARIABLES} variables and "
            f"{_MOST_CELLS:,} cells.",
            hint="use fewer variables, or coarser categories.",
        )
    # Distinct combinations are few: each is written to its cell once.
    inner = np.zeros(lattice.sizes)
    inner[tuple(codes)] = distinct[_COUNT].to_numpy()
    cells = np.ravel_multi_index(tuple(codes), lattice.shape)
    return CellCounts(
        data=_drop_incomplete(data, names) if records < total else data,
        names=tuple(names),
        labels=tuple(labels),
        counts=lattice.with_margins(inner),
        occupied=distinct.select(names).with_columns(pl.Series(_CELL, cells)),
        share_left_out=1 - records / total if records < total else 0.0,
    )


def list_units(data: Dataset, unit: Unit) -> list[Integers]:
    """The number of each record's person, or group, by what says so; none where records count."""
    if unit == "records":
        return []
    if not frames.is_in_memory(data.frame):
        raise OutputRefused(
            f"The rules count {unit}, which is done in memory only.", hint="read the data whole."
        )
    if unit == "persons":
        columns = [] if data.persons is None else [data.persons]
    else:
        columns = [data.column(name) for name in data.schema.having("cluster")]
    numbers = [encode_unordered(column)[0].astype(np.int64) for column in columns]
    for number, column in zip(numbers, columns, strict=True):
        missing = column.is_null().to_numpy()
        # Nobody says that these belong together.
        number[missing] = number.max(initial=0) + 1 + np.arange(missing.sum())
    return [number for number in numbers if len(np.unique(number)) < len(number)]


def count_distinct(lattice: Lattice, cells: Integers, units: Integers) -> Integers:
    """How many different units are in each cell, margins among them.

    Parameters
    ----------
    cells : the inner cell of each record.
    units : the number of each record's unit.
    """
    counted = np.zeros(lattice.cells, np.int64)
    places = np.unravel_index(cells, lattice.shape)
    for kept in product((False, True), repeat=len(lattice.sizes)):
        collapsed = np.ravel_multi_index(
            [
                place if keep else np.full_like(place, size)
                for place, keep, size in zip(places, kept, lattice.sizes, strict=True)
            ],
            lattice.shape,
        )
        pairs = np.unique(np.column_stack([collapsed, units]), axis=0)
        counted += np.bincount(pairs[:, 0], minlength=lattice.cells)
    return counted


def _check_variables(data: Dataset, names: Sequence[str]) -> None:
    data.schema.require(names)
    if len(set(names)) != len(names) or not names:
        raise DataError(
            "A table needs at least one variable, and none of them twice.",
            hint="name the rows, and the columns if there are any.",
        )
    direct = [name for name in names if name in data.schema.identifiers]
    if direct:
        raise OutputRefused(
            f"Variable '{direct[0]}' names persons, so no table may show it.",
            hint="use a coarser variable.",
        )


def _drop_incomplete(data: Dataset, names: Sequence[str]) -> Dataset:
    if not frames.is_in_memory(data.frame):
        return data  # counts are all that is asked of it
    batch = data.batch(names)
    present = batch.select(pl.all_horizontal(pl.all().is_not_null())).to_series()
    return data.take(np.flatnonzero(present.to_numpy()))


def _code_levels(data: Dataset, values: pl.Series) -> tuple[list[str], Integers]:
    """The levels of a variable, in their order, as text; and the level index of each value."""
    column = data.schema[values.name]
    distinct = values.drop_nulls().unique().sort()
    if column.levels is not None:
        rank = {str(level): index for index, level in enumerate(column.levels)}
        texts = distinct.cast(pl.String)
        order = sorted(
            range(len(texts)), key=lambda index: (rank.get(texts[index], len(rank)), index)
        )
        distinct = distinct[order]
    levels = distinct.cast(pl.String).to_list()
    if len(set(levels)) < len(levels):  # two numbers that read the same are still two levels
        levels = [f"{text} ({index + 1})" for index, text in enumerate(levels)]
    if values.null_count():
        levels.append(_make_unique("(missing)", levels))
    return levels, encode(values, distinct).missing_last.astype(np.int64)


def _make_unique(label: str, levels: Sequence[str]) -> str:
    while label in levels:
        label += "*"
    return label


def _require_few_levels(name: str, levels: int, records: int, rules: Rules) -> None:
    most = max(int(rules.bins * records), 2)
    if levels > most:
        # The exact bound would disclose the exact number of records.
        rough = most // 5 * 5 if most >= 5 else most  # noqa: PLR2004 - rough
        raise OutputRefused(
            f"Variable '{name}' has too many levels for these records: a table may have "
            f"{rough:,} at most.",
            hint="use coarser categories: sf.methods.Coarsen, or put levels together.",
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Contributions:
    """Additive numbers of the cells, and the largest contributions to each.

    Parameters
    ----------
    totals : the sum of each cell.
    sizes : the sum of the absolute contributions.
    largest : the largest absolute contributions in falling order, a row per cell.
    signed : whether some contribution is negative.
    """

    totals: Floats
    sizes: Floats
    largest: Floats
    signed: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class Magnitudes:
    """Everything a magnitude table needs, margins among the cells.

    Parameters
    ----------
    records : how many records with a value each cell has.
    weights : their total weight.
    sums : of the values, weighted.
    squares : of their squares, weighted.
    cases : of a variable of two values, how many records of each cell have the larger one.
    constant : whether all values of some cell are the same.
    statistics : the requested ones, by name.
    """

    records: Floats
    weights: Contributions
    sums: Contributions
    squares: Contributions
    cases: Floats | None
    constant: bool
    statistics: dict[str, Floats]


def read_values(data: Dataset, name: str) -> Floats:
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


def read_weights(data: Dataset, name: str | None) -> Floats | None:
    """The weights of the records, which must all be there and above 0."""
    if name is None:
        return None
    weights = read_values(data, name)
    if np.isnan(weights).any() or (weights <= 0).any():
        raise DataError(f"Weights must be above 0; '{name}' has others, or gaps.")
    return weights


def aggregate_weights(counts: CellCounts, weights: Floats, *, largest: int) -> Contributions:
    """Add up the weights in each cell of a table of counts."""
    builder = _ContributionBuilder(counts.lattice, largest)
    for cell, values, _ in _iterate_cells(counts, weights, None):
        builder.add(cell, values)
    return builder.build()


def aggregate_values(
    counts: CellCounts,
    values: Floats,
    weights: Floats | None,
    *,
    wanted: Sequence[str],
    k: int,
    largest: int,
) -> Magnitudes:
    """Add up the values of each cell, and compute the requested statistics.

    Parameters
    ----------
    counts : the cells.
    values : the values of the records; NaN where missing.
    weights : their weights; None: all alike.
    wanted : the statistics beyond count and sum.
    k : how many values a quantile rests on.
    largest : how many of the largest contributions are kept.
    """
    lattice = counts.lattice
    records = np.zeros(lattice.cells)
    builders = [_ContributionBuilder(lattice, largest) for _ in range(3)]
    statistics = {name: np.full(lattice.cells, np.nan) for name in wanted}
    ordered = np.sort(values[~np.isnan(values)])
    step = choose_quantile_step(ordered, k) if len(ordered) > k else 0.0
    # Sums of a variable of two values are counts in disguise.
    binary = len(ordered) > 0 and bool(np.isin(ordered, ordered[[0, -1]]).all())
    cases, constant = np.zeros(lattice.cells), False
    for cell, cell_values, cell_weights in _iterate_cells(counts, values, weights):
        records[cell] = len(cell_values)
        weight = np.ones(len(cell_values)) if cell_weights is None else cell_weights
        terms = (weight, weight * cell_values, weight * cell_values**2)
        for builder, term in zip(builders, terms, strict=True):
            builder.add(cell, term)
        cases[cell] = int((cell_values == ordered[-1]).sum())
        constant = constant or bool(len(cell_values) >= k and cell_values[0] == cell_values[-1])
        for name, value in _compute_statistics(wanted, cell_values, weight, k, step).items():
            statistics[name][cell] = value
    total_weights, sums, squares = (builder.build() for builder in builders)
    return Magnitudes(
        records=records,
        weights=total_weights,
        sums=sums,
        squares=squares,
        cases=cases if binary else None,
        constant=constant,
        statistics=statistics,
    )


class _ContributionBuilder:
    """Contributions, filled cell by cell."""

    def __init__(self, lattice: Lattice, largest: int) -> None:
        self.totals, self.sizes = np.zeros(lattice.cells), np.zeros(lattice.cells)
        self.largest = np.zeros((lattice.cells, largest))
        self.signed = False

    def add(self, cell: int, terms: Floats) -> None:
        """Record the contributions to a cell."""
        sizes = np.abs(terms)
        self.totals[cell] = math.fsum(exact_sum(terms))
        self.sizes[cell] = math.fsum(exact_sum(sizes))
        # A partition finds the largest few without sorting all.
        most = min(self.largest.shape[1], len(sizes))
        self.largest[cell, :most] = np.sort(np.partition(sizes, len(sizes) - most)[-most:])[::-1]
        self.signed = self.signed or bool((terms < 0).any())

    def build(self) -> Contributions:
        """All cells together."""
        return Contributions(
            totals=self.totals, sizes=self.sizes, largest=self.largest, signed=self.signed
        )


def _iterate_cells(
    counts: CellCounts, values: Floats, weights: Floats | None
) -> Iterator[tuple[int, Floats, Floats | None]]:
    """Each non-empty cell, its values in rising order, and their weights: inner cells first."""
    present = np.flatnonzero(~np.isnan(values))
    inner, values = counts.find_cells()[present], values[present]
    weights = None if weights is None else weights[present]
    lattice, progress = counts.lattice, current_progress()
    margins = list(product((False, True), repeat=len(lattice.sizes)))
    for done, summed in enumerate(margins):
        progress("adding up", done, len(margins))
        cells = map_to_margin(lattice, summed)[inner]
        order = np.lexsort((values, cells) if weights is None else (weights, values, cells))
        cells, ordered = cells[order], values[order]
        # Sorted by cell, then by value: each cell is a run.
        ends = np.flatnonzero(np.append(cells[1:] != cells[:-1], True)) + 1
        start = 0
        for end in ends.tolist() if len(cells) else ():
            cell_weights = None if weights is None else weights[order[start:end]]
            yield int(cells[start]), ordered[start:end], cell_weights
            start = end


def map_to_margin(lattice: Lattice, summed: Sequence[bool]) -> Integers:
    """For each cell the index of the margin that sums it over some variables."""
    positions = np.indices(lattice.shape).reshape(len(lattice.sizes), -1)
    for axis, over in enumerate(summed):
        if over:
            positions[axis] = lattice.sizes[axis]
    return np.asarray(np.ravel_multi_index(tuple(positions), lattice.shape))


def _compute_statistics(
    wanted: Sequence[str], values: Floats, weights: Floats, k: int, step: float
) -> dict[str, float]:
    """The requested statistics of a cell, its values in rising order."""
    names = [name for name in wanted if name.startswith(_QUANTILE)]
    shares = [float(name.removeprefix(_QUANTILE)) / 100 for name in names]
    quantiles = dict(zip(names, compute_quantiles(values, shares, k, step), strict=True))
    moments = {name: _compute_moment(name, values, weights) for name in wanted if name not in names}
    return quantiles | moments


def _compute_moment(name: str, values: Floats, weights: Floats) -> float:
    total = math.fsum(exact_sum(weights))
    mean = math.fsum(exact_sum(weights * values)) / total
    if name == "mean":
        return mean
    # Weighted moments, with the n / (n - 1) of the number of records.
    variance = math.fsum(exact_sum(weights * (values - mean) ** 2)) / total
    return math.sqrt(variance * len(values) / (len(values) - 1)) if len(values) > 1 else math.nan


def choose_quantile_step(ordered: Floats, k: int) -> float:
    """To what the quantiles of a table are rounded: about a 200th of the spread of all values."""
    if len(ordered) >= count_needed_records(len(FIVE), k):
        return safe_quantiles(ordered, k=k).step
    return choose_step(float(ordered[-2] - ordered[1]))


def compute_quantiles(ordered: Floats, shares: Sequence[float], k: int, step: float) -> list[float]:
    """Means of order statistics around each quantile, rounded; NaN where they do not fit.

    A single order statistic is somebody's value. All means rest on the same number of values
    (k, or one more where that lies evenly around the median), no value enters two of them, and
    the extremes enter none: otherwise the difference of two quantiles would disclose a value.
    So a quantile near an end, or near another quantile, has no safe answer.

    Parameters
    ----------
    ordered : the values, sorted.
    shares : which quantiles, between 0 and 1.
    k : how many values each answer rests on, at least.
    step : what they are rounded to, see `choose_quantile_step`.

    Examples
    --------
    >>> import numpy as np
    >>> compute_quantiles(np.arange(11.0), [0.5, 0.05, 0.6], 3, 0.1)
    [5.0, nan, nan]
    """
    width = k + (len(ordered) - k) % 2
    first_free = 1
    quantiles = [math.nan] * len(shares)
    for index in sorted(range(len(shares)), key=lambda index: shares[index]):
        rank = round(shares[index] * (len(ordered) - 1), 9)  # 0.7 * 10 is 7
        first = math.floor(rank - (width - 1) / 2 + 0.5)
        if first >= first_free and first + width < len(ordered):
            first_free = first + width
            window = ordered[first:first_free].tolist()
            quantiles[index] = snap_to_grid(math.fsum(window) / width, step)
    return quantiles
