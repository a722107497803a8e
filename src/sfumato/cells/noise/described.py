"""What an analyst must know of the noise in a variable: enough to take it out again.

Every description is a few plain numbers, and the same in a manifest, in a plan and in a script.
None holds a key, a seed or a draw.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from sfumato.cells.noise.scales import Finite, Growth, NotNegative, Scale
from sfumato.errors import DataError, PlanError
from sfumato.kernels.arrays import Floats
from sfumato.parameters import given, parameters

VERSION = 1
"""Of the form in which descriptions are written."""
Level = str | int | float | bool
_NEAR = 1e-9
"""How far from 1 the probabilities of a row may add up."""


class Noise:
    """The noise of one variable, or of several together."""

    distribution: ClassVar[str]

    def plain(self) -> dict[str, Any]:
        """The description as it stands in a manifest."""
        return {"distribution": self.distribution, **given(self)}


@parameters
class Gaussian(Noise):
    """Normal noise, independent of everything: released = true + noise.

    Parameters
    ----------
    variance : of the noise, on the scale on which it was added.
    growth : instead of one variance, how it depends on the true value.
    scale : the transformation under which the noise was added; none by default.
    at_least, at_most : the released value was set to this where it lay beyond.
    whole : the released value was rounded to a whole number.

    Examples
    --------
    >>> Gaussian(variance=0.2).plain()
    {'distribution': 'gaussian', 'variance': 0.2, 'whole': False}
    """

    distribution = "gaussian"
    variance: NotNegative | None = None
    growth: Growth | None = None
    scale: Scale | None = None
    at_least: Finite | None = None
    at_most: Finite | None = None
    whole: bool = False

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        if (self.variance is None) == (self.growth is None):
            msg = "give the variance, or how it grows: one of both."
            raise ValueError(msg)
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            msg = "at_least lies above at_most."
            raise ValueError(msg)
        return self


@parameters
class Laplace(Gaussian):
    """Laplace (double exponential) noise; its variance is twice the square of its scale.

    Parameters
    ----------
    variance, growth, scale, at_least, at_most, whole : as for `Gaussian`.
    """

    distribution = "laplace"


@parameters
class CorrelatedGaussian(Noise):
    """Noise that keeps means and covariances: released = weight * true + noise, several together.

    Parameters
    ----------
    variables : those perturbed together, in the order of the mean and the covariance.
    weight : what the true value is multiplied by.
    mean, covariance : of the noise.
    """

    distribution = "correlated_gaussian"
    variables: Annotated[list[str], Field(min_length=1)]
    weight: Annotated[float, Field(ge=0, le=1)]
    mean: list[Finite]
    covariance: list[list[Finite]]

    @model_validator(mode="after")
    def _square(self) -> Self:
        size = len(self.variables)
        if [len(self.mean), len(self.covariance), *map(len, self.covariance)] != [size] * (
            size + 2
        ):
            msg = "the mean and the covariance have a place for each variable."
            raise ValueError(msg)
        return self


@parameters
class StratifiedGaussian(Noise):
    """Noise that keeps means and covariances within each stratum.

    Parameters
    ----------
    variables : those perturbed together, in the order of each mean and covariance.
    weight : what the true value is multiplied by.
    strata : a list of tables with `where` (values of other variables), and `mean` and
        `covariance` of the noise there.
    """

    distribution = "stratified_gaussian"
    variables: Annotated[list[str], Field(min_length=1)]
    weight: Annotated[float, Field(ge=0, le=1)]
    strata: Annotated[list[dict[str, Any]], Field(min_length=1)]

    @model_validator(mode="after")
    def _each_stratum(self) -> Self:
        for number in range(len(self.strata)):
            self.within(number)
        return self

    def within(self, number: int) -> CorrelatedGaussian:
        """The noise in one of the strata."""
        told = self.strata[number]
        return CorrelatedGaussian(
            variables=self.variables,
            weight=self.weight,
            mean=told.get("mean", []),
            covariance=told.get("covariance", []),
        )


@parameters
class CodeNoise(Noise):
    """Normal noise on the codes of categories.

    The codes are the levels themselves where those are whole numbers one apart, else 0, 1, 2, ...
    in the order of the levels.

    Parameters
    ----------
    variance : of the noise on a code; one for all levels, or one for each.
    levels : the categories, in the order of their codes.
    ends : "clip": what lay beyond the first or last code was set to it, and what lies between is
        released as a number; "round": each was rounded to the nearest code, so that categories
        are released; "free": numbers, wherever they lay.

    Examples
    --------
    >>> CodeNoise(variance=0.2, levels=["no", "yes"], ends="clip").codes
    array([0., 1.])
    """

    distribution = "code_noise"
    variance: NotNegative | list[NotNegative]
    levels: Annotated[list[Level], Field(min_length=2)]
    ends: Literal["clip", "round", "free"] = "clip"

    @model_validator(mode="after")
    def _each_level(self) -> Self:
        if isinstance(self.variance, list) and len(self.variance) != len(self.levels):
            msg = "give one variance, or one for each level."
            raise ValueError(msg)
        return self

    @property
    def codes(self) -> Floats:
        """The code of each level."""
        return codes_of(self.levels)

    @property
    def variances(self) -> Floats:
        """The variance at each level."""
        return np.broadcast_to(np.asarray(self.variance, float), len(self.levels)).copy()


@parameters
class Misclassification(Noise):
    """Categories exchanged for others with known probabilities.

    Parameters
    ----------
    levels : the categories.
    matrix : row i, column j: the probability that a true level i is released as level j.
    strata : instead of one matrix, one for each stratum: a list of tables with `where` (values of
        other variables) and `matrix`.
    """

    distribution = "misclassification"
    levels: Annotated[list[Level], Field(min_length=2)]
    matrix: list[list[Annotated[float, Field(ge=0, le=1)]]] | None = None
    strata: list[dict[str, Any]] | None = None

    @model_validator(mode="after")
    def _probabilities(self) -> Self:
        if (self.matrix is None) == (self.strata is None):
            msg = "give a matrix, or one for each stratum: one of both."
            raise ValueError(msg)
        for one in [self.matrix] if self.strata is None else [s.get("matrix") for s in self.strata]:
            size = len(self.levels)
            made = np.asarray(one, float)
            if made.shape != (size, size) or (np.abs(made.sum(axis=1) - 1) > _NEAR).any():
                msg = "each row of a matrix has a probability for every level; they add up to 1."
                raise ValueError(msg)
        return self


_KINDS: dict[str, type[Noise]] = {
    one.distribution: one
    for one in (
        Gaussian,
        Laplace,
        CorrelatedGaussian,
        StratifiedGaussian,
        CodeNoise,
        Misclassification,
    )
}


def codes_of(levels: Sequence[Any]) -> Floats:
    """The codes of categories: themselves where they are whole numbers one apart."""
    numbers = all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in levels)
    if numbers and all(float(one).is_integer() for one in levels):
        made = np.asarray(levels, float)
        if (np.diff(made) == 1).all():
            return made
    return np.arange(len(levels), dtype=float)


def written(noise: Mapping[str, Noise]) -> dict[str, Any]:
    """Descriptions by variable, as they stand in a manifest."""
    return {
        "version": VERSION,
        "variables": {name: one.plain() for name, one in noise.items()},
    }


def read(told: Mapping[str, Any], names: Iterable[str] | None = None) -> dict[str, Noise]:
    """Descriptions by variable, from a manifest.

    Refuses those that are not whole: a part is kept for accredited analysts, or a later step
    changed the variable again. With `names`, only of these variables.

    Examples
    --------
    >>> read(written({"age": Gaussian(variance=4.0)}))["age"].variance
    4.0
    """
    if told.get("version") != VERSION:
        raise DataError(
            f"The noise is described in a form that is not known here (version {VERSION} is).",
            hint="use the version of Sfumato that made the release, or a newer one.",
        )
    every = told.get("variables", {})
    wanted = every if names is None else [name for name in names if name in every]
    return {name: one_from(name, every[name]) for name in wanted}


def one_from(name: str, told: Mapping[str, Any]) -> Noise:
    """One description from its plain form."""
    if told.get("withheld"):
        raise DataError(
            f"The noise of variable '{name}' is described only in part.",
            hint="ask the custodian for accredited/manifest.json.",
        )
    if later := told.get("then"):
        raise DataError(
            f"Variable '{name}' was changed again after its noise was added: {', '.join(later)}.",
            hint="no model for noise alone fits it; leave it out.",
        )
    kind = _KINDS.get(str(told.get("distribution")))
    if kind is None:
        raise DataError(
            f"The noise of variable '{name}' has no known distribution.",
            hint=f"known are {', '.join(_KINDS)}.",
        )
    try:
        return kind(**{key: value for key, value in told.items() if key != "distribution"})
    except PlanError as error:
        raise DataError(f"The noise of variable '{name}': {error.what}", hint=error.hint) from None
