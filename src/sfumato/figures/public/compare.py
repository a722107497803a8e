"""The custodian's panel: the original beside what each protection makes of it. Inside only."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl

from sfumato.errors import PlanError, SfumatoError, did_you_mean
from sfumato.figures.public.plot import Plot
from sfumato.figures.public.protection import resolve_rules
from sfumato.figures.public.survival import kaplan_meier, select_survival_times
from sfumato.figures.sheet.sheet import (
    format_stamp,
    label_axes,
    label_empty_panel,
    make_sheet,
    name_panel,
    put_head_and_foot,
    put_legend,
    share_limits,
)
from sfumato.figures.sheet.style import Mark, pick_marks, use_house_style
from sfumato.figures.sheet.text import wrap_name
from sfumato.outputs.output import Output
from sfumato.randomness import Key

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.axes import Axes

    from sfumato.figures.public.protection import Keyed
    from sfumato.method import Method
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
_PANEL_WIDTH, _PANEL_HEIGHT = 3.0, 2.35
"""Inches of one panel."""
_ROWS = {"box": 0.42, "violin": 0.7}
"""Inches of a row, in plots of rows."""
_LINES: dict[str, Literal["-", "--", ""]] = {"None": "", "--": "--"}
_DOTS_PER_INCH = 200
_NEXT_TO_NOTHING = 1e-9
_OF_MODELS = {
    "residuals": ["fitted", "residual"],
    "leverage": ["leverage", "standardised"],
    "qq": ["standardised"],
}


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
    draw = _find_plot(kind, told)
    (house, fewest), secret = resolve_rules(rules, log, k), Key.of(key)
    options = {**told, "k": fewest, "sd_share": sd_share, "key": secret, "rules": house}
    original = _draw_original(kind, draw, data, variables, options)
    panels: dict[str, Plot | str] = {"original": original}
    for name in list(PANELS)[1:]:
        try:
            panels[name] = draw(data, *variables, protection=name, **options)
        except SfumatoError as error:
            panels[name] = error.what
    heading = title or f"{original.title}: what each protection makes of it"
    plot = _join_panels(panels, heading, kind=kind, k=fewest, sd_share=sd_share)
    if log is not None:
        log.refused(Output(kind="compare", title=heading, verdict="refuse", reasons=(_INSIDE,),
                           variables=tuple(map(str, _list_names(variables))),
                           rule=dict(plot.rule)))  # fmt: skip
    return plot


def _find_plot(kind: str, options: Mapping[str, Any]) -> Any:
    from sfumato.figures import public as plots

    if kind not in KINDS:
        raise PlanError("This plot cannot be compared.", hint=did_you_mean(str(kind), KINDS))
    draw = getattr(plots, kind)
    takes = set(inspect.signature(draw).parameters) - {"protection", "small"}
    for name in options:
        if name not in takes:
            raise PlanError(
                f"A comparison of '{kind}' takes no '{name}'.", hint=did_you_mean(name, takes)
            )
    return draw


def _list_names(variables: Sequence[Any]) -> list[Any]:
    names: list[Any] = []
    for variable in variables:
        names += [variable] if isinstance(variable, str) else list(variable)
    return names


# The unprotected panel ---------------------------------------------------------------------------


def _draw_original(
    kind: str, draw: Any, data: Any, variables: Sequence[Any], options: dict[str, Any]
) -> Plot:
    """The plot as it would look without any protection."""
    if kind == "survival":
        return _draw_original_survival(draw, data, variables, options)
    # A plot is never drawn without a protection; noise of next to nothing comes to the same.
    method = _make_tiny_noise(kind, variables, options)
    plot: Plot = draw(data, *variables, protection=method, small="show", **options)
    return plot


def _make_tiny_noise(kind: str, variables: Sequence[Any], options: dict[str, Any]) -> Method:
    from sfumato.methods.noise import Noise

    by_keyword = [options[name] for name in ("x", "y") if name in options]
    names = list(dict.fromkeys(_list_names([*variables, *by_keyword])))
    return Noise(variables=names or _OF_MODELS.get(kind, []), sd_share=_NEXT_TO_NOTHING,
                 bounds="ignore", whole=False)  # fmt: skip


def _draw_original_survival(
    draw: Any, data: Any, variables: Sequence[Any], options: dict[str, Any]
) -> Plot:
    """Every step of the curve, which the plot itself never draws."""
    by_keyword = (options[name] for name in ("time", "event") if name in options)
    time, event = (*variables, *by_keyword)
    safe: Plot = draw(data, *variables, protection="suppress", **options)
    hue = options.get("hue")
    times = select_survival_times(data, time, event, hue, rules=options["rules"], k=options["k"])
    groups = times.subjects.groups
    looks = pick_marks(times.subjects.labels, grouped=bool(hue))
    tables = []
    with use_house_style():
        figure, (axes,) = make_sheet(3.4)
        for group, events, look in zip(groups, times.events, looks, strict=True):
            curve = kaplan_meier(group.column(time), events)
            steps, shares = np.append(0.0, curve.times), np.append(1.0, curve.survival)
            end = float(group.column(time).max())
            axes.plot([*steps, end], [*shares, shares[-1]], drawstyle="steps-post",
                      color=look.colour, linewidth=1.4)  # fmt: skip
            tables.append(pl.DataFrame({"group": group.label, "time": steps, "survival": shares}))
        axes.set_ylim(0, 1.02)
        axes.set_xlim(left=0)
        label_axes(axes, time, f"Share without {event}", width=40)
    table = pl.concat(tables)
    table = table if hue else table.drop("group")
    return replace(safe, figure=figure, axes=(axes,), table=table, audience="custodian")


# All panels on one sheet -------------------------------------------------------------------------


def _join_panels(
    panels: dict[str, Plot | str], title: str, *, kind: str, k: int, sd_share: float
) -> Plot:
    plots = [panel for panel in panels.values() if isinstance(panel, Plot)]
    _share_limits(plots)
    looks = _collect_legend(plots)
    height = _measure_height(plots[0], kind)
    stamp = format_stamp()
    with use_house_style():
        rows = -(-len(PANELS) // _COLUMNS)
        figure, all_axes = make_sheet((height + 0.35) * rows, rows=rows, columns=_COLUMNS)
        for spare in all_axes[len(PANELS) :]:
            spare.set_axis_off()
            if looks:
                put_legend(spare, looks, loc="center left")
        for axes, letter, (name, panel) in zip(all_axes, "ABCDE", panels.items(), strict=False):
            name_panel(axes, letter, PANELS[name])
            _fill_panel(axes, panel, height)
        caption = (
            f"Panels B to D rest on k = {k}; the noise of E has a standard deviation of "
            f"{100 * sd_share:g} % of the variable's. All panels have the same axes."
        )
        put_head_and_foot(figure, title, stamp=stamp, foot=caption)
    return Plot(
        figure=figure,
        axes=tuple(all_axes[: len(PANELS)]),
        title=title,
        caption=caption,
        audience="custodian",
        stamp=stamp,
        table=_join_tables(panels),
        rule={"protection": "none", "k": k, "sd_share": sd_share},
        verdict="refuse",
        reasons=(_INSIDE,),
    )


def _share_limits(plots: Sequence[Plot]) -> None:
    """Give the same panel of every plot the same axes."""
    for panels in zip(*(plot.axes for plot in plots), strict=False):
        share_limits(panels)


def _measure_height(plot: Plot, kind: str) -> float:
    """How high the panels of one plot are together; plots of rows need less."""
    if kind not in _ROWS:
        return _PANEL_HEIGHT * len({round(axes.get_position().y0, 2) for axes in plot.axes})
    rows = abs(plot.axes[0].get_ylim()[1] - plot.axes[0].get_ylim()[0])
    return len(plot.axes) * (0.5 + _ROWS[kind] * rows)


def _collect_legend(plots: Sequence[Plot]) -> list[Mark]:
    """What the symbols in any of the plots mean."""
    from matplotlib.lines import Line2D

    marks: dict[str, Mark] = {}
    for legend in (legend for plot in plots for legend in plot.figure.legends):
        for text, handle in zip(legend.get_texts(), legend.legend_handles, strict=True):
            if isinstance(handle, Line2D):
                mark = Mark(text.get_text(), str(handle.get_color()), str(handle.get_marker()),
                            _LINES.get(str(handle.get_linestyle()), "-"))  # fmt: skip
                marks.setdefault(mark.name, mark)
    return list(marks.values())


def _fill_panel(axes: Axes, panel: Plot | str, height: float) -> None:
    if isinstance(panel, str):
        label_empty_panel(axes, wrap_name(f"Refused: {panel}", width=38, lines=6))
        return
    axes.set_axis_off()
    axes.imshow(_render_panels(panel, height), interpolation="antialiased", rasterized=True)


def _render_panels(plot: Plot, height: float) -> npt.NDArray[Any]:
    """The panels of a plot, without head and foot, as pixels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = plot.figure
    for artist in [*figure.texts, *figure.legends]:
        artist.remove()
    figure.set_size_inches(_PANEL_WIDTH, height)
    figure.set_layout_engine(ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.03))
    figure.set_dpi(_DOTS_PER_INCH)
    canvas = FigureCanvasAgg(figure)
    with use_house_style():
        canvas.draw()  # type: ignore[no-untyped-call]
    return np.array(canvas.buffer_rgba())  # type: ignore[no-untyped-call]


def _join_tables(panels: dict[str, Plot | str]) -> pl.DataFrame:
    """What is drawn in all panels; the original's is in it, so it stays inside, too."""
    tables = [
        panel.table.with_columns(pl.lit(name).alias("panel")).select(
            "panel", pl.all().exclude("panel")
        )
        for name, panel in panels.items()
        if isinstance(panel, Plot)
    ]
    return pl.concat(tables, how="diagonal_relaxed")
