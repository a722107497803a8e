"""The shape of a variable in each group, mirrored, with its middle half."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from sfumato.figures._sheet.sheet import label_axes, name_row, rows_only, sheet
from sfumato.figures._sheet.style import BLUE, INK, Mark, house_style, mark
from sfumato.figures.public.boxes import counted_box
from sfumato.figures.public.drawn import finished, refusals
from sfumato.figures.public.grid import Limits
from sfumato.figures.public.protection import house_of
from sfumato.figures.public.shapes import WORDS, Asked, shapes
from sfumato.figures.public.worded import worded

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sfumato.figures.public.boxes import Box
    from sfumato.figures.public.plot import Plot
    from sfumato.figures.public.protection import Keyed, Protecting
    from sfumato.figures.public.small import Small
    from sfumato.figures.public.smoothed import Smooth
    from sfumato.outputs.log import Log
    from sfumato.outputs.rules import Rules

_HALF = 0.42
"""How far the widest violin reaches from the middle of its row."""
_PARTS = ("lower", "middle", "upper")


def violin(  # noqa: PLR0913 - all but two by name only
    data: Any,
    x: str,
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
    """Mirrored densities, one a group; each begins and ends where at least k records are.

    Question: in which groups is a variable spread in another way?
    Assumes: one record is one person. All violins have the same area: their size tells nothing of
    how many records a group has.

    Parameters
    ----------
    data : a frame, a Dataset or a release.
    x : the variable.
    by : a variable that makes groups; each is protected by itself.
    protection : "suppress" (default), "generalise" (wider bins), "deterministic" or "noise"
        (counts of protected values), or a method.
    k : bins of fewer records are left out. Default: the rules' k, which is 3.
    bins : how many bins. Default: 30, or 15 for "generalise".
    limits : where the first bin begins and the last ends. Default: round numbers.
    sd_share : SD of the noise as a share of the variable's.
    key : the custodian's secret, for noise that is the same next time.
    small : "show" counts bins of fewer than k protected values, too.
    title : of the figure.
    rules : the house rules.
    log : where the output is listed.

    Examples
    --------
    >>> import numpy as np, polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"age": np.linspace(20.3, 79.2, 300), "sex": ["f", "m"] * 150})
    >>> sf.plots.violin(frame, "age", by="sex").table["group"].unique().sort().to_list()
    ['f', 'm']

    References: Hintze & Nelson (1998), The American Statistician 52:181.
    """
    named = title or f"Violin plot of {x}{f' by {by}' if by is not None else ''}"
    rules, k = house_of(rules, log, k)
    asked = Asked(x=x, hue=by, protection=protection, k=k, bins=bins, limits=limits,
                  sd_share=sd_share, key=key, small=small, rules=rules)  # fmt: skip
    groups = () if by is None else (by,)
    with refusals(log, kind="violin", title=named, variables=[x], groups=groups):
        made = shapes(data, asked)
    boxes = [counted_box(one.held, one.cuts) for one in made.curves]
    tallest = max(float(one.density.max()) for one in made.curves)
    with house_style():
        figure, (axes,) = sheet(0.75 + 0.75 * len(made.curves))
        rows_only(axes, len(made.curves))
        for at, (group, one) in enumerate(zip(made.who.groups, made.curves, strict=True)):
            look = mark(at, group.label) if group.label else Mark("", BLUE)
            _draw(axes, at, one, boxes[at], look, _HALF / tallest)
            if group.label:
                name_row(axes, at, group.label)
        label_axes(axes, x, width=60)
        return finished(
            figure,
            [axes],
            kind="violin",
            title=named,
            protection=worded(made.way, WORDS),
            shown_of=made.who,
            table=_with_boxes(made.table(), boxes, [one.label for one in made.who.groups]),
            notes=["The bar is the middle half, the dot the median.", *made.notes],
            reasons=made.reasons,
            rule={"bins": made.bins, "small": small},
            details=made.details(),
            log=log,
        )


def _draw(axes: Axes, at: int, one: Smooth, box: Box, look: Mark, scale: float) -> None:
    half = one.density * scale
    axes.fill_between(one.places, at - half, at + half, color=look.colour, alpha=0.3, linewidth=0)
    for side in (-half, half):
        axes.plot(one.places, at + side, color=look.colour, linewidth=1.2)
    for end in (0, -1):
        axes.plot([one.places[end]] * 2, [at - half[end], at + half[end]], color=look.colour,
                  linewidth=1.2)  # fmt: skip
    axes.plot([box.lower, box.upper], [at, at], color=INK, linewidth=4, solid_capstyle="butt")
    axes.plot([box.middle], [at], color="white", marker="o", markersize=5, markeredgecolor=INK)


def _with_boxes(table: pl.DataFrame, boxes: list[Box], labels: list[str]) -> pl.DataFrame:
    """The curve and, as rows of their own, the quarters that are drawn into it."""
    rows = [
        {"group": label, "value": getattr(one, part), "part": part}
        for one, label in zip(boxes, labels, strict=True)
        for part in _PARTS
    ]
    more = pl.DataFrame(rows)
    curve = table.with_columns(part=pl.lit("curve"))
    return pl.concat(
        [curve, more.select(one for one in more.columns if one in curve.columns)], how="diagonal"
    )
