"""Whose values a plot shows: complete records, in groups that are large enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.data import Dataset
from sfumato.engines import engine_for
from sfumato.errors import DataError, PlanError
from sfumato.figures.public.distant import (
    DistantColumn,
    DistantRecords,
    pool_columns,
    summarise_records,
)
from sfumato.figures.sheet.style import MOST_MARKS
from sfumato.figures.sheet.text import format_rough_share
from sfumato.io import frames
from sfumato.kernels.arrays import Floats
from sfumato.outputs.contributors import ALONE, Contributors, find_contributors, join_contributors
from sfumato.outputs.output import OutputRefused
from sfumato.schema import Column, Schema

if TYPE_CHECKING:
    from sfumato.outputs.rules import Rules

_CLUSTER = "__sfumato_cluster "
_MOST_LABELS = 20 * MOST_MARKS
"""Nobody means a measured number by the groups of a figure."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Group:
    """The records of one group: the variables that are drawn, as floats, without a gap.

    Parameters
    ----------
    label : the level of the grouping variable; empty where there is none.
    values : one column a variable.
    origin : the data they come from.
    positions : their positions in there; None when they are all of them, in order.
    units : whose each record is, where the rules count persons or groups.
    """

    label: str
    values: pl.DataFrame = field(repr=False)
    origin: Dataset = field(repr=False)
    positions: npt.NDArray[np.intp] | None = field(default=None, repr=False)
    units: Contributors = field(default=ALONE, repr=False)

    def __len__(self) -> int:
        return self.values.height

    def count_units(self) -> int:
        """How many persons or groups they are, where the rules count these; or records."""
        return self.units.count(len(self))

    def column(self, name: str) -> Floats:
        """One variable."""
        return self.values[name].to_numpy()

    def varies(self) -> bool:
        """Whether every variable has more than one value."""
        columns = map(self.column, self.values.columns)
        return all(values.min() != values.max() for values in columns)

    def take(self, indices: npt.NDArray[np.intp]) -> Group:
        """The same group with some of its records only."""
        positions = indices if self.positions is None else self.positions[indices]
        return replace(
            self, values=self.values[indices], positions=positions, units=self.units.take(indices)
        )

    def dataset(self, *, identity: bool) -> Dataset:
        """These records and variables alone; with `identity`, each still knows who it is.

        Where the rules count persons or groups, each knows to whom it belongs as well.
        """
        identities = None
        if identity or self.units:
            identities = self.origin.identity
            identities = identities if self.positions is None else identities.take(self.positions)
        # Figures round by themselves, and noise must not be rounded back to whole numbers.
        columns = {name: Column(kind="continuous", digits=15) for name in self.values.columns}
        values = self.values
        if self.units.word == "groups":
            groups = self.origin.batch(self.origin.schema.having("cluster"))
            groups = groups if self.positions is None else groups[self.positions]
            groups = groups.rename({name: f"{_CLUSTER}{name}" for name in groups.columns})
            columns |= {name: Column(role="cluster") for name in groups.columns}
            values = values.hstack(groups)
        return Dataset(values, Schema(columns), given_identity=identities)


@dataclass(frozen=True, kw_only=True, eq=False)
class DistantGroup(Group):
    """A group whose records are not in memory; what is known of them is counted where they are."""

    values: pl.DataFrame = field(default_factory=pl.DataFrame, repr=False)
    columns: Mapping[str, DistantColumn] = field(repr=False)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def column(self, name: str) -> Any:
        """One variable, without its values."""
        return self.columns[name]

    def varies(self) -> bool:
        """Whether every variable has more than one value."""
        return all(column.low != column.high for column in self.columns.values())


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
        """How many records the smallest group has, or persons where the rules count these."""
        return min(group.count_units() for group in self.groups)

    @property
    def units(self) -> Contributors:
        """Whose the records are, all groups together."""
        return join_contributors([group.units for group in self.groups])

    @property
    def labels(self) -> list[str]:
        """What the groups are called."""
        return [group.label for group in self.groups]

    def column(self, name: str) -> Floats:
        """One variable, all groups together."""
        pooled: Floats = pool_groups([group.column(name) for group in self.groups])
        return pooled

    def is_integer(self, name: str) -> bool:
        """Whether the variable consists of whole numbers by its type."""
        return self.data.dtype(name).is_integer()

    def bounds(self, name: str) -> tuple[float, float] | None:
        """The declared domain of a variable."""
        bounds = self.data.schema[name].bounds
        return None if bounds is None else (float(bounds[0]), float(bounds[1]))

    def describe(self, name: str | None) -> str:
        """A variable as an axis or a legend has it: its label where it has one, and its unit."""
        if name is None or name not in self.data.schema:
            return name or ""
        column = self.data.schema[name]
        return f"{column.label or name}{f' ({column.unit})' if column.unit else ''}"

    @cached_property
    def population(self) -> Dataset:
        """The records drawn, with all their variables: the log tells populations apart by them."""
        positions = [group.positions for group in self.groups if group.positions is not None]
        if len(positions) < len(self.groups):
            return self.data
        return self.data.take(np.concatenate(positions))


