"""Strata: records that share their categories; which are too small, which levels to merge."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.engines.local import find_class_of_each
from sfumato.errors import MethodError, StrataError
from sfumato.kernels.arrays import Integers, Mask
from sfumato.kernels.exact_sums import exact_sum

Level = str | None
"""A category as text; None where the value is missing."""
Label = tuple[Level, ...]
"""Some levels that go by one name."""
Stratum = tuple[Level, ...]
"""A level of each variable."""
Labels = Sequence[Mapping[Level, Label]]
"""For each variable the label of every level."""
Merged = dict[str, list[tuple[Level, str]]]
"""For each variable whose levels were merged: every level, and what it is called now."""

_SMALL = 'use fewer variables in `strata`, or say small = "suppress" or "merge".'
_MOST_LEVELS = 1000


def require_large(
    data: Dataset, by: Sequence[str], k: int, engine: Engine, *, hint: str = _SMALL
) -> None:
    """Fail when a stratum has fewer than k records; the error lists them, its text does not."""
    strata = engine.distinct(data, by)
    small = strata.counts < k
    if not small.any():
        return
    records = int(strata.counts[small].sum())
    if not by or len(strata) == 1:
        raise MethodError(
            f"There are {int(strata.counts.sum())} records, and k = {k} needs at least {k}.",
            hint="choose a smaller k.",
        )
    error = StrataError(
        f"{int(small.sum())} of {len(strata)} strata of {', '.join(by)} have fewer than k = {k} "
        f"records ({records} records in all).",
        hint=f"{hint} A terminal shows which they are; in Python, `error.strata` does.",
    )
    table = strata.values.with_columns(pl.Series("records", strata.counts))
    error.strata = data.like(table.filter(pl.Series(small)).sort(list(by)))
    raise error


def find_large_strata(
    data: Dataset, by: Sequence[str], k: int, engine: Engine
) -> Callable[[pl.DataFrame], Mask]:
    """Which records are of a stratum that has at least k, as a function of their strata."""
    strata = engine.distinct(data, by)
    if not by:
        return lambda batch: np.full(batch.height, bool(strata.counts[0] >= k))
    return lambda batch: strata.counts[find_class_of_each(batch, strata.values)] >= k


def format_levels(values: pl.Series) -> pl.Series:
    """Levels as text, whatever their type; -0.0 is 0.0, as it is when records are grouped."""
    return (values.set(values == 0, 0.0) if values.dtype.is_float() else values).cast(pl.String)


def rename_levels(values: pl.Series, merged: Sequence[tuple[Level, str]]) -> pl.Series:
    """The levels of a variable under their new names."""
    old = pl.Series([level for level, _ in merged], dtype=pl.String)
    new = pl.Series([label for _, label in merged], dtype=pl.String)
    return format_levels(values).replace_strict(old, new).alias(values.name)


# Merging of levels -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Likeness:
    """Which levels of one variable may be merged: along a hierarchy, an order, or by likeness.

    Parameters
    ----------
    broader : for each level its ever broader groups, where a hierarchy is declared.
    order : the levels in their order, where the variable is ordinal.
    centre : where the records of each level lie, for levels without an order.
    """

    broader: Mapping[str, tuple[str, ...]] | None
    order: Sequence[str] | None
    centre: Mapping[Level, Sequence[float]]


def merge_small_strata(
    data: Dataset,
    by: Sequence[str],
    spread: Mapping[str, Mapping[str, float]],
    k: int,
    engine: Engine,
) -> Merged:
    """Which levels of the strata to merge so that every stratum has at least k records."""
    distinct = engine.distinct(data, by)
    if not by or (distinct.counts >= k).all():
        return {}
    moments = {name: (values["mean"], values["sd"]) for name, values in spread.items()}
    likeness = {
        name: Likeness(
            data.schema[name].hierarchy,
            [str(level) for level in data.schema[name].levels or ()]
            if data.schema[name].kind == "ordinal"
            else None,
            _find_level_centres(data, name, moments, engine),
        )
        for name in by
    }
    levels = [format_levels(distinct.values[name]).to_list() for name in by]
    rows = sorted(
        zip(zip(*levels, strict=True), distinct.counts.tolist(), strict=True),
        key=lambda row: _sort_key(row[0]),
    )
    strata, counts = [row for row, _ in rows], [count for _, count in rows]
    return merge_levels(strata, counts, by=by, likeness=likeness, k=k)


def _find_level_centres(
    data: Dataset, variable: str, moments: Mapping[str, tuple[float, float]], engine: Engine
) -> dict[Level, list[float]]:
    """The mean of the standardised numbers at each level of a variable, by exact sums."""
    names = list(moments)

    def average(batch: pl.DataFrame, starts: Integers, draws: object) -> pl.DataFrame:
        del draws
        sizes = np.diff(starts)
        means = {}
        for name in names:
            column = batch[name].to_numpy()
            sums = [
                exact_sum(column[low : low + size]) / size
                for low, size in zip(starts[:-1], sizes, strict=True)
            ]
            means[name] = np.repeat(sums, sizes)
        return pl.DataFrame(means)

    slim = Dataset(data.batch([variable, *names])) if engine.in_memory else data
    averaged = engine.map_groups(slim, average, by=[variable], reads=names)
    rows = engine.distinct(averaged, [variable, *names]).values
    return {
        level: [(rows[name][row] - mean) / sd for name, (mean, sd) in moments.items()]
        for row, level in enumerate(format_levels(rows[variable]).to_list())
    }


def merge_levels(
    strata: Sequence[Stratum],
    counts: Sequence[int],
    *,
    by: Sequence[str],
    likeness: Mapping[str, Likeness],
    k: int,
) -> Merged:
    """Merge levels, as few records as possible at a time, until every stratum has k records.

    The smallest stratum comes first. Of the merges that would help it, the one is taken that
    brings the most records out of small strata for each record it touches; equal ones by the
    order of the variables and the names of the levels.
    """
    labels: list[dict[Level, Label]] = [
        {level: (level,) for level in sorted({row[column] for row in strata}, key=_key)}
        for column in range(len(by))
    ]
    sizes = np.asarray(counts)
    if sizes.sum() < k:
        raise MethodError(
            f"There are {int(sizes.sum())} records, and k = {k} needs at least {k}.",
            hint="choose a smaller k.",
        )
    _require_few_levels(by, labels)
    while (small := _find_small(strata, sizes, labels, k)) is not None:
        options = list(_list_options(small, labels, by, likeness))
        # Greedy: the best of all sequences of merges would take far too long to find.
        cost = {option: _merge_cost(option, strata, sizes, labels, k) for option in options}
        column, merged = min(options, key=cost.__getitem__)
        labels[column] = _relabel(labels[column], merged)
    return {
        name: [(level, _name_label(label, likeness[name])) for level, label in renamed.items()]
        for name, renamed in zip(by, labels, strict=True)
        if any(len(label) > 1 for label in renamed.values())
    }


def _text(level: Level) -> str:
    """A level as a name; missing and empty text are two different things."""
    return "missing" if level is None else level or "(empty)"


def _key(level: Level) -> tuple[bool, str]:
    """What a level is sorted by: missing last, and never mixed up with a level of that name."""
    return level is None, level or ""


def _sort_key(levels: Label) -> tuple[tuple[bool, str], ...]:
    return tuple(map(_key, levels))


def _relabel(labels: Mapping[Level, Label], merged: Label) -> dict[Level, Label]:
    return {level: merged if level in merged else label for level, label in labels.items()}


def _require_few_levels(by: Sequence[str], labels: Labels) -> None:
    name, levels = max(zip(by, labels, strict=True), key=lambda pair: len(pair[1]))
    if len(levels) > _MOST_LEVELS:
        raise MethodError(
            f"Variable '{name}' has {len(levels):,} levels, too many to join one by one.",
            hint="group them first, or leave the variable out of `strata`.",
        )


def _count_merged_strata(
    strata: Sequence[Stratum], sizes: Integers, labels: Labels
) -> dict[tuple[Label, ...], int]:
    """How many records each stratum, as merged, has."""
    total: dict[tuple[Label, ...], int] = {}
    for row, size in zip(strata, sizes.tolist(), strict=True):
        key = tuple([label[level] for label, level in zip(labels, row, strict=True)])
        total[key] = total.get(key, 0) + size
    return total


def _find_small(
    strata: Sequence[Stratum], sizes: Integers, labels: Labels, k: int
) -> tuple[Label, ...] | None:
    """The smallest stratum, as merged, if it has fewer than k records."""
    total = _count_merged_strata(strata, sizes, labels)
    by_size = [(size, list(map(_sort_key, key)), key) for key, size in total.items()]
    size, _, key = min(by_size, key=lambda entry: entry[:2])
    return key if size < k else None


def _list_options(
    small: tuple[Label, ...],
    labels: Labels,
    by: Sequence[str],
    likeness: Mapping[str, Likeness],
) -> Iterator[tuple[int, Label]]:
    """The merges that could help: a level of the stratum with its group, neighbour or like."""
    for column, name in enumerate(by):
        others = sorted(set(labels[column].values()) - {small[column]}, key=_sort_key)
        if not others:
            continue
        for partner in _find_partners(small[column], others, likeness[name]):
            yield column, tuple(sorted({*small[column], *partner}, key=_key))


def _find_partners(label: Label, others: list[Label], like: Likeness) -> Iterator[Label]:
    if like.broader is not None:
        group = _find_group(label, like.broader)
        same_group = [
            other
            for other in others
            if group is not None and _is_within(other, group, like.broader)
        ]
        if same_group:
            yield tuple(level for other in same_group for level in other)
            return
    if like.order is not None and all(level in like.order for level in label):
        rank = {level: index for index, level in enumerate(like.order)}
        ranks = _list_ranks(label, rank)
        gaps: list[Callable[[Label], float]] = [
            lambda other: min(ranks) - max(_list_ranks(other, rank)),
            lambda other: min(_list_ranks(other, rank)) - max(ranks),
        ]
        neighbours = []
        for gap in gaps:
            beside = [other for other in others if _list_ranks(other, rank) and gap(other) > 0]
            if beside:
                neighbours.append(min(beside, key=gap))
        if neighbours:
            yield from neighbours
            return
    yield min(others, key=lambda other: (_distance(label, other, like.centre), _sort_key(other)))


def _find_group(label: Label, broader: Mapping[str, tuple[str, ...]]) -> tuple[int, str] | None:
    """The narrowest group of the hierarchy that holds these levels and others besides."""
    groups = [broader.get(_text(level), ()) for level in label]
    for depth in range(min(map(len, groups))):
        names = {path[depth] for path in groups}
        members = {
            level
            for level, path in broader.items()
            if path[depth : depth + 1] == (groups[0][depth],)
        }
        if len(names) == 1 and members > set(label):
            return depth, groups[0][depth]
    return None


def _is_within(
    label: Label, group: tuple[int, str], broader: Mapping[str, tuple[str, ...]]
) -> bool:
    depth, name = group
    return all(broader.get(_text(level), ())[depth : depth + 1] == (name,) for level in label)


def _list_ranks(label: Label, rank: Mapping[str, int]) -> list[int]:
    return [rank[level] for level in label if level is not None and level in rank]


def _distance(label: Label, other: Label, centre: Mapping[Level, Sequence[float]]) -> float:
    """The squared distance between the nearest levels of two labels."""
    return min(
        math.fsum((a - b) ** 2 for a, b in zip(centre[first], centre[second], strict=True))
        for first in label
        for second in other
    )


def _merge_cost(
    option: tuple[int, Label],
    strata: Sequence[Stratum],
    sizes: Integers,
    labels: Labels,
    k: int,
) -> tuple[float, int, int, tuple[tuple[bool, str], ...]]:
    """Records left in small strata for each record that the merge touches; the least is best."""
    column, merged = option
    tried = list(labels)
    tried[column] = _relabel(labels[column], merged)
    after, before = (
        sum(size for size in _count_merged_strata(strata, sizes, state).values() if size < k)
        for state in (tried, labels)
    )
    members = set(merged)
    touched = int(sizes[[row[column] in members for row in strata]].sum())
    return (after - before) / touched, touched, column, _sort_key(merged)


def _name_label(label: Label, like: Likeness) -> str:
    """What merged levels are called: the narrowest group that has them all, or one or another."""
    if len(label) == 1:
        return _text(label[0])
    if like.broader is not None:
        groups = [like.broader.get(_text(level), ()) for level in label]
        for depth in range(min(map(len, groups))):
            if len({path[depth] for path in groups}) == 1:
                return groups[0][depth]
    levels = list(label)
    if like.order is not None:
        rank = {level: index for index, level in enumerate(like.order)}
        levels.sort(key=lambda level: rank.get(_text(level), len(rank)))
    return " or ".join(map(_text, levels))
