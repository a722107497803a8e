from __future__ import annotations

import json
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.kernels.lattice.peers import Effort, count_peers, count_value_peers

PER_ROW = [
    "peers", "same", "alternatives", "least_protective", "least_peers", "least_mask",
    "fewest_protective", "fewest_alternatives", "breach_mask", "breach_size",
]  # fmt: skip


def seen_by(codes, counts, row, item, a, q):
    """Peers of a row in the columns `a`, those with its value, and other likely values."""
    fits = (codes[:, a] == codes[row, a]).all(axis=1)
    peers = int(counts[fits].sum())
    held = [
        int(counts[fits & (codes[:, item] == v)].sum()) for v in range(codes[:, item].max() + 1)
    ]
    same = held.pop(codes[row, item])
    return peers, same, sum(Fraction(other, peers) > q for other in held)


def slow(codes, counts, item, known, *, q=Fraction(0), p=Fraction(0), allowed=lambda _: True):
    """Every combination for every row, one after the other."""
    known = sorted({*known} - {item})
    result: dict[str, list[int]] = {name: [] for name in PER_ROW}
    sets = [a for n in range(1, len(known) + 1) for a in combinations(known, n) if allowed(a)]
    for row in range(len(codes)):
        top = seen_by(codes, counts, row, item, known, q)
        everything = [(*seen_by(codes, counts, row, item, list(a), q), a) for a in sets]
        ranked = sorted(
            (Fraction(peers - same, peers), len(a), sum(1 << c for c in a), peers, same)
            for peers, same, _, a in everything
        )
        _, _, mask, peers, same = ranked[0]
        size, breach = min([item[1:3] for item in ranked if item[0] <= p], default=(0, 0))
        values = [
            *top, peers - same, peers, mask, min(item[0] - item[1] for item in everything),
            min(item[2] for item in everything), breach, size,
        ]  # fmt: skip
        for name, value in zip(PER_ROW, values, strict=True):
            result[name].append(value)
    return result, len(sets)


@st.composite
def tables(draw, columns=5):
    """Rows with counts: few values or many, now and then a constant column or distinct rows."""
    width, rows = draw(st.integers(2, columns)), draw(st.integers(1, 10))
    sizes = draw(st.lists(st.sampled_from([1, 2, 2, 3, 5]), min_size=width, max_size=width))
    values = draw(st.tuples(*[st.lists(st.integers(0, s - 1), min_size=rows, max_size=rows)
                              for s in sizes]))  # fmt: skip
    codes = np.array(values).T
    if draw(st.booleans()):
        codes[:, 0] = np.arange(rows)
    codes = np.column_stack([np.unique(item, return_inverse=True)[1].ravel() for item in codes.T])
    if draw(st.booleans()):
        codes = np.unique(codes, axis=0)
    counts = draw(st.lists(st.integers(1, 4), min_size=len(codes), max_size=len(codes)))
    return codes, np.array(counts)


def agree(result, index, expected):
    for name in PER_ROW:
        assert getattr(result, name)[index].tolist() == expected[name], name


@given(tables(), st.sampled_from([0, 0.25, 1 / 3, 0.5]), st.sampled_from([0, 0.2, 0.5, 2 / 3]))
@settings(max_examples=100)
def test_agrees_with_every_combination_one_by_one(table, q, p):
    codes, counts = table
    everything = range(codes.shape[1])
    result = count_peers(codes, counts, sensitive=everything, known=everything, q=q, p=p)
    assert result.complete
    for item in everything:
        q_, p_ = (Fraction(x).limit_denominator(100) for x in (q, p))
        expected, number = slow(codes, counts, item, everything, q=q_, p=p_)
        agree(result, item, expected)
        assert result.combinations[item] == number
        assert result.left_out[item] == 0


@given(tables(), st.data())
@settings(max_examples=100)
def test_limits_leave_out_what_they_say(table, data):
    codes, counts = table
    columns = codes.shape[1]
    subset = st.lists(st.integers(0, columns - 1), min_size=1, unique=True)
    sensitive, known = data.draw(subset), data.draw(subset)
    most = data.draw(st.none() | st.integers(1, columns))
    costs = data.draw(st.lists(st.sampled_from([0, 0.1, 0.2, 1, np.inf]),
                               min_size=columns, max_size=columns))  # fmt: skip
    effort = data.draw(st.none() | st.sampled_from([0, 0.3, 1.1, np.inf]))
    q, p = data.draw(st.sampled_from([(0, 0), (0.25, 0.5)]))

    def allowed(a):
        spent = sum(10 * costs[c] for c in a)
        within = effort is None or (spent < np.inf and round(spent) <= 10 * effort)
        return within and (most is None or len(a) <= most)

    def ask():
        limit = None if effort is None else Effort(costs, effort)
        return count_peers(
            codes, counts, sensitive=sensitive, known=known, most=most, effort=limit, q=q, p=p
        )

    remaining = [[c for c in known if c != item and allowed([c])] for item in sensitive]
    if not all(remaining):
        with pytest.raises(ValueError, match="No combination"):
            ask()
        return
    result = ask()
    for index, item in enumerate(sensitive):
        expected, number = slow(
            codes, counts, item, known, q=Fraction(q), p=Fraction(p), allowed=allowed
        )
        agree(result, index, expected)
        assert result.combinations[index] == number
        assert result.left_out[index] == 2 ** len({*known} - {item}) - 1 - number
    assert result.complete == (not any(result.left_out))


