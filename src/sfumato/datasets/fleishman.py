"""Cubic polynomials of a normal with a given skewness, kurtosis and correlation.

A polynomial bz + c(z² − 1) + dz³ with variance 1 is a point on a sphere: written in Hermite
polynomials its coefficients are b + 3d, c and d, and (b + 3d)² + 2c² + 6d² = 1. So two angles
describe all of them, and what two angles cannot reach no such polynomial has.

References: Fleishman (1978), Psychometrika 43:521; Vale & Maurelli (1983), Psychometrika 48:465.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.kernels.arrays import Floats

_EXACT = 1e-9
"""How near the solved shape must be to the wanted one."""
_SMALLEST = 1e-8
"""The smallest eigenvalue that a repaired correlation matrix may have."""


@dataclass(frozen=True)
class Polynomial:
    """bz + c(z² − 1) + dz³: mean 0, variance 1."""

    b: float
    c: float
    d: float

    @property
    def linear(self) -> float:
        """How strongly it follows the normal: the first of its Hermite coefficients."""
        return self.b + 3 * self.d

    @property
    def skewness(self) -> float:
        """Its third moment."""
        b, c, d = self.b, self.c, self.d
        return 2 * c * (b**2 + 24 * b * d + 105 * d**2 + 2)

    @property
    def kurtosis(self) -> float:
        """Its fourth moment less 3, which is that of a normal."""
        b, c, d = self.b, self.c, self.d
        square = 12 + 48 * b * d + 141 * c**2 + 225 * d**2
        return 24 * (b * d + c**2 * (1 + b**2 + 28 * b * d) + d**2 * square)

    def of(self, z: Floats) -> Floats:
        """Its values at standard normal draws."""
        return -self.c + z * (self.b + z * (self.c + z * self.d))


def _polynomial_at(angles: Any) -> Polynomial:
    """The polynomial at two angles of the sphere; its linear part is never negative."""
    up, round_ = angles
    d = math.cos(up) * math.sin(round_) / math.sqrt(6)
    linear = math.cos(up) * math.cos(round_)
    # The mirror image of z gives the same distribution, so the sign is free.
    sign = math.copysign(1.0, linear)
    return Polynomial(sign * (linear - 3 * d), math.sin(up) / math.sqrt(2), sign * d)


def _list_starts(skewness: float) -> Iterator[tuple[float, float]]:
    side = -1.0 if skewness < 0 else 1.0
    for up in (0.05, 0.3, 0.6, 0.9, 1.2):
        for round_ in (0.02, 0.2, 0.5, 0.9, 1.3, -0.1, -0.3, -0.8):
            yield side * up, round_


def solve_polynomial(skewness: float, kurtosis: float) -> Polynomial | None:
    """The polynomial of this shape that follows the normal most closely; None if there is none.

    Examples
    --------
    >>> found = solve_polynomial(2.0, 7.0)
    >>> round(found.b, 4), round(found.c, 4), round(found.d, 4)
    (0.7616, 0.26, 0.0531)
    >>> solve_polynomial(2.0, 1.0) is None
    True
    """
    from scipy.optimize import root

    def off(angles: Any) -> tuple[float, float]:
        polynomial = _polynomial_at(angles)
        return polynomial.skewness - skewness, polynomial.kurtosis - kurtosis

    solutions = []
    for start in _list_starts(skewness):
        # The least-squares solver stays calm where nothing can be reached.
        solved = root(off, start, method="lm", options={"xtol": 1e-14, "ftol": 1e-14})
        if max(map(abs, off(solved.x))) < _EXACT * (1 + abs(kurtosis)):
            solutions.append(_polynomial_at(solved.x))
    return max(solutions, key=lambda polynomial: polynomial.linear, default=None)


def find_nearest_polynomial(skewness: float, kurtosis: float) -> Polynomial | None:
    """The polynomial of this skewness whose kurtosis is nearest; None if none is that skewed."""
    from scipy.optimize import minimize

    solutions = []
    for start in list(_list_starts(skewness))[::3]:  # each is slow, and few of them find the same
        solved = minimize(
            lambda angles: (_polynomial_at(angles).kurtosis - kurtosis) ** 2 / (1 + kurtosis**2),
            start,
            method="SLSQP",
            constraints={
                "type": "eq",
                "fun": lambda angles: _polynomial_at(angles).skewness - skewness,
            },
            options={"maxiter": 300, "ftol": 1e-14},
        )
        polynomial = _polynomial_at(solved.x)
        if abs(polynomial.skewness - skewness) < 1e-6 * (1 + abs(skewness)):
            solutions.append(polynomial)
    # Several ways to get equally near: the one that follows the normal most closely.
    return min(
        solutions,
        key=lambda polynomial: (round(abs(polynomial.kurtosis - kurtosis), 4), -polynomial.linear),
        default=None,
    )


def solve_intermediate_correlation(
    first: Polynomial, second: Polynomial, correlation: float
) -> float | None:
    """The correlation of two normals whose polynomials correlate as stated; None if none does."""
    cubic = [
        6 * first.d * second.d,
        2 * first.c * second.c,
        first.linear * second.linear,
        -correlation,
    ]
    # Leading zeros of two normals would make the root finder divide by nothing.
    roots = np.roots(np.trim_zeros(np.array(cubic), "f"))
    real = [float(root.real) for root in roots if abs(root.imag) < _EXACT]
    feasible = [root for root in real if abs(root) <= 1 + _EXACT]
    if not feasible:
        return None
    return float(np.clip(min(feasible, key=lambda root: abs(root - correlation)), -1.0, 1.0))


def repair_correlations(correlations: Floats) -> Floats:
    """The matrix itself, or, when no normals have it, one near to it that some have."""
    values, vectors = np.linalg.eigh(correlations)
    if values.min() >= _SMALLEST:
        return correlations
    lifted = (vectors * np.maximum(values, 10 * _SMALLEST)) @ vectors.T
    scale = 1 / np.sqrt(np.diag(lifted))
    repaired: Floats = lifted * np.outer(scale, scale)
    return (repaired + repaired.T) / 2
