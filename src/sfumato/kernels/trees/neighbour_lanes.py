"""Sixteen distances at once: the vector instructions under the search for neighbours.

numba keeps a running total per lane in memory, because it cannot rule out that two arrays
overlap. Said in LLVM's own words the totals stay in registers: a third of the time, measured.
The arithmetic is that of one distance: (a - b) * scale, squared, added column by column. Nothing
is reordered or fused, so a distance has the same bits wherever it is computed.

numba caches what it compiled per file: after a change here, touch `neighbour_search.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 16
_WORD = ir.IntType(64)
_BITS = ir.IntType(LANES)
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_FIRST = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
_UNKNOWN = ir.Constant(_VECTOR, ir.Undefined)
_ZERO = ir.Constant(_VECTOR, [0.0] * LANES)

Gap = Callable[[Any, Any], Any]


def _number(value: int) -> Any:  # pragma: no cover (all of this runs only when nothing is cached)
    return ir.Constant(_WORD, value)


def _everywhere(builder: Any, number: Any) -> Any:  # pragma: no cover
    """A number in every lane."""
    one = builder.insert_element(_UNKNOWN, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, _UNKNOWN, _FIRST)


def _lanes(builder: Any, start: Any, row: Any) -> Any:  # pragma: no cover
    """Sixteen numbers that lie side by side."""
    at = builder.gep(start, [builder.mul(row, _number(LANES))])
    return builder.load(builder.bitcast(at, _VECTOR.as_pointer()), align=8)


def _larger(builder: Any, one: Any, other: Any) -> Any:  # pragma: no cover
    """The larger in each lane; `other` where one of them is not a number."""
    return builder.select(builder.fcmp_ordered(">", one, other), one, other)


def _mask(builder: Any, truth: Any) -> Any:  # pragma: no cover
    """A bit per lane."""
    return builder.zext(builder.bitcast(truth, _BITS), _WORD)


def _within(  # pragma: no cover
    context: Any, builder: Any, signature: Any, arguments: Any, gap_in: Callable[..., Gap]
) -> Any:
    """Squared distances of a block of sixteen to a point; which of them are within the limit."""
    blocks, block, source, row, scale, limit, away = (
        context.make_array(kind)(context, builder, value)
        if isinstance(kind, types.Array)
        else value
        for kind, value in zip(signature.args, arguments, strict=True)
    )
    size = builder.mul(builder.extract_value(blocks.shape, 1), _number(LANES))
    gap_of = gap_in(builder, builder.gep(blocks.data, [builder.mul(block, size)]))
    width = builder.extract_value(source.shape, 1)
    point = builder.gep(source.data, [builder.mul(row, width)])
    total = cgutils.alloca_once_value(builder, _ZERO)  # type: ignore[no-untyped-call]
    with cgutils.for_range(builder, builder.extract_value(scale.shape, 0)) as loop:
        here = _everywhere(builder, builder.load(builder.gep(point, [loop.index])))
        factor = _everywhere(builder, builder.load(builder.gep(scale.data, [loop.index])))
        gap = builder.fmul(gap_of(loop.index, here), factor)
        builder.store(builder.fadd(builder.load(total), builder.fmul(gap, gap)), total)
    found = builder.load(total)
    builder.store(found, builder.bitcast(away.data, _VECTOR.as_pointer()), align=8)
    return _mask(builder, builder.fcmp_ordered("<=", found, _everywhere(builder, limit)))


def _to_points(builder: Any, start: Any) -> Gap:  # pragma: no cover
    return lambda column, here: builder.fsub(_lanes(builder, start, column), here)


def _to_boxes(builder: Any, start: Any) -> Gap:  # pragma: no cover
    def gap(column: Any, here: Any) -> Any:
        low = builder.mul(column, _number(2))
        high = builder.add(low, _number(1))
        below = builder.fsub(_lanes(builder, start, low), here)
        above = builder.fsub(here, _lanes(builder, start, high))
        return _larger(builder, _ZERO, _larger(builder, below, above))

    return gap


def _points_within(_, points, leaf, source, row, scale, limit, away):  # type: ignore[no-untyped-def] # noqa: ARG001  # pragma: no cover
    """Write the squared distances of sixteen points into `away`; a bit for each in the limit.

    `points` is (leaf, column, lane), compared with a row of `source`. A lane that is not a
    number is never within.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _within(context, builder, signature, arguments, _to_points)

    word, real = types.int64, types.float64
    return word(points, word, source, word, scale, real, away), generate


def _boxes_within(_, boxes, group, source, row, scale, limit, away):  # type: ignore[no-untyped-def] # noqa: ARG001  # pragma: no cover
    """The same for sixteen boxes, whose columns are low, high, low, high.

    Rounding keeps order: whatever lies in a box is, as computed, no nearer than the box.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _within(context, builder, signature, arguments, _to_boxes)

    word, real = types.int64, types.float64
    return word(boxes, word, source, word, scale, real, away), generate


def _place_of(_, away, lane):  # type: ignore[no-untyped-def] # noqa: ARG001  # pragma: no cover
    """How many of the sixteen come before this lane by distance, then by lane."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        every = _lanes(builder, data, _number(0))
        mine = _everywhere(builder, builder.load(builder.gep(data, [arguments[1]])))
        less = _mask(builder, builder.fcmp_ordered("<", every, mine))
        same = _mask(builder, builder.fcmp_ordered("==", every, mine))
        earlier = builder.sub(builder.shl(_number(1), arguments[1]), _number(1))
        return builder.ctpop(builder.or_(less, builder.and_(same, earlier)))

    return types.int64(away, types.int64), generate


def _lowest(_, mask):  # type: ignore[no-untyped-def] # noqa: ARG001  # pragma: no cover
    """The lowest lane in a mask that is not empty."""

    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


points_within: Any = intrinsic(_points_within)
boxes_within: Any = intrinsic(_boxes_within)
place_of: Any = intrinsic(_place_of)
lowest: Any = intrinsic(_lowest)
