"""Round numbers to stated digits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Annotated, Any, Self

import numpy as np
import polars as pl
from pydantic import Field, model_validator

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MethodError, did_you_mean
from sfumato.kernels.arrays import Floats
from sfumato.method import Fitted, RowWise, require_numbers
from sfumato.methods._publishing.digits import DIGITS, round_to_step
from sfumato.parameters import parameters
from sfumato.randomness import Draws
from sfumato.schema import Column, Schema

Decimals = Annotated[int, Field(ge=-DIGITS, le=DIGITS)]
Figures = Annotated[int, Field(ge=1, le=DIGITS)]
_SIZES = ("digits", "figures")


@parameters
class Round(RowWise):
    """Round numbers to stated digits.

    Question: how exact must a measurement be?
    Assumes: nobody outside knows the rounded values. It guarantees nothing by itself: set a target.

    Missing stays missing, codes for missing stay as they are, and no number becomes such a code.
    Whole numbers stay whole. Of two numbers that are equally near, the one with an even last digit
    is taken.

    Parameters
    ----------
    variables : the numbers to round.
    digits : decimals that stay: one for all or a table by variable; 1 is a tenth, 0 whole numbers,
        -2 hundreds.
    figures : in place of decimals, significant figures that stay: with 2, 1234 becomes 1200 and
        0.0567 becomes 0.057.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> data = sf.Dataset(pl.DataFrame({"pay": [1234, 980], "bmi": [22.46, 31.0]}))
    >>> Round(variables=["pay", "bmi"], digits={"pay": -2, "bmi": 1}).apply(data).frame.rows()
    [(1200, 22.5), (1000, 31.0)]
    >>> Round(variables=["pay"], figures=1).apply(data).frame["pay"].to_list()
    [1000, 1000]

    References: Avraam, Jones & Burton (2021), A deterministic approach for protecting privacy in
    sensitive personal data, doi:10.21203/rs.3.rs-344334/v1, introduction.
    """

    name = "round"
    runs_on = ("local", "streaming", "spark")
    examples = (
        {"variables": ["systolic", "glucose"], "digits": -1},
        {"variables": ["income", "height"], "figures": 2},
        {"variables": ["weight_kg"], "digits": 0},
    )
    variables: Annotated[list[str], Field(min_length=1)]
    digits: Decimals | dict[str, Decimals] | None = None
    figures: Figures | dict[str, Figures] | None = None

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        stated = [size for size in _SIZES if getattr(self, size) is not None]
        if len(stated) != 1:
            msg = "give digits or figures, one of both."
            raise ValueError(msg)
        table = getattr(self, stated[0])
        for name in table if isinstance(table, dict) else ():
            if name not in self.variables:
                hint = did_you_mean(name, self.variables)
                msg = f"{stated[0]} names '{name}', which is none of the variables. Hint: {hint}"
                raise ValueError(msg)
        if isinstance(table, dict) and len(table) != len(self.variables):
            msg = f"{stated[0]} must name every variable."
            raise ValueError(msg)
        return self

    def fit(self, data: Dataset, engine: Engine) -> dict[str, Any]:
        """Only numbers can be rounded; codes for missing are remembered."""
        require_numbers(data, self.touches(data.schema), "Rounding", dates=False, engine=engine)
        return {name: {"missing": list(data.schema[name].missing)} for name in self.variables}

    def rows(self, batch: pl.DataFrame, fitted: Fitted, draws: Draws | None) -> pl.DataFrame:
        """Rounded values for a batch of records."""
        del draws
        return pl.DataFrame(
            [
                self._round_values(batch[name], Column(missing=tuple(fitted[name]["missing"])))
                for name in self.variables
            ]
        )

    def _round_values(self, values: pl.Series, column: Column) -> pl.Series:
        digits = _value_of(self.digits, values.name)
        if values.dtype.is_integer() and digits is not None:
            return values if digits >= 0 else _round_whole(values, 10**-digits, column)
        if digits is not None:
            rounded = round_to_step(values, float(f"1e{-digits}"), column)
        else:
            rounded = _round_figures(values, _value_of(self.figures, values.name) or 1, column)
        return (
            _cast_whole(rounded, values)
            if values.dtype.is_integer()
            else rounded.cast(values.dtype)
        )

    def reschema(self, schema: Schema, fitted: Fitted) -> Schema:
        """The ends of a declared domain are rounded too, so that no value lies beyond them."""
        for name in fitted:
            bounds = schema[name].bounds
            if bounds is not None and schema[name].kind in ("continuous", "integer"):
                ends = pl.Series(name, [float(end) for end in bounds])
                low, high = self._round_values(ends, Column()).to_list()
                domain = (min(low, bounds[0]), max(high, bounds[1]))
                is_integer = schema[name].kind == "integer"
                ends_of = tuple(int(end) for end in domain) if is_integer else domain
                schema = schema.with_columns({name: replace(schema[name], domain=ends_of)})
        return schema


def _value_of(size: int | Mapping[str, int] | None, name: str) -> int | None:
    return size.get(name) if isinstance(size, Mapping) else size


def _cast_whole(rounded: pl.Series, values: pl.Series) -> pl.Series:
    """Whole numbers in the type that they had."""
    try:
        return rounded.cast(pl.Int64).cast(values.dtype)
    except pl.exceptions.PolarsError:
        raise MethodError(
            f"Variable '{values.name}' has numbers that its type cannot hold when rounded.",
            hint="take more digits, or read it as 64-bit numbers.",
        ) from None


def _round_whole(values: pl.Series, step: int, column: Column) -> pl.Series:
    """Whole numbers to multiples of a step, without the detour through floats."""
    codes = {code for code in column.missing if isinstance(code, int)}
    distinct = values.drop_nulls().unique()
    rounded = []
    for number in distinct:
        # Python rounds halves to even, and its whole numbers have no end.
        multiple = round(Fraction(number, step)) * step
        while multiple in codes:
            multiple += step
        rounded.append(multiple)
    wide = pl.Series(rounded, dtype=pl.Int128)
    return values.replace_strict(distinct, _cast_whole(wide, values), return_dtype=values.dtype)


def _round_figures(values: pl.Series, figures: int, column: Column) -> pl.Series:
    """Each number to so many significant figures of its own."""
    numbers = values.cast(pl.Float64).fill_null(np.nan).to_numpy()
    rounded: Floats = numbers.copy()
    for exponent in _list_exponents(numbers):
        group = (np.abs(numbers) >= float(f"1e{exponent}")) & (
            np.abs(numbers) < float(f"1e{exponent + 1}")
        )
        step = float(f"1e{exponent + 1 - figures}")
        of_group = round_to_step(pl.Series(values.name, numbers[group]), step, column)
        rounded[group] = of_group.to_numpy()
    return pl.Series(values.name, rounded).fill_nan(None)


def _list_exponents(numbers: Floats) -> list[int]:
    """The powers of ten among which the numbers lie; 0 has none."""
    sizes = np.abs(numbers[np.isfinite(numbers) & (numbers != 0)])
    if not len(sizes):
        return []
    ends = np.floor(np.log10([sizes.min(), sizes.max()])).astype(int)
    # A logarithm may lie just on the wrong side of a power of ten.
    return list(range(int(ends[0]) - 1, int(ends[1]) + 2))
