"""What a fitted model says of each record: the raw material of diagnostic plots, inside only.

The model is taken as it was fitted to the original. Its outcomes are protected afterwards; it is
never fitted again to protected data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.errors import DataError, SfumatoError, did_you_mean
from sfumato.io import frames
from sfumato.kernels.arrays import Floats
from sfumato.outputs.judged import OutputRefused

NEEDED = ("fitted", "residual")
COLUMNS = (*NEEDED, "standardised", "leverage")
_ITSELF = 1 - 1e-10
"""A record of higher leverage is fitted by itself alone: its residual says nothing."""
_DIRECTION = 1e-10


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcomes:
    """Fitted values and residuals of one model, a row per record.

    Parameters
    ----------
    frame : `fitted`, `residual`, `standardised` (residual by its own standard error where the
        leverage is known, by the SD of all residuals elsewhere), `leverage` and `cook`; the last
        two are missing where the model does not tell them.
    parameters : how many the model has; None where nobody knows.
    support : by term, on how many records it rests; empty where the design is not known.
    outcome : the name of what was modelled, where known.
    """

    frame: pl.DataFrame = field(repr=False)
    parameters: int | None = None
    support: Mapping[str, int] = field(default_factory=dict, repr=False)
    outcome: str = ""

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def has_leverage(self) -> bool:
        """Whether the leverage is known."""
        return self.frame["leverage"].null_count() < len(self.frame)


def outcomes_of(model: Any, data: Any = None) -> Outcomes:
    """Fitted values, residuals, leverage and Cook's distance of whatever was fitted.

    Parameters
    ----------
    model : results of statsmodels (OLS, WLS, GLM), a fitted regressor or pipeline of
        scikit-learn, an `sf.Fit`, or a frame with the columns `fitted` and `residual`, and
        perhaps `standardised` and `leverage`.
    data : the pair (X, y), for scikit-learn only: its models do not keep their data.

    Examples
    --------
    >>> frame = pl.DataFrame({"fitted": [1.0, 2, 3, 4], "residual": [0.5, -0.5, -0.5, 0.5]})
    >>> outcomes_of(frame).frame["standardised"].round(3).to_list()
    [0.866, -0.866, -0.866, 0.866]
    """
    if hasattr(model, "diagnostics_frame"):
        made = _of_frame(model.diagnostics_frame())
        terms = len(getattr(model, "terms", ())) or made.parameters
        return _complete(made.frame, terms, outcome=_left_of(getattr(model, "formula", "")))
    if _is_statsmodels(model):
        return _of_statsmodels(model)
    if hasattr(model, "predict"):
        return _of_sklearn(model, data)
    if hasattr(model, "columns"):
        return _of_frame(model)
    raise SfumatoError(
        "These are no outcomes of a model.",
        hint="pass results of statsmodels, a scikit-learn regressor with data=(X, y), an sf.Fit, "
        "or a frame with the columns 'fitted' and 'residual'.",
    )


def records_of(model: Any, data: Any = None) -> Dataset | None:
    """The records that a model was fitted to, where somebody passed them or the model keeps them.

    They tell who is who: noise follows the record, and the log knows the population.
    """
    owner = data[0] if isinstance(data, (tuple, list)) else data
    if owner is None and _is_statsmodels(model):
        owner = getattr(getattr(model.model, "data", None), "frame", None)
        if owner is None:
            design = {f"x{at}": one for at, one in enumerate(np.asarray(model.model.exog).T)}
            return Dataset(pl.DataFrame({"y": np.asarray(model.model.endog), **design}))
    if owner is None:
        owner = getattr(model, "data", None)
    if isinstance(owner, Dataset):
        return owner
    return Dataset(owner) if hasattr(owner, "columns") else None


def support_of(design: Floats, names: list[str]) -> dict[str, int]:
    """On how many records each column of a design rests: those that have not its commonest value.

    Examples
    --------
    >>> support_of(np.array([[1.0, 0], [1, 0], [1, 1]]), ["Intercept", "rare"])
    {'Intercept': 3, 'rare': 1}
    """
    made = {}
    for name, column in zip(names, design.T, strict=True):
        counts = np.unique(column, return_counts=True)[1]
        # A constant column is the intercept: it rests on all of them.
        made[name] = len(column) if len(counts) == 1 else int(len(column) - counts.max())
    return made


def leverage_of(design: Floats) -> tuple[Floats, int]:
    """The leverage of each record in a (weighted) design, and how many directions it has."""
    sizes = np.linalg.norm(design, axis=0)
    left, values, _ = np.linalg.svd(design / np.where(sizes > 0, sizes, 1.0), full_matrices=False)
    rank = int((values > _DIRECTION * values.max(initial=0)).sum())
    return np.asarray((left[:, :rank] ** 2).sum(axis=1)), rank


def _is_statsmodels(model: Any) -> bool:
    return hasattr(model, "model") and hasattr(model.model, "exog") and hasattr(model, "params")


def _of_statsmodels(results: Any) -> Outcomes:
    model = results.model
    design = np.asarray(model.exog, np.float64)
    fitted = np.asarray(results.fittedvalues, np.float64)
    if hasattr(model, "family"):
        weights = np.asarray(model.iweights * model.n_trials * model.family.weights(fitted))
        residual = np.asarray(results.resid_pearson, np.float64)
    elif hasattr(results, "wresid"):
        weights = np.broadcast_to(np.asarray(getattr(model, "weights", 1.0)), fitted.shape)
        if weights.ndim != 1:
            raise _unknown("a model of correlated errors")
        residual = np.asarray(results.wresid, np.float64)
    else:
        raise _unknown(f"results of '{type(model).__name__}'")
    if fitted.shape != (len(design),):
        raise _unknown("a model of several outcomes")
    names = [str(name) for name in model.exog_names]
    leverage, rank = leverage_of(np.sqrt(weights)[:, None] * design)
    _not_saturated(len(fitted), rank)
    return _measured(
        fitted, residual, leverage, rank, scale=float(results.scale),
        support=support_of(design, names), outcome=str(model.endog_names),
    )  # fmt: skip


def _of_sklearn(model: Any, data: Any) -> Outcomes:
    if not (isinstance(data, (tuple, list)) and len(data) == 2):  # noqa: PLR2004 - X and y
        raise SfumatoError(
            "A model of scikit-learn does not keep its data.", hint="pass data=(X, y)."
        )
    if hasattr(model, "predict_proba") or hasattr(model, "classes_"):
        raise _unknown("a classifier")
    table, outcome = data
    fitted = np.asarray(model.predict(table), np.float64)
    observed = np.asarray(outcome, np.float64)
    if observed.shape != fitted.shape and observed.size == fitted.size:
        observed = observed.reshape(fitted.shape)
    if fitted.ndim == 2 and fitted.shape[1] == 1:  # noqa: PLR2004 - y was a column
        fitted, observed = fitted.ravel(), observed.ravel()
    if fitted.ndim != 1 or observed.shape != fitted.shape:
        raise _unknown("a model of several outcomes")
    residual, name = observed - fitted, str(getattr(outcome, "name", "") or "")
    found = design_of(model, table)
    if found is None:
        made = {"fitted": fitted, "residual": residual}
        return _complete(pl.DataFrame(made), None, outcome=name)
    design, names = found
    leverage, rank = leverage_of(design)
    _not_saturated(len(fitted), rank)
    scale = float((residual**2).sum()) / (len(fitted) - rank)
    return _measured(
        fitted, residual, leverage, rank, scale=scale, support=support_of(design, names),
        outcome=name,
    )  # fmt: skip


def design_of(model: Any, table: Any) -> tuple[Floats, list[str]] | None:
    """The columns that a LinearRegression, perhaps at the end of a pipeline, was fitted to.

    None for any other model: what a record pulls there is not known.
    """
    last = model[-1] if hasattr(model, "steps") else model
    if type(last).__name__ != "LinearRegression" or getattr(last, "positive", False):
        return None
    inner = model[:-1].transform(table) if hasattr(model, "steps") and len(model) > 1 else table
    if hasattr(inner, "toarray"):
        inner = inner.toarray()
    columns = list(getattr(inner, "columns", ()))
    design = np.asarray(inner, np.float64)
    if not columns and hasattr(model, "steps") and len(model) > 1:
        named = getattr(model[:-1], "get_feature_names_out", None)
        columns = list(named()) if named is not None else []
    names = [str(one) for one in columns] or [f"x{at + 1}" for at in range(design.shape[1])]
    if last.fit_intercept:
        design = np.column_stack([np.ones(len(design)), design])
        names = ["Intercept", *names]
    return design, names


def _of_frame(frame: Any) -> Outcomes:
    known = list(frames.wrap(frame).columns)
    for name in NEEDED:
        if name not in known:
            raise DataError(
                f"The outcomes of a model need a column '{name}'.", hint=did_you_mean(name, known)
            )
    made = {}
    for name in COLUMNS:
        if name in known:
            values = frames.column(frame, name)
            if not values.dtype.is_numeric():
                raise DataError(f"Variable '{name}' must hold numbers.")
            made[name] = values.cast(pl.Float64)
    table = pl.DataFrame(made)
    parameters = None
    if "leverage" in made and made["leverage"].null_count() == 0:
        # The leverages of all records add up to the number of parameters.
        parameters = round(float(np.sort(made["leverage"].to_numpy()).sum())) or None
    return _complete(table, parameters)


def _not_saturated(records: int, parameters: int) -> None:
    if records <= parameters:
        raise OutputRefused(
            "The model has as many parameters as records: it repeats the data.",
            hint="a saturated model shows single records; fit a smaller one.",
        )


def _measured(
    fitted: Floats, residual: Floats, leverage: Floats, rank: int, *, scale: float, **about: Any
) -> Outcomes:
    with np.errstate(divide="ignore", invalid="ignore"):
        free = np.where(leverage < _ITSELF, 1 - leverage, np.nan)
        standardised = residual / np.sqrt(scale * free)
    made = {
        "fitted": fitted, "residual": residual, "standardised": standardised,
        "leverage": leverage,
    }  # fmt: skip
    return _complete(pl.DataFrame(made, nan_to_null=True), rank, **about)


def _complete(frame: pl.DataFrame, parameters: int | None, **about: Any) -> Outcomes:
    """Add what can be worked out from the rest."""
    if "standardised" not in frame.columns:
        spread = frame["residual"].sort().std()
        if not spread:
            raise DataError("All residuals are the same: there is nothing to look at.")
        frame = frame.with_columns(standardised=pl.col("residual") / float(spread))  # type: ignore[arg-type]
    if "leverage" not in frame.columns:
        frame = frame.with_columns(leverage=pl.lit(None, pl.Float64))
    free = 1 - pl.col("leverage")
    cook = pl.col("standardised") ** 2 * pl.col("leverage") / free / (parameters or 1)
    told = pl.when(free > 1 - _ITSELF).then(cook) if parameters else pl.lit(None, pl.Float64)
    made = frame.with_columns(told.alias("cook")).select(*COLUMNS, "cook")
    return Outcomes(frame=made, parameters=parameters, **about)


def _left_of(formula: str) -> str:
    return formula.partition("~")[0].strip() if "~" in formula else ""


def _unknown(what: str) -> SfumatoError:
    return SfumatoError(
        f"Residuals of {what} cannot be taken from it.",
        hint="pass a frame with the columns 'fitted' and 'residual'.",
    )
