"""Coverage of `explore`: how often its intervals hold what the original shows.

Many data sets are drawn from a known distribution, noise is added, and the noise is taken out
again. Beside the coverage stands that of the naive numbers with intervals of the same width.

    python -m benchmarks.study_explore --sets 200
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import polars as pl

import sfumato as sf

Draw = Callable[[np.random.Generator, int], np.ndarray]
_LEFT, _YES = 0.4, 0.2
_KINDS = ("mean", "sd", "q0.05", "q0.25", "q0.5", "q0.75", "q0.95")
_SHAPES: dict[str, tuple[Draw, tuple[float, float] | None]] = {
    "normal": (lambda rng, n: rng.normal(size=n), None),
    "skewed (gamma)": (lambda rng, n: rng.gamma(3, size=n), (0, 1e6)),
    "lognormal": (lambda rng, n: np.exp(rng.normal(0, 0.6, n)), (0, 1e6)),
    "two humps": (
        lambda rng, n: np.where(
            rng.random(n) < _LEFT, rng.normal(-1.4, 0.5, n), rng.normal(0.9, 0.5, n)
        ),
        None,
    ),
    "heavy tails (t5)": (lambda rng, n: rng.standard_t(5, size=n), None),
    "uniform, domain declared": (lambda rng, n: rng.uniform(-1.7, 1.7, n), (-1.7, 1.7)),
    "uniform, domain not declared": (lambda rng, n: rng.uniform(-1.7, 1.7, n), None),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    start = time.process_time()
    print(f"{arguments.sets} sets of {arguments.records:,} records; 95 % intervals\n")
    print(
        "| shape | noise | mean | SD | quantiles 5, 25, 50, 75, 95 % | naive quantiles | warned |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, (draw, domain) in _SHAPES.items():
        for share in (0.1, 0.3):
            print(_study(name, draw, domain, share, arguments), flush=True)
    _study_pairs(arguments)
    print(f"\n{time.process_time() - start:.0f} CPU s")


def _study(
    name: str,
    draw: Draw,
    domain: tuple[float, float] | None,
    share: float,
    arguments: argparse.Namespace,
) -> str:
    truth = draw(np.random.default_rng(999), 2_000_000)
    expected = np.array(
        [truth.mean(), truth.std(), *np.quantile(truth, [0.05, 0.25, 0.5, 0.75, 0.95])]
    )
    sd = float(np.sqrt(share) * truth.std())
    schema = sf.Schema({"x": sf.Column(role="sensitive", kind="continuous", domain=domain)})
    held, naive, warned = [], [], 0
    for number in range(arguments.sets):
        rng = np.random.default_rng([arguments.seed, number, int(share * 100)])
        released = draw(rng, arguments.records) + rng.normal(0, sd, arguments.records)
        data = sf.Dataset(pl.DataFrame({"x": released}), schema)
        seen = sf.explore(data, ["x"], noise={"x": sf.Gaussian(variance=sd**2)}, seed=number)
        rows = seen.summary().loc["x"].loc[list(_KINDS)]
        low, high, face = (rows[column].to_numpy() for column in ("low", "high", "naive"))
        held.append((low <= expected) & (expected <= high))
        half = (high - low) / 2
        naive.append(np.abs(face - expected) <= half)
        warned += bool(seen.warnings)
    covered, of_naive = np.mean(held, axis=0), np.mean(naive, axis=0)

    def join(values: np.ndarray) -> str:
        return ", ".join(f"{value:.2f}" for value in values)

    return (
        f"| {name} | {share:.0%} | {covered[0]:.2f} | {covered[1]:.2f} | {join(covered[2:])} | "
        f"{join(of_naive[2:])} | {warned / arguments.sets:.0%} |"
    )


def _study_pairs(arguments: argparse.Namespace) -> None:
    """A correlation, and the share of a misclassified category."""
    held = {"correlation": 0, "share": 0}
    naive = dict(held)
    matrix = [[0.9, 0.1], [0.25, 0.75]]
    for number in range(arguments.sets):
        rng = np.random.default_rng([arguments.seed, number, 7])
        x = rng.normal(size=arguments.records)
        y = 0.5 * x + np.sqrt(0.75) * rng.normal(size=arguments.records)
        yes = rng.random(arguments.records) < _YES
        shown = np.where(rng.random(arguments.records) < np.where(yes, 0.75, 0.1), "yes", "no")
        frame = pl.DataFrame(
            {
                "x": x + rng.normal(0, 0.6, arguments.records),
                "y": y + rng.normal(0, 0.4, arguments.records),
                "c": shown,
            }
        )
        noise = {
            "x": sf.Gaussian(variance=0.36),
            "y": sf.Gaussian(variance=0.16),
            "c": sf.Misclassification(levels=["no", "yes"], matrix=matrix),
        }
        seen = sf.explore(frame, ["x", "y", "c"], noise=noise, seed=number)
        pair = seen.correlations().loc[("x", "y")]
        share = seen.shares().loc[("c", "yes")]
        for kind, row, truth in (("correlation", pair, 0.5), ("share", share, _YES)):
            held[kind] += bool(row["low"] <= truth <= row["high"])
            naive[kind] += bool(abs(row["naive"] - truth) <= (row["high"] - row["low"]) / 2)
    print("\n| | covered | naive |\n| --- | --- | --- |")
    for kind, hits in held.items():
        print(f"| {kind} | {hits / arguments.sets:.2f} | {naive[kind] / arguments.sets:.2f} |")


if __name__ == "__main__":
    main()
