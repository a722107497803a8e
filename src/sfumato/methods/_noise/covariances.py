"""Noise drawn for several variables together, with their own means and covariances."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from sfumato.errors import MethodError
from sfumato.kernels.arrays import Floats
from sfumato.kernels.exact_sums import exact_sum

# Of a variance of 1, what is taken for nothing: one variable follows from the others.
_FLAT = 1e-9
# A spread that is a smaller part of the mean comes from rounding.
_SMALL = 1e-12
_LARGEST = 1e120
# How far a correlation moves at most when it is rounded to three digits.
_HALF_STEP = 0.0005


class UnperturbedWarning(UserWarning):
    """Relations with variables that stay as they are become weaker."""


def fit_moments(batch: pl.DataFrame, names: Sequence[str], fewest: int) -> dict[str, Any]:
    """Means and covariances (with n - 1), each of the records that have the value, or both.

    Sums are exact, so the order of the records does not show in the last bit.

    Parameters
    ----------
    batch : the records of one stratum.
    names : the variables.
    fewest : how many records must have each value, and each two of them.
    """
    values = [batch[name].cast(pl.Float64).to_numpy() for name in names]
    spread = [
        _mean_and_sd(x[~np.isnan(x)], name, fewest) for name, x in zip(names, values, strict=True)
    ]
    scaled = [(x - size["mean"]) / size["sd"] for x, size in zip(values, spread, strict=True)]
    relation = np.eye(len(names))
    for a, b in combinations(range(len(names)), 2):
        products = scaled[a] * scaled[b]
        products = products[~np.isnan(products)]
        if len(products) < fewest:
            raise MethodError(
                f"Fewer than {fewest} records of a stratum have both '{names[a]}' and "
                f"'{names[b]}', so their correlation cannot be estimated.",
                hint="perturb them in two steps, or fill in missing values first.",
            )
        # Over the records that have both, so that few gaps cost few records.
        relation[a, b] = relation[b, a] = exact_sum(products) / (len(products) - 1)
    cholesky_factor(relation, names)
    return _round_moments(spread, relation)


def _mean_and_sd(known: Floats, name: str, fewest: int) -> dict[str, float]:
    if len(known) < fewest:
        raise MethodError(
            f"Variable '{name}' has fewer than {fewest} values in a stratum, or in all, and their "
            "mean and spread would be published.",
            hint="use fewer or broader strata, or leave the variable out.",
        )
    size = float(np.abs(known).max())
    if size > _LARGEST:
        raise MethodError(
            f"Variable '{name}' has values too large to take a spread of.",
            hint="correct them at the source, or use another unit.",
        )
    mean = exact_sum(known) / len(known)
    sd = math.sqrt(exact_sum((known - mean) ** 2) / (len(known) - 1))
    # Equal values may differ from their own mean in the last bit.
    if sd <= max(_SMALL * abs(mean), 1 / _LARGEST):
        raise MethodError(
            f"Variable '{name}' has the same value in all records, or in all of a stratum, so "
            "noise with its spread would be none.",
            hint="leave it out, or use fewer or broader strata.",
        )
    return {"mean": mean, "sd": sd}


def _round_moments(spread: Sequence[Mapping[str, float]], relation: Floats) -> dict[str, Any]:
    """Means to a hundredth of a standard deviation at most, the others to three digits.

    They are published: so nobody works out a single value, and a new record mostly leaves them,
    and with them the noise of all other records, as they were. What rounding may take from the
    spread in some direction is added to the diagonal: no direction has less noise than stated,
    not even between variables that nearly follow from each other.
    """
    sds = [float(f"{size['sd']:.3g}") for size in spread]
    steps = [10.0 ** (math.floor(math.log10(sd)) - 2) for sd in sds]
    means = [round(size["mean"] / step) * step for size, step in zip(spread, steps, strict=True)]
    rounded = np.round(relation, 3)
    np.fill_diagonal(rounded, 1 + (len(rounded) - 1) * _HALF_STEP)
    return {
        "mean": [float(f"{mean:.15g}") for mean in means],
        "sd": sds,
        "relation": [[float(f"{share:.15g}") for share in row] for row in rounded.tolist()],
    }


def cholesky_factor(relation: Floats, names: Sequence[str]) -> Floats:
    """A lower triangle L with L @ L.T = relation, a correlation matrix that may be singular.

    Written out, since a library's last bits differ from one processor to the next.

    Examples
    --------
    >>> cholesky_factor(np.array([[1.0, 0.6], [0.6, 1.0]]), ["a", "b"])
    array([[1. , 0. ],
           [0.6, 0.8]])
    """
    size = len(relation)
    factor = np.zeros((size, size))
    for column in range(size):
        remainder = [
            float(relation[row, column])
            - math.fsum(float(factor[row, k]) * float(factor[column, k]) for k in range(column))
            for row in range(column, size)
        ]
        if remainder[0] > _FLAT:
            factor[column:, column] = [value / math.sqrt(remainder[0]) for value in remainder]
        elif remainder[0] < -_FLAT or max(map(abs, remainder)) > math.sqrt(_FLAT) * 2:
            # Pairs with values missing in different records need not fit each other.
            raise MethodError(
                f"The correlations of these variables contradict each other: {', '.join(names)}.",
                hint="they are taken from different records; fill in missing values first.",
            )
    return factor


def noise_per_signal(share: float) -> float:
    """The variance of the noise in units of what is left of the signal.

    released / weight = true + shift + noise / weight, and the last has the variance of the
    variables times share / (1 - share).
    """
    return share / (1 - share)


def draw_correlated_noise(
    moments: Mapping[str, Any], paths: Sequence[Floats], share: float, order: Sequence[int]
) -> list[Floats]:
    """The noise on each variable: its mean, and a part of the spread of the variables.

    Sums go variable by variable in one order, so that batches do not show in the last bit.

    Parameters
    ----------
    moments : of the variables.
    paths : for each variable, independent normal numbers of variance `noise_per_signal(share)`.
    share : of the released variance that is noise.
    order : the variables such that the noise of each mixes the paths of those before it only.
    """
    weight = math.sqrt(1 - share)
    factor = cholesky_factor(np.array(moments["relation"], float)[np.ix_(order, order)], [])
    noise = [np.empty(0)] * len(paths)
    for row, variable in enumerate(order):
        total = np.zeros_like(paths[variable])
        for column in range(row + 1):
            total = total + factor[row, column] * paths[order[column]]
        # Kim (1986): weight * x + noise has the mean and the covariance of x.
        mean, sd = moments["mean"][variable], moments["sd"][variable]
        noise[variable] = (1 - weight) * mean + weight * sd * total
    return noise


def describe_noise(moments: Mapping[str, Any], share: float) -> dict[str, Any]:
    """Mean and covariance of the noise, as the manifest has them."""
    sd = np.array(moments["sd"], float)
    covariance = share * np.array(moments["relation"], float) * np.outer(sd, sd)
    weight = math.sqrt(1 - share)
    return {
        "mean": [(1 - weight) * mean for mean in moments["mean"]],
        "covariance": covariance.tolist(),
    }
