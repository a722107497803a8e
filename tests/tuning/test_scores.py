"""Targets, losses and the front, each against a slow and plain reckoning."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.plan.targets import Judgement, Target
from sfumato.tuning.runner import Run
from sfumato.tuning.scores import Candidate, dominates, excess, judge_run, score_candidates

PLAN = sf.Plan()
MEASURES = {"moments": sf.utility.Moments(), "efficiency": sf.utility.Efficiency(formula="y ~ x")}
TARGETS = (Target(name="k", least=5), Target(name="uniqueness", most=0.1))
NUMBERS = st.one_of(st.just(math.nan), st.integers(0, 4).map(float))


def candidate(number: int, risks: list[float], utility: list[float]) -> Candidate:
    verdict = tuple(
        Judgement(target=target, measure="uniqueness", number=risk, met=target.met_by(risk))
        for target, risk in zip(TARGETS, risks, strict=True)
    )
    named = dict(zip(MEASURES, utility, strict=True))
    return Candidate(
        number=number, family="f", parameters={}, plan=PLAN, verdict=verdict, utility=named
    )


@given(st.lists(st.lists(NUMBERS, min_size=4, max_size=4), min_size=1, max_size=12))
def test_the_front_is_what_nobody_beats(rows):
    made = [candidate(at, row[:2], row[2:]) for at, row in enumerate(rows)]
    mapped = score_candidates(made, MEASURES, {"moments": 1.0, "efficiency": 2.0})

    def plain(row):
        # k and efficiency: more is better. What is not known is the worst.
        turned = [-row[0], row[1], row[2], -row[3]]
        return [math.inf if math.isnan(one) else one for one in turned]

    for one, row in zip(mapped, rows, strict=True):
        mine = plain(row)
        beaten = any(
            all(a <= b for a, b in zip(plain(other), mine, strict=True)) and plain(other) != mine
            for other in rows
        )
        assert one.front == (not beaten)
        assert 0 <= one.loss <= 1


@given(st.lists(st.lists(NUMBERS, min_size=4, max_size=4), min_size=1, max_size=12))
def test_the_least_loss_among_the_safe_is_never_dominated(rows):
    made = [candidate(at, row[:2], row[2:]) for at, row in enumerate(rows)]
    mapped = score_candidates(made, MEASURES, {"moments": 1.0, "efficiency": 1.0})
    met = [one for one in mapped if one.met]
    if met:
        best = min(met, key=lambda one: (one.loss, not one.front))
        signs = {"moments": 1, "efficiency": -1}
        assert not any(dominates(other, best, signs) for other in mapped)


def test_a_loss_is_scaled_by_its_own_range():
    rows = [([9, 0.0], [0.0, 1.0]), ([9, 0.0], [4.0, 0.5]), ([9, 0.0], [1.0, 0.75])]
    made = [candidate(at, *row) for at, row in enumerate(rows)]
    losses = [
        one.loss for one in score_candidates(made, MEASURES, {"moments": 1.0, "efficiency": 1.0})
    ]
    assert losses == [0.0, 1.0, pytest.approx((0.25 + 0.5) / 2)]
    heavy = score_candidates(made, MEASURES, {"moments": 3.0, "efficiency": 1.0})
    assert heavy[2].loss == pytest.approx((3 * 0.25 + 0.5) / 4)


def test_an_analysis_that_cannot_be_run_has_lost_everything():
    rows = [([9, 0.0], [0.0, 1.0]), ([9, 0.0], [math.nan, 1.0]), ([9, 0.0], [2.0, 1.0])]
    made = score_candidates([candidate(at, *row) for at, row in enumerate(rows)], MEASURES,
                  {"moments": 1.0, "efficiency": 1.0})  # fmt: skip
    assert made[1].loss == made[2].loss == 0.5
    assert not made[1].front


def run(*draws: dict[str, float]) -> Run:
    return Run(
        tuple(
            {
                "uniqueness": sf.Evidence(
                    name="uniqueness",
                    subject="released",
                    value=draw.get("uniqueness", math.nan),
                    details={key: value for key, value in draw.items() if key != "uniqueness"},
                )
            }
            for draw in draws
        )
    )


MEASURED = {"uniqueness": sf.risk.Uniqueness()}


def test_the_worst_of_the_draws_counts_and_a_margin_for_the_next():
    draws = [{"uniqueness": one, "k": 7} for one in (0.05, 0.06, 0.07)]
    k, uniqueness = judge_run(run(*draws), TARGETS, MEASURED)
    assert k.number == 7
    # t for two degrees of freedom, times the spread of a further draw: by hand.
    assert uniqueness.number == pytest.approx(0.06 + 4.302652729911275 * 0.01 * math.sqrt(4 / 3))
    assert not uniqueness.met


def test_equal_draws_need_no_margin_and_numbers_stay_possible():
    assert judge_run(run({"uniqueness": 0.1, "k": 5}, {"uniqueness": 0.1, "k": 5}), TARGETS,
                MEASURED)[1].met  # fmt: skip
    low = judge_run(
        run({"uniqueness": 0.0, "k": 2}, {"uniqueness": 0.0, "k": 9}), TARGETS, MEASURED
    )[0]
    assert low.number == 1.0  # no class is smaller than one record
    assert not low.met


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_more_draws_never_hide_a_bad_one(values):
    found = judge_run(run(*[{"uniqueness": one, "k": 5} for one in values]), TARGETS, MEASURED)[1]
    assert found.number >= max(values) or found.number == pytest.approx(max(values))
    assert not found.met or max(values) <= 0.1 + 1e-12


def test_a_draw_without_a_number_meets_nothing():
    failed = judge_run(run({"uniqueness": 0.0, "k": 9}, {"k": 9}), TARGETS, MEASURED)[1]
    assert math.isnan(failed.number)
    assert not failed.met
    one = replace(candidate(0, [9, 0.0], [0, 1]), verdict=(failed,))
    assert not one.met
    assert one.excess == math.inf


def test_a_candidate_without_verdict_or_refused_is_not_safe():
    safe = candidate(0, [9, 0.0], [0, 1])
    assert safe.met
    assert not replace(safe, refused=True).met
    assert not replace(safe, verdict=()).met


@given(st.floats(-5, 5), st.floats(-5, 5), st.booleans())
def test_excess_agrees_with_the_verdict(bound, number, least):
    target = Target(name="x", least=bound) if least else Target(name="x", most=bound)
    assert (excess(target, number) <= 1) == target.met_by(number)
