"""Dates shifted by person: time between them is kept, and the shift belongs to person and key."""

# ruff: noqa: DTZ001 - times of day without a time zone are what most files hold
from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.cells.date_shifts import list_shifts
from sfumato.data.identity import digest_identifiers
from sfumato.errors import HeavyLossWarning, MethodError, PlanError, WeakProtectionWarning
from sfumato.methods import ShiftDates
from sfumato.randomness import Draws, Key, encrypt
from sfumato.testing.partitioned import PartitionedEngine

KEY = bytes(range(32))
PEOPLE = st.sampled_from(["a", "b", "c", "17", "x y"])
DAYS = st.dates(dt.date(1900, 1, 1), dt.date(2100, 12, 31))
VISITS = st.lists(st.tuples(PEOPLE, st.none() | DAYS, st.none() | DAYS), min_size=1, max_size=20)
PLANS = st.fixed_dictionaries(
    {
        "window": st.integers(14, 3000),
        "unit": st.sampled_from(["days", "weeks", "season"]),
        "towards": st.sampled_from(["past", "both"]),
    }
)
quietly = pytest.mark.filterwarnings("ignore::sfumato.errors.WeakProtectionWarning")


def table(rows, names=("patient", "birth", "visit")) -> sf.Dataset:
    types = dict(zip(names, (pl.String, pl.Date, pl.Date), strict=True))
    frame = pl.DataFrame(rows, schema=types, orient="row")
    return sf.Dataset(frame, sf.Schema({names[0]: "person", names[1]: "quasi", names[2]: "quasi"}))


def find_shifts(data: sf.Dataset, released: sf.Dataset) -> dict[str, set[int]]:
    """By person all differences between released and original dates."""
    shifts: dict[str, set[int]] = {}
    for before, after in zip(data.frame.rows(), released.frame.rows(), strict=True):
        pairs = zip(before[1:], after[1:], strict=True)
        days = {(new - old).days for old, new in pairs if old is not None}
        shifts.setdefault(before[0], set()).update(days)
    return shifts


@quietly
@given(rows=VISITS, plan=PLANS)
@settings(max_examples=60, deadline=None)
def test_time_between_dates_of_a_person_is_kept(rows, plan):
    data = table(rows)
    released = ShiftDates(**plan).apply(data, key=KEY)
    for name in ("birth", "visit"):
        assert released.frame[name].is_null().equals(data.frame[name].is_null())
    possible = set(list_shifts(**plan).tolist())
    for days in find_shifts(data, released).values():
        assert len(days) <= 1
        assert days <= possible


@quietly
@given(rows=VISITS, other=VISITS, plan=PLANS, seed=st.integers(0, 9))
@settings(max_examples=40, deadline=None)
def test_the_shift_is_the_same_in_another_table_and_in_the_next_extract(rows, other, plan, seed):
    method = ShiftDates(**plan)
    first = find_shifts(table(rows), method.apply(table(rows), key=KEY))
    later = table([*other, *rows], names=("Person no", "died", "seen"))
    shuffled = later.take(np.random.default_rng(seed).permutation(len(later)))
    split = method.apply(shuffled, key=KEY, step=5, engine=PartitionedEngine(seed))
    second = find_shifts(shuffled, split)
    for person, days in first.items():
        assert not days or days == second[person]


@quietly
@given(plan=PLANS, persons=st.lists(st.integers(0, 10**6), min_size=1, max_size=5, unique=True))
@settings(max_examples=30, deadline=None)
def test_the_shift_is_what_the_key_says_of_one_person_alone(plan, persons):
    """Against a reference that draws one person at a time."""
    day = dt.date(2020, 5, 5)
    data = table([(f"{person:07d}", day, None) for person in persons])
    released = ShiftDates(**plan).apply(data, key=KEY).frame["birth"]
    possible = list_shifts(**plan)
    for person, shown in zip(persons, released, strict=True):
        # The number counts, however it is spelled.
        words = digest_identifiers([pl.Series([person])])
        ids = encrypt(words, Key(KEY).subkey("record id"))
        purpose = f'[{plan["window"]}, "{plan["unit"]}", "{plan["towards"]}"]'
        uniform = Draws(Key(KEY), 0, ids).lasting("shift of dates", purpose, np.zeros(1))[0]
        assert (shown - day).days == possible[int(uniform * len(possible))]


