"""All releases side by side, a row per person: what somebody has who can match their rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.data.identity import match_identities
from sfumato.errors import MeasureError
from sfumato.io import frames
from sfumato.kernels.arrays import Mask, Positions
from sfumato.schema import IDENTIFYING, Column, Role, Schema


@dataclass(frozen=True, eq=False)
class EarlierRelease:
    """A release of the same records that was made before.

    Parameters
    ----------
    label : how it is called in what people read, for instance its folder.
    dataset : its records, with the identity that they have in the original of today; None where
        they cannot be paired.
    reason : why they cannot be paired.
    keeps_order : whether its rows stand in the order of the original.
    """

    label: str
    dataset: Dataset | None = field(default=None, repr=False)
    reason: str = ""
    keeps_order: bool = False


@dataclass(frozen=True, eq=False)
class PlacedRelease:
    """A release, and where each person of the joint table stands in it (-1: nowhere)."""

    label: str
    dataset: Dataset = field(repr=False)
    rows: Positions = field(repr=False)
    keeps_order: bool

    @property
    def present(self) -> Mask:
        """Which persons are in it."""
        return self.rows >= 0

    def column(self, name: str) -> pl.Series:
        """A variable as the release shows it, by person; null for who is not in it."""
        values = frames.get_column(self.dataset.frame, name)
        rows = pl.Series(self.rows).cast(pl.Int64)
        return values.gather(rows.set(rows < 0, None)).alias(name)


@dataclass(frozen=True, eq=False)
class ShownVariable:
    """A column of the joint table.

    Parameters
    ----------
    base : the variable it shows.
    values, present : its cells by person, and who is in a release that has it.
    column : how that release declares it.
    """

    base: str
    values: pl.Series = field(repr=False)
    present: Mask = field(repr=False)
    column: Column

    def unite(self, other: ShownVariable) -> ShownVariable | None:
        """One column for two that show the same of everybody who is in both; else None.

        Whoever is in one of them only keeps the cell of that one.
        """
        both = self.present & other.present
        if not bool(are_equal_cells(self.values, other.values).filter(both).all()):
            return None
        mine, theirs = self.values, other.values
        if mine.dtype != theirs.dtype:
            mine, theirs = show_cells(mine), show_cells(theirs)
        values = mine.zip_with(pl.Series(self.present), theirs).alias(self.values.name)
        return replace(self, values=values, present=self.present | other.present)


@dataclass(frozen=True, eq=False)
class JointTable:
    """Every variable of every release, by person.

    Parameters
    ----------
    dataset : a row per person who is in a release at least. A variable that a later release shows
        otherwise than an earlier one stands there twice.
    bases : for each column the variable it shows; None of one that says who is in a release.
    shown : the columns by themselves, less those that say who is in a release.
    releases : the newest first.
    positions : which original record each person is.
    """

    dataset: Dataset
    bases: Mapping[str, str | None]
    shown: Sequence[ShownVariable]
    releases: Sequence[PlacedRelease]
    positions: Positions = field(repr=False)

    def columns_of(self, variables: Iterable[str]) -> list[str]:
        """The columns that show these variables, and those that say who is where."""
        wanted = {*variables, None}
        return [name for name, base in self.bases.items() if base in wanted]

    @property
    def shared(self) -> Mask:
        """Which persons are in every release."""
        mask: Mask = np.logical_and.reduce([release.present for release in self.releases])
        return mask


def join_releases(
    original: Dataset,
    released: Dataset,
    earlier: Sequence[EarlierRelease],
    *,
    keeps_order: bool = False,
) -> JointTable:
    """Put this release and the earlier ones side by side.

    Who is in one release and not in another is part of what they say together.
    """
    all_releases = [EarlierRelease("this release", released, keeps_order=keeps_order), *earlier]
    rows = [_locate(original, release) for release in all_releases]
    anywhere = np.flatnonzero(np.logical_or.reduce([positions >= 0 for positions in rows]))
    releases = [
        PlacedRelease(label, dataset, positions[anywhere], release.keeps_order)
        for label, release, positions in zip(
            _label_apart(all_releases), all_releases, rows, strict=True
        )
        if (dataset := release.dataset) is not None
    ]
    shown = _list_columns(releases)
    roles = _combine_roles(original, [release.dataset.schema for release in releases])
    columns: dict[str, Column] = {}
    for entry in shown:
        role = roles[entry.base]
        if role in IDENTIFYING:
            role = "quasi" if _is_unchanged(entry, original, anywhere) else None
        # Each release may have pseudonyms of its own, and all of them tell which rows are one's.
        shown_role = "cluster" if entry.column.role == "person" else entry.column.role
        columns[entry.values.name] = replace(entry.column, role=role or shown_role)
    frame = pl.DataFrame([entry.values for entry in shown])
    bases: dict[str, str | None] = {entry.values.name: entry.base for entry in shown}
    for release in releases:
        if not release.present.all():
            name = f"is in {release.label}"
            frame = frame.with_columns(pl.Series(name, release.present))
            columns[name], bases[name] = Column(role="quasi", kind="nominal"), None
    identity = original.identity.take(anywhere)
    joint = Dataset(frame, Schema(columns), given_identity=identity)
    return JointTable(joint, bases, shown, releases, anywhere)


def _list_columns(releases: Sequence[PlacedRelease]) -> list[ShownVariable]:
    """Every variable of every release once, and again where a release shows it otherwise."""
    groups: dict[str, list[ShownVariable]] = {}
    for release in releases:
        for base in release.dataset.columns:
            group = groups.setdefault(base, [])
            name = base if not group else f"{base} ({release.label})"
            column = release.dataset.schema[base]
            entry = ShownVariable(base, release.column(base).alias(name), release.present, column)
            for index, other in enumerate(group):
                if (united := other.unite(entry)) is not None:
                    group[index] = united
                    break
            else:
                group.append(entry)
    return [entry for group in groups.values() for entry in group]


def _locate(original: Dataset, release: EarlierRelease) -> Positions:
    """Where each original record stands in a release, -1 where it does not."""
    identity = None if release.dataset is None else release.dataset.given_identity
    if identity is None or identity.basis != original.identity.basis:
        raise MeasureError(
            f"Nothing says which records of {release.label} belong to which original ones.",
            hint="pass the Release or its folder with the custody record.",
        )
    return match_identities(identity.digests, original.identity.digests)


def _label_apart(releases: Sequence[EarlierRelease]) -> list[str]:
    """Labels of which no two are the same."""
    labels: list[str] = []
    for release in releases:
        label, number = release.label, 2
        while label in labels:
            label, number = f"{release.label} {number}", number + 1
        labels.append(label)
    return labels


def _combine_roles(original: Dataset, schemas: Sequence[Schema]) -> dict[str, Role | None]:
    """What outsiders know by any of the plans counts as known, what is sensitive by any as such."""
    roles: dict[str, Role | None] = {}
    for schema in schemas:
        for name in schema:
            stated = {other[name].role for other in (original.schema, *schemas) if name in other}
            strongest = [role for role in ("quasi", *IDENTIFYING, "sensitive") if role in stated]
            roles[name] = strongest[0] if strongest else None
    return roles


def _is_unchanged(entry: ShownVariable, original: Dataset, persons: Positions) -> bool:
    """Whether a column shows the original values: an identifier left as it is counts as known."""
    if entry.base not in original.schema:
        return False
    truth = frames.get_column(original.frame, entry.base).gather(persons)
    return bool(are_equal_cells(truth, entry.values).filter(entry.present).all())


def are_equal_cells(first: pl.Series, second: pl.Series) -> pl.Series:
    """Where two columns show the same, whatever type it has; missing equals missing."""
    if first.dtype == second.dtype:
        return first.eq_missing(second)
    return show_cells(first).eq_missing(show_cells(second))


def show_cells(values: pl.Series) -> pl.Series:
    """Cells as text, the same whether they are held as 17, 17.0 or "17"."""
    return frames.to_canonical_text(values)
