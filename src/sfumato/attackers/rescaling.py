"""An attacker who is not fooled by another unit or another zero."""

from __future__ import annotations

import numpy as np

from sfumato.attackers.knowledge import Knowledge
from sfumato.comparing.canonical import deviation_of, mean_of
from sfumato.comparing.pairs import Numbers


def rescaled(known: Knowledge, released: Numbers) -> Numbers:
    """The released values with the means and standard deviations of the original.

    A release that adds 100 to everybody looks far from the original and hides nobody: whoever
    knows what people are like on average takes it back. What still protects after this is more
    than a change of units.
    """
    found = np.empty_like(released)
    for at, (column, truth) in enumerate(zip(released.T, known.original.T, strict=True)):
        spread = deviation_of(column)
        factor = deviation_of(truth) / spread if spread > 0 else 0.0
        found[:, at] = mean_of(truth) + (column - mean_of(column)) * factor
    return found
