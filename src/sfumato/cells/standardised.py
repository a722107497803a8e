"""Numbers of both data sets on common scales, and how much each record stands out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sfumato.cells.compared import compared
from sfumato.cells.pairs import Pair
from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Integers
from sfumato.kernels.canonical import deviation_of, mean_of

Scales = list[tuple[float, float]]

_FEW = 1000
_SMALL = 1e-120
"""Squares of smaller numbers, and of one over them, might be no numbers any more."""
_HUGE = 2.0**1022
_FAR = 1e120
_DRAWS = 10_000
"""Random pairs behind the baseline, or one for each record where there are more."""


@dataclass(frozen=True, eq=False)
class Standardised:
    """Values in standard deviations from the mean, a row per variable.

    Parameters
    ----------
    names : the variables that vary in the original.
    original : by its own means and standard deviations.
    own, on_original_scale : the release, by its own and by those of the original; one and the
        same array where these agree.
    distance : how far each original record stands out; NaN where it has no value.
    warnings : what was left out, in words.
    """

    names: tuple[str, ...]
    original: Floats = field(repr=False)
    own: Floats = field(repr=False)
    on_original_scale: Floats = field(repr=False)
    distance: Floats = field(repr=False)
    warnings: tuple[str, ...]


def standardised(
    original: Dataset, released: Dataset, named: Sequence[str] | None, *, owner: str
) -> Standardised:
    """Both data sets on common scales; fail where nothing varies or nobody's distance is known."""
    pair = compared(original, released, named, owner=owner)
    scales = means_and_deviations(pair.original, pair.names)
    varies = [at for at, (_, deviation) in enumerate(scales) if deviation > 0]
    names = tuple(pair.names[at] for at in varies)
    if not names:
        listed = ", ".join(f"'{name}'" for name in pair.names)
        raise MeasureError(
            f"Nobody stands out in a variable with one value only: {listed}.",
            hint="name variables that vary.",
        )
    scales = [scales[at] for at in varies]
    theirs = means_and_deviations(pair.released[:, varies], names)
    values, own = (
        _scaled(side[:, varies], by)
        for side, by in ((pair.original, scales), (pair.released, theirs))
    )
    same = scales == theirs
    known = (~np.isnan(values) & ~np.isnan(own)).sum(axis=0)
    return Standardised(
        names=names,
        original=values,
        own=own,
        on_original_scale=own if same else _scaled(pair.released[:, varies], scales),
        distance=robust_distances(values, names),
        warnings=(
            *pair.warnings(),
            *told_incomplete(known, len(names)),
            *_told_constant(pair, names, theirs),
        ),
    )


def _scaled(values: Floats, scales: Scales) -> Floats:
    found = np.empty(values.shape[::-1])
    for at, (mean, deviation) in enumerate(scales):
        with np.errstate(over="ignore"):  # so far off that it does not matter how far
            np.subtract(values[:, at], mean, out=found[at])
            found[at] /= deviation or 1.0  # one value only: it is the mean
        np.clip(found[at], -_FAR, _FAR, out=found[at])
    return found


def means_and_deviations(values: Floats, names: Sequence[str]) -> Scales:
    """Mean and standard deviation (with n - 1) of what is not missing, from exact sums.

    A deviation is 0 where there is one value only.
    """
    found = []
    for name, column in zip(names, values.T, strict=True):
        known = column[~np.isnan(column)]
        if len(known) and not known.max() / 2 - known.min() / 2 < _HUGE:
            raise MeasureError(
                f"Variable '{name}' spreads further than numbers can be counted.",
                hint="leave it out of `variables`, or look at its values.",
            )
        found.append(_mean_and_deviation(known))
    return found


def _mean_and_deviation(known: Floats) -> tuple[float, float]:
    if not len(known):
        return math.nan, 0.0
    low, high = float(known.min()), float(known.max())
    if low == high:
        return low, 0.0
    if not _SMALL < max(abs(low), abs(high)) < 1 / _SMALL:
        return mean_of(known), deviation_of(known)  # with care for squares beyond all floats
    mean = _exact_sum(known) / len(known)
    known -= mean
    known *= known
    return mean, math.sqrt(_exact_sum(known) / (len(known) - 1))


def _exact_sum(values: Floats) -> float:
    if len(values) < _FEW:  # not worth loading the compiled one
        return math.fsum(values.tolist())
    from sfumato.kernels.sums import exact_parts

    return math.fsum(exact_parts(values))


def told_incomplete(known: Integers, variables: int) -> tuple[str, ...]:
    """How many records are compared in part, or not at all, in words."""
    none, some = int((known == 0).sum()), int(((known > 0) & (known < variables)).sum())
    told = []
    if some:
        told.append(f"{some} records lack a value; each is compared in the variables it has.")
    if none:
        told.append(f"{none} records have no value to compare; shares are of the others.")
    return tuple(told)


def _told_constant(pair: Pair, names: Sequence[str], theirs: Scales) -> tuple[str, ...]:
    """Variables with one value only, in words."""
    before = ", ".join(f"'{name}'" for name in pair.names if name not in names)
    after = ", ".join(
        f"'{name}'" for name, (_, spread) in zip(names, theirs, strict=True) if not spread
    )
    told = []
    if before:
        told.append(f"Not compared, since the original has one value only: {before}.")
    if after:
        told.append(f"These have one value in the release, which counts as its mean: {after}.")
    return tuple(told)


def chance_shifts(records: int) -> range:
    """By how many places to shift one of two data sets so that records meet by chance.

    The records stand in an order without meaning, so pairing each with the one so many places
    away is as good as drawing, and the same each time. Few records are shifted more often.
    """
    return range(1, min(records, 1 + math.ceil(_DRAWS / records)))


def robust_distances(values: Floats, names: Sequence[str]) -> Floats:
    """Distance of each record from the origin; `values` has a row per variable, NaN if missing.

    The covariance is the robust one of complete records. A record that lacks a value has its
    distance from the variables it has; NaN if it has none.
    """
    from sfumato.kernels.mcd import squared_distances
    from sfumato.kernels.trees.others import patterns

    complete = ~np.isnan(values).any(axis=0)
    covariance = _covariance(values if complete.all() else values[:, complete], names)
    found = np.full(values.shape[1], np.nan)
    origin = np.zeros(len(values))
    if complete.all():
        return np.sqrt(squared_distances(values, origin, covariance))
    for pattern, rows in patterns(~np.isnan(values)):
        has = np.flatnonzero(pattern)
        if len(has):
            part = values[np.ix_(has, rows)]
            within = covariance[np.ix_(has, has)]
            found[rows] = np.sqrt(squared_distances(part, origin[has], within))
    return found


def _covariance(complete: Floats, names: Sequence[str]) -> Floats:
    from sfumato.kernels.mcd import SingularError, robust_covariance

    variables, records = complete.shape
    if records <= 2 * variables:
        raise MeasureError(
            f"{records} records have a value in all of {variables} variables; a robust covariance "
            f"takes at least {2 * variables + 1}.",
            hint="name fewer variables, or leave out those with many missing values.",
        )
    try:
        return robust_covariance(complete).covariance
    except SingularError as error:
        listed = ", ".join(f"'{names[at]}'" for at in error.columns)
        if error.constant:
            raise MeasureError(
                f"More than half of the records have the same value of {listed}, so nobody's "
                "robust distance can be told.",
                hint="leave it out of `variables`; the measure 'interval' can look at it.",
            ) from None
        raise MeasureError(
            f"In more than half of the records, {listed} follow from each other, so nobody's "
            "robust distance can be told.",
            hint="leave one of them out of `variables`.",
        ) from None
