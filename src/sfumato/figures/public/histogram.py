"""How one variable is spread, as bars of many records each: paper 003, Figure 1."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.figures._sheet.sheet import label_axes, sheet
from sfumato.figures._sheet.style import house_style
from sfumato.figures.public.bars import Bars, draw_bars
from sfumato.figures.public.drawn import finished, refusals
from sfumato.figures.public.grid import (
    Limits,
    adaptive,
    allowed_bins,
    checked,
    counts,
    edges,
    own_extremes,
    parts_of,
    reach,
    suppressed,
)
from sfumato.figures.public.protection import (
    Protecting,
    Protection,
    house_of,
    points,
    resolve,
    subjects,
)
from sfumato.figures.public.small import Small, full_reasons, small_reasons
from sfumato.figures.public.words import share_said
from sfumato.kernels.arrays import Floats, Integers
from sfumato.outputs.judged import OutputRefused

if TYPE_CHECKING:
    from sfumato.figures.public.plot import Plot
    from sfumato.figures.public.protection import Keyed
    from sfumato.figures.public.subjects import Group, Subjects
    from sfumato.outputs.log import Log
    from sfumato.outputs.rules import Rules

_BINS = {"suppress": 30, "generalise": 15}
_MUCH = 0.05
"""Where equal bins hide more than this share of the records, the bins adapt."""


def histogram(  # noqa: PLR0913 - all but two by name only
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
    density: bool = True,
    title: str | None = None,
    rules: Rules | None = None,
    log: Log | None = None,
) -> Plot:
    """Bars of at least k records each.

    Question: how is a variable spread, told so that no bar stands for a few people?
    Assumes: one record is one person. Edges are round numbers; no extreme is one of them.

    Parameters
    ----------
    data : a frame, a Dataset or a release.
    x : the variable.
    hue : a variable that makes groups; each is protected by itself.
    protection : "suppress" hides bars of fewer than k. "generalise" makes wide bins: as wide as
        they must be, or so many equal ones as `bins` says. "deterministic" and "noise" count
        protected values. Default: suppress, unless that hides more than 5 % of the records.
    k : fewest records behind a bar. Default: the rules' k, which is 3.
    bins : how many equal bins. Default: about 30, or 15 of protection "generalise".
    limits : where the first bin begins and the last ends. Default: round numbers.
    sd_share : SD of the noise as a share of the variable's.
    key : the custodian's secret, for noise that is the same next time.
    small : "show" bars of fewer than k protected values, where values are protected themselves.
    density : heights as density; otherwise counts.
    title : of the figure.
    rules : the house rules.
    log : where the output is listed.

    Examples
    --------
    >>> import numpy as np, polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"age": np.linspace(20.3, 71.8, 200)})
    >>> made = sf.plots.histogram(frame, "age", bins=6)
    >>> made.table["low"].to_list(), made.verdict
    ([20.0, 30.0, 40.0, 50.0, 60.0, 70.0], 'pass')

    References: Avraam et al. (2021), EPJ Data Science 10:2, section 4.1 and Figure 1.
    """
    house, k = house_of(rules, log, k)
    named = title or f"Histogram of {x}"
    groups = () if hue is None else (hue,)
    with refusals(log, kind="histogram", title=named, variables=[x], groups=groups):
        who = subjects(data, [x], hue, rules=house, k=k)
        way = resolve(protection, default="suppress", why="", records=who.fewest, k=k,
                      sd_share=sd_share, key=key, rules=house)  # fmt: skip
        reasons = small_reasons(small, way)
        allowed = allowed_bins(bins, _BINS.get(way.name, 30), who.fewest, house)
        asked = _Asked(x, bins, allowed, limits, small)
        bars = _bars(who, way, asked)
        if protection is None:
            way, bars = _chosen(who, way, asked, bars)
        if way.name == "generalise" and bins is None:
            way = replace(way, wording=f"Each bar is so wide that it holds at least {k} records.")
        reasons = (*reasons, *full_reasons([one.counts for one in bars], house))
    if own_extremes(who.column(x), limits):
        reasons = (*reasons, "The limits of the axis are extremes of the data themselves.")
    with house_style():
        figure, (axes,) = sheet(3.1)
        legend = draw_bars(axes, bars, density=density)
        label_axes(axes, x, "Density" if density else "Records", width=60)
        return finished(
            figure,
            [axes],
            kind="histogram",
            title=named,
            protection=way,
            shown_of=who,
            table=_table(bars, hue, density=density),
            notes=[*_notes(bars, who, way.k), *(one for bar in bars for one in bar.notes)],
            reasons=reasons,
            rule={"bins": max(len(one.counts) for one in bars), "small": small},
            details={
                "cells": sum(len(one.counts) for one in bars),
                "suppressed": sum(one.hidden for one in bars),
            },
            legend=legend,
            log=log,
            parts=_parts(who, way, x, bars) if log is not None else None,
        )


@dataclass(frozen=True)
class _Asked:
    """What the user said of the bins."""

    x: str
    bins: int | None
    allowed: int
    limits: Limits | None
    small: Small


def _chosen(
    who: Subjects, way: Protection, asked: _Asked, bars: list[Bars]
) -> tuple[Protection, list[Bars]]:
    """Suppression where it hides little, else bins that adapt."""
    if max(one.lost for one in bars) <= _MUCH or asked.bins is not None:
        why = "Equal bins were kept: hiding small ones loses little." if asked.bins is None else ""
        return replace(way, reason=why), bars
    why = "Bins adapt to the data: with equal ones, more than 5 % of the records would be hidden."
    wide = replace(way, name="generalise", reason=why)
    return wide, _bars(who, wide, asked)


def _bars(who: Subjects, way: Protection, asked: _Asked) -> list[Bars]:
    if way.cells:
        values = [one.column(asked.x) for one in who.groups]
        extra: list[tuple[str, ...]] = [()] * len(values)
    else:
        made = [points(one, [asked.x], way, lonely=asked.small == "show") for one in who.groups]
        values = [one.column(asked.x) for one in made]
        extra = [one.notes() for one in made]
    limits = None if asked.limits is None else checked(asked.limits)
    domain = who.bounds(asked.x)
    whole = way.cells and who.whole(asked.x)
    if way.name == "generalise" and asked.bins is None:
        return [
            _adapted(one, held, way.k, asked.allowed * 2, limits, domain=domain, whole=whole)
            for one, held in zip(who.groups, values, strict=True)
        ]
    together = values[0] if len(values) == 1 else np.concatenate(values)
    bins, k = asked.allowed, way.k if asked.small == "hide" else 1
    while True:
        cuts = edges(together, bins, limits, reach(way), domain=domain,
                     exact=asked.bins is not None, whole=whole and asked.bins is None)  # fmt: skip
        made_of = [
            _counted(one, held, cuts, k, notes)
            for one, held, notes in zip(who.groups, values, extra, strict=True)
        ]
        if all(one.counts.any() for one in made_of):
            return made_of
        if asked.bins is not None or bins <= 1:
            raise OutputRefused(
                "Not one bar would hold enough records.",
                hint="take fewer bins, or leave them out.",
            )
        # Nobody asked for bins so narrow.
        bins //= 2


def _adapted(
    group: Group,
    values: Floats,
    k: int,
    bins: int,
    limits: Limits | None,
    *,
    domain: Limits | None,
    whole: bool,
) -> Bars:
    cuts, held = adaptive(values, k, bins, limits, domain=domain, whole=whole)
    return _shown(group.label, cuts, held, 0, len(values))


def _counted(group: Group, values: Floats, cuts: Floats, k: int, notes: tuple[str, ...]) -> Bars:
    held, hidden = suppressed(counts([values], [cuts]), k)
    return _shown(group.label, cuts, held, hidden, len(values), notes)


def _shown(
    label: str, cuts: Floats, held: Integers, hidden: int, records: int, notes: tuple[str, ...] = ()
) -> Bars:
    return Bars(label, cuts, held, hidden, 1 - float(held.sum()) / records, notes)


def _parts(who: Subjects, way: Protection, x: str, bars: list[Bars]) -> list[Any] | None:
    """For the log: in which bar each record is; only where bars count the original's."""
    if not way.cells:
        return None
    return parts_of(
        [[one.column(x)] for one in who.groups],
        [[one.cuts] for one in bars],
        [one.counts for one in bars],
    )


def _notes(bars: list[Bars], who: Subjects, k: int) -> list[str]:
    lost = sum(one.lost * len(group) for one, group in zip(bars, who.groups, strict=True))
    if not lost:
        return []
    said = share_said(lost / who.records, records=who.records, k=k)
    return [f"Not shown: {said} of the values."]


def _table(bars: list[Bars], hue: str | None, *, density: bool) -> pl.DataFrame:
    made = []
    for one in bars:
        filled = one.counts > 0
        columns: dict[str, Any] = {} if hue is None else {"group": [one.label] * int(filled.sum())}
        columns |= {
            "low": one.cuts[:-1][filled],
            "high": one.cuts[1:][filled],
            "density" if density else "records": one.heights(density=density)[filled],
        }
        made.append(pl.DataFrame(columns))
    return pl.concat(made)
