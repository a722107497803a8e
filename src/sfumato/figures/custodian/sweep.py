"""What a parameter does to risk and utility."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.errors import SfumatoError
from sfumato.figures._sheet.picture import Picture
from sfumato.figures._sheet.sheet import (
    empty_panel,
    finish,
    head_of_panel,
    key_below,
    key_rows,
    label_axes,
    plain_numbers,
    sheet,
)
from sfumato.figures._sheet.style import MOST, SMALL, Mark, house_style, mark
from sfumato.figures._sheet.words import number, width_of
from sfumato.figures.custodian.source import Row, nothing, real, rows_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LETTERS = "ABCDEFGHIJKL"
_FEW = 9


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
    rows = rows_of(table, [x], picture="sweep")
    wanted = panels or {name: [name] for name in _numbers(rows, x)}
    rows_of(rows, [x, *(name for names in wanted.values() for name in names)], picture="sweep")
    _require_few(wanted)
    lines = {
        title: {name: _points(rows, x, name) for name in names} for title, names in wanted.items()
    }
    if not any(points for drawn in lines.values() for points in drawn.values()):
        raise nothing("sweep")
    if log_x and any(real(row[x]) <= 0 for row in rows):
        raise SfumatoError(f"'{x}' is not above 0 everywhere; it has no logarithmic scale.")
    with house_style():
        figure = _sheet(lines, x, log_x=log_x)
        return finish(figure, f"What was measured, by {x}", _caption(rows, lines, x), public=public)


def _sheet(lines: Mapping[str, Mapping[str, list[_Point]]], x: str, *, log_x: bool) -> Figure:
    columns = min(2, len(lines))
    room = 5.6 / columns
    looks = {title: _looks(list(drawn)) for title, drawn in lines.items()}
    deepest = max(key_rows(one, room) if len(one) > 1 else 0 for one in looks.values())
    high = math.ceil(len(lines) / columns)
    figure, all_axes = sheet((2.35 + 0.2 * deepest) * high, rows=high, columns=columns)
    for at, (title, drawn) in enumerate(lines.items()):
        axes = all_axes[at]
        head_of_panel(axes, _LETTERS[at] if len(lines) > 1 else "", title)
        _panel(axes, list(drawn.values()), looks[title], room, log_x=log_x)
        label_axes(axes, x)
        if len(drawn) > 1:
            key_below(axes, looks[title], room)
    for axes in all_axes[len(lines) :]:
        axes.set_axis_off()
    return figure


def _looks(names: list[str]) -> list[Mark]:
    return [Mark(names[0])] if len(names) == 1 else [mark(at, one) for at, one in enumerate(names)]


def _numbers(rows: Sequence[Row], x: str) -> list[str]:
    """The columns that hold what was measured."""
    return [
        name
        for name in rows[0]
        if name not in (x, "repeat", "records")
        and not any(isinstance(row[name], bool) for row in rows)
        and any(math.isfinite(real(row[name])) for row in rows)
    ]


def _require_few(panels: Mapping[str, Sequence[str]]) -> None:
    if not panels or not all(panels.values()):
        raise SfumatoError(
            "The picture 'sweep' needs at least one number per panel.",
            hint='for instance panels={"Risk": ["risk1", "risk2"]}.',
        )
    if len(panels) > len(_LETTERS) or max(map(len, panels.values())) > MOST:
        raise SfumatoError(
            f"The picture 'sweep' shows at most {len(_LETTERS)} panels with {MOST} lines each.",
            hint="name fewer in `panels`.",
        )


def _points(rows: Sequence[Row], x: str, name: str) -> list[_Point]:
    """Mean and SD at each value of the parameter; runs without a number are told in the caption."""
    groups: dict[float, list[float]] = {}
    for row in rows:
        at, value = real(row[x]), real(row[name])
        if not math.isfinite(at):
            raise SfumatoError(f"The parameter '{x}' is not a number in every run.")
        if math.isfinite(value):
            groups.setdefault(at, []).append(value)
    return [_summary(at, sorted(values)) for at, values in sorted(groups.items())]


def _summary(x: float, values: list[float]) -> _Point:
    count = len(values)
    mean = math.fsum(values) / count
    spread = math.fsum((value - mean) ** 2 for value in values)
    return _Point(x, mean, math.sqrt(spread / (count - 1)) if count > 1 else 0.0)


def _panel(
    axes: Axes, drawn: list[list[_Point]], looks: Sequence[Mark], room: float, *, log_x: bool
) -> None:
    if not any(drawn):
        empty_panel(axes, "no number to draw")
        return
    if log_x:
        axes.set_xscale("log")
        plain_numbers(axes.xaxis)
    _set_limits(axes, [one for points in drawn for one in points], room, log_x=log_x)
    for at, (look, points) in enumerate(zip(looks, drawn, strict=True)):
        axes.errorbar(
            [one.x for one in points],
            [one.mean for one in points],
            yerr=[one.sd for one in points],
            color=look.colour,
            marker=look.marker,
            markersize=4.5,
            linewidth=1.4,
            elinewidth=1.0,
            capsize=2.5,
            transform=_aside(axes, at - (len(drawn) - 1) / 2),
        )


def _set_limits(axes: Axes, points: list[_Point], room: float, *, log_x: bool) -> None:
    """Room for all points and bars; zero is shown where no number is negative."""
    places = sorted({one.x for one in points})
    first, last = (math.log10(one) if log_x else one for one in (places[0], places[-1]))
    pad_x = 0.08 * (last - first) or (0.1 if log_x else 1.0)
    axes.set_xlim(*((10**one if log_x else one) for one in (first - pad_x, last + pad_x)))
    low = min(one.mean - one.sd for one in points)
    high = max(one.mean + one.sd for one in points)
    low = min(low, 0.0) if all(one.mean >= 0 for one in points) else low
    pad = 0.06 * (high - low) or max(abs(high), 1.0)
    axes.set_ylim(low - pad * (low < 0), high + pad)
    if len(places) <= _FEW:
        at = [(math.log10(one) if log_x else one) for one in places]
        spots = [(one - first + pad_x) / (last - first + 2 * pad_x) * room for one in at]
        axes.set_xticks(_apart(places, spots))
        axes.set_xticks([], minor=True)


def _apart(places: list[float], spots: list[float]) -> list[float]:
    """The values whose names at the axis leave room for each other, the last first.

    `spots` says in inches where they stand.
    """
    kept: list[float] = []
    end = math.inf
    for place, spot in reversed(list(zip(places, spots, strict=True))):
        half = width_of(number(place), SMALL) / 2
        if spot + half < end:
            kept.append(place)
            end = spot - half - 0.06
    return kept[::-1]


def _aside(axes: Axes, steps: float) -> Any:
    """A few points to the side, so that bars of several lines do not hide each other."""
    from matplotlib.transforms import ScaledTranslation

    figure = axes.get_figure(root=True)
    if figure is None:
        return axes.transData
    return axes.transData + ScaledTranslation(steps * 2.2 / 72, 0, figure.dpi_scale_trans)


def _caption(rows: Sequence[Row], lines: Mapping[str, Mapping[str, Any]], x: str) -> str:
    names = [name for drawn in lines.values() for name in drawn]
    gone = sum(not math.isfinite(real(row[name])) for row in rows for name in names)
    runs = len(rows) / len({real(row[x]) for row in rows})
    text = "Points are means over repeated runs, bars one standard deviation to either side."
    if runs <= 1:
        text = "One run at each point."
    return (
        f"{text} {gone} of {len(rows) * len(names)} numbers could not be computed."
        if gone
        else text
    )