def pool_groups(values: Sequence[Any]) -> Any:
    """The values of all groups together; those of a single one are not copied."""
    if isinstance(values[0], DistantColumn):
        return pool_columns(values)
    return values[0] if len(values) == 1 else np.concatenate(values)


def to_dataset(data: Any, *, by_counts: bool = False) -> Dataset:
    """A Dataset from what people have: a Dataset, a release, or a frame.

    Where the records are not in memory, only figures that are made of counts can be drawn.
    """
    inner = data if isinstance(data, Dataset) else getattr(data, "dataset", None)
    dataset = inner if isinstance(inner, Dataset) else Dataset(data)
    if not by_counts and not frames.is_in_memory(dataset.frame):
        raise DataError(
            "This figure needs the records in memory, and they are in a file or on a cluster.",
            hint="histogram, heatmap, contour and box are drawn from counts, with protection "
            '"suppress" or "generalise" and without a log; or draw it from a sample.',
        )
    return dataset


def select_subjects(
    data: Any,
    names: Sequence[str],
    hue: str | None = None,
    *,
    rules: Rules,
    k: int = 3,
    by_counts: bool = False,
) -> Subjects:
    """The complete records by these variables, and the groups that are large enough.

    `by_counts` says that counts are all that is asked of them, so that they may be anywhere.
    """
    dataset = to_dataset(data, by_counts=by_counts)
    variables = _check_names(names, hue)
    _refuse_direct_identifiers(dataset, [*variables, *([hue] if hue is not None else [])])
    units = find_contributors(dataset, rules)
    if not frames.is_in_memory(dataset.frame):
        return _select_distant(dataset, variables, hue, rules=rules, k=k)
    frame = pl.DataFrame([_read_numbers(dataset, name) for name in variables])
    labels = None if hue is None else _read_labels(dataset, hue)
    complete = frame.select(pl.all_horizontal(pl.all().is_not_null())).to_series()
    if labels is not None:
        complete &= labels.is_not_null()
    if labels is None:
        groups = [_make_group("", frame, complete, dataset, units)]
    else:
        groups = [
            _make_group(level, frame, complete & (labels == level), dataset, units)
            for level in sort_labels(
                dataset, labels.filter(complete).unique().to_list(), labels.name
            )
        ]
    return _build_subjects(dataset, variables, hue, groups, len(complete), rules=rules, k=k)


def _select_distant(
    data: Dataset, names: tuple[str, ...], hue: str | None, *, rules: Rules, k: int
) -> Subjects:
    """The same where the records are: one pass."""
    for name in names:
        _require_number_type(name, data.dtype(name))
    records = DistantRecords(data, engine_for(data.frame), names, hue)
    summary = summarise_records(records, _MOST_LABELS)
    for name in names:
        _require_finite(name, infinite=name in summary.infinite)
    if hue is not None and len(summary.labels) > _MOST_LABELS:
        raise _too_many_groups(hue)
    labels = [""] if hue is None else sort_labels(data, list(summary.groups), hue)
    groups: list[Group] = [
        DistantGroup(
            label=label,
            origin=data,
            columns={
                name: DistantColumn(
                    records, name, None if hue is None else (label,), group.size, low, high
                )
                for name, low, high in zip(names, group.low, group.high, strict=True)
            },
        )
        for label in labels
        if (group := summary.groups.get(label)) is not None
    ]
    return _build_subjects(data, names, hue, groups, summary.records, rules=rules, k=k)


def _build_subjects(
    data: Dataset,
    names: tuple[str, ...],
    hue: str | None,
    groups: Sequence[Group],
    records: int,
    *,
    rules: Rules,
    k: int,
) -> Subjects:
    """The groups that are large enough, of so many records in all; fail where there is none."""
    complete = sum(map(len, groups))
    units = join_contributors([group.units for group in groups]) if groups else ALONE
    if units.count(complete) < rules.records:
        raise OutputRefused(
            f"Fewer than {rules.records} {units.word} have all the values of this figure.",
            hint=f"an output on at least {rules.records} {units.word} is allowed.",
        )
    notes = []
    if missing := records - complete:
        share = format_rough_share(missing / records, records=records, k=k)
        notes.append(f"Left out since a value is missing: {share} of the records.")
    kept = tuple(groups)
    if hue is not None:
        kept = _choose_groups(groups, hue, fewest=max(rules.records, k + rules.k))
        if sum(map(len, kept)) < complete:
            notes.append(f"Groups of few {units.word}, or of one value, are left out.")
    for name in names:
        _require_variation(name, kept)
    return Subjects(names=names, groups=kept, hue=hue, data=data, notes=tuple(notes))


