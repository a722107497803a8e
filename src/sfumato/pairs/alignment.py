"""The original beside the released data, record by record and variable by variable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import polars as pl

from sfumato.cells.intervals import Intervals
from sfumato.cells.level_sets import LevelSets
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.engines.local import find_partners
from sfumato.engines.verbs import AFTER, BEFORE, PRESENT
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Codes, Floats, Integers, Positions
from sfumato.kernels.exact_sums import exact_mean, exact_sum, standard_deviation
from sfumato.schema import IDENTIFYING, Schema

_MICROSECONDS_A_DAY = 86_400_000_000
NOT_COMPARED = "not_compared"
FEWEST_TO_FIT = 30
"""With fewer records, a mean and a spread that are fitted to them would know the persons."""


# Records -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PairedRows:
    """Rows in memory that stand for all original records, and for what became of them.

    Parameters
    ----------
    original, released : the rows of both.
    match : where each original row stands in the release, -1 where it was removed; None where
        both stand row by row in one order.
    counts : how many records each original row stands for; None: one each.
    """

    original: Dataset
    released: Dataset
    match: Positions | None
    counts: Integers | None


def pair_rows(original: Dataset, released: Dataset) -> PairedRows:
    """The records of both side by side, where they are in memory."""
    return PairedRows(original, released, find_partners(original, released), None)


def tabulate_pairs(pairs: Dataset, name: str, engine: Engine) -> tuple[PairedRows, pl.DataFrame]:
    """What became of each value of a variable, and the rows as they stand in `engine.pairs`."""
    columns = [side for side in (f"{BEFORE}{name}", f"{AFTER}{name}") if side in pairs.columns]
    rows = engine.tabulate(pairs, [*columns, PRESENT])
    present = rows.data.column(PRESENT).to_numpy()
    match = None if present.all() else np.where(present, np.cumsum(present) - 1, -1)
    sides = [_take_side(rows.data, prefix) for prefix in (BEFORE, AFTER)]
    after = sides[1].take(np.flatnonzero(present))
    return PairedRows(sides[0], after, match, rows.counts), rows.data.frame


def _take_side(rows: Dataset, prefix: str) -> Dataset:
    """The variables of one side under their own names."""
    names = {name: name.removeprefix(prefix) for name in rows.columns if name.startswith(prefix)}
    frame = rows.frame.select(list(names)).rename(names)
    return Dataset(frame, Schema({own: rows.schema[name] for name, own in names.items()}))


def _require_same_length(original: Dataset, released: Dataset, owner: str) -> None:
    if len(original) != len(released):
        raise MeasureError(
            f"'{owner}' compares record by record; the original has {len(original)} records, the "
            f"released data {len(released)}.",
            hint="evaluate a Release or its folder, so that the records can be paired.",
        )


def encode_cells(cells: Intervals | LevelSets) -> tuple[Codes, int]:
    """A number for the cell of each record, and how many numbers there are."""
    codes = cells.of
    if codes is None:
        codes = pl.Series(cells.low).rank("dense").cast(pl.Int32).to_numpy()  # type: ignore[union-attr]
    return codes, int(codes.max(initial=0)) + 1


def split_classes(classes: tuple[Codes, int], codes: tuple[Codes, int]) -> tuple[Codes, int]:
    """The classes so far, each by the cells of one more variable; how many numbers there are.

    Variable after variable, so that the cells of all of them never stand in memory together.
    """
    from sfumato.kernels.trees.equivalence_classes import find_classes

    both = np.stack([classes[0], codes[0]])
    split = find_classes(both, [classes[1], codes[1]])
    return split.of, len(split.first)


def count_class_sizes(
    codes: Codes, widths: Sequence[int], counts: Integers | None = None
) -> Integers:
    """The sizes of the classes of records with equal cells; one class where nothing is left.

    Parameters
    ----------
    codes : by variable and record a number for the cell.
    widths : how many numbers each variable has.
    counts : how many records each row stands for; None: one each.
    """
    variables, records = codes.shape
    if not variables or not records:
        return np.array([records] if records else [], np.int64)
    from sfumato.kernels.trees.equivalence_classes import find_classes

    return find_classes(codes, widths, counts).counts


# Numbers -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Pair:
    """The numeric variables of both, a row per record, NaN where a value is missing.

    Parameters
    ----------
    names : the variables compared.
    original, released : their values, in the order of `names`.
    left_out : numeric variables of the original that the release holds no longer as numbers.
    """

    names: tuple[str, ...]
    original: Floats = field(repr=False)
    released: Floats = field(repr=False)
    left_out: tuple[str, ...]

    def warnings(self) -> tuple[str, ...]:
        """What is not part of the comparison, in words."""
        if not self.left_out:
            return ()
        names = quote_names(self.left_out)
        return (f"Not compared, since the release no longer holds numbers there: {names}.",)


def quote_names(names: Iterable[str]) -> str:
    """The names of variables, in quotation marks and with commas between."""
    return ", ".join(f"'{name}'" for name in names)


def name_left_out(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The detail that names what is not compared, in all measures alike.

    `tune` reads it: a candidate of which less is compared than of the data before protection is
    not comparable with the others, and never better.
    """
    listed = tuple(names)
    return {NOT_COMPARED: listed} if listed else {}


