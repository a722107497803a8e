"""Shifts of dates that the calendar gives away."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.cells.date_shifts import list_shifts
from sfumato.errors import MeasureError

KEY = bytes(range(32))
FIRST, LAST = dt.date(2018, 1, 1), dt.date(2020, 12, 31)
SCHEMA = sf.Schema(
    {
        "patient": "person",
        "birth": sf.Column(role="quasi", kind="date", domain=(dt.date(1930, 1, 1), FIRST)),
        "visit": sf.Column(role="quasi", kind="date", domain=(FIRST, LAST)),
    }
)


def make_visits(persons: int, each: int, seed: int, weekend: float = 0.1) -> sf.Dataset:
    """So many visits of each person, few of them at weekends and at Christmas."""
    random = np.random.default_rng(seed)
    days = [FIRST + dt.timedelta(days=n) for n in range((LAST - FIRST).days + 1)]
    weights = np.array(
        [
            (weekend if day.weekday() >= 5 else 1.0)
            * (0.1 if day.month == 12 > day.day - 24 else 1)
            for day in days
        ]
    )
    chosen = random.choice(len(days), persons * each, p=weights / weights.sum())
    births = [FIRST - dt.timedelta(days=int(n)) for n in random.integers(1, 25_000, persons)]
    frame = pl.DataFrame(
        {
            "patient": np.repeat(np.arange(persons), each),
            "birth": [births[n // each] for n in range(persons * each)],
            "visit": [days[n] for n in chosen],
        }
    )
    return sf.Dataset(frame, SCHEMA)


def attack(data: sf.Dataset, persons: int = 2000, **plan):
    released = sf.methods.ShiftDates(**plan).apply(data, key=KEY)
    shared = {name: plan[name] for name in ("window", "unit", "towards") if name in plan}
    measure = sf.risk.DateShift(variables=["birth", "visit"], persons=persons, **shared)
    return measure.measure(data, released)


def test_what_is_found_is_what_a_loop_over_shifts_finds():
    """Against a reference that goes shift by shift and date by date, in plain Python."""
    data = make_visits(60, 5, 1)
    plan: dict[str, Any] = {"window": 60, "unit": "days", "towards": "both"}
    released = sf.methods.ShiftDates(**plan).apply(data, key=KEY)
    numbers = data.units.numbers.tolist()
    dates, shown = defaultdict(set), defaultdict(set)
    for row, person in enumerate(numbers):
        for name in ("birth", "visit"):
            dates[person].add((name, data.frame[name][row]))
            shown[person].add((name, released.frame[name][row]))
    hits = 0.0
    for person in sorted(dates):
        calendar = {}
        for name in ("birth", "visit"):
            everything = [day for days in dates.values() for n, day in days if n == name]
            others = [
                day
                for other, days in dates.items()
                if other % 2 != person % 2
                for n, day in days
                if n == name
            ]
            first, last = min(everything), max(everything)
            span = [first + dt.timedelta(days=n) for n in range((last - first).days + 1)]
            calendar[name] = (
                first,
                last,
                Counter(day.weekday() for day in others),
                Counter((day.month, day.day) for day in others),
                Counter((day.month, day.day) for day in span),
                len(others),
                span,
                Counter(others),
            )

        def weigh(name, true, calendar=calendar):
            _, _, weekdays, of_year, possible, count, span, _ = calendar[name]
            by_week = math.log((weekdays[true.weekday()] + 1) / ((count + 7) / 7))
            month_day = (true.month, true.day)
            expected = possible[month_day] * count / len(span)
            return by_week + math.log((of_year[month_day] + 20) / (expected + 20))

        totals = {
            name: sum(math.exp(weigh(name, day)) for day in calendar[name][6]) for name in calendar
        }

        def score(shift, person=person, calendar=calendar, totals=totals, weigh=weigh):
            total = 0.0
            for name, day in sorted(shown[person]):
                first, last, *_, count, _, single = calendar[name]
                true = day - dt.timedelta(days=shift)
                if not first <= true <= last:
                    total -= 50.0
                    continue
                usual = weigh(name, true)
                expected = math.exp(usual) / totals[name] * count
                total += usual + math.log((single[true] + 20) / (expected + 20))
            return total

        scores = {shift: score(shift) for shift in list_shifts(**plan).tolist()}
        best = [shift for shift, s in scores.items() if s >= max(scores.values()) - 1e-9]
        name, true = min(dates[person])
        truth = (min(shown[person])[1] - true).days if name == "birth" else None
        hits += (truth in best) / len(best)
    measured = sf.risk.DateShift(variables=["birth", "visit"], **plan).measure(data, released)
    assert measured.value == pytest.approx(hits / 60, abs=1e-12)


def test_weeks_hide_what_weekdays_tell_and_days_do_not():
    data = make_visits(400, 12, 2)
    days, weeks = (attack(data, window=364, unit=unit) for unit in ("days", "weeks"))
    by_clue = {"days": dict(days.table.rows_by_key("clue", unique=True)),
               "weeks": dict(weeks.table.rows_by_key("clue", unique=True))}  # fmt: skip
    # Weekdays tell the shift but for whole weeks: one in 52 instead of one in 364.
    assert by_clue["days"]["weekdays"][0] > 4 * days.baseline
    assert by_clue["weeks"]["weekdays"][0] == pytest.approx(weeks.baseline, abs=1e-12)


def test_blank_ends_leave_little_more_than_a_guess():
    data = make_visits(400, 12, 3)
    shown = attack(data, window=182, unit="weeks")
    with pytest.warns(sf.errors.HeavyLossWarning):
        blanked = attack(data, window=182, unit="weeks", ends="blank")
    assert shown.value > 2.5 * shown.baseline
    assert blanked.value < 2 * blanked.baseline
    ends = dict(blanked.table.rows_by_key("clue", unique=True))["first and last day"]
    assert ends[0] == pytest.approx(blanked.baseline, rel=0.05)


def test_a_flat_calendar_without_ends_tells_nothing():
    random = np.random.default_rng(1)
    days = [
        dt.date(1000, 1, 1) + dt.timedelta(days=int(n)) for n in random.integers(0, 365_000, 900)
    ]
    frame = pl.DataFrame({"patient": range(900), "birth": days, "visit": days})
    schema = sf.Schema({"patient": "person", "birth": "quasi", "visit": "quasi"})
    found = attack(sf.Dataset(frame, schema), window=364)
    low, high = found.interval
    assert low <= found.baseline <= high


def test_dates_that_were_not_shifted_are_found():
    data = make_visits(30, 3, 4)
    found = sf.risk.DateShift(variables=["visit"], window=364).measure(data, data)
    assert found.value == found.details["date_shift_within_week"] == 1


def test_some_persons_are_said_to_be_some():
    data = make_visits(50, 3, 5)
    found = attack(data, persons=20, window=364)
    assert found.sampled == (20, 50)
    assert found.details["persons_looked_at"] == 20


def test_another_window_is_noticed():
    data = make_visits(50, 3, 5)
    released = sf.methods.ShiftDates(window=364).apply(data, key=KEY)
    found = sf.risk.DateShift(variables=["visit"], window=21).measure(data, released)
    assert "none of the possible ones" in found.warnings[0]


def test_dates_shifted_each_by_itself_have_no_shift_to_find():
    data = make_visits(50, 3, 5)
    records = data.with_schema({"patient": sf.Column(role="other")})
    released = sf.methods.ShiftDates(window=364).apply(records, key=KEY)
    with pytest.raises(MeasureError, match="not all dates of a person were shifted alike"):
        sf.risk.DateShift(variables=["visit"], window=364).measure(data, released)


def test_it_is_tried_on_every_release_with_the_step():
    data = make_visits(50, 3, 5)
    steps = [sf.methods.ShiftDates(window=364), sf.methods.Drop(variables=["patient"])]
    release = sf.protect(data, sf.Plan(schema=SCHEMA, steps=steps), key=KEY)
    tried = sf.attackers.attacks(release.plan, release.manifest)
    assert tried["date_shift"] == sf.risk.DateShift(variables=["birth", "visit"], window=364)
    counted = [sf.methods.ShiftDates(origin="visit")]
    assert "date_shift" not in sf.attackers.attacks(sf.Plan(steps=counted))


def test_dates_that_a_later_step_changes_are_left_out_of_the_attack():
    data = make_visits(50, 3, 5)
    alike = sf.methods.KAnonymity(variables=["birth"], k=5)
    steps = [sf.methods.ShiftDates(window=364), sf.methods.Drop(variables=["patient"]), alike]
    release = sf.protect(data, sf.Plan(schema=SCHEMA, steps=steps), key=KEY)
    tried = sf.attackers.attacks(release.plan, release.manifest)
    assert tried["date_shift"] == sf.risk.DateShift(variables=["visit"], window=364)
    found = sf.attackers.tried(data, release)["date_shift"]
    assert found.computed
    assert found.details["persons"] == 50
    for output in ("range", "value"):
        both = sf.methods.KAnonymity(variables=["birth", "visit"], k=5, output=output)
        plan = sf.Plan(schema=SCHEMA, steps=[*steps[:2], both])
        none = sf.attackers.tried(data, sf.protect(data, plan, key=KEY))["date_shift"]
        assert not none.computed, "there is no date as the step wrote it"
        assert none.reason
