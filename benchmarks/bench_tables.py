"""Protected tables against plain ones, and what secondary suppression costs by size.

The baseline, pandas.crosstab, counts and does nothing else.
"""

from __future__ import annotations

from benchmarks.cost import cost
from benchmarks.rows import Row, compare

RECORDS = (1_000_000, 3_000_000, 10_000_000)
SIZES = ((5, 5), (20, 20), (50, 50), (5, 5, 5), (10, 10, 10))

SETUP = """
import numpy as np, pandas as pd, polars as pl
import sfumato as sf
rng = np.random.default_rng(1)
levels = np.array([f"level {{at:02}}" for at in range(12)])
share = np.arange(12, 0, -1.0) ** 2
drawn = {{
    name: pd.Categorical.from_codes(
        rng.choice(12, {records}, p=share / share.sum()), categories=levels
    ).astype(object)
    for name in ("row", "column")
}}
table = pd.DataFrame(drawn)
frame = pl.from_pandas(table)
sf.tables.crosstab(frame[:1000], "row", "column")
"""
PANDAS = 'pd.crosstab(table["row"], table["column"], margins=True)'
OURS = 'sf.tables.crosstab(frame, "row", "column")'
OURS_PANDAS = 'sf.tables.crosstab(table, "row", "column")'

CELLS = """
import numpy as np
from sfumato.outputs import Rules
from sfumato.outputs.tables.attack import compute_feasibility_intervals
from sfumato.outputs.tables.lattice import Lattice
from sfumato.outputs.tables.primary_suppression import assess_counts
from sfumato.outputs.tables.secondary_suppression import find_suppression_pattern
rng = np.random.default_rng(1)
lattice = Lattice({sizes})
counts = lattice.with_margins(rng.poisson(rng.gamma(0.8, 20, {sizes})).astype(float))
layer = assess_counts(lattice, counts, k=3, rules=Rules())
known = counts == 0
known[-1] = True
warm = Lattice((2, 2))
few = warm.with_margins(np.array([[1.0, 9], [9, 9]]))
warmed = assess_counts(warm, few, k=3, rules=Rules())
find_suppression_pattern(warm, [warmed], unsuppressible=np.arange(9) == 8)
"""
SEARCH = """
hidden = find_suppression_pattern(lattice, [layer], unsuppressible=known)
sys.stderr.write(f"{layer.sensitive.sum()} {hidden.sum()}\\n")
"""


COLD = """
from scipy.optimize import linprog
def attack_coldly():
    ends = []
    hidden = np.flatnonzero(np.isnan(shown))
    sums = lattice.sums[:, hidden]
    right = -(lattice.sums @ np.nan_to_num(shown))
    for at in range(len(hidden)):
        for sign in (1.0, -1.0):
            aim = np.zeros(len(hidden))
            aim[at] = sign
            ends.append(sign * linprog(aim, A_eq=sums, b_eq=right, method="highs").fun)
    return np.array(ends)
from sfumato.outputs.tables.attack import compute_feasibility_intervals
shown = np.where(rng.random(lattice.cells) < 0.4, np.nan, counts)
shown[-1] = counts[-1]
compute_feasibility_intervals(Lattice((2,)), np.array([np.nan, np.nan, 23.0]))
"""
ROWS = [
    *(
        Row(
            f"crosstab from {kind}, {records:,} records",
            work,
            PANDAS,
            "pandas.crosstab",
            SETUP.format(records=records),
            quick=records == RECORDS[0],
        )
        for records in RECORDS
        for kind, work in (("polars", OURS), ("pandas", OURS_PANDAS))
    ),
    *(
        Row(
            f"attack on a table of {' x '.join(map(str, sizes))}, 40 % hidden",
            "compute_feasibility_intervals(lattice, shown)",
            "attack_coldly()",
            "two linprog for each cell",
            CELLS.format(sizes=sizes) + COLD,
            goal=0.08,
            quick=sizes == (20, 20),
        )
        for sizes in ((20, 20), (8, 8, 8))
    ),
]


def main() -> None:
    """What the search for cells to hide costs, by size."""
    print(f"{'size':>11} {'search CPU s':>13}")
    for sizes in SIZES:
        found = cost(SEARCH, setup=CELLS.format(sizes=sizes))
        print(f"{' x '.join(map(str, sizes)):>11} {found.cpu:>13.2f}")


if __name__ == "__main__":
    list(compare(ROWS))
    main()
