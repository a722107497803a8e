"""The figures of Avraam et al. (2021), made with `sf.plots`: the gallery of the docs.

    SFUMATO_DATA=… .venv/bin/python -m tools.gallery
    SFUMATO_DATA=… .venv/bin/python -m tools.gallery --figures 1 2 --out /tmp

The data are simulated after section 3 of the paper (`visual.csv`, drawn in R): nobody's values.
So the first column may show the original, and grids may end at the data's own range.

References: Avraam et al. (2021), EPJ Data Science 10:2, Figures 1 to 21.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
from tools import gallery_panels as panels

from sfumato.figures import public as plots
from sfumato.figures.sheet import style
from sfumato.figures.sheet.picture import Picture
from sfumato.figures.sheet.style import FAINT, INK, use_house_style
from sfumato.methods.noise import Noise
from sfumato.outputs import Rules
from sfumato.outputs.output import OutputRefused

KEY = bytes(range(32))
RULES = Rules(noise=0.01, bins=0.5)
"""The paper also tries less noise, and finer grids, than a house would let out."""
_NOTHING = 1e-9
_DOTS = 100
ROMAN = ("i", "ii", "iii", "iv", "v")
EXPLORING = ("scatter", "heatmap", "contour", "histogram x", "histogram y", "box")
CHECKING = ("residuals", "qq", "leverage")
DRAWN: dict[str, Callable[..., None]] = {
    "scatter": panels.dots,
    "heatmap": panels.heat,
    "contour": panels.contours,
    "histogram x": panels.bars,
    "histogram y": panels.bars,
    "box": panels.boxes,
    "residuals": panels.dots,
    "qq": panels.dots,
    "leverage": panels.dots,
}


@dataclass(frozen=True)
class Way:
    """One column: a protection with its parameters."""

    title: str
    protection: str
    k: int = 3
    bins: int = 30
    share: float = 0.25


@dataclass(frozen=True)
class Sheet:
    """One figure of the paper: its rows by data set and kind of plot, its columns by protection."""

    number: int
    title: str
    rows: tuple[tuple[int, str], ...]
    ways: tuple[Way, ...]
    records: int = 500


REAL = Way("original", "original")
FIVE = (
    REAL,
    Way("suppressed", "suppress"),
    Way("generalised", "generalise", bins=15),
    Way("deterministic", "deterministic"),
    Way("noise", "noise"),
)
K_FINE, K_COARSE = (
    (REAL, *(Way(f"k = {k}", "suppress", k=k, bins=bins) for k in (3, 5, 7, 9)))
    for bins in (30, 15)
)
CENTRES = (REAL, *(Way(f"k = {k}", "deterministic", k=k) for k in (5, 10, 20, 50)))
SIZES = {"0.1": 0.1, "0.5": 0.5, "1": 1.0, "√2": math.sqrt(2)}
NOISE = (REAL, *(Way(f"q = {name}", "noise", share=size) for name, size in SIZES.items()))


def _rows(kinds: Sequence[str], sets: Sequence[int] = (1,)) -> tuple[tuple[int, str], ...]:
    return tuple((one, kind) for one in sets for kind in kinds)


SHEETS = (
    Sheet(1, "Histograms", _rows(("histogram x", "histogram y"), (1, 2, 3)), FIVE),
    Sheet(2, "Scatter plots", _rows(("scatter",), (1, 2, 3)), FIVE),
    Sheet(3, "Heat maps and contours", _rows(("heatmap", "contour"), (1, 2, 3)), FIVE),
    Sheet(4, "Box plots", _rows(("box",), (1, 2, 3)), FIVE),
    *(Sheet(4 + one, f"Diagnostics of a linear model of D{one}", _rows(CHECKING, (one,)), FIVE)
      for one in (1, 2, 3)),
    Sheet(8, "Suppression: what k does", _rows(EXPLORING), K_FINE),
    Sheet(9, "Generalisation and suppression: what k does", _rows(EXPLORING), K_COARSE),
    Sheet(10, "Suppression: what k does to diagnostics", _rows(CHECKING), K_FINE),
    Sheet(11, "Generalisation: what k does to diagnostics", _rows(CHECKING), K_COARSE),
    Sheet(12, "Deterministic: what k does", _rows(EXPLORING), CENTRES),
    Sheet(13, "Deterministic: what k does to diagnostics", _rows(CHECKING), CENTRES),
    Sheet(14, "Noise: what its size q does", _rows(EXPLORING), NOISE),
    Sheet(15, "Noise: what its size does to diagnostics", _rows(CHECKING), NOISE),
    *(Sheet(16 + 2 * at, f"{n} records", _rows(EXPLORING), FIVE, records=n)
      for at, n in enumerate((50, 100, 300))),
    *(Sheet(17 + 2 * at, f"{n} records: diagnostics", _rows(CHECKING), FIVE, records=n)
      for at, n in enumerate((50, 100, 300))),
)  # fmt: skip


@cache
def _data(records: int) -> pl.DataFrame:
    return pl.read_csv(Path(os.environ["SFUMATO_DATA"]) / "visual.csv").head(records)


@cache
def _model(one: int, records: int) -> Any:
    from statsmodels.formula.api import ols

    return ols(f"y{one} ~ x{one}", _data(records).to_pandas()).fit()


def table_of(kind: str, one: int, way: Way, records: int) -> pl.DataFrame | None:
    """What a panel draws: the table of the plot; None where the rules refuse it."""
    name, _, axis = kind.partition(" ")
    data = _data(records)
    variables: tuple[str, ...] = (f"x{one}", f"y{one}")
    told: dict[str, Any] = {"k": way.k, "rules": RULES, "key": KEY, "sd_share": way.share}
    if name == "box":
        of: tuple[Any, ...] = (data, list(variables))
    elif name in CHECKING:
        of = (_model(one, records),)
    elif name == "histogram":
        of, variables = (data, f"{axis}{one}"), (f"{axis}{one}",)
    else:
        of = (data, *variables)
    cells = way.protection in ("suppress", "generalise")
    told |= {"small": "hide" if cells else "show", "protection": way.protection}
    if way.protection == "original":
        told["protection"] = _as_it_is(name, variables)
    if name in ("histogram", "heatmap", "contour") or (cells and name != "box"):
        # Half the records is the finest grid that any rules allow.
        told["bins"] = min(way.bins, records // 2)
    if cells and name in ("histogram", "heatmap", "contour", "scatter"):
        ends = tuple((_end(data, v, "min"), _end(data, v, "max")) for v in variables)
        told["limits"] = ends[0] if name == "histogram" else ends
    try:
        made: pl.DataFrame = getattr(plots, name)(*of, **told).table
    except OutputRefused:
        return None
    return made


def _end(data: pl.DataFrame, name: str, which: str) -> float:
    return float(getattr(data[name].to_numpy(), which)())


def _as_it_is(name: str, variables: Sequence[str]) -> Noise:
    """Noise of next to nothing: plots draw no original, and these data are nobody's."""
    of_models = {"residuals": ("fitted", "residual"), "leverage": ("leverage", "standardised"),
                 "qq": ("standardised",)}  # fmt: skip
    names = list(of_models.get(name, variables))
    return Noise(variables=names, sd_share=_NOTHING, bounds="ignore", whole=False)


