"""Whose shift of dates can be found from the calendar: weekdays, holidays, first and last days."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.cells.date_shifts import Towards, Unit, list_shifts
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.engines.verbs import AFTER, BEFORE
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Floats, Integers
from sfumato.measure import AT_WORST, AttackWording, Measure, Trial
from sfumato.numbers import Number
from sfumato.parameters import parameters
from sfumato.risk.attacks.outcomes import mean_of, wilson

_ASSUMPTIONS = (
    "The attacker knows the window, the unit and the direction of the shifts from the manifest.",
    "They know the first and last day of the data, and how common each weekday is.",
    "They know how common each day of the year and each single day is; here, from other persons.",
    "They know no date of the person: who does, has the shift.",
)
_CLUES = {
    "all": ("weekday", "day_of_year", "day", "ends"),
    "weekdays": ("weekday",),
    "days of the year": ("day_of_year",),
    "single days": ("day",),
    "first and last day": ("ends",),
}
_SMOOTH = 20.0
"""Dates that are added to each day, on which as many are as expected: few dates tell little."""
_IMPOSSIBLE = -50.0
"""The log-likelihood of a day outside the data: of two such shifts, the fewer days outside."""
_TIED = 1e-9
_CELLS = 1 << 22
"""Dates times shifts that are looked up at a time."""
_WEEK = 7
_DAYS_A_MONTH = 31
_DAYS = 12 * _DAYS_A_MONTH


@dataclass(frozen=True, eq=False)
class _Dates:
    """The different dates of each person, and by how much each was shifted.

    Parameters
    ----------
    person : whose a date is, numbered in an order that follows from the identity.
    variable : which variable it stands in.
    original, released : days since 1970.
    shifts : the shift of each person.
    """

    person: Integers = field(repr=False)
    variable: Integers = field(repr=False)
    original: Integers = field(repr=False)
    released: Integers = field(repr=False)
    shifts: Integers = field(repr=False)

    @property
    def persons(self) -> int:
        """How many persons have a date."""
        return len(self.shifts)


@parameters
class DateShift(Measure):
    """Share of persons whose shift of dates an attacker finds exactly.

    Question: dates were shifted by `shift_dates`. Who can be shifted back by somebody who knows the
    calendar: few visits on Sundays and public holidays, none before the first and after the last
    day?
    Assumes: the attacker tries every possible shift of a person, and takes the one under which the
    person's dates are the most probable (maximum likelihood), given how many dates of the others
    fall on each weekday, each day of the year and each single day (a strike, a first lockdown), and
    between which days all lie. Where several are
    equally probable they guess among these. The baseline is a guess among all shifts.

    Dates that a later step has changed, such as k-anonymity into ranges, are left out where it is
    tried on a release: of these nobody can tell which shift was right.

    Beside it: `date_shift_within_week`, the share found to within seven days, with its own guess
    `guess_within_week`. The table says what each clue alone achieves. Shifts by whole weeks leave
    nothing to be learnt from weekdays.

    Parameters
    ----------
    variables : the dates that were shifted together.
    window : most days of a shift; as in the method, published.
    unit : unit of a shift; as in the method, published.
    towards : direction of the shifts; as in the method, published.
    oldest : oldest age, as in the method. Births that were moved to a limit were not shifted alike,
        so these variables are left out.
    persons : most persons looked at. Which follows from their identity.

    Examples
    --------
    >>> import sfumato as sf
    >>> data = sf.Dataset(sf.datasets.cohort(500), sf.datasets.cohort_schema())
    >>> shifted = sf.methods.ShiftDates(window=28).apply(data, key=bytes(32))
    >>> found = DateShift(variables=["birth_date"], window=28).measure(data, shifted)
    >>> found.value < 0.1, round(found.baseline, 3)
    (True, 0.036)

    References: Hripcsak, Mirhaji, Low & Malin (2016), Preserving temporal relations in clinical
    data while maintaining privacy, JAMIA 23:1040.
    """

    name = "date_shift"
    attack = AttackWording(
        title="Finding date shifts",
        control="a guess",
        sentence="From weekdays, holidays and the first and last days the shift of dates is found "
        "exactly for {success} of the people, by a guess for {control}. It is found to "
        "within a "
        "week for {date_shift_within_week_percent}, by a guess for {guess_within_week_percent}.",
    )
    # The European Medicines Agency lets one person in eleven be found (policy 0070).
    trial = Trial(exploits=("gaps",), acceptable=0.09, seconds=2.0, in_sample="unknown")
    examples = (
        {"variables": ["birth_date"], "window": 364},
        {"variables": ["birth_date"], "window": 91, "unit": "weeks", "towards": "both"},
    )
    of = "pair"
    counts_persons = True
    as_written = True
    numbers = (
        Number.share("date_shift"),
        Number.share("date_shift_within_week"),
    )
    variables: Annotated[list[str], Field(min_length=1)]
    window: Annotated[int, Field(ge=1, le=36_525)]
    unit: Unit = "days"
    towards: Towards = "past"
    oldest: dict[str, int] | None = None
    persons: Annotated[int, Field(ge=1)] = 2_000

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """Try all shifts of some persons, and count whose is found."""
        names = [name for name in self.variables if name not in (self.oldest or {})]
        if not names:
            raise MeasureError(
                f"'{self.name}' has no date but births that were moved to a limit.",
                hint="name another date that was shifted.",
            )
        dates = _read_dates(original, released, names, engine, self.name)
        possible = list_shifts(self.window, self.unit, self.towards)
        some = min(self.persons, dates.persons)
        truth = dates.shifts[:some]
        gaps = np.abs(possible - truth[:, None])
        outcomes = {
            clue: _compute_hit_shares(self._score(dates, some, possible, parts), gaps)
            for clue, parts in _CLUES.items()
        }
        # Who was not shifted need not be shifted back.
        for exact, within in outcomes.values():
            exact[truth == 0] = within[truth == 0] = 1.0
        guess = 1 / len(possible), mean_of((gaps <= _WEEK).mean(axis=1))
        table = pl.DataFrame(
            [(clue, mean_of(exact), mean_of(within)) for clue, (exact, within) in outcomes.items()],
            schema=["clue", self.name, "within_week"],
            orient="row",
        )
        value, within_week = mean_of(outcomes["all"][0]), mean_of(outcomes["all"][1])
        return Evidence(
            name=self.name,
            subject="pair",
            value=value,
            interval=wilson(value, some),
            direction=self.direction,
            baseline=guess[0],
            table=original.like(table),
            details={
                "date_shift_within_week": within_week,
                f"{self.name}{AT_WORST}": max(table[self.name]),
                f"date_shift_within_week{AT_WORST}": max(table["within_week"]),
                "guess_within_week": guess[1],
                "possible_shifts": len(possible),
                "persons_looked_at": some,
                "persons": dates.persons,
                "variables": tuple(names),
            },
            assumptions=_ASSUMPTIONS,
            warnings=_list_warnings(truth, possible),
            sampled=None if some == dates.persons else (some, dates.persons),
        )

    def _score(
        self, dates: _Dates, some: int, possible: Integers, parts: tuple[str, ...]
    ) -> Floats:
        """The log-likelihood of each shift of each person who is looked at."""
        scores = np.zeros((some, len(possible)))
        for variable in range(int(dates.variable.max()) + 1):
            here = dates.variable == variable
            # Nobody's own dates are in the calendar by which they are judged.
            for half in (0, 1):
                others = here & (dates.person % 2 != half)
                wanted = np.flatnonzero(here & (dates.person % 2 == half) & (dates.person < some))
                if not len(wanted) or not others.any():
                    continue
                shown = dates.released[wanted]
                first = int(shown.min() - possible[-1])
                days = np.arange(first, int(shown.max() - possible[0]) + 1)
                ends = dates.original[here].min(), dates.original[here].max()
                table = _weigh_days(days, dates.original[others], ends, parts)
                step = max(1, _CELLS // len(possible))
                for start in range(0, len(wanted), step):
                    rows = wanted[start : start + step]
                    true_days = dates.released[rows][:, None] - possible - first
                    np.add.at(scores, dates.person[rows], table[true_days])
        return scores


def _read_dates(
    original: Dataset, released: Dataset, names: list[str], engine: Engine, owner: str
) -> _Dates:
    """The dates that both data sets have, by person."""
    original.schema.require(names)
    for data in (original, released):
        for name in names:
            if name not in data.schema or data.dtype(name) not in (pl.Date, pl.Datetime):
                raise MeasureError(
                    f"'{owner}' reads shifts off single dates, and variable '{name}' has none in "
                    "the original or in the release: of ranges nobody can tell which shift was "
                    "right.",
                    hint="name dates that were shifted, and not generalised afterwards.",
                )
    pairs = engine.pairs(original, released, names)
    numbers = _number_persons(original)
    parts = []
    for variable, name in enumerate(names):
        true, shown = (
            pairs.column(f"{side}{name}").cast(pl.Date).to_physical() for side in (BEFORE, AFTER)
        )
        known = (true.is_not_null() & shown.is_not_null()).to_numpy()
        columns = (true.fill_null(0), shown.fill_null(0))
        days = [column.cast(pl.Int64).to_numpy()[known] for column in columns]
        parts.append(np.column_stack([numbers[known], np.full(len(days[0]), variable), *days]))
    # A date that stands in every row of a person, such as the birth, counts once.
    dates = np.unique(np.concatenate(parts), axis=0)
    persons, person = np.unique(dates[:, 0], return_inverse=True)
    if len(persons) <= 1:
        raise MeasureError(
            f"'{owner}' needs dates of at least two persons, before and after.",
            hint="name variables with fewer missing values.",
        )
    shifts = np.empty(len(persons), np.int64)
    shifts[person] = dates[:, 3] - dates[:, 2]
    if (shifts[person] != dates[:, 3] - dates[:, 2]).any():
        raise MeasureError(
            f"'{owner}': not all dates of a person were shifted alike, so there is no one shift to "
            "find. A later step may have changed them.",
            hint="name the variables of one step that left as it wrote them, and declare the role "
            "person.",
        )
    return _Dates(person.ravel(), dates[:, 1], dates[:, 2], dates[:, 3], shifts)


def _number_persons(data: Dataset) -> Integers:
    """A number for each row's person, in an order that says nothing of the data."""
    if data.units.declared:
        return data.units.numbers.astype(np.int64)
    digests = data.identity.digests
    numbers = np.empty(len(digests), np.int64)
    numbers[np.lexsort((digests[:, 1], digests[:, 0]))] = np.arange(len(digests))
    return numbers


