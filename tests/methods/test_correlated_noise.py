"""Correlated noise: moments and regressions are kept, and where they are not, it is said."""

from __future__ import annotations

import json
import math
import warnings
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

import sfumato as sf
from sfumato.kernels.arrays import Floats
from sfumato.methods._noise.covariances import UnperturbedWarning, cholesky_factor, fit_moments
from sfumato.noise.description import StratifiedGaussian

KEY = bytes(range(32))


def dataset(columns: dict[str, Any], **told: sf.Column) -> sf.Dataset:
    records = len(next(iter(columns.values())))
    frame = pl.DataFrame({"id": np.arange(records), **columns})
    roles = {name: told.get(name, sf.Column(role="quasi")) for name in columns}
    return sf.Dataset(frame, sf.Schema({"id": sf.Column(role="direct"), **roles}))


def related(records: int, seed: int = 1) -> dict[str, Floats]:
    """y = 2 + 1.5 a - b + noise, with a and b correlated and off centre."""
    random = np.random.default_rng(seed)
    a = random.normal(50, 10, records)
    b = 0.6 * a + random.normal(0, 8, records)
    return {"y": 2 + 1.5 * a - b + random.normal(0, 5, records), "a": a, "b": b}


def perturbed(data: sf.Dataset, names: list[str], share: float = 0.3, **told: Any) -> sf.Dataset:
    method = sf.methods.CorrelatedNoise(variables=names, noise_share=share, **told)
    made: sf.Dataset = method.apply(data, key=KEY)
    return made


def slopes(data: sf.Dataset, y: str = "y", x: tuple[str, ...] = ("a", "b")) -> Floats:
    design = np.column_stack([np.ones(len(data)), *(data.column(n).to_numpy() for n in x)])
    found: Floats = np.linalg.lstsq(design, data.column(y).to_numpy(), rcond=None)[0]
    return found


def test_moments_and_regressions_are_those_of_the_original() -> None:
    data = dataset(related(200_000))
    after = perturbed(data, ["y", "a", "b"])
    before, now = (one.batch(["y", "a", "b"]).to_numpy() for one in (data, after))
    # A mean changes by (w - 1) (x - mean) + noise: four standard errors.
    errors = math.sqrt(((1 - math.sqrt(0.7)) ** 2 + 0.3) / 200_000) * before.std(axis=0)
    assert (np.abs(now.mean(axis=0) - before.mean(axis=0)) < 4 * errors).all()
    np.testing.assert_allclose(np.cov(now.T), np.cov(before.T), rtol=0.02)
    np.testing.assert_allclose(slopes(after)[1:], slopes(data)[1:], atol=0.01)
    assert slopes(after)[0] == pytest.approx(slopes(data)[0], abs=0.25)
    # It is not the original: a third of the variance is noise.
    assert np.corrcoef(now[:, 0], before[:, 0])[0, 1] == pytest.approx(math.sqrt(0.7), abs=0.01)


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_relations_with_what_stays_shrink_as_stated(share: float) -> None:
    data = dataset(related(200_000))
    weight = math.sqrt(1 - share)
    with pytest.warns(UnperturbedWarning, match=f"stay as they are: y. .*by {weight:.2f}"):
        after = perturbed(data, ["a", "b"], share)
    np.testing.assert_allclose(slopes(after)[1:], weight * slopes(data)[1:], atol=0.01)


def test_nobody_is_warned_where_all_are_perturbed_or_it_is_meant() -> None:
    data = dataset(related(100))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        perturbed(data, ["a", "b", "y"])
        perturbed(data, ["a"], partly=True)


def test_the_noise_is_as_described() -> None:
    data = dataset(related(50_000))
    method = sf.methods.CorrelatedNoise(variables=["a", "b"], noise_share=0.4, partly=True)
    fitted = json.loads(json.dumps(method.fit(data, sf.engines.engine_for(data.frame))))
    told = method.describes(fitted, data.schema)
    noise = told["a"]
    assert told["b"] == noise
    assert isinstance(noise, sf.CorrelatedGaussian)
    after = method.apply(data, key=KEY)
    e = after.batch(["a", "b"]).to_numpy() - noise.weight * data.batch(["a", "b"]).to_numpy()
    np.testing.assert_allclose(e.mean(axis=0), noise.mean, atol=0.1)
    np.testing.assert_allclose(np.cov(e.T), noise.covariance, rtol=0.03)
    whitened = np.linalg.solve(np.linalg.cholesky(noise.covariance), (e - noise.mean).T)
    assert min(kstest(one, "norm").pvalue for one in whitened) > 1e-3
    assert abs(np.corrcoef(e[:, 0], data.column("a").to_numpy())[0, 1]) < 0.02


