"""The shape of a variable in each group, mirrored, with its middle half."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from sfumato.figures.public.box import read_box_off_counts
from sfumato.figures.public.density import compute_densities
from sfumato.figures.public.grid import Limits
from sfumato.figures.public.parameters import Binned, takes
from sfumato.figures.public.plot import make_request
from sfumato.figures.sheet.sheet import label_axes, make_sheet, name_row, set_rows
from sfumato.figures.sheet.style import INK, Mark, pick_marks, use_house_style

if TYPE_CHECKING:
    from typing import Unpack

    from matplotlib.axes import Axes

    from sfumato.figures.public.box import Box
    from sfumato.figures.public.density import DensityCurve
    from sfumato.figures.public.plot import Plot

_HALF = 0.42
"""How far the widest violin reaches from the middle of its row."""
_PARTS = ("lower", "middle", "upper")


@takes(Binned)
def violin(
    data: Any,
    x: str,
    *,
    by: str | None = None,
    limits: Limits | None = None,
    **asked: Unpack[Binned],
) -> Plot:
    """Mirrored densities, one a group; each begins and ends where at least k records are.

    Question: in which groups is a variable distributed differently?
    Assumes: one record is one person, or the role "person" says whose it is. All violins have the
    same area: their size says nothing about how many records a group has.

    Parameters
    ----------
    x : the variable.
    protection : kind of protection: "suppress" leaves small bins out, "generalise" joins them with
        a neighbour; "deterministic" and "noise" count protected values; or a method. Default:
        whichever of the first two comes nearer to the unprotected curve.
    bins : number of equal bins of each group. Default: 30 to 200,
        by its records and the protection.
    limits : where the first bin begins and the last ends. Default: round numbers, by group.
    small : what is done with small bins: "show" counts those of fewer than k protected values, too.

    Examples
    --------
    >>> import numpy as np, polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"age": np.linspace(20.3, 79.2, 300), "sex": ["f", "m"] * 150})
    >>> sf.plots.violin(frame, "age", by="sex").table["group"].unique().sort().to_list()
    ['f', 'm']

    References: Hintze & Nelson (1998), The American Statistician 52:181.
    """
    heading = f"Violin plot of {x}{f' by {by}' if by is not None else ''}"
    request = make_request("violin", heading, [x], hue=by, **asked)
    densities = compute_densities(data, request, limits)
    curves, labels = densities.curves, densities.subjects.labels
    boxes = [read_box_off_counts(curve.counts, curve.cuts) for curve in curves]
    tallest = max(float(curve.density.max()) for curve in curves)
    with use_house_style():
        figure, (axes,) = make_sheet(0.75 + 0.75 * len(curves))
        set_rows(axes, len(curves))
        looks = pick_marks(labels, grouped=by is not None)
        for row, (curve, look) in enumerate(zip(curves, looks, strict=True)):
            _draw_violin(axes, row, curve, boxes[row], look, _HALF / tallest)
            if look.name:
                name_row(axes, row, look.name)
        label_axes(axes, densities.subjects.describe(x), width=60)
        return densities.make_plot(
            figure,
            [axes],
            table=_add_boxes(densities.table(), boxes, labels),
            notes=("The bar is the middle half, the dot the median.",),
        )


def _draw_violin(
    axes: Axes, row: int, curve: DensityCurve, box: Box, look: Mark, scale: float
) -> None:
    half, x = curve.density * scale, curve.positions
    axes.fill_between(x, row - half, row + half, color=look.colour, alpha=0.3, linewidth=0)
    for side in (-half, half):
        axes.plot(x, row + side, color=look.colour, linewidth=1.2)
    for end in (0, -1):
        edge = [row - half[end], row + half[end]]
        axes.plot([x[end]] * 2, edge, color=look.colour, linewidth=1.2)
    axes.plot([box.lower, box.upper], [row, row], color=INK, linewidth=4, solid_capstyle="butt")
    axes.plot([box.middle], [row], color="white", marker="o", markersize=5, markeredgecolor=INK)


def _add_boxes(table: pl.DataFrame, boxes: list[Box], labels: list[str]) -> pl.DataFrame:
    """The curve and, as rows of their own, the quarters that are drawn into it."""
    curve = table.with_columns(part=pl.lit("curve"))
    quarters = pl.DataFrame(
        [
            {"group": label, "value": getattr(box, part), "part": part}
            for box, label in zip(boxes, labels, strict=True)
            for part in _PARTS
        ]
    )
    shared = [name for name in quarters.columns if name in curve.columns]
    return pl.concat([curve, quarters.select(shared)], how="diagonal")
