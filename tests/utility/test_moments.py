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
from sfumato.errors import MeasureError

MANY = [f"x{at}" for at in range(4)]


def made(seed: int, *, gaps: bool = False) -> tuple[sf.Dataset, sf.Dataset]:
    draw = np.random.default_rng(seed)
    was = draw.normal(size=(60, 4)) @ draw.normal(size=(4, 4)) + 5
    now = was + draw.normal(size=was.shape) * 0.3
    if gaps:
        was[draw.random(was.shape) < 0.1] = np.nan
        now[draw.random(was.shape) < 0.1] = np.nan
    first, second = (numbers(dict(zip(MANY, side.T, strict=True))) for side in (was, now))
    return first, second


def rows_of(found, statistic):
    table = found.table.filter(pl.col("statistic") == statistic)
    return {row["variable"]: row for row in table.rows(named=True)}


@pytest.mark.parametrize("gaps", [False, True])
@drawn("seed", range(3))
def test_each_statistic_agrees_with_pandas(seed, gaps):
    original, released = made(seed, gaps=gaps)
    was, now = (side.frame.to_pandas() for side in (original, released))
    found = sf.utility.Moments().measure(original, released)
    sd = was.std(ddof=1)
    for name in MANY:
        mean = rows_of(found, "mean")[name]
        assert mean["original"] == pytest.approx(was[name].mean())
        assert mean["moments"] == pytest.approx((now[name].mean() - was[name].mean()) / sd[name])
        spread = rows_of(found, "sd")[name]
        assert spread["moments"] == pytest.approx(now[name].std(ddof=1) / sd[name] - 1)
        for share in (0.05, 0.25, 0.5, 0.75, 0.95):
            place = rows_of(found, f"quantile {share:g}")[name]
            assert place["original"] == pytest.approx(was[name].quantile(share))
            assert place["released"] == pytest.approx(now[name].quantile(share))
    both = [frame.corr() for frame in (was, now)]
    for label, row in rows_of(found, "correlation").items():
        first, second = label.split(" × ")  # noqa: RUF001
        assert row["original"] == pytest.approx(both[0].loc[first, second])
        assert row["released"] == pytest.approx(both[1].loc[first, second])
    sizes = [np.sort(np.linalg.eigvalsh(one))[::-1] for one in both]
    shifts = [row["moments"] for row in rows_of(found, "eigenvalue").values()]
    assert shifts == pytest.approx(list(sizes[1] - sizes[0]))
    largest = found.table.filter(pl.col("statistic").str.starts_with("quantile"))["moments"]
    assert found.details["largest_quantile_shift"] == largest.abs().max()
    # A value that became missing counts as the original's mean; one that was filled in does not.
    loss = (now.fillna(was.mean()) - was).abs() / (math.sqrt(2) * sd)
    assert found.value == pytest.approx(np.nanmean(loss.to_numpy()))
    assert found.details["il1s_total"] == pytest.approx(np.nansum(loss.to_numpy()))
    assert found.details["il1s"] == found.value


def test_the_paper_s_release_keeps_means_and_spreads(titanic):
    found = sf.utility.Moments(variables=["Age", "Fare"]).measure(
        titanic.original, titanic.released
    )
    # The centroids are spread out again, so standard deviations are kept by construction.
    assert found.details["largest_sd_ratio_off"] < 1e-9
    assert found.details["largest_mean_shift"] < 0.05
    assert 0 < found.details["largest_correlation_shift"] < 0.05


@given(st.lists(st.tuples(*[st.integers(-9, 9)] * 2), min_size=2, max_size=30))
def test_nothing_changes_when_nothing_changed(rows):
    data = numbers({"a": [float(a) for a, _ in rows], "b": [float(b) for _, b in rows]})
    found = sf.utility.Moments().measure(data, data)
    assert found.value == 0.0
    assert all(change == 0.0 for change in found.table["moments"])


@drawn("seed", range(3))
def test_the_order_of_records_changes_no_bit(noisy, seed):
    found = sf.utility.Moments().measure(noisy.original, noisy.released)
    other, _ = noisy.shuffle_records(seed)
    assert sf.utility.Moments().measure(other.original, other.released).plain() == found.plain()
    assert found.value > 0


def test_no_extreme_value_is_shown():
    values = [float(at) for at in range(1000)]
    found = sf.utility.Moments().measure(numbers({"a": values}), numbers({"a": values}))
    shown = set(found.table["original"])
    assert not shown & {0.0, 999.0}
    assert found.audience == "custodian"


def test_a_spread_that_is_lost_is_told_and_not_called_zero():
    original = numbers({"a": [1.0, 2.0, 3.0], "b": [1.0, 3.0, 2.0], "c": [4.0, 4.0, 4.0]})
    released = numbers({"a": [2.0, 2.0, 2.0], "b": [1.0, 3.0, 2.0], "c": [4.0, 4.0, 4.0]})
    found = sf.utility.Moments().measure(original, released)
    assert rows_of(found, "sd")["a"]["moments"] == -1.0
    assert math.isnan(found.details["largest_correlation_shift"])
    assert "a × b" in found.details["largest_correlation_shift_reason"]  # noqa: RUF001
    assert math.isnan(found.details["largest_eigenvalue_shift"])
    plan = sf.Plan(
        schema=original.schema,
        steps=[sf.methods.Topcode(variables=["a"], top=1)],
        targets={"largest_correlation_shift.max": 0.9},
    )
    with pytest.raises(sf.SfumatoError, match="largest_correlation_shift.*MISSED"):
        sf.protect(original, plan, key=bytes(32))


def test_one_variable_has_no_correlation():
    found = sf.utility.Moments().measure(numbers({"a": [1.0, 2.0]}), numbers({"a": [1.0, 3.0]}))
    assert math.isnan(found.details["largest_correlation_shift"])
    assert "two variables" in found.details["largest_correlation_shift_reason"]


def test_a_constant_with_filled_gaps_has_no_scale():
    original = numbers({"a": [5.0, 5.0, None], "b": [1.0, 2.0, 3.0]})
    released = numbers({"a": [5.0, 5.0, 9.0], "b": [1.0, 2.0, 3.0]})
    found = sf.utility.Moments().measure(original, released)
    assert math.isnan(found.details["largest_mean_shift"])
    assert "filled in: 1 values" in " ".join(found.warnings)


def test_errors_are_errors_and_not_zero():
    with pytest.raises(MeasureError, match="'a' has one value in the original"):
        sf.utility.Moments().measure(numbers({"a": [5.0, 5.0]}), numbers({"a": [5.0, 6.0]}))
    with pytest.raises(MeasureError, match="more than can be counted"):
        sf.utility.Moments().measure(numbers({"a": [0.0, 1e-300]}), numbers({"a": [1e300, 1e300]}))
    with pytest.raises(MeasureError, match="no variable that is a number"):
        sf.utility.Moments().measure(numbers({"a": ["x"]}), numbers({"a": ["x"]}))
