"""A regression by passes over its records, of which each keeps something small of every part.

A linear model follows from the triangular factor R of its terms and its outcome: the factors of two
parts, one below the other, have the factor of both. That takes one pass, and loses fewer digits
than sums of squares would. Models with a link are fitted by such passes, each with the weights that
the one before has found (iteratively reweighted least squares). Records in memory are one part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Mask
from sfumato.kernels.exact_sums import exact_sum, use_one_thread

Family = Literal["linear", "logistic", "poisson"]
Block = tuple[Floats, Floats, Floats | None]
"""Outcome and terms of some records, and the weight of each; None: they weigh the same."""
Look = Callable[[Iterable[Block]], Any]

BLOCK = 1 << 15
"""Records whose terms are multiplied at a time."""
_COLLINEAR = 1e-7
"""A term with less than this share of its length left, given those before it, adds nothing."""
_CERTAIN, _HUGE = 1e-8, 200.0
"""A fitted value this near its end, with a standard error this large, has no estimate."""
_EXACT = 1e-27
"""Squared residuals that are this small beside the squared outcome are rounding."""
_MOST_STEPS, _TOLERANCE = 100, 1e-10
"""Steps of a model with a link, and the change of the deviance at which they end."""
_TINY = float(np.finfo(float).eps)
_ROUNDING = 4 * _TINY
"""A relative change of the deviance that is rounding, where records are many."""


@dataclass(frozen=True, eq=False)
class FittedRegression:
    """A regression: for each term its estimate, standard error, z or t, p value and interval."""

    terms: tuple[str, ...] = field(repr=False)
    estimate: Floats = field(repr=False)
    error: Floats = field(repr=False)
    statistic: Floats = field(repr=False)
    p: Floats = field(repr=False)
    low: Floats = field(repr=False)
    high: Floats = field(repr=False)
    records: int


class FitPart(NamedTuple):
    """What a pass keeps of a part of the records.

    Parameters
    ----------
    factor : the triangular factor of its terms and its outcome, both weighted.
    deviance : of the fitted values with which the pass began.
    low, high : the least and the greatest of these.
    """

    factor: Floats
    deviance: float
    low: float
    high: float


class _Terms(NamedTuple):
    """What the terms and the outcome of a part are like.

    Parameters
    ----------
    finite : for each term, and for the outcome at the end, whether all values are finite.
    largest : the largest absolute value of each.
    outcomes : some outcomes, the least and the greatest among them.
    total : the sum of the outcomes.
    """

    finite: Mask
    largest: Floats
    outcomes: Floats
    total: float


@dataclass(frozen=True, eq=False)
class Solution:
    """Estimates, the inverse of the triangular factor behind them, and what is left over."""

    estimate: Floats
    inverse: Floats
    scale: float
    freedom: float
    records: int

    @property
    def error(self) -> Floats:
        """The standard errors."""
        errors: Floats = np.sqrt((self.inverse**2).sum(axis=1) * self.scale)
        return errors

    def show(self, names: tuple[str, ...], *, level: float) -> FittedRegression:
        """The estimates with their tests and intervals: by t, or by the normal distribution."""
        from scipy import stats

        distribution = stats.t(self.freedom) if math.isfinite(self.freedom) else stats.norm()
        error, statistic = self.error, self.estimate / self.error
        width = distribution.ppf(1 - (1 - level) / 2) * error
        return FittedRegression(
            terms=names,
            estimate=self.estimate,
            error=error,
            statistic=statistic,
            p=2 * distribution.sf(np.abs(statistic)),
            low=self.estimate - width,
            high=self.estimate + width,
            records=self.records,
        )


@dataclass(frozen=True, eq=False)
class RegressionFit:
    """A regression of one data set.

    Parameters
    ----------
    gather : gives what a function makes of each part of the records, block after block.
    family, where : of the model, and the data set in words.
    records : how many complete ones there are.
    names : of the terms, and of the outcome.
    """

    gather: Callable[[Look], list[Any]]
    family: Family
    where: str
    records: int
    names: tuple[str, ...]

    def run(self) -> Solution:
        """Fit it; fail where that is impossible."""
        terms = self._check_terms()
        unweighted = self._gather(Weighing("linear"))
        factor = unweighted.factor[:-1, :-1]
        size = np.sqrt((factor**2).sum(axis=0))
        scaled = factor / np.where(size > 0, size, 1.0)
        require_independent(factorise(scaled), self.names[:-1], self.where)
        if self.family != "linear":
            return self._iterate(terms)
        freedom = self.records - len(factor)
        residual = float(unweighted.factor[-1, -1] ** 2)
        solution = self._solve(unweighted.factor, residual / freedom, freedom)
        require_estimates(solution.estimate, solution.error, self.where)
        require_residuals(residual, float((unweighted.factor[:, -1] ** 2).sum()), self.where)
        return solution

    def _check_terms(self) -> _Terms:
        """Everything that is wrong with terms and outcome, before they are multiplied."""
        width = len(self.names)

        def look(blocks: Iterable[Block]) -> _Terms:
            finite, largest = np.ones(width, bool), np.zeros(width)
            outcomes, total = np.empty(0), 0.0
            for y, x, _ in blocks:
                columns = np.column_stack([x, y])
                finite &= np.isfinite(columns).all(axis=0)
                largest = np.fmax(largest, np.abs(columns).max(axis=0))
                outcomes = np.unique(np.concatenate([outcomes, y]))
                outcomes = np.concatenate([outcomes[:2], outcomes[-1:]])
                total += exact_sum(y)
            return _Terms(finite, largest, outcomes, total)

        finite, largest, outcomes, totals = zip(*self.gather(look), strict=True)
        terms = _Terms(
            np.all(finite, axis=0), np.max(largest, axis=0), np.concatenate(outcomes), sum(totals)
        )
        require_finite(terms.finite[:-1].tolist(), self.names[:-1], self.where)
        require_enough(self.records, self.names[:-1], self.where)
        require_finite(terms.finite[-1:].tolist(), self.names[-1:], self.where)
        require_family(terms.outcomes, self.family, self.where)
        return terms

    def _iterate(self, terms: _Terms) -> Solution:
        """Reweighted least squares: one pass for each step."""
        part = self._gather(Weighing(self.family, mean=terms.total / self.records))
        solution, deviance, converged = self._solve(part.factor, 1.0, math.inf), math.inf, False
        for _ in range(_MOST_STEPS):
            deviance, before = part.deviance, part
            solution = self._solve(before.factor, 1.0, math.inf)
            part = self._gather(Weighing(self.family, beta=solution.estimate))
            change = abs(part.deviance - deviance)
            converged = change <= max(_TOLERANCE, _ROUNDING * abs(part.deviance))
            if converged:
                break
        reach = solution.error * terms.largest[:-1]
        certain = is_certain((part.low, part.high), reach, self.family)
        require_estimates(
            solution.estimate, solution.error, self.where, certain=certain, converged=converged
        )
        return solution

    def _gather(self, weighing: Weighing) -> FitPart:
        """One pass over the records."""
        width = len(self.names)

        def multiply(blocks: Iterable[Block]) -> FitPart:
            with use_one_thread():
                return _join_parts([weighing.multiply(*block) for block in blocks], width)

        return _join_parts(self.gather(multiply), width)

    def _solve(self, factor: Floats, scale: float, freedom: float) -> Solution:
        return solve_factor(factor, scale, freedom, self.records)


def solve_factor(factor: Floats, scale: float, freedom: float, records: int) -> Solution:
    """The estimates that follow from the triangular factor of terms and outcome."""
    from scipy.linalg import solve_triangular

    of_terms = factor[:-1, :-1]
    if not np.diag(of_terms).all():
        unknown = np.full(len(of_terms), math.nan)
        return Solution(unknown, of_terms, scale, freedom, records)
    inverse = solve_triangular(of_terms, np.eye(len(of_terms)))
    estimate = solve_triangular(of_terms, factor[:-1, -1])
    return Solution(estimate, inverse, scale, freedom, records)


def _join_parts(parts: Sequence[FitPart], width: int) -> FitPart:
    """The factors of all parts, one below the other, have the factor of all records."""
    stacked = np.concatenate([np.zeros((width, width)), *(part.factor for part in parts)])
    return FitPart(
        factorise(stacked),
        math.fsum(part.deviance for part in parts),
        min((part.low for part in parts), default=math.inf),
        max((part.high for part in parts), default=-math.inf),
    )


@dataclass(frozen=True, eq=False)
class Weighing:
    """How terms and outcome are weighted in a pass.

    Parameters
    ----------
    family : of the model; "linear" weighs nothing.
    beta : the estimates so far; None at the start, which is made from the outcomes.
    mean : of the outcomes, for the start.
    """

    family: Family
    beta: Floats | None = None
    mean: float = 0.0

    def multiply(self, y: Floats, x: Floats, weights: Floats | None = None) -> FitPart:
        """The factor of some records, and how well the estimates so far fit them."""
        weighted, deviance, (low, high) = self.weigh(y, x, weights)
        return FitPart(factorise(weighted), deviance, low, high)

    def weigh(
        self, y: Floats, x: Floats, weights: Floats | None = None
    ) -> tuple[Floats, float, tuple[float, float]]:
        """Terms and outcome weighted, a row a record; the deviance, and the fitted values' ends."""
        times = 1.0 if weights is None else weights
        if self.family == "linear":
            rows = np.column_stack([x, y])
            return rows if weights is None else rows * np.sqrt(weights)[:, None], 0.0, (0.0, 0.0)
        with np.errstate(over="ignore"):
            predictor, fitted, weight, deviances = _LINKS[self.family](self, y, x)
        outcome = predictor + (y - fitted) / weight
        weighted = np.column_stack([x, outcome]) * np.sqrt(weight * times)[:, None]
        return weighted, exact_sum(deviances * times), (float(fitted.min()), float(fitted.max()))

    def predict(self, y: Floats, x: Floats) -> tuple[Floats, Floats]:
        """Fitted values, and the variance that the family gives to each."""
        if self.family == "linear" and self.beta is not None:
            return x @ self.beta, np.ones(len(y))
        _, fitted, variance, _ = _LINKS[self.family](self, y, x)
        return fitted, variance

    def follow_logit(self, y: Floats, x: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Predictor, fitted values, weights and deviances of a logistic model."""
        if self.beta is None:
            fitted = (y + 0.5) / 2
            predictor = np.log(fitted / (1 - fitted))
        else:
            predictor = x @ self.beta
            fitted = np.clip(1 / (1 + np.exp(-predictor)), _TINY, 1 - _TINY)
        deviances = -2 * np.log(np.where(y > 0, fitted, 1 - fitted))
        return predictor, fitted, fitted * (1 - fitted), deviances

    def follow_logarithm(self, y: Floats, x: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """The same of a Poisson model."""
        if self.beta is None:
            fitted = (y + self.mean) / 2
            predictor = np.log(fitted)
        else:
            predictor = x @ self.beta
            fitted = np.clip(np.exp(predictor), _TINY, np.finfo(float).max)
        logarithms = np.log(np.where(y > 0, y, 1.0) / fitted)
        deviances = 2 * (np.where(y > 0, y * logarithms, 0.0) - (y - fitted))
        return predictor, fitted, fitted, deviances


_LINKS: dict[str, Callable[..., tuple[Floats, Floats, Floats, Floats]]] = {
    "logistic": Weighing.follow_logit,
    "poisson": Weighing.follow_logarithm,
}


def require_family(outcomes: Floats, family: Family, where: str) -> None:
    """Refuse outcomes that the family cannot have; the extremes among them are enough."""
    if family == "logistic" and set(outcomes) != {0.0, 1.0}:
        raise MeasureError(
            f"The outcome of a logistic model must be 0 or 1, and both must occur in {where}.",
            hint='choose another outcome, or family = "linear".',
        )
    if family == "poisson" and not (outcomes.min() >= 0 < outcomes.max()):
        raise MeasureError(
            f"The outcome of a Poisson model must be counts, 0 or more, in {where}.",
            hint='choose another outcome, or family = "linear".',
        )


def require_finite(finite: Sequence[bool], names: tuple[str, ...], where: str) -> None:
    """Refuse terms that are not finite in all records."""
    wrong = [name for name, known in zip(names, finite, strict=True) if not known]
    if wrong:
        raise MeasureError(
            f"These terms have no finite value for some records of {where}: {_join_names(wrong)}.",
            hint="a logarithm or root takes positive numbers only.",
        )


def _join_names(names: list[str]) -> str:
    return ", ".join(dict.fromkeys(names))  # levels of one variable have its name


def _is_finite(values: Floats) -> bool:
    return bool(np.isfinite(values).all())


def require_enough(records: int, names: tuple[str, ...], where: str) -> None:
    """Fail when there are too few records, or no term."""
    if not names:
        raise MeasureError("The formula has no term.", hint="add one, as in 'y ~ x'.")
    if records <= len(names):
        raise MeasureError(
            f"There are {records} complete records in {where} for {len(names)} terms.",
            hint="leave some terms out of the formula.",
        )


def factorise(x: Floats) -> Floats:
    """The triangular factor R of a matrix, x = QR."""
    factor: Any = np.linalg.qr(x, mode="r")
    triangle: Floats = factor
    return triangle


def require_independent(factor: Floats, names: tuple[str, ...], where: str) -> None:
    """Fail when a term is a combination of those before it.

    `factor` is the triangular factor of the terms, each divided by its length.
    """
    # The diagonal of R: what is left of each column, given those before it.
    lengths = np.abs(np.diag(factor))
    wrong = [name for name, length in zip(names, lengths, strict=True) if length < _COLLINEAR]
    if wrong:
        raise MeasureError(
            f"These terms say nothing that the others do not say, in {where}: "
            f"{_join_names(wrong)}.",
            hint="leave them out of the formula.",
        )


def require_estimates(
    estimate: Floats, error: Floats, where: str, *, certain: bool = False, converged: bool = True
) -> None:
    """Refuse estimates that have no end, or were not reached."""
    if certain:
        raise MeasureError(
            f"The terms predict the outcome of some records of {where} with certainty, so the "
            "model has no finite estimates.",
            hint="leave out the term that does, or join rare levels.",
        )
    if not (_is_finite(error) and _is_finite(estimate) and converged):
        raise MeasureError(
            f"The model does not converge in {where}.", hint="leave some terms out of the formula."
        )


def require_residuals(residual: float, total: float, where: str) -> None:
    """Refuse a linear model whose squared residuals are nothing beside the squared outcome."""
    if residual <= _EXACT * total:
        raise MeasureError(
            f"The model fits {where} exactly, so there is no error to count a change in.",
            hint="is the outcome computed from the terms?",
        )


def is_certain(ends: tuple[float, float], reach: Floats, family: Family) -> bool:
    """Whether a fitted value runs to its end, and drags an estimate with it.

    Parameters
    ----------
    ends : the least and the greatest fitted value.
    reach : for each term its standard error, times its largest value.
    """
    at_limit = ends[0] < _CERTAIN or (family == "logistic" and ends[1] > 1 - _CERTAIN)
    return bool(at_limit and reach.max() > _HUGE)
