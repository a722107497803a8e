"""The least noise that keeps an attacker far enough off."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.analysis.noise_simulation import make_fixed_draws, simulate_noise
from sfumato.data import Dataset
from sfumato.engines import engine_for
from sfumato.engines.summaries import Deviation, Quantile
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Mask, Positions
from sfumato.kernels.exact_sums import canonical_order
from sfumato.methods.noise import Noise
from sfumato.methods.persons import BY_PERSON
from sfumato.noise.description import NoiseDescription as Described
from sfumato.noise.scales import Growth
from sfumato.parameters import write_short
from sfumato.progress import current_progress
from sfumato.randomness import Draws
from sfumato.risk.attacks.distances import Space, space
from sfumato.risk.attacks.knowledge import knowledge
from sfumato.risk.attacks.owners import choose_targets, rank_units
from sfumato.risk.attacks.targets import order_values, tenths
from sfumato.units import Units

Who = Literal["all", "deciles"] | float
Attacker = Literal["best", "plain"]
Variant = Callable[[float], Noise]
_OWNER = "calibrate"
_FIRST, _LEAST = 0.1, 1e-4
_FEWEST = 2
_CUT = (0.01, 0.99)
_TAILS = (0.05, 0.95)
_FEW_ENOUGH = 5000
"""Records among which attackers who know less are tried: each is compared with all others."""
_ROUNDING = 1 + 1e-9
"""Distances that differ by no more than this factor differ by rounding."""
_SAME_SIZE = 1.1
"""Sizes of noise that differ by less than this factor weigh alike."""
_EXACT = 1e-6
"""The least size of noise, in standard deviations, that is weighed by."""
_MORE = 4.0
"""How many times the variance of the noise in the tails is."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Calibrated:
    """Noise that meets the goal; or the reason why none does.

    Parameters
    ----------
    step : the noise, as a step of a plan. Where nothing met the goal, the most that was tried.
    met : whether the goal is met, allowing for chance (97.5 % sure).
    asked, goal : what was asked for, in words and as a number.
    share : the variance of the noise as a share of that of the variable, times its weight.
    achieved, error : what was reached in the worst group, and its Monte Carlo standard error.
    worst : that group.
    table : a row per size that was tried.
    groups : a row per group, at the size that was chosen.
    warnings : what was left out.
    reason : why not, where it is not met.
    offers : other noise that does meet it, tried the same way: with released values cut off at
        the tails, or with more noise there. Each is a `Calibrated` of its own.
    """

    step: Noise
    met: bool
    asked: str
    goal: float
    share: float
    achieved: float
    error: float
    worst: str
    table: Any = field(repr=False)
    groups: Any = field(repr=False)
    warnings: tuple[str, ...] = ()
    reason: str = ""
    offers: tuple[Calibrated, ...] = ()

    __repr__ = write_short


