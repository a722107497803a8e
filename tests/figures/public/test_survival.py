"""The curve of Kaplan and Meier, and what of it may be shown."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.duration.survfunc import SurvfuncRight

import sfumato as sf
from sfumato.errors import DataError, PlanError
from sfumato.figures.public.survival import (
    choose_time_step,
    compute_safe_curve,
    confidence_band,
    kaplan_meier,
)
from sfumato.outputs.output import OutputRefused

lives = st.lists(
    st.tuples(st.integers(0, 30).map(lambda one: one / 2), st.booleans()), min_size=1, max_size=80
)


def arrays(made):
    return np.array([one[0] for one in made]), np.array([one[1] for one in made], bool)


@settings(deadline=None)
@given(lives.filter(lambda made: any(event for _, event in made)))
def test_the_exact_curve_is_that_of_statsmodels(made):
    times, events = arrays(made)
    curve = kaplan_meier(times, events)
    with np.errstate(all="ignore"):
        theirs = SurvfuncRight(times, events.astype(int))
        error = theirs.surv_prob_se
    assert curve.times.tolist() == theirs.surv_times.tolist()
    assert curve.at_risk.tolist() == theirs.n_risk.tolist()
    assert curve.events.tolist() == theirs.n_events.tolist()
    assert curve.survival == pytest.approx(theirs.surv_prob, abs=1e-12)
    inside = curve.survival > 1e-9
    assert curve.error[inside] == pytest.approx(error[inside], abs=1e-10)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 100), st.booleans()), min_size=12, max_size=120),
    st.integers(3, 6),
    st.sampled_from([0.5, 1.0, 5.0]),
    st.randoms(),
)
def test_every_step_holds_k_events_and_k_stay_at_risk(made, k, step, chance):
    times, events = arrays(made)
    shown = compute_safe_curve(times, events, step=step, k=k)
    shuffled = list(made)
    chance.shuffle(shuffled)
    assert compute_safe_curve(*arrays(shuffled), step=step, k=k) == shown
    if shown is None:
        return
    before = -np.inf
    for foot in shown.times:
        assert (events & (times > before) & (times <= foot)).sum() >= k
        before = foot
    assert (times > shown.end).sum() >= k
    assert shown.times[-1] <= shown.end
    assert not (events & (times > shown.times[-1]) & (times <= shown.end)).any()
    exact = kaplan_meier(times, events)
    for foot, share in zip(shown.times, shown.survival, strict=True):
        at = np.searchsorted(exact.times, foot, "right") - 1
        assert share == pytest.approx(exact.survival[at], abs=0.0026)


def test_the_band_covers_the_truth_about_as_often_as_it_says():
    chance = np.random.default_rng(5)
    held = 0
    for _ in range(300):
        times = chance.exponential(1.0, 80)
        ends = chance.uniform(0.2, 3.0, 80)
        curve = kaplan_meier(np.minimum(times, ends), times <= ends)
        at = np.searchsorted(curve.times, 0.7, "right") - 1
        low, high = confidence_band(curve.survival[at : at + 1], curve.error[at : at + 1], 0.95)
        held += bool(low[0] <= np.exp(-0.7) <= high[0])
    assert 0.91 <= held / 300 <= 0.985


def test_no_events_or_too_few_give_no_curve():
    times = np.arange(1.0, 31.0)
    none = np.zeros(30, bool)
    assert compute_safe_curve(times, none, step=1.0) is None
    none[3] = none[4] = True
    assert compute_safe_curve(times, none, step=1.0) is None


def test_the_grid_of_times_is_round_and_blind_to_the_longest():
    times = np.arange(1.0, 101.0)
    step = choose_time_step(times, steps=100, k=3)
    assert step == 1.0
    times[-1] = 1e9
    assert choose_time_step(times, steps=100, k=3) == step


KEY = bytes(range(32))
NAMED = ("suppress", "generalise", "deterministic", "noise")


def trial(n: int = 600) -> pl.DataFrame:
    chance = np.random.default_rng(0)
    arm = chance.choice(["care", "usual"], n)
    times, ends = chance.exponential(np.where(arm == "care", 9, 5)), chance.uniform(1, 12, n)
    return pl.DataFrame(
        {"years": np.minimum(times, ends), "relapse": (times <= ends).astype(int), "arm": arm}
    )


@pytest.mark.parametrize("protection", NAMED)
def test_every_protection_keeps_the_curve(protection):
    frame = trial()
    made = sf.plots.survival(frame, "years", "relapse", protection=protection, key=KEY)
    exact = kaplan_meier(frame["years"].to_numpy(), frame["relapse"].to_numpy() == 1)
    curve = made.table.drop_nulls("survival")
    for year in (1.0, 3.0, 5.0, 8.0):
        shown = np.interp(year, curve["time"], curve["survival"])
        true = exact.survival[np.searchsorted(exact.times, year, "right") - 1]
        assert shown == pytest.approx(true, abs=0.06)
    assert curve["survival"].is_sorted(descending=True)
    assert (curve["low"] <= curve["survival"]).all()
    assert (curve["survival"] <= curve["high"]).all()
    assert made.verdict == "pass"


def test_groups_are_protected_by_themselves_and_those_of_few_events_left_out():
    frame = trial()
    made = sf.plots.survival(frame, "years", "relapse", hue="arm")
    assert set(made.table["group"]) == {"care", "usual"}
    rare = frame.with_columns(relapse=pl.when(pl.col("arm") == "care").then(0).otherwise("relapse"))
    fewer = sf.plots.survival(rare, "years", "relapse", hue="arm")
    assert set(fewer.table["group"]) == {"usual"}
    assert "Groups with few events are left out." in fewer.description


def test_rows_in_any_order_any_library_and_yes_no_values_give_the_same():
    frame = trial()
    told: Any = {"hue": "arm", "protection": "noise", "key": KEY}
    first = sf.plots.survival(frame, "years", "relapse", **told).table
    shuffled = frame.sample(fraction=1.0, shuffle=True, seed=3)
    yes = frame.with_columns(pl.col("relapse") == 1)
    for other in (shuffled, frame.to_pandas(), frame.to_arrow()):
        assert sf.plots.survival(other, "years", "relapse", **told).table.equals(first)
    plain = sf.plots.survival(frame, "years", "relapse").table
    assert sf.plots.survival(yes, "years", "relapse").table.equals(plain)


def test_what_is_no_survival_is_refused():
    frame = trial(100)
    with pytest.raises(DataError, match="with 0 and 1"):
        sf.plots.survival(frame.with_columns(relapse=pl.lit(2)), "years", "relapse")
    with pytest.raises(PlanError, match="below 0"):
        sf.plots.survival(frame.with_columns(-pl.col("years")), "years", "relapse")
    with pytest.raises(PlanError, match="level"):
        sf.plots.survival(frame, "years", "relapse", level=1.5)
    with pytest.raises(DataError, match="with 0 and 1"):
        sf.plots.survival(frame.with_columns(relapse=pl.lit("yes")), "years", "relapse")
    quiet = frame.with_columns(relapse=(pl.int_range(pl.len()) < 2).cast(pl.Int8))
    with pytest.raises(OutputRefused, match="fewer than 3 events"):
        sf.plots.survival(quiet, "years", "relapse")
    with pytest.raises(OutputRefused, match="too few events"):
        sf.plots.survival(quiet, "years", "relapse", protection="deterministic")


def test_everybody_may_have_the_event_and_missing_ones_are_left_out_and_said():
    frame = trial()
    everybody = sf.plots.survival(frame.with_columns(relapse=pl.lit(1)), "years", "relapse")
    assert everybody.table["survival"].drop_nulls().to_list()[-1] < 0.1
    gaps = frame.with_columns(
        relapse=pl.when(pl.int_range(pl.len()) % 4 == 0).then(None).otherwise("relapse")
    )
    made = sf.plots.survival(gaps, "years", "relapse")
    assert "a value is missing: about 25 %" in made.description
    kept = sf.plots.survival(gaps.drop_nulls(), "years", "relapse")
    assert made.table.equals(kept.table)


def test_the_picture_says_what_its_axes_are():
    made = sf.plots.survival(trial(), "years", "relapse", interval=False)
    assert made.axes[0].get_xlabel() == "years"
    assert made.axes[0].get_ylabel() == "Share without relapse"
    assert "low" not in made.table.columns
    assert made.axes[0].get_ylim()[0] == 0
