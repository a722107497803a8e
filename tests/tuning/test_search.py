"""The search as a whole, on a small cohort."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

import sfumato as sf
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MeasureError, PlanError
from sfumato.evidence import Evidence
from sfumato.io.frames import wrap
from sfumato.plan import Plan
from sfumato.tuning.result import Tuned
from sfumato.tuning.scores import dominates
from sfumato.tuning.search import tune


def rows(found: Tuned) -> list[dict[str, object]]:
    return list(wrap(found.table).to_polars().rows(named=True))


def with_steps(plan: Plan, *steps: sf.methods.Drop, **more: object) -> Plan:
    kept = {
        "schema": plan.schema, "steps": steps, "targets": plan.targets, "evaluate": plan.evaluate
    }  # fmt: skip
    return Plan(**{**kept, **more})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def found(people: Dataset, crowd: Plan) -> Tuned:
    return tune(people, crowd, runs=24)


def test_the_recommended_plan_meets_its_targets_and_loses_least(
    people: Dataset, crowd: Plan, found: Tuned
) -> None:
    assert found.met
    release = sf.protect(people, found.plan)
    assert all(one.met for one in release.verdict)
    assert min(one.loss for one in found.candidates if one.met) == found.best.loss
    assert found.best.loss < next(one.loss for one in found.candidates if one.number == 1)
    signs = {"information_loss": 1}
    assert not any(dominates(one, found.best, signs) for one in found.candidates if one.verdict)
    assert found.best.front
    assert found.best in found.front


def test_the_plan_is_ready_to_be_written(crowd: Plan, found: Tuned) -> None:
    again = Plan.parse(found.plan.text(comments=True))
    assert again == found.plan
    assert again.targets == crowd.targets
    assert again.schema == crowd.schema
    assert again.evaluate == crowd.evaluate


def test_the_first_two_are_no_protection_and_the_plan_as_it_stands(found: Tuned) -> None:
    first, second = found.candidates[:2]
    assert (first.family, second.family) == ("no protection", "as planned")
    assert first.loss == 0
    assert not first.met
    assert second.parameters == {"k": 8}


def test_the_table_has_everything(found: Tuned) -> None:
    table = rows(found)
    assert len(table) == len(found.candidates)
    wanted = {"family", "parameters", "met", "k", "k met", "information_loss", "loss", "front",
              "recommended", "draws", "reason"}  # fmt: skip
    assert wanted <= set(table[0])
    assert [row["candidate"] for row in table if row["recommended"]] == [found.best.number]
    assert all(row["met"] == (row["k"] is not None and row["k"] >= 5) for row in table)  # type: ignore[operator]


def test_the_evidence_of_the_best_comes_from_a_release(found: Tuned) -> None:
    assert found.best.evidence["information_loss"].table is not None
    assert found.best.evidence["uniqueness"].details["k"] >= 5


def test_why_says_what_a_custodian_must_know(found: Tuned) -> None:
    text = " ".join(found.why)
    for words in ("Recommended", "k at least 5", "What it costs", "No candidate on the map",
                  "scaled by its own range"):  # fmt: skip
        assert words in text


def test_random_methods_are_measured_with_several_keys(people: Dataset, moved: Plan) -> None:
    found = tune(people, moved, runs=30, repeats=4)
    assert found.met
    noised = [one for one in found.candidates if one.family == "noise"]
    assert {one.draws for one in noised if one.met} == {4}
    # One draw that misses is enough to know.
    assert {one.draws for one in noised if not one.met} <= {1, 2, 3, 4}
    assert all(one.draws == 1 for one in found.candidates if one.family == "deterministic")


def test_when_nothing_meets_the_nearest_is_told(people: Dataset, crowd: Plan) -> None:
    hard = with_steps(crowd, sf.methods.Drop(), targets={"k.min": 5, "information_loss.max": 0.01})
    found = tune(people, hard, runs=12)
    assert not found.met
    assert not any(row["recommended"] for row in rows(found))
    text = " ".join(found.why)
    assert "No candidate meets every target" in text
    assert "comes nearest" in text
    assert "k at least 5: met by" in text
    assert found.best.excess == min(one.excess for one in found.candidates)


def test_an_estimate_that_failed_is_never_called_safe(
    people: Dataset, crowd: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: object, data: Dataset, subject: str, engine: Engine) -> Evidence:
        del self, data, engine
        if subject == "released":
            raise MeasureError("it went wrong.")
        return Evidence(name="uniqueness", subject="original", value=1.0)

    monkeypatch.setattr(sf.risk.Uniqueness, "look", fail)
    found = tune(people, crowd, runs=6)
    assert not found.met
    assert not any(one.met for one in found.candidates)
    assert all(row["k"] is None and "went wrong" in str(row["reason"]) for row in rows(found))
    assert "could not be measured" in " ".join(found.why)


def test_a_detail_that_is_not_a_number_is_never_called_safe(
    people: Dataset, crowd: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = sf.risk.Uniqueness.look

    def lose(self: object, data: Dataset, subject: str, engine: Engine) -> Evidence:
        made: Evidence = real(self, data, subject, engine)
        return replace(made, details={**made.details, "k_at_worst": math.nan})

    monkeypatch.setattr(sf.risk.Uniqueness, "look", lose)
    found = tune(people, crowd, runs=4)
    assert not any(one.met for one in found.candidates)


def test_a_last_key_that_misses_is_not_recommended(people: Dataset, moved: Plan) -> None:
    space = [
        [sf.methods.Noise(variables=["systolic"], variance_share=0.03)],
        [sf.methods.Noise(variables=["systolic"], variance_share=0.5)],
    ]
    found = tune(people, moved, space=space, repeats=1, key=bytes(32))
    weak = found.candidates[1]
    assert not weak.met or found.best.number == weak.number
    for one in found.candidates[1:]:
        if one.met and one.number == found.best.number:
            assert one.evidence["displacement"].details["stayed"] <= 0.2


def test_what_cannot_be_released_is_not_recommended(
    people: Dataset, moved: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = [
        [sf.methods.Noise(variables=["systolic"], variance_share=0.4)],
        [sf.methods.Deterministic(variables=["systolic"], k=30)],
    ]
    plain = tune(people, moved, space=space)

    def refuse(self: Any, *given: Any) -> Any:
        del self, given
        raise PlanError("no release of this.")

    lost = plain.best.family
    method = sf.methods.Noise if "noise" in lost else sf.methods.Deterministic
    monkeypatch.setattr(method, "describes", refuse)
    found = tune(people, moved, space=space)
    assert found.best.family != lost
    reasons = {one.family: one.reason for one in found.candidates}
    assert "no release of this" in reasons[lost]
