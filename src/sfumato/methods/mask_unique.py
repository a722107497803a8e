"""Mask the cells of records that stand out, in a stated order, until they no longer do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import Field, field_validator

from sfumato.cells.notation import WILDCARD, format_value
from sfumato.data import Dataset
from sfumato.engines import Chance, Combinations, Engine
from sfumato.engines.local import find_class_of_each
from sfumato.errors import MethodError
from sfumato.method import Fitted, Method, Strength
from sfumato.methods._recoding.grouping import (
    are_codes,
    format_values,
    group_in_periods,
    mask_codes,
)
from sfumato.methods.coarsen import Coarsen
from sfumato.methods.persons import count_alike, has_persons
from sfumato.parameters import parameters
from sfumato.schema import Schema
from sfumato.schema.hierarchies import Hierarchy

_SECOND = re.compile(r"(\d+) (intervals|characters)|level (\d+)|(month|quarter|year)|(digits)")
_WAYS = "20 intervals, 3 characters, level 1, month, quarter, year or digits"


@dataclass(frozen=True)
class Stage:
    """One line of the order: what becomes of a variable.

    Parameters
    ----------
    variable : its name.
    way : "intervals", "characters", "level", a period, "digits", or "" where it is masked whole.
    number : how many intervals or characters, or which level.
    """

    variable: str
    way: str = ""
    number: int = 0

    @classmethod
    def parse(cls, text: str) -> Stage:
        """Read a line of the order; a `ValueError` says what is allowed.

        Examples
        --------
        >>> Stage.parse("zip: 3 characters")
        Stage(variable='zip', way='characters', number=3)
        """
        name, colon, ending = (part.strip() for part in text.rpartition(":"))
        if not colon:
            return cls(ending)
        match = _SECOND.fullmatch(ending)
        if match is None or not name:
            msg = (
                f"has a line that says after the colon something else than {_WAYS}. Hint: for "
                'instance "age: 20 intervals"; a name alone masks the whole cell.'
            )
            raise ValueError(msg)
        count, unit, level, period, digits = match.groups()
        if count or level:
            number = int(count or level)
            if number < 1:
                msg = "has a line with 0, where numbers from 1 on belong."
                raise ValueError(msg)
            return cls(name, unit or "level", number)
        return cls(name, period or digits)


@parameters
class MaskUnique(Method):
    """Mask cells of records that stand out, in a stated order, until others share what is left.

    Question: what must a rare record give up, and what may everybody else keep?
    Assumes: the outsider knows `variables` and no others. Everybody who stands out gives up the
    first thing in the order; whoever still does, the next; and so on. Who has k - 1 others alike
    keeps the rest. Whoever stands out at the end is masked in all of `variables`, and so are the
    smallest classes where these are too few: afterwards every record shares its cells with at
    least k - 1 others. The order decides what is lost, not the fewest cells; compare `suppress`.
    Where rows belong to persons (role "person"), k counts persons. Variables that change within a
    person are then refused.

    Parameters
    ----------
    order : what is given up, line by line. "race" masks the whole cell, as `*`. "age: 20
        intervals" leaves one of 20 intervals of the declared domain, "zip: 3 characters" leaves
        `937**`, "zip: digits" takes the last digit, then the one before, and so on; "region: level
        1" leaves a group of the declared hierarchy, and "admitted: year" (or month, quarter) a
        period. A variable may stand in several lines, each coarser than the one before.
    variables : variables in which nobody may stand out. Default: those of the order.
    k : fewest records that share the cells that are left. 2: nobody is unique.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"zip": ["93722", "93701", "93650"], "sex": ["f", "f", "f"]})
    >>> data = sf.Dataset(frame, sf.Schema({"zip": "quasi", "sex": "quasi"}))
    >>> MaskUnique(order=["zip: 3 characters", "sex", "zip"]).apply(data).frame["zip"].to_list()
    ['*', '*', '*']
    >>> data = sf.Dataset(pl.concat([frame, frame[2:]]), data.schema)
    >>> MaskUnique(order=["zip: 3 characters", "sex", "zip"]).apply(data).frame["zip"].to_list()
    ['937**', '937**', '93650', '93650']

    References: Sánchez, Martínez & Domingo-Ferrer (2016), Science 351:1274, Table S3: the "safe
    harbor" order of California's hospital discharges.
    """

    name = "mask_unique"
    strength = Strength("k")
    treats = "records"
    reports = ("information_loss", "masked_cells")
    runs_on = ("local", "streaming", "spark")
    odd = {"empty": "refused", "one row": "refused"}
    examples = (
        {"order": ["birth_date: year", "ethnicity", "sex", "birth_date", "region"]},
        {
            "order": ["postcode: digits", "household_size: 4 intervals", "sex"],
            "variables": ["sex", "postcode", "household_size"],
            "k": 3,
        },
        {"order": ["diagnosis: level 1", "diagnosis"], "k": 5},
    )
    order: Annotated[list[str], Field(min_length=1)]
    variables: Annotated[list[str], Field(min_length=1)] | None = None
    k: Annotated[int, Field(ge=2)] = 2

    @field_validator("order")
    @classmethod
    def _can_be_read(cls, order: list[str]) -> list[str]:
        for line in order:
            Stage.parse(line)
        return order

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The lines of the order."""
        return tuple(Stage.parse(line) for line in self.order)

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """The variables of the order, and those in which nobody may stand out."""
        del schema
        ordered = (stage.variable for stage in self.stages)
        return tuple(dict.fromkeys((*(self.variables or ()), *ordered)))

    def fit(self, data: Dataset, engine: Engine) -> dict[str, Any]:
        """Where the intervals of each line begin; what is asked for must be possible."""
        names = self.touches(data.schema)
        data.schema.require(names)
        total = int(self._count(data, names, engine).counts.sum())
        if total < self.k:
            what = "persons" if has_persons(data) else "records"
            raise MethodError(
                f"Nobody can have k - 1 others alike: k is {self.k}, there are {total} {what}.",
                hint="take a smaller k.",
            )
        return {
            line: Coarsen(variables=[stage.variable], intervals=stage.number).fit(data, engine)
            for line, stage in zip(self.order, self.stages, strict=True)
            if stage.way == "intervals"
        }

    def transform(
        self, data: Dataset, fitted: Fitted, *, engine: Engine, chance: Chance | None
    ) -> Dataset:
        """Find the cells on the distinct rows, and write them in all records."""
        del chance
        names = self.touches(data.schema)
        shown = _show(data, names)
        distinct = self._count(data, names, engine)
        before = pl.DataFrame([format_values(column) for column in distinct.values.get_columns()])
        after = self._mask(distinct, before, data.schema, fitted)
        used = [name for name in names if not after[name].equals(before[name], null_equal=True)]
        if not used:
            return data

        def write_cells(batch: pl.DataFrame, draws: object) -> pl.DataFrame:
            del draws
            return after.select(used)[find_class_of_each(batch, distinct.values)]

        masked = engine.map_rows(shown, write_cells, reads=names)
        # Cells are text now, and so are codes for missing.
        codes = {name: tuple(map(format_value, data.schema[name].missing)) for name in used}
        return replace(
            masked,
            schema=data.schema.with_columns(
                {name: replace(data.schema[name], missing=codes[name]) for name in used}
            ),
        )

    def _count(self, data: Dataset, names: tuple[str, ...], engine: Engine) -> Combinations:
        """The rows that differ, and how many records or persons have each."""
        return count_alike(_show(data, names), names, engine, self.name)

    def _mask(
        self, distinct: Combinations, texts: pl.DataFrame, schema: Schema, fitted: Fitted
    ) -> pl.DataFrame:
        """The cells of the distinct rows after masking."""
        cells, counts = texts, pl.Series("records", distinct.counts)
        judged = list(self.variables or self.touches(schema))
        # Codes for missing are no numbers, dates or groups: they stay until a cell is masked whole.
        values = Dataset(distinct.values, Schema({name: schema[name] for name in texts.columns}))
        for line, stage in zip(self.order, self.stages, strict=True):
            for coarser in _list_coarser(stage, values, texts, fitted.get(line)):
                alone = _stands_out(cells.select(judged), counts, self.k)
                if not alone.any():
                    return cells
                cells = _write(cells, stage.variable, coarser, alone)
        to_mask = _choose_rest(cells.select(judged), counts, self.k)
        for name in judged:
            cells = _write(cells, name, _mask_whole(cells[name]), to_mask)
        return cells


