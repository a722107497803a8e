"""One cell for all records of a cluster: a range, a set, a group, or a single value.

What a cell says of its cluster is first reduced to a few whole numbers, its key: the lowest and the
highest code for a range, the codes for a set, a total and a size for a mean. Cells are written once
for each key that occurs, wherever the clusters were found.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl

from sfumato.cells.grids import PARTS, Grid, format_ends
from sfumato.cells.group_grids import GroupGrid
from sfumato.cells.notation import WILDCARD, format_range, format_set, format_value
from sfumato.errors import MethodError
from sfumato.kernels.arrays import AnyIntegers, Codes, Floats, Integers
from sfumato.methods.clustering.variables import Variable, common_prefix

Output = Literal["range", "set", "level", "value", "mean", "median", "middle", "mode", "balanced"]
AVERAGES = ("mean", "median", "middle")
"""Outputs that are numbers computed from those of a cluster."""
Keys = Integers | list[bytes]
"""Of each cluster what its cell says: a row of whole numbers, or the codes of a set as bytes."""
# Up to here floats hold every whole number.
_EXACT = 2**53
_INT64 = 2**63
# In place of the one code that all records of a cluster have.
_MIXED, _GAP = -1, -2


@dataclass(frozen=True, eq=False)
class Clusters:
    """The rows cluster after cluster, and where each cluster begins."""

    order: Integers
    starts: Integers

    def number_records(self) -> AnyIntegers:
        """The number of each row's cluster."""
        numbers = np.empty(len(self.order), np.int32)
        count = len(self.starts) - 1
        numbers[self.order] = np.repeat(np.arange(count, dtype=np.int32), np.diff(self.starts))
        return numbers

    def sum_rows(self, amounts: Any) -> Any:
        """The sum of some amounts of rows over each cluster."""
        return np.add.reduceat(amounts[self.order], self.starts[:-1])


@dataclass(frozen=True, eq=False)
class ClusterCells:
    """The distinct cells of a variable, and which of them each cluster has."""

    table: pl.Series
    of_cluster: AnyIntegers

    def to_table(self, name: str) -> pl.Series:
        """The cell of each cluster."""
        return self.table.alias(name).gather(self.of_cluster)


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


class RowCodes(NamedTuple):
    """One variable in rows that stand for records: their codes, the lowest and the highest.

    low, high : the same unless a row stands for records with different codes.
    weights : how many records a row stands for; empty: one.
    """

    low: Codes
    high: Codes
    weights: Integers


def write_cells(
    variable: Variable, rows: RowCodes, clusters: Clusters, form: CellForm
) -> ClusterCells | None:
    """The cell of each cluster; None where every cluster has a single value already."""
    keys = describe_clusters(variable, rows, clusters, form)
    if not vary(variable, keys, form):
        return None
    if form.output in AVERAGES:
        return ClusterCells(write_keys(variable, keys, form), np.arange(len(keys)))
    if form.output in ("mode", "balanced") and not isinstance(keys, list):
        return ClusterCells(variable.levels, keys[:, 0])
    distinct, of_cluster = _find_distinct(keys)
    return ClusterCells(write_keys(variable, distinct, form), of_cluster)


def describe_clusters(
    variable: Variable, rows: RowCodes, clusters: Clusters, form: CellForm
) -> Keys:
    """The key of each cluster's cell: all that is needed to write it."""
    style = _choose_style(variable, form)
    if style == "set":
        return _list_sets(rows, clusters)
    low, high = _code_ranges(rows, clusters)
    if style == "range":
        return np.column_stack([low, high])
    if style == "mask":
        lengths = variable.levels.str.len_chars().fill_null(0).cast(pl.Int32).to_numpy()[rows.low]
        shortest, longest = _code_ranges(RowCodes(lengths, lengths, rows.weights), clusters)
        return np.column_stack([low, high, shortest == longest]).astype(np.int64)
    if style == "group":
        return np.column_stack([low, high, *_find_groups(variable, rows, clusters)])
    if style in AVERAGES:
        return _describe_averages(variable, rows, clusters, style, low != high)
    return np.column_stack([_choose_codes(variable, rows, clusters, style), low != high])


def vary(variable: Variable, keys: Keys, form: CellForm) -> bool:
    """Whether some cluster has more than one value, so that cells must be written."""
    if isinstance(keys, list):
        return any(len(key) > _CODE for key in keys)
    if _choose_style(variable, form) in ("mode", "balanced", *AVERAGES):
        return bool(keys[:, -1].any())
    return bool((keys[:, 0] != keys[:, 1]).any())


