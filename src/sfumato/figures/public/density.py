"""A smooth curve of how a variable is distributed, made of counts in bins.

It knows no value, only how many fell into each bin. `violin` draws the same curves mirrored.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.figures._sheet.sheet import label_axes, make_sheet
from sfumato.figures._sheet.style import pick_marks, use_house_style
from sfumato.figures.public.grid import (
    Limits,
    check_limits,
    choose_edges,
    count_beyond,
    count_cells,
    describe_lost,
    judge_limits,
    resolve_bins,
    suppress_small,
)
from sfumato.figures.public.plot import Request, make_plot, make_request
from sfumato.figures.public.protection import Protection, judge_small_cells
from sfumato.figures.public.subjects import pool_groups
from sfumato.kernels.arrays import Floats, Integers
from sfumato.outputs.output import OutputRefused

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sfumato.figures.public.plot import Plot
    from sfumato.figures.public.protection import Keyed, Protecting, Small
    from sfumato.figures.public.subjects import Subjects
    from sfumato.outputs.log import Log
    from sfumato.outputs.rules import Rules

_BINS = {"suppress": 30, "generalise": 15}
_WHY = "A smooth curve of the counts keeps the shape, and hides small bins only."
_SENTENCE = "The curve is smoothed from counts in bins, those of fewer than {k} records left out."
_WORDS = {"suppress": _SENTENCE, "generalise": _SENTENCE}
_DIGITS = 6
_LINES = ("-", (0, (5, 2)), (0, (2, 1.5)), (0, (6, 2, 1.5, 2)))
"""Groups are told apart by their lines as well as by their colours."""
_FILLED = 2
"""More areas over each other only make mud."""
_POINTS = 201
_SILVERMAN = 0.9
"""Silverman's rule of thumb: so many SDs by the fifth root of the number of records."""


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

    Question: what shape does a variable's distribution have, and is it the same in all groups?
    Assumes: one record is one person. The smoothing is never finer than a bin, so the curve
    shows no more than a histogram does.

    Parameters
    ----------
    data : a frame, a Dataset or a release.
    x : the variable.
    hue : a variable that forms groups; each is protected by itself.
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
    heading = title or f"Density of {x}{f' by {hue}' if hue is not None else ''}"
    request = make_request(
        "density", heading, [x], hue=hue, protection=protection, k=k, bins=bins,
        sd_share=sd_share, key=key, small=small, rules=rules, log=log,
    )  # fmt: skip
    densities = compute_densities(data, request, limits)
    with use_house_style():
        figure, (axes,) = make_sheet(3.1)
        looks = pick_marks(densities.subjects.labels, grouped=hue is not None)
        for index, (curve, look) in enumerate(zip(densities.curves, looks, strict=True)):
            if len(looks) <= _FILLED:
                axes.fill_between(curve.positions, curve.density, color=look.colour, alpha=0.15,
                                  linewidth=0)  # fmt: skip
            axes.plot(curve.positions, curve.density, color=look.colour, linewidth=1.6,
                      linestyle=_LINES[index % len(_LINES)], marker=look.marker if hue else "",
                      markevery=(10 + 7 * index, 60), markersize=4.5)  # fmt: skip
        axes.set_ylim(bottom=0)
        label_axes(axes, x, "Density", width=60)
        return densities.make_plot(
            figure, axes, table=densities.table(), legend=looks if hue is not None else []
        )


@dataclass(frozen=True, eq=False)
class DensityCurve:
    """The density along the axis; `hidden` bins had fewer than k records."""

    positions: Floats
    density: Floats
    cuts: Floats
    counts: Integers
    hidden: int
    bandwidth: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Densities:
    """The curve of each group, and what the caption and the log must know."""

    request: Request
    subjects: Subjects
    protection: Protection
    curves: tuple[DensityCurve, ...]
    notes: tuple[str, ...]
    reasons: tuple[str, ...]
    bins: int

    def table(self) -> pl.DataFrame:
        """What is drawn: positions and densities, by group."""
        tables = []
        for label, curve in zip(self.subjects.labels, self.curves, strict=True):
            digits = [float(f"{value:.{_DIGITS}g}") for value in curve.density]
            columns: dict[str, Any] = {"group": [label] * len(digits)}
            tables.append(pl.DataFrame(columns | {"value": curve.positions, "density": digits}))
        table = pl.concat(tables)
        return table.drop("group") if self.subjects.hue is None else table

    def make_plot(
        self, figure: Figure, axes: Axes, *, table: pl.DataFrame, notes: tuple[str, ...] = (),
        legend: Any = (),
    ) -> Plot:  # fmt: skip
        """Finish the plot in which these curves are drawn."""
        return make_plot(
            figure,
            [axes],
            self.request,
            protection=self.protection.with_wording(_WORDS),
            subjects=self.subjects,
            table=table,
            notes=[*notes, *self.notes],
            reasons=self.reasons,
            rule={"bins": self.bins, "small": self.request.small},
            details={
                "cells": sum(len(curve.counts) for curve in self.curves),
                "suppressed": sum(curve.hidden for curve in self.curves),
            },
            legend=legend,
        )


