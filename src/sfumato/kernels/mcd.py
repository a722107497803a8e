"""Robust covariance: the fast minimum covariance determinant (MCD).

Of all halves of the records, the MCD seeks the one whose covariance matrix has the smallest
determinant: the bulk, without whoever stands out. Rousseeuw & Van Driessen (1999), Technometrics
41:212, with the factors of Croux & Haesbroeck (1999) and of Pison, Van Aelst & Willems (2002),
Metrika 55:111, and one step of reweighting: the definition of R's `robustbase::covMcd`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import Floats, Mask, Positions
from sfumato.kernels.compiled import compiled, inner
from sfumato.kernels.orders import order_by_cell, scatter_numbers

_STARTS, _MOST_STARTS, _EFFORT = 500, 3000, 300_000
"""Fewest and most starts, and how many records they may step over in all."""
_FEW_STEPS, _STEPS = 2, 100
_SAMPLE = 1500
"""Records up to which every start is followed to its end."""
_WIDE = 3000
"""Records by which the starts are judged where there are more."""
_HOPEFUL, _KEPT, _POLISHED = (1_000_000, 50), (100_000, 10), (20_000, 3)
"""Records that candidates may pass in one step, and most candidates: those judged by all records,
those followed to their end, and those moved and swapped then."""
_MOVED, _SWAPPED = 50_000, 200_000
"""Records up to which the best is moved, and swapped."""
_SHIFTS = (0.05, 0.1, 0.3)
"""How far, in its own standard deviations, a candidate is moved to see whether it comes back."""
_ROUNDS = 50
_EDGE = 100
"""Records on either side of the edge of a half that are tried in pairs."""
_EQUAL = 1e-10
"""Log determinants this close are equal but for rounding."""
_SINGULAR = 1e-12
_PART = 1e-6
"""Share of a direction below which a variable has no part in it."""
_CUT = 0.975
_TRUSTED = (0, 3, 7, 11, 14, 17, 19, 21, 21, 21)
"""By number of variables: fewest records for which the small-sample factors are sensible."""
_RAW = ((0.262024211897096, 0.604756680630497), (0.673292623522027, 0.691365864961895))
_RAW_MORE = ((-1.42764571687802, 1.26263336932151), (-1.06141115981725, 1.28907991440387))
_FINAL = ((1.11098143415027, 1.5182890270453), (3.11101712909049, 1.91401056721863))
_FINAL_MORE = ((-1.02842572724793, 1.67659883081926), (-0.26800273450853, 1.35968562893582))
_FLOOR = 1e-14
_BLOCK = 512
_ENOUGH = 1e-11
_TIE = 1e-11
"""Distances this share apart are equal but for rounding."""
# Sums may run in parallel lanes: the order of records is fixed before, so results stay the same.
_LANES = {"reassoc", "nsz", "contract"}


@dataclass(frozen=True, eq=False)
class Robust:
    """Where the bulk of the records lies, and how it spreads.

    Parameters
    ----------
    centre, covariance : of the records that do not stand out, made consistent at the normal.
    raw_centre, raw_covariance : of the half with the smallest determinant, made consistent.
    log_determinant : of that half's covariance matrix before any factor: what was minimised.
    kept : how many records did not stand out.
    """

    centre: Floats
    covariance: Floats
    raw_centre: Floats
    raw_covariance: Floats
    log_determinant: float
    kept: int


class SingularError(Exception):
    """More than half of the records lie on a plane, so that there is no distance from it.

    Parameters
    ----------
    columns : the variables that make it.
    constant : whether each of them has one value there; otherwise they follow from each other.
    """

    def __init__(self, columns: npt.NDArray[np.intp], *, constant: bool) -> None:
        self.columns = tuple(columns.tolist())
        self.constant = constant
        super().__init__("more than half of the records lie on a plane")


def half_size(records: int, variables: int) -> int:
    """How many records the smallest determinant is taken over."""
    return (records + variables + 1) // 2


def robust_covariance(values: Floats) -> Robust:
    """The reweighted MCD of complete records, the same whatever their order and last digits.

    `values` has a row per variable. It takes more than twice as many records as variables; fails
    with `SingularError` when more than half of the records lie on a plane, since no distance can
    then be told. The smallest determinant is sought, not proven: among up to 1500 records 500
    starts or more are followed to their end. Above that the best of 500 starts are, and then moved,
    and swapped record by record (Hawkins 1994, Computational Statistics & Data Analysis 17:197),
    as long as the determinant falls: in flat data steps alone end in one of many local minima.
    """
    variables, records = values.shape
    if records <= 2 * variables:
        msg = "fewer than two records a variable"
        raise ValueError(msg)
    size = half_size(records, variables)
    middle, spread = _measure_scales(values, size)
    scaled = (values - middle[:, None]) / spread[:, None]
    scaled = np.take(scaled, order_by_cell(scaled), axis=1)
    mean, covariance = (_solve_one_variable if variables == 1 else _find_smallest)(scaled, size)
    _require_regular(covariance)
    raw = (
        covariance * consistency_factor(variables, size / records) * raw_factor(variables, records)
    )
    centre, final, kept = _reweight(scaled, mean, raw)
    _require_regular(final)
    scale = np.outer(spread, spread)
    return Robust(
        centre=centre * spread + middle,
        covariance=final * scale,
        raw_centre=mean * spread + middle,
        raw_covariance=raw * scale,
        log_determinant=float(np.linalg.slogdet(covariance * scale)[1]),
        kept=kept,
    )


def consistency_factor(variables: int, share: float) -> float:
    """What makes the covariance of the innermost share of normal records that of all of them."""
    from scipy.special import gammainc, gammaincinv

    if share >= 1:
        return 1.0
    return float(share / gammainc(variables / 2 + 1, gammaincinv(variables / 2, share)))


def raw_factor(variables: int, records: int) -> float:
    """Corrects the raw estimate for the number of records."""
    return _small_sample_factor(variables, records, _RAW, _RAW_MORE)


def final_factor(variables: int, records: int) -> float:
    """Corrects the reweighted estimate for the number of records."""
    return _small_sample_factor(variables, records, _FINAL, _FINAL_MORE)


def _small_sample_factor(
    variables: int,
    records: int,
    few: tuple[tuple[float, float], ...],
    more: tuple[tuple[float, float], ...],
) -> float:
    # With fewer records than this the fitted curve runs off; its last sensible value is used.
    trusted = _TRUSTED[variables] if variables < len(_TRUSTED) else 0
    count = max(records, trusted)
    if variables <= len(few):
        start, power = few[variables - 1]
    else:
        # A line through the logarithms of the losses at two sizes of data: 2 p² and 3 p².
        losses = [math.log(-alpha / variables**beta) for alpha, beta in more]
        sizes = [math.log(times * variables**2) for times in (2, 3)]
        power = (losses[0] - losses[1]) / (sizes[1] - sizes[0])
        start = losses[0] + power * sizes[0]
    return 1 / (1 - math.exp(start - power * math.log(count)))


def _measure_scales(values: Floats, size: int) -> tuple[Floats, Floats]:
    """Median of each variable, and how far from it the nearer half of the records reaches."""
    middle, spread = np.empty(len(values)), np.empty(len(values))
    middle_row = values.shape[1] // 2
    for variable, row in enumerate(values):
        # Any value of the middle does: it only keeps the numbers near zero.
        middle[variable] = np.partition(row, middle_row)[middle_row]
        spread[variable] = np.partition(np.abs(row - middle[variable]), size - 1)[size - 1]
    if not (spread > 0).all():
        raise SingularError(np.flatnonzero(spread == 0), constant=True)
    return middle, spread


def _require_regular(covariance: Floats) -> None:
    deviation = np.sqrt(np.diag(covariance).clip(min=0))
    if not (deviation > _SINGULAR).all():
        raise SingularError(np.flatnonzero(deviation <= _SINGULAR), constant=True)
    smallest, directions = np.linalg.eigh(covariance / np.outer(deviation, deviation))
    if smallest[0] <= _SINGULAR:
        part = np.abs(directions[:, 0])
        raise SingularError(np.flatnonzero(part > _PART * part.max()), constant=False)


def _solve_one_variable(scaled: Floats, size: int) -> tuple[Floats, Floats]:
    """The exact answer for one variable: the run of ordered values with the smallest variance."""
    # The best run holds the median and has at most the variance of the half nearest to it, so
    # nothing beyond this bound is in it. Large values would only cost digits.
    bound = 2 * math.sqrt(2 * size)
    values = np.sort(scaled[0]).clip(-bound, bound)
    total = np.concatenate(([0.0], np.cumsum(values)))
    squares = np.concatenate(([0.0], np.cumsum(values**2)))
    loss = squares[size:] - squares[:-size] - (total[size:] - total[:-size]) ** 2 / size
    # Equal up to rounding is equal: the middle one of the best runs is taken.
    best = np.flatnonzero(loss <= loss.min() + _SINGULAR * squares[size])
    start = best[(len(best) - 1) // 2]
    run = values[start : start + size]
    mean = run.mean()
    return np.array([mean]), np.array([[((run - mean) ** 2).sum() / size]])


def _find_smallest(scaled: Floats, size: int) -> tuple[Floats, Floats]:
    """Mean and covariance of the half with the smallest determinant that was found."""
    variables, records = scaled.shape
    if records <= _SAMPLE:
        count = min(max(_STARTS, _EFFORT // records), _MOST_STARTS)
        means, covariances = start_candidates(
            scaled, _choose_starts(records, variables + 1, count, 0)
        )
    else:
        means, covariances = _choose_hopeful(scaled, size)
    logs = improve_candidates(scaled, size, means, covariances, _STEPS)
    if _SAMPLE < records <= _SWAPPED:
        best = _choose_best(logs, means, _count_affordable(_POLISHED, records))
        polished = [_polish(scaled, size, logs[i], means[i], covariances[i]) for i in best]
        logs, means, covariances = (np.array(part) for part in zip(*polished, strict=True))
    best_candidate = _choose_best(logs, means, 1)[0]
    return means[best_candidate], covariances[best_candidate]


def _count_affordable(effort: tuple[int, int], records: int) -> int:
    return min(max(1, effort[0] // records), effort[1])


def _choose_hopeful(scaled: Floats, size: int) -> tuple[Floats, Floats]:
    """The best starts of a sample, by a few steps there and then among all records."""
    variables, records = scaled.shape
    sample = scaled[:, :_WIDE].copy()  # the order is a random one
    starts = _choose_starts(_SAMPLE, variables + 1, _STARTS, 0)
    means, covariances = start_candidates(sample, starts)
    sides = ((sample, sample.shape[1] * size // records, _HOPEFUL), (scaled, size, _KEPT))
    for values, count, effort in sides:
        logs = improve_candidates(values, count, means, covariances, _FEW_STEPS)
        best = _choose_best(logs, means, _count_affordable(effort, records))
        means, covariances = means[best], covariances[best]
    return means, covariances


Candidate = tuple[float, Floats, Floats]
"""Log determinant, mean and covariance of a half."""


def _polish(scaled: Floats, size: int, log: float, mean: Floats, covariance: Floats) -> Candidate:
    """Leave a local minimum: swap records, move the centre and step again, while that helps."""
    best = _swap_records(scaled, size, (log, mean, covariance))
    if scaled.shape[1] > _MOVED:
        return best
    for _ in range(_ROUNDS):
        _require_regular(best[2])
        axes = np.linalg.cholesky(best[2]).T
        steps = np.concatenate([sign * shift * axes for shift in _SHIFTS for sign in (1, -1)])
        means, covariances = best[1] + steps, np.repeat(best[2][None], len(steps), axis=0)
        logs = improve_candidates(scaled, size, means, covariances, _STEPS)
        found = _choose_best(logs, means, 1)[0]
        if not logs[found] < best[0] - _EQUAL:
            break
        best = _swap_records(scaled, size, (logs[found], means[found], covariances[found]))
    return best


def _swap_records(scaled: Floats, size: int, candidate: Candidate) -> Candidate:
    """Swap the record inside with the one outside that lower the determinant most; step again.

    Only records near the edge of the half are tried; of equal swaps the first is taken.
    """
    log, mean, covariance = candidate
    for _ in range(_ROUNDS):
        _require_regular(covariance)
        distance = squared_distances(scaled, mean, covariance)
        inside = _mark_nearest(distance, size)
        edges = [max(size - _EDGE, 0), min(size + _EDGE, len(distance)) - 1]
        low, high = np.partition(distance, edges)[edges] * [1 - _TIE, 1 + _TIE]
        leaving = np.flatnonzero(inside & (distance >= low))[: 4 * _EDGE]
        entering = np.flatnonzero(~inside & (distance <= high))[: 4 * _EDGE]
        ratios = _compare_swaps(
            scaled[:, leaving] - mean[:, None],
            scaled[:, entering] - mean[:, None],
            covariance,
            size,
        )
        if not (len(entering) and ratios.min() < 1 - _EQUAL):
            break
        first = np.flatnonzero(ratios.ravel() <= ratios.min() + _TIE)[0]
        inside[leaving[first // len(entering)]] = False
        inside[entering[first % len(entering)]] = True
        half = scaled[:, inside]
        means, covariances = half.mean(axis=1)[None], np.cov(half)[None]
        log = improve_candidates(scaled, size, means, covariances, _STEPS)[0]
        mean, covariance = means[0], covariances[0]
    return log, mean, covariance


def _mark_nearest(distance: Floats, count: int) -> Mask:
    """The records with the smallest distances; the first ones of a tie, as in a step."""
    limit = np.partition(distance, count - 1)[count - 1]
    inside: Mask = distance < limit * (1 - _TIE)
    ties = np.flatnonzero(~inside & (distance <= limit * (1 + _TIE)))
    inside[ties[: count - int(inside.sum())]] = True
    return inside


def _compare_swaps(leaving: Floats, entering: Floats, covariance: Floats, size: int) -> Floats:
    """By what factor the determinant changes, for each pair of one that leaves and one that enters.

    With d and e from the mean, the sums of squares change by ee' - dd' - (e - d)(e - d)' / size:
    a matrix of rank 2, so that the determinant of a matrix of two by two tells.
    """
    lower = np.linalg.cholesky(covariance * (size - 1))
    old, new = np.linalg.solve(lower, leaving), np.linalg.solve(lower, entering)
    dd, ee, de = (old * old).sum(axis=0)[:, None], (new * new).sum(axis=0), old.T @ new
    plus, minus, mixed = 1 - 1 / size, -1 - 1 / size, 1 / size
    factors: Floats = (1 + plus * ee + mixed * de) * (1 + mixed * de + minus * dd) - (
        plus * de + mixed * dd
    ) * (mixed * ee + minus * de)
    return factors


def _choose_best(logs: Floats, means: Floats, count: int) -> Positions:
    """The candidates with the smallest determinants, each determinant once.

    Of several with the same one, as in data that mirror themselves, the mean decides.
    """
    by_size = np.argsort(logs)
    rank = np.empty(len(logs), np.intp)
    rank[by_size] = np.cumsum(np.diff(logs[by_size], prepend=logs.min()) > _EQUAL)
    order = np.lexsort((*np.round(means, 9).T, rank))
    return order[np.unique(rank[order], return_index=True)[1][:count]]


def _choose_starts(records: int, size: int, count: int, group: int) -> Positions:
    """Small sets of records to begin with: all of them if they are few, else a fixed draw."""
    if math.comb(records, size) <= count:
        return np.array(list(combinations(range(records), size)), np.intp)
    # No record twice in a start: that would be a plane, where rounding decides.
    drawn = scatter_numbers(count * records, stream=group).reshape(count, records)
    return np.sort(np.argpartition(drawn, size, axis=1)[:, :size], axis=1)


def _reweight(scaled: Floats, mean: Floats, raw: Floats) -> tuple[Floats, Floats, int]:
    """Mean and covariance of all records that do not stand out by the raw estimate."""
    from scipy.special import gammaincinv

    variables, records = scaled.shape
    cut = 2 * float(gammaincinv(variables / 2, _CUT))
    centre, covariance, count = trim_outliers(scaled, mean, raw, cut)
    if count < records:
        covariance *= consistency_factor(variables, count / records) * final_factor(
            variables, records
        )
    return centre, covariance, count


def squared_distances(rows: Floats, centre: Floats, covariance: Floats) -> Floats:
    """Squared Mahalanobis distance of each record; `rows` holds a row per variable.

    Variable by variable, so that a record's distance does not depend on where it stands.
    """
    lower = np.linalg.cholesky(covariance)
    solved: list[Floats] = []
    total = np.zeros(rows.shape[1])
    for variable in range(len(rows)):
        value = rows[variable] - centre[variable]
        for before, earlier in enumerate(solved):
            value -= lower[variable, before] * earlier
        value /= lower[variable, variable]
        total += value * value
        solved.append(value)
    return total


# Concentration steps: from a centre and a spread to the nearest half of the records.


def start_candidates(values: Floats, starts: Positions) -> tuple[Floats, Floats]:
    """Mean and covariance of each small set of records in `starts`.

    `values` has a row per variable.
    """
    means, covariances = _start_all(values, starts)
    return means, covariances


def improve_candidates(
    values: Floats, count: int, means: Floats, covariances: Floats, most: int
) -> Floats:
    """Let each candidate step to the `count` records nearest to it, in place.

    At most `most` times, or until its determinant falls no more. The log determinants then.
    """
    logs: Floats = _improve_all(values, count, means, covariances, most)
    return logs


def trim_outliers(
    values: Floats, mean: Floats, covariance: Floats, cut: float
) -> tuple[Floats, Floats, int]:
    """Mean, covariance and number of the records whose squared distance is below a limit."""
    centre, spread = mean.copy(), covariance.copy()
    return centre, spread, int(_trim(values, centre, spread, cut))


@inner
def _factorise(covariance, lower, pivots):  # type: ignore[no-untyped-def]
    """L D L' of a covariance matrix; its log determinant.

    A pivot that is nearly nothing becomes a tiny one: records off that plane are then far away,
    so that the next step takes those nearest to the plane. Nearly nothing is measured by the
    variable's own variance, since far-out values leave larger rounding errors.
    """
    size = len(pivots)
    log = 0.0
    for j in range(size):
        pivot = covariance[j, j]
        for before in range(j):
            pivot -= lower[j, before] ** 2 * pivots[before]
        pivot = max(pivot, _FLOOR * max(1.0, covariance[j, j]))
        pivots[j] = pivot
        log += math.log(pivot)
        for after in range(j + 1, size):
            value = covariance[after, j]
            for before in range(j):
                value -= lower[after, before] * lower[j, before] * pivots[before]
            lower[after, j] = value / pivot
    return log


@inner(fastmath=_LANES)
def _measure_distances(values, mean, lower, pivots, out, block):  # type: ignore[no-untyped-def]
    """Squared distance of each record, a block of records at a time."""
    size, records = values.shape
    for first in range(0, records, _BLOCK):
        width = min(_BLOCK, records - first)
        total = out[first : first + width]
        total[:] = 0.0
        for j in range(size):
            column, here, centre = values[j, first : first + width], block[j, :width], mean[j]
            for row in range(width):
                here[row] = column[row] - centre
            for before in range(j):
                there, times = block[before, :width], lower[j, before]
                for row in range(width):
                    here[row] -= times * there[row]
            weight = 1.0 / pivots[j]
            for row in range(width):
                total[row] += weight * here[row] * here[row]


@inner
def _select_smallest(values, wanted):  # type: ignore[no-untyped-def]
    """The value at place `wanted` of the ordered values, which lose their order here.

    Quickselect without branches on the data, which a processor would guess wrong half the time.
    """
    low, high = 0, len(values)
    seed = 1
    while True:
        # Three scattered places: the values may rise and fall, since the records are in order.
        seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
        first = values[low + seed % (high - low)]
        second = values[low + (seed >> 8) % (high - low)]
        third = values[(low + high) // 2]
        pivot = max(min(first, second), min(max(first, second), third))
        end = low
        for i in range(low, high):
            value = values[i]
            values[i] = values[end]
            values[end] = value
            end += value < pivot
        if wanted < end:
            high = end
            continue
        low = end
        for i in range(low, high):
            value = values[i]
            values[i] = values[end]
            values[end] = value
            end += value == pivot
        if wanted < end:
            return pivot
        low = end


@inner
def _take_nearest(distance, count, rows, scratch):  # type: ignore[no-untyped-def]
    """Put the `count` records with the smallest distances into `rows`; the first ones of a tie."""
    scratch[:] = distance
    limit = _select_smallest(scratch, count - 1)
    lower, upper = limit * (1 - _TIE), limit * (1 + _TIE)
    below = 0
    for row in range(len(distance)):
        below += distance[row] < lower
    spare = count - below
    filled = 0
    for row in range(len(distance)):
        rows[filled] = row
        value = distance[row]
        tie = (value >= lower) & (value <= upper) & (spare > 0)
        spare -= tie
        filled += (value < lower) | tie


@inner(fastmath=_LANES)
def _update_moments(values, rows, mean, covariance, block):  # type: ignore[no-untyped-def]
    """Mean and covariance of some records, summed about the mean that was there before."""
    size, count = len(values), len(rows)
    moved = np.zeros(size)
    covariance[:] = 0.0
    for first in range(0, count, _BLOCK):
        width = min(_BLOCK, count - first)
        taken = rows[first : first + width]
        for j in range(size):
            column, here, centre = values[j], block[j, :width], mean[j]
            for row in range(width):
                here[row] = column[taken[row]] - centre
            total = 0.0
            for row in range(width):
                total += here[row]
            moved[j] += total
            for other in range(j + 1):
                there = block[other, :width]
                total = 0.0
                for row in range(width):
                    total += here[row] * there[row]
                covariance[j, other] += total
    for j in range(size):
        for other in range(j + 1):
            value = (covariance[j, other] - moved[j] * moved[other] / count) / (count - 1)
            covariance[j, other] = value
            covariance[other, j] = value
    for j in range(size):
        mean[j] += moved[j] / count


@compiled
def _start_all(values, starts):  # type: ignore[no-untyped-def]
    size = len(values)
    means = np.zeros((len(starts), size))
    covariances = np.empty((len(starts), size, size))
    block = np.empty((size, _BLOCK))
    for start in range(len(starts)):
        means[start] = values[:, starts[start, 0]]
        _update_moments(values, starts[start], means[start], covariances[start], block)
    return means, covariances


@compiled
def _improve_all(values, count, means, covariances, most):  # type: ignore[no-untyped-def]
    size, records = values.shape
    block = np.empty((size, _BLOCK))
    lower, pivots = np.zeros((size, size)), np.empty(size)
    distance, scratch = np.empty(records), np.empty(records)
    rows = np.empty(count + 1, np.int64)  # one to spare, so that the last record may be written
    logs = np.empty(len(means))
    for candidate in range(len(means)):
        last = math.inf
        log = _factorise(covariances[candidate], lower, pivots)
        for _ in range(most):
            _measure_distances(values, means[candidate], lower, pivots, distance, block)
            _take_nearest(distance, count, rows, scratch)
            _update_moments(values, rows[:count], means[candidate], covariances[candidate], block)
            log = _factorise(covariances[candidate], lower, pivots)
            if log > last - _ENOUGH:
                break
            last = log
        logs[candidate] = log
    return logs


@compiled
def _trim(values, mean, covariance, cut):  # type: ignore[no-untyped-def]
    size, records = values.shape
    block = np.empty((size, _BLOCK))
    lower, pivots = np.zeros((size, size)), np.empty(size)
    distance, rows = np.empty(records), np.empty(records + 1, np.int64)
    _factorise(covariance, lower, pivots)
    _measure_distances(values, mean, lower, pivots, distance, block)
    filled = 0
    for row in range(records):
        rows[filled] = row
        filled += distance[row] < cut
    _update_moments(values, rows[:filled], mean, covariance, block)
    return filled
