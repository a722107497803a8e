"""The digits of released numbers: those of the original, and nothing of the noise.

Computed numbers have fourteen decimals, which say nothing and look like nothing that anybody
measured. So they are rounded to a grid, and three things must not be read off it.

- A sum of floats is rounded, and its last digits reveal how large its terms were, and so something
  of the true value. A grid wipes them out.
- Anybody finds the step of a grid by looking at the numbers. It must not follow from the size of
  the noise, which the custodian may keep back. It follows from the original's digits alone, or,
  where the original has all digits that a number can have, from the released numbers alone.
- Nor may it follow from one record. The digits are those that nearly all values need.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.engines.summaries import Count, Deviation, Maximum, Quantile, Summary, Transformed
from sfumato.io import frames
from sfumato.kernels.arrays import Floats, Integers
from sfumato.method import is_integer
from sfumato.schema import Column

DIGITS = 15
"""Of the largest released number: as many as every 64-bit number has."""
_OF_EACH = 12
"""Digits of each number where the noise was added on another scale."""
LEAST_DIGITS = 3
"""That a released number has where small numbers have little noise."""
STEPS = 10
"""That a standard deviation of the original has at least, so that rounding hides nothing of it."""
_MOST = 9
"""Decimals; numbers with more were computed, not measured."""
_EXACT = 2.0**53
"""Below it floats hold every whole number."""
_SHARE, _FEW = 0.05, 3
"""Values that may have more decimals than the others: this share, and a few."""
_LARGEST = Transformed(np.abs, Maximum(), "of the sizes")
_MIDDLING = Transformed(np.abs, Quantile(0.5), "of the sizes")


def count_decimals(data: Dataset, names: Sequence[str], engine: Engine) -> dict[str, list[int]]:
    """How many values of each variable need more than 0, 1, 2, ... decimals."""

    def count(batch: pl.DataFrame) -> Integers:
        return np.array([_count_longer(batch[name].drop_nulls()) for name in names])

    parts = engine.gather(data, count, reads=names) if names else []
    return dict(zip(names, np.sum(parts, axis=0).tolist(), strict=True)) if parts else {}


def _count_longer(values: pl.Series) -> list[int]:
    if values.dtype.is_integer():
        return [0] * (_MOST + 1)
    numbers = values.cast(pl.Float64).to_numpy()
    longer = []
    for decimals in range(_MOST + 1):
        nearest = _round_to_multiples(numbers, float(f"1e-{decimals}"))
        if values.dtype == pl.Float32:
            nearest = nearest.astype(np.float32).astype(np.float64)
        numbers = numbers[nearest != numbers]
        longer.append(len(numbers))
    return longer


def fit_steps(
    data: Dataset, names: Iterable[str], engine: Engine, *, steps: int = STEPS
) -> dict[str, float]:
    """The step to which released values of each number are rounded: a power of ten.

    It is the last digit that nearly all original values have, or a finer one where the original's
    standard deviation has fewer than `steps` of it: rounding must neither undo a small change nor
    be seen in means and slopes. 0 where the original has more decimals than a measurement has, or
    where its declaration says to keep all. A declaration of digits goes before all that.

    Examples
    --------
    >>> import sfumato as sf
    >>> frame = pl.DataFrame({"bmi": [22.5, 31.0, 27.3, 19.8], "age": [31.0, 60.0, 45.0, 38.0]})
    >>> data = sf.Dataset(frame, sf.Schema({"bmi": "quasi", "age": "quasi"}))
    >>> fit_steps(data, ["bmi", "age"], sf.engines.engine_for(frame))
    {'bmi': 0.1, 'age': 1.0}
    """
    numbers = [name for name in names if data.dtype(name).is_numeric()]
    wanted: list[Summary] = [Count(), Deviation()]
    summary = engine.aggregate(data, dict.fromkeys(numbers, wanted))
    for name, longer in count_decimals(data, numbers, engine).items():
        summary[name]["decimals"] = longer
    return {name: _choose_step(data.schema[name], summary[name], steps) for name in numbers}


def _choose_step(column: Column, summary: Mapping[str, Any], steps: int) -> float:
    if column.digits is not None:
        return float(f"1e{-column.digits}") if column.digits < DIGITS else 0.0
    count, deviation = summary["count"], summary["sd"]
    # Without these few the digits of a small file would be those of one record.
    more = min(_FEW, count // 4) + _SHARE * count
    decimals = next((d for d, longer in enumerate(summary["decimals"]) if longer <= more), None)
    if decimals is None:
        return 0.0
    while deviation > 0 and decimals < _MOST and float(f"1e-{decimals}") * steps > deviation:
        decimals += 1
    return float(f"1e-{decimals}")


def round_to_step(
    values: pl.Series, step: float, column: Column, *, least_digits: int = 0
) -> pl.Series:
    """Numbers in multiples of a step; none becomes a code for "missing" by that.

    With `least_digits` a small number is rounded to so many digits of its own instead.

    Examples
    --------
    >>> round_to_step(pl.Series([12.3456, 0.0012345]), 0.1, Column(), least_digits=3).to_list()
    [12.3, 0.00123]
    """
    numbers = values.cast(pl.Float64).fill_null(np.nan).to_numpy()
    rounded = _round_to_multiples(numbers, step)
    if least_digits:
        for power in range(1, DIGITS):
            finer = step / 10**power
            small = (np.abs(numbers) < finer * 10**least_digits) & (numbers != 0)
            if not small.any():
                break
            rounded[small] = _round_to_multiples(numbers[small], float(f"{finer:.0e}"))
    rounded = _step_over_codes(rounded, numbers, column, step)
    return pl.Series(values.name, rounded).fill_nan(None)


def step_over_codes(released: pl.Series, column: Column) -> pl.Series:
    """Whole numbers of which none became a code for "missing"; a missing one stays missing."""
    if not column.missing:
        return released
    numbers = released.cast(pl.Float64).fill_null(np.nan).to_numpy()
    moved = _step_over_codes(numbers.copy(), np.full(len(numbers), np.nan), column, 1.0)
    # Numbers beyond 2^53 are no codes, and a float would not hold them.
    return released + pl.Series(moved - numbers).fill_nan(0).cast(released.dtype)


def _step_over_codes(released: Floats, before: Floats, column: Column, step: float) -> Floats:
    codes = [float(code) for code in column.missing if isinstance(code, (int, float))]
    values = ~np.isin(before, codes)
    # The next number may be a code as well.
    while codes and (met := values & np.isin(released, codes)).any():
        released[met] += step
    return released


def round_like_original(
    data: Dataset, released: Dataset, names: Iterable[str], engine: Engine, *, steps: int = STEPS
) -> Dataset:
    """Computed numbers with the digits of the data they were computed from.

    Whole numbers are whole again, in type and kind, where they are rounded to a whole step.
    """
    computed = [
        name for name in names if released.dtype(name).is_float() and data.dtype(name).is_numeric()
    ]
    sizes = fit_steps(data, computed, engine, steps=steps)
    if not engine.in_memory:
        return _round_elsewhere(data, released, {n: sizes[n] for n in computed if sizes[n]}, engine)
    schema, columns = released.schema, []
    for name in (name for name in computed if sizes[name]):
        values = frames.get_column(released.frame, name)
        rounded = round_to_step(values, sizes[name], data.schema[name])
        exact = bool((rounded.drop_nulls().abs() < _EXACT).all())
        if sizes[name] >= 1 and is_integer(data, name) and exact:
            columns.append(rounded.cast(pl.Int64))
            schema = schema.changed([name], kind=data.schema[name].kind)
        else:
            columns.append(rounded.cast(values.dtype))
    return released.with_columns(pl.DataFrame(columns), schema) if columns else released


def _round_elsewhere(
    data: Dataset, released: Dataset, sizes: Mapping[str, float], engine: Engine
) -> Dataset:
    """The same for records that are not in memory: rounded first, then made whole."""
    if not sizes:
        return released
    columns = {name: data.schema[name] for name in sizes}

    def round_batch(batch: pl.DataFrame, draws: object) -> pl.DataFrame:
        del draws
        return pl.DataFrame(
            [
                round_to_step(batch[name], size, columns[name]).cast(batch[name].dtype)
                for name, size in sizes.items()
            ]
        )

    rounded = engine.map_rows(released, round_batch, reads=list(sizes))
    integers = [name for name in sizes if sizes[name] >= 1 and is_integer(data, name)]
    largest = engine.aggregate(rounded, {name: [_LARGEST] for name in integers})
    exact = [name for name in integers if not largest[name][_LARGEST.name] >= _EXACT]
    if not exact:
        return rounded

    def cast_batch(batch: pl.DataFrame, draws: object) -> pl.DataFrame:
        del draws
        return batch.cast(dict.fromkeys(exact, pl.Int64))

    cast = engine.map_rows(rounded, cast_batch, reads=exact)
    schema = cast.schema
    for name in exact:
        schema = schema.changed([name], kind=data.schema[name].kind)
    return replace(cast, schema=schema)


# Where the original has all digits --------------------------------------------------------------


def find_step(largest: float) -> float:
    """The step of the grid for numbers with noise: the 15th digit of the largest of them.

    Examples
    --------
    >>> find_step(250.0)
    1e-12
    """
    return float(f"1e{_find_exponent(largest) + 1 - DIGITS}") if 0 < largest < np.inf else 0.0


def list_sizes(*, relative: bool) -> list[Summary]:
    """What must be known of numbers before `round_digits`."""
    ends: list[Summary] = [_LARGEST]
    return [*ends, _MIDDLING] if relative else ends


def get_largest(sizes: Mapping[str, Any]) -> float:
    """The size of the number farthest from 0; 0 where there is none."""
    largest = float(sizes[_LARGEST.name])
    return 0.0 if math.isnan(largest) else largest


def round_digits(values: pl.Series, sizes: Mapping[str, Any], *, relative: bool) -> pl.Series:
    """Numbers on a grid that follows from them alone; missing stays missing.

    Parameters
    ----------
    sizes : the summaries of `list_sizes`, of all records.
    relative : round each number to its own twelve digits (noise on another scale, which is as
        small for small numbers), instead of all to the same step.
    """
    step = find_step(get_largest(sizes))
    if not step:
        return values
    numbers = values.cast(pl.Float64).fill_null(np.nan).to_numpy()
    if relative:
        # What a shift cancels is not visible below the last digit of a middling number.
        steps = np.maximum(_find_steps(numbers), find_step(sizes[_MIDDLING.name]))
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
    least = float(sizes.min(where=sizes > 0, initial=np.inf))
    if np.isinf(least):
        return sizes  # only zeros, which need no digit
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
        with np.errstate(over="ignore"):
            rounded: Floats = numbers * inverse
        np.rint(rounded, out=rounded)
        rounded /= inverse
        # So large a number has no decimals.
        return np.where(np.isinf(rounded), numbers, rounded)
    return np.rint(numbers / step) * step
