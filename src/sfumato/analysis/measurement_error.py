"""Descriptions of noise as likelihoods: how probable a released value is, given the true one.

A number becomes a `NoisyNumber` with an error variance, a category a `Category` with the log
probability of what was released under each level. Noise that differs by stratum has an error
covariance of its own for each record.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self, cast

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.analysis.problem import Category, NoisyNumber, Problem
from sfumato.cells.codes import encode_levels, encode_strata
from sfumato.cells.notation import format_value
from sfumato.errors import DataError, MethodError
from sfumato.kernels.arrays import Floats, Integers
from sfumato.noise.description import (
    CodeNoise,
    CorrelatedGaussian,
    Gaussian,
    Misclassification,
    NoiseDescription,
    StratifiedGaussian,
)
from sfumato.noise.scales import Growth

_NEVER = -745.0
"""The log of the smallest number above 0: an engine takes the impossible to be this unlikely."""
_FINE = 0.012
"""Squares of rounding steps up to this share of the variance add a thousandth to it, or less."""
_THIRD_DIGIT = 0.005
"""Half a step of three digits, as a share of the smallest number that has them."""
_WRONG_DATA = "is it the description of these data?"


# Kinds of noise


@dataclass(frozen=True)
class NoiseByStratum(NoiseDescription):
    """Noise that differs by stratum, before each record's stratum is looked up.

    Parameters
    ----------
    description : as the manifest has it.
    """

    distribution = "stratified_gaussian"
    description: StratifiedGaussian

    def plain(self) -> dict[str, Any]:
        """The description as it stands in a manifest."""
        return self.description.plain()

    @property
    def by(self) -> list[str]:
        """The variables that make up the strata."""
        return list(self.description.strata[0].get("where", {}))

    def index_of(self, name: str) -> int:
        """The index of a variable among those perturbed together."""
        if self.description.weight == 0:
            raise _refuse(name, "was replaced by noise altogether, so nothing of it is left")
        if name not in self.description.variables:
            raise _refuse(name, "is not among the variables of its own description")
        return self.description.variables.index(name)

    def has_correlation(self, first: str, second: str) -> bool:
        """Whether the noise of two variables is correlated in any stratum."""
        a, b = self.index_of(first), self.index_of(second)
        return any(stratum["covariance"][a][b] for stratum in self.description.strata)


def is_numeric_noise(noise: NoiseDescription) -> bool:
    """Whether it is noise of a number, and not of a category."""
    return isinstance(noise, (Gaussian, CorrelatedGaussian, NoiseByStratum))


def is_noiseless(noise: NoiseDescription) -> bool:
    """Whether it changes nothing: noise without variance, categories that all stay."""
    if isinstance(noise, Gaussian):
        return noise.variance == 0
    if isinstance(noise, CodeNoise):
        return not noise.variances.any()
    if isinstance(noise, Misclassification) and noise.matrix is not None:
        return bool((np.diag(np.asarray(noise.matrix, float)) == 1).all())
    return False


def strata_variables(noise: NoiseDescription) -> list[str]:
    """The variables on which the noise depends."""
    if isinstance(noise, NoiseByStratum):
        return noise.by
    if isinstance(noise, Misclassification) and noise.strata:
        return list(noise.strata[0].get("where", {}))
    return []


def find_strata(
    name: str, described: Sequence[Mapping[str, Any]], strata: pl.DataFrame
) -> npt.NDArray[np.int64]:
    """The index of each record's stratum in a description.

    Parameters
    ----------
    name : the variable that is described.
    described : the strata, each with `where`.
    strata : the variables that make them up.
    """
    try:
        return encode_strata(strata, strata.columns, described)
    except MethodError:
        raise DataError(
            f"Variable '{name}' has records of a stratum that its description does not name.",
            hint=_WRONG_DATA,
        ) from None


# Numbers


@dataclass(frozen=True, eq=False)
class VariancePerRecord:
    """The noise variance of each record, in the place of a `Growth` with the value."""

    values: Floats = field(repr=False)
    form: str = "each"

    def variance(self, x: Floats) -> Floats:  # noqa: ARG002 - it depends on the record alone
        """Of all records, whatever their values."""
        return self.values


@dataclass(frozen=True, eq=False, kw_only=True)
class StratifiedNumber(NoisyNumber):
    """A number whose noise differs by stratum.

    Parameters
    ----------
    noise : the description of the noise.
    stratum : the index of each record's stratum in it.
    covariances : of the noise of all variables in each stratum, on the scale of `observed`.
    """

    noise: NoiseByStratum = field(repr=False)
    stratum: Integers = field(repr=False)
    covariances: Floats = field(repr=False)

    @classmethod
    def look_up(
        cls,
        name: str,
        values: Floats,
        noise: NoiseByStratum,
        strata: pl.DataFrame,
        own_variance: float,
    ) -> Self:
        """The number with the noise of each record's stratum; see `build_number`."""
        index, description = noise.index_of(name), noise.description
        stratum = find_strata(name, description.strata, strata)
        means = np.asarray([part["mean"] for part in description.strata], float)
        covariances = np.asarray([part["covariance"] for part in description.strata], float)
        covariances = covariances / description.weight**2
        rounding = (description.steps or {}).get(name, 0.0) ** 2 / 12 / description.weight**2
        return cls(
            name=name,
            observed=(values - means[stratum, index]) / description.weight,
            variance=None,
            growth=cast(
                "Growth",
                VariancePerRecord(covariances[stratum, index, index] + own_variance + rounding),
            ),
            noise=noise,
            stratum=stratum,
            covariances=covariances,
        )

    def covariance_with(self, other: NoisyNumber) -> Floats:
        """The covariance with the noise of another number, for each record."""
        if not isinstance(other, StratifiedNumber) or other.noise != self.noise:
            return np.zeros(len(self.stratum))
        a, b = self.noise.index_of(self.name), self.noise.index_of(other.name)
        covariance: Floats = self.covariances[self.stratum, a, b]
        return covariance


