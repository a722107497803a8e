"""The hospital is what its documentation says: tables that fit together, and a model in them."""

from __future__ import annotations

import datetime as dt
import hashlib
from importlib import import_module
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from sfumato.datasets import hospital, hospital_schemas
from sfumato.datasets.hospital import ALBUMIN, DIAGNOSES, FIRST_DAY, HAEMOGLOBIN, LAST_DAY, STAYS
from sfumato.datasets.identifiers import LARGEST
from sfumato.datasets.society import REGIONS
from sfumato.errors import DataError

Tables = dict[str, pl.DataFrame]

# Made by hospital(50) as CSV with numpy 2.4.6, scipy 1.17.1, polars 2.1.0 on x86-64. If it changes,
# the tutorial and every example made from the hospital change with it: say so in the CHANGELOG.
GOLDEN = {
    "patients": "040b0cfda7cd154573792521a57a4300082b3701bba020e09fef28439e9eed7a",
    "stays": "03a559892980088e917b109f6809a109831b459a18d708daec1ba28cf28d127e",
    "laboratory": "866229001e0d85a763d167635e624f6578f124598cacf9c4847e3a91e1d1c8be",
}


@pytest.fixture(scope="module")
def large() -> Tables:
    return hospital(20_000)


# --- the same patients each time -----------------------------------------------------------------


def test_bytes_are_pinned():
    digests = {
        name: hashlib.sha256(table.write_csv().encode()).hexdigest()
        for name, table in hospital(50).items()
    }
    assert digests == GOLDEN


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 60), st.integers(0, 60), st.integers(-(2**70), 2**70))
def test_a_smaller_hospital_begins_a_larger_one(one, other, seed):
    few, many = (hospital(count, seed=seed) for count in sorted((one, other)))
    for name, table in few.items():
        assert_frame_equal(many[name].head(table.height), table)
    assert few["patients"].height == min(one, other)


def test_batches_leave_no_seam(monkeypatch):
    whole = hospital(60)
    monkeypatch.setattr(import_module("sfumato.datasets.hospital"), "BATCH", 7)
    for name, table in hospital(60).items():
        assert_frame_equal(table, whole[name])


def test_another_seed_gives_other_patients():
    one, other = (hospital(300, seed=seed)["patients"] for seed in (0, 1))
    assert (one["nhs_number"] == other["nhs_number"]).sum() <= 2
    alike: Any = (one["birth_date"] == other["birth_date"]).mean()
    assert alike < 0.05


def test_none_and_one_have_the_same_columns_and_types():
    for name, table in hospital(0).items():
        assert table.height == 0
        assert table.schema == hospital(1)[name].schema == hospital(50)[name].schema


@pytest.mark.parametrize("patients", [-1, 2.5, "10", True, None, LARGEST + 1])
def test_a_senseless_number_of_patients_is_refused(patients):
    with pytest.raises(DataError, match="patients") as caught:
        hospital(patients)
    assert caught.value.hint


@pytest.mark.parametrize("seed", [1.0, "0", None, False])
def test_a_seed_that_is_no_whole_number_is_refused(seed):
    with pytest.raises(DataError, match="seed") as caught:
        hospital(10, seed=seed)
    assert caught.value.hint


# --- keys ----------------------------------------------------------------------------------------


def test_keys_are_unique_and_lead_to_a_row(large):
    patients, stays, laboratory = large.values()
    assert patients["patient_id"].is_unique().all()
    assert patients["nhs_number"].is_unique().all()
    assert stays["stay_id"].is_unique().all()
    assert laboratory["sample_id"].is_unique().all()
    assert stays["patient_id"].is_in(patients["patient_id"].implode()).all()
    both = laboratory.join(stays, on="stay_id", how="left")
    assert (both["patient_id"] == both["patient_id_right"]).all()


def test_a_few_patients_have_no_stay_and_a_few_have_many(large):
    counts = large["stays"].group_by("patient_id").len()["len"]
    assert 0 < large["patients"].height - len(counts) < 0.01 * large["patients"].height
    assert counts.median() == 1
    assert counts.max() >= 10
    assert 0.15 < (counts > 1).mean() < 0.45


# --- dates ---------------------------------------------------------------------------------------


def test_dates_follow_each_other(large):
    patients, stays, laboratory = large.values()
    both = stays.join(patients, on="patient_id")
    assert (both["birth_date"] <= both["admitted"]).all()
    assert (both["admitted"] <= both["discharged"]).all()
    assert both["admitted"].min() >= FIRST_DAY
    assert both["discharged"].max() <= LAST_DAY
    sampled = laboratory.join(stays, on="stay_id")
    assert sampled["sampled"].is_between(sampled["admitted"], sampled["discharged"]).all()
    assert laboratory.group_by("stay_id").agg(pl.col("sampled").is_unique().all())["sampled"].all()


def test_stays_of_a_patient_do_not_overlap_and_end_with_death(large):
    following = (
        large["stays"]
        .sort("patient_id", "admitted")
        .with_columns(
            pl.col("discharged", "discharged_to").shift().over("patient_id").name.prefix("last_")
        )
    )
    again = following.filter(pl.col("last_discharged").is_not_null())
    assert (again["last_discharged"] < again["admitted"]).all()
    assert (again["last_discharged_to"] != "died").all()