def write_keys(variable: Variable, keys: Keys, form: CellForm) -> pl.Series:
    """The cell for each key."""
    _require_possible(variable, form.output)
    if isinstance(keys, list):
        return _write_sets(variable, keys, whole_groups=form.outwards and form.output == "range")
    style = _choose_style(variable, form)
    if style == "range":
        return _write_ranges(variable, form, keys)
    if style == "mask":
        return _write_masks(variable, keys)
    if style == "group":
        return _write_groups(variable, keys)
    if style in AVERAGES:
        return _write_averages(variable, keys, form)
    return variable.levels.gather(keys[:, 0])


def _choose_style(variable: Variable, form: CellForm) -> str:
    """How the cells of a variable are written; "range" also where they cannot be."""
    output, column = form.output, variable.column
    if output in ("mode", "balanced"):
        return output
    if output in AVERAGES:
        return output if _has_average(variable, output) else "range"
    if output == "level":
        return "group" if column.hierarchy is not None else "range"
    if output == "range" and column.kind == "text" and variable.levels.dtype == pl.String:
        return "mask"
    # A set of numbers or dates would print every one of its people's values.
    on_grid = form.grid is not None and not isinstance(form.grid, GroupGrid)
    if (output == "set" and not on_grid) or (output == "range" and not _is_ordered(variable)):
        return "set"
    return "range"


def _require_possible(variable: Variable, output: Output) -> None:
    if output in AVERAGES and not _has_average(variable, output):
        raise MethodError(
            f"Variable '{variable.name}' has no {output}: it is {variable.column.kind}.",
            hint='choose another output, such as {"' + variable.name + '" = "mode"}.',
        )
    if output == "level" and variable.column.hierarchy is None:
        raise MethodError(
            f"Variable '{variable.name}' has no hierarchy, so there is no level to write.",
            hint='declare one in the schema, or choose the output "range" or "set".',
        )


def _has_average(variable: Variable, output: Output) -> bool:
    ranked = variable.column.kind == "ordinal" and variable.column.levels is not None
    return _is_ordered(variable) and not (ranked and output == "mean")


def _is_ordered(variable: Variable) -> bool:
    """Whether a range can be written; along a hierarchy there is an order, but no range."""
    return variable.worth is not None and variable.column.kind not in ("nominal", "text")


def _find_distinct(keys: Keys) -> tuple[Keys, Integers]:
    """The different keys, and which of them each cluster has."""
    if isinstance(keys, list):
        table: dict[bytes, int] = {}
        numbers = [table.setdefault(key, len(table)) for key in keys]
        return list(table), np.array(numbers)
    # One number for each key, so that each text is written once.
    lowest = keys.min(axis=0)
    spans = [int(span) for span in keys.max(axis=0) - lowest + 1]
    packed = np.zeros(len(keys), np.int64)
    for column, span in enumerate(spans):
        packed = packed * span + (keys[:, column] - lowest[column])
    distinct, of_cluster = np.unique(packed, return_inverse=True)
    columns = []
    for span, least in zip(spans[::-1], lowest[::-1], strict=True):
        columns.append(distinct % span + least)
        distinct //= span
    return np.column_stack(columns[::-1]), of_cluster.ravel()


def _code_ranges(rows: RowCodes, clusters: Clusters) -> tuple[Integers, Integers]:
    """The lowest and the highest code of each cluster."""
    from sfumato.kernels.clustering.clusters import find_ranges

    low, high = find_ranges(rows.low[:, None], clusters.order, clusters.starts)
    if rows.high is not rows.low:
        high = find_ranges(rows.high[:, None], clusters.order, clusters.starts)[1]
    return low[:, 0].astype(np.int64), high[:, 0].astype(np.int64)


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


def _write_each(
    variable: Variable, keys: Integers, between: Callable[..., str | None]
) -> pl.Series:
    """A text for each key; `between` writes those of several values, none of them missing."""
    texts = []
    for low, high, *more in keys.tolist():
        done, text = _write_single(variable, low, high)
        texts.append(text if done else between(low, high, *more))
    return pl.Series(variable.name, texts, dtype=pl.String)


