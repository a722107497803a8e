"""Noise: the size it says, on the scale it says, and nothing lost or coerced."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import sfumato as sf
from sfumato.engines import LocalEngine, engine_for
from sfumato.errors import MethodError, PlanError, SchemaError
from sfumato.methods._noise.summaries import fit_knots
from sfumato.methods.noise import Noise
from sfumato.noise.description import Gaussian
from sfumato.noise.scales import Growth
from sfumato.testing.partitioned import PartitionedEngine

KEY = bytes(range(32))
RECORDS = 20_000
MANY = 200_000
"""Enough to tell a variance from one that is 3 % off, by four standard errors."""


def people(records: int = RECORDS, **columns) -> sf.Dataset:
    random = np.random.default_rng(7)
    made = {
        "id": [f"p{at}" for at in range(records)],
        "bmi": random.normal(25, 4, records),
        "income": random.lognormal(10, 0.7, records),
        "share": random.beta(2, 5, records),
        "age": random.integers(18, 80, records),
    } | columns
    schema = {"id": sf.Column(role="direct", kind="text")} | {
        name: sf.Column(role="quasi") for name in made if name != "id"
    }
    return sf.Dataset(pl.DataFrame(made), sf.Schema(schema))


def noise_of(method: Noise, data: sf.Dataset, name: str, key=KEY) -> np.ndarray:
    after = method.apply(data, key=key)
    return (after.column(name).cast(pl.Float64) - data.column(name).cast(pl.Float64)).to_numpy()


def described(method: Noise, data: sf.Dataset) -> dict[str, Any]:
    return method.describes(method.fit(data, engine_for(data.frame)), data.schema)


# -- the size is what the name says -------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "of_variance"),
    [
        ({"variance_share": 0.1}, lambda var: 0.1 * var),
        ({"sd_share": 0.1}, lambda var: 0.01 * var),
        ({"variance": 3.0}, lambda var: 3.0),
        ({"variance": {"bmi": 2.0}}, lambda var: 2.0),
    ],
)
@pytest.mark.parametrize("distribution", ["gaussian", "laplace"])
def test_the_noise_on_the_output_has_the_variance_it_says(size, of_variance, distribution):
    data = people(MANY)
    method = Noise(variables=["bmi"], distribution=distribution, **size)
    wanted = of_variance(data.column("bmi").var())
    told = described(method, data)["bmi"]
    # Rounded up to a number of a series whose steps are 3.6 % or less.
    assert wanted * 0.9999 <= told.variance <= wanted * 1.034
    found = noise_of(method, data, "bmi")
    # Four standard errors of a variance; Laplace noise has a kurtosis of 6.
    error = math.sqrt((5 if distribution == "laplace" else 2) / MANY)
    assert 4 * error < 0.025
    assert found.var() == pytest.approx(told.variance, rel=4 * error)
    assert abs(found.mean()) < 4 * math.sqrt(wanted / MANY)
    assert abs(np.corrcoef(found, data.column("bmi"))[0, 1]) < 4 / math.sqrt(MANY)
    shape = stats.laplace(scale=math.sqrt(told.variance / 2))
    shape = shape if distribution == "laplace" else stats.norm(scale=math.sqrt(told.variance))
    assert stats.kstest(found, shape.cdf).pvalue > 1e-4


def test_noise_of_two_variables_is_independent():
    data = people()
    method = Noise(variables=["bmi", "income"], variance_share=0.2)
    one, other = (noise_of(method, data, name) for name in ("bmi", "income"))
    assert abs(np.corrcoef(one, other)[0, 1]) < 4 / math.sqrt(RECORDS)


@pytest.mark.parametrize(
    "size",
    [
        {},
        {"variance": 1.0, "variance_share": 0.1},
        {"variance": 1.0, "growth": Growth(form="linear", constant=1.0)},
        {"variance": 0.0},
        {"variance": -1.0},
        {"variance": float("nan")},
        {"variance_share": 10},  # somebody means per cent
        {"sd_share": 150},
        {"variance": {"age": 1.0}},
        {"variance": {"bmi": 1.0, "bmy": 1.0}},
        {"variance": 1.0, "scale": {"bmy": "log"}},
        {"variance": 1.0, "scale": "cube"},
    ],
)
def test_one_size_in_stated_units(size):
    with pytest.raises(PlanError):
        Noise(variables=["bmi"], **size)


def test_a_table_needs_every_variable():
    with pytest.raises(PlanError, match="every variable"):
        Noise(variables=["bmi", "age"], variance={"bmi": 1.0})


# -- scales, growth, truncation, whole numbers --------------------------------------------------


@pytest.mark.parametrize("scale", ["log", "square_root", "logit", "rank_normal"])
def test_shares_are_of_the_variance_on_the_scale(scale):
    data = people()
    share = sf.Column(role="quasi", kind="continuous", domain=(0.0, 1.0))
    data = data.with_schema({"share": share})
    method = Noise(variables=["share"], variance_share=0.2, scale=scale, bounds="ignore")
    told = described(method, data)["share"]
    assert told.scale.name == scale
    there = told.scale.forth(data.column("share").to_numpy())
    assert 0.2 * there.var() * 0.999 <= told.variance <= 0.2 * there.var() * 1.035
    after = method.apply(data, key=KEY).column("share").to_numpy()
    if scale in ("log", "logit"):
        assert (after > 0).all()
    if scale == "square_root":  # below nought a root is mirrored, so the noise is not seen there
        return
    found = told.scale.forth(after) - there
    assert found.var() == pytest.approx(told.variance, rel=4 * math.sqrt(2 / RECORDS))
    assert stats.kstest(found / math.sqrt(told.variance), "norm").pvalue > 1e-4


def test_a_scale_by_ranks_shows_no_single_value():
    data = people(records=2500)
    values = data.column("income").sort()
    scale = described(Noise(variables=["income"], variance=0.1, scale="rank_normal"), data)[
        "income"
    ].scale
    assert len(scale.values) == 100
    assert not set(scale.values) & set(values.to_list())
    assert scale.values[-1] < values[-10]  # the largest do not count at all
    assert scale.values[0] > values[9]
    spread = scale.forth(values.to_numpy())
    assert stats.skew(spread) == pytest.approx(0, abs=0.3)


@given(st.lists(st.integers(-5, 5), min_size=0, max_size=400), st.randoms())
@settings(max_examples=60)
def test_knots_rise_and_do_not_depend_on_parts(values, random):
    data = sf.Dataset(pl.DataFrame({"x": pl.Series(values, dtype=pl.Float64)}))
    split = fit_knots(data, "x", PartitionedEngine(random.randint(0, 99)))
    assert split == fit_knots(data, "x", LocalEngine())
    assert all(a < b for a, b in itertools.pairwise(split["values"]))
    assert all(a < b for a, b in itertools.pairwise(split["scores"]))
    assert len(split["values"]) <= len(values) // 20


def test_knots_are_means_of_the_inner_half():
    values = np.sort(np.random.default_rng(3).normal(size=97))
    made = fit_knots(sf.Dataset(pl.DataFrame({"x": values})), "x", LocalEngine())
    ends = [97 * at // 4 for at in range(5)]
    slow = [
        math.fsum(values[low + (high - low) // 4 : high - (high - low) // 4])
        / (high - low - 2 * ((high - low) // 4))
        for low, high in itertools.pairwise(ends)
    ]
    # To two digits of the way to the next: nobody works a value out from the others and the mean.
    np.testing.assert_allclose(made["values"], slow, atol=0.05 * np.diff(slow).min())
    assert made["values"] == [round(one, 2) for one in slow]


@pytest.mark.parametrize(
    ("scale", "values", "hint"),
    [
        ("log", [0.0, 1.0, 2.0], "shift"),
        ("square_root", [-1.0, 1.0, 2.0], "shift"),
        ("logit", [0.1, 0.5, 0.9], "domain"),
        ("rank_normal", [0.1, 0.5, 0.9], "another scale"),
    ],
)
def test_values_without_a_place_on_a_scale_are_refused(scale, values, hint):
    data = sf.Dataset(pl.DataFrame({"x": values}), sf.Schema({"x": "quasi"}))
    with pytest.raises(MethodError, match="'x'") as error:
        Noise(variables=["x"], variance_share=0.1, scale=scale).apply(data, key=KEY)
    assert hint in str(error.value)
    if scale in ("log", "square_root"):
        made = Noise(variables=["x"], variance_share=0.1, scale=scale, shift=2.0)
        assert described(made, data)["x"].scale.shift == 2.0


def test_a_logit_reaches_half_a_unit_beyond_whole_numbers():
    score = sf.Column(role="quasi", kind="integer", domain=(0, 10))
    data = sf.Dataset(pl.DataFrame({"score": [0, 5, 10] * 50}), sf.Schema({"score": score}))
    method = Noise(variables=["score"], variance=0.5, scale="logit")
    assert described(method, data)["score"].scale.low == -0.5
    after = method.apply(data, key=KEY).column("score")
    assert after.dtype == pl.Int64
    assert after.is_between(0, 10).all()


def test_variance_grows_with_the_value():
    data = people()
    steps = Growth(form="step", breaks=[25.0], variances=[1.0, 9.0])
    found = noise_of(Noise(variables=["bmi"], growth=steps), data, "bmi")
    high = data.column("bmi").to_numpy() >= 25
    for part, variance in ((~high, 1.0), (high, 9.0)):
        assert found[part].var() == pytest.approx(variance, rel=0.08)
    power = Growth(form="power", constant=0.5, slope=0.01, power=2)
    found = noise_of(Noise(variables=["bmi"], growth=power), data, "bmi")
    scaled = found / np.sqrt(0.5 + 0.01 * data.column("bmi").to_numpy() ** 2)
    assert stats.kstest(scaled, "norm").pvalue > 1e-4


def test_no_value_goes_without_noise():
    data = people(x=np.arange(RECORDS) - 10.0)
    bare = Noise(variables=["x"], growth=Growth(form="power", slope=1.0, power=2))
    with pytest.raises(MethodError, match="'x' would get no noise"):
        bare.apply(data, key=KEY)


def test_truncation_at_a_constant_changes_nothing_else():
    data = people()
    free = Noise(variables=["bmi"], variance=4.0).apply(data, key=KEY).column("bmi")
    cut = Noise(variables=["bmi"], variance=4.0, at_most=30.0, at_least=20.0)
    # The same noise, so that releases with and without truncation cannot be averaged.
    assert cut.apply(data, key=KEY).column("bmi").equals(free.clip(20, 30))
    assert described(cut, data)["bmi"] == Gaussian(variance=4.0, at_least=20.0, at_most=30.0)


def test_declared_bounds_are_kept_and_said():
    bmi = sf.Column(role="quasi", kind="continuous", domain=(15.0, 35.0))
    data = people().with_schema({"bmi": bmi})
    method = Noise(variables=["bmi"], variance=9.0, at_most=50.0)
    assert described(method, data)["bmi"].at_most == 35.0
    after = method.apply(data, key=KEY)
    assert after.column("bmi").min() == 15
    assert after.schema["bmi"].bounds == (15.0, 35.0)
    loose = Noise(variables=["bmi"], variance=9.0, bounds="ignore")
    assert described(loose, data)["bmi"].at_least is None
    assert (loose.apply(data, key=KEY).column("bmi") > 35).any()
    assert loose.apply(data, key=KEY).schema["bmi"].bounds is None
    with pytest.raises(MethodError, match="no value lies between"):
        Noise(variables=["bmi"], variance=9.0, at_most=10.0).apply(data, key=KEY)


@pytest.mark.parametrize("dtype", [pl.Int64, pl.UInt8, pl.Float64])
def test_whole_numbers_stay_whole(dtype):
    data = people()
    frame = data.frame.with_columns(pl.col("age").cast(dtype))
    data = sf.Dataset(frame, data.schema).with_schema({"age": sf.Column(kind="integer")})
    method = Noise(variables=["age"], variance=400.0)
    after = method.apply(data, key=KEY).column("age")
    assert described(method, data)["age"].whole
    assert (after.cast(pl.Float64) % 1 == 0).all()
    assert (after < 0).any(), "nothing is cut off at the end of a narrow type"
    loose = Noise(variables=["age"], variance=400.0, whole=False).apply(data, key=KEY)
    assert loose.schema["age"].kind == "continuous"
    # The same noise, rounded to whole numbers and to tenths.
    assert ((after.cast(pl.Float64) - loose.column("age")).abs() <= 0.55).all()
    assert loose.column("age").equals(loose.column("age").round(1))
    rounding = 1 / 12
    error = 4 * math.sqrt(2 / RECORDS)
    found = noise_of(method, data, "age")
    assert found.var() == pytest.approx(400 + rounding, rel=error)


# -- odd data -----------------------------------------------------------------------------------


def test_missing_stays_missing_and_codes_stay_codes():
    column = sf.Column(role="quasi", kind="integer", missing=(-9,))
    frame = pl.DataFrame({"x": [-9, None, 4, 900, 30] * 10})
    data = sf.Dataset(frame, sf.Schema({"x": column}))
    after = Noise(variables=["x"], variance_share=0.1).apply(data, key=KEY)
    assert after.frame["x"].is_null().equals(frame["x"].is_null())
    assert (after.frame["x"] == -9).equals(frame["x"] == -9)
    nan = sf.Dataset(pl.DataFrame({"x": [1.0, float("nan"), 3.0]}), sf.Schema({"x": "quasi"}))
    assert Noise(variables=["x"], variance=1.0).apply(nan, key=KEY).column("x").null_count() == 1


@pytest.mark.parametrize("values", [[0.1] * 30, [None] * 5, [3.0], []])
def test_what_does_not_vary_has_no_share(values):
    data = sf.Dataset(
        pl.DataFrame({"x": pl.Series(values, dtype=pl.Float64)}), sf.Schema({"x": "quasi"})
    )
    with pytest.raises(MethodError, match="'x' does not vary") as error:
        Noise(variables=["x"], variance_share=0.1).apply(data, key=KEY)
    assert "give the variance" in str(error.value)
    after = Noise(variables=["x"], variance=1.0).apply(data, key=KEY).column("x")
    assert after.null_count() == data.column("x").null_count()


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (sf.Column(role="quasi"), ["a", "b"]),
        (sf.Column(role="quasi"), [True, False]),
        (sf.Column(role="quasi", kind="nominal"), [1, 2]),
        (sf.Column(role="quasi"), [1.0, float("inf")]),
        (sf.Column(role="quasi"), [1e200, -1e200]),
    ],
)
def test_what_is_no_measured_number_is_refused(column, values):
    data = sf.Dataset(pl.DataFrame({"od d.*": values}), sf.Schema({"od d.*": column}))
    with pytest.raises(sf.SfumatoError, match=r"'od d\.\*'"):
        Noise(variables=["od d.*"], variance_share=0.1).apply(data, key=KEY)
    with pytest.raises(SchemaError, match="'x' is not in the data"):
        Noise(variables=["x"], variance=1.0).apply(data, key=KEY)


# -- noise that would not be there ----------------------------------------------------------------


@pytest.mark.parametrize("dtype", [pl.Float64, pl.Float32])
def test_noise_that_the_type_rounds_away_is_refused(dtype):
    base = 1e15 if dtype == pl.Float64 else 1e8
    values = pl.Series(base + np.arange(5_000.0) * 16, dtype=dtype)
    data = people(5_000, bmi=values)
    with pytest.raises(MethodError, match="swallows the noise"):
        Noise(variables=["bmi"], variance=0.001).apply(data, key=KEY)
    spread = noise_of(Noise(variables=["bmi"], variance=1e6), data, "bmi")
    assert spread.std() == pytest.approx(1000, rel=4 / math.sqrt(2 * 5_000))


def test_growth_that_leaves_next_to_nothing_is_refused():
    tiny = Growth(form="power", slope=5.0, power=4.0)
    data = people(100, bmi=np.linspace(1e-6, 1e-4, 100))
    with pytest.raises(MethodError, match="next to none"):
        Noise(variables=["bmi"], growth=tiny).apply(data, key=KEY)


def test_whole_numbers_beyond_all_numbers_are_refused_without_showing_them():
    with pytest.raises(MethodError, match="beyond all numbers") as error:
        Noise(variables=["age"], variance=1e40).apply(people(50), key=KEY)
    assert "e19" not in str(error.value)


def test_without_variables_it_follows_roles():
    frame = pl.DataFrame({"income": [900.0, 2500.0, 4000.0] * 20, "town": ["a", "b", "c"] * 20})
    secret = sf.Dataset(frame, sf.Schema({"income": "sensitive", "town": "sensitive"}))
    noise = Noise(sd_share=0.2)
    assert noise.touches(secret.schema) == ("income",)
    named = Noise(variables=["income"], sd_share=0.2)
    assert noise.apply(secret, key=KEY).frame.equals(named.apply(secret, key=KEY).frame)
    fitted = noise.fit(secret, sf.engines.engine_for(frame))
    assert noise.public(fitted)["variables"] == ["income"]
    known = secret.with_schema({"income": "quasi", "town": "quasi"})
    with pytest.raises(MethodError, match="no number to add noise to"):
        noise.apply(known, key=KEY)
    with pytest.raises(sf.SfumatoError, match="`variables` must name them too"):
        Noise(sd_share={"income": 0.2})


def test_values_that_are_kept_have_no_noise_and_noise_leads_to_none_of_them():
    draw = np.random.default_rng(5)
    none = draw.random(800) < 0.5
    frame = pl.DataFrame(
        {
            "cost": np.where(none, 0.0, draw.gamma(2, 30, 800).round(1) + 0.1),
            "visits": np.where(none, 0, draw.poisson(2, 800) + 1),
        }
    )
    data = sf.Dataset(frame, sf.Schema({"cost": "sensitive", "visits": "sensitive"}))
    step = sf.methods.Noise(sd_share=0.5, keep=[0], scale={"cost": "log"},
                            variables=["cost", "visits"])  # fmt: skip
    made = step.apply(data, key=bytes(32))
    for name in frame.columns:
        released = made.column(name)
        assert released.null_count() == 0
        assert ((released == 0).to_numpy() == none).all(), name
        assert made.schema[name].missing == ()
    assert made.column("cost").min() == 0
    fitted = step.fit(data, sf.engines.engine_for(frame))
    # The size is that of the others: zeros are not counted.
    assert fitted["visits"]["keep"] == [0]
    alone = sf.Dataset(frame.filter(pl.col("visits") > 0), data.schema)
    without = sf.methods.Noise(sd_share=0.5, variables=["visits"])
    assert (
        fitted["visits"]["variance"]
        == without.fit(alone, sf.engines.engine_for(frame))["visits"]["variance"]
    )
    released = sf.protect(data, sf.Plan(schema=data.schema, steps=[step]), key=bytes(32))
    with pytest.raises(sf.SfumatoError, match=r"without noise among others.*clean"):
        sf.fit("visits ~ cost", released)
