"""A smooth curve of how a variable is spread, made of counts in bins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.figures._sheet.sheet import label_axes, sheet
from sfumato.figures._sheet.style import BLUE, Mark, house_style, mark
from sfumato.figures.public.drawn import finished, refusals
from sfumato.figures.public.grid import Limits
from sfumato.figures.public.protection import house_of
from sfumato.figures.public.shapes import WORDS, Asked, shapes
from sfumato.figures.public.worded import worded

if TYPE_CHECKING:
    from sfumato.figures.public.plot import Plot
    from sfumato.figures.public.protection import Keyed, Protecting
    from sfumato.figures.public.small import Small
    from sfumato.outputs.log import Log
    from sfumato.outputs.rules import Rules

_LINES = ("-", (0, (5, 2)), (0, (2, 1.5)), (0, (6, 2, 1.5, 2)))
"""Groups are told apart by their lines as well as by their colours."""
_FILLED = 2
"""More areas over each other only make mud."""


def density(  # noqa: PLR0913 - all but two by name only
    data: Any,
    x: str,
    *,
    hue: str | None = None,
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
    """A smooth curve that begins and ends where at least k records are.

    Question: what shape has a variable, and has it the same in all groups?
    Assumes: one record is one person. The smoothing is never finer than a bin, so the curve
    tells no more than a histogram does.

    Parameters
    ----------
    data : a frame, a Dataset or a release.
    x : the variable.
    hue : a variable that makes groups; each is protected by itself.
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
    >>> made = sf.plots.density(pl.DataFrame({"age": np.linspace(20.3, 79.2, 300)}), "age")
    >>> made.table["value"].min(), made.table["value"].max(), made.verdict
    (20.0, 80.0, 'pass')

    References: Avraam et al. (2021), EPJ Data Science 10:2, section 4.1.
    """
    named = title or f"Density of {x}{f' by {hue}' if hue is not None else ''}"
    rules, k = house_of(rules, log, k)
    asked = Asked(x=x, hue=hue, protection=protection, k=k, bins=bins, limits=limits,
                  sd_share=sd_share, key=key, small=small, rules=rules)  # fmt: skip
    groups = () if hue is None else (hue,)
    with refusals(log, kind="density", title=named, variables=[x], groups=groups):
        made = shapes(data, asked)
    with house_style():
        figure, (axes,) = sheet(3.1)
        looks = [mark(at, one.label) for at, one in enumerate(made.who.groups)]
        looks = looks if hue is not None else [Mark("", BLUE)]
        for at, (one, look) in enumerate(zip(made.curves, looks, strict=True)):
            if len(looks) <= _FILLED:
                axes.fill_between(one.places, one.density, color=look.colour, alpha=0.15,
                                  linewidth=0)  # fmt: skip
            axes.plot(one.places, one.density, color=look.colour, linewidth=1.6,
                      linestyle=_LINES[at % len(_LINES)], marker=look.marker if hue else "",
                      markevery=(10 + 7 * at, 60), markersize=4.5)  # fmt: skip
        axes.set_ylim(bottom=0)
        label_axes(axes, x, "Density", width=60)
        return finished(
            figure,
            [axes],
            kind="density",
            title=named,
            protection=worded(made.way, WORDS),
            shown_of=made.who,
            table=made.table(),
            notes=made.notes,
            reasons=made.reasons,
            rule={"bins": made.bins, "small": small},
            details=made.details(),
            legend=looks if hue is not None else (),
            log=log,
        )
