"""The whole deterministic method against scipy's cKDTree on the same strata.

The baseline only finds the neighbours and takes their means, a tree per stratum, queried in the
order of the tree. Ours also standardises by exact sums, breaks ties by coordinates, stretches
back, checks the strata, and keeps track of who is who.
"""

from __future__ import annotations

from benchmarks.rows import Row, compare

SETUP = """
import numpy as np, polars as pl
from scipy.spatial import cKDTree
import sfumato as sf
random = np.random.default_rng(1)
n, p, s = {records}, {variables}, {strata}
names = [f"x{{at}}" for at in range(p)]
if {tied}:
    values = random.integers(0, 91, (n, p)).astype(float)
else:
    values = random.normal(size=(n, p))
group = random.integers(0, s, n)
if {theirs}:
    z = (values - values.mean(axis=0)) / values.std(axis=0, ddof=1)
    order = np.argsort(group, kind="stable")
    cuts = np.flatnonzero(np.diff(group[order])) + 1
    parts = np.split(order, cuts)
else:
    frame = pl.DataFrame(values, schema=names).with_columns(pl.Series("group", group))
    del values
    data = sf.Dataset(frame, sf.Schema({{"group": sf.Column(role="quasi", kind="nominal")}}))
    data.identity
    method = sf.methods.Deterministic(variables=names, strata=["group"], k=5)
    sf.methods.Deterministic(variables=names, k=5).apply(data.take(np.arange(20_000)))
"""
TREES = """
made = np.empty_like(z)
for at in parts:
    tree = cKDTree(z[at])
    inside = at[tree.indices]
    _, near = tree.query(z[inside], k=5)
    made[inside] = z[at][near].mean(axis=1)
"""
OURS = "method.apply(data)"
QUICK = 300_000
CASES = (
    ("continuous, 100 strata", 100_000, 4, 100, False),
    ("continuous, 100 strata", 300_000, 4, 100, False),
    ("continuous, 100 strata", 1_000_000, 4, 100, False),
    ("whole numbers 0-90, 100 strata", 1_000_000, 4, 100, True),
    ("continuous, 5000 strata", 1_000_000, 4, 5000, False),
    ("continuous, 5000 strata", 10_000_000, 2, 5000, False),
)


def _set_up(case: tuple[str, int, int, int, bool], *, theirs: bool) -> str:
    _, records, variables, strata, tied = case
    return SETUP.format(
        records=records, variables=variables, strata=strata, tied=tied, theirs=theirs
    )


ROWS = [
    Row(
        f"deterministic, {case[0]}, {case[2]} variables, {case[1]:,} records",
        OURS,
        TREES,
        "scipy's cKDTree per stratum",
        _set_up(case, theirs=False),
        their_setup=_set_up(case, theirs=True),
        quick=case[1] <= QUICK,
    )
    for case in CASES
]


if __name__ == "__main__":
    list(compare(ROWS))
