"""Whether one noise is another one and more, so that both together tell no more than the finer."""

from __future__ import annotations

import numpy as np

from sfumato.kernels.arrays import Floats
from sfumato.noise.description import (
    CodeNoise,
    CorrelatedGaussian,
    Gaussian,
    Laplace,
    Misclassification,
    NoiseDescription,
    StratifiedGaussian,
)
from sfumato.noise.transitions import find_further

ROUNDING = 0.01
"""Share of the finest noise's variance that rounding may have: so much other tiers can tell."""
_APART = 1.01
"""Variances that differ by less may share a draw of the path; see `kernels.sampling.brownian`."""


def round_codes(noise: CodeNoise) -> Floats:
    """The matrix by which codes with noise, rounded to the nearest code, exchange levels.

    Examples
    --------
    >>> round_codes(CodeNoise(variance=0.25, levels=["no", "yes"], ends="round")).round(3)
    array([[0.841, 0.159],
           [0.159, 0.841]])
    """
    from scipy.special import ndtr

    codes = noise.codes
    edges = np.concatenate([[-np.inf], codes[:-1] + 0.5, [np.inf]])
    standard = (edges - codes[:, None]) / np.sqrt(noise.variances)[:, None]
    matrix: Floats = np.diff(ndtr(standard), axis=1)
    return matrix


def explain_not_nested(finer: NoiseDescription, coarser: NoiseDescription) -> tuple[str, str]:  # noqa: PLR0911
    """Why the coarser noise is not the finer one and more, and what to do; nothing where it is.

    Examples
    --------
    >>> explain_not_nested(Gaussian(variance=1.0), Gaussian(variance=4.0))
    ('', '')
    >>> explain_not_nested(Gaussian(variance=4.0), Gaussian(variance=1.0))[0]
    'has less noise than the tier before it'
    """
    if type(finer) is not type(coarser):
        return "has noise of another kind than the tier before it", "take the same method."
    if isinstance(finer, Laplace):
        return (
            "has Laplace noise, of which several sizes show who got little",
            'take distribution = "gaussian".',
        )
    if isinstance(finer, Gaussian) and isinstance(coarser, Gaussian):
        return _compare_normal(finer, coarser)
    if isinstance(finer, CodeNoise) and isinstance(coarser, CodeNoise):
        return _compare_codes(finer, coarser)
    if isinstance(finer, Misclassification) and isinstance(coarser, Misclassification):
        return _compare_matrices(finer, coarser)
    if isinstance(finer, (CorrelatedGaussian, StratifiedGaussian)):
        return _compare_correlated(finer, coarser)
    return "has noise of which it is not known whether it is nested", "take normal noise."


def _compare_normal(finer: Gaussian, coarser: Gaussian) -> tuple[str, str]:
    if finer.growth is not None:
        return (
            "has noise that grows with the value: two sizes of it tell how large the value is",
            "give a variance, on another scale if need be.",
        )
    if finer.at_least is not None or finer.at_most is not None:
        return (
            "is cut off at limits, and what they hide in one tier another one shows",
            'take bounds = "ignore", and no at_least or at_most.',
        )
    step = 1.0 if finer.whole else finer.step or 0.0
    if finer.scale is None and step**2 / 12 > ROUNDING * (finer.variance or 0.0):
        return (
            "is rounded so coarsely beside its noise that another tier tells more",
            "give more noise in the most trusted tier, or whole = false, or declare more digits.",
        )
    return _compare_sizes(finer.variance or 0.0, coarser.variance or 0.0)


def _compare_sizes(finer: float, coarser: float) -> tuple[str, str]:
    if coarser < finer:
        return (
            "has less noise than the tier before it",
            "write the tiers from the most trusted users to the least.",
        )
    if finer < coarser < _APART * finer:
        return "has nearly as much noise as the tier before it", "take the same, or clearly more."
    return "", ""


def _compare_codes(finer: CodeNoise, coarser: CodeNoise) -> tuple[str, str]:
    if isinstance(finer.variance, list) or isinstance(coarser.variance, list):
        return (
            "has other noise at every level: two sizes of it tell which level it is",
            "give one variance for all levels.",
        )
    if finer.ends == "clip":
        return (
            "is cut off at the outer codes, and what they hide in one tier another one shows",
            'take ends = "free" or ends = "round".',
        )
    # Rounded codes are exchanged step by step, which the method refuses where it cannot be done.
    return _compare_sizes(float(finer.variance), float(coarser.variance))


def _compare_correlated(finer: NoiseDescription, coarser: NoiseDescription) -> tuple[str, str]:
    assert isinstance(finer, (CorrelatedGaussian, StratifiedGaussian))  # noqa: S101
    assert isinstance(coarser, (CorrelatedGaussian, StratifiedGaussian))  # noqa: S101
    strata = [finer] if isinstance(finer, CorrelatedGaussian) else [
        finer.within(number) for number in range(len(finer.strata))
    ]  # fmt: skip
    for stratum in strata:
        variances = dict(zip(stratum.variables, np.diagonal(stratum.covariance), strict=True))
        steps = finer.steps or {}
        if any(steps[name] ** 2 / 12 > ROUNDING * float(variances[name]) for name in steps):
            return (
                "is rounded so coarsely beside its noise that another tier tells more",
                "take a larger noise_share in the most trusted tier, or declare more digits.",
            )
    return _compare_sizes(_get_share(finer.weight), _get_share(coarser.weight))


def _get_share(weight: float) -> float:
    """The variance of the noise in units of the signal that is left."""
    return float(1 / weight**2 - 1)


def _compare_matrices(finer: Misclassification, coarser: Misclassification) -> tuple[str, str]:
    pairs = zip(_list_matrices(finer), _list_matrices(coarser), strict=True)
    if all(find_further(a, b) is not None for a, b in pairs):
        return "", ""
    return (
        "has a matrix that no further exchange of the tier before it leads to",
        "say again = true in the tier.",
    )


def _list_matrices(noise: Misclassification) -> list[Floats]:
    strata = [{"matrix": noise.matrix}] if noise.strata is None else noise.strata
    return [np.array(stratum["matrix"], float) for stratum in strata]
