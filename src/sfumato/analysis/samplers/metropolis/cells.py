"""Latent values that are known up to a cell: draws from a mixture of normals within its ends.

Given everything else, a true value has the density of the covariate model times the likelihood of
the outcome, and is cut off at the ends of its cell. Where the outcome is normal and the predictor
linear, that is a mixture of normals again, and a value is drawn from it by inversion. Else a few
candidates are drawn from the covariate model within the cell, the present value is put among them,
and one is taken with probability proportional to target over proposal. This leaves the target as it
is whatever the number of candidates (iterated sampling importance resampling: Tjelmeland 2004;
Andrieu, Doucet & Holenstein 2010, J. Royal Statistical Society B 72:269).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sfumato.analysis.samplers.metropolis.coefficients import Generator, draw_category
from sfumato.analysis.samplers.metropolis.covariates import RecordMixture
from sfumato.analysis.samplers.metropolis.likelihood import log_normal_interval
from sfumato.kernels.arrays import Floats, Integers, Mask

if TYPE_CHECKING:
    from sfumato.analysis.problem import GeneralisedNumber
    from sfumato.analysis.samplers.metropolis.latent import LatentTarget

_CANDIDATES, _GOOD_CANDIDATES = 6, 3
"""New candidates for each value, where it cannot be drawn at once; of a proposal that knows y."""
_UNINFORMATIVE = 1e10
"""An outcome says nothing of a value, if it does so with this many times the value's variance."""


class CellMixture:
    """A mixture of normals for each record, cut off at the ends of its cell.

    Parameters
    ----------
    mixture : before it is cut off.
    lower, upper : the ends.
    """

    def __init__(self, mixture: RecordMixture, lower: Floats, upper: Floats) -> None:
        self.mixture, self.lower, self.upper = mixture, lower, upper
        self.sd = np.sqrt(mixture.variances)
        self.a = (lower - mixture.centres) / self.sd
        self.b = (upper - mixture.centres) / self.sd
        # log share of each component within the cell; `logs` are those of densities.
        self.log_masses = mixture.logs + np.log(self.sd) + log_normal_interval(self.a, self.b)

    def draw(self, rng: Generator) -> Floats:
        """A value for each record, within its cell; that of a cell without width is its end."""
        count = self.a.shape[1]
        component = draw_category(np.maximum(self.log_masses, -1e300), rng)
        rows = np.arange(count)
        z = draw_between(self.a[component, rows], self.b[component, rows], rng)
        values = self.mixture.centres[component, rows] + self.sd[component, rows] * z
        return np.clip(values, self.lower, self.upper)


def draw_between(a: Floats, b: Floats, rng: Generator) -> Floats:
    """Standard normal draws between two limits, by inversion on the log scale, in either tail."""
    from scipy.special import log_ndtr, ndtri_exp

    # In the lower tail nothing cancels.
    sign = np.where(a > 0, -1.0, 1.0)
    a, b = np.where(a > 0, -b, a), np.where(a > 0, -a, b)
    share = rng.uniform(size=len(a))
    with np.errstate(divide="ignore"):
        log = np.logaddexp(log_ndtr(a) + np.log1p(-share), log_ndtr(b) + np.log(share))
    # Rounding may lift the log of a probability above 0.
    z: Floats = sign * ndtri_exp(np.minimum(log, -1e-17))
    return z


class CellEnds(NamedTuple):
    """Between which values each record may move, given where the others of its class are."""

    lower: Floats
    upper: Floats


def restrict_to_tight_ranges(
    number: GeneralisedNumber, present: Floats, rng: Generator
) -> CellEnds:
    """The ends within which values may be drawn, so that somebody stays near each end of a range.

    In each class the records are put into a random order. The first that is near an end now must
    stay near it, and those before it must not come near; all others are free. For a given order
    these cases exclude each other and make up all that is possible, so that values can be drawn
    independently of each other, given the case; and the order is drawn anew each time.
    """
    lower, upper, classes = number.lower, number.upper, number.classes
    low_near, high_near = number.near_lower, number.near_upper
    if classes is None or low_near is None or high_near is None:
        return CellEnds(lower, upper)
    bound = classes >= 0
    order = rng.uniform(size=len(classes))
    stays, precedes = _find_first(bound & (present <= low_near), classes, order)
    upper = np.where(stays, np.minimum(upper, low_near), upper)
    lower = np.where(precedes, np.maximum(lower, low_near), lower)
    stays, precedes = _find_first(bound & (present >= high_near), classes, order)
    lower = np.where(stays, np.maximum(lower, high_near), lower)
    upper = np.where(precedes, np.minimum(upper, high_near), upper)
    return CellEnds(lower, upper)


def _find_first(is_near: Mask, classes: Integers, order: Floats) -> tuple[Mask, Mask]:
    """Which record of each class is the first that is near, and which come before it."""
    bound = classes >= 0
    first = np.full(int(classes.max(initial=0)) + 1, np.inf)
    np.minimum.at(first, classes[is_near], order[is_near])
    of_record = np.where(bound, first[classes], -np.inf)
    return is_near & (order == of_record), bound & (order < of_record)


def draw_evenly(number: GeneralisedNumber, otherwise: Floats, rng: Generator) -> Floats:
    """Values anywhere in their cells; where a cell has no end, other values."""
    finite = np.isfinite(number.lower) & np.isfinite(number.upper)
    share = rng.uniform(size=len(finite))
    with np.errstate(invalid="ignore"):
        values = number.lower + share * (number.upper - number.lower)
    return np.where(finite & ~number.known, values, otherwise)


