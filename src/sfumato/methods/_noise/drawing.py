"""Draw noise and add it to values, as its description says."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from sfumato.errors import MethodError
from sfumato.kernels.arrays import Array, Floats, Positions
from sfumato.kernels.sampling.deviates import exponential
from sfumato.noise.description import Gaussian, NoiseDescription
from sfumato.randomness import Draws

# Noise that is smaller than its size by more powers of two than this counts as none.
_FINE = 20
# Steps of a number, or of the grid, that a standard deviation of noise has at least.
_FEWEST = 16
_LARGEST_INTEGER = 2.0**63


def draw_noise(values: pl.Series, noise: NoiseDescription, draws: Draws) -> pl.Series:
    """A variable of a batch of records with its noise; missing stays missing.

    Fractions still have all their digits: see `round_digits`.
    """
    name = values.name
    if not isinstance(noise, Gaussian):
        raise MethodError(f"The noise of variable '{name}' is of another method.")
    x = values.cast(pl.Float64).fill_null(math.nan).to_numpy()
    released = perturb(noise, np.ascontiguousarray(x), draws, name)
    largest = float(np.fmax.reduce(np.abs(released), initial=0.0))
    integers = noise.whole and values.dtype.is_integer()
    if largest >= (_LARGEST_INTEGER if integers else math.inf):
        raise MethodError(
            f"The noise takes variable '{name}' beyond all numbers.",
            hint="give less noise, or truncate it with at_most.",
        )
    column = pl.Series(name, released).fill_nan(None)
    # In the widest type: noise may lead out of the reach of a narrow one.
    return column.cast(pl.Int64) if integers else column


def perturb(noise: Gaussian, x: Floats, draws: Draws, column: str) -> Floats:
    """The released values of true ones. Missing is NaN, before and after."""
    position = x if noise.scale is None else noise.scale.forth(x)
    # The path belongs to record, variable, value and scale, and to no size: never drawn anew.
    path = describe_path(noise)
    released = draws.path(column, path, x, _find_variances(noise, position, x, draws, column))
    released += position
    with np.errstate(over="ignore"):
        released = released if noise.scale is None else noise.scale.back(released)
    if noise.whole:
        np.rint(released, out=released)
    if noise.at_least is None and noise.at_most is None:
        return released
    return np.clip(released, noise.at_least, noise.at_most)


def describe_path(noise: Gaussian) -> str:
    """What the noise is added to: on another scale the path must be an independent one.

    From x + e and f(x) + e, anyone who knows f has x. Size, distribution, rounding and truncation
    do not count: all sizes are on one path, and the same noise rounded reveals nothing more.
    """
    scale = None if noise.scale is None else noise.plain()["scale"]
    return json.dumps(scale, sort_keys=True)


def _find_variances(
    noise: Gaussian, position: Floats, x: Floats, draws: Draws, column: str
) -> Floats | float:
    """How far along its path each record is: for normal noise, its variance."""
    variances = (noise.variance or 0.0) if noise.growth is None else noise.growth.variance(position)
    if noise.distribution != "laplace":
        return variances
    # A Brownian path at an exponential time of mean v is Laplace with variance v: the transform
    # of the time, 1 / (1 + v s), at s = t²/2 is the characteristic function 1 / (1 + v t²/2).
    times = exponential(draws.lasting(column, f"exponential time {describe_path(noise)}", x))
    times *= variances
    return times


def select_draws(draws: Draws, rows: Positions) -> Draws:
    """The draws of some of the records."""
    ids: Any = draws.ids
    return Draws(
        draws.key, draws.step, ids[rows] if isinstance(ids, np.ndarray) else ids.take(rows)
    )


def is_next_to_none(noise: Gaussian, least: float) -> bool:
    """Whether the least variance that a value gets is nothing beside the stated size."""
    sizes = [noise.variance]
    if noise.growth is not None:
        sizes = [noise.growth.constant, abs(noise.growth.slope), *(noise.growth.variances or [])]
    known = [size for size in sizes if size]
    unit = 2.0 ** (math.frexp(math.sqrt(min(known)))[1] - 1 - _FINE) if known else 0.0
    return math.sqrt(least) < _FEWEST * unit


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


def require_room(
    name: str, noise: Gaussian, largest: float, step: float, dtype: pl.DataType
) -> None:
    """Refuse numbers so large that their type, or the grid of released values, swallows noise."""
    if noise.scale is not None or not noise.variance or noise.whole:
        return
    spacing = np.spacing(np.float32(largest)) if dtype == pl.Float32 else np.spacing(largest)
    if max(float(spacing), step) * _FEWEST > math.sqrt(noise.variance):
        raise MethodError(
            f"Variable '{name}' has values so large that their last digit swallows the noise.",
            hint="give more noise, count from another zero, or store it as 64-bit numbers.",
        )
