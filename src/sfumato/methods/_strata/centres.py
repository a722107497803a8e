"""Each record becomes the centre of its k nearest neighbours; and the k that moves enough."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any, NoReturn, cast

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.engines import Engine, GroupingEngine
from sfumato.engines.local import find_class_of_each
from sfumato.engines.summaries import (
    Count,
    Deviation,
    Distinct,
    Maximum,
    Mean,
    Minimum,
    Summary,
    Transformed,
)
from sfumato.errors import HeavyLossWarning, MethodError
from sfumato.kernels.arrays import Floats, Integers, Mask
from sfumato.method import is_integer
from sfumato.methods._publishing.digits import round_to_step
from sfumato.methods._strata.pieces import (
    Neighbourhood,
    find_centres_in_pieces,
    refuse_far_values,
)
from sfumato.methods._strata.strata import format_levels
from sfumato.pairs.alignment import quote_names, read_matrix
from sfumato.pairs.subsets import SubsetCloseness, find_close, find_worst_subset, share_rescaled
from sfumato.schema import Column

GAP = "__sfumato_gap_"
"""Before the name of a variable: the column that says where it was missing."""
Spread = Mapping[str, Mapping[str, float]]
"""The mean and standard deviation of each variable."""
_COLLINEAR = 1e-10
_ROUNDS = 200
_CLOSE = 1e-12
# Beyond this, not every whole number is one of the machine's.
_EXACT = 2.0**53
_LARGEST_RISE = 10
"""How many times the k that was asked for may be taken for the sake of `at_most`."""
_FEWEST_VALUES = 10
"""Distinct values of a variable that a stratum must keep, or a third of its own, if k rises."""
_LARGEST_SHIFT = 0.25
"""Standard deviations that the mean of a stratum may move if k rises."""
_MOST_CODES = 50
_RECORDS_A_CODE = 10


@dataclass(frozen=True, eq=False)
class PreparedRecords:
    """The records that will be released: as they are, and with their gaps filled (`full`)."""

    original: Dataset
    full: Dataset
    variables: tuple[str, ...]
    by: tuple[str, ...]
    codes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Codes that mean "missing" to whoever reads the release, so no new value may be one."""
    elsewhere: bool = False
    """Whether the records are not in memory; columns of `full` then say what was missing."""

    @cached_property
    def slim(self) -> Dataset:
        """Only what is needed to find neighbours, so that no other variable is carried along.

        Records that are elsewhere stay together with all they have.
        """
        if self.elsewhere:
            return self.full
        batch = self.full.batch([*self.variables, *self.by])
        numbers = [batch[name].cast(pl.Float64) for name in self.variables]
        return Dataset(batch.with_columns(numbers), given_identity=self.full.identity)


@dataclass(frozen=True, kw_only=True)
class MoveSettings:
    """How records are moved; see the parameters of the deterministic method."""

    k: int
    spread: Spread
    weights: list[list[float]] | None
    within_bounds: bool
    round_integers: bool
    steps: Mapping[str, float]
    keep_gaps: bool
    at_most: float | None
    within: float
    by_stratum: bool


@dataclass(frozen=True, eq=False)
class Stages:
    """The records on their way: original, centres of neighbours, released. Custodian only."""

    variables: tuple[str, ...]
    strata: pl.DataFrame = field(repr=False)
    original: pl.DataFrame = field(repr=False)
    centres: pl.DataFrame = field(repr=False)
    released: pl.DataFrame = field(repr=False)


def fit_spread(data: Dataset, names: Sequence[str], engine: Engine) -> dict[str, dict[str, float]]:
    """The mean and SD of each variable, by exact sums; fail where all values are the same."""
    summary = engine.aggregate(data, {name: [Mean(), Deviation()] for name in names})
    spread = {name: {"mean": summary[name]["mean"], "sd": summary[name]["sd"]} for name in names}
    wide = [name for name, moments in spread.items() if any(map(math.isinf, moments.values()))]
    if wide:
        raise MethodError(
            f"These values are too large to be squared: {quote_names(wide)}.",
            hint="give the variable in a larger unit.",
        )
    flat = [name for name, moments in spread.items() if not moments["sd"] > 0]
    if flat:
        raise MethodError(
            f"All values are the same, or too near to be told apart, so there is nothing to "
            f"blur: {quote_names(flat)}.",
            hint="leave the variable out of `variables`, or give it in another unit.",
        )
    return spread


