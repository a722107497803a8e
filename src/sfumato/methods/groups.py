"""Groups of records (role "cluster"), such as households: variables that belong to the group.

A variable is of group level where no group has two different values of it, and some group has two
values at all. A missing value beside a value does not count: it stays missing. Rows of which the
group is missing are groups of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from sfumato.cells.codes import encode_unordered
from sfumato.data import Dataset
from sfumato.data.identity import digest_identifiers
from sfumato.engines import Engine, Starts
from sfumato.kernels.arrays import Integers
from sfumato.randomness import Draws, encrypt

_SOME = 20_000
"""Rows among which a group with two values shows that a variable is not of group level."""
_CHANGES = "__sfumato_changes_within"
_ALONE, _SAME, _DIFFERENT = 0, 1, 2


def find_group_level(data: Dataset, names: Sequence[str], engine: Engine) -> dict[str, list[str]]:
    """By group variable, the variables among these that are the same within each of its groups.

    A variable belongs to one of them: to that with the most variables, the first of several.

    Examples
    --------
    >>> import sfumato as sf
    >>> from sfumato.engines import LocalEngine
    >>> people = {"house": [1, 1, 2, 2], "region": ["n", "n", "s", "s"], "age": [3, 40, 30, 31]}
    >>> data = sf.Dataset(pl.DataFrame(people), sf.Schema({"house": "cluster"}))
    >>> find_group_level(data, ["region", "age"], LocalEngine())
    {'house': ['region']}
    """
    constant: dict[str, list[str]] = {}
    for group in data.schema.having("cluster"):
        others = [name for name in names if name != group]
        some = _take_some(data, [group, *others], engine) if others else None
        if some is None:
            continue
        plausible = [name for name in others if not _count_changes(some, group, name)[1]]
        constant[group] = _confirm(data, group, plausible, engine) if plausible else []
    level: dict[str, list[str]] = {}
    for group in sorted(constant, key=lambda group: -len(constant[group])):
        taken = {name for others in level.values() for name in others}
        if of_group := [name for name in constant[group] if name not in taken]:
            level[group] = of_group
    return level


def _take_some(data: Dataset, names: Sequence[str], engine: Engine) -> pl.DataFrame:
    if engine.in_memory:
        return data.batch(names).head(_SOME)
    return engine.sample(data, names, _SOME)


def _count_changes(rows: pl.DataFrame, group: str, name: str) -> tuple[int, int]:
    """How many groups have several values of a variable, and how many of them different ones."""
    known = rows.select(pl.col(group).alias("group"), pl.col(name).alias("value")).drop_nulls()
    counted = known.group_by("group").agg(pl.len().alias("rows"), pl.col("value").n_unique())
    return int((counted["rows"] > 1).sum()), int((counted["value"] > 1).sum())


def _confirm(data: Dataset, group: str, names: list[str], engine: Engine) -> list[str]:
    """Those that are the same within every group of all records."""
    if engine.in_memory:
        counted = [_count_changes(data.batch([group, name]), group, name) for name in names]
    else:
        counted = _count_elsewhere(data, group, names, engine)
    return [
        name
        for name, (several, different) in zip(names, counted, strict=True)
        if several and not different
    ]


def _count_elsewhere(
    data: Dataset, group: str, names: list[str], engine: Engine
) -> list[tuple[int, int]]:
    columns = [f"{_CHANGES}_{position}" for position in range(len(names))]
    slim = data.without(set(data.columns) - {group, *names})

    def compare_values(batch: pl.DataFrame, starts: Starts, draws: Draws | None) -> pl.DataFrame:
        del draws
        known = batch[group].is_not_null().to_numpy()
        return pl.DataFrame(
            [
                pl.Series(column, np.where(known, _compare_within(batch[name], starts), _ALONE))
                for name, column in zip(names, columns, strict=True)
            ]
        )

    compared = engine.map_groups(slim, compare_values, by=[group], reads=[*names, group])
    if not set(columns) <= set(compared.columns):
        return [(0, 0)] * len(names)  # there is no row
    parts = engine.gather(compared, _sum_changes, reads=columns)
    return [
        (sum(part[index][0] for part in parts), sum(part[index][1] for part in parts))
        for index in range(len(names))
    ]


def _compare_within(values: pl.Series, starts: Starts) -> Integers:
    """At the first row of each group whether its values are the same; 0 at all others."""
    codes, most = encode_unordered(values)
    changes = np.zeros(len(codes), np.int64)
    if not len(codes):
        return changes
    first = starts[:-1]
    high = np.maximum.reduceat(codes, first)
    low = np.minimum.reduceat(np.where(codes, codes, most + 1), first)
    several = np.add.reduceat((codes > 0).astype(np.int64), first) > 1
    changes[first] = np.where(several, np.where(low == high, _SAME, _DIFFERENT), _ALONE)
    return changes


def _sum_changes(batch: pl.DataFrame) -> list[tuple[int, int]]:
    return [
        (int((values > _ALONE).sum()), int((values == _DIFFERENT).sum()))
        for values in batch.get_columns()
    ]


def number_groups(values: pl.Series) -> Integers:
    """The number of each row's group, from 0; rows without one are groups of their own."""
    codes = encode_unordered(values)[0].astype(np.int64)
    missing = values.is_null().to_numpy()
    codes[missing] = codes.max(initial=0) + 1 + np.arange(missing.sum())
    return np.unique(codes, return_inverse=True)[1].astype(np.int64).ravel()


def draw_by_group(draws: Draws, groups: pl.Series) -> Draws:
    """The same draws for all rows of a group; rows without one are their own."""
    digests = digest_identifiers([groups])
    ids = encrypt(digests, draws.key.subkey("group id"))
    unknown = ~digests.any(axis=1)
    if unknown.any():
        record_ids = draws.ids if isinstance(draws.ids, np.ndarray) else draws.ids.ids(draws.key)
        ids[unknown] = record_ids[unknown]
    return Draws(draws.key, draws.step, ids)


def find_contradictions(
    original: Dataset, released: Dataset, level: Mapping[str, Sequence[str]]
) -> dict[str, tuple[int, int]]:
    """In how many groups a variable of group level differs now, and of how many.

    Parameters
    ----------
    original : tells which records are in a group; in the order of the released ones.
    level : the variables that were the same within each group, by the group's variable.
    """
    contradictions = {}
    for group, names in level.items():
        for name in names:
            if name not in released.schema:
                continue
            rows = pl.DataFrame([original.column(group), released.column(name).alias("shown")])
            several, different = _count_changes(rows, group, "shown")
            if different:
                contradictions[name] = different, several
    return contradictions