def calibrate(  # noqa: PLR0913 - the options are the interface
    data: Dataset,
    variables: Sequence[str] | None = None,
    *,
    mean_h: float | None = None,
    below: int = 3,
    at_most: float | None = None,
    who: Who = "all",
    by: str = "sum",
    weights: Mapping[str, float] | None = None,
    known: Sequence[str] | None = None,
    misclassified: Mapping[str, float] | None = None,
    errors: float = 0.0,
    sampling_fraction: float = 1.0,
    attacker: Attacker = "best",
    draws: int = 10,
    precision: float = 0.02,
    largest: float = 1.0,
    **options: Any,
) -> Calibrated:
    """Find the least noise with which an attacker lands far enough off.

    Question: how much noise is enough, and no more?
    Assumes: the attacker knows the true values of `known` and takes the nearest released record,
    by distances in standard deviations; or, where variables have noise of different sizes or none,
    weighs them by 1 / variance of the noise, whichever does better. h is the number of persons
    nearer to the target than the one taken for them. Where persons have several rows (role
    "person"), each is looked for by the row that is found best. The same draws serve every size of
    noise, so the search is monotone but for a little chance, and can be repeated. A release draws
    anew: put a target on it too. `errors` and `sampling_fraction` are for up to 5000 records with
    one row for each person.

    Parameters
    ----------
    data : the original records.
    variables : the numbers to add noise to. Default: what the attacker knows.
    mean_h : the least mean of h: how many people are nearer.
    below, at_most : the highest share of records whose h lies below a limit. Give `mean_h` or
        `at_most`.
    who : for whom it must hold: "all"; "deciles", each tenth along `by`; or a share such as 0.05:
        those with the fewest others around.
    by : the order of the tenths: "sum", "distance" from the centre, or a variable.
    weights : how much noise each variable gets in proportion. Less for what analysts need most.
    known : what the attacker knows. Default: the numbers whose role is "quasi", else "sensitive".
        Categories may be among them: a different one is as far as one standard deviation of a
        number (Gower's distance, squared), ordered levels count by their ranks.
    misclassified : categories that are known but not exact in the release, with the share of
        records that keep their level, `{"region": 0.8}`; the others get somebody else's. The best
        attacker weighs a category by the likelihood that it was changed.
    errors : how wrong the attacker's knowledge is: in standard deviations of numbers, and as the
        share of wrong categories.
    sampling_fraction : share of the persons looked for who are in the file.
    attacker : "best" of both, who counts for a target on `h_index`; or "plain", the one of the
        paper, who weighs all variables alike.
    draws : how often each size is drawn. The error falls with its root.
    precision : stop when the size is known within this share of itself.
    largest : the largest share of the variance to try.
    options : further parameters of the method `noise`, such as `scale` or `distribution`.

    Examples
    --------
    >>> import sfumato as sf
    >>> data = sf.Dataset(sf.datasets.cohort(300), sf.datasets.cohort_schema())
    >>> found = calibrate(data, ["height", "weight_kg"], known=["height", "weight_kg"], mean_h=3)
    >>> found.met, found.achieved >= 3
    (True, True)

    References: Goldstein & Shlomo (2020), A probabilistic procedure for anonymisation and analysis
    of perturbed datasets, Eq. 2.
    """
    goal = _read_goal(mean_h, below, at_most)
    _require_sense(draws, precision, largest)
    if attacker not in ("best", "plain"):
        raise MeasureError('`attacker` is "best" or "plain".')
    attack = _prepare_attack(data, known or variables, who, by, goal, draws, misclassified or {})
    attack = replace(attack, attacker=attacker, errors=errors, sampling_fraction=sampling_fraction)
    attack.require_few()
    names = tuple(variables) if variables is not None else tuple(attack.columns)
    if not any(name in attack.columns for name in names):
        raise MeasureError(
            "The attacker knows none of the variables that get noise, so none is needed.",
            hint="name them in `known`.",
        )
    variants = NoiseVariants(data, names, _check_weights(weights, names), options)
    search = _SizeSearch(data, attack, goal, largest, precision)
    result = search.find_least(variants.with_constant_size)
    if result.met:
        return result
    offers = [search.find_least(variant) for variant in variants.with_other_tails()]
    return replace(
        result,
        reason=_explain_failure(result, goal, attack.units.count),
        offers=tuple(offer for offer in offers if offer.met),
    )


def _explain_failure(result: Calibrated, goal: ProtectionGoal, records: int) -> str:
    # Whoever draws one of n records at random is (n - 1) / 2 ranks off on average.
    at_random = (records - 1) / 2
    if goal.mean_h is not None and goal.mean_h >= at_random:
        return (
            f"Whoever picks one of the {records} records by chance lands {at_random:g} persons off "
            "on average, so no noise takes them farther."
        )
    return (
        f"Noise of {result.share:g} times the variance of the variables is not enough for "
        f"{result.worst}. Some records are far from all others, and stay so."
    )


def _read_goal(mean_h: float | None, below: int, at_most: float | None) -> ProtectionGoal:
    if (mean_h is None) == (at_most is None):
        raise MeasureError(
            "Set a goal: `mean_h`, or `at_most` for the share of records below a limit.",
            hint="for instance mean_h=3, or below=3, at_most=0.1.",
        )
    if mean_h is not None and not (np.isfinite(mean_h) and mean_h > 0):
        raise MeasureError("`mean_h` is a number above 0.")
    if at_most is not None and not 0 < at_most < 1:
        raise MeasureError("`at_most` is a share, above 0 and below 1.")
    if below < 1:
        raise MeasureError("`below` is 1 or more.")
    return ProtectionGoal(mean_h, below, at_most)


def _require_sense(draws: int, precision: float, largest: float) -> None:
    if draws < _FEWEST:
        raise MeasureError("An error takes at least two draws.", hint="give a larger `draws`.")
    if not 0 < precision < 1 or not _LEAST < largest <= 1:
        raise MeasureError("`precision` and `largest` are shares, above 0 and at most 1.")


