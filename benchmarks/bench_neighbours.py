"""Centroids of the k nearest within strata, against one scipy cKDTree per stratum.

The baseline builds a tree per stratum, asks it in its own order and averages the neighbours. It
breaks ties by chance of storage; ours by coordinates.
"""

from __future__ import annotations

from benchmarks.cost import cost

K = 5
# name, records, variables, strata, what the values are, the ratio we aim for
CASES = (
    ("continuous", 1_000_000, 4, 100, "random.normal(size=({records}, {variables}))", 1.2),
    ("whole numbers", 1_000_000, 4, 100, "random.integers(0, 91, ({records}, {variables})) * 1.0", 0.7),
    ("small strata", 1_000_000, 4, 5_000, "random.normal(size=({records}, {variables}))", 0.3),
)
SIZES = (100_000, 300_000, 1_000_000)
LARGE = ("10 million", 10_000_000, 2, 5_000, "random.normal(size=({records}, {variables}))")

SETUP = """
import numpy as np
from scipy.spatial import cKDTree
from sfumato.kernels.neighbours import centroids
random = np.random.default_rng(1)
values = {values}
starts = np.linspace(0, {records}, {strata} + 1).astype(np.int64)
scale = 1 / values.std(axis=0)
k = {k}
centroids(values[:100].copy(), scale, np.array([0, 100]), k)
def theirs():
    means = np.empty_like(values)
    for first, last in zip(starts[:-1], starts[1:]):
        stratum = values[first:last]
        points = stratum * scale
        tree = cKDTree(points)
        order = tree.indices
        found = tree.query(points[order], k=k, workers=1)[1]
        means[first + order] = stratum[found].mean(axis=1)
    return means
theirs_warm = cKDTree(values[:100]).query(values[:100], k=k)
"""
THEIRS = "theirs()"
OURS = "centroids(values, scale, starts, k)"


def _setup(records: int, variables: int, strata: int, values: str) -> str:
    drawn = values.format(records=records, variables=variables)
    return SETUP.format(values=drawn, records=records, strata=strata, k=K)


def main() -> None:
    """Print the ratios, and how they grow."""
    print(f"{'data':>14} {'records':>10} {'strata':>7} {'cKDTree CPU s':>14} {'ours':>6}", end="")
    print(f" {'ratio':>6} {'aim':>4} {'peak MB':>8}")
    for name, records, variables, strata, values, aim in CASES:
        setup = _setup(records, variables, strata, values)
        theirs, ours = cost(THEIRS, setup=setup, repeats=2), cost(OURS, setup=setup, repeats=2)
        print(
            f"{name:>14} {records:>10,} {strata:>7,} {theirs.cpu:>14.2f} {ours.cpu:>6.2f} "
            f"{ours.cpu / theirs.cpu:>6.2f} {aim:>4} {ours.peak:>8.0f}"
        )
    for name, _, variables, strata, values, _ in CASES[:2]:
        for records in SIZES:
            one = cost(OURS, setup=_setup(records, variables, strata, values), repeats=2)
            print(f"{name:>14} {records:>10,} {strata:>7,} {'':>14} {one.cpu:>6.2f} ", end="")
            print(f"{'':>11} {one.peak:>8.0f}  {one.cpu / records * 1e6:.2f} µs a record")
    name, records, variables, strata, values = LARGE
    one = cost(OURS, setup=_setup(records, variables, strata, values))
    print(f"{name:>14} {records:>10,} {strata:>7,} {'':>14} {one.cpu:>6.2f} ", end="")
    print(f"{'':>11} {one.peak:>8.0f}  {one.cpu / records * 1e6:.2f} µs a record")


if __name__ == "__main__":
    main()
