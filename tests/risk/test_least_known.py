"""Few variables that single people out, against counting every combination one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.engines import LocalEngine
from sfumato.risk.least_known import find_keys, find_least_known

NAMES = ("a", "b", "c", "d")
ROWS = st.lists(st.tuples(*[st.integers(0, 2)] * 4), min_size=1, max_size=14)


def alone(rows: Sequence[tuple[int, ...]], chosen: Sequence[int]) -> set[int]:
    """The rows whose cells nobody shares, counted the slow way."""
    keys = [tuple(row[i] for i in chosen) for row in rows]
    counts = Counter(keys)
    return {number for number, key in enumerate(keys) if counts[key] == 1}


@settings(max_examples=80, deadline=None)
@given(ROWS)
def test_as_few_variables_as_are_needed(rows):
    data = sf.Dataset(pl.DataFrame(rows, schema=NAMES, orient="row"))
    found = find_least_known(data, NAMES, LocalEngine())
    assert found is not None
    assert found.people == len(rows)
    assert found.alone == len(alone(rows, range(4)))
    chosen = [NAMES.index(name) for name in found.variables]
    assert found.alone_so_far == tuple(
        len(alone(rows, chosen[: number + 1])) for number in range(len(chosen))
    )
    assert found.alone_so_far[-1] == found.alone
    if len(chosen) > 1:
        for left_out in chosen:
            fewer = [other for other in chosen if other != left_out]
            assert len(alone(rows, fewer)) < found.alone
    assert found.by_two == len(
        set().union(*(alone(rows, pair) for pair in combinations(range(4), 2)))
    )


@settings(max_examples=40, deadline=None)
@given(ROWS)
def test_keys_are_the_fewest_variables_of_each_record(rows):
    data = sf.Dataset(pl.DataFrame(rows, schema=NAMES, orient="row"))
    keys, key_of = find_keys(data, NAMES, most=3)
    for number, key in enumerate(keys[key] for key in key_of):
        sizes = [
            len(chosen)
            for size in (1, 2, 3)
            for chosen in combinations(range(4), size)
            if number in alone(rows, chosen)
        ]
        assert len(key) == min(sizes, default=0)
        if key:
            assert number in alone(rows, [NAMES.index(name) for name in key])


def test_persons_with_several_rows_are_counted_once():
    frame = pl.DataFrame({"who": [1, 1, 2, 3], "a": [0, 0, 0, 1], "b": [0, 1, 0, 0]})
    data = sf.Dataset(frame, sf.Schema({"who": "person", "a": "quasi", "b": "quasi"}))
    found = find_least_known(data, ["a", "b"], LocalEngine())
    assert found is not None
    assert (found.people, found.alone) == (3, 2)