def test_strata_keep_moments_of_their_own() -> None:
    columns = related(20_000)
    group = np.arange(20_000) % 3
    columns["a"] = columns["a"] + 100 * group
    data = dataset({**columns, "g": group.astype(float)}, g=sf.Column(role="quasi", kind="nominal"))
    method = sf.methods.CorrelatedNoise(variables=["y", "a", "b"], noise_share=0.5, strata=["g"])
    after = method.apply(data, key=KEY)
    for one in range(3):
        before, now = (
            each.batch(["y", "a", "b"]).filter(pl.Series(group == one)).to_numpy()
            for each in (data, after)
        )
        errors = math.sqrt(((1 - math.sqrt(0.5)) ** 2 + 0.5) / len(now)) * before.std(axis=0)
        assert (np.abs(now.mean(axis=0) - before.mean(axis=0)) < 4 * errors).all()
        # Two standard errors of the covariance of y and b, 1.6 each, at that of nearly 0.
        np.testing.assert_allclose(np.cov(now.T), np.cov(before.T), rtol=0.08, atol=3.2)
    told = method.describes(method.fit(data, sf.engines.engine_for(data.frame)), data.schema)["a"]
    assert isinstance(told, StratifiedGaussian)
    assert [one["where"] for one in told.strata] == [{"g": 0}, {"g": 1}, {"g": 2}]
    assert told.within(2).mean[1] > told.within(0).mean[1] + 20
    assert json.loads(json.dumps(told.plain()))["distribution"] == "stratified_gaussian"


@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(1, 5))
def test_no_direction_has_less_noise_than_stated(seed: int, size: int, rank: int) -> None:
    random = np.random.default_rng(seed)
    values = random.normal(size=(30, rank)) @ random.normal(size=(rank, size))
    values += random.normal(0, 1e-4, values.shape) * random.integers(0, 2)
    names = [f"x{at}" for at in range(size)]
    told = fit_moments(pl.DataFrame(values, schema=names), names, 10)
    relation = np.array(told["relation"])
    assert np.linalg.eigvalsh(relation - np.corrcoef(values.T).reshape(size, size))[0] > -1e-9
    triangle = cholesky_factor(relation, names)
    np.testing.assert_allclose(triangle @ triangle.T, relation, atol=1e-9)
    np.testing.assert_allclose(told["sd"], values.std(axis=0, ddof=1), rtol=6e-3)
    apart = np.abs(told["mean"] - values.mean(axis=0))
    assert (apart <= 0.0051 * np.array(told["sd"])).all()


def test_what_follows_from_others_may_be_perturbed() -> None:
    columns = related(5000)
    columns["sum"] = columns["a"] + columns["b"]
    columns["twice"] = 2 * columns["a"]
    after = perturbed(dataset(columns), list(columns))
    made = after.batch(["a", "twice"]).to_numpy()
    assert np.corrcoef(made.T)[0, 1] > 0.998
    assert after.column("sum").null_count() == 0


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ([7.0] * 20, "'x' has the same value"),
        ([0.1] * 20, "'x' has the same value"),
        ([1.0, None] * 9, "'x' has fewer than 10 values"),
        ([None] * 20, "'x'"),
        ([1.0, 2.0], "fewer than 10"),
        ([1.0, float("inf")] * 20, "'x' holds infinite"),
        ([1e300, -1e300] * 20, "'x' has values too large"),
        (["one", "two"] * 20, "'x' holds text"),
        ([True, False] * 20, "'x' holds yes/no values"),
        ([], "fewer than 10"),
    ],
)
def test_what_has_no_spread_is_refused(values: list[Any], what: str) -> None:
    told = pl.Series(values, dtype=pl.Float64) if values in ([], [None] * 20) else values
    with pytest.raises(sf.SfumatoError, match=what):
        perturbed(dataset({"x": told}), ["x"])


