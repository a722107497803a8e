"""The best table that can be made of several releases: one cell for each person and variable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.errors import SfumatoError
from sfumato.kernels.arrays import Floats
from sfumato.risk._composition.averaged_noise import Averaged, average_noise
from sfumato.risk._composition.joint_table import JointTable, ShownVariable, are_equal_cells
from sfumato.risk._composition.merged_cells import intersect_cells, unite_vocabularies
from sfumato.schema import Column, Schema


@dataclass(frozen=True, eq=False)
class BestTable:
    """What is left when the cells of all releases are intersected and their noise is averaged.

    Parameters
    ----------
    dataset : a row per person, a column per variable.
    averaged : what is left of the noise, by variable.
    contradictions : by variable, how many persons have cells that contradict each other.
    unmerged : variables whose cells could not be intersected; the newest stand there.
    """

    dataset: Dataset
    averaged: dict[str, Averaged] = field(default_factory=dict)
    contradictions: dict[str, int] = field(default_factory=dict)
    unmerged: tuple[str, ...] = ()


def merge_releases(original: Dataset, joint: JointTable) -> BestTable:
    """Make of all releases together one table that tells as much as possible."""
    groups: dict[str, list[ShownVariable]] = {}
    for entry in joint.shown:
        groups.setdefault(entry.base, []).append(entry)
    truth = original.take(joint.positions)
    columns: dict[str, Column] = {}
    values: list[pl.Series] = []
    averaged: dict[str, Averaged] = {}
    contradictions: dict[str, int] = {}
    unmerged: list[str] = []
    for base, group in groups.items():
        cells, column = group[0].values, group[0].column
        role = joint.dataset.schema[cells.name].role
        # Nobody compares the codes of two keys, or what neither is known nor a secret.
        if len(group) > 1 and role in ("quasi", "sensitive"):
            numbers = _average(truth, base, group)
            if numbers is not None:
                cells = pl.Series(base, numbers.values).fill_nan(None)
                averaged[base] = numbers
            else:
                try:
                    cells, column, contradictions[base] = _intersect(truth, base, group)
                except SfumatoError:
                    unmerged.append(base)
        values.append(cells.alias(base))
        columns[base] = replace(column, role=role)
    best = Dataset(pl.DataFrame(values), Schema(columns), given_identity=joint.dataset.identity)
    counts = {name: count for name, count in contradictions.items() if count}
    return BestTable(best, averaged, counts, tuple(unmerged))


def _average(truth: Dataset, base: str, group: Sequence[ShownVariable]) -> Averaged | None:
    """Numbers of which each release shows other ones; None where some are no numbers."""
    if base not in truth.schema or not all(
        values.dtype.is_numeric() for values in (truth.column(base), *(e.values for e in group))
    ):
        return None
    wanted = _to_floats(truth.column(base))
    return average_noise(wanted, [_to_floats(_blank_codes(entry)) for entry in group])


def _blank_codes(entry: ShownVariable) -> pl.Series:
    """The values less codes for missing."""
    name = entry.values.name
    return Dataset(entry.values.to_frame(), Schema({name: entry.column})).column(name)


def _to_floats(values: pl.Series) -> Floats:
    floats: Floats = values.cast(pl.Float64).fill_null(np.nan).to_numpy()
    return floats


def _intersect(
    truth: Dataset, base: str, group: Sequence[ShownVariable]
) -> tuple[pl.Series, Column, int]:
    """Cells of which each release shows other ones."""
    column = unite_vocabularies([(entry.column, entry.values) for entry in group])
    known = truth.column(base) if base in truth.schema else group[0].values
    cells, contradictions = _blank_codes(group[0]), 0
    for entry in group[1:]:
        merged = intersect_cells(cells, _blank_codes(entry), column, known)
        cells, contradictions = merged.values, contradictions + merged.contradictions
    if bool(are_equal_cells(cells, group[0].values).all()):
        return group[0].values, group[0].column, contradictions  # in its own type
    return cells, column, contradictions
