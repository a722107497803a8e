from __future__ import annotations

import datetime as dt
import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.utility.conftest import numbers

import sfumato as sf
from sfumato.errors import MeasureError, PlanError, SchemaError
from sfumato.utility.models.propensity import merge_records

Propensity = sf.utility.Propensity


def correlated(seed: int, records: int = 400) -> pl.DataFrame:
    draw = np.random.default_rng(seed)
    mixed = draw.normal(size=(records, 3)) @ np.array([[1, 0.7, 0.2], [0, 0.7, 0.5], [0, 0, 0.8]])
    # Permutations follow from the values, and the last bits of a product from the processor.
    return pl.DataFrame(dict(zip("abc", mixed.round(9).T, strict=True)))


def test_the_paper_s_u_to_the_last_digit(titanic):
    found = Propensity(categories=["Pclass"]).measure(titanic.original, titanic.released)
    assert found.value == pytest.approx(titanic.reference["rann_exact"]["U"], rel=1e-9)
    assert round(found.value, 6) == 0.000117
    assert found.details["parameters"] == 8
    # Closer to the original than another sample of the same population would be.
    assert found.details["ratio"] < 1
    assert found.details["p_value"] > 0.9
    assert found.details["expected"] == pytest.approx(7 * 0.5**2 / (2 * 891))
    assert found.details["expected_if_redrawn"] == pytest.approx(7 * 0.5**3 / (2 * 891))


def test_a_declared_category_needs_no_parameter(titanic):
    told = {"Pclass": sf.Column(kind="nominal")}
    found = Propensity().measure(titanic.original.with_schema(told), titanic.released)
    assert found.value == pytest.approx(titanic.reference["rann_exact"]["U"], rel=1e-9)


@pytest.mark.parametrize("model", ["interactions", "tree"])
def test_a_shuffled_column_is_seen(model):
    frame = correlated(1, records=1000)
    mixed = np.random.default_rng(2).permutation(frame["a"].to_numpy())
    shuffled = frame.with_columns(a=pl.Series(mixed))
    found = Propensity(model=model).measure(sf.Dataset(frame), sf.Dataset(shuffled))
    assert found.details["p_value"] == 1 / (1 + found.details["permutations"])
    assert found.details["permutations"] == (49 if model == "tree" else 199)
    assert found.details["ratio"] > (1.2 if model == "tree" else 10)
    assert found.details["standardised"] > 3
    # Main effects cannot see it: every variable by itself is the same.
    plain = Propensity().measure(sf.Dataset(frame), sf.Dataset(shuffled))
    assert plain.value < 1e-20


def test_interactions_see_noise_and_main_effects_a_shift():
    frame = correlated(3)
    noisy = frame.with_columns(
        pl.col("a") + pl.Series(np.random.default_rng(4).normal(size=len(frame)))
    )
    found = Propensity(model="interactions").measure(sf.Dataset(frame), sf.Dataset(noisy))
    assert found.details["p_value"] == 1 / 200
    shifted = Propensity().measure(
        sf.Dataset(frame), sf.Dataset(frame.with_columns(pl.col("a") + 1))
    )
    assert shifted.details["p_value"] == 1 / 200
    assert shifted.details["ratio"] > 5


def test_a_fresh_sample_is_not_called_different():
    p_values = [
        Propensity(model="interactions")
        .measure(sf.Dataset(correlated(seed)), sf.Dataset(correlated(seed + 100)))
        .details["p_value"]
        for seed in range(40)
    ]
    assert 0.35 < np.mean(p_values) < 0.65
    # By chance 2 of 40, and more than 6 once in 300 times.
    assert sum(p <= 0.05 for p in p_values) <= 6


