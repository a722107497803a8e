"""Records aggregated into the cells of a table: counts, sums, the largest contributions, quantiles.

Every number is the same whatever the order of the records: values are sorted within their cell
and added up exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import prod
from typing import Literal

import numpy as np
import polars as pl

from sfumato.cells.codes import encode
from sfumato.data import Dataset
from sfumato.engines import engine_for
from sfumato.errors import DataError
from sfumato.io import frames
from sfumato.kernels.arrays import Floats, Integers, Mask
from sfumato.kernels.exact_sums import exact_sum
from sfumato.outputs.contributors import ALONE, Contributors, find_contributors, list_largest
from sfumato.outputs.output import OutputRefused
from sfumato.outputs.quantiles import (
    choose_step,
    find_nearest,
    safe_quantiles,
    snap_to_grid,
)
from sfumato.outputs.rules import Rules
from sfumato.outputs.tables.joint_statistics import ValueGrid, round_deviations
from sfumato.outputs.tables.lattice import Lattice
from sfumato.progress import current_progress

Missing = Literal["level", "leave out"]
_MOST_VARIABLES = 4
_MOST_CELLS = 200_000
_CELL = "__cell"
_COUNT = "__count"
_QUANTILE = "q"
_DEVIATION = "std"


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
    units : whose each record is, where the rules count persons or groups.
    share_left_out : the share of records left out because one of the variables is missing.
    """

    data: Dataset
    names: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    counts: Floats
    occupied: pl.DataFrame
    units: Contributors
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

    @cached_property
    def unit_counts(self) -> Integers:
        """How many persons or groups each cell has, margins among them; or records."""
        if not self.units:
            return self.counts.astype(np.int64)
        return count_units_in(self.lattice, self.find_cells(), self.units)

    def take(self, rows: Mask, counts: Floats) -> CellCounts:
        """The same cells with some of the records only, so many in each cell."""
        if not self.units:
            return replace(self, counts=counts)
        chosen = np.flatnonzero(rows)
        units = self.units.take(chosen)
        return replace(self, data=self.data.take(chosen), units=units, counts=counts)


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
    complete = _drop_incomplete(data, names) if records < total else data
    units = find_contributors(complete, rules)
    number = units.count(records)
    if number < rules.records:
        raise OutputRefused(
            f"A table needs at least {rules.records} {units.word}; there are fewer.",
            hint="put groups together, or ask the output checker for other rules.",
        )
    labels, codes = [], []
    for name in names:
        levels, code = _code_levels(data, distinct[name])
        _require_few_levels(name, len(levels), number, rules)
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
        data=complete,
        names=tuple(names),
        labels=tuple(labels),
        counts=lattice.with_margins(inner),
        occupied=distinct.select(names).with_columns(pl.Series(_CELL, cells)),
        units=units,
        share_left_out=1 - records / total if records < total else 0.0,
    )


