"""The h-index of every record, against two scipy trees; how it grows; what a cap saves.

The baseline asks one cKDTree for the nearest released record of each target, and another for how
many originals lie within the distance of the one behind it. Both count the same, but for ties.
Data as in section 4 of the paper: normal variables with covariance 0.25, noise of a tenth of the
variance.
"""

from __future__ import annotations

from benchmarks.rows import Row, compare

RECORDS = 100_000
GROWTH = (30_000, 100_000, 300_000)
AIM = 0.4

SETUP = """
import numpy as np
from scipy.spatial import cKDTree
from sfumato.kernels.trees.ranks import nearest, ranks
random = np.random.default_rng(1)
records, variables = {records}, 5
root = np.linalg.cholesky(np.full((variables, variables), 0.25) + 0.75 * np.eye(variables))
original = random.normal(size=(records, variables)) @ root.T
released = original + np.sqrt(0.1) * random.normal(size=original.shape)
{more}
scale = np.ones(variables)
def theirs():
    at = cKDTree(released).query(original, workers=1)[1]
    within = np.sqrt(((original[at] - original) ** 2).sum(axis=1))
    tree = cKDTree(original)
    return tree.query_ball_point(original, within, return_length=True, workers=1) - 1
ranks(original[:100], released[:100], scale)
nearest(original[:100], released[:100], scale)
open("/proc/self/clear_refs", "w").write("5")  # the peak so far was that of drawing the data
"""
# What is measured, in the words of the table
OURS = "ranks(original, released, scale)"
TENS = "original, released = (np.round(side, 1) for side in (original, released))"
# Every released record five times, four of them those of others: far off, and all tied.
FIVES = "released = released[np.arange(len(released)) // 5 * 5]"
WORKS = (
    ("h-index", OURS, ""),
    ("h-index, only whether below 3", "ranks(original, released, scale, cap=3)", ""),
    ("h-index, nearest only", "nearest(original, released, scale)", ""),
    ("h-index, one decimal", OURS, TENS),
    ("h-index, in fives", OURS, FIVES),
)


ROWS = [
    Row(
        f"{name}, 5 variables, {records:,} records",
        work,
        "theirs()",
        "two scipy cKDTrees",
        SETUP.format(records=records, more=more),
        goal=AIM if records == RECORDS else None,
        quick=records == RECORDS,
    )
    for records in GROWTH
    for name, work, more in WORKS
    if records == RECORDS or name == WORKS[0][0]
]


if __name__ == "__main__":
    list(compare(ROWS))
