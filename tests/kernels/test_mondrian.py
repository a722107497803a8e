"""Mondrian's clusters and the rules they keep, against slow checkers."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.kernels.clustering.closeness import (
    DIVERSITY,
    ClosenessRule,
    achieved_l,
    achieved_t,
    prepare_rules,
    score_clusters,
)
from sfumato.kernels.clustering.clusters import find_level_sets, find_ranges, origin_order
from sfumato.kernels.clustering.mondrian import group_equal_rows, mondrian


def members(order, starts):
    return [order[first:last].tolist() for first, last in pairwise(starts)]


def slow_t(part, whole, kind, tree=None):
    """The definition, in exact fractions."""
    known_values = sorted(set(whole))
    here, there = Counter(part), Counter(whole)
    share: dict[Any, Any] = {
        value: Fraction(here[value], len(part)) - Fraction(there[value], len(whole))
        for value in known_values
    }
    if kind == "ordered":
        running, total = Fraction(0), Fraction(0)
        for value in known_values:
            running += share[value]
            total += abs(running)
        return total / (len(known_values) - 1) if len(known_values) > 1 else Fraction(0)
    levels = [{value: value for value in known_values}]
    levels += [{value: int(row[value]) for value in known_values} for row in tree or []]
    total = Fraction(0)
    for level in levels:
        for group in set(level.values()):
            total += abs(sum(share[value] for value in known_values if level[value] == group))
    return total / 2 / len(levels)


def slow_l(part, kind, c=1.0):
    counts = sorted(Counter(part).values(), reverse=True)
    if kind == "distinct":
        return len(counts)
    if kind == "entropy":
        return math.exp(-sum(x / len(part) * math.log(x / len(part)) for x in counts))
    return max(
        (index + 1 for index in range(len(counts)) if counts[0] < c * sum(counts[index:])),
        default=0,
    )


@st.composite
def tables(draw):
    records = draw(st.integers(1, 60))
    variables = draw(st.integers(1, 4))
    levels = [draw(st.sampled_from([1, 2, 3, 7, 50, 5000])) for _ in range(variables)]
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, count, records) for count in levels], 1)
    return codes, [draw(st.booleans()) for _ in range(variables)], rng


def released(codes, order, starts):
    """What each record would be released as: its cluster's set of levels per variable."""
    out = [()] * len(codes)
    for cluster in members(order, starts):
        shown = tuple(tuple(sorted(set(codes[cluster, index]))) for index in range(codes.shape[1]))
        for record in cluster:
            out[record] = shown
    return out


@given(tables(), st.integers(1, 8))
@settings(max_examples=150, deadline=None)
def test_every_record_once_every_cluster_large_enough_whatever_the_order(table, k):
    codes, ordered, rng = table
    if len(codes) < k:
        with pytest.raises(ValueError, match=f"need at least as many: there are {len(codes)}"):
            mondrian(codes, k, ordered=ordered)
        return
    order, starts = mondrian(codes, k, ordered=ordered)
    assert sorted(order.tolist()) == list(range(len(codes)))
    assert starts[0] == 0
    assert starts[-1] == len(codes)
    assert np.diff(starts).min() >= k
    shuffled = rng.permutation(len(codes))
    again = released(
        codes[shuffled], *mondrian(codes[shuffled].astype(np.int32), k, ordered=ordered)
    )
    before = released(codes, order, starts)
    assert [before[record] for record in shuffled] == again


@given(tables(), st.integers(1, 6))
@settings(max_examples=150, deadline=None)
def test_groups_of_k_equal_records_stay_as_they_are(table, k):
    codes, ordered, _ = table
    if len(codes) < k:
        return
    groups = Counter(map(tuple, codes.tolist()))
    shown = released(codes, *mondrian(codes, k, ordered=ordered))
    small = sum(count for count in groups.values() if count < k)
    touched = {
        tuple(row)
        for row, sets in zip(codes.tolist(), shown, strict=True)
        if groups[tuple(row)] >= k and any(len(levels) > 1 for levels in sets)
    }
    # Only where too few records would be left over does one group join them.
    assert len(touched) <= (1 if 0 < small < k else 0)


