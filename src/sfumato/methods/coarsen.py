"""Replace numbers by fixed intervals."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

import numpy as np
import polars as pl
from pydantic import Field, model_validator

from sfumato.cells.grids import spread_ends
from sfumato.cells.notation import format_value
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.engines.summaries import Maximum, Minimum, Summary
from sfumato.errors import MethodError
from sfumato.method import Fitted, RowWise, Strength, require_numbers
from sfumato.methods._publishing.digits import count_decimals
from sfumato.parameters import parameters
from sfumato.randomness import Draws
from sfumato.schema import Column, Schema

_EPOCH = dt.date(1970, 1, 1)
# The edges of observed values lie on steps of a tenth of their range at least.
_PARTS = 10
Finite = Annotated[float, Field(allow_inf_nan=False)]


@parameters
class Coarsen(RowWise):
    """Replace each number by the fixed interval it lies in, variable by variable.

    Question: how much detail does a variable need?
    Assumes: intervals are fixed in advance. Fewer combinations stay unique, but this
    guarantees nothing: always set a target and look at the evidence.

    Parameters
    ----------
    variables : numbers or dates.
    intervals : number of intervals of (nearly) equal length over the domain.
    breaks : where intervals begin, in place of a number of them: each break begins an interval.
    edges : ends of the intervals: "declared" takes the domain that the schema declares; "observed"
        takes round numbers, or first and last days of periods, at or outside the data's smallest
        and largest value: a step of that grid is at least a tenth of the range, so that neither
        value is shown.
    output : how an interval is written: "range" writes `[min;max]`; "middle" writes the middle of
        the interval.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> age = sf.Column(role="quasi", kind="integer", domain=(0, 85))
    >>> data = sf.Dataset(pl.DataFrame({"age": [20, 21, 64]}), sf.Schema({"age": age}))
    >>> Coarsen(variables=["age"], intervals=4).apply(data).frame["age"].to_list()
    ['[0;20]', '[21;42]', '[64;85]']

    References: Sánchez, Martínez & Domingo-Ferrer (2016), Science 351:1274, Algorithm S3.
    """

    name = "coarsen"
    runs_on = ("local", "streaming", "spark")
    strength = Strength("intervals", stronger="down")
    odd = {"empty": (2,), "all missing": (2,)}
    examples = (
        {"variables": ["birth_date", "height"], "intervals": 5},
        {"variables": ["household_size"], "breaks": [1, 2, 4]},
        {"variables": ["glucose"], "intervals": 6, "edges": "observed", "output": "middle"},
    )
    variables: Annotated[list[str], Field(min_length=1)]
    intervals: Annotated[int, Field(ge=1, le=100_000)] | None = None
    breaks: Annotated[list[Finite | dt.date], Field(min_length=1)] | None = None
    edges: Literal["declared", "observed"] = "declared"
    output: Literal["range", "middle"] = "range"

    @model_validator(mode="after")
    def _check_cuts(self) -> Self:
        if (self.intervals is None) == (self.breaks is None):
            msg = "give either intervals (how many) or breaks (where)."
            raise ValueError(msg)
        cuts = [_to_number(cut) for cut in self.breaks or []]
        if any(low >= high for low, high in pairwise(cuts)):
            msg = "breaks must rise."
            raise ValueError(msg)
        return self

    def fit(self, data: Dataset, engine: Engine) -> dict[str, Any]:
        """Where each variable's intervals begin, and where the last one ends."""
        require_numbers(data, self.touches(data.schema), "Coarsening", dates=True, engine=engine)
        ends: list[Summary] = [Minimum(), Maximum()]
        summary = engine.aggregate(data, dict.fromkeys(self.variables, ends))
        floats = [name for name in self.variables if data.dtype(name).is_float()]
        for name, longer in count_decimals(data, floats, engine).items():
            summary[name]["decimals"] = longer
        return {name: self._cut(name, data, summary[name]) for name in self.variables}

    def _cut(self, name: str, data: Dataset, summary: Mapping[str, Any]) -> dict[str, Any]:
        dtype, least, most = data.dtype(name), summary["min"], summary["max"]
        # pandas turns whole numbers with gaps into floats; the schema knows better.
        declared = data.schema[name].kind == "integer"
        integers = dtype.is_integer() or dtype.is_temporal() or declared
        fractions = declared and dtype.is_float() and summary["decimals"][0] > 0
        self._require_same_type(name, dtype, fractions=fractions)
        low, high = self._find_ends(
            name, data.schema[name], (least, most), whole=integers, date=dtype.is_temporal()
        )
        if least < low or most > high:
            raise MethodError(
                f"Variable '{name}' has values outside its declared domain.",
                hint='correct them or the domain, or first use the method "topcode".',
            )
        if self.breaks is not None:
            cuts = [_to_number(cut) for cut in self.breaks]
            # Breaks outside the domain would begin intervals that no value can lie in.
            starts = [low, *(cut for cut in cuts if low < cut <= high)]
        elif integers:
            starts = integer_starts(int(low), int(high), self.intervals or 1)
        else:
            width = (high - low) / (self.intervals or 1)
            starts = [low + number * width for number in range(self.intervals or 1)]
        return {"starts": starts, "end": high, "whole": integers, "date": dtype.is_temporal()}

    def _require_same_type(self, name: str, dtype: pl.DataType, *, fractions: bool) -> None:
        if any(isinstance(cut, dt.date) != dtype.is_temporal() for cut in self.breaks or []):
            raise MethodError(
                f"Variable '{name}' and the breaks are not of one type.",
                hint="cut dates at dates, such as 1960-01-01, and numbers at numbers.",
            )
        if fractions:
            raise MethodError(
                f"Variable '{name}' is declared as whole numbers but has others.",
                hint='declare kind = "continuous".',
            )

    def _find_ends(
        self, name: str, column: Column, observed: tuple[float, float], *, whole: bool, date: bool
    ) -> tuple[float, float]:
        if self.edges == "observed":
            if math.isnan(observed[0]):
                raise MethodError(
                    f"Variable '{name}' has no values to take the smallest and largest of.",
                    hint="declare its domain in the schema.",
                )
            # The least and the greatest value are two people's.
            return spread_ends(*observed, whole=whole, date=date, parts=_PARTS)
        if column.bounds is None:
            raise MethodError(
                f"Variable '{name}' has no declared domain, so its intervals have no ends.",
                hint="declare one in the schema, such as domain = [0, 120]; or set "
                "edges = 'observed', which takes round numbers around the data's own values.",
            )
        low, high = (_to_number(end) for end in column.bounds)
        return low, high

    def rows(self, batch: pl.DataFrame, fitted: Fitted, draws: Draws | None) -> pl.DataFrame:
        """Intervals for a batch of records."""
        del draws
        return pl.DataFrame(
            [self._write_intervals(batch[name], fitted[name]) for name in self.variables]
        )

    def _write_intervals(self, values: pl.Series, cut: dict[str, Any]) -> pl.Series:
        numbers = values.cast(pl.Date).to_physical() if cut["date"] else values
        interval = np.searchsorted(cut["starts"], numbers.fill_null(0).to_numpy(), side="right") - 1
        rows = pl.Series(interval.clip(0)).set(numbers.is_null(), None)
        return pl.Series(self._list_cells(cut)).gather(rows).alias(values.name)

    def _list_cells(self, cut: dict[str, Any]) -> list[Any]:
        pairs = interval_ends(cut)
        if self.output == "middle":
            return [_to_value((low + high) / 2, date=cut["date"]) for low, high in pairs]
        if cut["date"]:
            pairs = [(_to_value(low, date=True), _to_value(high, date=True)) for low, high in pairs]
        return [f"[{format_value(low)};{format_value(high)}]" for low, high in pairs]

    def reschema(self, schema: Schema, fitted: Fitted) -> Schema:
        """Ranges are ordered categories; middles are numbers (or dates) still."""
        if self.output == "middle":
            kinds = {name: schema[name].kind for name in self.variables}
            integers = [name for name, kind in kinds.items() if kind == "integer"]
            return schema.changed(integers, kind="continuous")
        changed = schema
        for name in self.variables:
            levels = tuple(self._list_cells(fitted[name]))
            changed = changed.changed(
                [name], kind="ordinal", domain=levels, hierarchy=None, missing=()
            )
        return changed


def integer_starts(low: int, high: int, intervals: int) -> list[float]:
    """Where nearly equal intervals of whole numbers begin (the published rule, exactly).

    Examples
    --------
    >>> integer_starts(0, 85, 8)
    [0, 10, 21, 32, 43, 53, 64, 75]
    """
    width = high - low + 1
    return sorted({low + number * width // intervals for number in range(intervals)})


def interval_ends(cut: dict[str, Any]) -> list[tuple[float, float]]:
    """Both ends of each interval. Whole numbers end just before the next interval begins."""
    starts = cut["starts"]
    last = [start - 1 if cut["whole"] else start for start in starts[1:]]
    return list(zip(starts, [*last, cut["end"]], strict=True))


def _to_number(end: Any) -> float:
    if isinstance(end, dt.datetime):
        end = end.date()
    return float((end - _EPOCH).days) if isinstance(end, dt.date) else end


def _to_value(number: float, *, date: bool) -> Any:
    return _EPOCH + dt.timedelta(days=math.floor(number)) if date else float(number)
