"""One cell for all records of a cluster: a range, a set, a group, or a single value."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import polars as pl

from sfumato.cells.grids import PARTS, Grid, format_ends
from sfumato.cells.group_grids import GroupGrid
from sfumato.cells.notation import WILDCARD, format_range, format_set, format_value
from sfumato.errors import MethodError
from sfumato.kernels.arrays import Codes, Floats, Integers
from sfumato.methods._clustering.variables import Variable, common_prefix

Output = Literal["range", "set", "level", "value", "mean", "median", "middle", "mode", "balanced"]
AVERAGES = ("mean", "median", "middle")
"""Outputs that are numbers computed from those of a cluster."""
# Up to here floats hold every whole number.
_EXACT = 2**53
_INT64 = 2**63


@dataclass(frozen=True, eq=False)
class Clusters:
    """The records cluster after cluster, and where each cluster begins."""

    order: Integers
    starts: Integers

    def number_records(self) -> Integers:
        """The number of each record's cluster."""
        numbers = np.empty(len(self.order), np.int64)
        numbers[self.order] = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
        return numbers


@dataclass(frozen=True, eq=False)
class ClusterCells:
    """The distinct cells of a variable, and which of them each cluster has."""

    table: pl.Series
    of_cluster: Integers


@dataclass(frozen=True)
class CellForm:
    """What the cells of a variable look like.

    Parameters
    ----------
    output : a range, a set, a group, or which single value.
    grid : where ranges end; without one, at their records' least and greatest value.
    parts : a range consists of at most so many cells of its grid, and two more.
    outwards : make what stands for a range of categories of whole groups of a hierarchy.
    """

    output: Output
    grid: Grid | GroupGrid | None = None
    parts: int = PARTS
    outwards: bool = False


def write_cells(variable: Variable, clusters: Clusters, form: CellForm) -> ClusterCells | None:
    """The cell of each cluster; None where every cluster has a single value already."""
    low, high = _code_ranges(variable.codes, clusters)
    if bool((low == high).all()):
        return None
    output, grid = form.output, form.grid
    if output in ("mode", "balanced", *AVERAGES):
        return _represent(variable, clusters, form)
    if output == "range" and variable.column.kind == "text" and variable.levels.dtype == pl.String:
        return _write_masks(variable, clusters, low, high)
    if output == "set" and grid is not None and not isinstance(grid, GroupGrid):
        # A set of numbers or dates would print every one of its people's values.
        output = "range"
    if output == "set" or (output == "range" and not _is_ordered(variable)):
        return _write_sets(variable, clusters, whole_groups=form.outwards and output == "range")
    if output == "level":
        return _write_groups(variable, clusters, low, high)
    return _write_ranges(variable, form, low, high)


def _code_ranges(codes: Codes, clusters: Clusters) -> tuple[Integers, Integers]:
    """The lowest and the highest code of each cluster."""
    from sfumato.kernels.clustering.clusters import find_ranges

    ends = find_ranges(codes[:, None], clusters.order, clusters.starts)
    low, high = (end[:, 0].astype(np.int64) for end in ends)
    return low, high


def _is_ordered(variable: Variable) -> bool:
    """Whether a range can be written; along a hierarchy there is an order, but no range."""
    return variable.worth is not None and variable.column.kind not in ("nominal", "text")


def _text(variable: Variable, code: int) -> str:
    return format_value(variable.levels[code])


def _write_single(variable: Variable, low: int, high: int) -> tuple[bool, str | None]:
    """The cell of a cluster that needs no range: one value, or missing, or both."""
    if low == high and low >= variable.missing:
        return True, _text(variable, low)
    if high < variable.missing:
        # Codes for missing are kept where text is written as text; several become plain missing.
        as_code = low == high and variable.levels.dtype == pl.String
        return True, variable.levels[low] if as_code else None
    return low < variable.missing, WILDCARD


