"""Random persons, visits and samples: no joined class under k is ever met, and keys always join."""

from __future__ import annotations

from collections import Counter
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import MethodError, TargetError

# Of so few persons much is lost, and much is constant.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sfumato.errors.HeavyLossWarning"),
    pytest.mark.filterwarnings("ignore::sfumato.errors.WeakProtectionWarning"),
]
KEY = sf.Key(bytes(range(32)))
KEYS = {"visits.person": "persons.id", "samples.visit": "visits.visit"}
words = st.sampled_from(["a", "b", "c", None])


@st.composite
def clinics(draw):
    """Persons, their visits, and samples of the visits; some persons have none."""
    persons = draw(st.integers(2, 9))
    own = [(f"p{i}", draw(words), draw(st.integers(0, 3))) for i in range(persons)]
    owners = draw(st.lists(st.integers(0, persons - 1), min_size=1, max_size=14))
    visits = [(100 + i, f"P{owner} ", draw(words)) for i, owner in enumerate(owners)]
    of = draw(st.lists(st.integers(0, len(visits) - 1), min_size=1, max_size=14))
    samples = [(str(100 + i), draw(words)) for i in of]
    height = {f"p{i}": draw(st.integers(150, 190)) for i in range(persons)}
    return {
        "persons": pl.DataFrame(own, schema=["id", "sex", "age"], orient="row").cast(
            {"sex": pl.String}
        ),
        "visits": pl.DataFrame(visits, schema=["visit", "person", "ward"], orient="row")
        .cast({"ward": pl.String})
        .with_columns(height=pl.Series([height[p.strip().lower()] for _, p, _ in visits])),
        "samples": pl.DataFrame(samples, schema=["visit", "test"], orient="row").cast(
            {"test": pl.String}
        ),
    }


def make_plan(k: int, *, row_counts: bool, steps, noise: bool = False, targets: bool = True):
    of_visits = [sf.methods.Noise(variables=["height"], sd_share=0.5)] if noise else []
    return sf.LinkedPlan(
        tables={
            "persons": sf.Plan(schema={"sex": "quasi", "age": "quasi"}),
            "visits": sf.Plan(schema={"ward": "quasi", "height": "sensitive"}, steps=of_visits),
            "samples": sf.Plan(schema={"test": "quasi"}),
        },
        keys=KEYS,
        person="persons.id",
        steps=steps,
        targets={"k.min": k} if targets else {},
        evaluate=[sf.risk.Uniqueness(row_counts=row_counts)],
    )


def list_lives(data: dict[str, pl.DataFrame], *, row_counts: bool) -> dict[str, Any]:
    """In plain Python, all that the joined tables show of each person."""
    own = {row["id"]: (row["sex"], row["age"]) for row in data["persons"].to_dicts()}
    visits = {row["visit"]: row for row in data["visits"].to_dicts()}
    rows: dict[str, list[tuple[object, ...]]] = {person: [("persons",)] for person in own}
    for row in visits.values():
        rows[row["person"]].append(("visits", row["ward"]))
    for row in data["samples"].to_dicts():
        visit = visits[row["visit"]]
        rows[visit["person"]].append(("samples", visit["ward"], row["test"]))
    if row_counts:
        return {
            person: (own[person], tuple(sorted(Counter(rows[person]).items(), key=repr)))
            for person in own
        }
    return {person: (own[person], frozenset(rows[person])) for person in own}


def count_by_hand(data: dict[str, pl.DataFrame], *, row_counts: bool) -> int:
    """The smallest number of persons who share all of theirs, or one of their rows."""
    lives = list_lives(data, row_counts=row_counts)
    everything = Counter(lives.values())
    sets = list_lives(data, row_counts=False)
    having = Counter((own, row) for own, rows in sets.values() for row in rows)
    return min(*(everything[life] for life in lives.values()), *having.values())


def read(release) -> dict[str, pl.DataFrame]:
    return dict(release.data)


@settings(max_examples=60)
@given(clinics(), st.integers(2, 4), st.booleans())
def test_no_joined_class_under_k_is_ever_met(tables, k, row_counts):
    """Whatever is released as met is met when persons are counted in plain Python."""
    for steps in ([], [sf.methods.KAnonymity(k=k)]):
        plan = make_plan(k, row_counts=row_counts, steps=steps)
        try:
            release = sf.protect(tables, plan, key=KEY)
        except TargetError as missed:
            found = missed.evidence["joined view.uniqueness"]
            assert found.details["k_at_worst"] < k
            continue
        except MethodError:
            assert steps  # too few persons to hide among
            continue
        smallest = count_by_hand(read(release), row_counts=row_counts)
        assert smallest >= k
        assert release.evidence["uniqueness"].details["k_at_worst"] == smallest


@settings(max_examples=60)
@given(clinics(), st.booleans())
def test_the_joined_view_is_counted_as_in_plain_python(tables, row_counts):
    release = sf.protect(
        tables, make_plan(2, row_counts=row_counts, steps=[], targets=False), key=KEY
    )
    found = release.evidence["uniqueness"].details
    assert found["k_at_worst"] == count_by_hand(read(release), row_counts=row_counts)
    assert found["persons"] == len(tables["persons"])


@settings(max_examples=40)
@given(clinics(), st.integers(2, 3))
def test_k_over_all_tables_holds_for_who_does_not_know_the_number_of_rows(tables, k):
    """The step promises it, so the target is never missed after it."""
    plan = make_plan(k, row_counts=False, steps=[sf.methods.KAnonymity(k=k)])
    try:
        release = sf.protect(tables, plan, key=KEY)
    except MethodError:
        return
    assert release.verdict[0].met


@settings(max_examples=40)
@given(clinics(), st.integers(2, 3))
def test_keys_always_join_and_constants_stay_constant(tables, k):
    plan = make_plan(
        k, row_counts=False, steps=[sf.methods.KAnonymity(k=k)], noise=True, targets=False
    )
    try:
        data = read(sf.protect(tables, plan, key=KEY))
    except MethodError:
        return
    assert data["persons"]["id"].is_unique().all()
    assert {*data["visits"]["person"]} <= {*data["persons"]["id"]}
    assert {*data["samples"]["visit"]} <= {*data["visits"]["visit"]}
    assert not {*data["persons"]["id"]} & {*tables["persons"]["id"]}
    within = data["visits"].group_by("person").agg(pl.col("height").n_unique())
    before = tables["visits"].group_by("person").len()
    if (before["len"] > 1).any():  # else nothing says that it is a person's
        assert (within["height"] == 1).all()
