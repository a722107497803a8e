"""The marginal log-likelihood of a block of records, and the sums its gradient is made of.

The model of a record, with categories in cell j (a combination of their true levels), in component
k of the covariate model, and with true numbers x:

    P(j)      multinomial logit of the covariates,
    x | j, k  ~ N(regression covariates + level_shift_j + component_shift_k, Σ_k),
    released  = x + error, error ~ N(0, E),
    η         = offset + clean' slopes + level_effect_j + loading' x.

Given j, k and the released numbers, η is normal, so one integral of one dimension is left whatever
the number of noised predictors; j and k are summed over (Carroll, Ruppert, Stefanski &
Crainiceanu 2006, Measurement Error in Nonlinear Models, chapter 8).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from sfumato.kernels.arrays import Floats, Integers
from sfumato.kernels.sampling.quadrature import (
    KNOTS,
    LOGIT,
    Curves,
    QuadratureRules,
    ReleasedOutcome,
    fill_curve,
    find_run,
    integrate_outcome,
    interpolate_integral,
    place_knots,
)


class LikelihoodRecords(NamedTuple):
    """What was released of each record.

    Parameters
    ----------
    clean : (record, column) the clean part of the model.
    covariates : (record, column) what true values may depend on.
    numbers : (record, number) the released numbers, anything where missing.
    pattern : which numbers are missing, as an index into the arrays of `Parameters`.
    y, trials : the outcome.
    released : (record, 2) the probability of the released outcome given the true one; no rows
        where the outcome carries no noise.
    level_logs : (record, cell) log probability of the released categories given the true ones.
    offset : what is added to the linear predictor.
    """

    clean: Floats
    covariates: Floats
    numbers: Floats
    pattern: Integers
    y: Floats
    trials: Floats
    released: Floats
    level_logs: Floats
    offset: Floats


class Parameters(NamedTuple):
    """Parameters as the kernel takes them: P patterns, K components, J cells, m numbers.

    `evaluate_likelihoods` takes several draws at once: each array but the rules then has an axis
    before these.

    Parameters
    ----------
    family : see `quadrature`.
    slopes : of the clean columns.
    level_effect : (J) what the levels add to the linear predictor.
    loading : (m) the coefficients of the true numbers.
    regression : (m, covariate) of the true numbers on the covariates.
    level_shift : (J, m) what the levels add to it.
    component_shift : (K, m) what the components add to it.
    level_logits : (J, covariate) the multinomial logit of the levels.
    precision : (P, K, m, m) (Σ + E)⁻¹ of the released numbers; zero where missing.
    calibration : (P, K, m) λ' Σ (Σ + E)⁻¹: how the linear predictor follows released numbers.
    remainder : (P, K, m) the loading less that.
    log_constant : (P, K) log weight of the component less half the log determinant.
    sd : (P, K) the standard deviation of the linear predictor.
    rule : (P, K) which rule of integration.
    rules : those rules, the same for all draws.
    """

    family: int
    slopes: Floats
    level_effect: Floats
    loading: Floats
    regression: Floats
    level_shift: Floats
    component_shift: Floats
    level_logits: Floats
    precision: Floats
    calibration: Floats
    remainder: Floats
    log_constant: Floats
    sd: Floats
    rule: Integers
    rules: QuadratureRules

    def select(self, first: int, last: int) -> Parameters:
        """Some of several draws."""
        shared = ("family", "rules")
        parts = self._asdict()
        return Parameters(
            **{name: part if name in shared else part[first:last] for name, part in parts.items()}
        )


class Sums(NamedTuple):
    """Sums over records, each weighted by the posterior probability of its cell and component.

    Parameters
    ----------
    slopes, level_effect, regression, level_shift, component_shift, level_logits : the gradient by
        those parameters.
    loading : the gradient by the loading, the calibration held fixed.
    weight : (P, K) the weight; its sum over patterns is the expected count of a component.
    square : (P, K, m, m) products of the residuals of the released numbers.
    cross : (P, K, m) residuals times the derivative by the mean of the linear predictor.
    by_variance : (P, K) the derivative by its variance.
    """

    slopes: Floats
    level_effect: Floats
    loading: Floats
    regression: Floats
    level_shift: Floats
    component_shift: Floats
    level_logits: Floats
    weight: Floats
    square: Floats
    cross: Floats
    by_variance: Floats


@njit(cache=True, nogil=True)
def _fill_level_logs(level_logits, covariates, row, out):  # type: ignore[no-untyped-def]
    """Log probabilities of the cells given the covariates."""
    cells, columns = level_logits.shape
    out[0] = 0.0
    top = 0.0
    for j in range(1, cells):
        out[j] = 0.0
        for column in range(columns):
            out[j] += level_logits[j, column] * covariates[row, column]
        top = max(top, out[j])
    total = 0.0
    for j in range(cells):
        total += math.exp(out[j] - top)
    for j in range(cells):
        out[j] -= top + math.log(total)


@njit(cache=True, nogil=True)
def _normalise_logs(logs):  # type: ignore[no-untyped-def]
    """Turn logs into shares of their sum; gives the log of the sum."""
    if len(logs) == 1:
        top = logs[0]
        logs[0] = 1.0
        return top
    top = -np.inf
    for i in range(len(logs)):
        top = max(top, logs[i])
    if not top > -np.inf:
        return -np.inf
    total = 0.0
    for i in range(len(logs)):
        logs[i] = math.exp(logs[i] - top)
        total += logs[i]
    for i in range(len(logs)):
        logs[i] /= total
    return top + math.log(total)


# One long function on purpose: handing some thirty arrays from call to call for every record
# takes several times as long as the integrals.
@njit(cache=True, nogil=True)
def _evaluate_likelihood(records, parameters, sums, b, first, last, with_gradient):  # type: ignore[no-untyped-def]  # noqa: PLR0912, PLR0915
    """The log-likelihood of records `first` to `last` at draw b; adds to its gradient's sums.

    Without `with_gradient` the sums stay zero.
    """
    clean, covariates, numbers = records.clean, records.covariates, records.numbers
    misclassified = len(records.released) > 0
    slopes, level_effect = parameters.slopes[b], parameters.level_effect[b]
    loading, regression = parameters.loading[b], parameters.regression[b]
    level_shift, component_shift = parameters.level_shift[b], parameters.component_shift[b]
    precision, calibration = parameters.precision[b], parameters.calibration[b]
    remainder, log_constant = parameters.remainder[b], parameters.log_constant[b]
    level_logits, sds, rule = parameters.level_logits[b], parameters.sd[b], parameters.rule[b]
    rules, family = parameters.rules, parameters.family
    cells, components = len(level_effect), len(component_shift)
    count, columns = regression.shape
    width = clean.shape[1]
    logs, prior = np.zeros(cells * components), np.zeros(cells)
    by_mean, by_variance = np.zeros(cells * components), np.zeros(cells * components)
    residual = np.zeros((cells * components, count))
    expected, by_expected = np.zeros(count), np.zeros(count)
    lowest, spacing, highest = place_knots(family)
    tables = sds.size
    curves = Curves(
        spacing,
        np.full((tables, 2, KNOTS), -1),
        np.empty((tables, KNOTS, 3)),
        np.empty((tables, KNOTS, 6)),
    )
    log_likelihood, run, end, interpolated = 0.0, first, first, False
    for row in range(first, last):
        if row == end:
            run = row
            end, interpolated = find_run(family, records, row, last)
        p, y = records.pattern[row], records.y[row]
        clean_eta = records.offset[row]
        for column in range(width):
            clean_eta += clean[row, column] * slopes[column]
        for i in range(count):
            expected[i] = 0.0
            for column in range(columns):
                expected[i] += regression[i, column] * covariates[row, column]
        if cells > 1:
            _fill_level_logs(level_logits, covariates, row, prior)
        # Ones and zeros share a curve: that of a one.
        sign, shared_y = 1.0, y
        if family == LOGIT:
            sign, shared_y = -1.0 if y == 0 else 1.0, 1.0
        if_0, if_1 = -1.0, -1.0
        if misclassified:
            if_0, if_1 = records.released[row, 0], records.released[row, 1]
        for j in range(cells):
            level_log = prior[j] + records.level_logs[row, j]
            for k in range(components):
                jk = j * components + k
                logs[jk], by_mean[jk], by_variance[jk] = -np.inf, 0.0, 0.0
                if not level_log > -np.inf:
                    continue
                # E[η | released] = clean part + λ'μ + λ'Σ(Σ + E)⁻¹ (released - μ).
                mean, square = clean_eta + level_effect[j], 0.0
                for i in range(count):
                    centre = expected[i] + level_shift[j, i] + component_shift[k, i]
                    mean += loading[i] * centre
                    residual[jk, i] = numbers[row, i] - centre
                for i in range(count):
                    mean += calibration[p, k, i] * residual[jk, i]
                    for h in range(count):
                        step = residual[jk, i] * precision[p, k, i, h]
                        square += step * residual[jk, h]
                table, sd = p * components + k, sds[p, k]
                x = sign * mean
                if not (interpolated and lowest <= x < highest):
                    outcome = ReleasedOutcome(family, y, records.trials[row], if_0, if_1)
                    value, by_mean[jk], by_variance[jk] = integrate_outcome(
                        outcome, mean, sd, rules, rule[p, k]
                    )
                else:
                    x = (x - lowest) / spacing
                    knot = int(x)
                    if curves.done[table, 1, knot] != run:
                        outcome = ReleasedOutcome(family, shared_y, records.trials[row], -1.0, -1.0)
                        fill_curve(curves, table, knot, run, outcome, sd, rules, rule[p, k])
                    value, by_mean[jk], by_variance[jk] = interpolate_integral(
                        curves, table, knot, x - knot, sign
                    )
                logs[jk] = level_log + value + log_constant[p, k] - 0.5 * square
        added = _normalise_logs(logs)
        log_likelihood += added
        if not added > -np.inf:
            return -np.inf
        if not with_gradient:
            continue
        # Fisher's identity: the gradient is that of the complete data, averaged over the posterior
        # probabilities of cells and components, which `logs` now holds.
        by_eta = 0.0
        by_expected[:] = 0.0
        for j in range(cells):
            cell_share = 0.0
            for k in range(components):
                jk = j * components + k
                share = logs[jk]
                weighted = share * by_mean[jk]
                cell_share += share
                by_eta += weighted
                sums.level_effect[b, j] += weighted
                sums.weight[b, p, k] += share
                sums.by_variance[b, p, k] += share * by_variance[jk]
                for i in range(count):
                    step = weighted * remainder[p, k, i]
                    distance = residual[jk, i]
                    for h in range(count):
                        step += share * precision[p, k, i, h] * residual[jk, h]
                        sums.square[b, p, k, i, h] += share * distance * residual[jk, h]
                    sums.cross[b, p, k, i] += weighted * distance
                    sums.loading[b, i] += weighted * (numbers[row, i] - distance)
                    sums.level_shift[b, j, i] += step
                    sums.component_shift[b, k, i] += step
                    by_expected[i] += step
            if cells > 1:
                cell_share -= math.exp(prior[j])
                for column in range(columns):
                    sums.level_logits[b, j, column] += cell_share * covariates[row, column]
        for column in range(width):
            sums.slopes[b, column] += by_eta * clean[row, column]
        for i in range(count):
            for column in range(columns):
                sums.regression[b, i, column] += by_expected[i] * covariates[row, column]
    return log_likelihood


@njit(cache=True, nogil=True)
def evaluate_likelihoods(records, parameters, first, last, with_gradient):  # type: ignore[no-untyped-def]
    """The log-likelihoods of several draws of the parameters, and the sums of their gradients."""
    draws, components, count = parameters.component_shift.shape
    _, cells, columns = parameters.level_logits.shape
    patterns = parameters.precision.shape[1]
    log_likelihoods = np.zeros(draws)
    sums = Sums(
        slopes=np.zeros((draws, records.clean.shape[1])),
        level_effect=np.zeros((draws, cells)),
        loading=np.zeros((draws, count)),
        regression=np.zeros((draws, count, columns)),
        level_shift=np.zeros((draws, cells, count)),
        component_shift=np.zeros((draws, components, count)),
        level_logits=np.zeros((draws, cells, columns)),
        weight=np.zeros((draws, patterns, components)),
        square=np.zeros((draws, patterns, components, count, count)),
        cross=np.zeros((draws, patterns, components, count)),
        by_variance=np.zeros((draws, patterns, components)),
    )
    for b in range(draws):
        log_likelihoods[b] = _evaluate_likelihood(
            records, parameters, sums, b, first, last, with_gradient
        )
    return log_likelihoods, sums