def _check_weights(weights: Mapping[str, float] | None, names: Sequence[str]) -> dict[str, float]:
    """Weights by variable, the largest 1."""
    chosen = dict(weights or {})
    unknown = ", ".join(f"'{name}'" for name in chosen if name not in names)
    if unknown:
        raise MeasureError(f"These have a weight, but get no noise: {unknown}.")
    if not all(np.isfinite(weight) and weight > 0 for weight in chosen.values()):
        raise MeasureError(
            "A weight is a number above 0.",
            hint="leave a variable without noise out of `variables`.",
        )
    complete = {name: float(chosen.get(name, 1.0)) for name in names}
    return {name: weight / max(complete.values()) for name, weight in complete.items()}


@dataclass(frozen=True)
class ProtectionGoal:
    """What must hold in every group.

    Parameters
    ----------
    mean_h : the least mean of h; or None.
    below, at_most : the highest share of records with h below a limit; or None.
    """

    mean_h: float | None
    below: int
    at_most: float | None

    @property
    def bound(self) -> float:
        """The number to be reached."""
        return float(self.mean_h if self.mean_h is not None else self.at_most or 0.0)

    def is_met(self, value: float, error: float, draws: int) -> bool:
        """Whether it is reached, allowing for chance: 97.5 % sure."""
        margin = error * t_quantile(draws)
        if self.mean_h is not None:
            return value - margin >= self.bound
        return value + margin <= self.bound

    def describe(self) -> str:
        """In words."""
        if self.mean_h is not None:
            return f"mean of h at least {self.bound:g}"
        return f"share of records with h below {self.below} at most {self.bound:g}"


def t_quantile(draws: int) -> float:
    """The 97.5 % quantile of Student's t for a mean over so many draws; about two for many."""
    from scipy.special import stdtrit

    return float(stdtrit(draws - 1, 0.975))


@dataclass(frozen=True, eq=False)
class ExposedGroup:
    """Some of the records, and what to call them."""

    name: str
    members: Mask = field(repr=False)


def choose_groups(
    measured: Space, who: Who, units: Units, *, by: str, neighbour: int
) -> list[ExposedGroup]:
    """The groups that must be protected, each by itself.

    Parameters
    ----------
    measured : the records as the attacker measures distances.
    who : "all"; "deciles" by an order; or a share: those who have the fewest others around.
    units : whom each record is about; others are other units.
    by : the order: "sum" of the variables, "distance" from the centre, or a variable.
    neighbour : the distance to the so-many-th other record decides who is most exposed.
    """
    size = len(measured.original)
    if who == "all":
        return [ExposedGroup("all records", np.ones(size, bool))]
    if who == "deciles":
        deciles = tenths(order_values(measured, by, standardise=True, owner=_OWNER))
        return [
            ExposedGroup(f"{start:g} to {end:g} by {by}", _mask_rows(rows, size))
            for start, end, rows in zip(deciles.starts, deciles.ends, deciles.rows, strict=True)
        ]
    if isinstance(who, str) or not 0 < who <= 1:
        raise MeasureError(
            '`who` is "all", "deciles", or a share of the records, such as 0.05.',
            hint="0.05 is the twentieth that has the fewest others around.",
        )
    distance = _distance_to_neighbour(measured.original * measured.scale, neighbour, units)
    count = max(1, round(who * size))
    # Ties with the last one belong to the group.
    least = np.partition(distance, size - count)[size - count]
    return [ExposedGroup(f"the {who:g} with the fewest others around", distance >= least)]


def _mask_rows(rows: npt.NDArray[np.intp], size: int) -> Mask:
    mask = np.zeros(size, bool)
    mask[rows] = True
    return mask


def _distance_to_neighbour(values: Floats, which: int, units: Units) -> Floats:
    """The distance to the n-th nearest other unit."""
    from scipy.spatial import cKDTree

    from sfumato.kernels.trees.nearest_other import distance_to_other

    which = min(which, units.count - 1)
    if not units.one_row_each:
        return distance_to_other(values.T, np.arange(len(values)), which, np.inf, units)

    neighbour = which + 1  # each record is its own nearest
    distances, _ = cKDTree(values).query(values, k=[neighbour])
    return np.asarray(distances[:, 0], float)


