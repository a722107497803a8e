"""Several plans side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sfumato.errors import SfumatoError
from sfumato.evidence import Evidence
from sfumato.figures.custodian.bars import draw_bars
from sfumato.figures.custodian.source import (
    Row,
    average_finite,
    describe_direction,
    list_measured,
    refuse_empty,
    require_columns,
)
from sfumato.figures.sheet.picture import Picture
from sfumato.figures.sheet.sheet import (
    make_picture,
    make_sheet,
    name_row,
    put_legend_below,
    set_rows,
)
from sfumato.figures.sheet.style import INK, PANEL, SMALL, Mark, pick_mark, use_house_style
from sfumato.figures.sheet.text import measure_width, wrap_name, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LETTERS = "ABCDEFGHIJKL"
_ACROSS = 3
_MOST_BARS = 4
_MOST_ROWS = 40
_ABOUT = ("records", "repeat")
_FOUR = 4
_ROOM = {1: 4.2, 2: 1.95, 3: 1.25}
"""Inches that a panel has at least when so many stand side by side."""
_BELOW = 0.32
"""Inches from a panel to its legend."""
_DIRECTION_HEIGHT = 0.16
"""Inches for the line that says which way is better."""
Numbers = dict[str, dict[str, float]]


def compared(
    table: Any,
    panels: Mapping[str, Sequence[str]] | None = None,
    *,
    label: str = "plan",
    public: bool = False,
) -> Picture:
    """What was measured for several plans or releases, as bars: a panel a measure, a row a plan.

    Question: which plan costs least for the protection it gives?
    Assumes: rows with the same label are repeated runs, of which the mean is drawn. Panels have
    scales of their own. Whether lower or higher numbers are better stands below a panel's title,
    where the evidence or the measure of that name says so.

    Parameters
    ----------
    table : a row for each plan, with its label and its numbers; or evidence by label and name,
        such as `{"2-anonymous": sf.evaluate(data, release), ...}`. Further numbers of a measure
        are then called "reidentification.guess".
    panels : title of each panel and the columns drawn in it. Default: a panel per measure.
    label : the column that names the plan.
    public : the custodian's word that it may be shown outside. It shows numbers of whole data
        sets.

    Examples
    --------
    >>> rows = [{"plan": "2-anonymous", "risk": 0.0, "loss": 0.04},
    ...         {"plan": "1/8 coarsened", "risk": 0.02, "loss": 0.15}]
    >>> compared(rows).title
    'What was measured, by plan'

    References: Sánchez, Martínez & Domingo-Ferrer (2016), Science 351:1274, Figs. S4 and S7.
    """
    rows = _make_rows(table, label)
    if not panels:
        measured = list_measured(rows, (label, *_ABOUT))
        names = [name for name in measured if "." not in name and "[" not in name]
        panels = {name.replace("_", " "): [name] for name in names}
    columns = [name for names in panels.values() for name in names]
    require_columns(rows, [label, *columns], picture="compared")
    numbers = _average_runs(rows, label, columns)
    _require_few(panels, numbers)
    if not any(math.isfinite(value) for row in numbers.values() for value in row.values()):
        raise refuse_empty("compared")
    known = _collect_evidence(table)
    directions = {title: describe_direction(names, known) for title, names in panels.items()}
    with use_house_style():
        figure = _draw_panels(panels, numbers, directions)
        caption = _make_caption(rows, numbers)
        return make_picture(figure, f"What was measured, by {label}", caption, public=public)


def _make_rows(table: Any, label: str) -> list[Row]:
    if not isinstance(table, Mapping):
        return require_columns(table, [label], picture="compared")
    rows: list[Row] = []
    for plan, evidence in table.items():
        if not isinstance(evidence, Mapping) or not all(
            isinstance(item, Evidence) for item in evidence.values()
        ):
            raise SfumatoError(
                "The picture 'compared' needs evidence by name for each label.",
                hint='for instance {"first": sf.evaluate(data, release)}.',
            )
        row: dict[str, Any] = {label: plan}
        for measure, item in evidence.items():
            details = {f"{measure}.{detail}": item.number(detail) for detail in item.details}
            row |= {measure: item.value, **details}
        rows.append(row)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return [{name: row.get(name) for name in columns} for row in rows]


def _collect_evidence(table: Any) -> dict[str, Evidence]:
    """Evidence by the label of its measure, of whichever plan has it first."""
    evidence: dict[str, Evidence] = {}
    for by_label in table.values() if isinstance(table, Mapping) else ():
        evidence = {**by_label, **evidence}
    return evidence


def _average_runs(rows: Sequence[Row], label: str, names: Sequence[str]) -> Numbers:
    """The mean of each number over the runs of a plan; NaN where no run has one."""
    runs: dict[str, list[Row]] = {}
    for row in rows:
        runs.setdefault(str(row[label]), []).append(row)
    return {
        plan: {name: average_finite(row[name] for row in of_plan) for name in names}
        for plan, of_plan in runs.items()
    }


def _require_few(panels: Mapping[str, Sequence[str]], numbers: Numbers) -> None:
    if not panels or not all(panels.values()):
        raise SfumatoError(
            "The picture 'compared' needs at least one number per panel.",
            hint='for instance panels={"Risk": ["reidentification"]}.',
        )
    if len(panels) > len(_LETTERS) or max(map(len, panels.values())) > _MOST_BARS:
        raise SfumatoError(
            f"The picture 'compared' shows at most {len(_LETTERS)} panels with {_MOST_BARS} bars "
            "a row.",
            hint="name fewer in `panels`.",
        )
    if len(numbers) > _MOST_ROWS:
        raise SfumatoError(
            f"The table has {len(numbers)} labels; the picture shows {_MOST_ROWS} at most."
        )


def _draw_panels(
    panels: Mapping[str, Sequence[str]], numbers: Numbers, directions: Mapping[str, str]
) -> Figure:
    # Four stand better as two and two.
    across = 2 if len(panels) == _FOUR else min(_ACROSS, len(panels))
    room = _ROOM[across]
    down = math.ceil(len(panels) / across)
    most = max(map(len, panels.values()))
    directed = any(directions.values())
    height = 0.85 + (0.26 + 0.1 * most) * len(numbers) + 0.2 * (most if most > 1 else 0)
    height += _DIRECTION_HEIGHT if directed else 0
    figure, all_axes = make_sheet(height * down, rows=down, columns=across)
    for index, (axes, (title, names)) in enumerate(zip(all_axes, panels.items(), strict=False)):
        letter = _LETTERS[index] if len(panels) > 1 else ""
        _write_title(axes, letter, title, room, below=directed)
        _write_direction(axes, directions[title])
        set_rows(axes, len(numbers))
        looks = _choose_looks(names, room)
        series = [[row[name] for row in numbers.values()] for name in names]
        draw_bars(axes, series, looks, room=room, ticks=5 if across < _ACROSS else 2)
        if index % across == 0:
            for row, plan in enumerate(numbers):
                name_row(axes, row, plan)
        if len(names) > 1:
            put_legend_below(axes, looks, gap=_BELOW)
    for axes in all_axes[len(panels) :]:
        axes.set_axis_off()
    return figure


def _choose_looks(names: Sequence[str], room: float) -> list[Mark]:
    """The first is filled and the second hollow, and so on, besides their colours."""
    return [
        replace(pick_mark(index, _cut(name, SMALL, room, 1)), marker="s", line="",
                hollow=index % 2 == 1)
        for index, name in enumerate(names)
    ]  # fmt: skip


def _cut(text: str, size: float, room: float, lines: int) -> str:
    """As much of a text as fits into so many inches."""
    for width in range(40, 4, -2):
        wrapped = wrap_name(text, width=width, lines=lines)
        if max(measure_width(line, size) for line in wrapped.split("\n")) <= room:
            break
    return wrapped


def _write_title(axes: Axes, letter: str, title: str, room: float, *, below: bool) -> None:
    """The title of a panel, with room below it where some panel says which way is better."""
    pad = 6 + 72 * _DIRECTION_HEIGHT * below
    text = axes.set_title("", loc="left", fontsize=PANEL, fontweight="bold", color=INK, pad=pad)
    # Bold letters are wider by a tenth.
    cut = _cut(title, 1.1 * PANEL, room - 0.05, 2)
    write(text, f"{letter}  {cut}" if letter else cut)


def _write_direction(axes: Axes, direction: str) -> None:
    """Which way is better, small, between the title and the bars."""
    if direction:
        text = axes.annotate(
            "", (0, 1), xycoords="axes fraction", xytext=(0, 5), textcoords="offset points"
        )
        text.set(fontsize=SMALL, ha="left", va="baseline")
        write(text, direction)


def _make_caption(rows: Sequence[Row], numbers: Numbers) -> str:
    several = "Bars are means over repeated runs. " if len(rows) > len(numbers) else ""
    missing = sum(not math.isfinite(value) for row in numbers.values() for value in row.values())
    lost = f" {missing} number{'s' * (missing > 1)} could not be computed." if missing else ""
    return f"{several}Each panel has a scale of its own.{lost}"
