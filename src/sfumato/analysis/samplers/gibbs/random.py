"""Random matrices, many at a time: leading axes are chains, cells or groups."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import Floats

_TINY = 1e-12


def turned(matrix: Floats) -> Floats:
    """The transpose of each."""
    return np.swapaxes(matrix, -1, -2)


def root(matrix: Floats) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """R with R R' = matrix, which may be singular; and which columns of R are not 0."""
    values, vectors = np.linalg.eigh(matrix)
    there = values > _TINY * np.maximum(values[..., -1:], 0.0)
    return vectors * np.sqrt(np.where(there, values, 0.0))[..., None, :], there


def inverse(matrix: Floats) -> Floats:
    """The inverse of each."""
    return np.asarray(np.linalg.inv(matrix), np.float64)


def lower(matrix: Floats) -> Floats:
    """The lower root of positive matrices, also where rounding left one not quite positive."""
    try:
        return np.asarray(np.linalg.cholesky(matrix), np.float64)
    except np.linalg.LinAlgError:
        size = np.sqrt(np.maximum(np.diagonal(matrix, axis1=-2, axis2=-1), 1e-300))
        scaled = matrix / size[..., None] / size[..., None, :]
        values, vectors = np.linalg.eigh(scaled)
        positive = np.maximum(values, _TINY)[..., None, :]
        whole = (vectors * positive) @ turned(vectors) * size[..., None] * size[..., None, :]
        return np.asarray(np.linalg.cholesky(whole), np.float64)


def gaussian(precision: Floats, pull: Floats, chance: np.random.Generator) -> Floats:
    """Normal draws with these precisions, and with means precision⁻¹ pull."""
    back = inverse(lower(precision))
    forth = back @ pull[..., None]
    forth += chance.standard_normal(forth.shape)
    drawn: Floats = (turned(back) @ forth)[..., 0]
    return drawn


def bartlett(freedom: Floats, size: int, chance: np.random.Generator) -> Floats:
    """Lower roots of Wishart draws of unit scale; also for fewer degrees than the size."""
    left = freedom[..., None] - np.arange(size)
    few = size > 0 and bool((freedom <= size - 1).any())
    # sqrt(2 gamma(f / 2)) is the root of a chi-squared draw with f degrees of freedom.
    roots = np.sqrt(2.0 * chance.standard_gamma((np.maximum(left, 0.0) if few else left) / 2.0))
    made = roots[..., None] * np.eye(size)
    for a in range(1, size):
        made[..., a, :a] = chance.standard_normal((*freedom.shape, a))
    if few:
        made *= (left > 0)[..., None, :]
    return made


def inverse_wishart(freedom: Floats, scale: Floats, chance: np.random.Generator) -> Floats:
    """Draws with density ∝ |X|^-(freedom + size + 1)/2 exp(-tr(scale X⁻¹)/2)."""
    core = bartlett(freedom, scale.shape[-1], chance)
    half: Floats = lower(scale) @ turned(inverse(core))
    drawn: Floats = half @ turned(half)
    return drawn


def inverse_of_lower(core: Floats) -> Floats:
    """The inverses of lower matrices; here the last axis is the draw: few rows, many draws."""
    made = np.zeros_like(core)
    for a in range(len(core)):
        made[a, a] = 1.0 / core[a, a]
        for b in range(a):
            made[a, b] = -(core[a, b:a] * made[b:a, b]).sum(axis=0) * made[a, a]
    return made


def proper(matrices: Floats) -> npt.NDArray[np.bool_]:
    """Which of them have nothing but positive pivots."""
    left = matrices.transpose(1, 2, 0).copy()
    good = np.ones(len(matrices), bool)
    with np.errstate(all="ignore"):
        for a in range(len(left)):
            good &= left[a, a] > _TINY
            for b in range(a + 1, len(left)):
                left[b, a + 1 :] -= left[b, a] / left[a, a] * left[a, a + 1 :]
    return good
