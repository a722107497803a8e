"""Two variables as points: centres, noisy values, or cells sized by count: paper 003, Figure 2."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.figures.public.distance import (
    IN_CORNERS,
    Distance,
    compare_points,
    list_reference_edges,
    measure_groups,
)
from sfumato.figures.public.grid import (
    Grid,
    TwoLimits,
    check_two_limits,
    count_bins,
    count_grid_cells,
    describe_lost_of_grids,
    judge_limits,
    label_records_of_grids,
    make_grids,
)
from sfumato.figures.public.heatmap import BINS, USUAL_BINS, measure_cells
from sfumato.figures.public.parameters import Binned, takes
from sfumato.figures.public.plot import join_names, make_plot, make_request
from sfumato.figures.public.protection import NOISY, judge_full_cells, judge_small_cells
from sfumato.figures.sheet.sheet import make_group_panels, share_limits
from sfumato.figures.sheet.style import (
    FAINT,
    INK,
    Mark,
    use_house_style,
)
from sfumato.kernels.arrays import Floats

if TYPE_CHECKING:
    from typing import Unpack

    from matplotlib.axes import Axes

    from sfumato.figures.public.plot import Plot, Request
    from sfumato.figures.public.protected_values import ProtectedValues
    from sfumato.figures.public.protection import Protection
    from sfumato.figures.public.subjects import Subjects

MANY = 20_000
"""More points than this are drawn as a fine grid of counts."""
AS_GRID = "So many points are drawn as a fine grid of counts."
_FINE = 150
_WHY = "Centres of neighbours were chosen: they keep the shape of the cloud, and nothing is random."
_FLATTER = "Noise makes the trend a little flatter than it is."
_TREND = Mark("Trend of what is shown", INK, "", "--")
_COINCIDING = Mark("Several at the same place", INK, "o", "", hollow=True)
_LARGEST = 130.0
"""Area of the largest cell's dot, in square points."""
_FEW, _LARGE_DOT, _SMALL_DOT, _FAINTEST_DOT = 600, 13.0, 5.0, 0.12
MOST_RINGS = 2000
"""Among more points, rings would be all that one sees."""


