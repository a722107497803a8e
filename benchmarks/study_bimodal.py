"""What intervals of the design `bimodal` can be expected to cover: the family of x known.

`python -m benchmarks.study_bimodal --first 30000 --sets 1000` fits the data sets of
`study_designs --designs bimodal` by maximum likelihood, with what `fit` must find out given: x is
normal in one group and a mixture of two normals in the other. Released values and outcome are then
normal together, given the mode. It prints how estimates are spread in standard errors, how often
intervals cover, and the same of least squares before noise. `--into FOLDER` compares the fits that
`study_designs` left there, data set by data set, which chance of the data cannot blur.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from scipy.stats import binomtest

from benchmarks.study_designs import DESIGNS, release
from sfumato.kernels.arrays import Floats

DESIGN = DESIGNS["bimodal"]
NOISE = DESIGN.variances["x"]
START = np.array([0.2, 0.5, 0.3, 0.5, 0.0, 0.0, 0.0, -1.5, 1.5, -1.8, -1.8, 0.0])
"""Coefficients, log residual variance; of x: mean and log variance; both means, both log variances
and log odds of the modes."""
PRODUCT = 3
STEP = 1e-3


def log_pair(
    y: Floats, released: Floats, line: tuple[float, float], x: Floats, residual: float
) -> Floats:
    """Log density of outcome and released value, of normal x with mean and log variance."""
    mean, variance = x[0], np.exp(x[1])
    intercept, slope = line
    of_y, of_released, both = slope**2 * variance + residual, variance + NOISE, slope * variance
    determinant = of_y * of_released - both**2
    a, b = y - intercept - slope * mean, released - mean
    squares = (of_released * a**2 - 2 * both * a * b + of_y * b**2) / determinant
    log: Floats = -0.5 * (np.log(determinant) + squares)
    return log


def compute_loss(theta: Floats, y: Floats, released: Floats, z: Floats) -> float:
    """Minus the log likelihood."""
    intercept, slope, of_z, product, residual = *theta[:4], float(np.exp(theta[4]))
    first, second = z == 0, z == 1
    log = log_pair(y[first], released[first], (intercept, slope), theta[5:7], residual).sum()
    line = (intercept + of_z, slope + product)
    modes = [
        log_pair(y[second], released[second], line, theta[[7 + mode, 9 + mode]], residual)
        for mode in range(2)
    ]
    share = -np.logaddexp(0.0, -theta[11])
    return -float(log + np.logaddexp(share + modes[0], share - theta[11] + modes[1]).sum())


def fit_known_family(y: Floats, released: Floats, z: Floats) -> tuple[float, float]:
    """The coefficient of the product, and its standard error from the information observed."""

    def loss(theta: Floats) -> float:
        return compute_loss(theta, y, released, z)

    theta = minimize(loss, START, method="BFGS").x
    steps = STEP * np.eye(len(theta))
    information = np.array(
        [
            [
                loss(theta + a + b)
                - loss(theta + a - b)
                - loss(theta - a + b)
                + loss(theta - a - b)
                for a in steps
            ]
            for b in steps
        ]
    ) / (4 * STEP**2)
    return float(theta[PRODUCT]), float(np.sqrt(np.linalg.inv(information)[PRODUCT, PRODUCT]))


def fit_original(seed: int) -> tuple[float, float]:
    """The coefficient of the product by least squares before noise, and its standard error."""
    frame, _ = release(replace(DESIGN, variances={}), seed)
    y, x, z = (frame[name].to_numpy() for name in "yxz")
    design = np.column_stack([np.ones(len(y)), x, z, x * z])
    gram = np.linalg.inv(design.T @ design)
    beta = gram @ (design.T @ y)
    variance = float(((y - design @ beta) ** 2).sum()) / (len(y) - len(beta))
    return float(beta[PRODUCT]), float(np.sqrt(variance * gram[PRODUCT, PRODUCT]))


def describe(name: str, estimates: Floats) -> str:
    """How estimates (data set; value, standard error) lie about the truth."""
    away = (estimates[:, 0] - DESIGN.true) / estimates[:, 1]
    hits = int((np.abs(away) < 1.96).sum())  # noqa: PLR2004 - of 95 % intervals
    bounds = binomtest(hits, len(away)).proportion_ci()
    return (
        f"{name}: {len(away)} data sets, bias {away.mean():+.2f}, SD {away.std(ddof=1):.3f} "
        f"({1 / np.sqrt(2 * len(away)):.3f}), coverage {hits / len(away):.3f} "
        f"({bounds.low:.3f} to {bounds.high:.3f})"
    )


def main() -> None:
    """Print what intervals cover if the family is known, and how `fit` differs from that."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--sets", type=int, default=1000)
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--into", type=Path)
    given = options.parse_args()
    seeds, fits = list(range(given.first, given.first + given.sets)), {}
    if given.into is not None:
        lines = (given.into / "bimodal.jsonl").read_text(encoding="utf-8").splitlines()
        fits = {row["set"]: (row["mean"], row["sd"]) for row in map(json.loads, lines)}
        seeds = [seed for seed in seeds if seed in fits]
    known = []
    for seed in seeds:
        frame, _ = release(DESIGN, seed)
        known.append(fit_known_family(*(frame[name].to_numpy() for name in "yxz")))
    estimates = np.array(known)
    print(describe("family known", estimates))
    print(describe("before noise", np.array([fit_original(seed) for seed in seeds])))
    if fits:
        ours = np.array([fits[seed] for seed in seeds])
        gap = (ours[:, 0] - estimates[:, 0]) / estimates[:, 1]
        ratio = ours[:, 1] / estimates[:, 1]
        error = np.sqrt(len(seeds))
        print(describe("fit", ours))
        print(
            f"fit less family known: {gap.mean():+.3f} ({gap.std(ddof=1) / error:.3f}) standard "
            f"errors; SD over standard error {ratio.mean():.3f} ({ratio.std(ddof=1) / error:.3f})"
        )


if __name__ == "__main__":
    main()
