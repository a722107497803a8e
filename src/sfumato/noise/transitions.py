"""Transition matrices of post-randomisation (PRAM), and what they leave to learn.

Row i, column j of a matrix is the probability that a true level i is released as level j.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from sfumato.kernels.arrays import Floats, Integers, Positions
from sfumato.noise.description import Level

# Probabilities that differ by less are the same number, written or computed in two ways.
_EQUAL = 1e-12
_LEAST = 1e-9
# So near is the matrix of a tier to the stated one.
_NEAR = 1e-10


def to_all(levels: int, retention: float) -> Floats:
    """A level stays with probability `retention`; every other is as likely.

    Examples
    --------
    >>> to_all(3, 0.8)
    array([[0.8, 0.1, 0.1],
           [0.1, 0.8, 0.1],
           [0.1, 0.1, 0.8]])
    """
    return _with_rows(np.ones((levels, levels)), retention)


def to_near(levels: int, retention: float) -> Floats:
    """A level stays with probability `retention`, or becomes one of its neighbours.

    Examples
    --------
    >>> to_near(3, 0.8)
    array([[0.8, 0.2, 0. ],
           [0.1, 0.8, 0.1],
           [0. , 0.2, 0.8]])
    """
    code = np.arange(levels)
    return _with_rows((np.abs(code[:, None] - code) == 1).astype(float), retention)


def to_marginal(shares: Floats, retention: float) -> Floats:
    """A level stays with probability `retention`; others are as likely as they are frequent.

    Examples
    --------
    >>> to_marginal(np.array([0.5, 0.4, 0.1]), 0.5).round(2)
    array([[0.5 , 0.4 , 0.1 ],
           [0.42, 0.5 , 0.08],
           [0.28, 0.22, 0.5 ]])
    """
    weights = np.tile(shares, (len(shares), 1))
    np.fill_diagonal(weights, 0.0)
    # Where no other level occurs, none is more frequent than the others.
    weights[weights.sum(axis=1) == 0] = 1.0
    return _with_rows(weights, retention)


def _with_rows(weights: Floats, retention: float) -> Floats:
    """Spread 1 - retention over each row, in proportion to the weights of the other levels."""
    spread = weights.copy()
    np.fill_diagonal(spread, 0.0)
    matrix: Floats = (1 - retention) * spread / spread.sum(axis=1, keepdims=True)
    np.fill_diagonal(matrix, retention)
    return matrix


def invariant(matrix: Floats, shares: Floats) -> Floats:
    """The matrix nearest to this one that keeps the marginals in expectation.

    Of two exchanges, i for j and j for i, the more frequent one is made as frequent as the other:

        P[i, j] = min(M[i, j], M[j, i] * share[j] / share[i])        for i other than j,
        P[i, i] = 1 - the rest of the row.

    As many records are then expected to go from i to j as from j to i, so the expected marginals
    are the original ones: share @ P = share. No exchange became more likely, so no level stays
    less often than before: P[i, i] >= M[i, i]. The stated retention is a floor for every level,
    however rare. (The usual construction multiplies two matrices, and with it two retentions.)

    This is the rule of Metropolis et al.; no other reversible matrix below M exchanges more.

    Examples
    --------
    >>> matrix = invariant(to_all(3, 0.7), np.array([0.6, 0.3, 0.1]))
    >>> matrix.round(3)
    array([[0.9  , 0.075, 0.025],
           [0.15 , 0.8  , 0.05 ],
           [0.15 , 0.15 , 0.7  ]])
    >>> (np.array([0.6, 0.3, 0.1]) @ matrix).round(12)
    array([0.6, 0.3, 0.1])
    """
    occurs = shares > 0
    # A level that nobody has goes nowhere, and nobody may become it.
    ratio = np.divide(shares, shares[:, None], out=np.ones_like(matrix), where=occurs[:, None])
    # Detailed balance: share[i] P[i, j] = share[j] P[j, i], the acceptance step of Metropolis.
    balanced = np.where(occurs[:, None], np.minimum(matrix, matrix.T * ratio), matrix)
    for level in range(len(balanced)):
        balanced[level, level] = 0.0
        stays = 1.0 - math.fsum(balanced[level].tolist())
        balanced[level, level] = max(matrix[level, level], stays)
    return balanced


def find_survival(matrix: Floats) -> float | None:
    """How likely a value is never drawn anew, where a draw is any level with equal probability.

    Such a matrix is survival * 1 + (1 - survival) / levels. None: the matrix is another one.

    Examples
    --------
    >>> round(find_survival(to_all(4, 0.7)), 9)
    0.6
    >>> find_survival(to_near(4, 0.7)) is None
    True
    """
    other = matrix[~np.eye(len(matrix), dtype=bool)]
    stays = matrix.diagonal()
    if max(np.ptp(other), np.ptp(stays)) > _EQUAL or stays[0] < other[0]:
        return None
    return float(stays[0] - other[0])


def draw_along_path(
    codes: Integers, levels: int, survival: float, draw: Callable[[str, Positions], Floats]
) -> Integers:
    """The released level of each record: its true level, drawn anew at random times.

    The times are those of a Poisson process on the axis t = -log(survival), the same under every
    survival: with less of it there are more of them. So a release with a smaller retention is one
    with a larger retention whose levels were drawn anew again, and tells no more.

    Parameters
    ----------
    codes : the true level of each record; missing stays missing.
    survival : the probability that a level was never drawn anew.
    draw : uniform draws for a purpose, of some of the records.
    """
    released = codes.copy()
    rows = np.flatnonzero(codes >= 0)
    if survival < _LEAST:
        # Drawn anew without end: nothing is left of any earlier draw.
        released[rows] = np.floor(draw("end", rows) * levels).astype(released.dtype)
        return released
    left, number = np.ones(len(rows)), 0
    while len(rows):
        # Waiting times are exponential, so that exp(-time) is a product of uniform numbers.
        left *= draw(f"time {number}", rows)
        before = left > survival
        rows, left = rows[before], left[before]
        drawn = np.floor(draw(f"level {number}", rows) * levels)
        released[rows] = np.minimum(drawn, levels - 1).astype(released.dtype)
        number += 1
    return released


def describe_draws(levels: Sequence[Level], matrix: Floats) -> str:
    """What draws are for: those for another matrix must be independent of these."""
    # A digest, since a matrix of 300 levels would be far too long a label.
    digest = hashlib.sha256(matrix.astype("<f8").tobytes()).hexdigest()
    return json.dumps(["misclassification", list(levels), digest])


def draw_transitions(codes: Integers, uniform: Floats, matrix: Floats) -> Integers:
    """The released level of each record, from one uniform draw each; missing stays missing."""
    released = codes.copy()
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(len(matrix) + 1))
    for level, (low, high) in enumerate(pairwise(starts.tolist())):
        rows = order[low:high]
        cumulative = np.cumsum(matrix[level])
        # Rounding must not leave a gap below 1, into which a level of no probability would fit.
        cumulative[np.flatnonzero(matrix[level])[-1] :] = 1.0
        released[rows] = np.searchsorted(cumulative, uniform[rows], side="right")
    return released


def find_further(finer: Floats, coarser: Floats) -> Floats | None:
    """The matrix that leads from one release to a coarser one: finer @ further = coarser.

    It knows nothing of the true level, so the coarser release tells nothing beyond the finer. None:
    there is no such matrix of probabilities, and somebody with both releases learns more.

    Examples
    --------
    >>> find_further(to_all(2, 0.9), to_all(2, 0.8)).round(3)
    array([[0.875, 0.125],
           [0.125, 0.875]])
    >>> find_further(to_near(3, 0.9), to_near(3, 0.8)) is None
    True
    """
    try:
        further = np.linalg.solve(finer, coarser)
    except np.linalg.LinAlgError:
        return np.eye(len(finer)) if np.array_equal(finer, coarser) else None
    further = np.where(further < 0, 0.0, further)
    totals = further.sum(axis=1, keepdims=True)
    if not np.isfinite(further).all() or (totals <= 0).any():
        return None
    further = further / totals
    # Held against what is stated: an unstable solution, or a negative part, does not pass.
    return further if np.abs(finer @ further - coarser).max() < _NEAR else None


def released_shares(shares: Floats, matrix: Floats) -> Floats:
    """How frequent each level is expected to be in the release.

    Examples
    --------
    >>> released_shares(np.array([0.9, 0.1]), np.array([[0.9, 0.1], [0.0, 1.0]])).round(9)
    array([0.81, 0.19])
    """
    expected: Floats = shares @ matrix
    return expected


def posterior(shares: Floats, matrix: Floats) -> Floats:
    """What a released level reveals: row j, column i is Pr(true = i | released = j).

    It is for somebody who knows the marginals and the matrix, and nothing else of the person. A
    row is not a number where that level is never released.

    Examples
    --------
    >>> posterior(np.array([0.9, 0.1]), np.array([[0.9, 0.1], [0.0, 1.0]])).round(3)
    array([[1.   , 0.   ],
           [0.474, 0.526]])
    """
    flow = (shares[:, None] * matrix).T
    total = flow.sum(axis=1, keepdims=True)
    # Bayes: Pr(true = i | released = j) = share[i] P[i, j] / sum over i of the same.
    probabilities: Floats = np.divide(flow, total, out=np.full_like(flow, np.nan), where=total > 0)
    return probabilities


def correct(shares: Floats, matrix: Floats) -> Floats:
    """How often each released level is the true one: Pr(true = j | released = j).

    Examples
    --------
    >>> correct(np.array([0.9, 0.1]), np.array([[0.9, 0.1], [0.0, 1.0]])).round(3)
    array([1.   , 0.526])
    """
    return np.diagonal(posterior(shares, matrix)).copy()
