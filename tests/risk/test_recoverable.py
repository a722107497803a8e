"""Unchanged variables that give protected ones back."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.risk.dependencies.filling_in import fill_in
from sfumato.risk.dependencies.rules import SAME, Finding, _agree_by_chance
from sfumato.risk.recoverable import Recoverable

RNG = np.random.default_rng(20)
SIZE = 600


def _frame() -> pl.DataFrame:
    region = RNG.choice(list("abcdef"), SIZE)
    size = RNG.integers(1, 7, SIZE)
    area = {
        pair: 1 + index * 0.37
        for index, pair in enumerate(itertools.product("abcdef", range(1, 7)))
    }
    population = RNG.lognormal(8, 1, SIZE).round(1)
    first, second = RNG.normal(50, 10, (2, SIZE)).round(2)
    return pl.DataFrame(
        {
            "region": region,
            "size": size,
            "population": population,
            "part": first,
            "dose": RNG.lognormal(2, 1, SIZE).round(3),
            "weight": [area[str(r), int(s)] for r, s in zip(region, size, strict=True)],
            "log_population": np.log(population),
            "other_part": second,
            "total": first + second,
            "kilos": RNG.normal(80, 10, SIZE).round(1),
        }
    ).with_columns(per_kilo=pl.col("dose") / pl.col("kilos"))


PROTECTED = ("region", "size", "population", "part", "dose")


def _pair(frame: pl.DataFrame, without: tuple[str, ...] = ()) -> tuple[sf.Dataset, sf.Dataset]:
    roles: dict[str, Any] = {
        name: "quasi" if name in PROTECTED else "weight" if name == "weight" else "other"
        for name in frame.columns
    }
    schema = sf.Schema(roles)
    hidden = frame.with_columns(pl.lit("*").alias(name) for name in PROTECTED)
    return sf.Dataset(frame, schema), sf.Dataset(hidden.drop(without), schema.without(without))


@pytest.mark.parametrize(
    ("protected", "tools", "rule"),
    [
        ("region", "weight", "same value"),
        ("size", "weight", "same value"),
        ("population", "log_population", "rising or falling"),
        ("part", "other_part, total", "sum or difference"),
        ("dose", "kilos, per_kilo", "product or ratio"),
    ],
)
def test_what_each_tool_gives_back(protected: str, tools: str, rule: str) -> None:
    evidence = Recoverable().measure(*_pair(_frame()))
    row = evidence.table.row(by_predicate=pl.col("variable") == protected, named=True)
    assert row["recoverable"] > 0.97
    assert (row["tools"], row["rule"]) == (tools, rule)
    assert any(f"'{protected}'" in warning for warning in evidence.warnings)


def test_nothing_comes_back_without_the_tools() -> None:
    tools = ("weight", "log_population", "total", "per_kilo")
    evidence = Recoverable().measure(*_pair(_frame(), tools))
    assert evidence.value == 0
    assert evidence.warnings == ()
    assert evidence.details["recoverable_records"] == 0


def test_a_rule_that_most_records_obey_counts() -> None:
    frame = _frame()
    broken = np.where(np.arange(SIZE) % 5 == 0, RNG.normal(100, 20, SIZE), frame["total"])
    evidence = Recoverable(variables=["part"]).measure(*_pair(frame.with_columns(total=broken)))
    assert 0.75 < evidence.value < 0.85


def test_independent_variables_are_not_called_recoverable() -> None:
    # 40 tools and 20 pairs a tool: chance alone must not raise an alarm.
    chance = np.random.default_rng(3)
    columns = {f"o{index}": chance.integers(0, 12, 300) for index in range(40)}
    frame = pl.DataFrame({"sex": chance.choice(["f", "m"], 300), **columns})
    roles: dict[str, Any] = {"sex": "quasi"} | dict.fromkeys(columns, "other")
    schema = sf.Schema(roles)
    hidden = frame.with_columns(sex=pl.lit("*"))
    evidence = Recoverable().measure(sf.Dataset(frame, schema), sf.Dataset(hidden, schema))
    assert evidence.value == 0


def test_only_changed_cells_count() -> None:
    frame = _frame()
    original, _ = _pair(frame)
    half = frame.with_columns(
        region=pl.when(pl.int_range(SIZE) % 2 == 0).then(pl.lit("*")).otherwise(pl.col("region"))
    )
    evidence = Recoverable(variables=["region"]).measure(
        original, sf.Dataset(half, original.schema)
    )
    assert evidence.details["recovered"] == 1
    assert evidence.details["recoverable_records"] == SIZE // 2


def test_a_dropped_variable_can_come_back() -> None:
    frame = _frame()
    original, _ = _pair(frame)
    without = sf.Dataset(frame.drop("region"), original.schema.without(["region"]))
    assert Recoverable(variables=["region"]).measure(original, without).value == 1


def test_filling_in_takes_k_down_to_what_an_attacker_sees() -> None:
    frame = _frame().select("region", "size", "weight")
    schema = sf.Schema({"region": "quasi", "size": "quasi", "weight": "weight"})
    data = sf.Dataset(frame.head(60), schema)
    released = sf.methods.KAnonymity(k=5).apply(data, key=bytes(32))
    filled = fill_in(data, released)
    assert filled is not None
    classes = Counter(filled.dataset.frame.select("region", "size").iter_rows())
    assert min(classes.values()) < 5


def test_who_shows_the_same_tools_is_not_told_apart_by_an_equation() -> None:
    # Each class of five shows one x, true for four of them. Whoever works y out from it gets one
    # number for all five, so that k stays what it is.
    shown = np.repeat(np.arange(80), 5)
    x = np.where(np.arange(400) % 5 == 4, shown + 3, shown)
    y = 2 * x + RNG.normal(0, 0.02, 400)
    schema = sf.Schema({"x": "quasi", "y": "quasi"})
    original = sf.Dataset(pl.DataFrame({"x": x, "y": y}), schema)
    released = sf.Dataset(pl.DataFrame({"x": shown, "y": 2.0 * shown + 0.9}), schema)
    filled = fill_in(original, released)
    assert filled is not None
    assert filled.describe() == "'y' from 'x'"
    classes = Counter(filled.dataset.frame.select("x", "y").iter_rows())
    assert min(classes.values()) == 5
    right = np.abs(filled.dataset.frame["y"].to_numpy() - y) < 0.5
    assert right.mean() > 0.75


def test_order_of_rows_does_not_matter() -> None:
    original, released = _pair(_frame())
    order = np.random.default_rng(1).permutation(SIZE)
    evidence = Recoverable().measure(original, released)
    again = Recoverable().measure(original.take(order), released.take(order))
    assert evidence.value == again.value
    assert evidence.table.equals(again.table)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=12, max_size=60),
)
def test_equal_values_against_a_slow_reference(pairs: list[tuple[int, int]]) -> None:
    frame = pl.DataFrame(pairs, schema=["tool", "secret"], orient="row")
    schema = sf.Schema({"tool": "other", "secret": "quasi"})
    hidden = frame.with_columns(secret=pl.lit("*"))
    evidence = Recoverable(pairs=False).measure(
        sf.Dataset(frame, schema), sf.Dataset(hidden, schema)
    )
    groups = defaultdict(list)
    for tool, secret in pairs:
        groups[tool].append(secret)
    hits = sum(
        len(groups[tool]) > 1 and groups[tool].count(secret) - 1 >= 0.8 * (len(groups[tool]) - 1)
        for tool, secret in pairs
    )
    # A weak rule is not named; a named one has exactly the hits counted one by one.
    if evidence.details["worst_rule"] == "same value":
        assert math.isclose(evidence.details["recovered"], hits / len(pairs))


def _filled_regions(groups: list[tuple[str, int]], **said: Any) -> list[str]:
    """What an attacker reads where all regions are hidden, and one weight goes with each group.

    Groups are (regions, how often), in their order one weight each: ("ab", 3) are six records with
    one weight, of which three live in "a". `said` is what he knows of the rule.
    """
    regions = [region for names, times in groups for region in names * times]
    weights = [float(at) for at, (names, times) in enumerate(groups) for _ in names * times]
    frame = pl.DataFrame({"region": regions, "weight": weights})
    schema = sf.Schema({"region": "quasi", "weight": "weight"})
    hidden = frame.with_columns(region=pl.lit("*"))
    known: dict[str, Any] = {
        "share": 0.4,
        "chance": 0.0,
        "deviations": 9.0,
        "precision": 1.0,
        **said,
    }
    finding = Finding("region", ("weight",), SAME, **known)
    filled = fill_in(sf.Dataset(frame, schema), sf.Dataset(hidden, schema), [finding])
    return ["*"] * len(frame) if filled is None else filled.dataset.frame["region"].to_list()


def test_a_rule_that_is_mostly_wrong_is_used_only_where_chance_is_excluded() -> None:
    groups = [("a", 2), ("b", 30), ("c", 1), ("ac", 40)]
    # Two equal values prove little, thirty much; one alone is the record itself.
    sure = ["*"] * 2 + ["b"] * 30 + ["*"] * 81
    assert _filled_regions(groups, precision=0.49) == sure
    assert _filled_regions(groups, precision=0.5) == ["a"] * 2 + ["b"] * 30 + ["*"] * 81


def test_a_rule_needs_nearly_all_of_a_group_and_a_gain() -> None:
    nearly = [("b" * 19 + "a", 1), ("b" * 18 + "aa", 1), ("abcd", 40)]
    assert _filled_regions(nearly) == ["b"] * 20 + ["*"] * 180
    assert _filled_regions(nearly, share=0.05) == ["b"] * 20 + ["*"] * 180
    assert _filled_regions(nearly, share=0.049) == ["*"] * 200


@pytest.mark.parametrize("sizes", [[2, 2], [3, 1, 2], [4, 6], [6]])
def test_what_agrees_by_chance_against_all_outcomes(sizes: list[int]) -> None:
    keys = np.repeat(np.arange(len(sizes)), sizes)
    target = np.arange(len(keys)) % 3 % 2
    shares = np.bincount(target) / len(target)
    mean = variance = 0.0
    for size in sizes:
        counted, chances = [], []
        for levels in itertools.product(range(len(shares)), repeat=size):
            # Of the others four in five must agree; who is alone has no others.
            alike = [levels.count(level) for level in levels]
            agree = [same - 1 >= 0.8 * (size - 1) - 1e-9 and size > 1 for same in alike]
            counted.append(sum(agree))
            chances.append(math.prod(shares[level] for level in levels))
        first = float(np.dot(counted, chances))
        mean += first
        variance += float(np.dot(np.square(counted), chances)) - first**2
    assert _agree_by_chance(keys, target) == pytest.approx((mean, math.sqrt(variance)))