def build_number(
    name: str,
    values: Floats,
    noise: NoiseDescription,
    own_variance: float = 0.0,
    strata: pl.DataFrame | None = None,
) -> NoisyNumber:
    """A noised number, on the scale on which the noise was added.

    Parameters
    ----------
    name, values : the variable as released; NaN where missing.
    noise : its description.
    own_variance : of the error that the true measurement had before any noise.
    strata : the variables by which the noise differs, where it does.
    """
    if isinstance(noise, CorrelatedGaussian):
        return _build_correlated_number(name, values, noise, own_variance)
    if isinstance(noise, NoiseByStratum):
        return StratifiedNumber.look_up(
            name, values, noise, pl.DataFrame() if strata is None else strata, own_variance
        )
    if not isinstance(noise, Gaussian):
        raise _refuse(name, "is described as a category, and used as a number")
    if noise.keep:
        raise _refuse(
            name,
            "has values without noise among others with noise",
            f"name '{name}' in `clean` to take it as it is: for an outcome that is no mistake.",
        )
    number = NoisyNumber(
        name=name,
        observed=_transform_to_noise_scale(name, values, noise),
        variance=noise.variance,
        growth=noise.growth,
        laplace=noise.distribution == "laplace",
        scale=noise.scale,
        width=float(noise.whole) or noise.step or 0.0,
    )
    absorbed = _absorb_rounding(_set_limits(number, noise), values, whole=noise.whole)
    return _add_own_error(absorbed, own_variance)


def _build_correlated_number(
    name: str, values: Floats, noise: CorrelatedGaussian, own_variance: float
) -> NoisyNumber:
    # The release is weight * true + noise: nothing is left where the weight is 0.
    if noise.weight == 0:
        raise _refuse(name, "was replaced by noise altogether, so nothing of it is left")
    if name not in noise.variables:
        raise _refuse(name, "is not among the variables of its own description")
    index = noise.variables.index(name)
    unweighted = (values - noise.mean[index]) / noise.weight
    rounding = (noise.steps or {}).get(name, 0.0) ** 2 / 12
    variance = (noise.covariance[index][index] + rounding) / noise.weight**2
    return NoisyNumber(name=name, observed=unweighted, variance=variance + own_variance)


