"""The naive fit, which takes released values for true ones: what noise does to a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from sfumato.analysis.mixed_models import (
    MOST_EFFECTS,
    GroupedRecords,
    fit_generalised_mixed_model,
    fit_linear_mixed_model,
)
from sfumato.analysis.problem import GroupingFactor, Problem, Term
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Mask

_ROUNDS, _SMALL = 100, 1e-10
_CERTAIN = 1e-8
_COLLINEAR = 1e-9
_BINARY = 2
_MOST_PRODUCTS = 20_000_000
"""Of effects of one grouping factor with those of all others, in a plain fit."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Estimates:
    """Estimates and standard errors by parameter.

    Parameters
    ----------
    value, error : by the name of the parameter; no error where there is none.
    covariance : of the coefficients, in the order of the terms.
    note : what is to be known of it.
    certain : whether terms predict some outcomes with certainty, so that estimates run away.
    complete : whether the work ran to its end; an interrupt leaves what is there.
    residuals : of each record, given coefficients, see `compute_residuals`; None where not known.
    """

    value: Mapping[str, float]
    error: Mapping[str, float] = field(default_factory=dict)
    covariance: Floats | None = field(default=None, repr=False)
    note: str = ""
    certain: bool = False
    complete: bool = True
    residuals: Callable[[Mapping[str, float]], Mapping[str, Floats]] | None = field(
        default=None, repr=False
    )

    @classmethod
    def from_fit(
        cls,
        names: Sequence[str],
        beta: Floats,
        covariance: Floats,
        variances: Mapping[str, float] | None = None,
        *,
        certain: bool = False,
    ) -> Estimates:
        """Coefficients with their covariance, and variances without standard errors."""
        return cls(
            value={**dict(zip(names, beta.tolist(), strict=True)), **(variances or {})},
            error=dict(zip(names, np.sqrt(np.diag(covariance)).tolist(), strict=True)),
            covariance=covariance,
            certain=certain,
        )

    def add_shift(self, shift: Mapping[str, float]) -> Estimates:
        """The same with a shift added to some."""
        if not shift:
            return self
        return replace(
            self, value={name: value + shift.get(name, 0.0) for name, value in self.value.items()}
        )


def build_released_design(problem: Problem, released: Mapping[str, Floats]) -> Floats:
    """The columns of the model with released values in the place of true ones.

    Of a noisy code between two levels the number itself is taken, of more levels the nearest.
    """
    return np.column_stack(
        [_build_released_column(term, problem, released) for term in problem.terms]
    )


def _build_released_column(term: Term, problem: Problem, released: Mapping[str, Floats]) -> Floats:
    values = np.ones(problem.records) if term.clean is None else term.clean
    for index, function in term.numbers:
        number = problem.numbers[index]
        true = number.at_face_value()
        values = values * (true if function is None else function(true))
    for index, level in term.levels:
        values = values * build_level_column(problem, released, index, level)
    return np.asarray(values, float)


def build_level_column(
    problem: Problem, released: Mapping[str, Floats], index: int, level: int
) -> Floats:
    """A level of a category as released."""
    category = problem.categories[index]
    codes = released[category.name]
    if len(category.levels) == _BINARY:
        return codes if level else 1 - codes
    nearest = np.clip(np.rint(codes), 0, len(category.levels) - 1)
    return np.where(np.isnan(codes), np.nan, nearest == level)


def fit_naive(problem: Problem, released: Mapping[str, Floats]) -> Estimates:
    """The fit without any correction, on the records that have all values."""
    x = build_released_design(problem, released)
    known = np.isfinite(x).all(axis=1) & np.isfinite(problem.y)
    return fit_columns(problem, x, known)


def fit_columns(
    problem: Problem,
    x: Floats,
    known: Mask | None = None,
    start: Estimates | None = None,
) -> Estimates:
    """The plain fit of given columns.

    Parameters
    ----------
    problem : the family, the link, the groups.
    x : the columns.
    known : which records to use.
    start : a fit of nearly the same, where a search may begin.
    """
    used = np.ones(len(x), bool) if known is None else known
    x = x if used.all() else x[used]
    _require_estimable(x, [term.name for term in problem.terms])
    if problem.family in ("negative_binomial", "ordinal", "multinomial"):
        return _fit_by_likelihood(problem, x, used)
    if problem.groups is None:
        gaussian = problem.family == "gaussian"
        return (_fit_linear if gaussian else _fit_by_reweighting)(problem, x, used)
    if problem.family == "gaussian":
        return _fit_linear_groups(problem, x, used)
    if problem.more_factors:
        return Estimates(
            value={}, note=f"no plain fit of a {problem.family} model with several grouping factors"
        )
    if len(problem.random) > MOST_EFFECTS:
        return Estimates(
            value={},
            note=f"no plain fit of a two-level {problem.family} model with more than "
            f"{MOST_EFFECTS} effects of each group",
        )
    return _fit_generalised_groups(problem, x, used, start or _fit_by_reweighting(problem, x, used))


