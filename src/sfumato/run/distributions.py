"""How each variable is distributed before and after: the small bars of the internal report.

Bars stand for at least ten original records, lie between round numbers, and name only levels that
so many records have. So they show a shape, and nobody.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sfumato.cells.intervals import Intervals, read_intervals
from sfumato.cells.level_sets import list_distinct_texts, list_levels, read_level_sets
from sfumato.data import Dataset
from sfumato.errors import SfumatoError
from sfumato.io import frames
from sfumato.kernels.arrays import Floats
from sfumato.schema import IDENTIFYING, Column
from sfumato.utility.paired.spreads import spread_over_bins, spread_over_levels

FEWEST = 10
"""Records that a bar stands for at least."""
_BINS = 12
_MOST_LEVELS = 8
_TAIL = 0.01
_STEPS = (1.0, 2.0, 5.0, 10.0)
_YEAR = 365.25
_HALF = 0.5
_EPOCH = dt.date(1970, 1, 1).toordinal()
_UNREADABLE = ("pseudonyms", "deidentified", "lists")


@dataclass(frozen=True)
class DistributionBar:
    """One bar: what it stands for, how many bins wide it is, and the share of the records."""

    label: str
    width: int
    before: float
    after: float

    def plain(self) -> dict[str, Any]:
        """As plain values for JSON."""
        shares = {"before": round(self.before, 4), "after": round(self.after, 4)}
        return {"label": self.label, "width": self.width, **shares}


def tabulate_distributions(original: Dataset, released: Dataset) -> list[dict[str, Any]]:
    """By variable that is released, the bars of the original and of the release.

    Only of records in memory. Identifiers, text and what cannot be read as numbers or levels have
    no bars.
    """
    if not frames.is_in_memory(released.frame) or min(len(original), len(released)) < 2 * FEWEST:
        return []
    tables = []
    for name, column in original.schema.items():
        if name not in released.columns or not _has_bars(column, released.schema[name]):
            continue
        try:
            bars = list(_draw_bars(original, released, name))
        except SfumatoError:
            continue  # such as text among numbers; the ledger still has the variable
        if len(bars) > 1:
            scale = "numbers" if _is_number(original, name) else "levels"
            bars_plain = [bar.plain() for bar in bars]
            tables.append({"variable": name, "scale": scale, "bars": bars_plain})
    return tables


def _has_bars(before: Column, after: Column) -> bool:
    readable = after.cells not in _UNREADABLE and before.cells not in _UNREADABLE
    return (
        readable
        and before.role not in (*IDENTIFYING, "cluster")
        and before.kind not in ("text", None)
    )


def _is_number(original: Dataset, name: str) -> bool:
    dtype = original.column(name).dtype
    return dtype.is_numeric() or dtype.is_temporal()


def _draw_bars(original: Dataset, released: Dataset, name: str) -> Iterator[DistributionBar]:
    values, cells = original.column(name), released.column(name)
    before, after = original.schema[name], released.schema[name]
    count = len(values)
    if _is_number(original, name) and before.kind not in ("nominal", "ordinal"):
        kind: Any = "date" if values.dtype.is_temporal() else "number"
        whole = kind == "date" or before.kind == "integer"
        exact = read_intervals(values, before, kind)
        present = exact.per_record(exact.low)
        present = present[np.isfinite(present)]
        if len(present) < 2 * FEWEST:
            return
        edges = _choose_edges(present, whole=whole, dates=kind == "date")
        released_cells = read_intervals(cells, after, kind)
        shares = [
            spread_over_bins(_widen(side) if whole else side, edges - _HALF * whole).shares()
            for side in (exact, released_cells)
        ]
        yield from _merge_bins(edges, *shares, count=count, dates=kind == "date")
        yield from _draw_missing(float(shares[0][-1]), float(shares[1][-1]), count)
        return
    texts = [*list_distinct_texts(values), *list_distinct_texts(cells)]
    levels = list_levels(texts, after, name, ordered=False)
    shares = [
        spread_over_levels(read_level_sets(side, levels, column), len(levels)).shares()
        for side, column in ((values, before), (cells, after))
    ]
    yield from _merge_levels(levels, *shares, count=count, column=before)
    yield from _draw_missing(float(shares[0][-2]), float(shares[1][-2]), count)


def _widen(cells: Intervals) -> Intervals:
    """Ranges of whole numbers as far as their ends reach: 2 to 4 are three numbers, not two."""
    ranges = np.isfinite(cells.low) & (cells.low < cells.high)
    return replace(cells, low=cells.low - _HALF * ranges, high=cells.high + _HALF * ranges)


def _choose_edges(present: Floats, *, whole: bool, dates: bool) -> Floats:
    """Inner edges at round numbers; what lies beyond the outer hundredths joins the end bars."""
    low, high = np.quantile(present, (_TAIL, 1 - _TAIL), method="inverted_cdf")
    if dates:
        return _choose_days(float(low), float(high))
    step = _round_up((high - low) / _BINS or 1.0)
    if whole:
        step = max(1.0, step)
    first = math.floor(low / step) + 1
    last = max(math.ceil(high / step), first)
    # Exact multiples: 0.1 added up ten times is not 1.
    edges: Floats = np.array([number * step for number in range(first, last + 1)])
    return edges


def _choose_days(low: float, high: float) -> Floats:
    """The first days of years where the dates span several, else days at even distances."""
    years = math.ceil((high - low) / _YEAR / _BINS)
    if (high - low) / _YEAR > 3:  # noqa: PLR2004 - years
        first, last = (dt.date.fromordinal(_EPOCH + int(day)).year for day in (low, high))
        start = (first // years + 1) * years
        days = [dt.date(year, 1, 1) for year in range(start, last + 1, years)]
        return np.array([float(day.toordinal() - _EPOCH) for day in days])
    step = max(1.0, math.ceil((high - low) / _BINS))
    return np.arange(math.floor(low) + step, max(high, low + step) + 1, step)


def _round_up(width: float) -> float:
    """The next of 1, 2, 5, 10 and so on.

    Examples
    --------
    >>> [_round_up(width) for width in (0.03, 1.0, 3.2, 60)]
    [0.05, 1.0, 5.0, 100.0]
    """
    power = math.floor(math.log10(width))
    mantissa = next(step for step in _STEPS if width / 10.0**power <= step + 1e-9)
    return float(f"{mantissa:g}e{power}")


def _merge_bins(
    edges: Floats, before: Floats, after: Floats, *, count: int, dates: bool
) -> Iterator[DistributionBar]:
    """Neighbouring bins together, until none stands for some but fewer than ten records."""
    groups = [[number] for number in range(len(edges) + 1)]

    def size(group: Sequence[int]) -> float:
        return sum(float(before[number]) for number in group) * count

    while len(groups) > 1:
        small = [n for n, group in enumerate(groups) if 0 < round(size(group)) < FEWEST]
        if not small:
            break
        index = small[0]
        sides = [n for n in (index - 1, index + 1) if 0 <= n < len(groups)]
        other = min(sides, key=lambda n: size(groups[n]))
        first, second = sorted((index, other))
        groups[first : second + 1] = [groups[first] + groups[second]]
    for group in groups:
        low = _format_edge(edges[group[0] - 1], dates=dates) if group[0] else ""
        high = _format_edge(edges[group[-1]], dates=dates) if group[-1] < len(edges) else ""
        label = f"{low} to {high}" if low and high else f"under {high}" if high else f"from {low}"
        yield DistributionBar(
            label, len(group), float(before[group].sum()), float(after[group].sum())
        )


def _format_edge(edge: float, *, dates: bool) -> str:
    if not dates:
        return f"{edge:,.6g}"
    day = dt.date.fromordinal(_EPOCH + round(edge))
    return str(day.year) if (day.month, day.day) == (1, 1) else day.isoformat()


def _merge_levels(
    levels: Sequence[str], before: Floats, after: Floats, *, count: int, column: Column
) -> Iterator[DistributionBar]:
    """The most frequent levels by name, in their order where they have one; the others together."""
    frequent = [n for n in range(len(levels)) if round(before[n] * count) >= FEWEST]
    ranked = sorted(frequent, key=lambda n: -before[n])[:_MOST_LEVELS]
    shown = sorted(ranked) if column.kind == "ordinal" else ranked
    words = column.labels or {}
    for number in shown:
        label = words.get(levels[number], levels[number])
        yield DistributionBar(label, 1, float(before[number]), float(after[number]))
    others = [n for n in range(len(levels)) if n not in shown]
    # A released value that is none of the levels, such as "other", is in the last place.
    shares = float(before[others].sum() + before[-1]), float(after[others].sum() + after[-1])
    if round(shares[0] * count) >= FEWEST or (not shares[0] and shares[1] > 0):
        yield DistributionBar("all others", 1, *shares)


def _draw_missing(before: float, after: float, count: int) -> Iterator[DistributionBar]:
    if round(before * count) >= FEWEST:
        yield DistributionBar("missing", 1, before, after)
