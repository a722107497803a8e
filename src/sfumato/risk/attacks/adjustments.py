"""What an attacker makes of released values before comparing: rescaled, or shrunk to the mean.

Goldstein & Shlomo write Eq. 3 without a mean, for variables centred at 0. Here values are shrunk to
the mean of the release, which noise of mean 0 leaves where the mean of the original is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats
from sfumato.kernels.exact_sums import exact_mean, exact_sum, standard_deviation
from sfumato.risk.attacks.distances import covariance, require_regular
from sfumato.risk.attacks.knowledge import Knowledge

Noise = Literal["unknown", "reliability", "matrix"]


def expected(
    known: Knowledge, noise: Noise, variances: Mapping[str, float] | None, *, owner: str
) -> Floats:
    """The values the attacker compares with: the released ones, or E(original | released).

    - "reliability": mean + R (z - mean) per variable, R = var(y) / var(z), at most 1;
    - "matrix": mean + cov(y) cov(z)^-1 (z - mean).

    With `variances`, those of independent noise by variable (0 where none is named), the
    original's covariance is the release's less the noise: what an outsider could work out.
    Without them it is that of the original: the best the attacker could know.

    References: Goldstein & Shlomo (2020), Eq. 3.
    """
    if noise == "unknown":
        return known.released
    # cov(z) of the released values; cov(y) of the original follows or is known (Eq. 3).
    shown = covariance(known.released, known.names, owner)
    if variances is None:
        truth = covariance(known.original, known.names, owner)
    else:
        truth = shown - np.diag(_read_variances(variances, known, np.diag(shown), owner))
    centre = [exact_mean(column) for column in known.released.T]
    if noise == "reliability":
        shown, truth = np.diag(shown), np.diag(truth)
        # A constant is its own mean, whatever it is multiplied by.
        reliable = np.where(shown > 0, np.minimum(truth / np.where(shown > 0, shown, 1), 1), 0)
        weights = np.diag(reliable)
    else:
        require_regular(shown, known.names, owner)
        # cov(y) cov(z)^-1, from a linear system rather than an inverse.
        weights = np.linalg.solve(shown, truth).T
    values = np.empty_like(known.released)
    for i in range(len(weights)):  # each record by itself: a product of matrices rounds by place
        values[:, i] = centre[i]
        for j in np.flatnonzero(weights[i]):
            values[:, i] += weights[i, j] * (known.released[:, j] - centre[j])
    return values


def _read_variances(
    variances: Mapping[str, float], known: Knowledge, shown: Floats, owner: str
) -> Floats:
    unknown = ", ".join(f"'{name}'" for name in variances if name not in known.names)
    if unknown:
        raise MeasureError(
            f"'{owner}' is told the noise of variables that are not compared: {unknown}.",
            hint="name them in `variables`, or leave them out of `noise_variances`.",
        )
    values = np.array([variances.get(name, 0.0) for name in known.names])
    over = [
        name for name, noise, total in zip(known.names, values, shown, strict=True) if noise > total
    ]
    if over:
        names = ", ".join(f"'{name}'" for name in over)
        raise MeasureError(
            f"The noise is said to vary more than the release does: {names}.",
            hint="`noise_variances` are variances in the units of the variable, squared.",
        )
    return values


def rescaled(known: Knowledge, released: Floats) -> Floats:
    """The released values with the means and standard deviations of the original.

    A release that adds 100 to everybody looks far from the original and hides nobody: whoever
    knows what people are like on average takes it back. So does one that counts the other way
    round, such as points lost instead of points won. What still protects after this is more than
    a change of units.
    """
    adjusted = np.empty_like(released)
    for index, (column, truth) in enumerate(zip(released.T, known.original.T, strict=True)):
        spread, wanted = standard_deviation(column), standard_deviation(truth)
        # A negative covariance means that the scale counts the other way round.
        centred = column - exact_mean(column)
        adjusted[:, index] = exact_mean(truth)
        if spread > 0 and wanted > 0:
            sign = exact_sum(centred / spread * ((truth - exact_mean(truth)) / wanted))
            adjusted[:, index] += centred * (wanted / spread) * (-1.0 if sign < 0 else 1.0)
    return adjusted
