"""The custodian's panel: the original beside what each protection makes of it. Inside only."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from sfumato.errors import PlanError, SfumatoError, did_you_mean
from sfumato.figures._sheet.sheet import empty_panel, head_of_panel, sheet
from sfumato.figures._sheet.sheet import key as key_of
from sfumato.figures._sheet.style import house_style
from sfumato.figures._sheet.words import shown
from sfumato.figures.public.drawn import STAMP, lay_out
from sfumato.figures.public.original import (
    height_of,
    image_of,
    legend_of,
    original_of,
    share_limits,
)
from sfumato.figures.public.plot import Plot
from sfumato.figures.public.protection import house_of
from sfumato.outputs.judged import Output
from sfumato.randomness import Key

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sfumato.figures.public.protection import Keyed
    from sfumato.outputs.log import Log
    from sfumato.outputs.rules import Rules

KINDS = (
    "box", "contour", "density", "heatmap", "histogram", "leverage", "qq", "residuals", "scatter",
    "survival", "violin",
)  # fmt: skip
PANELS = {
    "original": "Original",
    "suppress": "Suppressed",
    "generalise": "Generalised",
    "deterministic": "Deterministic",
    "noise": "Noise",
}
_COLUMNS = 2
_INSIDE = "It shows the original data beside the protected ones: it must not leave."


def compare(  # noqa: PLR0913 - all but two by name only
    kind: str,
    data: Any,
    *variables: Any,
    k: int | None = None,
    sd_share: float = 0.25,
    key: Keyed = None,
    title: str | None = None,
    rules: Rules | None = None,
    log: Log | None = None,
    **told: Any,
) -> Plot:
    """One plot in five panels: original, suppressed, generalised, deterministic, noise.

    Question: which protection keeps what this figure is to show?
    Assumes: it stays inside. It shows the original; its stamp says so, its file can be read by
    its owner only, and a log lists it as refused.

    Parameters
    ----------
    kind : the name of a plot, such as "scatter".
    data : records, or for "residuals", "qq" and "leverage" a model.
    variables : as for that plot.
    k : as for that plot. Default: the rules' k, which is 3.
    sd_share : SD of the noise as a share of the variable's.
    key : the custodian's secret.
    title : of the figure.
    rules : the house rules.
    log : where it is listed, as refused.
    told : what else that plot takes, such as `hue`, `by`, `bins` or `trend`.

    Examples
    --------
    >>> import numpy as np, polars as pl, sfumato as sf
    >>> made = sf.plots.compare("box", pl.DataFrame({"age": np.linspace(20, 80, 301)}), "age")
    >>> made.audience, made.stamp, made.verdict
    ('custodian', 'Inside only: shows the original data', 'refuse')

    References: Avraam et al. (2021), EPJ Data Science 10:2, Figures 1 to 7.
    """
    draw = _plot(kind, told)
    (house, k), secret = house_of(rules, log, k), Key.of(key)
    given = {**told, "k": k, "sd_share": sd_share, "key": secret, "rules": house}
    made: dict[str, Plot | str] = {"original": original_of(kind, draw, data, variables, given)}
    for name in list(PANELS)[1:]:
        try:
            made[name] = draw(data, *variables, protection=name, **given)
        except SfumatoError as error:
            made[name] = error.what
    first = made["original"]
    named = title or (f"{first.title}: what each protection makes of it"
                      if isinstance(first, Plot) else kind)  # fmt: skip
    finished = _together(made, named, kind=kind, k=k, sd_share=sd_share)
    if log is not None:
        log.refused(Output(kind="compare", title=named, verdict="refuse", reasons=(_INSIDE,),
                           variables=tuple(str(one) for one in _listed(variables)),
                           rule=dict(finished.rule)))  # fmt: skip
    return finished


def _plot(kind: str, told: dict[str, Any]) -> Any:
    from sfumato.figures import public as plots

    if kind not in KINDS:
        raise PlanError("This plot cannot be compared.", hint=did_you_mean(str(kind), KINDS))
    draw = getattr(plots, kind)
    takes = set(inspect.signature(draw).parameters)
    for name in told:
        if name not in takes or name in ("protection", "small"):
            raise PlanError(f"A comparison of '{kind}' takes no '{name}'.",
                            hint=did_you_mean(name, takes - {"protection", "small"}))  # fmt: skip
    return draw


def _together(
    made: dict[str, Plot | str], title: str, *, kind: str, k: int, sd_share: float
) -> Plot:
    drawn = [one for one in made.values() if isinstance(one, Plot)]
    share_limits(drawn)
    looks = legend_of(drawn)
    with house_style():
        height = height_of(drawn[0], kind)
        rows = -(-len(PANELS) // _COLUMNS)
        figure, panels = sheet((height + 0.35) * rows, rows=rows, columns=_COLUMNS)
        for spare in panels[len(PANELS) :]:
            spare.set_axis_off()
            if looks:
                key_of(spare, looks, loc="center left")
        for axes, letter, (name, one) in zip(panels, "ABCDE", made.items(), strict=False):
            head_of_panel(axes, letter, PANELS[name])
            _fill(axes, one, height)
        caption = (
            f"Panels B to D rest on k = {k}; the noise of E has a standard deviation of "
            f"{100 * sd_share:g} % of the variable's. All panels have the same axes."
        )
        lay_out(figure, title, caption, stamp=STAMP)
    return Plot(
        figure=figure,
        axes=tuple(panels[: len(PANELS)]),
        title=title,
        caption=caption,
        audience="custodian",
        stamp=STAMP,
        table=_table(made),
        rule={"protection": "none", "k": k, "sd_share": sd_share},
        verdict="refuse",
        reasons=(_INSIDE,),
    )


def _fill(axes: Axes, one: Plot | str, height: float) -> None:
    if isinstance(one, str):
        empty_panel(axes, shown(f"Refused: {one}", width=38, lines=6))
        return
    axes.set_axis_off()
    axes.imshow(image_of(one, height), interpolation="antialiased", rasterized=True)


def _table(made: dict[str, Plot | str]) -> pl.DataFrame:
    """What is drawn in all panels; the original's is in it, so it stays inside, too."""
    parts = [
        one.table.with_columns(pl.lit(name).alias("panel")).select(
            "panel", pl.all().exclude("panel")
        )
        for name, one in made.items()
        if isinstance(one, Plot)
    ]
    return pl.concat(parts, how="diagonal_relaxed")


def _listed(variables: Sequence[Any]) -> list[Any]:
    listed: list[Any] = []
    for one in variables:
        listed += [one] if isinstance(one, str) else list(one)
    return listed
