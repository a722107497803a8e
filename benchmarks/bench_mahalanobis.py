"""Mahalanobis risk, against the matrix of all distances that R's `sdcMicro::dRiskRMD` builds.

The baseline is that matrix (scipy's `pdist` and `squareform`, as R's `as.matrix(dist(x))`) and
the test whether each record's nearest other is far. It leaves out the robust covariance and
the intervals, which ours computes as well, on two scales.
"""

from __future__ import annotations

from benchmarks.cost import cost
from benchmarks.rows import Row, compare

SIZES = (100_000, 300_000, 1_000_000)
SMALL = 10_000

SETUP = """
import numpy as np, polars as pl, sfumato as sf
from scipy.spatial.distance import pdist, squareform
draws = np.random.default_rng(0)
mixing = np.tril(np.full((4, 4), 0.4)) + np.eye(4)
values = draws.standard_normal(({records}, 4)) @ mixing.T
values[:, 3] = np.exp(values[:, 3])
released = values + 0.1 * values.std(axis=0) * draws.standard_normal(values.shape)
names = ["a", "b", "c", "d"]
schema = sf.Schema(dict.fromkeys(names, "quasi"))
frames = (pl.DataFrame(one, schema=names) for one in (values, released))
original, masked = (sf.Dataset(one, schema) for one in frames)
few = np.arange(100)
sf.risk.Mahalanobis().measure(original.take(few), masked.take(few))
sf.risk.Mahalanobis().measure(*(one.take(np.arange(2000)) for one in (original, masked)))
pdist(released[:9])
"""
MATRIX = """
far = squareform(pdist(released / released.std(axis=0, ddof=1)))
np.fill_diagonal(far, np.inf)
unsafe = far.min(axis=1) > 0.05
"""
OURS = "sf.risk.Mahalanobis().measure(original, masked)"
SAME = "sf.risk.Mahalanobis().measure(original, original)"


ROWS = [
    Row(
        f"Mahalanobis risk, {SMALL:,} records",
        OURS,
        MATRIX,
        "scipy's matrix of all distances",
        SETUP.format(records=SMALL),
        goal=0.02,
        repeats=3,
        quick=True,
    )
]


def main() -> None:
    """How cost grows."""
    print(
        f"{'records':>10} {'CPU s':>7} {'peak MB':>8}   {'all at risk: CPU s':>18} {'peak MB':>8}"
    )
    for records in SIZES:
        setup = SETUP.format(records=records)
        ours, same = cost(OURS, setup=setup), cost(SAME, setup=setup)
        print(
            f"{records:>10,} {ours.cpu:>7.2f} {ours.peak:>8.0f}   {same.cpu:>18.2f} "
            f"{same.peak:>8.0f}"
        )


if __name__ == "__main__":
    list(compare(ROWS))
    main()
