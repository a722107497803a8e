"""A number is judged by what its measure declares of it, whatever it is called."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato import catalogue
from sfumato.errors import PlanError
from sfumato.measure import Measure
from sfumato.numbers import Number
from sfumato.plan.targets import Target, limits_risk, list_harmless
from sfumato.run.attacks import promise_k

# Names that would be guessed wrongly: each begins or ends like a number of ours.
NAMES = st.sampled_from(["k_marginal_note", "fewest_alike", "stayed_away", "mean_h_of_it", "score"])


def make_measure(name: str, safer: Any, counts: Any = "score") -> Measure:
    """A measure of somebody else, with one number of any name and direction."""
    number = Number(name=name, safer=safer, counts=counts, useful="less")
    made: Measure = type("Foreign", (Measure,), {"name": name, "numbers": (number,)})()
    return made


@given(NAMES, st.sampled_from(["more", "less", "neither"]), st.sampled_from(["least", "most"]))
def test_the_safe_side_follows_from_the_declaration(name, safer, end):
    measures = {name: make_measure(name, safer)}
    target = Target(name=name, **{end: 5.0})
    protects = {"more": "least", "less": "most", "neither": ""}[safer]
    assert limits_risk(target, measures) is (end == protects)
    if safer != "neither":
        advised = list_harmless((target,), measures)
        meant = {"least": f"{name}.min", "most": f"{name}.max"}[protects]
        assert bool(advised) is (end != protects)
        assert all(f"Did you mean {meant}?" in line for line in advised)


def test_only_what_counts_a_class_promises_a_class_size():
    numbers = [number for entry in catalogue.measures().values() for number in entry.numbers]
    judged = set()
    for number in numbers:
        targets = {"k.min": 5, f"{number.name}.min": 20.5}
        try:
            promised = promise_k(sf.Plan(schema={"age": "quasi"}, targets=targets))
        except PlanError:
            continue  # of a measure that needs parameters
        assert promised == (21 if number.counts == "units in a class" else 5), number.name
        judged.add(number.counts)
    assert len(judged) > 5


@pytest.mark.parametrize("sizes", list(permutations([3, 5, 9])))
def test_a_further_promise_can_only_tighten(sizes):
    """`k_of_items.min = 2` and `k_marginal.min = 1` once loosened every limit beside k = 5."""
    names = ["k.min", "k_by_fitting.min", "k_if_clusters_are_known.min"]
    targets: dict[str, float] = {}
    before = 0
    for name, size in zip(names, sizes, strict=True):
        targets[name] = size
        after = promise_k(sf.Plan(schema={"age": "quasi"}, targets=targets))
        assert after >= before
        before = after
    loosening = {"k.min": 5, "k_of_items.min": 2, "k_marginal.min": 1}
    assert promise_k(sf.Plan(schema={"age": "quasi"}, targets=loosening)) == 5


def test_what_others_call_our_numbers_leads_to_them():
    for name, ours in (("k_anonymity", "k"), ("l-diversity", "l"), ("T_closeness", "t")):
        with pytest.raises(PlanError, match=f"did you mean '{ours}'"):
            sf.Plan(schema={"age": "quasi"}, targets={f"{name}.min": 5}).measures  # noqa: B018
