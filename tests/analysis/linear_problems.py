"""Linear problems with known truth, for the tests of the engines."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import norm

from sfumato.analysis.problem import Category, NoisyNumber, Problem, Term


def code_log_density(noisy, variance: float, levels: int = 2):
    """Log densities of code noise clipped at the ends; NaN is missing."""
    sd = np.sqrt(variance)
    density = np.zeros((len(noisy), levels))
    for code in range(levels):
        inner = norm.logpdf(noisy, code, sd)
        low, high = norm.logcdf(0, code, sd), norm.logsf(levels - 1, code, sd)
        density[:, code] = np.where(noisy <= 0, low, np.where(noisy >= levels - 1, high, inner))
    return np.where(np.isnan(noisy)[:, None], 0.0, density)


def build_number_problem(
    y, noisy, variance: float, *, clean=None, outcome: float = 0.0, **more
) -> Problem:
    """y on an intercept, a noised number and perhaps a clean column."""
    terms = [Term(name="Intercept"), Term(name="x", numbers=((0, None),))]
    covariates = [np.ones(len(y))]
    if clean is not None:
        terms.append(Term(name="w", clean=clean))
        covariates.append(clean)
    return Problem(
        family="gaussian",
        link="identity",
        y=y,
        outcome_number=NoisyNumber(name="y", observed=y, variance=outcome) if outcome else None,
        numbers=(NoisyNumber(name="x", observed=noisy, variance=variance),),
        error=np.array([[variance]]),
        terms=tuple(terms),
        covariates=np.column_stack(covariates),
        **more,
    )


def build_level_problem(y, noisy, released, variance: float, **more) -> Problem:
    """y on an intercept, a noised number and a noised category of two levels."""
    return Problem(
        family="gaussian",
        link="identity",
        y=y,
        numbers=(NoisyNumber(name="x1", observed=noisy, variance=variance),),
        categories=(
            Category(
                name="x2", levels=("0", "1"), density=code_log_density(released, variance or 1e-4)
            ),
        ),
        error=np.array([[variance]]),
        terms=(
            Term(name="Intercept"),
            Term(name="x1", numbers=((0, None),)),
            Term(name="x2", levels=((0, 1),)),
        ),
        covariates=np.ones((len(y), 1)),
        **more,
    )


def simulate_table_4(
    rng: np.random.Generator, records: int = 1000
) -> tuple[tuple[Any, Any, Any], tuple[Any, Any]]:
    """The published simulation: true columns, outcome, and what is released."""
    latent = rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], records)
    first, second = latent[:, 0], (latent[:, 1] > 0).astype(float)
    y = 1 + first + second + rng.normal(size=records)
    noise = rng.normal(size=(records, 2)) * np.sqrt(0.2)
    return (first, second, y), (first + noise[:, 0], np.clip(second + noise[:, 1], 0, 1))


def fit_least_squares(columns, y):
    """Coefficients and residual variance of ordinary least squares, and their errors."""
    design = np.column_stack(columns)
    beta = np.linalg.lstsq(design, y, rcond=None)[0]
    freedom = len(y) - design.shape[1]
    residual = float(((y - design @ beta) ** 2).sum() / freedom)
    errors = np.sqrt(np.diag(residual * np.linalg.inv(design.T @ design)))
    return np.append(beta, residual), np.append(errors, residual * np.sqrt(2 / freedom))