def fit_weights(
    data: Dataset, spread: Spread, distance: str, engine: Engine
) -> list[list[float]] | None:
    """For Mahalanobis distances: the matrix that makes the variables uncorrelated."""
    if distance == "euclidean":
        return None
    names = list(spread)
    pairs = list(combinations_with_replacement(range(len(names)), 2))

    def products(batch: pl.DataFrame) -> pl.DataFrame:
        z = [(batch[n].cast(pl.Float64) - spread[n]["mean"]) / spread[n]["sd"] for n in names]
        return pl.DataFrame([(z[a] * z[b]).alias(f"{a} {b}") for a, b in pairs])

    wanted = {f"{a} {b}": [Mean()] for a, b in pairs}
    means = engine.aggregate(data, wanted, derive=products, reads=names)
    relation = np.empty((len(names), len(names)))
    for a, b in pairs:
        relation[a, b] = relation[b, a] = means[f"{a} {b}"]["mean"]
    if np.linalg.eigvalsh(relation)[0] < _COLLINEAR:
        raise MethodError(
            f"One of these variables follows from the others: {', '.join(names)}.",
            hint='leave it out, or say distance = "euclidean".',
        )
    # With R the correlations and L L' = inv(R), |L'z| is the Mahalanobis distance of z from 0.
    root = np.linalg.cholesky(np.linalg.inv(relation)).T
    weights: list[list[float]] = (root / [spread[name]["sd"] for name in names]).tolist()
    return weights


@dataclass(frozen=True)
class Move:
    """How the centres of a variable become the values that are released.

    Parameters
    ----------
    name, column : the variable.
    slope, shift : what stretches centres about the mean, back to the spread of the original.
    mean, factor : the same where no bounds are to be kept.
    bounds : where the values must lie, if anywhere.
    whole, step : round to whole numbers, or to a step.
    codes : what means "missing" to whoever reads the release.
    """

    name: str
    column: Column
    mean: float
    factor: float
    slope: float
    shift: float
    bounds: tuple[Any, Any] | None
    whole: bool
    step: float
    codes: tuple[Any, ...]

    def apply(self, centres: pl.Series, gaps: pl.Series | None) -> pl.Series:
        """The values of some records; missing again where they were, if `gaps` says so."""
        # Centres lie closer together than the records: stretch them about the mean.
        new = self.mean + (centres - self.mean) * self.factor
        if self.bounds is not None:
            new = (centres * self.slope + self.shift).clip(*map(float, self.bounds))
        if self.whole:
            new = _round_values(new.alias(self.name), self.bounds)
        elif self.step:
            new = round_to_step(new.alias(self.name), self.step, self.column)
        new = _avoid_codes(new, self.codes)
        return (new if gaps is None else new.set(gaps, None)).alias(self.name)


def move_records(
    records: PreparedRecords, settings: MoveSettings, k: Mapping[str, Any], engine: Engine
) -> list[pl.Series]:
    """The new values of each variable: centres, stretched back to the original spread."""
    centre = find_centres(records, settings, k, engine)
    moves = fit_moves(records, settings, k, centre, engine)
    gaps = {
        name: records.original.column(name).is_null() if settings.keep_gaps else None
        for name in records.variables
    }
    return [moves[name].apply(centre.column(name), gaps[name]) for name in records.variables]


def move_elsewhere(
    records: PreparedRecords, settings: MoveSettings, k: Mapping[str, Any], engine: Engine
) -> Dataset:
    """The records with their new values, where they lie."""
    centre = engine.keep(find_centres(records, settings, k, engine))
    moves = fit_moves(records, settings, k, centre, engine)
    gaps = {name: f"{GAP}{name}" for name in records.variables}
    keep_gaps = settings.keep_gaps

    def move(batch: pl.DataFrame, draws: object) -> pl.DataFrame:
        del draws
        return pl.DataFrame(
            [
                moves[name].apply(batch[name], batch[gap] if keep_gaps else None)
                for name, gap in gaps.items()
            ]
        )

    reads = [*records.variables, *gaps.values()]
    return engine.map_rows(centre, move, reads=reads).without(gaps.values())


