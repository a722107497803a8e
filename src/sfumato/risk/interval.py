"""Whose original values lie close around the released ones."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.cells.pairs import Pair, compare_numbers
from sfumato.cells.standardisation import chance_shifts, describe_incomplete, means_and_deviations
from sfumato.data import Dataset
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Floats, Integers, Mask
from sfumato.kernels.orders import order_by_content
from sfumato.measure import Measure
from sfumato.parameters import parameters

_ASSUMPTIONS = (
    "Record by record, the released data belong to the original.",
    "An interval reaches k standard deviations of the released variable to either side.",
    "A record is compared in the variables that it has in both data sets.",
)


@parameters
class Interval(Measure):
    """Share of records whose original values lie close around the released ones.

    Question: how many released records give away the original values nearly as they were?
    Assumes: record by record, the released data belong to the original. A record counts if in all
    variables it has in both, the original lies within k standard deviations (with n - 1, of the
    released variable) of the released value. The baseline is the share when released records are
    paired with originals by chance.

    Parameters
    ----------
    variables : the numbers to compare. Default: all numbers that are in both data sets.
    k : half the width of the interval, in standard deviations of the released variable.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> schema = sf.Schema({"age": "quasi"})
    >>> original = sf.Dataset(pl.DataFrame({"age": [30.0, 40.0, 50.0, 60.0]}), schema)
    >>> released = sf.Dataset(pl.DataFrame({"age": [30.2, 43.0, 47.0, 60.0]}), schema)
    >>> found = Interval().measure(original, released)
    >>> found.value, found.details["interval_records"]
    (0.5, 2)

    References: Mateo-Sanz, Sebé & Domingo-Ferrer (2004), Outlier protection in continuous
    microdata masking (SDID); R's `sdcMicro::dRisk`, which lets one variable lie outside: see
    `all_but_one`.
    """

    name = "interval"
    examples = ({}, {"variables": ["height", "glucose"], "k": 0.01})
    of = "pair"
    provides = (
        "interval_records", "interval_on_original_scale", "interval_records_on_original_scale",
        "all_but_one",
    )  # fmt: skip
    reach = {  # noqa: RUF012 - a class variable by its base
        **dict.fromkeys(("interval", "interval_on_original_scale", "all_but_one"), (0.0, 1.0)),
        **dict.fromkeys(
            ("interval_records", "interval_records_on_original_scale"), (0.0, math.inf)
        ),
    }
    variables: list[str] | None = None
    k: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.05

    def compare(self, original: Dataset, released: Dataset) -> Evidence:
        """See which originals lie inside the intervals around the released values."""
        pair = compare_numbers(original, released, self.variables, owner=self.name)
        half_widths, widths = (
            self.k
            * np.array([deviation for _, deviation in means_and_deviations(values, pair.names)])
            for values in (pair.released, pair.original)
        )
        outside, known = _count_outside(pair.original, pair.released, half_widths)
        on_scale, _ = _count_outside(pair.original, pair.released, widths)
        comparable = known > 0
        within, within_on_scale = comparable & (outside == 0), comparable & (on_scale == 0)
        count = int(comparable.sum())
        return Evidence(
            name=self.name,
            subject="pair",
            value=int(within.sum()) / count,
            direction=self.direction,
            baseline=_by_chance(pair, half_widths),
            records=original.like(_records(comparable, within, within_on_scale, outside)),
            table=original.like(_table(pair, half_widths, widths)),
            details={
                "interval_records": int(within.sum()),
                "interval_on_original_scale": int(within_on_scale.sum()) / count,
                "interval_records_on_original_scale": int(within_on_scale.sum()),
                **_all_but_one(comparable, outside, len(pair.names)),
                "comparable_records": count,
                "k": self.k,
                "variables": ", ".join(pair.names),
            },
            assumptions=_ASSUMPTIONS,
            warnings=(
                *pair.warnings(),
                *describe_incomplete(known, len(pair.names)),
                *_warn_of_constants(pair),
                *_warn_of_scales(within, within_on_scale),
            ),
        )


def _count_outside(original: Floats, released: Floats, widths: Floats) -> tuple[Integers, Integers]:
    """In how many variables each record lies outside, and in how many it has values."""
    outside, known = np.zeros((2, len(original)), np.int64)
    for index, width in enumerate(widths):
        gap = _gap(original[:, index], released[:, index])
        outside += gap > width
        known += ~np.isnan(gap)
    return outside, known


def _all_but_one(comparable: Mask, outside: Integers, variables: int) -> dict[str, Any]:
    """As R counts; NaN, with a reason, where nobody could be outside."""
    if variables == 1:
        return {
            "all_but_one": math.nan,
            "all_but_one_reason": "there is one variable only, and it may lie outside.",
        }
    return {"all_but_one": int((comparable & (outside <= 1)).sum()) / int(comparable.sum())}


def _gap(original: Floats, released: Floats) -> Floats:
    with np.errstate(over="ignore"):  # an infinite gap is outside, as it should be
        return np.abs(released - original)


def _table(pair: Pair, half_widths: Floats, widths: Floats) -> pl.DataFrame:
    rows = []
    for index, name in enumerate(pair.names):
        gap = _gap(pair.original[:, index], pair.released[:, index])
        known = int((~np.isnan(gap)).sum())
        rows.append(
            {
                "variable": name,
                "interval": int((gap <= half_widths[index]).sum()) / known,
                "on_original_scale": int((gap <= widths[index]).sum()) / known,
                "half_width": float(half_widths[index]),
            }
        )
    return pl.DataFrame(rows)


def _by_chance(pair: Pair, widths: Floats) -> float | None:
    """The share inside when a released record is paired with any record but its own."""
    order = order_by_content(np.concatenate([pair.original.T, pair.released.T]))
    original, released = pair.original[order], pair.released[order]
    within = comparable = 0
    # A rotation pairs every record with another, and nobody with themselves.
    for shift in chance_shifts(len(order)):
        outside, known = _count_outside(original, np.roll(released, shift, axis=0), widths)
        within += int(((known > 0) & (outside == 0)).sum())
        comparable += int((known > 0).sum())
    return within / comparable if comparable else None


def _records(
    comparable: Mask, within: Mask, within_on_scale: Mask, outside: Integers
) -> pl.DataFrame:
    """Null where there was nothing to compare: not known is not safe."""
    columns: dict[str, Any] = {
        "inside": within,
        "inside_on_original_scale": within_on_scale,
        "variables_outside": outside,
    }
    return pl.DataFrame(columns).select(
        pl.when(pl.Series(comparable)).then(pl.col(name)).alias(name) for name in columns
    )


def _warn_of_constants(pair: Pair) -> tuple[str, ...]:
    widest = zip(pair.names, pair.released.T, strict=True)
    names = ", ".join(
        f"'{name}'" for name, column in widest if np.nanmin(column) == np.nanmax(column)
    )
    if not names:
        return ()
    return (f"These have one value in the release, so their intervals have no width: {names}.",)


def _warn_of_scales(within: Mask, on_scale: Mask) -> tuple[str, ...]:
    on_own_scale, other = int(within.sum()), int(on_scale.sum())
    if on_own_scale >= other:
        return ()
    warning = (
        f"By the standard deviations of the original, {other} records lie inside, not "
        f"{on_own_scale}: the release varies less."
    )
    return (warning,)
