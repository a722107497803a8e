"""Logistic regression of "is released" on merged records, and what it would find by chance."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from sfumato.errors import MeasureError
from sfumato.kernels.arrays import AnyIntegers, Floats
from sfumato.utility.models.design import Design

_STEPS = 100
_CONVERGED = 1e-13
"""A gain in log likelihood a record that the last step may still bring."""
_WORSE = 1e-9
"""A loss in log likelihood a record that is more than rounding."""
_RIDGE = 1e-13
"""Keeps a step finite where records are told apart with certainty."""
_CERTAIN = 20.0
"""Log odds beyond which a record is told apart with certainty."""
_BATCH = 25
"""Permutations that share a pass over the data."""


@dataclass(frozen=True, eq=False)
class Fit:
    """For each distinct record the probability of being released, and if any is certain."""

    probability: Floats = field(repr=False)
    certain: bool


def fit(design: Design) -> Fit:
    """Newton's method with halved steps where one goes too far.

    Where a value occurs in one data set only, the estimates have no end; the probabilities do,
    and those are returned.
    """
    merged = design.merged
    share = merged.share
    beta = np.zeros(design.parameters)
    beta[0] = math.log(share / (1 - share))
    best, before = -math.inf, beta
    for _ in range(_STEPS):
        reached, gradient, information = _derivatives(design, beta)
        if reached < best - _WORSE * merged.records:
            beta = (beta + before) / 2
            continue
        step = _step(information, gradient)
        best, before, beta = reached, beta, beta + step
        if float(gradient @ step) <= _CONVERGED * merged.records:
            odds = _log_odds(design, beta)
            return Fit(_probability(odds), bool(np.abs(odds).max() > _CERTAIN))
    raise MeasureError(
        "The logistic model that tells released from original records does not converge.",
        hint='name fewer variables, or choose model = "tree".',
    )


def _derivatives(design: Design, beta: Floats) -> tuple[float, Floats, Floats]:
    """Log likelihood, gradient and information; records in canonical order, block by block."""
    counts, releases = design.merged.counts, design.merged.releases
    reached = 0.0
    gradient = np.zeros(design.parameters)
    information = np.zeros((design.parameters, design.parameters))
    for at, block in design.blocks():
        odds = _combined(block, beta)
        small = np.exp(-np.abs(odds))
        losses = np.maximum(odds, 0.0) + np.log1p(small)
        reached += float(releases[at] @ odds - counts[at] @ losses)
        gradient += block.T @ (releases[at] - counts[at] * _probability(odds))
        # Never 0, as a product of two probabilities would be where one of them rounds to 1.
        weight = counts[at] * small / (1 + small) ** 2
        information += block.T @ (block * weight[:, None])
    return reached, gradient, information


def _combined(block: Floats, beta: Floats) -> Floats:
    """The columns added up one by one, so that equal records get equal bits wherever they are."""
    odds = np.zeros(len(block))
    for column, weight in zip(block.T, beta, strict=True):
        odds += column * weight
    return odds


def _probability(odds: Floats) -> Floats:
    small = np.exp(-np.abs(odds))
    return np.where(odds >= 0, 1.0, small) / (1.0 + small)


def _log_odds(design: Design, beta: Floats) -> Floats:
    return np.concatenate([_combined(block, beta) for _, block in design.blocks()])


def _step(information: Floats, gradient: Floats) -> Floats:
    scale = 1 / np.sqrt(np.diag(information))
    held = information * np.outer(scale, scale) + _RIDGE * np.eye(len(scale))
    step: Floats = scale * np.linalg.solve(held, scale * gradient)
    return step


@dataclass(frozen=True, eq=False)
class Scores:
    """What one step of Newton's method finds in these data, and in permuted ones."""

    observed: float
    permuted: Floats = field(repr=False)


def scores(design: Design, permutations: int) -> Scores:
    """The mean squared deviation of the propensities after one step of Newton's method.

    From "nothing differs", one step is a projection on the design. Whether the labels mean
    anything is seen as well there as at the end, and no permutation needs a fit.
    """
    merged = design.merged
    observed = _projected(design, merged.releases[:, None])
    shuffled = merged.shuffled(permutations)
    permuted = []
    while batch := list(islice(shuffled, _BATCH)):
        permuted.append(_projected(design, np.column_stack(batch)))
    return Scores(float(observed[0]), np.concatenate([np.empty(0), *permuted]))


def _projected(design: Design, releases: AnyIntegers) -> Floats:
    """For each column of labels, the squared length of its projection over the records."""
    merged = design.merged
    sums = np.zeros((design.parameters, releases.shape[1]))
    for at, block in design.blocks():
        # Taken away before it is summed, so that equal data give exactly nothing.
        sums += block.T @ (releases[at] - merged.share * merged.counts[at, None])
    scale = 1 / np.sqrt(np.diag(design.gram))
    solved = np.linalg.solve(design.gram * np.outer(scale, scale), sums * scale[:, None])
    squares: Floats = (sums * scale[:, None] * solved).sum(axis=0) / merged.records
    return squares
