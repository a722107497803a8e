"""Standard errors of estimates from which known noise was taken out.

The estimating equation of the clean data is corrected so that its expectation is right again; its
variance says how much was lost. Linear models: moments less those of the noise (Fuller 1987).
Poisson: the corrected score (Nakamura 1990). Logistic: the conditional score (Stefanski & Carroll
1987).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sfumato.kernels.arrays import Floats

Score = Callable[[Floats, Floats, Floats, Floats], Floats]
_STEP = 1e-5


def variance(
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
        each = score(terms, outcome, beta, sigma)
        spread += each.T @ each / len(each)
        slope += _slope(score, terms, outcome, beta, sigma)
    inverse = np.linalg.inv(slope / len(noisy))
    made: Floats = inverse @ (spread / len(noisy)) @ inverse.T / len(clean)
    return made


def _slope(score: Score, terms: Floats, outcome: Floats, beta: Floats, sigma: Floats) -> Floats:
    """How the mean score changes with each coefficient."""
    columns = []
    for at in range(len(beta)):
        step = np.zeros(len(beta))
        step[at] = _STEP * max(1.0, abs(beta[at]))
        above = score(terms, outcome, beta + step, sigma).mean(axis=0)
        below = score(terms, outcome, beta - step, sigma).mean(axis=0)
        columns.append((above - below) / (2 * step[at]))
    return np.column_stack(columns)


def _linear(terms: Floats, outcome: Floats, beta: Floats, sigma: Floats) -> Floats:
    made: Floats = terms * (outcome - terms @ beta)[:, None] + sigma @ beta
    return made


def _poisson(terms: Floats, outcome: Floats, beta: Floats, sigma: Floats) -> Floats:
    shift = sigma @ beta
    mean = np.exp(np.clip(terms @ beta - beta @ shift / 2, -700, 700))
    made: Floats = terms * outcome[:, None] - (terms - shift) * mean[:, None]
    return made


def _logistic(terms: Floats, outcome: Floats, beta: Floats, sigma: Floats) -> Floats:
    shift = sigma @ beta
    # Given this, what is left of the noise tells nothing of the outcome.
    enough = terms + outcome[:, None] * shift
    chance = 1 / (1 + np.exp(np.clip(beta @ shift / 2 - enough @ beta, -700, 700)))
    made: Floats = (outcome - chance)[:, None] * enough
    return made


SCORES: dict[str, Score] = {"linear": _linear, "poisson": _poisson, "logistic": _logistic}
