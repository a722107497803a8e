"""The same regression on two data sets: the same terms, levels and reference levels."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats
from sfumato.utility.models.covariates import SIDE_NAMES, Covariates, align_covariates
from sfumato.utility.models.formula import Formula

if TYPE_CHECKING:
    import pandas as pd

Family = Literal["linear", "logistic", "poisson"]

_COLLINEAR = 1e-7
"""A term with less than this share of its length left, given those before it, adds nothing."""
_CERTAIN, _HUGE = 1e-8, 200.0
"""A fitted value this near its end, with a standard error this large, has no estimate."""
_EXACT = 1e-27
"""Squared residuals that are this small beside the squared outcome are rounding."""
MOST_STEPS, TOLERANCE = 100, 1e-10
"""Steps of a model with a link, and the change of the deviance at which they end."""
CONTEXT = {"sqrt": np.sqrt}
"""The only names a formula can reach besides the variables and what formulaic offers."""


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


@dataclass(frozen=True, eq=False)
class RegressionPair:
    """The same regression on the original and on the released data."""

    original: FittedRegression
    released: FittedRegression


def fit_both(
    original: Dataset,
    released: Dataset,
    formula: Formula,
    family: Family,
    *,
    level: float,
    weight: str | None = None,
) -> RegressionPair:
    """Fit a formula to the complete records of both data sets; fail where that is impossible.

    With a survey weight, estimates are those of the population, and standard errors are
    design-based (linearised), as if records were drawn one by one.
    """
    binary = family == "logistic"
    prepared = align_covariates(original, released, formula, binary=binary, weight=weight)
    regressions = {}
    for side, (outcome, terms) in build_matrices(formula, prepared, binary=binary).items():
        where = SIDE_NAMES[side]
        x = _check_terms(terms, formula, where)
        y = _check_outcome(outcome, formula, family, where)
        names = tuple(formula.name_column(column, prepared.labels) for column in terms.columns)
        if weight is None:
            results = _fit_model(y, x, family, where)
            regressions[side] = _collect_results(results, names, level=level)
        else:
            known = [*formula.variables, weight]
            frame = prepared.original if side == "original" else prepared.released
            weights = frame[f"v{known.index(weight)}"].to_numpy(dtype=float)
            require_weights(weights, weight, where)
            regressions[side] = _fit_weighted_regression(
                y, x, weights, family, where, names, level=level
            )
    return RegressionPair(**regressions)


def require_weights(weights: Floats, name: str, where: str) -> None:
    """Refuse weights that stand for nobody."""
    if not (_is_finite(weights) and weights.min() >= 0 and weights.max() > 0):
        raise MeasureError(
            f"Variable '{name}' is no weight in {where}: weights are 0 or more, and not all 0.",
            hint="name a survey weight.",
        )


def _fit_weighted_regression(
    y: Floats,
    x: Floats,
    weights: Floats,
    family: Family,
    where: str,
    names: tuple[str, ...],
    *,
    level: float,
) -> FittedRegression:
    """Pseudo maximum likelihood, with the linearised variance of one stage with replacement.

    V = A⁻¹ B A⁻¹ with A = Σ w v x xᵀ and B = n / (n - 1) Σ u uᵀ for the scores u = w (y - μ) x; v
    is the variance that the family gives to the fitted value μ.

    References: Binder (1983), On the variances of asymptotically normal estimators from complex
    surveys, Int. Stat. Rev. 51:279. The same as `svyglm` of the R package survey.
    """
    from scipy.stats import t as student

    mean = weights / weights.mean()
    results = _fit_model(y, x, family, where, weights=mean)
    estimate = np.asarray(results.params)
    fitted = np.asarray(results.fittedvalues)
    spread = {"linear": np.ones_like(fitted), "logistic": fitted * (1 - fitted)}.get(family, fitted)
    bread = np.linalg.inv((x * (mean * spread)[:, None]).T @ x)
    scores = x * (mean * (y - fitted))[:, None]
    records = len(y)
    meat = scores.T @ scores * (records / (records - 1))
    error = np.sqrt(np.diag(bread @ meat @ bread))
    require_estimates(estimate, error, where)
    freedom = records - x.shape[1]
    reach = error * student.ppf((1 + level) / 2, freedom)
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = estimate / error
    return FittedRegression(
        terms=names,
        estimate=estimate,
        error=error,
        statistic=statistic,
        p=2 * student.sf(np.abs(statistic), freedom),
        low=estimate - reach,
        high=estimate + reach,
        records=records,
    )


def build_matrices(
    formula: Formula, prepared: Covariates, *, binary: bool = False
) -> dict[str, tuple[pd.DataFrame, pd.DataFrame]]:
    """Outcome and terms of both data sets, under aliases.

    What is learnt, is learnt from the original. Where released cells stand for several values, the
    terms are averaged over them; a binary outcome is drawn, since no average is 0 or 1.
    """
    first = build_terms(formula, prepared.original)
    draws = [
        build_terms_again(first.model_spec, frame)
        for frame in (prepared.released, *prepared.further)
    ]
    # What a cell stands for on average: regressing on it is regression calibration.
    outcome, terms = (
        draws[0][side] if len(draws) == 1 else sum(draw[side] for draw in draws) / len(draws)
        for side in ("lhs", "rhs")
    )
    released = (draws[0].lhs if binary else outcome, terms)
    return {"original": (first.lhs, first.rhs), "released": released}


def build_terms(formula: Formula, frame: pd.DataFrame) -> Any:
    """Outcome (`lhs`) and terms (`rhs`) of records under aliases, and how they are built again."""
    import formulaic

    with refuse_bad_formulas():
        return formulaic.Formula(formula.write_with_aliases()).get_model_matrix(
            frame, context=CONTEXT, na_action="ignore"
        )


def build_terms_again(spec: Any, frame: pd.DataFrame) -> Any:
    """The same outcome and terms of other records: the `model_spec` of the first says how."""
    with refuse_bad_formulas():
        return spec.get_model_matrix(frame, context=CONTEXT)


@contextmanager
def refuse_bad_formulas() -> Iterator[None]:
    """Say that a formula makes no terms, without the values over which it failed."""
    from formulaic.errors import FormulaicError

    try:
        with np.errstate(all="ignore"):
            yield
    except (FormulaicError, TypeError, ValueError, SyntaxError, AttributeError):
        raise MeasureError(
            "The formula cannot be turned into terms.",
            hint="do its functions get numbers, and are its brackets right?",
        ) from None


def estimate_original(
    outcome: pd.DataFrame, terms: pd.DataFrame, formula: Formula, family: Family
) -> tuple[Floats, Floats, Floats]:
    """The outcome, the terms and the coefficients of the model of one data set, the original."""
    where = SIDE_NAMES["original"]
    y, x = _check_outcome(outcome, formula, family, where), _check_terms(terms, formula, where)
    return y, x, np.asarray(_fit_model(y, x, family, where).params)


def _check_terms(terms: pd.DataFrame, formula: Formula, where: str) -> Floats:
    """The columns as numbers that can be estimated."""
    names = tuple(map(formula.name_column, terms.columns))
    x: Floats = terms.to_numpy(dtype=float)
    require_finite([_is_finite(column) for column in x.T], names, where)
    require_enough(len(x), names, where)
    size = np.sqrt((x * x).sum(axis=0))
    scaled = x / np.where(size > 0, size, 1.0)
    require_independent(factorise(scaled), names, where)
    return x


def _collect_results(results: Any, names: tuple[str, ...], *, level: float) -> FittedRegression:
    low, high = np.asarray(results.conf_int(alpha=1 - level)).T
    return FittedRegression(
        terms=names,
        estimate=np.asarray(results.params),
        error=np.asarray(results.bse),
        statistic=np.asarray(results.tvalues),
        p=np.asarray(results.pvalues),
        low=low,
        high=high,
        records=int(results.nobs),
    )


def _check_outcome(outcome: pd.DataFrame, formula: Formula, family: Family, where: str) -> Floats:
    """One column of numbers that the family can have."""
    require_one_outcome(outcome)
    y: Floats = outcome.to_numpy(dtype=float)[:, 0]
    names = (formula.name_column(outcome.columns[0]),)
    require_finite([_is_finite(y)], names, where)
    values = np.unique(y) if family == "logistic" else y
    require_family(values, family, where)
    return y


def require_one_outcome(outcome: pd.DataFrame) -> None:
    """Refuse an outcome of several columns."""
    if outcome.shape[1] != 1:
        raise MeasureError(
            "The outcome of the formula is a category, or more than one variable.",
            hint='a category of two levels can be the outcome of a "logistic" model.',
        )


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


def _fit_model(
    y: Floats, x: Floats, family: Family, where: str, *, weights: Floats | None = None
) -> Any:
    import statsmodels.api as sm

    with warnings.catch_warnings():
        # What they warn of is checked below, and fails.
        warnings.simplefilter("ignore")
        if family == "linear":
            model = sm.OLS(y, x) if weights is None else sm.WLS(y, x, weights=weights)
            results = model.fit()
        else:
            kind = sm.families.Binomial() if family == "logistic" else sm.families.Poisson()
            results = sm.GLM(y, x, family=kind, freq_weights=weights).fit(tol=TOLERANCE)
        error, estimate = np.asarray(results.bse), np.asarray(results.params)
        fitted = np.asarray(results.fittedvalues)
    if family == "linear":
        require_estimates(estimate, error, where)
        require_residuals(results.ssr, float(y @ y), where)
    else:
        ends = float(fitted.min()), float(fitted.max())
        certain = is_certain(ends, error * np.abs(x).max(axis=0), family)
        require_estimates(estimate, error, where, certain=certain, converged=results.converged)
    return results


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
