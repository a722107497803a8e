"""The cohort is what its documentation says: unique, stable, correlated, incomplete."""

from __future__ import annotations

import hashlib
from importlib import import_module

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from scipy.stats import skew

from sfumato.datasets import cohort, cohort_schema
from sfumato.datasets.body import CORRELATIONS
from sfumato.datasets.cohort import EXAM, People
from sfumato.datasets.identifiers import LARGEST, RESERVED, make_health_numbers, permute_counter
from sfumato.datasets.society import DIAGNOSES, EDUCATION, ETHNICITY, REGIONS
from sfumato.errors import DataError
from sfumato.randomness import Key

LARGE = 100_000
KEY = Key(hashlib.sha256(b"sfumato cohort 0").digest())

# Made by cohort(100).write_csv() with numpy 2.4.6, scipy 1.17.1, polars 2.1.0 on x86-64;
# every draw is AES of a counter, so other versions must give the same bytes. If it changes, every
# example and every golden file made from the cohort changes with it: say so in the CHANGELOG.
GOLDEN = "82e2a8098f7ad5998a0fad610053dcdfc9fedfce7033cdcebb2194635029ea51"


@pytest.fixture(scope="module")
def large() -> pl.DataFrame:
    return cohort(LARGE)


# --- the same people each time -------------------------------------------------------------------


def test_bytes_are_pinned():
    assert hashlib.sha256(cohort(100).write_csv().encode()).hexdigest() == GOLDEN


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 300), st.integers(0, 300), st.integers(-(2**70), 2**70))
def test_a_smaller_cohort_begins_a_larger_one(one, other, seed):
    few, many = sorted((one, other))
    assert_frame_equal(cohort(many, seed=seed).head(few), cohort(few, seed=seed))


def test_batches_leave_no_seam(monkeypatch):
    whole = cohort(300)
    monkeypatch.setattr(import_module("sfumato.datasets.cohort"), "BATCH", 7)
    assert_frame_equal(cohort(300), whole)


def test_another_seed_gives_other_people():
    one, other = cohort(500), cohort(500, seed=1)
    assert (one["nhs_number"] == other["nhs_number"]).sum() <= 2
    assert abs(np.corrcoef(one["height"], other["height"])[0, 1]) < 0.1


def test_none_and_one_have_the_same_columns_and_types():
    assert cohort(0).shape == (0, 25)
    assert cohort(1).shape == (1, 25)
    assert cohort(0).schema == cohort(1).schema == cohort(50).schema


@pytest.mark.parametrize("records", [-1, 2.5, "10", True, None, LARGEST + 1])
def test_a_senseless_number_of_records_is_refused(records):
    with pytest.raises(DataError, match="records") as caught:
        cohort(records)
    assert caught.value.hint


@pytest.mark.parametrize("seed", [1.0, "0", None, False])
def test_a_seed_that_is_no_whole_number_is_refused(seed):
    with pytest.raises(DataError, match="seed") as caught:
        cohort(10, seed=seed)
    assert caught.value.hint


# --- identifiers ---------------------------------------------------------------------------------


def test_identifiers_are_unique():
    frame = cohort(200_000).select("person_id", "nhs_number", "email")
    assert frame["person_id"].n_unique() == 200_000
    assert frame["nhs_number"].n_unique() == 200_000
    assert frame["email"].drop_nulls().is_unique().all()


def test_health_numbers_stay_unique_where_the_reserved_range_ends():
    counters = np.arange(np.prod(RESERVED) - 100_000, np.prod(RESERVED) + 100_000)
    numbers = make_health_numbers(counters, KEY)
    assert numbers.n_unique() == 200_000
    reserved = numbers.str.starts_with("999")
    assert reserved[:100_000].all()
    assert not reserved[100_000:].any()
    last = make_health_numbers(np.array([LARGEST - 1]), KEY)
    assert last.str.contains(r"^9\d{9}$").all()


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(1, 40))
def test_the_network_permutes_any_room(left, right):
    numbers = permute_counter(np.arange(left * right), (left, right), KEY)
    assert sorted(numbers.tolist()) == list(range(left * right))


