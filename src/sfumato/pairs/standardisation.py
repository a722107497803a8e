"""Means, deviations, correlations and robust distances of numbers, with values missing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Integers
from sfumato.kernels.exact_sums import exact_mean, exact_sum, standard_deviation
from sfumato.pairs.alignment import Pair, compare_numbers, quote_names

Scales = list[tuple[float, float]]

_FEW = 1000
# A share of a sum of squares that is nothing but rounding.
_ROUNDING = 1e-12
# Squares of smaller numbers, and of one over them, might be no numbers any more.
_SMALL = 1e-120
_HUGE = 2.0**1022
_FAR = 1e120
# Random pairs behind the baseline, or one for each record where there are more.
_DRAWS = 10_000


@dataclass(frozen=True, eq=False)
class StandardisedPair:
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
    on_own_scale: Floats = field(repr=False)
    on_original_scale: Floats = field(repr=False)
    distance: Floats = field(repr=False)
    warnings: tuple[str, ...]


def standardise_pair(
    original: Dataset, released: Dataset, named: Sequence[str] | None, *, owner: str
) -> StandardisedPair:
    """Both data sets on common scales; fail where nothing varies or nobody's distance is known."""
    pair = compare_numbers(original, released, named, owner=owner)
    scales = means_and_deviations(pair.original, pair.names)
    varies = [column for column, (_, deviation) in enumerate(scales) if deviation > 0]
    names = tuple(pair.names[column] for column in varies)
    if not names:
        raise MeasureError(
            f"Nobody stands out in a variable with one value only: {quote_names(pair.names)}.",
            hint="name variables that vary.",
        )
    scales = [scales[column] for column in varies]
    theirs = means_and_deviations(pair.released[:, varies], names)
    values = _scale_columns(pair.original[:, varies], scales)
    rescaled = _scale_columns(pair.released[:, varies], theirs)
    known = (~np.isnan(values) & ~np.isnan(rescaled)).sum(axis=0)
    on_original_scale = rescaled
    if scales != theirs:
        on_original_scale = _scale_columns(pair.released[:, varies], scales)
    return StandardisedPair(
        names=names,
        original=values,
        on_own_scale=rescaled,
        on_original_scale=on_original_scale,
        distance=robust_distances(values, names),
        warnings=(
            *pair.warnings(),
            *describe_incomplete(known, len(names)),
            *_describe_constant(pair, names, theirs),
        ),
    )


def _scale_columns(values: Floats, scales: Scales) -> Floats:
    scaled = np.empty(values.shape[::-1])
    for row, (mean, deviation) in enumerate(scales):
        with np.errstate(over="ignore"):  # so far off that it does not matter how far
            np.subtract(values[:, row], mean, out=scaled[row])
            scaled[row] /= deviation or 1.0  # one value only: it is the mean
        np.clip(scaled[row], -_FAR, _FAR, out=scaled[row])
    return scaled


def means_and_deviations(values: Floats, names: Sequence[str]) -> Scales:
    """Mean and standard deviation (with n - 1) of what is not missing, from exact sums.

    A deviation is 0 where there is one value only.
    """
    scales = []
    for name, column in zip(names, values.T, strict=True):
        known = column[~np.isnan(column)]
        if len(known) and not known.max() / 2 - known.min() / 2 < _HUGE:
            raise MeasureError(
                f"Variable '{name}' spreads further than numbers can be counted.",
                hint="leave it out of `variables`, or look at its values.",
            )
        scales.append(_mean_and_deviation(known))
    return scales


def _mean_and_deviation(known: Floats) -> tuple[float, float]:
    if not len(known):
        return math.nan, 0.0
    low, high = float(known.min()), float(known.max())
    if low == high:
        return low, 0.0
    if not _SMALL < max(abs(low), abs(high)) < 1 / _SMALL:
        return exact_mean(known), standard_deviation(
            known
        )  # with care for squares beyond all floats
    # Two passes with exact sums: the order of the records does not show in the last bit.
    mean = exact_sum(known) / len(known)
    known -= mean
    known *= known
    return mean, math.sqrt(exact_sum(known) / (len(known) - 1))


