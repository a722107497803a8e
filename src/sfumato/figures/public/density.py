"""A smooth curve of how a variable is distributed, made of counts in bins.

It knows no value, only how many fell into each bin. `violin` draws the same curves mirrored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.figures.public.distance import BELOW, Distance, compare_curves, measure_groups
from sfumato.figures.public.grid import (
    Limits,
    check_limits,
    choose_edges,
    count_beyond,
    count_cells,
    count_large_cells,
    describe_lost,
    judge_limits,
    merge_small_bins,
    resolve_bins,
)
from sfumato.figures.public.parameters import Binned, takes
from sfumato.figures.public.plot import Request, make_plot, make_request
from sfumato.figures.public.protected_values import find_possible_range
from sfumato.figures.public.protection import Named, Protection, judge_small_cells
from sfumato.figures.sheet.sheet import make_group_panels, share_limits
from sfumato.figures.sheet.style import use_house_style
from sfumato.kernels.arrays import Floats, Integers
from sfumato.outputs.contributors import Contributors
from sfumato.outputs.output import OutputRefused

if TYPE_CHECKING:
    from typing import Unpack

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sfumato.figures.public.plot import Plot
    from sfumato.figures.public.subjects import Group, Subjects

_WHY: dict[Named, str] = {
    "suppress": "Small bins were left out: joined, they come no nearer to the unprotected curve.",
    "generalise": "Small bins were joined: left out, they lead farther from the unprotected curve.",
}
_WORDS = {
    "suppress": "The curve is smoothed from counts in bins of at least {k} {unit}.",
    "generalise": "The curve is smoothed from counts in bins, so wide that they hold {k} {unit}.",
}
_DIGITS = 6
_LINES = ("-", (0, (5, 2)), (0, (2, 1.5)))
"""Groups are told apart by their lines as well as by their colours."""
_FILLED = 2
"""More areas over each other only make mud."""
_POINTS = 201
_SILVERMAN, _QUARTERS_IN_SDS = 0.9, 1.34
"""Silverman's rule of thumb: so many SDs by the fifth root of the number of records."""
_FEWEST_BINS, _MOST_BINS, _BINS_BY_ROOT = 30, 100, 4.0
"""Bins of a group by the cube root of its records: the more records, the finer."""
_FINE_BINS = 400
"""Bins of the curve without protection."""


@takes(Binned)
def density(
    data: Any,
    x: str,
    *,
    hue: str | None = None,
    limits: Limits | None = None,
    **asked: Unpack[Binned],
) -> Plot:
    """A smooth curve that begins and ends where at least k records are.

    Question: what shape does a variable's distribution have, and is it the same in all groups?
    Assumes: one record is one person, or the role "person" says whose it is. The smoothing is never
    finer than a bin, so the curve shows no more than a histogram does.

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
    >>> made = sf.plots.density(pl.DataFrame({"age": np.linspace(20.3, 79.2, 300)}), "age")
    >>> made.table["value"].min(), made.table["value"].max(), made.verdict
    (20.0, 79.0, 'pass')

    References: Avraam et al. (2021), EPJ Data Science 10:2, section 4.1.
    """
    heading = f"Density of {x}{f' by {hue}' if hue is not None else ''}"
    request = make_request("density", heading, [x], hue=hue, **asked)
    densities = compute_densities(data, request, limits)
    with use_house_style():
        figure, panels, looks = make_group_panels(
            densities.subjects.labels, densities.subjects.describe(x), "Density", height=3.1
        )
        drawn = zip(panels, densities.curves, looks, strict=True)
        for index, (axes, curve, look) in enumerate(drawn):
            if len(looks) <= _FILLED or not look.name:
                axes.fill_between(curve.positions, curve.density, color=look.colour, alpha=0.15,
                                  linewidth=0)  # fmt: skip
            axes.plot(curve.positions, curve.density, color=look.colour, linewidth=1.6)
            if look.name:
                axes.lines[-1].set(linestyle=_LINES[index], marker=look.marker, markersize=4.5,
                                   markevery=(10 + 7 * index, 60))  # fmt: skip
        # Only now: a limit that is set holds its other end, and would cut off the next curve.
        for axes in panels:
            axes.set_ylim(bottom=0)
        return densities.make_plot(
            figure, share_limits(panels), table=densities.table(),
            legend=[look for look in looks if look.name],
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class DensityCurve:
    """The density along the axis; `hidden` bins had fewer than k records."""

    positions: Floats
    density: Floats
    cuts: Floats
    counts: Integers
    hidden: int
    bandwidth: float
    bins: int


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
    distance: Distance

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
        self, figure: Figure, panels: Sequence[Axes], *, table: pl.DataFrame,
        notes: tuple[str, ...] = (), legend: Any = (),
    ) -> Plot:  # fmt: skip
        """Finish the plot in which these curves are drawn."""
        return make_plot(
            figure,
            panels,
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
            distance=self.distance,
        )