def test_check_digits_are_valid(large):
    digits = np.array([[int(d) for d in number] for number in large["nhs_number"].head(20_000)])
    assert digits.shape == (20_000, 10)
    assert not ((digits * np.arange(10, 0, -1)).sum(axis=1) % 11).any()


def test_postcodes_begin_with_the_region_and_some_with_a_zero(large):
    prefixes = {region: prefix for region, (prefix, _) in REGIONS.items()}
    assert (large["postcode"].str.head(2) == large["region"].replace_strict(prefixes)).all()
    assert (large["postcode"].str.len_chars() == 5).all()
    assert 20_000 < large["postcode"].str.starts_with("0").sum() < 50_000


def test_mail_goes_nowhere(large):
    assert large["email"].drop_nulls().str.contains(r"^[a-z.\-]+\d+@example\.(com|org|net)$").all()


def test_nearly_everybody_is_unique_by_birth_date_sex_and_postcode():
    known = cohort(2000).select("birth_date", "sex", "postcode")
    assert known.is_unique().sum() >= 1998


# --- the schema fits -----------------------------------------------------------------------------


def test_the_schema_names_the_columns_in_order(large):
    schema = cohort_schema()
    assert list(schema) == large.columns
    assert not schema.unknown
    assert all(told.kind is not None for told in schema.values())
    assert all(told.accessibility is not None for told in schema.values())


def test_levels_are_those_of_the_data(large):
    schema = cohort_schema()
    declared = {name: told.levels for name, told in schema.items() if told.levels is not None}
    assert len(declared) == 7
    for name, levels in declared.items():
        assert set(large[name].drop_nulls()) == set(levels), name


def test_bounds_hold(large):
    bounds = {name: told.bounds for name, told in cohort_schema().items() if told.bounds}
    assert len(bounds) == 11
    for name, (low, high) in bounds.items():
        assert large[name].is_between(low, high).all(), name


def test_types_follow_the_kinds(large):
    types = {
        "continuous": pl.Float64,
        "integer": pl.Int64,
        "date": pl.Date,
        **dict.fromkeys(("nominal", "ordinal", "text"), pl.String),
    }
    expected = {name: types[str(told.kind)] for name, told in cohort_schema().items()}
    assert dict(large.schema) == expected


def test_values_are_rounded_as_in_a_real_file(large):
    for name, decimals in {"height": 1, "weight_kg": 1, "glucose": 2, "hdl": 2}.items():
        values = large[name].drop_nulls()
        assert (values == values.round(decimals)).all(), name
        assert (values != values.round(decimals - 1)).mean() > 0.8, name


# --- measurements --------------------------------------------------------------------------------


def test_what_is_written_down_still_has_the_stated_correlations(large):
    names = ["height", "weight_kg", "glucose", "hdl", "systolic"]
    for sex in ("female", "male"):
        values = large.filter(pl.col("sex") == sex).drop_nulls(names).select(names)
        # Outliers in height and glucose take a little away.
        assert np.abs(np.corrcoef(values.to_numpy().T) - CORRELATIONS[:5, :5]).max() < 0.06


def test_a_few_people_are_extreme(large):
    shares = large.select(
        height=((pl.col("height") > 200) | (pl.col("height") < 139)).mean(),
        glucose=(pl.col("glucose") > 15.9).mean(),
        income=(pl.col("income") > 249_999).mean(),
    ).row(0, named=True)
    for name, share in shares.items():
        assert 0.0006 < share < 0.0025, name


def test_income_has_a_heavy_right_tail(large):
    income = large["income"].drop_nulls()
    assert income.mean() > 1.1 * income.median()
    assert skew(income) > 5
    assert abs(skew(np.log(income))) < 0.6


# --- missing values ------------------------------------------------------------------------------

MISSING = {
    "email": 0.06,
    "ethnicity": 0.02,
    "education": 0.015,
    "income": 0.072,
    "weight_kg": 0.022,
    "glucose": 0.047,
    "hdl": 0.047,
    "exam_score": 0.030,
}