def find_numeric_variables(original: Dataset) -> tuple[str, ...]:
    """The variables that are measured numbers of a person: no identifier, weight or cluster."""
    return tuple(
        name
        for name, column in original.schema.items()
        if column.role not in (*IDENTIFYING, "weight", "cluster")
        and column.kind in ("continuous", "integer", None)
        and original.dtype(name).is_numeric()
    )


def read_pair(
    original: Dataset,
    released: Dataset,
    named: Sequence[str] | None,
    *,
    owner: str,
    drawn: Mapping[str, pl.Series] | None = None,
) -> Pair:
    """The numbers of both data sets, record by record; fail when nothing can be compared.

    Variables that somebody named must be numbers in both. By default all numbers of the original
    are taken that are still numbers in the release; the others are listed in `left_out`. `drawn`
    holds released numbers in place of ranges.
    """
    drawn = drawn or {}
    _require_same_length(original, released, owner)
    if not len(original):
        raise MeasureError("There is no record to compare.", hint="are the data empty?")
    names, left_out = choose_numbers(original, released, named, owner=owner, drawn=drawn)
    return Pair(
        names=names,
        original=read_matrix(original, names),
        released=_stack_columns(
            {name: drawn[name] if name in drawn else released.column(name) for name in names},
            len(released),
        ),
        left_out=left_out,
    )