def _tabulate(
    variable: Variable, low: Integers, high: Integers, between: Callable[[int, int], str | None]
) -> ClusterCells:
    """A table with one text for each distinct pair of ends."""
    count = len(variable.levels)
    # One number for each pair of codes, so that each text is written once.
    pairs, of_cluster = np.unique(low * count + high, return_inverse=True)
    texts = []
    for pair in pairs.tolist():
        done, text = _write_single(variable, *divmod(pair, count))
        texts.append(text if done else between(*divmod(pair, count)))
    return ClusterCells(pl.Series(variable.name, texts, dtype=pl.String), of_cluster.ravel())


def _write_ranges(
    variable: Variable, form: CellForm, low: Integers, high: Integers
) -> ClusterCells:
    """Ranges whose ends lie on a grid, at or outside those of their records."""
    if form.grid is None:

        def write_range(first: int, last: int) -> str:
            return format_range(_text(variable, first), _text(variable, last), variable.name)

        return _tabulate(variable, low, high, write_range)
    count = len(variable.levels)
    pairs, of_cluster = np.unique(low * count + high, return_inverse=True)
    first, last = np.divmod(pairs, count)
    several = np.flatnonzero((first >= variable.missing) & (first != last))
    ends = _find_ends(variable, form.grid, form.parts, first[several], last[several])
    texts: list[str | None] = [None] * len(pairs)
    begins, finishes = (format_ends(side) for side in ends)
    for pair, begin, finish in zip(several.tolist(), begins, finishes, strict=True):
        texts[pair] = f"[{begin};{finish}]"
    for pair in np.setdiff1d(np.arange(len(pairs)), several).tolist():
        texts[pair] = _write_single(variable, int(first[pair]), int(last[pair]))[1]
    return ClusterCells(pl.Series(variable.name, texts, dtype=pl.String), of_cluster.ravel())


def _find_ends(
    variable: Variable, grid: Grid | GroupGrid, parts: int, low: Integers, high: Integers
) -> list[list[Any]]:
    """The ends on the grid of ranges of codes, none of which is missing."""
    cell_of_level = grid.locate(variable.levels[variable.missing :])
    ends = grid.widen(
        cell_of_level[low - variable.missing], cell_of_level[high - variable.missing], parts
    )
    return [_stop_at_domain(variable, side, ends[side]) for side in (0, 1)]


def _stop_at_domain(variable: Variable, side: int, ends: list[Any]) -> list[Any]:
    """Ends that go no farther than the declared domain, where the values do not either."""
    if variable.column.bounds is None:
        return ends
    bound: Any = variable.column.bounds[side]
    if isinstance(bound, dt.datetime):
        bound = bound.date()
    values = variable.levels[variable.missing :]
    if not isinstance(bound, dt.date) and isinstance(values[0], float):
        bound = float(bound)
    if side == 0:
        return [max(end, bound) if bound <= values[0] else end for end in ends]
    return [min(end, bound) if bound >= values[-1] else end for end in ends]


def _write_masks(
    variable: Variable, clusters: Clusters, low: Integers, high: Integers
) -> ClusterCells:
    """What codes of one length begin with, `937**`; `*` where they share no beginning.

    In the order of spelling the first and the last share what all of them share.
    """

    def write_mask(first: int, last: int) -> str:
        text = _text(variable, first)
        start = common_prefix(text, _text(variable, last))
        return start + "*" * (len(text) - len(start)) if start else WILDCARD

    lengths = variable.levels.str.len_chars().fill_null(0).cast(pl.Int32).to_numpy()
    shortest, longest = _code_ranges(lengths[variable.codes], clusters)
    cells = _tabulate(variable, low, high, write_mask)
    texts = cells.table.to_list()
    single = (low == high) | (high < variable.missing)
    of_cluster = np.where((shortest == longest) | single, cells.of_cluster, len(texts))
    return ClusterCells(pl.Series(variable.name, [*texts, WILDCARD], dtype=pl.String), of_cluster)