def place_near_ends(number: GeneralisedNumber, latent: Floats) -> Floats:
    """First values within their cells, in each class one near each end."""
    latent = np.clip(latent, number.lower, number.upper)
    if number.classes is None or number.near_lower is None or number.near_upper is None:
        return latent
    bound = np.flatnonzero(number.classes >= 0)
    rows = bound[np.lexsort((latent[bound], number.classes[bound]))]
    classes = number.classes[rows]
    # The least and the greatest of each class, which has two records at least.
    least = rows[np.append(True, classes[1:] != classes[:-1])[: len(rows)]]
    most = rows[np.append(classes[1:] != classes[:-1], True)[: len(rows)]]
    latent[least] = np.minimum(latent, (number.lower + number.near_lower) / 2)[least]
    latent[most] = np.maximum(latent, (number.upper + number.near_upper) / 2)[most]
    return latent


def propose_within_cells(target: LatentTarget, ends: CellEnds) -> CellMixture:
    """The covariate model within the cells; with the outcome, where that is linear in the value."""
    conditional = target.conditional
    if _is_linear_in_value(target):
        # y = offset + slope x + residual: an observation of x with variance σ² / slope².
        variance = target.outcome.variance
        least = np.sqrt(variance / (_UNINFORMATIVE * float(conditional.variances.max())))
        slope = target.weights[0]
        slope = np.where(np.abs(slope) < least, least, slope)
        released = (target.outcome.true - target.offset) / slope
        mixture = conditional.with_noise(released, variance / slope**2)
    else:
        variances = np.broadcast_to(conditional.variances, conditional.centres.shape)
        logs = -0.5 * np.log(variances) if conditional.logs is None else conditional.logs
        mixture = RecordMixture(logs, conditional.centres, variances)
    return CellMixture(mixture, ends.lower, ends.upper)


def _is_linear_in_value(target: LatentTarget) -> bool:
    """Whether the outcome is normal about a multiple of the value, rounded or not."""
    is_itself = target.terms.functions == [(None,)] and target.terms.number.scale is None
    return target.outcome.linear and is_itself


def step_within_cells(
    present: Floats, target: LatentTarget, number: GeneralisedNumber, rng: Generator
) -> tuple[Floats, Floats, float]:
    """Values after a step, the linear predictor with them, and the share that moved.

    Parameters
    ----------
    present : the values now.
    target : their full conditional, but for the cells.
    number : the cells.
    rng : where draws come from.
    """
    ends = restrict_to_tight_ranges(number, present, rng)
    if target.limits is not None:
        ends = CellEnds(
            np.maximum(ends.lower, target.limits.lower), np.minimum(ends.upper, target.limits.upper)
        )
    proposal = propose_within_cells(target, ends)
    if _is_linear_in_value(target) and all(target.terms.linear):
        drawn = proposal.draw(rng)
        return *exchange_within_classes(drawn, target, number, rng), 1.0
    count = _GOOD_CANDIDATES if _is_linear_in_value(target) else _CANDIDATES
    candidates = np.stack([present, *(proposal.draw(rng) for _ in range(count))])
    logs = np.stack(
        [
            target.log_without_cells(values, target.predict(values)) - proposal.mixture.log(values)
            for values in candidates
        ]
    )
    # What has no value has no density: only the present one is sure to have one.
    logs = np.where(np.isfinite(logs), logs, -1e300)
    chosen = draw_category(logs, rng)
    rows = np.arange(len(present))
    values = candidates[chosen, rows]
    uncertain = ~number.known
    moved = float((chosen > 0)[uncertain].mean()) if uncertain.any() else 1.0
    return *exchange_within_classes(values, target, number, rng), moved


def exchange_within_classes(
    present: Floats, target: LatentTarget, number: GeneralisedNumber, rng: Generator
) -> tuple[Floats, Floats]:
    """Values after pairs of records of a class exchanged theirs, and the linear predictor.

    Who is near an end would hardly ever change otherwise: nobody else may come near before
    somebody leaves. All records of a class have the same cell, so that an exchange keeps it.
    """
    eta = target.predict(present)
    if number.classes is None:
        return present, eta
    bound = np.flatnonzero(number.classes >= 0)
    rows = bound[np.lexsort((rng.uniform(size=len(bound)), number.classes[bound]))]
    # Of each class the first and the second, the third and the fourth, and so on.
    classes = number.classes[rows]
    starts = np.flatnonzero(np.append(True, classes[1:] != classes[:-1])[: len(rows)])
    sizes = np.diff(np.append(starts, len(rows)))
    position = np.arange(len(rows)) - np.repeat(starts, sizes)
    has_partner = (position % 2 == 0) & (position + 1 < np.repeat(sizes, sizes))
    first = rows[has_partner]
    second = rows[np.flatnonzero(has_partner) + 1]
    proposed = present.copy()
    proposed[first], proposed[second] = present[second], present[first]
    proposed_eta = target.predict(proposed)
    gain = target.log_without_cells(proposed, proposed_eta) - target.log_without_cells(present, eta)
    # Pairs are drawn whatever the values are, so proposing the exchange is as likely as undoing it:
    # the densities alone decide (Metropolis). No record is in two pairs, so each has its own draw.
    with np.errstate(invalid="ignore"):
        accepted = np.log(rng.uniform(size=len(first))) < gain[first] + gain[second]
    moved = np.concatenate([first[accepted], second[accepted]])
    values, predictor = present.copy(), eta.copy()
    values[moved], predictor[moved] = proposed[moved], proposed_eta[moved]
    return values, predictor


def draw_outcome_within_cells(
    number: GeneralisedNumber, eta: Floats, variance: float, rng: Generator
) -> Floats:
    """True outcomes: normal about the linear predictor, within their cells."""
    sd = np.sqrt(variance)
    z = draw_between((number.lower - eta) / sd, (number.upper - eta) / sd, rng)
    outcome: Floats = np.clip(eta + sd * z, number.lower, number.upper)
    return outcome
