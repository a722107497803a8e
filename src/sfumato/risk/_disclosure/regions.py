"""The regions into which the constants of a statement cut one variable."""

from __future__ import annotations

import datetime as dt
import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.cells.classes import places, typed
from sfumato.cells.confidential import generalised
from sfumato.cells.notation import WILDCARD, type_of
from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Integers, Mask
from sfumato.risk._disclosure.constants import (
    EPOCH,
    Spans,
    days_of,
    ends_of,
    moments_of,
    number_of,
    spans_of,
)
from sfumato.risk._disclosure.predicate import Comparison
from sfumato.schema import Column, Schema

if TYPE_CHECKING:
    from sfumato.kernels.trees.boxes import Cells

_EXACT = 2**53
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


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
    held: dict[Comparison, Mask] = field(repr=False)

    def __len__(self) -> int:
        return int(self.patterns.shape[1])

    @property
    def missing(self) -> Mask:
        """Which patterns are missing."""
        return self.patterns[:, -1]

    def holds(self, comparison: Comparison) -> Mask:
        """Whether a comparison holds on each region, missing left out."""
        return self.held[comparison]


def regions(data: Dataset, name: str, told: Sequence[Comparison]) -> Regions:
    """Cut a variable at the constants that it is compared with."""
    values, column = typed(data.column(name)), data.schema[name]
    if values.dtype == pl.String:
        distinct = values.drop_nulls().unique().sort()
        of = places(values, distinct).fill_null(len(distinct)).to_numpy().astype(np.int64)
        kind = type_of(distinct, column, name)
        if kind == "level":
            return _levels(of, distinct, column, told)
        return _generalised(of, distinct, column, told, date=kind == "date")
    if values.dtype == pl.Binary or values.dtype in (pl.Time, pl.Duration):
        raise MeasureError(
            f"Variable '{name}' is of a type that no statement can be made about.",
            hint="turn it into text, numbers or dates.",
        )
    plain, spans = _plain(values, told)
    cuts = ends_of(spans)
    region = _placed(plain, cuts)
    last = 2 * len(cuts) + 1
    region = np.where(values.is_null().to_numpy(), last, region)
    return Regions(region, np.eye(last + 1, dtype=bool), _on_numbers(told, spans))


def _plain(values: pl.Series, told: Sequence[Comparison]) -> tuple[pl.Series, Spans]:
    """The values as plain numbers, and what each constant is among them."""
    moments = values.dtype == pl.Datetime
    if moments:
        plain = values.dt.replace_time_zone(None).cast(pl.Datetime("us")).to_physical()
    elif values.dtype == pl.Date:
        plain = values.to_physical()
    else:
        plain = values.cast(pl.Float64) if values.dtype.is_decimal() else values
        plain = plain.cast(pl.Int8) if values.dtype == pl.Boolean else plain
    read = moments_of if moments else days_of if values.dtype == pl.Date else number_of
    return plain, spans_of(told, values.name, read)


def _placed(values: pl.Series, cuts: list[Any]) -> Integers:
    """For each number 2 × the cuts below it, plus 1 if it is one of them."""
    filled = values.fill_null(0)
    widest: list[Any] = [filled.min() or 0, filled.max() or 0]
    if values.dtype.is_float() or all(abs(one) < _EXACT for one in (*widest, *cuts)):
        numbers, ends = filled.cast(pl.Float64).to_numpy(), np.array(cuts, np.float64)
        left = np.searchsorted(ends, numbers, "left")
        return left + np.searchsorted(ends, numbers, "right")
    # Floats would not tell such numbers apart.
    return np.array([bisect_left(cuts, one) + bisect_right(cuts, one) for one in filled], np.int64)


def _on_numbers(told: Sequence[Comparison], spans: Spans) -> dict[Comparison, Mask]:
    place = {end: 2 * at + 1 for at, end in enumerate(ends_of(spans))}
    raw = np.arange(2 * len(place) + 1)
    held = {}
    for one in told:
        within = [
            (place[low], place[high])
            for low, high in (spans[constant] for constant in one.constants)
        ]
        if one.sign in ("in", "==", "!="):
            found = np.any([(low <= raw) & (raw <= high) for low, high in within], axis=0)
            held[one] = ~found if one.sign == "!=" else found
        else:
            # `<` and `>=` are about where a constant begins, `<=` and `>` about where it ends.
            end = within[0][one.sign in ("<=", ">")]
            held[one] = _COMPARE[one.sign](raw, end)
    return held


def _generalised(
    of: Integers, distinct: pl.Series, column: Column, told: Sequence[Comparison], *, date: bool
) -> Regions:
    """Numbers or dates in text: ranges, sets and masks touch several regions."""
    spans = spans_of(told, distinct.name, days_of if date else number_of)
    ends = ends_of(spans)
    written = [str(EPOCH + dt.timedelta(days=end)) if date else repr(end) for end in ends]
    cells, table = _cells([*distinct.to_list(), *written], column, distinct.name)
    # A constant is a cell of a single code. Codes between two constants are one region.
    cut_codes = np.array([table.low[_first(table, cell)] for cell in cells[len(distinct) :]])
    codes = np.arange(table.size)
    region = np.searchsorted(cut_codes, codes, "left") + np.searchsorted(cut_codes, codes, "right")
    touched = _touched(cells[: len(distinct)], table, region, 2 * len(ends) + 1)
    touched[(distinct == WILDCARD).to_numpy(), :-1] = True
    return _shared(of, touched, _on_numbers(told, spans))


