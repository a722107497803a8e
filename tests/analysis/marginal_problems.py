"""Invented problems for the marginal likelihood."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import expit, ndtr

from sfumato.analysis.problem import Category, NoisyNumber, Problem, Term
from sfumato.kernels.arrays import Floats

FAMILIES = [
    ("bernoulli", "logit"),
    ("bernoulli", "probit"),
    ("binomial", "logit"),
    ("binomial", "probit"),
    ("poisson", "log"),
]
TRUE = (0.2, 0.5, 0.7)


def _draw_outcome(
    rng: np.random.Generator, family: str, link: str, eta: Floats, trials: Floats
) -> Floats:
    share = ndtr(eta) if link == "probit" else expit(eta)
    if family == "poisson":
        return rng.poisson(np.exp(eta)).astype(float)
    count = trials.astype(int) if family == "binomial" else 1
    return rng.binomial(count, share).astype(float)


def make_problem(
    rng: np.random.Generator,
    records: int,
    family: Any = "bernoulli",
    link: Any = "logit",
    *,
    noise: float = 0.5,
    skewed: bool = False,
) -> tuple[Problem, Problem]:
    """A clean and a noised predictor; the second problem has no noise."""
    clean = rng.normal(size=records)
    drawn = rng.exponential(size=records) if skewed else rng.normal(size=records)
    x = 0.4 * clean + drawn
    z = x + math.sqrt(noise) * rng.normal(size=records)
    trials = rng.integers(1, 6, records).astype(float)
    eta = TRUE[0] + TRUE[1] * clean + TRUE[2] * x
    y = _draw_outcome(rng, family, link, eta, trials)

    def problem(released_x: Floats, variance: float) -> Problem:
        return Problem(
            family=family,
            link=link,
            y=y,
            trials=trials if family == "binomial" else None,
            numbers=(NoisyNumber(name="x", observed=released_x, variance=variance),),
            error=np.array([[variance]]),
            terms=(
                Term(name="Intercept"),
                Term(name="clean", clean=clean),
                Term(name="x", numbers=((0, None),)),
            ),
            covariates=np.column_stack([np.ones(records), clean]),
        )

    return problem(z, noise), problem(x, 1e-10)


def make_rich_problem(rng: np.random.Generator, records: int, *, mixed: bool = False) -> Problem:
    """Two numbers with missing values, a category, and perhaps a noised outcome."""
    clean, true = rng.normal(size=records), rng.integers(0, 3, records)
    error = np.array([[0.2, 0.05], [0.05, 0.3]])
    x = rng.normal(size=(records, 2)) + 0.4 * clean[:, None]
    x[:, 1] += 0.5 * (true == 1)
    released_x = x + rng.multivariate_normal(np.zeros(2), error, size=records)
    released_x[rng.random(records) < 0.2, 0] = np.nan
    moves = np.full((3, 3), 0.1) + 0.7 * np.eye(3)
    released = np.array([rng.choice(3, p=moves[level]) for level in true])
    eta = 0.2 + 0.5 * clean + x @ np.array([0.7, -0.4]) + 0.8 * (true == 1)
    y = rng.binomial(1, expit(eta)).astype(float)
    outcome = None
    if mixed:
        y = np.where(rng.random(records) < 0.1, 1 - y, y)
        logs = np.log(np.where(y[:, None] == np.arange(2), 0.9, 0.1))
        outcome = Category(name="y", levels=("0", "1"), density=logs)
    return Problem(
        family="bernoulli",
        link="logit",
        y=y,
        outcome_category=outcome,
        numbers=tuple(
            NoisyNumber(name=f"x{i}", observed=released_x[:, i], variance=0.2) for i in range(2)
        ),
        categories=(
            Category(name="g", levels=("a", "b", "c"), density=np.log(moves[:, released].T)),
        ),
        error=error,
        terms=(
            Term(name="Intercept"),
            Term(name="clean", clean=clean),
            Term(name="x0", numbers=((0, None),)),
            Term(name="x1", numbers=((1, None),)),
            Term(name="b", levels=((0, 1),)),
            Term(name="c", levels=((0, 2),)),
        ),
        covariates=np.column_stack([np.ones(records), clean]),
    )
