"""What a search for a plan found: the risk-utility map, and which size of noise was chosen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sfumato.errors import SfumatoError
from sfumato.figures.custodian.source import read_rows, refuse_empty, to_float
from sfumato.figures.sheet.picture import Picture
from sfumato.figures.sheet.sheet import (
    format_axis,
    label_axes,
    label_empty_panel,
    make_picture,
    make_sheet,
    name_panel,
)
from sfumato.figures.sheet.style import (
    BLUE,
    DASHES,
    INK,
    MOST_MARKS,
    VERMILION,
    Mark,
    pick_mark,
    use_house_style,
)
from sfumato.figures.sheet.text import (
    clean_name,
    format_number,
    measure_width,
    wrap_name,
    write,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sfumato.plan.targets import Target

_BEST = Mark("Recommended", VERMILION, "*", "")
_NEAREST = Mark("Nearest to the targets", VERMILION, "*", "", hollow=True)
_MISSED = Mark("Hollow: misses a target", INK, "o", "", hollow=True)
_BOUND = Mark("Bound of the target", INK, "")
_FRONT = Mark("Front: less loss, more risk", INK, "", "--")
_OTHERS = "Further families"
_FAMILIES = MOST_MARKS - 2
_PANELS = 6
_WIDE = 30.0
"""From so many times on, a range of numbers is drawn on a logarithmic scale."""
_LETTERS = "ABCDEF"
_TICKS = 9
_LABEL = 6.5
"""Size of the labels beside points."""
_DOT, _BESIDE = 0.05, 0.12
"""Inches: half of a point, and from its middle to its label."""
_LINE, _SHORTEST = 32, 6
"""Letters that a line of the legend holds, and the fewest by which a part can be told."""

_COLUMNS = ("share", "achieved", "margin")
_TRIED = Mark("Tried, with its margin", BLUE, "o")
_CHOSEN = Mark("Chosen", VERMILION, "*", "")
_ASKED = Mark("Asked for", INK, "", "--")


# The risk-utility map ----------------------------------------------------------------------------


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
    'What safety costs: 26 candidates'

    References: Duncan, Keller-McNulty & Stokes (2001), Disclosure risk vs. data utility: the R-U
    confidentiality map.
    """
    if not hasattr(found, "candidates") or not hasattr(found, "best"):
        raise SfumatoError(
            "The picture 'risk_utility' needs what `sf.tune` returned.",
            hint="found = sf.tune(data, plan); found.picture().",
        )
    candidates = [item for item in found.candidates if item.verdict and math.isfinite(item.loss)]
    if not candidates:
        raise refuse_empty("risk_utility")
    looks = _choose_looks([candidate.family for candidate in candidates])
    star = _BEST if found.met else _NEAREST
    distinct = _merge_identical(candidates)
    targets = [judged.target for judged in found.best.verdict]
    shown = _choose_targets(distinct, len(targets))
    with use_house_style():
        columns = min(2, len(shown))
        rows = math.ceil(len(shown) / columns)
        height = (3.9 if columns == 1 else 3.0) * rows
        figure, panels = make_sheet(height, rows=rows, columns=columns)
        for letter, index, axes in zip(_LETTERS, shown, panels, strict=False):
            name_panel(axes, letter if len(shown) > 1 else "", targets[index].describe())
            _draw_side(axes, _MapSide(index, targets[index], distinct, looks, found.best, star))
            _label_front(axes, distinct, found.best, index, (5.6 / columns, height / rows - 0.8))
        for axes in panels[len(shown) :]:
            axes.set_axis_off()
        marks = dict.fromkeys([*looks.values(), star, _MISSED, _BOUND, _FRONT])
        return make_picture(
            figure,
            f"What safety costs: {len(found.candidates)} candidates",
            _describe_search(
                found,
                len(candidates),
                len(candidates) - len(distinct),
                [target.name for index, target in enumerate(targets) if index not in shown],
            ),
            public=public,
            legend=list(marks),
            legend_title="Kind of protection",
        )


