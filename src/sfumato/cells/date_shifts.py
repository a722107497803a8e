"""By how many days dates may be shifted: what a plan states, and an attacker knows."""

from __future__ import annotations

from typing import Literal

import numpy as np

from sfumato.kernels.arrays import Integers

Unit = Literal["days", "weeks", "season"]
Towards = Literal["past", "both"]
_WEEK, _YEAR = 7, 365.25
_SEASON = 14
"""Days from a whole number of years up to which the season is the same."""


def list_shifts(window: int, unit: Unit, towards: Towards) -> Integers:
    """All possible shifts, in rising order; 0 is none.

    Parameters
    ----------
    window : the most days.
    unit : any days, whole weeks, or whole weeks at most two weeks from a whole number of years.
    towards : into the past only, or either way.

    Examples
    --------
    >>> list_shifts(21, "weeks", "both").tolist()
    [-21, -14, -7, 7, 14, 21]
    >>> list_shifts(366, "season", "past").tolist()
    [-364, -357, -14, -7]
    """
    shifts = np.arange(-window, (window if towards == "both" else 0) + 1)
    allowed = shifts != 0
    if unit != "days":
        allowed &= shifts % _WEEK == 0
    if unit == "season":
        allowed &= np.abs(shifts - np.rint(shifts / _YEAR) * _YEAR) <= _SEASON
    possible: Integers = shifts[allowed]
    return possible