@pytest.mark.parametrize("unit", ["days", "weeks", "season"])
@pytest.mark.parametrize("towards", ["past", "both"])
def test_all_shifts_are_equally_probable_and_none_is_zero(unit, towards):
    window = 2922 if unit == "season" else 140
    day = dt.date(2000, 1, 1)
    frame = pl.DataFrame({"patient": range(20_000), "visit": [day] * 20_000})
    data = sf.Dataset(frame, sf.Schema({"patient": "person", "visit": "quasi"}))
    method = ShiftDates(window=window, unit=unit, towards=towards)
    with pytest.warns(WeakProtectionWarning, match="one day stands in 20,000 of 20,000 rows"):
        released = method.apply(data, key=KEY).frame["visit"]
    days = (released - day).dt.total_days().to_numpy()
    possible, counts = np.unique(days, return_counts=True)
    assert possible.tolist() == list_shifts(window, unit, towards).tolist()
    assert 0 not in possible
    expected = 20_000 / len(possible)
    # A chi-square of so many degrees of freedom is above this less than once in 10,000 times.
    degrees = len(possible) - 1
    assert ((counts - expected) ** 2 / expected).sum() < degrees + 4 * (2 * degrees) ** 0.5


def test_seasons_stay_within_two_weeks_and_weekdays_are_kept():
    shifts = list_shifts(3653, "season", "both")
    assert (shifts % 7 == 0).all()
    years = shifts / 365.25
    assert (np.abs(years - np.rint(years)) * 365.25 <= 14).all()
    assert len(shifts) >= 80


def test_another_key_or_window_draws_another_shift():
    data = table([(f"p{n}", dt.date(2000, 1, n + 1), None) for n in range(30)])
    released = [
        ShiftDates(window=window).apply(data, key=key).frame["birth"].to_list()
        for key, window in ((KEY, 364), (bytes(32), 364), (KEY, 728))
    ]
    first, other_key, other_window = released
    assert sum(a == b for a, b in zip(first, other_key, strict=True)) < 5
    differences = [(b - a).days for a, b in zip(first, other_window, strict=True)]
    shifts = [(a - b).days for a, b in zip(first, data.frame["birth"], strict=True)]
    # With one and the same draw the difference would be the shift again.
    assert abs(np.corrcoef(differences, shifts)[0, 1]) < 0.95


@pytest.mark.parametrize("precision", ["ms", "us", "ns"])
def test_times_of_day_are_kept(precision):
    moments = [dt.datetime(2020, 3, 1, 23, 59, 58), dt.datetime(2020, 3, 9, 0, 0, 1)]
    frame = pl.DataFrame({"patient": ["a", "a", "a"], "visit": [*moments, None]}).with_columns(
        pl.col("visit").cast(pl.Datetime(precision))
    )
    data = sf.Dataset(frame, sf.Schema({"patient": "person", "visit": "quasi"}))
    released = ShiftDates(window=364).apply(data, key=KEY).frame["visit"]
    assert released.dtype == pl.Datetime(precision)
    assert released[1] - released[0] == moments[1] - moments[0]
    assert released[0].time() == moments[0].time()
    assert released[2] is None


