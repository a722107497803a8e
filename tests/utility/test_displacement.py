from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import drawn
from tests.utility.conftest import numbers

import sfumato as sf
from sfumato.errors import MeasureError, MethodError, SchemaError
from sfumato.testing.partitioned import PartitionedEngine

value = st.one_of(st.none(), st.integers(-50, 50).map(float))
rows = st.lists(st.tuples(value, value, value, value), min_size=1, max_size=30)


def test_the_paper_s_displacements_to_the_last_digit(titanic):
    found = sf.utility.Displacement(variables=["Age", "Fare"]).measure(
        titanic.original, titanic.released
    )
    exact = titanic.reference["rann_exact"]
    by_name = dict(zip(found.table["variable"], found.table["displacement"], strict=True))
    assert by_name["Age"] == pytest.approx(exact["dAge"], rel=1e-12)
    assert by_name["Fare"] == pytest.approx(exact["dFare"], rel=1e-12)
    assert [round(by_name[name], 4) for name in ("Age", "Fare")] == [0.0114, 0.0473]
    assert found.value == by_name["Fare"]


@pytest.mark.parametrize(("k", "share"), [(3, 0.64), (5, 0.32), (10, 0.14)])
def test_dense_data_hardly_move(shared_data, k, share):
    # Centroids of the k nearest records, spread out again: what paper 000 does without strata.
    from scipy.spatial import cKDTree

    original = pl.read_csv(shared_data / "exam.csv").select("normexam", "standLRT")
    values = original.to_numpy()
    z = (values - values.mean(axis=0)) / values.std(axis=0, ddof=1)
    centres = z[cKDTree(z).query(z, k)[1]].mean(axis=1)
    spread = centres / centres.std(axis=0, ddof=1)
    moved = spread * values.std(axis=0, ddof=1) + values.mean(axis=0)
    released = pl.DataFrame(moved, schema=original.columns)
    found = sf.utility.Displacement().measure(sf.Dataset(original), sf.Dataset(released))
    assert found.details["stayed_in_all"] == pytest.approx(share, abs=0.005)
    assert found.details["stayed"] == max(found.table["stayed"]) > share


def direct(original, released, within):
    """The definition, one value at a time."""
    names = range(len(original[0]))
    spread, deltas = [], []
    for at in names:
        held = [row[at] for row in original if row[at] is not None]
        mean = math.fsum(held) / len(held)
        variance = math.fsum((x - mean) ** 2 for x in held) / (len(held) - 1)
        squares = [
            (x[at] - z[at]) ** 2
            for x, z in zip(original, released, strict=True)
            if x[at] is not None and z[at] is not None
        ]
        spread.append(math.sqrt(variance))
        deltas.append(math.fsum(squares) / len(squares) / variance)
    distances = []
    for x, z in zip(original, released, strict=True):
        parts = [
            ((x[at] - z[at]) / spread[at]) ** 2
            for at in names
            if x[at] is not None and z[at] is not None
        ]
        distances.append(math.sqrt(math.fsum(parts)) if parts else None)
    stayed = [distance is not None and distance <= within for distance in distances]
    return deltas, distances, stayed


@given(rows)
def test_it_is_the_definition_value_by_value(table):
    original, released = [row[:2] for row in table], [row[2:] for row in table]
    sides = [
        numbers({"a": [row[0] for row in side], "b": [row[1] for row in side]})
        for side in (original, released)
    ]
    varies = all(len({row[at] for row in original} - {None}) > 1 for at in (0, 1))
    meets = all(
        any(
            x[at] is not None and z[at] is not None for x, z in zip(original, released, strict=True)
        )
        for at in (0, 1)
    )
    if not (varies and meets):
        return
    found = sf.utility.Displacement(variables=["a", "b"], within=0.7).measure(*sides)
    deltas, distances, stayed = direct(original, released, 0.7)
    assert found.table["displacement"].to_list() == pytest.approx(deltas)
    assert found.records["stayed_in_all"].to_list() == stayed
    assert found.records["distance"].to_list() == [
        None if one is None else pytest.approx(one) for one in distances
    ]
    compared = [one for one in distances if one is not None]
    assert found.details["stayed_in_all"] == sum(stayed) / len(compared)
    assert found.details["stayed"] >= max(found.table["stayed"])
    assert found.details["stayed"] >= found.details["stayed_in_all"]
    assert found.details["stayed_records"] == found.records["stayed"].sum()
    assert found.details["median_distance"] == pytest.approx(np.median(compared))
    assert found.details["mean_delta"] == pytest.approx(sum(deltas) / 2)


@given(st.lists(st.integers(-99, 99), min_size=2, max_size=20, unique=True), st.data())
def test_zero_if_and_only_if_nothing_changed(values, data):
    original = numbers({"a": [float(one) for one in values]})
    assert sf.utility.Displacement().measure(original, original).value == 0.0
    assert sf.utility.Displacement().measure(original, original).details["stayed"] == 1.0
    at = data.draw(st.integers(0, len(values) - 1))
    changed = [float(one) for one in values]
    changed[at] += data.draw(st.floats(1e-3, 1e3))
    assert sf.utility.Displacement().measure(original, numbers({"a": changed})).value > 0


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e3))
def test_units_do_not_matter(shift, factor):
    was, now = np.array([1.0, 2, 4, 8, 9]), np.array([1.0, 2.5, 4, 7, 9])
    plain = sf.utility.Displacement().measure(numbers({"a": was}), numbers({"a": now}))
    scaled = sf.utility.Displacement().measure(
        numbers({"a": was * factor + shift}), numbers({"a": now * factor + shift})
    )
    assert scaled.value == pytest.approx(plain.value, rel=1e-4)