@pytest.mark.parametrize(
    ("model", "sizes", "repeats"),
    [
        ("main", (150, 150), 120),
        ("main", (200, 60), 120),
        ("interactions", (200, 200), 80),
        ("tree", (60, 60), 40),
    ],
)
def test_two_samples_of_one_population_are_what_is_expected(model, sizes, repeats):
    measure = Propensity(model=model, permutations=30 if model == "tree" else 0)
    draw = np.random.default_rng(11)

    def sample(records: int) -> sf.Dataset:
        group = np.array(list("xyz"))[draw.integers(0, 3, records)]
        columns = {"a": draw.normal(size=records), "b": draw.exponential(size=records)}
        return sf.Dataset(pl.DataFrame({**columns, "group": group}))

    found = [measure.measure(*map(sample, sizes)).details for _ in range(repeats)]
    ratios = [one["ratio"] for one in found]
    standardised = [one["standardised"] for one in found]
    error = np.std(ratios) / math.sqrt(repeats)
    assert np.mean(ratios) == pytest.approx(1, abs=max(3 * error, 0.05))
    assert np.mean(standardised) == pytest.approx(0, abs=3.5 / math.sqrt(repeats))
    assert np.std(standardised) == pytest.approx(1, abs=0.25)


def test_a_redrawn_release_has_the_value_said_for_it():
    frame = correlated(8, records=500)
    draw = np.random.default_rng(9)
    found = [
        Propensity(permutations=0).measure(
            sf.Dataset(frame), sf.Dataset(frame[draw.integers(0, 500, 500)])
        )
        for _ in range(80)
    ]
    expected = found[0].details["expected_if_redrawn"]
    assert np.mean([one.value for one in found]) == pytest.approx(expected, rel=0.25)


def test_other_records_are_permuted_in_other_ways():
    seeds = {
        merge_records(
            sf.Dataset(correlated(at)), sf.Dataset(correlated(at + 50)), None, owner="x"
        )._seed()
        for at in range(20)
    }
    assert len(seeds) == 20
    one, two = sf.Dataset(correlated(1)), sf.Dataset(correlated(2))
    turned = sf.Dataset(two.frame.reverse())
    first, second, third = (
        merge_records(was, now, None, owner="x")
        for was, now in ((one, two), (one, turned), (two, one))
    )
    # Neither the order of records nor which of them are released has a part in it.
    assert first._seed() == second._seed() == third._seed()
    for ours, theirs in zip(first.shuffle_labels(3), second.shuffle_labels(3), strict=True):
        assert ours.tolist() == theirs.tolist()


@given(st.lists(st.tuples(st.integers(-3, 3), st.sampled_from("xyz")), min_size=8, max_size=40))
@settings(max_examples=40)
def test_nothing_is_told_apart_in_equal_data(rows):
    data = numbers({"a": [float(a) for a, _ in rows], "b": [b for _, b in rows]})
    if len(set(rows)) == 1:
        with pytest.raises(MeasureError, match="All records are equal"):
            Propensity().measure(data, data)
        return
    found = Propensity(permutations=5).measure(data, data)
    assert found.value == 0.0
    assert set(found.records["propensity_original"]) == {0.5}
    assert found.details["p_value"] == 1.0


@given(
    st.lists(
        st.tuples(*[st.integers(-3, 3).map(float)] * 2, *[st.sampled_from("xy")] * 2),
        min_size=12,
        max_size=40,
    ),
    st.floats(-100, 100),
    st.floats(0.01, 100),
)
@settings(max_examples=40)
def test_u_keeps_its_bounds_and_units_do_not_matter(rows, shift, factor):
    def sides(change):
        return [
            numbers({"a": [change(row[at]) for row in rows], "b": [row[at + 2] for row in rows]})
            for at in (0, 1)
        ]

    was, now = sides(float)
    try:
        found = Propensity(permutations=0).measure(was, now)
    except MeasureError:
        assert len({row[:1] + row[2:3] for row in rows} | {row[1:2] + row[3:] for row in rows}) < 2
        return
    assert 0 <= found.value <= 0.25
    again = Propensity(permutations=0).measure(*sides(lambda x: x * factor + shift))
    assert again.value == pytest.approx(found.value, rel=1e-5, abs=1e-9)
    assert Propensity(permutations=0).measure(now, was).value == pytest.approx(
        found.value, rel=1e-5, abs=1e-9
    )


