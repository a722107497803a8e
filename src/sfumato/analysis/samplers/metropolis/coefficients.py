"""Draws of coefficients, group effects and variances from their full conditionals, or nearly.

Where the outcome is normal the full conditionals are normal and inverse gamma or Wishart (Gelman
and others 2013, Bayesian Data Analysis, chapters 14 and 15). Else a weighted least-squares proposal
about the present values is accepted with the Hastings ratio (Gamerman 1997, Statistics and
Computing 7:57).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sfumato.analysis.samplers.metropolis.likelihood import LogDensity
from sfumato.kernels.arrays import Floats, Integers

Generator = np.random.Generator
Likelihood = Callable[[Floats], LogDensity]
"""The log-likelihood at linear predictors."""


def cholesky(precision: Floats) -> Floats:
    """The lower triangular factor of one matrix, or of each of many."""
    return np.asarray(np.linalg.cholesky(precision), np.float64)


def draw_normal(precision: Floats, right: Floats, rng: Generator) -> Floats:
    """A draw of N(P⁻¹ r, P⁻¹); columns are scaled to unit size first, for accuracy."""
    size = 1 / np.sqrt(np.diag(precision))
    lower = cholesky(precision * size[:, None] * size)
    centre = np.linalg.solve(lower, right * size)
    draw: Floats = size * np.linalg.solve(lower.T, centre + rng.standard_normal(len(right)))
    return draw


def draw_normals(precision: Floats, right: Floats, rng: Generator) -> tuple[Floats, Floats]:
    """A draw of N(P⁻¹ r, P⁻¹) for each of many small precisions, and its log density."""
    lower = cholesky(precision)
    z = rng.standard_normal(right.shape)
    centred = np.linalg.solve(lower, right[..., None])[..., 0] + z
    draws = np.linalg.solve(np.swapaxes(lower, -1, -2), centred[..., None])[..., 0]
    return np.asarray(draws, np.float64), log_normal_density(lower, z)


def log_normal_density(lower: Floats, z: Floats) -> Floats:
    """Of a normal draw that is z in units of its precision's factor; constants left out."""
    log: Floats = np.log(np.diagonal(lower, axis1=-2, axis2=-1)).sum(-1) - 0.5 * (z**2).sum(-1)
    return log


def draw_inverse_wishart(freedom: float, squares: Floats, rng: Generator) -> Floats:
    """A covariance from the inverse Wishart distribution, by inversion of a Wishart draw."""
    size = len(squares)
    if size == 1:
        return squares / (2 * rng.standard_gamma(freedom / 2))
    # Bartlett: chi on the diagonal, normal below it, of a Wishart draw's lower factor.
    factor = np.zeros((size, size))
    rows = np.arange(size)
    factor[rows, rows] = np.sqrt(2 * rng.standard_gamma((freedom - rows) / 2))
    below = np.tril_indices(size, -1)
    factor[below] = rng.standard_normal(len(below[0]))
    # The inverse of a Wishart draw with the inverse of `squares`.
    half = np.linalg.solve(factor, np.linalg.cholesky(squares).T)
    covariance: Floats = half.T @ half
    return covariance


def draw_variance_above(least: float, records: int, squares: float, rng: Generator) -> float:
    """An inverse gamma variance above `least`, given the sum of squares, prior 1 / variance."""
    shape, rate = records / 2, squares / 2
    if least <= 0:
        return rate / float(rng.standard_gamma(shape))
    from scipy.special import gammainc, gammaincinv

    below = float(gammainc(shape, rate / least))
    # So much noise that all of the variance is its own: what remains is zero for all we know.
    if below < 1e-280:  # noqa: PLR2004 - the smallest that can be divided
        return least * (1 + 1e-9)
    return max(rate / float(gammaincinv(shape, below * rng.uniform())), least * (1 + 1e-9))


def sum_by_group(group: Integers, groups: int, values: Floats) -> Floats:
    """(group, ...) the sums of values by group."""
    flat = values.reshape(len(values), -1)
    sums = np.empty((groups, flat.shape[1]))
    for column in range(flat.shape[1]):
        sums[:, column] = np.bincount(group, flat[:, column], minlength=groups)
    return sums.reshape(groups, *values.shape[1:])