@drawn("seed", range(3))
def test_the_order_of_records_changes_no_bit(noisy, seed):
    found = sf.utility.Displacement().measure(noisy.original, noisy.released)
    other, order = noisy.shuffle_records(seed)
    again = sf.utility.Displacement().measure(other.original, other.released)
    assert again.plain() == found.plain()
    assert again.records.equals(found.records[order])
    assert found.value > 0


def test_values_outside_the_domain_are_counted_where_one_is_declared():
    told = sf.Column(role="quasi", kind="continuous", domain=(0.0, 10.0))
    original = numbers({"a": [1.0, 5.0, 9.0], "b": [1.0, 2.0, 3.0]}, a=told)
    released = numbers({"a": [-1.0, 5.0, 11.0], "b": [-99.0, 2.0, 3.0]})
    found = sf.utility.Displacement().measure(original, released)
    assert found.details["outside_domain"] == 2
    assert found.table["outside_domain"].to_list() == [2, 0]
    assert any("No domain is declared" in one and "'b'" in one for one in found.assumptions)


def test_what_is_not_compared_is_told():
    original = numbers({"a": [1.0, 2.0, 3.0, None], "b": [1.0, 2.0, 3.0, 4.0], "c": ["x"] * 4})
    released = numbers({"a": [1.0, None, 3.5, 7.0], "b": ["1-2", "1-2", "3-4", "3-4"]})
    found = sf.utility.Displacement().measure(original, released)
    told = " ".join(found.warnings)
    assert "'b'" in told
    assert "became missing: 1 values" in told
    assert "filled in: 1 values" in told
    assert "2 records have no value to compare" in told
    assert found.details["compared_records"] == 2
    assert found.details["stayed"] == 0.5
    assert found.records["stayed"].to_list() == [True, False, False, False]


def test_a_constant_is_unchanged_or_an_error():
    original = numbers({"a": [5.0, 5.0], "b": [1.0, 2.0]})
    found = sf.utility.Displacement().measure(original, original)
    assert found.table["displacement"].to_list() == [0.0, 0.0]
    with pytest.raises(MeasureError, match="'a' has one value in the original"):
        sf.utility.Displacement().measure(original, numbers({"a": [5.0, 6.0], "b": [1.0, 2.0]}))


def test_a_variable_without_values_is_told_or_an_error():
    original = numbers({"a": [1.0, 2.0], "b": [1.0, 2.0]})
    released = numbers({"a": [1.0, 2.0], "b": pl.Series([None, None], dtype=pl.Float64)})
    found = sf.utility.Displacement().measure(original, released)
    assert any("no record has a value in both data sets: 'b'" in one for one in found.warnings)
    with pytest.raises(MeasureError, match="no record with a value in both data sets for: 'b'"):
        sf.utility.Displacement(variables=["a", "b"]).measure(original, released)


def test_errors_are_errors_and_not_zero():
    data = numbers({"age": [1.0, 2.0], "sex": ["f", "m"]})
    with pytest.raises(SchemaError, match="did you mean 'age'"):
        sf.utility.Displacement(variables=["agee"]).measure(data, data)
    with pytest.raises(MeasureError, match="'sex'"):
        sf.utility.Displacement(variables=["sex"]).measure(data, data)
    with pytest.raises(MeasureError, match="2 records, the released data 1"):
        sf.utility.Displacement().measure(data, numbers({"age": [1.0]}))
    with pytest.raises(MeasureError, match="compares two data sets"):
        sf.utility.Displacement().measure(data)
    with pytest.raises(MeasureError, match="more than can be counted"):
        sf.utility.Displacement().measure(
            numbers({"age": [1e-200, 2e-200]}), numbers({"age": [1.0, 2.0]})
        )
    with pytest.raises(sf.SfumatoError, match="within"):
        sf.utility.Displacement(within=-1)


def test_tiny_and_huge_values_keep_their_spread():
    for size in (1e-200, 1.0, 1e200):
        was, now = np.array([1.0, 2, 3]) * size, np.array([1.0, 2, 4]) * size
        found = sf.utility.Displacement().measure(numbers({"a": was}), numbers({"a": now}))
        assert found.value == pytest.approx(1 / 3)


def test_targets_may_be_set_on_what_it_provides(cohort):
    plan = sf.Plan(schema=cohort.schema, targets={"stayed.max": 0.5, "displacement.max": 0.1})
    assert set(plan.measures) == {"displacement"}
    found = sf.evaluate(cohort, cohort, ["displacement"], paired=True)["displacement"]
    assert found.audience == "custodian"
    assert found.details["stayed"] == 1.0


class FewCombinations(PartitionedEngine):
    """An engine that brings no pairs of values together."""

    def distinct(self, data, columns):
        raise MethodError(f"too many combinations of {len(columns)} variables")


def test_chance_is_judged_by_a_sample_where_values_are_too_many(monkeypatch):
    draw = np.random.default_rng(3)
    frame = pl.DataFrame({"x": draw.normal(size=4000)})
    original = sf.Dataset(frame)
    noisy = frame.with_columns(pl.col("x") + pl.Series(draw.normal(size=4000)))
    released = sf.Dataset(noisy, given_identity=original.identity)
    measure = sf.utility.Displacement(within=0.3)
    exact = measure.measure(original, released)
    monkeypatch.setattr("sfumato.utility.displacement._SAMPLED", 1500)
    there = measure.measure(original, released, engine=FewCombinations(1))
    assert any("`by_chance`" in text and "'x'" in text for text in there.assumptions)
    assert not any("`by_chance`" in text for text in exact.assumptions)
    chances = [evidence.table["by_chance"][0] for evidence in (exact, there)]
    assert chances[1] != chances[0]
    # A share of pairs of 1500 records: its standard error is below 0.01.
    assert chances[1] == pytest.approx(chances[0], abs=0.03)
