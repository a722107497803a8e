"""What an analyst must know of the noise in a variable: enough to account for it in a model.

Every description is a few plain numbers, and the same in a manifest, in a plan and in a script.
None holds a key, a seed or a draw. Some of a description tells about values, and is kept for
accredited analysts: a variance that grows with the value says of a released record how large its
true value may be; the knots of a scale by ranks are averages of the original; the means and
covariances of correlated noise are those of the original, and two of them, of n records and of
n - 1, are a person's values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from sfumato.errors import DataError, PlanError
from sfumato.kernels.arrays import Floats
from sfumato.noise.scales import Finite, Growth, NotNegative, Scale
from sfumato.parameters import list_settings, parameters

VERSION = 1
"""Of the form in which descriptions are written."""
Level = str | int | float | bool
Step = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Detail = Literal["all", "safe", "none"]
"""How much of a description everybody may read."""
TOLERANCE = 1e-9
"""How far from 1 the probabilities of a row may add up."""
# What tells of values. Strata of a misclassification do not: their counts have noise.
_OF_THE_ORIGINAL = ("growth", "mean", "covariance")
_ACCREDITED = (
    "Parts of it are kept for accredited analysts: ask the custodian for accredited/manifest.json."
)


class NoiseDescription:
    """The noise of one variable, or of several together."""

    distribution: ClassVar[str]

    def plain(self) -> dict[str, Any]:
        """The description as it stands in a manifest."""
        return {"distribution": self.distribution, **list_settings(self)}


@parameters
class Gaussian(NoiseDescription):
    """Normal noise, independent of everything: released = true + noise.

    Parameters
    ----------
    variance : of the noise, on the scale on which it was added.
    growth : instead of one variance, how it depends on the true value.
    scale : the transformation under which the noise was added; none by default.
    at_least, at_most : the released value was set to this where it lay beyond.
    whole : the released value was rounded to a whole number.
    step : it was rounded to a multiple of this, a power of ten. The error of that is uniform, of
        variance step² / 12. With a `scale`, small values were rounded to three digits instead.
    keep : values that have no noise, such as 0 for none; noise leads to none of them.

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
    step: Step | None = None
    keep: list[Finite] | None = None

    @model_validator(mode="after")
    def _check_size(self) -> Self:
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
    variance, growth, scale, at_least, at_most, whole, step, keep : as for `Gaussian`.

    Examples
    --------
    >>> import sfumato as sf
    >>> sf.Laplace(variance=2.0).variance
    2.0
    """

    distribution = "laplace"


@parameters
class CorrelatedGaussian(NoiseDescription):
    """Noise that keeps means and covariances: released = weight * true + noise, several together.

    Parameters
    ----------
    variables : those perturbed together, in the order of the mean and the covariance.
    weight : what the true value is multiplied by.
    mean, covariance : of the noise.
    steps : by variable, the step to a multiple of which the released value was rounded.

    Examples
    --------
    >>> import sfumato as sf
    >>> noise = sf.CorrelatedGaussian(
    ...     variables=["height", "weight"], weight=0.9, mean=[17.0, 7.5],
    ...     covariance=[[19.0, 9.5], [9.5, 42.0]])
    >>> noise.variables
    ['height', 'weight']
    """

    distribution = "correlated_gaussian"
    variables: Annotated[list[str], Field(min_length=1)]
    weight: Annotated[float, Field(ge=0, le=1)]
    mean: list[Finite]
    covariance: list[list[Finite]]
    steps: dict[str, Step] | None = None

    @model_validator(mode="after")
    def _check_shape(self) -> Self:
        size = len(self.variables)
        if [len(self.mean), len(self.covariance), *map(len, self.covariance)] != [size] * (
            size + 2
        ):
            msg = "the mean and the covariance have a place for each variable."
            raise ValueError(msg)
        return self


@parameters
class StratifiedGaussian(NoiseDescription):
    """Noise that keeps means and covariances within each stratum.

    Parameters
    ----------
    variables : those perturbed together, in the order of each mean and covariance.
    weight : what the true value is multiplied by.
    strata : a list of tables with `where` (values of other variables), and `mean` and
        `covariance` of the noise there.
    steps : by variable, the step to a multiple of which the released value was rounded.
    """

    distribution = "stratified_gaussian"
    variables: Annotated[list[str], Field(min_length=1)]
    weight: Annotated[float, Field(ge=0, le=1)]
    strata: Annotated[list[dict[str, Any]], Field(min_length=1)]
    steps: dict[str, Step] | None = None

    @model_validator(mode="after")
    def _check_strata(self) -> Self:
        for number in range(len(self.strata)):
            self.within(number)
        return self

    def within(self, number: int) -> CorrelatedGaussian:
        """The noise in one of the strata."""
        stratum = self.strata[number]
        return CorrelatedGaussian(
            variables=self.variables,
            weight=self.weight,
            mean=stratum.get("mean", []),
            covariance=stratum.get("covariance", []),
            steps=self.steps,
        )


@parameters
class CodeNoise(NoiseDescription):
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
    def _check_variances(self) -> Self:
        if isinstance(self.variance, list) and len(self.variance) != len(self.levels):
            msg = "give one variance, or one for each level."
            raise ValueError(msg)
        return self

    @property
    def codes(self) -> Floats:
        """The code of each level."""
        return level_codes(self.levels)

    @property
    def variances(self) -> Floats:
        """The variance at each level."""
        return np.broadcast_to(np.asarray(self.variance, float), len(self.levels)).copy()


@parameters
class Misclassification(NoiseDescription):
    """Categories exchanged for others with known probabilities.

    Parameters
    ----------
    levels : the categories.
    matrix : row i, column j: the probability that a true level i is released as level j.
    strata : instead of one matrix, one for each stratum: a list of tables with `where` (values of
        other variables) and `matrix`.

    Examples
    --------
    >>> import sfumato as sf
    >>> noise = sf.Misclassification(levels=["no", "yes"], matrix=[[0.9, 0.1], [0.2, 0.8]])
    >>> noise.levels
    ['no', 'yes']
    """

    distribution = "misclassification"
    levels: Annotated[list[Level], Field(min_length=2)]
    matrix: list[list[Annotated[float, Field(ge=0, le=1)]]] | None = None
    strata: list[dict[str, Any]] | None = None

    @model_validator(mode="after")
    def _check_probabilities(self) -> Self:
        if (self.matrix is None) == (self.strata is None):
            msg = "give a matrix, or one for each stratum: one of both."
            raise ValueError(msg)
        strata = [{"matrix": self.matrix}] if self.strata is None else self.strata
        for stratum in strata:
            size = len(self.levels)
            matrix = np.asarray(stratum.get("matrix"), float)
            if matrix.shape != (size, size) or (np.abs(matrix.sum(axis=1) - 1) > TOLERANCE).any():
                msg = "each row of a matrix has a probability for every level; they add up to 1."
                raise ValueError(msg)
        return self


_KINDS: dict[str, type[NoiseDescription]] = {
    kind.distribution: kind
    for kind in (
        Gaussian,
        Laplace,
        CorrelatedGaussian,
        StratifiedGaussian,
        CodeNoise,
        Misclassification,
    )
}


def level_codes(levels: Sequence[Any]) -> Floats:
    """The codes of categories: themselves where they are whole numbers one apart."""
    numbers = all(isinstance(level, (int, float)) and type(level) is not bool for level in levels)
    if numbers and all(float(level).is_integer() for level in levels):
        # Codes that are the levels themselves can be read without the description.
        codes = np.asarray(levels, float)
        if (np.diff(codes) == 1).all():
            return codes
    return np.arange(len(levels), dtype=float)


def write_descriptions(noise: Mapping[str, NoiseDescription]) -> dict[str, Any]:
    """Descriptions by variable, as they stand in a manifest."""
    return {
        "version": VERSION,
        "variables": {name: description.plain() for name, description in noise.items()},
    }


def read_descriptions(
    manifest: Mapping[str, Any], names: Iterable[str] | None = None
) -> dict[str, NoiseDescription]:
    """Descriptions by variable, from a manifest.

    Refuses those that are not whole: a part is kept for accredited analysts, or a later step
    changed the variable again. With `names`, only of these variables.

    Examples
    --------
    >>> read_descriptions(write_descriptions({"age": Gaussian(variance=4.0)}))["age"].variance
    4.0
    """
    if manifest.get("version") != VERSION:
        raise DataError(
            f"The noise is described in a form that is not known here (version {VERSION} is).",
            hint="use the version of Sfumato that made the release, or a newer one.",
        )
    variables = manifest.get("variables", {})
    wanted = variables if names is None else [name for name in names if name in variables]
    return {name: read_description(name, variables[name]) for name in wanted}


def read_description(name: str, plain: Mapping[str, Any]) -> NoiseDescription:
    """One description from its plain form."""
    if plain.get("withheld"):
        raise DataError(
            f"The noise of variable '{name}' is described only in part.",
            hint="ask the custodian for accredited/manifest.json.",
        )
    if later := plain.get("then"):
        raise DataError(
            f"Variable '{name}' was changed again after its noise was added: {', '.join(later)}.",
            hint="no model for noise alone fits it; leave it out.",
        )
    kind = _KINDS.get(str(plain.get("distribution")))
    if kind is None:
        raise DataError(
            f"The noise of variable '{name}' has no known distribution.",
            hint=f"known are {', '.join(_KINDS)}.",
        )
    try:
        return kind(**{key: value for key, value in plain.items() if key != "distribution"})
    except PlanError as error:
        raise DataError(f"The noise of variable '{name}': {error.what}", hint=error.hint) from None


# What is published -------------------------------------------------------------------------------


def describe_in_full(
    noise: Mapping[str, NoiseDescription], then: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Every description in full; `then` names the steps that changed a variable afterwards.

    Examples
    --------
    >>> noise = {"age": Gaussian(variance=4.0)}
    >>> describe_in_full(noise, {"age": ["coarsen"]})["variables"]["age"]["then"]
    ['coarsen']
    """
    descriptions = write_descriptions(noise)
    for name, later in then.items():
        descriptions["variables"][name]["then"] = list(later)
    return descriptions