@dataclass(frozen=True, eq=False)
class SizeTrial:
    """What one size of noise does, by group.

    Parameters
    ----------
    share : the size of the noise.
    values, errors : the number of the goal in each group, and its Monte Carlo standard error.
    met : whether the goal is met in every group.
    worst : the group that is furthest from it.
    """

    share: float
    values: tuple[float, ...] = field(repr=False)
    errors: tuple[float, ...] = field(repr=False)
    met: bool
    worst: int


@dataclass(frozen=True, eq=False)
class DistanceAttack:
    """Records that an attacker knows, on the scale of the distances.

    Parameters
    ----------
    columns : the true values by variable, in canonical order.
    scale : what each variable is multiplied by.
    groups : whose exposure counts.
    draws : how often the noise is drawn.
    units : whom each record is about: h counts them, and each is looked for by the row that is
        found best.
    warnings : what was left out.
    attacker : "plain" weighs all variables alike; "best" also weighs them by their noise.
    categories : what the attacker knows besides numbers.
    errors : how wrong the attacker's knowledge is.
    sampling_fraction : which part of the persons looked for is in the file.
    """

    columns: Mapping[str, Floats]
    scale: Floats
    groups: Sequence[ExposedGroup]
    draws: int
    units: Units
    warnings: tuple[str, ...] = ()
    attacker: Attacker = "best"
    categories: tuple[KnownCategory, ...] = ()
    errors: float = 0.0
    sampling_fraction: float = 1.0

    @property
    def is_imperfect(self) -> bool:
        """Whether the attacker knows people with errors, or looks for some who are not there."""
        return self.errors > 0 or self.sampling_fraction < 1

    def require_few(self) -> None:
        """Refuse what is no share, and imperfect attackers among too many records."""
        if not 0 <= self.errors <= 1 or not 0 < self.sampling_fraction <= 1:
            raise MeasureError("`errors` and `sampling_fraction` are shares, at most 1.")
        if not self.is_imperfect:
            return
        if not self.units.one_row_each:
            raise MeasureError(
                "Attackers with errors, or a sampling fraction, are not tried where persons have "
                "several rows.",
                hint="leave `errors` and `sampling_fraction` out.",
            )
        if self.units.count > _FEW_ENOUGH:
            raise MeasureError(
                "Attackers with errors, or a sampling fraction, are tried on at most "
                f"{_FEW_ENOUGH} records; there are {self.units.count}.",
                hint="calibrate on a part of the records, or leave them out.",
            )

    def count_targets(self, group: ExposedGroup) -> int:
        """How many persons of a group are looked for."""
        return self.units.count_among(group.members)

    def attack(
        self,
        noise: Mapping[str, Described],
        goal: ProtectionGoal,
        share: float,
        once: Sequence[str] = (),
    ) -> SizeTrial:
        """Draw the noise several times and see how far off the attacker lands each time.

        `once` are the variables whose noise is drawn once for each person.
        """
        original = np.column_stack([self.columns[name] for name in self.columns])
        # The same uniform numbers for every size: common random numbers make trials comparable.
        chance = make_fixed_draws(len(original))
        among = np.logical_or.reduce([group.members for group in self.groups])
        cap = None if goal.at_most is None else goal.below
        by_draw = np.empty((self.draws, len(self.groups)))
        for draw in range(self.draws):
            current_progress()("trying noise", draw, self.draws)
            noisy = simulate_noise(noise, self.columns, chance, draw)
            noisy |= {name: noisy[name][self._find_firsts()] for name in once if name in noisy}
            released = np.column_stack(
                [noisy.get(name, self.columns[name]) for name in self.columns]
            )
            shown = [self._exchange(category, chance, draw) for category in self.categories]
            by_draw[draw] = self._rank(
                np.column_stack([original, *(entry.coordinates for entry in self.categories)]),
                np.column_stack([released, *shown]),
                among,
                cap,
            )
        # The draws are independent, so their spread gives the Monte Carlo error.
        values = by_draw.mean(axis=0)
        # Equal results in a few draws of a few records are no proof that all would be equal.
        sizes = np.array([self.draws * self.count_targets(group) for group in self.groups])
        least = (
            _error_of_shares(values, sizes) if cap is not None else _error_of_means(values, sizes)
        )
        errors = np.maximum(by_draw.std(axis=0, ddof=1) / np.sqrt(self.draws), least)
        pairs = zip(values.tolist(), errors.tolist(), strict=True)
        sign = 1 if goal.mean_h is not None else -1
        return SizeTrial(
            share,
            tuple(values.tolist()),
            tuple(errors.tolist()),
            all(goal.is_met(value, error, self.draws) for value, error in pairs),
            int(np.argmin(sign * values)),
        )

    def _rank(self, original: Floats, released: Floats, among: Mask, cap: int | None) -> Floats:
        """The exposure of each group to whoever does better: plain, or weighed by the noise."""
        unweighted = np.concatenate([self.scale, *(entry.scale for entry in self.categories)])
        scales = [unweighted]
        if self.attacker == "best":
            scales += _weigh_by_noise(released - original, unweighted, self.categories)
        exposures = []
        for scale in scales:
            if self.is_imperfect:
                exposure = self._rank_imperfectly(original, released, scale, among, cap)
                exposures.append([self._average(exposure, group, cap) for group in self.groups])
                continue
            some = choose_targets(self.units)
            looked = among if some is None else among & some
            h = rank_units(original, released, scale, self.units, cap=cap, among=looked)
            exposure = h.mean() if cap is None else h.share_below(cap)
            exposures.append([self._average(exposure, group, cap) for group in self.groups])
        # A mean of h protects when it is large; a share of records is a risk.
        worse = np.min if cap is None else np.max
        return np.asarray(worse(exposures, axis=0), float)

    def _rank_imperfectly(
        self, original: Floats, released: Floats, scale: Floats, among: Mask, cap: int | None
    ) -> Floats:
        """The mean of h, or the chance that it lies below the cap, of each record.

        The attacker takes the record that is nearest to what they believe; h counts who is nearer
        to the truth.
        """
        size = len(original)
        chance = make_fixed_draws(size)
        here = self._draw_present(chance)
        shown = (released * scale)[here]
        believed, truth = self._blur(original, chance) * scale, original * scale
        exposure = np.full(size, np.nan)
        for row in np.flatnonzero(among).tolist():
            gaps = ((believed[row] - shown) ** 2).sum(axis=1)
            nearest = here[gaps <= gaps.min() * _ROUNDING]
            apart = ((truth[row] - truth) ** 2).sum(axis=1)
            h = np.searchsorted(np.sort(apart), apart[nearest] / _ROUNDING, side="left")
            exposure[row] = h.mean() if cap is None else (h < cap).mean()
        return exposure

    def _draw_present(self, chance: Draws) -> Positions:
        """Who is in the file."""
        size = len(chance.uniform("present", 0))
        count = max(1, round(self.sampling_fraction * size))
        order = np.argsort(chance.uniform("present", 0), kind="stable")
        return np.sort(order[:count])

    def _blur(self, original: Floats, chance: Draws) -> Floats:
        """What the attacker believes of each person."""
        if not self.errors:
            return original
        believed = original.copy()
        for column, name in enumerate(self.columns):
            error = chance.normal(f"{name} believed", 0)
            believed[:, column] += self.errors / self.scale[column] * error
        start = len(self.columns)
        for entry in self.categories:
            end = start + entry.coordinates.shape[1]
            wrong = chance.uniform(f"{entry.name} believed", 0) < self.errors
            other = chance.uniform(f"{entry.name} of another", 0) * len(original)
            source = np.minimum(other.astype(np.intp), len(original) - 1)
            believed[wrong, start:end] = entry.coordinates[source[wrong]]
            start = end
        return believed

    def _exchange(self, category: KnownCategory, chance: Draws, draw: int) -> Floats:
        """The category as a release shows it: some records have somebody else's level."""
        if category.retention == 1:
            return category.coordinates
        coin = chance.uniform(f"{category.name} exchanged", draw)
        other = chance.uniform(f"{category.name} taken", draw)
        firsts = self._find_firsts()
        coin, other = coin[firsts], other[firsts]
        source = np.where(
            coin < category.retention,
            np.arange(len(coin)),
            np.minimum((other * len(coin)).astype(np.intp), len(coin) - 1),
        )
        return category.coordinates[source]

    def _average(self, exposure: Floats, group: ExposedGroup, cap: int | None) -> float:
        """The mean over the persons of a group, each by the row that gives away the most."""
        rows = np.flatnonzero(group.members & ~np.isnan(exposure))
        # A mean of h is a risk where it is small, a share where it is large.
        sign = -1 if cap is None else 1
        return sign * float(self.units.take(rows).reduce(np.fmax, sign * exposure[rows]).mean())

    def _find_firsts(self) -> Positions | slice:
        """For each record the first one of its person."""
        if self.units.one_row_each:
            return slice(None)
        _, first, of = np.unique(self.units.numbers, return_index=True, return_inverse=True)
        return first[of.ravel()]


