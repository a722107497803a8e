"""What boxes are made of, and what is found out about each: no compiler is needed for these."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.kernels.arrays import Codes, Integers

COVERED, OPEN, UNDECIDED = 1, 0, -1
"""Whether other records cover a box; the budget may leave it undecided."""


@dataclass(frozen=True, eq=False)
class Cells:
    """The distinct cells of one variable: each one or several intervals of codes.

    Parameters
    ----------
    low, high : both ends, inclusive, of every interval.
    size : how many codes the variable has, from 0 on.
    starts : where the intervals of each cell begin, and an end; None if each has one.
    """

    low: Codes
    high: Codes
    size: int
    starts: Integers | None = None

    def __len__(self) -> int:
        return len(self.low) if self.starts is None else len(self.starts) - 1

    @property
    def disjoint(self) -> bool:
        """Whether no two different cells share a code."""
        order = np.argsort(self.low)
        return bool(np.all(self.high[order][:-1] < self.low[order][1:]))
