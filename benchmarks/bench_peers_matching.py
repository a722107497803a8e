"""Protective peers within tolerances, against scipy's k-d tree and against numpy pair by pair.

Both baselines do less: the tree counts who lies within the tolerance of two numbers, once, and
numpy compares each record with all others in all six variables, once. Ours counts the peers of
every record for every combination of what is known, who shares the secret, and which combination
is the worst.
"""

from __future__ import annotations

from benchmarks.rows import Row, compare

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


ROWS = [
    *(
        Row(
            f"peers within tolerances, {records:,} records",
            OURS,
            TREE,
            "one scipy cKDTree",
            SETUP.format(records=records),
            quick=records == SIZES[0],
        )
        for records in (*SIZES, *LARGE)
    ),
    *(
        Row(
            f"peers within tolerances, {words}, {records:,} records",
            work,
            NUMPY,
            "numpy pair by pair",
            SETUP.format(records=records),
        )
        for records in SIZES
        for words, work in (("all", OURS), ("every pair", PAIRS), ("1,000 drawn", SAMPLE))
    ),
]


if __name__ == "__main__":
    list(compare(ROWS))