def _weigh_by_noise(
    noise: Floats, scale: Floats, categories: Sequence[KnownCategory] = ()
) -> list[Floats]:
    """The scale of somebody who weighs by 1 / variance of the noise, where that differs.

    Of a category, two different levels are as far apart as the likelihood says.
    """
    sizes = np.sqrt((noise * noise).mean(axis=0)) * scale
    if not categories and sizes.max() <= _SAME_SIZE * sizes.min():
        return []
    weighed = scale / np.maximum(sizes, _EXACT)
    start = len(scale) - sum(entry.coordinates.shape[1] for entry in categories)
    for entry in categories:
        end = start + entry.coordinates.shape[1]
        if not entry.ordered:
            changed = float((noise[:, start:end] != 0).any(axis=1).mean())
            weighed[start:end] = entry.weigh_change(changed)
        start = end
    return [weighed]


@dataclass(frozen=True, eq=False)
class KnownCategory:
    """A category that the attacker knows.

    Parameters
    ----------
    name : the variable.
    coordinates : of each record, the rank of its level; or, where levels have no order, a column
        per level that is 1 for its records.
    scale : what the coordinates are multiplied by.
    ordered : whether they are ranks.
    retention : the share of records that keep their level in the release.
    """

    name: str
    coordinates: Floats = field(repr=False)
    scale: Floats
    ordered: bool
    retention: float

    def weigh_change(self, changed: float) -> float:
        """The scale at which two different levels are as far apart as the likelihood says.

        -2 log of Pr(another level) over Pr(the same), if each of the others is as likely: a pair of
        levels differs in two coordinates.
        """
        # A category that never changed must fit, as a number without noise must.
        if not changed:
            return 1 / _EXACT
        others = max(self.coordinates.shape[1] - 1, 1)
        odds = (1 - changed) * others / changed
        return math.sqrt(max(math.log(odds), 0.0)) if odds > 0 else 0.0


