from __future__ import annotations

import math
from collections import Counter, defaultdict

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import nbinom

import sfumato as sf
from sfumato.errors import MeasureError, SchemaError
from sfumato.risk.uniqueness import estimate_individual_risk

values = st.one_of(st.none(), st.integers(0, 2))
tables = st.lists(st.tuples(values, values), min_size=1, max_size=40)


def data(rows) -> sf.Dataset:
    frame = pl.DataFrame(rows, schema={"a": pl.Int64, "b": pl.Int64}, orient="row")
    return sf.Dataset(frame, sf.Schema({"a": "quasi", "b": "quasi"}))


@given(tables)
def test_class_sizes_agree_with_counting_one_by_one(rows):
    found = sf.risk.Uniqueness().measure(data(rows))
    sizes = Counter(rows)
    assert found.records["class_size"].to_list() == [sizes[row] for row in rows]
    assert found.details["k"] == min(sizes.values())
    assert found.value == sum(1 for row in rows if sizes[row] == 1) / len(rows)
    assert found.details["marketer"] == pytest.approx(len(sizes) / len(rows))
    assert found.details["prosecutor"] == 1 / min(sizes.values())
    assert sum(found.table["records"]) == len(rows)
    assert sum(found.table["classes"]) == len(sizes)


@given(tables)
def test_wildcards_are_counted_by_fitting_and_both_readings_are_told(rows):
    def covers(wide, narrow):
        return all(a is None or a == b for a, b in zip(wide, narrow, strict=True))

    above = [sum(covers(other, mine) for other in rows) for mine in rows]
    below = [sum(covers(mine, other) for other in rows) for mine in rows]
    wild = sf.risk.Uniqueness(missing="wildcard").measure(data(rows))
    strict = sf.risk.Uniqueness().measure(data(rows))
    assert wild.records["class_size"].to_list() == list(map(min, above, below))
    assert wild.details["k"] == strict.details["k_if_missing_is_wildcard"]
    assert strict.details["k"] == wild.details["k_if_missing_is_value"]
    assert strict.details["k"] == wild.details["k_at_worst"] <= wild.details["k"]
    assert wild.details["uniqueness_at_worst"] == strict.value >= wild.value


def test_a_missing_value_in_a_key_does_not_hide_a_unique_record():
    # The strict reading is the default: a record that alone has a gap is alone. Nor does the other
    # reading hide it: behind the gap may be a value that no other record fits.
    found = sf.risk.Uniqueness().measure(data([(1, 1), (1, 1), (1, None)]))
    assert found.details["k"] == 1
    assert found.details["k_if_missing_is_wildcard"] == 1
    found = sf.risk.Uniqueness().measure(data([(1, 1)] * 3 + [(1, None)] + [(None, None)] * 2))
    assert found.details["k"] == 1
    assert found.details["k_if_missing_is_wildcard"] == 2


def test_risk_by_population_needs_weights_and_says_so():
    found = sf.risk.Uniqueness().measure(data([(1, 1), (2, 2)]))
    assert math.isnan(found.details["journalist"])
    assert "population is unknown" in found.details["journalist_reason"]
    frame = pl.DataFrame({"a": [1, 1, 2], "w": [10.0, 15.0, 4.0]})
    weighted = sf.Dataset(frame, sf.Schema({"a": "quasi", "w": "weight"}))
    assert sf.risk.Uniqueness().measure(weighted).details["journalist"] == 1 / 4


@pytest.mark.parametrize("weights", [[0.1, 0.1, 0.1], [1.0, None, 1.0]])
def test_impossible_weights_give_no_number_and_meet_no_target(weights):
    frame = pl.DataFrame({"a": [1, 1, 2], "w": weights})
    schema = sf.Schema({"a": "quasi", "w": "weight"})
    found = sf.risk.Uniqueness().measure(sf.Dataset(frame, schema))
    assert math.isnan(found.details["journalist"])
    with pytest.raises(sf.SfumatoError, match="journalist.*MISSED"):
        sf.protect(
            sf.Dataset(frame, schema), sf.Plan(schema=schema, targets={"journalist.max": 0.99})
        )


