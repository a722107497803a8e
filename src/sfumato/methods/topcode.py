"""Cut off the tails."""

from __future__ import annotations

import math
from typing import Annotated, Any, Self

import polars as pl
from pydantic import Field, model_validator

from sfumato.cells.grids import round_limit
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.engines.summaries import Quantile, Summary
from sfumato.errors import MethodError
from sfumato.method import Fitted, RowWise, is_integer, require_numbers
from sfumato.parameters import parameters
from sfumato.randomness import Draws

_QUARTILES = (0.25, 0.75)
Share = Annotated[float, Field(gt=0, lt=1)]


@parameters
class Topcode(RowWise):
    """Replace values beyond a limit by the limit: top coding, bottom coding, or both.

    Question: who stands out by an extreme value?
    Assumes: nobody stands out by a value inside the limits. A limit by quantile would be
    somebody's value, so it moves inwards to a round number: a few more values are cut off. A
    limit stated in advance stays as it is.

    Parameters
    ----------
    variables : the numbers to cut off.
    top : upper limit, as a value.
    bottom : lower limit, as a value.
    top_quantile : upper limit as a share of the values, such as 0.99.
    bottom_quantile : lower limit as a share of the values, such as 0.01.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> data = sf.Dataset(pl.DataFrame({"age": [17, 44, 103]}), sf.Schema({"age": "quasi"}))
    >>> Topcode(variables=["age"], top=90, bottom=18).apply(data).frame["age"].to_list()
    [18, 44, 90]
    """

    name = "topcode"
    runs_on = ("local", "streaming", "spark")
    odd = {"empty": (0,), "all missing": (0,)}
    examples = (
        {"variables": ["income"], "top_quantile": 0.99},
        {"variables": ["height", "children"], "top": 190, "bottom": 1},
    )
    variables: Annotated[list[str], Field(min_length=1)]
    top: Annotated[float, Field(allow_inf_nan=False)] | None = None
    bottom: Annotated[float, Field(allow_inf_nan=False)] | None = None
    top_quantile: Share | None = None
    bottom_quantile: Share | None = None

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        for side in ("top", "bottom"):
            if getattr(self, side) is not None and getattr(self, f"{side}_quantile") is not None:
                msg = f"give {side} or {side}_quantile, not both."
                raise ValueError(msg)
        if all(
            limit is None
            for limit in (self.top, self.bottom, self.top_quantile, self.bottom_quantile)
        ):
            msg = "give at least one limit: top, bottom, top_quantile or bottom_quantile."
            raise ValueError(msg)
        if self.top is not None and self.bottom is not None and self.bottom > self.top:
            msg = "bottom lies above top."
            raise ValueError(msg)
        return self

    def fit(self, data: Dataset, engine: Engine) -> dict[str, Any]:
        """Find the limits of each variable."""
        require_numbers(data, self.touches(data.schema), "Top coding", dates=False, engine=engine)
        shares = [q for q in (self.top_quantile, self.bottom_quantile) if q is not None]
        if shares:
            shares = [*shares, *_QUARTILES]
        wanted: dict[str, list[Summary]] = {
            name: [Quantile(share) for share in dict.fromkeys(shares)] for name in self.variables
        }
        quantiles = engine.aggregate(data, wanted)
        return {
            name: self._find_limits(name, quantiles[name], whole=is_integer(data, name))
            for name in self.variables
        }

    def _find_limits(
        self, name: str, quantiles: dict[str, float], *, whole: bool
    ) -> dict[str, float | bool | None]:
        limits: dict[str, float | bool | None] = {
            "top": self.top,
            "bottom": self.bottom,
            "whole": whole,
        }
        for side, share in (("top", self.top_quantile), ("bottom", self.bottom_quantile)):
            if share is not None:
                limit = quantiles[Quantile(share).name]
                if math.isnan(limit):
                    raise MethodError(
                        f"Variable '{name}' has no values to take a quantile of.",
                        hint="leave it out, or give the limit as a value.",
                    )
                low, high = (quantiles[Quantile(quartile).name] for quartile in _QUARTILES)
                # The release shows the limit, and a quantile is a value of the data.
                limits[side] = round_limit(limit, (low, high), whole=whole, up=side == "bottom")
        return limits

    def rows(self, batch: pl.DataFrame, fitted: Fitted, draws: Draws | None) -> pl.DataFrame:
        """Clip a batch of records."""
        del draws
        return batch.select(_clip_values(batch[name], **fitted[name]) for name in self.variables)


def _clip_values(
    values: pl.Series, *, bottom: float | None, top: float | None, whole: bool
) -> pl.Series:
    # A whole-number variable stays one: limits move inwards to the next whole number.
    low = math.ceil(bottom) if whole and bottom is not None else bottom
    high = math.floor(top) if whole and top is not None else top
    if low is not None and high is not None and low > high:
        raise MethodError(
            f"Variable '{values.name}': no value lies between the limits.",
            hint="move the bottom limit below the top limit.",
        )
    if values.dtype.is_integer():
        # In a wider type, so that a limit outside the variable's own type does no harm.
        return values.cast(pl.Int64).clip(low, high).cast(values.dtype, strict=False)
    return values.clip(low, high)
