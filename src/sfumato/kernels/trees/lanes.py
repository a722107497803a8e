"""Sixteen distances at once: the vector instructions under the search for neighbours.

numba keeps a running total per lane in memory, because it cannot rule out that two arrays
overlap. In LLVM's own words the totals stay in registers: a third of the time, measured. The
arithmetic is that of one distance: (a - b) * scale, squared, added column by column. Nothing is
reordered or fused, so a distance has the same bits wherever it is computed.

Each instruction stands here twice: as LLVM builds it, and as numpy would say it. The second is
its definition, and what runs where a kernel is left to Python because the data are few.

numba caches what it compiled per file: after a change here, touch `neighbours.py` and `ranks.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from sfumato.kernels.arrays import Floats, Mask

LANES = 16
_WORD = ir.IntType(64)
_BITS = ir.IntType(LANES)
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_FIRST = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
_UNKNOWN = ir.Constant(_VECTOR, ir.Undefined)
_ZERO = ir.Constant(_VECTOR, [0.0] * LANES)

Gap = Callable[[Any, Any], Any]


def _build_number(value: int) -> Any:  # pragma: no cover (runs only when nothing is cached)
    return ir.Constant(_WORD, value)


def _fill_lanes(builder: Any, number: Any) -> Any:  # pragma: no cover
    """A number in every lane."""
    first = builder.insert_element(_UNKNOWN, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, _UNKNOWN, _FIRST)


def _load_lanes(builder: Any, start: Any, row: Any) -> Any:  # pragma: no cover
    """Sixteen numbers that lie side by side."""
    address = builder.gep(start, [builder.mul(row, _build_number(LANES))])
    return builder.load(builder.bitcast(address, _VECTOR.as_pointer()), align=8)


def _take_larger(builder: Any, first: Any, second: Any) -> Any:  # pragma: no cover
    """The larger in each lane; the second where one of them is not a number."""
    return builder.select(builder.fcmp_ordered(">", first, second), first, second)


def _pack_mask(builder: Any, truth: Any) -> Any:  # pragma: no cover
    """A bit per lane."""
    return builder.zext(builder.bitcast(truth, _BITS), _WORD)


def _compare_block(  # pragma: no cover
    context: Any, builder: Any, signature: Any, arguments: Any, gap_in: Callable[..., Gap]
) -> Any:
    """Squared distances of a block of sixteen to a point; which of them are within the limit."""
    blocks, block, source, row, scale, limit, distances = (
        context.make_array(kind)(context, builder, value)
        if isinstance(kind, types.Array)
        else value
        for kind, value in zip(signature.args, arguments, strict=True)
    )
    size = builder.mul(builder.extract_value(blocks.shape, 1), _build_number(LANES))
    gap_of = gap_in(builder, builder.gep(blocks.data, [builder.mul(block, size)]))
    width = builder.extract_value(source.shape, 1)
    point = builder.gep(source.data, [builder.mul(row, width)])
    total = cgutils.alloca_once_value(builder, _ZERO)  # type: ignore[no-untyped-call]
    with cgutils.for_range(builder, builder.extract_value(scale.shape, 0)) as loop:
        here = _fill_lanes(builder, builder.load(builder.gep(point, [loop.index])))
        factor = _fill_lanes(builder, builder.load(builder.gep(scale.data, [loop.index])))
        gap = builder.fmul(gap_of(loop.index, here), factor)
        builder.store(builder.fadd(builder.load(total), builder.fmul(gap, gap)), total)
    squared = builder.load(total)
    builder.store(squared, builder.bitcast(distances.data, _VECTOR.as_pointer()), align=8)
    return _pack_mask(builder, builder.fcmp_ordered("<=", squared, _fill_lanes(builder, limit)))


def _gap_to_points(builder: Any, start: Any) -> Gap:  # pragma: no cover
    return lambda column, here: builder.fsub(_load_lanes(builder, start, column), here)


def _gap_to_boxes(builder: Any, start: Any) -> Gap:  # pragma: no cover
    """To the nearest side of a box; nothing for a point inside."""

    def gap(column: Any, here: Any) -> Any:
        low = builder.mul(column, _build_number(2))
        high = builder.add(low, _build_number(1))
        below = builder.fsub(_load_lanes(builder, start, low), here)
        above = builder.fsub(here, _load_lanes(builder, start, high))
        return _take_larger(builder, _ZERO, _take_larger(builder, below, above))

    return gap


def _gap_to_corners(builder: Any, start: Any) -> Gap:  # pragma: no cover
    """To the farthest side of a box."""

    def gap(column: Any, here: Any) -> Any:
        low = builder.mul(column, _build_number(2))
        high = builder.add(low, _build_number(1))
        below = builder.fsub(here, _load_lanes(builder, start, low))
        above = builder.fsub(_load_lanes(builder, start, high), here)
        return _take_larger(builder, below, above)

    return gap


def _compare_with(gap_in: Callable[..., Gap]) -> Any:  # pragma: no cover
    def compare(_, blocks, block, source, row, scale, limit, distances):  # type: ignore[no-untyped-def] # noqa: ARG001
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _compare_block(context, builder, signature, arguments, gap_in)

        word, real = types.int64, types.float64
        return word(blocks, word, source, word, scale, real, distances), generate

    return compare


def _count_before(_, distances, lane):  # type: ignore[no-untyped-def] # noqa: ARG001  # pragma: no cover
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        lanes = _load_lanes(builder, data, _build_number(0))
        mine = _fill_lanes(builder, builder.load(builder.gep(data, [arguments[1]])))
        less = _pack_mask(builder, builder.fcmp_ordered("<", lanes, mine))
        same = _pack_mask(builder, builder.fcmp_ordered("==", lanes, mine))
        earlier = builder.sub(builder.shl(_build_number(1), arguments[1]), _build_number(1))
        return builder.ctpop(builder.or_(less, builder.and_(same, earlier)))

    return types.int64(distances, types.int64), generate


def _find_lowest(_, mask):  # type: ignore[no-untyped-def] # noqa: ARG001  # pragma: no cover
    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


def _count_lanes(_, mask):  # type: ignore[no-untyped-def] # noqa: ARG001  # pragma: no cover
    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.int64), generate


def _pack(truth: Mask) -> int:
    return int(np.packbits(truth, bitorder="little").view(np.uint16)[0])


def _compare_gaps(gaps: Floats, scale: Floats, limit: float, distances: Floats) -> int:
    """The sum in the order of the columns, as in LLVM's words."""
    squared = np.zeros(LANES)
    for gap, factor in zip(gaps, scale, strict=True):
        scaled = gap * factor
        squared += scaled * scaled
    distances[:] = squared
    return _pack(squared <= limit)


