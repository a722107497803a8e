"""The smallest k that moves enough records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.cells.pairs import distances, matrix
from sfumato.engines import Engine
from sfumato.engines.local import class_of_each
from sfumato.engines.summaries import Deviation
from sfumato.errors import MethodError
from sfumato.kernels.arrays import Integers
from sfumato.methods._strata.centres import Moving, Ready, moved
from sfumato.methods._strata.sizes import texts


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
    # Of the values that are there: gaps that were filled would make the spread too small.
    told = engine.aggregate(ready.kept, {name: [Deviation()] for name in ready.variables})
    sds = np.array([told[name]["sd"] for name in ready.variables])
    shares: list[float] = []

    def spec(k: Integers) -> dict[str, Any]:
        if not moving.by_stratum or one:
            return {"all": int(k[0]), "strata": []}
        listed = [[*row, int(size)] for row, size in zip(rows, k, strict=True)]
        return {"all": None, "strata": sorted(listed, key=lambda row: list(map(str, row[:-1])))}

    def enough(k: Integers) -> npt.NDArray[np.bool_]:
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
            hint='use fewer strata, say k_by = "stratum", allow more, or put another method '
            "beside this one.",
        )
    return {"k": spec(k), "stayed": shares[-1]}


def smallest(
    enough: Callable[[Integers], npt.NDArray[np.bool_]], low: Integers, high: Integers
) -> Integers | None:
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