def _transform_to_noise_scale(name: str, values: Floats, noise: Gaussian) -> Floats:
    if noise.scale is None:
        return values
    # Values that the scale cannot have, such as the logarithm of 0, are refused below.
    known = ~np.isnan(values)
    with np.errstate(all="ignore"):
        transformed = np.where(known, noise.scale.forth(values), np.nan)
    if (known & ~np.isfinite(transformed)).any():
        raise _refuse(name, "has released values that have no place on the scale of its noise")
    return transformed


def _set_limits(number: NoisyNumber, noise: Gaussian) -> NoisyNumber:
    """With the limits to which values beyond them were set, where some were."""
    for side, limit in (("low", noise.at_least), ("high", noise.at_most)):
        if limit is None:
            continue
        with np.errstate(all="ignore"):
            cut = limit if noise.scale is None else float(noise.scale.forth(np.array([limit]))[0])
        beyond = number.observed <= cut if side == "low" else number.observed >= cut
        # A limit that no record reached carries no information, and would slow every engine.
        if beyond.any():
            number = replace(number, low=cut) if side == "low" else replace(number, high=cut)
    return number


def _absorb_rounding(number: NoisyNumber, values: Floats, *, whole: bool) -> NoisyNumber:
    """Rounding that is fine compared with the noise becomes part of its variance.

    The density of the noise plus a uniform deviate, at a rounded number, is the probability of
    rounding to it; and a normal distribution of the same variance hardly differs from it when the
    standard deviation of the noise is as large as the step (Sheppard's correction, width**2 / 12).
    Where no such sum is at hand (limits, Laplace noise, variances that grow), rounding is left
    out if it adds less than a thousandth to the variance, as decimals of a measurement do.
    """
    if not number.width:
        return number
    width = _find_widths(number, values, whole=whole)
    variance, unlimited = number.variance, math.isinf(number.low) and math.isinf(number.high)
    squares = float(np.max(width**2, initial=0.0))
    if variance is not None and not number.laplace:
        if squares <= variance * (1 if unlimited else _FINE):
            return replace(number, width=0.0, variance=variance + float(np.mean(width**2)) / 12)
    else:
        least = variance
        if number.growth is not None:
            known = number.observed[~np.isnan(number.observed)]
            least = float(np.min(number.growth.variance(known), initial=math.inf))
        if squares <= _FINE * (least or 0.0):
            return replace(number, width=0.0)
    if number.scale is None:
        return number
    # Three digits are left of every number: next to noise that protects anybody, that is fine.
    return _refuse_rounding(number) if whole else replace(number, width=0.0)


def _find_widths(number: NoisyNumber, values: Floats, *, whole: bool) -> Floats:
    """How far apart, on the scale of the noise, the ends lie of what was rounded to a value."""
    if number.scale is None:
        return np.full(1, number.width)
    known = values[~np.isnan(values)]
    half = np.full(len(known), number.width / 2)
    if not whole:
        # Small values were rounded to three digits; see `Gaussian`.
        half = np.minimum(half, np.abs(known) * _THIRD_DIGIT)
    with np.errstate(all="ignore"):
        width: Floats = number.scale.forth(known + half) - number.scale.forth(known - half)
    return width[np.isfinite(width)]


def _refuse_rounding(number: NoisyNumber) -> NoisyNumber:
    raise _refuse(number.name, "was rounded coarsely after noise on another scale was added")


def _add_own_error(number: NoisyNumber, own_variance: float) -> NoisyNumber:
    """With the error that the measurement had anyway."""
    if not own_variance:
        return number
    if number.scale is not None or number.laplace:
        raise DataError(
            f"An error of its own cannot be added to the noise of variable '{number.name}'.",
            hint="it can for normal noise on the variable itself.",
        )
    if number.growth is None:
        return replace(number, variance=(number.variance or 0.0) + own_variance)
    growth = number.growth
    return replace(
        number,
        growth=Growth(
            form=growth.form,
            constant=growth.constant + own_variance,
            slope=growth.slope,
            power=growth.power,
            breaks=growth.breaks,
            variances=[variance + own_variance for variance in growth.variances or []] or None,
        ),
    )