def describe_incomplete(known: Integers, variables: int) -> tuple[str, ...]:
    """How many records are compared in part, or not at all, in words."""
    none, some = int((known == 0).sum()), int(((known > 0) & (known < variables)).sum())
    remarks = []
    if some:
        remarks.append(f"{some} records lack a value; each is compared in the variables it has.")
    if none:
        remarks.append(f"{none} records have no value to compare; shares are of the others.")
    return tuple(remarks)


def _describe_constant(pair: Pair, names: Sequence[str], theirs: Scales) -> tuple[str, ...]:
    """Variables with one value only, in words."""
    before = quote_names(name for name in pair.names if name not in names)
    after = quote_names(name for name, (_, spread) in zip(names, theirs, strict=True) if not spread)
    remarks = []
    if before:
        remarks.append(f"Not compared, since the original has one value only: {before}.")
    if after:
        remarks.append(f"These have one value in the release, which counts as its mean: {after}.")
    return tuple(remarks)


def chance_shifts(records: int) -> range:
    """By how many rows to shift one of two data sets so that records meet by chance.

    The records stand in an order without meaning, so pairing each with the one so many rows
    on is as good as drawing, and the same each time. Few records are shifted more often.
    """
    return range(1, min(records, 1 + math.ceil(_DRAWS / records)))


def robust_distances(values: Floats, names: Sequence[str]) -> Floats:
    """Distance of each record from the origin; `values` has a row per variable, NaN if missing.

    The covariance is the robust one of complete records. A record that lacks a value has its
    distance from the variables it has; NaN if it has none.
    """
    from sfumato.kernels.mcd import squared_distances
    from sfumato.kernels.trees.nearest_other import find_patterns

    # Rousseeuw & Van Driessen (1999): the minimum covariance determinant.
    complete = ~np.isnan(values).any(axis=0)
    covariance = _robust_covariance(values if complete.all() else values[:, complete], names)
    distances = np.full(values.shape[1], np.nan)
    origin = np.zeros(len(values))
    if complete.all():
        return np.sqrt(squared_distances(values, origin, covariance))
    for pattern, rows in find_patterns(~np.isnan(values)):
        has = np.flatnonzero(pattern)
        if len(has):
            part = values[np.ix_(has, rows)]
            within = covariance[np.ix_(has, has)]
            distances[rows] = np.sqrt(squared_distances(part, origin[has], within))
    return distances


def _robust_covariance(complete: Floats, names: Sequence[str]) -> Floats:
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
        involved = quote_names(names[column] for column in error.columns)
        if error.constant:
            raise MeasureError(
                f"More than half of the records have the same value of {involved}, so nobody's "
                "robust distance can be computed.",
                hint="leave it out of `variables`; the measure 'interval' can look at it.",
            ) from None
        raise MeasureError(
            f"In more than half of the records, {involved} follow from each other, so nobody's "
            "robust distance can be computed.",
            hint="leave one of them out of `variables`.",
        ) from None


def pairwise_correlations(values: Floats) -> Floats:
    """Correlations over the records that have both values; NaN where there is none."""
    present = [column[~np.isnan(column)] for column in values.T]
    means = np.array([exact_mean(column) for column in present])
    spreads = np.array([standard_deviation(column) for column in present])
    return correlate_sums(sum_products(values, means, spreads))


def sum_products(values: Floats, means: Floats, spreads: Floats) -> Floats:
    """What correlations are worked out from: sums over some records, to be added up.

    Four matrices: how many records have both variables, and sums over those of the first, of its
    square and of both multiplied. Values are on a scale of about 1; without a spread they are 0.
    """
    known = ~np.isnan(values)
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = np.where(known & (spreads > 0), (values - means) / spreads, 0.0)
    indicator = known.astype(float)
    return np.stack(
        [
            indicator.T @ indicator,
            scaled.T @ indicator,
            (scaled * scaled).T @ indicator,
            scaled.T @ scaled,
        ]
    )


def correlate_sums(matrices: Floats) -> Floats:
    """Correlations from the sums over all records; NaN where there is none."""
    # Entry (i, j) is of variable i where j is known too.
    count, sums, squares, products = matrices
    count = np.maximum(count, 1.0)
    spread = squares - sums * sums / count
    undefined = (spread <= _ROUNDING * squares) | (count <= 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        correlations: Floats = products - sums * sums.T / count
        correlations /= np.sqrt(spread * spread.T)
    correlations[undefined | undefined.T] = np.nan
    return np.clip(correlations, -1.0, 1.0)