def test_the_age_agrees_with_the_dates(large):
    both = large["stays"].join(large["patients"], on="patient_id").head(3000)

    def count_years(born: dt.date, admitted: dt.date) -> int:
        early = (admitted.month, admitted.day) < (born.month, born.day)
        return admitted.year - born.year - early

    expected = [count_years(*days) for days in both.select("birth_date", "admitted").iter_rows()]
    assert both["age"].to_list() == expected


def test_planned_admissions_avoid_weekends_and_holidays(large):
    stays = large["stays"]
    planned = stays.filter(pl.col("diagnosis").is_in(["C50", "C61"]))
    weekend = (stays["admitted"].dt.weekday() > 5).mean()
    assert (planned["admitted"].dt.weekday() > 5).mean() < 0.3 * weekend
    christmas = (pl.col("admitted").dt.month() == 12) & (pl.col("admitted").dt.day() == 25)
    usual = stays.height / 365.25
    assert stays.filter(christmas).height < usual


# --- the schemas fit -----------------------------------------------------------------------------


def test_the_schemas_name_the_columns_in_order(large):
    for name, schema in hospital_schemas().items():
        assert list(schema) == large[name].columns
        assert schema.person == "patient_id"
        assert not schema.unknown
        assert all(told.kind is not None for told in schema.values())
        assert all(told.accessibility is not None for told in schema.values())


def test_levels_and_bounds_hold(large):
    for table, schema in hospital_schemas().items():
        for name, told in schema.items():
            values = large[table][name].drop_nulls()
            if told.levels is not None:
                assert set(values) == set(told.levels), name
            if told.bounds is not None:
                assert values.is_between(*told.bounds).all(), name


def test_postcodes_begin_with_the_region(large):
    prefixes = {region: prefix for region, (prefix, _) in REGIONS.items()}
    patients = large["patients"]
    assert (patients["postcode"].str.head(2) == patients["region"].replace_strict(prefixes)).all()


# --- medicine ------------------------------------------------------------------------------------


def test_every_diagnosis_has_its_stay():
    assert list(STAYS) == list(DIAGNOSES)


def test_diagnoses_depend_on_the_patient(large):
    both = large["stays"].join(large["patients"], on="patient_id")
    by = {code: both.filter(pl.col("diagnosis") == code) for code in ("O80", "C61", "S72", "K35")}
    assert (by["O80"]["sex"] == "female").all()
    assert (by["C61"]["sex"] == "male").all()
    assert by["S72"]["age"].mean() > by["K35"]["age"].mean() + 15
    assert by["K35"].group_by("patient_id").len()["len"].max() == 1
    repeated = both.group_by("patient_id").agg(pl.len(), pl.col("diagnosis").n_unique())
    chronic = repeated.filter((pl.col("len") > 3) & (pl.col("diagnosis") < pl.col("len")))
    assert chronic.height > 0.5 * repeated.filter(pl.col("len") > 3).height


def test_the_two_level_model_is_in_the_laboratory(large):
    """Within patients and between them, by sums of squares; no model of ours."""
    rows = large["laboratory"].join(large["patients"], on="patient_id")
    rows = rows.with_columns(
        pl.col("albumin", "haemoglobin").mean().over("patient_id").name.prefix("mean_"),
        pl.len().over("patient_id").alias("n"),
    ).filter(pl.col("n") > 1)
    own = {
        name: (rows[name] - rows[f"mean_{name}"]).to_numpy() for name in ("albumin", "haemoglobin")
    }
    slope = float((own["albumin"] * own["haemoglobin"]).sum() / (own["albumin"] ** 2).sum())
    assert slope == pytest.approx(HAEMOGLOBIN["albumin"], abs=0.03)
    persons = rows.unique("patient_id", maintain_order=True)
    freedom = rows.height - persons.height
    rest = np.sqrt(((own["haemoglobin"] - slope * own["albumin"]) ** 2).sum() / freedom)
    assert rest == pytest.approx(HAEMOGLOBIN["residual_sd"], abs=0.1)
    level = persons["mean_haemoglobin"] - slope * (persons["mean_albumin"] - ALBUMIN["mean"])
    female = (persons["sex"] == "female").to_numpy()
    values = level.to_numpy()
    gap = values[female].mean() - values[~female].mean()
    assert gap == pytest.approx(HAEMOGLOBIN["female"], abs=0.5)
    centred = values - np.where(female, values[female].mean(), values[~female].mean())
    of_patients = centred.var() - rest**2 * (1 / persons["n"].to_numpy()).mean()
    assert np.sqrt(of_patients) == pytest.approx(HAEMOGLOBIN["patient_sd"], abs=0.25)


def test_infections_raise_crp_and_kidneys_creatinine(large):
    rows = large["laboratory"].join(large["stays"].select("stay_id", "diagnosis"), on="stay_id")
    means = rows.group_by("diagnosis").agg(pl.col("crp", "creatinine").mean())
    by = {code: (crp, creatinine) for code, crp, creatinine in means.iter_rows()}
    assert by["A41"][0] > 3 * by["R07"][0]
    assert by["N18"][1] > 2 * by["R07"][1]