def count_units_in(lattice: Lattice, cells: Integers, units: Contributors) -> Integers:
    """How many different units are in each cell, margins among them.

    Parameters
    ----------
    cells : the inner cell of each record.
    units : whose each record is.
    """
    counted = np.zeros(lattice.cells, np.int64)
    for summed in product((False, True), repeat=len(lattice.sizes)):
        counted += units.count_in(map_to_margin(lattice, summed)[cells], lattice.cells)
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
            f"Variable '{direct[0]}' names people, so no table may show it.",
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
    weights : their total weight; for each kind of contributor, such as persons and households.
    sums : of the values, weighted; likewise.
    squares : of their squares, weighted; likewise.
    cases : of a variable of two values, how many records of each cell have the larger one.
    constant : whether all values of some cell are the same.
    statistics : the requested ones, by name.
    """

    records: Floats
    weights: tuple[Contributions, ...]
    sums: tuple[Contributions, ...]
    squares: tuple[Contributions, ...]
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


def aggregate_weights(
    counts: CellCounts, weights: Floats, *, largest: int
) -> tuple[Contributions, ...]:
    """Add up the weights in each cell of a table of counts, for each kind of contributor."""
    builder = _ContributionBuilder(counts.lattice, largest, counts.units)
    for cell, rows in _iterate_cells(counts, weights, None):
        builder.add(cell, weights[rows], counts.units.take(rows))
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
    builders = [_ContributionBuilder(lattice, largest, counts.units) for _ in range(3)]
    statistics = {name: np.full(lattice.cells, np.nan) for name in wanted}
    present = np.flatnonzero(~np.isnan(values))
    ordered = np.sort(values[present])
    step = choose_quantile_step(values[present], k, counts.units.take(present))
    # Sums of a variable of two values are counts in disguise.
    binary = len(ordered) > 0 and bool(np.isin(ordered, ordered[[0, -1]]).all())
    cases, constant = np.zeros(lattice.cells), False
    for cell, rows in _iterate_cells(counts, values, weights):
        records[cell] = len(rows)
        cell_values, units = values[rows], counts.units.take(rows)
        weight = np.ones(len(rows)) if weights is None else weights[rows]
        terms = (weight, weight * cell_values, weight * cell_values**2)
        for builder, term in zip(builders, terms, strict=True):
            builder.add(cell, term, units)
        cases[cell] = int((cell_values == ordered[-1]).sum())
        constant = constant or bool(len(cell_values) >= k and cell_values[0] == cell_values[-1])
        results = _compute_statistics(wanted, cell_values, weight, k, step, units)
        for name, value in results.items():
            statistics[name][cell] = value
    if _DEVIATION in statistics:
        grid = ValueGrid.of(ordered, step)
        cells = [(cell, values[rows]) for cell, rows in _iterate_cells(counts, values, weights)]
        statistics[_DEVIATION] = round_deviations(cells, statistics[_DEVIATION], grid, step)
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
    """Contributions, filled cell by cell: those of records, or of each kind of unit."""

    def __init__(self, lattice: Lattice, largest: int, units: Contributors) -> None:
        self.totals, self.sizes = np.zeros(lattice.cells), np.zeros(lattice.cells)
        self.largest = np.zeros((max(len(units.numbers), 1), lattice.cells, largest))
        self.signed = False

    def add(self, cell: int, terms: Floats, units: Contributors) -> None:
        """Record the contributions to a cell."""
        sizes = np.abs(terms)
        self.totals[cell] = exact_sum(terms)
        self.sizes[cell] = exact_sum(sizes)
        self.signed = self.signed or bool((terms < 0).any())
        most = self.largest.shape[2]
        for kind, numbers in enumerate(units.numbers):
            contributions, _ = list_largest(np.zeros(len(terms), np.int64), numbers, sizes, 1, most)
            self.largest[kind, cell] = contributions[0]
        if not units:
            # A partition finds the largest few without sorting all.
            most = min(most, len(sizes))
            ends = np.partition(sizes, len(sizes) - most)[-most:]
            self.largest[0, cell, :most] = np.sort(ends)[::-1]

    def build(self) -> tuple[Contributions, ...]:
        """All cells together, for each kind."""
        return tuple(
            Contributions(totals=self.totals, sizes=self.sizes, largest=largest, signed=self.signed)
            for largest in self.largest
        )


def _iterate_cells(
    counts: CellCounts, values: Floats, weights: Floats | None
) -> Iterator[tuple[int, Integers]]:
    """Each non-empty cell and its records with a value, by rising value: inner cells first."""
    present = np.flatnonzero(~np.isnan(values))
    inner = counts.find_cells()[present]
    keys: list[Integers | Floats] = [*counts.units.take(present).numbers]
    keys += [] if weights is None else [weights[present]]
    lattice, progress = counts.lattice, current_progress()
    margins = list(product((False, True), repeat=len(lattice.sizes)))
    for done, summed in enumerate(margins):
        progress("adding up", done, len(margins))
        cells = map_to_margin(lattice, summed)[inner]
        order = np.lexsort((*keys, values[present], cells))
        cells = cells[order]
        # Sorted by cell, then by value: each cell is a run.
        ends = np.flatnonzero(np.append(cells[1:] != cells[:-1], True)) + 1
        start = 0
        for end in ends.tolist() if len(cells) else ():
            yield int(cells[start]), present[order[start:end]]
            start = end


def map_to_margin(lattice: Lattice, summed: Sequence[bool]) -> Integers:
    """For each cell the index of the margin that sums it over some variables."""
    positions = np.indices(lattice.shape).reshape(len(lattice.sizes), -1)
    for axis, over in enumerate(summed):
        if over:
            positions[axis] = lattice.sizes[axis]
    return np.asarray(np.ravel_multi_index(tuple(positions), lattice.shape))


def _compute_statistics(
    wanted: Sequence[str], values: Floats, weights: Floats, k: int, step: float, units: Contributors
) -> dict[str, float]:
    """The requested statistics of a cell, its values in rising order."""
    names = [name for name in wanted if name.startswith(_QUANTILE)]
    shares = [float(name.removeprefix(_QUANTILE)) / 100 for name in names]
    quantiles = dict(zip(names, compute_quantiles(values, shares, k, step, units), strict=True))
    moments = {name: _compute_moment(name, values, weights) for name in wanted if name not in names}
    return quantiles | moments


def _compute_moment(name: str, values: Floats, weights: Floats) -> float:
    total = exact_sum(weights)
    mean = exact_sum(weights * values) / total
    if name == "mean":
        return mean
    # Weighted moments, with the n / (n - 1) of the number of records.
    variance = exact_sum(weights * (values - mean) ** 2) / total
    return math.sqrt(variance * len(values) / (len(values) - 1)) if len(values) > 1 else math.nan


def choose_quantile_step(values: Floats, k: int, units: Contributors = ALONE) -> float:
    """To what the quantiles of a table are rounded: about a 200th of the spread of all values."""
    if len(values) <= k:
        return 0.0
    try:
        return safe_quantiles(values, k=k, units=units).step
    except OutputRefused:  # too few for five of them
        ordered = np.sort(values)
        return choose_step(float(ordered[-2] - ordered[1]))


def compute_quantiles(
    ordered: Floats, shares: Sequence[float], k: int, step: float, units: Contributors = ALONE
) -> list[float]:
    """Means of order statistics around each quantile, rounded; NaN where they do not fit.

    A single order statistic is somebody's value. All means rest on the same number of values
    (k, or one more where that lies evenly around the median), no value enters two of them, and
    the extremes enter none: otherwise the difference of two quantiles would disclose a value.
    So a quantile near an end, or near another quantile, has no safe answer. Where persons or groups
    are counted, a mean rests on as many records as k of them have, and each of them counts alike.

    Parameters
    ----------
    ordered : the values, sorted.
    shares : which quantiles, between 0 and 1.
    k : how many values each answer rests on, at least.
    step : what they are rounded to, see `choose_quantile_step`.
    units : whose each value is.

    Examples
    --------
    >>> import numpy as np
    >>> compute_quantiles(np.arange(11.0), [0.5, 0.05, 0.6], 3, 0.1)
    [5.0, nan, nan]
    """
    windows = find_quantile_windows(len(ordered), shares, k, units)
    means = (
        math.nan
        if window is None
        else snap_to_grid(units.take(window).average(ordered[window]), step)
        for window in windows
    )
    return list(means)


def find_quantile_windows(
    records: int, shares: Sequence[float], k: int, units: Contributors = ALONE
) -> list[slice | None]:
    """The sorted records on which each quantile rests; None where it has no safe answer.

    Parameters
    ----------
    records : how many there are.
    shares : which quantiles, between 0 and 1.
    k : how many records each rests on, at least.
    units : whose each record is.
    """
    first_free = 1
    windows: list[slice | None] = [None] * len(shares)
    for index in sorted(range(len(shares)), key=lambda index: shares[index]):
        rank = round(shares[index] * (records - 1), 9)  # 0.7 * 10 is 7
        window = _find_window(rank, records, k, units)
        if window is not None and window.start >= first_free and window.stop < records:
            first_free = window.stop
            windows[index] = window
    return windows


def list_quantile_windows(
    counts: CellCounts, name: str, statistics: Sequence[str], k: int
) -> list[Integers]:
    """For each quantile, cell and margin the records on which it rests, for the log.

    Each has the number of its cell where a record has a part in it, and -1 elsewhere.

    Parameters
    ----------
    counts : the cells.
    name : the variable.
    statistics : those of the table.
    k : how many records each rests on, at least.
    """
    shares = [float(text[1:]) / 100 for text in statistics if text.startswith(_QUANTILE)]
    if not shares:
        return []
    values, digests = read_values(counts.data, name), counts.data.identity.digests[:, 0]
    seen: dict[tuple[int, int], Integers] = {}
    for number, (_, rows) in enumerate(_iterate_cells(counts, values, None)):
        # Who of several people with one value is meant does not hang on the order of the rows.
        whose = counts.units.take(rows).numbers
        rows = rows[np.lexsort((digests[rows], *whose, values[rows]))]  # noqa: PLW2901
        found = find_quantile_windows(len(rows), shares, k, counts.units.take(rows))
        for index, window in enumerate(found):
            if window is None:
                continue
            # Cells of one margin share no record, those of different margins may.
            chosen = rows[window]
            level = 0
            while (seen.setdefault((index, level), np.full(len(values), -1))[chosen] >= 0).any():
                level += 1
            seen[index, level][chosen] = number
    return list(seen.values())


def _find_window(rank: float, records: int, k: int, units: Contributors) -> slice | None:
    """The records around a rank on which a quantile rests."""
    if units:
        return find_nearest(rank, 0, records, k, units)
    width = k + (records - k) % 2
    first = math.floor(rank - (width - 1) / 2 + 0.5)
    return slice(first, first + width)
