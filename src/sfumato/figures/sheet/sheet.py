"""The sheet that every figure is drawn on: panels, with a head above them and a foot below.

The head holds the stamp, the title and the legend; the foot holds the caption of a plot that
leaves the building. Pictures for the custodian have no foot: a page sets their caption beside them.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from sfumato.errors import SfumatoError
from sfumato.figures.sheet.picture import Picture
from sfumato.figures.sheet.style import (
    DASHES,
    FAINT,
    INK,
    LABEL,
    MOST_OVERLAID,
    PANEL,
    SMALL,
    TITLE,
    VERMILION,
    WIDTH,
    Mark,
    pick_marks,
)
from sfumato.figures.sheet.text import format_number, format_tick, measure_width, wrap_name, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

Shows = Literal["shows", "compares with"]
_EDGE = 0.12
_ACROSS = 3
_HEIGHTS = {1: 4.3, 2: 2.9, 3: 2.2}
"""Inches of a panel when so many stand side by side."""
_TITLE_LINE, _LEGEND_LINE, _FOOT_LINE, _SMALL_FOOT_LINE = 0.23, 0.2, 0.155, 0.135
_HANDLE, _GAP = 0.32, 0.18
"""Inches: the symbol in a legend with its space, and what lies between two columns."""
_FOOT_WIDTH, _SMALL_FOOT_WIDTH = 104, 120
"""Characters of small type on one line of the foot: of the caption, and of its long form."""


# Panels ------------------------------------------------------------------------------------------


def make_sheet(height: float, *, rows: int = 1, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """An empty sheet with panels; `height` in inches, without the head."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained", facecolor="white")
    panels = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for axes in panels:
        axes.set_facecolor("none")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color=INK, alpha=FAINT, linewidth=0.6)
        axes.tick_params(length=3)
        for axis in (axes.xaxis, axes.yaxis):
            format_axis(axis)
    return figure, panels