@pytest.mark.parametrize("model", ["main", "interactions", "tree"])
@pytest.mark.parametrize("seed", range(2))
def test_the_order_of_records_changes_no_bit(noisy, model, seed):
    names = None if model == "main" else ["sex", "smoking", "height", "glucose", "weight_kg"]
    measure = Propensity(variables=names, model=model, permutations=20)
    found = measure.measure(noisy.original, noisy.released)
    other, order = noisy.shuffle_records(seed)
    again = measure.measure(other.original, other.released)
    assert again.plain() == found.plain()
    assert again.records.equals(found.records[order])
    assert found.value > 0


def test_the_order_may_differ_between_the_two():
    frame, other = correlated(5), correlated(6)
    found = Propensity().measure(sf.Dataset(frame), sf.Dataset(other))
    turned = Propensity().measure(sf.Dataset(frame), sf.Dataset(other.reverse()))
    assert turned.plain() == found.plain()


def test_data_of_different_sizes_are_compared_without_records():
    found = Propensity().measure(sf.Dataset(correlated(1)), sf.Dataset(correlated(2, records=100)))
    assert found.records is None
    assert found.details["share_released"] == 0.2
    assert found.details["expected"] == pytest.approx(3 * 0.8 * 0.2 / 500)
    assert found.details["expected_if_redrawn"] == pytest.approx(3 * 0.8**2 * 0.2 / 500)
    assert found.value < 0.16


def test_separated_data_reach_the_end_and_say_so():
    was, now = numbers({"a": np.arange(20.0)}), numbers({"a": np.arange(20.0) + 100})
    found = Propensity().measure(was, now)
    assert found.value == pytest.approx(0.25, abs=1e-6)
    assert any("with certainty" in one for one in found.warnings)
    assert found.details["p_value"] == 1 / 200


def test_a_level_of_one_side_only_is_told_apart():
    was = numbers({"a": ["x"] * 20 + ["y"] * 20})
    now = numbers({"a": ["x"] * 20 + ["z"] * 20})
    found = Propensity().measure(was, now)
    assert found.value == pytest.approx(0.125, abs=1e-6)
    assert found.warnings


def test_missing_values_are_seen_and_nobody_is_dropped():
    values = [float(at % 7) for at in range(60)]
    gaps = [None if at < 20 else value for at, value in enumerate(values)]
    found = Propensity().measure(numbers({"a": values}), numbers({"a": gaps}))
    # 20 of 60 released records are told apart for certain, the rest hold what is left of them.
    assert found.value == pytest.approx((20 * 0.25 + 100 * 0.1**2) / 120, abs=2e-4)
    assert len(found.records) == 60


def test_what_cannot_be_compared_is_told_or_an_error(cohort):
    released = cohort.without(["height"]).with_columns(
        pl.DataFrame({"income": ["low"] * len(cohort)}),
    )
    found = Propensity().measure(cohort, released)
    told = " ".join(found.warnings)
    assert "'height', it is not in the release" in told
    assert "'income', the release holds another kind of values" in told
    assert "'postcode', it has more than 50 levels" in told
    for gone in ("height", "income"):
        with pytest.raises(MeasureError, match=f"cannot compare '{gone}'"):
            Propensity(variables=["sex", gone]).measure(cohort, released)
    for role in ("direct", "weight", "cluster"):
        names = cohort.schema.having(role)
        assert not set(found.details["variables"]) & set(names)


def test_repeated_and_constant_variables_are_dropped_and_told():
    draw = np.random.default_rng(0)
    a, b = draw.normal(size=50), draw.normal(size=50)
    alone = Propensity().measure(numbers({"a": a}), numbers({"a": b}))
    more = Propensity().measure(
        numbers({"a": a, "twice": 2 * a + 1, "same": [1] * 50}),
        numbers({"a": b, "twice": 2 * b + 1, "same": [1] * 50}),
    )
    assert more.value == pytest.approx(alone.value, rel=1e-9)
    assert more.details["parameters"] == 2
    assert any("'twice', 'same'" in one for one in more.assumptions)


