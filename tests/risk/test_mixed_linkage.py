"""Linking by numbers, categories and ranges: against brute force, and on odd data."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import generalised

import sfumato as sf
from sfumato.errors import MeasureError
from sfumato.risk.attacks import attacker_view
from sfumato.risk.attacks.attacker_view import CategoricalView, OrderedView, view_release

KNOWN = ["sex", "region", "education", "children", "height"]


@pytest.fixture(scope="module")
def people() -> sf.Dataset:
    return sf.Dataset(sf.datasets.cohort(400), sf.datasets.cohort_schema())


def test_data_as_they_are_are_linked(people):
    found = sf.risk.MixedLinkage().measure(people, people)
    assert found.value == 1.0
    assert found.details["mixed_assigned"] == 1.0
    assert found.baseline == 1 / 400


def test_equal_persons_share_the_chance():
    frame = pl.DataFrame({"age": [30, 30, 40], "sex": ["f", "f", "m"]})
    data = sf.Dataset(frame, sf.Schema({"age": "quasi", "sex": "quasi"}))
    found = sf.risk.MixedLinkage().measure(data, data)
    assert found.records["linked"].to_list() == [0.5, 0.5, 1.0]
    assert found.details["mixed_assigned"] == pytest.approx(2 / 3)


def test_shuffled_columns_are_at_the_baseline(people):
    rng = np.random.default_rng(3)
    new = [people.frame[name].gather(rng.permutation(400)) for name in KNOWN]
    released = sf.Dataset(people.frame.with_columns(new), people.schema)
    found = sf.risk.MixedLinkage(known=KNOWN).measure(people, released)
    assert found.interval[0] <= found.baseline


@pytest.mark.parametrize("k", [5, 20])
def test_k_anonymity_bounds_it(people, k):
    method = sf.methods.KAnonymity(variables=KNOWN, k=k, clustering="mondrian", output="range")
    found = sf.risk.MixedLinkage(known=KNOWN).measure(people, method.apply(people))
    assert found.value <= 1 / k
    assert found.records["linked"].max() <= 1 / k


def test_agrees_with_linkage_for_noised_numbers(people):
    variables = ["height", "systolic"]
    noise = sf.methods.Noise(variables=variables, variance_share=0.1)
    released = noise.apply(people, key=bytes(32))
    kept = people.take(people.column("height").is_not_null().arg_true().to_numpy())
    shown = released.take(people.column("height").is_not_null().arg_true().to_numpy())
    mixed = sf.risk.MixedLinkage(known=variables).measure(kept, shown)
    plain = sf.risk.Linkage(variables=variables).measure(kept, shown)
    assert mixed.value == pytest.approx(plain.value)
    # Of several assignments at the same total distance, each takes any.
    assert mixed.details["mixed_assigned"] == pytest.approx(plain.details["assigned"], abs=0.01)


cells = st.one_of(
    st.integers(0, 6).map(str),
    st.tuples(st.integers(0, 6), st.integers(0, 6)).map(lambda e: f"[{min(e)};{max(e)}]"),
    st.lists(st.integers(0, 6), min_size=2, max_size=3, unique=True).map(
        lambda e: "{" + ";".join(map(str, e)) + "}"
    ),
    st.just("*"),
)
levels = st.sampled_from(["a", "b", "c", "{a;b}", "*", None])
rows = st.tuples(st.integers(0, 6), st.sampled_from("abc"), cells, levels)


def stands_for(cell, domain):
    if cell in (None, "*"):
        return domain
    if cell.startswith("["):
        low, high = (int(end) for end in cell[1:-1].split(";"))
        return [low, high]
    if cell.startswith("{"):
        return [type(domain[0])(one) for one in cell[1:-1].split(";")]
    return [type(domain[0])(cell)]


def slow(table):
    """Every person against every record, by the definition."""
    ages, names = [row[0] for row in table], ["a", "b", "c"]
    ends = [min(ages), max(ages)]
    mean = sum(ages) / len(ages)
    variance = sum((age - mean) ** 2 for age in ages) / (len(ages) - 1) or 1.0

    def age_cost(age: int, cell: str) -> tuple[float, bool]:
        held = stands_for(cell, ends)
        if cell.startswith("{"):
            return sum((age - one) ** 2 for one in held) / len(held) / variance, age in held
        low, high = held[0], held[-1]
        square = (age - (low + high) / 2) ** 2 + (high - low) ** 2 / 12
        return square / variance, cell == "*" or low <= age <= high

    def town_cost(town: str, cell: str | None) -> tuple[float, bool]:
        held = [one for one in stands_for(cell, names) if one in names]
        return (1 - 1 / len(held), True) if town in held else (1.0, False)

    truthful = [
        all(age_cost(row[0], row[2])[1] for row in table),
        all(town_cost(row[1], row[3])[1] for row in table),
    ]
    found = []
    for own, (age, town, _, _) in enumerate(table):
        costs = []
        for _, _, cell, level in table:
            parts = [age_cost(age, cell), town_cost(town, level)]
            costs.append(
                sum(
                    cost + (1e6 if strict and not fits else 0)
                    for (cost, fits), strict in zip(parts, truthful, strict=True)
                )
            )
        least = min(costs)
        ties = sum(cost <= least + 1e-9 * (1 + least) for cost in costs)
        found.append(1 / ties if costs[own] <= least + 1e-9 * (1 + least) else 0.0)
    return found


@settings(max_examples=60)
@given(st.lists(rows, min_size=3, max_size=12))
def test_the_same_as_the_slow_way(table):
    schema = sf.Schema(
        {
            "age": sf.Column(role="quasi", kind="integer"),
            "town": sf.Column(role="quasi", kind="nominal", domain=("a", "b", "c")),
        }
    )
    original = sf.Dataset(
        pl.DataFrame({"age": [row[0] for row in table], "town": [row[1] for row in table]}), schema
    )
    shown = pl.DataFrame(
        {"age": [row[2] for row in table], "town": [row[3] for row in table]},
        schema={"age": pl.String, "town": pl.String},
    )
    if shown["town"].null_count() == len(table):
        return
    found = sf.risk.MixedLinkage().measure(original, generalised(shown, schema))
    assert found.records["linked"].to_list() == pytest.approx(slow(table))


def test_sights_read_by_kind(people):
    seen, _ = view_release(
        people, people, ["height", "birth_date", "education", "sex"], owner="test"
    )
    assert [type(one) for one in seen] == [OrderedView, OrderedView, OrderedView, CategoricalView]
    assert all(one.truthful for one in seen)


def test_missing_persons_and_missing_cells():
    schema = sf.Schema({"age": "quasi", "sex": "quasi"})
    frame = pl.DataFrame({"age": [30.0, None, 50.0], "sex": ["f", "f", None]})
    data = sf.Dataset(frame, schema)
    found = sf.risk.MixedLinkage().measure(data, data)
    assert math.isfinite(found.value)
    # The first person's own record shows all of it; a missing cell could be anything.
    assert found.records["linked"][0] == 1.0


def test_pseudonyms_link_nobody_and_are_told():
    schema = sf.Schema({"age": "quasi", "town": "quasi"})
    frame = pl.DataFrame({"age": [30, 40, 50], "town": ["a", "b", "c"]})
    shown = sf.Dataset(frame.with_columns(town=pl.Series(["x1", "y2", "z3"])), schema)
    found = sf.risk.MixedLinkage().measure(sf.Dataset(frame, schema), shown)
    assert any("town" in line for line in found.warnings)
    assert found.details["variables"] == ("age",)
    with pytest.raises(MeasureError, match="nothing to compare"):
        sf.risk.MixedLinkage(known=["town"]).measure(sf.Dataset(frame, schema), shown)


def test_few_individuals_are_picked_whatever_the_order(people):
    order = np.random.default_rng(5).permutation(400)
    turned = people.take(order)
    one = sf.risk.MixedLinkage(known=KNOWN, individuals=50)
    found, again = one.measure(people, people), one.measure(turned, turned)
    assert found.plain() == again.plain()
    assert found.details["targets"] == 50
    assert math.isnan(found.details["mixed_assigned"])
    assert "easier to tell apart" in found.details["mixed_assigned_reason"]
    assert found.records["linked"].null_count() == 350


@pytest.mark.parametrize("factor", [1e300, 1e308, 1e160, 1e-300, 1e-170, 5e-321])
@pytest.mark.parametrize("shape", ["values", "ranges"])
def test_huge_and_tiny_numbers_are_linked_as_others_are(factor, shape):
    random = np.random.default_rng(0)
    original = random.random((60, 2))
    released = np.clip(original + random.normal(size=(60, 2)) * 0.05, 0, 1)
    schema = sf.Schema(dict.fromkeys("xy", sf.Column(role="quasi", kind="continuous")))

    def build(values, scale):
        x = values[:, 0] * scale - 0.5 * scale
        if shape == "ranges" and values is released:
            cells = [f"[{value!r};{max(value, 0.5 * scale)!r}]" for value in x.tolist()]
            return sf.Dataset(pl.DataFrame({"x": cells, "y": values[:, 1]}), schema)
        return sf.Dataset(pl.DataFrame({"x": x, "y": values[:, 1]}), schema)

    usual, odd = (
        sf.risk.MixedLinkage().measure(build(original, scale), build(released, scale))
        for scale in (1.0, factor)
    )
    # Five digits are left of the tiniest numbers, so a person or two may differ.
    assert odd.value == pytest.approx(usual.value, abs=0.05)
    by_noise = "mixed_linkage_by_noise"
    assert odd.details[by_noise] == pytest.approx(usual.details[by_noise], abs=0.05)


def test_a_sample_is_judged_at_the_upper_end():
    random = np.random.default_rng(0)
    frame = pl.DataFrame({"x": random.normal(size=300)})
    schema = sf.Schema({"x": "quasi"})
    other = pl.DataFrame({"x": random.normal(size=300)})
    pair = sf.Dataset(frame, schema), sf.Dataset(other, schema)
    some = sf.risk.MixedLinkage(individuals=50).measure(*pair)
    assert some.sampled == (50, 300)
    assert some.details["mixed_linkage_at_worst"] >= some.interval[1] > some.value
    every = sf.risk.MixedLinkage().measure(*pair)
    assert every.sampled is None
    assert every.details["mixed_linkage_at_worst"] == max(
        every.value, every.details["mixed_linkage_by_noise"]
    )


@pytest.mark.parametrize("steps", [[], [sf.methods.KAnonymity(k=3)]])
def test_distances_taken_once_a_class_are_those_of_each_record(steps, monkeypatch):
    """With and without the shortcut: the same bits."""
    data = sf.Dataset(sf.datasets.cohort(200), sf.datasets.cohort_schema())
    names = ["sex", "region", "height", "birth_date", "education"]
    released = data
    for step in steps:
        released = step.apply(data)
    views, _ = view_release(data, released, names, owner="a test")
    rows = np.arange(len(data))
    persons = [view.persons for view in views]
    for by_noise in (False, True):
        costs = []
        for share in (1.1, 0.0):
            monkeypatch.setattr(attacker_view, "_FEW_KINDS", share)
            parts = attacker_view.compute_costs(views, persons, rows, what="", by_noise=by_noise)
            costs.append(np.concatenate([cost for _, cost in parts]))
        assert (costs[0] == costs[1]).all()


def _see(values: np.ndarray, shown: np.ndarray) -> OrderedView:
    schema = sf.Schema({"x": sf.Column(role="quasi", kind="continuous")})
    original, released = (sf.Dataset(pl.DataFrame({"x": x}), schema) for x in (values, shown))
    (view,), _ = view_release(original, released, ["x"], owner="test")
    assert isinstance(view, OrderedView)
    return view


@pytest.mark.parametrize("far", [0, 3])
def test_the_noise_is_weighed_by_its_variance_or_by_its_median_where_few_moved_far(far):
    rng = np.random.default_rng(4)
    values = rng.normal(size=400)
    noise = 0.1 * rng.normal(size=400)
    noise[:far] += 20
    view = _see(values, values + noise)
    squares = (noise / values.std(ddof=1)) ** 2
    size = squares.mean()
    if far:
        # A normal variable has 0.4549 of its variance as the median of its squares.
        size = np.median(squares) / 0.4549
        assert size < squares.mean() / 4
    rows = np.arange(5)
    plain, weighed = view.costs(values[:5], rows), view.weigh_by_noise()(values[:5], rows)
    assert np.allclose(weighed, plain / size, rtol=1e-9)


def test_huge_distances_are_the_same_from_both_sides():
    values = np.array([-1e300, -1.0, 0.0, 1.0, 1e300])
    near = replace(_see(values, np.array([-1e300, 0.0, 1.0, 2.0, 1e300])), spread=1.0)
    there, back = near.costs(values[:1], np.array([4])), near.costs(values[4:], np.array([0]))
    assert there.item() == back.item() == pytest.approx(1e300)
