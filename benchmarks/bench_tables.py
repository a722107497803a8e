"""Protected tables against plain ones, and what secondary suppression costs by size.

The baseline, pandas.crosstab, counts and does nothing else.
"""

from __future__ import annotations

from benchmarks.cost import cost

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


def main() -> None:
    """Print the ratios and the times."""
    print(f"{'records':>11} {'pandas CPU s':>13} {'polars in':>10} {'ratio':>6} {'pandas in':>10} "
          f"{'ratio':>6} {'peak MB':>8}")  # fmt: skip
    for records in RECORDS:
        setup = SETUP.format(records=records)
        theirs, ours, other = (cost(one, setup=setup) for one in (PANDAS, OURS, OURS_PANDAS))
        print(
            f"{records:>11,} {theirs.cpu:>13.2f} {ours.cpu:>10.2f} {ours.cpu / theirs.cpu:>6.2f} "
            f"{other.cpu:>10.2f} {other.cpu / theirs.cpu:>6.2f} {ours.peak:>8.0f}"
        )
    print(f"\n{'size':>11} {'search CPU s':>13}")
    for sizes in SIZES:
        found = cost(SEARCH, setup=CELLS.format(sizes=sizes))
        print(f"{' x '.join(map(str, sizes)):>11} {found.cpu:>13.2f}")


if __name__ == "__main__":
    main()
