"""Simulated cohorts have the shapes, correlations and strata of those they take after."""

from __future__ import annotations

import sys
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kurtosis, skew
from tests.conftest import LIBRARIES, drawn, in_library

import sfumato as sf
from sfumato.datasets.body import CORRELATIONS, INTERMEDIATE, TARGETS
from sfumato.datasets.fleishman import (
    Polynomial,
    find_nearest_polynomial,
    repair_correlations,
    solve_intermediate_correlation,
    solve_polynomial,
)
from sfumato.datasets.simulation import apportion_records
from sfumato.errors import DataError, SchemaError

NUMBERS = ["glucose", "hdl", "height", "weight_kg"]
STRATA = ["sex", "smoker"]


@pytest.fixture(scope="module")
def observed() -> pl.DataFrame:
    smoker = (pl.col("smoking") == "current").alias("smoker")
    made = sf.datasets.cohort(6000).select("sex", smoker, *NUMBERS).drop_nulls()
    # The few people who were made extreme have no shape that a cubic could follow.
    return made.filter(pl.col("glucose") < 15, pl.col("height").is_between(140, 200))


@pytest.fixture(scope="module")
def fitted(observed):
    return sf.datasets.simulator(observed)


def within(frame: pl.DataFrame, levels: dict[str, Any]) -> np.ndarray:
    return frame.filter(**levels).select(NUMBERS).to_numpy()


def moments(values: np.ndarray) -> np.ndarray:
    correlations = np.corrcoef(values, rowvar=False)[np.triu_indices(len(NUMBERS), 1)]
    return np.concatenate(
        [values.mean(axis=0), values.std(axis=0, ddof=1), skew(values), kurtosis(values),
         correlations]
    )  # fmt: skip


def test_moments_and_correlations_are_the_observed_ones(observed, fitted):
    """20 cohorts of 10 000 a stratum: their mean lies within its own Monte Carlo error."""
    draws = [fitted.draw(40_000, seed) for seed in range(20)]
    for stratum in fitted.strata:
        wanted = moments(within(observed, stratum.levels))
        found = np.array([moments(within(one, stratum.levels)) for one in draws])
        error = found.std(axis=0, ddof=1) / np.sqrt(len(draws))
        # Skewness and kurtosis of a finite cohort are biased towards 0, by some hundredths.
        slack = np.repeat([1e-12, 1e-12, 0.01, 0.1, 1e-3], [4, 4, 4, 4, 6])
        assert (np.abs(found.mean(axis=0) - wanted) < 4.5 * error + slack).all()


def test_polynomials_have_exactly_the_observed_shapes(observed, fitted):
    for stratum in fitted.strata:
        values = within(observed, stratum.levels)
        shapes = [(one.skewness, one.kurtosis) for one in stratum.polynomials]
        expected = list(zip(skew(values), kurtosis(values), strict=True))
        assert np.array(shapes) == pytest.approx(np.array(expected), abs=1e-7)
        assert stratum.means == pytest.approx(values.mean(axis=0))
        normals = stratum.loadings @ stratum.loadings.T
        wanted = np.corrcoef(values, rowvar=False)
        for i, j in combinations(range(4), 2):
            one, other, r = stratum.polynomials[i], stratum.polynomials[j], normals[i, j]
            made = one.linear * other.linear * r + 2 * one.c * other.c * r**2
            assert made + 6 * one.d * other.d * r**3 == pytest.approx(wanted[i, j], abs=1e-9)


def test_solutions_agree_with_those_of_the_bundled_cohort():
    for target in TARGETS.values():
        found = solve_polynomial(target.skewness, target.kurtosis)
        assert found is not None
        assert (found.b, found.c, found.d) == pytest.approx(target.polynomial, abs=1e-7)
    shapes = [Polynomial(*one.polynomial) for one in TARGETS.values()]
    for i, j in combinations(range(len(shapes)), 2):
        between = solve_intermediate_correlation(shapes[i], shapes[j], CORRELATIONS[i, j])
        assert between == pytest.approx(INTERMEDIATE[i, j], abs=1e-6)


