"""Peers by tolerance and by cells that fit, against every pair and combination one by one."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.slow_matches import PER_ROW, agree, ask, slow, tables

from sfumato.kernels.lattice.peers import Effort, count_peers

SHARES = st.sampled_from([Fraction(0), Fraction(1, 5), Fraction(1, 3), Fraction(1, 2)])


@settings(max_examples=80)
@given(tables(), SHARES, SHARES)
def test_agrees_with_every_pair_and_combination(table, q, p):
    columns, counts = table
    everything = range(len(columns))
    result = ask(columns, counts, sensitive=everything, known=everything, q=q, p=p)
    assert result.complete
    for s in everything:
        expected, number = slow(columns, counts, s, everything, q=q, p=p)
        assert result.combinations[s] == number
        agree(result, s, expected)


@settings(max_examples=60)
@given(tables(), st.data())
def test_limits_leave_out_what_they_say(table, data):
    columns, counts = table
    m = len(columns)
    most = data.draw(st.integers(1, m))
    costs = data.draw(st.lists(st.sampled_from([0, 0.1, 0.5, 1]), min_size=m, max_size=m))
    limit = data.draw(st.sampled_from([0.6, 1.0, 1.5]))
    hardly = Effort(costs, limit)

    def fits(a):
        return len(a) <= most and sum(round(10 * costs[c]) for c in a) <= round(10 * limit)

    q = data.draw(SHARES)
    everything = range(m)
    if not all(any(fits((c,)) for c in everything if c != s) for s in everything):
        with pytest.raises(ValueError, match="No combination is left"):
            ask(columns, counts, sensitive=everything, known=everything, most=most, effort=hardly)
        return
    for way in ("sums", "list"):
        result = ask(
            columns,
            counts,
            sensitive=everything,
            known=everything,
            most=most,
            effort=hardly,
            q=q,
            way=way,
        )
        names = PER_ROW
        if way == "list" and (q > 0 or not result.complete):
            names = [name for name in PER_ROW if name != "fewest_alternatives"]
            assert (result.fewest_alternatives == -1).all()
        for s in everything:
            agree(result, s, slow(columns, counts, s, everything, q=q, fits=fits)[0], names)


@settings(max_examples=60)
@given(tables(kinds=("equal", "absolute", "relative"), width=5), SHARES)
def test_all_ways_agree(table, p):
    columns, counts = table
    everything = range(len(columns))
    item, *others = (
        ask(columns, counts, sensitive=everything, known=everything, p=p, way=way)
        for way in ("sums", "list", "sweep")
    )
    for other in others:
        for name in PER_ROW:
            assert (getattr(item, name) == getattr(other, name)).all(), (other.way, name)
        np.testing.assert_array_equal(item.least_poac, other.least_poac)


@settings(max_examples=50)
@given(tables(kinds=("equal",)), SHARES, SHARES)
def test_equal_values_are_those_of_the_lattice(table, q, p):
    columns, counts = table
    codes, everything = np.column_stack([item.values for item in columns]), range(len(columns))
    expected = count_peers(codes, counts, sensitive=everything, known=everything, q=q, p=p)
    result = ask(columns, counts, sensitive=everything, known=everything, q=q, p=p)
    for name in [*PER_ROW, "values", "combinations", "least_poac", "ppp"]:
        np.testing.assert_array_equal(getattr(result, name), getattr(expected, name))


@settings(max_examples=50)
@given(tables(kinds=("equal", "cells"), width=3))
def test_the_bound_never_flatters(table):
    """Whatever the true values are, the share of protective peers is at least what is told."""
    columns, counts = table
    cells = [
        [item if c.kind == "cells" else frozenset({item}) for item in c.values] for c in columns
    ]
    s, known = 0, range(1, len(columns))
    result = ask(columns, counts, sensitive=[s], known=known)
    sets = [a for n in range(1, len(columns)) for a in combinations(known, n)]
    for i in range(len(counts)):
        worst, best = Fraction(1), Fraction(0)
        for truth in product(*(sorted(column[i]) for column in cells)):
            shares = []
            for a in sets:
                fit = [j for j in range(len(counts)) if all(truth[c] in cells[c][j] for c in a)]
                safe = sum(int(counts[j]) for j in fit if truth[s] not in cells[s][j])
                shares.append(Fraction(safe, sum(int(counts[j]) for j in fit)))
            worst, best = min(worst, *shares), max(best, min(shares))
        reports = Fraction(int(result.least_protective[0, i]), int(result.least_peers[0, i]))
        assert reports <= worst
        if result.exact[i]:
            assert reports == worst == best


@settings(max_examples=50)
@given(tables(), st.data())
def test_forgetting_a_variable_never_lowers_the_number_of_protective_peers(table, data):
    columns, counts = table
    known = range(1, len(columns))
    everything = ask(columns, counts, sensitive=[0], known=known)
    protective = everything.peers - everything.same
    assert (everything.fewest_protective == protective).all()
    if len(columns) > 2:
        gone = data.draw(st.sampled_from(list(known)))
        fewer = ask(columns, counts, sensitive=[0], known=[c for c in known if c != gone])
        assert (fewer.peers - fewer.same >= protective).all()
    if all(item.kind != "cells" for item in columns):
        assert ((everything.least_protective == 0) == (protective == 0)).all()


@settings(max_examples=50)
@given(tables(), st.data())
def test_some_rows_get_what_all_rows_get(table, data):
    columns, counts = table
    everything = range(len(columns))
    some = data.draw(st.lists(st.integers(0, len(counts) - 1), min_size=1, unique=True))
    total = ask(columns, counts, sensitive=everything, known=everything)
    part = ask(columns, counts, sensitive=everything, known=everything, targets=np.array(some))
    for name in PER_ROW:
        assert (getattr(part, name) == getattr(total, name)[:, some]).all(), name
    assert (part.exact == total.exact[some]).all()
