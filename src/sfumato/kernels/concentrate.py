"""Concentration steps of the fast MCD, compiled: from a centre and a spread to the nearest half."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from sfumato.kernels.arrays import Floats, Positions

_FLOOR = 1e-14
_BLOCK = 512
_ENOUGH = 1e-11
_TIE = 1e-11
"""Distances this share apart are equal but for rounding."""
# Sums may run in parallel lanes: the order of records is fixed before, so results stay the same.
_LANES = {"reassoc", "nsz", "contract"}


def started(values: Floats, starts: Positions) -> tuple[Floats, Floats]:
    """Mean and covariance of each small set of records in `starts`.

    `values` has a row per variable.
    """
    means, covariances = _started(values, starts)
    return means, covariances


def improved(values: Floats, count: int, means: Floats, covariances: Floats, most: int) -> Floats:
    """Let each candidate step to the `count` records nearest to it, in place.

    At most `most` times, or until its determinant falls no more. The log determinants then.
    """
    logs: Floats = _improved(values, count, means, covariances, most)
    return logs


def trimmed(
    values: Floats, mean: Floats, covariance: Floats, cut: float
) -> tuple[Floats, Floats, int]:
    """Mean, covariance and number of the records whose squared distance is below a limit."""
    centre, spread = mean.copy(), covariance.copy()
    return centre, spread, int(_trimmed(values, centre, spread, cut))


@njit(cache=True, nogil=True)
def _factor(covariance, lower, pivots):  # type: ignore[no-untyped-def]
    """L D L' of a covariance matrix; its log determinant.

    A pivot that is nearly nothing becomes a tiny one: records off that plane are then far away,
    so that the next step takes those nearest to the plane. Nearly nothing is measured by the
    variable's own variance, since far-out values leave larger rounding errors.
    """
    size = len(pivots)
    log = 0.0
    for at in range(size):
        pivot = covariance[at, at]
        for before in range(at):
            pivot -= lower[at, before] ** 2 * pivots[before]
        pivot = max(pivot, _FLOOR * max(1.0, covariance[at, at]))
        pivots[at] = pivot
        log += math.log(pivot)
        for after in range(at + 1, size):
            value = covariance[after, at]
            for before in range(at):
                value -= lower[after, before] * lower[at, before] * pivots[before]
            lower[after, at] = value / pivot
    return log


@njit(cache=True, nogil=True, fastmath=_LANES)
def _distances(values, mean, lower, pivots, out, block):  # type: ignore[no-untyped-def]
    """Squared distance of each record, a block of records at a time."""
    size, records = values.shape
    for first in range(0, records, _BLOCK):
        width = min(_BLOCK, records - first)
        total = out[first : first + width]
        total[:] = 0.0
        for at in range(size):
            given, here, centre = values[at, first : first + width], block[at, :width], mean[at]
            for row in range(width):
                here[row] = given[row] - centre
            for before in range(at):
                there, times = block[before, :width], lower[at, before]
                for row in range(width):
                    here[row] -= times * there[row]
            weight = 1.0 / pivots[at]
            for row in range(width):
                total[row] += weight * here[row] * here[row]


@njit(cache=True, nogil=True)
def _smallest_but(values, wanted):  # type: ignore[no-untyped-def]
    """The value at place `wanted` of the ordered values, which lose their order here.

    Quickselect without branches on the data, which a processor would guess wrong half the time.
    """
    low, high = 0, len(values)
    place = 1
    while True:
        # Three scattered places: the values may rise and fall, since the records are in order.
        place = (place * 1103515245 + 12345) & 0x7FFFFFFF
        one = values[low + place % (high - low)]
        two = values[low + (place >> 8) % (high - low)]
        three = values[(low + high) // 2]
        pivot = max(min(one, two), min(max(one, two), three))
        end = low
        for at in range(low, high):
            value = values[at]
            values[at] = values[end]
            values[end] = value
            end += value < pivot
        if wanted < end:
            high = end
            continue
        low = end
        for at in range(low, high):
            value = values[at]
            values[at] = values[end]
            values[end] = value
            end += value == pivot
        if wanted < end:
            return pivot
        low = end


@njit(cache=True, nogil=True)
def _nearest(distance, count, rows, scratch):  # type: ignore[no-untyped-def]
    """Put the `count` records with the smallest distances into `rows`; the first ones of a tie."""
    scratch[:] = distance
    limit = _smallest_but(scratch, count - 1)
    lower, upper = limit * (1 - _TIE), limit * (1 + _TIE)
    below = 0
    for row in range(len(distance)):
        below += distance[row] < lower
    spare = count - below
    at = 0
    for row in range(len(distance)):
        rows[at] = row
        value = distance[row]
        tie = (value >= lower) & (value <= upper) & (spare > 0)
        spare -= tie
        at += (value < lower) | tie


@njit(cache=True, nogil=True, fastmath=_LANES)
def _moments(values, rows, mean, covariance, block):  # type: ignore[no-untyped-def]
    """Mean and covariance of some records, summed about the mean that was there before."""
    size, count = len(values), len(rows)
    moved = np.zeros(size)
    covariance[:] = 0.0
    for first in range(0, count, _BLOCK):
        width = min(_BLOCK, count - first)
        taken = rows[first : first + width]
        for at in range(size):
            given, here, centre = values[at], block[at, :width], mean[at]
            for row in range(width):
                here[row] = given[taken[row]] - centre
            total = 0.0
            for row in range(width):
                total += here[row]
            moved[at] += total
            for other in range(at + 1):
                there = block[other, :width]
                total = 0.0
                for row in range(width):
                    total += here[row] * there[row]
                covariance[at, other] += total
    for at in range(size):
        for other in range(at + 1):
            value = (covariance[at, other] - moved[at] * moved[other] / count) / (count - 1)
            covariance[at, other] = value
            covariance[other, at] = value
    for at in range(size):
        mean[at] += moved[at] / count


@njit(cache=True, nogil=True)
def _started(values, starts):  # type: ignore[no-untyped-def]
    size = len(values)
    means = np.zeros((len(starts), size))
    covariances = np.empty((len(starts), size, size))
    block = np.empty((size, _BLOCK))
    for at in range(len(starts)):
        means[at] = values[:, starts[at, 0]]
        _moments(values, starts[at], means[at], covariances[at], block)
    return means, covariances


@njit(cache=True, nogil=True)
def _improved(values, count, means, covariances, most):  # type: ignore[no-untyped-def]
    size, records = values.shape
    block = np.empty((size, _BLOCK))
    lower, pivots = np.zeros((size, size)), np.empty(size)
    distance, scratch = np.empty(records), np.empty(records)
    rows = np.empty(count + 1, np.int64)  # one to spare, so that the last record may be written
    logs = np.empty(len(means))
    for at in range(len(means)):
        last = math.inf
        log = _factor(covariances[at], lower, pivots)
        for _ in range(most):
            _distances(values, means[at], lower, pivots, distance, block)
            _nearest(distance, count, rows, scratch)
            _moments(values, rows[:count], means[at], covariances[at], block)
            log = _factor(covariances[at], lower, pivots)
            if log > last - _ENOUGH:
                break
            last = log
        logs[at] = log
    return logs


@njit(cache=True, nogil=True)
def _trimmed(values, mean, covariance, cut):  # type: ignore[no-untyped-def]
    size, records = values.shape
    block = np.empty((size, _BLOCK))
    lower, pivots = np.zeros((size, size)), np.empty(size)
    distance, rows = np.empty(records), np.empty(records + 1, np.int64)
    _factor(covariance, lower, pivots)
    _distances(values, mean, lower, pivots, distance, block)
    kept = 0
    for row in range(records):
        rows[kept] = row
        kept += distance[row] < cut
    _moments(values, rows[:kept], mean, covariance, block)
    return kept
