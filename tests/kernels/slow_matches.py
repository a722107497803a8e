"""Peers by every pair and combination, one by one: what the kernels are checked against."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
from hypothesis import strategies as st

from sfumato.kernels.lattice.matches import count_matches, match_cells, match_equal, match_near
from sfumato.kernels.trees.boxes import Cells

PER_ROW = [
    "peers", "same", "alternatives", "least_protective", "least_peers", "least_mask",
    "fewest_protective", "fewest_alternatives", "breach_mask", "breach_size",
]  # fmt: skip
SIZE = 6
"""Codes of a generalised variable."""


class Column:
    """A column as it is told: `sure` and `possible` say what matches, one pair at a time."""

    def __init__(self, kind: str, values: list[Any], width: Fraction = Fraction(0)) -> None:
        self.kind, self.values, self.width = kind, values, width

    def possible(self, i: int, j: int) -> bool:
        mine, other = self.values[i], self.values[j]
        if self.kind == "equal":
            return bool(mine == other)
        if self.kind == "cells":
            return bool(mine & other)
        reach = self.width if self.kind == "absolute" else self.width * abs(mine)
        return bool(abs(mine - other) <= reach)

    def sure(self, i: int, j: int) -> bool:
        if self.kind == "cells":
            return bool(self.values[i] <= self.values[j])
        return self.possible(i, j)

    def relation(self):
        if self.kind == "equal":
            return match_equal(np.array(self.values))
        if self.kind == "cells":
            return match_cells(*cells_of(self.values))
        levels = sorted(set(self.values))
        own = np.array([levels.index(one) for one in self.values])
        n = range(len(own))
        within = [[own[j] for j in n if self.possible(i, j)] for i in n]
        return match_near(own, np.array([*map(min, within)]), np.array([*map(max, within)]))


def cells_of(sets):
    """Which of the distinct cells each is, and these as intervals of codes."""
    distinct = sorted(set(sets), key=sorted)
    pieces = []
    for item in distinct:
        starts = [code for code in sorted(item) if code - 1 not in item]
        ends = [code for code in sorted(item) if code + 1 not in item]
        pieces.append(list(zip(starts, ends, strict=True)))
    flat = np.array([pair for counts in pieces for pair in counts], np.int32)
    begins = np.cumsum([0, *map(len, pieces)])
    gaps = len(flat) > len(pieces)
    table = Cells(flat[:, 0].copy(), flat[:, 1].copy(), SIZE, begins if gaps else None)
    return np.array([distinct.index(item) for item in sets], np.int32), table


def seen(columns, counts, i, s, a):
    """Who protects, who may not, and the records of each other value: for sure, possibly."""
    sure = [j for j in range(len(counts)) if all(columns[c].sure(i, j) for c in a)]
    possible = [j for j in range(len(counts)) if all(columns[c].possible(i, j) for c in a)]
    protective = sum(counts[j] for j in sure if not columns[s].possible(i, j))
    same = sum(counts[j] for j in possible if columns[s].possible(i, j))
    return protective, same, sure, possible


def other_values(columns, counts, i, s, a, q):
    if columns[s].kind != "equal":
        return -1
    _, _, sure, possible = seen(columns, counts, i, s, a)
    values, likely = columns[s].values, 0
    for v in {values[j] for j in sure} - {values[i]}:
        x = sum(counts[j] for j in sure if values[j] == v)
        y = sum(counts[j] for j in possible if values[j] != v)
        likely += Fraction(int(x), int(x + y)) > q
    return likely


def slow(columns, counts, s, known, *, q=Fraction(0), p=Fraction(0), fits=lambda _: True):
    """Every combination for every row, one after the other."""
    known = sorted({*known} - {s})
    sets = [a for n in range(1, len(known) + 1) for a in combinations(known, n) if fits(a)]
    result: dict[str, list[int]] = {name: [] for name in PER_ROW}
    for i in range(len(counts)):
        everything = [(*seen(columns, counts, i, s, a)[:2], a) for a in sets]
        ranked = sorted(
            (Fraction(int(x), int(x + y)), len(a), sum(1 << c for c in a), x, y)
            for x, y, a in everything
        )
        _, _, mask, x, y = ranked[0]
        size, breach = min([item[1:3] for item in ranked if item[0] <= p], default=(0, 0))
        top = seen(columns, counts, i, s, known)
        values = [
            top[0] + top[1], top[1], other_values(columns, counts, i, s, known, q), x, x + y,
            mask, min(item[0] for item in everything),
            min(other_values(columns, counts, i, s, a, q) for a in sets), breach, size,
        ]  # fmt: skip
        for name, value in zip(PER_ROW, values, strict=True):
            result[name].append(int(value))
    return result, len(sets)


@st.composite
def tables(draw, kinds=("equal", "absolute", "relative", "cells"), width=4):
    """Columns of mixed kinds, with counts."""
    rows, columns = draw(st.integers(1, 9)), []
    for _ in range(draw(st.integers(2, width))):
        kind = draw(st.sampled_from(kinds))
        if kind == "cells":
            item = st.one_of(
                st.integers(0, SIZE - 1).map(lambda v: frozenset({v})),
                st.frozensets(st.integers(0, SIZE - 1), min_size=1),
                st.tuples(st.integers(0, SIZE - 1), st.integers(1, SIZE)).map(
                    lambda t: frozenset(range(t[0], min(SIZE, t[0] + t[1])))
                ),
            )
            values = draw(st.lists(item, min_size=rows, max_size=rows))
        else:
            few = st.integers(0 if kind == "equal" else -4, 3)
            values = draw(st.lists(few, min_size=rows, max_size=rows))
        if kind == "equal":
            values = np.unique(values, return_inverse=True)[1].ravel().tolist()
        columns.append(Column(kind, values, draw(st.sampled_from([Fraction(1, 2), Fraction(1)]))))
    counts = draw(st.lists(st.integers(1, 3), min_size=rows, max_size=rows))
    return columns, np.array(counts)


def agree(result, index, expected, names=PER_ROW):
    for name in names:
        assert getattr(result, name)[index].tolist() == expected[name], name


def ask(columns, counts, **options):
    return count_matches([item.relation() for item in columns], counts, **options)