# Covariances of noise


def noise_covariance(
    numbers: Sequence[NoisyNumber], noise: Mapping[str, NoiseDescription]
) -> Floats:
    """The covariance of the noise of all numbers; where it grows, its average."""
    covariance = np.zeros((len(numbers), len(numbers)))
    for a, number in enumerate(numbers):
        if number.growth is not None:
            covariance[a, a] = float(np.nanmean(number.growth.variance(number.observed)))
        else:
            covariance[a, a] = number.variance or 0.0
        for b in range(a):
            if isinstance(number, StratifiedNumber):
                shared = float(np.mean(number.covariance_with(numbers[b])))
            else:
                shared = covariance_between(noise, number.name, numbers[b].name)
            covariance[a, b] = covariance[b, a] = shared
    return covariance


def noise_covariances(problem: Problem) -> Floats:
    """(record or one for all, number, number): the covariance of the noise of the numbers."""
    if not any(isinstance(number, StratifiedNumber) for number in problem.numbers):
        return problem.error[None]
    covariances = np.repeat(problem.error[None], problem.records, axis=0)
    for a, number in enumerate(problem.numbers):
        if isinstance(number, StratifiedNumber):
            for b, other in enumerate(problem.numbers):
                if isinstance(other, StratifiedNumber):
                    covariances[:, a, b] = number.covariance_with(other)
            assert number.growth is not None  # noqa: S101 - that of each record
            covariances[:, a, a] = number.growth.variance(number.observed)
    return covariances


def covariance_between(noise: Mapping[str, NoiseDescription], first: str, second: str) -> float:
    """The covariance of the noise of two variables."""
    description = noise.get(first)
    same = noise.get(second) == description
    if isinstance(description, NoiseByStratum) and same:
        if description.has_correlation(first, second):
            raise DataError(
                f"The noise of '{first}' and '{second}' is correlated, and differently in each "
                "stratum, which no model of an outcome and its predictor can separate.",
                hint="select the records of one stratum, and pass its CorrelatedGaussian.",
            )
        return 0.0
    if not isinstance(description, CorrelatedGaussian) or not same:
        return 0.0
    a, b = description.variables.index(first), description.variables.index(second)
    return description.covariance[a][b] / description.weight**2


def has_stratified_noise(problem: Problem) -> bool:
    """Whether some noise has a variance of its own for each record."""
    numbers = [*problem.numbers, problem.outcome_number]
    return any(isinstance(number, StratifiedNumber) for number in numbers)


def add_strata_covariates(problem: Problem) -> Problem:
    """With the strata among the clean columns: true values differ by them, as their noise does."""
    columns = [problem.covariates]
    added: list[NoiseByStratum] = []
    for number in [*problem.numbers, problem.outcome_number]:
        if isinstance(number, StratifiedNumber) and number.noise not in added:
            added.append(number.noise)
            # Indicators of all strata but the first: the constant is among the columns.
            contrasts = np.unique(number.stratum)[1:]
            columns.append((number.stratum[:, None] == contrasts).astype(float))
    return replace(problem, covariates=np.column_stack(columns)) if added else problem


# Categories


def build_category(
    name: str, values: pl.Series, noise: NoiseDescription, strata: pl.DataFrame
) -> Category:
    """A noised category with the log probability (density) of what was released, by level.

    Parameters
    ----------
    name, values : the variable as released.
    noise : its description.
    strata : the variables on which the transition probabilities depend, where they do.
    """
    if isinstance(noise, CodeNoise):
        density = _log_density_of_codes(name, values, noise)
    elif isinstance(noise, Misclassification):
        transitions = find_transitions(name, values, noise, strata)
        with np.errstate(divide="ignore"):
            density = np.log(transitions.per_record)
        density = np.where((transitions.level >= 0)[:, None], density, 0.0)
    else:
        raise _refuse(name, "is described as a number, and used as a category")
    likeliest = density.max(axis=1, keepdims=True)
    if np.isneginf(likeliest).any():
        raise _refuse(name, "has released values that no true level could have given")
    levels = tuple(format_value(level) for level in noise.levels)
    return Category(name=name, levels=levels, density=np.maximum(density, likeliest + _NEVER))