def fit_moves(
    records: PreparedRecords,
    settings: MoveSettings,
    k: Mapping[str, Any],
    centre: Dataset,
    engine: Engine,
) -> dict[str, Move]:
    """How far centres must be stretched, by variable."""
    shrunk = engine.aggregate(centre, {name: [Deviation()] for name in records.variables})
    moves = {}
    for name in records.variables:
        mean, sd = settings.spread[name]["mean"], settings.spread[name]["sd"]
        if not shrunk[name]["sd"] > 0:
            raise MethodError(
                f"With k = {k['all'] or 'this'} every record would get the same '{name}'.",
                hint="choose a smaller k.",
            )
        factor, slope, shift = sd / shrunk[name]["sd"], 1.0, 0.0
        bounds = _find_bounds(records, settings, name, engine)
        if bounds is not None:
            slope, shift = _fit_stretch(centre, name, factor, settings.spread[name], bounds, engine)
        moves[name] = Move(
            name,
            records.original.schema[name],
            mean,
            factor,
            slope,
            shift,
            bounds,
            settings.round_integers and is_integer(records.original, name),
            settings.steps.get(name, 0.0),
            tuple(records.codes.get(name, ())),
        )
    return moves


def find_centres(
    records: PreparedRecords, settings: MoveSettings, k: Mapping[str, Any], engine: Engine
) -> Dataset:
    """The centre of each record and its nearest in the stratum, on the original's scale."""
    # In units of standard deviations, or in those that take out correlation.
    names = list(records.variables)
    inverse = [1 / settings.spread[name]["sd"] for name in names]
    scale = np.array(settings.weights if settings.weights is not None else inverse)
    chosen = {tuple(row[:-1]): row[-1] for row in k["strata"]}
    by, for_all = records.by, k["all"]

    if not (engine.in_memory or engine.in_batches):
        space = Neighbourhood(tuple(names), tuple(by), scale, for_all)
        moved = find_centres_in_pieces(records.slim, space, cast("GroupingEngine", engine))
        if moved is not None:
            return moved

    def centre(batch: pl.DataFrame, starts: Integers, draws: object) -> pl.DataFrame:
        from sfumato.kernels.trees.neighbours import centroids

        del draws
        if chosen:
            first = batch[starts[:-1]]
            levels = zip(*(format_levels(first[name]).to_list() for name in by), strict=True)
            sizes = np.array([chosen[stratum] for stratum in levels])
        else:
            sizes = np.full(len(starts) - 1, for_all)
        values = np.column_stack([batch[name].to_numpy() for name in names])
        with refuse_far_values(names):
            means = centroids(values, scale, starts, sizes)
        return pl.DataFrame({name: means[:, column] for column, name in enumerate(names)})

    reads = [*names, *records.by] if chosen else names
    return engine.map_groups(records.slim, centre, by=by, reads=reads)


