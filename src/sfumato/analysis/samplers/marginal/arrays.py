"""A problem as the arrays of the marginal likelihood: in a canonical order and on a common scale.

Columns are made orthogonal and numbers standardised, so that one prior and one tolerance suit all
problems. `Arrays.to_problem_scale` takes the coefficients back to the scale of the problem.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Integers, Mask
from sfumato.kernels.sampling import quadrature
from sfumato.kernels.sampling.marginal_likelihood import LikelihoodRecords

if TYPE_CHECKING:
    from sfumato.analysis.problem import Problem

FAMILIES = {
    ("bernoulli", "logit"): quadrature.LOGIT,
    ("bernoulli", "probit"): quadrature.PROBIT,
    ("binomial", "logit"): quadrature.BINOMIAL_LOGIT,
    ("binomial", "probit"): quadrature.BINOMIAL_PROBIT,
    ("poisson", "log"): quadrature.POISSON,
}
_COLLINEAR = 1e-9
"""A column this close to what the others give, relative to its size, adds nothing."""


@dataclass(frozen=True, eq=False)
class Arrays:
    """What the likelihood needs.

    Parameters
    ----------
    family : see `kernels.sampling.quadrature`.
    records : what was released of each record.
    clean : the indices of the clean terms.
    number_terms : (number, term) 1 where the term is that number.
    level_terms : (cell, term) 1 where the term is a level of that cell.
    dummies : (cell, level) 1 for all levels but the first of each category.
    missing : (pattern, number) whether the number is missing.
    error : the covariance of the noise.
    to_problem_scale : (term, term) takes coefficients to the problem's scale.
    """

    family: int
    records: LikelihoodRecords
    clean: list[int]
    number_terms: Floats
    level_terms: Floats
    dummies: Floats
    missing: Mask
    error: Floats
    to_problem_scale: Floats

    @property
    def count(self) -> int:
        """How many records there are."""
        return len(self.records.y)

    def select_evenly(self, most: int) -> Arrays:
        """Evenly spaced records, at most so many; all of them where there are not more."""
        if self.count <= most:
            return self
        rows = np.linspace(0, self.count - 1, most).astype(np.int64)
        parts: list[Any] = [part[rows] if len(part) else part for part in self.records]
        return replace(self, records=LikelihoodRecords(*parts))


def build_arrays(problem: Problem) -> Arrays:
    """The arrays of a problem that `can` took."""
    y, trials = _read_outcome(problem)
    clean = [index for index, term in enumerate(problem.terms) if not term.has_noise]
    columns = _stack_clean_columns(problem, clean)
    numbers = np.column_stack(
        [number.observed for number in problem.numbers] or [np.zeros((len(y), 0))]
    )
    cells = list(itertools.product(*[range(len(c.levels)) for c in problem.categories]))
    released = _outcome_probabilities(problem)
    level_logs = _cell_log_probabilities(problem, cells)
    # The same order whatever that of the rows: every sum below is then the same to the last bit.
    offset = problem.take_offset(slice(None))
    keys = [*level_logs.T, *problem.covariates.T, *columns.T, *numbers.T, offset, trials, y]
    order = np.lexsort([*released.T, *keys] if len(released) else keys)
    y, trials, numbers, level_logs = y[order], trials[order], numbers[order], level_logs[order]
    released = released[order] if len(released) else released
    names = [problem.terms[index].name for index in clean]
    design, triangular = _orthogonalise(columns[order], names)
    missing, pattern = _find_missing_patterns(numbers)
    centre, scale = _measure_scales(problem, numbers)
    if not _spans_constant(design):
        centre = np.zeros_like(centre)
    numbers -= centre
    numbers /= scale
    np.nan_to_num(numbers, copy=False)
    covariates = _orthogonalise_covariates(problem.covariates[order])
    number_terms, level_terms = _mark_terms(problem, cells)
    # Back to the scale of the problem: β = R⁻¹ β*, and what centring took from the constant.
    to_problem_scale = np.eye(len(problem.terms))
    to_problem_scale[np.ix_(clean, clean)] = triangular
    constant = triangular @ design.mean(axis=0)
    for index, term in enumerate(problem.terms):
        for number, _ in term.numbers:
            to_problem_scale[index, index] = 1 / scale[number]
            to_problem_scale[clean, index] = -constant * centre[number] / scale[number]
    return Arrays(
        family=FAMILIES[problem.family, problem.link],
        records=LikelihoodRecords(
            clean=design,
            covariates=covariates,
            numbers=numbers,
            pattern=pattern,
            y=y,
            trials=trials,
            released=released,
            level_logs=level_logs,
            offset=offset[order],
        ),
        clean=clean,
        number_terms=number_terms,
        level_terms=level_terms,
        dummies=_code_dummies(problem, cells),
        missing=missing,
        error=_error_covariance(problem) / np.outer(scale, scale),
        to_problem_scale=to_problem_scale,
    )


def estimate_cell_shares(level_logs: Floats) -> Floats:
    """How common the true cells are, whatever the covariates: a few steps of EM."""
    probabilities = np.exp(level_logs - level_logs.max(axis=1, keepdims=True))
    shares = np.full(level_logs.shape[1], 1 / level_logs.shape[1])
    for _ in range(50):
        joint = probabilities * shares
        shares = np.maximum((joint / joint.sum(axis=1, keepdims=True)).mean(axis=0), 1e-4)
        shares /= shares.sum()
    return shares


def _read_outcome(problem: Problem) -> tuple[Floats, Floats]:
    y = np.asarray(problem.y, float)
    trials = np.ones(len(y)) if problem.trials is None else np.asarray(problem.trials, float)
    if len(y) == 0:
        raise MeasureError("There are no records to fit.", hint="check the filter before the fit.")
    if problem.outcome_category is None and not _fits_family(problem.family, y, trials):
        msg = f"The outcome is not what a {problem.family} model describes."
        hint = "bernoulli takes 0 and 1, binomial at most the trials, poisson whole counts."
        raise MeasureError(msg, hint=f"{hint} Missing outcomes are left out before the fit.")
    return y, trials


def _fits_family(family: str, y: Floats, trials: Floats) -> bool:
    counts = np.isfinite(y).all() and (y >= 0).all() and (y == np.floor(y)).all()
    most = trials if family == "binomial" else np.array([1.0 if family == "bernoulli" else np.inf])
    return bool(counts and np.isfinite(trials).all() and (y <= most).all())


def _stack_clean_columns(problem: Problem, clean: list[int]) -> Floats:
    ones = np.ones(problem.records)
    columns = [problem.terms[index].clean for index in clean]
    stacked = np.column_stack(
        [ones if column is None else column for column in columns]
        or [np.zeros((problem.records, 0))]
    )
    if not (np.isfinite(stacked).all() and np.isfinite(problem.covariates).all()):
        msg = "A clean predictor has missing or infinite values."
        raise MeasureError(msg, hint="leave those records out, or impute before the release.")
    return stacked


def _outcome_probabilities(problem: Problem) -> Floats:
    """The probabilities of the released outcome given the true one, over the larger of both."""
    if problem.outcome_category is None:
        return np.zeros((0, 2))
    logs = problem.outcome_category.density
    return np.asarray(np.exp(logs - logs.max(axis=1, keepdims=True)), float)


def _cell_log_probabilities(problem: Problem, cells: list[tuple[int, ...]]) -> Floats:
    total = np.zeros((problem.records, len(cells)))
    for index, category in enumerate(problem.categories):
        total += category.density[:, [cell[index] for cell in cells]]
    if not (total.max(axis=1, initial=-np.inf) > -np.inf).all():
        msg = "A released category fits none of its levels."
        raise MeasureError(msg, hint="the noise's description does not belong to these data.")
    return total


def _orthogonalise(columns: Floats, names: list[str]) -> tuple[Floats, Floats]:
    """Orthogonal columns of mean square 1 by QR, and R⁻¹, which takes coefficients back."""
    count = len(columns)
    size = np.sqrt((columns**2).mean(axis=0))
    q, r = np.linalg.qr(columns / np.where(size > 0, size, 1.0))
    redundant = np.abs(np.diag(r)) < _COLLINEAR * np.sqrt(count)
    if redundant.any() or len(r) < len(names):
        which = [name for name, bad in zip(names, redundant, strict=False) if bad] or names
        msg = f"The predictors are collinear: {', '.join(which)} adds nothing to the others."
        raise MeasureError(msg, hint="leave it out of the formula.")
    inverse = np.linalg.solve(r, np.eye(len(r))) * np.sqrt(count)
    return np.ascontiguousarray(q * np.sqrt(count)), inverse / size[:, None]


def _orthogonalise_covariates(covariates: Floats) -> Floats:
    """The constant, then an orthogonal basis of what the covariates add to it."""
    count = len(covariates)
    columns = np.column_stack([np.ones(count), covariates])
    size = np.sqrt((columns**2).mean(axis=0))
    columns = columns[:, size > 0] / size[size > 0]
    r = np.linalg.qr(columns, mode="r")
    independent = np.zeros(columns.shape[1], bool)
    independent[: len(r)] = np.abs(np.diag(r)) >= _COLLINEAR * np.sqrt(count)
    basis = np.linalg.qr(columns[:, independent])[0] * np.sqrt(count)
    return np.ascontiguousarray(basis * np.sign(basis[:1, 0]))


def _find_missing_patterns(numbers: Floats) -> tuple[Mask, Integers]:
    absent = np.isnan(numbers)
    if not absent.any():
        return np.zeros((1, numbers.shape[1]), bool), np.zeros(len(numbers), np.int64)
    missing, pattern = np.unique(absent, axis=0, return_inverse=True)
    return missing, pattern.reshape(-1).astype(np.int64)


def _measure_scales(problem: Problem, numbers: Floats) -> tuple[Floats, Floats]:
    for index, number in enumerate(problem.numbers):
        if np.isnan(numbers[:, index]).all() or np.isinf(numbers[:, index]).any():
            msg = f"{number.name} has no released values, or infinite ones."
            raise MeasureError(msg, hint="leave the variable out of the formula.")
    scale = np.nanstd(numbers, axis=0)
    return np.nanmean(numbers, axis=0), np.where(scale > 0, scale, 1.0)


def _spans_constant(design: Floats) -> bool:
    mean = design.mean(axis=0)
    return bool(abs(mean @ mean - 1) < _COLLINEAR)


def _error_covariance(problem: Problem) -> Floats:
    if problem.error.shape == (len(problem.numbers),) * 2:
        return problem.error
    return np.diag([float(number.variance or 0.0) for number in problem.numbers])


def _mark_terms(problem: Problem, cells: list[tuple[int, ...]]) -> tuple[Floats, Floats]:
    """(number, term) and (cell, term) indicators of the terms that are a number, or a level."""
    numbers = np.zeros((len(problem.numbers), len(problem.terms)))
    levels = np.zeros((len(cells), len(problem.terms)))
    for index, term in enumerate(problem.terms):
        for number, _ in term.numbers:
            numbers[number, index] = 1.0
        for category, level in term.levels:
            levels[:, index] = [cell[category] == level for cell in cells]
    return numbers, levels


def _code_dummies(problem: Problem, cells: list[tuple[int, ...]]) -> Floats:
    columns = [
        [float(cell[index] == level) for cell in cells]
        for index, category in enumerate(problem.categories)
        for level in range(1, len(category.levels))
    ]
    return np.array(columns, float).reshape(len(columns), len(cells)).T
