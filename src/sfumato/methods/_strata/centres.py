"""Each record becomes the centre of its neighbours: the steps behind the deterministic method."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.engines.summaries import Deviation, Mean
from sfumato.errors import MethodError
from sfumato.kernels.arrays import Integers
from sfumato.methods._strata.sizes import texts

Spread = Mapping[str, Mapping[str, float]]
"""The mean and standard deviation of each variable."""
_COLLINEAR = 1e-10
_ROUNDS = 200
_CLOSE = 1e-12
_EXACT = 2.0**53
"""Beyond this, not every whole number is one of the machine's."""


@dataclass(frozen=True, eq=False)
class Ready:
    """The records that will be released: as they are (`kept`), and with their gaps filled."""

    kept: Dataset
    full: Dataset
    variables: tuple[str, ...]
    by: tuple[str, ...]
    codes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Codes that mean "missing" to whoever reads the release, so no new value may be one."""

    @cached_property
    def slim(self) -> Dataset:
        """Only what is needed to find neighbours, so that no other variable is carried along."""
        batch = self.full.batch([*self.variables, *self.by])
        numbers = [batch[name].cast(pl.Float64) for name in self.variables]
        return Dataset(batch.with_columns(numbers), given_identity=self.full.identity)

    def whole(self, name: str) -> bool:
        """Whether a variable holds whole numbers."""
        column = self.kept.column(name)
        return self.kept.schema[name].kind == "integer" or column.dtype.is_integer()


@dataclass(frozen=True, kw_only=True)
class Moving:
    """How records are moved; see the parameters of the deterministic method."""

    k: int
    spread: Spread
    weights: list[list[float]] | None
    inside: bool
    whole: bool
    gaps: bool
    at_most: float | None
    within: float
    by_stratum: bool


@dataclass(frozen=True, eq=False)
class Stages:
    """The records on their way: original, centres of neighbours, released. Custodian only."""

    variables: tuple[str, ...]
    strata: pl.DataFrame = field(repr=False)
    original: pl.DataFrame = field(repr=False)
    centres: pl.DataFrame = field(repr=False)
    released: pl.DataFrame = field(repr=False)


def spread_of(data: Dataset, names: Sequence[str], engine: Engine) -> dict[str, dict[str, float]]:
    """The mean and SD of each variable, by exact sums; fail where all values are the same."""
    found = engine.aggregate(data, {name: [Mean(), Deviation()] for name in names})
    spread = {name: {"mean": found[name]["mean"], "sd": found[name]["sd"]} for name in names}
    wide = [name for name, one in spread.items() if any(map(math.isinf, one.values()))]
    if wide:
        listed = ", ".join(f"'{name}'" for name in wide)
        raise MethodError(
            f"These values are too large to be squared: {listed}.",
            hint="give the variable in a larger unit.",
        )
    flat = [name for name, one in spread.items() if not one["sd"] > 0]
    if flat:
        listed = ", ".join(f"'{name}'" for name in flat)
        raise MethodError(
            f"All values are the same, or too near to be told apart, so there is nothing to "
            f"blur: {listed}.",
            hint="leave the variable out of `variables`, or give it in another unit.",
        )
    return spread


def weights_of(
    data: Dataset, spread: Spread, distance: str, engine: Engine
) -> list[list[float]] | None:
    """For Mahalanobis distances: the matrix that makes the variables uncorrelated."""
    if distance == "euclidean":
        return None
    names = list(spread)
    pairs = list(combinations_with_replacement(range(len(names)), 2))

    def products(batch: pl.DataFrame, draws: object) -> pl.DataFrame:
        del draws
        z = [(batch[n].cast(pl.Float64) - spread[n]["mean"]) / spread[n]["sd"] for n in names]
        return pl.DataFrame([(z[a] * z[b]).alias(f"{a} {b}") for a, b in pairs])

    slim = Dataset(data.batch(names), given_identity=data.identity)
    made = engine.map_rows(slim, products, reads=names)
    found = engine.aggregate(made, {f"{a} {b}": [Mean()] for a, b in pairs})
    relation = np.empty((len(names), len(names)))
    for a, b in pairs:
        relation[a, b] = relation[b, a] = found[f"{a} {b}"]["mean"]
    if np.linalg.eigvalsh(relation)[0] < _COLLINEAR:
        raise MethodError(
            f"One of these variables follows from the others: {', '.join(names)}.",
            hint='leave it out, or say distance = "euclidean".',
        )
    root = np.linalg.cholesky(np.linalg.inv(relation)).T
    weights: list[list[float]] = (root / [spread[name]["sd"] for name in names]).tolist()
    return weights


def moved(ready: Ready, moving: Moving, k: Mapping[str, Any], engine: Engine) -> list[pl.Series]:
    """The new values of each variable: centres, stretched back to the original spread."""
    centre = centres_of(ready, moving, k, engine)
    found = engine.aggregate(centre, {name: [Deviation()] for name in ready.variables})
    made = []
    for name in ready.variables:
        mean, sd = moving.spread[name]["mean"], moving.spread[name]["sd"]
        if not found[name]["sd"] > 0:
            raise MethodError(
                f"With k = {k['all'] or 'this'} every record would get the same '{name}'.",
                hint="choose a smaller k.",
            )
        values = centre.column(name)
        factor = sd / found[name]["sd"]
        new = mean + (values - mean) * factor
        bounds = ready.kept.schema[name].bounds
        if moving.inside and bounds is not None:
            new = _inside(values, factor, moving.spread[name], bounds, engine)
        if moving.whole and ready.whole(name):
            new = _rounded(new.alias(name), bounds if moving.inside else None)
        new = _beside(new, ready.codes.get(name, ()))
        if moving.gaps:
            new = new.set(ready.kept.column(name).is_null(), None)
        made.append(new.alias(name))
    return made


def centres_of(ready: Ready, moving: Moving, k: Mapping[str, Any], engine: Engine) -> Dataset:
    """The centre of each record and its nearest in the stratum, on the original's scale."""
    names = list(ready.variables)
    each = [1 / moving.spread[name]["sd"] for name in names]
    scale = np.array(moving.weights if moving.weights is not None else each)
    chosen = {tuple(row[:-1]): row[-1] for row in k["strata"]}

    def centred(batch: pl.DataFrame, starts: Integers, draws: object) -> pl.DataFrame:
        from sfumato.kernels.trees.neighbours import centroids

        del draws
        if chosen:
            first = batch[starts[:-1]]
            levels = zip(*(texts(first[name]).to_list() for name in ready.by), strict=True)
            sizes = np.array([chosen[one] for one in levels])
        else:
            sizes = np.full(len(starts) - 1, k["all"])
        values = np.column_stack([batch[name].to_numpy() for name in names])
        try:
            made = centroids(values, scale, starts, sizes)
        except ValueError as error:  # too large to be squared, or k beyond what a stratum can be
            raise MethodError(
                f"No neighbours can be found of {', '.join(names)}. {error}",
                hint="give the variables in another unit, or take a smaller k.",
            ) from None
        return pl.DataFrame({name: made[:, at] for at, name in enumerate(names)})

    reads = [*names, *ready.by] if chosen else names
    return engine.map_groups(ready.slim, centred, by=ready.by, reads=reads)