def test_too_many_parameters_are_refused(cohort):
    with pytest.raises(MeasureError, match="parameters"):
        Propensity(model="interactions").measure(cohort, cohort)
    small = cohort.take(np.arange(30))
    with pytest.raises(MeasureError, match="would tell anything apart"):
        Propensity().measure(small, small)
    with pytest.raises(MeasureError, match="A tree needs 40 records"):
        Propensity(variables=["sex"], model="tree").measure(
            small.take(np.arange(5)), small.take(np.arange(5))
        )
    few = Propensity(variables=["diagnosis"]).measure(small, small)
    assert any("fewer than 10 records a parameter" in one for one in few.warnings)


def test_dates_yes_and_no_and_codes():
    days = [dt.date(2020, 1, 1) + dt.timedelta(days=at) for at in range(40)]
    columns = {"day": days, "yes": [at < 20 for at in range(40)], "code": [1, 2, 3, 4] * 10}
    was = numbers(columns)
    later = numbers(
        {
            "day": [dt.datetime(one.year, one.month, one.day) for one in days],  # noqa: DTZ001
            "yes": [at < 20 for at in range(40)],
            "code": [1.0, 2.0, 3.0, 4.0] * 10,
        }
    )
    found = Propensity(categories=["code"]).measure(was, later)
    assert found.value == 0.0
    assert found.details["parameters"] == 6


def test_the_table_is_two_box_plots(noisy):
    found = Propensity(variables=["height", "sex"]).measure(noisy.original, noisy.released)
    assert found.table["data"].to_list() == ["original", "released"]
    assert found.table.columns == ["data", "low", "q1", "median", "q3", "high"]
    each = found.records["propensity_released"].to_numpy()
    assert found.table["q3"][1] == pytest.approx(np.quantile(each, 0.75))
    squares = (found.records.to_numpy() - 0.5) ** 2
    assert found.value == pytest.approx(squares.mean())


def test_without_permutations_there_is_no_p_value_and_a_target_on_it_fails(cohort):
    found = Propensity(permutations=0).measure(cohort, cohort)
    assert math.isnan(found.details["p_value"])
    assert "permutations" in found.details["p_value_reason"]
    assert found.details["ratio"] == 0.0
    tree = Propensity(variables=["sex"], model="tree", permutations=0).measure(cohort, cohort)
    assert math.isnan(tree.details["ratio"])
    assert "permutations" in tree.details["ratio_reason"]


def test_errors_are_errors_and_not_zero(cohort):
    with pytest.raises(SchemaError, match="did you mean 'height'"):
        Propensity(variables=["heigth"]).measure(cohort, cohort)
    with pytest.raises(PlanError, match="`categories` must be among `variables`"):
        Propensity(variables=["sex"], categories=["children"])
    with pytest.raises(MeasureError, match="no record"):
        Propensity().measure(cohort, cohort.take(np.arange(0)))
    with pytest.raises(MeasureError, match="'a' holds infinite"):
        Propensity().measure(numbers({"a": [1.0, math.inf]}), numbers({"a": [1.0, 2.0]}))
    with pytest.raises(MeasureError, match="cannot compare"):
        Propensity().measure(numbers({"a": [1.0, 2.0]}), numbers({"b": [1.0, 2.0]}))
    with pytest.raises(MeasureError, match="neither counted nor ordered"):
        Propensity(variables=["a"]).measure(numbers({"a": [b"x"]}), numbers({"a": [b"x"]}))
    with pytest.raises(MeasureError, match="no value at all"):
        Propensity(variables=["a"]).measure(numbers({"a": [None]}), numbers({"a": [None]}))


def test_a_target_that_nothing_can_miss_is_refused():
    with pytest.raises(PlanError, match="cannot be missed"):
        _ = sf.Plan(targets={"propensity.max": 0.25}).measures