def test_a_stratum_without_spread_or_with_few_records_is_refused() -> None:
    x = [1.0, 2.0] * 20
    told = {"g": sf.Column(role="quasi", kind="nominal")}
    with pytest.raises(sf.SfumatoError, match="1 of 2 strata"):
        perturbed(dataset({"x": x, "g": ["a"] * 35 + ["b"] * 5}, **told), ["x"], strata=["g"])
    flat = dataset({"x": x[:20] + [1.0] * 20, "g": ["a"] * 20 + ["b"] * 20}, **told)
    with pytest.raises(sf.SfumatoError, match="'x' has the same value"):
        perturbed(flat, ["x"], strata=["g"])


def test_contradicting_correlations_are_refused() -> None:
    up, none = [float(n) for n in range(20)], [None] * 20
    data = dataset(
        {"a": up + up + none, "b": up + none + up, "c": none + up + [-one for one in up]}
    )
    with pytest.raises(sf.SfumatoError, match="contradict"):
        perturbed(data, ["a", "b", "c"])


def test_missing_stays_missing_and_whole_numbers_become_measured() -> None:
    random = np.random.default_rng(2)
    x = [-9 if n % 7 == 0 else int(one) for n, one in enumerate(random.normal(50, 9, 200))]
    y = [None if n % 5 == 0 else one for n, one in enumerate(random.normal(0, 1, 200))]
    told = {
        "x": sf.Column(role="quasi", kind="integer", domain=(0, 120), missing=(-9,)),
        "y": sf.Column(role="sensitive", kind="continuous"),
    }
    data = dataset({"x": x, "y": y}, **told)
    after = perturbed(data, ["x", "y"])
    for name in ("x", "y"):
        assert after.column(name).is_null().equals(data.column(name).is_null())
    assert after.frame["x"].dtype == pl.Float64
    column = after.schema["x"]
    assert (column.role, column.kind, column.domain, column.missing) == (
        "quasi",
        "continuous",
        None,
        (),
    )


def test_the_same_noise_in_every_plan_and_more_of_it_for_a_larger_share() -> None:
    data = dataset(related(5000))
    names = ["y", "a", "b"]
    method = sf.methods.CorrelatedNoise(variables=names, noise_share=0.3)
    once = method.apply(data, key=KEY)
    assert once.frame.equals(method.apply(data, key=KEY, step=4).frame)
    small, large = (
        released.batch(names).to_numpy() / math.sqrt(1 - share) - data.batch(names).to_numpy()
        for released, share in ((once, 0.3), (perturbed(data, names, 0.5), 0.5))
    )
    # The larger noise is the smaller one and more: what is added has nothing to do with it.
    added = np.corrcoef(np.hstack([small, large - small]).T)[:3, 3:]
    assert np.abs(added).max() < 4 / math.sqrt(5000)
    ratio = np.cov((large - small).T) / np.cov(data.batch(names).to_numpy().T)
    np.testing.assert_allclose(np.diag(ratio), 0.5 / 0.5 - 0.3 / 0.7, rtol=0.1)


def test_another_covariance_is_independent_noise() -> None:
    """Two mixtures of the same draws would give the value away."""
    data, names = dataset(related(5000)), ["y", "a", "b"]
    once = perturbed(data, names, 0.3).column("y").to_numpy()
    other = perturbed(data, names[:2], 0.3, partly=True).column("y").to_numpy()
    true = math.sqrt(0.7) * data.column("y").to_numpy()
    assert abs(np.corrcoef(once - true, other - true)[0, 1]) < 4 / math.sqrt(5000)


def test_one_more_record_mostly_leaves_the_noise_of_others() -> None:
    columns = related(20_000)
    once = perturbed(dataset(columns), [*columns]).batch([*columns])
    # At the centre, so that no rounded moment moves.
    more = {name: np.append(one, one.mean()) for name, one in columns.items()}
    again = perturbed(dataset(more), [*columns]).batch([*columns])
    assert again[:20_000].equals(once)


def test_a_variable_is_not_its_own_stratum() -> None:
    with pytest.raises(sf.SfumatoError, match="both perturbed and a stratum"):
        sf.methods.CorrelatedNoise(variables=["a"], noise_share=0.3, strata=["a"])


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, float("nan"), "0.1x"])
def test_a_share_lies_between_nought_and_one(share: Any) -> None:
    with pytest.raises(sf.SfumatoError):
        sf.methods.CorrelatedNoise(variables=["a"], noise_share=share)
