"""Generalised models of noised predictors: time, memory and effective draws.

Baselines in the same run: statsmodels' GLM on the released values as they are (a biased answer,
and one estimate, not a posterior), and a latent-variable Metropolis sampler in numpy, which moves
every true value and the coefficients in turn. `bench_fit_numpyro` has NumPyro's NUTS.

Bias and coverage over many data sets: `python -m benchmarks.study_fit`.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.cost import cost
from sfumato.analysis.problem import NoisyNumber, Problem, Term
from sfumato.kernels.arrays import Floats

SIZES = (10_000, 100_000, 1_000_000)

SETUP = """
import numpy as np, statsmodels.api as sm
from benchmarks.bench_fit_generalised import made, metropolis
from sfumato.analysis.samplers import marginal
from sfumato.analysis.problem import Sampling
marginal.sample(made(4_000, {family!r}, 1)[0], Sampling(draws=50))
problem, exact = made({records}, {family!r}, 0)
design = problem.design(problem.numbers[0].seen[:, None], None)
family = sm.families.Poisson() if {family!r} == "poisson" else sm.families.Binomial()
"""
OURS = "found = marginal.sample(problem, Sampling())"
PLAIN = "sm.GLM(problem.y, design, family=family).fit()"
TRUE = np.array([0.2, 0.5, 0.7])
MOVES = 3000


def made(
    records: int,
    family: Any,
    seed: int,
    *,
    skewed: bool = False,
    noise: float = 0.5,
    true: Floats = TRUE,
) -> tuple[Problem, Problem]:
    """A clean and a noised predictor, the latter also without its noise."""
    chance = np.random.default_rng(seed)
    clean = chance.normal(size=records)
    x = 0.4 * clean + (chance.exponential if skewed else chance.normal)(size=records)
    z = x + np.sqrt(noise) * chance.normal(size=records)
    eta = true[0] + true[1] * clean + true[2] * x
    y = (
        chance.poisson(np.exp(eta))
        if family == "poisson"
        else chance.random(records) < 1 / (1 + np.exp(-eta))
    )

    def problem(seen: Floats, variance: float) -> Problem:
        return Problem(
            family=family,
            link="log" if family == "poisson" else "logit",
            y=y.astype(float),
            numbers=(NoisyNumber(name="x", observed=seen, variance=variance),),
            error=np.array([[variance]]),
            terms=(
                Term(name="1"),
                Term(name="clean", clean=clean),
                Term(name="x", numbers=((0, None),)),
            ),
            covariates=np.column_stack([np.ones(records), clean]),
        )

    return problem(z, noise), problem(x, 1e-10)


def metropolis(problem: Problem, moves: int, seed: int = 0) -> Floats:
    """Draws of the coefficients by moving true values and coefficients in turn."""
    chance = np.random.default_rng(seed)
    y, z = problem.y, problem.numbers[0].observed
    clean, noise = problem.covariates[:, 1], float(problem.error[0, 0])
    count, beta, x = len(y), TRUE.copy(), z.copy()
    poisson = problem.family == "poisson"

    def height(beta: Floats, x: Floats) -> Floats:
        eta = beta[0] + beta[1] * clean + beta[2] * x
        made: Floats = y * eta - (np.exp(eta) if poisson else np.logaddexp(0, eta))
        return made

    alpha, variance, kept = np.zeros(2), 1.0, []
    columns = np.column_stack([np.ones(count), clean])
    inverse = np.linalg.inv(columns.T @ columns)
    width = np.linalg.cholesky(
        np.linalg.inv(np.column_stack([columns, x]).T @ np.column_stack([columns, x]))
    )
    width *= 2.4 / np.sqrt(3) * (1 if poisson else 2.2)
    for _ in range(moves):
        centre = columns @ alpha
        new = x + 0.8 * np.sqrt(noise) * chance.normal(size=count)
        old_height = (
            height(beta, x) - (z - x) ** 2 / (2 * noise) - (x - centre) ** 2 / (2 * variance)
        )
        new_height = (
            height(beta, new) - (z - new) ** 2 / (2 * noise) - (new - centre) ** 2 / (2 * variance)
        )
        x = np.where(np.log(chance.random(count)) < new_height - old_height, new, x)
        alpha = inverse @ (columns.T @ x) + np.linalg.cholesky(inverse * variance) @ chance.normal(
            size=2
        )
        variance = ((x - columns @ alpha) ** 2).sum() / chance.chisquare(count)
        proposal = beta + width @ chance.normal(size=3)
        if np.log(chance.random()) < (height(proposal, x) - height(beta, x)).sum():
            beta = proposal
        kept.append(beta)
    return np.array(kept)[moves // 5 :]


def effective(draws: Floats) -> float:
    """Effective draws of one chain: Geyer's initial positive sequence, least over parameters."""
    least = np.inf
    for column in (draws - draws.mean(axis=0)).T:
        size = len(column)
        turned = np.fft.rfft(column, 2 * size)
        lags = np.fft.irfft(np.abs(turned) ** 2)[:size]
        lags = lags / lags[0] if lags[0] > 0 else np.ones(size)
        pairs = lags[0 : size - 1 : 2] + lags[1:size:2]
        end = int(np.argmax(pairs < 0)) or len(pairs)
        least = min(least, size / max(2 * pairs[:end].sum() - 1, 1e-9))
    return least


def speeds(family: str) -> None:
    """Print time and memory, against the plain fit."""
    print(f"{family:>10} {'GLM CPU s':>10} {'ours':>7} {'ratio':>7} {'peak MB':>8}")
    for records in SIZES:
        setup = SETUP.format(records=records, family=family)
        plain = cost(PLAIN, setup=setup)
        ours = cost(OURS, setup=setup)
        print(
            f"{records:>10,} {plain.cpu:>10.2f} {ours.cpu:>7.1f} {ours.cpu / plain.cpu:>7.0f} "
            f"{ours.peak:>8.0f}"
        )


def against_latent(family: str, records: int) -> None:
    """Print effective draws per CPU second, ours and of the latent-variable sampler."""
    from sfumato.analysis.problem import Sampling
    from sfumato.analysis.samplers.marginal import sampler as marginal

    problem, _ = made(records, family, 0)
    marginal.sample(problem, Sampling(draws=50))
    start = time.process_time()
    found = marginal.sample(problem, Sampling())
    ours = min(found.details["effective"], found.draws.shape[0] * found.draws.shape[1])
    ours /= time.process_time() - start
    start = time.process_time()
    theirs = effective(metropolis(problem, MOVES)) / (time.process_time() - start)
    print(f"{family:>10} {records:>8,} {ours:>10.1f} {theirs:>10.3f} {ours / theirs:>8.0f}")


def plain(problem: Problem) -> Floats:
    """The generalised linear model of released values as they are."""
    import statsmodels.api as sm

    design = problem.design(problem.numbers[0].observed[:, None], np.zeros((0, 0), np.int64))
    family = sm.families.Poisson() if problem.family == "poisson" else sm.families.Binomial()
    made: Floats = sm.GLM(problem.y, design, family=family).fit().params
    return made


def main() -> None:
    """Print the tables."""
    print(f"{'family':>10} {'records':>8} {'ours/s':>10} {'latent/s':>10} {'ratio':>8}")
    for family in ("bernoulli", "poisson"):
        for records in (1000, 10_000):
            against_latent(family, records)
    for family in ("bernoulli", "poisson"):
        speeds(family)


if __name__ == "__main__":
    main()
