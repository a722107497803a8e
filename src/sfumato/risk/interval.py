"""Whose original values lie close around the released ones."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.cells.compared import compared
from sfumato.cells.pairs import Pair
from sfumato.cells.standardised import chance_shifts, means_and_deviations, told_incomplete
from sfumato.data import Dataset
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Floats, Integers, Mask
from sfumato.kernels.fixed import content_order
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
        pair = compared(original, released, self.variables, owner=self.name)
        own, widths = (
            self.k * np.array([one for _, one in means_and_deviations(values, pair.names)])
            for values in (pair.released, pair.original)
        )
        outside, known = _outside(pair.original, pair.released, own)
        on_scale, _ = _outside(pair.original, pair.released, widths)
        comparable = known > 0
        inside, inside_on_scale = comparable & (outside == 0), comparable & (on_scale == 0)
        count = int(comparable.sum())
        return Evidence(
            name=self.name,
            subject="pair",
            value=int(inside.sum()) / count,
            direction=self.direction,
            baseline=_by_chance(pair, own),
            records=original.like(_records(comparable, inside, inside_on_scale, outside)),
            table=original.like(_table(pair, own, widths)),
            details={
                "interval_records": int(inside.sum()),
                "interval_on_original_scale": int(inside_on_scale.sum()) / count,
                "interval_records_on_original_scale": int(inside_on_scale.sum()),
                **_all_but_one(comparable, outside, len(pair.names)),
                "comparable_records": count,
                "k": self.k,
                "variables": ", ".join(pair.names),
            },
            assumptions=_ASSUMPTIONS,
            warnings=(
                *pair.warnings(),
                *told_incomplete(known, len(pair.names)),
                *_told_constant(pair),
                *_told_scales(inside, inside_on_scale),
            ),
        )


def _outside(original: Floats, released: Floats, widths: Floats) -> tuple[Integers, Integers]:
    """In how many variables each record lies outside, and in how many it has values."""
    outside, known = np.zeros((2, len(original)), np.int64)
    for at, width in enumerate(widths):
        gap = _gap(original[:, at], released[:, at])
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


def _table(pair: Pair, own: Floats, widths: Floats) -> pl.DataFrame:
    rows = []
    for at, name in enumerate(pair.names):
        gap = _gap(pair.original[:, at], pair.released[:, at])
        known = int((~np.isnan(gap)).sum())
        rows.append(
            {
                "variable": name,
                "interval": int((gap <= own[at]).sum()) / known,
                "on_original_scale": int((gap <= widths[at]).sum()) / known,
                "half_width": float(own[at]),
            }
        )
    return pl.DataFrame(rows)


def _by_chance(pair: Pair, widths: Floats) -> float | None:
    """The share inside when a released record is paired with any record but its own."""
    order = content_order(np.concatenate([pair.original.T, pair.released.T]))
    original, released = pair.original[order], pair.released[order]
    inside = comparable = 0
    for shift in chance_shifts(len(order)):
        outside, known = _outside(original, np.roll(released, shift, axis=0), widths)
        inside += int(((known > 0) & (outside == 0)).sum())
        comparable += int((known > 0).sum())
    return inside / comparable if comparable else None


def _records(
    comparable: Mask, inside: Mask, inside_on_scale: Mask, outside: Integers
) -> pl.DataFrame:
    """Null where there was nothing to compare: not known is not safe."""
    told: dict[str, Any] = {
        "inside": inside,
        "inside_on_original_scale": inside_on_scale,
        "variables_outside": outside,
    }
    return pl.DataFrame(told).select(
        pl.when(pl.Series(comparable)).then(pl.col(name)).alias(name) for name in told
    )


def _told_constant(pair: Pair) -> tuple[str, ...]:
    widest = zip(pair.names, pair.released.T, strict=True)
    listed = ", ".join(f"'{name}'" for name, one in widest if np.nanmin(one) == np.nanmax(one))
    if not listed:
        return ()
    return (f"These have one value in the release, so their intervals have no width: {listed}.",)


def _told_scales(inside: Mask, on_scale: Mask) -> tuple[str, ...]:
    own, other = int(inside.sum()), int(on_scale.sum())
    if own >= other:
        return ()
    told = (
        f"By the standard deviations of the original, {other} records lie inside, not {own}: the "
        "release varies less."
    )
    return (told,)
