"""Whose cells were masked: the common values or the rare ones."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.cells.grids import CalendarGrid, NumberGrid, choose_grid
from sfumato.cells.notation import format_value
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Mask
from sfumato.measure import Measure
from sfumato.numbers import Number
from sfumato.pairs.alignment import quote_names
from sfumato.pairs.unchanged import mark_unchanged
from sfumato.parameters import parameters
from sfumato.schema import IDENTIFYING

_FEW = 25
"""Numbers and dates with more different values are counted in intervals."""
_ENOUGH = 5
RARE = "(rare values)"
_ASSUMPTIONS = (
    "A cell is masked if it had a value and the release shows nothing, a range, a set or a mask.",
    "A value that noise has moved is not masked.",
)


@parameters
class MaskedCells(Measure):
    """Share of cells that were masked, and for every value how many of its records were.

    Question: what was masked, and does it hit the rare values, as it should, or everybody?
    Assumes: a cell is masked if it had a value and the release shows nothing there, or something
    that stands for several values. The value is the share of masked cells among those that had a
    value, over all variables. The table has for every value of a variable its records, and how many
    of these are masked. Numbers and dates of many values are counted in intervals.

    Parameters
    ----------
    variables : variables to look at. Default: all but those that identify a person by themselves.
    fewest : fewest records of a value that is counted by itself; the others are rare values.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"race": ["a"] * 4 + ["b"] * 3})
    >>> data = sf.Dataset(frame, sf.Schema({"race": "quasi"}))
    >>> after = data.with_columns(pl.DataFrame({"race": ["a"] * 4 + ["b", None, None]}))
    >>> found = MaskedCells().measure(data, after)
    >>> round(found.value, 3), found.table.select("value", "records", "masked_records").rows()
    (0.286, [('a', 4, 0), ('b', 3, 2)])

    References: Sánchez, Martínez & Domingo-Ferrer (2016), Science 351:1274, Figs. S1 and S2.
    """

    name = "masked_cells"
    of = "pair"
    by_default = False
    picture = "masked_values"
    odd = {"one row": 0}
    examples = ({}, {"variables": ["ethnicity", "region", "birth_date"], "fewest": 5})
    numbers = (
        Number.loss("masked_cells", highest=1.0),
        Number.loss("masked_records"),
    )
    variables: Annotated[list[str], Field(min_length=1)] | None = None
    fewest: Annotated[int, Field(ge=1)] = 3

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """Compare cell by cell."""
        del engine  # all records are in memory
        names, dropped = self._choose(original, released)
        if not len(original):
            raise MeasureError("There is no record to compare.", hint="are the data empty?")
        masks = {name: _mark_masked_cells(original, released, name) for name in names}
        had_value = sum(len(original) - original.column(name).null_count() for name in names)
        if not had_value:
            raise MeasureError(
                "No record has a value that could be masked.", hint="are the variables all missing?"
            )
        rows = [row for name in names for row in self._count(original, name, masks[name])]
        any_masked = np.logical_or.reduce(list(masks.values()))
        return Evidence(
            name=self.name,
            subject="pair",
            value=sum(int(mask.sum()) for mask in masks.values()) / had_value,
            direction=self.direction,
            table=original.like(pl.DataFrame(rows)),
            details={
                "masked_records": int(any_masked.sum()),
                "records": len(original),
                "variables": tuple(names),
            },
            assumptions=_ASSUMPTIONS,
            warnings=(f"Not released, and so not counted: {quote_names(dropped)}.",)
            if dropped
            else (),
        )

    def _choose(self, original: Dataset, released: Dataset) -> tuple[list[str], list[str]]:
        """The variables that are in both data sets, and those that the release lacks."""
        wanted = self.variables
        if wanted is None:
            schema = original.schema
            wanted = [name for name in schema if schema[name].role not in IDENTIFYING]
        original.schema.require(wanted)
        names = [name for name in wanted if name in released.columns]
        if not names:
            raise MeasureError(
                "None of the variables is in the released data.", hint="name others in `variables`."
            )
        return names, [name for name in wanted if name not in names]

    def _count(self, original: Dataset, name: str, masked: Mask) -> list[dict[str, Any]]:
        """The rows of the table for a variable: its values in order, the rare ones last."""
        order, texts = _group_values(_read_exactly(original.column(name)))
        counted = (
            pl.DataFrame({"order": order, "value": texts, "masked": masked})
            .filter(pl.col("value").is_not_null())
            .group_by("order", "value")
            .agg(pl.len().alias("records"), pl.col("masked").sum())
            .sort("order")
        )
        common = counted.filter(pl.col("records") >= self.fewest)
        rare = counted.filter(pl.col("records") < self.fewest)
        rows = [(row["value"], row["records"], row["masked"]) for row in common.rows(named=True)]
        if len(rare):
            rows.append((RARE, int(rare["records"].sum()), int(rare["masked"].sum())))
        return [
            {
                "variable": name,
                "value": value,
                "records": records,
                "masked_records": hidden,
                "masked_share": hidden / records,
            }
            for value, records, hidden in rows
        ]


def _mark_masked_cells(original: Dataset, released: Dataset, name: str) -> Mask:
    before, after = original.column(name), released.column(name)
    changed = ~mark_unchanged(original, released, name) & before.is_not_null().to_numpy()
    if released.schema[name].generalised:
        return np.asarray(changed, bool)
    return np.asarray(changed & after.is_null().to_numpy(), bool)


def _read_exactly(values: pl.Series) -> pl.Series:
    """The same values in every frame library: whole numbers and days as such."""
    if values.dtype == pl.Datetime:
        return values.dt.date()
    if values.dtype.is_float():
        integers = values.cast(pl.Int64, strict=False)
        if (integers.cast(values.dtype) == values).fill_null(values.is_null()).all():
            return integers
    return values


def _group_values(values: pl.Series) -> tuple[pl.Series, pl.Series]:
    """A number that orders the values, or the intervals they lie in, and how each is written."""
    distinct = values.drop_nulls().unique().sort()
    scaled = values.dtype.is_numeric() or values.dtype == pl.Date
    if scaled and len(distinct) > _FEW:
        numbers, texts = _group_in_intervals(distinct)
    else:
        numbers = pl.Series(np.arange(len(distinct)))
        texts = pl.Series([format_value(value) for value in distinct.to_list()], dtype=pl.String)
    order = values.replace_strict(distinct, numbers, default=None, return_dtype=pl.Int64)
    return order, values.replace_strict(distinct, texts, default=None, return_dtype=pl.String)


def _group_in_intervals(distinct: pl.Series) -> tuple[pl.Series, pl.Series]:
    """The interval of each value: round numbers or periods, five of them or more."""
    exact = distinct.dtype.is_integer() or distinct.dtype == pl.Date
    levels = distinct if exact else distinct.cast(pl.Float64)
    grid = choose_grid(levels, whole=levels.dtype.is_integer(), enough=_ENOUGH, spanned=True)
    cells = grid.locate(levels)
    kinds, of = np.unique(cells, return_inverse=True)
    if len(kinds) > _FEW and isinstance(grid, NumberGrid):
        # The next grid of the ladder is ten times as fine, which may be too fine to look at.
        grid = replace(grid, unit=grid.unit * 5)
        kinds, of = np.unique(grid.locate(levels), return_inverse=True)
    starts, after = grid.begin(kinds), grid.begin(kinds + 1)
    if isinstance(grid, CalendarGrid):
        after = after - dt.timedelta(days=1)
    elif grid.whole:
        after = after - 1
    texts = [
        f"{format_value(low)} to {format_value(high)}"
        for low, high in zip(starts.to_list(), after.to_list(), strict=True)
    ]
    return pl.Series(of.ravel()), pl.Series(texts, dtype=pl.String).gather(of.ravel())
