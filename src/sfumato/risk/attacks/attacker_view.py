"""What an attacker who knows exact values sees in a release of numbers, categories and ranges.

Each variable is read on the scale of its kind. A released cell may be a value, a range, a set, a
mask, a group or `*`: then it stands for several values, and fits whoever has one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.cells.codes import encode_levels, find_levels
from sfumato.cells.intervals import Intervals, read_intervals
from sfumato.cells.level_sets import (
    LevelSets,
    add_renamed_groups,
    format_levels,
    list_levels,
    read_bounds,
    read_level_sets,
)
from sfumato.data import Dataset
from sfumato.engines import Combinations
from sfumato.errors import DataError, MeasureError, SfumatoError
from sfumato.kernels.arrays import AnyIntegers, Floats, Integers, Mask, Positions
from sfumato.kernels.exact_sums import exact_sum, standard_deviation
from sfumato.kernels.orders import order_by_content, scatter_numbers
from sfumato.noise.description import level_codes
from sfumato.progress import current_progress
from sfumato.risk.attacks.knowledge import require_pairs
from sfumato.schema import Column
from sfumato.units import Units

_ORDERED = ("continuous", "integer", "date", "ordinal")
_CATEGORIES = ("nominal", "ordinal", "text")
_MOST_LEVELS = 10_000
_IMPOSSIBLE = 1e6
"""The cost of a cell that cannot be the person's: more than any distance between people."""
_IMPOSSIBLE_BY_NOISE = 1e12
"""The same where distances are weighed by the noise, and an exact variable has a large weight."""
_EXACT = 1e-8
"""The least noise that is weighed by, a square: 0.0001 standard deviations."""
_MEDIAN_OF_SQUARE = 0.4549
"""The median of the square of a standard normal variable."""
_FEW_MOVED = 4.0
"""How much less the median says than the mean, where most values stayed and few moved far."""
_FARTHEST = 1e150
"""Standard deviations beyond which a distance is not counted, so that its square is a number."""
_HALF = 0.5
_AT_ONCE = 1 << 21
"""Distances held at a time: 16 MB."""
ALL = slice(None)
_STREAM = 9
_FEW_KINDS = 0.7
"""The share of records that differ from all others from which on each is taken by itself."""
ROUNDING = 1 + 1e-9
"""Distances that differ by no more than this factor differ by rounding."""


