"""A sweep against a bare loop over the same runs, and simulated cohorts against plain normals.

The first baseline calls `protect` by hand and keeps nothing; the second draws correlated normals
of the same size with numpy, without strata or shapes.
"""

from __future__ import annotations

from benchmarks.rows import Row, compare

SIZES = (500, 5_000, 50_000)
SETUP = """
import numpy as np
import polars as pl
import sfumato as sf
names = ["glucose", "hdl", "height", "weight_kg"]
frame = sf.datasets.cohort(20_000).select("sex", *names).drop_nulls()
frame = frame.filter(pl.col("glucose") < 15, pl.col("height").is_between(140, 200))
draw = sf.datasets.simulator(frame)
schema = {{"sex": "quasi", **dict.fromkeys(names, "sensitive")}}
quantiles = [0.8, 0.85, 0.9, 0.95, 0.99]
def plan(quantile):
    steps = [sf.methods.Topcode(variables=names, top_quantile=quantile)]
    return sf.Plan(schema=schema, steps=steps, evaluate=[sf.risk.Uniqueness(known=["sex"])])
sf.protect(sf.Dataset(draw(100, 0)), plan(0.5))
covariance = np.cov(frame.select(names).to_numpy(), rowvar=False)
records = {records}
"""
LOOP = """
for repeat in range(10):
    data = sf.Dataset(draw(records, repeat))
    for quantile in quantiles:
        sf.protect(data, plan(quantile)).evidence
"""
SWEEP = "sf.sweep(draw, plan(0.5), top_quantile=quantiles, sizes=[records], repeats=10)"
NORMALS = "np.random.default_rng(1).multivariate_normal(np.zeros(4), covariance, 100 * records)"
DRAW = "draw.draw(100 * records)"


ROWS = [
    Row(f"{name}, {records:,} records", ours, theirs, baseline, SETUP.format(records=records),
        repeats=2, quick=records == SIZES[0])
    for name, ours, theirs, baseline in (
        ("sweep", SWEEP, LOOP, "a bare loop over the same runs"),
        ("simulated cohorts", DRAW, NORMALS, "numpy's correlated normals"),
    )
    for records in SIZES
]  # fmt: skip


if __name__ == "__main__":
    list(compare(ROWS))
