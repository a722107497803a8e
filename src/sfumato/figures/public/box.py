"""The middle, the quarters and the reach of variables: paper 003, Figure 4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.figures._sheet.sheet import label_axes, name_row, rows_only, sheet
from sfumato.figures._sheet.style import BLUE, INK, Mark, house_style, mark
from sfumato.figures.public.boxes import Box, cells_box, large_enough, protected_box, safe_box
from sfumato.figures.public.drawn import finished, refusals
from sfumato.figures.public.grid import Limits, allowed_bins, checked, edges, own_extremes
from sfumato.figures.public.protection import (
    Protecting,
    Protection,
    house_of,
    points,
    resolve,
    subjects,
)
from sfumato.figures.public.small import Small, small_reasons
from sfumato.figures.public.worded import worded
from sfumato.outputs.judged import OutputRefused
from sfumato.outputs.quantiles import FIVE, fewest, safe_quantiles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sfumato.figures.public.plot import Plot
    from sfumato.figures.public.protection import Keyed
    from sfumato.figures.public.subjects import Subjects
    from sfumato.outputs.log import Log
    from sfumato.outputs.rules import Rules

_PARTS = ("low", "lower", "middle", "upper", "high")
_BINS = 15
_WHY = "Quantiles were taken of the original: they keep the shape and show nobody."
_WORDS = {
    "suppress": "Each line is the mean of {k} neighbouring records, rounded; whiskers end at 5 and "
    "95 % of the records, and what lies beyond is not shown.",
    "generalise": "Lines are read off counts in wide bins, those of fewer than {k} records left "
    "out; whiskers end at 5 and 95 %, and what lies beyond is not shown.",
}
_TUKEY = "Boxes, whiskers (1.5 box lengths at most) and points are of protected values, rounded."
_LONELY = "Points with fewer than {k} values near them are not drawn."


def box(  # noqa: PLR0913 - all but two by name only
    data: Any,
    x: str | Sequence[str],
    *,
    by: str | None = None,
    protection: Protecting | None = None,
    k: int | None = None,
    bins: int | None = None,
    limits: Limits | None = None,
    sd_share: float = 0.25,
    key: Keyed = None,
    small: Small = "hide",
    title: str | None = None,
    rules: Rules | None = None,
    log: Log | None = None,
) -> Plot:
    """Boxes whose every line rests on at least k records.

    Question: where does the bulk of a variable lie, and is it alike in all groups?
    Assumes: one record is one person.

    Parameters
    ----------
    data : a frame, a Dataset or a release.
    x : the variable, or several; each has a panel of its own.
    by : a variable that makes groups; each is protected by itself.
    protection : "suppress" (default): safe quantiles, whiskers at 5 and 95 %, no outliers.
        "generalise": the same, read off wide bins. "deterministic" and "noise": boxes of
        protected values, with whiskers and outliers as usual; an outlier is a protected value.
    k : fewest records behind a line. Default: the rules' k, which is 3.
    bins : how many bins for "generalise". Default: 15.
    limits : of the axis. Default: what is drawn. Only with one variable.
    sd_share : SD of the noise as a share of the variable's.
    key : the custodian's secret, for noise that is the same next time.
    small : "show" draws protected outliers that lie alone, too; the verdict is "review" then.
    title : of the figure.
    rules : the house rules.
    log : where the output is listed.

    Examples
    --------
    >>> import numpy as np, polars as pl, sfumato as sf
    >>> made = sf.plots.box(pl.DataFrame({"age": np.linspace(20, 80, 301)}), "age")
    >>> made.table["value"].to_list(), made.verdict
    ([23.0, 35.0, 50.0, 65.0, 77.0], 'pass')

    References: Avraam et al. (2021), EPJ Data Science 10:2, section 4.1 and Figure 4.
    """
    house, k = house_of(rules, log, k)
    names = [x] if isinstance(x, str) else list(dict.fromkeys(x))
    named = title or f"Box plot of {', '.join(names)}{f' by {by}' if by is not None else ''}"
    groups = () if by is None else (by,)
    with refusals(log, kind="box", title=named, variables=names, groups=groups):
        who = _large(subjects(data, names, by, rules=house, k=k), k)
        way = resolve(protection, default="suppress", why=_WHY, records=who.fewest, k=k,
                      sd_share=sd_share, key=key, rules=house)  # fmt: skip
        reasons = small_reasons(small, way)
        allowed = allowed_bins(bins, _BINS, who.fewest, house)
        made, notes = _boxes(who, way, allowed, lonely=small == "show")
    if limits is not None and own_extremes(who.column(names[0]), limits):
        reasons = (*reasons, "The limits of the axis are extremes of the data themselves.")
    with house_style():
        figure, panels = sheet(_height(names, who), rows=len(names))
        for axes, name in zip(panels, names, strict=True):
            _draw(axes, [one[name] for one in made], [one.label for one in who.groups])
            label_axes(axes, name, width=60)
            if limits is not None and len(names) == 1:
                axes.set_xlim(checked(limits))
        return finished(
            figure,
            panels,
            kind="box",
            title=named,
            protection=worded(way, _WORDS),
            shown_of=who,
            table=_table(made, who),
            notes=notes,
            reasons=reasons,
            rule={"bins": allowed} if way.name == "generalise" else {"small": small},
            details={"boxes": len(made) * len(names)},
            log=log,
        )


def _large(who: Subjects, k: int) -> Subjects:
    """Only groups with enough records for five numbers of k records each."""
    kept = tuple(one for one in who.groups if large_enough(len(one), k))
    if not kept:
        raise OutputRefused(
            "There are too few records for a box whose every line rests on k of them.",
            hint=f"with k = {k}, at least {fewest(len(FIVE), k)} are needed.",
        )
    if len(kept) == len(who.groups):
        return who
    said = tuple(dict.fromkeys((*who.notes, "Groups of few records are left out.")))
    return replace(who, groups=kept, notes=said)


def _boxes(
    who: Subjects, way: Protection, bins: int, *, lonely: bool
) -> tuple[list[dict[str, Box]], list[str]]:
    """By group, the box of each variable; and what the reader must know of them."""
    if not way.cells:
        made = [points(one, who.names, way, lonely=lonely) for one in who.groups]
        notes = [_TUKEY, *(said for one in made for said in one.notes())]
        notes += [] if lonely else [_LONELY.format(k=way.k)]
        boxes = [
            {name: protected_box(one.column(name), way.k, lonely=lonely) for name in who.names}
            for one in made
        ]
        return boxes, notes
    found: list[dict[str, Box]] = [{} for _ in who.groups]
    for name in who.names:
        together = who.column(name)
        # One grid for all groups: another grid for each would tell their spread twice.
        if way.name == "generalise":
            cuts = edges(together, bins, k=way.k, domain=who.bounds(name), whole=who.whole(name))
            made_of = [cells_box(one.column(name), cuts, way.k) for one in who.groups]
        else:
            step = safe_quantiles(together, k=way.k).step
            made_of = [safe_box(one.column(name), way.k, step) for one in who.groups]
        for place, one in zip(found, made_of, strict=True):
            place[name] = one
    return found, []


def _height(names: Sequence[str], who: Subjects) -> float:
    return len(names) * (0.62 + 0.42 * len(who.groups)) + 0.1


def _draw(axes: Axes, boxes: Sequence[Box], labels: Sequence[str]) -> None:
    rows_only(axes, len(boxes))
    for at, (one, label) in enumerate(zip(boxes, labels, strict=True)):
        look = mark(at, label) if label else Mark("", BLUE)
        draw_box(axes, at, one, look)
        if label:
            name_row(axes, at, label)
    axes.margins(x=0.04)


def draw_box(axes: Axes, at: float, one: Box, look: Mark, *, tall: float = 0.56) -> None:
    """One box lying along its row."""
    for start, end in ((one.low, one.lower), (one.upper, one.high)):
        axes.plot([start, end], [at, at], color=look.colour, linewidth=1.2)
    for end in (one.low, one.high):
        axes.plot([end, end], [at - tall / 4, at + tall / 4], color=look.colour, linewidth=1.2)
    axes.barh(at, one.upper - one.lower, tall, one.lower, facecolor=look.colour, alpha=0.3)
    axes.barh(at, one.upper - one.lower, tall, one.lower, facecolor="none",
              edgecolor=look.colour, linewidth=1.2)  # fmt: skip
    axes.plot([one.middle] * 2, [at - tall / 2, at + tall / 2], color=INK, linewidth=2.0,
              solid_capstyle="butt")  # fmt: skip
    if one.outliers:
        axes.plot(one.outliers, np.full(len(one.outliers), at), linestyle="", marker="o",
                  markersize=3.5, markerfacecolor="none", markeredgecolor=look.colour,
                  markeredgewidth=0.9)  # fmt: skip


def _table(made: Sequence[dict[str, Box]], who: Subjects) -> pl.DataFrame:
    rows = []
    for group, boxes in zip(who.groups, made, strict=True):
        for name, one in boxes.items():
            parts = [(part, getattr(one, part)) for part in _PARTS]
            parts += [("outlier", value) for value in one.outliers]
            rows += [(name, group.label, part, value) for part, value in parts]
    columns = ["variable", "group", "part", "value"]
    table = pl.DataFrame(rows, schema=columns, orient="row")
    return table.drop("group") if who.hue is None else table