@given(tables(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(table, random):
    codes, counts = table
    everything = range(codes.shape[1])
    order = list(range(len(codes)))
    random.shuffle(order)
    item = count_peers(codes, counts, sensitive=everything, known=everything, q=0.2, p=0.3)
    other = count_peers(
        codes[order], counts[order], sensitive=everything, known=everything, q=0.2, p=0.3
    )
    for name in PER_ROW:
        assert (getattr(item, name)[:, order] == getattr(other, name)).all()


@given(tables(), st.data())
def test_forgetting_a_variable_never_lowers_the_number_of_protective_peers(table, data):
    codes, counts = table
    everything = list(range(codes.shape[1]))
    sensitive = data.draw(st.sampled_from(everything))
    known = [item for item in everything if item != sensitive]
    forgotten = data.draw(st.sampled_from(known))
    more = count_peers(codes, counts, sensitive=[sensitive], known=known)
    assert (more.fewest_protective == more.peers - more.same).all()
    assert ((more.least_protective == 0) == (more.peers == more.same)).all()
    if len(known) > 1:
        known.remove(forgotten)
        less = count_peers(codes, counts, sensitive=[sensitive], known=known)
        assert (less.peers - less.same >= more.peers - more.same).all()


def test_rows_that_stand_for_many_records_are_those_records():
    draws = np.random.default_rng(1)
    codes, counts = draws.integers(0, 3, (60, 5)), draws.integers(1, 4, 60)
    item = count_peers(codes, counts, sensitive=[0, 2], known=[1, 2, 3], q=0.1)
    many = np.repeat(np.arange(60), counts)
    other = count_peers(
        codes[many], np.ones(len(many), int), sensitive=[0, 2], known=[1, 2, 3], q=0.1
    )
    for name in PER_ROW:
        assert (getattr(item, name)[:, many] == getattr(other, name)).all()


@pytest.mark.parametrize("threads", [1, 3])
def test_larger_tables_and_threads(threads, monkeypatch):
    from sfumato.kernels.lattice import peers as lattice_rounds

    monkeypatch.setattr(lattice_rounds, "_PARALLEL", 0)
    monkeypatch.setattr("os.cpu_count", lambda: threads)
    draws = np.random.default_rng(threads)
    codes = np.column_stack([draws.integers(0, size, 120) for size in (2, 3, 4, 9, 300)])
    counts = draws.integers(1, 9, 120)
    everything = range(5)
    reports = []
    result = count_peers(
        codes,
        counts,
        sensitive=everything,
        known=everything,
        q=0.1,
        p=0.2,
        say=lambda *all_: reports.append(all_),
    )
    for item in everything:
        expected, _ = slow(codes, counts, item, everything, q=Fraction(1, 10), p=Fraction(1, 5))
        agree(result, item, expected)
    assert reports[-1] == ("combinations", 120 * 31, 120 * 31)
    assert [done for _, done, _ in reports] == sorted({done for _, done, _ in reports})


@pytest.mark.parametrize("rows", [62, 63, 64, 130])
def test_groups_about_as_large_as_a_word(rows):
    draws = np.random.default_rng(rows)
    codes = np.column_stack([draws.integers(0, size, rows) for size in (1, 2, 3, 2, 5)])
    counts = draws.integers(1, 9, rows)
    counts[0] = 2**30
    result = count_peers(codes, counts, sensitive=[4, 1, 2], known=[0, 1, 2, 3])
    for index, item in enumerate([4, 1, 2]):
        expected, _ = slow(codes, counts, item, [0, 1, 2, 3])
        agree(result, index, expected)


def test_many_columns_and_many_values():
    draws = np.random.default_rng(0)
    codes = draws.integers(0, 2, (30, 40))
    codes[:, 7] = draws.permutation(30) * 5_000
    codes[:, 30] = draws.integers(0, 1_000_000, 30)
    counts = np.ones(30, int)
    everything = range(40)
    result = count_peers(codes, counts, sensitive=[3, 39], known=everything, most=2, p=0.4)
    assert not result.complete
    for index, item in enumerate([3, 39]):
        known = sorted({*everything} - {item})
        for row in range(0, 30, 7):
            sets = [a for n in (1, 2) for a in combinations(known, n)]
            shares = []
            for a in sets:
                fits = (codes[:, a] == codes[row, a]).all(axis=1)
                other = (codes[fits, item] != codes[row, item]).mean()
                shares.append((other, len(a), sum(1 << c for c in a)))
            least = min(shares)
            assert result.least_ppp[index, row] == least[0]
            assert result.least_mask[index, row] == least[2]
            breach = min([item[1:] for item in shares if item[0] <= 0.4], default=(0, 0))
            assert (result.breach_size[index, row], result.breach_mask[index, row]) == breach


def test_more_values_than_sixteen_bits():
    draws = np.random.default_rng(3)
    codes = np.column_stack([draws.permutation(70_000), draws.integers(0, 2, (70_000, 2)).T[0]])
    result = count_peers(codes, np.ones(70_000, int), sensitive=[0, 1], known=[0, 1])
    assert (result.least_ppp[1] == 0).all()
    ones = int(codes[:, 1].sum())
    peers = np.where(codes[:, 1] == 1, ones, 70_000 - ones)
    assert (result.least_peers[0] == peers).all()
    assert (result.least_protective[0] == peers - 1).all()


def test_thresholds_are_what_people_write():
    codes = np.repeat([[0, 0], [0, 1]], [1, 1], axis=0)
    result = count_peers(codes, np.array([71, 29]), sensitive=[1], known=[0], p=0.29, q=0.29)
    assert result.breach_size.tolist() == [[1, 0]]  # 0.29 * 100 is below 29 in floating point
    assert result.alternatives.tolist() == [[0, 1]]
    assert result.fewest_alternatives.tolist() == [[0, 1]]


def test_large_counts_are_exact():
    big = 1_073_741_823
    codes = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 1]])
    result = count_peers(codes, np.array([big, big - 1, 2]), sensitive=[2], known=[0, 1])
    # (big - 1) / (2 big - 1) against (big + 1) / (2 big + 1), which floating point cannot tell.
    assert result.least_protective.tolist() == [[big - 1, big, 0]]
    assert result.least_mask.tolist() == [[0b10, 0b01, 0b10]]


