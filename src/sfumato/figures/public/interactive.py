"""A figure as one HTML page: hover shows the values, the wheel zooms, and nothing is loaded.

What the page holds is the table of the plot, which are the protected values that are drawn, and the
figure itself. It has no other data, no library and no address to ask.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from sfumato.errors import SfumatoError

if TYPE_CHECKING:
    from sfumato.figures.public.plot import Plot

_POINTS_PER_INCH = 72.0
_PAIRS = (
    ("x", "y"), ("fitted", "residual"), ("theoretical", "observed"), ("leverage", "standardised"),
    ("time", "survival"), ("value", "density"),
)  # fmt: skip
_HEIGHTS = ("density", "records")
_LENGTHS = ("share", "records")
_MOST_ROWS = 20_000
_STYLE = """
:root { color-scheme: light dark; --ink: #1d2228; --paper: #fff; --line: #c9ced4; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --paper: #16181b; --line: #3c4148; } }
body { margin: 1.5rem auto; max-width: 46rem; padding: 0 1rem; color: var(--ink);
  background: var(--paper); font: 15px/1.5 system-ui, sans-serif; }
#stage { position: relative; touch-action: none; cursor: crosshair; overflow: hidden; }
#stage svg { user-select: none; }
#tip { position: absolute; pointer-events: none; display: none; padding: 4px 8px; font-size: 12px;
  background: var(--paper); color: var(--ink); border: 1px solid var(--line); border-radius: 4px;
  white-space: pre; }
p { font-size: 13px; }
button { font: inherit; font-size: 13px; }
div.rows { max-height: 20rem; overflow: auto; }
table { border-collapse: collapse; font-size: 13px; }
td, th { padding: 2px 10px; border-bottom: 1px solid var(--line); text-align: right; }
"""
_SCRIPT = """
const marks = __MARKS__;
const stage = document.getElementById("stage"), tip = document.getElementById("tip");
const svg = stage.querySelector("svg");
const whole = svg.getAttribute("viewBox").split(" ").map(Number);
let view = whole.slice();
const ring = document.createElementNS("http://www.w3.org/2000/svg", "circle");
ring.setAttribute("fill", "none");
ring.setAttribute("stroke", "#d55e00");
ring.style.display = "none";
svg.appendChild(ring);
function show() { svg.setAttribute("viewBox", view.join(" ")); }
function locate(event) {
  const box = svg.getBoundingClientRect();
  return [view[0] + (event.clientX - box.left) / box.width * view[2],
          view[1] + (event.clientY - box.top) / box.height * view[3]];
}
function hide() { tip.style.display = "none"; ring.style.display = "none"; }
let held = null;
stage.addEventListener("pointerdown", event => { held = locate(event); hide(); });
window.addEventListener("pointerup", () => { held = null; });
stage.addEventListener("pointerleave", hide);
stage.addEventListener("pointermove", event => {
  const here = locate(event);
  if (held) { view[0] += held[0] - here[0]; view[1] += held[1] - here[1]; show(); return; }
  const reach = 14 * view[2] / whole[2];
  let best = null, least = reach * reach;
  for (const mark of marks) {
    const gap = (mark[0] - here[0]) ** 2 + (mark[1] - here[1]) ** 2;
    if (gap < least) { least = gap; best = mark; }
  }
  if (!best) { hide(); return; }
  ring.setAttribute("cx", best[0]);
  ring.setAttribute("cy", best[1]);
  ring.setAttribute("r", reach / 2.5);
  ring.setAttribute("stroke-width", reach / 12);
  ring.style.display = "inline";
  tip.textContent = best[2];
  tip.style.display = "block";
  const box = stage.getBoundingClientRect();
  const left = Math.min(event.clientX - box.left + 14, box.width - tip.offsetWidth - 4);
  tip.style.left = Math.max(0, left) + "px";
  tip.style.top = (event.clientY - box.top + 14) + "px";
});
stage.addEventListener("wheel", event => {
  event.preventDefault();
  const here = locate(event), factor = event.deltaY > 0 ? 1.2 : 1 / 1.2;
  const width = Math.min(whole[2], Math.max(whole[2] / 40, view[2] * factor));
  const ratio = width / view[2];
  view = [here[0] - (here[0] - view[0]) * ratio, here[1] - (here[1] - view[1]) * ratio,
          width, view[3] * ratio];
  if (width === whole[2]) view = whole.slice();
  show();
}, { passive: false });
function reset() { view = whole.slice(); show(); }
stage.addEventListener("dblclick", reset);
document.getElementById("reset").addEventListener("click", reset);
"""


def render_interactive(plot: Plot) -> str:
    """The page of a plot that may leave."""
    if plot.audience != "public":
        raise SfumatoError(
            "An interactive page holds protected values only, and this figure shows the original.",
            hint="save it as .svg or .png, and keep it inside.",
        )
    if plot.table.height > _MOST_ROWS:
        raise SfumatoError(
            f"The figure shows more than {_MOST_ROWS:,} values: too many for a page.",
            hint='draw a heat map, or save it as ".png".',
        )
    marks = [[round(x, 2), round(y, 2), text] for x, y, text in _locate_rows(plot)]
    # "</script>" and "<!--" in a label would end the script.
    written = json.dumps(marks, ensure_ascii=False).replace("<", "\\u003c")
    script = _SCRIPT.replace("__MARKS__", written)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # This script and no other; styles of the figure stand in its elements.
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:"
    )
    title = html.escape(plot.title)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>{_STYLE}</style>
</head>
<body>
<div id="stage">{plot.svg()}<div id="tip" role="status"></div></div>
<p>Point at something to read its values. Wheel: zoom; drag: move; double click:
<button id="reset" type="button">all of it</button></p>
<details><summary>The values that are drawn ({plot.table.height:,} rows)</summary>
<div class="rows">{_render_table(plot.table)}</div></details>
<script>{script}</script>
</body>
</html>
"""


