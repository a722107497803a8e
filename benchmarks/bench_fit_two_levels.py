"""How well chains of two-level logit models mix, and how fast.

`python -m benchmarks.bench_fit_two_levels` fits simulated data of the size and kind of two known
data sets with the default draws: `visits` (312 patients with about 6 visits each, as pbcseq of R's
survival package) and `herds` (56 counts of 15 herds, as cbpp of lme4), each with noise on one
predictor. It prints the largest R-hat, the fewest effective draws of a parameter, and those per CPU
second.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import polars as pl

import sfumato as sf


def simulate_visits(seed: int = 1) -> tuple[pl.DataFrame, str, dict[str, Any]]:
    """Patients with a yes/no at each visit."""
    rng = np.random.default_rng(seed)
    visits = rng.poisson(5.23, size=312) + 1
    patient = np.repeat(np.arange(312), visits)
    year = np.concatenate([np.sort(rng.uniform(0, 10, count)) for count in visits])
    records = len(patient)
    level = 0.9 * rng.normal(size=312)[patient] + 0.05 * year + 0.4 * rng.normal(size=records)
    age = rng.normal(size=312)[patient]
    eta = -2.5 + 1.2 * level + 0.3 * age + 0.15 * year + 2 * rng.normal(size=312)[patient]
    y = (rng.uniform(size=records) < 1 / (1 + np.exp(-eta))).astype(int)
    x = level + np.sqrt(0.2) * rng.normal(size=records)
    data = pl.DataFrame({"y": y, "x": x, "age": age, "year": year, "patient": patient})
    options = {"noise": {"x": sf.Gaussian(variance=0.2)}, "family": "bernoulli"}
    return data, "y ~ x + age + year + (1 | patient)", options


def simulate_herds(seed: int = 1) -> tuple[pl.DataFrame, str, dict[str, Any]]:
    """Herds with counts of ill animals in up to four periods."""
    rng = np.random.default_rng(seed)
    periods = np.array([4] * 11 + [3] * 4)
    herd = np.repeat(np.arange(15), periods)
    period = np.concatenate([np.arange(count) for count in periods])
    size, x = rng.integers(5, 30, size=len(herd)), rng.normal(size=len(herd))
    eta = -1.4 - 0.5 * period + 0.5 * x + 0.65 * rng.normal(size=15)[herd]
    y = rng.binomial(size, 1 / (1 + np.exp(-eta)))
    released = x + 0.5 * rng.normal(size=len(herd))
    data = pl.DataFrame({"y": y, "size": size, "x": released, "period": period, "herd": herd})
    noise = {"x": sf.Gaussian(variance=0.25)}
    return data, "y ~ x + period + (1 | herd)", {
        "noise": noise, "family": "binomial", "trials": "size",
    }  # fmt: skip


CASES = {"visits": simulate_visits, "herds": simulate_herds}


def main() -> None:
    """Print a row for each case."""
    print("| data | records | draws | largest R-hat | fewest effective | per CPU second |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in sys.argv[1:] or CASES:
        data, formula, options = CASES[name]()
        start = time.process_time()
        fit = sf.fit(formula, data, **options)
        seconds = time.process_time() - start
        assert fit.sampled is not None  # noqa: S101 - it has draws
        summary = fit.summary()
        chains, draws, _ = fit.sampled.shape
        print(
            f"| {name} | {len(data):,} | {chains} x {draws:,} | {summary['rhat'].max():.3f} | "
            f"{summary['ess'].min():.0f} | {summary['ess'].min() / seconds:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