def test_no_ordered_cut_is_left():
    rng = np.random.default_rng(3)
    codes, k = rng.integers(0, 12, (400, 3)), 4
    for cluster in members(*mondrian(codes, k, ordered=[True] * 3)):
        rows = codes[cluster]
        if len(np.unique(rows, axis=0)) == 1:
            continue
        for column in rows.T:
            for cut in np.unique(column):
                remaining = (column <= cut).sum()
                assert min(remaining, len(rows) - remaining) < k


def test_widths_are_in_the_units_given():
    # Among the first four the first variable is wider by its codes (1/3 against 1/4) but not in
    # units; the others are untouched pairs.
    codes = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [2, 4], [2, 4], [3, 4], [3, 4]])
    units = [np.array([0.0, 0.1, 0.2, 100.0]), None]
    by_codes = mondrian(codes, 2, ordered=[True, True])
    by_units = mondrian(codes, 2, ordered=[True, True], values=units)
    pairs = [[4, 5], [6, 7]]
    assert sorted(map(sorted, members(*by_codes))) == [[0, 1], [2, 3], *pairs]
    assert sorted(map(sorted, members(*by_units))) == [[0, 2], [1, 3], *pairs]


def test_rows_that_need_more_than_64_bits_are_told_apart():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2**31 - 1, (200, 4))[rng.integers(0, 200, 600)]
    order, starts = group_equal_rows(codes)
    assert len(starts) - 1 == len(np.unique(codes, axis=0))
    for group in members(order, starts):
        assert len(np.unique(codes[group], axis=0)) == 1


KINDS = [
    ClosenessRule("ordered", 0.3),
    ClosenessRule("equal", 0.4),
    ClosenessRule("distinct", 2),
    ClosenessRule("entropy", 1.7),
    ClosenessRule("recursive", 2, c=2.0),
]


@given(tables(), st.integers(1, 5), st.lists(st.sampled_from(KINDS), min_size=1, max_size=2))
@settings(max_examples=150, deadline=None)
def test_every_cluster_keeps_every_rule_or_the_best_possible_is_told(table, k, rules):
    codes, ordered, rng = table
    if len(codes) < k:
        return
    sensitive = rng.integers(0, 4, (len(codes), 2)) * [1, 3]
    rules = [
        ClosenessRule(rule.kind, rule.limit, column=index, c=rule.c)
        for index, rule in enumerate(rules)
    ]
    needs = [rule for rule in rules if rule.kind in {"distinct", "entropy", "recursive"}]
    best = {rule: slow_l(sensitive[:, rule.column].tolist(), rule.kind, rule.c) for rule in needs}
    poor = [rule for rule in needs if best[rule] < rule.limit]
    if poor:
        with pytest.raises(ValueError, match=f"all records together have {best[poor[0]]:.6g}"):
            mondrian(codes, k, ordered=ordered, sensitive=sensitive, rules=rules)
        return
    order, starts = mondrian(codes, k, ordered=ordered, sensitive=sensitive, rules=rules)
    assert sorted(order.tolist()) == list(range(len(codes)))
    assert np.diff(starts).min() >= k
    for rule in rules:
        total = sensitive[:, rule.column].tolist()
        for cluster in members(order, starts):
            part = [total[record] for record in cluster]
            if rule in needs:
                assert slow_l(part, rule.kind, rule.c) >= rule.limit - 1e-9
            else:
                assert slow_t(part, total, rule.kind) <= rule.limit + 1e-9
    shuffled = rng.permutation(len(codes))
    again = mondrian(
        codes[shuffled], k, ordered=ordered, sensitive=sensitive[shuffled], rules=rules
    )
    before = released(codes, order, starts)
    assert [before[record] for record in shuffled] == released(codes[shuffled], *again)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.sampled_from([1, 2, 5, 40, 300]))
