"""A model of noised data as arrays: what every engine gets.

A record has an outcome y, clean predictors, noised ones of which only a released value is seen, and
generalised ones of which only a cell is. A latent value is the true one on the scale on which the
noise was added. The engines draw coefficients from their distribution given all that was released.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np

from sfumato.analysis.diagnostics import AGREEMENT, chains_agree
from sfumato.kernels.arrays import Floats, Integers, Mask
from sfumato.noise.scales import Growth, Scale

Family = Literal[
    "gaussian", "bernoulli", "binomial", "poisson", "negative_binomial", "ordinal", "multinomial"
]
Link = Literal["identity", "logit", "probit", "log"]
Shape = Literal["auto", "normal", "mixture"]
ScalarFunction = Callable[[Floats], Floats]


@dataclass(frozen=True, eq=False, kw_only=True)
class NoisyNumber:
    """A noised number.

    Parameters
    ----------
    name : the variable.
    observed : the released values on the scale of the noise, less the mean of the noise and over
        its weight, so that observed = latent + noise; NaN where missing.
    variance : of the noise; None where it grows with the latent value.
    growth : how it grows.
    laplace : whether the noise is Laplace, not normal.
    scale : the true value is `scale.back(latent)`; None where it is the latent value itself.
    low, high : what lay beyond was set to this before it was released, on the scale of the noise.
    width : of the interval that rounding made one value of; 0 where nothing was rounded.
    by_group : whether a group has one true value and one draw of the noise, which all its records
        share; see `group_level`.
    """

    name: str
    observed: Floats = field(repr=False)
    variance: float | None
    growth: Growth | None = None
    laplace: bool = False
    scale: Scale | None = None
    low: float = -math.inf
    high: float = math.inf
    width: float = 0.0
    by_group: bool = False

    @property
    def is_homoscedastic_normal(self) -> bool:
        """Whether it is normal noise of one variance and nothing else, without missing values."""
        ends = math.isinf(self.low) and math.isinf(self.high)
        alike = self.growth is None and self.scale is None and not self.laplace
        return ends and alike and self.width == 0 and not bool(np.isnan(self.observed).any())

    def true(self, latent: Floats) -> Floats:
        """The true values of latent ones."""
        return latent if self.scale is None else self.scale.back(latent)

    def at_face_value(self) -> Floats:
        """What an analyst would use who ignores the noise, but knows its mean and weight."""
        return self.true(self.observed)

    def take(self, rows: Integers) -> NoisyNumber:
        """The same number of some records."""
        return replace(self, observed=self.observed[rows])


@dataclass(frozen=True, eq=False, kw_only=True)
class GeneralisedNumber(NoisyNumber):
    """A number that was released as a range: nothing but its cell is known.

    Parameters
    ----------
    lower, upper : the ends of each record's cell on the scale of the latent value; infinite where
        the cell says nothing. Both are the value where it is known.
    whole : whether true values are whole numbers, and so few that it matters. Then the latent
        value is rounded to the true one, and a cell reaches half a unit beyond both its ends.
    classes : the class of each record, if of every class somebody is near each end; else -1.
    near_lower, near_upper : up to where, and from where on, a value is near an end.

    `observed` is the middle of the cell, NaN where it says nothing; `scale` is the one on which
    true values are modelled.
    """

    variance: float | None = None
    lower: Floats = field(repr=False)
    upper: Floats = field(repr=False)
    whole: bool = False
    classes: Integers | None = field(default=None, repr=False)
    near_lower: Floats | None = field(default=None, repr=False)
    near_upper: Floats | None = field(default=None, repr=False)

    @property
    def is_homoscedastic_normal(self) -> bool:
        """Never: a cell is no noise."""
        return False

    @property
    def known(self) -> Mask:
        """Which records have a single value."""
        return self.upper - self.lower <= float(self.whole)

    def true(self, latent: Floats) -> Floats:
        """The true values of latent ones."""
        return np.rint(latent) if self.whole else super().true(latent)

    def at_face_value(self) -> Floats:
        """The middle of each cell."""
        return self.observed if self.whole else super().true(self.observed)

    def take(self, rows: Integers) -> GeneralisedNumber:
        """The same number of some records."""
        return replace(
            self,
            observed=self.observed[rows],
            lower=self.lower[rows],
            upper=self.upper[rows],
            classes=None if self.classes is None else self.classes[rows],
            near_lower=None if self.near_lower is None else self.near_lower[rows],
            near_upper=None if self.near_upper is None else self.near_upper[rows],
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Partition:
    """Classes of records that were cut apart, although their released ranges overlap.

    Parameters
    ----------
    variables : the numbers of the model that were cut.
    classes : the class of each record, from 0 on.
    neighbours : (pair, 2) classes of which all values of one are below all of the other, in at
        least one of the numbers.
    """

    variables: tuple[str, ...]
    classes: Integers = field(repr=False)
    neighbours: Integers = field(repr=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class Category:
    """A noised category, or one of which a set of levels is known.

    Parameters
    ----------
    name : the variable.
    levels : its levels; the first is the reference.
    density : log of the probability (density) of what was released, for each record and level;
        0 where it is missing.
    generalised : whether sets of levels were released: the density of a level is 0 in the set,
        and next to impossible outside.
    by_group : whether a group has one true level, and one that was released for all its records.
    """

    name: str
    levels: tuple[str, ...]
    density: Floats = field(repr=False)
    generalised: bool = False
    by_group: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class Term:
    """A column of the model: a product of clean values, functions of numbers, and levels.

    Parameters
    ----------
    name : as the formula has it.
    clean : the product of all clean factors, a value per record; None for 1.
    numbers : (place among the problem's numbers, function of the TRUE value) of each such factor;
        None for the value itself.
    levels : (place among the problem's categories, level) of each such factor.
    """

    name: str
    clean: Floats | None = field(default=None, repr=False)
    numbers: tuple[tuple[int, ScalarFunction | None], ...] = ()
    levels: tuple[tuple[int, int], ...] = ()

    @property
    def has_noise(self) -> bool:
        """Whether it depends on anything noised."""
        return bool(self.numbers or self.levels)

    def simple(self, problem: Problem) -> bool:
        """Whether it is clean, one latent number alone, or one level alone."""
        if not self.has_noise:
            return True
        if self.clean is not None or len(self.numbers) + len(self.levels) > 1:
            return False
        return all(
            function is None and problem.numbers[index].scale is None
            for index, function in self.numbers
        )

    def column(self, latent: Floats, codes: Integers, problem: Problem) -> Floats:
        """Its values, given latent numbers (record, number) and levels (record, category)."""
        values = np.ones(problem.records) if self.clean is None else self.clean
        for index, function in self.numbers:
            true = problem.numbers[index].true(latent[:, index])
            values = values * (true if function is None else function(true))
        for index, level in self.levels:
            values = values * (codes[:, index] == level)
        return values


@dataclass(frozen=True, eq=False)
class Exposure:
    """How true numbers depend on clean columns beyond their mean; see `analysis.exposure`.

    Parameters
    ----------
    spread : (record, column) on which the log SD of true numbers depends, of size one about zero.
    stratum : of each record; true numbers have a shape of their own in each. None for one shape.
    """

    spread: Floats = field(repr=False)
    stratum: Integers | None = field(default=None, repr=False)

    def take(self, rows: Integers) -> Exposure:
        """The same of some records."""
        return Exposure(self.spread[rows], None if self.stratum is None else self.stratum[rows])


@dataclass(frozen=True, eq=False)
class GroupingFactor:
    """Groups of records whose coefficients differ.

    Parameters
    ----------
    name : such as "school", or "region:school".
    groups : the group of each record, from 0 on.
    random : the terms whose coefficients differ by group.
    """

    name: str
    groups: Integers = field(repr=False)
    random: tuple[int, ...]

    def take(self, rows: Any) -> GroupingFactor:
        """The same of some records."""
        return replace(self, groups=self.groups[rows])


@dataclass(frozen=True, eq=False, kw_only=True)
class Problem:
    """The model, the records, and what is known of the noise.

    Parameters
    ----------
    family, link : of the outcome.
    y : the outcome as released; of "binomial" the number of successes among `trials`, of "ordinal"
        and "multinomial" the code of the level, from 0 on.
    trials : see there.
    offset : what is added to the linear predictor of each record, as it is; None for nothing, and
        in linear models, where it is taken off the outcome.
    subtracted : what was taken off the outcome beforehand: the offset of a linear model, and noise
        that it shares with predictors; None for nothing.
    outcome_number : the noise of a noised outcome that is a number (its `observed` is y).
    outcome_category : that of a noised outcome that is a category; of two levels they are 0 and 1.
    outcome_levels : those of an "ordinal" or "multinomial" outcome, the lowest or the reference
        first.
    numbers, categories : the noised predictors.
    error : the covariance of the noise of the numbers, where each has one variance;
        diagonal unless the noise was correlated.
    terms : the columns of the model.
    covariates : (record, column) the clean columns on which true values may depend, the constant
        among them.
    exposure : how the spread and shape of true numbers depend on clean columns; None where they do
        not.
    groups : the group of each record, from 0 on; None in a model of one level.
    random : the terms whose coefficients differ by group.
    group_name : what groups are called in the names of parameters.
    more_factors : further grouping factors, nested or crossed.
    shape : the shape of true values given all that is clean: normal, a mixture of normals, or
        whichever the data ask for.
    clustered : whether true values may differ by group as well. Only for comparison with the
        literature is it turned off.
    partition : which records were cut apart by Mondrian; None where nobody knows.
    weights : how many people of the population a record stands for, over their mean; None where
        records count alike.
    units : with weights, the sampling unit of each record; None where each is one.
    """

    family: Family
    link: Link
    y: Floats = field(repr=False)
    trials: Floats | None = field(default=None, repr=False)
    offset: Floats | None = field(default=None, repr=False)
    subtracted: Floats | None = field(default=None, repr=False)
    outcome_number: NoisyNumber | None = None
    outcome_category: Category | None = None
    outcome_levels: tuple[str, ...] = ()
    numbers: tuple[NoisyNumber, ...] = ()
    categories: tuple[Category, ...] = ()
    error: Floats = field(default_factory=lambda: np.zeros((0, 0)), repr=False)
    terms: tuple[Term, ...]
    covariates: Floats = field(repr=False)
    exposure: Exposure | None = field(default=None, repr=False)
    groups: Integers | None = field(default=None, repr=False)
    random: tuple[int, ...] = ()
    group_name: str = "group"
    more_factors: tuple[GroupingFactor, ...] = ()
    shape: Shape = "auto"
    clustered: bool = True
    partition: Partition | None = None
    weights: Floats | None = field(default=None, repr=False)
    units: Integers | None = field(default=None, repr=False)

    @property
    def records(self) -> int:
        """How many records there are."""
        return len(self.y)

    @property
    def constant(self) -> int:
        """The index of the intercept; -1 where there is none."""
        is_constant = [term.clean is None and not term.has_noise for term in self.terms]
        return is_constant.index(True) if any(is_constant) else -1

    @property
    def coefficient_names(self) -> tuple[str, ...]:
        """Of all parameters but variances.

        Thresholds take the place of the intercept of an "ordinal" model, and each level but the
        first of a "multinomial" one has all coefficients.
        """
        names, levels = [term.name for term in self.terms], self.outcome_levels
        if self.family == "negative_binomial":
            names.append("dispersion")
        elif self.family == "ordinal":
            names.pop(self.constant)
            names += [f"threshold {low}|{high}" for low, high in pairwise(levels)]
        elif self.family == "multinomial":
            names = [f"{level}: {name}" for level in levels[1:] for name in names]
        return tuple(names)

    @property
    def factors(self) -> tuple[GroupingFactor, ...]:
        """All grouping factors, the one of `groups` first."""
        if self.groups is None:
            return ()
        return (GroupingFactor(self.group_name, self.groups, self.random), *self.more_factors)

    @property
    def simple(self) -> bool:
        """Whether every term is clean, one latent number, or one level, and all noise is plain."""
        plain_noise = all(number.is_homoscedastic_normal for number in self.numbers)
        return plain_noise and all(term.simple(self) for term in self.terms)

    @property
    def generalised(self) -> tuple[str, ...]:
        """The variables of which nothing but a cell is known: a range or a set."""
        numbers = [*self.numbers, self.outcome_number]
        categories = [*self.categories, self.outcome_category]
        return (
            *(number.name for number in numbers if isinstance(number, GeneralisedNumber)),
            *(category.name for category in categories if category and category.generalised),
        )

    @property
    def group_level(self) -> tuple[str, ...]:
        """The noised predictors of which a group has one value."""
        numbers = [number.name for number in self.numbers if number.by_group]
        return (*numbers, *(category.name for category in self.categories if category.by_group))

    @property
    def observed(self) -> Floats:
        """(record, number): the noised numbers as they were released."""
        return np.reshape([number.observed for number in self.numbers], (-1, self.records)).T

    def take_trials(self, rows: Any) -> Floats:
        """The number of trials of some records: 1 but for binomial models."""
        return np.ones(len(self.y[rows])) if self.trials is None else self.trials[rows]

    def take_offset(self, rows: Any) -> Floats:
        """The offset of some records: 0 where there is none."""
        return np.zeros(len(self.y[rows])) if self.offset is None else self.offset[rows]

    def design(self, latent: Floats, codes: Integers) -> Floats:
        """All terms, given latent numbers and levels."""
        return np.column_stack([term.column(latent, codes, self) for term in self.terms])


@dataclass(frozen=True, eq=False, kw_only=True)
class Sampling:
    """How much to draw.

    Parameters
    ----------
    chains, draws, warmup : how many chains, draws kept of each, and draws before those.
    seed : of the analyst's own chance; the same seed gives the same draws.
    longest : as many draws of each chain are made at most, if chains do not agree before; no more
        than `draws` where it is 0.
    pointwise : whether to keep the log-likelihood and a prediction of each record.
    """

    chains: int = 4
    draws: int = 1000
    warmup: int = 500
    seed: int = 0
    longest: int = 0
    pointwise: bool = False

    def needs_more(self, draws: Floats) -> bool:
        """Whether chains (chain, draw, parameter) do not agree, and may go on."""
        return draws.shape[1] < self.longest and not chains_agree(draws)

    def describe_length(self, draws: Floats) -> tuple[str, ...]:
        """What is to be said of chains that are longer than was asked for."""
        if draws.shape[1] <= self.draws:
            return ()
        note = (
            f"The chains did not agree after {self.draws:,} draws each (R-hat above {AGREEMENT}), "
            f"so they went on to {draws.shape[1]:,}."
        )
        return (note,)


@dataclass(frozen=True, eq=False, kw_only=True)
class Pointwise:
    """Outcomes record by record, given what was released of their predictors.

    Parameters
    ----------
    log_likelihood : (chain, draw, record) of the released outcome, true values of its predictors
        integrated out.
    predicted : (chain, draw, record) new outcomes.
    interval : every so-many-th draw of the parameters has them.
    observed : the released outcomes.
    rows : where each record stands in the released data.
    """

    log_likelihood: Floats = field(repr=False)
    predicted: Floats = field(repr=False)
    interval: int = 1
    observed: Floats = field(default_factory=lambda: np.zeros(0), repr=False)
    rows: Integers = field(default_factory=lambda: np.zeros(0, np.int64), repr=False)


class Replicate(NamedTuple):
    """True numbers that a draw of the model simulates (record, number), and its parameters."""

    true: Floats
    parameters: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class Posterior:
    """What an engine found.

    Parameters
    ----------
    engine : its name.
    parameters : the coefficients by the names of their terms, then "residual variance", and
        "variance of <term> by group" or the like.
    draws : (chain, draw, parameter).
    independent : whether the draws are independent of each other.
    shape : "normal" or "mixture", as used, with the number of components.
    components : see there.
    notes : what the analyst must know, in words.
    complete : whether it ran to its end; an interrupt leaves what is there.
    details : further numbers, such as the Pareto k of importance sampling.
    replicates : for posterior predictive checks, from engines that draw true numbers.
    pointwise : outcomes record by record, where they were asked for.
    """

    engine: str
    parameters: tuple[str, ...]
    draws: Floats = field(repr=False)
    independent: bool
    shape: str = "normal"
    components: int = 1
    notes: Sequence[str] = ()
    complete: bool = True
    details: dict[str, float] = field(default_factory=dict)
    replicates: Sequence[Replicate] = field(default=(), repr=False)
    pointwise: Pointwise | None = field(default=None, repr=False)