def _show(data: Dataset, names: Sequence[str]) -> Dataset:
    """The data as an outsider sees them: which code for missing a cell holds can be seen."""
    return replace(
        data, schema=data.schema.changed(names, missing=()), given_identity=data.identity
    )


def _list_coarser(
    stage: Stage, values: Dataset, texts: pl.DataFrame, cut: Any
) -> Iterator[pl.Series]:
    """The cells that a line of the order leaves, for each distinct row; several for digits."""
    known, text = values.column(stage.variable), texts[stage.variable]
    if stage.way in ("characters", "digits"):
        for keep in _list_lengths(stage, known, text):
            yield text.zip_with(known.is_null(), mask_codes(text, keep))
    elif stage.way:
        coarser = _generalise(stage, known, text, values.schema, cut)
        yield text.zip_with(known.is_null(), coarser)
    if stage.way in ("", "digits"):
        yield _mask_whole(text)


def _list_lengths(stage: Stage, known: pl.Series, text: pl.Series) -> Sequence[int]:
    """How many characters are kept, one after the other."""
    if not are_codes(known):
        raise _refuse(
            stage.variable, "has no characters to keep", "only codes and whole numbers have some."
        )
    longest = max((len(code) for code in text.unique() if code is not None), default=0)
    return [stage.number] if stage.number else range(longest - 1, 0, -1)


