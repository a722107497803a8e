"""Plots of ten million records, against NumPy's bare counts of the same records.

The baselines count and do nothing else: no missing values, no limits, no figure. Each runs in a
process of its own; ours includes drawing the figure and writing it.
"""

from __future__ import annotations

from benchmarks.cost import cost
from benchmarks.rows import Row, compare

RECORDS = 10_000_000
POINTS = 1_000_000

SETUP = """
import io, numpy as np, polars as pl
import sfumato as sf
chance = np.random.default_rng(1)
x = chance.normal(10, 0.5, {records})
frame = pl.DataFrame({{"x": x, "y": x + chance.normal(size={records})}})
x, y = frame["x"].to_numpy(), frame["y"].to_numpy()
few = frame.head(300_000)
from matplotlib.figure import Figure
Figure().savefig(io.BytesIO(), format="svg")
"""
WARM = "sf.plots.{kind}(few, {of}).svg()\n"
"""Compilers and fonts are loaded once in a session."""
FIGURES = {
    "histogram": ('"x"', "np.histogram(x, 30)"),
    "heatmap": ('"x", "y"', "np.histogram2d(x, y, 30)"),
    "contour": ('"x", "y"', "np.histogram2d(x, y, 30)"),
    "box": ('"x"', "np.quantile(x, [0.05, 0.25, 0.5, 0.75, 0.95])"),
}


ROWS = [
    Row(
        f"{kind}, {records:,} records",
        f"sf.plots.{kind}(frame, {of}).svg()",
        baseline,
        "NumPy's bare counts",
        SETUP.format(records=records) + WARM.format(kind=kind, of=of),
        their_setup=SETUP.format(records=records),
        quick=records < RECORDS,
    )
    for records in (POINTS, RECORDS)
    for kind, (of, baseline) in FIGURES.items()
]


def main() -> None:
    """Scatter plots, which have no baseline."""
    setup = SETUP.format(records=POINTS) + 'sf.plots.scatter(frame.head(30_000), "x", "y")\n'
    for protection in ("deterministic", "noise"):
        made = f'sf.plots.scatter(frame, "x", "y", protection="{protection}").svg()'
        ours = cost(made, setup=setup)
        print(f"scatter, {protection}, {POINTS:,} records: {ours.cpu:.2f} CPU s {ours.peak:.0f} MB")


if __name__ == "__main__":
    list(compare(ROWS))
    main()