def read_categories(
    data: Dataset, names: Sequence[str], rows: Positions, misclassified: Mapping[str, float]
) -> tuple[KnownCategory, ...]:
    """The categories that an attacker knows of some records; missing is a level of its own."""
    unknown = [name for name in misclassified if name not in names]
    if unknown:
        raise MeasureError(
            f"'{unknown[0]}' is said to be misclassified, but is no category that is known.",
            hint="name it in `known`.",
        )
    if wrong := [name for name, share in misclassified.items() if not 0 < share <= 1]:
        raise MeasureError(
            f"The share of records that keep their '{wrong[0]}' lies above 0, and is at most 1."
        )
    categories = []
    for name in names:
        values = data.column(name).cast(pl.String)[rows.tolist()].fill_null("")
        levels = data.schema[name].levels
        ordered = data.schema[name].kind == "ordinal" and levels is not None
        known = [str(level) for level in levels or ()] if ordered else []
        others = [level for level in values.unique().sort() if level not in known]
        order = [*known, *others]
        codes = values.replace_strict(
            pl.Series(order), pl.Series(np.arange(len(order))), return_dtype=pl.Int64
        ).to_numpy()
        if ordered:
            coordinates = codes.astype(np.float64)[:, None]
            spread = float(coordinates.std(ddof=1)) or 1.0
            scale = np.array([1 / spread])
        else:
            coordinates = (codes[:, None] == np.arange(len(order))).astype(np.float64)
            # Two different levels differ in two coordinates: together by one standard deviation.
            scale = np.full(len(order), math.sqrt(0.5))
        share = float(misclassified.get(name, 1.0))
        categories.append(KnownCategory(name, coordinates, scale, ordered, share))
    return tuple(categories)


def _error_of_shares(shares: Floats, sizes: npt.NDArray[np.int64]) -> Floats:
    """The least error of a share: two successes and two failures are added (Agresti & Coull)."""
    adjusted = (shares * sizes + 2) / (sizes + 4)
    error: Floats = np.sqrt(adjusted * (1 - adjusted) / (sizes + 4))
    return error