def _generalise(
    stage: Stage, known: pl.Series, text: pl.Series, schema: Schema, cut: Any
) -> pl.Series:
    """The interval, the group or the period of each value."""
    name, hierarchy = stage.variable, Hierarchy.of(schema[stage.variable].hierarchy or {})
    if stage.way == "intervals":
        method = Coarsen(variables=[name], intervals=stage.number)
        return method.rows(pl.DataFrame([known]), cut, None)[name]
    if stage.way == "level":
        if hierarchy.depth < stage.number:
            raise _refuse(
                name, f"has no level {stage.number} of a hierarchy", "declare one in the schema."
            )
        groups = hierarchy.at(stage.number)
        if not set(text.filter(known.is_not_null())) <= set(groups):
            raise _refuse(name, "has values that its hierarchy does not hold", "add them to it.")
        return text.replace(groups)
    if known.dtype not in (pl.Date, pl.Datetime) and known.null_count() < len(known):
        raise _refuse(name, "holds no dates, so it has no periods", "leave it out.")
    return group_in_periods(known, stage.way, "range")


def _mask_whole(cells: pl.Series) -> pl.Series:
    return pl.Series(cells.name, [WILDCARD] * len(cells), dtype=pl.String)


def _stands_out(cells: pl.DataFrame, counts: pl.Series, k: int) -> pl.Series:
    """Which rows fewer than k records share."""
    grouped = cells.with_columns(counts)
    return grouped.select(pl.col("records").sum().over(cells.columns) < k).to_series()


def _choose_rest(cells: pl.DataFrame, counts: pl.Series, k: int) -> pl.Series:
    """The rows to mask whole at the end: those that still stand out, and the smallest classes.

    As many classes as it takes for k records; of classes of one size, the first by their cells.
    """
    alone = _stands_out(cells, counts, k)
    if not alone.any():
        return alone
    names = cells.columns
    sizes = (
        cells.with_columns(counts)
        .group_by(names)
        .agg(pl.col("records").sum())
        .sort("records", *names)
    )
    # Whoever is masked whole already is there to hide the others.
    is_masked = sizes.select(pl.all_horizontal(pl.col(names) == WILDCARD).fill_null(value=False))
    first = pl.concat([sizes.filter(is_masked.to_series()), sizes.filter(~is_masked.to_series())])
    total = np.cumsum(first["records"].to_numpy())
    few = (first["records"] < k).to_numpy()
    least = int(few[1:].sum() + 1 if is_masked.to_series().any() else few.sum())
    enough = max(least, int(np.searchsorted(total, k)) + 1)
    chosen = first.head(enough).select(names).with_columns(pl.lit(value=True).alias("records"))
    return cells.join(chosen, on=names, how="left", nulls_equal=True, maintain_order="left")[
        "records"
    ].fill_null(value=False)


def _write(cells: pl.DataFrame, name: str, new: pl.Series, rows: pl.Series) -> pl.DataFrame:
    return cells.with_columns(new.zip_with(rows, cells[name]).alias(name))


def _refuse(name: str, what: str, hint: str) -> MethodError:
    return MethodError(f"Variable '{name}' {what}.", hint=hint)