@settings(max_examples=60)
@given(st.floats(-0.6, 0.6), st.floats(-0.15, 0.3))
def test_every_shape_that_exists_is_found(c, d):
    """From a polynomial to its shape and back: the shape has a solution, and it is as close."""
    rest = 1 - 2 * c**2 - 6 * d**2
    if rest < 0.05:
        return
    made = Polynomial(np.sqrt(rest) - 3 * d, c, d)
    found = solve_polynomial(made.skewness, made.kurtosis)
    assert found is not None
    assert (found.skewness, found.kurtosis) == pytest.approx(
        (made.skewness, made.kurtosis), abs=1e-6
    )
    assert found.b**2 + 6 * found.b * found.d + 2 * found.c**2 + 15 * found.d**2 == pytest.approx(1)
    assert found.linear >= made.linear - 1e-6


def test_the_lowest_kurtosis_is_fleishmans_and_beyond_it_is_nothing():
    lowest, kept = find_nearest_polynomial(0.0, -5.0), find_nearest_polynomial(1.0, -5.0)
    assert lowest is not None
    assert kept is not None
    assert lowest.kurtosis == pytest.approx(-1.15132, abs=1e-5)
    assert solve_polynomial(0.0, -1.16) is None
    assert solve_polynomial(0.0, -1.15) is not None
    assert kept.skewness == pytest.approx(1.0, abs=1e-6)
    assert solve_polynomial(1.0, kept.kurtosis + 1e-3) is not None
    assert solve_polynomial(1.0, kept.kurtosis - 1e-3) is None
    assert find_nearest_polynomial(9.0, 100.0) is None


@given(st.lists(st.integers(1, 900), min_size=1, max_size=8), st.integers(1, 5000))
def test_largest_remainders_share_out_everything(sizes, records):
    shares = apportion_records(sizes, records)
    assert sum(shares) == records
    exact = [records * size / sum(sizes) for size in sizes]
    assert all(abs(share - one) < 1 for share, one in zip(shares, exact, strict=True))


def test_the_strata_of_the_published_cohort():
    assert apportion_records([492, 111, 468, 140], 500) == [203, 46, 193, 58]
    assert apportion_records([492, 111, 468, 140], 50) == [20, 5, 19, 6]


def test_more_records_may_leave_a_stratum_with_fewer():
    assert apportion_records([60, 60, 20], 10) == [4, 4, 2]
    assert apportion_records([60, 60, 20], 11) == [5, 5, 1]


def test_strata_keep_their_shares_and_cohorts_of_one_seed_have_records_in_common(observed, fitted):
    made = fitted.draw(500, seed=3)
    assert made.columns == [*STRATA, *NUMBERS]
    counts = made.group_by(STRATA).len().sort(STRATA)["len"].to_list()
    assert counts == apportion_records(
        observed.group_by(STRATA).len().sort(STRATA)["len"].to_list(), 500
    )
    smaller = fitted(120, 3)
    assert smaller.join(made, on=[*STRATA, *NUMBERS], how="semi").height == 120
    assert not fitted.draw(500, seed=4).equals(made)
    assert fitted.draw(500, seed=3).equals(made)
    assert sf.datasets.simulated(observed, 500, seed=3).equals(made)


@drawn("library", LIBRARIES)
def test_neither_the_order_nor_the_library_changes_anything(library, observed, fitted):
    shuffled = observed.sample(fraction=1.0, shuffle=True, seed=2)
    again = sf.datasets.simulator(in_library(shuffled, library), strata=STRATA)
    assert again.draw(200, seed=1).equals(fitted.draw(200, seed=1))


def test_without_strata_and_with_one_variable(observed):
    one = sf.datasets.simulator(sf.Dataset(observed), continuous=["hdl"], strata=[])
    made = one.draw(50_000)
    assert made.columns == ["hdl"]
    assert made["hdl"].mean() == pytest.approx(observed["hdl"].mean(), abs=0.01)


