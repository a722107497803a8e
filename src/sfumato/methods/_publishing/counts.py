"""Counts from which something published is computed: rounded at secret thresholds, then noised.

A transition matrix by frequencies gives the frequencies back to whoever reads it. Exact ones tell
the category of a person by the difference between two releases, with and without that person. So
the matrix is built from counts that were made like this, for every level of a variable by itself:

1. The count, in steps of G records, is rounded down after a secret fraction was added. The
   fraction belongs to key, variable, stratum and level. One record more is then the same rounded
   count for all but one in G keys, whatever its category.
2. Noise is added in steps of G: two-sided geometric, with probabilities in proportion to
   exp(-epsilon |noise|). It belongs to the key and to the rounded counts of all levels. So it is
   the same while these are the same, and drawn anew for all levels when one of them changes.

With a probability of 1 - 1/G two manifests, of n and of n - 1 records, are thus the same, and say
nothing. Otherwise every level has new noise, and the odds of any category against any other change
by a factor of exp(2 epsilon) at most (one step in the count of the one, one step in that of the
other). The noise is what makes a change say little: without it a count that rose would name the
category.

References: Ghosh, Roughgarden & Sundararajan (2012), Universally utility-maximizing privacy
mechanisms, SIAM J. Computing 41:1673 (two-sided geometric noise).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import numpy as np

from sfumato.kernels.arrays import Floats, Integers
from sfumato.noise.description import Level
from sfumato.randomness import Key

EPSILON = 0.5
"""How fast the probabilities of the noise fall, by step."""
_HALF_STEP = 0.5


def noise_counts(
    counts: Floats, step: int, levels: Sequence[Level], key: Key | None, *purpose: str
) -> Floats:
    """Counts of levels as they may be used for what is published: none of them is exact, or 0.

    Parameters
    ----------
    counts : how many records have each level.
    step : records in a step of the rounding and of the noise.
    levels : what the counts are of. Thresholds belong to levels, not to their positions.
    key : the custodian's secret; None rounds to the nearest step, without noise, for a look that
        is not published.
    purpose : what the counts are for: the variable and the stratum.

    Examples
    --------
    >>> noise_counts(np.array([97.0, 12.0, 0.0]), 10, ["a", "b", "c"], None)
    array([100.,  10.,   5.])
    """
    if key is None:
        noised: Integers = np.floor(counts / step + _HALF_STEP).astype(np.int64)
    else:
        thresholds = _draw_uniform(key, levels, "threshold of a count", *purpose)[:, 0]
        rounded: Integers = np.floor(counts / step + thresholds).astype(np.int64)
        state = json.dumps(rounded.tolist())
        noised = rounded + draw_geometric(
            _draw_uniform(key, levels, "noise of counts", state, *purpose), EPSILON
        )
    # No level is impossible: a level that nobody has looks like one that few have.
    return step * np.maximum(noised, _HALF_STEP)


def draw_geometric(uniform: Floats, epsilon: float) -> Integers:
    """Two-sided geometric noise, from two uniform draws each.

    Examples
    --------
    >>> draw_geometric(np.array([[0.5, 0.5], [0.01, 0.5]]), 1.0)
    array([0, 4])
    """
    # log(u) / -epsilon, rounded down, is geometric; the difference of two has both signs.
    geometric = np.floor(np.log(uniform) / -epsilon).astype(np.int64)
    difference: Integers = geometric[:, 0] - geometric[:, 1]
    return difference


def _draw_uniform(key: Key, levels: Sequence[Level], *purpose: str) -> Floats:
    """Two uniform draws for each level, that belong to it and the purpose."""
    blocks = [key.subkey("published", *purpose, json.dumps(level)) for level in levels]
    words = np.frombuffer(b"".join(blocks), "<u8").reshape(len(levels), -1)[:, :2]
    uniform: Floats = ((words >> np.uint64(11)).astype(np.float64) + _HALF_STEP) * math.ldexp(
        1, -53
    )
    return uniform
