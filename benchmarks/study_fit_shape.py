"""What the unknown shape of a skewed predictor costs: `fit` beside posteriors that know it.

`python -m benchmarks.study_fit_shape logit --sets 95 --into FOLDER` takes the data sets of
`study_fit logit_skewed`, fitted already where the folder has them. For each it draws two more
posteriors by importance sampling: of the data without noise, and of the noised data with the
distribution of true values known (exponential about 0.4 of the clean predictor). The bias that
both noised fits have is that of a posterior mean; what one has more is due to the shape.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench_fit_generalised import made
from benchmarks.study_fit import TRUE, run
from sfumato.kernels.arrays import Floats

FAMILIES = {"logit": "bernoulli", "poisson": "poisson"}
RECORDS, NOISE = 1000, 0.5
NODES = 24
FREEDOM = 7


def posterior(
    log: Callable[[Floats], float], start: Floats, root: Floats, draws: int, seed: int
) -> Floats:
    """The mean under flat priors: t proposals, tuned once by their own weights."""
    # Chance of its own for each data set, or its errors would not average out.
    chance = np.random.default_rng([seed, 5])
    size = len(start)
    for many in (draws // 4, draws):
        steps = chance.standard_normal((many, size))
        steps /= np.sqrt(chance.chisquare(FREEDOM, many) / FREEDOM)[:, None]
        theta = start + steps @ root.T
        own = -(FREEDOM + size) / 2 * np.log1p((steps**2).sum(axis=1) / FREEDOM)
        logs = np.array([log(one) for one in theta]) - own
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        start = weights @ theta
        away = theta - start
        root = np.linalg.cholesky(away.T @ (weights[:, None] * away))
    return start


def likelihood(family: str, y: Floats, clean: Floats, x: Floats, w: Floats) -> Any:
    """The log likelihood with true values (record, node) of weights (record, node)."""

    def log(beta: Floats) -> float:
        eta = beta[0] + beta[1] * clean[:, None] + beta[2] * x
        if family == "poisson":
            each = y[:, None] * eta - np.exp(eta)
            top = each.max(axis=1, keepdims=True)
            return float((np.log((w * np.exp(each - top)).sum(axis=1)) + top[:, 0]).sum())
        chances = (w / (1 + np.exp(-eta))).sum(axis=1)
        return float(np.log(np.where(y > 0, chances, 1 - chances)).sum())

    return log


def nodes(clean: Floats, seen: Floats) -> tuple[Floats, Floats]:
    """True values given released ones: a normal cut at nought, by Gauss and Legendre."""
    places, weights = np.polynomial.legendre.leggauss(NODES)
    sd = np.sqrt(NOISE)
    centre = seen - 0.4 * clean - NOISE
    low = np.maximum(0, centre - 6.5 * sd)
    high = np.maximum(centre, 0) + 6.5 * sd
    # Far beyond nought the rest is all but exponential.
    steep = 30 * NOISE / np.maximum(-centre, 1e-9)
    high = np.maximum(np.where(centre < 0, np.minimum(high, steep), high), low + 1e-3)
    value = (high + low)[:, None] / 2 + (high - low)[:, None] / 2 * places
    w = weights * np.exp(-0.5 * ((value - centre[:, None]) / sd) ** 2)
    return 0.4 * clean[:, None] + value, w / w.sum(axis=1, keepdims=True)


def compared(name: str, row: dict[str, Any]) -> tuple[Floats, Floats, Floats]:
    """Posterior means, relative to the truth: ours, with the shape known, without noise."""
    family = FAMILIES[name]
    true = np.array(TRUE[family])
    noised, exact = made(RECORDS, family, 1000 + row["set"], skewed=True, true=true)
    y, clean, x = exact.y, exact.covariates[:, 1], exact.numbers[0].observed
    start, root = np.array(row["clean"]), np.diag(row["spread"])
    values, weights = nodes(clean, noised.numbers[0].observed)
    known = posterior(likelihood(family, y, clean, values, weights), start, root, 1000, row["set"])
    alone = likelihood(family, y, clean, x[:, None], np.ones((RECORDS, 1)))
    free = posterior(alone, start, root * 0.7, 3000, row["set"])
    return np.array(row["mean"]) / true, known / true, free / true


def main() -> None:
    """Print the differences, with their Monte Carlo errors."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("study", choices=FAMILIES)
    options.add_argument("--sets", type=int, default=100)
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--into", type=Path)
    asked = options.parse_args()
    wanted = range(asked.first, asked.first + asked.sets)
    rows = run(f"{asked.study}_skewed", wanted, asked.into)
    ours, known, free = np.swapaxes([compared(asked.study, one) for one in rows], 0, 1)
    print(f"{asked.study}: {len(rows)} data sets; intercept, clean, noised")
    for what, away in (
        ("ours less without noise", ours - free),
        ("shape known less without noise", known - free),
        ("ours less shape known", ours - known),
    ):
        error = away.std(axis=0, ddof=1) / np.sqrt(len(rows))
        each = (f"{a:+.2%} ({b:.2%})" for a, b in zip(away.mean(axis=0), error, strict=True))
        print(f"{what:>32}", *each)


if __name__ == "__main__":
    main()
