"""What several releases of the same values under different keys reveal together."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sfumato.errors import DataError


def averaged(variance: float | Sequence[float], releases: int = 1) -> float:
    """The variance of the noise that is left to somebody who averages several releases.

    Question: how much protection is left after a second key?
    Assumes: independent noise in each release, and somebody who can tell which rows belong
    together and weights them in the best way. Under one key nothing is gained: the noise is the
    same each time.

    Parameters
    ----------
    variance : of the noise in each release; a list where they differ.
    releases : how many there are of each.

    Examples
    --------
    >>> averaged(4.0, releases=4)
    1.0
    >>> averaged([4.0, 1.0])
    0.8
    """
    each = [variance] if isinstance(variance, (int, float)) else list(variance)
    if releases < 1 or not each or not all(0 < one < math.inf for one in each):
        raise DataError(
            "Averaging needs at least one release, and variances above 0.",
            hint="for instance averaged(4.0, releases=2).",
        )
    return 1 / math.fsum(releases / one for one in each)
