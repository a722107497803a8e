"""Which of two is better: paired differences, and when none can be told."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.data import Dataset
from sfumato.errors import PlanError
from sfumato.io.frames import wrap
from sfumato.plan import Plan
from sfumato.tuning.comparison import UNSURE, _compare_number
from sfumato.tuning.result import Tuned
from sfumato.tuning.search import tune


def by_number(compared: object) -> dict[str, dict[str, object]]:
    rows = wrap(compared.table).rows(named=True)  # type: ignore[attr-defined]
    return {row["number"]: row for row in rows}


@pytest.fixture(scope="module")
def found(people: Dataset, moved: Plan) -> Tuned:
    space = [
        [sf.methods.Noise(variables=["systolic"], variance_share=0.005)],
        [sf.methods.Noise(variables=["systolic"], variance_share=0.6)],
        [sf.methods.Deterministic(variables=["systolic"], k=5)],
    ]
    return tune(people, moved, space=space)


def test_more_noise_loses_more_and_protects_more(found: Tuned) -> None:
    table = by_number(found.compare(1, 2, repeats=6))
    assert table["moments"]["better"] == "a"
    assert table["stayed"]["better"] == "b"
    assert table["moments"]["high"] < 0  # type: ignore[operator]
    assert table["moments"]["draws"] == 6


def test_the_same_twice_cannot_be_told_apart(found: Tuned) -> None:
    for one in (1, found.candidates[3], found.plan):
        compared = found.compare(one, one, repeats=3)
        assert {row["better"] for row in by_number(compared).values()} == {UNSURE}
        assert all(UNSURE in line for line in compared.why)


def test_it_repeats_and_turns_round(found: Tuned) -> None:
    one, again = (by_number(found.compare(1, 3, repeats=4)) for _ in range(2))
    assert one == again
    turned = by_number(found.compare(3, 1, repeats=4))
    for number, row in one.items():
        assert turned[number]["difference"] == -row["difference"]  # type: ignore[operator]
    assert by_number(found.compare(1, 3, repeats=4, seed=1)) != one


def test_the_difference_is_that_of_all_records(found: Tuned, people: Dataset) -> None:
    row = by_number(found.compare(0, 3, repeats=3))["moments"]
    plan = found.candidates[3].plan
    bare = Plan(schema=plan.schema, steps=plan.steps, evaluate=plan.evaluate)
    assert row["b"] == sf.protect(people, bare).evidence["moments"].value
    assert row["a"] == 0.0


def test_it_is_the_worst_reading_that_is_compared(found: Tuned, people: Dataset) -> None:
    row = by_number(found.compare(1, 2, repeats=2))["stayed"]
    plan = found.candidates[3].plan
    bare = Plan(schema=plan.schema, steps=plan.steps, evaluate=plan.evaluate)
    again = by_number(found.compare(3, 3, repeats=2))["stayed"]
    details = sf.protect(people, bare).evidence["displacement"].details
    assert again["a"] == details["stayed_at_worst"]
    assert row["a"] is not None


def test_nonsense_is_refused(found: Tuned) -> None:
    with pytest.raises(PlanError, match="no candidate 99"):
        found.compare(0, 99)
    with pytest.raises(PlanError, match="two draws"):
        found.compare(0, 1, repeats=1)


def test_a_draw_that_failed_is_told_and_not_left_out() -> None:
    row = _compare_number("x", 1, [{"x": 1.0}, {"x": 2.0}], [(1.0, 2.0), (math.nan, 2.0)])
    assert row["better"] == f"{UNSURE}: it could not be measured in 1 of 2 draws"
    assert row["low"] is None
    row = _compare_number("x", 1, [{"x": math.nan}, {"x": 2.0}], [(1.0, 2.0), (1.0, 2.0)])
    assert "on all records" in row["better"]


def test_one_bad_half_does_not_hide_a_difference() -> None:
    halves = [(0.2, 0.8 + at / 100) for at in range(-4, 5)] + [(0.2, 2.5)]
    row = _compare_number("x", 1, [{"x": 0.2}, {"x": 0.5}], halves)
    assert row["better"] == "a"
    assert row["high"] < 0
    assert row["low"] < -1
    assert _compare_number("x", -1, [{"x": 0.2}, {"x": 0.5}], halves)["better"] == "b"


def test_halves_that_disagree_tell_nothing() -> None:
    """Most halves see no difference at all, so that of all records may be chance."""
    halves = [(3.0, 3.0)] * 8 + [(4.0, 3.0)] * 2
    row = _compare_number("k", -1, [{"k": 4.0}, {"k": 3.0}], halves)
    assert row["agreed"] == 0.2
    assert row["better"] == UNSURE


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    """A share that is known for the population: topcoding at two heights moves so many."""
    chance = np.random.default_rng(11)
    plan = Plan(
        schema={"x": sf.Column(role="sensitive", kind="continuous")},
        targets={"stayed.max": 0.9999},
        evaluate=[sf.utility.Displacement(variables=["x"]), sf.utility.Moments(variables=["x"])],
    )
    space = [[sf.methods.Topcode(variables=["x"], top=1.0)],
             [sf.methods.Topcode(variables=["x"], top=1.5)]]  # fmt: skip
    # E|x - min(x, c)| / √2 for a normal is (φ(c) - c (1 - Φ(c))) / √2.
    lost = [_lost(top) / math.sqrt(2) for top in (1.0, 1.5)]
    inside = 0
    for _ in range(10):
        frame = pl.DataFrame({"x": chance.normal(size=80)})
        found = tune(sf.Dataset(frame), plan, space=space, workers=1)
        row = by_number(found.compare(1, 2, repeats=6))["moments"]
        inside += row["low"] <= lost[0] - lost[1] <= row["high"]  # type: ignore[operator]
    assert inside >= 7  # at 95 % each, 6 or fewer of 10 has a chance of 1 in 1000


def _lost(top: float) -> float:
    density = math.exp(-(top**2) / 2) / math.sqrt(2 * math.pi)
    above = math.erfc(top / math.sqrt(2)) / 2
    return density - top * above