def _write_sets(variable: Variable, clusters: Clusters, *, whole_groups: bool) -> ClusterCells:
    from sfumato.kernels.clustering.clusters import find_level_sets

    levels, starts = find_level_sets(variable.codes, clusters.order, clusters.starts)
    names: list[Any] = [format_value(level) for level in variable.levels.to_list()]
    table: dict[bytes, int] = {}
    codes_of_clusters = levels.astype(np.int32)
    of_cluster = [
        table.setdefault(codes_of_clusters[first:last].tobytes(), len(table))
        for first, last in pairwise(starts.tolist())
    ]
    texts = []
    for key in table:
        codes = np.frombuffer(key, np.int32).tolist()
        done, text = _write_single(variable, codes[0], codes[-1])
        members = [names[code] for code in codes]
        # Along a hierarchy the codes have its order, which means nothing in a set.
        members = sorted(members) if variable.column.hierarchy else members
        if not done:
            text = _write_set(members, variable, whole_groups=whole_groups)
        texts.append(text)
    return ClusterCells(pl.Series(variable.name, texts, dtype=pl.String), np.array(of_cluster))


def _write_set(members: list[str], variable: Variable, *, whole_groups: bool) -> str:
    """A set of values; with whole groups, it does not say which of their values occur."""
    paths = variable.column.hierarchy
    if not whole_groups or not paths:
        return format_set(members, variable.name)
    groups = {paths[member][0] if member in paths else member for member in members}
    spread = {value for value, path in paths.items() if path[0] in groups} | set(members)
    if len(groups) == 1 and (name := groups.pop()) not in paths:
        return name
    return WILDCARD if len(spread) == len(paths) else format_set(sorted(spread), variable.name)


def _write_groups(
    variable: Variable, clusters: Clusters, low: Integers, high: Integers
) -> ClusterCells:
    """The narrowest group of the hierarchy that holds a whole cluster; else `*`."""
    groups = variable.groups
    if groups is None:
        raise MethodError(
            f"Variable '{variable.name}' has no hierarchy, so there is no level to write.",
            hint='declare one in the schema, or choose the output "range" or "set".',
        )
    single = _tabulate(variable, low, high, lambda *_: None)
    texts = single.table.to_list()
    of_cluster = np.where(low == high, single.of_cluster, -1)
    of_cluster[high < variable.missing] = single.of_cluster[high < variable.missing]
    several = (low >= variable.missing) & (low != high)
    for names in zip(*groups, strict=True):
        known = list(dict.fromkeys(names))
        number = {name: index for index, name in enumerate(known)}
        codes = np.array([-1] * variable.missing + [number[name] for name in names], np.int32)
        least, most = _code_ranges(codes[variable.codes], clusters)
        fits = (of_cluster < 0) & several & (least == most)
        of_cluster[fits] = len(texts) + least[fits]
        texts += known
    of_cluster[of_cluster < 0] = len(texts)
    return ClusterCells(pl.Series(variable.name, [*texts, WILDCARD], dtype=pl.String), of_cluster)


# Single values -----------------------------------------------------------------------------------


def _represent(variable: Variable, clusters: Clusters, form: CellForm) -> ClusterCells:
    """A single value for each cluster."""
    from sfumato.kernels.clustering.clusters import balance_levels

    if form.output == "mode":
        return ClusterCells(variable.levels, _find_modes(variable, clusters))
    if form.output == "balanced":
        chosen = balance_levels(variable.codes, clusters.order, clusters.starts)
        return ClusterCells(variable.levels, chosen)
    _require_average(variable, form.output)
    return _average_present(variable, clusters, form)


def _require_average(variable: Variable, output: Output) -> None:
    ranked = variable.column.kind == "ordinal" and variable.column.levels is not None
    if variable.worth is None or not _is_ordered(variable) or (ranked and output == "mean"):
        raise MethodError(
            f"Variable '{variable.name}' has no {output}: it is {variable.column.kind}.",
            hint='choose another output, such as {"' + variable.name + '" = "mode"}.',
        )