def test_with_a_time_zone_the_clock_is_kept():
    moments = [dt.datetime(2020, 3, 1, 2, 30) + dt.timedelta(days=n % 60) for n in range(300)]
    frame = pl.DataFrame({"visit": moments, "patient": [n // 3 for n in range(300)]}).with_columns(
        pl.col("visit").dt.replace_time_zone(
            "Europe/Berlin", ambiguous="latest", non_existent="null"
        )
    )
    data = sf.Dataset(frame, sf.Schema({"patient": "person", "visit": "quasi"}))
    released = ShiftDates(window=30).apply(data, key=KEY).frame["visit"]
    assert released.dtype == frame["visit"].dtype
    assert released.null_count() == frame["visit"].null_count() == 5
    clock = released.drop_nulls().dt.strftime("%H:%M").to_list()
    # Half past two does not exist on the last Sunday of March.
    assert set(clock) == {"02:30", "03:30"}
    assert clock.count("03:30") < 20
    naive = released.dt.replace_time_zone(None).dt.truncate("1d")
    days = (naive - frame["visit"].dt.replace_time_zone(None).dt.truncate("1d")).dt.total_days()
    assert (pl.DataFrame({"p": frame["patient"], "d": days}).drop_nulls().unique().height) == 100


def test_without_persons_each_record_is_one():
    days = [dt.date(2000, 1, 1) + dt.timedelta(days=n) for n in range(40)]
    frame = pl.DataFrame({"number": range(40), "visit": days, "left": days})
    schema = sf.Schema({"number": "direct", "visit": "quasi", "left": "quasi"})
    released = ShiftDates(window=364).apply(sf.Dataset(frame, schema), key=KEY).frame
    shifts = (released["visit"] - frame["visit"]).dt.total_days()
    assert shifts.n_unique() > 30
    assert released["visit"].equals(released["left"].alias("visit"))
    # A record that a number identifies is shifted as the person of that number is elsewhere.
    persons = sf.Schema({"number": "person", "visit": "quasi", "left": "quasi"})
    same = ShiftDates(window=364).apply(sf.Dataset(frame, persons), key=KEY).frame
    assert same["visit"].equals(released["visit"])


def test_days_since_an_event_are_those_of_the_person():
    day = dt.date
    rows = [
        ("7", day(1950, 1, 1), day(2020, 3, 9)),
        ("07", day(1950, 1, 1), day(2020, 3, 1)),
        ("8", day(1960, 1, 1), day(2021, 1, 1)),
        ("9", day(1970, 1, 1), None),
    ]
    data = table(rows)
    for engine in (None, *map(PartitionedEngine, range(5))):
        with pytest.warns(HeavyLossWarning, match="'birth': 1 of 4 dates were blanked"):
            counted = ShiftDates(origin="visit").apply(data, engine=engine)
        assert counted.frame["visit"].to_list() == [8, 0, 0, None]
        born = [(b - v).days for b, v in ((r[1], day(2020, 3, 1)) for r in rows[:2])]
        assert counted.frame["birth"].to_list()[:2] == born
        assert counted.frame["birth"][3] is None
        assert counted.schema["birth"].kind == "integer"
        assert counted.columns == data.columns


def test_dates_beyond_the_limits_are_blanked_and_counted():
    day = dt.date
    rows = [("a", day(1920, 1, 1), day(2020, 6, 1)), ("b", day(1960, 1, 1), day(2030, 1, 1))]
    method = ShiftDates(
        window=100, not_after=day(2025, 1, 1), blank_before={"birth": day(1934, 1, 1)}
    )
    with pytest.warns(HeavyLossWarning) as warned:
        released = method.apply(table(rows), key=KEY).frame
    assert [str(w.message).partition(":")[0] for w in warned] == [
        "Variable 'birth'",
        "Variable 'visit'",
    ]
    assert released["birth"].is_null().to_list() == [True, False]
    assert released["visit"].is_null().to_list() == [False, True]


@given(
    rows=st.lists(
        st.tuples(PEOPLE, st.just(None), st.dates(dt.date(2018, 1, 1), dt.date(2019, 12, 31))),
        min_size=1,
        max_size=20,
    ),
    towards=st.sampled_from(["past", "both"]),
)
@settings(max_examples=40, deadline=None)
@pytest.mark.filterwarnings("ignore::sfumato.errors.HeavyLossWarning")
def test_blank_ends_leave_dates_that_every_shift_could_have_led_to(rows, towards):
    domain = (dt.date(2018, 1, 1), dt.date(2019, 12, 31))
    declared = sf.Column(role="quasi", kind="date", domain=domain)
    data = table(rows).with_schema({"visit": declared})
    method = ShiftDates(variables=["visit", "birth"], window=90, towards=towards, ends="blank")
    shown = method.apply(data, key=KEY)
    shifts = list_shifts(90, "days", towards).tolist()
    for date in shown.frame["visit"].drop_nulls():
        assert all(domain[0] <= date - dt.timedelta(days=s) <= domain[1] for s in shifts)
        assert shown.schema["visit"].domain[0] <= date <= shown.schema["visit"].domain[1]


def test_placeholders_at_the_end_of_the_calendar_are_blanked_not_wrapped():
    frame = pl.DataFrame({"visit": [dt.date(9999, 12, 31), dt.date(1, 1, 1)]})
    data = sf.Dataset(frame, sf.Schema({"visit": "quasi"}))
    with pytest.warns(HeavyLossWarning):
        released = ShiftDates(window=364).apply(data, key=KEY).frame["visit"]
    assert released[1] is None
    far = pl.DataFrame({"visit": [dt.datetime(2262, 4, 10)] * 20}).with_columns(
        pl.col("visit").cast(pl.Datetime("ns")), pl.int_range(20).alias("number")
    )
    data = sf.Dataset(far, sf.Schema({"visit": "quasi", "number": "direct"}))
    with pytest.warns(HeavyLossWarning):
        released = ShiftDates(window=364, towards="both").apply(data, key=KEY).frame["visit"]
    assert released.drop_nulls().max() < dt.datetime(2262, 4, 10)
    assert 0 < released.null_count() < 20


def test_the_shift_stays_when_identifiers_were_taken_away_before():
    rows = [(f"p{n // 2}", dt.date(2000, 1, 1 + n), dt.date(2010, 1, 1)) for n in range(20)]
    data = table(rows)
    shown = ShiftDates(window=364).apply(data, key=KEY).frame["birth"]
    for step in (
        sf.methods.Drop(variables=["patient"]),
        sf.methods.Pseudonymise(variables=["patient"]),
    ):
        later = ShiftDates(window=364).apply(step.apply(data, key=KEY), key=KEY)
        assert later.frame["birth"].equals(shown)


def test_pseudonyms_elsewhere_are_refused():
    rows = [("a", dt.date(2000, 1, 1), dt.date(2010, 1, 1))]
    data = sf.methods.Pseudonymise(variables=["patient"]).apply(table(rows), key=KEY)
    with pytest.raises(MethodError, match="pseudonyms into 'patient'") as refused:
        ShiftDates(window=364).apply(data, key=KEY, engine=PartitionedEngine(1))
    assert "before `pseudonymise`" in refused.value.hint


def test_a_date_that_stays_is_warned_of():
    data = table([("a", dt.date(2000, 1, 1), dt.date(2001, 1, 1))])
    with pytest.warns(WeakProtectionWarning, match="stay as they are: birth"):
        ShiftDates(variables=["visit"], window=364).apply(data, key=KEY)
    with pytest.warns(WeakProtectionWarning, match="only 13 possible shifts"):
        ShiftDates(window=91, unit="weeks").apply(data, key=KEY)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"window": 364, "origin": "visit"},
        {"window": 5, "unit": "weeks"},
        {"origin": "visit", "ends": "blank"},
        {"window": 364, "count": "order"},
        {"variables": ["visit"], "window": 9, "blank_before": {"birth": dt.date(1950, 1, 1)}},
    ],
)
def test_parameters_that_contradict_each_other_are_refused(wrong):
    with pytest.raises(PlanError):
        ShiftDates(**wrong)


