"""How an attacker measures distance: as the values stand, standardised, or after Mahalanobis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats
from sfumato.kernels.exact_sums import exact_mean, exact_sum, standard_deviation
from sfumato.parameters import write_short
from sfumato.risk.attacks.knowledge import Knowledge

Distance = Literal["euclidean", "mahalanobis"]

_SINGULAR = 1e-10
"""Below this share of the variance, variables follow from each other but for rounding."""


@dataclass(frozen=True, eq=False)
class Space:
    """Coordinates whose scaled Euclidean distance is the attacker's distance.

    Parameters
    ----------
    names : the variables that vary; only these are compared.
    plain : the original values of these variables, a row per record.
    means, deviations : of each variable in the original, with n - 1.
    original, released : the coordinates of the records, row by row.
    scale : a factor per coordinate.
    centre : the coordinates of the original's mean.
    warnings : what was left out, in words.
    sizes : per coordinate, the largest absolute value behind it, where several variables are mixed:
        so much can rounding do. None where coordinates are the values themselves.
    """

    names: tuple[str, ...]
    plain: Floats = field(repr=False)
    means: Floats = field(repr=False)
    deviations: Floats = field(repr=False)
    original: Floats = field(repr=False)
    released: Floats = field(repr=False)
    scale: Floats = field(repr=False)
    centre: Floats = field(repr=False)
    warnings: tuple[str, ...] = ()
    sizes: Floats | None = field(default=None, repr=False)

    __repr__ = write_short


def space(
    known: Knowledge, released: Floats, *, standardise: bool, distance: Distance, owner: str
) -> Space:
    """The attacker's space; all scales are those of the original, whatever the release did.

    `released` are the values the attacker compares with: those of the release, or what they
    make of them.
    """
    deviations = np.array([standard_deviation(column) for column in known.original.T])
    varies = deviations > 0  # false for a single record as well, whose deviation is not a number
    names = tuple(name for name, does in zip(known.names, varies, strict=True) if does)
    same = ", ".join(f"'{name}'" for name in known.names if name not in names)
    if not names:
        raise MeasureError(
            f"Nobody can be told from others by a variable with one value only: {same}.",
            hint="name variables that vary.",
        )
    warnings = (f"Not compared, since the original has one value only: {same}.",) if same else ()
    true_values, released, deviations = (
        known.original[:, varies],
        released[:, varies],
        deviations[varies],
    )
    means = np.array([exact_mean(column) for column in true_values.T])
    # Without Mahalanobis the coordinates are the values themselves, scaled.
    original, centre, sizes = true_values, means, None
    if distance == "mahalanobis":
        matrix = _whitening_matrix(true_values, means, deviations, names, owner)
        sizes = bound_sizes((true_values, released), 1 / deviations, matrix)
        original, released = (
            _whiten(values, means, deviations, matrix) for values in (true_values, released)
        )
        scale, centre = np.ones(len(names)), np.zeros(len(names))
    elif standardise:
        with np.errstate(over="ignore"):  # infinite is refused where distances are taken
            scale = 1 / deviations
    else:
        # A power of two changes no digit, and keeps the squares of tiny and huge values numbers.
        power = math.frexp(float(deviations.max()))[1]
        scale = np.full(len(names), math.ldexp(1.0, min(max(-power, -1000), 1000)))
    return Space(
        names, true_values, means, deviations, original, released, scale, centre, warnings, sizes
    )


def bound_sizes(tables: Sequence[Floats], scale: Floats, matrix: Floats) -> Floats:
    """How large the parts are, at most, that coordinates are added up from."""
    largest = np.max([np.abs(values).max(axis=0) for values in tables], axis=0)
    with np.errstate(over="ignore", invalid="ignore"):  # refused where distances are taken
        sizes: Floats = np.abs(matrix) @ (largest * scale)
    return sizes


def covariance(values: Floats, names: Sequence[str], owner: str) -> Floats:
    """The covariance matrix, with n - 1, from exact sums: the same whatever the order."""
    width = len(names)
    if len(values) == 1:
        raise MeasureError(
            f"'{owner}' needs variances, and there is one record only.",
            hint="are these all the data?",
        )
    matrix = np.empty((width, width))
    with np.errstate(over="ignore"):
        centred = [column - exact_mean(column) for column in values.T]
        for i in range(width):
            for j in range(i + 1):
                products = centred[i] * centred[j]
                if not np.isfinite(products).all():
                    raise MeasureError(
                        f"'{owner}' cannot square the values of '{names[i]}': they are too large.",
                        hint="give them in a larger unit.",
                    )
                matrix[i, j] = matrix[j, i] = exact_sum(products) / (len(values) - 1)
    return matrix


def require_regular(matrix: Floats, names: Sequence[str], owner: str) -> None:
    """Fail if some of the variables follow from the others."""
    sizes = np.sqrt(np.diag(matrix))
    if not (sizes > 0).all() or np.linalg.eigvalsh(matrix / np.outer(sizes, sizes))[0] < _SINGULAR:
        variables = ", ".join(f"'{name}'" for name in names)
        raise MeasureError(
            f"'{owner}' cannot weigh variables that follow from each other: {variables}.",
            hint="leave one of them out of `variables`.",
        )


def _whitening_matrix(
    original: Floats, centre: Floats, deviations: Floats, names: Sequence[str], owner: str
) -> Floats:
    """The matrix that makes standardised variables uncorrelated, with variance 1."""
    correlation = covariance((original - centre) / deviations, names, owner)
    require_regular(correlation, names, owner)
    # With S = L L', L^-1 x has unit covariance, and its length is Mahalanobis' distance.
    return np.linalg.inv(np.linalg.cholesky(correlation))


def _whiten(values: Floats, centre: Floats, deviations: Floats, matrix: Floats) -> Floats:
    """Each record by itself, in one order: a product of matrices may round by place."""
    turned = np.zeros_like(values)
    for j in range(values.shape[1]):
        standardised = (values[:, j] - centre[j]) / deviations[j]
        for i in range(j, values.shape[1]):
            turned[:, i] += matrix[i, j] * standardised
    return turned