@dataclass(frozen=True, eq=False)
class OrderedView:
    """A variable on a scale: numbers, days, or the ranks of ordered levels.

    Parameters
    ----------
    name : the variable.
    column : how it is read.
    persons : the exact value of each person; NaN where it is not known.
    cells : what each released record shows.
    spread : the standard deviation of the persons' values.
    domain : their least and greatest value.
    truthful : whether every person fits their own released cell, so that no other can be theirs.
    source : the original values, which say what ranks there are.
    levels : of a category whose release holds noisy codes, the levels in the order of the codes.
    """

    name: str
    column: Column = field(repr=False)
    persons: Floats = field(repr=False)
    cells: Intervals = field(repr=False)
    spread: float
    domain: tuple[float, float]
    truthful: bool
    source: pl.Series = field(repr=False)
    levels: Sequence[Any] = field(default=(), repr=False)

    def shows_value(self) -> Mask:
        """Which released records say something."""
        return ~np.asarray(self.cells.per_record(self.cells.open), bool)

    def low(self) -> Floats:
        """The lower end of each released record."""
        return np.asarray(self.cells.per_record(self.cells.low))

    def high(self) -> Floats:
        """The upper end of each released record."""
        return np.asarray(self.cells.per_record(self.cells.high))

    def content(self) -> list[Floats]:
        """Numbers that tell released records apart, whatever their order."""
        means = np.zeros(len(self.cells.low))
        for cell, members in self.cells.sets.items():
            means[cell] = float(members.mean())
        return [self.low(), self.high(), np.asarray(self.cells.per_record(means))]

    @cached_property
    def kinds(self) -> Integers:
        """The same number for records whose cells are the same."""
        means = np.zeros(len(self.cells.low))
        for cell, members in self.cells.sets.items():
            means[cell] = float(members.mean())
        numbers = number_rows([self.cells.low, self.cells.high, means])
        return numbers if self.cells.of is None else numbers[self.cells.of]

    def guess(self) -> Floats:
        """What each released record says of a person: the middle of its cell."""
        return self.cells.midpoints()

    def is_right(self, guess: Floats, truth: Floats, tolerance: float) -> Mask:
        """Which guesses lie within so many standard deviations of the truth."""
        return np.abs(guess - truth) <= tolerance * self.spread

    def read(self, others: Dataset) -> Floats:
        """The same variable of other persons."""
        if self.levels:
            return _read_codes(others.column(self.name), self.levels)
        return read_bounds(others.column(self.name), self.column, self.source).midpoints()

    def fits(self, record: int, among: Positions | slice = ALL) -> Mask:
        """Which persons, of some or of all, have a value that the cell of a record includes."""
        cell = record if self.cells.of is None else int(self.cells.of[record])
        values = self.persons[among]
        fits: Mask = (values >= self.cells.low[cell]) & (values <= self.cells.high[cell])
        if cell in self.cells.sets:
            fits &= np.isin(values, self.cells.sets[cell])
        return fits

    def costs(
        self,
        persons: Floats,
        records: Positions,
        *,
        weight: float = 1.0,
        impossible: float = _IMPOSSIBLE,
    ) -> Floats:
        """How far each person is from each of some released records; a row per person.

        It is the mean square of the distance, in standard deviations, to the values that a cell
        stands for. A person of whom nothing is known is equally far from all: 0.
        """
        low, high = (
            np.where(self.cells.open, end, bound)
            for end, bound in zip(self.domain, (self.cells.low, self.cells.high), strict=True)
        )
        middle, width = _middle_and_width(low, high)
        # Over a range the mean square is that to its middle and the variance of a uniform value.
        value = persons[:, None]
        cost = self._square(value, middle)
        if width.any():
            cost += self._square(width) / 12
        wrong = (value < low) | (value > high) if self.truthful else None
        for cell, members in self.cells.sets.items():
            cost[:, cell] = self._mean_square(persons, members)
            if wrong is not None:
                wrong[:, cell] = ~np.isin(persons, members)
        if weight != 1:
            cost *= weight
        if wrong is not None:
            cost += impossible * (wrong & ~self.cells.open)
        # Nothing is known of this person, so every record is equally likely.
        cost[np.isnan(persons)] = 0.0
        return cost[:, records if self.cells.of is None else self.cells.of[records]]

    def weigh_by_noise(self) -> Callable[[Floats, Positions], Floats]:
        """The same costs for an attacker who knows how far values were moved, as a likelihood.

        A variable that only rules people out has no noise to weigh by.
        """
        weight = 1.0
        if not self.truthful:
            costs = self._own_costs()
            typical = float(np.median(costs)) / _MEDIAN_OF_SQUARE
            mean = _mean_of_costs(costs)
            # Where most values stayed and few moved far, the median tells what the mean hides.
            size = typical if typical < mean / _FEW_MOVED else mean
            weight = 1 / max(size, _EXACT)
        return partial(self.costs, weight=weight, impossible=_IMPOSSIBLE_BY_NOISE)

    def _own_costs(self) -> Floats:
        """How far each person is from their own released record, where both say something."""
        low, high = self.low(), self.high()
        known = ~np.isnan(self.persons) & self.shows_value()
        middle, width = _middle_and_width(low[known], high[known])
        persons = self.persons[known]
        costs = self._square(persons, middle) + self._square(width) / 12
        cell_of = np.arange(len(low)) if self.cells.of is None else self.cells.of
        cells = np.asarray(cell_of)[known]
        for cell, members in self.cells.sets.items():
            rows = cells == cell
            costs[rows] = self._mean_square(persons[rows], members)
        return costs if len(costs) else np.ones(1)

    def _mean_square(self, persons: Floats, members: Floats) -> Floats:
        squares: Floats = np.zeros(len(persons))
        for member in members.tolist():
            squares += self._square(persons, member) / len(members)
        return squares

    def _square(self, values: Floats, others: Floats | float = 0.0) -> Floats:
        """The square of a distance in standard deviations: a number for huge values too."""
        with np.errstate(over="ignore"):
            ratio = np.atleast_1d(values - others)
            ratio /= self.spread
        largest = max(
            np.abs(side).max(initial=0.0, where=~np.isnan(side)) for side in (values, others)
        )
        # Each pair is clipped only where some could overflow: it takes as long as the rest.
        if not largest / 2 < _FARTHEST / 4 * self.spread:
            np.clip(ratio, -_FARTHEST, _FARTHEST, out=ratio)
        ratio *= ratio
        return ratio