def test_text_is_no_date():
    frame = pl.DataFrame({"visit": ["2020-01-01"]})
    data = sf.Dataset(frame, sf.Schema({"visit": sf.Column(role="quasi", kind="date")}))
    with pytest.raises(MethodError, match="'visit' holds no calendar dates"):
        ShiftDates(window=364).apply(data, key=KEY)


def test_the_manifest_says_the_window_and_no_shift():
    data = table([(f"p{n}", dt.date(2000, 1, 1 + n), dt.date(2010, 1, 1 + n)) for n in range(25)])
    method = ShiftDates(window=364, unit="weeks")
    fitted = method.fit(data, sf.engines.engine_for(data.frame))
    public = method.public(fitted)
    assert public["window"] == 364
    assert public["unit"] == "weeks"
    assert public["variables"] == ["birth", "visit"]
    assert set(public) == {
        "method", "variables", "window", "unit", "towards", "blank_before", "ends",
    }  # fmt: skip


def test_next_years_extract_has_the_same_shifts_and_another_window_is_refused(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("SFUMATO_LEDGER", str(tmp_path / "ledger"))
    rows = [
        (
            f"p{n // 2}",
            dt.date(1950, 1, 1) + dt.timedelta(days=n // 2),
            dt.date(2019, 1, 1 + n % 31),
        )
        for n in range(60)
    ]
    later = [(person, birth, day.replace(year=2020)) for person, birth, day in rows]
    roles: dict[str, Any] = {"patient": "person", "birth": "other", "visit": "other"}

    def release(some, window, folder):
        data = table(some).with_schema(roles)
        steps = [ShiftDates(window=window), sf.methods.Pseudonymise(variables=["patient"])]
        made = sf.protect(data, sf.Plan(schema=data.schema, steps=steps), key=KEY)
        made.write(tmp_path / folder)
        return set(made.dataset.frame.select("patient", "birth").rows())

    first = release(rows, 364, "first")
    assert release([*rows, *later], 364, "next") == first
    with pytest.raises(sf.SfumatoError, match="drawn again"):
        release(rows, 728, "wider")


@given(rows=VISITS)
@settings(max_examples=60, deadline=None)
@pytest.mark.filterwarnings("ignore::sfumato.errors.HeavyLossWarning")
def test_the_order_of_visits_can_stay_without_their_dates(rows):
    data = table(rows)
    method = ShiftDates(variables=["visit"], origin="visit", count="order")
    with pytest.warns(WeakProtectionWarning, match="birth"):
        counted = method.apply(data)
    days: dict[str, set[dt.date]] = {}
    for patient, _, visit in rows:
        if visit is not None:
            days.setdefault(patient, set()).add(visit)
    expected = [
        None if visit is None else sorted(days[patient]).index(visit) + 1
        for patient, _, visit in rows
    ]
    assert counted.frame["visit"].to_list() == expected
    assert counted.schema["visit"].kind == "integer"
    with pytest.warns(WeakProtectionWarning):
        again = method.apply(data, engine=PartitionedEngine(3))
    assert again.frame["visit"].to_list() == expected


def years_between(birth: dt.date, day: dt.date) -> int:
    return day.year - birth.year - ((day.month, day.day) < (birth.month, birth.day))


@quietly
@given(rows=VISITS, plan=PLANS, limit=st.integers(0, 120))
@settings(max_examples=60, deadline=None)
def test_ages_over_a_limit_become_the_limit(rows, plan, limit):
    data = table(rows)
    method = ShiftDates(**plan, oldest={"birth": limit})
    plain = ShiftDates(**plan).apply(data, key=KEY).frame
    for engine in (None, PartitionedEngine(2)):
        released = method.apply(data, key=KEY, engine=engine).frame
        assert released["visit"].equals(plain["visit"]), "all other dates are shifted as before"
        last: dict[str, dt.date] = {}
        for patient, _, visit in rows:
            if visit is not None:
                last[patient] = max(visit, last.get(patient, visit))
        shifted: dict[str, dt.date] = {}
        for (patient, _, visit), new in zip(rows, plain["visit"], strict=True):
            if visit is not None and visit == last[patient]:
                shifted[patient] = new
        for (patient, birth, _), shown, moved in zip(
            rows, released["birth"], plain["birth"], strict=True
        ):
            if birth is None or patient not in last or years_between(birth, last[patient]) <= limit:
                assert shown == moved
            else:
                # By days, since a leap day may lie on either side of the shift.
                assert abs((shifted[patient] - shown).days - limit * 365.25) < 2


def test_ages_agree_with_the_released_dates():
    rng = np.random.default_rng(5)
    births = [dt.date(1950, 1, 1) + dt.timedelta(int(n)) for n in rng.integers(0, 9000, 400)]
    days = [dt.date(2018, 1, 1) + dt.timedelta(int(n)) for n in rng.integers(0, 1500, 400)]
    # A birthday is when a day more or less counts.
    days[:200] = [birth.replace(year=2019, day=min(birth.day, 28)) for birth in births[:200]]
    ages = [years_between(*pair) for pair in zip(births, days, strict=True)]
    frame = pl.DataFrame({"patient": np.arange(400) // 2, "age": ages})
    frame = frame.with_columns(birth=pl.Series(births), visit=pl.Series(days))
    roles: dict[str, Any] = {
        "patient": "person",
        "age": "quasi",
        "birth": "quasi",
        "visit": "quasi",
    }
    data = sf.Dataset(frame, sf.Schema(roles))
    with pytest.warns(WeakProtectionWarning, match="'age' is the age from 'birth' to 'visit'"):
        ShiftDates(window=364).apply(data, key=KEY)
    released = ShiftDates(window=364, ages={"age": ["birth", "visit"]}).apply(data, key=KEY).frame
    expected = [years_between(*pair) for pair in released.select("birth", "visit").iter_rows()]
    assert released["age"].to_list() == expected
    assert released["age"].dtype == frame["age"].dtype
    changed = (released["age"] - frame["age"]).abs()
    assert 0 < changed.sum() == (changed > 0).sum() < 200
    limited = ShiftDates(window=364, ages={"age": ["birth", "visit"]}, oldest={"birth": 60})
    assert limited.apply(data, key=KEY).frame["age"].max() <= 61


@pytest.mark.parametrize(
    "wrong",
    [{"ages": {"age": ["visit", "other"]}}, {"oldest": {"other": 89}}],
)
def test_only_dates_of_the_step_have_ages(wrong):
    frame = pl.DataFrame({"patient": [1], "age": [30], "visit": [dt.date(2020, 1, 1)]})
    data = sf.Dataset(frame, sf.Schema({"patient": "person", "age": "quasi", "visit": "quasi"}))
    with pytest.raises(PlanError, match="other"):
        ShiftDates(window=364, **wrong).apply(data, key=KEY)


def test_a_limit_of_age_needs_a_date_at_which_it_holds():
    data = table([("a", dt.date(1930, 1, 1), dt.date(2020, 1, 1))])
    alone = ShiftDates(window=364, variables=["birth"], oldest={"birth": 89})
    with pytest.raises(MethodError, match="this step has none"):
        alone.apply(data, key=KEY)


def test_births_at_a_limit_are_left_out_of_the_attack():
    rows = [
        (f"p{n}", dt.date(1930 + n, 1, 1), dt.date(2018 + n % 3, 1 + n % 12, 1 + n % 28))
        for n in range(60)
    ]
    data = table(rows)
    plan = sf.Plan(
        schema=data.schema,
        steps=[sf.methods.Drop(), ShiftDates(window=364, oldest={"birth": 70})],
    )
    release = sf.protect(data, plan, key=KEY)
    found = sf.attackers.tried(data, release)["date_shift"]
    assert found.computed, found.reason
    assert found.details["variables"] == ("visit",)