def _log_density_of_codes(name: str, values: pl.Series, noise: CodeNoise) -> Floats:
    from scipy.stats import norm

    codes = noise.codes
    # A level whose code has no noise is observed exactly; a tiny SD keeps the density finite.
    sd = np.sqrt(np.maximum(noise.variances, 1e-12))
    if noise.ends == "round":
        level = _find_levels(name, values, noise.levels).astype(float)
        known = level >= 0
        lower = np.where(level <= 0, -np.inf, codes[0] + level - 0.5)
        upper = np.where(level >= len(codes) - 1, np.inf, codes[0] + level + 0.5)
        density = _log_probability_between(lower[:, None], upper[:, None], codes, sd)
    else:
        released = _read_codes(name, values)
        known = ~np.isnan(released)
        density = norm.logpdf(released[:, None], codes, sd)
        if noise.ends == "clip":
            lowest, highest = (released <= codes[0])[:, None], (released >= codes[-1])[:, None]
            density = np.where(lowest, norm.logcdf(codes[0], codes, sd), density)
            density = np.where(highest, norm.logsf(codes[-1], codes, sd), density)
    return np.where(known[:, None], density, 0.0)


def _log_probability_between(lower: Floats, upper: Floats, centre: Floats, sd: Floats) -> Floats:
    """The log of the normal probability between two limits, exact in either tail."""
    from scipy.stats import norm

    a, b = (lower - centre) / sd, (upper - centre) / sd
    # Reflected to the side where both probabilities are small, so that nothing cancels.
    a, b = np.where(a > 0, -b, a), np.where(a > 0, -a, b)
    high, low = norm.logcdf(b), norm.logcdf(a)
    with np.errstate(divide="ignore"):
        probability: Floats = high + np.log1p(-np.exp(np.minimum(low - high, 0.0)))
    return probability


class Transitions(NamedTuple):
    """How levels were exchanged.

    Parameters
    ----------
    matrices : (stratum, true level, released level) the probabilities.
    stratum : which matrix each record has.
    level : the index of the level each record was released with; -1 where missing.
    """

    matrices: Floats
    stratum: Integers
    level: Integers

    @property
    def per_record(self) -> Floats:
        """(record, true level): the probability of what was released."""
        probability: Floats = self.matrices[self.stratum, :, np.maximum(self.level, 0)]
        return probability


def find_transitions(
    name: str, values: pl.Series, noise: Misclassification, strata: pl.DataFrame
) -> Transitions:
    """The transition matrices, and which of them each record has."""
    level = _find_levels(name, values, noise.levels)
    if noise.matrix is not None:
        return Transitions(np.asarray([noise.matrix], float), np.zeros(len(level), np.int64), level)
    matrices = np.asarray([stratum["matrix"] for stratum in noise.strata or []], float)
    return Transitions(matrices, find_strata(name, noise.strata or [], strata), level)


def _find_levels(name: str, values: pl.Series, levels: Sequence[Any]) -> npt.NDArray[np.int64]:
    try:
        return encode_levels(values.alias(name), levels)
    except (MethodError, pl.exceptions.PolarsError):
        raise DataError(
            f"Variable '{name}' has released values that are none of its described levels.",
            hint=_WRONG_DATA,
        ) from None


def _read_codes(name: str, values: pl.Series) -> Floats:
    if not values.dtype.is_numeric() and values.dtype not in (pl.Null, pl.Boolean):
        raise _refuse(name, "is described as noisy codes, and holds no numbers")
    codes: Floats = values.cast(pl.Float64).fill_null(math.nan).to_numpy()
    return codes


def _refuse(name: str, what: str, hint: str = "") -> DataError:
    return DataError(f"Variable '{name}' {what}.", hint=hint or _WRONG_DATA)