def _error_of_means(means: Floats, sizes: npt.NDArray[np.int64]) -> Floats:
    """The least error of a mean of equal values: two zeros and two of twice the mean are added."""
    error: Floats = 2 * means / (sizes + 4)
    return error


def _prepare_attack(
    data: Dataset,
    known: Sequence[str] | None,
    who: Who,
    by: str,
    goal: ProtectionGoal,
    draws: int,
    misclassified: Mapping[str, float],
) -> DistanceAttack:
    data.schema.require(known or ())
    named = [name for name in known or () if not data.dtype(name).is_numeric()]
    numbers = None if known is None else [name for name in known if name not in named]
    # The attacker's knowledge is the original itself; noise is added to it.
    attacker = knowledge(data, data, numbers, owner=_OWNER)
    if len(attacker.original) < _FEWEST:
        raise MeasureError("There is one record only; no noise hides it among others.")
    # In an order that depends on the values alone, so that the draws do too.
    units = attacker.units
    rows = np.flatnonzero(attacker.complete)
    categories = read_categories(data, named, rows, misclassified)
    order = canonical_order(
        [
            *attacker.original.T,
            *(column for entry in categories for column in entry.coordinates.T),
            *([] if units.one_row_each else [units.numbers]),
        ]
    )
    categories = tuple(replace(entry, coordinates=entry.coordinates[order]) for entry in categories)
    attacker = replace(
        attacker,
        original=attacker.original[order],
        released=attacker.released[order],
        units=units.take(order),
    )
    measured = space(
        attacker, attacker.original, standardise=True, distance="euclidean", owner=_OWNER
    )
    # Who has fewer than so many others around is exposed.
    neighbour = goal.below if goal.at_most is not None else max(1, int(np.ceil(goal.bound)))
    around = measured
    if categories and not isinstance(who, str):
        around = replace(
            measured,
            original=np.column_stack([measured.original, *(c.coordinates for c in categories)]),
            scale=np.concatenate([measured.scale, *(c.scale for c in categories)]),
        )
    return DistanceAttack(
        {name: measured.plain[:, index].copy() for index, name in enumerate(measured.names)},
        measured.scale,
        choose_groups(around, who, attacker.units, by=by, neighbour=neighbour),
        draws,
        attacker.units,
        (*attacker.warnings, *measured.warnings),
        categories=categories,
    )


@dataclass(frozen=True, eq=False)
class NoiseVariants:
    """Ways to add noise of one size: constant, cut off at the tails, or more of it there."""

    data: Dataset
    names: Sequence[str]
    weights: Mapping[str, float]
    options: Mapping[str, Any]

    def with_constant_size(self, share: float) -> Noise:
        """The same size everywhere."""
        return Noise(variables=list(self.names), variance_share=self._weigh(share), **self.options)

    def with_other_tails(self) -> Iterator[Variant]:
        """Variants that treat the tails otherwise, unless the options already say how."""
        if not {"at_least", "at_most"} & set(self.options):
            low, high = self._find_limits(_CUT)
            yield lambda share: Noise(
                variables=list(self.names),
                variance_share=self._weigh(share),
                at_least=low,
                at_most=high,
                **self.options,
            )
        if not {"growth", "scale"} & set(self.options):
            yield self._with_larger_tails()

    def _weigh(self, share: float) -> dict[str, float]:
        return {name: round_size(share * self.weights[name]) for name in self.names}

    def _with_larger_tails(self) -> Variant:
        # Four times the variance where records are sparse.
        low, high = self._find_limits(_TAILS)
        summary = engine_for(self.data.frame).aggregate(
            self.data, {name: [Deviation()] for name in self.names}
        )
        variance = {name: float(summary[name][Deviation().name]) ** 2 for name in self.names}

        def build(share: float) -> Noise:
            sizes = {
                name: round_size(weighed * variance[name])
                for name, weighed in self._weigh(share).items()
            }
            growth = {
                name: Growth(
                    form="step",
                    breaks=[low[name], high[name]],
                    variances=[_MORE * size, size, _MORE * size],
                )
                for name, size in sizes.items()
            }
            return Noise(variables=list(self.names), growth=growth, **self.options)

        return build

    def _find_limits(
        self, shares: tuple[float, float]
    ) -> tuple[dict[str, float], dict[str, float]]:
        quantiles = [Quantile(share) for share in shares]
        summary = engine_for(self.data.frame).aggregate(
            self.data, {name: list(quantiles) for name in self.names}
        )
        low, high = {}, {}
        for name in self.names:
            ends = [float(summary[name][quantile.name]) for quantile in quantiles]
            low[name], high[name] = _round_limits(*ends)
        return low, high