def compute_densities(data: Any, request: Request, limits: Limits | None) -> Densities:
    """Count in bins, hide or join the small ones, and smooth; a refusal is put into the log."""
    with request.record_refusals():
        subjects = request.select(data)
        ends = None if limits is None else check_limits(limits)
        asked = request.resolve(subjects, default="suppress")
        if request.protection is not None:
            return _smooth_groups(request, subjects, asked, ends)
        # Whichever comes nearer to the unprotected curve.
        both = [
            _smooth_groups(request, subjects, replace(asked, name=name, reason=why), ends)
            for name, why in _WHY.items()
        ]
        return min(both, key=lambda densities: densities.distance.value)


def _smooth_groups(
    request: Request, subjects: Subjects, protection: Protection, limits: Limits | None
) -> Densities:
    (x,) = request.variables
    reasons = judge_small_cells(request.small, protection)
    notes: list[str] = []
    if protection.cells:
        values = [group.column(x) for group in subjects.groups]
        units = [group.units for group in subjects.groups]
    else:
        points = request.protect(subjects, protection)
        values = [group.column(x) for group in points]
        units = [group.units for group in points]
        notes = [note for group in points for note in group.notes()]
    curves = tuple(
        _smooth_group(group, column, own, subjects, protection, request, limits)
        for group, column, own in zip(subjects.groups, values, units, strict=True)
    )
    lost = sum(map(len, values)) - sum(int(curve.counts.sum()) for curve in curves)
    notes += describe_lost(lost, subjects.records, protection.k)
    return Densities(
        request=request,
        subjects=subjects,
        protection=protection,
        curves=curves,
        notes=tuple(dict.fromkeys(notes)),
        reasons=(*reasons, *judge_limits(subjects, [limits])),
        bins=max(curve.bins for curve in curves),
        distance=_measure_distance(curves, subjects, x),
    )


def _smooth_group(
    group: Group,
    values: Floats,
    units: Contributors,
    subjects: Subjects,
    protection: Protection,
    request: Request,
    limits: Limits | None,
) -> DensityCurve:
    """The curve of one group, in bins of its own: those of all would be too wide for a narrow one.

    Where the records are few, bins become wider until one holds enough.
    """
    (x,) = subjects.names
    exact, domain = request.bins is not None, subjects.bounds(x)
    usual = min(max(round(_BINS_BY_ROOT * len(group) ** (1 / 3)), _FEWEST_BINS), _MOST_BINS)
    # Bins that are joined where they are small may be finer: nothing is lost.
    usual *= 2 if protection.name == "generalise" else 1
    bins = resolve_bins(request.bins, usual, group.count_units(), request.rules)
    whole, possible = protection.cells and subjects.is_integer(x), find_possible_range(group, x)
    if protection.name == "generalise" and not exact:
        cuts, counts = merge_small_bins(values, protection.k, bins, limits, domain=domain,
                                        whole=whole, units=units)  # fmt: skip
        return smooth_counts(counts, cuts, possible)
    while True:
        cuts = choose_edges(
            values, bins, limits, count_beyond(protection), domain=domain, exact=exact,
            whole=whole and not exact, units=units,
        )  # fmt: skip
        counts, hidden = count_large_cells([values], [cuts], request.least, units)
        try:
            return smooth_counts(counts, cuts, possible, hidden=hidden)
        except OutputRefused:
            if exact or bins <= 1:
                raise
            bins //= 2


