"""A linear model whose residuals, quantiles, leverage or estimates a figure shows."""

from __future__ import annotations

from typing import Any

from sfumato.data import Dataset
from sfumato.errors import PlanError


def fit_model(data: Dataset, formula: str) -> Any:
    """A linear model of the original; its records stay inside."""
    from statsmodels.formula.api import ols

    frame = data.batch(data.columns).to_pandas()
    try:
        return ols(formula, frame).fit()
    except Exception:  # noqa: BLE001 - their texts may quote cells
        raise PlanError(
            "The model cannot be fitted to these data.",
            hint="write it as 'outcome ~ variable + variable', with numbers as the outcome.",
        ) from None
