"""Small panels for the gallery, drawn from nothing but the tables that plots export."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.figures.public.contour import smooth_grid
from sfumato.figures.public.grid import Grid
from sfumato.figures.public.heatmap import get_colormap
from sfumato.figures.public.scatter import fit_line
from sfumato.figures.sheet.style import BLUE, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LARGEST = 26.0


def bars(axes: Axes, table: pl.DataFrame) -> None:
    """A histogram."""
    widths = table["high"] - table["low"]
    axes.bar(table["low"], table["density"], widths, align="edge", facecolor=(BLUE, 0.4),
             edgecolor=BLUE, linewidth=0.4, rasterized=True)  # fmt: skip


def dots(axes: Axes, table: pl.DataFrame, *, line: bool = True) -> None:
    """Points, or the middles of cells sized by their count; and the line through them."""
    x, y, weights = places(table)
    sized = "records" in table.columns
    size: Any = _LARGEST * weights / weights.max() if sized else 2.2
    axes.scatter(x, y, s=size, color=BLUE, alpha=0.55, linewidths=0, rasterized=True)
    twice = table.is_duplicated().to_numpy()
    if not sized and twice.any():
        axes.scatter(x[twice], y[twice], s=2.2, color=INK, linewidths=0, rasterized=True)
    found = fit_line(x, y, weights) if line else None
    if found is not None:
        ends = np.array([found.low, found.high])
        axes.plot(ends, found.intercept + found.slope * ends, color=INK, linewidth=0.9)


def places(table: pl.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where the points of a table lie, and their weights."""
    names = table.columns
    if "records" not in names:
        return table[names[0]].to_numpy(), table[names[1]].to_numpy(), np.ones(table.height)
    x = (table[names[0]] + table[names[1]]) / 2
    y = (table[names[2]] + table[names[3]]) / 2
    return x.to_numpy(), y.to_numpy(), table["records"].to_numpy().astype(float)


def heat(axes: Axes, table: pl.DataFrame) -> None:
    """Cells in colour."""
    from matplotlib.collections import PolyCollection

    a, b, c, d = (table[name].to_numpy() for name in table.columns[:4])
    corners = np.stack([np.stack(one, axis=1) for one in ((a, c), (b, c), (b, d), (a, d))], axis=1)
    made = PolyCollection(list(corners), array=table["records"].to_numpy(), cmap=get_colormap())
    made.set(linewidths=0, rasterized=True, clim=(0, table["records"].max()))
    axes.add_collection(made)
    axes.autoscale_view()


def contours(axes: Axes, table: pl.DataFrame) -> None:
    """Lines of equal density."""
    one = gridded(table)
    x, y, density = smooth_grid(one, 1.0)
    cuts = np.linspace(0, float(density.max()), 8)[1:]
    made = axes.contourf(x, y, density.T, levels=cuts, cmap=get_colormap())
    made.set_rasterized(True)


def gridded(table: pl.DataFrame) -> Grid:
    """The grid behind a table of cells."""
    cuts, at = [], []
    for axis in ("x", "y"):
        low, high = table[f"{axis}_low"].to_numpy(), table[f"{axis}_high"].to_numpy()
        step = float(np.median(high - low))
        first = low.min()
        count = round((high.max() - first) / step)
        cuts.append(first + step * np.arange(count + 1))
        at.append(np.round((low - first) / step).astype(int))
    counts = np.zeros((len(cuts[0]) - 1, len(cuts[1]) - 1), np.int64)
    counts[at[0], at[1]] = table["records"].to_numpy()
    total = int(counts.sum())
    return Grid(label="", x=cuts[0], y=cuts[1], counts=counts, hidden=0, records=total)


def boxes(axes: Axes, table: pl.DataFrame) -> None:
    """A box for each variable, upright."""
    names = table["variable"].unique(maintain_order=True).to_list()
    for at, name in enumerate(names):
        part = {one: values for one, *values in _parts(table.filter(pl.col("variable") == name))}
        low, lower, middle, upper, high = (
            part[one][0] for one in ("low", "lower", "middle", "upper", "high")
        )
        axes.plot([at, at], [low, lower], [at, at], [upper, high], color=BLUE, linewidth=0.9)
        axes.bar(at, upper - lower, 0.5, lower, facecolor=BLUE, alpha=0.4)
        axes.plot([at - 0.25, at + 0.25], [middle, middle], color=INK, linewidth=1.2)
        outliers = part.get("outlier", [])
        axes.plot([at] * len(outliers), outliers, "o", markersize=1.6, markerfacecolor="none",
                  markeredgecolor=BLUE, markeredgewidth=0.4, rasterized=True)  # fmt: skip
    axes.set_xticks(range(len(names)), ["X", "Y"][: len(names)])
    axes.set_xlim(-0.6, len(names) - 0.4)


def _parts(table: pl.DataFrame) -> list[tuple[Any, ...]]:
    grouped = table.group_by("part", maintain_order=True).agg(pl.col("value"))
    return [(part, *values) for part, values in grouped.rows()]


def refused(axes: Axes) -> None:
    """Say in the panel that the rules did not allow it."""
    axes.text(0.5, 0.5, "refused", transform=axes.transAxes, ha="center", va="center",
              fontsize=7, color=INK)  # fmt: skip
    axes.set_xticks([])
    axes.set_yticks([])