def test_what_the_release_leaves_out_cannot_be_known():
    rows = data([(1, 1), (1, 2), (1, 3)])
    released = sf.methods.Drop(variables=["b"]).apply(rows)
    found = sf.risk.Uniqueness(known=["a", "b"]).measure(rows, released)
    assert (found.value, found.baseline, found.details["k"]) == (0.0, 1.0, 3)
    everything_gone = sf.methods.Drop(variables=["a"]).apply(
        sf.methods.Topcode(variables=["b"], top=1).apply(rows)
    )
    assert sf.risk.Uniqueness(known=["a"]).measure(rows, everything_gone).details["k"] == 3


def test_clusters_that_leave_are_counted_as_known_beside_it():
    frame = pl.DataFrame({"sex": ["f", "f", "m", "m"], "school": [1, 2, 3, 3]})
    data = sf.Dataset(frame, sf.Schema({"sex": "quasi", "school": "cluster"}))
    found = sf.risk.Uniqueness().measure(data)
    assert (found.details["k"], found.details["k_if_clusters_are_known"]) == (2, 1)


def test_the_weight_may_be_known():
    frame = pl.DataFrame({"a": [1, 1], "w": [2.0, 3.0]})
    data = sf.Dataset(frame, sf.Schema({"a": "quasi", "w": "weight"}))
    assert sf.risk.Uniqueness(known=["a", "w"]).measure(data).details["k"] == 1


def test_errors_are_errors_and_not_zero():
    with pytest.raises(MeasureError, match="known to outsiders"):
        sf.risk.Uniqueness().measure(sf.Dataset(pl.DataFrame({"a": [1]})))
    with pytest.raises(MeasureError, match="no record"):
        sf.risk.Uniqueness().measure(data([(1, 1)]).take(pl.Series([], dtype=pl.Int64).to_numpy()))
    with pytest.raises(SchemaError, match="did you mean 'a'"):
        sf.risk.Uniqueness(known=["A"]).measure(data([(1, 1)]))


def test_only_evidence_about_the_release_may_become_public():
    rows = data([(1, 1), (1, 1)])
    assert sf.risk.Uniqueness().measure(rows).audience == "custodian"
    found = sf.risk.Uniqueness().measure(rows, rows)
    assert found.audience == "public"
    assert found.public().baseline is None
    assert found.public().records is None


def test_adult_k_and_uniques_agree_with_pandas(shared_data):
    import pandas as pd

    frame = pd.read_csv(shared_data / "adult.csv")
    known = ["gender", "age", "race", "marital_status", "education", "native_country"]
    sizes = frame.groupby(known)["age"].transform("size")
    found = sf.risk.Uniqueness(known=known).measure(sf.Dataset(frame))
    assert found.details["unique_records"] == int((sizes == 1).sum())
    assert (found.records["class_size"].to_numpy() == sizes.to_numpy()).all()


def test_codes_for_missing_are_told_apart_because_the_release_shows_them():
    column = sf.Column(role="quasi", kind="nominal", missing=("DK", "NA"))
    data = sf.Dataset(pl.DataFrame({"g": ["a", "a", "DK", "NA"]}), sf.Schema({"g": column}))
    found = sf.risk.Uniqueness().measure(data)
    assert found.details["unique_records"] == 2
    # Two records say nothing at all; behind them may be anything, and both could be either.
    assert found.details["k_if_missing_is_wildcard"] == 2
    wild = sf.risk.Uniqueness(missing="wildcard").measure(data)
    assert wild.details["k_at_worst"] == 2


FRANCDAT = {
    "weight": [18.0, 45.5, 39.0, 17.0, 541.0, 8.0, 5.0, 92.0],
    "key": [1, 2, 2, 3, 4, 5, 6, 1],
}
"""The textbook sample of eight records (Capobianchi, Polettini & Lucarelli 2001): its classes."""


def test_the_journalist_says_by_how_much_it_understates():
    schema = sf.Schema({"key": "quasi", "weight": "weight"})
    found = sf.risk.Uniqueness().measure(sf.Dataset(pl.DataFrame(FRANCDAT), schema))
    assert found.details["journalist"] == 1 / 5
    assert found.details["individual_risk"] == pytest.approx(math.log(5) / 4)
    assert found.details["journalist_at_worst"] == found.details["individual_risk"]
    assert "0.4, 2.0 times as much" in found.warnings[0]
    alone = pl.DataFrame({"key": [1, 2, 2], "weight": [100.0, 90.0, 90.0]})
    found = sf.risk.Uniqueness().measure(sf.Dataset(alone, schema))
    assert found.details["individual_risk"] / found.details["journalist"] == pytest.approx(
        4.65, abs=0.01
    )


