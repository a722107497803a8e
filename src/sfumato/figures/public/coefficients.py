"""The coefficients of a model, and on how many records each rests."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from sfumato.errors import DataError, SfumatoError, did_you_mean
from sfumato.figures.public.model_outcomes import leverage_of, outcomes_of, support_of
from sfumato.io import frames
from sfumato.kernels.arrays import Floats

NEEDED = ("term", "estimate", "low", "high")
_INTERCEPTS = {"intercept", "const", "(intercept)"}
_DIGITS = 2
"""Digits of the half-width of the interval that an estimate is rounded to."""
_HAIR = 1e-9


@dataclass(frozen=True)
class Term:
    """One coefficient; `records` is None where nobody knows on how many it rests."""

    name: str
    estimate: float
    low: float
    high: float
    records: int | None = None

    @property
    def intercept(self) -> bool:
        """Whether it is the constant of the model."""
        return self.name.casefold() in _INTERCEPTS

    @property
    def known(self) -> bool:
        """Whether all three numbers are there."""
        return all(map(math.isfinite, (self.estimate, self.low, self.high)))

    def rounded(self) -> Term:
        """As many digits as the interval warrants: more would only help to work records out."""
        half = (self.high - self.low) / 2
        if not (half > 0 and math.isfinite(half)):
            return self
        digits = _DIGITS - 1 - math.floor(math.log10(half))
        estimate, low, high = (
            round(one, digits) + 0.0 for one in (self.estimate, self.low, self.high)
        )
        return Term(self.name, estimate, low, high, self.records)


@dataclass(frozen=True)
class Coefficients:
    """All terms of a model; how many records and parameters it has, where known."""

    terms: tuple[Term, ...]
    records: int | None = None
    parameters: int | None = None
    level: float | None = None
    leverage: Floats | None = field(default=None, repr=False)

    def carried(self, k: int) -> Literal["", "partly", "wholly"]:
        """Whether fewer than k records carry a part of the model by themselves.

        Each of m records that have a parameter of their own (a rare level, the reference level
        too) has a leverage of at least 1/m, and together they have at least 1.
        """
        if self.leverage is None:
            return ""
        strong = self.leverage[self.leverage >= 1 / (k - 1) - _HAIR]
        if not len(strong):
            return ""
        return "wholly" if math.fsum(strong) >= 1 - _HAIR else "partly"


def coefficients_of(model: Any, data: Any = None, *, level: float = 0.95) -> Coefficients:
    """The coefficients of results of statsmodels, of a LinearRegression, an `sf.Fit` or a frame.

    Parameters
    ----------
    model : what was fitted, or a frame with term, estimate, low and high (and perhaps records).
    data : (X, y), for scikit-learn only.
    level : of the intervals, where they are worked out here.

    Examples
    --------
    >>> import polars as pl
    >>> frame = pl.DataFrame({"term": ["age"], "estimate": [1.0], "low": [0.5], "high": [1.5]})
    >>> coefficients_of(frame).terms
    (Term(name='age', estimate=1.0, low=0.5, high=1.5, records=None),)
    """
    if hasattr(model, "rows") and hasattr(model, "terms") and hasattr(model, "records"):
        return _of_fit(model)
    if hasattr(model, "conf_int") and hasattr(model, "params"):
        return _of_statsmodels(model, level)
    if hasattr(model, "predict"):
        return _of_sklearn(model, data, level)
    if hasattr(model, "columns"):
        return _of_frame(model)
    raise SfumatoError(
        "This is no model whose coefficients could be drawn.",
        hint="pass results of statsmodels, a LinearRegression with data=(X, y), an sf.Fit, or a "
        "frame with the columns 'term', 'estimate', 'low' and 'high'.",
    )


def _of_fit(fit: Any) -> Coefficients:
    known = set(fit.terms)
    terms = tuple(
        Term(str(row["term"]), float(row["mean"]), float(row["low"]), float(row["high"]))
        for row in fit.rows
        if row["term"] in known
    )
    return Coefficients(terms, int(fit.records), len(fit.parameters), float(fit.level))


def _of_statsmodels(results: Any, level: float) -> Coefficients:
    estimates = np.asarray(results.params, np.float64)
    if estimates.ndim != 1:
        raise SfumatoError(
            "A model of several outcomes has no single forest.",
            hint="pass a frame with the columns 'term', 'estimate', 'low' and 'high'.",
        )
    ends = np.asarray(results.conf_int(alpha=1 - level), np.float64)
    model = results.model
    listed = getattr(getattr(results, "params", None), "index", None)
    names = [str(one) for one in (listed if listed is not None else model.exog_names)]
    design = np.asarray(model.exog, np.float64)
    exog = [str(one) for one in model.exog_names]
    support = support_of(design, exog) if design.ndim == 2 else {}  # noqa: PLR2004 - a matrix
    terms = tuple(
        Term(name, float(value), float(low), float(high), support.get(name))
        for name, value, (low, high) in zip(names, estimates, ends, strict=False)
    )
    if not support:
        return Coefficients(terms, len(design), None, level)
    pulls, rank = leverage_of(design)
    return Coefficients(terms, len(design), rank, level, pulls)


def _of_sklearn(model: Any, data: Any, level: float) -> Coefficients:
    from scipy.special import stdtrit

    from sfumato.figures.public.model_outcomes import design_of

    told = outcomes_of(model, data)
    found = design_of(model, data[0]) if told.parameters else None
    if found is None or told.parameters is None:
        raise SfumatoError(
            "Intervals are known for a LinearRegression only.",
            hint="pass a frame with the columns 'term', 'estimate', 'low' and 'high'.",
        )
    design, names = found
    freedom = max(len(design) - told.parameters, 1)
    residual = told.frame["residual"].to_numpy()
    inverse = np.linalg.pinv(design.T @ design)
    errors = np.sqrt(np.diag(inverse) * (residual**2).sum() / freedom)
    last = model[-1] if hasattr(model, "steps") else model
    values = np.append(last.intercept_, last.coef_) if last.fit_intercept else last.coef_
    wide = float(stdtrit(freedom, 0.5 + level / 2))
    terms = tuple(
        Term(name, float(value), float(value - wide * error), float(value + wide * error),
             told.support.get(name))
        for name, value, error in zip(names, np.ravel(values), errors, strict=True)
    )  # fmt: skip
    return Coefficients(terms, len(design), told.parameters, level, leverage_of(design)[0])


def _of_frame(frame: Any) -> Coefficients:
    known = list(frames.wrap(frame).columns)
    for name in NEEDED:
        if name not in known:
            raise DataError(
                f"A forest plot needs a column '{name}'.", hint=did_you_mean(name, known)
            )
    numbers = {}
    for name in (*NEEDED[1:], *(one for one in ("records",) if one in known)):
        values = frames.column(frame, name)
        if not values.dtype.is_numeric():
            raise DataError(f"Column '{name}' of a forest plot must hold numbers.")
        numbers[name] = [math.nan if one is None else float(one) for one in values]
    terms = []
    for at, name in enumerate(frames.column(frame, "term").to_list()):
        counted = numbers.get("records")
        records = None if counted is None or math.isnan(counted[at]) else int(counted[at])
        estimate, low, high = (numbers[part][at] for part in NEEDED[1:])
        terms.append(Term(str(name), estimate, low, high, records))
    return Coefficients(tuple(terms))
