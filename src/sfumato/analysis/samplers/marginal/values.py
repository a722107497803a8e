"""From parameters to what the kernels take, and from their sums to the gradient; many at once."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.kernels.arrays import Floats, Integers

if TYPE_CHECKING:
    from sfumato.analysis.samplers.marginal.model import Density
    from sfumato.kernels.sampling.quadrature_records import Parts, Values


@lru_cache(maxsize=8)
def _rules(family: int) -> tuple[Floats, Floats, Integers, Floats]:
    from sfumato.kernels.sampling.quadrature import rules

    return rules(family)


def ready(density: Density, split: dict[str, Floats]) -> tuple[Values, dict[str, Floats]]:
    """The kernels' arguments for several parameters, and the algebra that the gradient needs."""
    from sfumato.kernels.sampling.quadrature_records import Values

    arrays, m, k = density.arrays, density.numbers, density.components
    beta, roots = split["beta"], density.factors(split)
    loading = beta @ arrays.loads.T
    covariance = roots @ roots.swapaxes(-1, -2)
    shape = (len(beta), len(density.patterns), k)
    inverse, constant = np.zeros((*shape, m, m)), np.zeros(shape)
    for p, kept in enumerate(density.patterns):
        grid = np.ix_(kept, kept)
        small, logs = _inverted(covariance[..., grid[0], grid[1]] + arrays.error[grid])
        inverse[:, p, :, grid[0], grid[1]] = np.moveaxis(small, (-2, -1), (0, 1))
        constant[:, p] = -0.5 * logs
    if m:
        constant += log_weights(split["weight"])[:, None]
    follow = covariance[:, None] @ inverse
    left = covariance[:, None] - follow @ covariance[:, None]
    lean = np.einsum("bpkij,bi->bpkj", follow, loading)
    over = np.einsum("bi,bpkij,bj->bpk", loading, left, loading)
    spread = np.sqrt(np.maximum(over, 0.0))
    nodes, weights, length, most = _rules(density.family)
    zero = np.zeros((len(beta), 1, m))
    parts = (
        beta[:, arrays.clean],
        beta @ arrays.levels.T,
        loading,
        split["centre"],
        arrays.dummies @ split["shift"],
        np.concatenate([zero, split["move"]], axis=1) if m else np.zeros((len(beta), k, 0)),
        np.concatenate([np.zeros((len(beta), 1, density.columns)), split["odds"]], axis=1),
        inverse,
        lean,
        loading[:, None, None] - lean,
        constant,
        spread,
        np.searchsorted(most, spread).astype(np.int64),
    )
    # One layout, so that the kernels are compiled once.
    laid: list[Any] = [np.ascontiguousarray(part) for part in parts]
    tables: list[Any] = [nodes, weights, length]
    values = Values._make([density.family, *laid, *tables])
    return values, {"roots": roots, "follow": follow, "left": left, "inverse": inverse}


def _inverted(matrices: Floats) -> tuple[Floats, Floats]:
    """Inverses and log determinants; of one row, the usual case, without the cost of a library."""
    if matrices.shape[-1] == 1:
        return 1.0 / matrices, np.log(matrices[..., 0, 0])
    logs: Floats = np.linalg.slogdet(matrices)[1]
    return np.asarray(np.linalg.inv(matrices), float), logs


def chained(
    density: Density,
    split: dict[str, Floats],
    parts: Parts,
    algebra: dict[str, Floats],
    slopes: dict[str, Floats],
) -> None:
    """Add to `slopes` what the sums over records give.

    Rows and columns of missing numbers are nought in the inverses, so sums there do not count.
    """
    arrays = density.arrays
    roots, follow, left, inverse = (algebra[one] for one in ("roots", "follow", "left", "inverse"))
    loading = split["beta"] @ arrays.loads.T
    rest = loading[:, None, None] - np.einsum("bpkij,bi->bpkj", follow, loading)
    tilt = (inverse @ parts.pull[..., None])[..., 0]
    square = inverse @ parts.square @ inverse - parts.weight[..., None, None] * inverse
    outer = rest[..., :, None] * tilt[..., None, :]
    wide = parts.width[..., None, None] * rest[..., :, None] * rest[..., None, :]
    by_covariance = (0.5 * (square + outer + outer.swapaxes(-1, -2)) + wide).sum(axis=1)
    by_loading = parts.direct + np.einsum("bpkij,bpkj->bi", follow, parts.pull)
    by_loading += 2 * np.einsum("bpk,bpkij,bj->bi", parts.width, left, loading)
    by_root = (2 * by_covariance @ roots)[..., density.lower[0], density.lower[1]]
    spread = roots[..., density.lower[0], density.lower[1]]
    slopes["factor"] += np.where(density.diagonal, by_root * spread, by_root)
    slopes["beta"] += by_loading @ arrays.loads + parts.offset @ arrays.levels
    slopes["beta"][:, arrays.clean] += parts.clean
    slopes["centre"] += parts.centre
    slopes["shift"] += arrays.dummies.T @ parts.shift
    slopes["odds"] += parts.odds[:, 1:]
    if density.numbers:
        slopes["move"] += parts.move[:, 1:]
        share = np.exp(log_weights(split["weight"]))
        expected = parts.weight.sum(axis=1)
        slopes["weight"] += (expected - share * expected.sum(axis=1, keepdims=True))[:, 1:]


def log_weights(logits: Floats) -> Floats:
    """The logs of the components' weights, along the last axis."""
    whole = np.concatenate([np.zeros((*logits.shape[:-1], 1)), logits], axis=-1)
    top = whole.max(axis=-1, keepdims=True)
    made: Floats = whole - (top + np.log(np.exp(whole - top).sum(axis=-1, keepdims=True)))
    return made
