"""The worst variable, pair and subset, against all subsets one record at a time."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.pairs import subsets
from sfumato.pairs.subsets import SubsetCloseness, find_worst_subset, share_by_chance

cell = st.sampled_from(["close", "far", "missing"])
tables = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(cell, min_size=width, max_size=width), min_size=1, max_size=25)
)


def share(table, columns):
    """By definition: of those with some value, those none of whose values is far."""
    rows = [[row[column] for column in columns] for row in table]
    known = [row for row in rows if set(row) != {"missing"}]
    return sum("far" not in row for row in known) / len(known) if known else -1.0


def read(table):
    array = np.array(table)
    return SubsetCloseness(array == "close", array != "missing")


@settings(max_examples=200)
@given(tables)
def test_no_subset_is_worse_than_the_one_found(table):
    if all(value == "missing" for row in table for value in row):
        return
    worst = find_worst_subset(read(table))
    width = len(table[0])
    every = [subset for size in range(1, width + 1) for subset in combinations(range(width), size)]
    assert worst.exhaustive
    assert worst.share == pytest.approx(max(share(table, subset) for subset in every))
    assert share(table, worst.columns) == pytest.approx(worst.share)
    assert share(table, (worst.variable,)) == max(share(table, (at,)) for at in range(width))
    if width > 1:
        assert worst.pair is not None
        assert worst.pair_share == max(share(table, two) for two in combinations(range(width), 2))


def test_beyond_the_bound_the_search_is_greedy_and_says_so(monkeypatch):
    random = np.random.default_rng(0)
    close, known = random.random((300, 40)) < 0.5, random.random((300, 40)) < 0.7
    monkeypatch.setattr(subsets, "_EFFORT", 1)
    worst = find_worst_subset(SubsetCloseness(close, known))
    assert not worst.exhaustive
    singles = [close[known[:, at], at].mean() for at in range(40)]
    assert worst.share >= max(singles)
    assert worst.pair is not None
    assert not math.isnan(worst.pair_share)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=30),
    st.integers(0, 3),
)
def test_chance_by_all_pairs(pairs, width):
    was, now = np.array(pairs, float).T
    near = np.abs(was[:, None] - now[None]) <= width
    count = len(pairs)
    expected = (near.sum() - near.trace()) / (count * (count - 1))
    assert share_by_chance(was, now, float(width)) == pytest.approx(expected)
