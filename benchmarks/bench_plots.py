"""Plots of ten million records, against NumPy's bare counts of the same records.

The baselines count and do nothing else: no missing values, no limits, no figure. Each runs in a
process of its own; ours includes drawing the figure and writing it.
"""

from __future__ import annotations

import sys

from benchmarks.cost import cost

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
ROWS = {
    "histogram": ('"x"', "np.histogram(x, 30)"),
    "heatmap": ('"x", "y"', "np.histogram2d(x, y, 30)"),
    "contour": ('"x", "y"', "np.histogram2d(x, y, 30)"),
    "box": ('"x"', "np.quantile(x, [0.05, 0.25, 0.5, 0.75, 0.95])"),
}


def main(records: int = RECORDS, points: int = POINTS) -> None:
    """Print CPU seconds, ratios and memory."""
    print(
        f"{'plot':>22} {'records':>11} {'NumPy CPU s':>12} {'ours':>6} {'ratio':>6} {'peak MB':>8}"
    )
    for kind, (of, baseline) in ROWS.items():
        setup = SETUP.format(records=records)
        theirs = cost(baseline, setup=setup)
        warm = setup + WARM.format(kind=kind, of=of)
        ours = cost(f"sf.plots.{kind}(frame, {of}).svg()", setup=warm)
        print(
            f"{kind:>22} {records:>11,} {theirs.cpu:>12.2f} {ours.cpu:>6.2f} "
            f"{ours.cpu / theirs.cpu:>6.2f} {ours.peak:>8.0f}"
        )
    setup = SETUP.format(records=points) + 'sf.plots.scatter(frame.head(30_000), "x", "y")\n'
    for protection in ("deterministic", "noise"):
        made = f'sf.plots.scatter(frame, "x", "y", protection="{protection}").svg()'
        ours = cost(made, setup=setup)
        name = f"scatter, {protection}"
        print(f"{name:>22} {points:>11,} {'':>12} {ours.cpu:>6.2f} {'':>6} {ours.peak:>8.0f}")


if __name__ == "__main__":
    main(*(int(one) for one in sys.argv[1:]))
