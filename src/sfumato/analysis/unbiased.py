"""Scores of noised categories and powers of noised numbers that are right on average."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import polars as pl

from sfumato.analysis.measured import category_of, exchange_of
from sfumato.analysis.problem import Number
from sfumato.analysis.stratified import StratifiedNumber
from sfumato.cells.noise.described import CodeNoise, Misclassification, Noise
from sfumato.kernels.arrays import Floats, Integers

_NODES, _PIECES, _WIDE = 16, 12, 8.0
_ROUNDS = 200


class NoMomentsError(Exception):
    """A model has terms for which no such score is known. The text says which."""


def power(one: Number, exponent: int) -> Floats:
    """A value for each record whose expectation is the true value to this power.

    The true value is the latent one; for normal noise these are Hermite polynomials.

    Examples
    --------
    >>> power(Number(name="x", seen=np.array([3.0]), variance=1.0), 2)
    array([8.])
    """
    if one.scale is not None or one.width or np.isfinite([one.low, one.high]).any():
        raise NoMomentsError(f"'{one.name}' was noised on another scale, rounded or cut")
    w = one.seen
    variance: Floats | float = one.variance or 0.0
    if isinstance(one, StratifiedNumber) and one.growth is not None:
        variance = one.growth.variance(w)
    elif one.growth is not None:
        if one.growth.form != "linear" or exponent > 2:  # noqa: PLR2004 - squares are known
            raise NoMomentsError(f"the noise of '{one.name}' grows with its value")
        square = w**2 - one.growth.constant - one.growth.slope * w
        return (np.ones_like(w), w, square)[exponent]
    if one.laplace and exponent > 2:  # noqa: PLR2004
        raise NoMomentsError(f"the noise of '{one.name}' is not normal")
    before, now = np.ones_like(w), w
    if exponent == 0:
        return before
    for at in range(1, exponent):
        before, now = now, w * now - at * variance * before
    return now


def scores(name: str, values: pl.Series, noise: Noise, strata: pl.DataFrame) -> Floats:
    """For each record and level a score whose expectation is 1 at the true level, else 0.

    Rows are NaN where the value is missing. Any score that is a sum over likelihoods can be made
    right on average; this one is the most precise of them for the levels' shares.
    """
    made = category_of(name, values, noise, strata)
    likelihood = np.exp(made.density - made.density.max(axis=1, keepdims=True))
    if isinstance(noise, Misclassification):
        turned = _of_matrices(noise, shares(likelihood), exchange_of(name, values, noise, strata))
    else:
        turned = _of_codes(noise, likelihood)
    return np.where(values.is_null().to_numpy()[:, None], np.nan, turned)


def _of_matrices(
    noise: Misclassification, share: Floats, exchange: tuple[Floats, Integers, Integers]
) -> Floats:
    every, stratum, at = exchange
    turned = []
    for matrix in every:
        released = np.maximum(share @ matrix, 1e-300)
        meet = (matrix / released) @ matrix.T
        turned.append((matrix / released).T @ _inverse(meet, noise))
    made: Floats = np.asarray(turned)[stratum, np.maximum(at, 0)]
    return made


def _of_codes(noise: Noise, likelihood: Floats) -> Floats:
    if not isinstance(noise, CodeNoise):
        raise NoMomentsError("the noise of a category is of an unknown kind")
    share = shares(likelihood)
    where, weights = _released_values(noise)
    density = np.stack([_density(noise, level, where) for level in range(len(noise.levels))])
    meet = (density * weights / (share @ density)) @ density.T
    made: Floats = likelihood / (likelihood @ share)[:, None] @ _inverse(meet, noise)
    return made


def _inverse(meet: Floats, noise: Noise) -> Floats:
    if np.linalg.cond(meet) > 1e8:  # noqa: PLR2004 - the levels can no longer be told apart
        raise NoMomentsError(f"the {noise.distribution} leaves levels that cannot be told apart")
    return np.asarray(np.linalg.inv(meet), float)


def _released_values(noise: CodeNoise) -> tuple[Floats, Floats]:
    """Places at which to take the density of what was released, and their weights.

    The two ends of clipped codes, and every rounded code, have a probability of their own.
    """
    codes = noise.codes
    if noise.ends == "round":
        return codes, np.ones(len(codes))
    wide = _WIDE * float(np.sqrt(noise.variances.max()))
    ends = (codes[0], codes[-1]) if noise.ends == "clip" else (codes[0] - wide, codes[-1] + wide)
    nodes, weights = _legendre()
    edges = np.linspace(*ends, _PIECES * len(codes) + 1)
    half = np.diff(edges) / 2
    inside = ((edges[:-1] + half)[:, None] + half[:, None] * nodes).ravel()
    each = (half[:, None] * weights).ravel()
    if noise.ends == "free":
        return inside, each
    return np.concatenate([[codes[0]], inside, [codes[-1]]]), np.concatenate([[1.0], each, [1.0]])


@lru_cache(maxsize=1)
def _legendre() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return nodes, weights


def _density(noise: CodeNoise, level: int, where: Floats) -> Floats:
    """The density or probability of released values at one level."""
    if noise.ends == "round":
        values = pl.Series("", noise.levels, strict=False)
    else:
        values = pl.Series("", where)
    made = category_of("", values, noise, pl.DataFrame())
    found: Floats = np.exp(made.density[:, level])
    return found


def shares(likelihood: Floats) -> Floats:
    """How frequent each level is among the true values, by maximum likelihood.

    Examples
    --------
    >>> shares(np.array([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]])).round(2)
    array([0.71, 0.29])
    """
    share = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    for _ in range(_ROUNDS):
        joint = likelihood * share
        new = (joint / joint.sum(axis=1, keepdims=True)).mean(axis=0)
        if float(np.abs(new - share).max()) < 1e-9:  # noqa: PLR2004 - it has settled
            break
        share = new
    return share
