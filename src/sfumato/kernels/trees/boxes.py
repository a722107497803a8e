"""Which records are hidden by others when cells are ranges, sets or wildcards.

A record is a box: for each variable the values it may stand for. It is hidden if the boxes of
the other records cover every combination of values in its own. Everything here is exact; what
the budget does not reach is left undecided and never called hidden.

Boxes are intervals of whole numbers in every column, laid out as (box, lows then highs).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import Codes, Integers, Mask
from sfumato.kernels.compiled import compiled, inlined, inner
from sfumato.kernels.memory import allocate
from sfumato.kernels.trees.box_cells import COVERED, OPEN, UNDECIDED, Cells
from sfumato.kernels.trees.equivalence_classes import (
    Classes,
    find_classes,
    number_distinct,
    sort_by_class,
)

__all__ = ["COVERED", "OPEN", "UNDECIDED", "Cells", "Classes", "find_classes", "find_covered"]

Status = npt.NDArray[np.int8]
_NONE, _TOO_COSTLY = -1, -2
"""Instead of a box."""
_PIECES = 64
"""Boxes without gaps that one record may fall into at most."""
_LEAF = 8
_DEEP = 4096
"""Levels of the tree at most; a deeper part becomes one leaf, which is slow but right."""
_CELLS = 1 << 26
"""Entries of the table from values to cells at most."""
PATTERNS = 256
"""Combinations of heights at most; with more, a tree is faster."""
_FLOORS = 62
"""Heights of all columns together at most: each is a bit."""
_MIX = -7046029254386353131
_SMALL = 1 << 14


class _Scarcity(NamedTuple):
    """How many boxes contain each code, column after column; heaps of the rarest codes."""

    counts: Integers
    starts: Integers
    rarest: Codes


class _BoxTree(NamedTuple):
    """Of each node: what encloses its boxes, where to go on without it, its boxes in a leaf."""

    hull: Codes
    skip: Codes
    first: Codes
    last: Codes


class _LookUp(NamedTuple):
    """Boxes by the heights of their cells.

    needs, bits : for each pattern of heights the floors (a height of a column), and as bits.
    floors : column, where its codes begin in `cell_of`, what to multiply its cells by.
    cell_of : the cell of that height which holds a code, or -1.
    keys, of : the key and the pattern of each box.
    begin, slots : where each pattern's slots begin; the box in each.
    signs : a bit for each hash that occurs.
    """

    needs: Integers
    bits: Integers
    floors: Integers
    cell_of: Codes
    keys: Integers
    begin: Integers
    slots: Codes
    signs: npt.NDArray[np.uint8]
    of: Codes


class _Index(NamedTuple):
    """Where to find boxes.

    start, stop : between which nodes of the tree the boxes lie that could overlap each box;
        empty where the look-up is used.
    """

    tree: _BoxTree
    nested: _LookUp
    start: Integers
    stop: Integers


def find_covered(
    cells: Codes, tables: Sequence[Cells], *, budget: int, records: Integers | None = None
) -> Status:
    """For each row whether others hide it: COVERED, OPEN, or UNDECIDED within the budget.

    Parameters
    ----------
    cells : (variable, row) the number of each row's cell among those of the variable.
    tables : the distinct cells of each variable.
    budget : how many comparisons may be made for one box.
    records : how many records each row stands for; without, one each.
    """
    equal = find_classes(cells, [len(table) for table in tables], records)
    if all(table.disjoint for table in tables):
        return np.where(equal.counts > 1, COVERED, OPEN).astype(np.int8)[equal.of]
    if equal.counts.min(initial=2) > 1:
        return np.full(cells.shape[1], COVERED, np.int8)
    distinct = np.ascontiguousarray(cells[:, equal.first])
    if all(table.starts is None for table in tables):
        return _decide_intervals(distinct, equal.counts, tables, budget)[equal.of]
    return _split_into_pieces(distinct, equal.counts, tables, budget)[equal.of]


def _split_into_pieces(
    cells: Codes, counts: Integers, tables: Sequence[Cells], budget: int
) -> Status:
    """Cells with gaps: a record falls into boxes without gaps, and each must be covered.

    They do not overlap, so a record's own pieces never cover each other. A record of too many
    pieces covers nobody here and stays undecided, and so do those who are then not covered.
    """
    joined = [_list_intervals(table) for table in tables]
    parts = np.ones(cells.shape[1], np.int64)
    for column, (_, starts, _) in zip(cells, joined, strict=True):
        parts = np.minimum(parts * np.diff(starts)[column], _PIECES + 1)
    fits = np.flatnonzero(parts <= _PIECES)
    owner = np.repeat(fits, parts[fits])
    ends = np.cumsum(parts[fits])
    number = np.arange(len(owner)) - np.repeat(ends - parts[fits], parts[fits])
    pieces = np.empty((len(cells), len(owner)), np.int32)
    for j, (_, starts, numbers) in enumerate(joined):
        cell = cells[j][owner]
        sizes = np.diff(starts)[cell]
        pieces[j] = numbers[starts[cell] + number % sizes]
        number //= sizes
    intervals = [table for table, _, _ in joined]
    equal = find_classes(pieces, [len(table) for table in intervals])
    records = np.bincount(equal.of, counts[owner], len(equal.first)).astype(np.int64)
    distinct = np.ascontiguousarray(pieces[:, equal.first])
    of_pieces = _decide_intervals(distinct, records, intervals, budget)[equal.of]
    status = np.full(cells.shape[1], COVERED, np.int8)
    status[owner[of_pieces == UNDECIDED]] = UNDECIDED
    status[owner[of_pieces == OPEN]] = OPEN
    if len(fits) < cells.shape[1]:
        status[parts > _PIECES] = UNDECIDED
        status[status == OPEN] = UNDECIDED
    status[counts > 1] = COVERED
    return status


def _list_intervals(table: Cells) -> tuple[Cells, Integers, Codes]:
    """The distinct intervals of a variable as cells, and which of them each cell consists of."""
    starts = np.arange(len(table) + 1) if table.starts is None else table.starts
    pairs, numbers = np.unique(
        np.column_stack([table.low, table.high]), axis=0, return_inverse=True
    )
    low, high = np.ascontiguousarray(pairs.T)
    return Cells(low, high, table.size), starts, numbers.ravel().astype(np.int32)


def _decide_intervals(
    cells: Codes, counts: Integers, tables: Sequence[Cells], budget: int
) -> Status:
    """Distinct boxes without gaps: nested cells by look-up, others by a tree."""
    heights = [find_heights(table.low, table.high) for table in tables]
    if all(height is not None for height in heights):
        nested = _make_look_up(cells, heights, tables)
        if nested is not None:
            edges, scarcity = _list_edges(cells, tables), _count_scarcity(cells, counts, tables)
            none = np.zeros(0, np.int64)
            index = _Index(_empty_tree(edges), nested, none, none)
            return _decide(edges, counts == 1, scarcity, index, budget)
    return _decide_by_tree(cells, counts, tables, budget)


def _decide_by_tree(cells: Codes, counts: Integers, tables: Sequence[Cells], budget: int) -> Status:
    """A tree of boxes for each combination of those cells that never overlap partly."""
    apart = [j for j, table in enumerate(tables) if table.disjoint]
    others = [j for j, table in enumerate(tables) if not table.disjoint]
    groups = find_classes(cells[apart], [len(tables[j]) for j in apart])
    order, starts = sort_by_class(groups, least=2)
    status = np.where(counts > 1, COVERED, OPEN).astype(np.int8)
    if not len(order):
        return status
    others.sort(key=lambda j: _mean_width(cells[j], tables[j]))
    crossing = [tables[j] for j in others]
    members = np.ascontiguousarray(cells[others][:, order])
    edges = _list_edges(members, crossing)
    scarcity = _count_scarcity(members, counts[order], crossing)
    sizes = np.array([table.size for table in crossing], np.int64)
    tree, nodes = _make_tree(edges, order, starts, sizes)
    group = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    index = _Index(tree, _empty_look_up(), nodes[group], nodes[group + 1])
    status[order] = _decide(edges, counts[order] == 1, scarcity, index, budget)
    return status


def _mean_width(column: Codes, table: Cells) -> float:
    """The mean share of its variable that a cell takes: narrow ones are compared first."""
    wide = table.high.astype(np.int64) - table.low + 1
    return float(np.dot(np.bincount(column, minlength=len(wide)), wide)) / table.size


def _list_edges(cells: Codes, tables: Sequence[Cells]) -> Codes:
    """Both ends of each box in each variable, lows first; as short as the codes allow."""
    short = max(table.size for table in tables) < np.iinfo(np.int16).max
    edges: Codes = allocate((cells.shape[1], 2 * len(cells)), np.int16 if short else np.int32)
    starts = np.cumsum([0, *(len(table) for table in tables)])
    low = np.concatenate([table.low for table in tables])
    high = np.concatenate([table.high for table in tables])
    _fill_edges(cells, starts, low, high, edges)
    return edges


def _count_scarcity(cells: Codes, counts: Integers, tables: Sequence[Cells]) -> _Scarcity:
    """How many boxes contain each code. Those of several records count twice: 1 is alone."""
    weights = np.minimum(counts, 2)
    per_code = []
    for column, table in zip(cells, tables, strict=True):
        records = _sum_weights(column, weights, len(table))
        begun = np.bincount(table.low, records, table.size + 1)
        ended = np.bincount(table.high + 1, records, table.size + 1)
        per_code.append(np.cumsum(begun - ended)[: table.size].astype(np.int64))
    starts = np.cumsum([0, *map(len, per_code)]).astype(np.int64)
    containing = np.concatenate(per_code)
    rarest = np.empty(2 * len(containing), np.int32)
    _build_heap(containing, starts, rarest)
    return _Scarcity(containing, starts, rarest)


def _decide(edges: Codes, wanted: Mask, scarcity: _Scarcity, index: _Index, budget: int) -> Status:
    """For each wanted box whether the others cover it; the others count as covered.

    `budget` limits the comparisons made for one box.
    """
    status = np.full(len(edges), COVERED, np.int8)
    _decide_all(edges, wanted, scarcity, index, budget, status)
    return status


@compiled(small=_SMALL)
def _fill_edges(cells, starts, low, high, edges):  # type: ignore[no-untyped-def]
    """In blocks, so that the boxes stay in the cache while the variables pass."""
    columns = len(cells)
    for first in range(0, len(edges), 256):
        last = min(first + 256, len(edges))
        for j in range(columns):
            for i in range(first, last):
                cell = starts[j] + cells[j, i]
                edges[i, j], edges[i, columns + j] = low[cell], high[cell]


@compiled(small=_SMALL)
def _sum_weights(column, weights, size):  # type: ignore[no-untyped-def]
    """Exact sums of whole numbers, which `bincount` would take as floats."""
    sums = np.zeros(size, np.int64)
    for i in range(len(column)):
        sums[column[i]] += weights[i]
    return sums


# Whether a box is covered by other boxes, together. A box is taken apart: choose the point of it
# that the fewest boxes can contain, find another box that contains this point, take away what that
# one covers, and go on with what remains, piece by piece. A point that no other box contains ends
# the search at once. The worst case is exponential in the number of columns, hence the budget.


@compiled(small=_SMALL)
def _build_heap(counts, starts, rarest):  # type: ignore[no-untyped-def]
    """For each column a heap: leaves are its codes, each node has the rarer of its two."""
    for column in range(len(starts) - 1):
        start, size = starts[column], starts[column + 1] - starts[column]
        for code in range(size):
            rarest[2 * start + size + code] = code
        for node in range(size - 1, 0, -1):
            first, second = rarest[2 * start + 2 * node], rarest[2 * start + 2 * node + 1]
            rarest[2 * start + node] = _take_rarer(counts, start, first, second)


@inlined
def _take_rarer(counts, start, code, other):  # type: ignore[no-untyped-def]
    """The code that fewer boxes contain; the smaller code where they are as many."""
    mine, theirs = counts[start + code], counts[start + other]
    return code if mine < theirs or (mine == theirs and code < other) else other


@inlined
def _find_rarest(scarcity, column, low, high):  # type: ignore[no-untyped-def]
    counts, rarest = scarcity.counts, scarcity.rarest
    start = scarcity.starts[column]
    size = scarcity.starts[column + 1] - start
    best, left, right = low, low + size, high + size + 1
    while left < right:
        if left & 1:
            best = _take_rarer(counts, start, best, rarest[2 * start + left])
            left += 1
        if right & 1:
            right -= 1
            best = _take_rarer(counts, start, best, rarest[2 * start + right])
        left >>= 1
        right >>= 1
    return best


@inner
def _choose_point(scarcity, part, point):  # type: ignore[no-untyped-def]
    """The rarest point of a box; False if one of its codes is in no other record's box."""
    columns = len(point)
    shared = True
    for j in range(columns):
        low, high = part[j], part[columns + j]
        point[j] = low if low == high else _find_rarest(scarcity, j, low, high)
        shared &= scarcity.counts[scarcity.starts[j] + point[j]] > 1
    return shared


