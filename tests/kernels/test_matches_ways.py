"""Peers in larger tables by all ways, limits, and questions without an answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.kernels.slow_matches import PER_ROW

from sfumato.kernels.lattice.combinations import list_combinations, set_limits
from sfumato.kernels.lattice.matches import (
    count_matches,
    match_cells,
    match_equal,
    match_near,
)
from sfumato.kernels.lattice.peers import count_peers
from sfumato.kernels.trees.boxes import Cells


def normal(rows, close, other, seed=0):
    """Numbers within a tenth of each other, and codes."""
    draws, results = np.random.default_rng(seed), []
    for _ in range(close):
        values = draws.normal(size=rows)
        levels = np.sort(values)
        low = np.searchsorted(levels, values - 0.1)
        high = np.searchsorted(levels, values + 0.1, "right") - 1
        results.append(match_near(np.searchsorted(levels, values), low, high))
    return [*results, *(match_equal(draws.integers(0, 4, rows)) for _ in range(other))]


@pytest.mark.parametrize("close", [1, 2, 3, 4])
def test_larger_tables_by_both_ways(close):
    rows = 3000
    relations = normal(rows, close, 2)
    counts = np.random.default_rng(1).integers(1, 4, rows)
    everything = range(len(relations))
    reports: list[tuple[str, int, int]] = []
    item, other = (
        count_matches(
            relations, counts, sensitive=[0, len(relations) - 1], known=everything, way=way,
            say=lambda *what: reports.append(what),
        )
        for way in ("sums", "sweep")
    )  # fmt: skip
    for name in PER_ROW:
        assert (getattr(item, name) == getattr(other, name)).all(), name
    assert all(done <= total for _, done, total in reports)
    assert reports[-1][1] == reports[-1][2]


def test_many_columns():
    draws = np.random.default_rng(2)
    codes = draws.integers(0, 3, (60, 20))
    counts, everything = np.ones(60, int), range(20)
    expected = count_peers(codes, counts, sensitive=[0, 5], known=everything, most=2)
    result = count_matches(
        [*map(match_equal, codes.T)], counts, sensitive=[0, 5], known=everything, most=2
    )
    assert result.way in ("list", "sweep")
    entries = count_matches(
        [*map(match_equal, codes.T)], counts, sensitive=[0, 5], known=everything, most=2, way="list"
    )
    for name in PER_ROW:
        if name != "fewest_alternatives":
            assert (getattr(entries, name) == getattr(expected, name)).all(), name


def test_the_cheaper_way_is_taken():
    few, many = (normal(rows, 2, 3) for rows in (300, 30_000))
    assert count_matches(few, np.ones(300, int), sensitive=[4], known=range(4)).way == "sums"
    some = np.arange(10)
    reports = count_matches(many, np.ones(30_000, int), sensitive=[4], known=range(4), targets=some)
    assert reports.way == "sums"
    assert count_matches(many, np.ones(30_000, int), sensitive=[4], known=range(4)).way == "sweep"


def test_a_budget_says_what_would_fit():
    relations, counts = normal(2000, 2, 3), np.ones(2000, int)
    question: dict[str, Any] = {"sensitive": [4], "known": range(4)}
    with pytest.raises(ValueError, match=r"individuals=\d+ would fit") as caught:
        count_matches(relations, counts, budget=100_000, **question)
    fits = int(str(caught.value).split("individuals=")[1].split()[0])
    result = count_matches(relations, counts, budget=100_000, targets=np.arange(fits), **question)
    assert len(result.targets) == fits
    with pytest.raises(ValueError, match="fewer variables might"):
        count_matches(relations, counts, budget=1, **question)


def test_where_only_a_sweep_fits_other_values_are_not_followed():
    relations, counts = normal(6000, 2, 3), np.ones(6000, int)
    question: dict[str, Any] = {"sensitive": [4], "known": range(4), "most": 2}
    with pytest.raises(ValueError, match="most=1 or individuals") as caught:
        count_matches(relations, counts, budget=1_000_000, **question)
    assert "10 combinations" in str(caught.value)
    for share in (0, 0.1):
        result = count_matches(relations, counts, budget=3_500_000, q=share, **question)
        assert result.way == "sweep"
        assert (result.fewest_alternatives == -1).all()
        assert np.isnan(result.least_poac).all()
        assert ((result.alternatives < 0) == (share > 0)).all()
    total = count_matches(relations, counts, way="sums", **question)
    assert (total.least_protective == result.least_protective).all()
    assert (total.least_mask == result.least_mask).all()


def test_combinations_in_order():
    within = set_limits(4, 2, None)
    assert list_combinations(within, [3, 0, 1]).tolist() == [
        0b1,
        0b10,
        0b1000,
        0b11,
        0b1001,
        0b1010,
    ]


WRONG = [
    ({"counts": np.ones(2, int)}, "a count for each row"),
    ({"counts": np.zeros(3, int)}, "Counts are whole numbers"),
    ({"counts": np.full(3, 1 << 30)}, "Counts are whole numbers"),
    ({"sensitive": []}, "at least one each"),
    ({"sensitive": [7]}, "at least one each"),
    ({"known": [1, 1]}, "named once"),
    ({"known": [0]}, "No combination is left"),
    ({"p": 1.0}, "p is 0 or more"),
]


@pytest.mark.parametrize(("change", "says"), WRONG, ids=[says for _, says in WRONG])
def test_questions_without_an_answer(change, says):
    question: dict[str, Any] = {"counts": np.ones(3, int), "sensitive": [0], "known": [1]}
    question |= change
    with pytest.raises(ValueError, match=says):
        count_matches([match_equal(np.arange(3))] * 2, question.pop("counts"), **question)


def test_relations_without_sense():
    with pytest.raises(ValueError, match="matches itself"):
        match_near(np.array([0, 1]), np.array([1, 1]), np.array([1, 1]))
    ends = np.arange(20_000, dtype=np.int32)
    table = Cells(ends, ends, 20_000, np.arange(0, 20_002, 2))
    with pytest.raises(ValueError, match="different sets of values"):
        match_cells(np.zeros(3, int), table)