def _require_estimable(x: Floats, names: list[str]) -> None:
    """Fail when there are too few records, or a term is a combination of those before it."""
    if len(x) <= len(names):
        raise MeasureError(
            f"There are {len(x)} complete records for {len(names)} terms.",
            hint="leave some terms out of the formula.",
        )
    size = np.sqrt((x * x).sum(axis=0))
    scaled = x / np.where(size > 0, size, 1.0)
    gram = scaled.T @ scaled
    wrong = []
    # Gaussian elimination: a pivot of zero marks a linear combination of earlier terms.
    for index, name in enumerate(names):
        pivot = gram[index, index]
        if pivot <= _COLLINEAR:
            wrong.append(name)
            continue
        ratios = gram[index + 1 :, index] / pivot
        gram[index + 1 :, index + 1 :] -= np.outer(ratios, gram[index, index + 1 :])
    if wrong:
        # A level is somebody's value, and does not belong in an error.
        terms = dict.fromkeys(name.partition("[")[0] for name in wrong)
        raise MeasureError(
            f"These terms say nothing that the others do not say: {', '.join(terms)}.",
            hint="leave them out of the formula.",
        )


def _fit_linear(problem: Problem, x: Floats, rows: Mask) -> Estimates:
    y, names = problem.y[rows], [term.name for term in problem.terms]
    q, r = np.linalg.qr(x)
    beta = np.linalg.solve(r, q.T @ y)
    residual = y - x @ beta
    variance = float(residual @ residual) / (len(y) - len(names))
    inverse = np.linalg.inv(r)
    covariance = variance * inverse @ inverse.T
    return Estimates.from_fit(names, beta, covariance, {"residual variance": variance})


def group_records(problem: Problem, x: Floats, rows: Any) -> GroupedRecords:
    """The columns x of some records of a model with groups, as mixed models take them."""
    assert problem.groups is not None  # noqa: S101 - it has groups
    return GroupedRecords(
        link=problem.link,
        x=x,
        y=problem.y[rows],
        trials=problem.take_trials(rows),
        offset=problem.take_offset(rows),
        groups=problem.groups[rows],
        random=problem.random,
    )


def _fit_by_likelihood(problem: Problem, x: Floats, rows: Mask) -> Estimates:
    from sfumato.analysis.outcome_fits import fit_outcome

    if problem.groups is not None:
        family = problem.family.replace("_", " ")
        return Estimates(value={}, note=f"no plain fit of a two-level {family} model")
    names = problem.coefficient_names
    values, errors, settled = fit_outcome(problem, x, problem.y[rows], problem.take_offset(rows))
    return Estimates(
        value=dict(zip(names, values.tolist(), strict=True)),
        error=dict(zip(names, errors.tolist(), strict=True)),
        certain=not settled,
    )


def _fit_linear_groups(problem: Problem, x: Floats, rows: Mask) -> Estimates:
    factors = [(factor.groups[rows], factor.random) for factor in problem.factors]
    effects = sorted((int(groups.max()) + 1) * len(random) for groups, random in factors)
    if effects[-1] * sum(effects[:-1]) > _MOST_PRODUCTS:
        return Estimates(value={}, note="no plain fit with so many groups of several factors")
    mixed = fit_linear_mixed_model(x, problem.y[rows], factors)
    variances = {"residual variance": mixed.variance}
    for factor, between in zip(problem.factors, mixed.between, strict=True):
        cells = name_group_covariances(problem, factor).items()
        variances |= {name: float(between[cell]) for name, cell in cells}
    names = [term.name for term in problem.terms]
    return Estimates.from_fit(names, mixed.beta, mixed.covariance, variances)


def name_group_covariances(
    problem: Problem, factor: GroupingFactor | None = None
) -> dict[str, tuple[int, int]]:
    """The names of variances and covariances between groups, and their places.

    Without a factor, of the first.
    """
    factor = factor or problem.factors[0]
    names, by = [problem.terms[index].name for index in factor.random], f"by {factor.name}"
    variances, covariances = {}, {}
    for row, name in enumerate(names):
        variances[f"variance of {name} {by}"] = (row, row)
        for other in range(row):
            covariances[f"covariance of {names[other]} and {name} {by}"] = (row, other)
    return variances | covariances


def name_group_correlations(problem: Problem) -> dict[str, tuple[str, str, str]]:
    """The names of correlations of effects, each with its covariance and both variances."""
    correlations = {}
    for factor in problem.factors:
        name_at = {index: name for name, index in name_group_covariances(problem, factor).items()}
        for (row, other), name in name_at.items():
            if row != other:
                parts = (name, name_at[row, row], name_at[other, other])
                correlations[name.replace("covariance", "correlation", 1)] = parts
    return correlations


