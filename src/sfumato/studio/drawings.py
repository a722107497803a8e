"""Where the marks of small pictures stand, so that a template can draw them without a script."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WIDTH, HEIGHT = 720.0, 380.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 16.0, 14.0, 46.0
_WIDE = 30.0
"""The ratio from which on an axis is logarithmic."""
_TICKS = 5
_ROW = 34.0
_NAMES = 190.0
_LETTERS = 26
_PAD = 0.06


@dataclass(frozen=True)
class ChartAxis:
    """Numbers to positions: from `low` at `start` to `high` at `end`."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def place(self, number: float) -> float:
        """The position of a number; beyond the ends, the end."""
        low, high, value = self.low, self.high, min(max(number, self.low), self.high)
        if self.logarithmic:
            low, high, value = math.log(low), math.log(high), math.log(value)
        share = (value - low) / (high - low)
        return round(self.start + share * (self.end - self.start), 2)

    def list_ticks(self) -> list[dict[str, Any]]:
        """Round numbers along the axis."""
        numbers = _list_powers(self.low, self.high) if self.logarithmic else _list_steps(
            self.low, self.high
        )  # fmt: skip
        return [{"at": self.place(number), "text": f"{number:g}"} for number in numbers]


def make_axis(
    numbers: Sequence[float], start: float, end: float, *, wide: bool = False, pad: float = _PAD
) -> ChartAxis:
    """An axis with room for all numbers; logarithmic where they are of different magnitudes.

    Examples
    --------
    >>> make_axis([0, 1], 0, 100, pad=0).place(0.5)
    50.0
    """
    low, high = min(numbers), max(numbers)
    if wide and low > 0 and high / low >= _WIDE:
        return ChartAxis(low / 1.3, high * 1.3, start, end, logarithmic=True)
    room = pad * (high - low) or (max(abs(high), 1.0) * 0.1 if low == high else 0.0)
    return ChartAxis(low - room, high + room, start, end)


def _list_steps(low: float, high: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten, about five of them."""
    rough = (high - low) / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def _list_powers(low: float, high: float) -> list[float]:
    numbers = [base * 10.0**power for power in range(-9, 10) for base in (1, 2, 5)]
    shown = [number for number in numbers if low <= number <= high]
    return shown if len(shown) <= 2 * _TICKS else shown[::3]


def draw_map(search: Mapping[str, Any], target: int) -> dict[str, Any]:
    """The risk-utility map of a search, held against one of its targets: left loses less.

    Down is safer: where the target is a least number, the axis is turned.
    """
    bounds = search["bounds"][target]
    shown = [
        item for item in search["candidates"]
        if item["loss"] is not None and len(item["numbers"]) > target
        and item["numbers"][target] is not None
    ]  # fmt: skip
    if not shown:
        return {"points": [], "left_out": len(search["candidates"])}
    numbers = [item["numbers"][target] for item in shown]
    x = make_axis([0.0, *(item["loss"] for item in shown)], _LEFT, WIDTH - _RIGHT)
    turned = "min" in bounds and "max" not in bounds
    ends = (_TOP, HEIGHT - _BOTTOM) if turned else (HEIGHT - _BOTTOM, _TOP)
    y = make_axis([*numbers, *bounds.values()], *ends, wide=True)
    points = [
        {**item, "x": x.place(item["loss"]), "y": y.place(number), "number_shown": f"{number:.4g}"}
        for item, number in zip(shown, numbers, strict=True)
    ]
    return {
        "points": sorted(points, key=lambda point: (point["best"], point["front"])),
        "stairs": _draw_stairs(points),
        "limits": [{"at": y.place(bound), "text": f"{bound:g}"} for bound in bounds.values()],
        "x_ticks": x.list_ticks(),
        "y_ticks": y.list_ticks(),
        "left": _LEFT,
        "right": WIDTH - _RIGHT,
        "top": _TOP,
        "bottom": HEIGHT - _BOTTOM,
        "width": WIDTH,
        "height": HEIGHT,
        "left_out": len(search["candidates"]) - len(shown),
    }


def _draw_stairs(points: Sequence[Mapping[str, Any]]) -> str:
    """Those that no other beats in both directions; lower on the sheet is safer."""
    stairs: list[tuple[float, float]] = []
    for point in sorted(points, key=lambda point: (point["x"], -point["y"])):
        if not stairs or point["y"] > stairs[-1][1]:
            if stairs:
                stairs.append((point["x"], stairs[-1][1]))
            stairs.append((point["x"], point["y"]))
    return " ".join(f"{x},{y}" for x, y in stairs)


def draw_forest(terms: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Coefficients before and after, each in standard errors of the original, on one axis."""
    sides = ("original", "released", "corrected")
    rows = [
        {
            "term": row["term"],
            "shown": row["term"] if len(row["term"]) <= _LETTERS else f"{row['term'][:25]}…",
            **{side: _scale(row[side], row["error"]) for side in sides},
        }
        for row in terms
        if row["error"] and row["term"] != "Intercept"
    ]
    ends = [0.0]
    for row in rows:
        if row["original"] is not None:
            ends += [row["original"][1], row["original"][2]]
        ends += [row[side][0] for side in sides[1:] if row[side] is not None]
    if not rows:
        return {"rows": []}
    # An interval that a release has blown up must not press all others together: it is cut.
    axis = make_axis(ends, _NAMES, WIDTH - _RIGHT, pad=0.2)
    height = _ROW * len(rows) + 34
    return {
        "rows": [
            {**row, "y": 10 + _ROW * (index + 0.5), **{
                side: None if row[side] is None else _place(axis, row[side]) for side in sides
            }}
            for index, row in enumerate(rows)
        ],
        "zero": axis.place(0.0),
        "ticks": axis.list_ticks(),
        "left": _NAMES,
        "width": WIDTH,
        "height": height,
        "bottom": height - 24,
    }  # fmt: skip


def _scale(side: Mapping[str, Any] | None, error: float) -> tuple[float, float, float] | None:
    if side is None or any(side[name] is None for name in ("mean", "low", "high")):
        return None
    return side["mean"] / error, side["low"] / error, side["high"] / error


def _place(axis: ChartAxis, estimate: tuple[float, float, float]) -> dict[str, Any]:
    value, low, high = estimate
    return {
        "at": axis.place(value),
        "from": axis.place(low),
        "to": axis.place(high),
        "cut_left": low < axis.low,
        "cut_right": high > axis.high,
    }


def draw_bars(chart: Mapping[str, Any], width: float = 300.0) -> list[dict[str, Any]]:
    """Bars of a small histogram: each as wide as its bins, before and after over each other."""
    total = sum(bar["width"] for bar in chart["bars"]) or 1
    drawn, left = [], 0.0
    for bar in chart["bars"]:
        size = width * bar["width"] / total
        drawn.append({**bar, "x": round(left, 2), "size": round(size, 2)})
        left += size
    return drawn
