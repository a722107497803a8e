"""The shape of true values, judged from noised ones.

What is seen is the true value plus normal noise of known covariance. If true values were normal,
seen ones would be; a mixture of normals with the noise added is fitted by EM, and the number of
its components chosen by BIC; `spared` then takes more, if it is more than one. Nothing is looked
at but residuals on the noised scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.analysis.problem import Shape
from sfumato.kernels.arrays import Floats

_MOST = 5
_LOOKED_AT = 20_000
_ROUNDS = 200
_GAIN = 0.01
"""Of log likelihood in a round, below which there is no use in another."""
_SPARE, _RECORDS = 6, 25
"""So many components where one normal is rejected, and the records for each of them and number."""
_SMALLEST = 0.05
"""The least variance of a component's true values, as a share of all true values' variance."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """Shares, means and covariances of the components, the noise taken out."""

    shares: Floats
    means: Floats
    covariances: Floats
    bic: float

    @property
    def components(self) -> int:
        """How many there are."""
        return len(self.shares)


def chosen(residual: Floats, error: Floats, shape: Shape) -> Mixture:
    """The mixture that the residuals of seen values ask for.

    Of many records every so-and-so-many-th is looked at, in the order given.

    Parameters
    ----------
    residual : (record, number) seen values less what clean ones say of them, without missing.
    error : the covariance of the noise.
    shape : "normal" gives one component, "mixture" at least two.

    Examples
    --------
    >>> chance = np.random.default_rng(1)
    >>> true = chance.exponential(size=(2000, 1))
    >>> seen = true + chance.normal(size=(2000, 1)) / 3
    >>> chosen(seen - seen.mean(), np.array([[1 / 9]]), "auto").components > 1
    True
    >>> normal = chance.normal(size=(2000, 1))
    >>> chosen(normal, np.array([[1 / 9]]), "auto").components
    1
    """
    some = _some(residual)
    first = 2 if shape == "mixture" else 1
    last = 1 if shape == "normal" else _MOST
    best: Mixture | None = None
    for components in range(first, last + 1):
        # Ten records for each parameter, or there is nothing to choose from.
        if components > first and len(some) < 10 * components * _parameters(some.shape[1]):
            break
        made = fitted(some, error, components)
        if best is not None and made.bic >= best.bic:
            break
        best = made
    if best is None:  # pragma: no cover - the loop has at least one round
        raise AssertionError
    return best


def spared(residual: Floats, error: Floats, shape: Shape) -> Mixture:
    """The mixture that the residuals ask for, with components to spare if they ask for several.

    Noise hides what true values look like, so that BIC asks for few components. Draws of a mixture
    do not mind having too many, and coefficients of skewed predictors mind having too few. Where
    one normal is enough it stays at one.

    Parameters
    ----------
    residual, error, shape : see `chosen`.

    Examples
    --------
    >>> chance = np.random.default_rng(1)
    >>> seen = chance.exponential(size=(300, 1)) + chance.normal(size=(300, 1)) / 3
    >>> noise = np.array([[1 / 9]])
    >>> [of(seen - seen.mean(), noise, "auto").components for of in (chosen, spared)]
    [3, 6]
    >>> spared(chance.normal(size=(300, 1)), noise, "auto").components
    1
    """
    made = chosen(residual, error, shape)
    spare = min(_SPARE, len(residual) // (_RECORDS * max(residual.shape[1], 1)))
    if made.components == 1 or spare <= made.components:
        return made
    return fitted(_some(residual), error, spare)


def fitted(residual: Floats, error: Floats, components: int) -> Mixture:
    """A mixture of so many components, by EM from cuts along the longest axis."""
    records, size = residual.shape
    whole = np.atleast_2d(np.cov(residual.T, bias=True)) if records > 1 else np.eye(size)
    floor = _SMALLEST * _positive(whole - error, np.diag(np.diag(whole)) * 1e-3)
    shares, means, covariances = _start(residual, whole, components)
    before = -np.inf
    for _ in range(_ROUNDS):
        weights, likelihood = _responsible(residual, shares, means, covariances)
        if likelihood - before < _GAIN:
            break
        before = likelihood
        counts = np.maximum(weights.sum(axis=0), 1e-9)
        shares = counts / records
        means = weights.T @ residual / counts[:, None]
        for j in range(components):
            away = residual - means[j]
            found = (away * weights[:, j, None]).T @ away / counts[j]
            covariances[j] = _positive(found - error, floor) + error
    parameters = components * _parameters(size) + components - 1
    bic = parameters * np.log(records) - 2 * likelihood
    return Mixture(shares, means, covariances - error, float(bic))


def _some(residual: Floats) -> Floats:
    return residual[:: max(1, -(-len(residual) // _LOOKED_AT))]


def _parameters(size: int) -> int:
    return size + size * (size + 1) // 2


def _start(residual: Floats, whole: Floats, components: int) -> tuple[Floats, Floats, Floats]:
    _, vectors = np.linalg.eigh(whole)
    along = residual @ vectors[:, -1]
    cuts = np.quantile(along, np.arange(1, components) / components)
    part = np.searchsorted(cuts, along)
    shares = np.full(components, 1 / components)
    means = np.array(
        [
            residual[part == j].mean(axis=0) if (part == j).any() else residual.mean(axis=0)
            for j in range(components)
        ]
    )
    return shares, means, np.repeat(whole[None], components, axis=0)


def _responsible(
    residual: Floats, shares: Floats, means: Floats, covariances: Floats
) -> tuple[Floats, float]:
    """(record, component) probabilities, and the log likelihood."""
    logs = np.empty((len(residual), len(shares)))
    for j, (share, mean, covariance) in enumerate(zip(shares, means, covariances, strict=True)):
        away = residual - mean
        square = (away @ np.linalg.inv(covariance) * away).sum(axis=1)
        determinant = np.linalg.slogdet(2 * np.pi * covariance)[1]
        logs[:, j] = np.log(share) - (square + determinant) / 2
    top = logs.max(axis=1)
    weights = np.exp(logs - top[:, None])
    total = weights.sum(axis=1)
    return weights / total[:, None], float((np.log(total) + top).sum())


def _positive(matrix: Floats, floor: Floats) -> Floats:
    """The nearest covariance that is at least `floor`, in the directions of `floor`."""
    values, vectors = np.linalg.eigh(floor)
    values = np.maximum(values, 1e-12 * max(float(values[-1]), 1e-300))
    half = vectors * np.sqrt(values)
    back = vectors / np.sqrt(values)
    inner, axes = np.linalg.eigh(back.T @ matrix @ back)
    made: Floats = half @ (axes * np.maximum(inner, 1.0)) @ axes.T @ half.T
    return (made + made.T) / 2
