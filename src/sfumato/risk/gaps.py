"""Whom the time between their dates points to, although no date is true."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.cells.classes import find_equivalence_classes
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Integers
from sfumato.measure import AttackWording, Measure, Trial
from sfumato.numbers import Number
from sfumato.pairs.alignment import quote_names
from sfumato.parameters import parameters
from sfumato.risk.attacks.knowledge import require_pairs
from sfumato.risk.attacks.outcomes import mean_of, wilson
from sfumato.risk.trajectories import find_link, number_trajectories

_ASSUMPTIONS = (
    (
        "The attacker knows how far all dates of a person lie apart, to the day: from a diary, an "
        "employer's absences, a relative."
    ),
    "They know the person's other quasi-identifiers, and in which class of the release these are.",
    "They need not know how far dates were shifted: gaps are the same for every shift.",
)
_FEWEST = 2
_PERSON, _VARIABLE, _DAY, _GAP = "person", "variable", "day", "gap"


@parameters
class Gaps(Measure):
    """Share of persons who are found by the days between their dates.

    Question: all dates of a person were shifted alike. Who else was seen after 12, 40 and 41 days?
    Assumes: the attacker knows how far a person's dates lie apart, and the other
    quasi-identifiers. They look for the person among those who are alike in these, and take one
    of those whose released dates lie as far apart; of n such persons each is taken with 1 / n.
    Whose gaps were changed is not found. The baseline is the share that is found by the other
    quasi-identifiers alone. The interval is Wilson's, 95 %.

    Gaps count over all rows of a person where the release says which rows these are; otherwise
    within a row, between its variables.

    It refuses nothing: to keep gaps is what shifting is for, and whether anybody knows all dates of
    a person is for people to judge. It asks for a second look.

    Parameters
    ----------
    variables : the dates, or counts of days, that were shifted together.

    Examples
    --------
    >>> import datetime as dt, polars as pl, sfumato as sf
    >>> days = [dt.date(2020, 3, day) for day in (1, 3, 5, 7, 10, 19)]
    >>> visits = pl.DataFrame({"patient": list("aabbcc"), "visit": days})
    >>> data = sf.Dataset(visits, sf.Schema({"patient": "person", "visit": "sensitive"}))
    >>> shifted = sf.methods.ShiftDates(window=364).apply(data, key=bytes(32))
    >>> Gaps(variables=["visit"]).measure(data, shifted).value.__round__(2)
    0.67

    References: Hripcsak, Mirhaji, Low & Malin (2016), Preserving temporal relations in clinical
    data while maintaining privacy, JAMIA 23:1040.
    """

    name = "gaps"
    attack = AttackWording(
        title="Finding people by the time between their dates",
        control="without the dates",
        sentence="Somebody who knows how many days lie between the dates of a person finds "
        "{success} of the people. Without that it is {control}.",
        remedy="Coarsen the gaps (`round`, or `shift_dates` with `origin` and count = "
        '"order"), drop what links the rows of a person, or accept that who knows all dates of a '
        "person finds the others.",
    )
    trial = Trial(
        exploits=("gaps",), acceptable=1.0, unremarkable="by k", seconds=0.5, in_sample="overstated"
    )
    examples = ({"variables": ["birth_date"]},)
    of = "pair"
    counts_persons = True
    as_written = True
    numbers = (Number.share("gaps"),)
    variables: Annotated[list[str], Field(min_length=1)]

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """Compare the gaps of each person with those of all others."""
        del engine  # all records are in memory
        require_pairs(original, released, self.name)
        original.schema.require(self.variables)
        link = find_link(released, original.units.numbers)
        linked = link is not None or original.units.one_row_each
        persons = original.units.numbers if linked else np.arange(len(original))
        persons = np.unique(persons, return_inverse=True)[1].ravel().astype(np.int64)
        before, after = (
            _number_patterns(
                [_read_days(data, name, self.name) for name in self.variables], persons
            )
            for data in (original, released)
        )
        known = [
            name
            for name in released.schema.having("quasi")
            if name not in self.variables and name in original.schema
        ]
        classes = find_equivalence_classes(released, known).of
        alike = number_trajectories(classes, persons)
        if not any(before) or len(before) < _FEWEST:
            raise MeasureError(
                f"'{self.name}' needs dates of at least two persons.",
                hint="name variables with fewer missing values.",
            )
        # Patterns of both sides in one count, so that the same numbers mean the same gaps.
        true, shown = _number_together(before, after)
        both = np.unique(np.stack([alike, shown]), axis=1, return_inverse=True)[1].ravel()
        chances = np.where(true == shown, 1 / np.bincount(both)[both], 0.0)
        value, count = mean_of(chances), len(chances)
        return Evidence(
            name=self.name,
            subject="pair",
            value=value,
            interval=wilson(value, count),
            direction=self.direction,
            baseline=mean_of(1 / np.bincount(alike)[alike]),
            records=original.like(pl.DataFrame({"found_by_gaps": chances[persons]})),
            details={
                "kept": float((true == shown).mean()),
                "persons": count,
                "linked_by": link or "",
                "finding": f"The dates {quote_names(self.variables)} lie as far apart as they did.",
                "variables": tuple(self.variables),
            },
            assumptions=_ASSUMPTIONS,
        )


def _read_days(data: Dataset, name: str, owner: str) -> pl.Series:
    """Dates, or counted days, as whole days."""
    dtype = data.dtype(name) if name in data.schema else pl.Null()
    if dtype in (pl.Date, pl.Datetime):
        return data.column(name).cast(pl.Date).to_physical().cast(pl.Int64)
    if dtype.is_numeric():
        return data.column(name).cast(pl.Float64).round().cast(pl.Int64)
    raise MeasureError(
        f"'{owner}' reads days, and variable '{name}' has none in the original or in the release.",
        hint="name dates that left as single days.",
    )


def _number_patterns(columns: list[pl.Series], persons: Integers) -> list[bytes]:
    """For each person the gaps between all different days, and in which variable each lies."""
    days = pl.concat(
        pl.DataFrame({_PERSON: persons, _DAY: column}).with_columns(
            pl.lit(number, pl.Int64).alias(_VARIABLE)
        )
        for number, column in enumerate(columns)
    )
    sorted_days = days.drop_nulls().unique().sort(_PERSON, _DAY, _VARIABLE)
    gaps = sorted_days.with_columns(
        (pl.col(_DAY) - pl.col(_DAY).shift(1).over(_PERSON)).fill_null(0).alias(_GAP)
    )
    patterns = [b""] * (int(persons.max(initial=-1)) + 1)
    for (person,), rows in gaps.partition_by(_PERSON, as_dict=True).items():
        patterns[int(person)] = rows.select(_GAP, _VARIABLE).to_numpy().tobytes()
    return patterns


def _number_together(before: list[bytes], after: list[bytes]) -> tuple[Integers, Integers]:
    """The same number for the same pattern, in either list."""
    numbers = {pattern: number for number, pattern in enumerate({*before, *after})}
    true, shown = (
        np.array([numbers[pattern] for pattern in patterns], np.int64)
        for patterns in (before, after)
    )
    return true, shown
