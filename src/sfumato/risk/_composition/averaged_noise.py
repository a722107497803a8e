"""What is left of the noise when several releases show the same variable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sfumato.kernels.arrays import Floats, Mask

_CHANCE, _MOST = 10, 0.25
"""Weights fitted to n records explain 1/n of the variance by chance; ten times that counts."""


@dataclass(frozen=True, eq=False)
class Averaged:
    """The best that can be made of several noisy versions of a variable.

    Parameters
    ----------
    values : by person; of the version that follows the truth best where the others add nothing.
    alone : the variance that the best version leaves by itself.
    together : the variance that all of them leave.
    """

    values: Floats = field(repr=False)
    alone: float
    together: float

    @property
    def remaining_share(self) -> float:
        """What is left of the noise of the best version; 1: the others add nothing."""
        return self.together / self.alone if self.alone > 0 else 1.0


def average_noise(truth: Floats, versions: Sequence[Floats]) -> Averaged | None:
    """Combine noisy versions as somebody would who knows how the noise was made.

    The weights are those of the best linear prediction of the truth. They follow from the sizes of
    the noise, which are published: independent noise of variances v and w leaves vw / (v + w), and
    noise that is a smaller noise plus more leaves the smaller. NaN is missing. None where fewer
    records than numbers to estimate are complete.

    Examples
    --------
    >>> draw = np.random.default_rng(1)
    >>> truth, noise = draw.normal(size=5000), draw.normal(size=(2, 5000))
    >>> round(average_noise(truth, [truth + noise[0], truth + noise[1]]).remaining_share, 1)
    0.5
    >>> average_noise(truth, [truth + noise[0], truth + noise.sum(axis=0)]).remaining_share
    1.0

    Where the fit gains no more than chance would, the best version stands for all.
    """
    complete = np.isfinite(truth) & np.isfinite(np.stack(versions)).all(axis=0)
    if int(complete.sum()) <= len(versions) + 1:
        return None
    residuals = [_predict(truth, [version], complete)[1] for version in versions]
    best = int(np.argmin(residuals))
    predicted, together = _predict(truth, versions, complete)
    values = versions[best].copy()
    for version in versions:
        # Whoever is missing in one release may be in another.
        values = np.where(np.isnan(values), version, values)
    chance = min(_CHANCE * (len(versions) - 1) / int(complete.sum()), _MOST)
    if not together < residuals[best] * (1 - chance):
        return Averaged(values, residuals[best], residuals[best])
    values[complete] = predicted
    return Averaged(values, residuals[best], together)


def _predict(truth: Floats, versions: Sequence[Floats], complete: Mask) -> tuple[Floats, float]:
    """An unbiased combination of the versions, and the variance of its error.

    The best linear prediction draws all values towards their mean. Dividing by the share of the
    variance that it explains undoes this, and gives the weighted mean of the versions.
    """
    wanted = truth[complete]
    shown = np.stack([version[complete] for version in versions], axis=1)
    # Sums in one order, so that the order of the records changes no bit.
    order = np.lexsort([*shown.T, wanted])
    back = np.argsort(order)
    wanted, shown = wanted[order], shown[order]
    centre = wanted.mean()
    shown = shown - shown.mean(axis=0)
    spread = float(np.mean((wanted - centre) ** 2))
    weights, *_ = np.linalg.lstsq(shown, wanted - centre, rcond=None)
    moved = shown @ weights
    explained = float(np.mean(moved**2)) / spread if spread > 0 else 0.0
    if not explained > 0:
        return np.full(len(wanted), centre), spread
    unbiased = moved / explained
    return (centre + unbiased)[back], float(np.mean((unbiased - (wanted - centre)) ** 2))
