"""The h-index of every record, against two scipy trees; how it grows; what a cap saves.

The baseline asks one cKDTree for the nearest released record of each target, and another for how
many originals lie within the distance of the one behind it. Both count the same, but for ties.
Data as in section 4 of the paper: normal variables with covariance 0.25, noise of a tenth of the
variance.
"""

from __future__ import annotations

from benchmarks.cost import Cost, cost

RECORDS = 100_000
GROWTH = (30_000, 100_000, 300_000, 1_000_000)
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
WORKS = (
    ("h of everybody", OURS, ""),
    ("only Pr(h < 3)", "ranks(original, released, scale, cap=3)", ""),
    ("nearest only", "nearest(original, released, scale)", ""),
)
TENS = "original, released = (np.round(side, 1) for side in (original, released))"
FIVES = "released = released[np.arange(len(released)) // 5 * 5]"
TIES = (
    ("one decimal", TENS),
    # Every released record five times, four of them those of others: far off, and all tied.
    ("in fives", FIVES),
)


def _cost(work: str, records: int, more: str = "") -> Cost:
    return cost(work, setup=SETUP.format(records=records, more=more))


def main() -> None:
    """Print the ratios, and how time and memory grow."""
    print(f"{'work':>18} {'records':>10} {'cKDTree CPU s':>14} {'ours':>6} {'ratio':>6} {'aim':>5}")
    theirs = _cost("theirs()", RECORDS).cpu
    for name, work, more in WORKS:
        ours = _cost(work, RECORDS, more).cpu
        ratio = ours / theirs
        print(f"{name:>18} {RECORDS:>10,} {theirs:>14.2f} {ours:>6.2f} {ratio:>6.2f} {AIM:>5}")
    for name, more in TIES:
        both = [_cost(work, RECORDS, more).cpu for work in ("theirs()", OURS)]
        ratio = both[1] / both[0]
        print(f"{name:>18} {RECORDS:>10,} {both[0]:>14.2f} {both[1]:>6.2f} {ratio:>6.2f} {AIM:>5}")
    print(f"{'work':>18} {'records':>10} {'CPU s':>14} {'µs each':>8} {'peak MB':>8}")
    for records in GROWTH:
        for name, work, more in WORKS[:2]:
            one = _cost(work, records, more)
            each = one.cpu / records * 1e6
            print(f"{name:>18} {records:>10,} {one.cpu:>14.2f} {each:>8.1f} {one.peak:>8.0f}")


if __name__ == "__main__":
    main()
