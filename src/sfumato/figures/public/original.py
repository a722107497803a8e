"""The unprotected panel of a comparison, and the panels as images. It stays inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl

from sfumato.figures._sheet.sheet import label_axes, sheet
from sfumato.figures._sheet.style import BLUE, Mark, house_style, mark
from sfumato.figures.public.lives import lives_of
from sfumato.figures.public.plot import Plot
from sfumato.figures.public.survived import kaplan_meier

if TYPE_CHECKING:
    import numpy.typing as npt

    from sfumato.method import Method

PANEL = (3.0, 2.35)
"""Inches of one panel."""
_ROWS = {"box": 0.42, "violin": 0.7}
"""Inches of a row, in plots of rows."""
_LINES: dict[str, Literal["-", "--", ""]] = {"None": "", "--": "--"}
_DOTS = 200
_NEXT_TO_NOTHING = 1e-9
_DRAWN_BY = {
    "residuals": ["fitted", "residual"],
    "leverage": ["leverage", "standardised"],
    "qq": ["standardised"],
}


def original_of(
    kind: str, draw: Any, data: Any, variables: Sequence[Any], given: dict[str, Any]
) -> Plot:
    """The plot as it would look without any protection."""
    if kind == "survival":
        return _lives(draw, data, variables, given)
    # A plot is never drawn without a protection; noise of next to nothing comes to the same.
    method = _as_it_is(kind, variables, given)
    made: Plot = draw(data, *variables, protection=method, small="show", **given)
    return made


def _as_it_is(kind: str, variables: Sequence[Any], given: dict[str, Any]) -> Method:
    from sfumato.methods.noise import Noise

    named = [given[name] for name in ("x", "y") if name in given]
    names: list[str] = []
    for one in (*variables, *named):
        names += [one] if isinstance(one, str) else list(one)
    names = list(dict.fromkeys(names)) or _DRAWN_BY.get(kind, [])
    return Noise(variables=names, sd_share=_NEXT_TO_NOTHING, bounds="ignore", whole=False)


def _lives(draw: Any, data: Any, variables: Sequence[Any], given: dict[str, Any]) -> Plot:
    """Every step of the curve, which the plot itself never draws."""
    time, event = (*variables, *(given[name] for name in ("time", "event") if name in given))
    safe: Plot = draw(data, *variables, protection="suppress", **given)
    hue = given.get("hue")
    lives = lives_of(data, time, event, hue, rules=given["rules"], k=given["k"])
    rows = []
    with house_style():
        figure, (axes,) = sheet(3.4)
        for at, (group, events) in enumerate(zip(lives.who.groups, lives.events, strict=True)):
            look = mark(at, group.label) if hue else Mark("", BLUE)
            curve = kaplan_meier(group.column(time), events)
            times = np.append(0.0, curve.times)
            shares = np.append(1.0, curve.survival)
            end = float(group.column(time).max())
            axes.plot([*times, end], [*shares, shares[-1]], drawstyle="steps-post",
                      color=look.colour, linewidth=1.4)  # fmt: skip
            rows.append(pl.DataFrame({"group": group.label, "time": times, "survival": shares}))
        axes.set_ylim(0, 1.02)
        axes.set_xlim(left=0)
        label_axes(axes, time, f"Share without {event}", width=40)
    table = pl.concat(rows)
    table = table if hue else table.drop("group")
    return replace(safe, figure=figure, axes=(axes,), table=table, audience="custodian")


def share_limits(made: Sequence[Plot]) -> None:
    """Give the same panel of every plot the same axes."""
    for panels in zip(*(one.axes for one in made), strict=True):
        for axis in ("x", "y"):
            ends = np.array([getattr(one, f"get_{axis}lim")() for one in panels])
            turned = ends[0, 0] > ends[0, 1]
            low, high = float(ends.min()), float(ends.max())
            for one in panels:
                one.set(**{f"{axis}lim": (high, low) if turned else (low, high)})


def height_of(made: Plot, kind: str) -> float:
    """How high the panels of one plot are together; plots of rows need less."""
    if kind not in _ROWS:
        return PANEL[1] * len(made.axes)
    rows = abs(made.axes[0].get_ylim()[1] - made.axes[0].get_ylim()[0])
    return len(made.axes) * (0.5 + _ROWS[kind] * rows)


def legend_of(made: Sequence[Plot]) -> list[Mark]:
    """What the signs in any of the plots mean."""
    from matplotlib.lines import Line2D

    found: dict[str, Mark] = {}
    for one in made:
        for legend in one.figure.legends:
            for text, handle in zip(legend.get_texts(), legend.legend_handles, strict=True):
                if isinstance(handle, Line2D):
                    look = Mark(text.get_text(), str(handle.get_color()), str(handle.get_marker()),
                                _LINES.get(str(handle.get_linestyle()), "-"))  # fmt: skip
                    found.setdefault(look.name, look)
    return list(found.values())


def image_of(made: Plot, height: float) -> npt.NDArray[Any]:
    """The panels of a plot, without its words above and below, as pixels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = made.figure
    for one in [*figure.texts, *figure.legends]:
        one.remove()
    figure.set_size_inches(PANEL[0], height)
    figure.set_layout_engine(ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.03))
    figure.set_dpi(_DOTS)
    canvas = FigureCanvasAgg(figure)
    with house_style():
        canvas.draw()  # type: ignore[no-untyped-call]
    return np.array(canvas.buffer_rgba())  # type: ignore[no-untyped-call]