def compute_densities(data: Any, request: Request, limits: Limits | None) -> Densities:
    """Count in bins, hide the small ones, and smooth; a refusal is put into the log."""
    (x,) = request.variables
    with request.record_refusals():
        subjects = request.select(data)
        resolved = request.resolve(subjects, default="suppress", why=_WHY)
        reasons = judge_small_cells(request.small, resolved)
        bins = resolve_bins(
            request.bins, _BINS.get(resolved.name, 30), subjects.fewest, request.rules
        )
        notes: list[str] = []
        if resolved.cells:
            values = [group.column(x) for group in subjects.groups]
        else:
            points = request.protect(subjects, resolved)
            values = [group.column(x) for group in points]
            notes = [note for group in points for note in group.notes()]
        ends = None if limits is None else check_limits(limits)
        exact = request.bins is not None
        cuts = choose_edges(
            pool_groups(values), bins, ends, count_beyond(resolved), domain=subjects.bounds(x),
            exact=exact, whole=resolved.cells and subjects.is_integer(x) and not exact,
        )  # fmt: skip
        curves = tuple(smooth_counts(column, cuts, request.least) for column in values)
    lost = sum(map(len, values)) - sum(int(curve.counts.sum()) for curve in curves)
    notes += describe_lost(lost, subjects.records, resolved.k)
    return Densities(
        request=request,
        subjects=subjects,
        protection=resolved,
        curves=curves,
        notes=tuple(dict.fromkeys(notes)),
        reasons=(*reasons, *judge_limits(subjects, [limits])),
        bins=len(cuts) - 1,
    )


def smooth_counts(values: Floats, cuts: Floats, k: int) -> DensityCurve:
    """Spread the records of each bin evenly over it, and smooth with a bell no narrower than it.

    Bins of fewer than k records are hidden, and the curve begins and ends with the outermost bins
    that are not. What would run over an end is folded back, so that it does not sag there.

    Parameters
    ----------
    values : finite numbers.
    cuts : edges of bins of equal width.
    k : bins of fewer records are hidden.

    Examples
    --------
    >>> curve = smooth_counts(np.linspace(0, 1, 1000), np.linspace(0, 1, 11), 3)
    >>> curve.density.round(2).min(), curve.density.round(2).max(), curve.hidden
    (np.float64(1.0), np.float64(1.0), 0)
    """
    counts, hidden = suppress_small(count_cells([values], [cuts]), k)
    shown = np.flatnonzero(counts)
    if not len(shown):
        raise OutputRefused(
            "No bin holds enough records for a density.", hint="take fewer bins or larger groups."
        )
    counts = counts[shown[0] : shown[-1] + 1]
    cuts = cuts[shown[0] : shown[-1] + 2]
    bandwidth = choose_bandwidth(cuts, counts)
    positions = np.linspace(cuts[0], cuts[-1], _POINTS)
    # Reflection at both ends: the mass beyond them is added back inside.
    density = _smooth_at(positions, cuts, counts, bandwidth)
    density += _smooth_at(2 * cuts[0] - positions, cuts, counts, bandwidth)
    density += _smooth_at(2 * cuts[-1] - positions, cuts, counts, bandwidth)
    density /= float(np.trapezoid(density, positions))
    return DensityCurve(positions, density, cuts, counts, hidden, bandwidth)


def choose_bandwidth(cuts: Floats, counts: Integers) -> float:
    """The rule of thumb by the binned values, and never below the width of a bin."""
    middles, total = (cuts[1:] + cuts[:-1]) / 2, float(counts.sum())
    mean = math.fsum(middles * counts) / total
    spread = math.sqrt(math.fsum((middles - mean) ** 2 * counts) / total)
    return max(float(np.diff(cuts).max()), float(_SILVERMAN * spread * total**-0.2))


def _smooth_at(positions: Floats, cuts: Floats, counts: Integers, bandwidth: float) -> Floats:
    """The density at some positions: a uniform distribution over each bin, normal noise added."""
    from scipy.special import ndtr

    reached = ndtr((positions[:, None] - cuts[None, :]) / bandwidth)
    shares = counts / counts.sum() / np.diff(cuts)
    density: Floats = -np.diff(reached, axis=1) @ shares
    return density