def _inside(
    values: pl.Series,
    factor: float,
    spread: Mapping[str, float],
    bounds: tuple[Any, Any],
    engine: Engine,
) -> pl.Series:
    """Stretch and shift so that, cut off at the bounds, mean and SD are those of the original."""
    mean, sd = spread["mean"], spread["sd"]
    slope, shift = factor, mean - mean * factor
    best = (values * slope + shift).clip(*map(float, bounds))
    for _ in range(_ROUNDS):
        told = engine.aggregate(Dataset(pl.DataFrame({"x": best})), {"x": [Mean(), Deviation()]})
        off, ratio = told["x"]["mean"] - mean, told["x"]["sd"] / sd
        if (abs(off) < _CLOSE * sd and abs(ratio - 1) < _CLOSE) or not ratio > 0:
            break
        slope, shift = slope / ratio, mean + (shift - told["x"]["mean"]) / ratio
        best = (values * slope + shift).clip(*map(float, bounds))
    return best


def _rounded(values: pl.Series, bounds: tuple[Any, Any] | None) -> pl.Series:
    whole = pl.Series(values.name, np.rint(values.to_numpy()))
    if bounds is not None:
        whole = whole.clip(float(np.ceil(bounds[0])), float(np.floor(bounds[1])))
    if float(np.abs(whole.to_numpy()).max()) >= _EXACT:
        raise MethodError(
            f"Variable '{values.name}' is too large to be rounded to whole numbers.",
            hint="give it in a larger unit, or leave out `whole`.",
        )
    return whole.cast(pl.Int64)


def _beside(values: pl.Series, codes: tuple[Any, ...]) -> pl.Series:
    """The values, with those that happen to equal a code for "missing" moved next to it."""
    taken = [float(code) for code in codes if isinstance(code, (int, float))]
    new = values
    for code in taken:
        step = 1.0 if values.dtype.is_integer() else float(np.spacing(code))
        free = code + step
        while free in taken:
            free += step
        new = new.set(new == code, free if values.dtype.is_float() else int(free))
    return new
