"""Two variables as a grid of coloured cells of many records each: paper 003, Figure 3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from sfumato.figures._sheet.style import house_style
from sfumato.figures.public.cells import (
    bins_of,
    cell_details,
    extremes,
    grids,
    lost_said,
    parts_in,
    two_limits,
)
from sfumato.figures.public.drawn import finished, refusals
from sfumato.figures.public.facets import coloured, facets, within
from sfumato.figures.public.grid import allowed_bins
from sfumato.figures.public.protection import Protecting, house_of, resolve, subjects
from sfumato.figures.public.small import Small, full_reasons, small_reasons

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sfumato.figures.public.cells import Grid, TwoLimits
    from sfumato.figures.public.plot import Plot
    from sfumato.figures.public.protection import Keyed
    from sfumato.outputs.log import Log
    from sfumato.outputs.rules import Rules

BINS = {"suppress": 30}
WHY = "Wide cells were chosen: in a fine grid most cells hold too few records to be shown."


def heatmap(  # noqa: PLR0913 - all but three by name only
    data: Any,
    x: str,
    y: str,
    *,
    hue: str | None = None,
    protection: Protecting | None = None,
    k: int | None = None,
    bins: int | None = None,
    limits: TwoLimits | None = None,
    sd_share: float = 0.25,
    key: Keyed = None,
    small: Small = "hide",
    title: str | None = None,
    rules: Rules | None = None,
    log: Log | None = None,
) -> Plot:
    """How many records lie where, as colours of cells of at least k records each.

    Question: how do two variables go together, told so that no cell stands for a few people?
    Assumes: one record is one person. Empty cells and hidden ones look the same.

    Parameters
    ----------
    data : a frame, a Dataset or a release.
    x : the variable across.
    y : the variable upwards.
    hue : a variable that makes groups, each in a panel of its own.
    protection : "suppress" hides cells of fewer than k in a fine grid, "generalise" in a coarse
        one, the default. "deterministic" and "noise" count protected values.
    k : fewest records behind a cell. Default: the rules' k, which is 3.
    bins : bins an axis. Default: about 15, or 30 of "suppress".
    limits : ((low, high), (low, high)) of the two axes. Default: round numbers.
    sd_share : SD of the noise as a share of the variable's.
    key : the custodian's secret, for noise that is the same next time.
    small : "show" cells of fewer than k protected values, where values are protected themselves.
    title : of the figure.
    rules : the house rules.
    log : where the output is listed.

    Examples
    --------
    >>> import numpy as np, polars as pl, sfumato as sf
    >>> at = np.arange(400)
    >>> frame = pl.DataFrame({"age": 20.5 + at % 20, "bmi": 20.3 + at // 20})
    >>> made = sf.plots.heatmap(frame, "age", "bmi", bins=4)
    >>> made.table["records"].min() >= 3, made.verdict
    (True, 'pass')

    References: Avraam et al. (2021), EPJ Data Science 10:2, section 4.1 and Figure 3.
    """
    (house, k), named = house_of(rules, log, k), title or f"{y} by {x}"
    groups = () if hue is None else (hue,)
    with refusals(log, kind="heatmap", title=named, variables=[x, y], groups=groups):
        who = subjects(data, [x, y], hue, rules=house, k=k)
        way = resolve(protection, default="generalise", why=WHY, records=who.fewest, k=k,
                      sd_share=sd_share, key=key, rules=house)  # fmt: skip
        concerns = small_reasons(small, way)
        ends = two_limits(x, y, limits)
        allowed = allowed_bins(bins, BINS.get(way.name, 15), who.fewest, house)
        made = grids(who, [x, y], way, bins=allowed, exact=bins is not None, limits=ends,
                     k=k if small == "hide" else 1)  # fmt: skip
        concerns = (*concerns, *full_reasons([one.counts for one in made], house))
    with house_style():
        figure, panels = facets([one.label for one in made], x, y)
        _draw(panels, made)
        return finished(
            figure,
            panels,
            kind="heatmap",
            title=named,
            protection=way,
            shown_of=who,
            table=pl.concat([one.table(grouped=hue is not None) for one in made]),
            notes=[*lost_said(made, k), *(said for one in made for said in one.notes)],
            reasons=[*concerns, *extremes(who, [x, y], ends)],
            rule={"bins": bins_of(made), "small": small},
            details=cell_details(made),
            log=log,
            parts=parts_in(who, [x, y], way, made) if log is not None else None,
        )


def _draw(panels: Sequence[Axes], made: Sequence[Grid]) -> None:
    most = max(int(one.counts.max()) for one in made)
    for axes, one in zip(panels, made, strict=True):
        coloured(axes, one, most)
    within(panels, made)
