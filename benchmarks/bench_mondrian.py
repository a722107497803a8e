"""Mondrian on discharges, against one argsort of a random column as long: by k and by constraint.

What is promised of it, and S2 and S4 beside it, is measured in bench_discharges.
"""

from __future__ import annotations

from benchmarks.cost import Cost, cost
from benchmarks.rows import Row, compare

RECORDS = 1_000_000
SETUP = """
import numpy as np
from benchmarks.discharges import coded, discharges
from sfumato.kernels.clustering.clusters import bound_t, find_ranges, origin_order, spread_order
from sfumato.kernels.clustering.mondrian import mondrian
from sfumato.kernels.clustering.closeness import ClosenessRule
frame = discharges({records})
codes, values = coded(frame)
charge = frame["charge"].to_numpy()
del frame
column = np.random.default_rng(0).random({records})
some, every = slice(0, 300), slice(None)
numeric = [True] * 9
nominal = [False, True, False, False, False, True, False, True, True]
def s2(rows): return find_ranges(codes[rows], *origin_order(codes[rows], {k}))
def s4(rows): return find_ranges(codes[rows], *spread_order(codes[rows], charge[rows], {k}))
def plain(rows): return mondrian(codes[rows], {k}, ordered=numeric)
def levels(rows): return mondrian(codes[rows], {k}, ordered=nominal)
def close(rows):
    rule = ClosenessRule("ordered", bound_t(len(codes[rows]), {k}))
    return mondrian(codes[rows], {k}, ordered=numeric, sensitive=charge[rows], rules=[rule])
{work}(some)
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # forget the memory that making the data took at its peak
"""
SORT = "import numpy as np\ncolumn = np.random.default_rng(0).random({records})"
WORKS = {"numeric": "plain", "five nominal": "levels", "t-close": "close"}


def clustering(work: str, records: int, k: int) -> Cost:
    """What one of the functions of the setup costs on all records."""
    setup = SETUP.format(records=records, k=k, work=work)
    return cost(f"found = {work}(every)", setup=setup, repeats=2)


def sorting(records: int) -> Cost:
    """What one argsort of a float column costs."""
    return cost("np.argsort(column)", setup=SORT.format(records=records), repeats=3)


ROWS = [
    Row(
        f"Mondrian, {name}, k = {k}, 9 variables, {RECORDS:,} records",
        f"found = {work}(every)",
        "np.argsort(column)",
        "one np.argsort",
        SETUP.format(records=RECORDS, k=k, work=work),
        their_setup=SORT.format(records=RECORDS),
        repeats=2,
        quick=(work, k) == ("plain", 10),
    )
    for name, work in WORKS.items()
    for k in (2, 10)
]


if __name__ == "__main__":
    list(compare(ROWS))