def _find_points_within(
    points: Floats, leaf: int, source: Floats, row: int, scale: Floats, limit: float, out: Floats
) -> int:
    """Write the squared distances of sixteen points into `out`; a bit for each in the limit.

    `points` is (leaf, column, lane), compared with a row of `source`. A lane that is not a
    number is never within.
    """
    return _compare_gaps(points[leaf] - source[row, : len(scale), None], scale, limit, out)


def _find_boxes_within(
    boxes: Floats, group: int, source: Floats, row: int, scale: Floats, limit: float, out: Floats
) -> int:
    """The same for sixteen boxes, whose columns are low, high, low, high.

    Rounding keeps order: whatever lies in a box is, as computed, no nearer than the box.
    """
    here = source[row, : len(scale), None]
    below, above = boxes[group, 0::2] - here, here - boxes[group, 1::2]
    gaps = np.where(below > above, below, above)
    return _compare_gaps(np.where(gaps < 0, 0.0, gaps), scale, limit, out)


def _find_boxes_inside(
    boxes: Floats, group: int, source: Floats, row: int, scale: Floats, limit: float, out: Floats
) -> int:
    """A bit for each of sixteen boxes whose farthest corner lies within the limit.

    Rounding keeps order here too: whatever lies in a box is, as computed, no farther than its
    farthest corner.
    """
    here = source[row, : len(scale), None]
    below, above = here - boxes[group, 0::2], boxes[group, 1::2] - here
    return _compare_gaps(np.where(below > above, below, above), scale, limit, out)


def _rank_lane(distances: Floats, lane: int) -> int:
    """How many of the sixteen come before this lane by distance, then by lane."""
    earlier = (distances == distances[lane]) & (np.arange(LANES) < lane)
    return int(((distances < distances[lane]) | earlier).sum())


def _find_lowest_lane(mask: int) -> int:
    """The lowest lane in a mask that is not empty."""
    return (mask & -mask).bit_length() - 1


def _make_instruction(build: Any, in_python: Callable[..., int]) -> Any:
    instruction: Any = intrinsic(build)
    instruction.in_python = in_python
    return instruction


points_within = _make_instruction(_compare_with(_gap_to_points), _find_points_within)
boxes_within = _make_instruction(_compare_with(_gap_to_boxes), _find_boxes_within)
boxes_inside = _make_instruction(_compare_with(_gap_to_corners), _find_boxes_inside)
rank_of_lane = _make_instruction(_count_before, _rank_lane)
lowest_lane = _make_instruction(_find_lowest, _find_lowest_lane)
count_lanes = _make_instruction(_count_lanes, int.bit_count)
