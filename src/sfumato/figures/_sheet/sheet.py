"""The sheet that every picture is drawn on: panels below, and a head with stamp, title, legend."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from sfumato.errors import SfumatoError
from sfumato.figures._sheet.picture import Picture
from sfumato.figures._sheet.style import (
    FAINT,
    INK,
    LABEL,
    PANEL,
    SMALL,
    TITLE,
    VERMILION,
    WIDTH,
    Mark,
)
from sfumato.figures._sheet.words import number, shown, tick, width_of, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

Shows = Literal["shows", "compares with"]
_EDGE = 0.12
_LINE = 0.2
_HANDLE, _GAP = 0.32, 0.18
"""Inches: the sign in a legend with its space, and what lies between two columns."""


def sheet(height: float, *, rows: int = 1, columns: int = 1) -> tuple[Figure, list[Axes]]:
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
            plain_numbers(axis)
    return figure, panels


def plain_numbers(axis: Any) -> None:
    """Numbers written out at the ticks; never a factor in a corner, where nobody looks."""
    from matplotlib.ticker import Formatter

    class Plain(Formatter):
        def __call__(self, x: float, pos: int | None = None) -> str:
            del pos
            return number(x)

        def format_ticks(self, values: Sequence[float]) -> list[str]:
            return [tick(one, values) for one in values]

    axis.set_major_formatter(Plain())


def head_of_panel(axes: Axes, letter: str, text: str) -> None:
    """The letter and the title of one panel."""
    title = axes.set_title("", loc="left", fontsize=PANEL, fontweight="bold", color=INK, pad=7)
    write(title, f"{letter}  {shown(text, width=30)}" if letter else shown(text, width=70))


def label_axes(axes: Axes, x: str = "", y: str = "", *, width: int = 34) -> None:
    """The names at the axes, on lines of so many letters."""
    for axis, text in ((axes.xaxis, x), (axes.yaxis, y)):
        axis.label.set_fontsize(LABEL)
        # Turned about its anchor, so that an SVG's own font cannot shift it.
        axis.label.set_rotation_mode("anchor")
        if text:
            write(axis.label, shown(text, width=width))


def key_below(axes: Axes, marks: Sequence[Mark], room: float) -> None:
    """A legend below a panel and its axis, not wider than the panel's room in inches."""
    from matplotlib.transforms import ScaledTranslation

    figure = axes.get_figure(root=True)
    if figure is not None:
        below = axes.transAxes + ScaledTranslation(0, -0.5, figure.dpi_scale_trans)
        columns, _ = _grid(marks, room)
        key(axes, marks, loc="upper center", bbox_to_anchor=(0.5, 0), bbox_transform=below,
            ncols=columns)  # fmt: skip


def beside(axes: Axes, at: float, text: str, points: float, *, size: float = LABEL) -> None:
    """A text at a row of the panel, right-aligned, so many points from its edge.

    Each line is a text of its own: an SVG aligns only single lines in the reader's own font.
    """
    lines = text.split("\n")
    for place, line in enumerate(lines):
        made = axes.annotate(
            "",
            (0.0 if points < 0 else 1.0, at),
            xycoords=axes.get_yaxis_transform(),
            xytext=(points, ((len(lines) - 1) / 2 - place) * 1.15 * size),
            textcoords="offset points",
            ha="right",
            va="center",
            fontsize=size,
            annotation_clip=False,
        )
        write(made, line)


def name_row(axes: Axes, at: float, name: str) -> None:
    """The name of a row at the left of the panel, on two lines when it is long."""
    text = shown(name)
    beside(axes, at, text, -7, size=SMALL if "\n" in text else LABEL)


def rows_only(axes: Axes, count: int) -> None:
    """Make room for so many rows, the first on top."""
    axes.set(ylim=(count - 0.4, -0.6), yticks=[])
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)


def upright(axes: Axes, x: float) -> None:
    """The line that all else is compared with."""
    axes.axvline(x, color=INK, linewidth=0.9, linestyle=(0, (4, 3)), alpha=0.7)


