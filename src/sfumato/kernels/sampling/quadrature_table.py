"""Integrals of many records that have the same outcome, from a few of them.

Given the outcome and the spread, the log of the integral is a smooth function of the mean alone.
It is known at knots with its first and second derivative: by the heat equation the second one is
twice the derivative by the variance, less the square of the first. Between two knots it is the
polynomial of degree five through both. The error of a value is below 1e-6.
"""

from __future__ import annotations

from numba import njit

from sfumato.kernels.sampling.quadrature import (
    BINOMIAL_LOGIT,
    BINOMIAL_PROBIT,
    LOGIT,
    NOTHING,
    POISSON,
    PROBIT,
    adaptive,
    logit,
    mixed,
    probit,
)

KNOTS = 121
_LOW, _FINE, _COARSE, _STEEP = -12.0, 0.2, 0.4, 3.0
"""The first knot, the distance of knots for outcomes of two levels and for counts, and the mean of
a Poisson model beyond which its curve bends too much for that."""
_LEAST, _LEAST_ALIKE, _TRIALS = 150, 12, 20.0
"""Records from which on a table pays, of any outcome (two levels) or of the same one (counts);
trials beyond which a binomial curve bends too much."""


@njit(cache=True, nogil=True)
def integral(family, y, trials, if_0, if_1, mean, spread, nodes, weights, place, count):  # type: ignore[no-untyped-def]
    """The log chance of the outcome and its derivatives by mean and variance."""
    if family == NOTHING:
        return 0.0, 0.0, 0.0
    if family in (LOGIT, PROBIT):
        if if_0 >= 0:
            return mixed(family, mean, spread, nodes, weights, place, count, if_0, if_1)
        sign = 1.0 if y > 0 else -1.0
        if family == PROBIT:
            return probit(sign, mean, spread * spread)
        return logit(sign, mean, spread, nodes, weights, place, count)
    return adaptive(family, y, trials, mean, spread * spread, nodes, weights, place, count)


@njit(cache=True, nogil=True)
def spaced(family):  # type: ignore[no-untyped-def]
    """The first knot, the distance of knots, and the mean beyond which there are none."""
    step = _FINE if family == LOGIT else _COARSE
    end = _STEEP if family == POISSON else _LOW + step * (KNOTS - 1.5)
    return _LOW, step, end


@njit(cache=True, nogil=True)
def run_of(family, records, at, last):  # type: ignore[no-untyped-def]
    """Where the run of records that share a table ends, and whether a table pays for it.

    Records are in the order of their outcomes.
    """
    if family == LOGIT:
        return last, last - at >= _LEAST and len(records.released) == 0
    if family not in (BINOMIAL_LOGIT, BINOMIAL_PROBIT, POISSON):
        return last, False
    y, trials, end = records.y[at], records.trials[at], at + 1
    while end < last and records.y[end] == y and records.trials[end] == trials:
        end += 1
    return end, end - at >= _LEAST_ALIKE and (family == POISSON or trials <= _TRIALS)


@njit(cache=True, nogil=True)
def fill(  # type: ignore[no-untyped-def]
    family, y, trials, step, spread, nodes, weights, place, count, run, table, first,
    known, knots, curves,
):  # fmt: skip
    """Make the curve from one knot to the next, and the knots where they are not there yet.

    `known` (table, 2, knot) says for which run a knot and the curve from it on were made.
    """
    for knot in range(first, first + 2):
        if known[table, 0, knot] != run:
            value, slope, half = integral(
                family, y, trials, -1.0, -1.0, _LOW + step * knot, spread, nodes, weights,
                place, count,
            )  # fmt: skip
            knots[table, knot, 0], knots[table, knot, 1] = value, step * slope
            knots[table, knot, 2] = step * step * (2.0 * half - slope * slope)
            known[table, 0, knot] = run
    one, two, curve = knots[table, first], knots[table, first + 1], curves[table, first]
    half = 0.5 * one[2]
    rise = two[0] - one[0] - one[1] - half
    turn = two[1] - one[1] - one[2]
    bend = two[2] - one[2]
    curve[0], curve[1], curve[2] = one[0], one[1], half
    curve[3] = 10.0 * rise - 4.0 * turn + 0.5 * bend
    curve[4] = -15.0 * rise + 7.0 * turn - bend
    curve[5] = 6.0 * rise - 3.0 * turn + 0.5 * bend
    known[table, 1, first] = run
