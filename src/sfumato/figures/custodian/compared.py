"""Several plans side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sfumato.errors import SfumatoError
from sfumato.evidence import Evidence
from sfumato.figures._sheet.picture import Picture
from sfumato.figures._sheet.sheet import finish, key, name_row, rows_only, sheet
from sfumato.figures._sheet.style import INK, PANEL, SMALL, Mark, house_style, mark
from sfumato.figures._sheet.words import shown, width_of, write
from sfumato.figures.custodian.bars import Bar, ends_of, put_bars, set_reach
from sfumato.figures.custodian.columns import better, rows_with
from sfumato.figures.custodian.source import Row, nothing, real

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
_WAY = 0.16
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
    rows = _rows(table, label)
    wanted = panels or {name.replace("_", " "): [name] for name in _measures(rows, label)}
    named = [name for names in wanted.values() for name in names]
    rows_with(rows, [label, *named], picture="compared")
    numbers = _means(rows, label, named)
    _require_few(wanted, numbers)
    if not any(math.isfinite(one) for row in numbers.values() for one in row.values()):
        raise nothing("compared")
    with house_style():
        known = _evidence(table)
        ways = {title: better(names, known) for title, names in wanted.items()}
        figure = _sheet(wanted, numbers, ways)
        return finish(
            figure, f"What was measured, by {label}", _caption(rows, numbers), public=public
        )


def _rows(table: Any, label: str) -> list[Row]:
    if not isinstance(table, Mapping):
        return rows_with(table, [label], picture="compared")
    rows: list[Row] = []
    for name, found in table.items():
        if not isinstance(found, Mapping) or not all(
            isinstance(one, Evidence) for one in found.values()
        ):
            raise SfumatoError(
                "The picture 'compared' needs evidence by name for each label.",
                hint='for instance {"first": sf.evaluate(data, release)}.',
            )
        row: dict[str, Any] = {label: name}
        for measure, one in found.items():
            details = {f"{measure}.{detail}": one.number(detail) for detail in one.details}
            row |= {measure: one.value, **details}
        rows.append(row)
    every = list(dict.fromkeys(name for row in rows for name in row))
    return [{name: row.get(name) for name in every} for row in rows]


def _evidence(table: Any) -> dict[str, Evidence]:
    """Evidence by the label of its measure, of whichever plan has it first."""
    found: dict[str, Evidence] = {}
    for by_label in table.values() if isinstance(table, Mapping) else ():
        found = {**by_label, **found}
    return found


def _measures(rows: Sequence[Row], label: str) -> list[str]:
    """The columns that hold a measure's own number."""
    return [
        name
        for name in rows[0]
        if name not in (label, *_ABOUT)
        and "." not in name
        and "[" not in name
        and not any(isinstance(row[name], bool) for row in rows)
        and any(math.isfinite(real(row[name])) for row in rows)
    ]


def _means(rows: Sequence[Row], label: str, names: Sequence[str]) -> Numbers:
    """The mean of each number over the runs of a plan; NaN where no run has one."""
    held: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        runs = held.setdefault(str(row[label]), {name: [] for name in names})
        for name in runs:
            value = real(row[name])
            runs[name] += [value] if math.isfinite(value) else []
    return {
        plan: {name: math.fsum(runs) / len(runs) if runs else math.nan for name, runs in by.items()}
        for plan, by in held.items()
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


def _sheet(
    panels: Mapping[str, Sequence[str]], numbers: Numbers, ways: Mapping[str, str]
) -> Figure:
    # Four stand better as two and two.
    across = 2 if len(panels) == _FOUR else min(_ACROSS, len(panels))
    room = _ROOM[across]
    high = math.ceil(len(panels) / across)
    most = max(map(len, panels.values()))
    looks = {title: _looks(names, room) for title, names in panels.items()}
    tall = 0.85 + (0.26 + 0.1 * most) * len(numbers) + 0.2 * (most if most > 1 else 0)
    tall += _WAY if any(ways.values()) else 0
    figure, all_axes = sheet(tall * high, rows=high, columns=across)
    for at, (title, names) in enumerate(panels.items()):
        axes = all_axes[at]
        _head(axes, _LETTERS[at] if len(panels) > 1 else "", title, room, below=any(ways.values()))
        _put_way(axes, ways[title])
        rows_only(axes, len(numbers))
        _fill(axes, names, numbers, looks[title], room)
        if at % across == 0:
            for row, plan in enumerate(numbers):
                name_row(axes, row, plan)
        if len(names) > 1:
            _legend(axes, looks[title])
    for axes in all_axes[len(panels) :]:
        axes.set_axis_off()
    return figure


def _looks(names: Sequence[str], room: float) -> list[Mark]:
    """The first is filled and the second hollow, and so on, besides their colours."""
    return [
        replace(mark(at, _cut(name, SMALL, room, 1)), marker="s", line="", hollow=at % 2 == 1)
        for at, name in enumerate(names)
    ]


def _cut(text: str, size: float, room: float, lines: int) -> str:
    """As much of a text as fits into so many inches."""
    for width in range(40, 4, -2):
        made = shown(text, width=width, lines=lines)
        if max(width_of(line, size) for line in made.split("\n")) <= room:
            break
    return made


def _head(axes: Axes, letter: str, title: str, room: float, *, below: bool) -> None:
    """The title of a panel, with room below it where some panel says which way is better."""
    pad = 6 + 72 * _WAY * below
    text = axes.set_title("", loc="left", fontsize=PANEL, fontweight="bold", color=INK, pad=pad)
    # Bold letters are wider by a tenth.
    cut = _cut(title, 1.1 * PANEL, room - 0.05, 2)
    write(text, f"{letter}  {cut}" if letter else cut)


def _put_way(axes: Axes, way: str) -> None:
    """Which way is better, small, between the title and the bars."""
    if way:
        text = axes.annotate(
            "", (0, 1), xycoords="axes fraction", xytext=(0, 5), textcoords="offset points"
        )
        text.set(fontsize=SMALL, ha="left", va="baseline")
        write(text, way)


def _legend(axes: Axes, looks: Sequence[Mark]) -> None:
    from matplotlib.transforms import ScaledTranslation

    figure = axes.get_figure(root=True)
    if figure is not None:
        below = axes.transAxes + ScaledTranslation(0, -_BELOW, figure.dpi_scale_trans)
        key(axes, looks, loc="upper center", bbox_to_anchor=(0.5, 0), bbox_transform=below)


def _fill(
    axes: Axes, names: Sequence[str], numbers: Numbers, looks: Sequence[Mark], room: float
) -> None:
    bars = [
        Bar(row, found[name], place, len(names))
        for place, name in enumerate(names)
        for row, found in enumerate(numbers.values())
    ]
    set_reach(axes, ends_of(bars), room=room, ticks=5 if room > _ROOM[_ACROSS] else 2)
    for place, look in enumerate(looks):
        put_bars(axes, [bar for bar in bars if bar.place == place], look)


def _caption(rows: Sequence[Row], numbers: Numbers) -> str:
    several = "Bars are means over repeated runs. " if len(rows) > len(numbers) else ""
    gone = sum(not math.isfinite(one) for row in numbers.values() for one in row.values())
    lost = f" {gone} number{'s' * (gone > 1)} could not be computed." if gone else ""
    return f"{several}Each panel has a scale of its own.{lost}"
