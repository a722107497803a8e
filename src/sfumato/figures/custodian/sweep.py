"""What one parameter does to risk and utility, what two do together, and what each step costs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.errors import SfumatoError
from sfumato.figures.custodian.source import (
    Row,
    average_finite,
    list_measured,
    read_rows,
    refuse_empty,
    require_columns,
    to_float,
)
from sfumato.figures.sheet.picture import Picture
from sfumato.figures.sheet.sheet import (
    count_legend_rows,
    format_axis,
    label_axes,
    label_empty_panel,
    make_picture,
    make_sheet,
    name_panel,
    put_legend_below,
)
from sfumato.figures.sheet.style import (
    BLUE,
    FAINT,
    INK,
    LABEL,
    MOST_MARKS,
    SMALL,
    Mark,
    pick_mark,
    use_house_style,
)
from sfumato.figures.sheet.text import format_number, measure_width, wrap_name, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LETTERS = "ABCDEFGHIJKL"
_FEW_TICKS = 9
_MOST_COLUMNS, _MOST_LINES = 12, 24
_CELLS_WIDTH = 5.3
"""Inches for all columns of cells."""
_RAMP = ((238, 244, 248), (158, 202, 225), (0, 114, 178), (0, 46, 84))
"""From little to much: lighter to darker in print and for every eye."""
_DARK, _LIGHT = "#101418", "#fcfcfc"
"""Numbers in cells keep their colour on dark pages: the cell below them keeps its own."""
_BRIGHT = 0.19
_STEPS = 5
_RELIEF = 3.7
"""Inches for the surface below the map."""
_FEWEST_FOR_RELIEF = 2
_GREY = (0.11, 0.13, 0.16)
_NOT_SET = "not set"
Cells = dict[tuple[Any, Any], float]


# One parameter -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Point:
    x: float
    mean: float
    sd: float


def sweep(
    table: Any,
    x: str = "k",
    panels: Mapping[str, Sequence[str]] | None = None,
    *,
    log_x: bool = False,
    public: bool = False,
) -> Picture:
    """Measured numbers as functions of a parameter, mean and SD over repeated runs.

    Question: what does more of this parameter cost, and what does it buy?
    Assumes: rows with the same `x` are repeated runs.

    Parameters
    ----------
    table : one row per run, with the parameter, maybe `repeat`, and the numbers.
    x : the parameter's column.
    panels : title of each panel and the columns drawn in it. Default: a panel per number.
    log_x : whether to draw the parameter on a logarithmic scale.
    public : the custodian's word that it may be shown outside. It shows numbers of whole data
        sets.

    Examples
    --------
    >>> runs = [{"k": k, "repeat": r, "risk": 1 / k + r / 100} for k in (3, 5) for r in (0, 1)]
    >>> sweep(runs, x="k").audience
    'custodian'

    References: Avraam, Jones & Burton (2021), Figures 7 and 8.
    """
    rows = read_rows(table, [x], picture="sweep")
    if not panels:
        panels = {name: [name] for name in list_measured(rows, (x, "repeat", "records"))}
    columns = [name for names in panels.values() for name in names]
    read_rows(rows, [x, *columns], picture="sweep")
    _require_few(panels)
    lines = {
        title: {name: _summarise(rows, x, name) for name in names}
        for title, names in panels.items()
    }
    if not any(points for by_name in lines.values() for points in by_name.values()):
        raise refuse_empty("sweep")
    if log_x and any(to_float(row[x]) <= 0 for row in rows):
        raise SfumatoError(f"'{x}' is not above 0 everywhere; it has no logarithmic scale.")
    with use_house_style():
        figure = _draw_lines(lines, x, log_x=log_x)
        caption = _describe_runs(rows, columns, x)
        return make_picture(figure, f"What was measured, by {x}", caption, public=public)


def _draw_lines(lines: Mapping[str, Mapping[str, list[_Point]]], x: str, *, log_x: bool) -> Figure:
    across = min(2, len(lines))
    down = math.ceil(len(lines) / across)
    room = 5.6 / across
    looks = {title: _choose_looks(list(by_name)) for title, by_name in lines.items()}
    legends = [marks for marks in looks.values() if len(marks) > 1]
    deepest = max((count_legend_rows(marks, room) for marks in legends), default=0)
    figure, panels = make_sheet((2.35 + 0.2 * deepest) * down, rows=down, columns=across)
    for index, (axes, (title, by_name)) in enumerate(zip(panels, lines.items(), strict=False)):
        name_panel(axes, _LETTERS[index] if len(lines) > 1 else "", title)
        _fill_panel(axes, list(by_name.values()), looks[title], room, log_x=log_x)
        label_axes(axes, x)
        if len(by_name) > 1:
            put_legend_below(axes, looks[title], room)
    for axes in panels[len(lines) :]:
        axes.set_axis_off()
    return figure


def _choose_looks(names: list[str]) -> list[Mark]:
    if len(names) == 1:
        return [Mark(names[0])]
    return [pick_mark(index, name) for index, name in enumerate(names)]


def _require_few(panels: Mapping[str, Sequence[str]]) -> None:
    if not panels or not all(panels.values()):
        raise SfumatoError(
            "The picture 'sweep' needs at least one number per panel.",
            hint='for instance panels={"Risk": ["risk1", "risk2"]}.',
        )
    if len(panels) > len(_LETTERS) or max(map(len, panels.values())) > MOST_MARKS:
        raise SfumatoError(
            f"The picture 'sweep' shows at most {len(_LETTERS)} panels with {MOST_MARKS} lines "
            "each.",
            hint="name fewer in `panels`.",
        )


def _summarise(rows: Sequence[Row], x: str, name: str) -> list[_Point]:
    """Mean and SD at each value of the parameter; the caption counts runs without a number."""
    groups: dict[float, list[float]] = {}
    for row in rows:
        parameter, value = to_float(row[x]), to_float(row[name])
        if not math.isfinite(parameter):
            raise SfumatoError(f"The parameter '{x}' is not a number in every run.")
        if math.isfinite(value):
            groups.setdefault(parameter, []).append(value)
    points = []
    for parameter, values in sorted(groups.items()):
        count = len(values)
        mean = math.fsum(sorted(values)) / count
        squares = math.fsum((value - mean) ** 2 for value in sorted(values))
        points.append(_Point(parameter, mean, math.sqrt(squares / (count - 1)) if count > 1 else 0))
    return points


def _fill_panel(
    axes: Axes, lines: list[list[_Point]], looks: Sequence[Mark], room: float, *, log_x: bool
) -> None:
    if not any(lines):
        label_empty_panel(axes, "no number to draw")
        return
    if log_x:
        axes.set_xscale("log")
        format_axis(axes.xaxis)
    _set_limits(axes, [point for line in lines for point in line], room, log_x=log_x)
    for index, (look, line) in enumerate(zip(looks, lines, strict=True)):
        axes.errorbar(
            [point.x for point in line],
            [point.mean for point in line],
            yerr=[point.sd for point in line],
            color=look.colour,
            marker=look.marker,
            markersize=4.5,
            linewidth=1.4,
            elinewidth=1.0,
            capsize=2.5,
            transform=_shift_aside(axes, index - (len(lines) - 1) / 2),
        )


def _set_limits(axes: Axes, points: list[_Point], room: float, *, log_x: bool) -> None:
    """Room for all points and bars; zero is shown where no number is negative."""
    values = sorted({point.x for point in points})
    scaled = [math.log10(value) if log_x else value for value in values]
    first, last = scaled[0], scaled[-1]
    pad_x = 0.08 * (last - first) or (0.1 if log_x else 1.0)
    axes.set_xlim(*((10**end if log_x else end) for end in (first - pad_x, last + pad_x)))
    low = min(point.mean - point.sd for point in points)
    high = max(point.mean + point.sd for point in points)
    low = min(low, 0.0) if all(point.mean >= 0 for point in points) else low
    pad = 0.06 * (high - low) or max(abs(high), 1.0)
    axes.set_ylim(low - pad * (low < 0), high + pad)
    if len(values) <= _FEW_TICKS:
        inches = [(end - first + pad_x) / (last - first + 2 * pad_x) * room for end in scaled]
        axes.set_xticks(_drop_crowded(values, inches))
        axes.set_xticks([], minor=True)


def _drop_crowded(values: list[float], inches: list[float]) -> list[float]:
    """The values whose names at the axis leave room for each other, the last first."""
    ticks: list[float] = []
    end = math.inf
    for value, position in reversed(list(zip(values, inches, strict=True))):
        half = measure_width(format_number(value), SMALL) / 2
        if position + half < end:
            ticks.append(value)
            end = position - half - 0.06
    return ticks[::-1]


def _shift_aside(axes: Axes, steps: float) -> Any:
    """A few points to the side, so that bars of several lines do not hide each other."""
    from matplotlib.transforms import ScaledTranslation

    figure = axes.get_figure(root=True)
    if figure is None:
        return axes.transData
    return axes.transData + ScaledTranslation(steps * 2.2 / 72, 0, figure.dpi_scale_trans)


def _describe_runs(rows: Sequence[Row], names: Sequence[str], x: str) -> str:
    missing = sum(not math.isfinite(to_float(row[name])) for row in rows for name in names)
    text = "Points are means over repeated runs, bars one standard deviation to either side."
    if len(rows) <= len({to_float(row[x]) for row in rows}):
        text = "One run at each point."
    if not missing:
        return text
    return f"{text} {missing} of {len(rows) * len(names)} numbers could not be computed."


# Two parameters ----------------------------------------------------------------------------------


def surface(
    table: Any,
    x: str,
    y: str,
    value: str,
    *,
    limits: tuple[float, float] | None = None,
    relief: bool = False,
    public: bool = False,
) -> Picture:
    """A measured number over two parameters that vary independently, as a map of cells.

    Question: which of two resolutions protects, and which costs?
    Assumes: rows with the same `x` and `y` are repeated runs, of which the mean is drawn.

    Parameters
    ----------
    table : one row per run, as `sf.sweep` gives it over two parameters.
    x, y : the columns of the two parameters. Numbers stand in their order, others as they come.
    value : the column of the number to draw.
    limits : the ends of the scale of shades. Default: the lowest and the highest number. Give the
        same ends to two pictures that are to be compared.
    relief : whether to draw the numbers as a surface in three dimensions too, below the map. It is
        turned so that its low corner is in front.
    public : the custodian's word that it may be shown outside. It shows numbers of whole data
        sets.

    Examples
    --------
    >>> runs = [{"a": a, "b": b, "risk": a * b / 64} for a in (2, 8) for b in (2, 8)]
    >>> surface(runs, "a", "b", "risk").title
    'risk by a and b'

    References: Sánchez, Martínez & Domingo-Ferrer (2016), Science 351:1274, Figs. S5 and S6.
    """
    rows = require_columns(table, [x, y, value], picture="surface")
    if x == y:
        raise SfumatoError("The picture 'surface' needs two different parameters.")
    columns, lines = _list_values(rows, x), _list_values(rows, y)
    if len(columns) > _MOST_COLUMNS or len(lines) > _MOST_LINES:
        raise SfumatoError(
            f"The picture 'surface' shows at most {_MOST_COLUMNS} values of '{x}' and "
            f"{_MOST_LINES} of '{y}'; there are {len(columns)} and {len(lines)}.",
            hint="keep some of them.",
        )
    cells = _average_cells(rows, x, y, value)
    known = [number for number in cells.values() if math.isfinite(number)]
    if not known:
        raise refuse_empty("surface")
    low, high = _check_ends(known, limits)
    if relief and min(len(columns), len(lines)) < _FEWEST_FOR_RELIEF:
        raise SfumatoError(
            f"A surface in three dimensions needs two values of '{x}' and of '{y}' at least.",
            hint="leave out relief, or vary both.",
        )
    with use_house_style():
        height = 0.75 + max(1.2, 0.34 * len(lines))
        if relief:
            figure, (axes, below) = make_sheet(height + _RELIEF, rows=2)
            solid = _make_solid(figure, below, (height, _RELIEF))
            _draw_relief(solid, columns, lines, cells, (low, high))
            _name_solid(solid, columns, lines, (x, y, value))
        else:
            figure, (axes,) = make_sheet(height)
        _draw_cells(axes, columns, lines, cells, (low, high))
        label_axes(axes, x, y)
        brief = [wrap_name(name, width=30, lines=1) for name in (value, x, y)]
        return make_picture(
            figure,
            f"{brief[0]} by {brief[1]} and {brief[2]}",
            _describe_cells(rows, cells, len(columns) * len(lines))
            + (" The surface below has the same numbers as heights." if relief else ""),
            public=public,
            legend=_make_legend(low, high),
        )


def _list_values(rows: Sequence[Row], name: str) -> list[Any]:
    """The values of a parameter: numbers in their order, others as they come, "not set" last."""
    values = list(dict.fromkeys(row[name] for row in rows))
    known = [value for value in values if value is not None]
    if all(_is_number(value) for value in known):
        known.sort(key=to_float)
    return [*known, *([None] if None in values else [])]


def _is_number(value: Any) -> bool:
    return math.isfinite(to_float(value)) and not isinstance(value, bool)


def _average_cells(rows: Sequence[Row], x: str, y: str, value: str) -> Cells:
    runs: dict[tuple[Any, Any], list[Any]] = {}
    for row in rows:
        runs.setdefault((row[x], row[y]), []).append(row[value])
    return {cell: average_finite(values) for cell, values in runs.items()}


def _check_ends(known: Sequence[float], limits: tuple[float, float] | None) -> tuple[float, float]:
    if limits is None:
        return min(known), max(known)
    low, high = (to_float(end) for end in limits)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise SfumatoError("The limits of 'surface' must be two numbers, the lower first.")
    if min(known) < low or max(known) > high:
        raise SfumatoError(
            "Some number of 'surface' lies outside the limits.", hint="give wider limits."
        )
    return low, high


def _draw_cells(
    axes: Axes, columns: list[Any], lines: list[Any], cells: Cells, ends: tuple[float, float]
) -> None:
    from matplotlib.patches import Rectangle

    axes.grid(visible=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)
    axes.set(xlim=(0, len(columns)), ylim=(0, len(lines)))
    width = _CELLS_WIDTH / len(columns)
    texts = {cell: format_number(value, 3) for cell, value in cells.items() if math.isfinite(value)}
    widest = max((measure_width(text, SMALL) for text in texts.values()), default=width - 0.08)
    # The largest size at which every number fits into its cell.
    size = SMALL * min(1.0, (width - 0.08) / widest)
    for i, column in enumerate(columns):
        for j, line in enumerate(lines):
            shade = _pick_shade(cells.get((column, line), math.nan), *ends)
            box = Rectangle((i + 0.02, j + 0.03), 0.96, 0.94, linewidth=0.8)
            box.set(facecolor=_to_hex(shade) if shade else "none")
            box.set(edgecolor="none" if shade else INK, alpha=1.0 if shade else 0.4)
            axes.add_patch(box)
            ink = (_DARK if _luminance(shade) > _BRIGHT else _LIGHT) if shade else INK
            text = axes.text(i + 0.5, j + 0.5, "", ha="center", va="center_baseline", color=ink)
            text.set_fontsize(size)
            write(text, texts.get((column, line), "none"))
    _name_ticks(axes.xaxis, columns, max(4, int(width / 0.085)), 2)
    _name_ticks(axes.yaxis, lines, 14, 1)


def _name_ticks(axis: Any, values: list[Any], letters: int, lines: int) -> None:
    """The values at an axis; each text is written as it is."""
    from matplotlib.ticker import FixedFormatter

    names = [wrap_name(_format_value(value), width=letters, lines=lines) for value in values]
    axis.set_ticks([index + 0.5 for index in range(len(values))])
    labels = axis.get_ticklabels()
    drawn = [write(label, name).get_text() for label, name in zip(labels, names, strict=True)]
    # A tick asks its formatter again whenever it is drawn.
    axis.set_major_formatter(FixedFormatter(drawn))


def _format_value(value: Any) -> str:
    if value is None:
        return _NOT_SET
    return format_number(to_float(value)) if _is_number(value) else str(value)


def _make_solid(figure: Figure, below: Axes, heights: tuple[float, float]) -> Any:
    """A panel with three axes in place of the lower one."""
    spec = below.get_subplotspec()
    assert spec is not None  # noqa: S101 - every panel of a sheet has its place
    spec.get_gridspec().set_height_ratios(heights)
    below.remove()
    solid: Any = figure.add_subplot(spec, projection="3d")
    solid.set_facecolor("none")
    solid.set_box_aspect((1.6, 1.6, 1.0), zoom=1.0)
    for axis in (solid.xaxis, solid.yaxis, solid.zaxis):
        axis.set_pane_color((1.0, 1.0, 1.0, 0.0))
        axis._axinfo["grid"].update(color=(*_GREY, FAINT), linewidth=0.6)  # noqa: SLF001 - no other way
    return solid


def _draw_relief(
    solid: Any, columns: list[Any], lines: list[Any], cells: Cells, ends: tuple[float, float]
) -> None:
    """The patches between neighbouring cells; one that lacks a corner is left open."""
    from mpl_toolkits.mplot3d.art3d import (  # type: ignore[import-untyped]
        Poly3DCollection,
    )

    low, high = ends
    patches, colours = [], []
    for i, j in itertools.product(range(len(columns) - 1), range(len(lines) - 1)):
        corners = [
            (a, b, cells.get((columns[a], lines[b]), math.nan))
            for a, b in ((i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1))
        ]
        if all(math.isfinite(corner[2]) for corner in corners):
            patches.append(corners)
            mean = sum(corner[2] for corner in corners) / len(corners)
            colours.append(_to_hex(_pick_shade(mean, low, high) or (1.0, 1.0, 1.0)))
    surface = Poly3DCollection(patches, facecolors=colours, edgecolors=_DARK, linewidths=0.5)
    solid.add_collection3d(surface)
    pad = 0.05 * (high - low) or 0.5
    solid.set(xlim=(0, len(columns) - 1), ylim=(0, len(lines) - 1), zlim=(low - pad, high + pad))
    solid.view_init(elev=26, azim=_find_front(columns, lines, cells))


def _find_front(columns: list[Any], lines: list[Any], cells: Cells) -> float:
    """The angle from which the lowest corner is in front, so that it hides nothing."""
    corners = {
        -125.0: (columns[0], lines[0]),
        -55.0: (columns[-1], lines[0]),
        55.0: (columns[-1], lines[-1]),
        125.0: (columns[0], lines[-1]),
    }
    heights = {angle: cells.get(corner, math.nan) for angle, corner in corners.items()}
    return min(heights, key=lambda angle: (not math.isfinite(heights[angle]), heights[angle]))


def _name_solid(
    solid: Any, columns: list[Any], lines: list[Any], names: tuple[str, str, str]
) -> None:
    """The names at the three axes; the map above has the values, which would cross here."""
    for axis, values in ((solid.xaxis, columns), (solid.yaxis, lines)):
        axis.set_ticks(range(len(values)), labels=[])
        axis.labelpad = -4
    format_axis(solid.zaxis)
    solid.tick_params(labelsize=SMALL, pad=0)
    for axis, name in zip((solid.xaxis, solid.yaxis, solid.zaxis), names, strict=True):
        axis.label.set_fontsize(LABEL)
        write(axis.label, wrap_name(name, width=14, lines=1))


def _pick_shade(value: float, low: float, high: float) -> tuple[float, float, float] | None:
    """The colour of a number between two ends, from light to dark."""
    if not math.isfinite(value):
        return None
    share = (value - low) / (high - low) if high > low else 0.0
    position = min(max(share, 0.0), 1.0) * (len(_RAMP) - 1)
    step = min(int(position), len(_RAMP) - 2)
    red, green, blue = (
        (a + (b - a) * (position - step)) / 255
        for a, b in zip(_RAMP[step], _RAMP[step + 1], strict=True)
    )
    return red, green, blue


def _to_hex(shade: tuple[float, float, float]) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in shade)


def _luminance(shade: tuple[float, float, float]) -> float:
    """Relative luminance: where it is high, dark letters are read better."""
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4  # noqa: PLR2004 - sRGB
        for part in shade
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _make_legend(low: float, high: float) -> tuple[Mark, ...]:
    """Some shades with their numbers."""
    if low == high:
        return ()
    values = [low + (high - low) * step / (_STEPS - 1) for step in range(_STEPS)]
    shades = [_pick_shade(value, low, high) for value in values]
    return tuple(
        Mark(format_number(value, 3), _to_hex(shade), "s", "")
        for value, shade in zip(values, shades, strict=True)
        if shade
    )


def _describe_cells(rows: Sequence[Row], cells: Cells, count: int) -> str:
    several = " Numbers are means over repeated runs." if len(rows) > len(cells) else ""
    missing = count - sum(math.isfinite(value) for value in cells.values())
    lost = f" {missing} of {count} cells have no number." if missing else ""
    return f"Darker cells have higher numbers.{several}{lost}"


# Risk against use --------------------------------------------------------------------------------


def balance(
    table: Any,
    *,
    risk: str = "h_index",
    use: str = "efficiency",
    label: str = "variance_share",
    public: bool = False,
) -> Picture:
    """Risk against use, joined in the order of a parameter.

    Question: how much use does each step of protection cost?
    Assumes: the table of `sf.sweep` with one measure of risk and one of use.

    Parameters
    ----------
    table : a row per run.
    risk, use : the columns to draw.
    label : the parameter that was varied; it is written at the points.
    public : the custodian's word that it may be shown outside. It shows numbers of whole data
        sets.

    Examples
    --------
    >>> runs = [{"variance_share": s, "h_index": 0.5 - s, "efficiency": 1 - s} for s in (0.1, 0.2)]
    >>> balance(runs).title
    'Risk and use'
    """
    points = [
        tuple(to_float(row[name]) for name in (label, use, risk))
        for row in read_rows(table, (label, risk, use), picture="balance")
    ]
    points = sorted(point for point in points if all(map(math.isfinite, point)))
    if not points:
        raise refuse_empty("balance")
    with use_house_style():
        figure, (axes,) = make_sheet(3.3)
        axes.plot([x for _, x, _ in points], [y for _, _, y in points], color=BLUE, marker="o",
                  markersize=5, linewidth=1.2)  # fmt: skip
        for parameter, x, y in points:
            text = axes.annotate("", (x, y), xytext=(-6, 5), textcoords="offset points",
                                 fontsize=SMALL, ha="right")  # fmt: skip
            write(text, format_number(parameter))
        axes.margins(0.12)
        label_axes(axes, use, risk)
        return make_picture(
            figure,
            "Risk and use",
            f"A point is one run; the number at it is {label}.",
            public=public,
        )
