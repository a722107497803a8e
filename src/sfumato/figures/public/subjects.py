"""Whose values a plot shows: complete records, in groups that are large enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.data import Dataset
from sfumato.errors import DataError, PlanError
from sfumato.figures._sheet.style import MOST
from sfumato.figures.public.words import share_said
from sfumato.kernels.arrays import Floats
from sfumato.outputs.judged import OutputRefused
from sfumato.schema import Column, Schema

if TYPE_CHECKING:
    from sfumato.outputs.rules import Rules


@dataclass(frozen=True, kw_only=True, eq=False)
class Group:
    """The records of one group: the variables that are drawn, as floats, without a gap.

    Parameters
    ----------
    label : the level of the grouping variable; empty where there is none.
    values : one column a variable.
    origin : the data they come from.
    positions : where they stand in there; None when all of them do, in order.
    """

    label: str
    values: pl.DataFrame = field(repr=False)
    origin: Dataset = field(repr=False)
    positions: npt.NDArray[np.intp] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return self.values.height

    def column(self, name: str) -> Floats:
        """One variable."""
        return self.values[name].to_numpy()

    def without(self, some: npt.NDArray[np.bool_]) -> Group:
        """The same group less some of its records."""
        kept = np.flatnonzero(~some)
        places = kept if self.positions is None else self.positions[kept]
        return replace(self, values=self.values[kept], positions=places)

    def dataset(self, *, identity: bool) -> Dataset:
        """These records and variables alone; with `identity`, each still knows who it is."""
        kept = None
        if identity:
            kept = self.origin.identity
            kept = kept if self.positions is None else kept.take(self.positions)
        told = {name: Column(kind="continuous") for name in self.values.columns}
        return Dataset(self.values, Schema(told), given_identity=kept)


@dataclass(frozen=True, kw_only=True, eq=False)
class Subjects:
    """The records that a plot rests on.

    Parameters
    ----------
    names : the variables drawn.
    groups : at least one; in the order of their labels, or of the levels as declared.
    hue : the variable that makes the groups.
    data : where all of them come from.
    notes : sentences for the caption: who is left out, as a rounded share.
    """

    names: tuple[str, ...]
    groups: tuple[Group, ...]
    hue: str | None
    data: Dataset = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def records(self) -> int:
        """How many records there are in all groups together."""
        return sum(map(len, self.groups))

    @property
    def fewest(self) -> int:
        """How many records the smallest group has."""
        return min(map(len, self.groups))

    def column(self, name: str) -> Floats:
        """One variable, all groups together."""
        if len(self.groups) == 1:
            return self.groups[0].column(name)
        return np.concatenate([one.column(name) for one in self.groups])

    def whole(self, name: str) -> bool:
        """Whether the variable consists of whole numbers by its type."""
        return self.data.column(name).dtype.is_integer()

    def bounds(self, name: str) -> tuple[float, float] | None:
        """The declared domain of a variable."""
        found = self.data.schema[name].bounds
        return None if found is None else (float(found[0]), float(found[1]))

    @cached_property
    def population(self) -> Dataset:
        """The records drawn, with all their variables: what the log tells populations apart by."""
        places = [one.positions for one in self.groups]
        if any(one is None for one in places):
            return self.data
        return self.data.take(np.concatenate([one for one in places if one is not None]))


def dataset_of(data: Any) -> Dataset:
    """A Dataset from what people have: a Dataset, a release, or a frame."""
    if isinstance(data, Dataset):
        return data
    inner = getattr(data, "dataset", None)
    return inner if isinstance(inner, Dataset) else Dataset(data)


def subjects(
    data: Any, names: Sequence[str], hue: str | None = None, *, rules: Rules, k: int = 3
) -> Subjects:
    """The complete records by these variables, and the groups that are large enough."""
    whole = dataset_of(data)
    wanted = _wanted(names, hue)
    whole.schema.require([*wanted, *([hue] if hue is not None else [])])
    _nobodys_name(whole, [*wanted, *([hue] if hue is not None else [])])
    frame = pl.DataFrame([_numbers(whole, name) for name in wanted])
    labels = None if hue is None else _labels(whole, hue)
    kept = frame.select(pl.all_horizontal(pl.all().is_not_null())).to_series()
    if labels is not None:
        kept &= labels.is_not_null()
    notes = []
    _enough(int(kept.sum()), rules)
    if missing := int((~kept).sum()):
        said = share_said(missing / len(kept), records=len(kept), k=k)
        notes.append(f"Left out since a value is missing: {said} of the records.")
    if labels is None:
        groups: tuple[Group, ...] = (_group("", frame, kept, whole),)
    else:
        groups = _groups(frame, labels, kept, whole, fewest=max(rules.records, k + rules.k))
        if sum(map(len, groups)) < int(kept.sum()):
            notes.append("Groups of few records, or of one value, are left out.")
    for name in wanted:
        _varies(name, groups)
    return Subjects(names=wanted, groups=groups, hue=hue, data=whole, notes=tuple(notes))


def _nobodys_name(data: Dataset, names: Sequence[str]) -> None:
    direct = [name for name in names if data.schema[name].role == "direct"]
    if direct:
        raise OutputRefused(
            f"Variable '{direct[0]}' names persons, so no figure may show it.",
            hint="use a coarser variable.",
        )


def _wanted(names: Sequence[str], hue: str | None) -> tuple[str, ...]:
    listed = list(names)
    if not listed or not all(isinstance(one, str) for one in listed):
        raise PlanError(
            "A plot needs the names of its variables, each as text.",
            hint="for instance sf.plots.histogram(data, 'age').",
        )
    if hue is not None and not isinstance(hue, str):
        raise PlanError("The groups are made by one variable.", hint="for instance hue='sex'.")
    return tuple(dict.fromkeys(listed))


def _numbers(data: Dataset, name: str) -> pl.Series:
    values = data.column(name)
    if not values.dtype.is_numeric():
        held, hint = _no_numbers(values.dtype)
        raise DataError(
            f"A plot of numbers cannot show variable '{name}': it holds {held}.", hint=hint
        )
    if values.dtype.is_float() and values.is_infinite().any():
        raise DataError(
            f"Variable '{name}' holds infinite values.",
            hint="set them to missing, or correct them at the source.",
        )
    return values.cast(pl.Float64)


def _no_numbers(dtype: pl.DataType) -> tuple[str, str]:
    """What a variable holds in the place of numbers, and what to do about it."""
    if dtype.is_temporal():
        return (
            "dates or times",
            "take numbers of them first, such as the year, or days since a day.",
        )
    if dtype == pl.Boolean:
        return "yes/no values", "count them in a table (sf.tables.crosstab), or as groups (hue)."
    return "no numbers", "name a variable of numbers; categories can be the groups (hue)."


def _labels(data: Dataset, hue: str) -> pl.Series:
    values = data.column(hue).cast(pl.String)
    if values.n_unique() > 20 * MOST:  # nobody means a measured number by this
        raise _too_many(hue)
    return values


def _groups(
    frame: pl.DataFrame, labels: pl.Series, kept: pl.Series, data: Dataset, *, fewest: int
) -> tuple[Group, ...]:
    levels = sorted(labels.filter(kept).unique().to_list())
    if (told := data.schema[labels.name].levels) is not None:
        place = {str(one): at for at, one in enumerate(told)}
        levels.sort(key=lambda one: place.get(one, len(place)))
    made = [_group(one, frame, kept & (labels == one), data) for one in levels]
    large = [one for one in made if len(one) >= fewest and all(map(_spread, one.values))]
    if len(large) > MOST:
        raise _too_many(labels.name)
    if not large:
        raise OutputRefused(
            f"No group of '{labels.name}' has enough records to be shown.",
            hint=f"at least {fewest} are asked for; use broader groups, or none.",
        )
    return tuple(large)


def _group(label: str, frame: pl.DataFrame, kept: pl.Series, data: Dataset) -> Group:
    if kept.all():
        return Group(label=label, values=frame, origin=data)
    places = np.flatnonzero(kept.to_numpy())
    return Group(label=label, values=frame.filter(kept), origin=data, positions=places)


def _too_many(hue: str) -> DataError:
    return DataError(
        f"Variable '{hue}' has more groups than one figure can show.",
        hint=f"at most {MOST}: use a broader grouping.",
    )


def _enough(records: int, rules: Rules) -> None:
    if records < rules.records:
        raise OutputRefused(
            f"Fewer than {rules.records} records have all the values of this figure.",
            hint=f"an output on at least {rules.records} records is allowed.",
        )


def _spread(values: pl.Series) -> bool:
    """Whether a variable varies; where it does not, a group's picture tells everybody's value."""
    return bool(values.min() != values.max())


def _varies(name: str, groups: Sequence[Group]) -> None:
    low = min(float(one.column(name).min()) for one in groups)
    high = max(float(one.column(name).max()) for one in groups)
    if low == high:
        raise OutputRefused(
            f"Variable '{name}' does not vary: a figure would tell everybody's value.",
            hint="leave it out.",
        )
