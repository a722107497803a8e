"""Whether draws can be trusted: R-hat, effective sample size, Monte Carlo error.

As in Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), Bayesian Analysis 16:667: chains are
split, draws are replaced by normal scores of their ranks. Arrays are (chain, draw).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from sfumato.kernels.arrays import Floats

AGREEMENT = 1.01
"""The largest R-hat of chains that agree (Vehtari and others 2021, section 4)."""
_FEWEST = 4
_BLOM = 3 / 8


def rhat(draws: Floats) -> float:
    """Rank-normalised split R-hat: the larger of that of the draws and of their distances.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> alike, apart = rng.normal(size=(4, 500)), rng.normal([[0], [0], [0], [1]], size=(4, 500))
    >>> rhat(alike) < 1.01 < rhat(apart)
    True
    """
    parts = _split_chains(draws)
    if not _is_usable(parts):
        return math.nan
    # Folded draws show chains that differ in spread, not in location.
    folded = np.abs(parts - np.median(parts))
    return max(_split_rhat(_normal_scores(parts)), _split_rhat(_normal_scores(folded)))


def chains_agree(draws: Floats) -> bool:
    """Whether all parameters of (chain, draw, parameter) have an R-hat as of chains that agree."""
    values = [rhat(draws[:, :, index]) for index in range(draws.shape[2])]
    return not any(value > AGREEMENT for value in values)


def bulk_ess(draws: Floats) -> float:
    """How many independent draws say as much of the middle of the distribution."""
    parts = _split_chains(draws)
    return _effective_size(_normal_scores(parts)) if _is_usable(parts) else math.nan


def mcse(draws: Floats) -> float:
    """The Monte Carlo standard error of the mean."""
    parts = _split_chains(draws)
    if not _is_usable(parts):
        return math.nan
    return float(np.std(draws, ddof=1)) / math.sqrt(_effective_size(parts))


def _split_chains(draws: Floats) -> Floats:
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, draws.shape[1] - half :]])


def _is_usable(parts: Floats) -> bool:
    enough = parts.shape[1] >= _FEWEST and bool(np.isfinite(parts).all())
    return enough and bool(np.ptp(parts) > 0)


def _normal_scores(parts: Floats) -> Floats:
    """Normal scores of ranks; ties share their mean rank."""
    flat = parts.reshape(-1)
    order = np.argsort(flat)
    first_of_value = np.append(True, np.diff(flat[order]) > 0)
    scores = np.empty(len(flat))
    if first_of_value.all():
        scores[order] = _untied_scores(len(flat))
        return scores.reshape(parts.shape)
    from scipy.special import ndtri

    first = np.flatnonzero(first_of_value)
    last = np.append(first[1:], len(flat))
    tied = ndtri(((first + last + 1) / 2 - _BLOM) / (len(flat) - 2 * _BLOM + 1))
    scores[order] = np.repeat(tied, last - first)
    return scores.reshape(parts.shape)


@lru_cache(maxsize=8)
def _untied_scores(count: int) -> Floats:
    """The scores of 1, 2, …, where there are no ties."""
    from scipy.special import ndtri

    scores: Floats = ndtri((np.arange(1, count + 1) - _BLOM) / (count - 2 * _BLOM + 1))
    scores.flags.writeable = False
    return scores


def _split_rhat(parts: Floats) -> float:
    count = parts.shape[1]
    within = float(parts.var(axis=1, ddof=1).mean())
    between = float(parts.mean(axis=1).var(ddof=1)) if len(parts) > 1 else 0.0
    if within == 0:
        return math.inf if between > 0 else math.nan
    return math.sqrt((count - 1) / count + between / within)


def _effective_size(parts: Floats) -> float:
    """Effective sample size by Geyer's initial monotone sequence over all chains."""
    chains, count = parts.shape
    covariance = _autocovariance(parts)
    within = covariance[:, 0] * count / (count - 1)
    mean = float(within.mean())
    plus = mean * (count - 1) / count
    if chains > 1:
        plus += float(parts.mean(axis=1).var(ddof=1))
    if plus <= 0:
        return float(chains * count)
    # Autocorrelations pooled over chains, against the variance within and between them.
    rho = 1 - (mean - covariance.mean(axis=0)) / plus
    rho[0] = 1.0
    # Geyer: sums of adjacent pairs are positive and decrease; noise breaks that.
    pairs = rho[: 2 * (count // 2)].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs < 0)
    last = int(negative[0]) if len(negative) else len(pairs)
    total = float(np.minimum.accumulate(pairs[:last]).sum())
    # The pair at which the sum ends would be below zero; its first half may still be above.
    extra = max(float(rho[2 * last]), 0.0) if 2 * last < len(rho) else 0.0
    correlation_time = max(-1 + 2 * total + extra, 1 / math.log10(chains * count))
    return float(chains * count / correlation_time)


def _autocovariance(parts: Floats) -> Floats:
    count = parts.shape[1]
    size = 1 << (2 * count - 1).bit_length()
    centred = parts - parts.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(centred, n=size, axis=1)
    autocovariance: Floats = np.fft.irfft(np.abs(spectrum) ** 2, n=size, axis=1)[:, :count] / count
    return autocovariance