@settings(max_examples=80, deadline=None)
def test_achieved_t_and_l_are_the_definitions(seed, clusters, levels):
    rng = np.random.default_rng(seed)
    records = clusters * int(rng.integers(1, 40))
    codes = rng.integers(0, levels, records) * 2
    order = rng.permutation(records)
    edges = rng.choice(np.arange(1, records), min(clusters, records) - 1, replace=False)
    starts = np.array([0, *sorted(edges.tolist()), records])
    tree = [np.arange(2 * levels) // 4, np.arange(2 * levels) // 16]
    parts = [codes[part].tolist() for part in members(order, starts)]
    total = codes.tolist()
    kinds: list[tuple[Any, Any]] = [("ordered", None), ("equal", None), ("equal", tree)]
    for kind, groups in kinds:
        result = achieved_t(
            codes, order, starts, kind, None if groups is None else np.array(groups)
        )
        wanted = [float(slow_t(part, total, kind, groups)) for part in parts]
        np.testing.assert_allclose(result, wanted, rtol=1e-14, atol=1e-16)
    for kind in DIVERSITY:
        result = score_clusters(codes, order, starts, ClosenessRule(kind, 0.0, c=1.5))
        wanted = [slow_l(part, kind, 1.5) for part in parts]
        np.testing.assert_allclose(result, wanted, rtol=1e-12)


def test_sums_beyond_64_bits_are_exact():
    # The lower half of 5 million different values: counted, the sum is 1.6e19, above 2^63.
    n, half = 5_000_000, 2_500_000
    codes = np.arange(n)
    starts = np.array([0, half, n])
    # The lower half is ahead by i/half - i/n up to its end, then by 1 - i/n.
    ahead = Fraction(half * (half + 1) // 2 + half * (half - 1) // 2, n)
    result = achieved_t(codes, codes, starts)
    np.testing.assert_allclose(result, float(ahead / (n - 1)), rtol=1e-14)
    many = np.repeat([0, 1], [n - 1, 1])
    result = achieved_t(many, codes, starts, "equal", np.zeros((1, 2), np.int64))
    np.testing.assert_allclose(result, 1 / n / 2, rtol=1e-9)


def test_only_values_that_occur_count():
    assert achieved_l(np.array([0, 900]), np.arange(2), np.array([0, 2])).tolist() == [2.0]
    _, total = prepare_rules(np.array([0, 0, 900]), [ClosenessRule("ordered", 0.1)])
    assert total.firsts.tolist() == [0, 2]
    assert achieved_t(np.array([0, 900]), np.arange(2), np.array([0, 1, 2])).tolist() == [0.5, 0.5]


@pytest.fixture(scope="module")
def adult(shared_data):
    frame = pl.read_csv(shared_data / "adult.csv")
    names = ["gender", "age", "race", "marital_status", "education", "native_country"]
    names += ["workclass", "occupation"]
    columns = [np.unique(frame[name].to_numpy(), return_inverse=True)[1] for name in names]
    return np.stack(columns, 1)


def width(codes, order, starts):
    """The mean range of the records' clusters, as a share of the variables' ranges."""
    low, high = find_ranges(codes, order, starts)
    shares = (high - low) / (codes.max(0) - codes.min(0))
    return (shares * np.diff(starts)[:, None]).sum() / len(codes) / codes.shape[1]


@pytest.mark.parametrize("k", [2, 5, 10])
def test_adult_loses_much_less_than_along_the_distance_to_the_origin(adult, k):
    ours = width(adult, *mondrian(adult, k, ordered=[True] * 8))
    assert ours <= 0.2 * width(adult, *origin_order(adult, k))


def test_adult_nominal_cuts_leave_fewer_levels_than_ordered_ones(adult):
    nominal = [index != 1 for index in range(8)]
    ways = (
        mondrian(adult, 5, ordered=[True] * 8),
        mondrian(adult, 5, ordered=[not flag for flag in nominal]),
    )
    levels = [
        sum(
            ((np.diff(find_level_sets(adult[:, index], *way)[1]) - 1) * np.diff(way[1])).sum()
            / adult[:, index].max()
            for index in range(8)
            if nominal[index]
        )
        for way in ways
    ]
    assert levels[1] < levels[0]
