"""What is expected of true values, given all that was released but the outcome.

The expectation is linear in noised values, clean columns and means of groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from sfumato.analysis.problem import Problem, Term
from sfumato.analysis.stratified import errors_of
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Integers

_NODES = 20


@dataclass(frozen=True, eq=False)
class Seen:
    """What was released.

    Parameters
    ----------
    values : (record, column) noised values, right on average.
    error : (record or one for all, column, column) the covariance of the noise in them.
    first : where each noised variable begins among the columns.
    """

    values: Floats = field(repr=False)
    error: Floats = field(repr=False)
    first: tuple[int, ...]

    @property
    def known(self) -> Integers:
        """The records that have all values."""
        return np.flatnonzero(np.isfinite(self.values).all(axis=1))


def seen_of(problem: Problem, levels: Mapping[str, Floats]) -> Seen:
    """What was released of the predictors of a problem.

    Parameters
    ----------
    problem : the model.
    levels : for each noised category the scores of its levels, see `unbiased.scores`.
    """
    parts = [one.seen[:, None] for one in problem.numbers]
    first, at = list(range(len(parts))), len(parts)
    blocks = []
    for one in problem.categories:
        if one.name not in levels:
            raise MeasureError(
                f"The levels of '{one.name}' cannot be told apart after the noise.",
                hint='use method="posterior".',
            )
        scores = levels[one.name][:, 1:]
        whole = scores[np.isfinite(scores).all(axis=1)]
        share = whole.mean(axis=0)
        true = np.diag(share) - np.outer(share, share)
        blocks.append((at, np.atleast_2d(np.cov(whole, rowvar=False)) - true))
        parts.append(scores)
        first.append(at)
        at += scores.shape[1]
    own = errors_of(problem)
    error = np.zeros((len(own), at, at))
    error[:, : len(problem.numbers), : len(problem.numbers)] = own
    for place, block in blocks:
        error[:, place : place + len(block), place : place + len(block)] = block
    values = np.hstack(parts) if parts else np.empty((problem.records, 0))
    return Seen(values, error, tuple(first))


@dataclass(frozen=True, eq=False)
class Expected:
    """The terms as expected, for some records.

    Parameters
    ----------
    x : the columns of the model.
    mean : the noised values as expected.
    left : (record or one for all, column, column) their covariance given what was released.
    """

    x: Floats = field(repr=False)
    mean: Floats = field(repr=False)
    left: Floats = field(repr=False)


def expected(problem: Problem, seen: Seen, rows: Integers, groups: Integers | None) -> Expected:
    """The terms of some records, with what is expected in the place of what is not known.

    Parameters
    ----------
    problem : the model.
    seen : what was released.
    rows : the records; one may come twice.
    groups : their groups.
    """
    values = seen.values[rows]
    clean = problem.covariates[rows]
    if groups is not None and values.shape[1]:
        counts = np.maximum(np.bincount(groups), 1)
        means = [(np.bincount(groups, weights=one) / counts)[groups] for one in values.T]
        clean = np.column_stack([clean, *means])
    error = seen.error if len(seen.error) == 1 else seen.error[rows]
    mean, left = _calibrated(values, clean, error)
    columns = [_column(one, problem, rows, mean, left, seen) for one in problem.terms]
    return Expected(np.column_stack(columns), mean, left)


def _calibrated(values: Floats, clean: Floats, error: Floats) -> tuple[Floats, Floats]:
    """The expected true values, and their covariance given what was released."""
    if len(error) == 1 or not values.shape[1]:
        mean, left = _alike(values, clean, error[0])
        return mean, left[None]
    mean, left = np.empty_like(values), np.empty_like(error)
    each = np.unique(error.reshape(len(error), -1), axis=0, return_inverse=True)[1].reshape(-1)
    for stratum in range(int(each.max()) + 1):
        # True values vary in each stratum in their own way, and their noise with them.
        some = each == stratum
        if some.sum() <= clean.shape[1] + values.shape[1]:
            raise MeasureError(
                "Some strata have too few records to say what is expected of true values.",
                hint='use method="moments".',
            )
        mean[some], left[some] = _alike(values[some], clean[some], error[some][0])
    return mean, left


def _alike(values: Floats, clean: Floats, error: Floats) -> tuple[Floats, Floats]:
    if not values.shape[1]:
        return values, error
    beta, *_ = np.linalg.lstsq(clean, values, rcond=None)
    middle = clean @ beta
    rest = values - middle
    total = rest.T @ rest / max(len(rest) - clean.shape[1], 1)
    # Noise may seem larger than all there is: then nothing true is left in that direction.
    size, turned = np.linalg.eigh(total - error)
    true = (turned * np.maximum(size, 0.0)) @ turned.T
    slope = np.linalg.solve(total, true)
    return middle + rest @ slope, true - true @ slope


def _column(
    term: Term, problem: Problem, rows: Integers, mean: Floats, left: Floats, seen: Seen
) -> Floats:
    made = np.ones(len(rows)) if term.clean is None else term.clean[rows]
    plain = [at for at, of in term.numbers if of is None and problem.numbers[at].scale is None]
    if len(plain) == len(term.numbers) == 2 and len(set(plain)) == 2:  # noqa: PLR2004 - a product
        a, b = plain
        made = made * (mean[:, a] * mean[:, b] + left[:, a, b])
    else:
        for at in dict.fromkeys(place for place, _ in term.numbers):
            made = made * _expected(term, problem, at, mean[:, at], left[:, at, at])
    count = len(problem.numbers)
    for at, level in term.levels:
        first = seen.first[count + at]
        last = first + len(problem.categories[at].levels) - 1
        share = mean[:, first:last]
        made = made * (share[:, level - 1] if level else 1 - share.sum(axis=1))
    return np.asarray(made, float)


def _expected(term: Term, problem: Problem, at: int, mean: Floats, variance: Floats) -> Floats:
    """The expectation of functions of a number, which is normal given what was released."""
    uses = [of for place, of in term.numbers if place == at]
    one = problem.numbers[at]
    if uses == [None] and one.scale is None:
        return mean
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    spread = np.sqrt(np.maximum(variance, 0.0))
    total = np.zeros_like(mean)
    for node, weight in zip(nodes, weights / weights.sum(), strict=True):
        true = one.true(mean + node * spread)
        value = np.ones_like(mean)
        for of in uses:
            value = value * (true if of is None else of(true))
        total += weight * value
    if not np.isfinite(total).all():
        raise MeasureError(
            f"The term '{term.name}' has no value where the true one may lie.",
            hint="a logarithm or root takes positive numbers only; noise reaches below nought.",
        )
    return total
