"""Draws of a fit by chain: whether they agree with each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import SfumatoError
from sfumato.figures.sheet.picture import Picture
from sfumato.figures.sheet.sheet import label_axes, make_picture, make_sheet, name_panel
from sfumato.figures.sheet.style import (
    DASHES,
    INK,
    MOST_MARKS,
    Mark,
    pick_mark,
    use_house_style,
)
from sfumato.kernels.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_PANELS = 20
_BINS = 20


def draw_trace(draws: Mapping[str, Floats]) -> Picture:
    """The draws of each parameter in the order in which they were made, a line per chain.

    Question: have the chains settled, and on the same?
    Assumes: nothing.

    Parameters
    ----------
    draws : of each parameter an array (chain, draw).

    Examples
    --------
    >>> draw_trace({"x": np.zeros((2, 10))}).audience
    'public'
    """
    return _draw_chains(
        draws,
        _draw_trace_lines,
        axis="Draw",
        title="Draws in the order in which they were made",
        caption="A line per chain. Chains that have settled look alike and go nowhere.",
    )


def draw_ranks(draws: Mapping[str, Floats]) -> Picture:
    """How often the draws of each chain fall into each part of all draws.

    Question: do the chains draw from the same distribution?
    Assumes: nothing.

    Parameters
    ----------
    draws : of each parameter an array (chain, draw).

    Examples
    --------
    >>> draw_ranks({"x": np.arange(20.0).reshape(2, 10)}).audience
    'public'

    References: Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), Bayesian Analysis 16:667.
    """
    return _draw_chains(
        draws,
        _draw_rank_lines,
        axis="Rank among the draws of all chains, as a share",
        title="Ranks of the draws of each chain",
        caption="A line per chain: its share of draws in each twentieth of all draws, against the "
        "share it would have if all chains agreed (1). Lines far from 1 are chains elsewhere.",
    )


def _draw_chains(
    draws: Mapping[str, Floats],
    draw: Callable[[Axes, Floats, list[Mark]], None],
    *,
    axis: str,
    title: str,
    caption: str,
) -> Picture:
    """A panel for each parameter, a line for each chain."""
    if not draws or len(draws) > _MOST_PANELS:
        raise SfumatoError(
            f"A picture of draws has 1 to {_MOST_PANELS} parameters, not {len(draws)}.",
            hint='name those to draw: terms=["x"].',
        )
    chains = len(next(iter(draws.values())))
    if chains > MOST_MARKS:
        raise SfumatoError(f"A picture of draws has at most {MOST_MARKS} chains, not {chains}.")
    names = [f"Chain {index + 1}" for index in range(chains)]
    looks = [Mark(name, pick_mark(index, name).colour, "") for index, name in enumerate(names)]
    with use_house_style():
        figure, panels = make_sheet(0.3 + 1.25 * len(draws), rows=len(draws))
        for axes, (name, values) in zip(panels, draws.items(), strict=True):
            name_panel(axes, "", name)
            draw(axes, values, looks)
        label_axes(panels[-1], axis)
        return make_picture(figure, title, caption, public=True, legend=looks)


def _draw_trace_lines(axes: Axes, values: Floats, looks: list[Mark]) -> None:
    for look, chain in zip(looks, values, strict=True):
        axes.plot(chain, color=look.colour, linewidth=0.5, alpha=0.7)
    axes.set_xlim(0, max(values.shape[1] - 1, 1))


def _draw_rank_lines(axes: Axes, values: Floats, looks: list[Mark]) -> None:
    order = np.argsort(np.argsort(values, axis=None)).reshape(values.shape)
    shares = (order + 0.5) / order.size
    edges = np.linspace(0, 1, _BINS + 1)
    for look, chain in zip(looks, shares, strict=True):
        counts, _ = np.histogram(chain, bins=edges)
        height = counts * _BINS / values.shape[1]
        axes.stairs(height.tolist(), edges.tolist(), color=look.colour, linewidth=1.2)
    axes.axhline(1.0, color=INK, linewidth=0.9, linestyle=DASHES, alpha=0.7)
    axes.set_xlim(0, 1)
    axes.set_ylim(bottom=0)