def draw_category(logs: Floats, rng: Generator) -> Integers:
    """A category for each column of (category, record) log weights."""
    cumulative = np.cumsum(np.exp(logs - logs.max(axis=0)), axis=0)
    threshold = rng.uniform(size=logs.shape[1]) * cumulative[-1]
    codes: Integers = (cumulative[:-1] < threshold).sum(axis=0)
    return codes


class _LeastSquaresProposal:
    """A normal proposal for coefficients: a Newton step from `beta`, and the curvature there."""

    def __init__(self, design: Floats, likelihood: LogDensity, prior: Floats, beta: Floats) -> None:
        precision = design.T @ (design * likelihood.curvature[:, None])
        precision[np.diag_indices(len(beta))] += prior
        self.size = 1 / np.sqrt(np.diag(precision))
        self.lower = cholesky(precision * self.size[:, None] * self.size)
        gradient = self.size * (design.T @ likelihood.gradient - prior * beta)
        step = np.linalg.solve(self.lower.T, np.linalg.solve(self.lower, gradient))
        self.centre = beta + self.size * step
        self.log_posterior = float(likelihood.log.sum() - 0.5 * (prior * beta * beta).sum())

    def draw(self, rng: Generator) -> Floats:
        z = rng.standard_normal(len(self.centre))
        beta: Floats = self.centre + self.size * np.linalg.solve(self.lower.T, z)
        return beta

    def log_density(self, beta: Floats) -> float:
        z = self.lower.T @ ((beta - self.centre) / self.size)
        return float(log_normal_density(self.lower, z)) - float(np.log(self.size).sum())


def step_coefficients(
    design: Floats,
    likelihood: Likelihood,
    eta: Floats,
    beta: Floats,
    prior: Floats,
    rng: Generator,
    *,
    extra: Callable[[Floats], float] | None = None,
) -> tuple[Floats, Floats]:
    """Coefficients of a generalised model, and the linear predictor, after one step.

    Parameters
    ----------
    design : (record, term).
    likelihood : the log-likelihood at linear predictors.
    eta : the present one, with whatever else is in it.
    beta, prior : the present coefficients, and the precision of their prior about zero.
    rng : where draws come from.
    extra : log density of the coefficients beyond that prior, which only the ratio knows.
    """
    try:
        forth = _LeastSquaresProposal(design, likelihood(eta), prior, beta)
        proposed = forth.draw(rng)
        proposed_eta = eta + design @ (proposed - beta)
        back = _LeastSquaresProposal(design, likelihood(proposed_eta), prior, proposed)
    except np.linalg.LinAlgError:
        # A curvature that is zero to rounding proposes nothing; the present values stay.
        return beta, eta
    # Hastings ratio: posterior at the proposal over that at the present, times q(back) / q(forth).
    log_ratio = back.log_posterior - forth.log_posterior
    log_ratio = log_ratio + back.log_density(beta) - forth.log_density(proposed)
    if extra is not None:
        log_ratio += extra(proposed) - extra(beta)
    if np.log(rng.uniform()) < log_ratio:
        return proposed, proposed_eta
    return beta, eta


def draw_coefficients(
    design: Floats, y: Floats, variance: float, prior: Floats, rng: Generator
) -> Floats:
    """Coefficients of a linear model from their full conditional, N((X'X/σ² + P)⁻¹ X'y/σ², ·)."""
    precision = design.T @ design / variance
    precision[np.diag_indices(len(prior))] += prior
    return draw_normal(precision, design.T @ y / variance, rng)


