"""Make variables that follow from others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any

import polars as pl
from pydantic import Field, field_validator

from sfumato.cells.derivation import DerivedFormula, name_type, read_derived, tidy
from sfumato.data import Dataset
from sfumato.engines import Engine, engine_for
from sfumato.errors import MethodError
from sfumato.method import Fitted, RowWise
from sfumato.parameters import parameters
from sfumato.randomness import Draws
from sfumato.schema import Schema

_AS_MADE = "as made"


@parameters
class Derive(RowWise):
    """Make variables that follow from others: a square, a sum, a ratio, an age, a band.

    Question: what of the data is said twice?
    Assumes: the formula holds in the original. What is made tells nothing beyond the variables it
    is made of, as they are at this step.

    As the first step of a plan it makes variables that the data do not have, before anything is
    protected: a role for them stands in the plan like any other. As the last it makes them again
    from what is released: `age * age` of a noised age instead of the true one, which would give
    the age away.

    What cannot be computed (the logarithm of 0) is missing, and so is what was missing in the
    variable that is made again.

    Parameters
    ----------
    formulas : by variable, how it follows: `{ bmi = "weight / height ** 2" }`. A formula may hold
        names (odd ones in backticks), numbers, texts in quotes, + - * / // % **, comparisons,
        `x in (1, 2)`, and, or, not, and the functions log, log2, log10, log1p, exp, sqrt, abs,
        floor, ceil, round, minimum, maximum, band (how many of the following breaks a number
        reaches), where, year, month, days (between two dates) and years (whole ones).

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"height": [1.8, 1.6], "weight": [81.0, 64.0], "bmi": [25.1, 24.9]})
    >>> data = sf.Dataset(frame, sf.Schema({"bmi": "other"}))
    >>> Derive(formulas={"bmi": "weight / height ** 2"}).apply(data).frame["bmi"].round(1).to_list()
    [25.0, 25.0]
    """

    name = "derive"
    runs_on = ("local", "streaming", "spark")
    examples = (
        {"formulas": {"systolic": "round(100 + height / 10)"}},
        {"formulas": {"income": "where(children > 0, income, 0)", "glucose": "band(height, 160)"}},
    )
    formulas: Annotated[dict[str, str], Field(min_length=1)]

    @field_validator("formulas")
    @classmethod
    def _check_formulas(cls, formulas: dict[str, str]) -> dict[str, str]:
        for name, text in formulas.items():
            try:
                read_derived(text)
            except ValueError as error:
                msg = f"'{name}': the formula {error}"
                raise ValueError(msg) from None
        return formulas

    @cached_property
    def _read(self) -> Mapping[str, DerivedFormula]:
        return {name: read_derived(text) for name, text in self.formulas.items()}

    def touches(self, schema: Schema) -> tuple[str, ...]:
        """The variables that are made."""
        del schema
        return tuple(self.formulas)

    def reads(self, schema: Schema) -> tuple[str, ...]:
        """They themselves, where they are there, and what they are made of."""
        del schema
        named = [name for formula in self._read.values() for name in formula.variables]
        return tuple(dict.fromkeys([*self.formulas, *named]))

    def prepare(self, data: Dataset) -> Dataset:
        """The original with the variables that it does not have yet."""
        missing = {name: text for name, text in self.formulas.items() if name not in data.schema}
        if not missing:
            return data
        made = replace(self, formulas=missing)
        engine = engine_for(data.frame)
        data = engine.prepare(data)
        fitted = made.fit(data, engine)
        named = [name for name in made.reads(data.schema) if name in data.schema]
        return engine.map_rows(
            data, lambda batch, draws: made.rows(batch, fitted, draws), reads=named
        )

    def fit(self, data: Dataset, engine: Engine) -> dict[str, Any]:
        """Nothing is learnt from values; what the variables are made of must be single values."""
        del engine
        made = set[str]()
        for name, formula in self._read.items():
            self._require_inputs(data, name, formula, made)
            made.add(name)
        return {
            name: {"type": name_type(data, name) if name in data.schema else _AS_MADE}
            for name in self.formulas
        }

    def _require_inputs(
        self, data: Dataset, name: str, formula: DerivedFormula, made: set[str]
    ) -> None:
        data.schema.require([other for other in formula.variables if other not in made])
        ranges = [
            other
            for other in formula.variables
            if other in data.schema and data.schema[other].generalised and other not in made
        ]
        if ranges:
            raise MethodError(
                f"Variable '{name}' cannot be made of '{ranges[0]}', which holds ranges or sets.",
                hint=f"drop '{name}': whoever needs it makes it; or let '{ranges[0]}' be single "
                'values: output = "value".',
            )
        columns = {other: data.dtype(other) for other in formula.variables if other in data.schema}
        try:
            pl.DataFrame(schema=columns).select(formula.query)
        except pl.exceptions.PolarsError:
            if set(columns) == set(formula.variables):
                raise MethodError(
                    f"The formula of variable '{name}' does not fit the types of its variables: "
                    f"{', '.join(columns)}.",
                    hint="numbers are computed with numbers, and dates with year, days and years.",
                ) from None

    def rows(self, batch: pl.DataFrame, fitted: Fitted, draws: Draws | None) -> pl.DataFrame:
        """Make the variables for a batch of records, one after the other."""
        del draws
        result = batch
        for name, formula in self._read.items():
            values = result.select(formula.query.alias(name))[name]
            if len(values) != len(batch):  # a formula of constants
                values = pl.Series(name, [values[0]] * len(batch))
            made = tidy(values, fitted[name]["type"])
            if name in batch.columns:
                was_missing = batch[name].is_null()
                made = made.set(was_missing, None) if was_missing.any() else made
            result = result.with_columns(made)
        return result.select(list(self.formulas))

    def reschema(self, schema: Schema, fitted: Fitted) -> Schema:
        """What was declared of the values no longer holds: a domain, groups, ranges."""
        del fitted
        made = {
            name: replace(schema[name], domain=None, hierarchy=None, cells=None, formula=text)
            for name, text in self.formulas.items()
        }
        return schema.with_columns(made)