def _render_table(table: pl.DataFrame) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in table.columns)
    rows = [
        "".join(f"<td>{html.escape(_format_value(value))}</td>" for value in row)
        for row in table.rows()
    ]
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"


def _format_value(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _locate_rows(plot: Plot) -> Iterator[tuple[float, float, str]]:
    """Where each row of the table stands in the figure, in points, and what it says."""
    figure = plot.figure
    height = float(figure.get_size_inches()[1]) * _POINTS_PER_INCH
    for row, place, panel in _place_rows(plot):
        if any(value is None or value != value for value in place):  # noqa: PLR0124 - NaN
            continue
        axes = plot.axes[min(panel, len(plot.axes) - 1)]
        x, y = axes.transData.transform(place) / figure.dpi * _POINTS_PER_INCH
        left, low, width, tall = (
            axes.get_window_extent().bounds[side] / figure.dpi * _POINTS_PER_INCH
            for side in range(4)
        )
        if left <= x <= left + width and low <= y <= low + tall:
            lines = [f"{name}: {_format_value(value)}" for name, value in row.items()]
            yield float(x), float(height - y), "\n".join(lines)


def _place_rows(plot: Plot) -> Iterator[tuple[Mapping[str, Any], tuple[Any, Any], int]]:
    """Each row, its place in the units of the axes, and its panel."""
    table = plot.table
    rows, names = table.to_dicts(), set(table.columns)
    groups = _number(table, "group")
    if {"variable", "part", "value"} <= names:
        panels = _number(table, "variable")
        for row in rows:
            yield row, (row["value"], groups.get(row.get("group"), 0)), panels[row["variable"]]
    elif "level" in names:
        rows_of_levels = _number(table, "level")
        length = next(name for name in _LENGTHS if name in names)
        for row in rows:
            yield row, (row[length], rows_of_levels[row["level"]]), groups.get(row.get("group"), 0)
    elif {"x_low", "x_high", "y_low", "y_high"} <= names:
        for row in rows:
            x, y = ((row[f"{axis}_low"] + row[f"{axis}_high"]) / 2 for axis in "xy")
            yield row, (x, y), groups.get(row.get("group"), 0)
    else:
        for index, row in enumerate(rows):
            if (place := _place_row(row, index)) is not None:
                yield row, place, groups.get(row.get("group"), 0)


def _place_row(row: Mapping[str, Any], index: int) -> tuple[Any, Any] | None:
    """Where a row stands in a figure of one panel; None where that cannot be told."""
    height = next((name for name in _HEIGHTS if name in row), None)
    if {"low", "high"} <= set(row) and height is not None:
        return (row["low"] + row["high"]) / 2, row[height]
    if {"term", "estimate"} <= set(row):
        return row["estimate"], index
    pair = next((pair for pair in _PAIRS if set(pair) <= set(row)), None)
    return None if pair is None or "part" in row else (row[pair[0]], row[pair[1]])


def _number(table: pl.DataFrame, name: str) -> dict[Any, int]:
    """The values of a column in the order in which they first come."""
    if name not in table.columns:
        return {}
    values = table[name].unique(maintain_order=True).to_list()
    return {value: index for index, value in enumerate(values)}
