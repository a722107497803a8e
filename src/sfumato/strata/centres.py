"""Each record becomes the centre of its neighbours: the steps behind the deterministic method."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.comparing.pairs import distances, matrix
from sfumato.data import Dataset
from sfumato.engines import Engine, Starts
from sfumato.engines.local import class_of_each
from sfumato.engines.summaries import Deviation, Mean
from sfumato.errors import MethodError
from sfumato.strata.sizes import texts

Spread = Mapping[str, Mapping[str, float]]
"""The mean and standard deviation of each variable."""
Numbers = npt.NDArray[np.float64]
Sizes = npt.NDArray[np.int64]
_COLLINEAR = 1e-10
_ROUNDS = 200
_CLOSE = 1e-12


@dataclass(frozen=True, eq=False)
class Ready:
    """The records that will be released: as they are (`kept`), and with their gaps filled."""

    kept: Dataset
    full: Dataset
    variables: tuple[str, ...]
    by: tuple[str, ...]

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
    strata: pl.DataFrame
    original: pl.DataFrame
    centres: pl.DataFrame
    released: pl.DataFrame


def spread_of(data: Dataset, names: Sequence[str], engine: Engine) -> dict[str, dict[str, float]]:
    """The mean and SD of each variable, by exact sums; fail where all values are the same."""
    found = engine.aggregate(data, {name: [Mean(), Deviation()] for name in names})
    spread = {name: {"mean": found[name]["mean"], "sd": found[name]["sd"]} for name in names}
    flat = [name for name, one in spread.items() if not one["sd"] > 0]
    if flat:
        listed = ", ".join(f"'{name}'" for name in flat)
        raise MethodError(
            f"All values are the same, so there is nothing to blur: {listed}.",
            hint="leave the variable out of `variables`.",
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
            new = _rounded(new, bounds if moving.inside else None)
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

    def centred(batch: pl.DataFrame, starts: Starts, draws: object) -> pl.DataFrame:
        from sfumato.kernels.neighbours import centroids

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
    return whole.cast(pl.Int64)


def chosen_k(ready: Ready, moving: Moving, engine: Engine) -> dict[str, Any]:
    """The k as given or, with a floor on displacement, the smallest that moves enough records."""
    at_most = moving.at_most
    if at_most is None:
        return {"k": {"all": moving.k, "strata": []}}
    found = engine.distinct(ready.slim, ready.by)
    one = not ready.by
    levels = [texts(found.values[name]).to_list() for name in ready.by]
    rows = [()] if one else list(zip(*levels, strict=True))
    group = np.zeros(len(ready.full), int)
    if not one:
        group = class_of_each(ready.slim.batch(ready.by), found.values)
    original = matrix(ready.kept, ready.variables)
    sds = np.array([moving.spread[name]["sd"] for name in ready.variables])
    shares: list[float] = []

    def spec(k: Sizes) -> dict[str, Any]:
        if not moving.by_stratum or one:
            return {"all": int(k[0]), "strata": []}
        listed = [[*row, int(size)] for row, size in zip(rows, k, strict=True)]
        return {"all": None, "strata": sorted(listed, key=lambda row: list(map(str, row[:-1])))}

    def enough(k: Sizes) -> npt.NDArray[np.bool_]:
        made = moved(ready, moving, spec(k), engine)
        new = np.column_stack([column.cast(pl.Float64).to_numpy() for column in made])
        apart = distances(original, new, sds)
        stayed, known = apart <= moving.within, ~np.isnan(apart)
        shares.append(float(stayed.sum() / max(1, known.sum())))
        if moving.by_stratum:
            sizes = np.bincount(group, known, len(rows))
            return np.bincount(group, stayed, len(rows)) <= at_most * sizes
        return np.array([shares[-1] <= at_most])

    high = found.counts if moving.by_stratum else np.array([found.counts.min()])
    k = smallest(enough, np.full(len(high), moving.k), high)
    if k is None:
        raise MethodError(
            f"No k up to the size of the strata moves enough records: at best "
            f"{min(shares):.3g} of them stay within {moving.within:g} SD of their original, and "
            f"at_most is {at_most:g}.",
            hint="blur fewer variables less finely divided into strata, use another method "
            "beside this one, or allow more.",
        )
    return {"k": spec(k), "stayed": shares[-1]}


def smallest(
    enough: Callable[[Sizes], npt.NDArray[np.bool_]], low: Sizes, high: Sizes
) -> Sizes | None:
    """The smallest k of each group for which there is enough; None when even `high` is not.

    Groups are searched together, by strides and then by halves. One less would not be enough,
    as far as more k never means less protection, which holds nearly, not always.
    """
    fails, k = low - 1, low.copy()
    while not (met := enough(k)).all():
        if (k[~met] >= high[~met]).any():
            return None
        fails = np.where(met, fails, k)
        k = np.where(met, k, np.minimum(high, k + np.maximum(1, k // 2)))
    meets = k
    while (meets - fails > 1).any():
        k = np.where(meets - fails > 1, (meets + fails) // 2, meets)
        met = enough(k)
        fails, meets = np.where(met, fails, k), np.where(met, k, meets)
    # In strata the spread, and with it every distance, hangs on the k of the others.
    while not (met := enough(meets)).all():
        if (meets[~met] >= high[~met]).any():
            return None
        meets = np.where(met, meets, meets + 1)
    return meets