def _list_numbers(candidate: Any) -> tuple[float, ...]:
    """Its number for each target, so rounded that what is drawn alike is equal; NaN as -inf."""
    numbers = [float(judged.number) for judged in candidate.verdict]
    return tuple(float(f"{number:.6g}") if math.isfinite(number) else -math.inf
                 for number in numbers)  # fmt: skip


def _merge_identical(candidates: Sequence[Any]) -> list[Any]:
    """Candidates that differ in a number: of several that do not, the first."""
    first: dict[Any, Any] = {}
    for candidate in candidates:
        first.setdefault((f"{candidate.loss:.6g}", _list_numbers(candidate)), candidate)
    return list(first.values())


def _choose_targets(candidates: Sequence[Any], targets: int) -> list[int]:
    """The targets whose numbers differ between candidates, each series of numbers once."""
    series: dict[tuple[float, ...], int] = {}
    rows = [_list_numbers(candidate) for candidate in candidates]
    for index in range(targets):
        series.setdefault(tuple(row[index] for row in rows), index)
    differing = [index for numbers, index in series.items() if len(set(numbers)) > 1]
    return (differing or [0])[:_PANELS]


def _label_front(
    axes: Axes, candidates: Sequence[Any], best: Any, index: int, room: tuple[float, float]
) -> None:
    """Write what they are beside the star and the front, where no point and no label is."""
    to_axes = axes.transData + axes.transAxes.inverted()
    places: dict[int, tuple[float, float]] = {}
    for candidate in [*candidates, best]:
        if math.isfinite(y := float(candidate.verdict[index].number)):
            x, height = to_axes.transform((candidate.loss, y))
            places[candidate.number] = float(x) * room[0], float(height) * room[1]
    taken = [(x - _DOT, y - _DOT, x + _DOT, y + _DOT) for x, y in places.values()]
    front: list[Any] = []
    for candidate in sorted(candidates, key=lambda item: places.get(item.number, (math.inf, 0.0))):
        here = places.get(candidate.number)
        # Down is safer.
        if here and (not front or here[1] < places[front[-1].number][1] - _DOT):
            front.append(candidate)
    for candidate in [best, *(item for item in front if item.number != best.number)]:
        if candidate.number not in places:
            continue
        text = wrap_name(candidate.describe(), width=_LINE, lines=1)
        x, y = places[candidate.number]
        wide, high = measure_width(text, _LABEL), 1.3 * _LABEL / 72
        near = _BESIDE / 2
        # Above or below first: the bound and the front run through the point, and would strike
        # a name beside it through.
        for align, left, low in (
            ("left", near, near), ("right", -near - wide, near),
            ("left", near, -near - high), ("right", -near - wide, -near - high),
            ("left", _BESIDE, -high / 2), ("right", -_BESIDE - wide, -high / 2),
        ):  # fmt: skip
            box = (x + left, y + low, x + left + wide, y + low + high)
            inside = min(box) >= 0 and box[2] <= room[0] and box[3] <= room[1]
            if not inside or any(_overlap(box, other) for other in taken):
                continue
            taken.append(box)
            aside = (left if align == "left" else left + wide, low + high / 2)
            label = axes.annotate(
                "", (candidate.loss, float(candidate.verdict[index].number)),
                xytext=(72 * aside[0], 72 * aside[1]), textcoords="offset points", ha=align,
                va="center", fontsize=_LABEL, zorder=7,
            )  # fmt: skip
            write(label, text)
            break


def _overlap(
    one: tuple[float, float, float, float], other: tuple[float, float, float, float]
) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


@dataclass(frozen=True, eq=False)
class _MapSide:
    """The map as one target sees it."""

    index: int
    target: Target
    candidates: Sequence[Any]
    looks: dict[str, Mark]
    best: Any
    star: Mark

    def number(self, candidate: Any) -> float:
        return float(candidate.verdict[self.index].number)


