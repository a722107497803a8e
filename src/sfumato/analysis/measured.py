"""Descriptions of noise as likelihoods: what a released value says of the true one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.analysis.problem import Category, Number
from sfumato.analysis.stratified import ByStratum, StratifiedNumber, place_of
from sfumato.cells.codes import places
from sfumato.cells.noise.described import (
    CodeNoise,
    CorrelatedGaussian,
    Gaussian,
    Misclassification,
    Noise,
)
from sfumato.cells.noise.scales import Growth
from sfumato.cells.notation import written
from sfumato.errors import DataError, MethodError
from sfumato.kernels.arrays import Floats, Integers

_NEVER = -745.0
"""The log of the smallest number above 0: for an engine what cannot be is this unlikely."""


def is_number(noise: Noise) -> bool:
    """Whether it is noise of a number, and not of a category."""
    return isinstance(noise, (Gaussian, CorrelatedGaussian, ByStratum))


def is_none(noise: Noise) -> bool:
    """Whether it changes nothing: noise of no variance, categories that all stay."""
    if isinstance(noise, Gaussian):
        return noise.variance == 0
    if isinstance(noise, CodeNoise):
        return not noise.variances.any()
    if isinstance(noise, Misclassification) and noise.matrix is not None:
        return bool((np.diag(np.asarray(noise.matrix, float)) == 1).all())
    return False


def number_of(name: str, values: Floats, noise: Noise, own: float = 0.0) -> Number:
    """A noised number, on the scale on which the noise was added.

    Parameters
    ----------
    name, values : the variable as released; NaN where missing.
    noise : its description.
    own : the variance of the error that the true measurement had before any noise.
    """
    if isinstance(noise, CorrelatedGaussian):
        return _correlated(name, values, noise, own)
    if isinstance(noise, ByStratum):
        return Number(name=name, seen=values, variance=None)  # see `stratified.looked_up`
    if not isinstance(noise, Gaussian):
        raise _wrong(name, "is described as a category, and used as a number")
    made = Number(
        name=name,
        seen=_on_scale(name, values, noise),
        variance=noise.variance,
        growth=noise.growth,
        laplace=noise.distribution == "laplace",
        scale=noise.scale,
        width=float(noise.whole),
    )
    return _with_own(_rounded(_cut(made, noise), values), own)


def _correlated(name: str, values: Floats, noise: CorrelatedGaussian, own: float) -> Number:
    if noise.weight == 0:
        raise _wrong(name, "was replaced by noise altogether, so nothing of it is left")
    if name not in noise.variables:
        raise _wrong(name, "is not among the variables of its own description")
    at = noise.variables.index(name)
    seen = (values - noise.mean[at]) / noise.weight
    variance = noise.covariance[at][at] / noise.weight**2
    return Number(name=name, seen=seen, variance=variance + own)


def _on_scale(name: str, values: Floats, noise: Gaussian) -> Floats:
    if noise.scale is None:
        return values
    known = ~np.isnan(values)
    with np.errstate(all="ignore"):
        seen = np.where(known, noise.scale.forth(values), np.nan)
    if (known & ~np.isfinite(seen)).any():
        raise _wrong(name, "has released values that have no place on the scale of its noise")
    return seen


def _cut(one: Number, noise: Gaussian) -> Number:
    """With the ends beyond which values were set to them, where some were."""
    made = one
    for side, end in (("low", noise.at_least), ("high", noise.at_most)):
        if end is None:
            continue
        with np.errstate(all="ignore"):
            at = end if noise.scale is None else float(noise.scale.forth(np.array([end]))[0])
        beyond = made.seen <= at if side == "low" else made.seen >= at
        # Where no record lies at an end, the end says nothing.
        if beyond.any():
            made = replace(made, low=at) if side == "low" else replace(made, high=at)
    return made


def _rounded(one: Number, values: Floats) -> Number:
    """Rounding that is fine beside the noise is noise: that of a uniform distribution.

    The density of noise and a uniform deviate together, at a whole number, is the probability of
    rounding to it; and a normal distribution of the same variance differs from it by nothing that
    matters when the noise is as wide as the step.
    """
    if not one.width or one.laplace or one.growth is not None:
        return one if one.scale is None or not one.width else _refuse_rounding(one)
    width = np.full(1, one.width)
    if one.scale is not None:
        known = values[~np.isnan(values)]
        with np.errstate(all="ignore"):
            width = one.scale.forth(known + 0.5) - one.scale.forth(known - 0.5)
        width = width[np.isfinite(width)]
    fine = one.variance is not None and bool((width**2 <= one.variance).all())
    if fine and one.variance is not None and math.isinf(one.low) and math.isinf(one.high):
        return replace(one, width=0.0, variance=one.variance + float(np.mean(width**2)) / 12)
    return one if one.scale is None else _refuse_rounding(one)


def _refuse_rounding(one: Number) -> Number:
    raise _wrong(one.name, "was rounded coarsely after noise on another scale was added")


def _with_own(one: Number, own: float) -> Number:
    """With the error that the measurement had anyway."""
    if not own:
        return one
    if one.scale is not None or one.laplace:
        raise DataError(
            f"An error of its own cannot be added to the noise of variable '{one.name}'.",
            hint="it can for normal noise on the variable itself.",
        )
    if one.growth is not None:
        grown = [add + own for add in one.growth.variances or []] or None
        told = {"constant": one.growth.constant + own, "variances": grown}
        return replace(one, growth=Growth(**{**_plain(one.growth), **told}))
    return replace(one, variance=(one.variance or 0.0) + own)


def _plain(growth: Growth) -> dict[str, Any]:
    names = ("form", "constant", "slope", "power", "breaks", "variances")
    return {name: getattr(growth, name) for name in names}


def error_of(numbers: Sequence[Number], noise: Mapping[str, Noise]) -> Floats:
    """The covariance of the noise of all numbers; where it grows, its average."""
    made = np.zeros((len(numbers), len(numbers)))
    for at, one in enumerate(numbers):
        if one.growth is not None:
            made[at, at] = float(np.nanmean(one.growth.variance(one.seen)))
        else:
            made[at, at] = one.variance or 0.0
        for other in range(at):
            if isinstance(one, StratifiedNumber):
                both = float(np.mean(one.shared(numbers[other])))
            else:
                both = shared_noise(noise, one.name, numbers[other].name)
            made[at, other] = made[other, at] = both
    return made


def shared_noise(noise: Mapping[str, Noise], one: str, other: str) -> float:
    """The covariance of the noise of two variables."""
    told = noise.get(one)
    if isinstance(told, ByStratum) and noise.get(other) == told and told.shared(one, other):
        raise DataError(
            f"The noise of '{one}' and '{other}' goes together, and differently in each stratum, "
            "which no model of an outcome and its predictor can part.",
            hint="keep the records of one stratum, and pass its CorrelatedGaussian.",
        )
    if not isinstance(told, CorrelatedGaussian) or noise.get(other) != told:
        return 0.0
    places = told.variables.index(one), told.variables.index(other)
    return told.covariance[places[0]][places[1]] / told.weight**2


def category_of(name: str, values: pl.Series, noise: Noise, strata: pl.DataFrame) -> Category:
    """A noised category with the log probability (density) of what was released, by level.

    Parameters
    ----------
    name, values : the variable as released.
    noise : its description.
    strata : the variables on which the probabilities of exchange depend, where they do.
    """
    if isinstance(noise, CodeNoise):
        density = _of_codes(name, values, noise)
    elif isinstance(noise, Misclassification):
        density = _of_exchange(name, values, noise, strata)
    else:
        raise _wrong(name, "is described as a number, and used as a category")
    likeliest = density.max(axis=1, keepdims=True)
    if np.isneginf(likeliest).any():
        raise _wrong(name, "has released values that no true level could have given")
    levels = tuple(written(one) for one in noise.levels)
    return Category(name=name, levels=levels, density=np.maximum(density, likeliest + _NEVER))


def _of_codes(name: str, values: pl.Series, noise: CodeNoise) -> Floats:
    from scipy.stats import norm

    codes = noise.codes
    # A level without noise of its own is where its code is, to all that can be told.
    sd = np.sqrt(np.maximum(noise.variances, 1e-12))
    if noise.ends == "round":
        at = _places(name, values, noise.levels).astype(float)
        known = at >= 0
        lower = np.where(at <= 0, -np.inf, codes[0] + at - 0.5)
        upper = np.where(at >= len(codes) - 1, np.inf, codes[0] + at + 0.5)
        made = _log_between(lower[:, None], upper[:, None], codes, sd)
    else:
        seen = _numbers(name, values)
        known = ~np.isnan(seen)
        made = norm.logpdf(seen[:, None], codes, sd)
        if noise.ends == "clip":
            made = np.where((seen <= codes[0])[:, None], norm.logcdf(codes[0], codes, sd), made)
            made = np.where((seen >= codes[-1])[:, None], norm.logsf(codes[-1], codes, sd), made)
    return np.where(known[:, None], made, 0.0)


def _log_between(lower: Floats, upper: Floats, centre: Floats, sd: Floats) -> Floats:
    """The log of the probability between two ends, exact in either tail."""
    from scipy.stats import norm

    a, b = (lower - centre) / sd, (upper - centre) / sd
    # On the side where both are small, so that nothing cancels.
    a, b = np.where(a > 0, -b, a), np.where(a > 0, -a, b)
    high, low = norm.logcdf(b), norm.logcdf(a)
    with np.errstate(divide="ignore"):
        made: Floats = high + np.log1p(-np.exp(np.minimum(low - high, 0.0)))
    return made


def _of_exchange(
    name: str, values: pl.Series, noise: Misclassification, strata: pl.DataFrame
) -> Floats:
    every, stratum, at = exchange_of(name, values, noise, strata)
    with np.errstate(divide="ignore"):
        made = np.log(every[stratum, :, np.maximum(at, 0)])
    return np.where((at >= 0)[:, None], made, 0.0)


def exchange_of(
    name: str, values: pl.Series, noise: Misclassification, strata: pl.DataFrame
) -> tuple[Floats, Integers, Integers]:
    """The matrices of exchange, which of them each record has, and the level it was released as."""
    at = _places(name, values, noise.levels)
    if noise.matrix is not None:
        return np.asarray([noise.matrix], float), np.zeros(len(at), np.int64), at
    every = np.asarray([one["matrix"] for one in noise.strata or []], float)
    return every, place_of(name, noise.strata or [], strata), at


def strata_of(noise: Noise) -> list[str]:
    """The variables on which the noise depends."""
    if isinstance(noise, ByStratum):
        return noise.by
    if isinstance(noise, Misclassification) and noise.strata:
        return list(noise.strata[0].get("where", {}))
    return []


def _places(name: str, values: pl.Series, levels: Sequence[Any]) -> npt.NDArray[np.int64]:
    try:
        return places(values.alias(name), levels)
    except (MethodError, pl.exceptions.PolarsError):
        raise DataError(
            f"Variable '{name}' has released values that are none of its described levels.",
            hint="is it the description of these data?",
        ) from None


def _numbers(name: str, values: pl.Series) -> Floats:
    if not values.dtype.is_numeric() and values.dtype not in (pl.Null, pl.Boolean):
        raise _wrong(name, "is described as noisy codes, and holds no numbers")
    made: Floats = values.cast(pl.Float64).fill_null(math.nan).to_numpy()
    return made


def _wrong(name: str, what: str) -> DataError:
    return DataError(f"Variable '{name}' {what}.", hint="is it the description of these data?")
