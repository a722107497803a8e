"""Draw noise and add it to values, as its description says."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from sfumato.cells.noise.description import Gaussian, Noise
from sfumato.errors import MethodError
from sfumato.kernels.arrays import Array, Floats, Positions
from sfumato.kernels.sampling.deviates import laplace, normal
from sfumato.randomness import Draws

_SIZE = ("distribution", "variance", "growth", "scale")
# Released values lie on a grid this many powers of two finer than the noise.
_FINE = 20
# Steps of a number, or of the grid, that a standard deviation of noise has at least.
_FEWEST = 16
_LARGEST_INTEGER = 2.0**63


def draw_noise(values: pl.Series, noise: Noise, draws: Draws) -> pl.Series:
    """A variable of a batch of records with its noise; missing stays missing."""
    name = values.name
    if not isinstance(noise, Gaussian):
        raise MethodError(f"The noise of variable '{name}' is of another method.")
    x = values.cast(pl.Float64).fill_null(math.nan).to_numpy()
    released = perturb(noise, np.ascontiguousarray(x), draws, name)
    largest = float(np.fmax.reduce(np.abs(released), initial=0.0))
    _require_room(name, noise, largest, values.dtype)
    column = pl.Series(name, released).fill_nan(None)
    if noise.whole and values.dtype.is_integer():
        # In the widest type: noise may lead out of the reach of a narrow one.
        return column.cast(pl.Int64)
    return column.cast(values.dtype) if values.dtype.is_float() else column


def perturb(noise: Gaussian, x: Floats, draws: Draws, column: str) -> Floats:
    """The released values of true ones. Missing is NaN, before and after."""
    invert = laplace if noise.distribution == "laplace" else normal
    # Uniform draws that belong to record, variable, value and size: never drawn anew.
    deviates = draws.lasting(column, describe_draws(noise), x)
    invert(deviates, out=deviates)
    position = x if noise.scale is None else noise.scale.forth(x)
    deviates *= _deviation(noise, position)
    deviates += position
    with np.errstate(over="ignore"):
        step = _grid_step(noise)
        released = round_to_grid(deviates, step) if step else deviates
        released = released if noise.scale is None else noise.scale.back(released)
    if noise.whole:
        np.rint(released, out=released)
    if noise.at_least is None and noise.at_most is None:
        return released
    return np.clip(released, noise.at_least, noise.at_most)


def describe_draws(noise: Gaussian) -> str:
    """What the draws are for: noise of another size or scale must be independent of this one.

    From x + 2e and x + 3e, anyone who knows the sizes has x. Rounding and truncation do not
    count: the same noise rounded reveals nothing more.
    """
    description = noise.plain()
    return json.dumps({name: description.get(name) for name in _SIZE}, sort_keys=True)


def select_draws(draws: Draws, rows: Positions) -> Draws:
    """The draws of some of the records."""
    ids: Any = draws.ids
    return Draws(
        draws.key, draws.step, ids[rows] if isinstance(ids, np.ndarray) else ids.take(rows)
    )


def round_to_grid(values: Floats, step: float) -> Floats:
    """Numbers in steps of a power of two.

    A sum of floats is rounded, and its last digits reveal how large its terms were, and so
    something of the true value: without the steps, most released codes between 0 and 1/4 would
    give away whether the true code was 0. A step far below the spread of the noise wipes them out.
    """
    rounded: Floats = np.rint(values / step) * step
    return rounded


def is_lost_on_grid(noise: Gaussian, least: float) -> bool:
    """Whether noise of the least variance is lost between the steps of the grid."""
    return math.sqrt(least) < _FEWEST * _grid_step(noise)


def require_large_strata(counts: Array, fewest: int, strata: Sequence[str]) -> None:
    """Refuse strata so small that their published description would reveal single records."""
    small = int((counts < fewest).sum())
    if not small and len(counts):
        return
    if not strata or not len(counts):
        raise MethodError(
            f"There are fewer than {fewest} values, and the description of the noise would reveal "
            "how they are distributed.",
            hint="take more records, or a smaller `fewest`.",
        )
    raise MethodError(
        f"{small} of {len(counts)} strata have fewer than {fewest} values, and the description of "
        "the noise would reveal how these are distributed.",
        hint="use fewer variables in `strata`, or recode them to broader groups.",
    )


def _deviation(noise: Gaussian, position: Floats) -> Floats | float:
    if noise.growth is None:
        return math.sqrt(noise.variance or 0.0)
    return np.sqrt(noise.growth.variance(position))


def _grid_step(noise: Gaussian) -> float:
    """A power of two, known from the description alone; 0 where there is no noise."""
    sizes = [noise.variance]
    if noise.growth is not None:
        sizes = [noise.growth.constant, abs(noise.growth.slope), *(noise.growth.variances or [])]
    known = [size for size in sizes if size]
    return 2.0 ** (math.frexp(math.sqrt(min(known)))[1] - 1 - _FINE) if known else 0.0


def _require_room(name: str, noise: Gaussian, largest: float, dtype: pl.DataType) -> None:
    """Refuse numbers that are too large for their type, or so large that it rounds noise away."""
    if largest >= (_LARGEST_INTEGER if noise.whole and dtype.is_integer() else math.inf):
        raise MethodError(
            f"The noise takes variable '{name}' beyond all numbers.",
            hint="give less noise, or truncate it with at_most.",
        )
    if noise.scale is not None or not noise.variance or noise.whole:
        return
    step = np.spacing(np.float32(largest)) if dtype == pl.Float32 else np.spacing(largest)
    if step * _FEWEST > math.sqrt(noise.variance):
        raise MethodError(
            f"Variable '{name}' has values so large that their last digit swallows the noise.",
            hint="give more noise, count from another zero, or store it as 64-bit numbers.",
        )