def _write_ranges(variable: Variable, form: CellForm, keys: Integers) -> pl.Series:
    """Ranges whose ends lie on a grid, at or outside those of their records."""
    if form.grid is None:

        def write_range(first: int, last: int) -> str:
            return format_range(_text(variable, first), _text(variable, last), variable.name)

        return _write_each(variable, keys, write_range)
    first, last = keys.T
    several = np.flatnonzero((first >= variable.missing) & (first != last))
    ends = _find_ends(variable, form.grid, form.parts, first[several], last[several])
    texts: list[str | None] = [None] * len(keys)
    begins, finishes = (format_ends(side) for side in ends)
    for key, begin, finish in zip(several.tolist(), begins, finishes, strict=True):
        texts[key] = f"[{begin};{finish}]"
    for key in np.setdiff1d(np.arange(len(keys)), several).tolist():
        texts[key] = _write_single(variable, int(first[key]), int(last[key]))[1]
    return pl.Series(variable.name, texts, dtype=pl.String)


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


def _write_masks(variable: Variable, keys: Integers) -> pl.Series:
    """What codes of one length begin with, `937**`; `*` where they share no beginning.

    In the order of spelling the first and the last share what all of them share.
    """

    def write_mask(first: int, last: int, same_length: int) -> str:
        text = _text(variable, first)
        start = common_prefix(text, _text(variable, last))
        return start + "*" * (len(text) - len(start)) if start and same_length else WILDCARD

    return _write_each(variable, keys, write_mask)


_CODE = np.dtype(np.int32).itemsize


def _list_sets(rows: RowCodes, clusters: Clusters) -> list[bytes]:
    from sfumato.kernels.clustering.clusters import find_level_sets

    levels, starts = find_level_sets(rows.low, clusters.order, clusters.starts)
    written = levels.astype(np.int32).tobytes()
    return [written[first:last] for first, last in pairwise((starts * _CODE).tolist())]


