"""The shape of true values, judged from noised ones.

What is released is the true value plus normal noise of known covariance. If true values were
normal, released ones would be; a mixture of normals with the noise added is fitted by EM, and the
number of its components chosen by BIC; `choose_flexible_mixture` then takes more, if it is more
than one. Nothing enters but residuals on the noised scale.

References: Bovy, Hogg & Roweis (2011), Annals of Applied Statistics 5:1657 (mixtures with the noise
taken out); Schwarz (1978), Annals of Statistics 6:461 (BIC).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.analysis.problem import Shape
from sfumato.kernels.arrays import Floats

_MOST_COMPONENTS = 5
_MOST_RECORDS = 20_000
_ROUNDS = 200
_LEAST_GAIN = 0.01
"""Of log-likelihood in a round, below which there is no use in another."""
_FLEXIBLE, _RECORDS_PER_MEAN = 6, 25
"""So many components where one normal is rejected, and the records for each of them and number."""
_LEAST_VARIANCE = 0.05
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


def choose_mixture(residual: Floats, error: Floats, shape: Shape) -> Mixture:
    """The mixture that fits the residuals of released values best by BIC.

    Of many records every so-and-so-many-th counts, in the order given.

    Parameters
    ----------
    residual : (record, number) released values less what clean ones explain, without missing.
    error : the covariance of the noise.
    shape : "normal" gives one component, "mixture" at least two.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> true = rng.exponential(size=(2000, 1))
    >>> released = true + rng.normal(size=(2000, 1)) / 3
    >>> choose_mixture(released - released.mean(), np.array([[1 / 9]]), "auto").components > 1
    True
    >>> normal = rng.normal(size=(2000, 1))
    >>> choose_mixture(normal, np.array([[1 / 9]]), "auto").components
    1
    """
    sample = _thin_out(residual)
    first = 2 if shape == "mixture" else 1
    last = 1 if shape == "normal" else _MOST_COMPONENTS
    best: Mixture | None = None
    for components in range(first, last + 1):
        # Ten records for each parameter, or there is nothing to choose from.
        if components > first and len(sample) < 10 * components * _count_moments(sample.shape[1]):
            break
        mixture = fit_mixture(sample, error, components)
        if best is not None and mixture.bic >= best.bic:
            break
        best = mixture
    if best is None:  # pragma: no cover - the loop has at least one round
        raise AssertionError
    return best


def choose_flexible_mixture(residual: Floats, error: Floats, shape: Shape) -> Mixture:
    """The mixture that fits the residuals, with components to spare if one is not enough.

    Noise hides what true values look like, so that BIC asks for few components. Draws of a mixture
    do not mind having too many, and coefficients of skewed predictors mind having too few. Where
    one normal is enough it stays at one.

    Parameters
    ----------
    residual, error, shape : see `choose_mixture`.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> released = rng.exponential(size=(300, 1)) + rng.normal(size=(300, 1)) / 3
    >>> residual, noise = released - released.mean(), np.array([[1 / 9]])
    >>> choose_mixture(residual, noise, "auto").components
    3
    >>> choose_flexible_mixture(residual, noise, "auto").components
    6
    >>> choose_flexible_mixture(rng.normal(size=(300, 1)), noise, "auto").components
    1
    """
    mixture = choose_mixture(residual, error, shape)
    components = min(_FLEXIBLE, len(residual) // (_RECORDS_PER_MEAN * max(residual.shape[1], 1)))
    if mixture.components == 1 or components <= mixture.components:
        return mixture
    return fit_mixture(_thin_out(residual), error, components)


def fit_mixture(residual: Floats, error: Floats, components: int) -> Mixture:
    """A mixture of so many components, by EM from cuts along the longest axis."""
    records, size = residual.shape
    total = np.atleast_2d(np.cov(residual.T, bias=True)) if records > 1 else np.eye(size)
    floor = _LEAST_VARIANCE * _limit_below(total - error, np.diag(np.diag(total)) * 1e-3)
    shares, means, covariances = _start_from_quantiles(residual, total, components)
    last = -np.inf
    for _ in range(_ROUNDS):
        weights, log_likelihood = _responsibilities(residual, shares, means, covariances)
        if log_likelihood - last < _LEAST_GAIN:
            break
        last = log_likelihood
        counts = np.maximum(weights.sum(axis=0), 1e-9)
        shares = counts / records
        means = weights.T @ residual / counts[:, None]
        for j in range(components):
            deviation = residual - means[j]
            scatter = (deviation * weights[:, j, None]).T @ deviation / counts[j]
            # The variance of true values is bounded away from zero: no component collapses.
            covariances[j] = _limit_below(scatter - error, floor) + error
    parameters = components * _count_moments(size) + components - 1
    bic = parameters * np.log(records) - 2 * log_likelihood
    return Mixture(shares, means, covariances - error, float(bic))


def _thin_out(residual: Floats) -> Floats:
    return residual[:: max(1, -(-len(residual) // _MOST_RECORDS))]


def _count_moments(size: int) -> int:
    """Parameters of a component: its mean and its covariance."""
    return size + size * (size + 1) // 2


def _start_from_quantiles(
    residual: Floats, total: Floats, components: int
) -> tuple[Floats, Floats, Floats]:
    """Shares, means and covariances of parts of equal size along the first principal axis."""
    _, vectors = np.linalg.eigh(total)
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
    return shares, means, np.repeat(total[None], components, axis=0)


def _responsibilities(
    residual: Floats, shares: Floats, means: Floats, covariances: Floats
) -> tuple[Floats, float]:
    """(record, component) posterior probabilities, and the log-likelihood."""
    logs = np.empty((len(residual), len(shares)))
    for j, (share, mean, covariance) in enumerate(zip(shares, means, covariances, strict=True)):
        deviation = residual - mean
        square = (deviation @ np.linalg.inv(covariance) * deviation).sum(axis=1)
        determinant = np.linalg.slogdet(2 * np.pi * covariance)[1]
        logs[:, j] = np.log(share) - (square + determinant) / 2
    top = logs.max(axis=1)
    weights = np.exp(logs - top[:, None])
    total = weights.sum(axis=1)
    return weights / total[:, None], float((np.log(total) + top).sum())


def _limit_below(matrix: Floats, floor: Floats) -> Floats:
    """The nearest covariance that is at least `floor`, in the directions of `floor`."""
    values, vectors = np.linalg.eigh(floor)
    values = np.maximum(values, 1e-12 * max(float(values[-1]), 1e-300))
    root, inverse_root = vectors * np.sqrt(values), vectors / np.sqrt(values)
    inner, axes = np.linalg.eigh(inverse_root.T @ matrix @ inverse_root)
    limited: Floats = root @ (axes * np.maximum(inner, 1.0)) @ axes.T @ root.T
    return (limited + limited.T) / 2