def choose_numbers(
    original: Dataset,
    released: Dataset,
    named: Sequence[str] | None,
    *,
    owner: str,
    drawn: Mapping[str, pl.Series],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The variables that are numbers in both, and those of the original that are not any more."""
    if named is not None:
        original.schema.require(named)
        wrong = [
            name
            for name in named
            if not _has_numbers(original, name)
            or not (name in drawn or _has_numbers(released, name))
        ]
        if wrong:
            raise MeasureError(
                f"'{owner}' needs numbers in both data sets; these are not: {quote_names(wrong)}.",
                hint="leave them out of `variables`.",
            )
    wanted = find_numeric_variables(original) if named is None else tuple(named)
    names = tuple(name for name in wanted if name in drawn or _has_numbers(released, name))
    if not names:
        raise MeasureError(
            f"'{owner}' finds no variable that is a number in both data sets.",
            hint="name some: variables = [...].",
        )
    return names, tuple(name for name in wanted if name not in names)


def _has_numbers(data: Dataset, name: str) -> bool:
    return name in data.columns and data.dtype(name).is_numeric()


def read_matrix(data: Dataset, names: Sequence[str]) -> Floats:
    """A column per variable, NaN where a value is missing; fail on infinite values."""
    return _stack_columns({name: data.column(name) for name in names}, len(data))


def _stack_columns(columns: Mapping[str, pl.Series], records: int) -> Floats:
    values = np.empty((records, len(columns)))
    for index, (name, column) in enumerate(columns.items()):
        values[:, index] = column.cast(pl.Float64).fill_null(np.nan).to_numpy()
        require_finite(bool(np.isinf(values[:, index]).any()), name)
    return values


def require_finite(infinite: bool, name: str) -> None:  # noqa: FBT001 - the only argument
    """Refuse a variable with infinite values."""
    if infinite:
        raise MeasureError(
            f"Variable '{name}' holds infinite values.",
            hint="set them to missing, or correct them at the source.",
        )


def measure_distances(original: Floats, released: Floats, spread: Floats) -> Floats:
    """How far each record moved, in standard deviations; NaN where nothing can be compared."""
    shift = (released - original) / spread
    known = ~np.isnan(shift)
    total = np.zeros(len(shift))
    for column in range(shift.shape[1]):  # one after the other: the same sum for every layout
        total += np.where(known[:, column], shift[:, column], 0.0) ** 2
    return np.where(known.any(axis=1), np.sqrt(total), np.nan)


@dataclass(frozen=True, eq=False)
class ComparedPair(Pair):
    """A pair whose variables all have something to compare.

    Parameters
    ----------
    without : variables that no record has a value of in both data sets.
    """

    without: tuple[str, ...] = ()

    @property
    def not_compared(self) -> dict[str, tuple[str, ...]]:
        """The detail that names what is not part of the comparison."""
        return name_left_out((*self.left_out, *self.without))

    def warnings(self, *, lost: bool = True) -> tuple[str, ...]:
        """What is not part of the comparison, in words; `lost` values may be part of it."""
        names = quote_names(self.without)
        empty = (f"Not compared, since no record has a value in both data sets: {names}.",)
        return (
            *super().warnings(),
            *(empty if self.without else ()),
            *describe_missing_changes(self, lost=lost),
        )


def compare_numbers(
    original: Dataset,
    released: Dataset,
    named: Sequence[str] | None,
    *,
    owner: str,
    drawn: Mapping[str, pl.Series] | None = None,
) -> ComparedPair:
    """The numbers of both data sets, less variables without a single value to compare.

    Such a variable is an error when somebody named it.
    """
    pair = read_pair(original, released, named, owner=owner, drawn=drawn)
    compared = [len(compute_changes(pair, column)) > 0 for column in range(len(pair.names))]
    without = list_empty(pair.names, compared, named, owner=owner)
    return ComparedPair(
        names=tuple(name for name in pair.names if name not in without),
        original=pair.original[:, compared],
        released=pair.released[:, compared],
        left_out=pair.left_out,
        without=without,
    )


def list_empty(
    names: Sequence[str], compared: Sequence[bool], named: Sequence[str] | None, *, owner: str
) -> tuple[str, ...]:
    """Variables that no record has a value of in both data sets."""
    without = tuple(name for name, has in zip(names, compared, strict=True) if not has)
    if without and (named is not None or not any(compared)):
        raise MeasureError(
            f"'{owner}' finds no record with a value in both data sets for: "
            f"{quote_names(without)}.",
            hint="are the right data compared? Otherwise leave them out of `variables`.",
        )
    return without


def compute_changes(pair: Pair, column: int) -> Floats:
    """What the release added to the values of one variable, where both have one."""
    change = pair.released[:, column] - pair.original[:, column]
    return change[~np.isnan(change)]


def rescale_released(original: Floats, released: Floats) -> Floats:
    """The released values with the mean and standard deviation of the original, column by column.

    Another unit, a shift or a scale that counts the other way round moves every value and hides
    none: whoever knows what people are like on average takes it back.

    Examples
    --------
    >>> points_lost = np.array([[90.0], [80.0], [60.0]])
    >>> rescale_released(np.array([[1.0], [2.0], [4.0]]), points_lost).ravel()
    array([1., 2., 4.])
    """
    rescaled = np.full_like(released, np.nan)
    for index, (truth, shown) in enumerate(zip(original.T, released.T, strict=True)):
        known = ~np.isnan(truth) & ~np.isnan(shown)
        sides = truth[known], shown[known]
        scale = Rescaling(
            exact_mean(sides[0]), standard_deviation(sides[0]),
            exact_mean(sides[1]), standard_deviation(sides[1]),
        )  # fmt: skip
        if scale.possible:
            scale = scale.turn(exact_sum(scale.multiply(*sides)))
            rescaled[known, index] = scale.apply(sides[1])
    return rescaled


class Rescaling(NamedTuple):
    """The means and standard deviations by which released values get the original's scale."""

    mean: float
    spread: float
    released_mean: float
    released_spread: float
    sign: float = 1.0

    @property
    def possible(self) -> bool:
        """Whether both vary."""
        return all(s > 0 and np.isfinite(s) for s in (self.spread, self.released_spread))

    def multiply(self, original: Floats, released: Floats) -> Floats:
        """Both in their own standard deviations, multiplied: below 0 in sum, one is turned."""
        product: Floats = ((original - self.mean) / self.spread) * (
            (released - self.released_mean) / self.released_spread
        )
        return product

    def turn(self, product: float) -> Rescaling:
        """The other way round where the sum of the products is below 0."""
        return self._replace(sign=-1.0 if product < 0 else 1.0)

    def apply(self, released: Floats) -> Floats:
        """Released values on the scale of the original; NaN where one does not vary."""
        if not self.possible:
            return np.full_like(released, np.nan)
        units = (released - self.released_mean) / self.released_spread
        return self.mean + self.sign * units * self.spread


def original_deviation(pair: Pair, column: int) -> float:
    """The standard deviation of the original; 1 for a constant that nobody changed."""
    values = pair.original[:, column]
    deviation = standard_deviation(values[~np.isnan(values)])
    changed = not deviation > 0 and bool(compute_changes(pair, column).any())
    return require_spread(pair.names[column], deviation, changed=changed)


def require_spread(name: str, deviation: float, *, changed: bool) -> float:
    """The standard deviation in which changes are counted; 1 for a constant that is one still."""
    if deviation > 0:
        return deviation
    if changed:
        raise MeasureError(
            f"Variable '{name}' has one value in the original and others in the release, so there "
            "is no spread to count the change in.",
            hint="leave it out of `variables`.",
        )
    return 1.0


def describe_missing_changes(pair: Pair, *, lost: bool = True) -> tuple[str, ...]:
    """How many values became missing, and how many were filled in, in words."""
    was, now = np.isnan(pair.original), np.isnan(pair.released)
    became_missing = int((now & ~was).sum()) if lost else 0
    return name_missing_changes(became_missing, int((was & ~now).sum()))


def name_missing_changes(became_missing: int, filled_in: int) -> tuple[str, ...]:
    """The same of numbers that are known."""
    counts = {"became missing": became_missing, "were filled in": filled_in}
    return tuple(
        f"Not compared, since they {what}: {count} values."
        for what, count in counts.items()
        if count
    )


# Any variable ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ComparableVariable:
    """Both sides of a variable: text, or numbers (dates as days, yes and no as 1 and 0).

    Parameters
    ----------
    original, released : the values, all text or all floats.
    categories : whether they are categories: text, or declared as nominal or ordinal.
    """

    original: pl.Series = field(repr=False)
    released: pl.Series = field(repr=False)
    categories: bool


class VariableType(NamedTuple):
    """Whether a variable is text in both data sets, and whether its values are categories."""

    text: bool
    categories: bool


def align_variable(original: Dataset, released: Dataset, name: str) -> ComparableVariable | str:
    """Both sides of a variable, or the reason why they cannot be compared."""
    if name not in released.columns:
        return "it is not in the release"
    sides = [data.column(name) for data in (original, released)]
    kinds = {_kind_of(side.dtype) for side in sides if side.null_count() < len(side)}
    if reason := _explain_incomparable(kinds):
        return reason
    text = kinds == {"text"}
    was, now = (to_text_or_floats(side, text=text) for side in sides)
    for side in (was, now):
        require_finite(side.dtype.is_float() and side.is_infinite().any(), name)
    return ComparableVariable(was, now, text or _is_declared_category(original, name))


def find_type(
    original: Dataset, released: Dataset, name: str, known: Sequence[int]
) -> VariableType | str:
    """What a variable is in both data sets, or the reason why they cannot be compared.

    `known` says how many values either has, so that no record needs to be in memory.
    """
    dtypes = [data.dtype(name) for data in (original, released)]
    kinds = {_kind_of(dtype) for dtype, values in zip(dtypes, known, strict=True) if values}
    if reason := _explain_incomparable(kinds):
        return reason
    text = kinds == {"text"}
    return VariableType(text=text, categories=text or _is_declared_category(original, name))


def _explain_incomparable(kinds: set[str]) -> str:
    if not kinds:
        return "it has no value at all"
    if "other" in kinds:
        return "its values can be neither counted nor ordered"
    return "the release holds another kind of values" if len(kinds) > 1 else ""


def _is_declared_category(original: Dataset, name: str) -> bool:
    # Yes and no are as good as 1 and 0.
    return original.schema[name].kind in ("nominal", "ordinal") and (
        original.dtype(name) != pl.Boolean
    )


def _kind_of(dtype: pl.DataType) -> str:
    if dtype == pl.String:
        return "text"
    if dtype in (pl.Date, pl.Datetime):
        return "date"
    return "number" if dtype.is_numeric() or dtype == pl.Boolean else "other"


def to_text_or_floats(values: pl.Series, *, text: bool) -> pl.Series:
    """Values as text or as floats: dates as days, yes and no as 1 and 0."""
    if values.null_count() == len(values):
        values = values.cast(pl.Null)  # an empty column says nothing of its type
    elif values.dtype == pl.Datetime:
        return values.cast(pl.Datetime("us")).to_physical() / _MICROSECONDS_A_DAY
    elif values.dtype == pl.Date:
        values = values.to_physical()
    return values.cast(pl.String if text else pl.Float64)
