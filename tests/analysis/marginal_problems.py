"""Invented problems for the marginal likelihood."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import expit, ndtr

from sfumato.analysis.problem import Category, Number, Problem, Term
from sfumato.kernels.arrays import Floats

FAMILIES = [
    ("bernoulli", "logit"),
    ("bernoulli", "probit"),
    ("binomial", "logit"),
    ("binomial", "probit"),
    ("poisson", "log"),
]
TRUE = (0.2, 0.5, 0.7)


def _outcome(
    chance: np.random.Generator, family: str, link: str, eta: Floats, trials: Floats
) -> Floats:
    share = ndtr(eta) if link == "probit" else expit(eta)
    if family == "poisson":
        return chance.poisson(np.exp(eta)).astype(float)
    count = trials.astype(int) if family == "binomial" else 1
    return chance.binomial(count, share).astype(float)


def made(
    chance: np.random.Generator,
    records: int,
    family: Any = "bernoulli",
    link: Any = "logit",
    *,
    noise: float = 0.5,
    skewed: bool = False,
) -> tuple[Problem, Problem]:
    """A clean and a noised predictor; the second problem has no noise."""
    clean = chance.normal(size=records)
    drawn = chance.exponential(size=records) if skewed else chance.normal(size=records)
    x = 0.4 * clean + drawn
    z = x + math.sqrt(noise) * chance.normal(size=records)
    trials = chance.integers(1, 6, records).astype(float)
    eta = TRUE[0] + TRUE[1] * clean + TRUE[2] * x
    y = _outcome(chance, family, link, eta, trials)

    def problem(seen: Floats, variance: float) -> Problem:
        return Problem(
            family=family,
            link=link,
            y=y,
            trials=trials if family == "binomial" else None,
            numbers=(Number(name="x", seen=seen, variance=variance),),
            error=np.array([[variance]]),
            terms=(
                Term(name="Intercept"),
                Term(name="clean", clean=clean),
                Term(name="x", numbers=((0, None),)),
            ),
            covariates=np.column_stack([np.ones(records), clean]),
        )

    return problem(z, noise), problem(x, 1e-10)


def rich(chance: np.random.Generator, records: int, *, mixed: bool = False) -> Problem:
    """Two numbers with missing values, a category, and perhaps a noised outcome."""
    clean, true = chance.normal(size=records), chance.integers(0, 3, records)
    error = np.array([[0.2, 0.05], [0.05, 0.3]])
    x = chance.normal(size=(records, 2)) + 0.4 * clean[:, None]
    x[:, 1] += 0.5 * (true == 1)
    seen = x + chance.multivariate_normal(np.zeros(2), error, size=records)
    seen[chance.random(records) < 0.2, 0] = np.nan
    moves = np.full((3, 3), 0.1) + 0.7 * np.eye(3)
    released = np.array([chance.choice(3, p=moves[one]) for one in true])
    eta = 0.2 + 0.5 * clean + x @ np.array([0.7, -0.4]) + 0.8 * (true == 1)
    y = chance.binomial(1, expit(eta)).astype(float)
    outcome = None
    if mixed:
        y = np.where(chance.random(records) < 0.1, 1 - y, y)
        logs = np.log(np.where(y[:, None] == np.arange(2), 0.9, 0.1))
        outcome = Category(name="y", levels=("0", "1"), density=logs)
    return Problem(
        family="bernoulli",
        link="logit",
        y=y,
        outcome_category=outcome,
        numbers=tuple(Number(name=f"x{at}", seen=seen[:, at], variance=0.2) for at in range(2)),
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
