"""Shift all dates of a person by the same secret number of days, or count days from an event."""

from __future__ import annotations

import datetime as dt
import json
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

import numpy as np
import polars as pl
from pydantic import Field, model_validator

from sfumato.cells.date_shifts import Towards, Unit, list_shifts
from sfumato.data import Dataset
from sfumato.engines import Chance, Engine, Starts
from sfumato.engines.summaries import Count, Summary
from sfumato.errors import HeavyLossWarning, MethodError, PlanError, WeakProtectionWarning
from sfumato.kernels.arrays import Integers
from sfumato.method import Fitted, RowWise, require_draws
from sfumato.methods.persons import PERSON, attach_persons, draw_for_variable, has_persons
from sfumato.parameters import parameters
from sfumato.randomness import Draws
from sfumato.schema import Column, Schema

_FEW_SHIFTS = 20
"""Fewer possible shifts than this can be tried out one by one."""
_SHARED, _MANY = 0.02, 50
"""A single day with this share of a variable's dates, and so many of them, gives shifts away."""
_AGREEING = 0.99
"""The share of rows in which a number is the age that two dates tell, from which on it is that."""
_EPOCH = dt.date(1970, 1, 1)
_TICKS = {"ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
"""A day in the unit of a column of times."""
_FIRST, _LAST = (dt.date(1, 1, 1) - _EPOCH).days, (dt.date(9999, 12, 31) - _EPOCH).days
_MISSING = np.iinfo(np.int64).max // 4
"""Later than any day: the earliest of some is none of these."""
_NANOSECONDS = (dt.date(1677, 9, 22) - _EPOCH).days, (dt.date(2262, 4, 10) - _EPOCH).days


@parameters
class ShiftDates(RowWise):
    """Shift all dates of a person by the same secret number of days, or count days from an event.

    Question: how can dates leave without pointing to calendar days, and time between them stay?
    Assumes: nobody outside knows a true date of the person: who knows one has the shift, and with
    it all others. Nobody has another file with the same dates, exact to the day. The days between
    a person's dates are kept exactly, and so is the age at each visit if the birth date is shifted
    too: a person with a rare pattern of visits is as rare as before. Measure `date_shift` says how
    many shifts can be found from weekdays, holidays and the first and last days.

    The shift belongs to the person (role "person", without one: to the record) and the key. It is
    the same in every table and in next year's extract, as long as the key, `window`, `unit` and
    `towards` are. Missing dates stay missing. Times of day are kept, by the clock of
    their time zone.

    Give `window` or `origin`. Where ages over a limit must not be released, see `oldest`; an age in
    years is no date, and `topcode` cuts it off.

    Parameters
    ----------
    variables : the dates to shift. Default: all of kind "date". A date that stays as it is gives
        the shift away to whoever knows how far the two lie apart.
    window : most days of a shift. All possible shifts are equally probable; none is 0.
    unit : unit of a shift: "days", any number of them; "weeks", whole weeks, which keep the day of
        the week: few visits on Sundays then say nothing of the shift. "season", whole weeks that
        are at most two weeks from a whole number of years: take a window of several years.
    towards : direction of the shifts: "past" shifts into the past only, so that no date comes to
        lie in the future; "both" shifts either way, so that dates are right on average.
    origin : date from which days are counted, in place of shifting: such as the first admission;
        whole days from one calendar day to the other. It is the earliest of the person; without
        one, the dates become missing.
    count : what is counted from the origin: "days" (the default), or only the "order", 1 for the
        first of a person's dates in a variable, 2 for the next, the same number for the same day.
        How far they lie apart is gone.
    not_after : day after which released dates are blanked: whatever has led there.
    blank_before : day before which original dates are blanked, by variable. Moved to one day for
        all they would show the shift.
    oldest : oldest age, by variable that holds births: such as 89, which becomes the age of
        everybody who is older at the last of their dates. Their birth then lies so many years
        before that date, and is shifted with it.
    ages : ages counted anew from two released dates: in completed years, `{ age = ["birth",
        "visit"] }`. Otherwise one in some hundred is a year off, since the 29th of February comes
        in between or not; and that tells something of the shift.
    ends : dates near the ends of the domain: "blank" blanks released dates that only some of the
        shifts could have led to, near the first and the last day of the variable's declared domain.
        "keep" keeps them.

    Examples
    --------
    >>> import datetime as dt, polars as pl, sfumato as sf
    >>> days = [dt.date(2020, 3, 1), dt.date(2020, 3, 9), dt.date(2021, 5, 4)]
    >>> visits = pl.DataFrame({"patient": ["a", "a", "b"], "visit": days})
    >>> data = sf.Dataset(visits, sf.Schema({"patient": "person", "visit": "quasi"}))
    >>> shifted = ShiftDates(window=364).apply(data, key=bytes(32)).frame["visit"]
    >>> (shifted[1] - shifted[0]).days, shifted[0] < days[0]
    (8, True)
    >>> ShiftDates(origin="visit").apply(data).frame["visit"].to_list()
    [0, 8, 0]
    >>> ShiftDates(origin="visit", count="order").apply(data).frame["visit"].to_list()
    [1, 2, 1]

    References: Hripcsak, Mirhaji, Low & Malin (2016), Preserving temporal relations in clinical
    data while maintaining privacy, JAMIA 23:1040.
    """

    name = "shift_dates"
    over_tables = True
    runs_on = ("local", "streaming", "spark")
    preserves = ("gaps",)
    keyed = True
    examples = (
        {"window": 364},
        {"variables": ["birth_date"], "window": 1461, "unit": "season", "towards": "both"},
        {"variables": ["birth_date"], "origin": "birth_date"},
        {"variables": ["birth_date"], "origin": "birth_date", "count": "order"},
    )
    variables: Annotated[list[str], Field(min_length=1)] | None = None
    window: Annotated[int, Field(ge=1, le=36_525)] | None = None
    unit: Unit = "days"
    towards: Towards = "past"
    origin: str | None = None
    # None, so that plans written before there was an order keep their digest.
    count: Literal["days", "order"] | None = None
    not_after: dt.date | None = None
    blank_before: dict[str, dt.date] = Field(default_factory=dict)
    oldest: dict[str, Annotated[int, Field(ge=0, le=150)]] | None = None
    ages: dict[str, Annotated[list[str], Field(min_length=2, max_length=2)]] | None = None
    ends: Literal["keep", "blank"] = "keep"

    @model_validator(mode="after")
    def _check_shift(self) -> Self:
        if (self.window is None) == (self.origin is None):
            msg = "give either window or origin."
            raise ValueError(msg)
        if self.window is not None and not len(self._shifts):
            msg = f'no shift by "{self.unit}" fits into a window of {self.window} days.'
            raise ValueError(msg)
        about_dates = (self.not_after is not None, self.ends == "blank", self.oldest, self.ages)
        if self.origin is not None and any(about_dates):
            msg = (
                "not_after, ends, oldest and ages are about shifted dates, and with origin there "
                "are none."
            )
            raise ValueError(msg)
        if self.origin is None and self.count is not None:
            msg = "count needs the origin."
            raise ValueError(msg)
        unknown = set(self.blank_before) - set(self.variables or self.blank_before)
        if unknown:
            msg = f"blank_before names '{min(unknown)}', which is none of the variables."
            raise ValueError(msg)
        return self

    @property
    def _shifts(self) -> Integers:
        return list_shifts(self.window or 0, self.unit, self.towards)

    def require_over_tables(self, number: int) -> None:
        """Refuse days counted from an event, which stands in one table only."""
        if self.origin is not None:
            raise PlanError(
                f"Step {number}, {self.name}, counts days from an event of one table only.",
                hint="put it into the steps of that table, or give window instead of origin.",
            )

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """The dates as named, or all; the day from which others are counted; and ages."""
        return tuple(dict.fromkeys([*self._name_dates(schema), *(self.ages or ())]))

    def _name_dates(self, schema: Schema) -> tuple[str, ...]:
        dates = [n for n in schema.of_kind("date") if not schema[n].generalised]
        names = dates if self.variables is None else self.variables
        return tuple(dict.fromkeys([*names, *([self.origin] if self.origin else [])]))

    def reads(self, schema: Schema) -> tuple[str, ...]:
        """The dates, and whose they are."""
        return (*self.touches(schema), *schema.having("person"))

    def fit(self, data: Dataset, engine: Engine) -> dict[str, Any]:
        """Whose the shifts are, and within which days dates stay."""
        names = self._name_dates(data.schema)
        data.schema.require([*names, *self.blank_before, *(self.ages or ())])
        if not names:
            raise MethodError(
                "There is no date to shift.",
                hint='declare kind = "date", name the dates in `variables`, or take the step out.',
            )
        _require_dates(data, names)
        self._check_named_dates(data, names)
        self._warn_of_others(data, names)
        if self.window is not None:
            self._warn_of_few()
            _warn_of_shared_days(data, names, engine)
        return {
            "variables": list(names),
            "person": _find_person(data, engine),
            "limits": {name: self._find_limits(name, data) for name in names},
        }

    def _check_named_dates(self, data: Dataset, names: tuple[str, ...]) -> None:
        """Dates that parameters speak of must be dates of this step, and ages whole numbers."""
        pairs = [name for pair in (self.ages or {}).values() for name in pair]
        stated: dict[str, Iterable[str]] = {
            "blank_before": self.blank_before,
            "oldest": self.oldest or {},
            "ages": pairs,
        }
        for parameter, wanted in stated.items():
            if others := [name for name in wanted if name not in names]:
                raise PlanError(
                    f"`{parameter}` names '{others[0]}', which this step does not change.",
                    hint="name only dates of this step.",
                )
        for name in self.ages or ():
            if not data.dtype(name).is_integer():
                raise MethodError(
                    f"Variable '{name}' does not hold ages in whole years.",
                    hint="leave it out of `ages`, or read it as whole numbers.",
                )
        if self.oldest and set(names) <= set(self.oldest):
            raise MethodError(
                "`oldest` limits the age at other dates of the person, and this step has none.",
                hint="name a date such as that of the visit, or blank births: `blank_before`.",
            )
        if births := [name for name in self.oldest or () if data.dtype(name) != pl.Date]:
            raise MethodError(
                f"Variable '{births[0]}' holds times, and births are dates.",
                hint="read it as a date, or leave it out of `oldest`.",
            )

    def _find_limits(self, name: str, data: Dataset) -> dict[str, int]:
        """The first original day, and the first and last released one, that stay."""
        dtype, bounds = data.dtype(name), data.schema[name].bounds
        first, last = _FIRST, _LAST
        if isinstance(dtype, pl.Datetime) and dtype.time_unit == "ns":
            first, last = _NANOSECONDS
        original = _count_days(self.blank_before[name]) if name in self.blank_before else first
        if self.not_after is not None:
            last = min(last, _count_days(self.not_after))
        if self.ends == "blank" and bounds is not None:
            low, high = map(_count_days, bounds)
            # From here every shift leads back into the domain.
            first, last = max(first, low + self._shifts[-1]), min(last, high + self._shifts[0])
        if first > last:
            raise MethodError(
                f"No released date of variable '{name}' could have come from every shift.",
                hint='take a smaller window, a wider domain, or ends = "keep".',
            )
        return {"original": int(original), "first": int(first), "last": int(last)}

    def _warn_of_others(self, data: Dataset, names: tuple[str, ...]) -> None:
        others = [
            name
            for name in data.schema.of_kind("date")
            if name not in names and data.dtype(name) in (pl.Date, pl.Datetime)
        ]
        if others:
            warnings.warn(
                f"These dates stay as they are: {', '.join(others)}. Somebody who knows how far "
                "they are from a shifted date knows the shift. Shift all dates, or drop the "
                "others.",
                WeakProtectionWarning,
                stacklevel=4,
            )

    def _warn_of_few(self) -> None:
        if len(self._shifts) < _FEW_SHIFTS:
            warnings.warn(
                f"There are only {len(self._shifts)} possible shifts, and somebody can try them "
                "one by one. Take a larger window.",
                WeakProtectionWarning,
                stacklevel=4,
            )

    def rows(self, batch: pl.DataFrame, fitted: Fitted, draws: Draws | None) -> pl.DataFrame:
        """Shifted dates, or days since the event, for a batch of records."""
        if self.origin is not None:
            return self._count_from_origin(batch, fitted, np.arange(batch.height + 1))
        draws = require_draws(draws, "A shift of dates")
        shifts = self._draw_shifts(batch, fitted, draws)
        limits = fitted["limits"]
        shifted = pl.DataFrame(
            [_shift_dates(batch[name], shifts, limits[name]) for name in fitted["variables"]]
        )
        ages = [
            count_years(shifted[birth], shifted[day]).alias(name).cast(batch[name].dtype)
            for name, (birth, day) in (self.ages or {}).items()
        ]
        return shifted.hstack(ages)

    def _draw_shifts(self, batch: pl.DataFrame, fitted: Fitted, draws: Draws) -> Integers:
        """The shift of each row, which belongs to its person, to the key and to the plan."""
        draws = draw_for_variable(draws, batch, fitted["person"])
        # Shifts of another window are independent ones: with the same draw, the difference of two
        # releases would be a known share of the shift.
        purpose = json.dumps([self.window, self.unit, self.towards])
        uniform = draws.lasting("shift of dates", purpose, np.zeros(batch.height))
        possible = self._shifts
        return possible[(uniform * len(possible)).astype(np.int64)]

    def _count_from_origin(
        self, batch: pl.DataFrame, fitted: Fitted, starts: Starts
    ) -> pl.DataFrame:
        """Days since the earliest day of the event, of rows that belong together in groups."""
        origin = _read_days(batch[self.origin or ""])
        group = np.arange(batch.height)
        if PERSON in batch.columns and batch.height:
            alone = batch[PERSON].is_null().to_numpy()
            first = np.minimum.reduceat(origin, starts[:-1])
            origin = np.where(alone, origin, np.repeat(first, np.diff(starts)))
            group = np.where(alone, group, np.repeat(starts[:-1], np.diff(starts)))
        columns = []
        for name in fitted["variables"]:
            days = _read_days(batch[name])
            unknown = (days == _MISSING) | (origin == _MISSING)
            unknown |= days < fitted["limits"][name]["original"]
            passed = _rank_days(days, group) if self.count == "order" else days - origin
            since = pl.Series(name, np.where(unknown, 0, passed))
            columns.append(since.set(pl.Series(unknown), None))
        return pl.DataFrame(columns)

    def transform(
        self, data: Dataset, fitted: Fitted, *, engine: Engine, chance: Chance | None
    ) -> Dataset:
        """Shift, or count; and say how many dates were blanked."""
        if self.oldest:
            data = self._limit_ages(data, fitted, engine)
        if self.origin is None or fitted["person"] is None:
            released = super().transform(data, fitted, engine=engine, chance=chance)
        else:
            released = self._count_by_person(data, fitted, engine)
        _warn_of_blanks(data, released, fitted["variables"], engine)
        _warn_of_ages(data, released, fitted["variables"], engine)
        return released

    def _limit_ages(self, data: Dataset, fitted: Fitted, engine: Engine) -> Dataset:
        """The data with later births of those who are older than the limit."""
        oldest = self.oldest or {}
        others = [name for name in fitted["variables"] if name not in oldest]

        def move_births(batch: pl.DataFrame, starts: Starts, draws: Draws | None) -> pl.DataFrame:
            del draws
            last = np.full(batch.height, -_MISSING)
            for name in others:
                days = _read_days(batch[name])
                last = np.maximum(last, np.where(days == _MISSING, -_MISSING, days))
            if batch.height:
                greatest = np.maximum.reduceat(last, starts[:-1])
                alone = batch[PERSON].is_null().to_numpy() if PERSON in batch.columns else False
                last = np.where(alone, last, np.repeat(greatest, np.diff(starts)))
            none = last == -_MISSING
            latest = pl.Series(np.where(none, 0, last)).cast(pl.Int32).cast(pl.Date)
            latest = latest.set(pl.Series(none), None)
            columns = []
            for name, years in oldest.items():
                bound = latest.dt.offset_by(f"-{12 * years}mo")
                older = (count_years(batch[name], latest) > years).fill_null(value=False)
                columns.append(batch[name].zip_with(~older, bound).alias(name))
            return pl.DataFrame(columns)

        reads = list(dict.fromkeys([*others, *oldest]))
        if fitted["person"] is None:

            def move_each(batch: pl.DataFrame, draws: Draws | None) -> pl.DataFrame:
                return move_births(batch, np.arange(batch.height + 1), draws)

            return engine.map_rows(data, move_each, reads=reads)
        grouped = attach_persons(data, engine)
        moved = engine.map_groups(grouped, move_births, by=[PERSON], reads=[*reads, PERSON])
        ungrouped = moved.without([name for name in moved.columns if name == PERSON])
        return replace(ungrouped, schema=data.schema)

    def _count_by_person(self, data: Dataset, fitted: Fitted, engine: Engine) -> Dataset:
        """Days since the event of the person, whichever rows it stands in."""

        def count_days(batch: pl.DataFrame, starts: Starts, draws: Draws | None) -> pl.DataFrame:
            del draws
            return self._count_from_origin(batch, fitted, starts)

        counted = engine.map_groups(
            attach_persons(data, engine),
            count_days,
            by=[PERSON],
            reads=[*self.touches(data.schema), PERSON],
        )
        schema = self.reschema(data.schema, fitted)
        ungrouped = counted.without([name for name in counted.columns if name == PERSON])
        return replace(ungrouped, schema=schema)

    def reschema(self, schema: Schema, fitted: Fitted) -> Schema:
        """Dates in a wider domain, or whole numbers."""
        changed = schema
        for name in fitted["variables"]:
            if self.origin is not None:
                unit = "" if self.count == "order" else "days"
                fields = {"kind": "integer", "domain": None, "unit": unit, "missing": ()}
            else:
                fields = {"domain": self._move_domain(schema[name])}
            changed = changed.changed([name], hierarchy=None, **fields)
        return changed

    def _move_domain(self, column: Column) -> tuple[Any, ...] | None:
        """The days that a released date can be."""
        if column.bounds is None:
            return column.domain
        low, high = column.bounds
        least, most = (dt.timedelta(days=int(self._shifts[end])) for end in (0, -1))
        if self.ends == "blank":
            least, most = most, least
        return low + least, high + most

    def public(self, fitted: Fitted) -> dict[str, Any]:
        """Every parameter, and which dates were shifted; never a shift."""
        return {**super().public(fitted), "variables": fitted["variables"]}

    def follows(self, fitted: Fitted) -> dict[str, dict[str, Any]]:
        """The possible shifts: others are drawn independently of these."""
        if self.origin is not None:
            return {}
        possible = {part: getattr(self, part) for part in ("window", "unit", "towards")}
        return {name: {"method": self.name, **possible} for name in fitted["variables"]}


def _find_person(data: Dataset, engine: Engine) -> str | None:
    """The variable that says whose a row is; empty where an earlier step has taken it away."""
    person = data.schema.person
    if person is None:
        return "" if has_persons(data) else None
    if data.schema[person].cells == "pseudonyms" and not engine.in_memory:
        raise MethodError(
            f"A shift belongs to the person, and an earlier step put pseudonyms into '{person}'.",
            hint="put this step before `pseudonymise`.",
        )
    return person


def _require_dates(data: Dataset, names: tuple[str, ...]) -> None:
    for name in names:
        if data.dtype(name) not in (pl.Date, pl.Datetime):
            raise MethodError(
                f"Variable '{name}' holds no calendar dates, so they cannot be shifted.",
                hint="leave it out, or read it as dates: types = { ... } when reading.",
            )


def _warn_of_shared_days(data: Dataset, names: tuple[str, ...], engine: Engine) -> None:
    """Say so where many rows have one and the same day, such as a placeholder."""
    counts = {name: Counter[int]() for name in names}
    for part in engine.gather(data, _count_each_day, reads=names):
        for name, days in part.items():
            counts[name].update(days)
    for name, days in counts.items():
        most, total = max(days.values(), default=0), days.total()
        if most >= _MANY and most >= _SHARED * total:
            warnings.warn(
                f"Variable '{name}': one day stands in {most:,} of {total:,} rows. Somebody who "
                "knows which day that is can work out all of their shifts. Set placeholders to "
                "missing first, and leave out a day that all have in common.",
                WeakProtectionWarning,
                stacklevel=5,
            )


def _count_each_day(batch: pl.DataFrame) -> dict[str, dict[int, int]]:
    """How many rows have each day, by variable."""
    counted = {}
    for values in batch.get_columns():
        days = pl.Series("day", _read_days(values.drop_nulls())).value_counts()
        counted[values.name] = dict(zip(*(column.to_list() for column in days), strict=True))
    return counted


def _warn_of_blanks(data: Dataset, released: Dataset, names: list[str], engine: Engine) -> None:
    wanted: dict[str, list[Summary]] = {name: [Count()] for name in names}
    before, after = (engine.aggregate(side, wanted) for side in (data, released))
    for name in names:
        if blanked := before[name]["count"] - after[name]["count"]:
            warnings.warn(
                f"Variable '{name}': {blanked:,} of {before[name]['count']:,} dates were blanked: "
                "they lie beyond a limit of this step, or have no day to count from.",
                HeavyLossWarning,
                stacklevel=4,
            )


def count_years(births: pl.Series, days: pl.Series) -> pl.Series:
    """Completed years from one date to another; missing where one is.

    Examples
    --------
    >>> births, days = (
    ...     pl.Series([dt.date(2000, 2, 29)]), pl.Series([dt.date(2001, 2, 28)])
    ... )
    >>> count_years(births, days).to_list()
    [0]
    """
    parts = [
        (date.dt.year().cast(pl.Int64), 100 * date.dt.month().cast(pl.Int64) + date.dt.day())
        for date in (births, days)
    ]
    (born, birthday), (year, today) = parts
    return year - born - (today < birthday).cast(pl.Int64)


def _warn_of_ages(data: Dataset, released: Dataset, dates: list[str], engine: Engine) -> None:
    """Say so where a number was the age that two dates tell, and is not any more."""
    shifted = [name for name in dates if released.dtype(name) in (pl.Date, pl.Datetime)]
    numbers = [name for name in data.schema.of_kind("integer") if data.dtype(name).is_integer()]
    pairs = [(birth, day) for birth in shifted for day in shifted if birth != day]
    if not numbers or not pairs:
        return

    def count_agreeing(batch: pl.DataFrame) -> list[tuple[int, int]]:
        counts = []
        for birth, day in pairs:
            years = count_years(batch[birth], batch[day])
            for name in numbers:
                same = batch[name].cast(pl.Int64) == years
                counts.append((int(same.sum()), len(same) - same.null_count()))
        return counts

    def add_up(side: Dataset) -> list[tuple[int, int]]:
        parts = engine.gather(side, count_agreeing, reads=[*numbers, *shifted])
        return [
            (sum(same for same, _ in counts), sum(known for _, known in counts))
            for counts in zip(*parts, strict=True)
        ]

    before, after = add_up(data), add_up(released)
    stated = [(pair, name) for pair in pairs for name in numbers]
    for ((birth, day), name), (agreed, known), (still, shown) in zip(
        stated, before, after, strict=True
    ):
        if known and agreed >= _AGREEING * known and still < shown:
            warnings.warn(
                f"Variable '{name}' is the age from '{birth}' to '{day}', and in {shown - still:,} "
                f"of {shown:,} rows the released dates give a different one. Compute it again: "
                "ages = "
                f'{{ {name} = ["{birth}", "{day}"] }}.',
                WeakProtectionWarning,
                stacklevel=4,
            )


def _shift_dates(values: pl.Series, shifts: Integers, limits: Mapping[str, int]) -> pl.Series:
    """The dates so many days later; those beyond the limits are missing."""
    days = _read_days(values)
    shifted = days + shifts
    unknown = (days == _MISSING) | (days < limits["original"])
    unknown |= (shifted < limits["first"]) | (shifted > limits["last"])
    ticks = _TICKS[values.dtype.time_unit] if isinstance(values.dtype, pl.Datetime) else 1
    moved = np.where(unknown, 0, shifts * ticks)
    clock, zone = values, getattr(values.dtype, "time_zone", None)
    if zone is not None:
        # By the clock: an hour more or less would tell which side of summer time a date is from.
        clock = values.dt.replace_time_zone(None)
    physical = pl.Series(values.name, clock.to_physical().fill_null(0).to_numpy() + moved)
    shown = physical.set(pl.Series(unknown), None).cast(clock.dtype)
    return shown if zone is None else _set_zone(shown, zone)


def _rank_days(days: Integers, group: Integers) -> Integers:
    """The place of each day among the different days of its group, from 1."""
    order = np.lexsort((days, group))
    new = np.ones(len(days), bool)
    begins = new.copy()
    begins[1:] = group[order][1:] != group[order][:-1]
    new[1:] = begins[1:] | (days[order][1:] != days[order][:-1])
    counted = np.cumsum(new)
    first = np.maximum.accumulate(np.where(begins, counted - 1, 0))
    ranks = np.empty(len(days), np.int64)
    ranks[order] = counted - first
    return ranks


def _set_zone(values: pl.Series, zone: str) -> pl.Series:
    """The same clock times in a time zone; in an hour that a clock leaps over, the one after."""
    first, second = (
        some.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
        for some in (values, values.dt.offset_by("1h"))
    )
    return first.zip_with(first.is_not_null(), second)


def _read_days(values: pl.Series) -> Integers:
    """Days since 1970, by the clock of the column's own time zone."""
    if isinstance(values.dtype, pl.Datetime):
        values = values.dt.date()
    return values.to_physical().cast(pl.Int64).fill_null(_MISSING).to_numpy()


def _count_days(day: dt.date) -> int:
    return ((day.date() if isinstance(day, dt.datetime) else day) - _EPOCH).days
