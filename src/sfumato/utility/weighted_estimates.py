"""How far weighted means and shares move when weights, or values, were protected."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

from sfumato.cells.codes import encode
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Floats, Mask
from sfumato.kernels.exact_sums import exact_sum
from sfumato.measure import Measure
from sfumato.numbers import Number
from sfumato.pairs.alignment import ComparableVariable, name_left_out
from sfumato.pairs.draws import align_variables
from sfumato.parameters import parameters
from sfumato.schema import IDENTIFYING

_MOST_LEVELS = 50
_QUANTILES = (0.25, 0.5, 0.75)
_ASSUMPTIONS = (
    "Changes of means are in standard errors, with the effective number of records after Kish.",
    "What the release no longer has is compared by its original values: only the weights count.",
)


@parameters
class WeightedEstimates(Measure):
    """The largest change of a weighted mean, in standard errors of the original's.

    Question: does a survey still give the same estimates with the released weights?
    Assumes: record by record, the released data belong to the original, and both have the weight.
    The value is the largest change of a number's weighted mean, in standard errors: the change
    comes from the weights and from the values; of a range or a set one value is drawn. Beside it:
    `largest_share_change`, the largest change of a category's weighted share, from 0 to 1;
    `largest_quantile_change`, that of a number's weighted quartiles and median, in standard
    deviations (a quantile is the least value at or below which that share of the weights lies);
    `total_change`, by which share the total of the weights changed; and `design_effect_ratio`,
    by which factor the variance of estimates grows or falls through more or less uneven weights
    (Kish's approximation).

    Parameters
    ----------
    weight : survey weight. Default: the variable whose role is "weight".

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> schema = sf.Schema({"age": "quasi", "w": "weight"})
    >>> frame = pl.DataFrame({"age": [20.0, 40.0, 60.0], "w": [1.0, 2.0, 1.0]})
    >>> rounded = frame.with_columns(w=pl.Series([1.0, 2.0, 2.0]))
    >>> original, released = (sf.Dataset(data, schema) for data in (frame, rounded))
    >>> found = WeightedEstimates().measure(original, released)
    >>> round(found.value, 3), found.details["total_change"]
    (0.462, 0.25)

    References: Kish (1992), Weighting for unequal P_i, J. Official Statistics 8:183.
    """

    name = "weighted_estimates"
    odd = {"one row": 0}
    examples = ({}, {"weight": "survey_weight"})
    of = "pair"
    numbers = (
        Number.loss("weighted_estimates"),
        Number.loss("largest_share_change", highest=1.0),
        Number.loss("largest_quantile_change"),
        Number.loss("total_change"),
        Number.loss("design_effect_ratio"),
    )
    weight: str | None = None

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """Compute every weighted mean and share with the old weights and with the new."""
        del engine  # all records are in memory
        name = self._find_weight(original, released)
        before, after = (_read_weights(data, name) for data in (original, released))
        known = ~np.isnan(before) & ~np.isnan(after)
        totals = exact_sum(before[known]), exact_sum(after[known])
        if not all(totals):
            raise MeasureError(f"Variable '{name}' has no weights to compare.")
        names = [
            other
            for other, column in original.schema.items()
            if other != name and column.role not in (*IDENTIFYING, "weight")
        ]
        shown = align_variables(original, released, names)
        rows = list(_compare_variables(original, shown, before, after, known))
        means = [row["change"] for row in rows if row["estimate"] == "mean"]
        shares = [row["change"] for row in rows if row["estimate"] == "share"]
        quantiles = [row["change"] for row in rows if row["estimate"].startswith("quantile")]
        return Evidence(
            name=self.name,
            subject="pair",
            value=max(means, default=0.0),
            direction=self.direction,
            table=original.like(pl.DataFrame(rows, schema=_COLUMNS)),
            details={
                "largest_share_change": max(shares, default=0.0),
                "largest_quantile_change": max(quantiles, default=0.0),
                "total_change": abs(totals[1] / totals[0] - 1),
                "design_effect_ratio": _design_effect(after[known]) / _design_effect(before[known]),
                "weight": name,
                "levels_of_the_weight": int(np.unique(after[known]).size),
                **name_left_out(other for other in names if isinstance(shown[other], str)),
            },
            assumptions=_ASSUMPTIONS,
        )

    def _find_weight(self, original: Dataset, released: Dataset) -> str:
        names = (self.weight,) if self.weight else original.schema.having("weight")
        if not names:
            raise MeasureError(
                "No variable is a weight.", hint='give it the role "weight", or name it: weight = …'
            )
        original.schema.require([names[0]])
        if names[0] not in released.schema:
            raise MeasureError(f"The release does not have the weight '{names[0]}'.")
        return names[0]


_COLUMNS = {
    "variable": pl.String,
    "level": pl.String,
    "estimate": pl.String,
    "original": pl.Float64,
    "released": pl.Float64,
    "change": pl.Float64,
}


def _read_weights(data: Dataset, name: str) -> Floats:
    values = data.column(name)
    if not values.dtype.is_numeric():
        raise MeasureError(f"The weight '{name}' holds no numbers.", hint="is it a weight?")
    return values.cast(pl.Float64).fill_null(math.nan).to_numpy()


def _compare_variables(
    original: Dataset,
    shown: Mapping[str, list[ComparableVariable] | str],
    before: Floats,
    after: Floats,
    known: Mask,
) -> Iterator[dict[str, Any]]:
    for name in shown:
        values, sides = original.column(name), shown[name]
        numbers = original.schema[name].kind not in ("nominal", "ordinal")
        if values.dtype.is_numeric() and numbers:
            old = values.cast(pl.Float64)
            new = old if isinstance(sides, str) else sides[0].released
            yield from _compare_means(name, old, new, before, after, known)
        elif values.n_unique() <= _MOST_LEVELS:
            levels = values.cast(pl.String) if values.dtype == pl.Boolean else values
            both = (levels, levels)
            # Yes and no, and codes, are numbers there: both sides alike.
            if not isinstance(sides, str):
                both = (sides[0].original, sides[0].released)
            yield from _compare_shares(name, levels, both, before, after, known)


def _compare_means(
    name: str, values: pl.Series, shown: pl.Series, before: Floats, after: Floats, known: Mask
) -> Iterator[dict[str, Any]]:
    old, new = (side.fill_null(math.nan).to_numpy() for side in (values, shown))
    rows = known & ~np.isnan(old) & ~np.isnan(new)
    old, new, before, after = old[rows], new[rows], before[rows], after[rows]
    if not exact_sum(before) or not exact_sum(after):
        return
    mean, again = _average(old, before), _average(new, after)
    effective = exact_sum(before) ** 2 / exact_sum(before**2)
    error = math.sqrt(_average((old - mean) ** 2, before) / effective)
    change = abs(again - mean) / error if error else 0.0
    yield dict(zip(_COLUMNS, (name, "", "mean", mean, again, change), strict=True))
    spread = math.sqrt(_average((old - mean) ** 2, before))
    pairs = zip(*(find_quantiles(*side) for side in ((old, before), (new, after))), strict=True)
    for share, (first, second) in zip(_QUANTILES, pairs, strict=True):
        moved = abs(second - first) / spread if spread else 0.0
        row = (name, "", f"quantile {share}", first, second, moved)
        yield dict(zip(_COLUMNS, row, strict=True))


def find_quantiles(values: Floats, weights: Floats) -> list[float]:
    """The least value at or below which a quarter, half, three quarters of the weights lie.

    Examples
    --------
    >>> find_quantiles(np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 2.0]))
    [1.0, 2.0, 2.0]
    """
    order = np.lexsort((weights, values))
    sums = np.cumsum(weights[order])
    # A last bit of rounding is no weight.
    wanted = np.array(_QUANTILES) * sums[-1] * (1 - 1e-12)
    return [float(value) for value in values[order][np.searchsorted(sums, wanted)]]


def _average(values: Floats, weights: Floats) -> float:
    return exact_sum(values * weights) / exact_sum(weights)


def _compare_shares(
    name: str,
    values: pl.Series,
    sides: tuple[pl.Series, pl.Series],
    before: Floats,
    after: Floats,
    known: Mask,
) -> Iterator[dict[str, Any]]:
    coded = encode(values)
    for code, level in enumerate(coded.levels.to_list()):
        has_level = coded.codes == code
        # How the level is written beside the released values.
        written = sides[0].filter(pl.Series(has_level))[0]
        shares = []
        for side, weights in zip(sides, (before, after), strict=True):
            shows_level = known & (side == written).fill_null(value=False).to_numpy()
            shares.append(exact_sum(weights[shows_level]) / exact_sum(weights[known]))
        row = (name, str(level), "share", *shares, abs(shares[1] - shares[0]))
        yield dict(zip(_COLUMNS, row, strict=True))


def _design_effect(weights: Floats) -> float:
    """Kish (1992): 1 + the squared coefficient of variation of the weights."""
    return len(weights) * exact_sum(weights**2) / exact_sum(weights) ** 2
