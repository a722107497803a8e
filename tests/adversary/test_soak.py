"""A short run of the soak: "A target is judged at the worst reading." (promises.md)

The long run is `make soak`; its last figure stands in docs/explanation/adversary.md.
"""

from __future__ import annotations

import sys
from typing import Any

import polars as pl
import pytest
from tests.soak import attackers
from tests.soak.met_but_broken import (
    BrokenPromiseError,
    Case,
    Tally,
    attack,
    make_case,
    soak,
)
from tests.soak.preserved import soak_preserved

import sfumato as sf


def test_nothing_is_met_and_broken_in_a_few_cases() -> None:
    tally = soak(first=100_000, count=40)
    assert tally.failures == []
    assert tally.outcomes["cases"] == 40
    assert tally.outcomes["released"] >= 10
    assert len(tally.attacks) >= 5


def test_what_survives_protection_turns_a_light() -> None:
    tally = soak_preserved(first=1000, count=12)
    assert tally.failures == []
    assert tally.outcomes["cases"] == 12
    assert any("hole: red" in name for name in tally.outcomes)


@pytest.mark.parametrize("number", [210_459, 265_693, 341_722])
def test_a_case_that_was_broken_once_stays_mended(number: int) -> None:
    """Ends of two variables were watered down by other ways; a half-filled row stood alone."""
    assert soak(first=number, count=1).failures == []


def test_a_row_left_open_belongs_to_every_class_it_may_be_of() -> None:
    rows = [{"q": "a", "s": 1}, {"q": "b", "s": 1}, {"q": "b", "s": 2}, {"q": "{a;b}", "s": 3}]
    assert attackers.match_exactly(rows, ["q"], 2)
    assert attackers.match_exactly(rows, ["q"], 2, filled=True) is None
    assert attackers.match_exactly(rows, ["q"], 3, filled=True)
    assert attackers.count_secrets(rows, ["q"], "s", 2, filled=True) is None
    assert attackers.count_secrets(rows, ["q"], "s", 3, filled=True)


def test_a_case_follows_from_its_number() -> None:
    first, second = make_case(7), make_case(7)
    assert first.frame.equals(second.frame)
    assert first.plan.digest == second.plan.digest
    assert first.plan.digest != make_case(8).plan.digest


def test_a_failure_is_reported_and_the_run_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(case: Case, *_: Any) -> None:
        if case.number == 1:
            raise BrokenPromiseError("it is broken")

    monkeypatch.setattr("tests.soak.met_but_broken.run_case", fail)
    tally = soak(first=0, count=3, log=sys.stdout)
    assert tally.outcomes["cases"] == 3
    assert len(tally.failures) == 1
    assert "case 1: BrokenPromiseError: it is broken" in capsys.readouterr().out


class _Liar:
    """A release that says what it does not do: the records as they are."""

    def __init__(self, data: sf.Dataset, plan: sf.Plan) -> None:
        self.dataset, self.original, self.plan = data, data, plan
        self.manifest: dict[str, Any] = {}


@pytest.mark.parametrize(
    ("target", "label"),
    [
        ("k.min", "fitting"),
        ("k_by_fitting.min", "fitting"),
        ("uniqueness.max", "exact matching"),
        ("l.min", "spelling variants"),
        ("stayed.max", "unmoved values"),
        ("linkage.max", "linking by one variable"),
    ],
)
def test_the_attackers_can_break_what_is_not_protected(target: str, label: str) -> None:
    frame = pl.DataFrame({"q0": list(range(10)), "s0": ["HIV", "hiv "] * 5})
    schema: dict[str, Any] = {"q0": "quasi", "s0": "sensitive"}
    bound = 0.2 if target.endswith("max") else 2
    plan = sf.Plan(schema=schema, targets={target: bound})
    case = Case(frame, plan, {"q0": "integer", "s0": "disease"})
    liar = _Liar(sf.Dataset(frame, sf.Schema(schema)), plan)
    with pytest.raises(AssertionError, match=label):
        attack(case, liar, Tally())


def test_the_attackers_break_ends_and_distances() -> None:
    original: list[dict[str, Any]] = [
        {"q": age, "s": "flu" if age < 4 else "cold"} for age in range(8)
    ]
    released = [{**row, "q": "[0;3]" if row["q"] < 4 else "[4;7]"} for row in original]
    assert attackers.state_ends(original, released, ["q"], 0.0)
    assert attackers.measure_closeness(released, ["q"], "s", 0.4)
    assert attackers.measure_closeness(released, ["q"], "s", 0.5) is None
    assert attackers.find_quoted("it says person 0001", [{"n": "person 0001"}], [])


def _weigh(people: int) -> list[dict[str, Any]]:
    """Four regions, each with a weight of its own."""
    return [{"q": person % 4, "o": (person % 4) * 1.5} for person in range(people)]


def test_the_attackers_look_up_what_a_weight_stands_for() -> None:
    original = _weigh(60)
    released = [{**row, "q": "*"} for row in original]
    filled = attackers.look_up_by_others(original, released, ["q"], ["o"])
    assert [row["q"] for row in filled] == [str(row["q"]) for row in original]
    assert attackers.match_exactly(filled, ["q"], 16)
    assert attackers.count_recovered(original, released, filled, ["q"], 0.2)
    # Too few to be a rule, or one exception: nothing is looked up.
    assert attackers.look_up_by_others(original[:8], released[:8], ["q"], ["o"]) == released[:8]
    exception = [{**original[0], "q": 3}, *original[1:]]
    assert attackers.look_up_by_others(exception, released, ["q"], ["o"]) == released


def test_the_attackers_begin_with_records_and_with_two_releases() -> None:
    ages: list[dict[str, Any]] = [{"q": age} for age in range(40)]
    wide: list[dict[str, Any]] = [{"q": "[0;100]"} for _ in ages]
    lone: list[dict[str, Any]] = [{"q": 0}, *wide[1:]]
    assert attackers.match_backwards(ages, wide, ["q"], 2) is None
    assert attackers.match_backwards(ages, lone, ["q"], 2)
    tens = [{"q": f"[{age // 10 * 10};{age // 10 * 10 + 9}]"} for age in range(40)]
    fours = [{"q": f"[{age // 4 * 4};{age // 4 * 4 + 3}]"} for age in range(40)]
    assert attackers.intersect_candidates(ages, [tens, wide], ["q"], 5) is None
    assert attackers.intersect_candidates(ages, [tens, fours], ["q"], 4)
