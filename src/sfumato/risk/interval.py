"""Whose original values lie close around the released ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Floats, Integers, Mask
from sfumato.kernels.orders import order_by_content
from sfumato.measure import AT_WORST, Measure
from sfumato.numbers import Number
from sfumato.pairs.alignment import FEWEST_TO_FIT, Pair, compare_numbers, rescale_released
from sfumato.pairs.standardisation import chance_shifts, describe_incomplete, means_and_deviations
from sfumato.pairs.subsets import SubsetCloseness, WorstSubset, find_worst_subset, share_by_chance
from sfumato.parameters import parameters
from sfumato.units import Units

_ASSUMPTIONS = (
    "Record by record, the released data belong to the original.",
    "An interval reaches k standard deviations of the released variable to either side.",
    "A record is compared in the variables that it has in both data sets.",
    "The share is that of the worst variable: one exact value gives a person away.",
)
_GREEDY = (
    "There are too many combinations of variables to try all; the worst was sought step by step."
)


@parameters
class Interval(Measure):
    """Share of records whose original values lie close around the released ones.

    Question: how many released records give away the original values nearly as they were?
    Assumes: record by record, the released data belong to the original. A value counts if the
    original lies within k standard deviations (with n - 1, of the released variable) of the
    released value. The share is that of the worst variable, or of the worst combination where
    values are missing: a variable that was left exact is not hidden by the noise of the others.
    `worst_variable` and `worst_subset` name it, and the table has every variable. The baseline is
    the share when released records are paired with originals by chance.

    Beside it: `interval_in_pair`, for the worst two variables together; `interval_in_all`, for all
    of them, as the literature has it; the same by standard deviations of the original; and
    `interval_rescaled`, after each released variable was given the mean and standard deviation of
    the original. A target on the share is checked against the worst of these scales.

    Where persons have several rows, shares are of persons, and a person counts if any of their rows
    does; the table and the baseline are of rows.

    Parameters
    ----------
    variables : the numbers to compare. Default: all numbers that are in both data sets.
    k : half the width of the interval: in standard deviations of the released variable.

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
    odd = {"one row": 1}
    examples = ({}, {"variables": ["height", "glucose"], "k": 0.01})
    of = "pair"
    counts_persons = True
    numbers = (
        Number.share("interval"),
        Number.count("interval_records"),
        Number.share("interval_on_original_scale"),
        Number.count("interval_records_on_original_scale"),
        Number.share("interval_rescaled"),
        Number.share("interval_in_pair"),
        Number.share("interval_in_all"),
        Number.share("all_but_one"),
    )
    variables: list[str] | None = None
    k: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.05

    def compare(self, original: Dataset, released: Dataset, engine: Engine) -> Evidence:
        """See which originals lie inside the intervals around the released values."""
        del engine  # all records are in memory
        pair = compare_numbers(original, released, self.variables, owner=self.name)
        half_widths, widths = (
            self.k
            * np.array([deviation for _, deviation in means_and_deviations(values, pair.names)])
            for values in (pair.released, pair.original)
        )
        outside, known = _count_outside(pair.original, pair.released, half_widths)
        comparable = known > 0
        in_all = comparable & (outside == 0)
        closeness, on_scale = (
            _find_close(pair.original, pair.released, sizes) for sizes in (half_widths, widths)
        )
        units = original.units
        worst, worst_on_scale = (
            find_worst_subset(_join_rows(closeness_on, units))
            for closeness_on in (closeness, on_scale)
        )
        within = closeness.mark(worst.columns)
        within_on_scale = on_scale.mark(worst_on_scale.columns)
        count = units.count_among(comparable)
        counts_within = [units.count_among(rows) for rows in (within, within_on_scale)]
        rescaled = _find_share_after_rescaling(pair, widths, units)
        return Evidence(
            name=self.name,
            subject="pair",
            value=worst.share,
            direction=self.direction,
            baseline=_by_chance(pair, half_widths, worst.columns),
            records=original.like(_records(comparable, within, within_on_scale, in_all, outside)),
            table=original.like(_table(pair, half_widths, widths)),
            details={
                "interval_records": counts_within[0],
                "interval_on_original_scale": worst_on_scale.share,
                "interval_records_on_original_scale": counts_within[1],
                "interval_rescaled": rescaled,
                f"interval{AT_WORST}": max(worst.share, worst_on_scale.share, rescaled),
                f"interval_records{AT_WORST}": max(counts_within),
                "worst_variable": pair.names[worst.variable],
                "worst_subset": tuple(pair.names[column] for column in worst.columns),
                **_describe_pair(worst, pair.names),
                "interval_in_all": units.count_among(in_all) / count,
                **_all_but_one(comparable, outside, len(pair.names), units),
                "comparable_records": count,
                "k": self.k,
                "variables": tuple(pair.names),
            },
            assumptions=_ASSUMPTIONS if worst.exhaustive else (*_ASSUMPTIONS, _GREEDY),
            warnings=(
                *pair.warnings(),
                *describe_incomplete(known, len(pair.names)),
                *_warn_of_constants(pair),
                *_warn_of_scales(*counts_within),
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


def _find_close(original: Floats, released: Floats, widths: Floats) -> SubsetCloseness:
    gaps = np.column_stack([_gap(*sides) for sides in zip(original.T, released.T, strict=True)])
    return SubsetCloseness(gaps <= widths, ~np.isnan(gaps))


def _join_rows(closeness: SubsetCloseness, units: Units) -> SubsetCloseness:
    """A row for each unit: close in a variable, or known, if any of its rows is."""
    close, known = (
        units.reduce(np.logical_or, table) for table in (closeness.close, closeness.known)
    )
    return SubsetCloseness(close, known)


def _find_share_after_rescaling(pair: Pair, widths: Floats, units: Units) -> float:
    """The share inside, in the worst variable, once the release has the original's unit."""
    closeness = _find_close(pair.original, rescale_released(pair.original, pair.released), widths)
    counts = closeness.known.sum(axis=0)
    columns = np.flatnonzero(counts >= FEWEST_TO_FIT).tolist()
    joined = _join_rows(closeness, units)
    return max((joined.share([column]) for column in columns), default=0.0)


def _describe_pair(worst: WorstSubset, names: Sequence[str]) -> dict[str, Any]:
    """The worst two variables together; NaN with a reason where there is one only."""
    if worst.pair is None:
        why = "there is one variable only."
        return {"interval_in_pair": math.nan, "interval_in_pair_reason": why}
    return {
        "interval_in_pair": worst.pair_share,
        "worst_pair": tuple(names[column] for column in worst.pair),
    }


def _all_but_one(
    comparable: Mask, outside: Integers, variables: int, units: Units
) -> dict[str, Any]:
    """As R counts; NaN, with a reason, where nobody could be outside."""
    if variables == 1:
        return {
            "all_but_one": math.nan,
            "all_but_one_reason": "there is one variable only, and it may lie outside.",
        }
    count = units.count_among(comparable & (outside <= 1))
    return {"all_but_one": count / units.count_among(comparable)}


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


def _by_chance(pair: Pair, widths: Floats, columns: Sequence[int]) -> float | None:
    """The share inside, in some variables, when a released record is paired with any other one."""
    if len(columns) == 1:
        column = columns[0]
        return share_by_chance(
            pair.original[:, column], pair.released[:, column], float(widths[column])
        )
    chosen = list(columns)
    order = order_by_content(np.concatenate([pair.original.T, pair.released.T]))
    original, released = pair.original[order][:, chosen], pair.released[order][:, chosen]
    widths = widths[chosen]
    within = comparable = 0
    # A rotation pairs every record with another, and nobody with themselves.
    for shift in chance_shifts(len(order)):
        outside, known = _count_outside(original, np.roll(released, shift, axis=0), widths)
        within += int(((known > 0) & (outside == 0)).sum())
        comparable += int((known > 0).sum())
    return within / comparable if comparable else None


def _records(
    comparable: Mask, within: Mask, within_on_scale: Mask, in_all: Mask, outside: Integers
) -> pl.DataFrame:
    """Null where there was nothing to compare: not known is not safe."""
    columns: dict[str, Any] = {
        "inside": within,
        "inside_on_original_scale": within_on_scale,
        "inside_in_all": in_all,
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


def _warn_of_scales(on_own_scale: int, other: int) -> tuple[str, ...]:
    if on_own_scale >= other:
        return ()
    warning = (
        f"By the standard deviations of the original, {other} records lie inside, not "
        f"{on_own_scale}: the release varies less."
    )
    return (warning,)