def _measure_distance(curves: Sequence[DensityCurve], subjects: Subjects, x: str) -> Distance:
    """How far the curves are from those of very fine bins that hide nothing, at worst."""
    gaps: list[float] = []
    for curve, group in zip(curves, subjects.groups, strict=True):
        values = group.column(x)
        low, high = float(values.min()), float(values.max())
        fine = np.linspace(low, high, _FINE_BINS + 1)
        if subjects.is_integer(x):
            step = math.ceil((high - low + 1) / _FINE_BINS)
            fine = np.arange(low - 0.5, high + step, step)
        bare = smooth_counts(count_cells([values], [fine]), fine, find_possible_range(group, x))
        gaps.append(
            compare_curves((curve.positions, curve.density), (bare.positions, bare.density))
        )
    return measure_groups(BELOW, subjects, gaps)


def smooth_counts(
    counts: Integers, cuts: Floats, possible: Limits = (-math.inf, math.inf), *, hidden: int = 0
) -> DensityCurve:
    """Spread the records of each bin evenly over it, and smooth with a bell no narrower than it.

    The curve begins and ends with the outermost bins that have any. What would run over an end is
    folded back, so that it does not sag there.

    Parameters
    ----------
    counts : how many records each bin has; 0 where it is hidden.
    cuts : edges of bins.
    possible : the curve is not drawn beyond these ends.
    hidden : how many bins are hidden.

    Examples
    --------
    >>> curve = smooth_counts(np.full(10, 100), np.linspace(0, 1, 11))
    >>> curve.density.round(2).min(), curve.density.round(2).max(), curve.hidden
    (np.float64(1.0), np.float64(1.0), 0)
    """
    shown = np.flatnonzero(counts)
    if not len(shown):
        raise OutputRefused(
            "No bin holds enough records for a density.", hint="take fewer bins or larger groups."
        )
    bins = len(counts)
    counts = counts[shown[0] : shown[-1] + 1]
    cuts = cuts[shown[0] : shown[-1] + 2]
    bandwidth = choose_bandwidth(cuts, counts)
    # Bins of whole numbers begin at a half, which may lie beyond the domain.
    positions = np.linspace(max(cuts[0], possible[0]), min(cuts[-1], possible[1]), _POINTS)
    # Reflection at both ends: the mass beyond them is added back inside.
    density = _smooth_at(positions, cuts, counts, bandwidth)
    density += _smooth_at(2 * cuts[0] - positions, cuts, counts, bandwidth)
    density += _smooth_at(2 * cuts[-1] - positions, cuts, counts, bandwidth)
    density /= float(np.trapezoid(density, positions))
    return DensityCurve(positions, density, cuts, counts, hidden, bandwidth, bins)


def choose_bandwidth(cuts: Floats, counts: Integers) -> float:
    """The rule of thumb by the binned values, and never below the width of the narrowest bin."""
    middles, total = (cuts[1:] + cuts[:-1]) / 2, float(counts.sum())
    mean = math.fsum(middles * counts) / total
    spread = math.sqrt(math.fsum((middles - mean) ** 2 * counts) / total)
    lower, upper = np.interp([0.25, 0.75], np.append(0, np.cumsum(counts)) / total, cuts)
    # A long tail widens the SD, and would blur the peak.
    spread = min(spread, float(upper - lower) / _QUARTERS_IN_SDS)
    return max(float(np.diff(cuts).min()), float(_SILVERMAN * spread * total**-0.2))


def _smooth_at(positions: Floats, cuts: Floats, counts: Integers, bandwidth: float) -> Floats:
    """The density at some positions: a uniform distribution over each bin, normal noise added."""
    from scipy.special import ndtr

    reached = ndtr((positions[:, None] - cuts[None, :]) / bandwidth)
    shares = counts / counts.sum() / np.diff(cuts)
    density: Floats = -np.diff(reached, axis=1) @ shares
    return density