def drawn(sheet: Sheet) -> Picture:
    """One figure of the paper."""
    from matplotlib.figure import Figure

    rows = len(sheet.rows)
    with use_house_style():
        figure = Figure(figsize=(7.6, 1.32 * rows + 0.35), layout="constrained", facecolor="white")
        grid = figure.subplots(rows, len(sheet.ways), squeeze=False)
        for place, (row, (one, kind)) in enumerate(zip(grid, sheet.rows, strict=True)):
            for axes, way in zip(row, sheet.ways, strict=True):
                _panel(axes, table_of(kind, one, way, sheet.records), kind)
            _same_axes(row, kind)
            letter = "ABCDEF"[one - 1 if len({one for one, _ in sheet.rows}) > 1 else place]
            row[0].set_ylabel(f"{letter}  D{one}: {kind}", fontsize=7.5, fontweight="bold")
        for axes, way, roman in zip(grid[0], sheet.ways, ROMAN, strict=True):
            axes.set_title(f"({roman}) {way.title}", fontsize=8, color=INK)
        figure.get_layout_engine().set(w_pad=0.03, h_pad=0.03, wspace=0.02, hspace=0.02)  # type: ignore[union-attr, call-arg]
        figure.get_layout_engine().execute(figure)  # type: ignore[union-attr]
        figure.set_layout_engine("none")
    return Picture(figure=figure, title=sheet.title, caption=sheet.title, audience="public")


def _panel(axes: Any, table: pl.DataFrame | None, kind: str) -> None:
    axes.set_facecolor("none")
    axes.spines[["top", "right"]].set_visible(False)
    # Every tick is a path and a text in the file; a few are enough here.
    axes.tick_params(length=0, labelsize=5.5, pad=1.5)
    axes.locator_params(nbins=4)
    axes.grid(color=INK, alpha=FAINT, linewidth=0.4)
    if table is None:
        panels.refused(axes)
    elif kind in ("residuals", "qq", "leverage"):
        panels.dots(axes, table, line=False)
    else:
        DRAWN[kind](axes, table)


def _same_axes(row: Sequence[Any], kind: str) -> None:
    """The same room in every panel of a row, as far as something is drawn."""
    used = [axes for axes in row if len(axes.get_xticks())]
    for get, put in (("get_xlim", "set_xlim"), ("get_ylim", "set_ylim")):
        ends = np.array([getattr(axes, get)() for axes in used])
        for axes in used:
            getattr(axes, put)(float(ends[:, 0].min()), float(ends[:, 1].max()))
    for axes in used[1:]:
        axes.tick_params(labelleft=False)
    if kind == "qq":
        for axes in used:
            axes.axline((0, 0), slope=1, color=INK, linewidth=0.6, linestyle=(0, (4, 3)))


def main(words: Sequence[str] | None = None) -> int:
    """Make all figures, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figures", type=int, nargs="*", help="which; default: all")
    parser.add_argument("--out", type=Path, default=Path("docs/assets/gallery"))
    parser.add_argument("--format", default="svg", choices=("svg", "png", "pdf"))
    asked = parser.parse_args(words)
    asked.out.mkdir(parents=True, exist_ok=True)
    for sheet in SHEETS:
        if asked.figures and sheet.number not in asked.figures:
            continue
        start = time.monotonic()
        path = asked.out / f"figure-{sheet.number:02}.{asked.format}"
        with patch.dict(style._SETTINGS, {"savefig.dpi": _DOTS}):  # noqa: SLF001 - small files
            drawn(sheet).save(path, overwrite=True)
        if asked.format == "svg":
            path.write_text(re.sub(r">\s+<", "><", path.read_text()))
        size = path.stat().st_size / 1000
        print(f"{path} {size:.0f} kB, {time.monotonic() - start:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