def empty_panel(axes: Axes, text: str) -> None:
    """Say in the panel why it shows nothing."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", fontsize=LABEL)


def finish(
    figure: Figure,
    title: str,
    caption: str,
    *,
    public: bool,
    shows: Shows = "compares with",
    legend: Sequence[Mark] = (),
) -> Picture:
    """Put the head on the sheet, settle the layout once for all formats, and hand it over."""
    stamp = "" if public else f"Inside only: {shows} the original data"
    lines = shown(title, width=62).split("\n")
    columns, rows = _grid(legend, WIDTH - 2 * _EDGE)
    parts = [0.36 if stamp else 0.0, 0.23 * len(lines) + 0.05, _LINE * rows]
    body = float(figure.get_size_inches()[1])
    height = body + sum(parts) + _EDGE
    figure.set_size_inches(WIDTH, height)
    _rect(figure, body / height)
    top = height - _EDGE
    if stamp:
        _put_stamp(figure, stamp, top / height)
    top -= parts[0]
    heading = figure.text(_EDGE / WIDTH, top / height, "", va="top", fontsize=TITLE)
    heading.set_fontweight("bold")
    write(heading, "\n".join(lines))
    if legend:
        at = (_EDGE / WIDTH, (top - parts[1]) / height)
        key(figure, legend, loc="upper left", bbox_to_anchor=at, ncols=columns)
    _settle(figure)
    return Picture(
        figure=figure,
        title=title,
        caption=caption,
        audience="public" if public else "custodian",
        stamp=stamp,
    )


def key(owner: Figure | Axes, marks: Sequence[Mark], **where: Any) -> Legend:
    """A legend without a frame; names are written as they are."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=one.colour, marker=one.marker, linestyle=one.line) for one in marks
    ]
    for handle, one in zip(handles, marks, strict=True):
        handle.set(markersize=5, linewidth=1.4, alpha=one.alpha)
        handle.set(fillstyle="none" if one.hollow else "full", markeredgewidth=one.hollow)
    made = owner.legend(
        handles,
        # Legends hide names that begin with a line below; so the names come after.
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
    for text, one in zip(made.get_texts(), marks, strict=True):
        write(text, _in_key(one))
    made.set_in_layout(where.get("loc") != "upper left")
    return made


def refuse_public(picture: str, *, public: bool) -> None:
    """A picture of single records can never be public."""
    if public:
        raise SfumatoError(
            f"The picture '{picture}' shows single records of the original; it cannot be public.",
            hint="show forest, propensity, risk_curve or sweep outside; they show only sums.",
        )


def _in_key(one: Mark) -> str:
    return shown(one.name, width=32, lines=1)


def key_rows(legend: Sequence[Mark], room: float) -> int:
    """How many rows a legend has when it may be so many inches wide."""
    return _grid(legend, room)[1]


def _grid(legend: Sequence[Mark], room: float) -> tuple[int, int]:
    """How many columns of the legend fit side by side, and how many rows that makes."""
    if not legend:
        return 1, 0
    widest = max(width_of(_in_key(one), SMALL) for one in legend)
    columns = min(len(legend), max(1, int((room + _GAP) / (widest + _HANDLE + _GAP))))
    return columns, math.ceil(len(legend) / columns)


def _put_stamp(figure: Figure, stamp: str, y: float) -> None:
    box = {"boxstyle": "round,pad=0.35", "edgecolor": VERMILION, "facecolor": "none"}
    text = figure.text((_EDGE + 0.05) / WIDTH, y - 0.04 / figure.get_figheight(), "", va="top")
    text.set(fontsize=SMALL, fontweight="bold", bbox={**box, "linewidth": 1.4})
    write(text, stamp)


def _rect(figure: Figure, top: float) -> None:
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    engine = figure.get_layout_engine()
    if isinstance(engine, ConstrainedLayoutEngine):
        engine.set(rect=(0.0, 0.0, 1.0, top), w_pad=0.09, h_pad=0.07, wspace=0.04, hspace=0.05)


def _settle(figure: Figure) -> None:
    """Lay out once; formats measure text a little differently, and the picture must not."""
    for one in figure.texts:
        one.set_in_layout(False)
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
    figure.set_layout_engine("none")