def _find_bounds(
    records: PreparedRecords, settings: MoveSettings, name: str, engine: Engine
) -> tuple[Any, Any] | None:
    """Where the new values of a variable must lie, if anywhere.

    A number beyond the last code of a scale means nothing, so codes stay among the codes.
    """
    declared = records.original.schema[name].bounds
    if settings.within_bounds and declared is not None:
        return declared
    if not (settings.round_integers and is_integer(records.original, name)):
        return None
    wanted: list[Summary] = [Count(), Distinct(), Minimum(), Maximum()]
    values = engine.aggregate(records.original, {name: wanted})[name]
    if values["distinct"] > min(_MOST_CODES, values["count"] // _RECORDS_A_CODE):
        return None
    return declared or (values["min"], values["max"])


def _fit_stretch(
    centre: Dataset,
    name: str,
    factor: float,
    spread: Mapping[str, float],
    bounds: tuple[Any, Any],
    engine: Engine,
) -> tuple[float, float]:
    """Stretch and shift so that, cut off at the bounds, mean and SD are those of the original."""
    mean, sd = spread["mean"], spread["sd"]
    low, high = map(float, bounds)
    slope, shift = factor, mean - mean * factor
    # Clipping pulls mean and SD inwards; correct both by what was lost, and clip again.
    for _ in range(_ROUNDS):

        def clip(values: Floats, slope: float = slope, shift: float = shift) -> Floats:
            return np.clip(values * slope + shift, low, high)

        summaries = [Transformed(clip, summary, "inside") for summary in (Mean(), Deviation())]
        moments = engine.aggregate(centre, {name: summaries})[name]
        off, ratio = moments["mean inside"] - mean, moments["sd inside"] / sd
        if (abs(off) < _CLOSE * sd and abs(ratio - 1) < _CLOSE) or not ratio > 0:
            break
        slope, shift = slope / ratio, mean + (shift - moments["mean inside"]) / ratio
    return slope, shift


def _round_values(values: pl.Series, bounds: tuple[Any, Any] | None) -> pl.Series:
    rounded = pl.Series(values.name, np.rint(values.to_numpy()))
    if bounds is not None:
        rounded = rounded.clip(float(np.ceil(bounds[0])), float(np.floor(bounds[1])))
    if float(np.abs(rounded.to_numpy()).max(initial=0.0)) >= _EXACT:
        raise MethodError(
            f"Variable '{values.name}' is too large to be rounded to whole numbers.",
            hint="give it in a larger unit, or leave out `whole`.",
        )
    return rounded.cast(pl.Int64)


def _avoid_codes(values: pl.Series, codes: tuple[Any, ...]) -> pl.Series:
    """The values, with those that happen to equal a code for "missing" moved next to it."""
    taken = [float(code) for code in codes if isinstance(code, (int, float))]
    new = values
    for code in taken:
        step = 1.0 if values.dtype.is_integer() else float(np.spacing(code))
        free = code + step
        while free in taken:
            free += step
        new = new.set(new == code, free if values.dtype.is_float() else int(free))
    return new


# The smallest k that moves enough records --------------------------------------------------------


@dataclass(frozen=True)
class RiseCost:
    """What a rise of k costs, in the variable and the stratum where it costs most.

    Parameters
    ----------
    fewest : distinct released values of a variable in a stratum, where fewest of them are left.
    of : how many the stratum had.
    fewest_variable : that variable.
    shift : how far the mean of a stratum moves, in standard deviations.
    shift_variable : the variable whose mean moves that far.
    too_high : whether it is more than a search for k may take upon itself.
    """

    fewest: int
    of: int
    fewest_variable: str
    shift: float
    shift_variable: str
    too_high: bool

    def describe(self) -> str:
        """The cost in words."""
        moved = (
            f"the mean of '{self.shift_variable}' in a stratum moves by {self.shift:.2g} standard "
            "deviations"
        )
        if self.fewest >= self.of:
            return moved
        return (
            f"a stratum keeps {self.fewest} of {self.of} distinct values of "
            f"'{self.fewest_variable}', and {moved}"
        )


def choose_k(records: PreparedRecords, settings: MoveSettings, engine: Engine) -> dict[str, Any]:
    """The k as given or, with a floor on displacement, the smallest that moves enough records.

    Whether it is enough is judged as the measure `displacement` judges `stayed`: by the worst
    variable. A k that is larger than the one asked for is announced with what it costs, and
    refused where the cost is too high.
    """
    at_most = settings.at_most
    if at_most is None:
        return {"k": {"all": settings.k, "strata": []}}
    distinct = engine.distinct(records.slim, records.by)
    levels = [format_levels(distinct.values[name]).to_list() for name in records.by]
    strata = list(zip(*levels, strict=True)) if records.by else [()]
    stratum_of = np.zeros(len(records.full), np.int64)
    if records.by:
        stratum_of = find_class_of_each(records.slim.batch(records.by), distinct.values)
    original = read_matrix(records.original, records.variables)
    # Of the values that are there: gaps that were filled would make the spread too small.
    summary = engine.aggregate(
        records.original, {name: [Deviation()] for name in records.variables}
    )
    sds = np.array([summary[name]["sd"] for name in records.variables])
    shares: list[float] = []

    def specify(k: Integers) -> dict[str, Any]:
        if not settings.by_stratum or not records.by:
            return {"all": int(k[0]), "strata": []}
        rows = [[*stratum, int(size)] for stratum, size in zip(strata, k, strict=True)]
        return {"all": None, "strata": sorted(rows, key=lambda row: list(map(str, row[:-1])))}

    def move(k: Integers) -> Floats:
        released = move_records(records, settings, specify(k), engine)
        return np.column_stack([column.cast(pl.Float64).to_numpy() for column in released])

    def is_enough(k: Integers) -> Mask:
        values = move(k)
        closeness = find_close(original, values, sds, settings.within)
        rescaled = share_rescaled(original, values, sds, settings.within)
        shares.append(max(find_worst_subset(closeness).share, rescaled))
        enough = shares[-1] <= at_most
        if not settings.by_stratum:
            return np.array([enough])
        met = _find_moved_strata(closeness, stratum_of, at_most)
        # All strata by themselves, but not together: another unit, or gaps, bring some back.
        return met & (enough | ~met.all())

    sizes = distinct.counts if settings.by_stratum else np.array([distinct.counts.min()])
    low = np.full(len(sizes), settings.k)
    k = find_smallest_k(is_enough, low, np.minimum(sizes, _LARGEST_RISE * settings.k))
    if k is None:
        _refuse_rise(
            f"No k up to {_LARGEST_RISE} times {settings.k}, or to the size of the strata, moves "
            f"enough records: at best {min(shares):.3g} of them stay within {settings.within:g} SD "
            f"of their original in some variable, and at_most is {at_most:g}."
        )
    chosen = {"k": specify(k), "stayed": shares[-1]}
    if (k > low).any():
        cost = _measure_cost(original, move(k), stratum_of, sds, records.variables)
        rise = f"from {settings.k} to {int(k.max())} to meet at_most = {at_most:g}"
        chosen["loss"] = _announce_rise(cost, rise)
    return chosen


def _find_moved_strata(closeness: SubsetCloseness, stratum_of: Integers, at_most: float) -> Mask:
    """The strata in which enough records moved, in each variable."""
    strata = int(stratum_of.max()) + 1
    met = np.ones(strata, bool)
    for close, known in zip(closeness.close.T, closeness.known.T, strict=True):
        sizes = np.bincount(stratum_of, known, strata)
        met &= np.bincount(stratum_of, close & known, strata) <= at_most * sizes
    return met


def _announce_rise(cost: RiseCost, rise: str) -> str:
    """Warn of what it costs; the sentence stands in the report too."""
    if cost.too_high:
        _refuse_rise(f"k would have to rise {rise}, which costs too much: {cost.describe()}.")
    what = f"deterministic: k rises {rise}: {cost.describe()}."
    warnings.warn(what, HeavyLossWarning, stacklevel=4)
    return what


def _refuse_rise(what: str) -> NoReturn:
    raise MethodError(
        what,
        hint='take the method "noise" for these variables, use fewer strata, say k_by = "stratum", '
        "or allow more. A k that you state yourself is taken as it is.",
    )


def _measure_cost(
    original: Floats, released: Floats, stratum_of: Integers, sds: Floats, names: Sequence[str]
) -> RiseCost:
    """The fewest distinct values that are left in a stratum, and the mean that moves farthest."""
    distinct_values, shifts, too_few = [], [], False
    for column, name in enumerate(names):
        known = ~np.isnan(original[:, column]) & ~np.isnan(released[:, column])
        stratum = stratum_of[known]
        sizes = np.bincount(stratum)
        before, after = (
            np.bincount(np.unique(np.column_stack([stratum, values]), axis=0)[:, 0].astype(np.intp))
            for values in (original[known, column], released[known, column])
        )
        present = np.flatnonzero(sizes)
        least = present[np.argmin(after[present])]
        distinct_values.append((int(after[least]), int(before[least]), name))
        needed = np.minimum(_FEWEST_VALUES, before // 3)
        too_few |= bool((after < needed)[present].any())
        moved = released[known, column] - original[known, column]
        means = np.bincount(stratum, moved)[present] / sizes[present] / sds[column]
        shifts.append((float(np.abs(means).max()), name))
    shift, shifted = max(shifts)
    return RiseCost(*min(distinct_values), shift, shifted, too_few or shift > _LARGEST_SHIFT)


def find_smallest_k(
    is_enough: Callable[[Integers], Mask], low: Integers, high: Integers
) -> Integers | None:
    """The smallest k of each group that is enough; None when even `high` is not.

    Groups are searched together, by strides and then by halves. One less would not be enough,
    as far as more k never means less protection, which holds nearly, not always.
    """
    fails, k = low - 1, low.copy()
    while not (met := is_enough(k)).all():
        if (k[~met] >= high[~met]).any():
            return None
        # Strides of half of k again, until each group has a k that is enough.
        fails = np.where(met, fails, k)
        k = np.where(met, k, np.minimum(high, k + np.maximum(1, k // 2)))
    meets = k
    while (meets - fails > 1).any():
        k = np.where(meets - fails > 1, (meets + fails) // 2, meets)
        met = is_enough(k)
        fails, meets = np.where(met, fails, k), np.where(met, k, meets)
    # In strata the spread, and with it every distance, depends on the k of the others.
    while not (met := is_enough(meets)).all():
        if (meets[~met] >= high[~met]).any():
            return None
        meets = np.where(met, meets, meets + 1)
    return meets
