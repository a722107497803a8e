"""Clusters of records that lie in parts, anywhere: exactly those of one machine."""

from __future__ import annotations

import warnings
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.kernels.clustering.closeness import ClosenessRule
from sfumato.kernels.clustering.mondrian import mondrian
from sfumato.methods.clustering import distributed
from sfumato.testing.partitioned import PartitionedEngine

SCHEMA = sf.Schema(
    {
        "age": sf.Column(role="quasi", kind="integer"),
        "town": sf.Column(role="quasi", kind="nominal"),
        "score": sf.Column(role="quasi", kind="continuous"),
        "ill": sf.Column(role="sensitive", kind="nominal"),
        "cost": sf.Column(role="sensitive", kind="integer"),
    }
)


def make_table(seed: int, records: int) -> sf.Dataset:
    random = np.random.default_rng(seed)
    ages = pl.Series(random.integers(0, random.integers(2, 40), records))
    frame = pl.DataFrame(
        {
            "age": ages.set(pl.Series(random.random(records) < 0.1), None),
            "town": random.choice(list("uvwxyz"), records),
            "score": np.round(random.normal(size=records), 1),
            "part": pl.Series(["p", "q", None], dtype=pl.String).gather(
                random.choice(3, records, p=[0.7, 0.2, 0.1])
            ),
            "ill": random.choice(list("ABCD"), records),
            "cost": random.integers(0, 9, records),
        }
    )
    return sf.Dataset(frame, SCHEMA)


def release(method, data, engine=None):
    """The released frame, or why there is none."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            released = method.apply(data, key=bytes(32), engine=engine)
    except sf.SfumatoError as error:
        return str(error)
    told = sorted(str(warning.message) for warning in caught)
    shown = released.frame.select(pl.all().cast(pl.String))  # -0.0 is not 0.0
    return shown.to_dict(as_series=False), released.frame.schema, released.schema, told


def assert_same(method, data, *, seed=1, most=None):
    with patch.object(distributed, "MOST_ROWS", most or distributed.MOST_ROWS):
        assert release(method, data, PartitionedEngine(seed)) == release(method, data)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    records=st.integers(2, 120),
    most=st.integers(1, 30),
    k=st.integers(2, 6),
    names=st.lists(st.sampled_from(["age", "town", "score"]), min_size=1, max_size=3, unique=True),
    which=st.sampled_from(["k", "strata", "distinct", "entropy", "t"]),
    output=st.sampled_from(["range", "set", "mode"]),
)
def test_cuts_by_counts_are_those_of_the_kernel(seed, records, most, k, names, which, output):
    shared = {"variables": names, "k": k, "output": output}
    method = {
        "k": lambda: sf.methods.KAnonymity(**shared, clustering="mondrian"),
        "strata": lambda: sf.methods.KAnonymity(**shared, strata=["part"]),
        "distinct": lambda: sf.methods.LDiversity(**shared, confidential="ill", l=2),
        "entropy": lambda: sf.methods.LDiversity(**shared, confidential="ill", l=2, kind="entropy"),
        "t": lambda: sf.methods.TCloseness(**shared, confidential=["ill", "cost"], t=0.3),
    }[which]()
    assert_same(method, make_table(seed, records), seed=seed, most=most)


@pytest.mark.parametrize("output", ["value", "mean", "median", "middle", "balanced"])
def test_single_values_are_the_same(output):
    numbers = ["age", "score"] if output in ("mean", "median", "middle") else ["age", "town"]
    data = make_table(3, 90)
    for clustering in ("mondrian", "origin"):
        method = sf.methods.KAnonymity(variables=numbers, k=4, output=output, clustering=clustering)
        assert_same(method, data)
        complete = sf.Dataset(data.frame.drop_nulls(), SCHEMA)
        assert_same(method, complete, most=None if output == "balanced" else 20)


def test_skew_and_many_tiny_strata():
    random = np.random.default_rng(4)
    # One stratum with nearly all records, and hundreds of three.
    part = np.concatenate([np.zeros(1500, np.int64), np.repeat(np.arange(1, 301), 3)])
    frame = pl.DataFrame({"x": random.integers(0, 400, len(part)), "part": part})
    data = sf.Dataset(frame, sf.Schema({"x": "quasi"}))
    method = sf.methods.KAnonymity(variables=["x"], k=3, strata=["part"])
    assert_same(method, data, most=100)
    # Nearly all records the same, so that the few others must take some of them in.
    few = pl.DataFrame({"x": [7] * 400 + [7, 8] * 30 + [1, 2, 3], "y": [1] * 460 + [5, 1, 9]})
    data = sf.Dataset(few, sf.Schema({"x": "quasi", "y": "quasi"}))
    assert_same(sf.methods.KAnonymity(k=10), data, most=1)


def test_ten_thousand_categories():
    random = np.random.default_rng(5)
    frame = pl.DataFrame(
        {
            "code": pl.Series(random.integers(0, 10_000, 20_000)).cast(pl.String),
            "x": random.integers(0, 50, 20_000),
        }
    )
    schema = sf.Schema({"code": sf.Column(role="quasi", kind="nominal"), "x": "quasi"})
    assert_same(sf.methods.KAnonymity(k=50), sf.Dataset(frame, schema), most=4000)


def test_weighted_rows_are_so_many_records():
    random = np.random.default_rng(6)
    for _ in range(30):
        rows = np.unique(random.integers(0, 6, (25, 3)), axis=0)
        weights = random.integers(1, 9, len(rows))
        secret = random.integers(-1, 4, (len(rows), 1))
        rules = [
            [],
            [ClosenessRule("ordered", 0.3)],
            [ClosenessRule("equal", 0.4)],
            [ClosenessRule("entropy", 1.5)],
        ]
        options: dict[str, Any] = {
            "ordered": [True, False, True],
            "rules": rules[random.integers(4)],
        }
        single = np.repeat(np.arange(len(rows)), weights)
        try:
            order, starts = mondrian(rows[single], 3, sensitive=secret[single], **options)
        except ValueError:
            continue
        classes = {frozenset(single[part].tolist()) for part in np.split(order, starts[1:-1])}
        order, starts = mondrian(rows, 3, sensitive=secret, weights=weights, **options)
        assert classes == {frozenset(part.tolist()) for part in np.split(order, starts[1:-1])}
