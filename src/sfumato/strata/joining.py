"""Which levels of the categories to join, so that every stratum is large enough to hide in."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.engines.summaries import exact_sum
from sfumato.errors import MethodError
from sfumato.strata.sizes import Joined, Level, texts


def centres(
    data: Dataset, variable: str, numbers: Mapping[str, tuple[float, float]], engine: Engine
) -> dict[Level, list[float]]:
    """The mean of the standardised numbers at each level of a variable, by exact sums."""
    names = list(numbers)

    def means(batch: pl.DataFrame, starts: npt.NDArray[np.int64], draws: object) -> pl.DataFrame:
        del draws
        sizes = np.diff(starts)
        return pl.DataFrame(
            {
                name: np.repeat(
                    [
                        math.fsum(exact_sum(column[low : low + size])) / size
                        for low, size in zip(starts[:-1], sizes, strict=True)
                    ],
                    sizes,
                )
                for name, column in ((one, batch[one].to_numpy()) for one in names)
            }
        )

    slim = Dataset(data.batch([variable, *names]))
    found = engine.map_groups(slim, means, by=[variable], reads=names)
    rows = engine.distinct(found, [variable, *names]).values
    levels = texts(rows[variable]).to_list()
    return {
        level: [(rows[name][at] - mean) / sd for name, (mean, sd) in numbers.items()]
        for at, level in enumerate(levels)
    }


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


def merged(
    strata: Sequence[tuple[Level, ...]],
    counts: Sequence[int],
    *,
    by: Sequence[str],
    likeness: Mapping[str, Likeness],
    k: int,
) -> Joined:
    """Join levels, as few records as possible at a time, until every stratum has k records.

    Each time the join is taken that brings the most records out of small strata for each record
    it touches; equal ones by the order of the variables and the names of the levels.
    """
    labels: list[dict[Level, Label]] = [
        {level: (level,) for level in sorted({row[at] for row in strata}, key=_text)}
        for at in range(len(by))
    ]
    sizes = np.asarray(counts)
    if sizes.sum() < k:
        raise MethodError(
            f"There are {int(sizes.sum())} records, and k = {k} needs at least {k}.",
            hint="choose a smaller k.",
        )
    while (small := _small(strata, sizes, labels, k)).any():
        options = list(_options(strata, small, labels, by, likeness))
        before = int(sizes[small].sum())
        worth = {one: _worth(one, strata, sizes, labels, k, before) for one in options}
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
    return "" if level is None else level


def _small(
    strata: Sequence[tuple[Level, ...]],
    sizes: npt.NDArray[np.int64],
    labels: Sequence[Mapping[Level, Label]],
    k: int,
) -> npt.NDArray[np.bool_]:
    """Which of the strata lie in a stratum, as joined, of fewer than k records."""
    keys = [tuple(label[level] for label, level in zip(labels, row, strict=True)) for row in strata]
    total: dict[tuple[Label, ...], int] = {}
    for key, size in zip(keys, sizes, strict=True):
        total[key] = total.get(key, 0) + int(size)
    return np.array([total[key] < k for key in keys])


def _options(
    strata: Sequence[tuple[Level, ...]],
    small: npt.NDArray[np.bool_],
    labels: Sequence[Mapping[Level, Label]],
    by: Sequence[str],
    likeness: Mapping[str, Likeness],
) -> Iterator[tuple[int, Label]]:
    """The joins that could help: a level of a small stratum with its group, neighbour or like."""
    for at, name in enumerate(by):
        known = sorted(set(labels[at].values()), key=lambda one: tuple(map(_text, one)))
        if len(known) == 1:
            continue
        concerned = {
            labels[at][row[at]] for row, is_small in zip(strata, small, strict=True) if is_small
        }
        for label in sorted(concerned, key=lambda one: tuple(map(_text, one))):
            others = [one for one in known if one != label]
            for partner in _partners(label, others, likeness[name]):
                yield at, tuple(sorted({*label, *partner}, key=_text))


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
        for gap in near:
            beside = [one for one in others if _places(one, places) and gap(one) > 0]
            if beside:
                yield min(beside, key=gap)
        if any(_places(one, places) for one in others):
            return
    yield min(others, key=lambda one: (_apart(label, one, like.centre), tuple(map(_text, one))))


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
    strata: Sequence[tuple[Level, ...]],
    sizes: npt.NDArray[np.int64],
    labels: Sequence[Mapping[Level, Label]],
    k: int,
    before: int,
) -> tuple[float, int, int, tuple[str, ...]]:
    at, joined = option
    tried = list(labels)
    tried[at] = {level: joined if level in joined else label for level, label in labels[at].items()}
    left = int(sizes[_small(strata, sizes, tried, k)].sum())
    touched = int(sizes[[row[at] in joined for row in strata]].sum())
    return (left - before) / touched, touched, at, tuple(map(_text, joined))


def _name(label: Label, like: Likeness) -> str:
    """What joined levels are called: the group that is exactly them, or one level or another."""
    if len(label) == 1:
        return _text(label[0]) or "missing"
    if like.broader is not None:
        group = _common_group(label, like.broader)
        if group is not None:
            return group
    listed = list(label)
    if like.order is not None:
        places = {level: place for place, level in enumerate(like.order)}
        listed.sort(key=lambda level: places.get(_text(level), len(places)))
    return " or ".join(_text(level) or "missing" for level in listed)


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
        key=lambda row: tuple(map(_text, row[0])),
    )
    return merged(
        [row for row, _ in rows], [count for _, count in rows], by=by, likeness=likeness, k=k
    )
