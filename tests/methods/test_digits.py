"""The digits of released numbers are those of the original, and tell nothing of the noise."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.engines import engine_for
from sfumato.engines.summaries import summarise
from sfumato.errors import WeakProtectionWarning
from sfumato.methods._publishing import digits
from sfumato.methods._publishing.digits import (
    find_step,
    fit_steps,
    list_sizes,
    round_digits,
    round_to_step,
)

KEY = bytes(range(32))

numbers = st.lists(
    st.none() | st.floats(-1e12, 1e12) | st.floats(-1e-3, 1e-3) | st.floats(1e200, 1e290),
    min_size=1,
    max_size=20,
)


def _round(values: pl.Series, *, relative: bool) -> pl.Series:
    summaries = list_sizes(relative=relative)
    sizes = summarise(values.to_frame().lazy(), {"x": summaries})["x"]
    return round_digits(values, sizes, relative=relative)


@given(numbers, st.booleans())
def test_rounding_moves_by_half_a_step_and_no_further_when_repeated(values, relative):
    series = pl.Series("x", values, dtype=pl.Float64)
    once = _round(series, relative=relative)
    assert once.is_null().to_list() == series.is_null().to_list()
    step = find_step(float(np.abs(series.drop_nulls().to_numpy()).max(initial=0)))
    for before, after in zip(series.drop_nulls(), once.drop_nulls(), strict=True):
        own = 10.0 ** (np.floor(np.log10(abs(before))) - 11) if before and relative else 0.0
        assert abs(before - after) <= max(step, own * 1.001) * 0.5 + 2 * np.spacing(abs(before))
    again = _round(once, relative=relative)
    assert again.drop_nulls().to_list() == pytest.approx(once.drop_nulls().to_list(), rel=1e-14)


def test_numbers_read_as_they_are_written():
    series = pl.Series([0.1 + 0.2, 123.456789012345678, -7.0, None])
    assert _round(series, relative=False).to_list() == [0.3, 123.456789012346, -7.0, None]
    small = pl.Series([1.23456789012345678e-5, 98.7654321098765432, 98.7654321098765432e7])
    rounded = [1.23456789e-05, 98.7654321099, 987654321.099]
    assert _round(small, relative=True).to_list() == rounded


@pytest.mark.parametrize("values", [[], [None], [0.0], [0.0, None]])
def test_what_has_no_digits_stays(values):
    series = pl.Series(values, dtype=pl.Float64)
    assert _round(series, relative=True).to_list() == values


# The digits of the original ----------------------------------------------------------------------


def measured(values, dtype=None, **declared) -> sf.Dataset:
    frame = pl.DataFrame({"x": pl.Series(values, dtype=dtype)})
    return sf.Dataset(frame, sf.Schema({"x": sf.Column(role="quasi", **declared)}))


def step_of(data: sf.Dataset) -> float:
    return fit_steps(data, ["x"], engine_for(data.frame))["x"]


@pytest.mark.parametrize("dtype", [pl.Float64, pl.Float32])
@given(st.integers(0, 3), st.integers(2, 6), st.integers(0, 2**32 - 1))
def test_the_digits_of_a_measurement_are_found(dtype, decimals, spread, seed):
    random = np.random.default_rng(seed)
    values = random.normal(0, 10.0 ** (spread - decimals), 400).round(decimals)
    assert step_of(measured(values, dtype)) == float(f"1e-{decimals}")


def test_no_single_record_decides_on_the_digits():
    random = np.random.default_rng(1)
    for records in (12, 40, 400):
        values = random.normal(60, 20, records).round(1)
        plain = step_of(measured(values))
        for odd in (61.123456789, 1e9, 1e-7, 4.0):
            assert step_of(measured([*values, odd])) == plain
        assert step_of(measured(values[1:])) == plain


def test_numbers_of_all_digits_keep_them_and_few_steps_get_finer_ones():
    random = np.random.default_rng(2)
    assert step_of(measured(random.normal(size=300))) == 0.0
    # Five levels: rounding noise to whole numbers would undo it.
    assert step_of(measured(random.integers(1, 6, 300))) == 0.1
    assert step_of(measured(random.integers(1, 6, 300), digits=0)) == 1.0
    assert step_of(measured([7.5] * 30)) == 0.1
    assert step_of(measured([None, None], pl.Float64)) == 1.0


@given(
    st.lists(st.floats(-1e9, 1e9).filter(lambda x: abs(x) > 1e-9), min_size=1),
    st.sampled_from([1.0, 0.1, 0.001]),
    st.booleans(),
)
def test_rounding_to_a_step_is_near_and_repeats_itself(values, step, fine):
    series, digits = pl.Series("x", values), 3 if fine else 0
    rounded = round_to_step(series, step, sf.Column(), least_digits=digits)
    for before, after in zip(values, rounded.to_list(), strict=True):
        own = 10.0 ** (np.floor(np.log10(abs(before))) - 2) if fine else step
        assert abs(before - after) <= 0.5001 * min(step, own) + 2 * np.spacing(abs(before))
    again = round_to_step(rounded, step, sf.Column(), least_digits=digits)
    assert again.to_list() == pytest.approx(rounded.to_list(), rel=1e-12)


def test_no_rounded_number_becomes_a_code_for_missing():
    column = sf.Column(missing=(-9, 99))
    rounded = round_to_step(pl.Series([98.7, 99.0, -9.2, 4.4, None]), 1.0, column)
    assert rounded.to_list() == [100.0, 99.0, -8.0, 4.0, None]


@pytest.mark.parametrize("dtype", [pl.Int64, pl.Float64])
@pytest.mark.parametrize("kind", ["integer", "continuous"])
def test_noise_makes_nobody_missing(kind, dtype):
    """Codes next to each other, which a noisy value may meet one after the other."""
    values = [*np.random.default_rng(0).integers(90, 98, 500), 98, 99, None]
    data = measured(values, dtype, kind=kind, missing=(99, 98))
    released = sf.methods.Noise(variables=["x"], variance=9.0).apply(data, key=KEY)
    assert released.column("x").null_count() == 3
    assert released.frame["x"].to_list()[-3:] == [98, 99, None]
    assert (released.column("x") == 100).any()


@pytest.mark.parametrize(
    "method",
    [
        sf.methods.Noise(variables=["x"], variance_share=0.1),
        sf.methods.Noise(variables=["x"], variance_share=0.1, distribution="laplace"),
        sf.methods.CorrelatedNoise(variables=["x"], noise_share=0.2),
        sf.methods.Deterministic(variables=["x"], k=3),
        sf.methods.KAnonymity(k=3, output="mean"),
        sf.methods.KAnonymity(k=4, output="median"),
    ],
    ids=["noise", "laplace", "correlated", "deterministic", "mean", "median"],
)
@pytest.mark.parametrize("kind", ["measured", "counted"])
def test_released_numbers_have_the_digits_of_the_original(method, kind):
    random = np.random.default_rng(3)
    if kind == "measured":
        data = measured(random.normal(5, 2, 300).round(2))
        released = method.apply(data, key=KEY)
        # Rounding must not bring back what centres moved by little.
        decimals = 4 if method.name == "deterministic" else 2
        assert released.column("x").equals(released.column("x").round(decimals))
        assert released.schema["x"].kind == "continuous"
        return
    data = measured(random.integers(10_000, 90_000, 300))
    released = method.apply(data, key=KEY)
    assert released.column("x").dtype == pl.Int64
    assert released.schema["x"].kind == "integer"


def test_declared_digits_go_first():
    values = np.random.default_rng(4).normal(5, 2, 300).round(2)
    noise = sf.methods.Noise(variables=["x"], variance_share=0.1)
    one = noise.apply(measured(values, digits=1), key=KEY).column("x")
    everything = noise.apply(measured(values, digits=15), key=KEY).column("x")
    # Rounding comes after the draw: the noise is the same.
    assert one.equals(everything.round(1, mode="half_to_even"))
    assert everything.round(9).ne(everything).all()
    with pytest.raises(sf.SfumatoError, match="digits is a whole number"):
        measured(values, digits=16)
    whole = np.arange(300)
    halves = noise.apply(measured(whole, digits=1), key=KEY)
    assert halves.schema["x"].kind == "continuous"
    assert (halves.column("x") % 1 != 0).any()


def test_noise_that_rounding_would_swallow_is_warned_of():
    data = measured(np.random.default_rng(5).normal(0, 2, 300).round(1))
    with pytest.warns(WeakProtectionWarning, match="smaller than the last digit"):
        sf.methods.Noise(variables=["x"], variance=0.001).apply(data, key=KEY)


def test_small_values_keep_the_noise_of_another_scale():
    """On the scale of logarithms a small value has little noise; three digits of it stay."""
    values = np.random.default_rng(6).lognormal(0, 2, 2000).round(2).clip(0.01)
    data = measured(values)
    noise = sf.methods.Noise(variables=["x"], variance=0.01, scale="log")
    released = noise.apply(data, key=KEY).column("x").to_numpy()
    small = values <= 0.05
    assert small.any()
    assert (released[small] == values[small]).mean() < 0.05
    assert all(float(f"{value:.2f}") == value for value in released[values > 50])


@pytest.mark.parametrize(
    ("count", "longer", "deviation", "step"),
    [
        # A twentieth of the records, and three, may have more digits.
        (100, [8], 50.0, 1.0),
        (100, [9, 8], 50.0, 0.1),
        # Of a few records a quarter.
        (8, [2], 50.0, 1.0),
        (8, [3, 2], 50.0, 0.1),
        (3, [1, 0], 50.0, 0.1),
        # A standard deviation has at least ten steps.
        (100, [0, 0], 10.0, 1.0),
        (100, [0, 0], 9.99, 0.1),
        (100, [0, 0], 0.99, 0.01),
        (100, [0], 0.0, 1.0),
        # More decimals than a measurement has.
        (100, [9] * 9 + [8], 50.0, 1e-9),
        (100, [9] * 10, 50.0, 0.0),
        (100, [0], 1e-12, 1e-9),
    ],
)
def test_a_step_follows_from_who_has_more_digits_and_from_the_spread(
    count, longer, deviation, step
):
    counts = [*longer, *[0] * 10][:10]
    summary = {"count": count, "sd": deviation, "decimals": counts}
    assert digits._choose_step(sf.Column(), summary, 10) == step


def test_declared_digits_are_a_step_up_to_all_there_are():
    summary = {"count": 100, "sd": 50.0, "decimals": [0] * 10}
    for declared, step in {-2: 100.0, 0: 1.0, 3: 0.001, 14: 1e-14, 15: 0.0}.items():
        assert digits._choose_step(sf.Column(digits=declared), summary, 10) == step
