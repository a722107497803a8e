"""The share that is still free of an event as time goes by, in steps of many events each.

The curve of Kaplan and Meier falls at each event, so every step of it is somebody's time. The safe
curve is read at round times only, at least k events apart, and runs straight between them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.errors import DataError, PlanError
from sfumato.figures.public.distance import Distance, measure_groups
from sfumato.figures.public.grid import resolve_bins
from sfumato.figures.public.parameters import Shielded, takes
from sfumato.figures.public.plot import Request, make_plot, make_request
from sfumato.figures.public.protected_values import protect_values
from sfumato.figures.public.protection import Protection
from sfumato.figures.public.subjects import Group, Subjects, select_subjects, to_dataset
from sfumato.figures.sheet.sheet import make_group_panels
from sfumato.figures.sheet.style import INK, SMALL, Mark, use_house_style
from sfumato.figures.sheet.text import FINEST_COUNT, round_records, wrap_name, write
from sfumato.kernels.arrays import Floats, Integers, Mask
from sfumato.outputs.contributors import ALONE, Contributors, join_contributors
from sfumato.outputs.output import OutputRefused
from sfumato.outputs.quantiles import (
    FIVE,
    choose_step,
    find_windows,
    order_statistics,
    safe_quantiles,
)

if TYPE_CHECKING:
    from typing import Unpack

    from matplotlib.axes import Axes

    from sfumato.figures.public.plot import Plot
    from sfumato.outputs.rules import Rules

_STEPS = {"generalise": 20}
_MOST_STEPS = 100
"""Round times along the axis; fewer for "generalise"."""
_WHY = "Times were joined until k events lie between them, so that no single event shows."
_WORDS = {
    name: "The curve is read at round times with {events} between them, and straight in between; "
    f"it ends while at least {{k}} {{unit}} are at risk{more}."
    for name, more in (("suppress", ""), ("generalise", ". The times are far apart"))
}
_MERGED = (
    "The curve is read at round times with {events} between them, and ends while {k} {unit} are "
    "at risk."
)
_BANDS = "Bands are {level:g} % intervals, widened to all that may lie between two times."
_MANY = 1000
_FINE, _COARSE = 0.001, 0.005
"""To what a share is rounded, by whether there are many records."""
_RISK_ROW, _RISK_TOP, _RISK_POINTS = 0.17, 42.0, 11.0
"""Inches of a row of numbers at risk; and points from the axis to the first, and between two."""
_GRAINS = 200
"""What `grain` cuts a spread into."""


@takes(Shielded)
def survival(
    data: Any,
    time: str,
    event: str,
    *,
    hue: str | None = None,
    bins: int | None = None,
    level: float = 0.95,
    interval: bool = True,
    **asked: Unpack[Shielded],
) -> Plot:
    """The curve of Kaplan and Meier, read at round times with at least k events between them.

    Question: how long do people stay free of the event, and does it differ by group?
    Assumes: those who leave early (event 0) have the same outlook as those who stay. At the times
    of its table the share is exact but for rounding; between two of them the true curve may lie
    anywhere in the band. Numbers at risk are rounded down.

    Parameters
    ----------
    time : how long each record was followed up.
    event : whether the event ended that time: 1 (or yes), or 0 where something else did; or 2 and
        1.
    protection : kind of protection: "suppress" (default) merges steps; "generalise" reads the curve
        at 20 times only; "deterministic" and "noise" make the curve from protected times, and merge
        all the same.
    k : fewest events in a step, and records at risk at the end.
        Default: the rules' k, which is 3.
    bins : number of round times along the axis: no more than the rules allow bins. Default: about
        100, or 20 for "generalise", and fewer where the records are.
    sd_share : SD of the noise, as a share of that of the times.
    level : level of the band.
    interval : draw the band.

    Examples
    --------
    >>> import numpy as np, polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"years": np.arange(1.0, 61.0) / 6, "died": [1, 1, 0] * 20})
    >>> made = sf.plots.survival(frame, "years", "died", bins=10)
    >>> made.table["time"].to_list()[:4], made.table["survival"].to_list()[:4]
    ([0.0, 1.0, 2.0, 3.0], [1.0, 0.935, 0.865, 0.79])

    References: Kaplan & Meier (1958), JASA 53:457.
    """
    heading = f"Time to {event}{f' by {hue}' if hue is not None else ''}"
    request = make_request("survival", heading, [time, event], hue=hue, bins=bins, **asked)
    if not 0 < level < 1:
        raise PlanError("level lies between 0 and 1.", hint="for instance level=0.95.")
    with request.record_refusals():
        times = select_survival_times(data, time, event, hue, rules=request.rules, k=request.k)
        resolved = request.resolve(times.subjects, default="suppress", why=_WHY)
        number = times.subjects.units.count(times.subjects.records)
        steps = _resolve_steps(resolved, request, number)
        groups, curves, notes = _compute_curves(times, resolved, request, level)
    # The log names both variables.
    subjects = replace(times.subjects, groups=groups, names=(time, event))
    with use_house_style():
        figure, panels, looks = make_group_panels(
            subjects.labels, subjects.describe(time), f"Share without {subjects.describe(event)}",
            height=3.4 + _RISK_ROW * (len(curves) + 1),
        )  # fmt: skip
        for index, (axes, curve, look) in enumerate(zip(panels, curves, looks, strict=True)):
            draw_curve(axes, curve, look, index, interval=interval)
        at_risk = write_at_risk(panels, curves, looks)
        band = [_BANDS.format(level=100 * level)] if interval else []
        return make_plot(
            figure,
            list(dict.fromkeys(panels)),
            request,
            protection=replace(
                resolved, wording=_describe(resolved, _WORDS.get(resolved.name, ""))
            ),
            subjects=subjects,
            table=_make_table(curves, subjects, at_risk, interval=interval),
            notes=[*notes, *band],
            rule={"bins": steps, "level": level},
            details={"steps": sum(len(curve.times) for curve in curves)},
            legend=[look for look in looks if look.name],
            distance=_measure_distance(times, subjects, curves),
        )


# Times and events --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SurvivalTimes:
    """The records of a survival curve; `events` says by group who had the event."""

    subjects: Subjects
    events: tuple[Mask, ...]


def select_survival_times(
    data: Any, time: str, event: str, hue: str | None = None, *, rules: Rules, k: int
) -> SurvivalTimes:
    """The complete records. Everybody may have had the event, so it need not vary."""
    dataset = to_dataset(data)
    dataset.schema.require([time, event])
    happened = dataset.column(event)
    if (missing := happened.is_null()).any():
        # Who lacks the event lacks both, so that all are counted as missing together.
        dataset = dataset.with_columns(pl.DataFrame([dataset.column(time).set(missing, None)]))
    mask = _read_events(happened, event)
    subjects = select_subjects(dataset, [time], hue, rules=rules, k=k)
    if (subjects.column(time) < 0).any():
        raise PlanError(
            f"Variable '{time}' holds times below 0.", hint="time runs from the start, which is 0."
        )
    events = [mask if group.positions is None else mask[group.positions]
              for group in subjects.groups]  # fmt: skip
    return SurvivalTimes(subjects, tuple(events))


def _read_events(values: pl.Series, name: str) -> Mask:
    """Who had the event: 1 against 0, or 2 against 1, as survival data of R have it."""
    known = values.drop_nulls()
    codes: set[float] = set()
    if known.dtype == pl.Boolean or known.dtype.is_numeric():
        codes = set(known.cast(pl.Float64).unique().to_list())
    if codes == {1.0, 2.0}:
        event = 2.0
    elif codes and codes <= {0.0, 1.0}:
        event = 1.0
    else:
        raise DataError(
            f"Variable '{name}' must say whether the event came: with 0 and 1, with 1 and 2, or "
            "with yes and no.",
            hint="recode it: 1 where the event ended the time, 0 where something else did.",
        )
    return np.asarray(values.cast(pl.Float64).fill_null(0.0).to_numpy() == event)


def _compute_curves(
    times: SurvivalTimes, protection: Protection, request: Request, level: float
) -> tuple[tuple[Group, ...], list[SafeSurvivalCurve], list[str]]:
    """The curve of every group that has enough events; the others are left out."""
    (time,) = times.subjects.names
    protected, notes = [], []
    for group, happened in zip(times.subjects.groups, times.events, strict=True):
        if protection.cells:
            protected.append((group.column(time), happened, group.units))
        else:
            moved, events, units, sentences = _protect_times(group, happened, protection, time)
            protected.append((moved, events, units))
            notes += [*sentences, _describe(protection, _MERGED)]
    curves = []
    for column, events, units in protected:
        # Of its own: a small group would coarsen the times of all others.
        steps = _resolve_steps(protection, request, units.count(len(column)))
        step = choose_time_step(column, steps=steps, k=protection.k, units=units)
        curves.append(
            compute_safe_curve(column, events, step=step, k=protection.k, level=level, units=units)
        )
    pairs = [(group, curve) for group, curve in zip(times.subjects.groups, curves, strict=True)
             if curve]  # fmt: skip
    if not pairs:
        raise OutputRefused(
            f"There are {_count_events(protection, 'fewer than')} to show.",
            hint="take larger groups, or a longer time.",
        )
    if len(pairs) < len(curves):
        notes.append("Groups with few events are left out.")
    return tuple(group for group, _ in pairs), [curve for _, curve in pairs], notes


def _count_events(protection: Protection, bound: str) -> str:
    if protection.unit == "records":
        return f"{bound} {protection.k} events"
    return f"events of {bound} {protection.k} {protection.unit}"


def _describe(protection: Protection, sentence: str) -> str:
    """A sentence with what k counts in it."""
    events = _count_events(protection, "at least")
    return sentence.format(k=protection.k, unit=protection.unit, events=events)


def _resolve_steps(protection: Protection, request: Request, records: int) -> int:
    """How many round times; few, since one comes right after somebody's event."""
    default = _STEPS.get(protection.name, _MOST_STEPS)
    return resolve_bins(request.bins, default, records, request.rules)


