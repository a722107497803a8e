"""The risk-utility map: what every candidate costs, and whether it is safe enough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sfumato.errors import SfumatoError
from sfumato.figures._sheet.picture import Picture
from sfumato.figures._sheet.sheet import empty_panel, finish, head_of_panel, label_axes, sheet
from sfumato.figures._sheet.style import INK, MOST, VERMILION, Mark, house_style, mark
from sfumato.figures._sheet.words import clean, number
from sfumato.figures.custodian.source import nothing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sfumato.plan.targets import Target

_BEST = Mark("Recommended", VERMILION, "*", "")
_NEAREST = Mark("Nearest to the targets", VERMILION, "*", "", hollow=True)
_MISSED = Mark("Hollow: misses a target", INK, "o", "", hollow=True)
_BOUND = Mark("Bound of the target", INK, "")
_FRONT = Mark("Front: less loss, more risk", INK, "", "--")
_REST = "Further families"
_FAMILIES = MOST - 2
_PANELS = 6
_WIDE = 30.0
"""From so many times on, a range of numbers is drawn on a logarithmic scale."""
_LETTERS = "ABCDEF"
_TICKS = 9
_LINE, _SHORT = 32, 6
"""Letters that a line of the legend holds, and the fewest by which a part can be told."""


def risk_utility(found: Any, *, public: bool = False) -> Picture:
    """Every candidate of a search by what it loses and how near it comes to breaking a target.

    Question: what does safety cost, and is there a better bargain than the one recommended?
    Assumes: the loss is that of the search: each utility number scaled by its own range.

    Parameters
    ----------
    found : what `sf.tune` returned.
    public : the custodian's word that it may be shown outside. It shows numbers of whole data
        sets.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> from sfumato.tuning.search import tune
    >>> frame = pl.DataFrame({"age": [20, 31, 33, 38, 45, 47]})
    >>> age = sf.Column(role="quasi", kind="integer", domain=(0, 99))
    >>> plan = sf.Plan(schema={"age": age}, targets={"k.min": 2})
    >>> risk_utility(tune(sf.Dataset(frame), plan)).title
    'What safety costs: 18 candidates'

    References: Duncan, Keller-McNulty & Stokes (2001), Disclosure risk vs. data utility: the R-U
    confidentiality map.
    """
    if not hasattr(found, "candidates") or not hasattr(found, "best"):
        raise SfumatoError(
            "The picture 'risk_utility' needs what `sf.tune` returned.",
            hint="found = sf.tune(data, plan); found.picture().",
        )
    shown = [one for one in found.candidates if one.verdict and math.isfinite(one.loss)]
    if not shown:
        raise nothing("risk_utility")
    looks = _looks([one.family for one in shown])
    star = _BEST if found.met else _NEAREST
    targets = [one.target for one in found.best.verdict][:_PANELS]
    with house_style():
        columns = min(2, len(targets))
        rows = math.ceil(len(targets) / columns)
        figure, panels = sheet((3.9 if columns == 1 else 3.0) * rows, rows=rows, columns=columns)
        for at, (target, axes) in enumerate(zip(targets, panels, strict=False)):
            said = target.said()
            head_of_panel(axes, _LETTERS[at] if len(targets) > 1 else "", said)
            _panel(axes, _Side(at, target, shown, looks, found.best, star))
        for axes in panels[len(targets) :]:
            axes.set_axis_off()
        marks = dict.fromkeys([*looks.values(), star, _MISSED, _BOUND, _FRONT])
        return finish(
            figure,
            f"What safety costs: {len(found.candidates)} candidates",
            _caption(found, len(shown), len(targets)),
            public=public,
            legend=list(marks),
        )


@dataclass(frozen=True, eq=False)
class _Side:
    """The map as one target sees it."""

    at: int
    target: Target
    shown: Sequence[Any]
    looks: dict[str, Mark]
    best: Any
    star: Mark

    def number(self, one: Any) -> float:
        return float(one.verdict[self.at].number)

    def places(self) -> list[tuple[Any, float]]:
        """The candidates that have this number."""
        return [(one, y) for one in self.shown if math.isfinite(y := self.number(one))]


def _panel(axes: Axes, side: _Side) -> None:
    places = side.places()
    if not places:
        empty_panel(axes, "no number to draw")
        return
    bounds = [end for end in (side.target.least, side.target.most) if end is not None]
    _frame(axes, [y for _, y in places], bounds)
    rising = side.target.least is not None and side.target.most is None
    if rising:
        axes.invert_yaxis()  # down is safer in every panel
    _line(axes, [(one.loss, y) for one, y in places], turned=rising)
    for one, y in places:
        _put(axes, one.loss, y, replace(side.looks[one.family], hollow=not one.met), 6.0, 4)
    y = side.number(side.best)
    if math.isfinite(y):
        _put(axes, side.best.loss, y, side.star, 15.0, 6)
    label_axes(axes, "Loss: 0 unprotected, 1 the worst here", side.target.name, width=44)


def _looks(families: Sequence[str]) -> dict[str, Mark]:
    """A look for each family; where they are too many, the last ones share one."""
    names = list(dict.fromkeys(families))
    made = {
        name: replace(mark(at, _fitting(name)), line="")
        for at, name in enumerate(names[:_FAMILIES])
    }
    rest = replace(mark(_FAMILIES, _REST), line="")
    return made | dict.fromkeys(names[_FAMILIES:], rest)


def _fitting(name: str) -> str:
    """A name of several parts, each cut alike, so that none of them is lost in the legend."""
    parts = clean(name).split(" + ")
    room = (_LINE - 3 * (len(parts) - 1)) // len(parts)
    if len(name) <= _LINE or room < _SHORT:
        return name
    spare = sum(max(0, room - len(part)) for part in parts)
    return " + ".join(
        part if len(part) <= room + spare else f"{part[: room + spare - 1].rstrip(' ,')}…"
        for part in parts
    )


def _put(axes: Axes, x: float, y: float, look: Mark, size: float, above: int) -> None:
    axes.plot(
        [x],
        [y],
        linestyle="none",
        marker=look.marker,
        markersize=size,
        color=look.colour,
        fillstyle="none" if look.hollow else "full",
        markeredgewidth=1.2 if look.hollow else 0.6,
        markeredgecolor=look.colour if look.hollow else "white",
        clip_on=False,
        zorder=above,
    )


def _frame(axes: Axes, numbers: Sequence[float], bounds: Sequence[float]) -> None:
    """Room for all numbers and bounds."""
    low, high = min(*numbers, *bounds), max(*numbers, *bounds)
    if low > 0 and high / low >= _WIDE:
        axes.set_yscale("log")
        axes.set_ylim(low / 1.3, high * 1.3)
        round_ones = [base * 10.0**power for power in range(-9, 10) for base in (1, 2, 5)]
        inside = [one for one in round_ones if low / 1.3 <= one <= high * 1.3]
        chosen = inside if len(inside) <= _TICKS else inside[::3]
        axes.set_yticks(chosen, labels=[number(one) for one in chosen])
        axes.set_yticks([], minor=True)
    else:
        room = 0.08 * (high - low) or max(abs(high), 1.0) * 0.1
        axes.set_ylim(low - room, high + room)
    axes.set_xlim(-0.04, 1.04)
    for end in bounds:
        axes.axhline(end, color=INK, linewidth=1.1)


def _line(axes: Axes, places: Sequence[tuple[float, float]], *, turned: bool) -> None:
    """The stairs along those that no other beats in both directions of the panel."""
    sign = -1 if turned else 1
    stairs: list[tuple[float, float]] = []
    for loss, height in sorted(places, key=lambda one: (one[0], sign * one[1])):
        if not stairs or sign * height < sign * stairs[-1][1]:
            stairs.append((loss, height))
    axes.plot(
        [x for x, _ in stairs], [y for _, y in stairs], drawstyle="steps-post", color=INK,
        linewidth=1.0, linestyle=(0, (4, 3)), alpha=0.7, zorder=2,
    )  # fmt: skip


def _caption(found: Any, shown: int, panels: int) -> str:
    best = found.best.said()
    text = (
        "Each point is a plan, in each panel held against one target. Down is safer, left is more "
        "useful. Filled points meet every target. "
        + (f"The star is recommended: {best}." if found.met else f"None does; nearest: {best}.")
    )
    if left := len(found.candidates) - shown:
        text += f" Not drawn, since the data refuse them: {left}."
    if more := len(found.best.verdict) - panels:
        text += f" Further targets, not drawn: {more}."
    return text
