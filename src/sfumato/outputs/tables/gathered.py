"""Records counted into the cells of a table, the same whatever their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.errors import DataError
from sfumato.kernels.arrays import Floats, Integers
from sfumato.outputs.judged import OutputRefused
from sfumato.outputs.rules import Rules
from sfumato.outputs.tables.lattice import Lattice

Missing = Literal["level", "leave out"]
_WAYS = 4
_CELLS = 200_000
_AT = "__cell"
_COUNT = "__count"


@dataclass(frozen=True, eq=False, kw_only=True)
class Gathered:
    """The levels of each variable and how many records each cell has.

    Parameters
    ----------
    data : the records that are counted, with the variables of the table.
    names : the variables that make the cells.
    labels : the levels of each, as text; the last is the label of its total.
    counts : records in each cell, flat, margins among them.
    places : the cells inside that hold records: their values, and the number of the cell.
    left_out : the share of records left out because one of the variables is missing.
    """

    data: Dataset
    names: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    counts: Floats
    places: pl.DataFrame
    left_out: float

    @property
    def lattice(self) -> Lattice:
        """The shape of the table."""
        return Lattice(tuple(len(labels) - 1 for labels in self.labels))

    def cell_of_each(self) -> Integers:
        """The number of the cell inside to which each record belongs."""
        batch = self.data.batch(self.names)
        joined = batch.join(
            self.places, on=list(self.names), how="left", nulls_equal=True, maintain_order="left"
        )
        return joined[_AT].to_numpy()


def gather(data: Dataset, names: Sequence[str], *, missing: Missing, rules: Rules) -> Gathered:
    """Count the records into the cells that these variables make."""
    names = _checked(data, names)
    kept, left_out = _complete(data, names) if missing == "leave out" else (data, 0.0)
    if len(kept) < rules.records:
        raise OutputRefused(
            f"A table needs at least {rules.records} records; there are fewer.",
            hint="put groups together, or ask the output checker for other rules.",
        )
    found = kept.batch(names).group_by(names).agg(pl.len().alias(_COUNT))
    labels, codes = [], []
    for name in names:
        levels, code = _levels(kept, found[name])
        _require_few(name, len(levels), len(kept), rules)
        labels.append((*levels, _free("All", levels)))
        codes.append(code)
    lattice = Lattice(tuple(len(each) - 1 for each in labels))
    if len(names) > _WAYS or prod(lattice.shape) > _CELLS:
        raise OutputRefused(
            f"The table is too large: at most {_WAYS} variables and {_CELLS:,} cells.",
            hint="use fewer variables, or coarser categories.",
        )
    inside = np.zeros(lattice.sizes)
    inside[tuple(codes)] = found[_COUNT].to_numpy()
    numbers = np.ravel_multi_index(tuple(codes), lattice.shape)
    return Gathered(
        data=kept,
        names=tuple(names),
        labels=tuple(labels),
        counts=lattice.with_margins(inside),
        places=found.select(names).with_columns(pl.Series(_AT, numbers)),
        left_out=left_out,
    )


def _checked(data: Dataset, names: Sequence[str]) -> list[str]:
    data.schema.require(names)
    if len(set(names)) != len(names) or not names:
        raise DataError(
            "A table needs at least one variable, and none of them twice.",
            hint="name the rows, and the columns if there are any.",
        )
    direct = [name for name in names if data.schema[name].role == "direct"]
    if direct:
        raise OutputRefused(
            f"Variable '{direct[0]}' names persons, so no table may show it.",
            hint="use a coarser variable.",
        )
    return list(names)


def _complete(data: Dataset, names: Sequence[str]) -> tuple[Dataset, float]:
    batch = data.batch(names)
    present = batch.select(pl.all_horizontal(pl.all().is_not_null())).to_series()
    if present.all():
        return data, 0.0
    kept = data.take(np.flatnonzero(present.to_numpy()))
    return kept, 1 - len(kept) / len(data)


def _levels(data: Dataset, values: pl.Series) -> tuple[list[str], Integers]:
    """The levels of a variable, in their order, as text; and which of them each value is."""
    column = data.schema[values.name]
    distinct = values.drop_nulls().unique().sort()
    if column.levels is not None:
        place = {str(level): at for at, level in enumerate(column.levels)}
        texts = distinct.cast(pl.String)
        order = sorted(range(len(texts)), key=lambda at: (place.get(texts[at], len(place)), at))
        distinct = distinct[order]
    levels = distinct.cast(pl.String).to_list()
    if len(set(levels)) < len(levels):  # two numbers that read the same are two levels still
        levels = [f"{text} ({at + 1})" for at, text in enumerate(levels)]
    known = pl.DataFrame({values.name: distinct, _AT: np.arange(len(distinct))})
    codes = values.to_frame().join(known, on=values.name, how="left", maintain_order="left")[_AT]
    if values.null_count():
        levels.append(_free("(missing)", levels))
        codes = codes.fill_null(len(distinct))
    return levels, codes.to_numpy().astype(np.int64)


def _free(label: str, levels: Sequence[str]) -> str:
    while label in levels:
        label += "*"
    return label


def _require_few(name: str, levels: int, records: int, rules: Rules) -> None:
    allowed = max(int(rules.bins * records), 2)
    if levels > allowed:
        # The exact bound would tell the exact number of records.
        told = allowed // 5 * 5 if allowed >= 5 else allowed  # noqa: PLR2004 - rough
        raise OutputRefused(
            f"Variable '{name}' has too many levels for these records: a table may have "
            f"{told:,} at most.",
            hint="use coarser categories: sf.methods.Coarsen, or put levels together.",
        )
