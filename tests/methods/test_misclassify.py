"""Exchanged categories: released as stated, refused where a matrix makes no sense."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import chisquare

import sfumato as sf
from sfumato.cells.noise import description as described

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
    fitted = json.loads(json.dumps(method.fit(data, sf.engines.engine_for(data.frame))))
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
        data = dataset(np.repeat(np.arange(5), counts), kind="ordinal")
        noise = noise_of(data, retention=0.8, towards=towards, invariant=True)
        matrix = np.array(noise.matrix)
        assert (np.diagonal(matrix) >= 0.8).all()
        np.testing.assert_allclose(counts @ matrix, counts, rtol=2e-3)
        values = released(data, retention=0.8, towards=towards, invariant=True).to_numpy()
        stayed = values == np.repeat(np.arange(5), counts)
        assert stayed.mean() > 0.8
        assert np.bincount(values, minlength=5)[:3] == pytest.approx(counts[:3], rel=0.25)


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
    assert (women == "b").sum() <= 3


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
    np.testing.assert_allclose([0.9, 0.1] @ matrix, [0.9, 0.1])
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


def test_too_many_levels_are_refused() -> None:
    with pytest.raises(sf.SfumatoError, match="301 levels"):
        released(dataset([f"n{n}" for n in range(301)]), retention=0.8)


def test_missing_stays_missing_by_code_and_without() -> None:
    data = dataset([1, 2, -9, None] * 100, domain=(1, 2), missing=(-9,))
    made = released(data, retention=0.6)
    assert made.is_null().to_list() == [False, False, False, True] * 100
    assert (made.gather_every(4, 2) == -9).all()
    assert not (made.filter(pl.Series([True, True, False, False] * 100)) == -9).any()


def test_the_same_draws_in_every_plan_and_others_for_another_matrix() -> None:
    data = dataset(["a", "b"] * 5000)
    method = sf.methods.Misclassify(variables=["x"], retention=0.6)
    once = method.apply(data, key=KEY)
    assert once.frame.equals(method.apply(data, key=KEY, step=2).frame)
    stayed = once.frame["x"] == data.frame["x"]
    other = released(data, retention=0.61) == data.frame["x"]
    assert (stayed & other).mean() == pytest.approx(0.6 * 0.61, abs=0.03)


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
