"""An attacker who is not fooled by another unit or another zero."""

from __future__ import annotations

import numpy as np

from sfumato.kernels.arrays import Floats
from sfumato.kernels.canonical import deviation_of, mean_of, total_of
from sfumato.risk._attacks.knowledge import Knowledge


def rescaled(known: Knowledge, released: Floats) -> Floats:
    """The released values with the means and standard deviations of the original.

    A release that adds 100 to everybody looks far from the original and hides nobody: whoever
    knows what people are like on average takes it back. So does one that counts the other way
    round, such as points lost instead of points won. What still protects after this is more than
    a change of units.
    """
    found = np.empty_like(released)
    for at, (column, truth) in enumerate(zip(released.T, known.original.T, strict=True)):
        spread, wanted = deviation_of(column), deviation_of(truth)
        apart = column - mean_of(column)
        found[:, at] = mean_of(truth)
        if spread > 0 and wanted > 0:
            together = total_of(apart / spread * ((truth - mean_of(truth)) / wanted))
            found[:, at] += apart * (wanted / spread) * (-1.0 if together < 0 else 1.0)
    return found
