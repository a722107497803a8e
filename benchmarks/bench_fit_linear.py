"""Linear models of noised data: effective draws per CPU second, growth, bias and coverage.

The baseline is a plain Gibbs sampler in numpy that draws true values too, in the same run; for
NumPyro see `bench_fit_numpyro`. Our own Gibbs sampler, which the engine falls back on where the
posterior is far from normal, has a column too. `python -m benchmarks.bench_fit_linear study` prints
Table 4 of paper 001 (400 data sets) and a study of skewed predictors instead, and `... exam PATH`
Table 5 from the exam data, over draws of the noise.
"""

from __future__ import annotations

import os
import sys
import time

import numpy as np
import polars as pl
from tests.analysis.linear_problems import (
    build_level_problem,
    build_number_problem,
    fit_least_squares,
    simulate_table_4,
)

from benchmarks.cost import cost
from sfumato.analysis.problem import Problem, Sampling
from sfumato.analysis.samplers import exact as saturated
from sfumato.analysis.samplers.gibbs import independence
from sfumato.analysis.samplers.gibbs import sampler as collapsed

SIZES = (1_000, 10_000, 100_000)
MILLION = """
import numpy as np
from sfumato.analysis.samplers import exact as saturated
from sfumato.analysis.problem import Sampling
from tests.analysis.linear_problems import build_number_problem
chance = np.random.default_rng(1)
true, clean = chance.normal(size=(2, {records}))
y = 1 + true - clean + chance.normal(size={records})
seen = true + chance.normal(size={records}) / 2
problem = build_number_problem(y, seen, 0.25, clean=clean)
small = build_number_problem(y[:100], seen[:100], 0.25, clean=clean[:100])
saturated.sample(small, Sampling(draws=10))
"""
WORK = "assert saturated.can(problem); saturated.sample(problem, Sampling())"


def effective(draws: np.ndarray) -> float:
    """Effective draws of (chain, draw): Geyer's initial positive sequence."""
    chains, length = draws.shape
    away = draws - draws.mean(axis=1, keepdims=True)
    spectrum = np.abs(np.fft.rfft(away, 2 * length, axis=1)) ** 2
    covariance = np.fft.irfft(spectrum, axis=1)[:, :length].mean(axis=0) / length
    between = draws.mean(axis=1).var(ddof=1) if chains > 1 else 0.0
    whole = covariance[0] + between
    ratio = 1 - (covariance[0] - covariance) / whole
    total, at = 1.0, 1
    while at + 1 < length and ratio[at] + ratio[at + 1] > 0:
        total += 2 * (ratio[at] + ratio[at + 1])
        at += 2
    return float(chains * length / total)


def plain_gibbs(y, seen, density, variance: float, draws: int, chance) -> np.ndarray:
    """The baseline: true numbers and levels drawn record by record, then coefficients."""
    n = len(y)
    true, level = seen.copy(), density.argmax(axis=1).astype(float)
    kept = np.zeros((draws, 4))
    for at in range(draws):
        design = np.column_stack([np.ones(n), true, level])
        inverse = np.linalg.inv(design.T @ design)
        center = inverse @ (design.T @ y)
        residual = ((y - design @ center) ** 2).sum() / chance.chisquare(n - 3)
        beta = chance.multivariate_normal(center, residual * inverse)
        own = design[:, [0, 2]]
        back = np.linalg.inv(own.T @ own)
        middle = back @ (own.T @ true)
        spread = ((true - own @ middle) ** 2).sum() / chance.chisquare(n - 2)
        gamma = chance.multivariate_normal(middle, spread * back)
        share = chance.beta(0.5 + level.sum(), 0.5 + n - level.sum())
        away = y - beta[0] - beta[1] * true
        odds = np.log(share / (1 - share)) + density[:, 1] - density[:, 0]
        odds += (away**2 - (away - beta[2]) ** 2) / 2 / residual
        off = true - gamma[0]
        odds += (off**2 - (off - gamma[1]) ** 2) / 2 / spread
        level = (chance.random(n) < 1 / (1 + np.exp(-np.clip(odds, -500, 500)))).astype(float)
        weight = 1 / variance + 1 / spread + beta[1] ** 2 / residual
        pull = seen / variance + (gamma[0] + gamma[1] * level) / spread
        pull += beta[1] * (y - beta[0] - beta[2] * level) / residual
        true = pull / weight + chance.normal(size=n) / np.sqrt(weight)
        kept[at] = *beta, residual
    return kept


def ours(problem: Problem, draws: int, *, most: int) -> float:
    """Effective draws per CPU second; levels are summed out of `most` parameters at most."""
    before, independence.MOST_PARAMETERS = independence.MOST_PARAMETERS, most
    collapsed.sample(problem, Sampling(chains=1, draws=1, warmup=1))
    start = time.process_time()
    found = collapsed.sample(problem, Sampling(chains=2, draws=draws, warmup=100)).draws
    spent = time.process_time() - start
    independence.MOST_PARAMETERS = before
    return min(effective(found[..., at]) for at in range(4)) / spent


