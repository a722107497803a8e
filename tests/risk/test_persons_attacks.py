"""Attacks find persons, not rows: whoever is found by one row is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import MeasureError
from sfumato.risk._attacks.owners import average_rows, count_near, share_nearest, take_best

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
    assert take_best(values.astype(float), owners).tolist() == [v.max() for v in grouped.values()]
    means = average_rows(values.astype(float), owners)
    assert means == pytest.approx([v.mean() for v in grouped.values()])
    near = count_near(owners, lambda a, b: abs(values[a] - values[b]), np.ones(len(rows)))
    expected = [(abs(grouped[p] - v) <= 1).sum() for p, v in rows]
    assert near.tolist() == expected
    assert (share_nearest(near, near + 1) >= near / (near + 1)).all()


def slow_h(original, released, owner):
    """h of each row: other persons who are nearer than the one behind the nearest released row."""
    deviations = original.std(axis=0, ddof=1)
    ranks = []
    for row, person in enumerate(owner):
        taken = int((((original[row] - released) / deviations) ** 2).sum(axis=1).argmin())
        gaps = (((original[row] - original) / deviations) ** 2).sum(axis=1)
        nearer = {owner[other] for other in range(len(owner)) if gaps[other] < gaps[taken]}
        ranks.append(0 if owner[taken] == person else len(nearer - {person}))
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


@pytest.mark.parametrize("name", ["peers", "mahalanobis"])
def test_attacks_that_count_rows_are_refused(name):
    data = make_visits(10, 2)
    measure = sf.catalogue.measure(name)
    assert not measure.counts_persons
    with pytest.raises(MeasureError, match="not measured for persons"):
        measure.measure(measure.__new__(measure), data, data)


def test_what_is_not_measured_for_persons_meets_no_target():
    data = make_visits(10, 2)
    plan = sf.Plan(schema=data.schema, steps=[sf.methods.Drop()], targets={"risk1.max": 0.9})
    with pytest.raises(sf.errors.TargetError, match="not measured for persons"):
        sf.protect(data, plan, key=bytes(32))
