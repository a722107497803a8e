"""Clusterings of discharge-like records, against one argsort of a random column as long.

S2 and S4 come with their compact output: the records by cluster and a range per cluster.
"""

from __future__ import annotations

from benchmarks.cost import Cost, cost

SETUP = """
import numpy as np
from sfumato.kernels.clusters import origin_order, ranges, spread_order
from sfumato.kernels.mondrian import mondrian
from sfumato.kernels.rules import Rule
rng = np.random.default_rng(7)
n = {records}
hospital = rng.integers(0, 450, n)
county = np.clip((hospital * 58 // 450 + rng.normal(0, 3, n)).astype(int), 0, 57)
columns = [
    hospital, rng.integers(0, 86, n), rng.integers(0, 2, n), rng.integers(0, 3, n),
    rng.choice(6, n, p=[.55, .1, .02, .1, .18, .05]), county * 35 + rng.integers(0, 60, n), county,
    np.minimum(rng.geometric(.2, n), 365), rng.integers(0, 4, n),
]
codes = np.stack(columns, 1).astype(np.int32)
charge = np.exp(rng.normal(9.5, 1, n)).astype(np.int64)
column = rng.random(n)
nominal = [False, True, False, False, False, True, False, True, True]
some = slice(0, 300)
def s2(rows): return ranges(codes[rows], *origin_order(codes[rows], {k}))
def s4(rows): return ranges(codes[rows], *spread_order(codes[rows], charge[rows], {k}))
def ours(rows, ordered=[True] * 9): return mondrian(codes[rows], {k}, ordered=ordered)
def close(rows):
    rule = Rule("ordered", 0.5 / {k})
    return mondrian(codes[rows], {k}, ordered=[True] * 9, sensitive=charge[rows], rules=[rule])
every = slice(None)
{warm}
"""
WORKS = {
    "S2": ("s2", 4_000_000, 2.0),
    "S4": ("s4", 4_000_000, 4.0),
    "Mondrian": ("ours", 1_000_000, 25.0),
    "Mondrian, nominal": ("ours", 1_000_000, 25.0),
    "Mondrian, t-close": ("close", 1_000_000, 0.0),
}


def main(k: int = 5) -> None:
    """Print the ratios beside what is promised."""
    heads = ("clustering", "records", "CPU s", "argsorts", "at most", "peak MB")
    print("{:>18} {:>10} {:>6} {:>8} {:>8} {:>8}".format(*heads))
    for name, (function, records, most) in WORKS.items():
        more = ", nominal" if "nominal" in name else ""
        setup = SETUP.format(records=records, k=k, warm=f"{function}(some{more})")
        base = cost("np.argsort(column)", setup=setup, repeats=3)
        found = cost(f"{function}(every{more})", setup=setup, repeats=2)
        print(_line(name, records, found, base, most))


def _line(name: str, records: int, found: Cost, base: Cost, most: float) -> str:
    promise = f"{most:.0f}" if most else "-"
    ratio = found.cpu / base.cpu
    return (
        f"{name:>18} {records:>10,} {found.cpu:>6.2f} {ratio:>8.1f} {promise:>8} {found.peak:>8.0f}"
    )


if __name__ == "__main__":
    main()