def _weigh_days(
    days: Integers, known: Integers, ends: tuple[int, int], parts: Sequence[str]
) -> Floats:
    """The log of how much more or less probable each day is than any other.

    Parameters
    ----------
    days : the days.
    known : the true days of the other persons.
    ends : the first and the last true day of all.
    parts : what the attacker makes use of.
    """
    span = np.arange(ends[0], ends[1] + 1)
    weights = np.zeros(len(days))
    if "weekday" in parts:
        counts = np.bincount(known % _WEEK, minlength=_WEEK) + 1
        weights += np.log(counts / counts.mean())[days % _WEEK]
    if "day_of_year" in parts:
        counted, possible = (
            np.bincount(_find_day_of_year(some), minlength=_DAYS) for some in (known, span)
        )
        expected = possible.astype(np.float64) * (len(known) / len(span))
        weights += _compare_counts(counted, expected)[_find_day_of_year(days)]
    in_range = (days >= ends[0]) & (days <= ends[1])
    if "day" in parts:
        # What is more or less than the other clues let expect.
        others = [part for part in parts if part != "day"]
        base = np.exp(_weigh_days(span, known, ends, others))
        counted = np.bincount(known - ends[0], minlength=len(span))
        more = _compare_counts(counted, base * (len(known) / base.sum()))
        weights[in_range] += more[days[in_range] - ends[0]]
    if "ends" in parts:
        weights[~in_range] = _IMPOSSIBLE
    return weights


