"""Regression calibration: each noised value is replaced by what is expected of the true one.

The expectation is linear in all that was released, clean columns and means of groups among it.
Exact for linear models of plain terms, an approximation for others.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from sfumato.analysis.modelled import Modelled, left_out
from sfumato.analysis.naive import Estimates, fitted
from sfumato.analysis.problem import Problem, Term
from sfumato.errors import MeasureError
from sfumato.progress import told

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]
_REPEATS, _LARGE = 100, 100_000
_NODES = 20


@dataclass(frozen=True, eq=False)
class _Seen:
    """What was released: noised values right on average, and where each begins."""

    values: Floats = field(repr=False)
    error: Floats = field(repr=False)
    first: tuple[int, ...]


def calibration(model: Modelled, seed: int) -> tuple[Estimates, tuple[str, ...]]:
    """Fit with calibrated values; standard errors from resampled records, or groups."""
    problem = model.problem
    if problem.outcome_category is not None:
        raise MeasureError(
            "The outcome is a noised category, which calibration does not know.",
            hint='use method="posterior".',
        )
    seen = _seen(model)
    known = np.flatnonzero(np.isfinite(seen.values).all(axis=1))
    best = _estimate(problem, seen, known)
    rng = np.random.default_rng(seed)
    repeats = _REPEATS if len(known) <= _LARGE else _REPEATS // 4
    say = told()
    drawn = []
    for at in range(repeats):
        say("resampling", at, repeats)
        try:
            drawn.append(_estimate(problem, seen, *_resampled(problem, known, rng)))
        except (MeasureError, np.linalg.LinAlgError):
            continue  # a sample without one of the levels says nothing
    names = [one.name for one in problem.terms]
    spread = np.array([[one.value[name] for name in names] for one in drawn])
    sd = spread.std(axis=0, ddof=1) if len(drawn) > 1 else np.full(len(names), np.nan)
    gone = problem.records - len(known)
    notes = [f"Standard errors from {len(drawn)} resamples."]
    notes += [left_out(gone)] if gone else []
    value = {name: best.value[name] for name in names}
    return Estimates(value=value, error=dict(zip(names, sd.tolist(), strict=True))), tuple(notes)


def _seen(model: Modelled) -> _Seen:
    problem = model.problem
    parts = [one.seen[:, None] for one in problem.numbers]
    blocks = [problem.error] if len(problem.numbers) else []
    first, at = list(range(len(parts))), len(parts)
    for one in problem.categories:
        if one.name not in model.levels:
            raise MeasureError(
                f"The levels of '{one.name}' cannot be told apart after the noise.",
                hint='use method="posterior".',
            )
        scores = model.levels[one.name][:, 1:]
        whole = scores[np.isfinite(scores).all(axis=1)]
        share = whole.mean(axis=0)
        true = np.diag(share) - np.outer(share, share)
        blocks.append(np.atleast_2d(np.cov(whole, rowvar=False)) - true)
        parts.append(scores)
        first.append(at)
        at += scores.shape[1]
    error = np.zeros((at, at))
    place = 0
    for block in blocks:
        error[place : place + len(block), place : place + len(block)] = block
        place += len(block)
    values = np.hstack(parts) if parts else np.empty((problem.records, 0))
    return _Seen(values, error, tuple(first))


def _resampled(problem: Problem, known: Places, rng: np.random.Generator) -> tuple[Places, Places]:
    """Records drawn with replacement, or groups; a group drawn twice is two groups."""
    if problem.groups is None:
        return known[rng.integers(0, len(known), len(known))], np.empty(0, np.int64)
    order = known[np.argsort(problem.groups[known], kind="stable")]
    parts = np.split(order, np.flatnonzero(np.diff(problem.groups[order])) + 1)
    drawn = rng.integers(0, len(parts), len(parts))
    sizes = [len(parts[one]) for one in drawn]
    return np.concatenate([parts[one] for one in drawn]), np.repeat(np.arange(len(drawn)), sizes)


def _estimate(
    problem: Problem, seen: _Seen, rows: Places, groups: Places | None = None
) -> Estimates:
    now = problem.groups[rows] if problem.groups is not None else None
    now = groups if groups is not None and len(groups) else now
    small = replace(
        problem,
        y=problem.y[rows],
        trials=None if problem.trials is None else problem.trials[rows],
        groups=now,
    )
    values = seen.values[rows]
    clean = problem.covariates[rows]
    if now is not None and values.shape[1]:
        counts = np.maximum(np.bincount(now), 1)
        means = [(np.bincount(now, weights=one) / counts)[now] for one in values.T]
        clean = np.column_stack([clean, *means])
    mean, left = _calibrated(values, clean, seen.error)
    columns = [_column(one, problem, rows, mean, left, seen) for one in problem.terms]
    return fitted(small, np.column_stack(columns))


def _calibrated(values: Floats, clean: Floats, error: Floats) -> tuple[Floats, Floats]:
    """The expected true values, and their covariance given what was released."""
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
    term: Term, problem: Problem, rows: Places, mean: Floats, left: Floats, seen: _Seen
) -> Floats:
    made = np.ones(len(rows)) if term.clean is None else term.clean[rows]
    plain = [at for at, of in term.numbers if of is None and problem.numbers[at].scale is None]
    if len(plain) == len(term.numbers) == 2 and len(set(plain)) == 2:  # noqa: PLR2004 - a product
        a, b = plain
        made = made * (mean[:, a] * mean[:, b] + left[a, b])
    else:
        for at in dict.fromkeys(place for place, _ in term.numbers):
            made = made * _expected(term, problem, at, mean[:, at], float(left[at, at]))
    count = len(problem.numbers)
    for at, level in term.levels:
        first = seen.first[count + at]
        last = first + len(problem.categories[at].levels) - 1
        share = mean[:, first:last]
        made = made * (share[:, level - 1] if level else 1 - share.sum(axis=1))
    return np.asarray(made, float)


def _expected(term: Term, problem: Problem, at: int, mean: Floats, variance: float) -> Floats:
    """The expectation of functions of a number, which is normal given what was released."""
    uses = [of for place, of in term.numbers if place == at]
    one = problem.numbers[at]
    if uses == [None] and one.scale is None:
        return mean
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    total = np.zeros_like(mean)
    for node, weight in zip(nodes, weights / weights.sum(), strict=True):
        true = one.true(mean + node * np.sqrt(max(variance, 0.0)))
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