@dataclass(frozen=True, eq=False)
class CategoricalView:
    """A variable of categories without an order.

    Parameters
    ----------
    name, column, truthful, source : as for `OrderedView`.
    levels : all its levels.
    persons : which of them each person has; NaN where it is not known.
    cells : what each released record shows.
    """

    name: str
    column: Column = field(repr=False)
    levels: Sequence[str] = field(repr=False)
    persons: Floats = field(repr=False)
    cells: LevelSets = field(repr=False)
    truthful: bool
    source: pl.Series = field(repr=False)

    def shows_value(self) -> Mask:
        """Which released records say something."""
        return np.asarray(~self.cells.open[self.cells.of], bool)

    def content(self) -> list[Floats]:
        """Numbers that tell released records apart, whatever their order."""
        texts = self.cells.texts
        rank = np.full(len(texts) + 1, -1.0)
        rank[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
        return [rank[self.cells.of]]

    @cached_property
    def kinds(self) -> Integers:
        """The same number for records whose cells are the same."""
        return self.content()[0].astype(np.int64)

    def guess(self) -> Floats:
        """What each released record says of a person: its level, NaN where it may be several."""
        single = self.cells.single_levels()
        return np.where(single < 0, np.nan, single)[self.cells.of]

    def is_right(self, guess: Floats, truth: Floats, tolerance: float) -> Mask:
        """Which guesses are the very level."""
        del tolerance
        same: Mask = guess == truth
        return same

    def read(self, others: Dataset) -> Floats:
        """The same variable of other persons; NaN for a level that nobody has here."""
        return _read_single_levels(
            read_level_sets(others.column(self.name), self.levels, self.column)
        )

    def fits(self, record: int, among: Positions | slice = ALL) -> Mask:
        """Which persons, of some or of all, have a level that the cell of a record includes."""
        cell = int(self.cells.of[record])
        includes = np.zeros(len(self.levels) + 1, bool)
        includes[self.cells.levels[self.cells.starts[cell] : self.cells.starts[cell + 1]]] = True
        return includes[self._codes[among]]

    @cached_property
    def _codes(self) -> Positions:
        """The level of each person; one beyond the last where it is not known."""
        # Of this type, an index is used as it is: others are converted each time.
        return np.where(np.isnan(self.persons), len(self.levels), self.persons).astype(np.intp)

    def costs(self, persons: Floats, records: Positions) -> Floats:
        """How likely it is, for each person and some released records, that their levels differ."""
        sizes = np.maximum(self.cells.counts, 1)
        cost = np.full((len(persons), len(sizes)), 1.0)
        if self.truthful:
            cost += _IMPOSSIBLE
        # Cells sorted by level, so that those that include a level are one slice.
        order = np.argsort(self.cells.levels, kind="stable")
        cell = np.repeat(np.arange(len(sizes)), self.cells.counts)[order]
        starts = np.searchsorted(self.cells.levels[order], np.arange(len(self.levels) + 1))
        for person, level in enumerate(persons):
            if np.isnan(level):
                cost[person] = 0.0
            else:
                holding = cell[starts[int(level)] : starts[int(level) + 1]]
                cost[person, holding] = 1 - 1 / sizes[holding]
        return cost[:, self.cells.of[records]]

    def weigh_by_noise(self) -> Callable[[Floats, Positions], Floats]:
        """Costs for an attacker who knows how often a level becomes a cell, as a manifest tells.

        The cost is -2 log Pr(cell | level), from the pairs; a cell that never came of a level
        counts as if it had half a time.
        """
        known = np.flatnonzero(~np.isnan(self.persons))
        cells = len(self.cells.counts)
        pairs = self.persons[known].astype(np.int64) * cells + self.cells.of[known]
        distinct, counts = np.unique(pairs, return_counts=True)
        levels = np.arange(len(self.levels) + 1)
        starts = np.searchsorted(distinct, levels * cells)
        totals = np.add.reduceat(np.append(counts, 0), starts[:-1]) * (np.diff(starts) > 0)
        never = _IMPOSSIBLE_BY_NOISE if self.truthful else 0.0

        def weigh(persons: Floats, records: Positions) -> Floats:
            cost = np.zeros((len(persons), cells))
            for row, level in enumerate(persons):
                if np.isnan(level):
                    continue
                part = slice(int(starts[int(level)]), int(starts[int(level) + 1]))
                total = int(totals[int(level)]) + _HALF
                cost[row] = -2 * np.log(_HALF / total) + never
                cost[row, distinct[part] % cells] = -2 * np.log(counts[part] / total)
            return cost[:, self.cells.of[records]]

        return weigh


VariableView = OrderedView | CategoricalView


def _middle_and_width(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Half of each end, since the sum of two huge ones is no number."""
    with np.errstate(over="ignore"):
        return low + (high / 2 - low / 2), high - low


def _mean_of_costs(costs: Floats) -> float:
    """The mean, from an exact sum; costs that are too far to be counted are infinite."""
    return exact_sum(costs) / len(costs)


_SHARED: ContextVar[dict[tuple[int, int, str], VariableView | None] | None] = ContextVar(
    "sfumato_views", default=None
)


@contextmanager
def share_views() -> Iterator[None]:
    """Attacks on the same release within here read each of its variables once."""
    before = _SHARED.set({})
    try:
        yield
    finally:
        _SHARED.reset(before)


def view_release(
    original: Dataset, released: Dataset, names: Sequence[str], *, owner: str
) -> tuple[list[VariableView], tuple[str, ...]]:
    """The variables that can be compared, and what could not be, in words."""
    require_pairs(original, released, owner)
    original.schema.require(names)
    views: list[VariableView] = []
    dropped, unlike = [], []
    shared = _SHARED.get()
    shared = {} if shared is None else shared
    for name in names:
        if name not in released.columns:
            dropped.append(name)
            continue
        if (key := (id(original), id(released), name)) not in shared:
            shared[key] = _view_variable(original, released, name)
        view = shared[key]
        if view is None:
            unlike.append(name)
        else:
            views.append(view)
    if not views:
        raise MeasureError(
            f"'{owner}' finds nothing to compare: {', '.join(names) or 'no variable'}.",
            hint="name variables that have values in both data sets.",
        )
    warnings = []
    if dropped:
        warnings.append(
            f"Not compared, since the release does not hold them: {', '.join(dropped)}."
        )
    if unlike:
        warnings.append(
            f"Not compared, since the release holds other values there: {', '.join(unlike)}."
        )
    return views, tuple(warnings)


def _view_variable(original: Dataset, released: Dataset, name: str) -> VariableView | None:
    """One variable; None where nothing released can be held against the original."""
    values, now = original.column(name), released.column(name)
    if values.null_count() == len(values):
        return None
    column, after = original.schema[name], released.schema[name]
    # A recoding brings its hierarchy along; without it groups could not be read.
    if column.hierarchy is None and after.hierarchy is not None:
        column = replace(column, hierarchy=after.hierarchy)
    kind = column.kind or ("continuous" if values.dtype.is_numeric() else "nominal")
    column = replace(column, kind=kind)
    try:
        if kind in _CATEGORIES and after.kind == "continuous" and now.dtype.is_numeric():
            return _view_noisy_codes(values, now, column)
        if kind in _ORDERED:
            return _view_numbers(values, now, column, after)
        return _view_categories(values, now, column, after)
    except DataError:
        return None


def _view_numbers(
    values: pl.Series, now: pl.Series, column: Column, after: Column
) -> OrderedView | None:
    persons = read_bounds(values, column, values).midpoints()
    # Ranges and the like are read as such only where a step made them.
    cells = read_bounds(now, replace(column, cells=after.cells), values)
    known = persons[~np.isnan(persons)]
    if not len(known):
        return None
    spread = standard_deviation(known)
    view = OrderedView(
        name=values.name,
        column=column,
        persons=persons,
        cells=cells,
        spread=spread if spread > 0 else 1.0,
        domain=(float(known.min()), float(known.max())),
        truthful=False,
        source=values,
    )
    # Sets count by their ends here: a value between two members is no contradiction.
    outside = (persons < view.low()) | (persons > view.high())
    return replace(view, truthful=not outside.any())


def _view_noisy_codes(values: pl.Series, now: pl.Series, column: Column) -> OrderedView | None:
    """A category whose codes got noise: whoever has the manifest compares codes."""
    counts = values.drop_nulls().value_counts(name="records")
    distinct = Combinations(
        counts.select(values.name), counts["records"].to_numpy().astype(np.int64)
    )
    try:
        levels, _ = find_levels(
            values.name, replace(column, cells=None), distinct, most=_MOST_LEVELS, ordered=True
        )
        persons = _read_codes(values, levels)
    except SfumatoError:
        return None
    known = persons[~np.isnan(persons)]
    if not len(known):
        return None
    spread = standard_deviation(known)
    return OrderedView(
        name=values.name,
        column=column,
        persons=persons,
        cells=read_intervals(now, Column(kind="continuous"), "number"),
        spread=spread if spread > 0 else 1.0,
        domain=(float(known.min()), float(known.max())),
        truthful=False,
        source=values,
        levels=tuple(levels),
    )


def _read_codes(values: pl.Series, levels: Sequence[Any]) -> Floats:
    """The code of each value, NaN where it is missing."""
    level = encode_levels(values, list(levels))
    codes: Floats = np.where(level < 0, np.nan, level_codes(levels)[level])
    return codes


def _view_categories(
    values: pl.Series, now: pl.Series, column: Column, after: Column
) -> CategoricalView | None:
    texts = format_levels(values.drop_nulls().unique()).to_list()
    levels = list_levels(texts, column, values.name, ordered=False)
    column = add_renamed_groups(column, levels, values, now, None, after)
    persons = _read_single_levels(read_level_sets(values, levels, column))
    cells = read_level_sets(now, levels, replace(column, cells=after.cells))
    if not (cells.counts > 0)[cells.of].any():
        return None
    view = CategoricalView(
        values.name, column, levels, persons, cells, truthful=False, source=values
    )
    known = np.flatnonzero(~np.isnan(persons))
    return replace(view, truthful=bool(_fit_their_cell(view, known).all()))


def _fit_their_cell(view: CategoricalView, rows: Positions) -> Mask:
    """Which persons fit their own released cell."""
    cell = view.cells.of[rows].astype(np.int64)
    width = len(view.levels)
    owner = np.repeat(np.arange(len(view.cells.counts)), view.cells.counts)
    # A pair of cell and level is one number, so that membership is a single look-up.
    pairs = owner * width + view.cells.levels
    return np.isin(cell * width + view.persons[rows].astype(np.int64), pairs)


def number_rows(columns: Sequence[Floats | AnyIntegers]) -> Integers:
    """The same number, from 0, for rows that are equal in all columns."""
    numbers = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        if len(column) and (column == column[0]).all():
            continue
        codes = np.unique(column, return_inverse=True)[1].ravel()
        numbers = numbers * (int(codes.max(initial=0)) + 1) + codes
        numbers = np.unique(numbers, return_inverse=True)[1].ravel()
    return numbers


def _read_single_levels(cells: LevelSets) -> Floats:
    single = cells.single_levels()
    return np.where(single < 0, np.nan, single)[cells.of]


def order_records(views: Sequence[VariableView]) -> Positions:
    """The records in an order that follows from what they hold, however they stand."""
    columns = [column for view in views for column in (view.persons, *view.content())]
    return np.asarray(
        order_by_content(np.array([np.nan_to_num(column, nan=0.5) for column in columns]))
    )


def sample_units(views: Sequence[VariableView], units: Units, most: int) -> Positions:
    """All rows of at most so many units, without pattern, whatever the order of the rows."""
    order = order_records(views)
    if units.count <= most:
        return order
    drawn = np.argsort(scatter_numbers(units.count, _STREAM), kind="stable")[:most]
    if units.one_row_each:
        return order[drawn]
    # The number of a person follows from who they are, so it orders persons.
    return order[np.isin(units.numbers[order], np.unique(units.numbers)[drawn])]


@dataclass(frozen=True, eq=False)
class RecordKinds:
    """Released records that are equally far from everybody, since all their cells are the same.

    Parameters
    ----------
    of : the kind of each record.
    first : a record of each kind.
    order, starts : the records kind after kind, and where each kind begins, and the end.
    """

    of: Integers = field(repr=False)
    first: Positions = field(repr=False)
    order: Positions = field(repr=False)
    starts: Positions = field(repr=False)

    @classmethod
    def find(cls, views: Sequence[VariableView]) -> RecordKinds:
        """Those of a release; where nearly all records differ, each is a kind."""
        count = len(views[0].shows_value())
        everybody = np.arange(count)
        alone = cls(everybody, everybody, everybody, np.arange(count + 1))
        if any(view.cells.of is None for view in views):
            return alone
        of = number_rows([view.cells.of for view in views if view.cells.of is not None])
        sizes = np.bincount(of)
        if len(sizes) >= _FEW_KINDS * count:
            return alone
        order = np.argsort(of, kind="stable")
        starts = np.concatenate([[0], np.cumsum(sizes)])
        return cls(of, order[starts[:-1]], order, starts)

    @property
    def sizes(self) -> Integers:
        """How many records there are of each kind."""
        return np.diff(self.starts)

    def list_records(self, kinds: Positions) -> Positions:
        """All records of some kinds."""
        parts = [self.order[self.starts[kind] : self.starts[kind + 1]] for kind in kinds.tolist()]
        return np.concatenate(parts) if parts else self.order[:0]


def compute_costs(
    views: Sequence[VariableView],
    persons: Sequence[Floats],
    rows: Positions,
    *,
    what: str,
    by_noise: bool = False,
) -> Iterator[tuple[Positions, Floats]]:
    """For some persons at a time, how far each released record is from each of them.

    `persons` holds the values of the persons, a column per variable. With `by_noise`, the attacker
    knows how values were changed, and takes the likelihood.
    """
    kinds = RecordKinds.find(views)
    for batch, cost in compute_costs_of_kinds(
        views, persons, rows, kinds, what=what, by_noise=by_noise
    ):
        yield batch, cost if len(kinds.first) == len(kinds.of) else cost[:, kinds.of]


def compute_costs_of_kinds(
    views: Sequence[VariableView],
    persons: Sequence[Floats],
    rows: Positions,
    kinds: RecordKinds,
    *,
    what: str,
    by_noise: bool = False,
) -> Iterator[tuple[Positions, Floats]]:
    """The same for each kind of released records, which takes less where many are alike."""
    measures = [view.weigh_by_noise() if by_noise else view.costs for view in views]
    report = current_progress()
    step = max(1, _AT_ONCE // max(len(kinds.of), 1))
    for start in range(0, len(rows), step):
        batch = rows[start : start + step]
        total = np.zeros((len(batch), len(kinds.first)))
        for measure, values in zip(measures, persons, strict=True):
            total += measure(values[batch], kinds.first)
        report(what, start + len(batch), len(rows))
        yield batch, total


def is_within(distance: Floats, limit: Any) -> npt.NDArray[np.bool_]:
    """Which distances are no larger than a limit, but for rounding."""
    return np.asarray(distance <= limit * ROUNDING)
