"""Categories and codes: sets, ranges of levels, hierarchies and masks.

Every cell becomes a set of leaves. Leaves are the values that occur or are declared, and for each
mask such as `937**` one more for all codes that it may stand for and nobody has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.cells.notation import MASK, RANGE, SET, WILDCARD
from sfumato.errors import DataError
from sfumato.schema import Column

Sets = list[npt.NDArray[np.int64]]
Groups = dict[str, list[str]]


def level_cells(texts: list[str], column: Column, name: str) -> Any:
    """Intervals of codes for each text: low and high ends, where each text's begin, how many."""
    groups = _groups(column)
    declared = [str(level) for level in column.levels or ()]
    leaves = _leaves(texts, declared, groups, column.hierarchy or ())
    number = {leaf: at for at, leaf in enumerate(leaves)}
    known = {*groups, *declared}
    masks = {text: found for text in texts if text not in known and (found := _mask(text))}
    under, size = _masked(leaves, masks, more=not declared)
    size = max(size, 1)  # a wildcard stands for something, even where nothing is known
    sets = []
    for text in texts:
        if text == WILDCARD:
            held = list(range(size))
        elif text in masks:
            held = under[text]
        else:
            held = [number[leaf] for leaf in groups.get(text) or _named(text, declared, name)]
        if not held:
            raise DataError(
                f"Variable '{name}' has a cell that stands for none of its values.",
                hint="declare all levels in the schema, or none.",
            )
        sets.append(np.unique(np.array(held, np.int64)))
    return *_intervals(_reordered(sets, size)), size


def _groups(column: Column) -> Groups:
    """The values of each group of the hierarchy, apart from those that are values themselves."""
    groups: Groups = defaultdict(list)
    values = column.hierarchy or {}
    for leaf, broader in values.items():
        for group in dict.fromkeys(broader):
            if group != WILDCARD and group not in values:
                groups[group].append(leaf)
    return dict(groups)


def _mask(text: str) -> tuple[str, int] | None:
    """The beginning of a masked code and how many characters are masked."""
    found = MASK.fullmatch(text)
    if not found or SET.fullmatch(text) or RANGE.fullmatch(text):
        return None
    return found[1], len(found[2])


def _members(text: str) -> list[str]:
    """The values that a cell names: one, those of a set, or none."""
    if found := SET.fullmatch(text):
        return found[1].split(";")
    return [] if text == WILDCARD or _mask(text) or RANGE.fullmatch(text) else [text]


def _leaves(
    texts: list[str], declared: list[str], groups: Groups, named: Iterable[str]
) -> list[str]:
    """Declared levels in their order, then whatever else occurs, in the order of the text.

    Values that only the hierarchy names are leaves too: a wildcard stands for them.

    After a step that generalised, declared levels may be groups: those are no leaves.
    """
    first = [one for one in declared if one not in groups]
    more = set(named)
    for text in texts:
        if text not in groups and text not in first:
            more.update(_members(text))
    return [*first, *sorted(more.difference(first))]


def _named(text: str, declared: list[str], name: str) -> list[str]:
    """One value, the values of a set, or those of a range of declared levels.

    A declared level is a value even if it looks like something else. Where declared levels are
    ranges themselves, a wider one runs from the first end of one to the last end of another.
    """
    found = None if text in declared else RANGE.fullmatch(text)
    if not found:
        return [text] if text in declared else _members(text)
    firsts: dict[str, int] = {}
    lasts: dict[str, int] = {}
    for at, level in enumerate(declared):
        inner = RANGE.fullmatch(level)
        firsts |= {level: at} | ({inner[1]: at} if inner else {})
        lasts |= {level: at} | ({inner[2]: at} if inner else {})
    low, high = firsts.get(found[1], -1), lasts.get(found[2], -1)
    if low < 0 or high < low:
        raise DataError(
            f"Variable '{name}' has a range whose ends are not declared levels in their order.",
            hint="declare the levels, from low to high, in the schema.",
        )
    return declared[low : high + 1]


def _masked(
    leaves: list[str], masks: dict[str, tuple[str, int]], *, more: bool
) -> tuple[dict[str, list[int]], int]:
    """The leaves under each mask, and how many leaves there are in all.

    Unless all levels are declared, there are codes nobody has: a leaf for them belongs to the
    mask and to the wider ones. Masked digits end at 9, so that their codes can all be taken.
    """
    under: dict[str, list[int]] = {text: [] for text in masks}
    filled = dict.fromkeys(masks, 0)
    for at, leaf in enumerate(leaves):
        if above := _above(leaf, len(leaf), masks):
            under[above].append(at)
            filled[above] += leaf.isdecimal()
    size = len(leaves)
    for text in sorted(masks, key=lambda one: (masks[one][1], one)):  # the narrow before the wide
        start, stars = masks[text]
        codes = 10**stars if start.isdecimal() else 0
        # Of letters nobody knows how many there are, so some code is always left.
        if more and (not codes or filled[text] != codes):
            under[text].append(size)
            size += 1
        if above := _above(start, len(text), masks):
            under[above] += under[text]
            filled[above] += codes
    return under, size


def _above(start: str, length: int, masks: dict[str, tuple[str, int]]) -> str:
    """The narrowest mask of this length whose beginning is a shorter part of this one."""
    if not masks:
        return ""
    tried = (start[:at] + "*" * (length - at) for at in range(len(start) - 1, 0, -1))
    return next((one for one in tried if one in masks), "")


def _reordered(sets: Sets, size: int) -> Sets:
    """Number leaves anew where that makes more cells intervals; nested cells all become so."""
    if all(len(one) == one[-1] - one[0] + 1 for one in sets):
        return sets
    block = np.zeros(size, np.int64)
    for one in sorted((one for one in sets if 1 < len(one) < size), key=_large_first):
        apart = 2 * block + 1
        apart[one] -= 1
        block = np.unique(apart, return_inverse=True)[1].ravel()
    place = np.empty(size, np.int64)
    place[np.argsort(block, kind="stable")] = np.arange(size)
    return [np.sort(place[one]) for one in sets]


def _large_first(one: npt.NDArray[np.int64]) -> tuple[int, list[int]]:
    return -len(one), one.tolist()


def _intervals(sets: Sets) -> tuple[Any, Any, Any]:
    """The runs of neighbouring codes in each set."""
    every = np.concatenate(sets) if sets else np.zeros(0, np.int64)
    fresh = np.ones(len(every), bool)
    fresh[1:] = np.diff(every) != 1
    begins = np.cumsum([0, *map(len, sets)])
    fresh[begins[:-1]] = True
    last = np.append(fresh[1:], True)[: len(every)]
    starts = np.append(0, np.cumsum(fresh))[begins]
    return every[fresh], every[last], starts
