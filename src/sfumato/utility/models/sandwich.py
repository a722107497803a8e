"""Sandwich standard errors of estimates from which known noise was taken out.

The estimating equation of the clean data is corrected so that its expectation is right again; its
variance says how much was lost. Linear models: moments less those of the noise (Fuller 1987).
Poisson: the corrected score (Nakamura 1990). Logistic: the conditional score (Stefanski & Carroll
1987).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats

Score = Callable[[Floats, Floats, Floats, Floats], Floats]
_STEP = 1e-5
_UNRELATED = 1e-8
"""A calibration this near to singular: the noise has drowned a term."""


def sandwich_covariance(
    family: str, clean: Floats, noisy: Sequence[tuple[Floats, Floats]], beta: Floats, sigma: Floats
) -> Floats:
    """The covariance matrix of the estimates.

    Parameters
    ----------
    family : "linear", "logistic" or "poisson".
    clean : the terms without noise.
    noisy : for each draw the terms and the outcome with noise, right on average.
    beta : the coefficients.
    sigma : the covariance of the noise in the terms.
    """
    score = SCORES[family]
    slope = np.zeros((len(beta), len(beta)))
    spread = np.zeros_like(slope)
    for terms, outcome in noisy:
        scores = score(terms, outcome, beta, sigma)
        spread += scores.T @ scores / len(scores)
        slope += _differentiate(score, terms, outcome, beta, sigma)
    # Bread, meat, bread: A^-1 B A^-T / n.
    inverse = np.linalg.inv(slope / len(noisy))
    covariance: Floats = inverse @ (spread / len(noisy)) @ inverse.T / len(clean)
    return covariance


def _differentiate(
    score: Score, terms: Floats, outcome: Floats, beta: Floats, sigma: Floats
) -> Floats:
    """How the mean score changes with each coefficient."""
    columns = []
    for index in range(len(beta)):
        step = np.zeros(len(beta))
        step[index] = _STEP * max(1.0, abs(beta[index]))
        # A central difference: the corrected scores have no simple derivative.
        above = score(terms, outcome, beta + step, sigma).mean(axis=0)
        below = score(terms, outcome, beta - step, sigma).mean(axis=0)
        columns.append((above - below) / (2 * step[index]))
    return np.column_stack(columns)


def _score_linear(terms: Floats, outcome: Floats, beta: Floats, sigma: Floats) -> Floats:
    scores: Floats = terms * (outcome - terms @ beta)[:, None] + sigma @ beta
    return scores


def _score_poisson(terms: Floats, outcome: Floats, beta: Floats, sigma: Floats) -> Floats:
    # E[exp(w beta)] exceeds exp(x beta) by the factor exp(beta sigma beta / 2).
    shift = sigma @ beta
    mean = np.exp(np.clip(terms @ beta - beta @ shift / 2, -700, 700))
    scores: Floats = terms * outcome[:, None] - (terms - shift) * mean[:, None]
    return scores


def _score_logistic(terms: Floats, outcome: Floats, beta: Floats, sigma: Floats) -> Floats:
    shift = sigma @ beta
    # The sufficient statistic for the true terms: given it, the score is free of them.
    sufficient = terms + outcome[:, None] * shift
    chance = 1 / (1 + np.exp(np.clip(beta @ shift / 2 - sufficient @ beta, -700, 700)))
    scores: Floats = (outcome - chance)[:, None] * sufficient
    return scores


SCORES: dict[str, Score] = {
    "linear": _score_linear,
    "poisson": _score_poisson,
    "logistic": _score_logistic,
}


# How much larger standard errors become when noise is known and taken out


@dataclass(frozen=True, eq=False)
class OriginalModel:
    """A model of the original.

    Parameters
    ----------
    terms : the names of its terms.
    x, y : its terms and its outcome, a row per record.
    beta : its coefficients.
    """

    terms: Sequence[str]
    x: Floats = field(repr=False)
    y: Floats = field(repr=False)
    beta: Floats = field(repr=False)


@dataclass(frozen=True, eq=False)
class EfficiencyLoss:
    """Standard errors before and after, by term, and the paper's determinant ratio."""

    table: pl.DataFrame = field(repr=False)
    determinant_ratio: float


def compute_loss(
    family: str, model: OriginalModel, noisy: Sequence[tuple[Floats, Floats]]
) -> EfficiencyLoss:
    """What noise costs, given what the terms and the outcome look like with it.

    Noise may shrink or shift a term on average (categories, a logarithm, a bound). A line through
    all terms takes that out, as an analyst would who knows the noise.

    Parameters
    ----------
    family : "linear", "logistic" or "poisson".
    known : the model of the original.
    noisy : for each draw of the noise the terms and the outcome, a row per record.
    """
    terms = _calibrate(model.x, [draw[0] for draw in noisy])
    ones = np.ones(len(model.y))
    outcome = [model.y] * len(noisy)
    if any((draw[1] != model.y).any() for draw in noisy):
        clean = np.column_stack([ones, model.y])
        calibrated = _calibrate(clean, [np.column_stack([ones, draw[1]]) for draw in noisy])
        outcome = [draw[:, 1] for draw in calibrated]
    errors = [draw - model.x for draw in terms]
    sigma = np.asarray(sum(draw.T @ draw for draw in errors) / (len(model.x) * len(noisy)))
    clean_draw = [(model.x, model.y)]
    exact = np.diag(
        sandwich_covariance(family, model.x, clean_draw, model.beta, np.zeros_like(sigma))
    )
    both = list(zip(terms, outcome, strict=True))
    after = np.diag(sandwich_covariance(family, model.x, both, model.beta, sigma))
    gram = model.x.T @ model.x / len(model.x)
    ratio = np.exp(np.linalg.slogdet(gram)[1] - np.linalg.slogdet(gram + sigma)[1])
    return EfficiencyLoss(_build_table(model, exact, after), float(ratio))


def _build_table(model: OriginalModel, exact: Floats, after: Floats) -> pl.DataFrame:
    inflation = np.sqrt(after / exact)
    return pl.DataFrame(
        {
            "term": list(model.terms),
            "estimate": model.beta,
            "se_original": np.sqrt(exact),
            "se_predicted": np.sqrt(after),
            "inflation": inflation,
            "efficiency": 1 / inflation**2,
        }
    )


def _calibrate(clean: Floats, noisy: Sequence[Floats]) -> list[Floats]:
    """The noisy columns, moved and stretched so that on average they are the clean ones."""
    mean = sum(noisy) / len(noisy)
    slopes, *_ = np.linalg.lstsq(clean, mean, rcond=None)
    if np.linalg.cond(slopes) > 1 / _UNRELATED:
        raise MeasureError(
            "The noise drowns a term of the model: nothing of it is left to be estimated.",
            hint="add less noise to the variables of this model.",
        )
    back = np.linalg.inv(slopes)
    return [draw @ back for draw in noisy]
