"""The first plan offers to unite spellings, and says where text looks like notation."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import SchemaError
from sfumato.suggestion.first_plan import first_plan

FRAME = pl.DataFrame(
    {
        "age": list(range(30, 60)),
        "diagnosis": ["HIV", "hiv", "HIV ", "flu", "flu", "asthma", "HIV", "HIV", "Flu", "*"] * 3,
    }
)


def test_spellings_are_offered_as_a_step_that_names_the_commonest():
    plan = first_plan(sf.Dataset(FRAME))
    (step,) = (step for step in plan.steps if isinstance(step, sf.methods.Recode))
    assert step.groups == {"HIV": ["HIV", "hiv", "HIV "], "flu": ["flu", "Flu"]}
    data = sf.Dataset(FRAME).with_schema(plan.schema)
    assert set(step.apply(data).frame["diagnosis"]) == {"HIV", "flu", "asthma", "*"}
    reason = plan.schema["diagnosis"].reason
    assert "7 spellings of 4 values" in reason
    assert "3 cells look like ranges" in reason
    assert data.frame.equals(FRAME)  # nothing is changed before the plan is run


def test_without_other_spellings_there_is_no_such_step():
    plan = first_plan(sf.Dataset(FRAME.with_columns(diagnosis=pl.lit("flu"))))
    assert all(step.name != "recode" for step in plan.steps)
    assert "spellings" not in plan.schema["diagnosis"].reason


def test_ranges_of_numbers_are_suggested_as_generalised_cells():
    frame = pl.DataFrame({"age": ["[20;29]", "[30;39]", "41"] * 10})
    schema = sf.Schema.infer(frame)
    assert schema["age"].cells == "generalised"
    assert schema["age"].generalised
    plan = first_plan(sf.Dataset(frame))
    assert sf.Plan.parse(plan.text(comments=True)).schema["age"].cells == "generalised"


def test_cells_are_values_or_generalised():
    with pytest.raises(SchemaError, match="'age' has no known cells 'generalized'"):
        sf.Schema({"age": sf.Column(cells="generalized")})  # type: ignore[arg-type]


# What is done, and whether it holds -------------------------------------------------------------


def _make_people(records: int = 600) -> pl.DataFrame:
    random = np.random.default_rng(18)
    region = random.integers(0, 12, records)
    return pl.DataFrame(
        {
            "age": random.integers(18, 90, records),
            "sex": random.choice(["female", "male"], records),
            "region": [f"region {number}" for number in region],
            "school": [
                f"school {number}" for number in region * 4 + random.integers(0, 4, records)
            ],
            "income": np.clip(random.normal(15, 6, records).round(), 1, 24).astype(int),
            "glucose": random.normal(5.5, 0.9, records).round(2),
            "survey_weight": random.uniform(0.5, 3, records).round(3),
            "diagnosis": [*["asthma", "diabetes"], *[None] * (records - 2)],
        }
    )


@pytest.fixture(scope="module")
def release():
    data = sf.Dataset(_make_people())
    return sf.protect(data, first_plan(data), key=bytes(32))


def test_measured_numbers_get_noise_and_weights_few_levels(release):
    names = [step.name for step in release.plan.steps]
    assert "deterministic" not in names
    assert {"noise", "weights", "k_anonymity"} <= set(names)
    assert release.dataset.column("survey_weight").n_unique() <= 6
    assert release.dataset.column("age").dtype.is_numeric()
    assert release.dataset.column("sex").equals(release.original.column("sex"))


def test_its_targets_hold_and_are_those_of_before_and_more(release):
    targets = {target.name: target.plain() for target in release.plan.targets}
    assert targets["k"] == {"min": 5}
    assert targets["stayed"] == {"max": 0.2}
    assert targets["recoverable"] == {"max": 0.2}  # no milder than the light
    assert "untouched" in targets
    assert all(judgement.met for judgement in release.verdict)


def test_codes_get_more_noise_than_measurements_and_stay_codes(release):
    (noise,) = (step for step in release.plan.steps if step.name == "noise")
    assert noise.sd_share == {"income": 0.5, "glucose": 0.2}
    income = release.dataset.column("income")
    assert income.dtype.is_integer()
    assert (income.min(), income.max()) == (1, 24)


def test_what_gives_others_away_or_few_people_have_stays_inside(release):
    assert "school" not in release.dataset.schema  # it tells the region
    assert "diagnosis" not in release.dataset.schema  # two people have one


@pytest.mark.parametrize("records", [3, 12])
def test_very_few_records_get_a_plan_too(records):
    plan = first_plan(sf.Dataset(_make_people(600).head(records)))
    assert plan.steps[-1].name == "k_anonymity"
    assert sf.Plan.parse(plan.text(comments=True)) == plan


@pytest.mark.parametrize(
    "name", ["titanic", "cervical", pytest.param("adult", marks=pytest.mark.study)]
)
def test_the_first_plan_of_public_data_is_met(shared_data, name):
    data = sf.read(shared_data / f"{name}.csv")
    found = sf.protect(data, first_plan(data), key=bytes(32))
    assert found.verdict
    assert all(judgement.met for judgement in found.verdict)
    assert found.evidence["recoverable"].value < 0.18  # not barely


def test_no_record_no_plan():
    nobody = sf.Dataset(sf.datasets.cohort(3).clear())
    with pytest.raises(sf.errors.DataError, match="no record"):
        first_plan(nobody)


def test_dates_of_persons_with_several_rows_are_shifted():
    tables = sf.datasets.hospital(300)
    known = tables["patients"].select("patient_id", "birth_date", "sex")
    visits = tables["stays"].join(known, on="patient_id").drop("age", "discharged_to")
    data = sf.Dataset(visits)
    plan = first_plan(data)
    shift = [step for step in plan.steps if isinstance(step, sf.methods.ShiftDates)]
    assert shift == [sf.methods.ShiftDates(window=364)]
    assert plan.schema.having("other") == ("admitted", "discharged")
    assert plan.schema["birth_date"].role == "quasi"
    assert "days between" in plan.schema["admitted"].reason
    release = sf.protect(data, plan, key=bytes(32))
    stay = (pl.col("discharged") - pl.col("admitted")).dt.total_days().alias("days")
    assert release.data.select(stay).equals(visits.select(stay))
    assert not release.data["admitted"].equals(visits["admitted"])
    # Somebody who has decided on roles is not overruled; the step is offered all the same.
    decided = first_plan(data, plan.schema.changed(["admitted"], role="quasi"))
    assert decided.schema["admitted"].role == "quasi"
    assert shift[0] in decided.steps
    alone = sf.Dataset(tables["patients"].drop("name", "postcode"))
    assert not [s for s in first_plan(alone).steps if isinstance(s, sf.methods.ShiftDates)]