def _draw_side(axes: Axes, side: _MapSide) -> None:
    points = [(item, y) for item in side.candidates if math.isfinite(y := side.number(item))]
    if not points:
        label_empty_panel(axes, "no number to draw")
        return
    bounds = [end for end in (side.target.least, side.target.most) if end is not None]
    _set_scale(axes, [y for _, y in points], bounds)
    rising = side.target.least is not None and side.target.most is None
    if rising:
        axes.invert_yaxis()  # down is safer in every panel
    _draw_front(axes, [(candidate.loss, y) for candidate, y in points], turned=rising)
    for candidate, y in points:
        look = replace(side.looks[candidate.family], hollow=not candidate.met)
        _put_mark(axes, candidate.loss, y, look, 6.0, 4)
    y = side.number(side.best)
    if math.isfinite(y):
        _put_mark(axes, side.best.loss, y, side.star, 15.0, 6)
    label_axes(axes, "Loss: 0 unprotected, 1 the worst here", side.target.name, width=44)


def _choose_looks(families: Sequence[str]) -> dict[str, Mark]:
    """A look for each family; where they are too many, the last ones share one."""
    names = list(dict.fromkeys(families))
    looks = {
        name: replace(pick_mark(index, _shorten_family(name)), line="")
        for index, name in enumerate(names[:_FAMILIES])
    }
    shared = replace(pick_mark(_FAMILIES, _OTHERS), line="")
    return looks | dict.fromkeys(names[_FAMILIES:], shared)


def _shorten_family(name: str) -> str:
    """A name of several parts, each cut alike, so that none of them is lost in the legend."""
    parts = clean_name(name).split(" + ")
    room = (_LINE - 3 * (len(parts) - 1)) // len(parts)
    if len(name) <= _LINE or room < _SHORTEST:
        return name
    room += sum(max(0, room - len(part)) for part in parts)
    return " + ".join(
        part if len(part) <= room else f"{part[: room - 1].rstrip(' ,')}…" for part in parts
    )


def _put_mark(axes: Axes, x: float, y: float, look: Mark, size: float, above: int) -> None:
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


