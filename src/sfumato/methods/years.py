"""Replace dates by their years."""

from __future__ import annotations

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

_OLDEST = 90


@parameters
class Years(RowWise):
    """Replace each date by its year, a whole number that further steps can treat.

    Question: does anybody need the day on which something happened?
    Assumes: a year is shared by many. It guarantees nothing by itself: set a target. Missing stays
    missing.

    Parameters
    ----------
    variables : the dates.
    oldest : oldest year: earlier ones are written as this. For years of birth, 90 years before the
        data were taken puts all who are 90 or older into one group, as HIPAA Safe Harbor asks.

    Examples
    --------
    >>> import datetime as dt, polars as pl, sfumato as sf
    >>> born = pl.DataFrame({"born": [dt.date(1921, 3, 2), dt.date(1988, 7, 9)]})
    >>> data = sf.Dataset(born, sf.Schema({"born": "quasi"}))
    >>> Years(variables=["born"], oldest=1934).apply(data).frame["born"].to_list()
    [1934, 1988]

    References: 45 CFR 164.514(b)(2)(i)(C).
    """

    name = "years"
    runs_on = ("local", "streaming")
    informs = ("identifiers_left",)
    examples = ({"variables": ["birth_date"]}, {"variables": ["birth_date"], "oldest": 1940})
    variables: Annotated[list[str], Field(min_length=1)]
    oldest: Annotated[int, Field(ge=1800, le=2200)] | None = None

    def set_report(self, name: str) -> dict[str, Any]:
        """Ages are told for the year in which the oldest group turns 90."""
        del name
        return {} if self.oldest is None else {"year": self.oldest + _OLDEST}

    def fit(self, data: Dataset, engine: Engine) -> Fitted:
        """Nothing to fit, but only dates have years."""
        del engine
        data.schema.require(self.variables)
        for name in self.variables:
            if data.dtype(name) not in (pl.Date, pl.Datetime):
                raise MethodError(
                    f"Variable '{name}' holds no dates, so it has no years.",
                    hint="leave it out, or declare how to read it: [read] types.",
                )
        return {}

    def rows(self, batch: pl.DataFrame, fitted: Fitted, draws: Draws | None) -> pl.DataFrame:
        """Years for a batch of records."""
        del fitted, draws
        years = [pl.col(name).dt.year().cast(pl.Int64) for name in self.variables]
        return batch.select(
            year if self.oldest is None else year.clip(lower_bound=self.oldest) for year in years
        )

    def reschema(self, schema: Schema, fitted: Fitted) -> Schema:
        """Years are whole numbers, between those of the declared domain."""
        del fitted
        for name in self.variables:
            bounds = schema[name].bounds
            domain = None
            if bounds is not None:
                domain = tuple(max(end.year, self.oldest or end.year) for end in bounds)
            schema = schema.changed(
                [name], kind="integer", domain=domain, hierarchy=None, labels=None
            )
        return schema
