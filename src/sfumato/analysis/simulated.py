"""What a release would look like: values with noise drawn from its description."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sfumato.cells.noise.described import CodeNoise, CorrelatedGaussian, Gaussian, Misclassification
from sfumato.cells.noise.described import Noise as Described
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats
from sfumato.randomness import Draws, Key

_OPEN = Key(bytes(32))
"""Not a secret: these draws are never released, and repeat so that predictions do."""


def draws_of(records: int) -> Draws:
    """Draws that are the same each time, for records in a canonical order."""
    ids = np.zeros((records, 2), np.uint64)
    ids[:, 0] = np.arange(records, dtype=np.uint64)
    return Draws(_OPEN, 0, ids)


def simulated(
    noise: Mapping[str, Described], columns: Mapping[str, Floats], draws: Draws, at: int
) -> dict[str, Floats]:
    """The noised columns after one draw; categories are numbers of their levels.

    Parameters
    ----------
    noise : the description of each noised variable.
    columns : the true values of those variables.
    draws : the source of chance.
    at : which draw.
    """
    made = {}
    for name, one in noise.items():
        if isinstance(one, CorrelatedGaussian):
            made[name] = _together(name, one, columns, draws, at)
        elif isinstance(one, Gaussian):
            made[name] = _added(one, columns[name], _chance(one, draws, name, at))
        elif isinstance(one, CodeNoise):
            made[name] = _coded(one, columns[name], draws.normal(name, at))
        elif isinstance(one, Misclassification) and one.matrix is not None:
            made[name] = _exchanged(one.matrix, columns[name], draws.uniform(name, at))
        else:
            raise MeasureError(
                f"The noise of variable '{name}' differs by stratum, which is not predicted here.",
                hint="leave it out of the formula, or describe one stratum at a time.",
            )
    return made


def _chance(one: Gaussian, draws: Draws, name: str, at: int) -> Floats:
    """Noise of variance 1."""
    if one.distribution == "gaussian":
        return draws.normal(name, at)
    share = draws.uniform(name, at) - 0.5
    made: Floats = -np.sign(share) * np.log1p(-2 * np.abs(share)) / np.sqrt(2)
    return made


def _added(one: Gaussian, values: Floats, chance: Floats) -> Floats:
    true = values if one.scale is None else one.scale.forth(values)
    variance = one.variance if one.growth is None else one.growth.variance(true)
    noisy = true + np.sqrt(np.asarray(variance, float)) * chance
    made = noisy if one.scale is None else one.scale.back(noisy)
    made = np.rint(made) if one.whole else made
    if one.at_least is None and one.at_most is None:
        return made
    low = -np.inf if one.at_least is None else one.at_least
    return np.clip(made, low, np.inf if one.at_most is None else one.at_most)


def _together(
    name: str, one: CorrelatedGaussian, columns: Mapping[str, Floats], draws: Draws, at: int
) -> Floats:
    # The root of the covariance takes independent draws to those that vary together.
    values, vectors = np.linalg.eigh(np.asarray(one.covariance, float))
    root = vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T
    place = one.variables.index(name)
    independent = np.stack([draws.normal(f"together {other}", at) for other in one.variables])
    made: Floats = one.weight * columns[name] + one.mean[place] + root[place] @ independent
    return made


def _coded(one: CodeNoise, levels: Floats, normal: Floats) -> Floats:
    """The nearest level; what lies between levels is known to an analyst too, so this is less."""
    codes = one.codes
    noisy = codes[levels.astype(int)] + np.sqrt(one.variances[levels.astype(int)]) * normal
    made: Floats = np.clip(np.rint(noisy - codes[0]), 0, len(codes) - 1)
    return made


def _exchanged(matrix: list[list[float]], levels: Floats, uniform: Floats) -> Floats:
    ends = np.cumsum(np.asarray(matrix, float), axis=1)
    ends[:, -1] = 1.0
    made: Floats = (uniform[:, None] >= ends[levels.astype(int)]).sum(axis=1).astype(float)
    return made