@inner
def _copy_row(source, row, target, to):  # type: ignore[no-untyped-def]
    """Element by element: assigning whole rows takes very long to compile."""
    for j in range(source.shape[1]):
        target[to, j] = source[row, j]


@inner
def _push_remainder(part, edges, box, stack, top):  # type: ignore[no-untyped-def]
    """Put what a box leaves of the part onto the stack, in pieces that do not overlap."""
    width = len(part)
    columns = width // 2
    if top + width > len(stack):
        more = np.empty((2 * len(stack) + width, width), stack.dtype)
        for row in range(top):
            _copy_row(stack, row, more, row)
        stack = more
    for j in range(columns):
        if part[j] < edges[box, j]:
            for i in range(width):
                stack[top, i] = part[i]
            stack[top, columns + j] = edges[box, j] - 1
            part[j] = edges[box, j]
            top += 1
        if part[columns + j] > edges[box, columns + j]:
            for i in range(width):
                stack[top, i] = part[i]
            stack[top, j] = edges[box, columns + j] + 1
            part[columns + j] = edges[box, columns + j]
            top += 1
    return stack, top


@compiled
def _decide_all(edges, wanted, scarcity, index, budget, status):  # type: ignore[no-untyped-def]
    width = edges.shape[1]
    stack = np.empty((8 * width, width), edges.dtype)
    part, point = np.empty(width, edges.dtype), np.empty(width // 2, edges.dtype)
    terms = np.empty(len(index.nested.floors), np.int64)
    for target in range(len(edges)):
        if not wanted[target]:
            continue
        _copy_row(edges, target, stack, 0)
        top, spent = 1, 0
        while top:
            top -= 1
            for j in range(width):
                part[j] = stack[top, j]
            if not _choose_point(scarcity, part, point):
                status[target] = OPEN
                break
            if len(index.start):
                first, last = index.start[target], index.stop[target]
                box, cost = _search_tree(
                    edges, index.tree, first, last, target, part, point, budget - spent
                )
            else:
                box, cost = _look_up(
                    edges, index.nested, target, part, point, terms, budget - spent
                )
            spent += cost
            if box < 0:
                status[target] = OPEN if box == _NONE else UNDECIDED
                break
            stack, top = _push_remainder(part, edges, box, stack, top)


# A tree of boxes: which of very many boxes contain a point. It splits at means of values, never at
# positions, so the order of the boxes does not change it. Nodes lie in the order of a walk; each
# says where the walk goes on when nothing below can contain the point: a search needs no stack.


def _empty_tree(edges: Codes) -> _BoxTree:
    """A tree of nothing, for when boxes are looked up in another way."""
    none = np.zeros(0, np.int32)
    return _BoxTree(edges[:0], none, none, none)


def _make_tree(
    edges: Codes, ids: Codes, starts: Integers, sizes: Integers
) -> tuple[_BoxTree, Integers]:
    """The tree of each group of boxes, and where the nodes of each group begin.

    `edges` and `ids` lie group after group and are reordered in place; `starts` says where each
    group begins; `sizes` are the numbers of codes of the columns.
    """
    most = 2 * len(edges) + 1
    tree = _BoxTree(
        hull=allocate((most, edges.shape[1]), edges.dtype),
        skip=allocate((most,), np.int32),
        first=allocate((most,), np.int32),
        last=allocate((most,), np.int32),
    )
    return tree, _grow_trees(edges, ids, starts, 1.0 / np.maximum(sizes, 1), tree)


@inner
def _bound_edges(edges, start, stop, least, most):  # type: ignore[no-untyped-def]
    """Smallest and largest of each low and each high among some boxes."""
    for j in range(edges.shape[1]):
        least[j] = most[j] = edges[start, j]
    for i in range(start + 1, stop):
        for j in range(edges.shape[1]):
            least[j] = min(least[j], edges[i, j])
            most[j] = max(most[j], edges[i, j])


@inner
def _find_widest(least, most, scale):  # type: ignore[no-untyped-def]
    """The low or the high that differs most among the boxes, as a share of its column."""
    columns = len(scale)
    best, widest = 0.0, -1
    for j in range(2 * columns):
        spread = (np.int64(most[j]) - least[j]) * scale[j % columns]
        if spread > best:
            best, widest = spread, j
    return widest


@inner
def _split_at_mean(edges, ids, start, stop, column):  # type: ignore[no-untyped-def]
    """Move boxes up to the mean of one coordinate to the front; where the others begin."""
    total = np.int64(0)
    for i in range(start, stop):
        total += edges[i, column]
    mean = total // (stop - start)
    low, high = start, stop - 1
    while low <= high:
        if edges[low, column] <= mean:
            low += 1
        elif edges[high, column] > mean:
            high -= 1
        else:
            for j in range(edges.shape[1]):
                edges[low, j], edges[high, j] = edges[high, j], edges[low, j]
            ids[low], ids[high] = ids[high], ids[low]
            low += 1
            high -= 1
    return low


@compiled(small=_SMALL)
def _grow_trees(edges, ids, starts, scale, tree):  # type: ignore[no-untyped-def]
    hull, skip, first, last = tree.hull, tree.skip, tree.first, tree.last
    width, columns = edges.shape[1], edges.shape[1] // 2
    least, most = np.empty(width, edges.dtype), np.empty(width, edges.dtype)
    waiting = np.empty((_DEEP + 2, 3), np.int64)
    path = np.empty(_DEEP + 2, np.int64)
    nodes_of = np.zeros(len(starts), np.int64)
    node = 0
    for group in range(len(starts) - 1):
        waiting[0, 0], waiting[0, 1], waiting[0, 2] = starts[group], starts[group + 1], 0
        top, deep = 1, 0
        while top:
            top -= 1
            start, stop, level = waiting[top, 0], waiting[top, 1], waiting[top, 2]
            for above in range(level, deep):
                skip[path[above]] = node
            deep = level + 1
            path[level] = node
            _bound_edges(edges, start, stop, least, most)
            for j in range(columns):
                hull[node, j], hull[node, columns + j] = least[j], most[columns + j]
            split = -1
            if stop - start > _LEAF and level < _DEEP:
                split = _find_widest(least, most, scale)
            first[node], last[node] = start, stop
            if split >= 0:
                middle = _split_at_mean(edges, ids, start, stop, split)
                last[node] = start  # nothing to look at here: only leaves hold boxes
                waiting[top, 0], waiting[top, 1], waiting[top, 2] = middle, stop, level + 1
                waiting[top + 1, 0], waiting[top + 1, 1] = start, middle
                waiting[top + 1, 2] = level + 1
                top += 2
            node += 1
        for above in range(deep):
            skip[path[above]] = node
        nodes_of[group + 1] = node
    return nodes_of


@inlined
def _contains_point(edges, box, point):  # type: ignore[no-untyped-def]
    columns = len(point)
    for j in range(columns):
        if edges[box, j] > point[j] or edges[box, columns + j] < point[j]:
            return False
    return True


@inlined
def _contains_part(edges, box, part):  # type: ignore[no-untyped-def]
    columns = len(part) // 2
    for j in range(columns):
        if edges[box, j] > part[j] or edges[box, columns + j] < part[columns + j]:
            return False
    return True


@inlined
def _shared_volume(edges, box, part):  # type: ignore[no-untyped-def]
    """How many combinations two boxes share, as a float; only to choose the better cover."""
    columns = len(part) // 2
    volume = 1.0
    for j in range(columns):
        low = max(edges[box, j], part[j])
        volume *= min(edges[box, columns + j], part[columns + j]) - low + 1.0
    return volume


@inlined
def _precedes(edges, box, other):  # type: ignore[no-untyped-def]
    """Whether a box comes before another by its values: ties do not hang on positions."""
    for j in range(edges.shape[1]):
        if edges[box, j] != edges[other, j]:
            return edges[box, j] < edges[other, j]
    return False


@inner
def _search_tree(edges, tree, start, stop, target, part, point, budget):  # type: ignore[no-untyped-def]
    """The box other than the target that contains the point and most of the part, and the cost.

    _NONE: none contains the point. _TOO_COSTLY: the cost would exceed the budget.
    """
    best, most, cost, node = _NONE, 0.0, 0, start
    while node < stop:
        cost += 1
        if not _contains_point(tree.hull, node, point):
            node = tree.skip[node]
            continue
        cost += tree.last[node] - tree.first[node]
        if cost > budget:
            return _TOO_COSTLY, cost
        complete = False
        for box in range(tree.first[node], tree.last[node]):
            if box == target or not _contains_point(edges, box, point):
                continue
            volume = _shared_volume(edges, box, part)
            if volume > most or (volume == most and _precedes(edges, box, best)):
                best, most = box, volume
            complete |= _contains_part(edges, box, part)
        if complete:
            return best, cost
        node += 1
    return best, cost


# Boxes whose cells are nested, looked up level by level. Where any two cells of a column are nested
# or disjoint, each has a height: 0 where it holds no smaller cell, else one more than the highest
# it holds. Cells of one height are disjoint, so a value lies in one of them at most, and a point
# lies in one box at most for each combination of heights that occurs: one look-up each.


def find_heights(low: Codes, high: Codes) -> Any:
    """The height of each cell of a column, or None where two cells cross."""
    order = np.lexsort((-high.astype(np.int64), low))
    heights, nested = _stack_cells(low, high, order)
    return heights if nested else None


@compiled(small=_SMALL)
def _stack_cells(low, high, order):  # type: ignore[no-untyped-def]
    """Heights, and whether all cells are nested. In `order` cells come before those they hold."""
    heights = np.zeros(len(low), np.int32)
    parent = np.full(len(low), -1, np.int64)
    path = np.empty(len(low), np.int64)
    deep = 0
    for cell in order:
        while deep and high[path[deep - 1]] < low[cell]:
            deep -= 1
        if deep:
            parent[cell] = path[deep - 1]
            if high[parent[cell]] < high[cell]:
                return heights, False
        path[deep] = cell
        deep += 1
    for cell in order[::-1]:
        if parent[cell] >= 0:
            heights[parent[cell]] = max(heights[parent[cell]], heights[cell] + 1)
    return heights, True


def _empty_look_up() -> _LookUp:
    """No look-up, for when boxes are found by a tree."""
    none, few = np.zeros(0, np.int64), np.zeros(0, np.int32)
    floors, signs = np.zeros((0, 3), np.int64), np.zeros(0, np.uint8)
    return _LookUp(np.zeros((0, 0), np.int64), none, floors, few, none, none, few, signs, few)


def _make_look_up(cells: Codes, heights: Sequence[Any], tables: Sequence[Cells]) -> _LookUp | None:
    """Look-up of boxes, or None where it would be larger or slower than a tree.

    `cells` has a row per column: which of its cells each box has; `heights` are those of the cells.
    """
    sizes = np.array([table.size for table in tables], np.int64)
    levels = np.array([int(height.max(initial=0)) + 1 for height in heights], np.int64)
    if (levels * sizes).sum() > _CELLS or levels.sum() > _FLOORS:
        return None
    matched = _find_patterns(cells, heights, levels)
    if matched is None:
        return None
    of, patterns = matched
    column = np.repeat(np.arange(len(levels)), levels)
    offsets = np.cumsum([0, *sizes[column]])
    strides = _choose_strides([len(height) for height in heights])
    cell_of = np.full(offsets[-1], -1, np.int32)
    first = np.cumsum([0, *levels[:-1]])
    for floor, height, table in zip(first, heights, tables, strict=True):
        _fill_cells(table.low, table.high, offsets[floor + height], cell_of)
    keys = np.zeros(cells.shape[1], np.int64)
    for row, stride in zip(cells, strides, strict=True):
        keys += row * stride
    needs = patterns + first
    begin, slots, signs = _make_slots(keys, of, len(patterns))
    return _LookUp(
        needs=needs,
        bits=np.bitwise_or.reduce(1 << needs, axis=1),
        floors=np.column_stack([column, offsets[:-1], strides[column]]),
        cell_of=cell_of,
        keys=keys,
        begin=begin,
        slots=slots,
        signs=signs,
        of=of,
    )


def _find_patterns(cells: Codes, heights: Sequence[Any], levels: Integers) -> Any:
    """The combination of heights of each box, and what they are; None if there are too many."""
    code = np.zeros(cells.shape[1], np.int64)
    for row, height, count in zip(cells, heights, levels, strict=True):
        if count > 1:
            code = code * count + height[row]
    of, first = number_distinct(code)
    if len(first) > PATTERNS:
        return None
    patterns = np.column_stack([height[cells[j][first]] for j, height in enumerate(heights)])
    # The broad first: they cover most. The order must not hang on that of the boxes.
    order = np.lexsort((code[first], -patterns.sum(axis=1)))
    rank = np.argsort(order).astype(np.int32)
    return rank[of], patterns[order].astype(np.int64)


def _make_slots(keys: Integers, of: Codes, patterns: int) -> tuple[Integers, Codes, Any]:
    """A hash table for each pattern: where it begins, the box in each slot, signs of boxes."""
    sizes = np.bincount(of, minlength=patterns)
    wide = 1 << np.ceil(np.log2(2 * sizes)).astype(np.int64)
    begin = np.cumsum([0, *wide])
    slots = allocate((int(begin[-1]),), np.int32)
    slots[:] = -1
    signs = np.zeros(int(begin[-1]), np.uint8)
    _fill_slots(keys, of, begin, slots, signs)
    return begin, slots, signs


def _choose_strides(counts: list[int]) -> Integers:
    """What to multiply cell numbers by: their sum is a key, unique where 63 bits are enough."""
    if np.log2(counts).sum() < 62:  # noqa: PLR2004 - bits
        return np.concatenate([[1], np.cumprod(counts[:-1])]).astype(np.int64)
    odd = [pow(6364136223846793005, power, 1 << 64) | 1 for power in range(1, len(counts) + 1)]
    return np.array(odd, np.uint64).view(np.int64)


@compiled(small=_SMALL)
def _fill_cells(low, high, start, cell_of):  # type: ignore[no-untyped-def]
    for cell in range(len(low)):
        for value in range(low[cell], high[cell] + 1):
            cell_of[start[cell] + value] = cell


@inlined
def _mix(key):  # type: ignore[no-untyped-def]
    mixed = (key ^ ((key >> 29) & 0x7FFFFFFFF)) * _MIX
    return mixed ^ ((mixed >> 32) & 0xFFFFFFFF)


@compiled(small=_SMALL)
def _fill_slots(keys, of, begin, slots, signs):  # type: ignore[no-untyped-def]
    """Put boxes into slots, and for each a sign: most look-ups of nothing end at a sign."""
    for box in range(len(keys)):
        start = begin[of[box]]
        size = begin[of[box] + 1] - start
        mixed = _mix(keys[box])
        slot = mixed & (size - 1)
        while slots[start + slot] >= 0:
            slot = (slot + 1) & (size - 1)
        slots[start + slot] = box
        signs[start + _sign(mixed, size)] |= np.uint8(1 << (mixed & 7))


@inlined
def _sign(mixed, size):  # type: ignore[no-untyped-def]
    return (mixed >> 3) & (size - 1)


@inner
def _find_terms(floors, cell_of, point, terms):  # type: ignore[no-untyped-def]
    """What each floor adds to the key of a box that contains the point; which have a cell."""
    known = 0
    for floor in range(len(floors)):
        cell = cell_of[floors[floor, 1] + point[floors[floor, 0]]]
        if cell >= 0:
            known |= 1 << floor
            terms[floor] = cell * floors[floor, 2]
    return known


@inner
def _look_up(edges, nested, target, part, point, terms, budget):  # type: ignore[no-untyped-def]
    """The same as `_search_tree`, by one look-up for each combination of heights."""
    needs, begin, slots = nested.needs, nested.begin, nested.slots
    best, most = _NONE, 0.0
    if len(needs) > budget:
        return _TOO_COSTLY, len(needs)
    known = _find_terms(nested.floors, nested.cell_of, point, terms)
    for pattern in range(len(needs)):
        # Within its own pattern a box meets nobody but itself.
        if nested.bits[pattern] & ~known or pattern == nested.of[target]:
            continue
        key = 0
        for j in range(needs.shape[1]):
            key += terms[needs[pattern, j]]
        mixed = _mix(key)
        start = begin[pattern]
        size = begin[pattern + 1] - start
        if not (nested.signs[start + _sign(mixed, size)] >> (mixed & 7)) & 1:
            continue
        slot = mixed & (size - 1)
        while slots[start + slot] >= 0:
            box = slots[start + slot]
            if nested.keys[box] == key and _contains_point(edges, box, point):
                if _contains_part(edges, box, part):
                    return box, pattern + 1
                volume = _shared_volume(edges, box, part)
                if volume > most or (volume == most and _precedes(edges, box, best)):
                    best, most = box, volume
                break
            slot = (slot + 1) & (size - 1)
    return best, len(needs)