def _check_names(names: Sequence[str], hue: str | None) -> tuple[str, ...]:
    variables = list(names)
    if not variables or not all(isinstance(name, str) for name in variables):
        raise PlanError(
            "A plot needs the names of its variables, each as text.",
            hint="for instance sf.plots.histogram(data, 'age').",
        )
    if hue is not None and not isinstance(hue, str):
        raise PlanError("The groups are made by one variable.", hint="for instance hue='sex'.")
    return tuple(dict.fromkeys(variables))


def _refuse_direct_identifiers(data: Dataset, names: Sequence[str]) -> None:
    data.schema.require(names)
    direct = [name for name in names if name in data.schema.identifiers]
    if direct:
        raise OutputRefused(
            f"Variable '{direct[0]}' names people, so no figure may show it.",
            hint="use a coarser variable.",
        )


def _read_numbers(data: Dataset, name: str) -> pl.Series:
    values = data.column(name)
    _require_number_type(name, values.dtype)
    _require_finite(name, infinite=values.dtype.is_float() and values.is_infinite().any())
    return values.cast(pl.Float64)


def _require_number_type(name: str, dtype: pl.DataType) -> None:
    if not dtype.is_numeric():
        content, hint = _describe_content(dtype)
        raise DataError(
            f"A plot of numbers cannot show variable '{name}': it holds {content}.", hint=hint
        )


def _require_finite(name: str, *, infinite: bool) -> None:
    if infinite:
        raise DataError(
            f"Variable '{name}' holds infinite values.",
            hint="set them to missing, or correct them at the source.",
        )


def _describe_content(dtype: pl.DataType) -> tuple[str, str]:
    """What a variable holds instead of numbers, and what to do about it."""
    if dtype.is_temporal():
        return (
            "dates or times",
            "take numbers of them first, such as the year, or days since a day.",
        )
    if dtype == pl.Boolean:
        return "yes/no values", "count them in a table (sf.tables.crosstab), or as groups (hue)."
    return "no numbers", "name a variable of numbers; categories can be the groups (hue)."


def _read_labels(data: Dataset, hue: str) -> pl.Series:
    values = data.column(hue).cast(pl.String)
    if values.n_unique() > _MOST_LABELS:
        raise _too_many_groups(hue)
    return values


def sort_labels(data: Dataset, labels: Sequence[str], hue: str) -> list[str]:
    """The groups by their labels, or as they are declared."""
    levels = sorted(labels)
    if (declared := data.schema[hue].levels) is not None:
        order = {str(level): index for index, level in enumerate(declared)}
        levels.sort(key=lambda level: order.get(level, len(order)))
    return levels


def _choose_groups(groups: Sequence[Group], hue: str, *, fewest: int) -> tuple[Group, ...]:
    # Where a variable does not vary, the figure of a group would show everybody's value.
    large = [group for group in groups if group.count_units() >= fewest and group.varies()]
    if len(large) > MOST_MARKS:
        raise _too_many_groups(hue)
    if not large:
        raise OutputRefused(
            f"No group of '{hue}' has enough {groups[0].units.word} to be shown.",
            hint=f"at least {fewest} are asked for; use broader groups, or none.",
        )
    return tuple(large)


def _make_group(
    label: str, frame: pl.DataFrame, mask: pl.Series, data: Dataset, units: Contributors
) -> Group:
    if mask.all():
        return Group(label=label, values=frame, origin=data, units=units)
    positions = np.flatnonzero(mask.to_numpy())
    return Group(
        label=label,
        values=frame.filter(mask),
        origin=data,
        positions=positions,
        units=units.take(positions),
    )


def _too_many_groups(hue: str) -> DataError:
    return DataError(
        f"Variable '{hue}' has more groups than one figure can show.",
        hint=f"at most {MOST_MARKS}: use a broader grouping.",
    )


def _require_variation(name: str, groups: Sequence[Group]) -> None:
    low = min(float(group.column(name).min()) for group in groups)
    high = max(float(group.column(name).max()) for group in groups)
    if low == high:
        raise OutputRefused(
            f"Variable '{name}' does not vary: a figure would show everybody's value.",
            hint="leave it out.",
        )
