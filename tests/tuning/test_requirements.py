"""What the user states: the plan, the space, what matters."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
import pytest

import sfumato as sf
from sfumato.data import Dataset
from sfumato.errors import PlanError, SchemaError
from sfumato.plan import Plan
from sfumato.tuning.search import tune


def with_steps(plan: Plan, *steps: sf.methods.Drop, **more: object) -> Plan:
    kept = {
        "schema": plan.schema, "steps": steps, "targets": plan.targets, "evaluate": plan.evaluate
    }  # fmt: skip
    return Plan(**{**kept, **more})  # type: ignore[arg-type]


def test_a_space_of_parameters(people: Dataset, crowd: Plan) -> None:
    space: dict[str, list[Any]] = {"k_anonymity.k": [4, 6], "output": ["range", "set"]}
    found = tune(people, crowd, space=space)
    assert [one.family for one in found.candidates[2:]] == [
        "k_anonymity.k = 4, output = range",
        "k_anonymity.k = 4, output = set",
        "k_anonymity.k = 6, output = range",
        "k_anonymity.k = 6, output = set",
    ]
    assert found.met
    assert found.plan.steps[-1].k == 6  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("space", "words"),
    [
        ({}, "nothing to try"),
        ([], "nothing to try"),
        ({"k": 3}, "must be a list"),
        ({"k": "35"}, "must be a list"),
        ({"kk": [3]}, "did you mean"),
        ([["k_anonymity"]], "list of lists of methods"),
        ({"k": [0]}, "k"),
    ],
)
def test_a_space_that_makes_no_sense(
    people: Dataset, crowd: Plan, space: object, words: str
) -> None:
    with pytest.raises(PlanError, match=words):
        tune(people, crowd, space=space)  # type: ignore[arg-type]


def test_what_the_user_names_wrongly_is_an_error(people: Dataset, crowd: Plan) -> None:
    with pytest.raises(SchemaError, match="heigth"):
        tune(people, crowd, space=[[sf.methods.KAnonymity(variables=["heigth"])]])


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"runs": 1}, "runs"),
        ({"repeats": 0}, "repeats"),
        ({"workers": 0}, "workers"),
        ({"budget": 0}, "budget"),
        ({"weights": {"propensty": 2}}, "propensty"),
        ({"weights": {"information_loss": -1}}, "above 0"),
        ({"weights": {"information_loss": math.nan}}, "above 0"),
        ({"measures": ["uniqueness"]}, "measures risk"),
        ({"measures": [sf.utility.InformationLoss(variables=["sex"])]}, "already"),
    ],
)
def test_nonsense_is_refused(
    people: Dataset, crowd: Plan, more: dict[str, object], words: str
) -> None:
    with pytest.raises(PlanError, match=words):
        tune(people, crowd, **more)  # type: ignore[arg-type]


def test_without_targets_nothing_says_what_is_safe(people: Dataset, crowd: Plan) -> None:
    with pytest.raises(PlanError, match="no target"):
        tune(people, with_steps(crowd, targets={}))


def test_direct_identifiers_are_left_out_if_the_plan_forgot(people: Dataset, crowd: Plan) -> None:
    found = tune(people, with_steps(crowd), runs=4)
    assert found.plan.steps[0].name == "drop"
    assert "person_id" not in sf.protect(people, found.plan).dataset.columns


def test_preparing_steps_are_kept_and_protecting_ones_compete(people: Dataset, crowd: Plan) -> None:
    top = sf.methods.Topcode(variables=["systolic"], top=160)
    suppress = sf.methods.Suppress(k=9)
    plan = Plan(schema=people.schema, steps=[sf.methods.Drop(), suppress, top],
                targets=crowd.targets, evaluate=crowd.evaluate)  # fmt: skip
    found = tune(people, plan, runs=8)
    assert all([step.name for step in one.plan.steps][:2] == ["drop", "topcode"]
               for one in found.candidates)  # fmt: skip
    assert found.candidates[1].plan.steps[2] == suppress


def test_what_matters_by_default(people: Dataset, crowd: Plan) -> None:
    found = tune(people, with_steps(crowd, *crowd.steps, evaluate=()), runs=3)
    assert list(found.weights) == ["information_loss", "propensity", "moments"]
    # All numbers, also those that become ranges: a number is drawn from each.
    moments = found.plan.evaluate["moments"]
    assert moments.variables == ["height", "household_size", "systolic"]  # type: ignore[attr-defined]


def test_an_intended_model_matters(people: Dataset, crowd: Plan) -> None:
    model = sf.utility.Coefficients(formula="systolic ~ sex + household_size", family="linear")
    found = tune(people, with_steps(crowd, *crowd.steps, evaluate={"model": model}), runs=6)
    assert list(found.weights) == ["model"]
    # Ranges cannot be fitted: such a candidate has lost the model, and says why.
    lost = [one for one in found.candidates if math.isnan(one.utility.get("model", 0.0))]
    assert all(one.loss == 1 and one.reason for one in lost)


def test_weights_change_the_loss_and_nothing_else(people: Dataset, crowd: Plan) -> None:
    more = {"measures": ["propensity"], "runs": 6}
    plain, heavy = (
        tune(people, crowd, weights=weights, **more)  # type: ignore[arg-type]
        for weights in (None, {"propensity": 5})
    )
    drop = ["loss", "recommended"]
    assert plain.table.drop(drop).equals(heavy.table.drop(drop))
    assert plain.table["loss"].to_list() != heavy.table["loss"].to_list()


def test_one_record_and_constant_data_are_told_not_crashed() -> None:
    schema = {"age": "quasi"}
    plan = Plan(schema=schema, targets={"k.min": 2}, evaluate=[sf.utility.InformationLoss()])  # type: ignore[arg-type]
    one = tune(sf.Dataset(pl.DataFrame({"age": [3]})), plan)
    assert not one.met
    same = tune(sf.Dataset(pl.DataFrame({"age": [3, 3, 3]})), plan)
    assert same.met
    assert same.best.family == "no protection"
    with pytest.raises(sf.SfumatoError, match="no record"):
        tune(sf.Dataset(pl.DataFrame({"age": []}, schema={"age": pl.Int64})), plan)


@pytest.mark.parametrize(
    "targets",
    [
        {"information_loss.max": 0.5},
        {"moments.max": 0.5, "information_loss.max": 0.9},
        {"k.max": 500},
        {"uniqueness.min": 0.001},
        {"displacement.max": 0.5},
    ],
)
def test_targets_that_limit_no_risk_are_refused(
    people: Dataset, crowd: Plan, targets: dict[str, float]
) -> None:
    # Data without any protection would meet them, and would be recommended.
    with pytest.raises(PlanError, match="No target limits a risk"):
        tune(people, with_steps(crowd, sf.methods.Drop(), targets=targets, evaluate={}))


def test_a_target_on_utility_beside_one_on_risk_is_searched(people: Dataset, crowd: Plan) -> None:
    both = {"k.min": 3, "information_loss.max": 50.0}
    plan = with_steps(crowd, sf.methods.Drop(), targets=both)
    found = tune(people, plan, space=[[sf.methods.KAnonymity(k=3)]])
    assert found.met
    assert not found.candidates[0].met


def test_one_key_for_a_random_method_is_said_to_be_few(people: Dataset, moved: Plan) -> None:
    space = [[sf.methods.Noise(variables=["systolic"], variance_share=0.5)]]
    one = tune(people, moved, space=space, repeats=1)
    few = "searched with one key only"
    assert one.met
    assert any(few in line for line in one.why)
    assert not any(few in line for line in tune(people, moved, space=space, repeats=3).why)
