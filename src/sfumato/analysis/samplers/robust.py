"""Linear models whose residual variance is not the same everywhere: resampled corrected moments.

Products of terms that are right on average (`corrected_scores`) are weighted anew for each draw,
with weights of the Bayesian bootstrap, and the equations solved. Neither residuals nor true values
need a shape or a variance in common. Draws that leave no positive definite products are rejected.
Deviations from the mean are widened by √(n / (n - p)): residuals of p coefficients are too small.

References: Rubin (1981), Annals of Statistics 9:130; Chamberlain & Imbens (2003), J. Business &
Economic Statistics 21:12 (moments with such weights); Fuller (1987), Measurement Error Models.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sfumato.analysis.corrected_scores import LinearMoments, NoCorrectedScoreError
from sfumato.analysis.problem import Posterior, Problem, Sampling
from sfumato.kernels.arrays import Floats

ROBUST = "resampled moments"
"""The name of this engine."""
_MOST_WEIGHTS = 4_000_000
"""Weights that are drawn at a time."""
_LEAST_ACCEPTED = 0.8


def sample_robust(
    problem: Problem, levels: Mapping[str, Floats], sampling: Sampling
) -> Posterior | None:
    """Independent draws of coefficients and residual variance; None where too many are rejected.

    Parameters
    ----------
    problem : a linear model of one level.
    levels : for each noised category the scores of its levels.
    sampling : how many draws.
    """
    if problem.family != "gaussian" or problem.groups is not None or problem.outcome_category:
        return None
    try:
        moments = LinearMoments(problem, levels)
        products = moments.products()
    except NoCorrectedScoreError:
        return None
    wanted, size = sampling.chains * sampling.draws, len(problem.terms)
    rng = np.random.default_rng([sampling.seed, 19])
    drawn: list[Floats] = []
    count, tried, batch = 0, 0, max(1, min(wanted, _MOST_WEIGHTS // len(products)))
    while count < wanted:
        if tried >= 2 * wanted and count < _LEAST_ACCEPTED * tried:
            return None
        weights = rng.standard_exponential((batch, len(products)))
        sums = weights @ products / weights.mean(axis=1, keepdims=True)
        draws = _solve_moments(sums, size, len(products), moments.outcome_noise_variance())
        drawn.append(draws)
        count, tried = count + len(draws), tried + batch
    if count < _LEAST_ACCEPTED * tried:
        return None
    draws = np.concatenate(drawn)[:wanted]
    mean = draws.mean(axis=0)
    draws = mean + (draws - mean) * np.sqrt(len(products) / max(len(products) - size, 1))
    return Posterior(
        engine=ROBUST,
        parameters=(*(term.name for term in problem.terms), "residual variance"),
        draws=draws.reshape(sampling.chains, sampling.draws, -1),
        independent=True,
        shape="any",
        details={"accepted": count / tried},
    )


def _solve_moments(sums: Floats, size: int, records: int, noise: float) -> Floats:
    """Coefficients and residual variance of each draw that has positive definite products."""
    gram = sums[:, : size * size].reshape(-1, size, size)
    moment, squares = sums[:, size * size : -1], sums[:, -1]
    scale = np.sqrt(np.abs(np.diagonal(gram, axis1=1, axis2=2)))
    least = np.linalg.eigvalsh(gram / scale[:, :, None] / scale[:, None, :])[:, 0]
    positive = least > 0
    gram, moment, squares = gram[positive], moment[positive], squares[positive]
    beta = np.linalg.solve(gram, moment[:, :, None])[:, :, 0]
    explained = 2 * (beta * moment).sum(axis=1) - np.einsum("ba,bac,bc->b", beta, gram, beta)
    residual = (squares - explained) / (records - size) - noise
    return np.column_stack([beta, residual])
