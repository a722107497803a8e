"""How one variable is distributed, as bars of many records each: paper 003, Figure 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.errors import PlanError
from sfumato.figures.public.distance import (
    BELOW,
    Distance,
    compare_counts,
    list_reference_edges,
    measure_groups,
)
from sfumato.figures.public.grid import (
    Limits,
    check_limits,
    choose_edges,
    count_beyond,
    count_large_cells,
    describe_lost,
    judge_limits,
    label_records,
    merge_small_bins,
    resolve_bins,
    round_shown,
)
from sfumato.figures.public.parameters import Binned, takes
from sfumato.figures.public.plot import Request, make_plot, make_request
from sfumato.figures.public.protection import Protection, judge_full_cells, judge_small_cells
from sfumato.figures.public.subjects import pool_groups
from sfumato.figures.sheet.sheet import make_group_panels, share_limits
from sfumato.figures.sheet.style import Mark, pick_marks, use_house_style
from sfumato.kernels.arrays import Floats, Integers
from sfumato.outputs.contributors import join_contributors
from sfumato.outputs.output import OutputRefused

if TYPE_CHECKING:
    from typing import Unpack

    from matplotlib.axes import Axes

    from sfumato.figures.public.plot import Plot
    from sfumato.figures.public.subjects import Subjects

_BINS = {"suppress": 30, "generalise": 15}
_MUCH = 0.05
"""Where equal bins hide more than this share of the records, the bins adapt."""


@dataclass(frozen=True)
class Bars:
    """The bars of one group."""

    label: str
    cuts: Floats
    counts: Integers
    hidden: int
    lost: float
    notes: tuple[str, ...] = ()

    def heights(self, *, density: bool) -> Floats:
        """How high each bar is."""
        if not density:
            return self.counts.astype(np.float64)
        # By the records shown: their share would tell how many are not.
        heights: Floats = self.counts / np.diff(self.cuts) / self.counts.sum()
        return heights


@takes(Binned)
def histogram(
    data: Any,
    x: str,
    *,
    hue: str | None = None,
    limits: Limits | None = None,
    edges: Sequence[float] | None = None,
    density: bool = True,
    **asked: Unpack[Binned],
) -> Plot:
    """Bars of at least k records each.

    Question: how is a variable distributed, shown so that no bar stands for a few people?
    Assumes: one record is one person, or the role "person" says whose it is. Edges are round
    numbers; no extreme is one of them.

    Parameters
    ----------
    x : the variable.
    protection : kind of protection: "suppress" hides bars of fewer than k. "generalise" makes wide
        bins: as wide as they must be, or so many equal ones as `bins` says. "deterministic" and
        "noise" count protected values. Default: suppress, unless that hides more than 5 % of the
        records.
    bins : number of equal bins. Default: about 30, or 15 for protection "generalise".
    limits : where the first bin begins and the last ends. Default: round numbers.
    edges : the edges of unequal bins: rising, in place of `bins` and `limits`.
    density : heights as density; otherwise counts.

    Examples
    --------
    >>> import numpy as np, polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"age": np.linspace(20.3, 71.8, 200)})
    >>> made = sf.plots.histogram(frame, "age", bins=6)
    >>> made.table["low"].to_list(), made.verdict
    ([20.0, 30.0, 40.0, 50.0, 60.0, 70.0], 'pass')

    References: Avraam et al. (2021), EPJ Data Science 10:2, section 4.1 and Figure 1.
    """
    heading = f"Histogram of {x}{f' by {hue}' if hue is not None else ''}"
    request = make_request("histogram", heading, [x], hue=hue, **asked)
    with request.record_refusals():
        subjects = request.select(data)
        resolved = request.resolve(subjects, default="suppress")
        reasons = judge_small_cells(request.small, resolved)
        cuts = None if edges is None else _check_edges(edges, request.bins, limits)
        wanted = request.bins if cuts is None else len(cuts) - 1
        allowed = resolve_bins(wanted, _BINS.get(resolved.name, 30), subjects.fewest, request.rules)
        ends = None if limits is None else check_limits(limits)
        bars = _count_bars(subjects, resolved, request, allowed, ends, cuts)
        if request.protection is None:
            resolved = _choose_protection(resolved, bars, wanted)
            if resolved.name == "generalise":
                bars = _count_bars(subjects, resolved, request, allowed, ends, cuts)
        if resolved.name == "generalise" and wanted is None:
            wording = f"Each bar is so wide that it holds at least {request.k} {resolved.unit}."
            resolved = replace(resolved, wording=wording)
        reasons += judge_full_cells([group.counts for group in bars], request.rules)
        bars = [replace(group, counts=round_shown(group.counts, request.rules)) for group in bars]
    sizes = map(len, subjects.groups)
    lost = sum(group.lost * size for group, size in zip(bars, sizes, strict=True))
    with use_house_style():
        figure, panels, _ = make_group_panels(
            subjects.labels, subjects.describe(x), "Density" if density else "Records", height=3.1
        )
        if len(set(panels)) > 1:
            for axes, group in zip(panels, bars, strict=True):
                draw_bars(axes, [replace(group, label="")], density=density)
        legend = draw_bars(panels[0], bars, density=density) if len(set(panels)) == 1 else []
        return make_plot(
            figure,
            share_limits(panels),
            request,
            protection=resolved,
            subjects=subjects,
            table=_make_table(bars, hue, density=density),
            notes=[
                *describe_lost(lost, subjects.records, resolved.k),
                *(note for group in bars for note in group.notes),
            ],
            reasons=[
                *reasons,
                *judge_limits(subjects, [limits if cuts is None else (cuts[0], cuts[-1])]),
            ],
            rule={"bins": max(len(group.counts) for group in bars), "small": request.small},
            details={
                "cells": sum(len(group.counts) for group in bars),
                "suppressed": sum(group.hidden for group in bars),
            },
            legend=legend,
            parts=_label_records(subjects, x, bars)
            if request.log is not None and resolved.cells
            else None,
            distance=_measure_distance(bars, subjects, x, exact=wanted is not None),
            rounds=True,
        )


def _measure_distance(bars: Sequence[Bars], subjects: Subjects, x: str, *, exact: bool) -> Distance:
    """How far the bars are from those of a usual histogram, or of one of the bins asked for."""
    usual = None if exact else list_reference_edges(subjects, x)
    gaps = [
        compare_counts(group.column(x), own.cuts, own.counts, own.cuts if usual is None else usual)
        for own, group in zip(bars, subjects.groups, strict=True)
    ]
    return measure_groups(BELOW, subjects, gaps)


def _choose_protection(
    protection: Protection, bars: Sequence[Bars], bins: int | None
) -> Protection:
    """Suppression where it hides little, else bins that adapt."""
    if bins is not None:
        return protection
    if max(group.lost for group in bars) <= _MUCH:
        return replace(protection, reason="Equal bins were kept: hiding small ones loses little.")
    why = "Bins adapt to the data: with equal ones, more than 5 % of the records would be hidden."
    return replace(protection, name="generalise", reason=why)


def _check_edges(edges: Sequence[float], bins: int | None, limits: Limits | None) -> Floats:
    if bins is not None or limits is not None:
        raise PlanError("Edges say where the bins are.", hint="leave out bins and limits.")
    try:
        cuts = np.asarray(list(edges), np.float64)
    except (TypeError, ValueError):
        raise PlanError("Edges are numbers.", hint="edges=[0, 18, 40, 65, 100].") from None
    if len(cuts) <= 1 or not np.isfinite(cuts).all() or not (np.diff(cuts) > 0).all():
        raise PlanError("Edges are at least two numbers that rise.", hint="edges=[0, 18, 40, 65].")
    return cuts


def _count_bars(
    subjects: Subjects,
    protection: Protection,
    request: Request,
    bins: int,
    limits: Limits | None,
    edges: Floats | None,
) -> list[Bars]:
    (x,) = subjects.names
    notes: list[tuple[str, ...]] = [()] * len(subjects.groups)
    if protection.cells:
        values = [group.column(x) for group in subjects.groups]
        units = [group.units for group in subjects.groups]
    else:
        points = request.protect(subjects, protection)
        values = [group.column(x) for group in points]
        units = [group.units for group in points]
        notes = [group.notes() for group in points]
    exact, domain = request.bins is not None or edges is not None, subjects.bounds(x)
    whole = protection.cells and subjects.is_integer(x)
    if protection.name == "generalise" and not exact:
        merged = [
            merge_small_bins(column, protection.k, 2 * bins, limits, domain=domain, whole=whole,
                             units=own)
            for column, own in zip(values, units, strict=True)
        ]  # fmt: skip
        return [
            _make_bars(label, cuts, counts, 0, len(column))
            for label, column, (cuts, counts) in zip(subjects.labels, values, merged, strict=True)
        ]
    pooled, whose = pool_groups(values), join_contributors(units)
    while True:
        cuts = edges if edges is not None else choose_edges(
            pooled, bins, limits, count_beyond(protection), domain=domain, exact=exact,
            whole=whole and not exact, units=whose,
        )  # fmt: skip
        bars = [
            _make_bars(
                label, cuts,
                *count_large_cells([column], [cuts], request.least, own),
                len(column), sentences,
            )
            for label, column, own, sentences in zip(
                subjects.labels, values, units, notes, strict=True
            )
        ]  # fmt: skip
        if all(group.counts.any() for group in bars):
            return bars
        if exact or bins <= 1:
            raise OutputRefused(
                f"Not one bar would hold enough {protection.unit}.",
                hint="take fewer bins, or leave them out.",
            )
        # Nobody asked for bins so narrow.
        bins //= 2


def _make_bars(
    label: str,
    cuts: Floats,
    counts: Integers,
    hidden: int,
    records: int,
    notes: tuple[str, ...] = (),
) -> Bars:
    return Bars(label, cuts, counts, hidden, 1 - float(counts.sum()) / records, notes)


def draw_bars(axes: Axes, bars: Sequence[Bars], *, density: bool) -> list[Mark]:
    """Draw the bars of all groups; the legend."""
    single = len(bars) == 1
    looks = pick_marks([group.label for group in bars], grouped=not single or bool(bars[0].label))
    for group, look in zip(bars, looks, strict=True):
        heights = group.heights(density=density)
        filled = heights > 0
        starts, widths = group.cuts[:-1][filled], np.diff(group.cuts)[filled]
        axes.bar(starts, heights[filled], widths, align="edge", facecolor=look.colour,
                 alpha=0.3 if single else 0.1, linewidth=0)  # fmt: skip
        if single:
            axes.bar(starts, heights[filled], widths, align="edge", facecolor="none",
                     edgecolor=look.colour, linewidth=1.0)  # fmt: skip
        else:
            _draw_outline(axes, group, heights, look)
    axes.margins(x=0.03)
    axes.grid(visible=False, axis="x")
    return [replace(look, marker="s", line="") if single else look for look in looks if look.name]


def _draw_outline(axes: Axes, bars: Bars, heights: Floats, look: Mark) -> None:
    """Only the outline of all bars, and a shape on each: several groups lie over one another."""
    (filled,) = np.nonzero(heights)
    span = slice(filled[0], filled[-1] + 1)
    axes.stairs(heights[span], bars.cuts[span.start : span.stop + 1], color=look.colour,
                linewidth=1.3)  # fmt: skip
    middles = (bars.cuts[:-1] + bars.cuts[1:])[filled] / 2
    axes.plot(middles, heights[filled], linestyle="", marker=look.marker, color=look.colour,
              markersize=3.2)  # fmt: skip


def _label_records(subjects: Subjects, x: str, bars: list[Bars]) -> list[Any]:
    """For the log: in which bar each record is; only where bars count the original's."""
    return label_records(
        [[group.column(x)] for group in subjects.groups],
        [[group.cuts] for group in bars],
        [group.counts for group in bars],
    )


def _make_table(bars: list[Bars], hue: str | None, *, density: bool) -> pl.DataFrame:
    tables = []
    for group in bars:
        filled = group.counts > 0
        columns: dict[str, Any] = {}
        if hue is not None:
            columns["group"] = [group.label] * int(filled.sum())
        columns |= {
            "low": group.cuts[:-1][filled],
            "high": group.cuts[1:][filled],
            "density" if density else "records": group.heights(density=density)[filled],
        }
        tables.append(pl.DataFrame(columns))
    return pl.concat(tables)