def correlate(covariance: Any, first: Any, second: Any) -> Any:
    """A correlation, or many; not a number where a variance is zero."""
    with np.errstate(all="ignore"):
        return covariance / np.sqrt(first * second)


def group_covariance(
    problem: Problem, value: Mapping[str, float], factor: GroupingFactor | None = None
) -> Floats | None:
    """The covariance of the effects of a factor, or of the first; None where it is not known."""
    if not problem.factors:
        return None
    factor = factor or problem.factors[0]
    covariance = np.zeros((len(factor.random),) * 2)
    for name, (row, other) in name_group_covariances(problem, factor).items():
        if name not in value:
            return None
        covariance[row, other] = covariance[other, row] = value[name]
    return covariance


def _fit_generalised_groups(problem: Problem, x: Floats, rows: Mask, start: Estimates) -> Estimates:
    names = [term.name for term in problem.terms]
    mixed = fit_generalised_mixed_model(
        group_records(problem, x, rows),
        np.array([start.value[name] for name in names]),
        group_covariance(problem, start.value),
    )
    cells = name_group_covariances(problem).items()
    variances = {name: float(mixed.between[cell]) for name, cell in cells}
    certain = start.certain or not mixed.settled
    return Estimates.from_fit(names, mixed.beta, mixed.covariance, variances, certain=certain)


class OutcomeMoments(NamedTuple):
    """Of one trial of each record: the mean, its derivative by the linear predictor, the variance.

    Parameters
    ----------
    weight : of the record in a weighted least squares step (McCullagh & Nelder 1989, section 2.5).
    """

    mean: Floats
    slope: Floats
    variance: Floats
    weight: Floats


def compute_moments(link: str, line: Floats, trials: Floats) -> OutcomeMoments:
    """The moments of the outcome at each linear predictor."""
    mean, slope = inverse_link(link, line)
    variance = mean if link == "log" else mean * (1 - mean)
    weight = trials * slope**2 / np.maximum(variance, 1e-300)
    return OutcomeMoments(mean, slope, variance, weight)


def _fit_by_reweighting(problem: Problem, x: Floats, rows: Mask) -> Estimates:
    """Iteratively reweighted least squares."""
    y, trials = problem.y[rows], problem.take_trials(rows)
    offset = problem.take_offset(rows)
    names = [term.name for term in problem.terms]
    beta: Floats = np.zeros(len(names))
    # Start at outcomes pulled away from 0 and 1, where the link is infinite.
    mean = (y + trials / 2) / 2 if problem.link != "log" else y + 0.1
    line = _apply_link(problem.link, mean / trials)
    gram = np.eye(len(names))
    for _ in range(_ROUNDS):
        moments = compute_moments(problem.link, line, trials)
        work = line - offset + (y / trials - moments.mean) / np.maximum(moments.slope, 1e-300)
        # Where the fitted mean is certain, the working outcome overflows and says nothing.
        weight = np.where(np.isfinite(work), moments.weight, 0.0)
        work = np.where(np.isfinite(work), work, 0.0)
        gram = (x * weight[:, None]).T @ x
        try:
            new: Floats = np.asarray(np.linalg.solve(gram, x.T @ (weight * work)), float)
        except np.linalg.LinAlgError:
            break
        moved = float(np.abs(new - beta).max() / (1 + np.abs(new).max()))
        beta = new
        line = x @ beta + offset
        line = np.clip(line, -30.0, 30.0) if problem.link != "log" else line
        if moved < _SMALL:
            break
    mean, _ = inverse_link(problem.link, line)
    # Fitted means of 0 or 1: separation, and coefficients without a finite estimate.
    certain = bool(mean.min() < _CERTAIN or (problem.link != "log" and mean.max() > 1 - _CERTAIN))
    covariance: Floats = np.asarray(np.linalg.pinv(gram), float)
    return Estimates.from_fit(names, beta, covariance, certain=certain)


def _apply_link(link: str, mean: Floats) -> Floats:
    from scipy.special import ndtri

    if link == "log":
        return np.log(mean)
    line: Floats = ndtri(mean) if link == "probit" else np.log(mean) - np.log1p(-mean)
    return line


def inverse_link(link: str, line: Floats) -> tuple[Floats, Floats]:
    """The mean of the outcome at each linear predictor, and its slope."""
    from scipy.special import expit, ndtr

    if link == "log":
        mean = np.exp(np.clip(line, -700, 700))
        return mean, mean
    if link == "probit":
        return ndtr(line), np.exp(-(line**2) / 2) / np.sqrt(2 * np.pi)
    mean = expit(line)
    return mean, mean * (1 - mean)
