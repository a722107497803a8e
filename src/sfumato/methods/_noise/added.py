"""Noise added to values, as its description says."""

from __future__ import annotations

import json
import math

import numpy as np
import polars as pl

from sfumato.cells.noise.described import Gaussian, Noise
from sfumato.errors import MethodError
from sfumato.kernels.arrays import Floats
from sfumato.kernels.sampling.deviates import laplace, normal
from sfumato.randomness import Draws

_SIZE = ("distribution", "variance", "growth", "scale")
_FINE = 20
"""Released values lie on a grid this many powers of two finer than the noise."""
_FEWEST = 16
"""Steps of a number, or of the grid, that a standard deviation of noise has at least."""
_WHOLE = 2.0**63


def purpose(one: Gaussian) -> str:
    """What the draws are for: noise of another size or scale must be independent of this one.

    With x + 2e and x + 3e somebody who knows the sizes has x. Rounding and truncation do not
    count: the same noise rounded tells nothing more.
    """
    told = one.plain()
    return json.dumps({name: told.get(name) for name in _SIZE}, sort_keys=True)


def noised(values: pl.Series, one: Noise, draws: Draws) -> pl.Series:
    """A variable of a batch of records with its noise; missing stays missing."""
    name = values.name
    if not isinstance(one, Gaussian):
        raise MethodError(f"The noise of variable '{name}' is of another method.")
    x = values.cast(pl.Float64).fill_null(math.nan).to_numpy()
    made = perturbed(one, np.ascontiguousarray(x), draws, name)
    whole = one.whole and values.dtype.is_integer()
    _require_room(name, one, float(np.fmax.reduce(np.abs(made), initial=0.0)), values.dtype)
    out = pl.Series(name, made).fill_nan(None)
    if whole:
        # In the widest type: noise may lead out of the reach of a narrow one.
        return out.cast(pl.Int64)
    return out.cast(values.dtype) if values.dtype.is_float() else out


def _require_room(name: str, one: Gaussian, top: float, dtype: pl.DataType) -> None:
    """Refuse numbers that are too large for their type, or so large that it rounds noise away."""
    if top >= (_WHOLE if one.whole and dtype.is_integer() else math.inf):
        raise MethodError(
            f"The noise takes variable '{name}' beyond all numbers.",
            hint="give less noise, or truncate it with at_most.",
        )
    if one.scale is not None or not one.variance or one.whole:
        return
    step = np.spacing(np.float32(top)) if dtype == pl.Float32 else np.spacing(top)
    if step * _FEWEST > math.sqrt(one.variance):
        raise MethodError(
            f"Variable '{name}' has values so large that their last digit swallows the noise.",
            hint="give more noise, count from another zero, or store it as 64-bit numbers.",
        )


def perturbed(one: Gaussian, x: Floats, draws: Draws, column: str) -> Floats:
    """The released values of true ones. Missing is NaN, before and after."""
    invert = laplace if one.distribution == "laplace" else normal
    noise = draws.lasting(column, purpose(one), x)
    invert(noise, out=noise)
    place = x if one.scale is None else one.scale.forth(x)
    noise *= _deviation(one, place)
    noise += place
    with np.errstate(over="ignore"):
        made = _on_grid(noise, _grid(one))
        made = made if one.scale is None else one.scale.back(made)
    if one.whole:
        np.rint(made, out=made)
    return made if one.at_least is None and one.at_most is None else _cut(one, made)


def _deviation(one: Gaussian, place: Floats) -> Floats | float:
    if one.growth is None:
        return math.sqrt(one.variance or 0.0)
    return np.sqrt(one.growth.variance(place))


def drowned(one: Gaussian, least: float) -> bool:
    """Whether noise of the least variance is lost between the steps of the grid."""
    return math.sqrt(least) < _FEWEST * _grid(one)


def _cut(one: Gaussian, made: Floats) -> Floats:
    return np.clip(made, one.at_least, one.at_most)


def _on_grid(made: Floats, grid: float) -> Floats:
    """The last bits of a sum tell of its parts, so they are rounded away."""
    if grid:
        made /= grid
        np.rint(made, out=made)
        made *= grid
    return made


def _grid(one: Gaussian) -> float:
    """A power of two, known from the description alone."""
    sizes = [one.variance]
    if one.growth is not None:
        sizes = [one.growth.constant, abs(one.growth.slope), *(one.growth.variances or [])]
    known = [size for size in sizes if size]
    return 2.0 ** (math.frexp(math.sqrt(min(known)))[1] - 1 - _FINE) if known else 0.0
