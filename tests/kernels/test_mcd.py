from __future__ import annotations

import json
import math
from itertools import combinations

import numpy as np
import polars as pl
import pytest
from benchmarks import study_mcd
from scipy.stats import chi2

from sfumato.kernels import mcd
from sfumato.kernels.mcd import (
    SingularError,
    half_size,
    improve_candidates,
    robust_covariance,
    start_candidates,
)
from sfumato.kernels.orders import order_by_cell, order_by_content, scatter_numbers


def drawn(kind: str, records: int, variables: int, seed: int = 0) -> np.ndarray:
    """A row per variable."""
    draws = np.random.default_rng(seed)
    values = draws.standard_normal((records, variables))
    if kind == "discrete":
        values = np.round(3 * values)
    if kind == "skewed":
        values = np.exp(values)
    if kind == "outliers":
        values[: int(0.4 * records)] = 0.1 * values[: int(0.4 * records)] + 20
    return np.ascontiguousarray(values.T)


def exhaustive(values: np.ndarray) -> tuple[float, np.ndarray]:
    """The smallest log determinant over all halves, and the half that has it."""
    variables, records = values.shape
    size = half_size(records, variables)
    result = []
    for rows in combinations(range(records), size):
        spread = np.atleast_2d(np.cov(values[:, rows], bias=variables == 1))
        result.append((np.linalg.slogdet(spread)[1], rows))
    smallest, rows = min(result)
    return smallest, np.array(rows)


def factor_as_in_r(variables: int, records: int, *, final: bool) -> float:
    """The small-sample factor, solved as the equations it is defined by."""
    ends = (
        [(-1.02842572724793, 1.67659883081926), (-0.26800273450853, 1.35968562893582)]
        if final
        else [(-1.42764571687802, 1.26263336932151), (-1.06141115981725, 1.28907991440387)]
    )
    remaining = np.array([[1, -math.log(q * variables**2)] for q in (2, 3)])
    right = np.array([math.log(-alpha / variables**beta) for alpha, beta in ends])
    item, two = np.linalg.solve(remaining, right)
    return float(1 / (1 - math.exp(item) / records**two))


