"""All rows of a person, or of a household, together: who else has the same."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.kernels.arrays import AnyIntegers, Floats, Integers

_MOST = 2_000_000
"""Parts of trajectories that are listed, at most."""
_LINKED = 0.5
"""The share of rows that a variable must put together to count as a link."""
_SAMPLE = 20_000
"""Persons among whom a variable is tried first."""


def describe_trajectories(known_rows: int | None, *, row_counts: bool) -> str:
    """What somebody knows who looks for trajectories."""
    rows = "all rows" if known_rows is None else f"{known_rows} rows"
    how_many = "and how many there are" if row_counts else "but not how many there are"
    return f"Who looks for trajectories knows {rows} of a person, {how_many}."


def number_trajectories(
    of: AnyIntegers, persons: AnyIntegers, counts: Integers | None = None
) -> Integers:
    """A number for each person: the same for those who have the same rows, in any order.

    Parameters
    ----------
    of : the class of each row.
    persons : whose it is, from 0.
    counts : for how many records of the person it stands; None: one.

    Examples
    --------
    >>> number_trajectories(np.array([7, 8, 8, 7, 7]), np.array([0, 0, 1, 1, 2])).tolist()
    [0, 0, 1]
    """
    from sfumato.kernels.trees.equivalence_classes import number_distinct

    cells = of.astype(np.int64)
    if counts is not None:
        pairs = cells * (int(counts.max(initial=0)) + 1) + counts
        cells = number_distinct(pairs)[0].astype(np.int64)
    width = int(cells.max(initial=0)) + 1
    # Both in one number: sorting it in place takes a third of the memory of an order of the rows.
    cells += persons * np.int64(width)
    cells.sort()
    mine = cells // width
    cells %= width
    begins = np.ones(len(mine), bool)
    begins[1:] = mine[1:] != mine[:-1]
    del mine
    starts = np.flatnonzero(begins)
    lengths = np.diff(np.append(starts, len(begins)))
    # One row after the other is added; only persons who have so many are touched. No two
    # different trajectories get the same number.
    number = np.zeros(len(starts), np.int64)
    for position in range(int(lengths.max(initial=0))):
        longer = np.flatnonzero(lengths > position)
        keys = number[longer] * width + cells[starts[longer] + position]
        number[longer] = number_distinct(keys)[0]
    same = number_distinct(number * (int(lengths.max(initial=0)) + 1) + lengths)[0]
    return same.astype(np.int64)


def count_trajectories(
    of: AnyIntegers, persons: AnyIntegers, counts: Integers | None = None
) -> Integers:
    """How many persons have the same rows, for each person; see `number_trajectories`."""
    same = number_trajectories(of, persons, counts)
    alike: Integers = np.bincount(same)[same]
    return alike


def count_parts(
    of: AnyIntegers, persons: AnyIntegers, known_rows: int, *, row_counts: bool
) -> Integers | None:
    """How many persons have the same of any `known_rows` rows, at least, for each person.

    None where there are too many parts to list.

    Parameters
    ----------
    of : the class of each row.
    persons : whose it is, from 0.
    known_rows : how many rows of a person are known; of who has fewer, all.
    row_counts : whether it is also known how many rows a person has, and how often the same.

    Examples
    --------
    >>> of, persons = np.array([7, 8, 9, 7, 8, 7]), np.array([0, 0, 0, 1, 1, 2])
    >>> count_parts(of, persons, 1, row_counts=False).tolist()
    [1, 2, 3]
    """
    lists = _list_parts(of, persons, known_rows, row_counts=row_counts)
    if lists is None:
        return None
    parts, sought = lists
    having = Counter(part for person in parts for part in person)
    return np.array([min(having[part] for part in person) for person in sought], np.int64)


def number_parts(
    of: AnyIntegers, persons: AnyIntegers, known_rows: int, *, row_counts: bool
) -> tuple[Integers, Integers] | None:
    """Every part of a trajectory that may be known, with each person who has it.

    Parameters and None as for `count_parts`; the persons are numbered by their order.

    Examples
    --------
    >>> of, persons = np.array([7, 8, 7]), np.array([0, 0, 1])
    >>> part, person = number_parts(of, persons, 1, row_counts=False)
    >>> sorted(zip(part.tolist(), person.tolist()))
    [(0, 0), (0, 1), (1, 0)]
    """
    lists = _list_parts(of, persons, known_rows, row_counts=row_counts)
    if lists is None:
        return None
    parts, sought = lists
    number = {part: i for i, part in enumerate(sorted(set().union(*sought)))}
    pairs = [(number[p], i) for i, having in enumerate(parts) for p in having if p in number]
    part, person = np.array(pairs, np.int64).T
    return part, person


_Parts = list[set[tuple[int, ...]]]


def _list_parts(
    of: AnyIntegers, persons: AnyIntegers, known_rows: int, *, row_counts: bool
) -> tuple[_Parts, _Parts] | None:
    """The parts that each person has, and those among them by which the person is looked for."""
    order = np.lexsort((of, persons))
    mine = persons[order]
    rows = np.split(of[order], np.flatnonzero(np.diff(mine)) + 1)
    if not row_counts:
        rows = [np.unique(cells) for cells in rows]
    shorter = not row_counts and any(len(cells) < known_rows for cells in rows)
    sizes = range(1, known_rows + 1) if shorter else [known_rows]
    count = sum(math.comb(len(cells), min(size, len(cells))) for cells in rows for size in sizes)
    if count > _MOST:
        return None
    parts, sought = _Parts(), _Parts()
    for cells in rows:
        values, length = cells.tolist(), len(cells)
        # Who is told apart by the number of rows is compared with those who have as many.
        extra = (-length,) if row_counts else ()
        by_size = {
            size: {(*extra, *part) for part in combinations(values, size)}
            for size in {min(size, length) for size in sizes}
        }
        sought.append(by_size[min(known_rows, length)])
        parts.append(set().union(*by_size.values()))
    return parts, sought


def find_link(data: Dataset, persons: AnyIntegers) -> str | None:
    """The variable by which anybody sees which rows are one person's; None where there is none.

    It is one of which most rows share their value with another row of the same person, and with
    nobody else's.
    """
    if data.schema.person is not None:
        return data.schema.person
    few = persons < _SAMPLE
    for name in data.columns:
        values = data.column(name)
        if _links(values.filter(pl.Series(few)), persons[few]) and _links(values, persons):
            return name
    return None


def _links(values: pl.Series, persons: AnyIntegers) -> bool:
    rows = pl.DataFrame({"value": values, "person": persons})
    several = rows.select((pl.len().over("person") > 1).sum()).item()
    by_value = (
        rows.drop_nulls()
        .group_by("value")
        .agg(pl.len().alias("rows"), pl.col("person").n_unique().alias("persons"))
        .filter((pl.col("rows") > 1) & (pl.col("persons") == 1))
    )
    linked = int(by_value["rows"].sum())
    return bool(several) and linked >= _LINKED * int(several)


def combine_risks(risks: Floats, groups: AnyIntegers, counts: Integers | None = None) -> Floats:
    """The chance that somebody of each group is found: 1 - prod(1 - risk) over its members.

    Parameters
    ----------
    risks : that of each row.
    groups : its group, from 0.
    counts : for how many members it stands; None: one.

    Examples
    --------
    >>> combine_risks(np.array([0.5, 0.5, 0.1]), np.array([0, 0, 1])).round(3).tolist()
    [0.75, 0.1]

    References: Templ, Kowarik & Meindl (2015), Statistical disclosure control for micro-data using
    the R package sdcMicro, JSS 67, section 2.2 (hierarchical risk).
    """
    with np.errstate(divide="ignore"):
        logs = np.log1p(-risks) * (1 if counts is None else counts)
    # Sorted, so that a sum does not depend on the order of the rows.
    order = np.lexsort((logs, groups))
    combined: Floats = -np.expm1(np.bincount(groups[order], logs[order]))
    return combined
