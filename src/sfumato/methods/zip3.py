"""Shorten US postcodes to three digits where enough people live."""

from __future__ import annotations

import re
from typing import Annotated, Any

import polars as pl
from pydantic import Field

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MethodError
from sfumato.method import Fitted, RowWise
from sfumato.parameters import parameters
from sfumato.randomness import Draws
from sfumato.schema import Schema

_LARGE = 20_000
_DIGITS = 5
_AREA = re.compile(r"\d{3}")
_BEGINNING = r"^\s*(\d{3})"


@parameters
class Zip3(RowWise):
    """Keep the first three digits of a US ZIP code where more than 20,000 people live, else 000.

    Question: how much of a postcode may leave under HIPAA Safe Harbor?
    Assumes: `populations` are those of the current census. Sfumato brings no such table: an area
    that is not listed becomes 000, and so does whatever begins with no three digits. Missing stays
    missing. It guarantees nothing by itself: set a target.

    Parameters
    ----------
    variables : the ZIP codes, as text or as whole numbers.
    populations : people who live in each area: by the first three digits, `{"021" = 640000}`.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> homes = pl.DataFrame({"zip": ["02139", "03601-1234"]})
    >>> data = sf.Dataset(homes, sf.Schema({"zip": "quasi"}))
    >>> step = Zip3(variables=["zip"], populations={"021": 640_000, "036": 19_000})
    >>> step.apply(data).frame["zip"].to_list()
    ['021', '000']

    References: 45 CFR 164.514(b)(2)(i)(B).
    """

    name = "zip3"
    runs_on = ("local", "streaming")
    informs = ("identifiers_left",)
    examples = ({"variables": ["postcode"], "populations": {"010": 30_000, "101": 20_000}},)
    variables: Annotated[list[str], Field(min_length=1)]
    populations: dict[str, Annotated[int, Field(ge=0)]] | None = None

    def set_report(self, name: str) -> dict[str, Any]:
        """The areas are as large there as here."""
        del name
        return {} if self.populations is None else {"populations": self.populations}

    def fit(self, data: Dataset, engine: Engine) -> Fitted:
        """Nothing to fit, but postcodes are text or whole numbers."""
        del engine
        data.schema.require(self.variables)
        if not all(_AREA.fullmatch(area) for area in self.populations or {}):
            raise MethodError(
                "`populations` names an area that is not three digits.",
                hint='write the first three digits of its ZIP codes in quotes: "021" = 640000.',
            )
        for name in self.variables:
            dtype = data.dtype(name)
            if dtype != pl.String and not dtype.is_integer():
                raise MethodError(
                    f"Variable '{name}' is neither text nor whole numbers, as ZIP codes are.",
                    hint="leave it out, or declare how to read it: [read] types.",
                )
        return {}

    def rows(self, batch: pl.DataFrame, fitted: Fitted, draws: Draws | None) -> pl.DataFrame:
        """Three digits for a batch of records."""
        del fitted, draws
        large = [area for area, people in (self.populations or {}).items() if people > _LARGE]
        columns = []
        for name in self.variables:
            codes = batch[name]
            texts = codes.cast(pl.String)
            padded = texts.str.zfill(_DIGITS) if codes.dtype.is_integer() else texts
            area = padded.str.extract(_BEGINNING)
            is_large = area.is_in(large) & area.is_not_null()
            columns.append(area.set(~is_large, "000").set(texts.is_null(), None).alias(name))
        return pl.DataFrame(columns)

    def reschema(self, schema: Schema, fitted: Fitted) -> Schema:
        """What is left are names of areas."""
        del fitted
        for name in self.variables:
            codes = tuple(code for code in schema[name].missing if isinstance(code, str))
            schema = schema.changed(
                [name], kind="nominal", domain=None, hierarchy=None, labels=None, missing=codes
            )
        return schema