def test_values_of_peers():
    codes = np.array([[0, 0], [0, 1], [1, 2], [0, 1]])
    counts = count_value_peers(codes, np.array([2, 3, 4, 1]), sensitive=1, known=[0, 1])
    assert counts.tolist() == [[2, 4, 0], [2, 4, 0], [0, 0, 4], [2, 4, 0]]


def test_a_variable_of_one_value_has_no_alternatives():
    result = count_peers(np.array([[0, 0], [1, 0]]), np.ones(2, int), sensitive=[1], known=[0])
    assert np.isnan(result.poac).all()
    assert np.isnan(result.least_poac).all()
    assert (result.least_ppp == 0).all()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"sensitive": []}, "at least one"),
        ({"known": [3]}, "columns of the codes"),
        ({"known": [1, 1]}, "named once"),
        ({"sensitive": [1], "known": [1]}, "No combination is left"),
        ({"most": 0}, "1 or more"),
        ({"p": 1}, "p is"),
        ({"q": -0.1}, "q is"),
        ({"q": float("nan")}, "q is"),
        ({"codes": np.zeros((2, 57), int)}, "At most 56 columns; there are 57"),
        ({"codes": np.zeros((3, 3), int)}, "a count for each"),
        ({"codes": np.zeros((0, 3), int), "counts": np.zeros(0, int)}, "at least one row"),
        ({"codes": np.full((2, 3), -1)}, "0 or more"),
        ({"codes": np.zeros((2, 3))}, "whole numbers"),
        ({"counts": np.array([0, 1])}, "1 or more"),
        ({"counts": np.array([1.5, 1])}, "whole numbers"),
        ({"counts": np.array([2**30, 2**30])}, "At most 2,147,483,647 records"),
        ({"budget": 13}, "7 combinations of variables on 2 distinct rows are 14 steps.*most=2"),
        ({"budget": 1}, "not even single variables fit"),
        ({"effort": Effort([1, 1], 1)}, "3 columns, but 2 costs"),
        ({"effort": Effort([1, 1, -1], 1)}, "0 or more"),
        ({"effort": Effort([1, 1, 1], float("nan"))}, "0 or more"),
        ({"effort": Effort([1e18, 1e18, 1e-6], 1)}, "Round"),
        ({"effort": Effort([2, 2, 2], 1)}, "No combination is left"),
    ],
)
def test_questions_without_an_answer(change, says):
    question: dict[str, Any] = {
        "codes": np.array([[0, 1, 0], [1, 1, 1]]), "counts": np.ones(2, int),
        "sensitive": [0], "known": [0, 1, 2],
    }  # fmt: skip
    question |= change
    codes, counts = question.pop("codes"), question.pop("counts")
    with pytest.raises(ValueError, match=says):
        count_peers(codes, counts, **question)


