"""Figures of several sites, from their bundles alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import polars as pl

from sfumato.figures.public.box import Box, draw_panel, make_box, read_box_off_counts
from sfumato.figures.public.contour import draw_contours
from sfumato.figures.public.grid import Grid
from sfumato.figures.public.heatmap import crop_to_grids, draw_cells
from sfumato.figures.public.histogram import Bars, draw_bars
from sfumato.figures.public.plot import Plot
from sfumato.figures.public.protected_values import ProtectedValues
from sfumato.figures.public.scatter import draw_dots, draw_line, fit_line
from sfumato.figures.public.survival import (
    SafeSurvivalCurve,
    confidence_band,
    draw_curve,
    kaplan_meier,
)
from sfumato.figures.sheet.sheet import (
    label_axes,
    make_panels,
    make_sheet,
    put_head_and_foot,
)
from sfumato.figures.sheet.style import MOST_MARKS, Mark, pick_marks, use_house_style
from sfumato.figures.sheet.text import format_records
from sfumato.kernels.arrays import Floats
from sfumato.sites.bundle import (
    BoxAnswer,
    GridAnswer,
    HistogramAnswer,
    JoinedBins,
    LifeTable,
    ScatterAnswer,
    SurvivalAnswer,
)
from sfumato.sites.request import SiteRequest

if TYPE_CHECKING:
    from collections.abc import Callable

_LEVELS, _SMOOTH = 8, 1.0
_ALL = "All sites"
_HIDDEN = (
    "Every site hides cells of few records, and some more so that those do not follow: where one "
    "did, the sum is too low."
)
_JOINED = "Bins in which a site has few records are joined with a neighbour, and drawn even."
_SKETCH = (
    "The boxes of all sites are read off counts in bins; within a bin, records are taken as evenly "
    "spread. Those of a site rest on several records in every line. Whiskers end at 5 and 95 %."
)
_LIFE_TABLE = (
    "Times are rounded up to the agreed steps, and further where a site had few events. "
    "Bands are 95 % intervals, time by time."
)
_POINTS = {
    "deterministic": "Every point is the centre of several neighbouring records of one site.",
    "noise": "Every point has random noise, drawn at its site, which makes the trend a little "
    "flatter.",
}


def draw_result(
    request: SiteRequest, result: Any, answers: Mapping[str, Any], statement: str
) -> Plot:
    """The figure of one result, from the answers of the sites that gave one."""
    heading = result.title or _make_title(result)
    with use_house_style():
        figure, axes, table, notes, legend = _DRAWINGS[result.kind](request, result, answers)
        caption = " ".join([*notes, statement])
        put_head_and_foot(figure, heading, legend=legend, foot=caption)
    return Plot(
        figure=figure,
        title=heading,
        caption=caption,
        audience="public",
        stamp="",
        axes=tuple(axes),
        table=table,
        rule={"sites": sorted(answers)},
    )


def _make_title(result: Any) -> str:
    by = f" by {result.by}" if getattr(result, "by", None) else ""
    if result.kind == "survival":
        return f"Time to {result.event}{by}"
    if result.kind in ("histogram", "box"):
        return f"{'Histogram' if result.kind == 'histogram' else 'Box plot'} of {result.x}{by}"
    return f"{'Density of ' if result.kind == 'contour' else ''}{result.y} by {result.x}"


def _order_labels(request: SiteRequest, by: str | None, answers: Mapping[str, Any]) -> list[str]:
    """The groups that any site shows, as they were agreed."""
    shown = {label for answer in answers.values() for label in answer.groups}
    levels = [""] if by is None else list(request.variables[by].levels or ())
    return [level for level in levels if level in shown]


# Counts


def _draw_histogram(
    request: SiteRequest, result: Any, answers: Mapping[str, HistogramAnswer]
) -> Any:
    cuts = request.variables[result.x].edges
    counts = {
        label: pool_bins([answer.groups[label] for answer in answers.values()
                          if label in answer.groups])
        for label in _order_labels(request, result.by, answers)
    }  # fmt: skip
    # Of joined bins, counts are parts of records.
    bars = [Bars(label, cuts, cast("Any", sums), 0, 0.0) for label, sums in counts.items()]
    figure, (axes,) = make_sheet(3.1)
    legend = draw_bars(axes, bars, density=False)
    label_axes(axes, result.x, "Records", width=60)
    tables = [
        pl.DataFrame(
            {
                **({} if result.by is None else {"group": [group.label] * len(group.counts)}),
                "low": cuts[:-1],
                "high": cuts[1:],
                "records": group.counts,
            }
        )
        for group in bars
    ]
    records = sum(round(float(numbers.sum())) for numbers in counts.values())
    notes = [_JOINED, f"It shows {format_records(records)}."]
    return figure, [axes], pl.concat(tables), notes, legend


def pool_bins(sites: Sequence[JoinedBins]) -> Floats:
    """The counts of all sites in the agreed bins; where a site joined some, spread evenly.

    Examples
    --------
    >>> pool_bins([JoinedBins(edges=(0, 1, 3), counts=(25, 6))]).tolist()
    [25.0, 3.0, 3.0]
    """
    pooled = np.zeros(sites[0].edges[-1])
    for bins in sites:
        widths = np.diff(bins.edges)
        pooled += np.repeat(np.array(bins.counts) / widths, widths)
    return pooled


def _draw_grid(request: SiteRequest, result: Any, answers: Mapping[str, GridAnswer]) -> Any:
    x, y = (request.variables[name].edges for name in (result.x, result.y))
    counts = np.sum([answer.counts for answer in answers.values()], axis=0)
    grid = Grid(label="", x=x, y=y, counts=counts, hidden=0, records=int(counts.sum()))
    figure, panels = make_panels([""], result.x, result.y)
    if result.kind == "heatmap":
        draw_cells(panels, [grid])
    else:
        draw_contours(panels[0], grid, _LEVELS, _SMOOTH)
        crop_to_grids(panels, [grid], room=1.5)
    notes = [_HIDDEN, f"It shows {format_records(grid.records)}."]
    return figure, panels, grid.table(grouped=False), notes, []


# Boxes


def _draw_box(request: SiteRequest, result: Any, answers: Mapping[str, BoxAnswer]) -> Any:
    edges = request.variables[result.x].edges
    rows: list[tuple[str, str, Box]] = []
    groups = _order_labels(request, result.by, answers)
    for label in groups:
        by_site = {site: answers[site].groups[label] for site in sorted(answers)
                   if label in answers[site].groups}  # fmt: skip
        pooled = pool_bins(list(by_site.values()))
        rows.append((label, _ALL, read_box_off_counts(pooled, edges)))
        rows += [(label, site, make_box(sketch.five)) for site, sketch in by_site.items()]
    if len(rows) > MOST_MARKS:
        rows = [row for row in rows if row[1] == _ALL]
    names = [f"{label}: {site}" if label else site for label, site, _ in rows]
    figure, (axes,) = make_sheet(0.72 + 0.42 * len(rows))
    draw_panel(axes, [box for _, _, box in rows], names)
    label_axes(axes, result.x, width=60)
    parts = ("low", "lower", "middle", "upper", "high")
    table = pl.DataFrame(
        [
            {
                **({"group": label} if result.by is not None else {}),
                "site": site,
                **{part: getattr(box, part) for part in parts},
            }
            for label, site, box in rows
        ]
    )
    return figure, [axes], table, [_SKETCH], []


# Points


def _draw_scatter(request: SiteRequest, result: Any, answers: Mapping[str, ScatterAnswer]) -> Any:
    del request
    sites = sorted(answers)
    looks = pick_marks(sites, grouped=True)
    figure, (axes,) = make_sheet(4.3)
    tables = []
    for site, look in zip(sites, looks, strict=True):
        points = np.array(answers[site].points)
        frame = pl.DataFrame({"x": points[:, 0], "y": points[:, 1]})
        draw_dots(axes, ProtectedValues(values=frame, coinciding=np.zeros(len(frame), bool)), look)
        tables.append(frame.select(pl.lit(site).alias("site"), "x", "y"))
    table = pl.concat(tables)
    x, y = table["x"].to_numpy(), table["y"].to_numpy()
    if (line := fit_line(x, y, np.ones(len(x)))) is not None:
        draw_line(axes, line, Mark(""))
    label_axes(axes, result.x, result.y, width=60)
    legend = [replace(look, line="") for look in looks]
    notes = [_POINTS[result.protection], "The dashed line is the trend of all points."]
    return figure, [axes], table, notes, legend


# Survival


def _draw_survival(request: SiteRequest, result: Any, answers: Mapping[str, SurvivalAnswer]) -> Any:
    edges = request.variables[result.time].edges
    labels = _order_labels(request, result.by, answers)
    looks = pick_marks(labels, grouped=result.by is not None)
    figure, (axes,) = make_sheet(3.4)
    tables = []
    for index, (label, look) in enumerate(zip(labels, looks, strict=True)):
        tables_of_group = [
            answer.groups[label] for answer in answers.values() if label in answer.groups
        ]
        curve = pool_survival(tables_of_group, edges)
        draw_curve(axes, curve, look, index, interval=True)
        tables.append(
            pl.DataFrame(
                {
                    **({} if result.by is None else {"group": [label] * len(curve.times)}),
                    "time": curve.times,
                    "survival": curve.survival,
                    "low": curve.low,
                    "high": curve.high,
                }
            )
        )
    axes.set_ylim(0, 1.02)
    axes.set_xlim(left=min(0.0, float(edges[0])))
    label_axes(axes, result.time, f"Share without {result.event}", width=60)
    legend = looks if result.by is not None else []
    return figure, [axes], pl.concat(tables), [_LIFE_TABLE], legend


def pool_survival(tables: Sequence[LifeTable], edges: Floats) -> SafeSurvivalCurve:
    """The curve of Kaplan and Meier of all sites, at the times to which they rounded up.

    Examples
    --------
    >>> table = LifeTable(times=(1, 2), events=(5, 0), ends=(0, 5))
    >>> pool_survival([table, table], np.array([0.0, 1.0, 2.0])).survival
    (0.5,)
    """
    times, events = [], []
    for table in tables:
        table_times = edges[list(table.times)]
        for counts, happened in ((table.events, True), (table.ends, False)):
            times.append(np.repeat(table_times, counts))
            events.append(np.full(sum(counts), happened))
    every_time = np.concatenate(times)
    curve = kaplan_meier(every_time, np.concatenate(events))
    low, high = confidence_band(curve.survival, curve.error, 0.95)
    return SafeSurvivalCurve(
        tuple(curve.times.tolist()),
        tuple(curve.survival.tolist()),
        tuple(low.tolist()),
        tuple(high.tolist()),
        float(every_time.max()),
    )


_DRAWINGS: dict[str, Callable[[SiteRequest, Any, Mapping[str, Any]], Any]] = {
    "histogram": _draw_histogram,
    "box": _draw_box,
    "heatmap": _draw_grid,
    "contour": _draw_grid,
    "scatter": _draw_scatter,
    "survival": _draw_survival,
}