def _compare_counts(counted: Integers, expected: Floats) -> Floats:
    """The log of how much more or less there is than expected."""
    ratios: Floats = np.log((counted + _SMOOTH) / (expected + _SMOOTH))
    return ratios


def _find_day_of_year(days: Integers) -> Integers:
    """The same number for a calendar day of every year, from 0."""
    dates = pl.Series(days).cast(pl.Int32).cast(pl.Date)
    return ((dates.dt.month().cast(pl.Int64) - 1) * _DAYS_A_MONTH + dates.dt.day() - 1).to_numpy()


def _compute_hit_shares(scores: Floats, distances: Integers) -> tuple[Floats, Floats]:
    """For each person the probability that the best shift is the true one, and within a week."""
    best = scores >= scores.max(axis=1, keepdims=True) - _TIED
    shares = best / best.sum(axis=1, keepdims=True)
    return (shares * (distances == 0)).sum(axis=1), (shares * (distances <= _WEEK)).sum(axis=1)


def _list_warnings(truth: Integers, possible: Integers) -> tuple[str, ...]:
    odd = int((~np.isin(truth, possible) & (truth != 0)).sum())
    if not odd:
        return ()
    warning = (
        f"{odd} of {len(truth)} persons have a shift that is none of the possible ones: were the "
        "dates shifted with another window, unit or direction?"
    )
    return (warning,)
