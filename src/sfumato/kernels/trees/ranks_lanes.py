"""Sixteen boxes at once, by their farthest corner: which lie wholly within a distance.

What `neighbour_lanes` does for the nearest point of a box, this does for the farthest. The
arithmetic is the same, so rounding keeps order here too: whatever lies in a box is, as computed,
no farther than its farthest corner.

numba caches what it compiled per file: after a change here, touch `ranks_search.py`.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from sfumato.kernels.trees.neighbour_lanes import Gap, _lanes, _larger, _number, _within


def _to_corners(builder: Any, start: Any) -> Gap:  # pragma: no cover (runs when nothing is cached)
    def gap(column: Any, here: Any) -> Any:
        low = builder.mul(column, _number(2))
        high = builder.add(low, _number(1))
        below = builder.fsub(here, _lanes(builder, start, low))
        above = builder.fsub(_lanes(builder, start, high), here)
        return _larger(builder, below, above)

    return gap


def _boxes_inside(_, boxes, group, source, row, scale, limit, away):  # type: ignore[no-untyped-def] # noqa: ARG001  # pragma: no cover
    """A bit for each of sixteen boxes that lies wholly within the limit; squares into `away`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _within(context, builder, signature, arguments, _to_corners)

    word, real = types.int64, types.float64
    return word(boxes, word, source, word, scale, real, away), generate


def _ones(_, mask):  # type: ignore[no-untyped-def] # noqa: ARG001  # pragma: no cover
    """How many lanes are in a mask."""

    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.int64), generate


boxes_inside: Any = intrinsic(_boxes_inside)
ones: Any = intrinsic(_ones)
