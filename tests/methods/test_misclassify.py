"""Exchanged categories: released as stated, refused where a matrix makes no sense."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import chisquare

import sfumato as sf
from sfumato.noise import description as described
from sfumato.randomness import Key

KEY = bytes(range(32))


def dataset(values: Any, **told: Any) -> sf.Dataset:
    frame = pl.DataFrame({"id": [f"p{n}" for n in range(len(values))], "x": values})
    column = sf.Column(**{"role": "quasi", "kind": "nominal", **told})
    return sf.Dataset(frame, sf.Schema({"id": "direct", "x": column}))


def released(data: sf.Dataset, **told: Any) -> pl.Series:
    made: sf.Dataset = sf.methods.Misclassify(variables=["x"], **told).apply(data, key=KEY)
    values: pl.Series = made.frame["x"]
    return values


def noise_of(data: sf.Dataset, **told: Any) -> Any:
    method = sf.methods.Misclassify(variables=["x"], **told)
    chance = sf.engines.Chance(Key.of(KEY), 0)
    fitted = method.fit_keyed(data, sf.engines.engine_for(data.frame), chance)
    fitted = json.loads(json.dumps(fitted))
    noise = method.describes(fitted, data.schema)
    assert (
        described.read_descriptions(json.loads(json.dumps(described.write_descriptions(noise))))
        == noise
    )
    return noise["x"]


def test_rare_levels_stay_as_often_as_stated() -> None:
    """The trap: two stages of 0.8 leave a rare level with less than 0.6."""
    counts = np.array([9000, 900, 90, 9, 1])
    for towards in ("equal", "marginal", "near"):
        data = dataset(np.repeat(np.arange(5), counts), kind="ordinal", domain=(0, 1, 2, 3, 4))
        noise = noise_of(data, retention=0.8, towards=towards, invariant=True)
        matrix = np.array(noise.matrix)
        assert (np.diagonal(matrix) >= 0.8).all()
        # The counts behind the matrix have noise of a few steps of ten records.
        np.testing.assert_allclose(counts @ matrix, counts, atol=8)
        values = released(data, retention=0.8, towards=towards, invariant=True).to_numpy()
        stayed = values == np.repeat(np.arange(5), counts)
        assert stayed.mean() > 0.8
        # As many come as go, each a fifth or fewer: four standard errors, and the steps again.
        apart = np.abs(np.bincount(values, minlength=5) - counts)
        assert (apart <= 4 * np.sqrt(2 * 0.2 * counts) + 8).all()


@pytest.mark.parametrize("towards", ["equal", "marginal", "near"])
def test_values_are_exchanged_as_often_as_described(towards: str) -> None:
    true = np.repeat([0, 1, 2, 3], [20_000, 6000, 3000, 1000])
    data = dataset(true, kind="ordinal")
    matrix = np.array(noise_of(data, retention=0.7, towards=towards).matrix)
    made = released(data, retention=0.7, towards=towards).to_numpy()
    for level in range(4):
        some = made[true == level]
        stated = matrix[level] * len(some)
        counts = np.bincount(some, minlength=4)
        assert (counts[stated == 0] == 0).all()
        assert chisquare(counts[stated > 0], stated[stated > 0]).pvalue > 1e-3


def test_strata_have_marginals_of_their_own() -> None:
    frame = pl.DataFrame(
        {
            "id": [f"p{n}" for n in range(4000)],
            "sex": ["f", "m"] * 1500 + [None] * 1000,
            "x": (["a"] * 2 + ["b", "a", "b", "b"]) * 500 + ["a", "b"] * 500,
        }
    )
    frame = frame.with_columns(
        x=pl.when(pl.col("sex") == "f").then(pl.lit("a")).otherwise(pl.col("x"))
    )
    frame[0, "x"] = "b"
    schema = sf.Schema({"id": "direct", "sex": "quasi", "x": "quasi"})
    data = sf.Dataset(frame, schema)
    noise = noise_of(data, retention=0.8, towards="marginal", invariant=True, strata=["sex"])
    assert [one["where"] for one in noise.strata] == [{"sex": None}, {"sex": "f"}, {"sex": "m"}]
    by_sex = {one["where"]["sex"]: np.array(one["matrix"]) for one in noise.strata}
    assert by_sex["f"][0, 0] > 0.99
    assert by_sex["f"][1, 1] == 0.8
    assert by_sex["m"][0, 0] < 0.95
    made = released(data, retention=0.8, towards="marginal", invariant=True, strata=["sex"])
    women = made.filter(frame["sex"] == "f")
    # One woman has it; the count behind the matrix is a few steps of ten off.
    assert (women == "b").sum() <= 8


def test_small_strata_are_refused_since_their_matrix_would_tell() -> None:
    frame = pl.DataFrame({"g": ["a"] * 50 + ["b"] * 9, "x": ["y", "n"] * 29 + ["y"]})
    data = sf.Dataset(frame, sf.Schema({"g": "quasi", "x": "quasi"}))
    with pytest.raises(sf.SfumatoError, match="1 of 2 strata"):
        released(data, retention=0.8, invariant=True, strata=["g"])
    with pytest.raises(sf.SfumatoError, match="fewer than 10"):
        released(dataset(["y", "n", *[None] * 20]), retention=0.8, towards="marginal")
    assert len(released(dataset(["y", "n"]), retention=0.8)) == 2


def test_a_given_matrix_by_levels_and_in_order() -> None:
    data = dataset(["f", "m"] * 500, domain=("m", "f"))
    rows = {"f": {"f": 0.9, "m": 0.1}, "m": {"m": 1}}
    noise = noise_of(data, matrix={"x": rows})
    assert (noise.levels, noise.matrix) == (["m", "f"], [[1.0, 0.0], [0.1, 0.9]])
    made = released(data, matrix={"x": rows})
    assert made.equals(released(data, matrix={"x": [[1, 0], [0.1, 0.9]]}))
    assert (made.gather_every(2, 1) == "m").all()
    rows_of_truth = {True: {True: 0.5, False: 0.5}, False: {False: 1}}
    truth = noise_of(dataset([True, False] * 9), matrix={"x": rows_of_truth})
    assert truth.matrix == [[1.0, 0.0], [0.5, 0.5]]


def test_a_given_matrix_can_be_made_invariant() -> None:
    data = dataset(["a"] * 900 + ["b"] * 100)
    rows = {"a": {"a": 0.8, "b": 0.2}, "b": {"a": 0.1, "b": 0.9}}
    matrix = np.array(noise_of(data, matrix={"x": rows}, invariant=True).matrix)
    # The shares behind it are those of noised counts.
    np.testing.assert_allclose([0.9, 0.1] @ matrix, [0.9, 0.1], atol=0.005)
    assert matrix[1].tolist() == [0.1, 0.9]


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"retention": 1.0},
        {"retention": -0.1},
        {"retention": 0.4},
        {"retention": {"y": 0.8}},
        {"retention": 0.8, "strata": ["x"], "invariant": True},
        {"retention": 0.8, "strata": ["id"]},
        {"matrix": {"x": [[0.9, 0.1], [0.1, 0.9]]}},
        {"matrix": {"x": {"a": {"a": 1}}}},
        {"matrix": {"x": {"a": {"a": 0.5, "b": 0.4}, "b": {"b": 1}}}},
        {"matrix": {"x": {"a": {"a": 1}, "b": {"b": 1}}}},
        {"matrix": {"x": {"a": {"b": 1}, "b": {"a": 1}}}},
        {"matrix": {"x": {"a": {"a": 0.5, "c": 0.5}, "b": {"b": 1}}}},
        {"matrix": {"x": {1: {"a": 1}, "1": {"b": 1}}}},
        {"matrix": {"x": {"a": {"a": 0.9, "b": 0.1}, "b": {"b": 1}}}, "retention": 0.95},
        {"matrix": {"y": {"a": {"a": 0.9, "b": 0.1}, "b": {"b": 1}}}},
    ],
    ids=str,
)
def test_nonsense_is_refused(told: dict[str, Any]) -> None:
    with pytest.raises(sf.SfumatoError):
        released(dataset(["a", "b"] * 20), **told)


def test_lists_must_be_square() -> None:
    for rows in ([[1.0]], [[0.5, 0.5]], [[0.5, 0.5], [1.0]]):
        with pytest.raises(sf.SfumatoError, match="each of its 2 levels"):
            released(dataset(["a", "b"], domain=("a", "b")), matrix={"x": rows})


def test_neighbours_need_an_order() -> None:
    with pytest.raises(sf.SfumatoError, match="no order"):
        released(dataset(["a", "b", "c"]), retention=0.8, towards="near")
    assert len(released(dataset([True, False]), retention=0.8, towards="near")) == 2


def test_one_level_is_refused_without_naming_it() -> None:
    data = dataset(["secret"] * 20)
    for told in ({}, {"invariant": True}):
        with pytest.raises(sf.SfumatoError, match="one level") as error:
            released(data, retention=0.8, **told)
        assert "secret" not in str(error.value)
    declared = dataset(["secret"] * 20, domain=("secret", "other"))
    with pytest.raises(sf.SfumatoError, match="one level only"):
        released(declared, retention=0.8, invariant=True)
    assert set(released(declared, retention=0.6)) == {"secret", "other"}


def test_levels_that_few_records_have_are_declared_before_they_are_published() -> None:
    few, enough = ["a"] * 30 + ["b"] * 9, ["a"] * 30 + ["b"] * 10
    with pytest.raises(sf.SfumatoError, match="1 levels that fewer than 10 records"):
        noise_of(dataset(few), retention=0.8)
    assert noise_of(dataset(enough), retention=0.8).levels == ["a", "b"]
    assert noise_of(dataset(few, domain=("a", "b", "c")), retention=0.8).levels == ["a", "b", "c"]
    # A truth value has two levels whatever the data hold, and a matrix by levels names them itself.
    assert noise_of(dataset([True] * 30 + [False]), retention=0.8).levels == [False, True]
    rows = {"a": {"a": 0.9, "b": 0.1}, "b": {"b": 1}}
    assert noise_of(dataset(few), matrix={"x": rows}).levels == ["a", "b"]
    assert len(released(dataset(few), retention=0.8)) == 39


def test_the_manifest_says_how_frequencies_were_noised() -> None:
    data = dataset(["a", "b"] * 50)
    engine = sf.engines.engine_for(data.frame)
    for told, published in (
        ({"towards": "marginal"}, True),
        ({"invariant": True, "fewest": 20}, True),
        ({}, False),
    ):
        method = sf.methods.Misclassify(variables=["x"], retention=0.8, **told)
        public = method.public(method.fit(data, engine))
        assert ("frequencies" in public) == published
        if published:
            assert public["frequencies"]["step"] == told.get("fewest", 10)


def test_the_matrix_that_is_published_is_the_one_that_was_used() -> None:
    """Under a key whose noise is large, the released values still follow the published matrix."""
    true = np.repeat([0, 1, 2], [6000, 3000, 1000])
    data = dataset(true, kind="ordinal", domain=(0, 1, 2))
    settings = {"retention": 0.7, "towards": "marginal", "fewest": 500}
    matrix = np.array(noise_of(data, **settings).matrix)
    # By the exact frequencies it would be 0.3 * 3000 / 4000.
    assert abs(matrix[0, 1] - 0.225) > 0.005
    values = released(data, **settings).to_numpy()
    for level in range(3):
        some = values[true == level]
        assert chisquare(np.bincount(some, minlength=3), matrix[level] * len(some)).pvalue > 1e-3


def test_a_model_is_recovered_with_the_published_matrix() -> None:
    """The noise of the counts is in the matrix and in the data alike, so it biases nothing."""
    errors = []
    for seed in range(8):
        random = np.random.default_rng(seed)
        x = random.choice(["a", "b"], p=[0.7, 0.3], size=2000)
        outcome = 1 + 2 * (x == "b") + random.normal(size=2000)
        kind = sf.Column(role="quasi", kind="nominal", domain=("a", "b"))
        schema = sf.Schema({"x": kind, "y": sf.Column(role="sensitive", kind="continuous")})
        step = sf.methods.Misclassify(variables=["x"], retention=0.75, invariant=True, fewest=60)
        release = sf.protect(
            sf.Dataset(pl.DataFrame({"x": x, "y": outcome}), schema),
            sf.Plan(schema=schema, steps=[step]),
            key=seed.to_bytes(32, "big"),
        )
        found = sf.fit("y ~ x", release, method="moments").summary().loc["x[T.b]"]
        errors.append((found["mean"] - 2) / found["sd"])
    assert abs(np.mean(errors)) < 3 / np.sqrt(8)
    assert np.std(errors) < 2


def test_too_many_levels_are_refused() -> None:
    with pytest.raises(sf.SfumatoError, match="301 levels"):
        released(dataset([f"n{n}" for n in range(301)]), retention=0.8)


def test_missing_stays_missing_by_code_and_without() -> None:
    data = dataset([1, 2, -9, None] * 100, domain=(1, 2), missing=(-9,))
    made = released(data, retention=0.6)
    assert made.is_null().to_list() == [False, False, False, True] * 100
    assert (made.gather_every(4, 2) == -9).all()
    assert not (made.filter(pl.Series([True, True, False, False] * 100)) == -9).any()


def test_the_same_draws_in_every_plan_and_more_of_them_for_less_retention() -> None:
    data = dataset(["a", "b"] * 5000)
    method = sf.methods.Misclassify(variables=["x"], retention=0.6)
    once = method.apply(data, key=KEY)
    assert once.frame.equals(method.apply(data, key=KEY, step=2).frame)
    stayed = once.frame["x"] == data.frame["x"]
    other = released(data, retention=0.61) == data.frame["x"]
    # 0.6 = 0.61 r + 0.39 (1 - r): of the larger retention's result, a share r stays.
    again = (0.6 - 0.39) / (0.61 - 0.39)
    assert (stayed & other).mean() == pytest.approx(0.61 * again, abs=0.02)


def test_another_matrix_has_draws_of_its_own() -> None:
    data = dataset(["a", "b", "c"] * 4000)
    uneven = [[0.6, 0.4, 0.0], [0.2, 0.6, 0.2], [0.0, 0.4, 0.6]]
    matrix = {
        "x": dict(zip("abc", [dict(zip("abc", row, strict=True)) for row in uneven], strict=True))
    }
    stayed, other = (
        released(data, **how) == data.frame["x"] for how in ({"retention": 0.6}, {"matrix": matrix})
    )
    assert (stayed & other).mean() == pytest.approx(0.36, abs=0.03)


def test_one_more_record_mostly_leaves_the_draws_of_others() -> None:
    values = ["a"] * 3000 + ["b"] * 1000
    once = released(dataset(values), retention=0.7, invariant=True)
    again = released(dataset([*values, "a"]), retention=0.7, invariant=True)
    assert again[:4000].equals(once)


def test_types_are_kept() -> None:
    for values in (
        pl.Series(["a", "b"] * 10, dtype=pl.Enum(["b", "a"])),
        pl.Series(["a", "b"] * 10, dtype=pl.Categorical),
        pl.Series([1, 7] * 10, dtype=pl.UInt8),
        pl.Series([True, False] * 10),
        pl.Series([1.5, 2.0] * 10),
    ):
        assert released(dataset(values), retention=0.6).dtype == values.dtype


def test_an_empty_table_stays_empty() -> None:
    data = dataset(pl.Series([], dtype=pl.String), domain=("a", "b"))
    assert len(released(data, retention=0.8)) == 0


def test_a_matrix_by_frequencies_does_not_tell_that_all_of_a_stratum_are_alike() -> None:
    frame = pl.DataFrame({"sex": ["f"] * 30 + ["m"] * 30, "ill": ["a", "b", "c"] * 10 + ["a"] * 30})
    schema = sf.Schema(
        {
            "sex": sf.Column(role="quasi", kind="nominal"),
            "ill": sf.Column(role="sensitive", kind="nominal"),
        }
    )
    method = sf.methods.Misclassify(
        variables=["ill"], retention=0.8, towards="marginal", strata=["sex"]
    )
    with pytest.raises(sf.SfumatoError, match="one level only in a stratum"):
        method.apply(sf.Dataset(frame, schema), key=bytes(32))
