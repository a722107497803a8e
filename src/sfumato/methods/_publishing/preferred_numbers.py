"""Sizes of noise that are fitted to the data and published: on a grid that is known beforehand.

A variance as a share of the original's tells the original's variance, and two of them, of n and of
n - 1 records, tell how far the person that makes the difference is from the mean. On a coarse grid
the two are nearly always the same. The grid must be the coarser the fewer records there are, since
a record counts for more among few.
"""

from __future__ import annotations

from bisect import bisect_left

# The preferred numbers of ISO 3, series R80: each about 3 % above the one before. Every second is
# R40 (6 %), every fourth R20 (12 %), then R10 (26 %) and R5 (58 %).
_R80 = (
    1.00, 1.03, 1.06, 1.09, 1.12, 1.15, 1.18, 1.22, 1.25, 1.28, 1.32, 1.36, 1.40, 1.45, 1.50, 1.55,
    1.60, 1.65, 1.70, 1.75, 1.80, 1.85, 1.90, 1.95, 2.00, 2.06, 2.12, 2.18, 2.24, 2.30, 2.36, 2.43,
    2.50, 2.58, 2.65, 2.72, 2.80, 2.90, 3.00, 3.07, 3.15, 3.25, 3.35, 3.45, 3.55, 3.65, 3.75, 3.87,
    4.00, 4.12, 4.25, 4.37, 4.50, 4.62, 4.75, 4.87, 5.00, 5.15, 5.30, 5.45, 5.60, 5.80, 6.00, 6.15,
    6.30, 6.50, 6.70, 6.90, 7.10, 7.30, 7.50, 7.75, 8.00, 8.25, 8.50, 8.75, 9.00, 9.25, 9.50, 9.75,
)  # fmt: skip
# From so many records on, every so many-th number of R80: a step is worth twenty records or more.
_STRIDES = ((1000, 1), (320, 2), (160, 4), (80, 8), (0, 16))


def round_up_to_preferred_number(value: float, records: int) -> float:
    """The next number of a series of preferred numbers, never less than the value.

    Parameters
    ----------
    value : a positive number that was computed from the records.
    records : how many there were. Fewer than 1000 have a coarser grid.

    Examples
    --------
    >>> round_up_to_preferred_number(15.3987654, 5000), round_up_to_preferred_number(15.3987654, 50)
    (15.5, 16.0)
    >>> round_up_to_preferred_number(0.000997, 5000)
    0.001
    """
    stride = next(stride for fewest, stride in _STRIDES if records >= fewest)
    series = _R80[::stride]
    # By its text, whose digits are rounded: a number of the series must not miss itself by a bit.
    digits, _, exponent = f"{value:.14e}".partition("e")
    position = bisect_left(series, float(digits))
    decade, index = divmod(position, len(series))
    return float(f"{series[index]:g}e{int(exponent) + decade}")
