"""Coefficients and variances of a linear model, drawn from cross products alone.

Within a cell (component, pattern of missing values, level) the true numbers and the true outcome
X of the records are normal given what was released, with the same regression for every record:
X = M C + E, where C holds the columns that were counted and E ~ N(0, V). With C C' = S = R R' that
gives their cross products at a cost that does not depend on how many records there are:

    X C' = M S + E C',  E C' ~ V^½ N R',  E E' = V^½ (N N' + W) V^½',

with N standard normal and W a Wishart matrix of n - rank(S) degrees of freedom. Given these, every
coefficient comes from an ordinary Bayesian regression. Such steps are cheap, and a few of them
between two passes over the records take away most of the chain's memory.

All deviates are drawn beforehand: no distribution here depends on what a step finds. Matrices have
a few rows, so that loops are faster than calls of a library, and much faster to compile.

References: Tanner & Wong (1987), JASA 82:528 (data augmentation); Anderson (2003), An Introduction
to Multivariate Statistical Analysis, sections 2.5 (conditional normal) and 7.2 (Bartlett's
decomposition); Gelman et al. (2013), Bayesian Data Analysis, sections 3.6, 14.2 and 22.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import float64, int64, njit, types

from sfumato.kernels.arrays import Floats, Integers

TINY = 1e-12

_struct: Any = types.NamedTuple
_COMPILED: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
_F1, _F2, _F3, _F4 = float64[::1], float64[:, ::1], float64[:, :, ::1], float64[:, :, :, ::1]
_I2 = int64[:, ::1]


class RegressionDesign(NamedTuple):
    """What does not change while chains run.

    Parameters
    ----------
    cells : (cell, 2) component and pattern of missing values.
    features, terms : (cell, feature, column), (cell, term, column): predictors of the numbers and
        terms of the outcome, as combinations of the columns counted.
    noise : covariance of the noise of numbers and outcome.
    present : (pattern, value) 1 or 0.
    term_precision, feature_precision : prior precisions of the coefficients.
    columns, number_effects : how many clean columns, and of the columns after them, which are the
        random effects of groups on the numbers.
    """

    cells: Integers
    features: Floats
    terms: Floats
    noise: Floats
    present: Floats
    term_precision: Floats
    feature_precision: Floats
    columns: int
    number_effects: int


class CrossProducts(NamedTuple):
    """What the records of a chain amount to, given levels, components and random effects.

    Parameters
    ----------
    columns, root : (cell, column, column) S, the cross products of the columns, and R.
    features : (component, feature, feature) those of the predictors of the numbers.
    terms : (term, term) those of the terms of the outcome.
    scale : (component) prior scale matrix of the covariance.
    """

    columns: Floats
    root: Floats
    features: Floats
    terms: Floats
    scale: Floats


class StepDeviates(NamedTuple):
    """Random numbers, by step.

    Parameters
    ----------
    normal, wishart : (step, cell) N, and a Cholesky factor of W.
    inverse_wishart, features : (component) transposed inverse Cholesky factors of Wishart matrices
        for the covariances of the numbers; standard normal for their coefficients.
    terms, chi_squared, uniform : for coefficients and residual variance of the outcome.
    """

    normal: Floats
    wishart: Floats
    inverse_wishart: Floats
    features: Floats
    terms: Floats
    chi_squared: Floats
    uniform: Floats


class LinearParameters(NamedTuple):
    """What is drawn: changed in place.

    Parameters
    ----------
    coefficients : of the terms, then of the numbers.
    features : (feature, number) coefficients of the model of the numbers.
    covariance : (component) of the numbers.
    residual_variance : an array of one.
    """

    coefficients: Floats
    features: Floats
    covariance: Floats
    residual_variance: Floats


@njit(types.void(_F2, _F2, _F2), **_COMPILED)
def _multiply(a, b, out):  # type: ignore[no-untyped-def]
    """Write the product of two matrices to `out`."""
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            total = 0.0
            for k in range(a.shape[1]):
                total += a[i, k] * b[k, j]
            out[i, j] = total


@njit(types.void(_F2, float64, _F2), **_COMPILED)
def _factorise(matrix, least, out):  # type: ignore[no-untyped-def]
    """Write the Cholesky factor to `out`; a pivot lost to rounding is `least` of the diagonal."""
    for a in range(matrix.shape[0]):
        for b in range(a + 1):
            total = matrix[a, b]
            for c in range(b):
                total -= out[a, c] * out[b, c]
            if a == b:
                lost = total <= TINY * matrix[a, a]
                out[a, a] = np.sqrt(max(least * matrix[a, a] if lost else total, 0.0))
            else:
                out[a, b] = total / out[b, b] if out[b, b] > 0 else 0.0
                out[b, a] = 0.0


@njit(types.void(_F2, _F1, _F1), **_COMPILED)
def _draw_normal(factor, vector, deviates):  # type: ignore[no-untyped-def]
    """Write a draw from N(P⁻¹ vector, P⁻¹) over `vector`, where P = factor factor'.

    Forward substitution, the deviates added, and backward substitution (Rue 2001).
    """
    size = len(vector)
    for a in range(size):
        for b in range(a):
            vector[a] -= factor[a, b] * vector[b]
        vector[a] /= factor[a, a]
    for step in range(size):
        a = size - 1 - step
        vector[a] += deviates[a]
        for b in range(a + 1, size):
            vector[a] -= factor[b, a] * vector[b]
        vector[a] /= factor[a, a]


@njit(types.void(_F2, _F2, _F2), **_COMPILED)
def _invert(matrix, factor, out):  # type: ignore[no-untyped-def]
    """Write the inverse of a positive matrix to `out`, and its Cholesky factor to `factor`."""
    _factorise(matrix, TINY, factor)
    zeros = np.zeros(len(matrix))
    out[:] = 0.0
    for a in range(len(matrix)):
        out[a, a] = 1.0
        # The inverse is symmetric, so that its rows are its columns.
        _draw_normal(factor, out[a], zeros)


@njit(types.void(_F2, _F1, float64, _F2, _F1, _F2, _F2), **_COMPILED)
def _condition_on_released(covariance, slope, residual, noise, present, gain, root):  # type: ignore[no-untyped-def]
    """Write the regression of true on released values to `gain`, and V^½ to `root`.

    With Σ the covariance of true numbers and outcome: gain K = Σ (Σ + noise)⁻¹ and
    V = Σ - K Σ (Anderson 2003, Theorem 2.5.1).
    """
    d = len(slope)
    size = d + 1
    true, released = np.zeros((size, size)), np.zeros((size, size))
    work, inverse = np.zeros((size, size)), np.zeros((size, size))
    true[d, d] = residual
    for a in range(d):
        for b in range(d):
            true[a, b] = covariance[a, b]
            true[a, d] += covariance[a, b] * slope[b]
        true[d, a] = true[a, d]
        true[d, d] += slope[a] * true[a, d]
    for a in range(size):
        for b in range(size):
            released[a, b] = (true[a, b] + noise[a, b]) * present[a] * present[b]
        released[a, a] += 1.0 - present[a]
    _invert(released, work, inverse)
    _multiply(true, inverse, gain)
    for a in range(size):
        for b in range(size):
            gain[a, b] *= present[b]
    _multiply(gain, true, work)
    for a in range(size):
        for b in range(size):
            # A value released without noise leaves no variance; rounding must not add any.
            exact = (present[a] > 0 and noise[a, a] == 0) or (present[b] > 0 and noise[b, b] == 0)
            work[a, b] = 0.0 if exact else true[a, b] - work[a, b]
    _factorise(work, 0.0, root)


@njit(types.void(_F2, _F2, _F2, _F2, _F2, _F2, _F2, _F2, _F2), **_COMPILED)
def _draw_true_products(  # type: ignore[no-untyped-def]
    mean, gain, root, columns, columns_root, normal, wishart, with_columns, with_itself
):
    """Write X C' to `with_columns` and X X' to `with_itself`; `mean` becomes M.

    Parameters
    ----------
    mean : (value, column) prior means of true values as combinations of columns.
    gain, root : K and V^½.
    columns, columns_root, normal, wishart : S, R, N, and a Cholesky factor of W.
    """
    size, width = mean.shape
    expected, error = np.zeros((size, width)), np.zeros((size, width))
    # M = mean + K (released - mean): the released values are the last columns.
    for a in range(size):
        for b in range(width):
            error[a, b] = -mean[a, b]
        error[a, width - size + a] += 1.0
    _multiply(gain, error, expected)
    for a in range(size):
        for b in range(width):
            mean[a, b] += expected[a, b]
    _multiply(mean, columns, expected)
    _multiply(root, normal, error)
    scatter = np.zeros((size, size))
    _multiply(root, wishart, scatter)
    for a in range(size):
        for b in range(width):
            total = expected[a, b]
            for c in range(width):
                total += error[a, c] * columns_root[b, c]
            with_columns[a, b] = total
    # X X' = (X C') M' + M (X C')' - M S M' + E E'
    for a in range(size):
        for b in range(size):
            total = 0.0
            for c in range(width):
                total += with_columns[a, c] * mean[b, c] + mean[a, c] * with_columns[b, c]
                total += error[a, c] * error[b, c] - expected[a, c] * mean[b, c]
            for c in range(size):
                total += scatter[a, c] * scatter[b, c]
            with_itself[a, b] = total


@njit(types.void(_F3, _F3, _F3, _F1, _F3, _F1, _F3, _F2, _F3), **_COMPILED)
def _draw_number_model(  # type: ignore[no-untyped-def]  # noqa: PLR0912
    features, cross, squares, prior_precision, scale, normal, inverse_wishart, gamma, covariance
):
    """Draw the model of the numbers: Γ shared by components, then each component's Σ_j.

    vec Γ ~ N(P⁻¹ h, P⁻¹), P = Σ_j F_j ⊗ Σ_j⁻¹ + prior precision, h = Σ_j vec(Σ_j⁻¹ X F'); and
    Σ_j is inverse Wishart about the residual cross products (Gelman et al. 2013, section 3.6).

    Parameters
    ----------
    features, cross, squares : by component: F F', F X' and X X' of features and true numbers.
    gamma, covariance : changed.
    """
    components, count, d = cross.shape
    size = count * d
    precision, factor, vector = np.zeros((size, size)), np.zeros((size, size)), np.zeros(size)
    root, weights, scatter = np.zeros((d, d)), np.zeros((d, d)), np.zeros((d, d))
    for j in range(components):
        _invert(covariance[j], root, weights)
        for f in range(count):
            for a in range(d):
                for b in range(d):
                    vector[f * d + a] += weights[a, b] * cross[j, f, b]
                    for h in range(count):
                        precision[f * d + a, h * d + b] += features[j, f, h] * weights[a, b]
    for f in range(count):
        for a in range(d):
            precision[f * d + a, f * d + a] += prior_precision[f]
    _factorise(precision, TINY, factor)
    _draw_normal(factor, vector, normal)
    for f in range(count):
        for a in range(d):
            gamma[f, a] = vector[f * d + a]
    for j in range(components):
        for a in range(d):
            for b in range(d):
                scatter[a, b] = scale[j, a, b] + squares[j, a, b]
                for f in range(count):
                    scatter[a, b] -= gamma[f, a] * cross[j, f, b] + gamma[f, b] * cross[j, f, a]
                    for h in range(count):
                        scatter[a, b] += gamma[f, a] * features[j, f, h] * gamma[h, b]
        _factorise(scatter, TINY, root)
        _multiply(root, inverse_wishart[j], weights)
        for a in range(d):
            for b in range(d):
                total = 0.0
                for c in range(d):
                    total += weights[a, c] * weights[b, c]
                covariance[j, a, b] = total


@njit(float64(_F2, _F2, float64, float64, _F1, float64, float64, _F1), **_COMPILED)
def _draw_outcome_model(  # type: ignore[no-untyped-def]
    products, prior, residual, noise, normal, chi_squared, uniform, coefficients
):
    """Draw the model of interest: coefficients, in place, and the residual variance, returned.

    β ~ N(P⁻¹ Z'y / σ², P⁻¹) with P = Z'Z / σ² + prior precision, and σ² = RSS / χ²_n (Gelman et
    al. 2013, section 14.2).

    Parameters
    ----------
    products : cross products of terms, true numbers and the true outcome, in this order.
    """
    size = len(coefficients)
    precision, factor = np.zeros((size, size)), np.zeros((size, size))
    for a in range(size):
        coefficients[a] = products[a, size] / residual
        for b in range(size):
            precision[a, b] = prior[a, b] + products[a, b] / residual
    _factorise(precision, TINY, factor)
    _draw_normal(factor, coefficients, normal)
    squares = products[size, size]
    for a in range(size):
        squares -= 2.0 * coefficients[a] * products[a, size]
        for b in range(size):
            squares += coefficients[a] * coefficients[b] * products[a, b]
    proposal = max(squares, TINY * products[size, size]) / chi_squared
    # The proposal has the prior 1 / σ². With noise in the outcome the prior is 1 / (σ² + noise),
    # which stays proper at 0: a Metropolis-Hastings step.
    ratio = proposal / (proposal + noise)
    if noise == 0 or uniform * residual / (residual + noise) < ratio:
        return proposal
    return residual


@njit(
    types.void(
        _struct((_I2, _F3, _F3, _F2, _F2, _F2, _F1, int64, int64), RegressionDesign),
        _struct((_F3, _F3, _F3, _F2, _F3), CrossProducts),
        _struct((_F4, _F4, _F4, _F2, _F2, _F1, _F1), StepDeviates),
        _struct((_F1, _F2, _F3, _F1), LinearParameters),
    ),
    **_COMPILED,
)
def draw_coefficients(design, products, deviates, parameters):  # type: ignore[no-untyped-def]  # noqa: PLR0912
    """Take some Gibbs steps on all coefficients and variances, given levels and random effects.

    Each step draws cross products of the true values, then the model of the numbers, then that of
    the outcome.
    """
    coefficients, gamma = parameters.coefficients, parameters.features
    covariance, residual = parameters.covariance, parameters.residual_variance
    components, d = len(covariance), gamma.shape[1]
    terms, size, width = design.terms.shape[1], d + 1, products.columns.shape[1]
    features, columns, effects = len(gamma), design.columns, design.number_effects
    patterns = len(design.present)
    gain = np.zeros((components, patterns, size, size))
    root = np.zeros((components, patterns, size, size))
    mean, with_columns = np.zeros((size, width)), np.zeros((size, width))
    with_itself = np.zeros((size, size))
    # Cross products of terms, true numbers and outcome; of features and numbers; of numbers.
    regression = np.zeros((terms + size, terms + size))
    cross, squares = np.zeros((components, features, d)), np.zeros((components, d, d))
    for step in range(len(deviates.features)):
        slope = coefficients[terms:]
        for j in range(components):
            for m in range(patterns):
                _condition_on_released(
                    covariance[j], slope, residual[0], design.noise, design.present[m],
                    gain[j, m], root[j, m],
                )  # fmt: skip
        regression[:] = 0.0
        for t in range(terms):
            for h in range(terms):
                regression[t, h] = products.terms[t, h]
        cross[:] = 0.0
        squares[:] = 0.0
        for q in range(len(products.columns)):
            if products.columns[q, 0, 0] == 0:
                continue
            j, m = design.cells[q, 0], design.cells[q, 1]
            mean[:] = 0.0
            for a in range(d):
                for c in range(columns):
                    for f in range(features):
                        mean[a, c] += gamma[f, a] * design.features[q, f, c]
                if effects > 0:
                    mean[a, columns + a] = 1.0
                for c in range(columns + effects):
                    mean[d, c] += slope[a] * mean[a, c]
            for t in range(terms):
                for c in range(columns):
                    mean[d, c] += coefficients[t] * design.terms[q, t, c]
            _draw_true_products(
                mean, gain[j, m], root[j, m], products.columns[q], products.root[q],
                deviates.normal[step, q], deviates.wishart[step, q], with_columns, with_itself,
            )  # fmt: skip
            for a in range(size):
                for b in range(size):
                    regression[terms + a, terms + b] += with_itself[a, b]
                for t in range(terms):
                    for c in range(columns):
                        regression[t, terms + a] += design.terms[q, t, c] * with_columns[a, c]
            # The model of the numbers is one of true values less their group's random effect.
            if effects > 0:
                for a in range(d):
                    for b in range(d):
                        both = with_columns[a, columns + b] + with_columns[b, columns + a]
                        with_itself[a, b] += products.columns[q, columns + a, columns + b] - both
                for a in range(d):
                    for c in range(columns):
                        with_columns[a, c] -= products.columns[q, columns + a, c]
            for a in range(d):
                for b in range(d):
                    squares[j, a, b] += with_itself[a, b]
                for f in range(features):
                    for c in range(columns):
                        cross[j, f, a] += design.features[q, f, c] * with_columns[a, c]
        for t in range(terms):
            for a in range(terms, terms + size):
                regression[a, t] = regression[t, a]
        if d > 0:
            _draw_number_model(
                products.features, cross, squares, design.feature_precision, products.scale,
                deviates.features[step], deviates.inverse_wishart[step], gamma, covariance,
            )  # fmt: skip
        residual[0] = _draw_outcome_model(
            regression, design.term_precision, residual[0], design.noise[d, d],
            deviates.terms[step], deviates.chi_squared[step], deviates.uniform[step],
            coefficients,
        )  # fmt: skip
