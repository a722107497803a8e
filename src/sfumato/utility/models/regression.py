"""The same regression on two data sets: the same terms, levels and reference levels."""

from __future__ import annotations

import warnings
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
    original: Dataset, released: Dataset, formula: Formula, family: Family, *, level: float
) -> RegressionPair:
    """Fit a formula to the complete records of both data sets; fail where that is impossible."""
    prepared = align_covariates(original, released, formula, binary=family == "logistic")
    regressions = {}
    binary = family == "logistic"
    for side, (outcome, terms) in build_matrices(formula, prepared, binary=binary).items():
        where = SIDE_NAMES[side]
        x = _check_terms(terms, formula, where)
        results = _fit_model(_check_outcome(outcome, formula, family, where), x, family, where)
        names = tuple(formula.name_column(column, prepared.labels) for column in terms.columns)
        regressions[side] = _collect_results(results, names, level=level)
    return RegressionPair(**regressions)


def build_matrices(
    formula: Formula, prepared: Covariates, *, binary: bool = False
) -> dict[str, tuple[pd.DataFrame, pd.DataFrame]]:
    """Outcome and terms of both data sets, under aliases.

    What is learnt, is learnt from the original. Where released cells stand for several values, the
    terms are averaged over them; a binary outcome is drawn, since no average is 0 or 1.
    """
    import formulaic
    from formulaic.errors import FormulaicError

    # The only names a formula can reach besides the variables and what formulaic offers.
    context = {"sqrt": np.sqrt}
    try:
        with np.errstate(all="ignore"):
            first = formulaic.Formula(formula.write_with_aliases()).get_model_matrix(
                prepared.original, context=context, na_action="ignore"
            )
            draws = [
                first.model_spec.get_model_matrix(frame, context=context)
                for frame in (prepared.released, *prepared.further)
            ]
    except (FormulaicError, TypeError, ValueError, SyntaxError, AttributeError):
        raise MeasureError(
            "The formula cannot be turned into terms.",
            hint="do its functions get numbers, and do its brackets hold what they should?",
        ) from None
    # What a cell stands for on average: regressing on it is regression calibration.
    outcome, terms = (
        draws[0][side] if len(draws) == 1 else sum(draw[side] for draw in draws) / len(draws)
        for side in ("lhs", "rhs")
    )
    released = (draws[0].lhs if binary else outcome, terms)
    return {"original": (first.lhs, first.rhs), "released": released}


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
    _require_finite(x, names, where)
    _require_estimable(x, names, where)
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
    if outcome.shape[1] != 1:
        raise MeasureError(
            "The outcome of the formula is a category, or more than one variable.",
            hint='a category of two levels can be the outcome of a "logistic" model.',
        )
    y: Floats = outcome.to_numpy(dtype=float)[:, 0]
    _require_finite(y[:, None], (formula.name_column(outcome.columns[0]),), where)
    if family == "logistic" and set(np.unique(y)) != {0.0, 1.0}:
        raise MeasureError(
            f"The outcome of a logistic model must be 0 or 1, and both must occur in {where}.",
            hint='choose another outcome, or family = "linear".',
        )
    if family == "poisson" and not (y.min() >= 0 < y.max()):
        raise MeasureError(
            f"The outcome of a Poisson model must be counts, 0 or more, in {where}.",
            hint='choose another outcome, or family = "linear".',
        )
    return y


def _require_finite(values: Floats, names: tuple[str, ...], where: str) -> None:
    wrong = [name for name, column in zip(names, values.T, strict=True) if not _is_finite(column)]
    if wrong:
        raise MeasureError(
            f"These terms have no finite value for some records of {where}: {_join_names(wrong)}.",
            hint="a logarithm or root takes positive numbers only.",
        )


def _join_names(names: list[str]) -> str:
    return ", ".join(dict.fromkeys(names))  # levels of one variable have its name


def _is_finite(values: Floats) -> bool:
    return bool(np.isfinite(values).all())


def _require_estimable(x: Floats, names: tuple[str, ...], where: str) -> None:
    """Fail when there are too few records, or a term is a combination of those before it."""
    if not names:
        raise MeasureError("The formula has no term.", hint="add one, as in 'y ~ x'.")
    if len(x) <= len(names):
        raise MeasureError(
            f"There are {len(x)} complete records in {where} for {len(names)} terms.",
            hint="leave some terms out of the formula.",
        )
    size = np.sqrt((x * x).sum(axis=0))
    scaled = x / np.where(size > 0, size, 1.0)
    # The diagonal of R: what is left of each column, given those before it.
    lengths = np.abs(np.diag(np.linalg.qr(scaled, mode="r")))
    wrong = [name for name, length in zip(names, lengths, strict=True) if length < _COLLINEAR]
    if wrong:
        raise MeasureError(
            f"These terms say nothing that the others do not say, in {where}: "
            f"{_join_names(wrong)}.",
            hint="leave them out of the formula.",
        )


def _fit_model(y: Floats, x: Floats, family: Family, where: str) -> Any:
    import statsmodels.api as sm

    with warnings.catch_warnings():
        # What they warn of is checked below, and fails.
        warnings.simplefilter("ignore")
        if family == "linear":
            results = sm.OLS(y, x).fit()
            certain = False
        else:
            kind = sm.families.Binomial() if family == "logistic" else sm.families.Poisson()
            results = sm.GLM(y, x, family=kind).fit(tol=1e-10)
            certain = _is_certain(results, x, family)
        error, estimate = np.asarray(results.bse), np.asarray(results.params)
    if certain:
        raise MeasureError(
            f"The terms predict the outcome of some records of {where} with certainty, so the "
            "model has no finite estimates.",
            hint="leave out the term that does, or join rare levels.",
        )
    if not (_is_finite(error) and _is_finite(estimate)) or not getattr(results, "converged", True):
        raise MeasureError(
            f"The model does not converge in {where}.", hint="leave some terms out of the formula."
        )
    if family == "linear" and results.ssr <= _EXACT * float(y @ y):
        raise MeasureError(
            f"The model fits {where} exactly, so there is no error to count a change in.",
            hint="is the outcome computed from the terms?",
        )
    return results


def _is_certain(results: Any, x: Floats, family: Family) -> bool:
    """Whether a fitted value runs to its end, and drags an estimate with it."""
    fitted = np.asarray(results.mu)
    at_limit = fitted.min() < _CERTAIN or (family == "logistic" and fitted.max() > 1 - _CERTAIN)
    return bool(at_limit and (np.asarray(results.bse) * np.abs(x).max(axis=0)).max() > _HUGE)
