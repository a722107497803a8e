"""Attacks find persons, not rows: whoever is found by one row is found."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
import sfumato.risk.attacks.owners as owners_module
from sfumato.pairs.standardisation import standardise_pair
from sfumato.risk.attacks.owners import count_near, share_nearest
from sfumato.risk.protection import who
from sfumato.schema import Role
from sfumato.units import Units

VISITS = st.lists(
    st.tuples(st.integers(0, 6), st.sampled_from("fm"), st.sampled_from("abcd")),
    min_size=2,
    max_size=30,
)


def make_visits(persons: int, rows: int, seed: int = 1) -> sf.Dataset:
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(persons), rows)
    frame = pl.DataFrame(
        {
            "patient": person,
            "age": rng.normal(50, 10, persons)[person],
            "bmi": rng.normal(25, 4, persons * rows),
            "ill": rng.choice(list("abcdefgh"), persons)[person],
        }
    )
    roles: dict[str, Any] = {
        "patient": "person",
        "age": "quasi",
        "bmi": "quasi",
        "ill": "sensitive",
    }
    return sf.Dataset(frame, sf.Schema(roles))


def as_rows(data: sf.Dataset) -> sf.Dataset:
    return sf.Dataset(data.frame, data.schema.changed(["patient"], role="other"))


def add_noise(data: sf.Dataset, size: float, seed: int = 2) -> sf.Dataset:
    noise = np.random.default_rng(seed).normal(0, size, (2, len(data)))
    moved = [data.frame[name] + noise[i] for i, name in enumerate(("age", "bmi"))]
    return data.with_columns(pl.DataFrame(moved))


@given(VISITS)
@settings(max_examples=60, deadline=None)
def test_categories_lead_to_the_person(rows):
    frame = pl.DataFrame(rows, schema=["patient", "sex", "region"], orient="row")
    schema = sf.Schema({"patient": "person", "sex": "quasi", "region": "quasi"})
    data = sf.Dataset(frame, schema)
    best: dict[int, float] = {}
    for patient, *known in rows:
        alike = [other for other, *theirs in rows if theirs == known]
        chance = max(alike.count(patient) / len(alike), 1 / len(set(alike)))
        best[patient] = max(chance, best.get(patient, 0.0))
    found = sf.risk.MixedLinkage().measure(data, data)
    assert found.value == pytest.approx(sum(best.values()) / len(best))
    if len(best) < len(rows):
        assert np.isnan(found.details["mixed_assigned"])


@pytest.mark.parametrize("size", [0.5, 5.0])
def test_numbers_lead_to_the_person(size):
    data = make_visits(40, 4)
    released = add_noise(data, size)
    owner = data.frame["patient"].to_numpy()
    sides = [part.frame.select("age", "bmi").to_numpy() for part in (data, released)]
    deviations = sides[0].std(axis=0, ddof=1)
    gaps = (((sides[0][:, None] - sides[1]) / deviations) ** 2).sum(axis=2)
    forwards, backwards = owner[gaps.argmin(axis=1)], owner[gaps.argmin(axis=0)]
    found = sf.risk.Linkage().measure(data, released)
    assert found.value == len(set(owner[forwards == owner])) / 40
    assert found.details["linked_backwards"] == len(set(owner[backwards == owner])) / 40
    assert found.details["persons"] == 40
    assert found.baseline == 1 / 40
    assert np.isnan(found.details["assigned"])
    assert found.value >= sf.risk.Linkage().measure(as_rows(data), as_rows(released)).value


def test_five_rows_of_one_person_can_be_singled_out():
    rows = [(0, "m", 99)] * 5 + [(1 + i, "f", 30 + i % 3) for i in range(40)]
    frame = pl.DataFrame(rows, schema=["patient", "sex", "age"], orient="row")
    data = sf.Dataset(frame, sf.Schema({"patient": "person", "sex": "quasi", "age": "quasi"}))
    by_rows = sf.risk.SinglingOut().measure(as_rows(data), as_rows(data))
    by_persons = sf.risk.SinglingOut().measure(data, data)
    assert by_rows.details["singled_out_records"] == 0, "the finding: rows hide it"
    assert by_persons.details["singled_out_records"] == 1
    assert by_persons.records["singled_out"].to_list()[:1] == [True]


def test_the_control_of_a_guess_may_use_no_row_of_the_person():
    rng = np.random.default_rng(5)
    person = np.repeat(np.arange(80), 3)
    frame = pl.DataFrame(
        {
            "patient": person,
            "age": np.round(rng.normal(50, 10, 80), 3)[person],
            "ill": rng.choice(list("abcdefgh"), 80)[person],
        }
    )
    roles: dict[str, Any] = {"patient": "person", "age": "quasi", "ill": "sensitive"}
    data = sf.Dataset(frame, sf.Schema(roles))
    by_rows = sf.risk.AttributeInference().measure(as_rows(data), as_rows(data))
    by_persons = sf.risk.AttributeInference().measure(data, data)
    assert by_rows.details["inference_gain"] == 0, "the finding: a twin row hides it"
    assert by_persons.value == 1
    assert by_persons.baseline < 0.4
    assert by_persons.details["inference_gain"] > 0.6


def test_values_that_few_persons_share_are_fingerprints():
    frame = pl.DataFrame({"patient": [1] * 6 + [*range(2, 12)], "age": [99] * 6 + [30] * 10})
    data = sf.Dataset(frame, sf.Schema({"patient": "person", "age": "quasi"}))
    assert sf.risk.Untouched().measure(as_rows(data), as_rows(data)).value == 0
    assert sf.risk.Untouched().measure(data, data).value == 1 / 11


def test_one_exact_row_gives_the_person_away():
    data = make_visits(20, 3)
    far = np.tile([0.0, 40.0, 40.0], 20)
    released = data.with_columns(pl.DataFrame([data.frame[name] + far for name in ("age", "bmi")]))
    measure = sf.risk.Interval(variables=["age"])
    assert measure.measure(data, released).value == 1.0
    assert measure.measure(as_rows(data), as_rows(released)).value == pytest.approx(1 / 3)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=20))
@settings(max_examples=80, deadline=None)
def test_rows_of_one_person_are_put_together(rows):
    owners, values = (np.array(column) for column in zip(*rows, strict=True))
    grouped = {p: values[owners == p] for p in np.unique(owners)}
    near = count_near(Units.of(owners), lambda a, b: abs(values[a] - values[b]), np.ones(len(rows)))
    expected = [(abs(grouped[p] - v) <= 1).sum() for p, v in rows]
    assert near.tolist() == expected
    assert (share_nearest(near, near + 1) >= near / (near + 1)).all()


def slow_h(original, released, owner):
    """h of each row: persons who are nearer than the one behind the nearest released row."""
    deviations = original.std(axis=0, ddof=1)
    ranks = []
    for row, person in enumerate(owner):
        taken = int((((original[row] - released) / deviations) ** 2).sum(axis=1).argmin())
        gaps = (((original[row] - original) / deviations) ** 2).sum(axis=1)
        nearer = {owner[other] for other in range(len(owner)) if gaps[other] < gaps[taken]}
        ranks.append(0 if owner[taken] == person else len(nearer))
    return ranks


@pytest.mark.parametrize("size", [1.0, 8.0])
def test_h_counts_other_persons(size):
    data = make_visits(30, 4)
    released = add_noise(data, size)
    sides = [part.frame.select("age", "bmi").to_numpy() for part in (data, released)]
    owner = data.frame["patient"].to_list()
    ranks = slow_h(sides[0], sides[1], owner)
    best = {p: min(h for h, person in zip(ranks, owner, strict=True) if person == p) for p in owner}
    found = sf.risk.HIndex(p=2).measure(data, released)
    assert found.value == sum(h < 2 for h in best.values()) / 30
    assert found.details["mean_h"] == pytest.approx(sum(best.values()) / 30)
    assert found.details["targets"] == found.details["persons"] == 30
    assert found.baseline == 2 / 30
    averaging = sf.risk.Averaging(variables=["age", "bmi"], p=2)
    again = averaging.measure(data, released)
    assert again.value >= averaging.measure(as_rows(data), as_rows(released)).value
    assert again.details["persons"] == 30


def slow_mixed_h(before, after, p):
    """Pr(h < p), Pr(h = 0) and mean h of each person by their best row: every pair is compared."""
    sds = [np.std([row[at] for row in before], ddof=1) or 1.0 for at in (1,)]
    fits = [all(b[at] == a[at] for b, a in zip(before, after, strict=True)) for at in (1, 2)]

    def apart(one, other, *, rule_out):
        cost = ((one[1] - other[1]) / sds[0]) ** 2 + (one[2] != other[2])
        return cost + rule_out * sum(1e6 for at in (1, 2) if fits[at - 1] and one[at] != other[at])

    best: dict[int, tuple[float, float, float]] = {}
    for target in before:
        shown = [apart(target, other, rule_out=True) for other in after]
        taken = [j for j, cost in enumerate(shown) if cost <= min(shown) * (1 + 1e-9)]
        true = [apart(target, other, rule_out=False) for other in before]
        h = []
        for j in taken:
            nearer = {
                row[0] for row, d in zip(before, true, strict=True) if d < true[j] / (1 + 1e-9)
            }
            h.append(0 if before[j][0] == target[0] else len(nearer))
        row = (
            sum(rank < p for rank in h) / len(h),
            sum(rank == 0 for rank in h) / len(h),
            -sum(h) / len(h),
        )
        best[target[0]] = max(row, best.get(target[0], row))
    return [sum(parts) / len(best) for parts in zip(*best.values(), strict=True)]


ROW = st.tuples(st.integers(0, 5), st.integers(0, 9).map(float), st.sampled_from("abc"))
MOVED = st.tuples(st.integers(0, 9).map(float), st.sampled_from("abc"))


@given(st.lists(st.tuples(ROW, MOVED), min_size=3, max_size=16), st.integers(1, 4))
@settings(max_examples=80, deadline=None)
def test_mixed_h_counts_other_persons(rows, p):
    before = [row for row, _ in rows]
    towns = {row[2] for row in before}
    # A release shows no town that nobody lives in.
    after = [(row[0], age, town if town in towns else row[2]) for row, (age, town) in rows]
    schema = sf.Schema(
        {
            "patient": "person",
            "age": sf.Column(role="quasi", kind="continuous"),
            "town": sf.Column(role="quasi", kind="nominal"),
        }
    )
    types = {"patient": pl.Int64, "age": pl.Float64, "town": pl.String}
    data, released = (
        sf.Dataset(pl.DataFrame(side, schema=types, orient="row"), schema)
        for side in (before, after)
    )
    found = sf.risk.MixedHIndex(p=p).measure(data, released)
    below, zero, mean = slow_mixed_h(before, after, p)
    assert found.value == pytest.approx(below)
    assert found.details["mixed_h_0"] == pytest.approx(zero)
    assert found.details["mixed_mean_h"] == pytest.approx(-mean)
    persons = len({row[0] for row in before})
    assert found.details["targets"] == persons
    assert found.baseline == min(p / persons, 1.0)


def test_h_is_the_same_whether_a_row_stands_once_or_twice():
    data = make_visits(60, 1)
    released = add_noise(data, 6.0)
    twice = [
        sf.Dataset(pl.concat([part.frame, part.frame]), part.schema) for part in (data, released)
    ]
    # The same scale, whatever n - 1 makes of it.
    measure = sf.risk.HIndex(standardise=False)
    once, again = measure.measure(data, released), measure.measure(*twice)
    assert 0 < once.value == again.value < 1
    assert once.details["mean_h"] == again.details["mean_h"]


@pytest.mark.parametrize("size", [1.0, 8.0])
def test_mixed_h_is_h_where_only_numbers_are_known(size):
    data = make_visits(30, 4)
    released = add_noise(data, size)
    mixed = sf.risk.MixedHIndex(known=["age", "bmi"], p=2).measure(data, released)
    plain = sf.risk.HIndex(variables=["age", "bmi"], p=2).measure(data, released)
    assert mixed.value == plain.value
    assert mixed.details["mixed_mean_h"] == pytest.approx(plain.details["mean_h"])
    assert (
        mixed.value
        >= sf.risk.MixedHIndex(known=["age", "bmi"], p=2)
        .measure(as_rows(data), as_rows(released))
        .value
    )
    some = sf.risk.MixedHIndex(known=["age", "bmi"], p=2, individuals=10)
    assert some.measure(data, released).sampled == (10, 30)


def slow_mahalanobis(measure, data, released):
    """Who is at risk and who unsafe, with every pair of rows compared; and the share by chance."""
    ready = standardise_pair(data, released, measure.variables, owner="test")
    owner = data.frame["patient"].to_list()
    half = measure.w1 * (
        0.05 * ready.distance if measure.definition == "sdcmicro" else ready.distance**2
    )
    gather = any if measure.definition == "sdcmicro" else all
    before, after = ready.original.T, ready.on_own_scale.T
    at_risk, unsafe = set(), set()
    for row, person in enumerate(owner):
        if not gather((np.abs(after[row] - before[row]) <= half[row]).tolist()):
            continue
        at_risk.add(person)
        gaps = np.sqrt(((after - after[row]) ** 2).sum(axis=1))
        near = {owner[other] for other in np.flatnonzero(gaps <= measure.w2)} - {person}
        if len(near) < measure.m:
            unsafe.add(person)
    return len(at_risk) / len(set(owner)), len(unsafe) / len(set(owner))


@pytest.mark.parametrize("definition", ["sdcmicro", "paper"])
@pytest.mark.parametrize(("m", "w2"), [(1, 0.05), (1, 0.3), (3, 0.3)])
def test_closeness_counts_other_persons(definition, m, w2):
    data = make_visits(40, 4)
    released = add_noise(data, 0.4)
    measure = sf.risk.Mahalanobis(
        variables=["age", "bmi"], definition=definition, w1=0.4, w2=w2, m=m
    )
    found = measure.measure(data, released)
    assert (found.value, found.details["risk2"]) == slow_mahalanobis(measure, data, released)
    assert found.details["comparable_records"] == found.details["persons"] == 40
    assert found.details["risk1_records"] == round(found.value * 40)
    curve = measure.curve(data, released).row(0)
    assert curve[2:] == (found.value, found.details["risk2"])


def test_rows_of_oneself_hide_nobody():
    """A person whose rows lie together is as lonely as one with a single row."""
    data = make_visits(30, 6)
    alone = np.array(data.frame["patient"].to_list()) == 0
    far = data.with_columns(
        data.frame.select(
            pl.when(pl.Series(alone)).then(500.0).otherwise(pl.col("age")).alias("age")
        )
    )
    measure = sf.risk.Mahalanobis(variables=["age", "bmi"], w1=10.0, w2=5.0)
    records = measure.measure(far, far).records
    assert records["unsafe"].to_numpy()[alone].all()
    assert not measure.measure(as_rows(far), as_rows(far)).records["unsafe"].to_numpy()[alone].all()


def slow_peers(rows, p):
    """For each person the least share of persons who protect them, over all combinations."""
    known, secret = (1, 2), 3
    least: dict[int, float] = {}
    for row in rows:
        for size in (1, 2):
            for combination in itertools.combinations(known, size):
                alike = [other for other in rows if all(other[c] == row[c] for c in combination)]
                peers = {other[0] for other in alike}
                same = {other[0] for other in alike if other[secret] == row[secret]}
                share = (len(peers) - len(same)) / len(peers)
                least[row[0]] = min(share, least.get(row[0], 1.0))
    return least, {person for person, share in least.items() if share <= p}


@given(
    st.lists(
        st.tuples(
            st.integers(0, 6), st.sampled_from("fm"), st.integers(30, 33), st.sampled_from("abc")
        ),
        min_size=2,
        max_size=25,
    ),
    st.sampled_from([0.0, 0.5]),
)
@settings(max_examples=60, deadline=None)
def test_peers_are_persons(rows, p):
    frame = pl.DataFrame(rows, schema=["patient", "sex", "age", "ill"], orient="row")
    roles: dict[str, Role] = {
        "patient": "person",
        "sex": "quasi",
        "age": "quasi",
        "ill": "sensitive",
    }
    data = sf.Dataset(frame, sf.Schema(roles))
    least, breached = slow_peers(rows, p)
    found = sf.risk.Peers(p=p).measure(data)
    assert found.value == len(breached) / len(least)
    assert found.details["breached_records"] == len(breached)
    assert found.records["ill"].to_list() == pytest.approx([least[row[0]] for row in rows])
    shuffled = sf.Dataset(frame.sample(fraction=1, shuffle=True, seed=1), data.schema)
    assert sf.risk.Peers(p=p).measure(shuffled).value == found.value


def test_peers_with_ranges_are_a_bound_and_one_row_each_changes_nothing():
    ages = ["[30;40]", "[30;40]", "[35;40]", "[50;60]"]
    frame = pl.DataFrame({"patient": [0, 1, 1, 2], "age": ages, "ill": ["a", "b", "c", "a"]})
    age = sf.Column(role="quasi", kind="integer", cells="generalised")
    schema = sf.Schema({"patient": "person", "age": age, "ill": "sensitive"})
    found = sf.risk.Peers().measure(sf.Dataset(frame, schema))
    # The first is protected by the second, whose row surely fits. Of the second's own rows one is
    # fitted by the first for sure; nobody protects the third.
    assert found.records["ill"].to_list() == [0.5, 0.5, 0.5, 0.0]
    alone = sf.Dataset(frame[[0, 1, 3]], schema)
    rows = sf.Dataset(frame[[0, 1, 3]], schema.changed(["patient"], role="other"))
    measured = [sf.risk.Peers().measure(data) for data in (alone, rows)]
    assert measured[0].records["ill"].to_list() == measured[1].records["ill"].to_list()


def test_of_rows_that_protect_alike_the_one_with_fewest_peers_speaks_for_the_person():
    """Rows are numbered in no order, so what a tie shows once hung on chance."""
    rng = np.random.default_rng(18)
    frame = pl.DataFrame(
        {
            "patient": rng.integers(0, 9, 40),
            "sex": rng.choice(list("fm"), 40),
            "region": rng.choice(list("abcde"), 40),
            "ill": rng.choice(list("xyz"), 40),
        }
    )
    data = sf.Dataset(frame, sf.Schema({"patient": "person", "sex": "quasi", "region": "quasi"}))
    answers = [who(data, ["ill"]).drop("record").sort(pl.all()) for _ in range(8)]
    assert all(answer.equals(answers[0]) for answer in answers)


@pytest.mark.parametrize("rows", [1, 3])
def test_numbers_of_persons_may_have_gaps(rows):
    """As those of some of the persons have, and those of a table beside larger ones."""
    data = make_visits(30, rows)
    some = data.take(np.arange(rows * 20, rows * 30))
    known: dict[str, Any] = {"known": ["age", "ill"]}
    for measure in (sf.risk.SinglingOut, sf.risk.MixedLinkage, sf.risk.Uniqueness):
        alone = sf.Dataset(some.frame, data.schema)
        found, expected = (measure(**known).measure(each, each) for each in (some, alone))
        assert (found.value, found.details) == (expected.value, expected.details)


def test_a_sample_of_persons_is_a_sample_of_persons():
    data = make_visits(200, 3)
    found = sf.risk.Peers(known=["age"], sensitive=["ill"], individuals=50).measure(data)
    assert found.sampled == (50, 200)
    assert found.details["individuals"] == 50
    assert found.interval is not None
    drawn = data.frame["patient"].filter(found.records["ill"].is_not_nan())
    assert drawn.n_unique() == 50
    assert len(drawn) == data.frame["patient"].is_in(drawn.unique().implode()).sum()


def test_every_risk_of_ours_counts_persons():
    ours = [measure for measure in sf.catalogue.measures().values() if measure.room() == "risk"]
    assert len(ours) > 20
    assert all(measure.counts_persons for measure in ours)


def test_many_rows_are_attacked_by_a_sample_of_persons(monkeypatch):
    data = make_visits(60, 4)
    released = add_noise(data, 3.0)
    everybody = sf.risk.HIndex(p=2).measure(data, released)
    assert everybody.sampled is None
    monkeypatch.setattr(owners_module, "_MOST_PAIRS", 40 * 240)
    some = sf.risk.HIndex(p=2).measure(data, released)
    assert some.sampled == (10, 60)
    assert some.details["persons"] == 60
    assert "only some of the persons" in some.details["h_index_reason"]
    looked = some.records["h"].is_not_null()
    assert data.frame["patient"].filter(looked).n_unique() == 10
    # Those who are looked for have the same ranks, among all others.
    both = pl.DataFrame({"all": everybody.records["h"], "some": some.records["h"]})
    assert both.filter(looked)["all"].to_list() == both.filter(looked)["some"].to_list()
    averaging = sf.risk.Averaging(variables=["age", "bmi"], p=2).measure(data, released)
    assert averaging.sampled == (10, 60)
