"""Regression calibration: each noised value is replaced by what is expected of the true one.

The expectation is linear in all that was released, clean columns and means of groups among it.
Exact for linear models of plain terms, an approximation for others.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sfumato.analysis.calibrated import Seen, expected, seen_of
from sfumato.analysis.modelled import Modelled, left_out
from sfumato.analysis.naive import Estimates, fitted
from sfumato.analysis.problem import Problem
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Integers
from sfumato.progress import current_progress

_REPEATS, _LARGE = 100, 100_000


def calibration(model: Modelled, seed: int) -> tuple[Estimates, tuple[str, ...]]:
    """Fit with calibrated values; standard errors from resampled records, or groups."""
    problem = model.problem
    if problem.outcome_category is not None:
        raise MeasureError(
            "The outcome is a noised category, which calibration does not know.",
            hint='use method="posterior".',
        )
    seen = seen_of(problem, model.levels)
    known = seen.known
    best = _estimate(problem, seen, known)
    rng = np.random.default_rng(seed)
    repeats = _REPEATS if len(known) <= _LARGE else _REPEATS // 4
    say, drawn, complete = current_progress(), list[Estimates](), True
    try:
        for at in range(repeats):
            say("resampling", at, repeats)
            try:
                drawn.append(_estimate(problem, seen, *_resampled(problem, known, rng), best))
            except (MeasureError, np.linalg.LinAlgError):
                continue  # a sample without one of the levels says nothing
    except KeyboardInterrupt:
        complete = False
    names = [one.name for one in problem.terms]
    spread = np.array([[one.value[name] for name in names] for one in drawn])
    sd = spread.std(axis=0, ddof=1) if len(drawn) > 1 else np.full(len(names), np.nan)
    gone = problem.records - len(known)
    notes = [f"Standard errors from {len(drawn)} resamples."]
    notes += [left_out(gone)] if gone else []
    value = {name: best.value[name] for name in names}
    error = dict(zip(names, sd.tolist(), strict=True))
    return Estimates(value=value, error=error, complete=complete), tuple(notes)


def _resampled(
    problem: Problem, known: Integers, rng: np.random.Generator
) -> tuple[Integers, Integers]:
    """Records drawn with replacement, or groups; a group drawn twice is two groups."""
    if problem.groups is None:
        return known[rng.integers(0, len(known), len(known))], np.empty(0, np.int64)
    order = known[np.argsort(problem.groups[known], kind="stable")]
    parts = np.split(order, np.flatnonzero(np.diff(problem.groups[order])) + 1)
    drawn = rng.integers(0, len(parts), len(parts))
    sizes = [len(parts[one]) for one in drawn]
    return np.concatenate([parts[one] for one in drawn]), np.repeat(np.arange(len(drawn)), sizes)


def _estimate(
    problem: Problem,
    seen: Seen,
    rows: Integers,
    groups: Integers | None = None,
    start: Estimates | None = None,
) -> Estimates:
    now = problem.groups[rows] if problem.groups is not None else None
    now = groups if groups is not None and len(groups) else now
    small = replace(
        problem,
        y=problem.y[rows],
        trials=None if problem.trials is None else problem.trials[rows],
        groups=now,
    )
    return fitted(small, expected(problem, seen, rows, now).x, start=start)