def _levels(
    of: Integers, distinct: pl.Series, column: Column, told: Sequence[Comparison]
) -> Regions:
    """Categories: each constant, or each level where the statement uses their order."""
    name = distinct.name
    levels = [str(level) for level in (column.levels or ()) if column.kind == "ordinal"]
    constants = list(dict.fromkeys(c for one in told for c in one.constants))
    if not all(isinstance(constant, str) for constant in constants):
        raise MeasureError(
            f"Variable '{name}' holds text, and the statement compares it with a number.",
            hint="write text in quotes; if it holds numbers, declare its kind in the schema.",
        )
    if WILDCARD in constants:
        raise MeasureError(
            f"The statement compares variable '{name}' with '*', which stands for anything.",
            hint="name a value.",
        )
    ordered = any(one.sign not in ("==", "!=", "in") for one in told)
    if ordered and not set(map(str, constants)) <= set(levels):
        raise MeasureError(
            f"The statement uses an order of variable '{name}' that the schema does not declare.",
            hint='declare kind = "ordinal" and its levels from low to high.',
        )
    named = levels if ordered else [str(constant) for constant in constants]
    some = _not_other(distinct, column, named)
    cells, table = _cells([*distinct.filter(some).to_list(), *named], column, name)
    known = len(cells) - len(named)
    inside = np.array([_member(table, cell) for cell in cells[known:]])
    kinds, region = np.unique(inside, axis=1, return_inverse=True)
    # One region more, the last before missing: all values that the statement does not name.
    kinds = np.column_stack([kinds, np.zeros(len(named), bool)])
    touched = np.zeros((len(distinct), kinds.shape[1] + 1), bool)
    touched[~some.to_numpy(), -2] = True
    touched[some.to_numpy()] = _touched(cells[:known], table, region.ravel(), kinds.shape[1])
    touched[(distinct == WILDCARD).to_numpy(), :-1] = True
    held = {one: _on_levels(one, named, kinds) for one in told}
    return _shared(of, touched, held)


def _not_other(distinct: pl.Series, column: Column, named: list[str]) -> pl.Series:
    """Which cells a statement may name: those it does, those in the hierarchy, generalised ones."""
    tree = column.hierarchy or {}
    listed = {*named, *tree, *(group for groups in tree.values() for group in groups)}
    several = {WILDCARD, *generalised(distinct)}
    return distinct.is_in([*listed, *several])


def _on_levels(one: Comparison, named: list[str], kinds: Mask) -> Mask:
    """Whether a comparison holds on each region, given which names each region belongs to."""
    if one.sign in ("==", "in", "!="):
        found = np.any(kinds[[named.index(str(c)) for c in one.constants]], axis=0)
        return np.asarray(~found if one.sign == "!=" else found)
    at = named.index(str(one.constants[0]))
    before = _COMPARE[one.sign](np.arange(len(named)), at)
    return np.asarray(np.any(kinds[before], axis=0))


def _cells(texts: list[str], column: Column, name: str) -> tuple[Integers, Cells]:
    """The codes that distinct cells, and constants among them, stand for."""
    from sfumato.cells.boxes import boxes

    # What is missing is known by now; a constant that is a code for it must not become missing.
    schema = Schema({name: replace(column, missing=())})
    few = Dataset(pl.DataFrame({name: pl.Series(texts, dtype=pl.String)}), schema)
    made = boxes(few, [name])
    return made.cells[0].astype(np.int64), made.tables[0]


def _first(table: Cells, cell: int) -> int:
    return int(cell if table.starts is None else table.starts[cell])


def _pieces(table: Cells, cell: int) -> range:
    return range(_first(table, cell), _first(table, cell + 1))


def _member(table: Cells, cell: int) -> Mask:
    """Which codes a cell stands for."""
    found = np.zeros(table.size, bool)
    for piece in _pieces(table, cell):
        found[table.low[piece] : table.high[piece] + 1] = True
    return found


def _touched(cells: Integers, table: Cells, region: Integers, width: int) -> Mask:
    """Which regions each cell touches, with an empty column for missing at the end."""
    made = np.zeros((len(cells), width + 1), bool)
    whole = np.zeros(len(cells), bool)
    if table.starts is None:
        whole = table.low[cells] == table.high[cells]
        made[np.flatnonzero(whole), region[table.low[cells[whole]]]] = True
    for at in np.flatnonzero(~whole):
        for piece in _pieces(table, int(cells[at])):
            made[at, region[table.low[piece] : table.high[piece] + 1]] = True
    return made


def _shared(of: Integers, touched: Mask, held: dict[Comparison, Mask]) -> Regions:
    """Cells that touch the same regions share a pattern; the last row is missing."""
    absent = np.zeros((1, touched.shape[1]), bool)
    absent[0, -1] = True
    patterns, number = np.unique(np.vstack([touched, absent]), axis=0, return_inverse=True)
    return Regions(number.ravel()[of], patterns, held)