def round_size(number: float) -> float:
    """A size that people can read and copy: three digits."""
    return float(f"{number:.3g}")


def _round_limits(low: float, high: float) -> tuple[float, float]:
    """Limits to two digits of the distance between them, outwards, so that they stay apart."""
    distance = high - low
    unit = 10.0 ** (math.floor(math.log10(distance)) - 1) if distance > 0 else 1.0
    digits = max(0, -round(math.log10(unit)))
    return (
        round(math.floor(low / unit) * unit, digits),
        round((math.floor(high / unit) + 1) * unit, digits),
    )


@dataclass(frozen=True, eq=False)
class _SizeSearch:
    """What does not change while sizes of noise are tried."""

    data: Dataset
    attack: DistanceAttack
    goal: ProtectionGoal
    largest: float
    precision: float

    def find_least(self, variant: Variant) -> Calibrated:
        """The least size of one variant of noise."""
        trials = self._search(lambda share: self._try(variant(share), share))
        chosen = _choose(trials)
        return Calibrated(
            step=variant(chosen.share),
            met=chosen.met,
            asked=self.goal.describe(),
            goal=self.goal.bound,
            share=chosen.share,
            achieved=chosen.values[chosen.worst],
            error=chosen.errors[chosen.worst],
            worst=self.attack.groups[chosen.worst].name,
            table=self.data.like(_tabulate_trials(trials, self.attack.draws)),
            groups=self.data.like(_tabulate_groups(chosen, self.attack)),
            warnings=self.attack.warnings,
        )

    def _try(self, step: Noise, share: float) -> SizeTrial:
        fitted = step.fit(self.data, engine_for(self.data.frame))
        noise = step.describes(fitted, self.data.schema)
        known = {name: size for name, size in noise.items() if name in self.attack.columns}
        once = [name for name, fit in fitted.items() if BY_PERSON in fit]
        return self.attack.attack(known, self.goal, share, once)

    def _search(self, attempt: Callable[[float], SizeTrial]) -> list[SizeTrial]:
        """Trials by size: first bracket the least that suffices, then bisect on the log scale."""
        trials = [attempt(min(_FIRST, self.largest))]
        while not trials[-1].met and trials[-1].share < self.largest:
            # Four times the variance doubles the standard deviation.
            trials.append(attempt(min(trials[-1].share * 4, self.largest)))
        while trials[0].met and trials[0].share > _LEAST:
            trials.insert(0, attempt(max(trials[0].share / 4, _LEAST)))
        while (bracket := _bracket(trials)) is not None:
            low, high = (trial.share for trial in bracket)
            middle = round_size(float(np.sqrt(low * high)))
            if high <= low * (1 + self.precision) or not low < middle < high:
                break
            trials = sorted([*trials, attempt(middle)], key=lambda trial: trial.share)
        return trials


def _bracket(trials: Sequence[SizeTrial]) -> tuple[SizeTrial, SizeTrial] | None:
    """The largest size that failed, and the next one, from which on all suffice."""
    failed = [index for index, trial in enumerate(trials) if not trial.met]
    if not failed or failed[-1] == len(trials) - 1:
        return None
    return trials[failed[-1]], trials[failed[-1] + 1]


def _choose(trials: Sequence[SizeTrial]) -> SizeTrial:
    bracket = _bracket(trials)
    if bracket is not None:
        return bracket[1]
    return trials[0] if trials[0].met else trials[-1]


def _tabulate_trials(trials: Sequence[SizeTrial], draws: int) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "share": [trial.share for trial in trials],
            "achieved": [trial.values[trial.worst] for trial in trials],
            "error": [trial.errors[trial.worst] for trial in trials],
            "margin": [trial.errors[trial.worst] * t_quantile(draws) for trial in trials],
            "met": [trial.met for trial in trials],
        }
    )


def _tabulate_groups(trial: SizeTrial, attack: DistanceAttack) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "group": [group.name for group in attack.groups],
            "records": [attack.count_targets(group) for group in attack.groups],
            "achieved": trial.values,
            "error": trial.errors,
        }
    )
