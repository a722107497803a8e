"""Candidates measured on the bench have the numbers of a release."""

from __future__ import annotations

import math
from typing import Any

import pytest

import sfumato as sf
from sfumato.data import Dataset
from sfumato.plan import Plan
from sfumato.randomness import Key
from sfumato.tuning.runner import Runner

KEYS = (Key(bytes(32)), Key(b"\x01" * 32))
STEPS: dict[str, list[Any]] = {
    "nothing": [],
    "noise": [sf.methods.Noise(variables=["systolic"], variance_share=0.2)],
    "two": [
        sf.methods.Deterministic(variables=["systolic"], k=4),
        sf.methods.KAnonymity(k=3),
    ],
    # Some records are left out, so that the original shrinks with them.
    "fewer": [sf.methods.Deterministic(variables=["systolic"], strata=["region"], small="suppress",
                                       k=30)],
}  # fmt: skip


@pytest.fixture(scope="module")
def shared(people: Dataset) -> Plan:
    return Plan(
        schema=people.schema,
        steps=[sf.methods.Pseudonymise(variables=["person_id"])],
        targets={"k.min": 1.5},
        evaluate=[
            sf.risk.Uniqueness(),
            sf.risk.AttributeDisclosure(),
            sf.utility.InformationLoss(),
            sf.utility.Moments(variables=["systolic"]),
        ],
    )


@pytest.mark.parametrize("name", STEPS)
def test_the_numbers_are_those_of_a_release(name: str, people: Dataset, shared: Plan) -> None:
    bench = Runner(people, shared, KEYS)
    steps = tuple(STEPS[name])
    draw = bench.run(steps).draws[0]
    whole = bench.build_plan(steps)
    bare = Plan(schema=whole.schema, steps=whole.steps, evaluate=whole.evaluate)
    release = sf.protect(people, bare, key=KEYS[0])
    for label in shared.evaluate:
        mine, theirs = draw[label], release.evidence[label]
        assert (mine.value, mine.baseline, mine.reason) == (
            theirs.value, theirs.baseline, theirs.reason
        ), label  # fmt: skip
        for key, value in theirs.details.items():
            if isinstance(value, float) and math.isnan(value):
                assert math.isnan(mine.number(key))
            elif isinstance(value, (int, float)):
                assert mine.number(key) == value


def test_a_refusal_has_a_reason_and_no_numbers(people: Dataset, shared: Plan) -> None:
    bench = Runner(people, shared, KEYS)
    found = bench.run((sf.methods.KAnonymity(k=100_000),))
    assert not found.draws
    assert "100000" in found.refused


def test_names_tell_candidates_apart(people: Dataset, shared: Plan) -> None:
    bench, steps = Runner(people, shared, KEYS), tuple(STEPS["two"])
    assert bench.digest_of(steps) == Runner(people, shared, KEYS).digest_of(steps)
    others = {
        bench.digest_of(()),
        Runner(people, shared, KEYS[:1]).digest_of(steps),
        Runner(people.take([*range(199)]), shared, KEYS).digest_of(steps),  # type: ignore[arg-type]
    }
    assert len(others | {bench.digest_of(steps)}) == 4


def test_the_key_is_in_no_name(people: Dataset, shared: Plan) -> None:
    assert KEYS[1].text not in repr(Runner(people, shared, KEYS))


def test_no_permutation_is_made_where_only_the_value_is_used(people: Dataset) -> None:
    steps = tuple(STEPS["noise"])
    asked = sf.utility.Propensity(variables=["systolic"], permutations=9)
    plain = sf.utility.Propensity(variables=["systolic"])
    for measure, targets, computed in (
        (plain, {}, False),
        (plain, {"p_value.min": 0.001}, True),
        (asked, {}, True),
    ):
        plan = Plan(
            schema=people.schema,
            steps=[sf.methods.Pseudonymise(variables=["person_id"])],
            targets=targets,
            evaluate=[measure],
        )
        bench = Runner(people, plan, KEYS)
        evidence = bench.run(steps).draws[0]["propensity"]
        assert math.isnan(evidence.number("p_value")) is not computed
        release = sf.protect(people, bench.build_plan(steps), key=KEYS[0])
        assert evidence.value == release.evidence["propensity"].value
        assert not math.isnan(release.evidence["propensity"].number("p_value"))