def _protect_times(
    group: Group, happened: Mask, protection: Protection, time: str
) -> tuple[Floats, Mask, Contributors, list[str]]:
    """Protected times: of events and of ends without one apart, so that each stays what it is."""
    times, events, units = [], [], []
    notes: list[str] = []
    for had_event in (True, False):
        rows = np.flatnonzero(happened == had_event)
        if not len(rows):
            continue
        if group.units.take(rows).count(len(rows)) < 2 * protection.k:
            raise OutputRefused(
                "A group has too few events, or too few ends without one, to protect their times.",
                hint='take larger groups, or protection="suppress".',
            )
        moved = protect_values(group.take(rows), [time], protection)
        times.append(moved.column(time))
        events.append(np.full(len(moved), had_event))
        units.append(moved.units)
        notes += moved.notes()
    return np.concatenate(times), np.concatenate(events), join_contributors(units), notes


# Curves ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KaplanMeierCurve:
    """The exact curve, for the custodian: one row for each time at which something happened.

    Parameters
    ----------
    times : distinct times of events, rising.
    at_risk, events : how many had neither event nor end before that time; how many have it then.
    survival : share that is free of the event after that time.
    error : the standard error of that share (Greenwood).
    """

    times: Floats
    at_risk: Integers
    events: Integers
    survival: Floats
    error: Floats