@takes(Binned)
def scatter(
    data: Any,
    x: str,
    y: str,
    *,
    hue: str | None = None,
    limits: TwoLimits | None = None,
    trend: bool = True,
    **asked: Unpack[Binned],
) -> Plot:
    """Points that are nobody's: centres of neighbours, noisy values, or cells sized by count.

    Question: how are two variables related, shown without anybody's own point?
    Assumes: one record is one person, or the role "person" says whose it is. Trend lines are fitted
    to what is drawn, not to the original.

    Parameters
    ----------
    protection : kind of protection: "deterministic" draws the centre of every record and its k - 1
        nearest, the default; "mahalanobis" seeks them by a distance that takes out correlation.
        "noise" draws noisy values, "growing_noise" with more noise the farther out. "suppress" and
        "generalise" draw the middle of every cell of at least k records, its size by the count.
    limits : limits of the two axes: ((low, high), (low, high)). Default: what the protected values
        need.
    trend : draw the straight line through what is shown: weighted by the counts.

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
    request = make_request("scatter", join_names(y, x, hue), [x, y], hue=hue, **asked)
    with request.record_refusals():
        subjects = request.select(data)
        resolved = request.resolve(subjects, default="deterministic", why=_WHY)
        concerns = judge_small_cells(request.small, resolved)
        ends = check_two_limits(x, y, limits)
        points = None if resolved.cells else request.protect(subjects, resolved)
        grids = choose_grids(subjects, resolved, request, points, limits=ends)
        concerns += judge_full_cells([grid.counts for grid in grids or []], request.rules)
    with use_house_style():
        figure, panels, looks = make_group_panels(
            subjects.labels, subjects.describe(x), subjects.describe(y), height=4.3
        )
        lines, legend = _draw(panels, resolved, points, grids, looks, trend=trend)
        for axes in share_limits(panels):
            axes.set(**{name: end for name, end in zip(("xlim", "ylim"), ends, strict=True) if end})
        notes = [] if grids is None else describe_lost_of_grids(grids, request.k)
        if grids is not None and not resolved.cells:
            notes.append(AS_GRID)
        if trend and resolved.name in NOISY:
            notes.append(_FLATTER)
        return make_plot(
            figure,
            list(dict.fromkeys(panels)),
            request,
            protection=resolved,
            subjects=subjects,
            table=_make_table(subjects, points, grids),
            notes=[*notes, *(note for group in points or [] for note in group.notes())],
            reasons=[*concerns, *judge_limits(subjects, ends)],
            rule={} if grids is None else {"bins": count_bins(grids), "small": request.small},
            details={
                **({} if grids is None else count_grid_cells(grids)),
                "trend": [{"slope": line.slope, "intercept": line.intercept} for line in lines],
            },
            legend=legend,
            parts=None
            if request.log is None
            else label_records_of_grids(subjects, resolved, grids),
            distance=measure_cloud(subjects, points, grids, exact=request.bins is not None),
        )


def measure_cloud(
    subjects: Subjects,
    points: Sequence[ProtectedValues] | None,
    grids: Sequence[Grid] | None,
    *,
    exact: bool = False,
) -> Distance:
    """How far points, or the cells in their place, are from the records."""
    if grids is not None:
        return measure_cells(subjects, grids, exact=exact)
    names = subjects.names
    edges = [list_reference_edges(subjects, name) for name in names]
    gaps = [
        compare_points([group.column(name) for name in names], _take_pair(values), edges)
        for group, values in zip(subjects.groups, points or [], strict=True)
    ]
    return measure_groups(IN_CORNERS, subjects, gaps)


def choose_grids(
    subjects: Subjects,
    protection: Protection,
    request: Request,
    points: Sequence[ProtectedValues] | None,
    *,
    limits: TwoLimits = (None, None),
) -> list[Grid] | None:
    """The cells to draw; None where points are drawn."""
    if points is not None and sum(map(len, points)) <= MANY:
        return None
    default = BINS.get(protection.name, USUAL_BINS) if protection.cells else _FINE
    return make_grids(subjects, protection, request, default=default, limits=limits, points=points)


def _draw(
    panels: Sequence[Axes],
    protection: Protection,
    points: Sequence[ProtectedValues] | None,
    grids: Sequence[Grid] | None,
    looks: Sequence[Mark],
    *,
    trend: bool,
) -> tuple[list[TrendLine], list[Mark]]:
    """Draw all groups; the lines that were fitted, and the legend."""
    legend = [replace(look, line="") for look in looks if look.name]
    lines = []
    for index, (axes, look) in enumerate(zip(panels, looks, strict=True)):
        if grids is not None:
            draw_grid(axes, grids, index, look, sized=protection.cells)
            x, y, counts = grids[index].centres()
            line = fit_line(x, y, counts.astype(np.float64))
        else:
            values = (points or [])[index]
            draw_dots(axes, values, look)
            x, y = _take_pair(values)
            line = fit_line(x, y, np.ones(len(x)))
        if trend and line is not None:
            draw_line(axes, line, look)
            lines.append(line)
    if points is not None and grids is None:
        legend += mark_coinciding(panels, points, looks)
    if lines and not looks[0].name:
        legend.append(_TREND)
    return lines, legend


def draw_dots(axes: Axes, values: ProtectedValues, look: Mark) -> None:
    """Each protected value as a dot, as pixels; the more there are, the more one sees through."""
    x, y = _take_pair(values)
    few = len(values) <= _FEW
    alpha = 0.65 if few else max(_FAINTEST_DOT, 0.65 * math.sqrt(_FEW / len(values)))
    axes.scatter(x, y, s=_LARGE_DOT if few else _SMALL_DOT, marker=look.marker, color=look.colour,
                 alpha=alpha, linewidths=0, rasterized=True)  # fmt: skip


def mark_coinciding(
    panels: Sequence[Axes], points: Sequence[ProtectedValues], looks: Sequence[Mark]
) -> list[Mark]:
    """Ring where several protected values coincide; the legend, if there are any."""
    rings = [values.coinciding.any() and len(values) <= MOST_RINGS for values in points]
    for axes, values, look, ringed in zip(panels, points, looks, rings, strict=True):
        if ringed:
            x, y = (column[values.coinciding] for column in _take_pair(values))
            axes.scatter(x, y, s=_LARGE_DOT * 1.3, marker=look.marker, facecolors="none",
                         edgecolors=look.colour, linewidths=0.5, alpha=0.7, rasterized=True,
                         zorder=3)  # fmt: skip
    colour = INK if looks[0].name else looks[0].colour
    return [replace(_COINCIDING, colour=colour)] if any(rings) else []


def draw_grid(axes: Axes, grids: Sequence[Grid], index: int, look: Mark, *, sized: bool) -> None:
    """The grid of one group: dots sized by count, or an image that is denser where more lie."""
    if sized:
        _draw_bubbles(axes, grids, index, look)
    else:
        _draw_density_image(axes, grids[index], look)


def _draw_bubbles(axes: Axes, grids: Sequence[Grid], index: int, look: Mark) -> None:
    """The middle of each cell, its area by the count."""
    grid = grids[index]
    x, y, counts = grid.centres()
    most = max(int(other.counts.max()) for other in grids)
    axes.scatter(x, y, s=_LARGEST * counts / most, marker=look.marker, color=look.colour,
                 alpha=0.6, linewidths=0, rasterized=True)  # fmt: skip
    if index == 0:
        for cuts, draw_edge in ((grid.x, axes.axvline), (grid.y, axes.axhline)):
            for cut in cuts:
                draw_edge(float(cut), color=INK, alpha=FAINT / 2, linewidth=0.4, zorder=0)
        axes.grid(visible=False)


def _draw_density_image(axes: Axes, grid: Grid, look: Mark) -> None:
    """Many values as a fine grid in one colour, the denser the stronger."""
    from matplotlib.colors import to_rgb

    strength = np.sqrt(grid.counts / grid.counts.max()).T
    image = np.empty((*strength.shape, 4))
    image[..., :3] = to_rgb(look.colour)
    image[..., 3] = np.where(strength > 0, 0.12 + 0.88 * strength, 0.0)
    mesh = axes.pcolormesh(grid.x, grid.y, image, rasterized=True)
    mesh.set_edgecolor("none")


def _take_pair(values: ProtectedValues) -> tuple[Floats, Floats]:
    names = values.values.columns
    return values.column(names[0]), values.column(names[-1])


# The trend ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrendLine:
    """Slope and intercept, and from where to where it is drawn."""

    slope: float
    intercept: float
    low: float
    high: float


def fit_line(x: Floats, y: Floats, weights: Floats) -> TrendLine | None:
    """The least-squares line through what is drawn; it never sees the original.

    None where x does not vary. The order of the points is the caller's.

    Examples
    --------
    >>> import numpy as np
    >>> fit_line(np.array([0.0, 1.0]), np.array([1.0, 3.0]), np.ones(2)).slope
    2.0
    """
    total = weights.sum()
    mean_x, mean_y = (weights * x).sum() / total, (weights * y).sum() / total
    spread = (weights * (x - mean_x) ** 2).sum()
    if not spread > 0:
        return None
    slope = float((weights * (x - mean_x) * (y - mean_y)).sum() / spread)
    return TrendLine(slope, float(mean_y - slope * mean_x), float(x.min()), float(x.max()))


def draw_line(axes: Axes, line: TrendLine, look: Mark) -> None:
    """Draw it: in ink where there is one group, else in the colour of its group."""
    ends = np.array([line.low, line.high])
    axes.plot(ends, line.intercept + line.slope * ends, color=look.colour if look.name else INK,
              linewidth=1.3, linestyle=(0, (5, 2)), zorder=4)  # fmt: skip


def _make_table(
    subjects: Subjects, points: Sequence[ProtectedValues] | None, grids: Sequence[Grid] | None
) -> pl.DataFrame:
    grouped = subjects.hue is not None
    if grids is not None:
        return pl.concat([grid.table(grouped=grouped) for grid in grids])
    tables = []
    for label, values in zip(subjects.labels, points or [], strict=True):
        x, y = _take_pair(values)
        labels: dict[str, Any] = {"group": [label] * len(values)} if grouped else {}
        tables.append(pl.DataFrame({**labels, "x": x, "y": y}))
    return pl.concat(tables)
