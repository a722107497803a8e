"""The share that is still free of an event as time goes by, in steps of many events each."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.errors import PlanError
from sfumato.figures._sheet.sheet import label_axes, sheet
from sfumato.figures._sheet.style import BLUE, Mark, house_style, mark
from sfumato.figures.public.drawn import finished, refusals
from sfumato.figures.public.grid import allowed_bins
from sfumato.figures.public.lives import Lives, lives_of
from sfumato.figures.public.protection import Protecting, Protection, house_of, points, resolve
from sfumato.figures.public.subjects import Group
from sfumato.figures.public.survived import SafeCurve, safe_curve, time_step
from sfumato.figures.public.worded import worded
from sfumato.outputs.judged import OutputRefused

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.axes import Axes

    from sfumato.figures.public.plot import Plot
    from sfumato.figures.public.protection import Keyed
    from sfumato.figures.public.subjects import Subjects
    from sfumato.outputs.log import Log
    from sfumato.outputs.rules import Rules

_STEPS = {"generalise": 20}
_MOST = 100
"""Round times along the axis; fewer for "generalise"."""
_WHY = "Steps were merged: that keeps the curve exact at every step."
_WORDS = {
    name: "Times are round, every step holds at least {k} events, and the curve ends while at "
    f"least {{k}} records are at risk{more}."
    for name, more in (("suppress", ""), ("generalise", ", in wide steps"))
}
_KEPT = (
    "Steps of fewer than {k} events are merged, and the curve ends while {k} records are at risk."
)


def survival(  # noqa: PLR0913 - all but three by name only
    data: Any,
    time: str,
    event: str,
    *,
    hue: str | None = None,
    protection: Protecting | None = None,
    k: int | None = None,
    bins: int | None = None,
    sd_share: float = 0.25,
    key: Keyed = None,
    level: float = 0.95,
    interval: bool = True,
    title: str | None = None,
    rules: Rules | None = None,
    log: Log | None = None,
) -> Plot:
    """The curve of Kaplan and Meier, read at round times, every step at least k events.

    Question: how long do people stay free of the event, and does it differ by group?
    Assumes: who leaves early (event 0) has the same outlook as who stays. At the foot of each
    step the share is exact but for rounding; just before it, the true curve may lie lower.

    Parameters
    ----------
    data : a frame, a Dataset or a release.
    time : how long each record was looked at.
    event : 1 (or yes) where the event ended that time, 0 where something else did.
    hue : a variable that makes groups; each is protected by itself.
    protection : "suppress" (default) merges steps; "generalise" reads the curve at 20 times only;
        "deterministic" and "noise" make the curve from protected times, and merge all the same.
    k : fewest events in a step, and fewest records at risk at the end.
        Default: the rules' k, which is 3.
    bins : how many round times along the axis, no more than the rules allow bins. Default: about
        100, or 20 for "generalise", and fewer where the records are.
    sd_share : SD of the noise as a share of the times'.
    key : the custodian's secret, for noise that is the same next time.
    level : of the band.
    interval : draw the band.
    title : of the figure.
    rules : the house rules.
    log : where the output is listed.

    Examples
    --------
    >>> import numpy as np, polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"years": np.arange(1.0, 61.0) / 6, "died": [1, 1, 0] * 20})
    >>> made = sf.plots.survival(frame, "years", "died", bins=10)
    >>> made.table["time"].to_list()[:4], made.table["survival"].to_list()[:4]
    ([0.0, 1.0, 2.0, 3.0], [1.0, 0.935, 0.865, 0.79])

    References: Kaplan & Meier (1958), JASA 53:457.
    """
    house, k = house_of(rules, log, k)
    named = title or f"Time to {event}{f' by {hue}' if hue is not None else ''}"
    groups = () if hue is None else (hue,)
    if not 0 < level < 1:
        raise PlanError("level lies between 0 and 1.", hint="for instance level=0.95.")
    with refusals(log, kind="survival", title=named, variables=[time, event], groups=groups):
        made = lives_of(data, time, event, hue, rules=house, k=k)
        who = made.named(event)
        way = resolve(protection, default="suppress", why=_WHY, records=who.fewest, k=k,
                      sd_share=sd_share, key=key, rules=house)  # fmt: skip
        # A step ends at the round time after somebody's event: round times must be few.
        steps = allowed_bins(bins, _STEPS.get(way.name, _MOST), who.fewest, house)
        kept, curves, notes = _curves(made, way, steps, level)
        who = replace(who, groups=kept)
    with house_style():
        figure, (axes,) = sheet(3.4)
        looks = [mark(at, one.label) for at, one in enumerate(who.groups)]
        looks = looks if hue is not None else [Mark("", BLUE)]
        for at, (one, look) in enumerate(zip(curves, looks, strict=True)):
            _draw(axes, one, look, at, interval=interval)
        axes.set_ylim(0, 1.02)
        axes.set_xlim(left=0)
        label_axes(axes, time, f"Share without {event}", width=60)
        band = [f"Bands are {100 * level:g} % intervals, time by time."] if interval else []
        return finished(
            figure,
            [axes],
            kind="survival",
            title=named,
            protection=worded(way, _WORDS),
            shown_of=who,
            table=_table(curves, who, interval=interval),
            notes=[*notes, *band],
            rule={"bins": steps, "level": level},
            details={"steps": sum(len(one.times) for one in curves)},
            legend=looks if hue is not None else (),
            log=log,
        )


def _curves(
    lives: Lives, way: Protection, steps: int, level: float
) -> tuple[tuple[Group, ...], list[SafeCurve], list[str]]:
    """The curve of every group that has enough events; the others are left out."""
    who, (time,) = lives.who, lives.who.names
    protected, notes = [], []
    for group, happened in zip(who.groups, lives.events, strict=True):
        if way.cells:
            protected.append((group.column(time), happened))
        else:
            times, events, said = _moved(group, happened, way, time)
            protected.append((times, events))
            notes += [*said, _KEPT.format(k=way.k)]
    step = time_step(np.concatenate([one for one, _ in protected]), steps=steps, k=way.k)
    made = [safe_curve(*one, step=step, k=way.k, level=level) for one in protected]
    kept = [(one, curve) for one, curve in zip(who.groups, made, strict=True) if curve]
    if not kept:
        raise OutputRefused(
            f"There are fewer than {way.k} events to show.",
            hint="take larger groups, or a longer time.",
        )
    if len(kept) < len(made):
        notes.append("Groups with few events are left out.")
    return tuple(one for one, _ in kept), [one for _, one in kept], notes


def _moved(
    group: Group, happened: npt.NDArray[np.bool_], way: Protection, time: str
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_], list[str]]:
    """Protected times: of events and of ends without one apart, so that each stays what it is."""
    times, events = [], []
    said: list[str] = []
    for what in (True, False):
        some = np.flatnonzero(happened == what)
        if not len(some):
            continue
        if len(some) < 2 * way.k:
            raise OutputRefused(
                "A group has too few events, or too few ends without one, to protect their times.",
                hint='take larger groups, or protection="suppress".',
            )
        places = some if group.positions is None else group.positions[some]
        values = group.values[some].select(time)
        part = Group(label=group.label, values=values, origin=group.origin, positions=places)
        made = points(part, [time], way)
        # Time has a natural end: nobody has the event before the start.
        times.append(np.maximum(made.column(time), 0.0))
        events.append(np.full(len(made), what))
        said += made.notes()
    if any((one == 0).any() for one in times):
        said.append("Times that would fall before the start are set to it.")
    return np.concatenate(times), np.concatenate(events), said


def _draw(axes: Axes, one: SafeCurve, look: Mark, at: int, *, interval: bool) -> None:
    times = [0.0, *one.times, one.end]
    shares = [1.0, *one.survival, one.survival[-1]]
    axes.plot(times, shares, drawstyle="steps-post", color=look.colour, linewidth=1.6)
    if look.name:
        # A few shapes along the line: colour alone tells nobody apart.
        every = max(1, len(one.times) // 4)
        axes.plot(one.times[at % every :: every], one.survival[at % every :: every], linestyle="",
                  marker=look.marker, color=look.colour, markersize=4.5)  # fmt: skip
    if interval:
        low = [_known(value, 1.0) for value in (1.0, *one.low, one.low[-1])]
        high = [_known(value, 1.0) for value in (1.0, *one.high, one.high[-1])]
        axes.fill_between(times, low, high, step="post", color=look.colour, alpha=0.16,
                          linewidth=0)  # fmt: skip


def _known(value: float, otherwise: float) -> float:
    return value if math.isfinite(value) else otherwise


def _table(curves: list[SafeCurve], who: Subjects, *, interval: bool) -> pl.DataFrame:
    made = []
    for group, one in zip(who.groups, curves, strict=True):
        times = [0.0, *one.times]
        columns: dict[str, Any] = {"group": [group.label] * len(times), "time": times}
        columns["survival"] = [1.0, *one.survival]
        if interval:
            columns |= {"low": [1.0, *one.low], "high": [1.0, *one.high]}
        if one.end > times[-1]:
            columns = {name: [*held, held[-1]] for name, held in columns.items()}
            columns["time"][-1] = one.end
        made.append(pl.DataFrame(columns))
    table = pl.concat(made)
    return table.drop("group") if who.hue is None else table
