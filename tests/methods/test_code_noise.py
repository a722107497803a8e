"""Noise on codes: the distribution it states, every type of category, nothing given away."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest, norm

import sfumato as sf
from sfumato.cells.codes import encode_levels, find_levels
from sfumato.noise import description as described
from sfumato.schema import Column, Kind

KEY = bytes(range(32))
WEALTH = ("poor", "middling", "rich", "very rich")


def dataset(values: Any, kind: Kind = "ordinal", **told: Any) -> sf.Dataset:
    frame = pl.DataFrame({"id": [f"p{n}" for n in range(len(values))], "x": values})
    column = sf.Column(role="quasi", kind=kind, **told)
    return sf.Dataset(frame, sf.Schema({"id": "direct", "x": column}))


def noisy(data: sf.Dataset, **told: Any) -> pl.Series:
    made: sf.Dataset = sf.methods.NoisyCodes(variables=["x"], **told).apply(data, key=KEY)
    return made.column("x")


def many(level: str, records: int = 40_000) -> sf.Dataset:
    return dataset([level] * records, domain=WEALTH)


def test_free_noise_has_the_stated_distribution() -> None:
    noise = noisy(many("middling"), variance=0.5, ends="free").to_numpy() - 1
    assert kstest(noise, norm(scale=0.5**0.5).cdf).pvalue > 0.001
    # Four standard errors of a variance.
    assert noise.var() == pytest.approx(0.5, rel=4 * (2 / 40_000) ** 0.5)


@pytest.mark.parametrize("level", WEALTH)
def test_clipped_noise_piles_up_at_the_ends_as_stated(level: str) -> None:
    made = noisy(many(level), variance=0.5).to_numpy()
    at, sd = WEALTH.index(level), 0.5**0.5
    assert made.min() >= 0
    assert made.max() <= 3
    for share, stated in (
        ((made == 0).mean(), norm.cdf((0 - at) / sd)),
        ((made == 3).mean(), norm.sf((3 - at) / sd)),
    ):
        assert share == pytest.approx(stated, abs=4 * (stated * (1 - stated) / 40_000) ** 0.5)


@pytest.mark.parametrize("level", WEALTH)
def test_rounded_noise_has_the_likelihood_of_the_appendix(level: str) -> None:
    variances = [0.3, 0.8, 0.5, 0.2]
    made = noisy(many(level), variance={"x": variances}, ends="round")
    at = WEALTH.index(level)
    sd = variances[at] ** 0.5
    edges = np.array([-np.inf, 0.5, 1.5, 2.5, np.inf])
    stated = np.diff(norm.cdf((edges - at) / sd)) * len(made)
    counts = np.array([(made == one).sum() for one in WEALTH])
    assert stated.sum() == pytest.approx(len(made))
    few = stated < 5
    assert counts[few].sum() <= 20
    assert (
        chisquare(counts[~few], stated[~few] * counts[~few].sum() / stated[~few].sum()).pvalue
        > 1e-3
    )


def test_codes_are_the_levels_where_these_count() -> None:
    data = dataset([3, 4, 5] * 50, kind="integer", domain=(3, 5))
    made = noisy(data, variance=0.01, ends="free")
    assert (made - data.column("x")).abs().max() < 0.6  # type: ignore[operator]
    assert noisy(data, variance=4).min() == 3


def test_the_last_digits_tell_nothing() -> None:
    made = noisy(many("poor", 1000), variance=0.3, ends="free").to_numpy()
    assert (made == made.round(3)).all()


def test_the_same_noise_however_the_ends_are_treated() -> None:
    data = dataset([*WEALTH] * 200, domain=WEALTH)
    free = noisy(data, variance=0.5, ends="free")
    assert noisy(data, variance=0.5).equals(free.clip(0, 3))
    codes = (free + 0.5).floor().clip(0, 3).cast(pl.Int64)
    assert noisy(data, variance=0.5, ends="round").to_list() == [WEALTH[at] for at in codes]


def test_more_variance_is_the_same_noise_and_independent_more() -> None:
    data = many("middling", 20_000)
    once = noisy(data, variance=0.5, ends="free").to_numpy()
    other = noisy(data, variance=0.6, ends="free").to_numpy()
    assert abs(np.corrcoef(once, other - once)[0, 1]) < 0.03
    assert (other - once).var() == pytest.approx(0.1, rel=0.05)


def test_the_place_of_the_step_does_not_matter() -> None:
    data = dataset([*WEALTH] * 20, domain=WEALTH)
    method = sf.methods.NoisyCodes(variables=["x"], variance=0.5)
    assert method.apply(data, key=KEY).frame.equals(method.apply(data, key=KEY, step=3).frame)


def test_missing_stays_missing_and_no_code_means_it_any_more() -> None:
    # The code for missing, 0, is also what the level 2 becomes.
    data = dataset([2.0, 0.0, 4.0, None] * 20, kind="nominal", domain=(2, 4), missing=(0.0,))
    after = sf.methods.NoisyCodes(variables=["x"], variance=0.5).apply(data, key=KEY)
    assert after.column("x").is_null().to_list() == [False, True, False, True] * 20
    assert (after.column("x") == 0).sum() > 5
    assert after.schema["x"].missing == ()
    kept = sf.methods.NoisyCodes(variables=["x"], variance=0.5, ends="round").apply(data, key=KEY)
    assert kept.frame["x"][1] == 0.0
    assert kept.schema["x"].missing == (0.0,)


def test_what_the_variable_is_afterwards() -> None:
    data = dataset([*WEALTH], domain=WEALTH)
    clip = sf.methods.NoisyCodes(variables=["x"], variance=0.5).apply(data, key=KEY).schema["x"]
    assert (clip.role, clip.kind, clip.domain) == ("quasi", "continuous", (0.0, 3.0))
    free = sf.methods.NoisyCodes(variables=["x"], variance=0.5, ends="free").apply(data, key=KEY)
    assert free.schema["x"].domain is None
    same = sf.methods.NoisyCodes(variables=["x"], variance=0.5, ends="round").apply(data, key=KEY)
    assert same.schema == data.schema


def test_it_is_described() -> None:
    data = dataset(["b", "a", None] * 10, kind="nominal")
    method = sf.methods.NoisyCodes(variables=["x"], variance={"x": [0.2, 0.3]}, ends="round")
    fitted = json.loads(json.dumps(method.fit(data, sf.engines.engine_for(data.frame))))
    told = method.describes(fitted, data.schema)
    assert told == {"x": sf.CodeNoise(variance=[0.2, 0.3], levels=["a", "b"], ends="round")}
    assert described.read_descriptions(described.write_descriptions(told)) == told
    assert method.public(fitted)["levels_as_they_occur"] == ["x"]


def test_a_release_tells_the_noise_and_no_key() -> None:
    data = dataset(["b", "a", None] * 20, kind="nominal", domain=("b", "a"))
    steps = [
        sf.methods.Drop(variables=["id"]),
        sf.methods.NoisyCodes(variables=["x"], variance=0.2),
    ]
    release = sf.protect(data, sf.Plan(schema=data.schema, steps=steps), key=KEY)
    told = json.loads(json.dumps(release.manifest))
    assert described.read_descriptions(told["noise"]) == {
        "x": sf.CodeNoise(variance=0.2, levels=["b", "a"], ends="clip")
    }
    assert KEY.hex() not in json.dumps(told)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (pl.Series([True, False, None]), {"kind": "nominal"}),
        (pl.Series([3, 1, None], dtype=pl.Int8), {"kind": "nominal"}),
        (pl.Series([3.0, 1.0, None]), {"kind": "nominal", "domain": (1, 2, 3)}),
        (pl.Series([3, 1, None], dtype=pl.UInt16), {"kind": "integer", "domain": (0, 4)}),
        (pl.Series(["a", "c", None], dtype=pl.Enum(["c", "b", "a"])), {"kind": "nominal"}),
        (pl.Series(["a", "b", None], dtype=pl.Categorical), {"kind": "nominal"}),
        (pl.Series(["", "ü;*", None]), {"kind": "nominal"}),
        (pl.Series([0.5, 1.5, None]), {"kind": "ordinal", "domain": (1.5, 0.5)}),
    ],
    ids=lambda one: str(one.dtype) if isinstance(one, pl.Series) else "",
)
def test_categories_of_every_type_keep_it_when_rounded(values: pl.Series, told: Any) -> None:
    data = dataset(pl.concat([values] * 30), **told)
    after = sf.methods.NoisyCodes(variables=["x"], variance=0.4, ends="round").apply(data, key=KEY)
    assert after.frame["x"].dtype == values.dtype
    assert after.frame["x"].is_null().equals(data.frame["x"].is_null())
    moved = (after.frame["x"].cast(pl.String) != data.frame["x"].cast(pl.String)).mean()
    assert 0.02 < moved < 0.9
    assert noisy(data, variance=0.4).dtype == pl.Float64


def test_categories_of_other_libraries_keep_their_type() -> None:
    values = ["b", "a", None, "b"] * 10
    frame = pd.DataFrame({"x": pd.Categorical(values, categories=["b", "a", "c"], ordered=True)})
    schema = sf.Schema({"x": sf.Column(role="quasi", kind="ordinal", domain=("b", "a", "c"))})
    method = sf.methods.NoisyCodes(variables=["x"], variance=0.5, ends="round")
    after = method.apply(sf.Dataset(frame, schema), key=KEY).frame
    assert after["x"].dtype == frame["x"].dtype
    table = pa.table({"x": pa.array(values).dictionary_encode()})
    made = method.apply(sf.Dataset(table, schema), key=KEY).frame
    assert made["x"].type == table["x"].type
    assert (
        made["x"].to_pylist() == after["x"].astype(object).where(after["x"].notna(), None).tolist()
    )


@pytest.mark.parametrize(
    ("values", "told", "what"),
    [
        (["secret"] * 3, {"kind": "nominal"}, "one level at most"),
        ([None] * 3, {"kind": "nominal"}, "one level at most"),
        ([1.5, 2.5], {"kind": "continuous"}, "is declared continuous"),
        (["secret", "b"], {"kind": "text"}, "is declared text"),
        (["secret", "b"], {"kind": "ordinal", "domain": ("a", "b")}, "none of its levels"),
        (["*", "b"], {"kind": "nominal", "cells": "generalised"}, "suppressed"),
        (["secret", "b"], {"kind": "ordinal"}, "in which order"),
        ([1, 2], {"kind": "integer", "domain": (0, 5_000_000)}, "more than 10000 whole numbers"),
        (["a", "b"] * 6000 + [f"n{n}" for n in range(10_000)], {"kind": "nominal"}, "10002 levels"),
        ([1, 2], {"kind": "nominal", "domain": ("one", "two")}, "another type"),
        ([1, 2], {"kind": "nominal", "domain": (1, 2.5)}, "another type"),
        ([True, False], {"kind": "nominal", "domain": ("no", "yes")}, "another type"),
        (pl.Series([1, 2]).cast(pl.Date), {"kind": "nominal"}, "holds dates"),
        (pl.Series([b"secret", b"b"]), {"kind": "nominal"}, "holds bytes"),
    ],
)
def test_what_is_no_category_is_refused(values: Any, told: dict[str, Any], what: str) -> None:
    with pytest.raises(sf.SfumatoError, match=what) as error:
        noisy(dataset(values, **told), variance=1)
    assert "'x'" in str(error.value)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    "variance", [0, -1, float("nan"), float("inf"), [0.1], [], {}, {"y": 1}, {"x": [1.0]}, {"x": 0}]
)
def test_variances_that_make_no_sense_are_refused(variance: Any) -> None:
    with pytest.raises(sf.SfumatoError):
        noisy(dataset([*WEALTH], domain=WEALTH), variance=variance)


def test_declared_levels_that_nobody_has_may_be_released() -> None:
    made = noisy(dataset(["poor"] * 500, domain=WEALTH), variance=1, ends="round")
    assert set(made) >= {"poor", "middling", "rich"}


def test_an_empty_table_stays_empty() -> None:
    assert len(noisy(dataset(pl.Series([], dtype=pl.String), domain=WEALTH), variance=1)) == 0


@given(st.lists(st.one_of(st.none(), st.sampled_from([True, False])), min_size=1))
def test_places_are_found(values: list[bool | None]) -> None:
    made = encode_levels(pl.Series("x", values, dtype=pl.Boolean), [False, True])
    assert made.tolist() == [-1 if one is None else int(one) for one in values]


@given(st.lists(st.one_of(st.none(), st.integers(-(2**62), 2**62)), min_size=1, max_size=30))
def test_large_whole_numbers_are_not_mixed_up(values: list[int | None]) -> None:
    found = pl.DataFrame({"x": pl.Series(values, dtype=pl.Int64)})
    known = sorted({one for one in values if one is not None})
    if len(known) > 1:
        counted = sf.engines.Combinations(found, np.ones(len(values), np.int64))
        levels, declared = find_levels("x", Column(kind="nominal"), counted, most=100, ordered=True)
        assert (levels, declared) == (known, False)
        at = encode_levels(found["x"], levels).tolist()
        assert [None if one < 0 else levels[one] for one in at] == values
