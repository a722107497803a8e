"""A short run of the soak: "A target is judged at the worst reading." (promises.md)

The long run is `make soak`; its last figure stands in docs/explanation/adversary.md.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import polars as pl
import pytest
from tests.soak import attackers
from tests.soak.met_but_broken import Case, Tally, attack, soak

import sfumato as sf


def test_nothing_is_met_and_broken_in_a_few_cases() -> None:
    # Several batches: one alone may draw little but plans that are refused.
    tallies = [soak(first=batch, count=20) for batch in (17, 18, 19)]
    outcomes = sum((tally.outcomes for tally in tallies), start=Counter[str]())
    assert outcomes["cases"] >= 60
    assert outcomes["released"] >= 15
    assert len({label for tally in tallies for label in tally.attacks}) >= 4


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