def speed() -> None:
    """Print effective draws per CPU second, and our ratio to the baseline."""
    print(f"load average {', '.join(f'{one:.1f}' for one in os.getloadavg())}")
    print(f"{'records':>10} {'ours /CPU s':>12} {'our Gibbs':>10} {'plain Gibbs':>12} {'ratio':>7}")
    for records in SIZES:
        (_, _, y), released = simulate_table_4(np.random.default_rng(1), records)
        problem = build_level_problem(y, *released, 0.2, shape="normal")
        draws = 1000 if records < SIZES[-1] else 300
        rate = ours(problem, draws, most=independence.MOST_PARAMETERS)
        gibbs = ours(problem, draws, most=0)
        density = problem.categories[0].density
        start = time.process_time()
        theirs = plain_gibbs(y, released[0], density, 0.2, draws, np.random.default_rng(2))[100:]
        plain = time.process_time() - start
        other = min(effective(theirs[None, :, at]) for at in range(4)) / plain
        print(f"{records:>10,} {rate:>12.0f} {gibbs:>10.0f} {other:>12.1f} {rate / other:>7.0f}")
    print(f"{'records':>10} {'saturated CPU s':>16} {'peak MB':>8}")
    for records in (100_000, 1_000_000):
        used = cost(WORK, setup=MILLION.format(records=records), repeats=2)
        print(f"{records:>10,} {used.cpu:>16.2f} {used.peak:>8.0f}")


def study(times: int = 400) -> None:
    """Print bias against the fit without noise, with its error, and coverage of 95 % intervals."""
    away, inside, naive = [], np.zeros(4), []
    for at in range(times):
        (first, second, y), released = simulate_table_4(np.random.default_rng([400, at]))
        draws = collapsed.sample(
            build_level_problem(y, *released, 0.2), Sampling(chains=4, draws=200, warmup=100)
        ).draws.reshape(-1, 4)
        away.append(draws.mean(axis=0) - fit_least_squares([np.ones(1000), first, second], y)[0])
        naive.append(fit_least_squares([np.ones(1000), *released], y)[0])
        low, high = np.quantile(draws, [0.025, 0.975], axis=0)
        inside += (low <= 1) & (high >= 1)
    print(f"Table 4, {times} data sets: intercept, x1, x2, residual variance")
    print("naive      ", np.mean(naive, axis=0).round(4))
    print("bias       ", np.mean(away, axis=0).round(4))
    print("its error  ", (np.std(away, axis=0) / np.sqrt(times)).round(4))
    print("coverage   ", (inside / times).round(3))
    for shape in ("normal", "skewed"):
        inside, means = np.zeros(3), []
        for at in range(2 * times):
            chance = np.random.default_rng([401, at])
            skewed = shape == "skewed"
            true = chance.exponential(size=400) if skewed else chance.normal(size=400)
            y = 1 + true + chance.normal(size=400)
            problem = build_number_problem(y, true + chance.normal(size=400) * 0.7, 0.49)
            draws = saturated.sample(problem, Sampling(chains=1, draws=1000)).draws[0]
            low, high = np.quantile(draws, [0.025, 0.975], axis=0)
            inside += (low <= 1) & (high >= 1)
            means.append(np.median(draws, axis=0))
        print(f"saturated, {shape}: median {np.mean(means, axis=0).round(3)},", end=" ")
        print(f"coverage {(inside / 2 / times).round(3)} of {2 * times}")


def exam(path: str, times: int = 10) -> None:
    """Print means over draws of the noise, with schools in the model of true values and without."""
    frame = pl.read_csv(path)
    girl = (frame["sex"] == "F").to_numpy().astype(float)
    school = np.unique(frame["school"].to_numpy(), return_inverse=True)[1].astype(np.int64)
    y, score = frame["normexam"].to_numpy(), frame["standLRT"].to_numpy()
    found: dict[bool, list[np.ndarray]] = {True: [], False: []}
    for at in range(times):
        noise = np.random.default_rng([5, at]).normal(size=(2, len(y))) * np.sqrt(0.2)
        for clustered, means in found.items():
            problem = build_level_problem(
                y, score + noise[0], np.clip(girl + noise[1], 0, 1), 0.2,
                groups=school, random=(0,), clustered=clustered,
            )  # fmt: skip
            drawn = collapsed.sample(problem, Sampling(chains=4, draws=250, warmup=100)).draws
            means.append(drawn.reshape(-1, 5).mean(axis=0))
    print(f"Table 5, {times} draws of noise: intercept, score, girl, residual, school variance")
    for clustered, means in found.items():
        print("clustered    " if clustered else "not clustered", np.mean(means, axis=0).round(3))
        print("   its SD    ", np.std(means, axis=0, ddof=1).round(3))


if __name__ == "__main__":
    if "exam" in sys.argv:
        exam(sys.argv[-1])
    else:
        study() if "study" in sys.argv else speed()
