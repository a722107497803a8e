"""Which records satisfy a statement, where cells may stand for several values.

The constants of the statement cut each variable into regions on which it does not change: for
numbers those below, at, between and above the constants. A cell touches some regions. A record
satisfies the statement if it holds on all combinations of regions that its cells touch, and may
satisfy it if it holds on some. That is exact, also for `x < 5 or x >= 5` and a range around 5.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.cells.codes import cast_untyped, encode
from sfumato.cells.confidential import filter_generalised
from sfumato.cells.notation import WILDCARD, infer_cell_type
from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Integers, Mask
from sfumato.risk.disclosure.predicate import (
    Comparison,
    Constant,
    Not,
    Predicate,
    list_comparisons,
    list_variables,
)
from sfumato.schema import Column, Schema

if TYPE_CHECKING:
    from sfumato.kernels.trees.box_cells import Cells

_LARGEST = 1 << 22
"""Combinations of regions that are looked at, at most."""
_EXACT = 2**53
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
Span = tuple[Any, Any]
"""The first and the last number that a constant stands for."""
Spans = dict[Constant, Span]
EPOCH = dt.date(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)


@dataclass(frozen=True, eq=False)
class Satisfaction:
    """For each record whether it satisfies a statement.

    Parameters
    ----------
    surely : it holds for every value that the record may stand for.
    possibly : it holds for some of them.
    unknown : a variable is missing and the statement is not decided without it. Such a record
        satisfies nothing, neither the statement nor its opposite.
    """

    surely: Mask
    possibly: Mask
    unknown: Mask


def evaluate_predicate(data: Dataset, predicate: Predicate) -> Satisfaction:
    """Hold a statement against every record.

    Examples
    --------
    >>> import polars as pl
    >>> from sfumato.risk.disclosure.predicate import parse
    >>> schema = Schema({"x": Column(cells="generalised")})
    >>> data = Dataset(pl.DataFrame({"x": ["[10;30]", "[20;30]", "12", None]}), schema)
    >>> found = evaluate_predicate(data, parse("x >= 20"))
    >>> found.surely.tolist(), found.possibly.tolist()
    ([False, True, False, False], [True, True, False, False])
    """
    names = list_variables(predicate)
    parts_compared = list(list_comparisons(predicate))
    parts = [
        find_regions(
            data, name, [comparison for comparison in parts_compared if comparison.variable == name]
        )
        for name in names
    ]
    if math.prod(len(part) for part in parts) > _LARGEST:
        raise MeasureError(
            "The statement has too many values in too many variables to be held against the data.",
            hint="split it into several measures.",
        )
    sure, maybe = _evaluate_on_regions(predicate, names, parts)
    for axis, part in enumerate(parts):
        sure = _reduce_regions(part.patterns, sure, axis, np.all)
        maybe = _reduce_regions(part.patterns, maybe, axis, np.any)
    position = tuple(part.of for part in parts)
    absent = np.logical_or.reduce([part.missing[part.of] for part in parts])
    surely, possibly = sure[position], maybe[position]
    return Satisfaction(surely, possibly & ~absent | surely, possibly & absent & ~surely)


def _reduce_regions(patterns: Mask, truth: Mask, axis: int, reduced: Any) -> Mask:
    """Replace an axis of regions by one of patterns: truth over all (or any) that each touches."""
    moved = np.moveaxis(truth, axis, 0)
    reduced_truth = np.stack([reduced(moved[touched], axis=0) for touched in patterns])
    return np.moveaxis(reduced_truth, 0, axis)


def _evaluate_on_regions(
    predicate: Predicate, names: tuple[str, ...], parts: list[Regions]
) -> tuple[Mask, Mask]:
    """Whether it holds, and whether it may hold, on every combination of regions."""
    if isinstance(predicate, Comparison):
        index = names.index(predicate.variable)
        shape = [len(part) if axis == index else 1 for axis, part in enumerate(parts)]
        full_shape = [len(part) for part in parts]
        # On the last region, that of missing, nothing holds and anything might.
        sure, maybe = (
            np.broadcast_to(
                np.append(parts[index].holds(predicate), last).reshape(shape), full_shape
            )
            for last in (False, True)
        )
        return sure, maybe
    if isinstance(predicate, Not):
        sure, maybe = _evaluate_on_regions(predicate.part, names, parts)
        # Not: what surely fails now surely holds, and the other way round.
        return ~maybe, ~sure
    evaluated = [_evaluate_on_regions(part, names, parts) for part in predicate.parts]
    join = np.logical_and if predicate.every else np.logical_or
    sures, maybes = zip(*evaluated, strict=True)
    return join.reduce(sures), join.reduce(maybes)


@dataclass(frozen=True, eq=False)
class Regions:
    """One variable cut into regions; the last one is that of missing.

    Parameters
    ----------
    of : the pattern of each record.
    patterns : (pattern, region) which regions a cell of this pattern touches.
    held : for every comparison whether it holds on each region but the last.
    """

    of: Integers
    patterns: Mask
    truth: dict[Comparison, Mask] = field(repr=False)

    def __len__(self) -> int:
        return int(self.patterns.shape[1])

    @property
    def missing(self) -> Mask:
        """Which patterns are missing."""
        return self.patterns[:, -1]

    def holds(self, comparison: Comparison) -> Mask:
        """Whether a comparison holds on each region, missing left out."""
        return self.truth[comparison]


def find_regions(data: Dataset, name: str, statements: Sequence[Comparison]) -> Regions:
    """Cut a variable at the constants that it is compared with."""
    values, column = cast_untyped(data.column(name)), data.schema[name]
    if values.dtype == pl.String:
        coded = encode(values)
        of, distinct = coded.missing_last.astype(np.int64), coded.levels
        kind = infer_cell_type(distinct, column, name)
        if kind == "level":
            return _cut_levels(of, distinct, column, statements)
        return _cut_ranges(of, distinct, column, statements, date=kind == "date")
    if values.dtype == pl.Binary or values.dtype in (pl.Time, pl.Duration):
        raise MeasureError(
            f"Variable '{name}' is of a type that no statement can be made about.",
            hint="turn it into text, numbers or dates.",
        )
    numbers, spans = _to_numbers(values, statements)
    cuts = list_ends(spans)
    region = _locate_numbers(numbers, cuts)
    last = 2 * len(cuts) + 1
    region = np.where(values.is_null().to_numpy(), last, region)
    return Regions(region, np.eye(last + 1, dtype=bool), _compare_numbers(statements, spans))


def _to_numbers(values: pl.Series, statements: Sequence[Comparison]) -> tuple[pl.Series, Spans]:
    """The values as plain numbers, and what each constant is among them."""
    moments = values.dtype == pl.Datetime
    if moments:
        numbers = values.dt.replace_time_zone(None).cast(pl.Datetime("us")).to_physical()
    elif values.dtype == pl.Date:
        numbers = values.to_physical()
    else:
        numbers = values.cast(pl.Float64) if values.dtype.is_decimal() else values
        numbers = numbers.cast(pl.Int8) if values.dtype == pl.Boolean else numbers
    read = read_moments if moments else read_days if values.dtype == pl.Date else read_number
    return numbers, read_spans(statements, values.name, read)


def _locate_numbers(values: pl.Series, cuts: list[Any]) -> Integers:
    """For each number 2 × the cuts below it, plus 1 if it is one of them."""
    filled = values.fill_null(0)
    widest: list[Any] = [filled.min() or 0, filled.max() or 0]
    if values.dtype.is_float() or all(abs(number) < _EXACT for number in (*widest, *cuts)):
        numbers, ends = filled.cast(pl.Float64).to_numpy(), np.array(cuts, np.float64)
        below = np.searchsorted(ends, numbers, "left")
        return below + np.searchsorted(ends, numbers, "right")
    # Floats would not tell such numbers apart.
    return np.array(
        [bisect_left(cuts, number) + bisect_right(cuts, number) for number in filled], np.int64
    )


def _compare_numbers(statements: Sequence[Comparison], spans: Spans) -> dict[Comparison, Mask]:
    position = {end: 2 * index + 1 for index, end in enumerate(list_ends(spans))}
    raw = np.arange(2 * len(position) + 1)
    truth = {}
    for comparison in statements:
        within = [
            (position[low], position[high])
            for low, high in (spans[constant] for constant in comparison.constants)
        ]
        if comparison.sign in ("in", "==", "!="):
            matching = np.any([(low <= raw) & (raw <= high) for low, high in within], axis=0)
            truth[comparison] = ~matching if comparison.sign == "!=" else matching
        else:
            # `<` and `>=` are about where a constant begins, `<=` and `>` about where it ends.
            end = within[0][comparison.sign in ("<=", ">")]
            truth[comparison] = _COMPARE[comparison.sign](raw, end)
    return truth


def _cut_ranges(
    of: Integers,
    distinct: pl.Series,
    column: Column,
    statements: Sequence[Comparison],
    *,
    date: bool,
) -> Regions:
    """Numbers or dates in text: ranges, sets and masks touch several regions."""
    spans = read_spans(statements, distinct.name, read_days if date else read_number)
    ends = list_ends(spans)
    written = [str(EPOCH + dt.timedelta(days=end)) if date else repr(end) for end in ends]
    cells, table = _encode_cells([*distinct.to_list(), *written], column, distinct.name)
    # A constant is a cell of a single code. Codes between two constants are one region.
    cut_codes = np.array([table.low[_first(table, cell)] for cell in cells[len(distinct) :]])
    codes = np.arange(table.size)
    region = np.searchsorted(cut_codes, codes, "left") + np.searchsorted(cut_codes, codes, "right")
    touched = _find_regions_of_cells(cells[: len(distinct)], table, region, 2 * len(ends) + 1)
    if column.generalised:
        touched[(distinct == WILDCARD).to_numpy(), :-1] = True
    return _share_patterns(of, touched, _compare_numbers(statements, spans))


def _cut_levels(
    of: Integers, distinct: pl.Series, column: Column, statements: Sequence[Comparison]
) -> Regions:
    """Categories: each constant, or each level where the statement uses their order."""
    name = distinct.name
    levels = [str(level) for level in (column.levels or ()) if column.kind == "ordinal"]
    constants = list(dict.fromkeys(c for comparison in statements for c in comparison.constants))
    if not all(isinstance(constant, str) for constant in constants):
        raise MeasureError(
            f"Variable '{name}' holds text, and the statement compares it with a number.",
            hint="write text in quotes; if it holds numbers, declare its kind in the schema.",
        )
    if column.generalised and WILDCARD in constants:
        raise MeasureError(
            f"The statement compares variable '{name}' with '*', which stands for anything.",
            hint="name a value.",
        )
    ordered = any(comparison.sign not in ("==", "!=", "in") for comparison in statements)
    if ordered and not set(map(str, constants)) <= set(levels):
        raise MeasureError(
            f"The statement uses an order of variable '{name}' that the schema does not declare.",
            hint='declare kind = "ordinal" and its levels from low to high.',
        )
    named = levels if ordered else [str(constant) for constant in constants]
    some = _select_nameable(distinct, column, named)
    cells, table = _encode_cells([*distinct.filter(some).to_list(), *named], column, name)
    known = len(cells) - len(named)
    members = np.array([_mask_members(table, cell) for cell in cells[known:]])
    # Codes that belong to the same names behave alike: they are one region.
    kinds, region = np.unique(members, axis=1, return_inverse=True)
    # One region more, the last before missing: all values that the statement does not name.
    kinds = np.column_stack([kinds, np.zeros(len(named), bool)])
    touched = np.zeros((len(distinct), kinds.shape[1] + 1), bool)
    touched[~some.to_numpy(), -2] = True
    touched[some.to_numpy()] = _find_regions_of_cells(
        cells[:known], table, region.ravel(), kinds.shape[1]
    )
    if column.generalised:
        touched[(distinct == WILDCARD).to_numpy(), :-1] = True
    truth = {comparison: _compare_levels(comparison, named, kinds) for comparison in statements}
    return _share_patterns(of, touched, truth)


def _select_nameable(distinct: pl.Series, column: Column, named: list[str]) -> pl.Series:
    """Which cells a statement may name: those it does, those in the hierarchy, generalised ones."""
    tree = column.hierarchy or {}
    declared = {*named, *tree, *(group for groups in tree.values() for group in groups)}
    several = {WILDCARD, *filter_generalised(distinct)} if column.generalised else set()
    return distinct.is_in([*declared, *several])


def _compare_levels(comparison: Comparison, named: list[str], kinds: Mask) -> Mask:
    """Whether a comparison holds on each region, given which names each region belongs to."""
    if comparison.sign in ("==", "in", "!="):
        matching = np.any(kinds[[named.index(str(c)) for c in comparison.constants]], axis=0)
        return np.asarray(~matching if comparison.sign == "!=" else matching)
    limit = named.index(str(comparison.constants[0]))
    before = _COMPARE[comparison.sign](np.arange(len(named)), limit)
    return np.asarray(np.any(kinds[before], axis=0))


def _encode_cells(texts: list[str], column: Column, name: str) -> tuple[Integers, Cells]:
    """The codes that distinct cells, and constants among them, stand for."""
    from sfumato.cells.boxes import read_boxes

    # What is missing is known by now; a constant that is a code for it must not become missing.
    schema = Schema({name: replace(column, missing=())})
    few = Dataset(pl.DataFrame({name: pl.Series(texts, dtype=pl.String)}), schema)
    boxes = read_boxes(few, [name])
    return boxes.cells[0].astype(np.int64), boxes.tables[0]


def _first(table: Cells, cell: int) -> int:
    return int(cell if table.starts is None else table.starts[cell])


def _pieces(table: Cells, cell: int) -> range:
    return range(_first(table, cell), _first(table, cell + 1))


def _mask_members(table: Cells, cell: int) -> Mask:
    """Which codes a cell stands for."""
    members = np.zeros(table.size, bool)
    for piece in _pieces(table, cell):
        members[table.low[piece] : table.high[piece] + 1] = True
    return members


def _find_regions_of_cells(cells: Integers, table: Cells, region: Integers, width: int) -> Mask:
    """Which regions each cell touches, with an empty column for missing at the end."""
    touched = np.zeros((len(cells), width + 1), bool)
    single = np.zeros(len(cells), bool)
    if table.starts is None:
        single = table.low[cells] == table.high[cells]
        touched[np.flatnonzero(single), region[table.low[cells[single]]]] = True
    for row in np.flatnonzero(~single):
        for piece in _pieces(table, int(cells[row])):
            touched[row, region[table.low[piece] : table.high[piece] + 1]] = True
    return touched


def _share_patterns(of: Integers, touched: Mask, truth: dict[Comparison, Mask]) -> Regions:
    """Cells that touch the same regions share a pattern; the last row is missing."""
    absent = np.zeros((1, touched.shape[1]), bool)
    absent[0, -1] = True
    patterns, number = np.unique(np.vstack([touched, absent]), axis=0, return_inverse=True)
    return Regions(number.ravel()[of], patterns, truth)


def read_spans(
    statements: Sequence[Comparison], name: str, read: Callable[[Constant, str], Span]
) -> Spans:
    """What each constant stands for on the scale of a variable."""
    return {
        constant: read(constant, name)
        for comparison in statements
        for constant in comparison.constants
    }


def list_ends(spans: Spans) -> list[Any]:
    """Where all of them begin and end, in rising order."""
    return sorted({end for span in spans.values() for end in span})


def read_number(constant: Constant, name: str) -> Span:
    """A number stands for itself."""
    if isinstance(constant, str):
        raise MeasureError(
            f"Variable '{name}' holds numbers, and the statement compares it with text.",
            hint="write numbers without quotes.",
        )
    number = int(constant) if isinstance(constant, bool) else constant
    return number, number


def read_days(constant: Constant, name: str) -> Span:
    """Days since 1970: a date is one of them."""
    try:
        days = (dt.date.fromisoformat(str(constant)) - EPOCH).days
    except ValueError:
        raise _no_date(name) from None
    return days, days


def read_moments(constant: Constant, name: str) -> Span:
    """Microseconds since 1970, from the first to the last: a date is its whole day."""
    try:
        first = (dt.date.fromisoformat(str(constant)) - EPOCH) // _MICROSECOND
    except ValueError:
        only = _read_moment(constant, name)
        return only, only
    return first, first + dt.timedelta(days=1) // _MICROSECOND - 1


def _read_moment(constant: Constant, name: str) -> int:
    try:
        moment = dt.datetime.fromisoformat(str(constant))
    except ValueError:
        raise _no_date(name) from None
    if moment.tzinfo is not None:
        raise MeasureError(
            f"The statement compares variable '{name}' with a time that has an offset from UTC, "
            "and its moments are read by the clock of their own zone.",
            hint="write the time on that clock, without an offset.",
        )
    return (moment - dt.datetime.combine(EPOCH, dt.time())) // _MICROSECOND


def _no_date(name: str) -> MeasureError:
    return MeasureError(
        f"Variable '{name}' holds dates, and the statement compares it with something else.",
        hint='write dates as text, such as "2020-01-31" (among moments: that whole day).',
    )