@dataclass(frozen=True)
class SafeSurvivalCurve:
    """What may be drawn: the share at a few round times, with its band.

    Parameters
    ----------
    times, survival : the round times, and the share without the event there.
    low, high : its interval.
    end : how far the curve is drawn.
    records : the protected time of every record, for the numbers at risk.
    """

    times: tuple[float, ...]
    survival: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    end: float
    records: Floats | None = field(default=None, repr=False, compare=False)

    @property
    def corners(self) -> tuple[list[float], list[float]]:
        """Where the line bends: times and shares."""
        return [0.0, *self.times, self.end], [1.0, *self.survival, self.survival[-1]]

    def count_at_risk(self, time: float) -> int | None:
        """How many records are still at risk at a time, rounded down; None beyond the end."""
        if self.records is None or not 0 <= time <= self.end:
            return None
        return round_records(int((self.records >= time).sum()))


def kaplan_meier(times: Floats, events: Mask) -> KaplanMeierCurve:
    """Multiply, from event to event, the share of those at risk who stay free of it.

    Examples
    --------
    >>> curve = kaplan_meier(np.array([1.0, 2, 2, 3]), np.array([True, True, False, True]))
    >>> curve.survival.round(3).tolist(), curve.at_risk.tolist()
    ([0.75, 0.5, 0.0], [4, 3, 1])
    """
    order = np.sort(times)
    happened, counts = np.unique(times[events], return_counts=True)
    at_risk = len(times) - np.searchsorted(order, happened, "left")
    survival = np.asarray(np.cumprod(1 - counts / at_risk), np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.sqrt(np.cumsum(counts / (at_risk * (at_risk - counts))))
        error = np.where(survival > 0, survival * spread, np.nan)
    return KaplanMeierCurve(
        happened, at_risk.astype(np.int64), counts.astype(np.int64), survival, error
    )


def choose_time_step(times: Floats, *, steps: int, k: int, units: Contributors = ALONE) -> float:
    """A round length of time, about so many of which make up the time of most records."""
    if units:
        (most,) = safe_quantiles(times, at=FIVE[-1:], k=k, units=units).values
        return choose_step(most * _GRAINS / steps)
    (start,) = find_windows(len(times), FIVE[-1:], k)
    most = math.fsum(order_statistics(times, np.arange(start, start + k))) / k
    return choose_step(most * _GRAINS / steps)


def compute_safe_curve(
    times: Floats,
    events: Mask,
    *,
    step: float,
    k: int = 3,
    level: float = 0.95,
    units: Contributors = ALONE,
) -> SafeSurvivalCurve | None:
    """The curve at round times, each step at least k events, as long as k records are at risk.

    At the foot of a step the share is exact but for its rounding. None where fewer than k events
    can be shown: then there is no curve to draw.

    Parameters
    ----------
    times : how long each record was followed up; not below 0.
    events : whether the event ended it.
    step : the grid of times, see `choose_time_step`.
    k : least number of events in a step, and of records at risk at the end.
    level : of the band, point by point.
    units : whose each record is: then a step has events of k of them, and k are at risk.

    Examples
    --------
    >>> times = np.arange(1.0, 21.0)
    >>> made = compute_safe_curve(times, np.ones(20, bool), step=1.0, k=3)
    >>> made.times, made.survival[:2], made.end
    ((3.0, 6.0, 9.0, 12.0, 15.0), (0.85, 0.7), 15.0)
    """
    if len(times) <= k or step <= 0:
        return None
    end = _find_end(times, step, k, units)
    curve = kaplan_meier(times, events)
    ticks = _count_ticks(curve.times, step)
    shown = ticks <= end
    if units:
        happened = np.flatnonzero(events)
        of_events = _count_ticks(times[happened], step)
        early = of_events <= end
        feet, end = _merge_unit_steps(of_events[early], units.take(happened[early]), end, k)
    else:
        feet, end = _merge_steps(ticks[shown], curve.events[shown], end, k)
    if not feet:
        return None
    index = np.searchsorted(ticks, feet, "right") - 1
    low, high = confidence_band(curve.survival[index], curve.error[index], level)
    fine = _FINE if len(times) >= _MANY else _COARSE
    return SafeSurvivalCurve(
        tuple(_round_time(foot, step) for foot in feet),
        _round_shares(curve.survival[index], fine),
        _round_shares(low, fine),
        _round_shares(high, fine),
        _round_time(end, step),
        times,
    )


def confidence_band(survival: Floats, error: Floats, level: float) -> tuple[Floats, Floats]:
    """Limits that stay between 0 and 1: symmetric for the logarithm of the cumulated risk.

    Examples
    --------
    >>> low, high = confidence_band(np.array([0.8]), np.array([0.05]), 0.95)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.68], [0.879])
    """
    quantile = NormalDist().inv_cdf(0.5 + level / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        risk = -np.log(survival)
        factor = np.exp(quantile * error / (survival * risk))
        low, high = np.exp(-risk * factor), np.exp(-risk / factor)
    return low, high


def _count_ticks(times: Floats, step: float) -> Integers:
    """The first round time not before each time, in steps; exact, whatever division says."""
    ticks = np.ceil(times / step)
    ticks += ticks * step < times
    ticks -= (ticks - 1) * step >= times
    return ticks.astype(np.int64)


def _find_end(times: Floats, step: float, k: int, units: Contributors) -> int:
    """The last round time after which at least k records are still at risk, in steps."""
    depth = units.take(units.sort(times)[::-1]).find_depth(k)
    if depth is None:
        return 0
    (last,) = order_statistics(times, np.array([len(times) - depth]))
    # The k-th longest time lies after the round time before its own, so k records do.
    return max(int(_count_ticks(np.array([last]), step)[0]) - 1, 0)


def _merge_steps(ticks: Integers, counts: Integers, end: int, k: int) -> tuple[list[int], int]:
    """The feet of the steps, as soon as k events have come, and where the curve ends.

    It ends with its last step where a few more events follow: drawn on, it would deny them.
    """
    feet: list[int] = []
    waiting = 0
    distinct, starts = np.unique(ticks, return_index=True)
    sums = np.add.reduceat(counts, starts) if len(starts) else counts
    for tick, count in zip(distinct.tolist(), sums.tolist(), strict=True):
        waiting += count
        if waiting >= k:
            feet.append(tick)
            waiting = 0
    return feet, feet[-1] if waiting and feet else end


def _merge_unit_steps(
    ticks: Integers, units: Contributors, end: int, k: int
) -> tuple[list[int], int]:
    """The same where persons or groups are counted: a step has events of k of them."""
    feet: list[int] = []
    waiting = np.zeros(len(ticks), bool)
    for tick in np.unique(ticks).tolist():
        waiting |= ticks == tick
        if not units.find_small(np.where(waiting, 0, -1), 1, k)[0]:
            feet.append(tick)
            waiting[:] = False
    return feet, feet[-1] if waiting.any() and feet else end


def _round_time(ticks: int, step: float) -> float:
    return float(f"{ticks * step:.12g}")


def _round_shares(values: Floats, fine: float) -> tuple[float, ...]:
    return tuple(round(round(value / fine) * fine, 3) for value in values.tolist())


# Drawing -----------------------------------------------------------------------------------------


def draw_curve(
    axes: Axes, curve: SafeSurvivalCurve, look: Mark, index: int, *, interval: bool
) -> None:
    """One curve with its band."""
    times, shares = curve.corners
    axes.plot(times, shares, color=look.colour, linewidth=1.6)
    if look.name:
        # A few shapes along the line: colour alone tells nobody apart.
        stride = max(1, len(curve.times) // 4)
        marked = slice(index % stride, None, stride)
        axes.plot(curve.times[marked], curve.survival[marked], linestyle="", marker=look.marker,
                  color=look.colour, markersize=4.5)  # fmt: skip
    if interval:
        low, high = _widen_band(curve)
        axes.fill_between(times, low, high, step="post", color=look.colour, alpha=0.16,
                          linewidth=0)  # fmt: skip


def _widen_band(curve: SafeSurvivalCurve) -> tuple[list[float], list[float]]:
    """The band from each corner to the next: wherever the events between them came, it holds."""
    low, high = (
        [value if math.isfinite(value) else unknown for value in ends]
        for ends, unknown in ((curve.low, 0.0), (curve.high, 1.0))
    )
    return [*low, low[-1], low[-1]], [1.0, *high, high[-1]]


def write_at_risk(
    panels: Sequence[Axes], curves: Sequence[SafeSurvivalCurve], looks: Sequence[Mark]
) -> list[list[tuple[float, int]]]:
    """The numbers at risk under the ticks, a row for each curve; what was written, by curve."""
    right = max(curve.end for curve in curves)
    rows = []
    for index, (axes, curve, look) in enumerate(zip(panels, curves, looks, strict=True)):
        axes.set(xlim=(0, 1.03 * right), ylim=(0, 1.02))
        row = index if look.name else 0
        if row == 0:
            _write_below(axes, 0.0, -_RISK_TOP, "At risk, rounded down", align="left")
        numbers = [(float(tick), count) for tick in axes.get_xticks()
                   if (count := curve.count_at_risk(float(tick))) is not None]  # fmt: skip
        below = -_RISK_TOP - _RISK_POINTS * (row + 1)
        for tick, count in numbers:
            _write_below(axes, tick, below, f"{count:,}" if count else f"<{FINEST_COUNT}")
        if look.name:
            _write_below(axes, 0.0, below, wrap_name(look.name, width=9, lines=1), indent=-20,
                         align="right", colour=look.colour)  # fmt: skip
        rows.append([(tick, count) for tick, count in numbers if count])
    return rows


def _write_below(
    axes: Axes, x: float, points: float, text: str, *, align: str = "center", indent: float = 0.0,
    colour: str = INK,
) -> None:  # fmt: skip
    label = axes.annotate(
        "", (x, 0), xycoords=axes.get_xaxis_transform(), xytext=(indent, points),
        textcoords="offset points", ha=align, va="center", fontsize=SMALL, color=colour,
        annotation_clip=False,
    )  # fmt: skip
    write(label, text)


def _measure_distance(
    times: SurvivalTimes, subjects: Subjects, curves: Sequence[SafeSurvivalCurve]
) -> Distance:
    """How far the curves are from those of Kaplan and Meier, as far as they are drawn."""
    (time,) = times.subjects.names
    exact = {
        group.label: kaplan_meier(group.column(time), events)
        for group, events in zip(times.subjects.groups, times.events, strict=True)
    }
    gaps = [
        compare_survival(curve, exact[label])
        for curve, label in zip(curves, subjects.labels, strict=True)
    ]
    return measure_groups("the share without the event at any time shown", subjects, gaps)


def compare_survival(curve: SafeSurvivalCurve, exact: KaplanMeierCurve) -> float:
    """The largest difference of two curves, just before and after everything that happens."""
    times, shares = curve.corners
    positions = np.union1d(exact.times[exact.times <= curve.end], times)
    shown = np.interp(positions, times, shares)
    steps = np.append(1.0, exact.survival)
    before, after = (steps[np.searchsorted(exact.times, positions, side)]
                     for side in ("left", "right"))  # fmt: skip
    return float(max(np.abs(shown - before).max(), np.abs(shown - after).max()))


def _make_table(
    curves: list[SafeSurvivalCurve],
    subjects: Subjects,
    at_risk: Sequence[Sequence[tuple[float, int]]],
    *,
    interval: bool,
) -> pl.DataFrame:
    """The corners of each curve; and, as rows of their own, the numbers at risk below it."""
    tables = []
    for label, curve, numbers in zip(subjects.labels, curves, at_risk, strict=True):
        times = [0.0, *curve.times]
        columns: dict[str, Any] = {"group": [label] * len(times), "time": times}
        columns["survival"] = [1.0, *curve.survival]
        if interval:
            columns |= {"low": [1.0, *curve.low], "high": [1.0, *curve.high]}
        if curve.end > times[-1]:
            columns = {name: [*values, values[-1]] for name, values in columns.items()}
            columns["time"][-1] = curve.end
        below = pl.DataFrame(
            [(label, time, count) for time, count in numbers],
            {"group": pl.String, "time": pl.Float64, "at_risk": pl.Int64}, orient="row",
        )  # fmt: skip
        tables += [pl.DataFrame(columns), below]
    table = pl.concat(tables, how="diagonal")
    return table.drop("group") if subjects.hue is None else table