def test_sums_of_costs_that_cannot_be_told_apart():
    codes = np.zeros((1, 40), int)
    dear = Effort([round(1 + c * c / 7919, 6) for c in range(40)], 99)
    with pytest.raises(ValueError, match="too many different sums"):
        count_peers(codes, np.ones(1, int), sensitive=[0], known=range(40), effort=dear)


def test_a_budget_that_fits_changes_nothing():
    codes = np.random.default_rng(0).integers(0, 3, (50, 4))
    codes = np.unique(codes, axis=0)
    counts, everything = np.ones(len(codes), int), range(4)
    result = count_peers(
        codes, counts, sensitive=everything, known=everything, budget=15 * len(codes)
    )
    assert result.complete
    limited = count_peers(
        codes, counts, sensitive=everything, known=everything, most=1, budget=4 * len(codes)
    )
    assert not limited.complete
    assert limited.combinations.tolist() == [3, 3, 3, 3]


# What the paper and our reference say --------------------------------------------------------

DIAGNOSIS, GENDER = [0, 0, 0, 1, 2], [0, 1, 0, 1, 0]
AGES = {"orig": [4, 1, 0, 3, 2], "opt1": [3, 1, 0, 4, 2], "opt2": [1, 0, 0, 2, 1]}


@pytest.mark.parametrize("option", AGES)
def test_table_1_and_figure_1(option, shared_data):
    everything = json.loads((shared_data.parent / "reference/004_table1_fig1.json").read_text())
    codes = np.column_stack([DIAGNOSIS, GENDER, AGES[option]])
    result = count_peers(codes, np.ones(5, int), sensitive=range(3), known=range(3))
    for index, name in enumerate(["Diagnosis", "Gender", "Age"]):
        assert result.ppp[index].tolist() == everything[option]["PPP"][name]
        assert result.poac[index].tolist() == everything[option]["PoAC0"][name]
        assert (result.peers - result.same)[index].tolist() == everything[option]["NPP"][name]


def test_alice():
    codes = np.column_stack([DIAGNOSIS, GENDER, AGES["opt2"]])
    result = count_peers(codes, np.ones(5, int), sensitive=[0], known=[1, 2])
    assert (result.ppp[0, 0], result.peers[0, 0] - result.same[0, 0]) == (0.5, 1)
    assert result.poac[0, 0] == 0.5
    counts = count_value_peers(codes, np.ones(5, int), sensitive=0, known=[1, 2])
    assert (counts[0] / counts[0].sum()).tolist() == [0.5, 0, 0.5]  # cancer, arthrosis, diabetes
    precise = np.column_stack([DIAGNOSIS, GENDER, AGES["opt1"]])
    result = count_peers(precise, np.ones(5, int), sensitive=[0], known=[1, 2])
    assert (result.ppp[0, 0], result.peers[0, 0] - result.same[0, 0]) == (0, 0)
    assert result.breach_mask[0, 0] == 0b100  # her age alone gives her away


@pytest.mark.parametrize("name", ["adult", "cervical"])
def test_published_data(name, shared_data):
    reference = shared_data.parent / "reference"
    expected = json.loads((reference / "004_min_ppp.json").read_text())[name]["per_variable"]
    facts = json.loads((reference / "004_table2.json").read_text())[name]
    text = np.loadtxt(shared_data / f"{name}.csv", str, delimiter=",", skiprows=1)
    codes = np.column_stack([np.unique(item, return_inverse=True)[1].ravel() for item in text.T])
    codes, counts = np.unique(codes, axis=0, return_counts=True)
    assert (len(codes), counts.sum()) == (facts["n_distinct"], facts["n"])
    everything = range(codes.shape[1])
    result = count_peers(codes, counts, sensitive=everything, known=everything)
    assert result.values.tolist() == list(facts["domain"].values())
    for index, variable in enumerate(expected):
        item = expected[variable]
        least = np.repeat(result.least_ppp[index], counts)
        assert int((least == 0).sum()) == item["n_min_ppp_zero"]
        assert int(counts[result.peers[index] == result.same[index]].sum()) == item["n_maxaux_zero"]
        assert least.mean() == pytest.approx(item["mean_min_ppp"], rel=1e-12)
        deciles = np.quantile(least, np.linspace(0, 1, 11))
        assert deciles == pytest.approx(item["deciles"], abs=1e-6)
        below = result.least_ppp[index] < result.ppp[index]
        assert int(counts[below].sum()) == item["n_min_strictly_below_maxaux"]
        assert np.repeat(result.ppp[index], counts).mean() == pytest.approx(
            facts["ppp0_max_aux"][variable][2], rel=1e-12
        )
