"""Every risk counts persons where a person has several rows, against plain Python sets."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.risk.trajectories import count_parts, count_trajectories
from sfumato.risk.uniqueness import Uniqueness, estimate_individual_risk

ROLES: dict[str, Any] = {"patient": "person", "sex": "quasi", "age": "quasi", "ill": "sensitive"}
VISITS = st.lists(
    st.tuples(
        st.integers(0, 7), st.sampled_from("fm"), st.integers(30, 33), st.sampled_from("abc")
    ),
    min_size=1,
    max_size=40,
)


def visits_of(rows, roles=ROLES) -> sf.Dataset:
    names = ("patient", "sex", "age", "ill")
    frame = pl.DataFrame(rows, schema=list(names), orient="row")
    return sf.Dataset(frame, sf.Schema(roles))


def persons_by_class(rows):
    """Who has a row in each class, as plain sets."""
    classes: dict[tuple[Any, ...], set[int]] = {}
    for patient, *known, _ in rows:
        classes.setdefault(tuple(known), set()).add(patient)
    return classes


def children() -> pl.DataFrame:
    """Three children of a trial with 5 to 8 rows each, exact in every row, among 60 others."""
    rows = []
    for child, visits in enumerate((5, 6, 8)):
        day = dt.date(1989, 3, 1) + dt.timedelta(child)
        rows += [(child, day, 4 + child, 101.5 + child, 16.2, "Amsterdam")] * visits
    for child in range(3, 63):
        day = dt.date(1989, 1, 1) + dt.timedelta((child - 3) // 6)
        rows += [(child, day, (child - 3) // 6, 120.0, 30.0, "Zürich")]
    names = ["child", "random", "age", "height", "weight", "hospital"]
    return pl.DataFrame(rows, schema=names, orient="row")


def test_children_with_several_rows_are_no_crowd():
    frame = children()
    known = ["random", "age", "height", "weight", "hospital"]
    quasi: dict[str, Any] = dict.fromkeys(known, "quasi")
    by_rows = sf.Dataset(frame, sf.Schema({"child": "other", **quasi}))
    assert sf.risk.Uniqueness().measure(by_rows).details["k"] == 5, "the finding: rows hide it"
    data = sf.Dataset(frame, sf.Schema({"child": "person", **quasi}))
    for measure, number in (("uniqueness", "k"), ("reidentification", "k_by_fitting")):
        found = sf.assess(data, [measure])[measure]
        assert found.details[number] == 1
        assert found.value == 3 / 63
    plan = sf.Plan(schema=data.schema, steps=[sf.methods.Drop()], targets={"k.min": 5})
    with pytest.raises(sf.errors.TargetError, match="k"):
        sf.protect(data, plan, key=bytes(32))


def test_patients_who_stand_alone_are_counted_once():
    """312 patients with 1,945 visits, of whom many have an age of their own."""
    rng = np.random.default_rng(21)
    visits = 1 + rng.multinomial(1945 - 312, np.full(312, 1 / 312))
    person = np.repeat(np.arange(312), visits)
    age = rng.integers(26_000, 26_500, 312)[person] / 365.25
    frame = pl.DataFrame({"id": person, "age": age, "bili": rng.normal(size=1945)})
    data = sf.Dataset(frame, sf.Schema({"id": "person", "age": "quasi", "bili": "sensitive"}))
    ages = frame.unique(["id", "age"])["age"]
    alone = int((~ages.is_duplicated()).sum())
    found = sf.risk.Uniqueness().measure(data)
    assert 0 < alone < 312
    assert found.details["unique_records"] == alone
    assert found.details["persons"] == 312
    assert found.details["records"] == 1945
    assert found.value == alone / 312


@given(VISITS)
@settings(max_examples=120, deadline=None)
def test_class_sizes_are_persons(rows):
    data, classes = visits_of(rows), persons_by_class(rows)
    k = min(len(members) for members in classes.values())
    alone = set().union(*(members for members in classes.values() if len(members) == 1))
    persons = {patient for patient, *_ in rows}
    worst = {
        person: max(1 / len(members) for members in classes.values() if person in members)
        for person in persons
    }
    exact = sf.risk.Uniqueness().measure(data)
    fitting = sf.risk.Reidentification().measure(data)
    assert exact.details["k"] == fitting.details["k_by_fitting"] == k
    assert exact.value == fitting.value == len(alone) / len(persons)
    assert exact.details["marketer"] == pytest.approx(sum(worst.values()) / len(persons))
    assert fitting.details["guess"] == pytest.approx(exact.details["marketer"])
    if exact.records is not None:
        assert exact.records["class_size"].to_list() == [
            len(classes[tuple(known)]) for _, *known, _ in rows
        ]


@given(VISITS, st.integers(2, 4))
@settings(max_examples=80, deadline=None)
def test_no_class_with_fewer_than_k_persons_is_called_met(rows, k):
    data = visits_of(rows)
    plan = sf.Plan(
        schema=data.schema, steps=[sf.methods.Drop()], targets={"k.min": k, "k_by_fitting.min": k}
    )
    fewest = min(len(members) for members in persons_by_class(rows).values())
    try:
        release = sf.protect(data, plan, key=bytes(32))
    except sf.errors.TargetError:
        assert fewest < k
    else:
        assert fewest >= k
        assert release.dataset.units.declared


@given(VISITS)
@settings(max_examples=100, deadline=None)
def test_a_secret_that_all_persons_of_a_class_have_is_disclosed(rows):
    data = visits_of(rows)
    secrets: dict[tuple[Any, ...], dict[int, set[str]]] = {}
    for patient, *known, ill in rows:
        of_class = secrets.setdefault(tuple(known), {})
        of_class.setdefault(patient, set()).add(ill)
    told = {
        person
        for of_class in secrets.values()
        if set.intersection(*of_class.values())
        for person in of_class
    }
    found = sf.risk.AttributeDisclosure().measure(data)
    assert found.details["disclosed_records"] == len(told)
    assert found.value == len(told) / len({patient for patient, *_ in rows})
    diversity = sf.risk.Diversity().measure(data)
    assert diversity.value == min(
        len(set.union(*of_class.values())) for of_class in secrets.values()
    )
    at_worst = diversity.details.get("l_at_worst", diversity.value)
    assert at_worst <= min(diversity.value, *map(len, secrets.values()), 3)
    if told:
        assert at_worst == 1
    where = sf.risk.AttributeDisclosure(where='ill == "a"')
    satisfied = {patient for patient, *_, ill in rows if ill == "a"}
    if satisfied:
        given_away = {
            person
            for of_class in secrets.values()
            if all("a" in values for values in of_class.values())
            for person in of_class
        }
        assert where.measure(data).value == len(given_away) / len(satisfied)


@given(VISITS)
@settings(max_examples=60, deadline=None)
def test_gains_are_shares_of_persons(rows):
    data = visits_of(rows)
    persons = {patient for patient, *_ in rows}
    overall = {
        value: len({p for p, *_, ill in rows if ill == value}) / len(persons) for value in "abc"
    }
    gains = []
    for known, members in persons_by_class(rows).items():
        for value in "abc":
            having = {p for p, *of, ill in rows if tuple(of) == known and ill == value}
            if having:
                gains.append(len(having) / len(members) / overall[value] - 1)
    assert sf.risk.Closeness().measure(data).details["beta"] == pytest.approx(max(gains))


@given(VISITS)
@settings(max_examples=80, deadline=None)
def test_one_row_for_each_person_changes_nothing(rows):
    alone = list(
        {patient: row for patient, *_ in rows for row in rows if row[0] == patient}.values()
    )
    as_persons = visits_of(alone)
    as_rows = visits_of(alone, {**ROLES, "patient": "other"})
    for measure in ("uniqueness", "reidentification", "diversity", "closeness"):
        mine, theirs = (sf.assess(data, [measure])[measure] for data in (as_persons, as_rows))
        assert mine.value == theirs.value
        assert repr(mine.details) == repr(theirs.details)


def slow_trajectories(rows, known_rows, row_counts):
    """For each person the fewest who have the same of any rows that may be known."""
    mine: dict[int, list[Any]] = {}
    for patient, *known, _ in rows:
        mine.setdefault(patient, []).append(tuple(known))
    if not row_counts:
        mine = {patient: sorted(set(cells)) for patient, cells in mine.items()}
    mine = {patient: sorted(cells) for patient, cells in mine.items()}
    if known_rows is None:
        return [sum(cells == others for others in mine.values()) for cells in mine.values()]

    def has(cells, part):
        return part in set(itertools.combinations(cells, len(part)))

    fewest = []
    for cells in mine.values():
        parts = set(itertools.combinations(cells, min(known_rows, len(cells))))
        fewest.append(
            min(
                sum(
                    has(others, part) and (not row_counts or len(others) == len(cells))
                    for others in mine.values()
                )
                for part in parts
            )
        )
    return fewest


@given(VISITS, st.sampled_from([None, 1, 2, 3]), st.booleans())
@settings(max_examples=120, deadline=None)
def test_trajectories_are_counted_as_plain_lists_say(rows, known_rows, row_counts):
    expected = slow_trajectories(rows, known_rows, row_counts)
    found = sf.risk.Uniqueness(known_rows=known_rows, row_counts=row_counts).measure(
        visits_of(rows)
    )
    if len({patient for patient, *_ in rows}) == len(rows):
        assert math.isnan(found.details["k_of_trajectories"])
        return
    assert found.details["k_of_trajectories"] == min(expected)
    assert found.details["unique_trajectories"] == expected.count(1) / len(expected)


def test_trajectories_are_seen_only_where_something_links_the_rows():
    rng = np.random.default_rng(3)
    person = np.repeat(np.arange(40), 3)
    frame = pl.DataFrame(
        {"patient": person, "age": 30 + rng.integers(0, 3, 120), "bp": rng.integers(0, 5, 120)}
    )
    data = sf.Dataset(frame, sf.Schema({"patient": "person", "age": "quasi", "bp": "sensitive"}))
    plan = sf.Plan(schema=data.schema, steps=[sf.methods.Drop()], evaluate=[sf.risk.Uniqueness()])
    dropped = sf.protect(data, plan, key=bytes(32)).evidence["uniqueness"].details
    assert math.isnan(dropped["k_of_trajectories"])
    assert "put them together" in dropped["k_of_trajectories_reason"]
    step = sf.methods.Pseudonymise(variables=["patient"])
    plan = sf.Plan(schema=data.schema, steps=[step], evaluate=[sf.risk.Uniqueness()])
    linked = sf.protect(data, plan, key=bytes(32)).evidence["uniqueness"].details
    assert linked["rows_linked_by"] == "patient"
    assert linked["k_of_trajectories"] == 1
    assert linked["k"] == dropped["k"]
    # A height that nobody else has links rows as well as a number does.
    taller = frame.with_columns(height=150 + person / 7)
    schema = data.schema.with_columns({"height": sf.Column(role="sensitive", kind="continuous")})
    again = sf.Dataset(taller, schema).without(["patient"])
    assert sf.risk.Uniqueness().measure(again).details["rows_linked_by"] == "height"


def test_too_many_parts_are_not_guessed():
    of, persons = np.arange(400) % 40, np.repeat(np.arange(10), 40)
    assert count_parts(of, persons, 20, row_counts=True) is None
    assert count_trajectories(of, persons).tolist() == [10] * 10


@given(VISITS, st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_the_order_of_rows_does_not_matter(rows, random):
    shuffled = list(rows)
    random.shuffle(shuffled)
    names = ["uniqueness", "reidentification", "diversity", "closeness", "attribute_disclosure"]
    for measure in names:
        mine, theirs = (
            sf.assess(visits_of(these), [measure])[measure] for these in (rows, shuffled)
        )
        assert repr(mine.details) == repr(theirs.details)


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from(["f", "m", None]), st.integers(30, 31)),
        min_size=1,
        max_size=25,
    )
)
@settings(max_examples=100, deadline=None)
def test_missing_values_fit_persons_not_rows(rows):
    frame = pl.DataFrame(
        rows, schema={"patient": pl.Int64, "sex": pl.String, "age": pl.Int64}, orient="row"
    )
    schema = sf.Schema({"patient": "person", "sex": "quasi", "age": "quasi"})
    if frame["patient"].n_unique() == len(rows):
        return

    def covers(wide, narrow):
        return all(mine in (None, theirs) for mine, theirs in zip(wide, narrow, strict=True))

    sizes = []
    for _, *known in rows:
        covering = {p for p, *others in rows if covers(others, known)}
        covered = {p for p, *others in rows if covers(known, others)}
        sizes.append(min(len(covering), len(covered)))
    data = sf.Dataset(frame, schema)
    found = sf.risk.Uniqueness(missing="wildcard").measure(data)
    assert found.details["k"] == min(sizes)
    fitting = sf.risk.Reidentification(missing="wildcard").measure(data)
    assert fitting.details["k_by_fitting_at_worst"] <= min(sizes)


def test_ranges_hide_persons_not_rows():
    age = sf.Column(role="quasi", kind="integer", cells="generalised")
    rows = [(1, "[20;29]"), (1, "25"), (2, "[20;29]"), (3, "[20;24]"), (3, "[20;29]")]
    frame = pl.DataFrame(rows, schema=["patient", "age"], orient="row")
    found = sf.risk.Reidentification().measure(
        sf.Dataset(frame, sf.Schema({"patient": "person", "age": age}))
    )
    # 25 fits the range of all three, and [20;24] too, but nobody else's row lies within them.
    assert found.records["class_size_at_least"].to_list() == [3, 3, 3, 3, 3]
    assert found.details["k_of_persons"] == 1


def test_a_household_is_found_with_its_first_member():
    frame = pl.DataFrame(
        {"house": [1, 1, 2, 2, 3], "age": [30, 40, 30, 40, 40], "sex": ["f", "m", "f", "m", "m"]}
    )
    schema = sf.Schema({"house": "cluster", "age": "quasi", "sex": "quasi"})
    found = sf.risk.Uniqueness().measure(sf.Dataset(frame, schema)).details
    # Risks of 1/2 and 1/3 in two households that look the same, 1/3 in the third.
    assert found["household_risk"] == pytest.approx(1 - (1 - 1 / 2) * (1 - 1 / 3))
    assert found["k_of_households"] == 1
    assert found["k_of_groups"] == 2
    weighted = frame.with_columns(weight=pl.lit(50.0))
    schema = schema.with_columns({"weight": sf.Column(role="weight")})
    found = sf.risk.Uniqueness().measure(sf.Dataset(weighted, schema)).details
    two, three = estimate_individual_risk(np.array([2.0, 3.0]), np.array([100.0, 150.0]))
    assert found["household_risk"] == pytest.approx(1 - (1 - two) * (1 - three))


def test_missing_persons_are_refused():
    frame = pl.DataFrame({"patient": [1, None, 1], "age": [30, 31, 32]})
    data = sf.Dataset(frame, sf.Schema({"patient": "person", "age": "quasi"}))
    found = sf.assess(data, ["uniqueness"])["uniqueness"]
    assert not found.computed
    assert "missing in 1 of 3 rows" in found.reason


def test_what_does_not_count_persons_says_so_and_meets_nothing():
    class Rows(Uniqueness):
        counts_persons = False

    data = visits_of([(1, "f", 30, "a"), (1, "f", 30, "b"), (2, "f", 30, "a")])
    with pytest.raises(sf.errors.MeasureError, match="not measured for persons"):
        Rows().measure(data)


def test_a_household_of_persons_with_several_rows():
    rows = [(1, 1, 30), (1, 1, 31), (1, 2, 40), (2, 3, 30), (2, 4, 40), (2, 4, 40), (3, 5, 40)]
    frame = pl.DataFrame(rows, schema=["house", "patient", "age"], orient="row")
    schema = sf.Schema({"house": "cluster", "patient": "person", "age": "quasi"})
    found = sf.risk.Uniqueness().measure(sf.Dataset(frame, schema)).details
    # Patient 1 alone has a row of 31; the other of the house is one of three of 40.
    assert found["household_risk"] == 1.0
    assert found["k_of_households"] == 1
    assert found["k_if_clusters_are_known"] == 1
    frame = frame.filter(pl.col("age") != 31)
    found = sf.risk.Uniqueness().measure(sf.Dataset(frame, schema)).details
    assert found["household_risk"] == pytest.approx(1 - (1 - 1 / 2) * (1 - 1 / 3))