def withhold(descriptions: Mapping[str, Any], detail: Detail) -> dict[str, Any]:
    """The part for everybody; `withheld` names what is left out of it.

    Examples
    --------
    >>> withhold(describe_in_full({"age": Gaussian(variance=4.0)}, {}), "none")["variables"]
    {'age': {'withheld': ['all']}}
    """
    public = {
        name: _public_part(plain, detail) for name, plain in descriptions["variables"].items()
    }
    incomplete = any("withheld" in plain for plain in public.values())
    return {**descriptions, "variables": public} | ({"withheld": _ACCREDITED} if incomplete else {})


def _public_part(plain: Mapping[str, Any], detail: Detail) -> dict[str, Any]:
    later = {"then": plain["then"]} if "then" in plain else {}
    if detail == "none":
        return {"withheld": ["all"], **later}
    if detail == "all":
        return dict(plain)
    part, withheld = dict(plain), []
    fitted = [*_OF_THE_ORIGINAL]
    if part.get("distribution") == StratifiedGaussian.distribution:
        fitted.append("strata")
    for name in fitted:
        if name in part:
            del part[name]
            withheld.append(name)
    scale = part.get("scale", {})
    if knots := [name for name in ("values", "scores") if name in scale]:
        part["scale"] = {name: value for name, value in scale.items() if name not in knots}
        withheld += [f"scale.{name}" for name in knots]
    return part | ({"withheld": withheld} if withheld else {})


