"""Which levels of the categories to join, so that every stratum is large enough to hide in."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MethodError
from sfumato.methods._strata.sizes import Joined, Level, centres, texts


@dataclass(frozen=True, eq=False)
class Likeness:
    """Which levels of one variable may be joined: along a hierarchy, an order, or by likeness.

    Parameters
    ----------
    broader : for each level its ever broader groups, where a hierarchy is declared.
    order : the levels in their order, where the variable is ordinal.
    centre : where the records of each level lie, for levels without an order.
    """

    broader: Mapping[str, tuple[str, ...]] | None
    order: Sequence[str] | None
    centre: Mapping[Level, Sequence[float]]


Label = tuple[Level, ...]
"""Some levels that go by one name."""
Stratum = tuple[Level, ...]
"""A level of each variable."""
_MOST_LEVELS = 1000


def merged(
    strata: Sequence[Stratum],
    counts: Sequence[int],
    *,
    by: Sequence[str],
    likeness: Mapping[str, Likeness],
    k: int,
) -> Joined:
    """Join levels, as few records as possible at a time, until every stratum has k records.

    The smallest stratum comes first. Of the joins that would help it, the one is taken that
    brings the most records out of small strata for each record it touches; equal ones by the
    order of the variables and the names of the levels.
    """
    labels: list[dict[Level, Label]] = [
        {level: (level,) for level in sorted({row[at] for row in strata}, key=_key)}
        for at in range(len(by))
    ]
    sizes = np.asarray(counts)
    if sizes.sum() < k:
        raise MethodError(
            f"There are {int(sizes.sum())} records, and k = {k} needs at least {k}.",
            hint="choose a smaller k.",
        )
    _require_few(by, labels)
    while (small := _small(strata, sizes, labels, k)) is not None:
        options = list(_options(small, labels, by, likeness))
        worth = {one: _worth(one, strata, sizes, labels, k) for one in options}
        at, joined = min(options, key=worth.__getitem__)
        labels[at] = {
            level: joined if level in joined else label for level, label in labels[at].items()
        }
    return {
        name: [(level, _name(label, likeness[name])) for level, label in labels[at].items()]
        for at, name in enumerate(by)
        if any(len(label) > 1 for label in labels[at].values())
    }


def _text(level: Level) -> str:
    """A level as a name; missing and empty text are two different things."""
    return "missing" if level is None else level or "(empty)"


def _key(level: Level) -> tuple[bool, str]:
    """What a level is sorted by: missing last, and never mixed up with a level of that name."""
    return level is None, level or ""


def _require_few(by: Sequence[str], labels: Sequence[Mapping[Level, Label]]) -> None:
    most = max(range(len(by)), key=lambda at: len(labels[at]))
    if len(labels[most]) > _MOST_LEVELS:
        raise MethodError(
            f"Variable '{by[most]}' has {len(labels[most]):,} levels, too many to join one by one.",
            hint="group them first, or leave the variable out of `strata`.",
        )


def _totals(
    strata: Sequence[Stratum], sizes: npt.NDArray[np.int64], labels: Sequence[Mapping[Level, Label]]
) -> dict[tuple[Label, ...], int]:
    """How many records each stratum, as joined, has."""
    total: dict[tuple[Label, ...], int] = {}
    for row, size in zip(strata, sizes.tolist(), strict=True):
        key = tuple([label[level] for label, level in zip(labels, row, strict=True)])
        total[key] = total.get(key, 0) + size
    return total


def _small(
    strata: Sequence[Stratum],
    sizes: npt.NDArray[np.int64],
    labels: Sequence[Mapping[Level, Label]],
    k: int,
) -> tuple[Label, ...] | None:
    """The smallest stratum, as joined, if it has fewer than k records."""
    total = _totals(strata, sizes, labels)
    small = [(size, [list(map(_key, one)) for one in key], key) for key, size in total.items()]
    size, _, key = min(small, key=lambda one: one[:2])
    return key if size < k else None


def _options(
    small: tuple[Label, ...],
    labels: Sequence[Mapping[Level, Label]],
    by: Sequence[str],
    likeness: Mapping[str, Likeness],
) -> Iterator[tuple[int, Label]]:
    """The joins that could help: a level of the stratum with its group, neighbour or like."""
    for at, name in enumerate(by):
        others = sorted(
            set(labels[at].values()) - {small[at]}, key=lambda one: tuple(map(_key, one))
        )
        if not others:
            continue
        for partner in _partners(small[at], others, likeness[name]):
            yield at, tuple(sorted({*small[at], *partner}, key=_key))


def _partners(label: Label, others: list[Label], like: Likeness) -> Iterator[Label]:
    if like.broader is not None:
        group = _group(label, like.broader)
        inside = [one for one in others if group is not None and _within(one, group, like.broader)]
        if inside:
            yield tuple(level for one in inside for level in one)
            return
    if like.order is not None and all(level in like.order for level in label):
        places = {level: place for place, level in enumerate(like.order)}
        mine = [places[level] for level in label if level is not None]
        near: list[Callable[[Label], float]] = [
            lambda one: min(mine) - max(_places(one, places)),
            lambda one: min(_places(one, places)) - max(mine),
        ]
        found = False
        for gap in near:
            beside = [one for one in others if _places(one, places) and gap(one) > 0]
            if beside:
                found = True
                yield min(beside, key=gap)
        if found:
            return
    yield min(others, key=lambda one: (_apart(label, one, like.centre), tuple(map(_key, one))))


def _group(label: Label, broader: Mapping[str, tuple[str, ...]]) -> tuple[int, str] | None:
    """The narrowest group of the hierarchy that holds these levels and others besides."""
    groups = [broader.get(_text(level), ()) for level in label]
    for depth in range(min(map(len, groups))):
        found = {one[depth] for one in groups}
        beyond = {
            level for level, one in broader.items() if one[depth : depth + 1] == (groups[0][depth],)
        }
        if len(found) == 1 and beyond > set(label):
            return depth, groups[0][depth]
    return None


def _within(label: Label, group: tuple[int, str], broader: Mapping[str, tuple[str, ...]]) -> bool:
    depth, name = group
    return all(broader.get(_text(level), ())[depth : depth + 1] == (name,) for level in label)


def _places(label: Label, places: Mapping[str, int]) -> list[int]:
    return [places[level] for level in label if level is not None and level in places]


def _apart(one: Label, other: Label, centre: Mapping[Level, Sequence[float]]) -> float:
    """How far the nearest levels of two labels lie from each other."""
    return min(
        math.fsum((a - b) ** 2 for a, b in zip(centre[left], centre[right], strict=True))
        for left in one
        for right in other
    )


def _worth(
    option: tuple[int, Label],
    strata: Sequence[Stratum],
    sizes: npt.NDArray[np.int64],
    labels: Sequence[Mapping[Level, Label]],
    k: int,
) -> tuple[float, int, int, tuple[tuple[bool, str], ...]]:
    """Records left in small strata for each record that the join touches; the least is best."""
    at, joined = option
    tried = list(labels)
    tried[at] = {level: joined if level in joined else label for level, label in labels[at].items()}
    left, before = (
        sum(size for size in _totals(strata, sizes, each).values() if size < k)
        for each in (tried, labels)
    )
    inside = set(joined)
    touched = int(sizes[[row[at] in inside for row in strata]].sum())
    return (left - before) / touched, touched, at, tuple(map(_key, joined))


def _name(label: Label, like: Likeness) -> str:
    """What joined levels are called: the narrowest group that has them all, or one or another."""
    if len(label) == 1:
        return _text(label[0])
    if like.broader is not None:
        group = _common_group(label, like.broader)
        if group is not None:
            return group
    listed = list(label)
    if like.order is not None:
        places = {level: place for place, level in enumerate(like.order)}
        listed.sort(key=lambda level: places.get(_text(level), len(places)))
    return " or ".join(map(_text, listed))


def _common_group(label: Label, broader: Mapping[str, tuple[str, ...]]) -> str | None:
    """The narrowest group of the hierarchy that all of these levels belong to."""
    groups = [broader.get(_text(level), ()) for level in label]
    for depth in range(min(map(len, groups))):
        if len({one[depth] for one in groups}) == 1:
            return groups[0][depth]
    return None


def join(
    data: Dataset,
    by: Sequence[str],
    spread: Mapping[str, Mapping[str, float]],
    k: int,
    engine: Engine,
) -> Joined:
    """Which levels of the strata to join so that every stratum has at least k records."""
    found = engine.distinct(data, by)
    if not by or (found.counts >= k).all():
        return {}
    numbers = {name: (one["mean"], one["sd"]) for name, one in spread.items()}
    likeness = {
        name: Likeness(
            data.schema[name].hierarchy,
            [str(level) for level in data.schema[name].levels or ()]
            if data.schema[name].kind == "ordinal"
            else None,
            centres(data, name, numbers, engine),
        )
        for name in by
    }
    levels = [texts(found.values[name]).to_list() for name in by]
    rows = sorted(
        zip(zip(*levels, strict=True), found.counts.tolist(), strict=True),
        key=lambda row: tuple(map(_key, row[0])),
    )
    return merged(
        [row for row, _ in rows], [count for _, count in rows], by=by, likeness=likeness, k=k
    )
