"""Survey weights on a few levels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato import catalogue
from sfumato.engines import engine_for
from sfumato.errors import SfumatoError
from sfumato.methods.weights import Weights

KEY = bytes(range(32))


def _data(weights: Sequence[float | None], domains: list[str] | None = None) -> sf.Dataset:
    frame = pl.DataFrame({"w": pl.Series(weights, dtype=pl.Float64)})
    roles: dict[str, Any] = {"w": "weight"}
    if domains is not None:
        frame, roles = frame.with_columns(d=pl.Series(domains)), {**roles, "d": "other"}
    return sf.Dataset(frame, sf.Schema(roles))


@given(
    st.lists(st.floats(0.5, 900), min_size=1, max_size=60),
    st.integers(2, 8),
    st.integers(0, 1000),
)
def test_each_weight_goes_to_a_level_beside_it(
    weights: list[float], levels: int, seed: int
) -> None:
    domains = [str(value) for value in np.random.default_rng(seed).integers(0, 3, len(weights))]
    data = _data(weights, domains)
    method = Weights(levels=levels, domains=["d"])
    released = method.apply(data, key=KEY).frame["w"].to_numpy()
    allowed = np.array(method.fit(data, engine_for(data.frame))["w"]["levels"])
    assert len(allowed) <= levels
    assert set(released) <= set(allowed)
    cut = np.clip(weights, allowed[0], allowed[-1])
    below = allowed[np.searchsorted(allowed, cut, side="right") - 1]
    above = allowed[np.searchsorted(allowed, cut, side="left")]
    assert ((released == below) | (released == above)).all()
    # Within a domain and between two levels, the total is off by less than their distance.
    for domain in set(domains):
        inside = np.array(domains) == domain
        gap = np.diff(allowed).sum() if len(allowed) > 1 else 0.0
        assert abs(released[inside].sum() - cut[inside].sum()) <= gap + 1e-9


def test_rounding_is_unbiased_for_every_record() -> None:
    weights = [1.0, 1.3, 1.5, 1.9, 2.0, 2.2, 2.7, 3.0]
    total = np.zeros(len(weights))
    runs = 400
    data = _data(weights)
    for run in range(runs):
        key = run.to_bytes(32, "big")
        total += Weights(levels=3).apply(data, key=key).frame["w"].to_numpy()
    # Levels are about 1, 2 and 3: the standard error of a mean is at most 0.5 / 20.
    inner = slice(1, -1)
    assert np.abs(total / runs - weights)[inner].max() < 0.1


def test_a_fingerprint_is_gone_and_estimates_stay() -> None:
    cohort = sf.Dataset(sf.datasets.cohort(5000), sf.datasets.cohort_schema())
    released = Weights(domains=["region"]).apply(cohort, key=KEY)
    ledger = catalogue.measure("untouched")().measure(cohort, released)
    row = ledger.table.row(by_predicate=pl.col("variable") == "survey_weight", named=True)
    assert row["distinct"] <= 6
    assert row["fingerprint"] == 0
    change = catalogue.measure("weighted_estimates")().measure(cohort, released)
    assert change.value < 1
    assert change.details["total_change"] < 0.005


def test_the_same_key_rounds_the_same_way_in_another_plan() -> None:
    data = _data([1.0, 1.4, 1.6, 2.9, 2.2, 2.7, 1.1, 1.8] * 5, None)
    first = Weights(levels=3).apply(data, key=KEY, step=0)
    later = Weights(levels=3).apply(data, key=KEY, step=3)
    assert first.frame.equals(later.frame)


@pytest.mark.parametrize(
    ("weights", "match"),
    [([0.0, 1.0], "0 or below"), ([-1.0, 2.0], "0 or below"), ([None, None], "no weights")],
)
def test_what_is_no_weight_is_refused(weights: list[float | None], match: str) -> None:
    with pytest.raises(SfumatoError, match=match):
        Weights().apply(_data(weights), key=KEY)


def test_missing_weights_stay_missing_and_one_value_stays_one() -> None:
    released = Weights().apply(_data([2.0, None, 2.0]), key=KEY).frame["w"]
    assert released.to_list() == [2.0, None, 2.0]
