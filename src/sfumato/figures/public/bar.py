"""How many records each category has, as bars of many records each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.errors import DataError
from sfumato.figures.public.distance import Distance, measure_groups
from sfumato.figures.public.grid import describe_lost, round_shown, suppress_small
from sfumato.figures.public.parameters import Shielded, takes
from sfumato.figures.public.plot import make_plot, make_request
from sfumato.figures.public.protection import Protection, judge_full_cells
from sfumato.figures.public.subjects import select_subjects, sort_labels, to_dataset
from sfumato.figures.sheet.sheet import (
    label_axes,
    make_sheet,
    name_panel,
    name_row,
    set_rows,
    share_limits,
)
from sfumato.figures.sheet.style import MOST_OVERLAID, SMALL, Mark, pick_marks, use_house_style
from sfumato.figures.sheet.text import FINEST_COUNT
from sfumato.kernels.arrays import Integers
from sfumato.outputs.contributors import ALONE, Contributors
from sfumato.outputs.output import OutputRefused
from sfumato.randomness import Draws

if TYPE_CHECKING:
    from typing import Unpack

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sfumato.data import Dataset
    from sfumato.figures.public.plot import Plot, Request
    from sfumato.figures.public.subjects import Group, Subjects

OTHER = "All others"
_MOST_LEVELS = 30
_WHY = "Small categories were joined, so that nothing is left out."
_WORDS = {
    "suppress": "Bars of fewer than {k} {unit} are left out.",
    "generalise": f"Categories of fewer than {{k}} {{unit}} are joined as “{OTHER}”.",
    "noise": "Every bar has random noise, as if each record had its own, and those of fewer than "
    "{k} {unit} are left out.",
}
_ROUNDED = "The records behind every bar are rounded to a multiple of {base}."
_THICKNESS, _ACROSS = 0.76, 3


@takes(Shielded)
def bar(
    data: Any,
    x: str,
    *,
    hue: str | None = None,
    share: bool = True,
    **asked: Unpack[Shielded],
) -> Plot:
    """Bars of at least k records each, one for every category.

    Question: how common is each category, and is it the same in all groups?
    Assumes: one record is one person, or the role "person" says whose it is. Shares are of the
    records shown.

    Parameters
    ----------
    x : the variable: of categories, yes/no values or a few whole numbers.
    protection : kind of protection: "suppress" leaves small bars out; "generalise" (default) joins
        them as one; "deterministic" rounds all counts to a multiple of 5, or of k where it is
        larger; "noise" adds random noise to the counts.
    share : lengths as a share of the records shown; otherwise counts.
    sd_share : SD of the noise, as a share: of the SD of the yes or no of each record.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"region": ["north"] * 60 + ["south"] * 38 + ["isle"] * 2})
    >>> made = sf.plots.bar(frame, "region", share=False, protection="suppress")
    >>> made.table.rows()
    [('north', 60), ('south', 38)]

    References: Avraam et al. (2021), EPJ Data Science 10:2, section 4.1.
    """
    heading = f"Records by {x}{f' and {hue}' if hue is not None else ''}"
    request = make_request("bar", heading, [x], hue=hue, **asked)
    with request.record_refusals():
        levels, coded = _code_levels(to_dataset(data), x)
        subjects = select_subjects(coded, [x], hue, rules=request.rules, k=request.k)
        resolved = request.resolve(subjects, default="generalise", why=_WHY)
        bars = _count_bars(subjects, levels, resolved, request)
        reasons = judge_full_cells([group.counts for group in bars], request.rules)
        bars = [replace(group, counts=round_shown(group.counts, request.rules)) for group in bars]
    rounded = _ROUNDED.format(base=_find_base(request.k))
    lost = sum(group.lost for group in bars) if resolved.cells else 0
    names = [name for name in (*levels, OTHER) if any(name in group for group in bars)]
    with use_house_style():
        figure, panels, looks = _draw_panels(bars, names, subjects, shares=share)
        return make_plot(
            figure,
            panels,
            request,
            protection=resolved.with_wording({**_WORDS, "deterministic": rounded}),
            subjects=subjects,
            table=_make_table(bars, names, hue, shares=share),
            notes=describe_lost(lost, subjects.records, request.k),
            reasons=reasons,
            details={"cells": sum(len(group.names) for group in bars)},
            legend=[replace(look, marker="s", line="") for look in looks if look.name],
            parts=_label_records(subjects, bars)
            if request.log is not None and resolved.cells
            else None,
            distance=_measure_distance(bars, subjects, levels),
            rounds=True,
        )


@dataclass(frozen=True, eq=False)
class LevelCounts:
    """The bars of one group.

    Parameters
    ----------
    label : of the group.
    names : of the bars, `OTHER` for categories that were joined.
    counts : how many records each has; 0 where it is hidden.
    members : by category, the index of its bar.
    lost : how many records are in no bar.
    """

    label: str
    names: list[str]
    counts: Integers
    members: Integers
    lost: int

    def __contains__(self, name: str) -> bool:
        return name in self.names and self.counts[self.names.index(name)] > 0


def _code_levels(data: Dataset, x: str) -> tuple[list[str], Dataset]:
    """The categories in their order, and the data with their numbers in their place."""
    data.schema.require([x])
    values = data.column(x)
    if values.dtype.is_float() or values.dtype.is_temporal():
        raise DataError(
            f"A bar chart shows categories, and variable '{x}' holds measured numbers or dates.",
            hint="draw a histogram of it.",
        )
    texts = values.cast(pl.String)
    levels = sort_labels(data, texts.drop_nulls().unique().to_list(), x)
    if values.dtype.is_integer() and data.schema[x].levels is None:
        levels.sort(key=int)
    if len(levels) > _MOST_LEVELS:
        raise DataError(
            f"Variable '{x}' has more categories than one figure can show.",
            hint=f"at most {_MOST_LEVELS}: join some of them.",
        )
    codes = texts.replace_strict(levels, range(len(levels)), return_dtype=pl.Float64)
    return levels, data.with_columns(pl.DataFrame([codes.alias(x)]))


def _find_base(k: int) -> int:
    return max(k, FINEST_COUNT)


def _count_bars(
    subjects: Subjects, levels: list[str], protection: Protection, request: Request
) -> list[LevelCounts]:
    if protection.method is not None or protection.name not in (*_WORDS, "deterministic"):
        raise OutputRefused(
            f"Bars of categories are not protected by '{protection.name}'.",
            hint='take "suppress", "generalise", "deterministic" or "noise".',
        )
    (x,) = subjects.names
    bars = []
    for group in subjects.groups:
        codes = group.column(x).astype(np.int64)
        counts = np.bincount(codes, minlength=len(levels))
        members, names = np.arange(len(levels)), list(levels)
        if protection.name == "generalise":
            members, names = _join_small(codes, levels, request.k, group.units)
            counts = np.bincount(members, counts, len(names)).astype(np.int64)
        elif protection.name == "deterministic":
            base = _find_base(request.k)
            counts = (counts + base // 2) // base * base
        elif protection.name == "noise":
            counts = _add_noise(counts, group, x, levels, protection)
        few = group.units.find_small(members[codes], len(names), request.k)
        shown, _ = suppress_small(np.where(few, 0, counts) if group.units else counts, request.k)
        if not shown.any():
            raise OutputRefused(
                f"Not one bar would hold enough {protection.unit}.",
                hint="join categories, or leave out hue.",
            )
        bars.append(LevelCounts(group.label, names, shown, members, len(group) - int(shown.sum())))
    return bars


def _join_small(
    codes: Integers, levels: list[str], k: int, units: Contributors = ALONE
) -> tuple[Integers, list[str]]:
    """The bar of each category: those of few records share one, with the next larger if need be."""
    counts = np.bincount(codes, minlength=len(levels))
    small = units.find_small(codes, len(levels), k)
    order = np.lexsort((counts, ~small))
    order = order[counts[order] > 0]
    joined = int(small.sum())

    def is_small(some: Integers) -> bool:
        together = np.where(np.isin(codes, some), 0, -1)
        return bool(units.find_small(together, 1, k)[0])

    while 0 < joined < len(order) and is_small(order[:joined]):
        joined += 1
    if not joined:
        return np.arange(len(levels)), list(levels)
    apart = sorted(set(range(len(levels))) - set(order[:joined].tolist()))
    members = np.full(len(levels), len(apart))
    members[apart] = np.arange(len(apart))
    return members, [*(levels[index] for index in apart), OTHER]


def _add_noise(
    counts: Integers, group: Group, x: str, levels: list[str], protection: Protection
) -> Integers:
    """Counts of yes and no with noise: each record has its own, so that it follows the record."""
    if protection.key is None:
        msg = "noise is drawn with a key"
        raise TypeError(msg)
    identity = group.dataset(identity=True).identity
    draws = Draws(protection.key, 0, identity.ids(protection.key))
    noisy = []
    for level, count in zip(levels, counts.tolist(), strict=True):
        rate = count / len(group)
        size = protection.sd_share * math.sqrt(rate * (1 - rate))
        noisy.append(count + size * math.fsum(draws.normal(f"{x}: {level}")))
    return np.maximum(np.rint(noisy), 0).astype(np.int64)


def _measure_distance(
    bars: Sequence[LevelCounts], subjects: Subjects, levels: list[str]
) -> Distance:
    """The largest difference in the share of a bar, or of a category that is left out."""
    (x,) = subjects.names
    gaps = []
    for own, group in zip(bars, subjects.groups, strict=True):
        counts = np.bincount(group.column(x).astype(np.int64), minlength=len(levels))
        exact = np.bincount(own.members, counts, len(own.names)) / len(group)
        gaps.append(float(np.abs(own.counts / own.counts.sum() - exact).max()))
    return measure_groups("the share of any bar", subjects, gaps)


def _label_records(subjects: Subjects, bars: Sequence[LevelCounts]) -> list[Integers]:
    """For the log: in which bar each record is; below 0 where it is not shown."""
    (x,) = subjects.names
    labels, first = [], 1
    for own, group in zip(bars, subjects.groups, strict=True):
        member = own.members[group.column(x).astype(np.int64)]
        label = first + member
        labels.append(np.where(own.counts[member] > 0, label, -label - 1))
        first += len(own.names) + 1
    return [np.concatenate(labels)]


# Drawing -----------------------------------------------------------------------------------------


def _draw_panels(
    bars: Sequence[LevelCounts], names: Sequence[str], subjects: Subjects, *, shares: bool
) -> tuple[Figure, list[Axes], list[Mark]]:
    """All groups in one panel, side by side; more than a few in a panel each."""
    (x,) = subjects.names
    texts = subjects.data.schema[x].labels or {}
    apart = len(bars) > MOST_OVERLAID
    columns = _ACROSS if apart else 1
    height = 0.85 + (0.2 * (1 if apart else len(bars)) + 0.14) * len(names)
    rows = math.ceil(len(bars) / columns) if apart else 1
    figure, panels = make_sheet(max(height, 1.3) * rows, rows=rows, columns=columns)
    looks = pick_marks(subjects.labels, grouped=subjects.hue is not None and not apart)
    for spare in panels[len(bars) if apart else 1 :]:
        spare.remove()
    used = panels[: len(bars)] if apart else panels[:1]
    for index, axes in enumerate(used):
        chosen = [index] if apart else range(len(bars))
        _draw_rows(axes, [bars[one] for one in chosen], names, [looks[one] for one in chosen],
                   shares=shares)  # fmt: skip
        name_panel(axes, "", bars[index].label if apart else subjects.describe(x),
                   width=70 // columns, size=SMALL)  # fmt: skip
        for row, name in enumerate(names if index % columns == 0 else ()):
            name_row(axes, row, texts.get(name, name))
        label_axes(axes, "Share of records shown" if shares else "Records", width=60 // columns)
    return figure, share_limits(used), looks


def _draw_rows(
    axes: Axes,
    bars: Sequence[LevelCounts],
    names: Sequence[str],
    looks: Sequence[Mark],
    *,
    shares: bool,
) -> None:
    """A row for each category, in it a bar for each group."""
    set_rows(axes, len(names))
    thickness = _THICKNESS / len(bars)
    for index, (own, look) in enumerate(zip(bars, looks, strict=True)):
        offset = (index - (len(bars) - 1) / 2) * thickness
        lengths = _read_lengths(own, names, shares=shares)
        axes.barh([row + offset for row, length in enumerate(lengths) if length],
                  [length for length in lengths if length], 0.92 * thickness,
                  color=look.colour, alpha=0.75, linewidth=0)  # fmt: skip
    axes.set_xlim(left=0)


def _read_lengths(own: LevelCounts, names: Sequence[str], *, shares: bool) -> list[float]:
    """How long the bar of each category is; 0 where there is none."""
    total = int(own.counts.sum()) if shares else 1
    counts = dict(zip(own.names, own.counts.tolist(), strict=True))
    return [counts.get(name, 0) / total if shares else counts.get(name, 0) for name in names]


def _make_table(
    bars: Sequence[LevelCounts], names: Sequence[str], hue: str | None, *, shares: bool
) -> pl.DataFrame:
    rows = [
        (own.label, name, length)
        for own in bars
        for name, length in zip(names, _read_lengths(own, names, shares=shares), strict=True)
        if length
    ]
    column = "share" if shares else "records"
    table = pl.DataFrame(rows, schema=["group", "level", column], orient="row")
    return table.drop("group") if hue is None else table
