"""Mondrian on discharges, against one argsort of a random column as long: by k and by constraint.

What is promised of it, and S2 and S4 beside it, is measured in bench_discharges.
"""

from __future__ import annotations

from benchmarks.cost import Cost, cost

RECORDS = 1_000_000
SETUP = """
import numpy as np
from benchmarks.discharges import coded, discharges
from sfumato.kernels.clustering.clusters import bound_t, find_ranges, origin_order, spread_order
from sfumato.kernels.clustering.mondrian import mondrian
from sfumato.kernels.clustering.closeness import Rule
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
    rule = Rule("ordered", bound_t(len(codes[rows]), {k}))
    return mondrian(codes[rows], {k}, ordered=numeric, sensitive=charge[rows], rules=[rule])
{work}(some)
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # forget the memory that making the data took at its peak
"""
WORKS = {"numeric": "plain", "five nominal": "levels", "t-close": "close"}


def clustering(work: str, records: int, k: int) -> Cost:
    """What one of the functions of the setup costs on all records."""
    setup = SETUP.format(records=records, k=k, work=work)
    return cost(f"found = {work}(every)", setup=setup, repeats=2)


def sorting(records: int) -> Cost:
    """What one argsort of a float column costs."""
    setup = f"import numpy as np\ncolumn = np.random.default_rng(0).random({records})"
    return cost("np.argsort(column)", setup=setup, repeats=3)


def main(records: int = RECORDS) -> None:
    """Print the ratios."""
    base = sorting(records)
    print(f"{records:,} records; np.argsort takes {base.cpu:.3f} s of CPU")
    print(f"{'variables':>14} {'k':>4} {'CPU s':>6} {'argsorts':>8} {'peak MB':>8}")
    for name, work in WORKS.items():
        for k in (2, 10):
            found = clustering(work, records, k)
            ratio = found.cpu / base.cpu
            print(f"{name:>14} {k:>4} {found.cpu:>6.2f} {ratio:>8.1f} {found.peak:>8.0f}")


if __name__ == "__main__":
    main()
