"""What a profile asks of the steps of a first plan."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import polars as pl

from sfumato.data import Dataset
from sfumato.method import Method
from sfumato.methods.drop import Drop
from sfumato.methods.topcode import Topcode
from sfumato.methods.years import Years
from sfumato.methods.zip3 import Zip3
from sfumato.profiles import load_profile
from sfumato.risk.identifiers_left import OLDEST, is_birth, recognise_identifiers, tells_days


@dataclass(frozen=True)
class ProfileRequirements:
    """What a profile asks of the steps of a first plan.

    Parameters
    ----------
    k : how many people must look the same.
    steps : what is done to the identifiers that it lists.
    """

    k: int
    steps: tuple[Method, ...] = ()

    @property
    def years(self) -> list[str]:
        """The dates of which years are left."""
        return [name for step in self.steps if isinstance(step, Years) for name in step.variables]

    def narrow(self, data: Dataset) -> list[Method]:
        """The steps, without variables that are dropped already."""
        narrowed: list[Method] = []
        for step in self.steps:
            names = [name for name in step.touches(data.schema) if name in data.schema]
            if names:
                narrowed.append(replace(step, variables=names))  # type: ignore[type-var]
        return narrowed


def read_profile(name: str | None, data: Dataset, *, smallest: int) -> ProfileRequirements:
    """What a profile asks of the steps of a first plan for these data."""
    if name is None:
        return ProfileRequirements(smallest)
    profile = load_profile(name)
    k = math.ceil(profile.targets.get("k", {}).get("min", smallest))
    steps = _treat_identifiers(name, data) if profile.identifiers else ()
    return ProfileRequirements(max(k, smallest), tuple(steps))


def _treat_identifiers(profile: str, data: Dataset) -> Iterator[Method]:
    """A step for each thing that is done to identifiers."""
    identifiers = recognise_identifiers(data, profile, ())
    by_action: dict[str, list[str]] = {}
    for name, identifier in identifiers.items():
        by_action.setdefault(identifier.action, []).append(name)
    dates = by_action.get("years", [])
    days = [name for name in dates if data.dtype(name) in (pl.Date, pl.Datetime)]
    # What stands for a day in another way cannot be shortened.
    gone = [name for name in dates if name not in days and tells_days(data, name)]
    if dropped := [*by_action.get("drop", ()), *gone]:
        yield Drop(variables=dropped)
    if codes := by_action.get("zip3"):
        yield Zip3(variables=codes)
    born = [name for name in days if is_birth(name)]
    if others := [name for name in days if name not in born]:
        yield Years(variables=others)
    if born:
        years = pl.concat([data.column(name).dt.year().cast(pl.Int64) for name in days])
        yield Years(variables=born, oldest=int(years.drop_nulls().max()) - OLDEST)  # type: ignore[arg-type]
    if ages := [name for name in by_action.get("ages", ()) if data.dtype(name).is_numeric()]:
        yield Topcode(variables=ages, top=OLDEST)
