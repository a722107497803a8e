"""Protective peers over all combinations of variables, against one pandas groupby.

The baseline numbers the groups of one combination, the one of all variables. Ours counts the peers
of every record for every variable in turn, over every combination of the others; finding the
distinct rows is part of it.
"""

from __future__ import annotations

import os

from benchmarks.cost import cost
from benchmarks.rows import Row, compare

DOMAINS = (2, 72, 5, 7, 16, 41, 7, 2, 14, 10, 3, 4, 2, 6, 5)
"""Values per variable; the first nine are those of Adult."""

ADULT = """
table = pd.read_csv({path!r})
codes = np.column_stack([pd.factorize(table[name])[0] for name in table])
"""
# Commoner and rarer values, as in real data.
DRAWN = """
draws = np.random.default_rng(1)
codes = np.empty(({records}, {variables}), np.int64)
for at, size in enumerate({domains!r}[:{variables}]):
    codes[:, at] = np.minimum(draws.geometric(min(0.5, 3 / size), {records}) - 1, size - 1)
table = pd.DataFrame(codes, columns=[f"v{{at}}" for at in range({variables})])
"""
SETUP = """
import numpy as np, pandas as pd
from sfumato.kernels.lattice.peers import count_peers, key_rows
{data}
def peers(codes, **options):
    every = range(codes.shape[1])
    _, first, counts = np.unique(key_rows(codes, every), return_index=True, return_counts=True)
    return count_peers(codes[first], counts, sensitive=every, known=every, **options)
peers(codes[:50]); peers(codes[:50], q=0.05)
"""
PANDAS = "table.groupby(list(table.columns)).ngroup()"
OURS = "peers(codes)"
OURS_Q = "peers(codes, q=0.05)"


ROWS = [
    *(
        Row(name, work, PANDAS, "one pandas groupby", SETUP.format(data=data), goal=goal,
            repeats=3, quick=True)
        for folder in filter(None, [os.environ.get("SFUMATO_DATA")])
        for data in [ADULT.format(path=f"{folder}/adult.csv")]
        for name, work, goal in (
            ("peers of Adult, 9 variables", OURS, 40),
            ("peers of Adult, with PoAC(0.05)", OURS_Q, 120),
        )
    ),
    Row(
        "peers, 10 variables, 1,000,000 records", OURS, PANDAS, "one pandas groupby",
        SETUP.format(data=DRAWN.format(records=1_000_000, variables=10, domains=DOMAINS)), goal=80,
    ),
]  # fmt: skip


def main() -> None:
    """Cost per record and combination, which n * 2^m says is constant at most."""
    print(f"\n{'records':>9} {'variables':>9} {'ours s':>9} {'ns per n 2^m':>13} {'peak MB':>8}")
    for records, variables in [(20_000, m) for m in (6, 9, 12, 15)] + [(80_000, 12), (320_000, 9)]:
        data = DRAWN.format(records=records, variables=variables, domains=DOMAINS)
        ours = cost(OURS, setup=SETUP.format(data=data))
        each = 1e9 * ours.cpu / (records * 2**variables)
        print(
            f"{records:>9,} {variables:>9} {ours.cpu:>9.2f} {each:>13.1f} {ours.peak:>8.0f}",
            flush=True,
        )


if __name__ == "__main__":
    list(compare(ROWS))
    main()
