"""The marginal log likelihood of a block of records, and all that its gradient is made of.

The sum over the levels of noised categories and over the components of a mixture is taken here;
given both, the true numbers are normal, so is the linear predictor, and one integral of one
dimension is left whatever the number of noised predictors.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from sfumato.kernels.sampling.quadrature import LOGIT
from sfumato.kernels.sampling.quadrature_records import Parts, Values
from sfumato.kernels.sampling.quadrature_table import KNOTS, fill, integral, run_of, spaced


@njit(cache=True, nogil=True)
def _odds(odds, covariates, at, into):  # type: ignore[no-untyped-def]
    """Log chances of the cells given the covariates."""
    cells, columns = odds.shape
    into[0] = 0.0
    top = 0.0
    for j in range(1, cells):
        into[j] = 0.0
        for column in range(columns):
            into[j] += odds[j, column] * covariates[at, column]
        top = max(top, into[j])
    whole = 0.0
    for j in range(cells):
        whole += math.exp(into[j] - top)
    for j in range(cells):
        into[j] -= top + math.log(whole)


@njit(cache=True, nogil=True)
def _exponentials(logs):  # type: ignore[no-untyped-def]
    """Turn logs into shares of their sum; gives the log of the sum."""
    if len(logs) == 1:
        top = logs[0]
        logs[0] = 1.0
        return top
    top = -np.inf
    for one in range(len(logs)):
        top = max(top, logs[one])
    if not top > -np.inf:
        return -np.inf
    whole = 0.0
    for one in range(len(logs)):
        logs[one] = math.exp(logs[one] - top)
        whole += logs[one]
    for one in range(len(logs)):
        logs[one] /= whole
    return top + math.log(whole)


# One long function on purpose: handing some thirty arrays from call to call for every record
# takes several times as long as the integrals.
@njit(cache=True, nogil=True)
def _total(records, values, parts, first, last, sloped):  # type: ignore[no-untyped-def]  # noqa: PLR0912, PLR0915
    """The log likelihood of the records from `first` to `last`; fills what its gradient is of.

    Without `sloped` the sums stay nought.
    """
    clean, covariates, seen = records.clean, records.covariates, records.seen
    outcomes, trials, pattern = records.y, records.trials, records.pattern
    density, noised = records.density, len(records.released) > 0
    loading, inverse, lean, rest = values.loading, values.inverse, values.lean, values.rest
    slopes, centre, shift, move = values.slopes, values.centre, values.shift, values.move
    offset, constant, spread, rules = values.offset, values.constant, values.spread, values.rule
    nodes, weights, length, family = values.nodes, values.weights, values.length, values.family
    cells, components = len(offset), len(move)
    numbers, columns = centre.shape
    width = clean.shape[1]
    logs, prior = np.zeros(cells * components), np.zeros(cells)
    by_mean, by_variance = np.zeros(cells * components), np.zeros(cells * components)
    residual, start, turn = (
        np.zeros((cells * components, numbers)),
        np.zeros(numbers),
        np.zeros(numbers),
    )
    tables = spread.size
    known = np.full((tables, 2, KNOTS), -1)
    knots, curves = np.empty((tables, KNOTS, 3)), np.empty((tables, KNOTS, 6))
    low, knot, high = spaced(family)
    summed, run, end, pays = 0.0, first, first, False
    for at in range(first, last):
        if at == end:
            run = at
            end, pays = run_of(family, records, at, last)
        p, y = pattern[at], outcomes[at]
        predicted = 0.0
        for column in range(width):
            predicted += clean[at, column] * slopes[column]
        for number in range(numbers):
            start[number] = 0.0
            for column in range(columns):
                start[number] += centre[number, column] * covariates[at, column]
        if cells > 1:
            _odds(values.odds, covariates, at, prior)
        # Ones and noughts share a curve: that of a one.
        sign, alike = 1.0, y
        if family == LOGIT:
            sign, alike = -1.0 if y == 0 else 1.0, 1.0
        if_0, if_1 = -1.0, -1.0
        if noised:
            if_0, if_1 = records.released[at, 0], records.released[at, 1]
        for j in range(cells):
            chance = prior[j] + density[at, j]
            for k in range(components):
                one = j * components + k
                logs[one], by_mean[one], by_variance[one] = -np.inf, 0.0, 0.0
                if not chance > -np.inf:
                    continue
                mean, square = predicted + offset[j], 0.0
                for number in range(numbers):
                    here = start[number] + shift[j, number] + move[k, number]
                    mean += loading[number] * here
                    residual[one, number] = seen[at, number] - here
                for number in range(numbers):
                    mean += lean[p, k, number] * residual[one, number]
                    for other in range(numbers):
                        step = residual[one, number] * inverse[p, k, number, other]
                        square += step * residual[one, other]
                table, rule = p * components + k, rules[p, k]
                place = sign * mean
                if not (pays and low <= place < high):
                    value, by_mean[one], by_variance[one] = integral(
                        family, y, trials[at], if_0, if_1, mean, spread[p, k], nodes, weights,
                        rule, length[rule],
                    )  # fmt: skip
                else:
                    place = (place - low) / knot
                    near = int(place)
                    if known[table, 1, near] != run:
                        fill(
                            family, alike, trials[at], knot, spread[p, k], nodes, weights, rule,
                            length[rule], run, table, near, known, knots, curves,
                        )  # fmt: skip
                    place -= near
                    c0, c1 = curves[table, near, 0], curves[table, near, 1]
                    c2, c3 = curves[table, near, 2], curves[table, near, 3]
                    c4, c5 = curves[table, near, 4], curves[table, near, 5]
                    value = c0 + place * (
                        c1 + place * (c2 + place * (c3 + place * (c4 + place * c5)))
                    )
                    if sloped:
                        rise = c1 + place * (
                            2 * c2 + place * (3 * c3 + place * (4 * c4 + place * 5 * c5))
                        )
                        bend = 2 * c2 + place * (6 * c3 + place * (12 * c4 + place * 20 * c5))
                        by_mean[one] = sign * rise / knot
                        by_variance[one] = 0.5 * (bend + rise * rise) / (knot * knot)
                logs[one] = chance + value + constant[p, k] - 0.5 * square
        added = _exponentials(logs)
        summed += added
        if not added > -np.inf:
            return -np.inf
        if not sloped:
            continue
        slope = 0.0
        turn[:] = 0.0
        for j in range(cells):
            chance = 0.0
            for k in range(components):
                one = j * components + k
                share = logs[one]
                push = share * by_mean[one]
                chance += share
                slope += push
                parts.offset[j] += push
                parts.weight[p, k] += share
                parts.width[p, k] += share * by_variance[one]
                for number in range(numbers):
                    step = push * rest[p, k, number]
                    left = residual[one, number]
                    for other in range(numbers):
                        step += share * inverse[p, k, number, other] * residual[one, other]
                        parts.square[p, k, number, other] += share * left * residual[one, other]
                    parts.pull[p, k, number] += push * left
                    parts.direct[number] += push * (seen[at, number] - left)
                    parts.shift[j, number] += step
                    parts.move[k, number] += step
                    turn[number] += step
            if cells > 1:
                chance -= math.exp(prior[j])
                for column in range(columns):
                    parts.odds[j, column] += chance * covariates[at, column]
        for column in range(width):
            parts.clean[column] += slope * clean[at, column]
        for number in range(numbers):
            for column in range(columns):
                parts.centre[number, column] += turn[number] * covariates[at, column]
    return summed


@njit(cache=True, nogil=True)
def totals(records, values, first, last, sloped):  # type: ignore[no-untyped-def]
    """The log likelihoods of several parameters, and what their gradients are made of."""
    many, components, numbers = values.move.shape
    patterns, columns, cells = values.inverse.shape[1], values.odds.shape[2], values.odds.shape[1]
    made = np.zeros(many)
    parts = Parts(
        np.zeros((many, records.clean.shape[1])),
        np.zeros((many, cells)),
        np.zeros((many, numbers)),
        np.zeros((many, numbers, columns)),
        np.zeros((many, cells, numbers)),
        np.zeros((many, components, numbers)),
        np.zeros((many, cells, columns)),
        np.zeros((many, patterns, components)),
        np.zeros((many, patterns, components, numbers, numbers)),
        np.zeros((many, patterns, components, numbers)),
        np.zeros((many, patterns, components)),
    )
    for at in range(many):
        one = Values(
            values.family, values.slopes[at], values.offset[at], values.loading[at],
            values.centre[at], values.shift[at], values.move[at], values.odds[at],
            values.inverse[at], values.lean[at], values.rest[at], values.constant[at],
            values.spread[at], values.rule[at], values.nodes, values.weights, values.length,
        )  # fmt: skip
        into = Parts(
            parts.clean[at], parts.offset[at], parts.direct[at], parts.centre[at],
            parts.shift[at], parts.move[at], parts.odds[at], parts.weight[at],
            parts.square[at], parts.pull[at], parts.width[at],
        )  # fmt: skip
        made[at] = _total(records, one, into, first, last, sloped)
    return made, parts
