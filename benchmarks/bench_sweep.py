"""A sweep against a bare loop over the same runs, and simulated cohorts against plain normals.

The first baseline calls `protect` by hand and keeps nothing; the second draws correlated normals
of the same size with numpy, without strata or shapes.
"""

from __future__ import annotations

from benchmarks.cost import cost

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


def main() -> None:
    """Print the ratios, and how they grow."""
    print(f"{'records':>8} {'loop CPU s':>11} {'sweep':>7} {'ratio':>6}", end="   ")
    print(f"{'normals':>8} {'cohort':>7} {'ratio':>6} {'peak MB':>8}")
    for records in (500, 5_000, 50_000):
        setup = SETUP.format(records=records)
        loop, ours = (cost(work, setup=setup, repeats=2) for work in (LOOP, SWEEP))
        normals, drawn = (cost(work, setup=setup, repeats=2) for work in (NORMALS, DRAW))
        print(
            f"{records:>8,} {loop.cpu:>11.2f} {ours.cpu:>7.2f} {ours.cpu / loop.cpu:>6.2f}", end=""
        )
        print(
            f"   {normals.cpu:>8.2f} {drawn.cpu:>7.2f} {drawn.cpu / normals.cpu:>6.2f} "
            f"{drawn.peak:>8.0f}"
        )


if __name__ == "__main__":
    main()