def test_a_target_on_the_journalist_holds_for_the_individual_risk():
    schema = sf.Schema({"key": "quasi", "weight": "weight"})
    data = sf.Dataset(pl.DataFrame(FRANCDAT), schema)
    with pytest.raises(sf.SfumatoError, match="journalist.*MISSED"):
        sf.protect(data, sf.Plan(schema=schema, targets={"journalist.max": 0.3}))


@pytest.mark.parametrize(
    ("records", "people", "printed"),  # as sdcMicro prints them for its example francdat
    [(2, 110, 0.01714426), (2, 84.5, 0.02204233), (1, 17, 0.17707583), (1, 541, 0.01165448)],
)
def test_the_individual_risk_is_that_of_sdcmicro(records, people, printed):
    risk = estimate_individual_risk(np.array([float(records)]), np.array([float(people)]))
    assert risk[0] == pytest.approx(printed, abs=5e-9)


@pytest.mark.parametrize("records", [1, 2, 3, 9, 10, 30, 400])
@pytest.mark.parametrize("share", [0.999, 0.5, 0.1, 0.02])
def test_the_individual_risk_is_the_mean_of_a_negative_binomial(records, share):
    people = np.arange(records, int(60 * (records + 10) / share) + 1)
    expected = math.fsum(nbinom.pmf(people - records, records, share) / people)
    risk = estimate_individual_risk(np.array([float(records)]), np.array([records / share]))
    assert risk[0] == pytest.approx(expected, rel=1e-9)


def test_the_individual_risk_is_stable_for_huge_populations():
    sizes, people = np.array([1.0, 2.0, 3.0, 50.0]), np.array([1e9, 1e9, 1e12, 1e12])
    p, q = sizes / people, 1 - sizes / people
    closed = [
        p[0] / q[0] * math.log(1 / p[0]),
        p[1] / q[1] - (p[1] / q[1]) ** 2 * math.log(1 / p[1]),
        p[2] / 2,  # 1 / (f - 1) per person where the sample is tiny
        p[3] / 49,
    ]
    assert estimate_individual_risk(sizes, people) == pytest.approx(closed, rel=1e-7)
    assert estimate_individual_risk(np.array([4.0]), np.array([4.0])) == pytest.approx(1 / 4)


ROW = st.tuples(
    st.sampled_from(["f", "m", None]),
    st.sampled_from([1, 2, 3]),
    st.sampled_from(["g", "h", "i", None]),
    st.sampled_from([7, 8]),
    st.sampled_from([1.0, 1.5, 20.25]),
)


@given(st.lists(ROW, min_size=1, max_size=30))
def test_groups_are_counted_one_by_one(rows):
    names = ["sex", "age", "school", "house", "weight"]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    schema = sf.Schema({"sex": "quasi", "age": "quasi", "school": "cluster", "house": "cluster"})
    details = sf.risk.Uniqueness().measure(sf.Dataset(frame, schema)).details
    known = [row[:2] for row in rows]
    assert details["k_if_clusters_are_known"] == min(Counter(row[:4] for row in rows).values())
    assert details["k_of_groups"] == min(
        len({row[group] for row in rows if row[:2] == cells}) for cells in known for group in (2, 3)
    )


@given(st.lists(ROW, min_size=1, max_size=30))
def test_weights_add_up_the_same_however_few_rows_are_looked_at_at_once(rows):
    names = ["sex", "age", "school", "house", "weight"]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    schema = sf.Schema({"sex": "quasi", "age": "quasi", "weight": "weight"})
    data = sf.Dataset(frame, schema)
    details = sf.risk.Uniqueness().measure(data).details
    people: defaultdict[tuple[str | None, int], float] = defaultdict(float)
    for row in rows:
        people[row[:2]] += row[4]
    assert details["journalist"] == 1 / min(people.values())
    sizes = Counter(row[:2] for row in rows)
    mean = sum(
        estimate_individual_risk(np.array([float(sizes[row[:2]])]), np.array([people[row[:2]]]))[0]
        for row in rows
    ) / len(rows)
    assert math.isclose(details["global_risk"], mean, rel_tol=1e-12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sfumato.risk.uniqueness._ROWS", 3)
        patch.setattr("sfumato.risk.uniqueness._CLASSES", 2)
        assert repr(sf.risk.Uniqueness().measure(data).details) == repr(details)
