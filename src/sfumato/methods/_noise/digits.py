"""The last digits of released numbers: a grid that tells nothing of the noise.

A sum of floats is rounded, and its last digits reveal how large its terms were, and so something of
the true value. A grid wipes them out. Its step must not follow from the size of the noise: anybody
finds the step of a grid by looking at the numbers, and would read the size off it where the
custodian keeps the description back. So the step follows from the released numbers alone.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from sfumato.kernels.arrays import Floats

DIGITS = 15
"""Of the largest released number: as many as every 64-bit number has."""
_OF_EACH = 12
"""Digits of each number where the noise was added on another scale."""


def find_step(largest: float) -> float:
    """The step of the grid for numbers with noise: the 15th digit of the largest of them.

    Examples
    --------
    >>> find_step(250.0)
    1e-12
    """
    return float(f"1e{_find_exponent(largest) + 1 - DIGITS}") if 0 < largest < np.inf else 0.0


def find_largest(values: pl.Series) -> float:
    """The size of the number farthest from 0; 0 where there is none."""
    ends = [float(end) for end in (values.min(), values.max()) if end is not None]  # type: ignore[arg-type]
    return max(map(abs, ends), default=0.0)


def round_digits(values: pl.Series, *, relative: bool) -> pl.Series:
    """Numbers on a grid that follows from them alone; missing stays missing.

    Parameters
    ----------
    relative : round each number to its own twelve digits (noise on another scale, which is as
        small for small numbers), instead of all to the same step.
    """
    step = find_step(find_largest(values))
    if not step:
        return values
    numbers = values.cast(pl.Float64).fill_null(np.nan).to_numpy()
    if relative:
        # What a shift cancels is not visible below the last digit of a middling number.
        middling = float(np.nanmedian(np.abs(numbers)))
        steps = np.maximum(_find_steps(numbers), find_step(middling))
        rounded = np.empty_like(numbers)
        for size in np.unique(steps).tolist():
            same = steps == size
            rounded[same] = _round_to_multiples(numbers[same], size)
    else:
        rounded = _round_to_multiples(numbers, step)
    return pl.Series(values.name, rounded).fill_nan(None).cast(values.dtype)


def _find_exponent(size: float) -> int:
    """The power of ten of a number's first digit, exactly."""
    return int(f"{size:e}".partition("e")[2])


def _find_steps(numbers: Floats) -> Floats:
    """The twelfth digit of each number."""
    sizes = np.abs(np.nan_to_num(numbers))
    least = float(sizes[sizes > 0].min())
    first, last = _find_exponent(least), _find_exponent(float(sizes.max()))
    # Powers of ten as they read, and the power of each number by looking it up.
    powers = np.array([float(f"1e{power}") for power in range(first, last + 1)])
    steps = np.array([float(f"1e{power + 1 - _OF_EACH}") for power in range(first, last + 1)])
    return steps[np.maximum(np.searchsorted(powers, sizes, side="right") - 1, 0)]


def _round_to_multiples(numbers: Floats, step: float) -> Floats:
    """Multiples of a power of ten, each the float that its decimals read as."""
    # A fraction of ten is no float, its inverse is: dividing by that is correctly rounded.
    inverse = 1 / step
    if not np.isfinite(inverse):
        return numbers
    if step < 1:
        inverse = float(np.rint(inverse))
        rounded: Floats = numbers * inverse
        np.rint(rounded, out=rounded)
        rounded /= inverse
        return rounded
    return np.rint(numbers / step) * step