def test_missing_shares(large):
    shares = large.null_count().row(0, named=True)
    measured = {name: count / LARGE for name, count in shares.items() if count}
    assert measured == pytest.approx(MISSING, abs=0.0025)


def test_income_is_missing_where_it_is_high():
    silent = cohort(20_000)["income"].is_null().to_numpy()
    people = People(KEY, np.arange(20_000))
    assert people.wealth[silent].mean() > 0.6
    assert abs(people.wealth[~silent].mean()) < 0.1


def test_one_blood_sample_serves_both_and_smokers_give_fewer(large):
    assert (large["glucose"].is_null() == large["hdl"].is_null()).all()
    by = large.group_by("smoking").agg(pl.col("glucose").is_null().mean())
    shares = dict(by.iter_rows())
    assert shares["never"] < shares["former"] < shares["current"]


# --- society -------------------------------------------------------------------------------------


def test_schools_have_about_sixty_pupils_and_keep_their_region(large):
    sizes = large["school"].value_counts()["count"]
    assert 55 < sizes.mean() < 65
    assert sizes.max() < 130
    home = large.group_by("school").agg(
        share=(pl.col("region") == pl.col("region").mode().first()).mean()
    )
    assert home.select(pl.col("share").mean()).item() > 0.9


def test_shares_of_levels_are_those_stated(large):
    schooling = large["education"].drop_nulls().value_counts(normalize=True)
    assert dict(schooling.iter_rows()) == pytest.approx(EDUCATION, abs=0.01)
    ethnic = dict(large["ethnicity"].value_counts(normalize=True).iter_rows())
    assert sum(ethnic[level] < 0.01 for level in ETHNICITY) >= 3


def test_diagnoses_depend_on_the_person(large):
    def share(code: str, where: pl.Expr) -> float:
        return float(large.filter(where).select((pl.col("diagnosis") == code).mean()).item())

    assert share("E11", pl.col("glucose") >= 7) > 10 * share("E11", pl.col("glucose") < 7)
    assert share("I10", pl.col("systolic") >= 140) > 3 * share("I10", pl.col("systolic") < 140)
    assert share("J44", pl.col("smoking") == "current") > 5 * share(
        "J44", pl.col("smoking") == "never"
    )
    assert share("C61", pl.col("sex") == "female") == 0
    rare = dict(large["diagnosis"].value_counts(normalize=True).iter_rows())
    assert sum(rare[code] < 0.002 for code in DIAGNOSES) >= 4


def test_households_hold_the_partner_and_weights_are_positive(large):
    partnered = large.filter(pl.col("marital_status").is_in(["married", "cohabiting"]))
    assert (partnered["household_size"] >= 2).all()
    assert large["survey_weight"].min() > 0
    assert 250 < large["survey_weight"].mean() < 500


def test_the_exam_follows_its_two_level_model(large):
    whole = large.drop_nulls(["exam_score", "income"]).filter(pl.col("income") < 249_999)
    data = whole.select(
        "school",
        y=pl.col("exam_score"),
        female=(pl.col("sex") == "female").cast(pl.Float64),
        log_income=pl.col("income").log(),
    )
    centred = data.select(
        (pl.col(name) - pl.col(name).mean().over("school"))
        for name in ("y", "female", "log_income")
    ).to_numpy()
    slopes, *_ = np.linalg.lstsq(centred[:, 1:], centred[:, 0])
    assert slopes == pytest.approx([EXAM["female"], EXAM["log_income"]], abs=0.2)
    rest = data.with_columns(
        r=pl.col("y") - slopes[0] * pl.col("female") - slopes[1] * pl.col("log_income")
    )
    schools = rest.group_by("school").agg(m=pl.col("r").mean(), v=pl.col("r").var(), n=pl.len())
    within = np.average(schools["v"], weights=schools["n"] - 1)
    between = schools["m"].var() - within * (1 / schools["n"]).mean()
    assert np.sqrt(within) == pytest.approx(EXAM["residual_sd"], rel=0.02)
    assert np.sqrt(between) == pytest.approx(EXAM["school_sd"], rel=0.05)
