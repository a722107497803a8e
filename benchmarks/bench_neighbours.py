"""Centroids of the k nearest within strata, against one scipy cKDTree per stratum.

The baseline builds a tree per stratum, asks it in its own order and averages what it finds. Which
of several equally near neighbours it takes depends on the order of the rows; ours does not.
"""

from __future__ import annotations

from benchmarks.rows import Row, compare

NORMAL = "random.normal(size=(records, variables))"
AGES = "random.integers(0, 91, (records, variables)).astype(float)"
# data, values, records, variables, strata, the ratio we aim for
CASES: tuple[tuple[str, str, int, int, int, float | None], ...] = (
    ("continuous", NORMAL, 1_000_000, 4, 100, 1.2),
    ("ages 0 to 90", AGES, 1_000_000, 4, 100, 0.7),
    ("small strata", NORMAL, 100_000, 4, 500, 0.3),
    ("small strata", NORMAL, 1_000_000, 4, 5_000, 0.3),
    *(("one stratum", NORMAL, records, 4, 1, None) for records in (100_000, 300_000, 1_000_000)),
    ("two variables", NORMAL, 10_000_000, 2, 5_000, None),
)
LARGE, QUICK = 10_000_000, 100_000

SETUP = """
import numpy as np
from scipy.spatial import cKDTree
from sfumato.kernels.trees.neighbours import centroids
random = np.random.default_rng(1)
records, variables, k = {records}, {variables}, 5
values = {values}
starts = np.linspace(0, records, {strata} + 1).astype(np.int64)
scale = 1 / values[:10_000].std(axis=0)
def theirs():
    means = np.empty_like(values)
    for first, last in zip(starts[:-1], starts[1:]):
        stratum = values[first:last]
        points = stratum * scale
        tree = cKDTree(points)
        found = tree.query(points[tree.indices], k=k, workers=1)[1]
        means[first + tree.indices] = stratum[found].mean(axis=1)
    return means
centroids(values[:100], scale, np.array([0, 100]), k)
open("/proc/self/clear_refs", "w").write("5")  # the peak so far was that of drawing the data
"""
THEIRS = "theirs()"
OURS = "centroids(values, scale, starts, k)"


ROWS = [
    Row(
        f"centroids, {name}, {variables} variables, {strata:,} strata, {records:,} records",
        OURS,
        THEIRS,
        "one scipy cKDTree per stratum",
        SETUP.format(values=values, records=records, variables=variables, strata=strata),
        goal=goal,
        repeats=3 if records < LARGE else 1,
        quick=records <= QUICK,
    )
    for name, values, records, variables, strata, goal in CASES
]


if __name__ == "__main__":
    list(compare(ROWS))
