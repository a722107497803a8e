"""What an attacker who knows the noise makes of a release: the expected original values.

The paper writes Eq. 3 without a mean, for variables centred at 0. Here values are drawn towards
the mean of the release, which noise of mean 0 leaves where the mean of the original is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats
from sfumato.kernels.canonical import mean_of
from sfumato.risk._attacks.knowledge import Knowledge
from sfumato.risk._attacks.spaces import covariance, require_regular

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
    shown = covariance(known.released, known.names, owner)
    if variances is None:
        truth = covariance(known.original, known.names, owner)
    else:
        truth = shown - np.diag(_given(variances, known, np.diag(shown), owner))
    centre = [mean_of(column) for column in known.released.T]
    if noise == "reliability":
        shown, truth = np.diag(shown), np.diag(truth)
        # A constant is its own mean, whatever it is multiplied by.
        reliable = np.where(shown > 0, np.minimum(truth / np.where(shown > 0, shown, 1), 1), 0)
        weights = np.diag(reliable)
    else:
        require_regular(shown, known.names, owner)
        weights = np.linalg.solve(shown, truth).T
    found = np.empty_like(known.released)
    for i in range(len(weights)):  # each record by itself: a product of matrices rounds by place
        found[:, i] = centre[i]
        for j in np.flatnonzero(weights[i]):
            found[:, i] += weights[i, j] * (known.released[:, j] - centre[j])
    return found


def _given(variances: Mapping[str, float], known: Knowledge, shown: Floats, owner: str) -> Floats:
    unknown = ", ".join(f"'{name}'" for name in variances if name not in known.names)
    if unknown:
        raise MeasureError(
            f"'{owner}' is told the noise of variables that are not compared: {unknown}.",
            hint="name them in `variables`, or leave them out of `noise_variances`.",
        )
    found = np.array([variances.get(name, 0.0) for name in known.names])
    over = [name for name, one, all_ in zip(known.names, found, shown, strict=True) if one > all_]
    if over:
        listed = ", ".join(f"'{name}'" for name in over)
        raise MeasureError(
            f"The noise is said to vary more than the release does: {listed}.",
            hint="`noise_variances` are variances in the units of the variable, squared.",
        )
    return found
