"""Simulated releases: values with noise drawn from its description."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats
from sfumato.noise.description import (
    CodeNoise,
    CorrelatedGaussian,
    Gaussian,
    Misclassification,
)
from sfumato.noise.description import NoiseDescription as Described
from sfumato.randomness import Draws, Key

_OPEN = Key(bytes(32))
"""Not a secret: these draws are never released, and repeat so that predictions do."""


def make_fixed_draws(records: int) -> Draws:
    """Draws that are the same each time, for records in a canonical order."""
    ids = np.zeros((records, 2), np.uint64)
    ids[:, 0] = np.arange(records, dtype=np.uint64)
    return Draws(_OPEN, 0, ids)


def simulate_noise(
    noise: Mapping[str, Described], columns: Mapping[str, Floats], draws: Draws, repeat: int
) -> dict[str, Floats]:
    """The noised columns after one draw; categories are numbers of their levels.

    Parameters
    ----------
    noise : the description of each noised variable.
    columns : the true values of those variables.
    draws : the source of chance.
    repeat : which draw.
    """
    noised = {}
    for name, description in noise.items():
        if isinstance(description, CorrelatedGaussian):
            noised[name] = _add_correlated_noise(name, description, columns, draws, repeat)
        elif isinstance(description, Gaussian):
            noised[name] = _add_noise(
                description, columns[name], _draw_standard(description, draws, name, repeat)
            )
        elif isinstance(description, CodeNoise):
            noised[name] = _perturb_codes(description, columns[name], draws.normal(name, repeat))
        elif isinstance(description, Misclassification) and description.matrix is not None:
            noised[name] = _exchange_levels(
                description.matrix, columns[name], draws.uniform(name, repeat)
            )
        else:
            raise MeasureError(
                f"The noise of variable '{name}' differs by stratum, which is not predicted here.",
                hint="leave it out of the formula, or describe one stratum at a time.",
            )
    return noised


def _draw_standard(description: Gaussian, draws: Draws, name: str, repeat: int) -> Floats:
    """Noise of variance 1."""
    if description.distribution == "gaussian":
        return draws.normal(name, repeat)
    # A Laplace deviate by inversion, scaled to variance 1.
    share = draws.uniform(name, repeat) - 0.5
    laplace: Floats = -np.sign(share) * np.log1p(-2 * np.abs(share)) / np.sqrt(2)
    return laplace


def _add_noise(description: Gaussian, values: Floats, chance: Floats) -> Floats:
    true = values if description.scale is None else description.scale.forth(values)
    variance = (
        description.variance if description.growth is None else description.growth.variance(true)
    )
    perturbed = true + np.sqrt(np.asarray(variance, float)) * chance
    released = perturbed if description.scale is None else description.scale.back(perturbed)
    if step := float(description.whole) or description.step:
        released = np.rint(released / step) * step
    if description.at_least is None and description.at_most is None:
        return released
    low = -np.inf if description.at_least is None else description.at_least
    return np.clip(released, low, np.inf if description.at_most is None else description.at_most)


def _add_correlated_noise(
    name: str,
    description: CorrelatedGaussian,
    columns: Mapping[str, Floats],
    draws: Draws,
    repeat: int,
) -> Floats:
    # The root of the covariance takes independent draws to those that vary together.
    values, vectors = np.linalg.eigh(np.asarray(description.covariance, float))
    root = vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T
    index = description.variables.index(name)
    independent = np.stack(
        [draws.normal(f"together {other}", repeat) for other in description.variables]
    )
    released: Floats = (
        description.weight * columns[name] + description.mean[index] + root[index] @ independent
    )
    return released


def _perturb_codes(description: CodeNoise, levels: Floats, normal: Floats) -> Floats:
    """The nearest level. An analyst also sees what lies between levels, and so knows more."""
    codes = description.codes
    noisy = codes[levels.astype(int)] + np.sqrt(description.variances[levels.astype(int)]) * normal
    nearest: Floats = np.clip(np.rint(noisy - codes[0]), 0, len(codes) - 1)
    return nearest


def _exchange_levels(matrix: list[list[float]], levels: Floats, uniform: Floats) -> Floats:
    ends = np.cumsum(np.asarray(matrix, float), axis=1)
    ends[:, -1] = 1.0
    released: Floats = (uniform[:, None] >= ends[levels.astype(int)]).sum(axis=1).astype(float)
    return released
