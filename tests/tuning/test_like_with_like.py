"""Candidates are scored on the same variables, or are said to be not measurable."""

from __future__ import annotations

import math

import polars as pl
import pytest

import sfumato as sf
from sfumato.methods import Drop, KAnonymity
from sfumato.tuning.comparison import compare
from sfumato.tuning.search import tune


@pytest.fixture(scope="module")
def plan(people: sf.Dataset) -> sf.Plan:
    return sf.Plan(
        schema=people.schema,
        steps=[Drop()],
        targets={"k.min": 5},
        evaluate=[sf.utility.Propensity(permutations=2)],
    )


def test_a_candidate_without_a_variable_is_not_measurable_and_never_better(people, plan):
    whole = [KAnonymity(k=5)]
    smaller = [Drop(variables=["systolic", "region"]), KAnonymity(k=5)]
    found = tune(people, plan, space=[whole, smaller], workers=1)
    fine, lesser = found.candidates[1:]
    assert math.isnan(lesser.utility["propensity"])
    assert "not measurable as for the others" in lesser.reason
    assert "region, systolic" in lesser.reason
    assert fine.loss <= lesser.loss == 1.0
    assert found.best.number == fine.number
    # The measure itself would have called it better.
    assert lesser.evidence["propensity"].value < fine.utility["propensity"]


def test_two_plans_scored_on_different_variables_are_not_compared(people, plan):
    runner = tune(people, plan, space=[[KAnonymity(k=5)]], workers=1).runner
    first, second = (
        sf.Plan(schema=people.schema, steps=[Drop(), *steps])
        for steps in ([KAnonymity(k=5)], [Drop(variables=["systolic"]), KAnonymity(k=5)])
    )
    table = compare(runner, first, second, repeats=2).table
    row = table.filter(pl.col("number") == "propensity").row(0, named=True)
    assert row["better"] == "no difference can be told: only one of both is scored on systolic"


def test_the_analyst_s_model_is_computed_for_every_candidate(people):
    plan = sf.Plan(
        schema=people.schema,
        targets={"k.min": 5},
        evaluate=[sf.utility.Coefficients(formula="systolic ~ height + household_size")],
    )
    found = tune(people, plan, runs=9, workers=1)
    tried = [candidate for candidate in found.candidates if not candidate.refused]
    assert {"k_anonymity, mean", "k_anonymity, median", "k_anonymity, middle"} <= {
        candidate.family for candidate in tried
    }
    unknown = [c for c in tried if not math.isfinite(c.utility["coefficients"])]
    assert all(candidate.reason for candidate in unknown)
    assert not unknown or all("suppress" in candidate.family for candidate in unknown)


def test_the_finer_of_two_releases_is_recommended(shared_data):
    """What was found: k = 10 was recommended over k = 6, since MSP vanished from the score."""
    names = ["AGEP", "SEX", "MSP", "RAC1P", "OWN_RENT", "EDU", "DVET"]
    frame = pl.read_csv(shared_data / "national2019.csv", infer_schema=False).select(names)
    frame = frame.with_columns(pl.col("AGEP").cast(pl.Int64)).sample(2500, seed=1)
    schema = {name: sf.Column(role="quasi", kind="nominal") for name in names[1:]}
    plan = sf.Plan(
        schema={"AGEP": sf.Column(role="quasi", kind="integer"), **schema},
        steps=[KAnonymity(k=6)],
        targets={"k.min": 6},
        evaluate=[sf.utility.Propensity(permutations=2)],
    )
    found = tune(sf.Dataset(frame), plan, space={"k": [6, 10]}, workers=1)
    scores = [candidate.utility["propensity"] for candidate in found.candidates[1:]]
    assert scores == sorted(scores)
    assert "k = 6" in found.plan.text()
