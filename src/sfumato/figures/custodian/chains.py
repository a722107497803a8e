"""Draws of a fit by chain: whether they agree with each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import SfumatoError
from sfumato.figures._sheet.picture import Picture
from sfumato.figures._sheet.sheet import finish, head_of_panel, label_axes, sheet
from sfumato.figures._sheet.style import INK, MOST, Mark, house_style, mark
from sfumato.kernels.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PANELS = 20
_BINS = 20


def trace(draws: Mapping[str, Floats]) -> Picture:
    """The draws of each parameter in the order in which they were made, a line per chain.

    Question: have the chains settled, and on the same?
    Assumes: nothing.

    Parameters
    ----------
    draws : of each parameter an array (chain, draw).

    Examples
    --------
    >>> trace({"x": np.zeros((2, 10))}).audience
    'public'
    """
    looks = _looks(draws)
    with house_style():
        figure, panels = sheet(0.3 + 1.25 * len(draws), rows=len(draws))
        for axes, (name, values) in zip(panels, draws.items(), strict=True):
            head_of_panel(axes, "", name)
            for look, chain in zip(looks, values, strict=True):
                axes.plot(chain, color=look.colour, linewidth=0.5, alpha=0.7)
            axes.set_xlim(0, max(values.shape[1] - 1, 1))
        label_axes(panels[-1], "Draw")
        return finish(
            figure,
            "Draws in the order in which they were made",
            "A line per chain. Chains that have settled look alike and go nowhere.",
            public=True,
            legend=looks,
        )


def ranks(draws: Mapping[str, Floats]) -> Picture:
    """How often the draws of each chain fall into each part of all draws.

    Question: do the chains draw from the same distribution?
    Assumes: nothing.

    Parameters
    ----------
    draws : of each parameter an array (chain, draw).

    Examples
    --------
    >>> ranks({"x": np.arange(20.0).reshape(2, 10)}).audience
    'public'

    References: Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), Bayesian Analysis 16:667.
    """
    looks = _looks(draws)
    with house_style():
        figure, panels = sheet(0.3 + 1.25 * len(draws), rows=len(draws))
        for axes, (name, values) in zip(panels, draws.items(), strict=True):
            head_of_panel(axes, "", name)
            _rank_lines(axes, values, looks)
        label_axes(panels[-1], "Rank among the draws of all chains, as a share")
        return finish(
            figure,
            "Ranks of the draws of each chain",
            "A line per chain: its share of draws in each twentieth of all draws, against the "
            "share it would have if all chains agreed (1). Lines far from 1 are chains elsewhere.",
            public=True,
            legend=looks,
        )


def _rank_lines(axes: Axes, values: Floats, looks: list[Mark]) -> None:
    order = np.argsort(np.argsort(values, axis=None)).reshape(values.shape)
    shares = (order + 0.5) / order.size
    edges = np.linspace(0, 1, _BINS + 1)
    for look, chain in zip(looks, shares, strict=True):
        counts, _ = np.histogram(chain, bins=edges)
        height = counts * _BINS / values.shape[1]
        axes.stairs(height.tolist(), edges.tolist(), color=look.colour, linewidth=1.2)
    axes.axhline(1.0, color=INK, linewidth=0.9, linestyle=(0, (4, 3)), alpha=0.7)
    axes.set_xlim(0, 1)
    axes.set_ylim(bottom=0)


def _looks(draws: Mapping[str, Floats]) -> list[Mark]:
    if not draws or len(draws) > _PANELS:
        raise SfumatoError(
            f"A picture of draws has 1 to {_PANELS} parameters, not {len(draws)}.",
            hint='name those to draw: terms=["x"].',
        )
    chains = len(next(iter(draws.values())))
    if chains > MOST:
        raise SfumatoError(f"A picture of draws has at most {MOST} chains, not {chains}.")
    made = [mark(at, f"Chain {at + 1}") for at in range(chains)]
    return [Mark(one.name, one.colour, "") for one in made]
