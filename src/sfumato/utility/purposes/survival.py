"""Survival curves and proportional hazards: what is estimated from times that may be cut off.

References: Kaplan & Meier (1958), J. Am. Stat. Assoc. 53:457; Greenwood (1926); Cox (1972), J. R.
Stat. Soc. B 34:187; ties as Breslow (1974), Biometrics 30:89.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Mask, Positions

_MOST_STEPS, _TOLERANCE = 50, 1e-9


@dataclass(frozen=True, eq=False)
class SurvivalCurve:
    """The estimated share that is without the event, at some times, and its standard error."""

    share: Floats
    error: Floats


def estimate_survival(time: Floats, event: Mask, at: Floats) -> SurvivalCurve:
    """Kaplan and Meier's estimate at some times, with Greenwood's standard error.

    Examples
    --------
    >>> curve = estimate_survival(np.array([1.0, 2, 3, 4]), np.array([1, 0, 1, 1]) > 0,
    ...                           np.array([1.0, 3.5]))
    >>> curve.share.tolist()
    [0.75, 0.375]
    """
    times, position = np.unique(time, return_inverse=True)
    events = np.bincount(position, weights=event.astype(float))
    at_risk = len(time) - np.append(0, np.cumsum(np.bincount(position)))[:-1]
    shares = np.cumprod(1 - events / at_risk)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(events > 0, events / (at_risk * (at_risk - events)), 0.0)
    spread = np.cumsum(terms)
    last = np.searchsorted(times, at, side="right") - 1
    share = np.where(last >= 0, shares[last], 1.0)
    with np.errstate(invalid="ignore"):
        error = np.where(last >= 0, share * np.sqrt(spread[last]), 0.0)
    return SurvivalCurve(share, np.nan_to_num(error, posinf=0.0))


@dataclass(frozen=True, eq=False)
class HazardModel:
    """Log hazard ratios of a proportional hazards model, and their standard errors."""

    estimate: Floats
    error: Floats


def fit_hazards(time: Floats, event: Mask, terms: Floats) -> HazardModel:
    """Cox's partial likelihood by Newton's method; fails where it has no maximum.

    Parameters
    ----------
    time, event : of each record, and whether it ended with the event.
    terms : the columns of the model, without an intercept.
    """
    if not event.any():
        raise MeasureError("Nobody has the event.", hint="is it coded 1, and 0 for none?")
    order = np.argsort(-time, kind="stable")  # the set at risk grows from the longest time on
    time, event = time[order], event[order]
    centre, scale = terms.mean(axis=0), terms.std(axis=0)
    if not (scale > 0).all():
        raise MeasureError("A term has one value only.", hint="leave it out of the model.")
    x = ((terms - centre) / scale)[order]
    # Of records with the same time, all are at risk: sums end with the last of them.
    last = np.searchsorted(-time, -time, side="right") - 1
    beta = np.zeros(x.shape[1])
    for _ in range(_MOST_STEPS):
        gradient, information = _differentiate(x, event, last, beta)
        step = np.linalg.solve(information, gradient)
        beta += step
        if np.abs(beta).max() > 1 / _TOLERANCE:
            break
        if np.abs(step).max() < _TOLERANCE:
            error = np.sqrt(np.diag(np.linalg.inv(information)))
            return HazardModel(beta / scale, error / scale)
    raise MeasureError("The hazards have no estimate.", hint="leave out terms with rare levels.")


def _differentiate(x: Floats, event: Mask, last: Positions, beta: Floats) -> tuple[Floats, Floats]:
    """Gradient and information of the log partial likelihood."""
    weight = np.exp(np.clip(x @ beta, -50, 50))
    total = np.cumsum(weight)[last][event]
    means = np.cumsum(weight[:, None] * x, axis=0)[last][event] / total[:, None]
    gradient = (x[event] - means).sum(axis=0)
    p = x.shape[1]
    information = np.zeros((p, p))
    for i in range(p):
        for j in range(i, p):
            second = np.cumsum(weight * x[:, i] * x[:, j])[last][event] / total
            information[i, j] = information[j, i] = (second - means[:, i] * means[:, j]).sum()
    return gradient, information