def _write_sets(variable: Variable, keys: list[bytes], *, whole_groups: bool) -> pl.Series:
    codes = np.frombuffer(b"".join(keys), np.int32)
    ends = np.cumsum([len(key) // _CODE for key in keys])
    first, last = codes[np.append(0, ends[:-1])], codes[ends - 1]
    levels, hierarchy = variable.levels, variable.column.hierarchy
    if levels.dtype != pl.String:
        levels = pl.Series([format_value(level) for level in levels.to_list()], dtype=pl.String)
    texts = levels.gather(first)
    several = (first != last) & (first >= variable.missing)
    for key in np.flatnonzero(~several & (first < variable.missing)).tolist():
        texts[key] = _write_single(variable, int(first[key]), int(last[key]))[1]
    cells = pl.DataFrame(
        {
            "key": np.repeat(np.arange(len(keys)), np.diff(ends, prepend=0)),
            "member": levels.gather(codes),
        }
    ).filter(pl.Series(np.repeat(several, np.diff(ends, prepend=0))))
    # Along a hierarchy the codes have its order, which means nothing in a set.
    cells = cells.sort("key", "member") if hierarchy else cells
    if cells["member"].str.contains(";", literal=True).any():
        format_set(cells["member"], variable.name)  # refuses it
    members = cells.group_by("key", maintain_order=True).agg("member")
    if whole_groups and hierarchy:
        sets = [_write_groups_of(one, variable) for one in members["member"].to_list()]
        written = pl.Series(sets, dtype=pl.String)
    else:
        written = "{" + members["member"].list.join(";") + "}"
    return texts.scatter(np.flatnonzero(several), written).alias(variable.name)


def _write_groups_of(members: list[str], variable: Variable) -> str:
    """A set of whole groups, which does not say which of their values occur."""
    paths = variable.column.hierarchy or {}
    groups = {paths[member][0] if member in paths else member for member in members}
    spread = {value for value, path in paths.items() if path[0] in groups} | set(members)
    if len(groups) == 1 and (name := groups.pop()) not in paths:
        return name
    return WILDCARD if len(spread) == len(paths) else format_set(sorted(spread), variable.name)


def _find_groups(
    variable: Variable, rows: RowCodes, clusters: Clusters
) -> tuple[Integers, Integers]:
    """The lowest level of the hierarchy with one group for a whole cluster, and which; else -1."""
    depth = np.full(len(clusters.starts) - 1, -1)
    number = np.zeros(len(depth), np.int64)
    for level, names in enumerate(zip(*variable.groups or (), strict=True)):
        numbers = {name: index for index, name in enumerate(dict.fromkeys(names))}
        # What is missing has no group.
        codes = np.array([-1] * variable.missing + [numbers[name] for name in names], np.int32)
        least, most = _code_ranges(
            RowCodes(codes[rows.low], codes[rows.high], rows.weights), clusters
        )
        fits = (depth < 0) & (least == most) & (least >= 0)
        depth[fits], number[fits] = level, least[fits]
    return depth, number


def _write_groups(variable: Variable, keys: Integers) -> pl.Series:
    """The narrowest group of the hierarchy that holds a whole cluster; else `*`."""
    levels = [list(dict.fromkeys(names)) for names in zip(*variable.groups or (), strict=True)]

    def write_group(first: int, last: int, depth: int, number: int) -> str:
        del first, last
        return levels[depth][number] if depth >= 0 else WILDCARD

    return _write_each(variable, keys, write_group)


# Single values -----------------------------------------------------------------------------------


def _choose_codes(variable: Variable, rows: RowCodes, clusters: Clusters, style: str) -> Integers:
    """One of the codes of each cluster: the commonest, or in turn as often as each occurs."""
    from sfumato.kernels.clustering.clusters import balance_levels

    if style == "balanced":
        return balance_levels(rows.low, clusters.order, clusters.starts, rows.weights)
    cluster, code, records = _tally_codes(rows, clusters, len(variable.levels))
    # Cluster by cluster, the commonest first, and of those the lowest code.
    order = np.lexsort((code, -records, cluster))
    first = np.unique(cluster[order], return_index=True)[1]
    modes: Integers = code[order][first]
    return modes


def _tally_codes(
    rows: RowCodes, clusters: Clusters, levels: int
) -> tuple[Integers, Integers, Integers]:
    """The codes of each cluster and how many records have them: clusters, codes, records."""
    sizes = np.diff(clusters.starts)
    pairs = np.repeat(np.arange(len(sizes)), sizes) * levels + rows.low[clusters.order]
    if not len(rows.weights):
        distinct, records = np.unique(pairs, return_counts=True)
    else:
        distinct, inverse = np.unique(pairs, return_inverse=True)
        records = np.zeros(len(distinct), np.int64)
        np.add.at(records, inverse.ravel(), rows.weights[clusters.order])
    cluster, code = np.divmod(distinct, levels)
    return cluster, code, records


def _describe_averages(
    variable: Variable, rows: RowCodes, clusters: Clusters, style: str, several: Any
) -> Integers:
    """Of each cluster what its average follows from, its only code, and whether it had several.

    It is the average of the values that are present, and missing where they are no more than half.
    All records of a cluster get it, so that what is missing tells nobody apart. Of a few values an
    average would come too near to one person's.
    """
    keys = np.zeros((len(several), 4), np.int64)
    keys[:, 2], keys[:, 3] = _GAP, several
    weights = rows.weights if len(rows.weights) else np.ones(len(rows.low), np.int64)
    present = rows.low >= variable.missing
    enough = 2 * clusters.sum_rows(np.where(present, weights, 0)) > clusters.sum_rows(weights)
    if not enough.any():
        return keys
    counts = clusters.sum_rows(present.astype(np.int64))
    members = present[clusters.order] & np.repeat(enough, np.diff(clusters.starts))
    among = Clusters(
        clusters.order[members], np.concatenate([[0], np.cumsum(counts[enough])]).astype(np.int64)
    )
    low, high = _code_ranges(rows, among)
    if style == "middle":
        first, second = low, high
    elif style == "median":
        first, second = _find_middles(rows, among, len(variable.levels))
    else:
        first, second = _sum_values(variable, rows, among), among.sum_rows(weights)
    if first.dtype == object:
        keys = keys.astype(object)
    keys[enough, 0], keys[enough, 1] = first, second
    keys[enough, 2] = np.where(low == high, low, _MIXED)
    return keys


def _find_middles(rows: RowCodes, clusters: Clusters, levels: int) -> tuple[Integers, Integers]:
    """The codes of the two middle records of each cluster; one twice where the size is odd."""
    cluster, code, records = _tally_codes(rows, clusters, levels)
    ends = np.cumsum(records)
    begins = np.append(0, ends[np.flatnonzero(np.diff(cluster))])
    sizes = np.diff(np.append(begins, ends[-1]))
    # Sorted within each cluster, the middle records stand at fixed positions.
    middles = (begins + (sizes - 1) // 2, begins + sizes // 2)
    first, last = (code[np.searchsorted(ends, middle, side="right")] for middle in middles)
    return first, last


def _sum_values(variable: Variable, rows: RowCodes, clusters: Clusters) -> Any:
    """The total of each cluster: whole numbers exactly, others as the bits of a float."""
    values, missing = _to_integers(variable.levels[variable.missing :]), variable.missing
    if values is None:
        worth = np.zeros(0) if variable.worth is None else variable.worth
        cluster, code, records = _tally_codes(rows, clusters, len(variable.levels))
        # In the order of the codes: whichever the order of the records, the same to the last bit.
        starts = np.append(0, np.flatnonzero(np.diff(cluster)) + 1)
        return (np.add.reduceat(worth[code] * records, starts) + 0.0).view(np.int64)
    weights = rows.weights if len(rows.weights) else np.ones(1, np.int64)
    largest = max(abs(int(values.min())), abs(int(values.max())))
    most = int(clusters.sum_rows(np.broadcast_to(weights, len(rows.low))).max())
    exact = values.astype(np.int64 if largest * most < _INT64 else object)
    return clusters.sum_rows(exact[rows.low - missing] * weights)


def _write_averages(variable: Variable, keys: Integers, form: CellForm) -> pl.Series:
    known = np.flatnonzero(keys[:, 2] != _GAP)
    if not len(known):
        return pl.Series(variable.name, [None] * len(keys), variable.levels.dtype)
    missing = variable.missing
    present = replace(
        variable,
        levels=variable.levels[missing:],
        missing=0,
        worth=None if variable.worth is None else variable.worth[missing:],
    )
    first, second, single = keys[known, :3].T
    if form.output == "mean":
        single = np.where(single >= 0, single - missing, -1).astype(np.int64)
        averages = _compute_means(present, first, second, single)
    else:
        codes = [(codes - missing).astype(np.int64) for codes in (first, second)]
        compute = _compute_middles if form.output == "middle" else _compute_medians
        averages = compute(present, form, *codes)
    position = np.full(len(keys), -1)
    position[known] = np.arange(len(known))
    gaps = pl.Series(position).set(pl.Series(position < 0), None)
    return averages.gather(gaps).alias(variable.name)


def _is_ranked(variable: Variable) -> bool:
    return variable.column.kind == "ordinal" and variable.column.levels is not None


def _compute_middles(
    variable: Variable, form: CellForm, low: Integers, high: Integers
) -> pl.Series:
    """The middle of the range that would be written; of ordered levels, the middle level."""
    if _is_ranked(variable):
        return variable.levels.gather((low + high) // 2)
    first, last = (variable.levels.gather(codes) for codes in (low, high))
    several = np.flatnonzero(low != high)
    numbers = [values.to_physical().cast(pl.Float64).to_numpy().copy() for values in (first, last)]
    if form.grid is not None and len(several):
        ends = _find_ends(variable, form.grid, form.parts, low[several], high[several])
        for side in (0, 1):
            bounded = pl.Series(ends[side], strict=False)
            numbers[side][several] = bounded.to_physical().cast(pl.Float64).to_numpy()
    middles = np.where(low == high, numbers[0], numbers[0] / 2 + numbers[1] / 2)
    return _restore_type(variable, middles)


def _compute_medians(
    variable: Variable, form: CellForm, first: Integers, last: Integers
) -> pl.Series:
    """The medians, given the codes of the two middle records; of ordered levels the first.

    Of whole numbers it is whole or ends in .5. Where floats would not hold all of them, halves
    are rounded down: any number between the two middles is a median.
    """
    del form
    if _is_ranked(variable):
        return variable.levels.gather(first)
    levels = _to_integers(variable.levels)
    if levels is None:
        worth = np.zeros(0) if variable.worth is None else variable.worth
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


def _compute_means(variable: Variable, totals: Any, sizes: Any, single: Integers) -> pl.Series:
    """The means, given totals and sizes; of clusters with one value (`single` >= 0) that value."""
    levels, constant = _to_integers(variable.levels), single >= 0
    if levels is None:
        worth = np.zeros(0) if variable.worth is None else variable.worth
        means = totals.astype(np.int64).view(np.float64) / sizes
        # A sum of equal numbers, divided by how many, need not be that number again.
        means[constant] = worth[single[constant]]
        return _restore_type(variable, means)
    if not (totals % sizes).any():
        return _restore_integers(variable, totals // sizes)
    values = levels[single[constant]]
    if any(int(float(value)) != value for value in values.tolist()):
        raise MethodError(
            f"Variable '{variable.name}' has whole numbers too large to stand beside means with a "
            "fraction.",
            hint='choose the output "median" or "range" for it.',
        )
    if np.abs(totals).max() >= _EXACT:  # Python divides long numbers without rounding them first
        totals = totals.astype(object)
    means = (totals / sizes).astype(np.float64)
    means[constant] = values
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