def _list_round_numbers(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten, for the ticks of a logarithmic axis."""
    numbers = [base * 10.0**power for power in range(-9, 10) for base in (1, 2, 5)]
    return [number for number in numbers if low <= number <= high]


def _set_scale(axes: Axes, numbers: Sequence[float], bounds: Sequence[float]) -> None:
    """Room for all numbers and bounds."""
    low, high = min(*numbers, *bounds), max(*numbers, *bounds)
    if low > 0 and high / low >= _WIDE:
        axes.set_yscale("log")
        axes.set_ylim(low / 1.3, high * 1.3)
        ticks = _list_round_numbers(low / 1.3, high * 1.3)
        ticks = ticks if len(ticks) <= _TICKS else ticks[::3]
        axes.set_yticks(ticks, labels=[format_number(tick) for tick in ticks])
        axes.set_yticks([], minor=True)
    else:
        room = 0.08 * (high - low) or max(abs(high), 1.0) * 0.1
        axes.set_ylim(low - room, high + room)
    axes.set_xlim(-0.04, 1.04)
    for end in bounds:
        axes.axhline(end, color=INK, linewidth=1.1)


def _draw_front(axes: Axes, points: Sequence[tuple[float, float]], *, turned: bool) -> None:
    """The Pareto front: stairs along those that no other beats in both directions."""
    sign = -1 if turned else 1
    stairs: list[tuple[float, float]] = []
    for loss, height in sorted(points, key=lambda point: (point[0], sign * point[1])):
        if not stairs or sign * height < sign * stairs[-1][1]:
            stairs.append((loss, height))
    axes.plot(
        [x for x, _ in stairs], [y for _, y in stairs], drawstyle="steps-post", color=INK,
        linewidth=1.0, linestyle=DASHES, alpha=0.7, zorder=2,
    )  # fmt: skip


def _describe_search(found: Any, shown: int, merged: int, left_out: Sequence[str]) -> str:
    best = found.best.describe()
    text = (
        "Each point is a plan, compared with one target in each panel. Down is safer, left is more "
        "useful. Filled points meet every target. "
        + (f"The star is recommended: {best}." if found.met else f"None does; nearest: {best}.")
    )
    if merged:
        text += f" With the numbers of another, and one point with it: {merged}."
    if refused := len(found.candidates) - shown:
        text += f" Not drawn, since the data refuse them: {refused}."
    if left_out:
        text += (
            f" Targets without a panel of their own, since they differ nowhere or as another "
            f"does: {', '.join(left_out)}."
        )
    return text


# The size of noise -------------------------------------------------------------------------------


def calibrated(found: Any, *, public: bool = False) -> Picture:
    """What was reached with each size of noise that was tried.

    Question: how much noise is enough, and what would more or less of it do?
    Assumes: nothing.

    Parameters
    ----------
    found : what `sf.calibrate` returned.
    public : the custodian's word that it may be shown outside. It shows shares of many records.

    Examples
    --------
    >>> import sfumato as sf
    >>> data = sf.Dataset(sf.datasets.cohort(200), sf.datasets.cohort_schema())
    >>> found = sf.calibrate(data, ["height", "systolic"], mean_h=2, draws=2)
    >>> calibrated(found).title
    'Noise and how far off an attacker lands'
    """
    if not hasattr(found, "asked") or not hasattr(found, "goal"):
        raise SfumatoError(
            "The picture 'calibrated' needs what `sf.calibrate` returned.",
            hint="found = sf.calibrate(data, mean_h=3); sf.pictures.calibrated(found).",
        )
    trials = [
        tuple(to_float(row[name]) for name in _COLUMNS)
        for row in read_rows(found.table, _COLUMNS, picture="calibrated")
    ]
    trials = sorted(trial for trial in trials if all(map(math.isfinite, trial)))
    if not trials:
        raise refuse_empty("calibrated")
    shares, achieved, margins = (list(column) for column in zip(*trials, strict=True))
    with use_house_style():
        figure, (axes,) = make_sheet(3.1)
        axes.axhline(found.goal, color=INK, linewidth=1.1, linestyle=DASHES)
        axes.errorbar(shares, achieved, yerr=margins, color=_TRIED.colour, marker="o",
                      markersize=4.5, linewidth=1.4, capsize=2.5)  # fmt: skip
        if found.met:
            axes.plot([found.share], [found.achieved], color=_CHOSEN.colour, marker="*",
                      markersize=12, linestyle="none", zorder=5)  # fmt: skip
        _scale_shares(axes, shares)
        axes.set_ylim(bottom=0)
        goal = found.asked.split(" at ")[0]
        label_axes(axes, "Variance of the noise, as a share of the variable's",
                   goal[0].upper() + goal[1:], width=60)  # fmt: skip
        return make_picture(
            figure,
            "Noise and how far off an attacker lands",
            f"What was asked for: {found.asked}. A point is the worst group at one size of noise, "
            "the mean over several draws; the bar is the margin that chance may take. "
            + ("The star is the least that suffices." if found.met else "None suffices."),
            public=public,
            legend=(_TRIED, _CHOSEN, _ASKED) if found.met else (_TRIED, _ASKED),
        )


def _scale_shares(axes: Axes, shares: list[float]) -> None:
    """A logarithmic axis with at least two ticks, at round numbers where they fit."""
    axes.set_xscale("log")
    ticks = _list_round_numbers(min(shares) * 0.95, max(shares) * 1.05)
    axes.set_xticks(ticks if len(ticks) > 1 else sorted({min(shares), max(shares)}))
    axes.set_xticks([], minor=True)
    format_axis(axes.xaxis)
