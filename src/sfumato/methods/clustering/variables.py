"""Variables as codes in an order with distances: what the clusterings work on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.cells.codes import encode
from sfumato.cells.grids import Grid, choose_grid, require_grid
from sfumato.cells.group_grids import GroupGrid
from sfumato.cells.notation import format_value, is_generalised
from sfumato.data import Dataset, find_missing_codes
from sfumato.data.stream import Stream
from sfumato.engines import Combinations
from sfumato.errors import DataError, MethodError, PlanError
from sfumato.io import frames
from sfumato.kernels.arrays import AnyIntegers, Codes, Floats, Integers
from sfumato.kernels.memory import allocate
from sfumato.schema import Column
from sfumato.schema.hierarchies import Hierarchy

if TYPE_CHECKING:
    from sfumato.kernels.clustering.closeness import ClosenessRule

_NUMBERS = ("integer", "continuous")
_MANY = 1 << 20
"""Records from which on codes are as short as possible."""
# How far missing lies below the lowest value, as a share of the span of the values.
_APART = 0.5


@dataclass(frozen=True, eq=False)
class Variable:
    """One variable as codes, from 0; the codes of an ordered variable are in its order.

    Parameters
    ----------
    name : its name.
    column : its declaration.
    codes : the code of each record.
    levels : what each code stands for; those that mean missing come first.
    missing : how many of the levels mean missing.
    worth : what each code is worth as a number; None where levels have no order.
    known_counts : how many records have each code, where `codes` are not those of all records.
    """

    name: str
    column: Column
    codes: Codes
    levels: pl.Series
    missing: int
    worth: Floats | None
    known_counts: Integers | None = None

    def take(self, positions: Integers) -> Variable:
        """Some of the records, with the levels that they have."""
        used, codes = np.unique(self.codes[positions], return_inverse=True)
        return replace(
            self,
            codes=codes.ravel().astype(np.int32),
            levels=self.levels.gather(used),
            missing=int((used < self.missing).sum()),
            worth=None if self.worth is None else self.worth[used],
        )

    @property
    def counts(self) -> Integers:
        """How many records have each code."""
        if self.known_counts is not None:
            return self.known_counts
        return np.bincount(self.codes, minlength=len(self.levels))

    @property
    def groups(self) -> list[tuple[str, ...]] | None:
        """The ever broader groups of each level, where the schema has a hierarchy."""
        if self.column.hierarchy is None:
            return None
        paths = Hierarchy.of(self.column.hierarchy).paths
        names = [format_value(level) for level in self.levels.to_list()]
        unknown = [code >= self.missing and name not in paths for code, name in enumerate(names)]
        if any(unknown):
            raise MethodError(
                f"Variable '{self.name}' has {int(self.counts[unknown].sum())} records with a "
                "value that its hierarchy does not know.",
                hint="add all values to the hierarchy; codes are text, so 01067 is not 1067.",
            )
        return [paths[name] for name in names[self.missing :]]


@dataclass(frozen=True, eq=False)
class ConfidentialRule:
    """What every cluster must keep about a confidential variable.

    Parameters
    ----------
    name : the variable.
    levels : its values in rising order.
    codes : the code that the rule sees for each of them, and at the end for missing.
    rule : the rule.
    """

    name: str
    levels: pl.Series
    codes: Codes
    rule: ClosenessRule


@dataclass(frozen=True, eq=False)
class ClusteredRows:
    """What a clustering sees: rows, each of which stands for one or more records.

    Parameters
    ----------
    variables : their codes in each variable.
    weights : how many records each stands for; empty: one.
    strata : the number of each row's stratum; None: there are no strata.
    sensitive : a column of codes for each rule.
    rules : what every cluster must keep about them.
    list_person_keys : keys of each row, the most important first, in an order that follows the
        person, where rows are records.
    """

    variables: Sequence[Variable]
    weights: Integers
    strata: Integers | None = None
    sensitive: Codes | None = None
    rules: Sequence[ClosenessRule] = ()
    list_person_keys: Callable[[], Sequence[AnyIntegers]] | None = None

    def take(self, positions: Integers) -> ClusteredRows:
        """Some of the rows, with the levels that they have, and without strata."""
        list_all = self.list_person_keys
        return replace(
            self,
            variables=[variable.take(positions) for variable in self.variables],
            weights=self.weights[positions] if len(self.weights) else self.weights,
            strata=None,
            sensitive=None if self.sensitive is None else self.sensitive[positions],
            list_person_keys=None
            if list_all is None
            else lambda: [key[positions] for key in list_all()],
        )


def read_levels(occurring: Combinations, column: Column, owner: str) -> Variable:
    """The levels of one variable, given its distinct values; `codes` has each of them once."""
    values = occurring.values.to_series()
    variable = _order_levels(values, column, owner)
    codes, count = encode_values(values, variable, owner), len(variable.levels)
    records = np.zeros(count, np.int64)
    np.add.at(records, codes, occurring.counts)
    return replace(variable, codes=np.arange(count, dtype=np.int32), known_counts=records)


def encode_variables(data: Dataset, names: tuple[str, ...], owner: str) -> list[Variable]:
    """Some variables of the data as codes; each missing code is told apart from the others."""
    data.schema.require(names)
    if not names:
        raise MethodError(
            f"{owner} has no variable to work on.",
            hint='give some variables the role "quasi", or name them: variables = [...].',
        )
    if frames.is_lazy(data.frame):
        return _encode_stream(data, names, owner)
    return [encode_variable(data, name, owner) for name in names]


def encode_variable(data: Dataset, name: str, owner: str) -> Variable:
    """One variable as codes."""
    raw = frames.get_column(data.frame, name)
    variable = _order_levels(raw.unique(), data.schema[name], owner)
    dtype = choose_code_type(len(variable.levels), len(raw))
    return replace(variable, codes=encode_values(raw, variable, owner).astype(dtype, copy=False))


def _encode_stream(data: Dataset, names: tuple[str, ...], owner: str) -> list[Variable]:
    """The same of records that are read batch by batch: once for the levels, once for the codes."""
    stream, levels = Stream.of(data), dict[str, pl.Series]()
    for _, batch in stream.read(names):
        for name in names:
            values = frames.get_column(batch, name).unique()
            levels[name] = pl.concat([levels[name], values]).unique() if name in levels else values
    records = stream.records
    variables = [_order_levels(levels[name], data.schema[name], owner) for name in names]
    variables = [
        replace(v, codes=allocate((records,), choose_code_type(len(v.levels), records)))
        for v in variables
    ]
    for rows, batch in stream.read(names):
        for variable in variables:
            values = frames.get_column(batch, variable.name)
            variable.codes[rows] = encode_values(values, variable, owner)
    return variables


def choose_code_type(levels: int, records: int) -> type[np.signedinteger[Any]]:
    """A type for codes: that of the kernels, or for many records the smallest that does."""
    if records <= _MANY:
        return np.int32
    return next(t for t in (np.int8, np.int16, np.int32) if levels - 1 <= np.iinfo(t).max)


def _order_levels(raw: pl.Series, column: Column, owner: str) -> Variable:
    """A variable without records yet, given its distinct values."""
    absent = find_missing_codes(raw, column)
    values = to_comparable(raw, column, owner)
    missing = values.is_null() if absent is None else values.is_null() | absent
    # A release shows which code for "missing" a cell holds, so each is a level.
    missing_codes = values.filter(missing).unique().sort(nulls_last=False)
    levels = values.filter(~missing).unique().sort()
    if column.kind == "ordinal" and column.levels is not None:
        levels = _sort_by_domain(levels, column, raw.name)
    elif _has_tree(column):
        levels = _sort_along_tree(levels, column)
    gaps = len(missing_codes)
    worth = _scale_levels(levels, column, gaps)
    all_levels = pl.concat([missing_codes, levels]).rename(raw.name)
    return Variable(raw.name, column, np.empty(0, np.int32), all_levels, gaps, worth)


def encode_values(raw: pl.Series, variable: Variable, owner: str) -> Codes:
    """Which of the levels each value is."""
    return encode(to_comparable(raw, variable.column, owner), variable.levels).codes


def choose_variable_grid(
    variable: Variable, declared: float | str | None, enough: float
) -> Grid | GroupGrid | None:
    """The grid on which ranges of a variable end; None where it has no numbers and no days.

    Groups of a hierarchy are a grid; one that the plan declares comes before them.
    """
    levels, kind = variable.levels[variable.missing :], variable.column.kind
    ordered = kind in (*_NUMBERS, "date", "ordinal")
    if declared is None and ordered and (groups := GroupGrid.read(variable.column, levels)):
        return groups
    measured = kind in (*_NUMBERS, "date") or (kind == "ordinal" and variable.column.levels is None)
    if not measured or not (levels.dtype.is_numeric() or levels.dtype == pl.Date):
        if declared is not None:
            raise PlanError(
                f"A grid is declared for variable '{variable.name}', which has no numbers and no "
                "dates.",
                hint="declare grids for numbers and dates only.",
            )
        return None
    whole = levels.dtype.is_integer() and kind != "continuous"
    if not whole and kind != "continuous" and levels.dtype.is_numeric():
        # pandas turns whole numbers with gaps into floats.
        whole = bool((levels == levels.round()).all())
    if declared is not None:
        return require_grid(variable.name, declared, levels, whole=whole)
    return choose_grid(levels, whole=whole, enough=enough) if len(levels) else None


def align_to_grid(variable: Variable, grid: Grid | GroupGrid) -> Variable:
    """The variable with one level for each cell of the grid: all that a clustering may see."""
    cells, of_level = np.unique(
        grid.locate(variable.levels[variable.missing :]), return_inverse=True
    )
    begins = grid.begin(cells).rename(variable.name)
    code = np.concatenate([np.arange(variable.missing), variable.missing + of_level.ravel()])
    codes = variable.codes
    if len(cells) < len(of_level):  # else each level is a cell
        codes = code.astype(choose_code_type(len(cells) + variable.missing, len(codes)))[codes]
    # What means missing is only told apart, so any other number will do.
    missing = pl.Series(variable.name, [None] * variable.missing, dtype=begins.dtype)
    return replace(
        variable,
        codes=codes,
        levels=pl.concat([missing, begins]),
        worth=_scale_levels(begins, variable.column, variable.missing),
    )


def to_comparable(values: pl.Series, column: Column, owner: str) -> pl.Series:
    """Values that can be sorted and told apart; dates by the day, since ranges are of days."""
    name, dtype = values.name, values.dtype
    if dtype in (pl.Date, pl.Datetime):
        return values.dt.date() if dtype == pl.Datetime else values
    if dtype.is_temporal():
        raise MethodError(
            f"{owner} cannot use variable '{name}': it holds times without a date.",
            hint="leave it out, or turn it into a number.",
        )
    if dtype.is_float():
        numbers = values.cast(pl.Float64)
        numbers = numbers.set(numbers == 0, 0.0)  # no negative zero
        if numbers.is_infinite().any():
            raise DataError(
                f"Variable '{name}' holds infinite values.",
                hint="set them to missing, or correct them at the source.",
            )
        return numbers
    if dtype == pl.Binary:
        return values.bin.encode("hex")
    if (
        dtype == pl.String
        and column.kind in (*_NUMBERS, "date")
        and values.null_count() < len(values)
    ):
        texts = values.drop_nulls()
        if column.generalised and any(map(is_generalised, texts)):
            raise MethodError(
                f"Variable '{name}' holds ranges that an earlier step has made.",
                hint="clusters are found once, in one step: `t_closeness` takes k, t and l.",
            )
        raise MethodError(
            f"{owner} needs numbers or dates in variable '{name}', which holds text.",
            hint="correct the cells, or declare another kind.",
        )
    return values


def _sort_by_domain(levels: pl.Series, column: Column, name: str) -> pl.Series:
    """The levels that occur, in the declared order."""
    rank = {format_value(level): index for index, level in enumerate(column.levels or ())}
    order = [rank.get(format_value(level), -1) for level in levels.to_list()]
    if -1 in order:
        raise MethodError(
            f"Variable '{name}' has {order.count(-1)} levels that its domain does not list.",
            hint="declare all levels, from low to high.",
        )
    return levels.gather(np.argsort(order, kind="stable"))


def _has_tree(column: Column) -> bool:
    return column.kind in ("nominal", "text") and column.hierarchy is not None


def _sort_along_tree(levels: pl.Series, column: Column) -> pl.Series:
    """Levels such that those of one group stand together; unknown ones at the end."""
    broader = Hierarchy.of(column.hierarchy or {}).paths

    def path_from_root(code: int) -> tuple[bool, tuple[str, ...], int]:
        text = format_value(levels[code])
        return text not in broader, tuple(reversed(broader.get(text, ()))), code

    return levels.gather(sorted(range(len(levels)), key=path_from_root))


def _scale_levels(levels: pl.Series, column: Column, missing: int) -> Floats | None:
    if _has_tree(column):
        units = _scale_along_tree(levels, column)
    elif column.kind == "text" and levels.dtype == pl.String:
        units = _scale_by_spelling(levels.to_list())
    elif column.kind == "ordinal" and (column.levels is not None or not levels.dtype.is_numeric()):
        if column.levels is None:
            raise MethodError(
                f"Variable '{levels.name}' is ordinal, and nothing says in which order.",
                hint="declare its levels in the schema, from low to high: domain = [...].",
            )
        units = np.arange(len(levels), dtype=np.float64)
    elif levels.dtype == pl.Date:
        units = levels.to_physical().cast(pl.Float64).to_numpy()
    elif column.kind in (*_NUMBERS, "ordinal") and levels.dtype.is_numeric():
        units = levels.cast(pl.Float64).to_numpy()
    elif column.kind in (*_NUMBERS, "ordinal", "date"):
        units = np.arange(len(levels), dtype=np.float64)  # nothing in it, or yes/no values
    else:
        return None
    if not missing:
        return units
    low, high = (units[0], units[-1]) if len(units) else (0.0, 0.0)
    # Near enough to be cut off alone, and never among the values.
    below = low - _APART * (high - low if high > low else 1.0)
    return np.concatenate([np.full(missing, below), units])


def _scale_along_tree(levels: pl.Series, column: Column) -> Floats:
    """Neighbours in the tree are as far apart as their first common group is high."""
    broader = Hierarchy.of(column.hierarchy or {}).paths
    paths = [(text, *broader.get(text, ())) for text in map(format_value, levels.to_list())]
    steps = [0.0]
    for path, after in pairwise(paths):
        pairs = enumerate(zip(path, after, strict=False))
        height = next((level for level, (a, b) in pairs if a == b), max(len(path), len(after)))
        steps.append(float(height))
    return np.cumsum(steps[: len(paths)])


def _scale_by_spelling(texts: list[str]) -> Floats:
    """Codes in the order of their spelling, nearer the more of their beginning they share."""
    longest = max(map(len, texts), default=0)
    shared = [len(common_prefix(*pair)) for pair in pairwise(texts)]
    return np.cumsum([0.0, *(float(longest - length) for length in shared)])[: len(texts)]


def common_prefix(text: str, other: str) -> str:
    """What two texts begin with alike."""
    differ = (i for i, (a, b) in enumerate(zip(text, other, strict=False)) if a != b)
    return text[: next(differ, min(len(text), len(other)))]
