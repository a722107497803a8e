"""The model of true predictors: its first values, and how many normal components it needs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sfumato.analysis.samplers.marginal.mode import Mode, climb
from sfumato.analysis.samplers.marginal.model import Density
from sfumato.kernels.arrays import Floats

if TYPE_CHECKING:
    from sfumato.analysis.problem import Shape
    from sfumato.analysis.samplers.marginal.arrays import Arrays


MOST = 5
"""Components at most."""
RECORDS = 30_000
"""Records by which the number of components is chosen."""
_STEPS, _FEW = 80, 5_000
"""Steps of the first sorting into components, and the records it looks at."""
_LEAST = 0.05
"""The least share of a released variance that the true values start with."""


def shaped(arrays: Arrays, shape: Shape) -> tuple[Density, Floats]:
    """The covariate model alone, with as many components as the BIC asks for.

    The outcome is left out: it tells little of the shape. Components are added one by one until
    the BIC no longer falls.
    """
    from sfumato.kernels.sampling.quadrature import NOTHING

    thin = arrays.thinned(RECORDS)
    best = Density(thin, 1, family=NOTHING)
    found = climb(best, _first(best))
    if shape == "normal" or not len(arrays.loads):
        return best, found.theta
    normal, lowest = found, _bic(best, found)
    for components in range(2, MOST + 1):
        density = Density(thin, components, family=NOTHING)
        more = climb(density, _sorted(best, found, normal, density))
        bic = _bic(density, more)
        # A mixture that was asked for has two components even where one would do.
        if bic >= lowest and not (shape == "mixture" and components == 2):  # noqa: PLR2004
            break
        best, found, lowest = density, more, bic
    if best.components > 1 and best.numbers == 1:
        return _smooth(best, found)
    return best, found.theta


def _smooth(mixture: Density, found: Mode) -> tuple[Density, Floats]:
    """Many components in fixed places, about where the mixture of few has its own."""
    from sfumato.analysis.samplers.marginal.smooth import Smooth, placed

    knots, logs = placed(mixture, found.theta)
    density = Smooth(mixture.arrays, knots, family=mixture.family)
    parts = {**mixture.split(found.theta), "weight": logs}
    parts |= {name: np.zeros(density.sizes[name]) for name in ("factor", "move")}
    return density, climb(density, density.join(parts)).theta


def _bic(density: Density, mode: Mode) -> float:
    prior = density.prior(mode.theta)
    return -2 * (mode.value - prior) + math.log(density.arrays.count) * density.size


def _first(density: Density) -> Floats:
    """First values: regressions of the released numbers, less the noise."""
    arrays, records = density.arrays, density.arrays.records
    made = {name: np.zeros(shape) for name, shape in density.sizes.items()}
    left = np.zeros_like(records.seen)
    for number in range(density.numbers):
        there = ~arrays.missing[records.pattern, number]
        columns = records.covariates[there]
        found = np.linalg.lstsq(columns, records.seen[there, number], rcond=None)[0]
        made["centre"][number] = found
        left[there, number] = records.seen[there, number] - columns @ found
    if density.numbers:
        covariance = np.atleast_2d(left.T @ left / len(left)) - arrays.error
        made["factor"][0] = _factor(covariance)
    if density.cells > 1:
        shares = cell_shares(records.density)
        made["odds"][:, 0] = np.log(shares[1:] / shares[0])
    return density.join(made)


def cell_shares(density: Floats) -> Floats:
    """How common the true cells are, whatever the covariates: a few steps of EM."""
    chances = np.exp(density - density.max(axis=1, keepdims=True))
    shares = np.full(density.shape[1], 1 / density.shape[1])
    for _ in range(50):
        each = chances * shares
        shares = np.maximum((each / each.sum(axis=1, keepdims=True)).mean(axis=0), 1e-4)
        shares /= shares.sum()
    return shares


def _factor(covariance: Floats) -> Floats:
    """The parameters of a covariance, mended where it is not positive."""
    values, vectors = np.linalg.eigh(covariance)
    mended = (vectors * np.maximum(values, _LEAST)) @ vectors.T
    root = np.linalg.cholesky(mended)
    np.fill_diagonal(root, np.log(np.diag(root)))
    made: Floats = root[np.tril_indices(len(root))]
    return made


def _sorted(fewer: Density, found: Mode, normal: Mode, density: Density) -> Floats:
    """First values of a mixture: EM on the residuals of the normal model."""
    made = fewer.split(found.theta)
    arrays, records = density.arrays, density.arrays.records
    plain = Density(arrays, 1, family=density.family).split(normal.theta)
    whole = np.flatnonzero(~arrays.missing[records.pattern].any(axis=1))
    whole = whole[np.linspace(0, max(len(whole) - 1, 0), min(_FEW, len(whole))).astype(int)]
    fitted = records.covariates[whole] @ plain["centre"].T
    if density.cells > 1:
        chance = np.exp(records.density[whole]) * cell_shares(records.density)
        fitted += (chance / chance.sum(axis=1, keepdims=True)) @ arrays.dummies @ plain["shift"]
    weights, means, covariances = _components(
        records.seen[whole] - fitted, arrays.error, density.components
    )
    order = np.argsort(-weights)
    weights, means, covariances = weights[order], means[order], covariances[order]
    centre = plain["centre"].copy()
    centre[:, 0] += means[0]
    return density.join(
        {
            **made,
            "shift": plain["shift"],
            "odds": plain["odds"],
            "centre": centre,
            "factor": np.array([_factor(one) for one in covariances]),
            "move": means[1:] - means[0],
            "weight": np.log(weights[1:] / weights[0]),
        }
    )


def _components(left: Floats, error: Floats, count: int) -> tuple[Floats, Floats, Floats]:
    """Weights, means and covariances of true residuals, by EM; the noise is known."""
    size = left.shape[1]
    _, vectors = np.linalg.eigh(np.cov(left.T).reshape(size, size))
    main = left @ vectors[:, -1]
    cut = np.quantile(main, np.linspace(0, 1, count + 1)[1:-1])
    share = (np.searchsorted(cut, main)[:, None] == np.arange(count)).astype(float)
    means = np.zeros((count, size))
    covariances = np.repeat(np.eye(size)[None] * 0.1, count, axis=0)
    weights = np.full(count, 1 / count)
    for step in range(_STEPS):
        logs = np.zeros((len(left), count))
        for k in range(count):
            released = covariances[k] + error
            follow = covariances[k] @ np.linalg.inv(released)
            guess = left if step == 0 else means[k] + (left - means[k]) @ follow.T
            weights[k] = max(share[:, k].mean(), 1e-3)
            means[k] = share[:, k] @ guess / (share[:, k].sum() + 1e-9)
            away = guess - means[k]
            spread = (share[:, k][:, None] * away).T @ away / (share[:, k].sum() + 1e-9)
            spread += -error if step == 0 else covariances[k] - follow @ covariances[k]
            values, turned = np.linalg.eigh(spread)
            covariances[k] = (turned * np.maximum(values, 1e-3)) @ turned.T
            released = covariances[k] + error
            away = left - means[k]
            square = np.einsum("ij,jk,ik->i", away, np.linalg.inv(released), away)
            logs[:, k] = np.log(weights[k]) - 0.5 * (square + np.linalg.slogdet(released)[1])
        share = np.exp(logs - logs.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
    return weights / weights.sum(), means, covariances
