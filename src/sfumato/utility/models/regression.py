"""The same regression on two data sets: the same terms, levels and reference levels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats
from sfumato.utility.models.covariates import SIDE_NAMES, Covariates, align_covariates
from sfumato.utility.models.fitting import (
    BLOCK,
    Block,
    Family,
    FittedRegression,
    RegressionFit,
    Solution,
    Weighing,
    require_estimates,
)
from sfumato.utility.models.formula import Formula

if TYPE_CHECKING:
    import pandas as pd

CONTEXT = {"sqrt": np.sqrt}
"""The only names a formula can reach besides the variables and what formulaic offers."""


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
        names = tuple(formula.name_column(column, prepared.labels) for column in terms.columns)
        if weight is None:
            _, solution = _fit_arrays(outcome, terms, formula, family, side)
            regressions[side] = solution.show(names, level=level)
        else:
            known = [*formula.variables, weight]
            frame = prepared.original if side == "original" else prepared.released
            weights = frame[f"v{known.index(weight)}"].to_numpy(dtype=float)
            require_weights(weights, weight, SIDE_NAMES[side])
            # Such that they add up to the number of records.
            mean = weights / weights.mean()
            (y, x, _), solution = _fit_arrays(outcome, terms, formula, family, side, mean)
            regressions[side] = _linearise(
                (y, x, mean), solution.estimate, family, SIDE_NAMES[side], names, level=level
            )
    return RegressionPair(**regressions)


def require_weights(weights: Floats, name: str, where: str) -> None:
    """Refuse weights that stand for nobody."""
    if not (np.isfinite(weights).all() and weights.min() >= 0 and weights.max() > 0):
        raise MeasureError(
            f"Variable '{name}' is no weight in {where}: weights are 0 or more, and not all 0.",
            hint="name a survey weight.",
        )


def _fit_arrays(
    outcome: pd.DataFrame,
    terms: pd.DataFrame,
    formula: Formula,
    family: Family,
    side: str,
    weights: Floats | None = None,
) -> tuple[Block, Solution]:
    """Outcome and terms of one data set, and the model fitted to them."""
    require_one_outcome(outcome)
    y, x = outcome.to_numpy(dtype=float)[:, 0], terms.to_numpy(dtype=float)
    names = tuple(map(formula.name_column, (*terms.columns, *outcome.columns)))
    # A block at a time stays in a processor's cache.
    cuts = [slice(start, start + BLOCK) for start in range(0, len(y), BLOCK)]
    blocks = [(y[cut], x[cut], None if weights is None else weights[cut]) for cut in cuts]
    fit = RegressionFit(lambda look: [look(blocks)], family, SIDE_NAMES[side], len(y), names)
    return (y, x, weights), fit.run()


def _linearise(
    block: tuple[Floats, Floats, Floats],
    estimate: Floats,
    family: Family,
    where: str,
    names: tuple[str, ...],
    *,
    level: float,
) -> FittedRegression:
    """Estimates of weighted records, with the linearised variance of one stage with replacement.

    V = A⁻¹ B A⁻¹ with A = Σ w v x xᵀ and B = n / (n - 1) Σ u uᵀ for the scores u = w (y - μ) x; v
    is the variance that the family gives to the fitted value μ.

    References: Binder (1983), On the variances of asymptotically normal estimators from complex
    surveys, Int. Stat. Rev. 51:279. The same as `svyglm` of the R package survey.
    """
    from scipy.stats import t as student

    y, x, weights = block
    fitted, spread = Weighing(family, beta=estimate).predict(y, x)
    bread = np.linalg.inv((x * (weights * spread)[:, None]).T @ x)
    scores = x * (weights * (y - fitted))[:, None]
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
    (y, x, _), solution = _fit_arrays(outcome, terms, formula, family, "original")
    return y, x, solution.estimate


def require_one_outcome(outcome: pd.DataFrame) -> None:
    """Refuse an outcome of several columns."""
    if outcome.shape[1] != 1:
        raise MeasureError(
            "The outcome of the formula is a category, or more than one variable.",
            hint='a category of two levels can be the outcome of a "logistic" model.',
        )
