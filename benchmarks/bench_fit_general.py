"""Effective draws per CPU second of the general engine, against two random walks in the same run.

The model: y on x, x ** 2, a clean z and x:z, where x has normal noise. Both baselines draw the same
posterior: true values by a random walk of tuned length, coefficients and variances by Gibbs. One
goes through the records in a Python loop, one takes all of them at once. NUTS on the latent form
would be the third; NumPyro is not installed here. Counted is the worst coefficient. The walk that
takes all records at once is written for this one model and knows its derivatives to be needless;
it shows what generality costs.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable

import numpy as np

from sfumato.analysis.diagnostics import bulk_ess
from sfumato.analysis.problem import NoisyNumber, Problem, Sampling, Term
from sfumato.analysis.samplers.metropolis import sampler as metropolis
from sfumato.analysis.samplers.metropolis.coefficients import draw_normal
from sfumato.kernels.arrays import Floats
from sfumato.kernels.exact_sums import use_one_thread

SIZES = {1_000: 2000, 10_000: 1000, 100_000: 300}
"""Records, and draws of each sampler for them."""
NOISE = 0.3
WARMUP = 200
LOOPED = 10_000
"""The most records that the loop is asked for, and the share of the draws it makes."""
LENGTH = 2.4
"""Of a random walk in one dimension, in SD of what it walks in."""


def made(records: int) -> Problem:
    """Records of the model."""
    rng = np.random.default_rng(records)
    z = rng.normal(size=records)
    x = z / 2 + rng.normal(size=records)
    y = 1 + x - z / 2 + x**2 / 2 + 0.3 * x * z + rng.normal(size=records)
    seen = x + rng.normal(size=records) * NOISE**0.5
    return Problem(
        family="gaussian",
        link="identity",
        y=y,
        numbers=(NoisyNumber(name="x", observed=seen, variance=NOISE),),
        error=np.array([[NOISE]]),
        terms=(
            Term(name="Intercept"),
            Term(name="x", numbers=((0, None),)),
            Term(name="x ** 2", numbers=((0, np.square),)),
            Term(name="z", clean=z),
            Term(name="x:z", clean=z, numbers=((0, None),)),
        ),
        covariates=np.column_stack([np.ones(records), z]),
        shape="normal",
    )


Walk = Callable[[Problem, Floats, Floats, float, Floats, float, np.random.Generator], Floats]


def at_once(
    problem: Problem, x: Floats, beta: Floats, variance: float, centre: Floats, spread: float,
    chance: np.random.Generator,
) -> Floats:  # fmt: skip
    """A random walk of all records at once."""
    z, seen = problem.covariates[:, 1], problem.numbers[0].observed

    def log(at: Floats) -> Floats:
        eta = beta[0] + beta[1] * at + beta[2] * at**2 + beta[3] * z + beta[4] * at * z
        made: Floats = -0.5 * (problem.y - eta) ** 2 / variance
        return made - 0.5 * (seen - at) ** 2 / NOISE - 0.5 * (at - centre) ** 2 / spread

    width = LENGTH / math.sqrt(1 / NOISE + 1 / spread + 2 / variance)
    drawn = x + width * chance.standard_normal(len(x))
    kept = np.log(chance.uniform(size=len(x))) < log(drawn) - log(x)
    return np.where(kept, drawn, x)


def one_by_one(
    problem: Problem, x: Floats, beta: Floats, variance: float, centre: Floats, spread: float,
    chance: np.random.Generator,
) -> Floats:  # fmt: skip
    """The same, record by record."""
    width = LENGTH / math.sqrt(1 / NOISE + 1 / spread + 2 / variance)
    own = random.Random(int(chance.integers(1 << 31)))  # noqa: S311 - a sampler, not a secret
    zs, seens = problem.covariates[:, 1].tolist(), problem.numbers[0].observed.tolist()
    made = []
    a, b, c, d, e = beta.tolist()
    rows = zip(problem.y.tolist(), zs, seens, x.tolist(), centre.tolist(), strict=True)
    for y, z, seen, now, middle in rows:
        then = now + width * own.gauss(0.0, 1.0)
        logs = []
        for at in (now, then):
            left = y - (a + b * at + c * at * at + d * z + e * at * z)
            own_part = (seen - at) ** 2 / NOISE + (at - middle) ** 2 / spread
            logs.append(-0.5 * (left * left / variance + own_part))
        made.append(then if math.log(own.random()) < logs[1] - logs[0] else now)
    return np.array(made)


def walked(problem: Problem, walk: Walk, draws: int) -> Floats:
    """(draw, coefficient) of a random walk within Gibbs."""
    chance = np.random.default_rng(1)
    y, z, covariates = problem.y, problem.covariates[:, 1], problem.covariates
    x = problem.numbers[0].observed / (1 + NOISE)
    variance, spread, kept = 1.0, 1.0, []
    for _ in range(draws + WARMUP):
        design = np.column_stack([np.ones(len(y)), x, x**2, z, x * z])
        beta = draw_normal(design.T @ design / variance, design.T @ y / variance, chance)
        left = y - design @ beta
        variance = float(left @ left) / 2 / chance.standard_gamma(len(y) / 2)
        slopes = draw_normal(covariates.T @ covariates / spread, covariates.T @ x / spread, chance)
        centre = covariates @ slopes
        spread = float((x - centre) @ (x - centre)) / 2 / chance.standard_gamma(len(y) / 2 - 1)
        x = walk(problem, x, beta, variance, centre, spread, chance)
        kept.append(beta)
    return np.array(kept[WARMUP:])


def rate(draw: Callable[[], Floats]) -> tuple[float, Floats]:
    """Effective draws per CPU second of the worst coefficient, and the means."""
    start = time.process_time()
    found = draw()
    used = time.process_time() - start
    effective = min(bulk_ess(found[:, at][None]) for at in range(found.shape[1]))
    return effective / used, found.mean(axis=0)


def main() -> None:
    """Print the rates and their ratios."""
    print(f"{'records':>8} {'ours':>8} {'at once':>8} {'loop':>8} {'ratios':>14} {'apart':>6}")
    with use_one_thread():
        for records, draws in SIZES.items():
            problem = made(records)
            sampling = Sampling(chains=1, draws=draws, warmup=WARMUP)

            def ours(problem: Problem = problem, sampling: Sampling = sampling) -> Floats:
                return metropolis.sample(problem, sampling).draws[0, :, :5]

            def theirs(problem: Problem = problem, draws: int = draws) -> Floats:
                return walked(problem, at_once, draws)

            def looped(problem: Problem = problem, draws: int = draws) -> Floats:
                return walked(problem, one_by_one, draws // 4)

            mine, means = rate(ours)
            other, other_means = rate(theirs)
            loop = rate(looped)[0] if records <= LOOPED else math.nan
            apart = float(np.abs(means - other_means).max())
            print(
                f"{records:>8,} {mine:>8.2f} {other:>8.2f} {loop:>8.3f} "
                f"{mine / other:>6.1f} {mine / loop:>7.1f} {apart:>6.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