def _average_present(variable: Variable, clusters: Clusters, form: CellForm) -> ClusterCells:
    """The average of the values that are present; missing where they are not more than half.

    All records of a cluster get it, so that what is missing tells nobody apart. Of a few values an
    average would come too near to one person's.
    """
    if not variable.missing:
        return _average(variable, clusters, form)
    present = variable.codes[clusters.order] >= variable.missing
    counts = np.add.reduceat(present, clusters.starts[:-1], dtype=np.int64)
    sizes = np.diff(clusters.starts)
    enough = 2 * counts > sizes
    of_cluster = np.zeros(len(sizes), np.int64)
    if not enough.any():
        return ClusterCells(pl.Series(variable.name, [None], variable.levels.dtype), of_cluster)
    worth = variable.worth
    known = replace(
        variable,
        codes=variable.codes - np.int32(variable.missing),
        levels=variable.levels[variable.missing :],
        missing=0,
        worth=None if worth is None else worth[variable.missing :],
    )
    rows = clusters.order[present & np.repeat(enough, sizes)]
    among = Clusters(rows, np.concatenate([[0], np.cumsum(counts[enough])]))
    cells = _average(known, among, form)
    of_cluster[enough] = 1 + cells.of_cluster
    gap = pl.Series(variable.name, [None], cells.table.dtype)
    return ClusterCells(pl.concat([gap, cells.table.alias(variable.name)]), of_cluster)


def _average(variable: Variable, clusters: Clusters, form: CellForm) -> ClusterCells:
    if form.output == "middle":
        return _write_middles(variable, form, *_code_ranges(variable.codes, clusters))
    middle = _find_middles(variable, clusters)
    if variable.column.kind == "ordinal" and variable.column.levels is not None:
        return ClusterCells(variable.levels, middle[0])
    worth = np.zeros(0) if variable.worth is None else variable.worth
    if form.output == "median":
        averages = _compute_medians(variable, worth, *middle)
    else:
        codes = variable.codes[clusters.order]
        averages = _compute_means(variable, worth, codes, clusters.starts)
    return ClusterCells(averages, np.arange(len(averages)))