def is_accredited_version(accredited: Mapping[str, Any], manifest: Mapping[str, Any]) -> bool:
    """Whether an accredited manifest is that of this public one: the same, but for more noise.

    Examples
    --------
    >>> is_accredited_version({"records": 7}, {"records": 8})
    False
    """
    both = (accredited, manifest)
    # Each has a tag of its own, which only the custodian can check.
    ours, theirs = ({**text, "noise": None, "authentication": None} for text in both)
    full, part = (text.get("noise", {}).get("variables", {}) for text in both)
    return ours == theirs and any(
        part == withhold({"variables": full}, detail)["variables"] for detail in ("safe", "none")
    )


def averaged_variance(
    variance: float | Sequence[float], releases: int = 1, *, nested: bool = False
) -> float:
    """The variance of the noise that is left to somebody who averages several releases.

    Question: how much protection is left after a second key?
    Assumes: independent noise in each release, and somebody who can tell which rows belong
    together and weights them in the best way. Under one key nothing is gained: a larger noise is
    the smaller one and more.

    Parameters
    ----------
    variance : of the noise in each release; a list where they differ.
    releases : how many there are of each, under as many keys.
    nested : the variances are those of tiers under one key: each noise is a smaller one and more,
        so that only the smallest counts.

    Examples
    --------
    >>> averaged_variance(4.0, releases=4)
    1.0
    >>> averaged_variance([4.0, 1.0]), averaged_variance([4.0, 1.0], nested=True)
    (0.8, 1.0)
    """
    variances = [variance] if isinstance(variance, (int, float)) else list(variance)
    if releases < 1 or not variances or not all(0 < size < math.inf for size in variances):
        raise DataError(
            "Averaging needs at least one release, and variances above 0.",
            hint="for instance averaged_variance(4.0, releases=2).",
        )
    if nested:
        return min(variances) / releases
    # Inverse-variance weighting: precisions add up.
    return 1 / math.fsum(releases / size for size in variances)