def slow(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The reweighted covariance from a given half, step by step."""
    variables, records = values.shape

    def consistent(share: float) -> float:
        return float(share / chi2.cdf(chi2.ppf(share, variables), variables + 2))

    inner = values[:, rows]
    spread = np.atleast_2d(np.cov(inner, bias=variables == 1))
    spread = spread * consistent(len(rows) / records) * mcd.raw_factor(variables, records)
    gone = values - inner.mean(axis=1, keepdims=True)
    close = (gone * np.linalg.solve(spread, gone)).sum(axis=0) < chi2.ppf(0.975, variables)
    final = np.atleast_2d(np.cov(values[:, close]))
    if close.all():
        return final
    return final * consistent(close.mean()) * mcd.final_factor(variables, records)


def test_titanic_matches_the_stored_matrix(shared_data):
    frame = pl.read_csv(shared_data / "titanic.csv").select(pl.col("Age").fill_null(28.0), "Fare")
    values = frame.to_numpy().T
    values = (values - values.mean(axis=1, keepdims=True)) / values.std(1, ddof=1, keepdims=True)
    stored = json.loads((shared_data.parent / "reference" / "000_titanic.json").read_text())
    result = robust_covariance(np.ascontiguousarray(values))
    assert result.covariance == pytest.approx(np.array(stored["covMcd_cov"]), rel=1e-10)


@pytest.mark.parametrize("kind", ["normal", "discrete", "skewed", "outliers"])
@pytest.mark.parametrize(("records", "variables"), [(9, 1), (12, 1), (11, 2), (12, 2), (12, 3)])
def test_few_records_reach_the_best_of_all_halves(kind, records, variables):
    for seed in range(3):
        values = drawn(kind, records, variables, seed)
        try:
            result = robust_covariance(values)
        except SingularError:
            assert exhaustive(values)[0] < -25
            continue
        smallest, rows = exhaustive(values)
        assert result.log_determinant == pytest.approx(smallest, abs=1e-9)
        if kind != "discrete":  # there several halves may be equally good
            assert result.covariance == pytest.approx(slow(values, rows), rel=1e-9)


@pytest.mark.parametrize("kind", ["normal", "skewed", "outliers"])
@pytest.mark.parametrize(("records", "variables"), [(200, 3), (1200, 2), (3000, 4), (6000, 3)])
def test_no_long_search_finds_much_better(kind, records, variables):
    values = drawn(kind, records, variables)
    result = robust_covariance(values)
    starts = np.random.default_rng(1).integers(0, records, (200, variables + 1))
    scale = values.std(axis=1, keepdims=True)
    scaled = values / scale
    means, covariances = start_candidates(scaled, starts)
    best = improve_candidates(scaled, half_size(records, variables), means, covariances, 300).min()
    assert result.log_determinant < best + 2 * np.log(scale).sum() + 2e-3


@pytest.mark.parametrize(("records", "variables", "seed"), [(2500, 3, 6), (2000, 5, 3)])
def test_flat_data_are_not_left_in_a_local_minimum(records, variables, seed):
    ours, *theirs = study_mcd.compare("ball", records, variables, seed, seeds=3)
    assert ours < min(theirs) + study_mcd.SAME


def test_a_swap_changes_the_determinant_by_as_much_as_it_says():
    values = drawn("skewed", 60, 3)
    half, rest = values[:, :35], values[:, 35:]
    centre, covariance = half.mean(axis=1, keepdims=True), np.cov(half)
    ratios = mcd._compare_swaps(half - centre, rest - centre, covariance, 35)
    for leaving, entering in ((0, 0), (7, 24), (34, 3)):
        other = half.copy()
        other[:, leaving] = rest[:, entering]
        ratio = np.linalg.det(np.cov(other)) / np.linalg.det(covariance)
        assert ratios[leaving, entering] == pytest.approx(ratio, rel=1e-10)


def test_the_order_of_records_does_not_matter_in_the_last_bit():
    for kind, records in (("normal", 700), ("discrete", 700), ("skewed", 6000)):
        values = drawn(kind, records, 3)
        other = values[:, np.random.default_rng(2).permutation(records)]
        item, two = robust_covariance(values), robust_covariance(np.ascontiguousarray(other))
        assert item.covariance.tobytes() == two.covariance.tobytes()
        assert item.centre.tobytes() == two.centre.tobytes()


@pytest.mark.parametrize("kind", ["normal", "discrete", "skewed", "outliers", "mirrored"])
@pytest.mark.parametrize("records", [25, 60, 119, 1000, 5000])
def test_the_last_digits_do_not_matter(kind, records):
    values = drawn("discrete" if kind == "mirrored" else kind, records, 3, seed=records)
    if kind == "mirrored":
        values[:, records // 2 :] = -values[:, : records - records // 2]
    result = robust_covariance(values)
    for seed in range(2):
        draws = np.random.default_rng(seed)
        other = robust_covariance(values * (1 + 1e-14 * draws.standard_normal(values.shape)))
        assert other.log_determinant == pytest.approx(result.log_determinant, abs=1e-10)
        assert other.covariance == pytest.approx(result.covariance, rel=1e-9, abs=1e-9)
        assert other.kept == result.kept


def test_how_it_was_standardised_does_not_matter():
    # Apart from rounding it is the same twice.
    for seed in range(10):
        values = drawn("normal", 75, 3, seed)
        scale = values.std(axis=1, ddof=1, keepdims=True)
        item = robust_covariance((values - values.mean(axis=1, keepdims=True)) / scale)
        two = robust_covariance(values / scale - values.mean(axis=1, keepdims=True) / scale)
        assert two.covariance == pytest.approx(item.covariance, rel=1e-10, abs=1e-10)


def test_few_points_with_many_records_each():
    # Equal records stand apart, so that a sample has all points and not just the first.
    values = drawn("discrete", 40_000, 2)
    result = robust_covariance(values)
    few = np.unique(values[:, order_by_cell(values / 3)[:1500]], axis=1)
    assert few.shape[1] > 100
    assert result.covariance == pytest.approx(9 * np.eye(2), abs=0.6)


def test_units_do_not_matter():
    values = drawn("skewed", 500, 3)
    units, moved = np.array([[1e-6], [1.0], [1e9]]), np.array([[5.0], [0.0], [-1e12]])
    item, two = robust_covariance(values), robust_covariance(values * units + moved)
    assert two.covariance / (units @ units.T) == pytest.approx(item.covariance, rel=1e-6)
    assert two.centre == pytest.approx((item.centre[:, None] * units + moved)[:, 0])


def test_whoever_stands_out_has_no_part():
    values = drawn("normal", 4000, 3)
    alone = robust_covariance(values[:, 1600:].copy())
    values[:, :1600] += 20
    result = robust_covariance(values)
    assert result.centre == pytest.approx(alone.centre, abs=0.1)
    # Too wide, since 40 % were left out and not 2.5 %; a plain variance would be about 97.
    assert result.covariance == pytest.approx(2 * np.eye(3), abs=0.25)


@pytest.mark.parametrize("variables", [1, 2, 4, 8])
def test_normal_data_give_the_plain_covariance(variables):
    result = robust_covariance(drawn("normal", 30_000, variables))
    assert result.covariance == pytest.approx(np.eye(variables), abs=0.04)
    assert result.raw_covariance == pytest.approx(np.eye(variables), abs=0.12)
    assert 0.9 < result.kept / 30_000 < 0.99


def test_one_variable_with_huge_outliers_keeps_its_digits():
    values = np.sort(np.concatenate([np.full(40, -1e12), np.arange(60.0) ** 1.1]))[None]
    clean = values.copy()
    clean[0, :40] = -1000
    assert robust_covariance(values).raw_covariance == pytest.approx(
        robust_covariance(clean).raw_covariance, rel=1e-9
    )


@pytest.mark.parametrize("variables", [3, 5, 12])
@pytest.mark.parametrize("records", [50, 891])
def test_factors_for_few_records(variables, records):
    expected = factor_as_in_r(variables, records, final=False)
    assert mcd.raw_factor(variables, records) == pytest.approx(expected)
    expected = factor_as_in_r(variables, records, final=True)
    assert mcd.final_factor(variables, records) == pytest.approx(expected)


@pytest.mark.parametrize("variables", range(1, 15))
def test_factors_stay_sensible_with_hardly_any_records(variables):
    for records in range(2 * variables + 1, 60):
        assert 1 < mcd.raw_factor(variables, records) < 4
        assert 0.9 < mcd.final_factor(variables, records) < 4


@pytest.mark.parametrize("records", [60, 900, 8000])
def test_planes_are_named_not_computed(records):
    values = drawn("normal", records, 4)
    most = int(0.6 * records)
    zero = values.copy()
    zero[1, :most] = 0
    with pytest.raises(SingularError) as error:
        robust_covariance(zero)
    assert error.value.columns == (1,)
    assert error.value.constant
    bound = values.copy()
    bound[3, :most] = 2 * bound[0, :most] - bound[2, :most]
    with pytest.raises(SingularError) as error:
        robust_covariance(bound)
    assert error.value.columns == (0, 2, 3)
    assert not error.value.constant


def test_fewer_than_half_on_a_plane_is_no_plane():
    values = drawn("normal", 900, 3)
    values[1, :420] = 0
    assert np.isfinite(robust_covariance(values).covariance).all()


def test_too_few_records_are_refused():
    with pytest.raises(ValueError, match="two records a variable"):
        robust_covariance(np.zeros((2, 4)))


def test_the_order_of_content_ignores_rows_and_the_sign_of_zero():
    values = np.array([[0.0, 1.0, -0.0, 2.0], [3.0, 1.0, 3.0, 2.0]])
    turned = np.array([[2.0, 0.0, 0.0, 1.0], [2.0, 3.0, 3.0, 1.0]])
    assert (values[:, order_by_content(values)] == turned[:, order_by_content(turned)]).all()


def test_the_steady_order_ignores_rows_and_last_digits():
    for kind in ("normal", "discrete", "skewed"):
        values = drawn(kind, 3000, 2)
        values[0, :50] *= 1e12
        turn = np.random.default_rng(3).permutation(3000)
        order = order_by_cell(values)
        assert sorted(order) == list(range(3000))
        turned = values[:, turn]
        assert (turned[:, order_by_cell(turned)] == values[:, order]).all()
        moved = values * (1 + 1e-14 * np.random.default_rng(4).standard_normal(values.shape))
        assert moved[:, order_by_cell(moved)] == pytest.approx(values[:, order], rel=1e-12)


def test_no_start_holds_a_record_twice():
    for records, size in ((30, 4), (41, 21), (1500, 5)):
        starts = mcd._choose_starts(records, size, 500, 0)
        assert starts.shape == (500, size)
        assert (np.diff(starts, axis=1) > 0).all()
        assert len(np.unique(starts)) > 0.7 * records


def test_equal_determinants_are_told_apart_by_their_means():
    logs = np.array([2.0, 1.0 + 1e-15, 1.0, 3.0])
    means = np.array([[0.0, 0.0], [1.0, 5.0], [1.0, 4.0], [0.0, 1.0]])
    assert mcd._choose_best(logs, means, 3).tolist() == [2, 0, 3]
    assert mcd._choose_best(logs[::-1].copy(), means[::-1], 1).tolist() == [1]


def test_scattered_numbers_are_fixed_and_even():
    assert (
        scatter_numbers(3, 0).tolist()
        == scatter_numbers(3, 0).tolist()
        != scatter_numbers(3, 1).tolist()
    )
    counts = np.bincount((scatter_numbers(10_000, 4) % np.uint64(10)).astype(int))
    assert counts.min() > 900
    # SplitMix64's first number from the seed 0, as published.
    assert scatter_numbers(1, 0)[0] == 0xE220A8397B1DCDAF
