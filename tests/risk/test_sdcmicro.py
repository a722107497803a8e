"""Risks from survey weights, as `measure_risk` and `indivRisk` of sdcMicro 5.8 define them.

The reference is written record by record from the published definitions: R is not needed.
"""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import nbinom

import sfumato as sf
from sfumato.risk.uniqueness import Uniqueness, estimate_individual_risk
from sfumato.schema import Role

ROWS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.integers(0, 1),
        st.floats(1.001, 500),
        st.none() | st.integers(0, 4),
    ),
    min_size=2,
    max_size=25,
)


def make_survey(rows, *, weighted: bool = True) -> sf.Dataset:
    types = {"region": pl.String, "sex": pl.Int64, "weight": pl.Float64, "house": pl.Int64}
    frame = pl.DataFrame(rows, schema=types, orient="row")
    roles: dict[str, Role] = {
        "region": "quasi",
        "sex": "quasi",
        "weight": "weight",
        "house": "cluster",
    }
    if not weighted:
        frame, roles = frame.drop("weight"), {n: r for n, r in roles.items() if n != "weight"}
    return sf.Dataset(frame, sf.Schema(roles))


def compute_individual_risk(records: int, people: float, posterior: str) -> float:
    """The chance to find a record of a class, by sdcMicro's approximation or by summing up."""
    p = records / people
    if p == 1:
        return 1 / records
    if records == 1:
        return p / (1 - p) * math.log(1 / p)
    if records == 2:
        return p / (1 - p) - (p / (1 - p)) ** 2 * math.log(1 / p)
    if posterior == "approximate":
        return p / (records - (1 - p))
    number = np.arange(records, int(80 * (records + 10) / p) + 1)
    return math.fsum(nbinom.pmf(number - records, records, p) / number)


def compute_risks(rows, *, weighted: bool, posterior: str) -> tuple[list[float], list[float]]:
    """The individual and the household risk of each record."""
    keys = [row[:2] for row in rows]
    classes = {key: [i for i, other in enumerate(keys) if other == key] for key in keys}
    own = []
    for key in keys:
        members = classes[key]
        if weighted:
            people = sum(rows[i][2] for i in members)
            own.append(compute_individual_risk(len(members), people, posterior))
        else:
            own.append(1 / len(members))
    houses = [
        [j for j, other in enumerate(rows) if other[3] is not None and other[3] == row[3]] or [i]
        for i, row in enumerate(rows)
    ]
    return own, [1 - math.prod(1 - own[j] for j in members) for members in houses]


@given(rows=ROWS, weighted=st.booleans(), posterior=st.sampled_from(["exact", "approximate"]))
@settings(max_examples=60, deadline=None)
def test_all_numbers_equal_the_reference(rows, weighted, posterior):
    own, households = compute_risks(rows, weighted=weighted, posterior=posterior)
    found = Uniqueness(posterior=posterior).measure(make_survey(rows, weighted=weighted)).details
    assert found["expected_reidentifications"] == pytest.approx(sum(own), rel=1e-6)
    assert found["global_risk"] == pytest.approx(sum(own) / len(rows), rel=1e-6)
    assert found["household_risk"] == pytest.approx(max(households), rel=1e-6)
    assert found["mean_household_risk"] == pytest.approx(sum(households) / len(rows), rel=1e-6)
    if weighted:
        assert found["individual_risk"] == pytest.approx(max(own), rel=1e-6)
    else:
        assert found["global_risk"] == pytest.approx(found["marketer"])


def test_the_textbook_sample():
    """The data set francdat of sdcMicro, whose classes have one and two records."""
    weights = [18.0, 45.5, 39.0, 17.0, 541.0, 8.0, 5.0, 92.0]
    keys = [1, 2, 2, 3, 4, 5, 6, 1]
    data = sf.Dataset(
        pl.DataFrame({"key": keys, "weight": weights}),
        sf.Schema({"key": "quasi", "weight": "weight"}),
    )
    printed = [0.01714426, 0.02204233, 0.02204233, 0.17707583, 0.01165448, 0.29706308, 0.40235948,
               0.01714426]  # fmt: skip
    for posterior in ("exact", "approximate"):
        found = Uniqueness(posterior=posterior).measure(data).details
        assert found["expected_reidentifications"] == pytest.approx(sum(printed), abs=1e-7)
        assert found["global_risk"] == pytest.approx(sum(printed) / 8, abs=1e-8)


@pytest.mark.parametrize("records", [1, 2, 3, 9, 10, 11, 1000, 10**6])
@pytest.mark.parametrize("share", [1 - 1e-12, 0.9, 0.500001, 0.499999, 1e-3, 1e-9])
def test_the_posterior_is_stable_for_small_and_large_classes(records, share):
    """Between its bounds, and falling with the size of the class."""
    people = records / share
    risk = float(estimate_individual_risk(np.array([float(records)]), np.array([people]))[0])
    assert 1 / people <= risk * (1 + 1e-9)
    if records > 1:
        # E(1/F) <= p / (f - 1), since 1 / F <= f / ((f - 1) F) less what is above.
        assert risk <= share / (records - 1) * (1 + 1e-6)
        smaller = estimate_individual_risk(
            np.array([float(records - 1)]), np.array([(records - 1) / share])
        )
        assert risk < float(smaller[0])


def test_persons_count_once_by_the_row_that_gives_most_away():
    frame = pl.DataFrame(
        {"patient": ["a", "a", "b", "c"], "age": [1, 2, 2, 2], "weight": [10.0, 10.0, 20.0, 30.0]}
    )
    data = sf.Dataset(frame, sf.Schema({"patient": "person", "age": "quasi", "weight": "weight"}))
    found = Uniqueness().measure(data).details
    alone = compute_individual_risk(1, 10, "exact")
    three = compute_individual_risk(3, 60, "exact")
    assert found["expected_reidentifications"] == pytest.approx(alone + 2 * three, rel=1e-6)
    assert found["global_risk"] == pytest.approx((alone + 2 * three) / 3, rel=1e-6)
