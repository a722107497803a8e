"""Protective peers within tolerances, against scipy's k-d tree and against numpy pair by pair.

Both baselines do less: the tree counts who lies within the tolerance of two numbers, once, and
numpy compares each record with all others in all six variables, once. Ours counts the peers of
every record for every combination of what is known, who shares the secret, and which combination
is the worst.
"""

from __future__ import annotations

from benchmarks.cost import Cost, cost

SIZES = (5_000, 10_000, 20_000)
LARGE = (40_000, 80_000, 160_000)

SETUP = """
import numpy as np, polars as pl, sfumato as sf
from scipy.spatial import cKDTree
draws = np.random.default_rng(1)
n = {records}
codes = [np.minimum(draws.geometric(0.4, n), 6) for _ in range(4)]
numbers = draws.normal(size=(n, 2))
frame = pl.DataFrame({{"x": numbers[:, 0], "y": numbers[:, 1],
                      "a": codes[0], "b": codes[1], "c": codes[2], "s": codes[3]}})
data = sf.Dataset(frame)
def peers(data, **options):
    known = ["x", "y", "a", "b", "c"]
    return sf.risk.Peers(known=known, sensitive=["s"], tolerance={{"x": 0.1, "y": 0.1}},
                         budget=10**12, **options).measure(data)
few = data.take(np.arange(50))
peers(few); peers(few, q=0.01); peers(few, individuals=10)
"""
TREE = """
tree = cKDTree(numbers)
tree.query_ball_point(numbers, 0.1, p=np.inf, return_length=True)
"""
NUMPY = """
same = np.empty(n, np.int64)
for row in range(n):
    fits = (np.abs(numbers - numbers[row]) <= 0.1).all(axis=1)
    for one in codes:
        fits &= one == one[row]
    same[row] = fits.sum()
"""
OURS = "peers(data)"
PAIRS = "peers(data, q=0.01)"
SAMPLE = "peers(data, individuals=1000)"


def main() -> None:
    """Print the ratios, and how the work grows."""
    print(f"{'records':>8} {'k-d tree':>9} {'numpy':>7} {'ours':>7} {'by tree':>8} {'by numpy':>9}"
          f" {'growth':>7} {'every pair':>11} {'1000 drawn':>11} {'peak MB':>8}")  # fmt: skip
    before: Cost | None = None
    for records in (*SIZES, *LARGE):
        setup = SETUP.format(records=records)
        tree, ours = cost(TREE, setup=setup), cost(OURS, setup=setup)
        sample = cost(SAMPLE, setup=setup)
        grown = f"{ours.cpu / before.cpu:.2f}" if before else ""
        slow = pairs = by_numpy = ""
        if records in SIZES:
            numpy = cost(NUMPY, setup=setup)
            slow, by_numpy = f"{numpy.cpu:.2f}", f"{ours.cpu / numpy.cpu:.2f}"
            pairs = f"{cost(PAIRS, setup=setup).cpu:.2f}"
        print(
            f"{records:>8,} {tree.cpu:>9.2f} {slow:>7} {ours.cpu:>7.2f} "
            f"{ours.cpu / tree.cpu:>8.2f} {by_numpy:>9} {grown:>7} {pairs:>11} "
            f"{sample.cpu:>11.2f} {ours.peak:>8.0f}",
            flush=True,
        )
        before = ours


if __name__ == "__main__":
    main()
