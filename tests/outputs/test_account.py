"""The linear account against an attacker with exact fractions, who shares no code with it."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from tests.outputs.elimination import is_combination, list_known_groups
from tests.soak.outputs import find_people, soak

import sfumato as sf
from sfumato.outputs import Log, Output, Rules
from sfumato.outputs.account import draw_worlds, solve_modulo

PLAIN = Rules(zeros="show", full="show")
ID = sf.Schema({"number": "direct"})


def make_people(count=97, seed=5):
    chance = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "number": range(count),
            "ward": chance.choice(["east", "west"], count),
            "pay": chance.lognormal(10, 0.5, count).round(2),
        }
    )


def add(log, data, **more):
    output = Output(kind="histogram", title="T", variables=("pay",))
    return log.add(output, data, **more)


# The span, exactly


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10_000), st.integers(3, 9), st.integers(1, 8),
    st.sampled_from([(0, 1), (0, 1, 2), (-3, -1, 0, 0, 2)]),
)  # fmt: skip
def test_worlds_know_what_exact_fractions_know(seed, atoms, sums, numbers):
    matrix = np.random.default_rng(seed).choice(numbers, (sums, atoms))
    worlds = draw_worlds(sparse.csr_matrix(matrix.astype(np.int64)))
    assert worlds is not None
    for atom in range(atoms):
        target = np.eye(atoms, dtype=int)[atom].tolist()
        assert is_combination(target, matrix.tolist()) == (not worlds[atom].any())


@given(st.integers(0, 10_000), st.integers(1, 12))
@settings(max_examples=30, deadline=None)
def test_equations_are_solved_modulo_the_prime(seed, size):
    chance = np.random.default_rng(seed)
    matrix, right = chance.integers(0, 2**31 - 1, (size, size)), chance.integers(0, 99, (size, 2))
    solution = solve_modulo(matrix, right)
    exact = (matrix.astype(object) @ solution.astype(object)) % (2**31 - 1)
    assert (exact == right).all()


def weigh(sets, people):
    return [[int(person in members) for person in range(people)] for members in sets]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_what_passes_gives_no_group_below_the_threshold(data):
    """Windows and other choices of a few people: whatever passes, the attacker has nothing."""
    people, fewest = data.draw(st.sampled_from([(14, 3), (12, 3), (11, 4), (10, 5)]))
    frame = make_people(people)
    rules = Rules(zeros="show", full="show", difference=fewest)
    log, shown = Log(rules=rules), []
    for _ in range(data.draw(st.integers(2, 5))):
        if data.draw(st.booleans()):
            low, high = sorted(data.draw(st.tuples(*[st.integers(0, people)] * 2)))
            members = set(range(low, high))
        else:
            members = data.draw(st.sets(st.integers(0, people - 1)))
        if len(members) < fewest:
            continue
        chosen = sf.Dataset(frame.filter(pl.col("number").is_in(members)), ID)
        if add(log, chosen).verdict == "pass":
            shown.append(members)
            assert not list_known_groups(weigh(shown, people), fewest)
        else:
            # A fresh log with all but the one that was stopped.
            log = Log(rules=rules)
            for earlier in shown:
                add(log, sf.Dataset(frame.filter(pl.col("number").is_in(earlier)), ID))


def test_a_short_soak_of_sequences_of_outputs():
    """The long one is part of `make soak`."""
    facts = soak(100_000, 12)
    assert facts["failures"] == []
    assert facts["outcomes"]["pass"] > 12


def test_the_attacker_of_the_soak_finds_who_is_left_over():
    windows = [(0, 31), (0, 60), (60, 97), (32, 97)]
    sums = [{(person, 0.0) for person in range(*window)} for window in windows]
    assert find_people(sums, 3) == {31}
    assert find_people(sums[:3], 3) is None


# The cases


@pytest.mark.parametrize("show", ["table", "mean", "box"])
def test_four_windows_are_stopped_in_every_order(show):
    """B + C - A - D is person 31; no two of them differ by few."""
    frame = make_people()
    windows = [(0, 31), (0, 60), (60, 97), (32, 97)]
    for order in permutations(windows):
        log = Log(rules=PLAIN)
        verdicts = []
        for low, high in order:
            data = sf.Dataset(frame[low:high], ID)
            if show == "box":
                log.add(Output(kind="box", title="Pay", variables=("pay",)), data)
            elif show == "mean":
                sf.tables.pivot(data, index="ward", values="pay", log=log)
            else:
                sf.tables.crosstab(data, "ward", log=log)
            verdicts.append(list(log)[-1].verdict)
        assert verdicts == ["pass", "pass", "pass", "review"]
        assert "outputs 1, 2, 3" in " ".join(list(log)[-1].reasons)


def test_four_windows_that_leave_ten_people_over_pass():
    frame = make_people()
    log = Log(rules=PLAIN)
    for low, high in [(0, 21), (0, 60), (60, 97), (32, 97)]:
        assert add(log, sf.Dataset(frame[low:high], ID)).verdict == "pass"


def change_pay(frame, many):
    top = pl.col("pay").rank("ordinal", descending=True) <= many
    return frame.with_columns(pl.when(top).then(21_000.0).otherwise("pay").alias("pay"))


@pytest.mark.parametrize("identified", [True, False])
@pytest.mark.parametrize(("many", "verdict"), [(1, "review"), (2, "review"), (40, "pass")])
def test_a_mean_before_and_after_winsorising_few_is_stopped(identified, many, verdict):
    frame = make_people().with_columns(height=170 + pl.int_range(97) / 10, born=pl.int_range(97))
    schema = ID if identified else sf.Schema({})
    before, after = frame, change_pay(frame, many)
    if not identified:
        before, after = (part.drop("number") for part in (before, after))
    for first, second in ((before, after), (after, before)):
        log = Log(rules=PLAIN)
        tables = [
            sf.tables.pivot(sf.Dataset(part, schema), index="ward", values="pay", log=log)
            for part in (first, second)
        ]
        assert tables[0].verdict == "pass"
        assert tables[1].verdict == verdict or not identified
        if many < 3:
            assert tables[1].verdict == "review"


def test_counts_of_people_whose_pay_was_corrected_pass():
    frame = make_people()
    log = Log(rules=PLAIN)
    for part in (frame, change_pay(frame, 1)):
        assert sf.tables.crosstab(sf.Dataset(part, ID), "ward", log=log).verdict == "pass"


def test_neighbouring_quantiles_one_after_another_are_stopped():
    data = sf.Dataset(make_people(), ID)
    log = Log(rules=PLAIN)
    verdicts = [
        sf.tables.pivot(data, index="ward", values="pay", aggregate=name, log=log).verdict
        for name in ("q50", "q51", "q50", "q75", "mean")
    ]
    assert verdicts == ["pass", "review", "pass", "pass", "pass"]


def test_everyday_sequences_pass():
    """A histogram, tables by several groupings, a mean and boxes of the same people."""
    chance = np.random.default_rng(3)
    frame = make_people(300).with_columns(
        region=pl.Series(chance.choice(list("abc"), 300)),
        smoking=pl.Series(chance.choice(["never", "former", "current"], 300)),
    )
    data, log = sf.Dataset(frame, ID), Log(rules=PLAIN)
    made: list[Any] = [
        sf.plots.histogram(data, "pay", log=log),
        sf.tables.crosstab(data, "ward", "region", log=log),
        sf.tables.crosstab(data, "ward", "smoking", log=log),
        sf.tables.crosstab(data, "region", "smoking", log=log),
        sf.tables.pivot(data, index="ward", values="pay", log=log),
        sf.tables.pivot(data, index="region", values="pay", log=log),
        sf.plots.box(data, "pay", by="ward", log=log),
        sf.plots.histogram(data, "pay", log=log),
    ]
    assert [reason for plot in made for reason in plot.reasons if "aken together" in reason] == []


def test_groups_of_larger_thresholds_are_found_in_pieces():
    """Seven people are left over, and a table of theirs cuts them into smaller groups."""
    frame = make_people()
    log = Log(rules=Rules(zeros="show", full="show", difference=10, k=3))
    verdicts = [
        sf.tables.crosstab(sf.Dataset(frame[low:high], ID), "ward", log=log).verdict
        for low, high in [(0, 97), (0, 31), (0, 60), (60, 97), (38, 97)]
    ]
    assert verdicts[-1] == "review"


def test_what_is_in_the_folder_lasts(tmp_path):
    frame = make_people()
    for part, verdict in ((frame, "pass"), (change_pay(frame, 1), "review")):
        log = Log(tmp_path / "log", PLAIN)
        made = sf.tables.pivot(sf.Dataset(part, ID), index="ward", values="pay", log=log)
        assert made.verdict == verdict


@pytest.mark.parametrize(("refuse", "verdict"), [(False, "review"), (True, "refuse")])
def test_what_is_too_large_for_the_account_never_passes(monkeypatch, refuse, verdict):
    from sfumato.outputs import account

    monkeypatch.setattr(account, "MOST_SUMS", 2)
    frame, log = make_people(), Log(rules=PLAIN)
    add(log, sf.Dataset(frame, ID), refuse=refuse)
    parts = [np.arange(97) // 20]
    made = add(log, sf.Dataset(frame, ID), parts=parts, refuse=refuse)
    assert made.verdict == verdict
    assert "too many sums" in made.reasons[0]


def test_whoever_shows_nothing_new_is_not_blamed_for_what_was_known():
    """The second output was let out after a look at it; the third is the same."""
    frame, log = make_people(), Log(rules=PLAIN)
    verdicts = [
        add(log, sf.Dataset(part, ID)).verdict for part in (frame, frame[1:], frame[1:], frame)
    ]
    assert verdicts == ["pass", "review", "pass", "pass"]


@pytest.mark.parametrize("grouped", [False, True])
def test_windows_of_people_with_several_rows_are_stopped(grouped):
    """Person 31 has five visits: more rows than the threshold, and one person."""
    chance = np.random.default_rng(4)
    often = [5 if person == 31 else 1 + person % 4 for person in range(97)]
    visits = make_people()[np.repeat(np.arange(97), often)]
    visits = visits.with_columns(visit=pl.Series(chance.permutation(visits.height)))
    schema = sf.Schema({"number": "person"})
    output = Output(kind="box", title="T", variables=("visit",), groups=("ward",) * grouped)

    def list_blamed(windows):
        log = Log(rules=PLAIN)
        for window in windows:
            part = visits.filter(pl.col("number").is_between(*window))
            log.add(output, sf.Dataset(part, schema))
        return [any("gives few people away" in text for text in made.reasons) for made in log]

    windows = [(0, 30), (0, 59), (60, 96), (32, 96)]
    for order in list(permutations(windows))[::7]:
        assert list_blamed(order) == [False, False, False, True]
    assert not any(list_blamed([*windows[:3], (45, 96)]))