def step_effects(  # noqa: PLR0913 - a step has as many parts
    columns: Floats,
    group: Integers,
    likelihood: Likelihood,
    eta: Floats,
    effects: Floats,
    covariance: Floats,
    rng: Generator,
    *,
    exact: bool,
) -> tuple[Floats, Floats]:
    """(group, column) random effects, and the linear predictor, after a step of all groups at once.

    Parameters
    ----------
    columns : (record, column) what differs by group.
    group : of each record.
    likelihood, eta : as in `step_coefficients`.
    effects, covariance : the present random effects, and their covariance.
    rng : where draws come from.
    exact : whether the log-likelihood is quadratic, so that every proposal is accepted.
    """
    groups = len(effects)
    inverse = np.linalg.inv(covariance)

    def newton(density: LogDensity, at_effects: Floats) -> tuple[Floats, Floats]:
        """Precision, and precision times centre, of the proposal of each group."""
        weighted = columns[:, :, None] * (columns * density.curvature[:, None])[:, None, :]
        precision = sum_by_group(group, groups, weighted) + inverse
        gradient = sum_by_group(group, groups, columns * density.gradient[:, None])
        gradient = gradient - at_effects @ inverse
        return precision, gradient + np.einsum("gab,gb->ga", precision, at_effects)

    # Groups are independent given everything else, so that each accepts on its own.
    here = likelihood(eta)
    precision, right = newton(here, effects)
    proposed, log_forth = draw_normals(precision, right, rng)
    proposed_eta = eta + ((proposed - effects)[group] * columns).sum(axis=1)
    if exact:
        return proposed, proposed_eta
    there = likelihood(proposed_eta)
    precision, right = newton(there, proposed)
    lower = cholesky(precision)
    z = np.einsum("gba,gb->ga", lower, effects) - np.linalg.solve(lower, right[..., None])[..., 0]
    log_ratio = sum_by_group(group, groups, there.log - here.log)
    log_ratio = log_ratio + log_normal_density(lower, z) - log_forth
    prior = (effects @ inverse * effects).sum(1) - (proposed @ inverse * proposed).sum(1)
    log_ratio += 0.5 * prior
    accepted = np.log(rng.uniform(size=groups)) < log_ratio
    new_effects = np.where(accepted[:, None], proposed, effects)
    return new_effects, np.where(accepted[group], proposed_eta, eta)


def exchange_effects(
    effects: Floats,
    covariance: Floats,
    column: int,
    shared: Floats,
    rng: Generator,
    *,
    present: Floats | None = None,
    prior: Floats | None = None,
) -> Floats:
    """How much of one effect, by columns constant in groups, belongs to the coefficients.

    The predictor stays as it is when a coefficient takes over what its column explains of the
    effects. The amount is drawn from its full conditional (hierarchical centring: Gelfand, Sahu &
    Carlin 1995, Biometrika 82:479); chains mix badly without.

    Parameters
    ----------
    effects, covariance : of the groups; the effects are changed in place.
    column : which effect.
    shared : (group, coefficient) the columns.
    rng : where draws come from.
    present, prior : the coefficients now, and the precision of their prior about zero; flat if
        not given.
    """
    inverse = np.linalg.inv(covariance)
    precision = inverse[column, column] * shared.T @ shared
    right = shared.T @ (effects @ inverse[:, column])
    if present is not None and prior is not None:
        precision[np.diag_indices(len(prior))] += prior
        right = right - prior * present
    amount = draw_normal(precision, right, rng)
    effects[:, column] -= shared @ amount
    return amount


def rescale_effects(
    design: Floats,
    likelihood: Likelihood,
    eta: Floats,
    beta: Floats,
    prior: Floats,
    spread: Floats,
    rng: Generator,
) -> tuple[Floats, Floats, Floats]:
    """Coefficients, factors for the effects of groups, and the linear predictor, after one step.

    Given effects, their variance is nearly known; given their variance, effects hardly grow: taken
    in turns both move slowly where groups say little. Here effects are u = a z with z as it is, so
    that the factor a is one more coefficient, of the column of what effects add to the predictor
    (interweaving: Yu & Meng 2011, J. Computational and Graphical Statistics 20:531). The variance
    becomes a² times what it was. A uniform prior of the covariance of q effects, and the Jacobian
    of u and of the covariance, leave the density |a|^q of each factor.

    Parameters
    ----------
    design, likelihood, eta, beta, prior, rng : as in `step_coefficients`.
    spread : (record, effect) what each effect adds to the predictor.
    """
    size, q = len(beta), spread.shape[1]

    def log_prior(factors: Floats) -> float:
        with np.errstate(divide="ignore"):
            return float(q * np.log(np.abs(factors)).sum())

    moved, new_eta = step_coefficients(
        np.column_stack([design, spread]),
        likelihood,
        eta,
        np.append(beta, np.ones(q)),
        np.append(prior, np.zeros(q)),
        rng,
        extra=lambda values: log_prior(values[size:]),
    )
    return moved[:size], moved[size:], new_eta