def _write_middles(
    variable: Variable, form: CellForm, low: Integers, high: Integers
) -> ClusterCells:
    """The middle of the range that would be written; of ordered levels, the middle level."""
    if variable.column.kind == "ordinal" and variable.column.levels is not None:
        return ClusterCells(variable.levels, (low + high) // 2)
    first, last = (variable.levels.gather(codes) for codes in (low, high))
    several = np.flatnonzero(low != high)
    numbers = [values.to_physical().cast(pl.Float64).to_numpy().copy() for values in (first, last)]
    if form.grid is not None and len(several):
        ends = _find_ends(variable, form.grid, form.parts, low[several], high[several])
        for side in (0, 1):
            bounded = pl.Series(ends[side], strict=False)
            numbers[side][several] = bounded.to_physical().cast(pl.Float64).to_numpy()
    middles = np.where(low == high, numbers[0], numbers[0] / 2 + numbers[1] / 2)
    return ClusterCells(_restore_type(variable, middles), np.arange(len(middles)))


def _find_middles(variable: Variable, clusters: Clusters) -> tuple[Integers, Integers]:
    """The codes of the two middle records of each cluster; one twice where the size is odd."""
    sizes = np.diff(clusters.starts)
    codes = variable.codes[clusters.order]
    # Sorted within each cluster, the middle records stand at fixed positions.
    ranked = codes[np.lexsort((codes, np.repeat(np.arange(len(sizes)), sizes)))].astype(np.int64)
    first = clusters.starts[:-1]
    return ranked[first + (sizes - 1) // 2], ranked[first + sizes // 2]


def _find_modes(variable: Variable, clusters: Clusters) -> Integers:
    """The commonest code of each cluster; among equally common ones the lowest."""
    count = len(variable.levels)
    sizes = np.diff(clusters.starts)
    pairs = np.repeat(np.arange(len(sizes)), sizes) * count + variable.codes[clusters.order]
    distinct, often = np.unique(pairs, return_counts=True)
    cluster, code = np.divmod(distinct, count)
    # Cluster by cluster, the commonest first, and of those the lowest code.
    order = np.lexsort((code, -often, cluster))
    first = np.unique(cluster[order], return_index=True)[1]
    modes: Integers = code[order][first]
    return modes


def _compute_medians(
    variable: Variable, worth: Floats, first: Integers, last: Integers
) -> pl.Series:
    """The median of each cluster, given the codes of its two middle records.

    Of whole numbers it is whole or ends in .5. Where floats would not hold all of them, halves
    are rounded down: any number between the two middles is a median.
    """
    levels = _to_integers(variable.levels)
    if levels is None:
        low, high = worth[first], worth[last]
        # Halves of halves stay exact, but for the very smallest numbers.
        return _restore_type(variable, np.where(low == high, low, low / 2 + high / 2))
    low, high = levels[first], levels[last]
    middle = (low & high) + ((low ^ high) >> 1)  # rounded down, and never too large
    half = ((low ^ high) & 1).astype(bool)
    numbers = middle.astype(np.float64)
    if not half.any() or np.abs(numbers).max() >= _EXACT / 2:
        return _restore_integers(variable, middle)
    return _restore_type(variable, numbers + half / 2)


def _compute_means(variable: Variable, worth: Floats, codes: Codes, starts: Integers) -> pl.Series:
    """The mean of each cluster, given all codes cluster after cluster; of one value that value."""
    levels, sizes = _to_integers(variable.levels), np.diff(starts)
    firsts = codes[starts[:-1]]
    single = np.add.reduceat(codes != np.repeat(firsts, sizes), starts[:-1]) == 0
    if levels is None:
        means = np.add.reduceat(worth[codes], starts[:-1]) / sizes
        # A sum of equal numbers, divided by how many, need not be that number again.
        return _restore_type(variable, np.where(single, worth[firsts], means))
    largest = max(abs(int(levels.min())), abs(int(levels.max())))
    exact = levels.astype(np.int64 if largest * int(sizes.max()) < _INT64 else object)
    totals = np.add.reduceat(exact[codes], starts[:-1])
    if not (totals % sizes).any():
        return _restore_integers(variable, totals // sizes)
    constant = exact[firsts[single]]
    if any(int(float(value)) != value for value in constant.tolist()):
        raise MethodError(
            f"Variable '{variable.name}' has whole numbers too large to stand beside means with a "
            "fraction.",
            hint='choose the output "median" or "range" for it.',
        )
    means = (totals / sizes).astype(np.float64)
    means[single] = constant
    return _restore_type(variable, means)


def _to_integers(levels: pl.Series) -> Any:
    """All levels as whole numbers, of any length; None where one is not."""
    if levels.dtype.is_integer() and levels.dtype != pl.Int128:
        return levels.to_numpy()
    if not levels.dtype.is_integer() and not levels.dtype.is_decimal():
        return None
    values = levels.to_list()
    exact = np.array([int(value) for value in values], dtype=object)
    return exact if exact.tolist() == values else None


def _restore_integers(variable: Variable, numbers: Any) -> pl.Series:
    """Whole numbers in the type that the variable has."""
    dtype = variable.levels.dtype
    if dtype.is_decimal() or dtype == pl.Int128:
        return pl.Series(variable.name, numbers.tolist(), pl.Int128).cast(dtype)
    return pl.Series(variable.name, numbers.astype(variable.levels.to_numpy().dtype))


def _restore_type(variable: Variable, numbers: Floats) -> pl.Series:
    """Dates as dates, and what is whole in a variable of whole numbers as whole numbers."""
    values = pl.Series(variable.name, numbers)
    if variable.levels.dtype == pl.Date:
        return values.floor().cast(pl.Int32).cast(pl.Date)
    if variable.column.kind != "integer":
        return values
    integers = bool(((values == values.floor()) & (values.abs() <= _EXACT)).all())
    return values.cast(pl.Int64) if integers else values
