"""Linear problems with known truth, for the tests of the engines."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import norm

from sfumato.analysis.problem import Category, Number, Problem, Term


def coded(seen, variance: float, levels: int = 2):
    """Log densities of code noise clipped at the ends; NaN is missing."""
    spread = np.sqrt(variance)
    made = np.zeros((len(seen), levels))
    for code in range(levels):
        inner = norm.logpdf(seen, code, spread)
        low, high = norm.logcdf(0, code, spread), norm.logsf(levels - 1, code, spread)
        made[:, code] = np.where(seen <= 0, low, np.where(seen >= levels - 1, high, inner))
    return np.where(np.isnan(seen)[:, None], 0.0, made)


def one_number(y, seen, variance: float, *, clean=None, outcome: float = 0.0, **more) -> Problem:
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
        outcome_number=Number(name="y", seen=y, variance=outcome) if outcome else None,
        numbers=(Number(name="x", seen=seen, variance=variance),),
        error=np.array([[variance]]),
        terms=tuple(terms),
        covariates=np.column_stack(covariates),
        **more,
    )


def number_and_level(y, seen, released, variance: float, **more) -> Problem:
    """y on an intercept, a noised number and a noised category of two levels."""
    return Problem(
        family="gaussian",
        link="identity",
        y=y,
        numbers=(Number(name="x1", seen=seen, variance=variance),),
        categories=(
            Category(name="x2", levels=("0", "1"), density=coded(released, variance or 1e-4)),
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


def table_4(
    chance: np.random.Generator, records: int = 1000
) -> tuple[tuple[Any, Any, Any], tuple[Any, Any]]:
    """The published simulation: true columns, outcome, and what is released."""
    latent = chance.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], records)
    first, second = latent[:, 0], (latent[:, 1] > 0).astype(float)
    y = 1 + first + second + chance.normal(size=records)
    noise = chance.normal(size=(records, 2)) * np.sqrt(0.2)
    return (first, second, y), (first + noise[:, 0], np.clip(second + noise[:, 1], 0, 1))


def least_squares(columns, y):
    """Coefficients and residual variance of ordinary least squares, and their errors."""
    design = np.column_stack(columns)
    beta = np.linalg.lstsq(design, y, rcond=None)[0]
    freedom = len(y) - design.shape[1]
    residual = float(((y - design @ beta) ** 2).sum() / freedom)
    errors = np.sqrt(np.diag(residual * np.linalg.inv(design.T @ design)))
    return np.append(beta, residual), np.append(errors, residual * np.sqrt(2 / freedom))
