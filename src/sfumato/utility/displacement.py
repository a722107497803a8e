"""How far the values moved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.engines.summaries import Quantile
from sfumato.engines.verbs import AFTER, BEFORE
from sfumato.errors import MeasureError, MethodError
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Floats, Integers, Mask
from sfumato.kernels.exact_sums import exact_mean, exact_parts
from sfumato.measure import AT_WORST, Measure
from sfumato.numbers import Number
from sfumato.pairs.alignment import (
    Pair,
    compare_numbers,
    compute_changes,
    find_numeric_variables,
    measure_distances,
    original_deviation,
    quote_names,
)
from sfumato.pairs.subsets import (
    SubsetCloseness,
    WorstSubset,
    count_patterns,
    find_close,
    find_worst_share,
    find_worst_subset,
    share_by_chance,
    share_rescaled,
)
from sfumato.parameters import parameters
from sfumato.utility.paired.number_sums import NumberPairs, fit_rescaling, read_number_pairs

_DISTANCE = "distance moved"
_SCALE = "A distance is counted in standard deviations of the original, over all variables."
_MISSING = (
    "Only values present in both data sets are compared; a record with none of them has not stayed."
)
_WORST = "The share that stayed is that of the worst variable: one exact value gives a person away."
_SAMPLED = 20_000
"""Records that stand for all where chance cannot be judged by all of them."""
_CHANCE = (
    f"There are too many values to bring together, so `by_chance` is that of {_SAMPLED:,} records "
    "of all: {}."
)
_GREEDY = (
    "There are too many combinations of variables to try all; the worst was sought step by step."
)


@parameters
class Displacement(Measure):
    """How far released values lie from the original ones, and which records hardly moved.

    Question: how much of a variable's spread comes from the protection, and who stayed in place?
    Assumes: record by record, the released data belong to the original. The value is the largest
    displacement of a variable: its mean squared change over its variance (with n - 1).

    Beside it: `stayed`, the share of records that hardly moved in the worst variable, or in the
    worst combination of them where values are missing: a variable that was left exact is not hidden
    by the noise of the others. `worst_variable` and `worst_subset` name it; the table has every
    variable, with the share that chance alone would give (`by_chance`). `stayed_in_pair` is the
    share for the worst two variables together, and `stayed_in_all` that for all of them, by the
    distance over all variables. `stayed_rescaled` is `stayed` after each released variable was
    given the mean and standard deviation of the original: another unit moves all and hides nobody.
    A target on `stayed` must hold for that too.

    Parameters
    ----------
    variables : the numbers to compare. Default: all numbers that are in both data sets.
    role : only numbers of this role: in place of `variables`. A plan then follows roles that are
        corrected.
    within : distance within which a value has stayed: in standard deviations of the original, from
        where it was.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> schema = sf.Schema({"age": "quasi"})
    >>> original = sf.Dataset(pl.DataFrame({"age": [30.0, 40.0, 50.0]}), schema)
    >>> released = sf.Dataset(pl.DataFrame({"age": [30.0, 41.0, 48.0]}), schema)
    >>> found = Displacement().measure(original, released)
    >>> round(found.value, 4), found.details["stayed_records"]
    (0.0167, 1)

    References: Avraam, Jones & Burton (2021), A deterministic approach for protecting privacy in
    sensitive personal data (the variable-specific metric δ).
    """

    name = "displacement"
    runs_on = ("local", "streaming", "spark")
    picture = "displacement"
    odd = {"one row": 0}
    examples = (
        {},
        {"variables": ["height", "glucose"], "within": 0.5},
        {"role": "sensitive"},
    )
    of = "pair"
    numbers = (
        Number.loss(
            "displacement",
            safer="more",
            meaning="Share of the spread of a variable that comes from the protection.",
        ),
        Number.share(
            "stayed",
            meaning="Share of records that hardly moved in the worst variable.",
            usual=True,
        ),
        Number.count("stayed_records"),
        Number.share("stayed_rescaled"),
        Number.share("stayed_in_pair"),
        Number.share("stayed_in_all"),
        Number.loss("mean_delta", safer="more"),
        Number.loss("median_distance", safer="more"),
        Number.loss("outside_domain"),
    )
    variables: list[str] | None = None
    role: Literal["quasi", "sensitive", "other"] | None = None
    within: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.01

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """Compare value by value, then record by record."""
        named = self._list_variables(original, released)
        if engine.in_memory:
            pair = self._compare_arrays(original, released, named)
        else:
            pair = self._compare_sums(original, released, named, engine)
        table, rescaled = pl.DataFrame(pair.rows), pair.rescaled
        worst = find_worst_subset(pair.closeness)
        deltas = table["displacement"].to_list()
        return Evidence(
            name=self.name,
            subject="pair",
            value=max(deltas),
            direction=self.direction,
            records=pair.show_records(original, worst),
            table=original.like(table),
            details={
                "stayed": worst.share,
                "stayed_records": pair.closeness.count(worst.columns),
                "stayed_rescaled": rescaled,
                f"stayed{AT_WORST}": max(worst.share, rescaled),
                "worst_variable": pair.names[worst.variable],
                "worst_subset": tuple(pair.names[column] for column in worst.columns),
                **_describe_pair(worst, pair.names),
                "stayed_in_all": pair.stayed_in_all / pair.compared,
                "compared_records": pair.compared,
                "within": self.within,
                "mean_delta": math.fsum(deltas) / len(deltas),
                "median_distance": pair.median,
                "outside_domain": sum(table["outside_domain"]),
                "variables": tuple(pair.names),
                **pair.not_compared,
            },
            assumptions=(
                _SCALE,
                _MISSING,
                _WORST if worst.exhaustive else f"{_WORST} {_GREEDY}",
                *_list_without_domain(original, pair.names),
                *((_CHANCE.format(quote_names(pair.sampled)),) if pair.sampled else ()),
            ),
            warnings=(*pair.warnings, *_report_incomparable(pair.records - pair.compared)),
        )

    def _compare_arrays(
        self, original: Dataset, released: Dataset, named: list[str] | None
    ) -> _Movement:
        pair = compare_numbers(original, released, named, owner=self.name)
        spread = np.array([original_deviation(pair, index) for index in range(len(pair.names))])
        rows = self._build_rows(original, pair, spread)
        moved = measure_distances(pair.original, pair.released, spread)
        known = moved[~np.isnan(moved)]
        return _Movement(
            names=pair.names,
            rows=rows,
            closeness=find_close(pair.original, pair.released, spread, self.within),
            rescaled=share_rescaled(pair.original, pair.released, spread, self.within),
            records=len(moved),
            compared=len(known),
            stayed_in_all=int((known <= self.within).sum()),
            median=float(np.median(known)),
            not_compared=pair.not_compared,
            warnings=pair.warnings(),
            moved=moved,
            within=self.within,
        )

    def _compare_sums(
        self, original: Dataset, released: Dataset, named: list[str] | None, engine: Engine
    ) -> _Movement:
        """The same from sums over the parts of the records."""
        pair = read_number_pairs(original, released, named, engine, owner=self.name)
        spread, within = pair.spreads, self.within
        bounds = [original.schema[name].bounds for name in pair.names]

        def add_up(before: Floats, after: Floats) -> tuple[Any, ...]:
            change = (after - before) / spread
            changes = [column[~np.isnan(column)] for column in change.T]
            with np.errstate(over="ignore"):
                squares = [exact_parts(column * column) for column in changes]
                moved = measure_distances(before, after, spread)
            patterns = count_patterns(find_close(before, after, spread, within))
            outside = [_count_outside(*item) for item in zip(bounds, after.T, strict=True)]
            counts = np.array([[len(c), (np.abs(c) <= within).sum()] for c in changes])
            return squares, counts, np.array(outside), patterns, int((moved <= within).sum())

        squares, counts, outside, patterns, stayed = zip(*pair.gather(add_up), strict=True)
        compared, close = sum(counts).T
        chances = {
            name: _pair_by_chance(pair, name, within * scale)
            for name, scale in zip(pair.names, spread.tolist(), strict=True)
        }
        rows = [
            {
                "variable": name,
                "displacement": _require_countable(
                    name, math.fsum(chain.from_iterable(terms)) / number
                ),
                "stayed": unmoved / number,
                "by_chance": chances[name][0],
                "outside_domain": beyond,
            }
            for name, terms, number, unmoved, beyond in zip(
                pair.names,
                zip(*squares, strict=True),
                compared.tolist(),
                close.tolist(),
                sum(outside).tolist(),
                strict=True,
            )
        ]
        closeness = SubsetCloseness(
            np.concatenate([part.close for part in patterns]),
            np.concatenate([part.known for part in patterns]),
            np.concatenate([part.counts for part in patterns]),
        )
        return _Movement(
            names=pair.names,
            rows=rows,
            closeness=count_patterns(closeness),
            rescaled=_share_rescaled_by_sums(pair, within),
            records=pair.records,
            compared=closeness.compared(range(len(pair.names))),
            stayed_in_all=sum(stayed),
            median=_find_median_distance(pair),
            sampled=tuple(name for name, (_, sampled) in chances.items() if sampled),
            not_compared=pair.not_compared,
            warnings=pair.warnings(),
        )

    def _list_variables(self, original: Dataset, released: Dataset) -> list[str] | None:
        if self.role is None:
            return self.variables
        named = [
            name
            for name in self.variables or find_numeric_variables(original)
            if original.schema[name].role == self.role and name in released.schema
        ]
        if not named:
            raise MeasureError(
                f"'{self.name}' finds no number with the role {self.role}.",
                hint="take `role` out, or the target that needs it.",
            )
        return named

    def _build_rows(self, original: Dataset, pair: Pair, spread: Floats) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for index, name in enumerate(pair.names):
            change = compute_changes(pair, index) / spread[index]
            rows.append(
                {
                    "variable": name,
                    "displacement": _mean_square(name, change),
                    "stayed": int((np.abs(change) <= self.within).sum()) / len(change),
                    "by_chance": share_by_chance(
                        pair.original[:, index],
                        pair.released[:, index],
                        self.within * spread[index],
                    ),
                    "outside_domain": _count_outside(
                        original.schema[name].bounds, pair.released[:, index]
                    ),
                }
            )
        return rows


@dataclass(frozen=True, kw_only=True, eq=False)
class _Movement:
    """How far the values and the records moved.

    Parameters
    ----------
    names : the variables compared.
    rows : a row of the table for each.
    closeness : which records, or patterns of them, stayed in which variables.
    rescaled : the share that stayed but for the unit.
    records, compared : how many there are, and how many have something to compare.
    stayed_in_all : how many stayed in all variables together.
    median : the median distance.
    not_compared, warnings : what is not part of it.
    sampled : the variables for which chance was judged by a sample.
    moved, within : the distance of each record, and how far is close, where they are in memory.
    """

    names: tuple[str, ...]
    rows: list[dict[str, Any]]
    closeness: SubsetCloseness
    rescaled: float
    records: int
    compared: int
    stayed_in_all: int
    median: float
    not_compared: dict[str, tuple[str, ...]]
    warnings: tuple[str, ...]
    sampled: tuple[str, ...] = ()
    moved: Floats | None = None
    within: float = 0.0

    def show_records(self, original: Dataset, worst: WorstSubset) -> Any:
        """The distance of each record, and whether it stayed."""
        if self.moved is None:
            return None
        in_all = np.less_equal(self.moved, self.within)  # False where nothing can be compared
        return original.like(_build_records(self.moved, self.closeness.mark(worst.columns), in_all))


def _pair_by_chance(pair: NumberPairs, name: str, width: float) -> tuple[float | None, bool]:
    """The share that is close by chance, and whether it is that of a sample.

    A sample is taken where there are too many pairs of values to bring together.
    """
    columns = [f"{BEFORE}{name}", f"{AFTER}{name}"]
    counts = None
    try:
        combinations = pair.engine.distinct(pair.pairs, columns)
        values, counts = combinations.values, combinations.counts
    except MethodError:
        values = pair.engine.sample(pair.pairs, columns, _SAMPLED)
    before, after = values.cast(pl.Float64).fill_null(np.nan).to_numpy().T
    return share_by_chance(before, after, width, counts), counts is None


def _find_median_distance(pair: NumberPairs) -> float:
    width, spread = len(pair.names), pair.spreads

    def measure(batch: pl.DataFrame) -> pl.DataFrame:
        values = batch.cast(pl.Float64).fill_null(np.nan).to_numpy()
        moved = measure_distances(values[:, :width], values[:, width:], spread)
        return pl.DataFrame({_DISTANCE: pl.Series(moved).fill_nan(None)})

    median = Quantile(0.5)
    taken = pair.engine.aggregate(
        pair.pairs, {_DISTANCE: [median]}, derive=measure, reads=pair.columns
    )
    return float(taken[_DISTANCE][median.name])


def _share_rescaled_by_sums(pair: NumberPairs, within: float) -> float:
    """The share that stayed but for the unit, in the worst variable."""
    fitted, spread = fit_rescaling(pair), pair.spreads

    def count_close(before: Floats, after: Floats) -> Integers:
        rescaled = np.column_stack(
            [scale.apply(column) for scale, column in zip(fitted, after.T, strict=True)]
        )
        closeness = find_close(before, rescaled, spread, within)
        return np.stack([closeness.close.sum(axis=0), closeness.known.sum(axis=0)])

    return find_worst_share(*sum(pair.gather(count_close)))


def _mean_square(name: str, change: Floats) -> float:
    with np.errstate(over="ignore"):
        squares = change * change
    _require_countable(name, float(squares.max(initial=0.0)))
    return exact_mean(squares)


def _require_countable(name: str, number: float) -> float:
    if not math.isfinite(number):
        raise MeasureError(
            f"Variable '{name}' changed by more than can be counted in its own spread.",
            hint="leave it out of `variables`, or look at its values.",
        )
    return number


def _count_outside(bounds: Any, released: Floats) -> int:
    """How many released values lie outside the domain that was declared for the original."""
    if bounds is None:
        return 0
    return int(((released < bounds[0]) | (released > bounds[1])).sum())


def _list_without_domain(original: Dataset, names: Sequence[str]) -> tuple[str, ...]:
    without = [name for name in names if original.schema[name].bounds is None]
    if not without:
        return ()
    names = ", ".join(f"'{name}'" for name in without)
    return (f"No domain is declared, so no value counts as outside it: {names}.",)


def _report_incomparable(count: int) -> tuple[str, ...]:
    if not count:
        return ()
    return (f"{count} records have no value to compare; shares are of the others.",)


def _describe_pair(worst: WorstSubset, names: Sequence[str]) -> dict[str, Any]:
    """The worst two variables together; NaN with a reason where there is one only."""
    if worst.pair is None:
        return {
            "stayed_in_pair": math.nan,
            "stayed_in_pair_reason": "there is one variable only.",
        }
    return {
        "stayed_in_pair": worst.pair_share,
        "worst_pair": tuple(names[column] for column in worst.pair),
    }


def _build_records(moved: Floats, stayed: Mask, in_all: Mask) -> pl.DataFrame:
    columns = {"stayed": stayed, "stayed_in_all": in_all}
    return pl.DataFrame({"distance": pl.Series(moved).fill_nan(None), **columns})
