"""Plans side by side: each row is what carrying out and evaluating that plan by itself gives."""

from __future__ import annotations

import warnings

import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import PlanError

NAMES = ["sex", "birth_date", "height", "diagnosis"]
SCHEMA = sf.Schema({name: sf.datasets.cohort_schema()[name] for name in NAMES})
KEY = bytes(range(32))


@pytest.fixture(scope="module")
def data() -> sf.Dataset:
    return sf.Dataset(sf.datasets.cohort(200).select(NAMES), SCHEMA)


PLANS = {
    "5-anonymous": sf.Plan(schema=SCHEMA, steps=[sf.methods.KAnonymity(k=5)], targets={"k.min": 5}),
    "coarse": sf.Plan(
        schema=SCHEMA,
        steps=[sf.methods.Coarsen(variables=["height"], intervals=4)],
        targets={"k.min": 5},
    ),
    "as it is": sf.Plan(schema=SCHEMA),
}


def test_each_row_is_what_the_plan_gives_by_itself(data):
    table = sf.compare_plans(data, PLANS)
    assert table["plan"].to_list() == list(PLANS)
    assert table["met"].to_list() == [True, False, None]
    asked = [
        sf.risk.Reidentification(), sf.risk.AttributeDisclosure(), sf.utility.InformationLoss(),
    ]  # fmt: skip
    for row, plan in zip(table.rows(named=True)[:2], list(PLANS.values())[:2], strict=True):
        # Without targets, so that nothing stops it.
        free = sf.Plan(schema=SCHEMA, steps=plan.steps)
        found = sf.evaluate(data, sf.protect(data, free, key=KEY), asked)
        for label, evidence in found.items():
            assert row[label] == pytest.approx(evidence.value)
    loss = dict(table.select("plan", "information_loss").rows())
    assert loss["as it is"] == 0 < loss["coarse"]


def test_measures_and_repeats_are_what_was_asked_for(data):
    noisy = {
        "little": sf.Plan(
            schema=SCHEMA, steps=[sf.methods.Noise(variables=["height"], sd_share=0.1)]
        ),
        "much": sf.Plan(
            schema=SCHEMA, steps=[sf.methods.Noise(variables=["height"], sd_share=0.5)]
        ),
    }
    table = sf.compare_plans(data, noisy, measures=["displacement"], repeats=2)
    assert table["repeat"].to_list() == [0, 1, 0, 1]
    assert "reidentification" not in table.columns
    assert table.equals(sf.compare_plans(data, noisy, measures=["displacement"], repeats=2))
    assert not table.equals(
        sf.compare_plans(data, noisy, measures=["displacement"], repeats=2, seed=1)
    )


def test_a_plan_that_the_data_refuse_stays_with_its_reason(data):
    plans = {**PLANS, "too much": sf.Plan(schema=SCHEMA, steps=[sf.methods.KAnonymity(k=500)])}
    last = sf.compare_plans(data, plans).rows(named=True)[-1]
    assert last["reidentification"] is None
    assert "500" in last["reason"]


def test_plans_that_ask_different_questions_are_told(data):
    other = SCHEMA.changed(["height"], role="other")
    plans = {"a": PLANS["as it is"], "b": sf.Plan(schema=other)}
    with pytest.warns(UserWarning, match="same variables as known to outsiders"):
        sf.compare_plans(data, plans)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sf.compare_plans(data, {"a": PLANS["as it is"], "b": PLANS["coarse"]})


def test_what_cannot_be_compared_is_refused(data):
    with pytest.raises(PlanError, match="no two plans"):
        sf.compare_plans(data, {"a": PLANS["coarse"]})
    with pytest.raises(PlanError, match="no records for the plan 'b'"):
        sf.compare_plans({"a": data}, {"a": PLANS["coarse"], "b": PLANS["coarse"]})
    with pytest.raises(PlanError, match="number of repeats"):
        sf.compare_plans(data, PLANS, repeats=0)
    assert isinstance(sf.compare_plans(dict.fromkeys(PLANS, data), PLANS), pl.DataFrame)