def awkward(values: list[Any]) -> pl.DataFrame:
    return pl.DataFrame({"group": ["a"] * len(values), "x": values})


def test_an_impossible_shape_is_refused_or_said():
    two = awkward([0.0, 1.0] * 20)
    with pytest.raises(DataError, match=r"kurtosis -2.00 of variable 'x' in a stratum of 40"):
        sf.datasets.simulator(two)
    with pytest.warns(UserWarning, match=r"nearest kurtosis -1.15 is taken"):
        made = sf.datasets.simulator(two, nearest_kurtosis=True)
    assert len(made.notes) == 1
    values = made.draw(50_000)["x"].to_numpy()
    assert kurtosis(values) == pytest.approx(-1.1513, abs=0.02)
    extreme = awkward([float(i % 7) for i in range(200)] + [1e6])
    with pytest.raises(DataError, match="variable 'x'") as raised:
        sf.datasets.simulator(extreme, nearest_kurtosis=True)
    assert "nearest_kurtosis" not in raised.value.hint
    with pytest.raises(DataError) as raised:
        sf.datasets.simulated(extreme, 50)
    assert "nearest_kurtosis = true" in raised.value.hint


def test_correlations_that_no_normals_have_are_mended_and_said():
    wrong = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    made = repair_correlations(wrong)
    assert np.linalg.eigvalsh(made).min() > 0
    assert np.diag(made) == pytest.approx(1)
    assert repair_correlations(np.eye(3)) == pytest.approx(np.eye(3))
    rng = np.random.default_rng(1)
    x = rng.normal(size=400)
    y = rng.normal(size=400)
    twins = pl.DataFrame({"x": x, "y": y, "z": x + y})
    with pytest.warns(UserWarning, match="changed a little"):
        mended = sf.datasets.simulator(twins).draw(20_000)
    assert np.corrcoef(mended.to_numpy(), rowvar=False) == pytest.approx(
        np.corrcoef(twins.to_numpy(), rowvar=False), abs=0.03
    )


def test_correlations_that_two_shapes_cannot_have_are_refused(monkeypatch, observed):
    normal, folded = Polynomial(1.0, 0.0, 0.0), Polynomial(0.3, np.sqrt((1 - 0.3**2) / 2), 0.0)
    assert solve_intermediate_correlation(normal, folded, 0.2) == pytest.approx(0.2 / 0.3)
    assert solve_intermediate_correlation(normal, folded, 0.5) is None
    # The module's name in its package is the function.
    module = sys.modules["sfumato.datasets.simulation"]
    monkeypatch.setattr(module, "solve_intermediate_correlation", lambda *_: None)
    with pytest.raises(DataError, match="'glucose' and 'hdl' correlate more strongly"):
        sf.datasets.simulator(observed)


@pytest.mark.parametrize(
    ("frame", "given", "expected"),
    [
        (awkward([1.0] * 20), {}, "'x' does not vary"),
        (awkward([1.0, 2.0, 4.0]), {}, "only 3 records"),
        (awkward([1.0, None] * 10), {}, "missing values: 'x'"),
        (awkward([1.0, float("inf")] * 10), {}, "infinite values: 'x'"),
        (awkward([1.0, 2.0] * 10), {"continuous": ["group"]}, "these are not: 'group'"),
        (awkward([1.0, 2.0] * 10), {"strata": ["x"]}, "no number to simulate"),
        (awkward([1.0, 2.0] * 10), {"strata": "group"}, "as a list"),
    ],
)
def test_what_cannot_be_fitted_says_why(frame, given, expected):
    with pytest.raises(DataError, match=expected):
        sf.datasets.simulator(frame, **given)


def test_names_and_numbers_are_checked(observed, fitted):
    with pytest.raises(SchemaError, match="did you mean 'hdl'"):
        sf.datasets.simulator(observed, continuous=["hdll"])
    for records, seed in ((0, 0), (2.5, 0), (10, -1), (True, 0)):
        with pytest.raises(DataError, match="whole number"):
            fitted.draw(records, seed)