def make_panels(labels: Sequence[str], x: str, y: str) -> tuple[Figure, list[Axes]]:
    """A sheet with a panel for each label."""
    columns = min(len(labels), _ACROSS)
    rows = math.ceil(len(labels) / columns)
    figure, panels = make_sheet(_HEIGHTS[columns] * rows, rows=rows, columns=columns)
    for spare in panels[len(labels) :]:
        spare.remove()
    used = panels[: len(labels)]
    for index, (axes, label) in enumerate(zip(used, labels, strict=True)):
        if label:
            name_panel(axes, "", label, width=70 // columns, size=SMALL if columns > 1 else PANEL)
        label_axes(axes, x, y if index % columns == 0 else "", width=40 // columns)
    return figure, used


def make_group_panels(
    labels: list[str], x: str, y: str, *, height: float
) -> tuple[Figure, list[Axes], list[Mark]]:
    """The panel of each group and its look: one panel where groups are few, else one for each."""
    if len(labels) > MOST_OVERLAID:
        return *make_panels(labels, x, y), pick_marks(labels, grouped=False)
    figure, (axes,) = make_sheet(height)
    label_axes(axes, x, y, width=60)
    return figure, [axes] * len(labels), pick_marks(labels, grouped=labels != [""])


def share_limits(panels: Sequence[Axes]) -> list[Axes]:
    """Give panels the same axes; each of them once."""
    distinct = list(dict.fromkeys(panels))
    for name in ("xlim", "ylim"):
        ends = [getattr(axes, f"get_{name}")() for axes in distinct]
        turned = ends[0][0] > ends[0][1]
        low, high = min(map(min, ends)), max(map(max, ends))
        for axes in distinct:
            axes.set(**{name: (high, low) if turned else (low, high)})
    return distinct


def format_axis(axis: Any) -> None:
    """Numbers written out at the ticks; never a factor in a corner, where nobody looks."""
    from matplotlib.ticker import Formatter

    class PlainFormatter(Formatter):
        def __call__(self, x: float, pos: int | None = None) -> str:
            del pos
            return format_number(x)

        def format_ticks(self, values: Sequence[float]) -> list[str]:
            return [format_tick(value, values) for value in values]

    axis.set_major_formatter(PlainFormatter())


def name_panel(axes: Axes, letter: str, text: str, *, width: int = 70, size: float = PANEL) -> None:
    """The letter and the title of one panel."""
    title = axes.set_title("", loc="left", fontsize=size, fontweight="bold", color=INK, pad=7)
    wrapped = wrap_name(text, width=30 if letter else width)
    write(title, f"{letter}  {wrapped}" if letter else wrapped)


def label_axes(axes: Axes, x: str = "", y: str = "", *, width: int = 34) -> None:
    """The names at the axes, on lines of so many letters."""
    for axis, text in ((axes.xaxis, x), (axes.yaxis, y)):
        axis.label.set_fontsize(LABEL)
        # Turned about its anchor, so that an SVG's own font cannot shift it.
        axis.label.set_rotation_mode("anchor")
        if text:
            write(axis.label, wrap_name(text, width=width))


def label_empty_panel(axes: Axes, text: str) -> None:
    """Say in the panel why it shows nothing."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", fontsize=LABEL)


def draw_reference_line(axes: Axes, x: float) -> None:
    """The upright line that everything else is compared with."""
    axes.axvline(x, color=INK, linewidth=0.9, linestyle=DASHES, alpha=0.7)


# Rows of a panel ---------------------------------------------------------------------------------


def set_rows(axes: Axes, count: int) -> None:
    """Make room for so many rows, the first on top."""
    axes.set(ylim=(count - 0.4, -0.6), yticks=[])
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)


def write_beside(
    axes: Axes, row: float, text: str, points: float, *, size: float = LABEL, align: str = "right"
) -> None:
    """A text at a row of the panel, so many points from its edge: the left one where negative.

    Each line is a text of its own: an SVG aligns only single lines in the reader's own font.
    """
    lines = text.split("\n")
    for index, line in enumerate(lines):
        label = axes.annotate(
            "",
            (0.0 if points < 0 else 1.0, row),
            xycoords=axes.get_yaxis_transform(),
            xytext=(points, ((len(lines) - 1) / 2 - index) * 1.15 * size),
            textcoords="offset points",
            ha=align,
            va="center",
            fontsize=size,
            annotation_clip=False,
        )
        write(label, line)


def name_row(axes: Axes, row: float, name: str) -> None:
    """The name of a row at the left of the panel, on two lines when it is long."""
    text = wrap_name(name)
    write_beside(axes, row, text, -7, size=SMALL if "\n" in text else LABEL)


# Legends -----------------------------------------------------------------------------------------


def put_legend(
    owner: Figure | Axes, marks: Sequence[Mark], *, heading: str = "", **where: Any
) -> Legend:
    """A legend without a frame; names are written as they are."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=mark.colour, marker=mark.marker, linestyle=mark.line) for mark in marks
    ]
    for handle, mark in zip(handles, marks, strict=True):
        handle.set(markersize=5, linewidth=1.4, alpha=mark.alpha)
        handle.set(fillstyle="none" if mark.hollow else "full", markeredgewidth=mark.hollow)
    legend = owner.legend(
        handles,
        # Legends hide names that begin with an underscore; so the names come after.
        ["x"] * len(handles),
        frameon=False,
        fontsize=SMALL,
        borderpad=0.1,
        borderaxespad=0.0,
        handlelength=2.0,
        columnspacing=_GAP * 72 / SMALL,
        labelspacing=0.45,
        **where,
    )
    for text, mark in zip(legend.get_texts(), marks, strict=True):
        write(text, _wrap_entry(mark))
    if heading:
        legend.set_title("x")
        legend.get_title().set(fontsize=SMALL, fontweight="bold")
        legend.set_alignment("left")
        write(legend.get_title(), wrap_name(heading, width=60, lines=1))
    legend.set_in_layout(where.get("loc") != "upper left")
    return legend


def put_legend_below(
    axes: Axes, marks: Sequence[Mark], room: float | None = None, *, gap: float = 0.5
) -> None:
    """A legend below a panel and its axis; in one column, or in as many as the room allows.

    Parameters
    ----------
    axes : the panel.
    marks : what the legend explains.
    room : inches across that it may take; None for a single column.
    gap : inches between the panel and the legend.
    """
    from matplotlib.transforms import ScaledTranslation

    figure = axes.get_figure(root=True)
    if figure is not None:
        below = axes.transAxes + ScaledTranslation(0, -gap, figure.dpi_scale_trans)
        columns = 1 if room is None else _count_columns(marks, room)
        put_legend(axes, marks, loc="upper center", bbox_to_anchor=(0.5, 0),
                   bbox_transform=below, ncols=columns)  # fmt: skip


def count_legend_rows(legend: Sequence[Mark], room: float) -> int:
    """How many rows a legend has when it may be so many inches wide."""
    return math.ceil(len(legend) / _count_columns(legend, room))


def _count_columns(legend: Sequence[Mark], room: float) -> int:
    """How many columns of the legend fit side by side, each as long as the others."""
    if not legend:
        return 1
    widest = max(measure_width(_wrap_entry(mark), SMALL) for mark in legend)
    fitting = max(1, int((room + _GAP) / (widest + _HANDLE + _GAP)))
    return math.ceil(len(legend) / math.ceil(len(legend) / fitting))


def _wrap_entry(mark: Mark) -> str:
    return wrap_name(mark.name, width=32, lines=1)


# Head, foot and stamp ----------------------------------------------------------------------------


def format_stamp(shows: Shows = "shows") -> str:
    """What is stamped on every figure that must stay inside."""
    return f"Inside only: {shows} the original data"


def put_head_and_foot(
    figure: Figure,
    title: str,
    *,
    legend: Sequence[Mark] = (),
    legend_title: str = "",
    stamp: str = "",
    foot: str = "",
    below: str = "",
) -> None:
    """Put stamp, title and legend above the panels, the caption below, and settle the layout.

    Parameters
    ----------
    figure : with everything drawn in it.
    title : what it shows.
    legend : what the symbols mean.
    legend_title : what the groups in the legend are.
    stamp : for figures that stay inside.
    foot : the caption.
    below : its long form, in smaller type.
    """
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    title_lines = wrap_name(title, width=62).split("\n")
    foot_lines = _wrap_foot(foot, _FOOT_WIDTH)
    small_lines = _wrap_foot(below, _SMALL_FOOT_WIDTH)
    room = WIDTH - 2 * _EDGE
    body = float(figure.get_size_inches()[1])
    stamp_height = 0.36 if stamp else 0.0
    title_height = _TITLE_LINE * len(title_lines) + 0.05
    legend_height = _LEGEND_LINE * (count_legend_rows(legend, room) + bool(legend and legend_title))
    foot_height = _FOOT_LINE * len(foot_lines) + _SMALL_FOOT_LINE * len(small_lines)
    foot_height += _EDGE if foot_height else 0.0
    height = body + stamp_height + title_height + legend_height + foot_height + _EDGE
    figure.set_size_inches(WIDTH, height)
    engine = figure.get_layout_engine()
    if isinstance(engine, ConstrainedLayoutEngine):
        engine.set(rect=(0.0, foot_height / height, 1.0, body / height), w_pad=0.09, h_pad=0.07,
                   wspace=0.04, hspace=0.05)  # fmt: skip
    if stamp:
        _put_stamp(figure, stamp, height)
    top = height - _EDGE - stamp_height
    _put_line(figure, top, height, "\n".join(title_lines), size=TITLE, weight="bold")
    if legend:
        corner = (_EDGE / WIDTH, (top - title_height) / height)
        put_legend(figure, legend, loc="upper left", bbox_to_anchor=corner,
                   ncols=_count_columns(legend, room), heading=legend_title)  # fmt: skip
    for index, line in enumerate(foot_lines):
        _put_line(figure, foot_height - _FOOT_LINE * index, height, line, size=SMALL - 0.5)
    small_top = foot_height - _FOOT_LINE * len(foot_lines)
    for index, line in enumerate(small_lines):
        _put_line(figure, small_top - _SMALL_FOOT_LINE * index, height, line, size=SMALL - 1.5)
    # Lay out once: formats measure text a little differently, and the figure must not.
    for text in figure.texts:
        text.set_in_layout(False)
    if engine is not None:
        engine.execute(figure)
    figure.set_layout_engine("none")


def _wrap_foot(text: str, width: int) -> list[str]:
    """Lines of the foot; none begins with a per cent sign."""
    return textwrap.wrap(text.replace(" %", "\N{NO-BREAK SPACE}%"), width)


def _put_stamp(figure: Figure, stamp: str, height: float) -> None:
    box = {"boxstyle": "round,pad=0.35", "edgecolor": VERMILION, "facecolor": "none"}
    corner = ((_EDGE + 0.05) / WIDTH, 1 - (_EDGE + 0.04) / height)
    text = figure.text(*corner, "", va="top", fontsize=SMALL, fontweight="bold")
    text.set_bbox({**box, "linewidth": 1.4})
    write(text, stamp)


def _put_line(
    figure: Figure, top: float, height: float, text: str, *, size: float, weight: str = "normal"
) -> None:
    """A text that begins at the left edge, `top` inches above the lower edge."""
    line = figure.text(_EDGE / WIDTH, top / height, "", va="top", fontsize=size)
    line.set_fontweight(weight)
    write(line, text)


def make_picture(
    figure: Figure,
    title: str,
    caption: str,
    *,
    public: bool,
    shows: Shows = "compares with",
    legend: Sequence[Mark] = (),
    legend_title: str = "",
) -> Picture:
    """Put the head on the sheet, stamped unless it is public, and hand the picture over."""
    stamp = "" if public else format_stamp(shows)
    put_head_and_foot(figure, title, legend=legend, legend_title=legend_title, stamp=stamp)
    return Picture(
        figure=figure,
        title=title,
        caption=caption,
        audience="public" if public else "custodian",
        stamp=stamp,
    )


def refuse_public(picture: str, *, public: bool) -> None:
    """A picture of single records can never be public."""
    if public:
        raise SfumatoError(
            f"The picture '{picture}' shows single records of the original; it cannot be public.",
            hint="show forest, propensity, risk_curve or sweep outside; they show only sums.",
        )
