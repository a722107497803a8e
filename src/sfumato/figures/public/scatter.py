"""Two variables as points: centres, noisy values, or cells sized by count: paper 003, Figure 2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from sfumato.figures._sheet.sheet import label_axes, sheet
from sfumato.figures._sheet.style import BLUE, Mark, house_style, mark
from sfumato.figures.public.cells import (
    bins_of,
    cell_details,
    extremes,
    grids,
    lost_said,
    parts_in,
    protected,
    two_limits,
)
from sfumato.figures.public.drawn import finished, refusals
from sfumato.figures.public.grid import allowed_bins
from sfumato.figures.public.heatmap import BINS
from sfumato.figures.public.protection import Protecting, house_of, resolve, subjects
from sfumato.figures.public.small import Small, full_reasons, small_reasons
from sfumato.figures.public.strewn import bubbles, dots, mist, spots
from sfumato.figures.public.trend import TREND, Line, draw_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sfumato.figures.public.cells import Grid, TwoLimits
    from sfumato.figures.public.plot import Plot
    from sfumato.figures.public.points import Protected
    from sfumato.figures.public.protection import Keyed, Protection
    from sfumato.figures.public.subjects import Subjects
    from sfumato.outputs.log import Log
    from sfumato.outputs.rules import Rules

MANY = 20_000
"""More points than this are drawn as a fine grid of counts."""
_FINE = 150
_WHY = "Centres of neighbours were chosen: they keep the shape of the cloud, and nothing is random."
_FLATTER = "Noise makes the trend a little flatter than it is."
_AS_GRID = "So many points are drawn as a fine grid of counts."


def scatter(  # noqa: PLR0913 - all but three by name only
    data: Any,
    x: str,
    y: str,
    *,
    hue: str | None = None,
    protection: Protecting | None = None,
    k: int | None = None,
    bins: int | None = None,
    limits: TwoLimits | None = None,
    trend: bool = True,
    sd_share: float = 0.25,
    key: Keyed = None,
    small: Small = "hide",
    title: str | None = None,
    rules: Rules | None = None,
    log: Log | None = None,
) -> Plot:
    """Points that are nobody's: centres of neighbours, noisy values, or cells sized by count.

    Question: how do two variables go together, told without anybody's point?
    Assumes: one record is one person. Trend lines are fitted to what is drawn, not to the
    original.

    Parameters
    ----------
    data : a frame, a Dataset or a release.
    x : the variable across.
    y : the variable upwards.
    hue : a variable that makes groups; each is protected by itself.
    protection : "deterministic" draws the centre of every record and its k - 1 nearest, the
        default. "noise" draws noisy values. "suppress" and "generalise" draw the middle of every
        cell of at least k records, its size by the count.
    k : how many records share in a centre, and fewest records behind a cell.
        Default: the rules' k, which is 3.
    bins : cells an axis. Default: about 30, or 15 of "generalise".
    limits : ((low, high), (low, high)) of the two axes. Default: what the protected values need.
    trend : draw the straight line through what is shown, weighted by the counts.
    sd_share : SD of the noise as a share of the variable's.
    key : the custodian's secret, for noise that is the same next time.
    small : "show" cells of fewer than k protected values, where many points become a grid.
    title : of the figure.
    rules : the house rules.
    log : where the output is listed.

    Examples
    --------
    >>> import numpy as np, polars as pl, sfumato as sf
    >>> at = np.arange(100)
    >>> frame = pl.DataFrame({"age": 20 + at * 0.7, "bmi": 22 + (at * 37 % 100) * 0.09})
    >>> made = sf.plots.scatter(frame, x="age", y="bmi", protection="deterministic")
    >>> made.table.columns, made.verdict
    (['x', 'y'], 'pass')

    References: Avraam et al. (2021), EPJ Data Science 10:2, section 4.1 and Figure 2.
    """
    (house, k), named = house_of(rules, log, k), title or f"{y} by {x}"
    groups = () if hue is None else (hue,)
    with refusals(log, kind="scatter", title=named, variables=[x, y], groups=groups):
        who = subjects(data, [x, y], hue, rules=house, k=k)
        way = resolve(protection, default="deterministic", why=_WHY, records=who.fewest, k=k,
                      sd_share=sd_share, key=key, rules=house)  # fmt: skip
        concerns = small_reasons(small, way)
        ends = two_limits(x, y, limits)
        points = None if way.cells else protected(who, [x, y], way, lonely=small == "show")
        cells = _cells(who, way, points, bins=bins, limits=ends, small=small, house=house)
        concerns = (*concerns, *full_reasons([one.counts for one in cells or []], house))
    with house_style():
        figure, (axes,) = sheet(4.3)
        looks = _looks(who)
        lines, legend = _draw(axes, way, points, cells, looks, ends=ends, trend=trend)
        label_axes(axes, x, y, width=60)
        notes = [] if cells is None else lost_said(cells, k)
        if cells is not None and not way.cells:
            notes.append(_AS_GRID)
        if trend and way.name == "noise":
            notes.append(_FLATTER)
        return finished(
            figure,
            [axes],
            kind="scatter",
            title=named,
            protection=way,
            shown_of=who,
            table=_table(who, points, cells),
            notes=[*notes, *(said for one in points or [] for said in one.notes())],
            reasons=[*concerns, *extremes(who, [x, y], ends)],
            rule={} if cells is None else {"bins": bins_of(cells), "small": small},
            details={
                **({} if cells is None else cell_details(cells)),
                "trend": [one.plain() for one in lines],
            },
            legend=legend,
            log=log,
            parts=parts_in(who, [x, y], way, cells) if log is not None else None,
        )


def _cells(
    who: Subjects,
    way: Protection,
    points: Sequence[Protected] | None,
    *,
    bins: int | None,
    limits: TwoLimits,
    small: Small,
    house: Rules,
) -> list[Grid] | None:
    """The cells to draw; None where points are drawn."""
    if points is not None and sum(map(len, points)) <= MANY:
        return None
    usual = BINS.get(way.name, 15) if way.cells else _FINE
    allowed = allowed_bins(bins, usual, who.fewest, house)
    return grids(
        who,
        who.names,
        way,
        bins=allowed,
        exact=bins is not None,
        limits=limits,
        k=way.k if small == "hide" else 1,
        made=points,
    )


def _looks(who: Subjects) -> list[Mark]:
    if who.hue is None:
        return [Mark("", BLUE)]
    return [mark(at, one.label) for at, one in enumerate(who.groups)]


def _draw(
    axes: Axes,
    way: Protection,
    points: Sequence[Protected] | None,
    cells: Sequence[Grid] | None,
    looks: Sequence[Mark],
    *,
    ends: TwoLimits,
    trend: bool,
) -> tuple[list[Line], list[Mark]]:
    """Draw all groups; the lines that were fitted, and the legend."""
    lines, legend = [], [replace(one, line="") for one in looks if one.name]
    for at, look in enumerate(looks):
        if cells is not None and way.cells:
            line = bubbles(axes, cells[at], look, cells)
        elif cells is not None:
            line = mist(axes, cells[at], look)
        elif points is not None:
            line = dots(axes, points[at], look)
        if trend and line is not None:
            draw_line(axes, line, look)
            lines.append(line)
    if points is not None and cells is None:
        legend += spots(axes, points, looks)
    if lines and len(looks) == 1:
        legend.append(TREND)
    axes.set(**{name: one for name, one in zip(("xlim", "ylim"), ends, strict=True) if one})
    return lines, legend


def _table(
    who: Subjects, points: Sequence[Protected] | None, cells: Sequence[Grid] | None
) -> pl.DataFrame:
    grouped = who.hue is not None
    if cells is not None:
        return pl.concat([one.table(grouped=grouped) for one in cells])
    made = []
    for group, one in zip(who.groups, points or [], strict=True):
        columns = {"x": one.column(who.names[0]), "y": one.column(who.names[-1])}
        told = {"group": [group.label] * len(one)} if grouped else {}
        made.append(pl.DataFrame({**told, **columns}))
    return pl.concat(made)
