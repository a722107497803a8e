"""Strata: the records that share their categories, and which of them are too small."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.engines.local import class_of_each
from sfumato.engines.summaries import exact_sum
from sfumato.errors import MethodError, StrataError
from sfumato.kernels.arrays import Integers

Level = str | None
"""A category as text; None where the value is missing."""
Joined = dict[str, list[tuple[Level, str]]]
"""For each variable whose levels were joined: every level, and what it is called now."""


_SMALL = 'use fewer variables in `strata`, or say small = "suppress" or "merge".'


def require_large(
    data: Dataset, by: Sequence[str], k: int, engine: Engine, *, hint: str = _SMALL
) -> None:
    """Fail when a stratum has fewer than k records; the error lists them, its text does not."""
    found = engine.distinct(data, by)
    small = found.counts < k
    if not small.any():
        return
    records = int(found.counts[small].sum())
    if not by or len(found) == 1:
        raise MethodError(
            f"There are {int(found.counts.sum())} records, and k = {k} needs at least {k}.",
            hint="choose a smaller k.",
        )
    error = StrataError(
        f"{int(small.sum())} of {len(found)} strata of {', '.join(by)} have fewer than k = {k} "
        f"records ({records} records in all).",
        hint=f"{hint} A terminal shows which they are; in Python, `error.strata` does.",
    )
    listed = found.values.with_columns(pl.Series("records", found.counts))
    error.strata = data.like(listed.filter(pl.Series(small)).sort(list(by)))
    raise error


def in_large(data: Dataset, by: Sequence[str], k: int, engine: Engine) -> Integers:
    """The positions of the records whose stratum has at least k."""
    found = engine.distinct(data, by)
    if not by:
        return np.arange(len(data) if found.counts[0] >= k else 0)
    return np.flatnonzero(found.counts[class_of_each(data.batch(by), found.values)] >= k)


def texts(values: pl.Series) -> pl.Series:
    """Levels as text, whatever their type; -0.0 is 0.0, as it is when records are grouped."""
    return (values.set(values == 0, 0.0) if values.dtype.is_float() else values).cast(pl.String)


def recoded(values: pl.Series, joined: Sequence[tuple[Level, str]]) -> pl.Series:
    """The levels of a variable under their new names."""
    old = pl.Series([level for level, _ in joined], dtype=pl.String)
    new = pl.Series([label for _, label in joined], dtype=pl.String)
    return texts(values).replace_strict(old, new).alias(values.name)


def centres(
    data: Dataset, variable: str, numbers: Mapping[str, tuple[float, float]], engine: Engine
) -> dict[Level, list[float]]:
    """The mean of the standardised numbers at each level of a variable, by exact sums."""
    names = list(numbers)

    def means(batch: pl.DataFrame, starts: npt.NDArray[np.int64], draws: object) -> pl.DataFrame:
        del draws
        sizes = np.diff(starts)
        return pl.DataFrame(
            {
                name: np.repeat(
                    [
                        math.fsum(exact_sum(column[low : low + size])) / size
                        for low, size in zip(starts[:-1], sizes, strict=True)
                    ],
                    sizes,
                )
                for name, column in ((one, batch[one].to_numpy()) for one in names)
            }
        )

    slim = Dataset(data.batch([variable, *names]))
    found = engine.map_groups(slim, means, by=[variable], reads=names)
    rows = engine.distinct(found, [variable, *names]).values
    levels = texts(rows[variable]).to_list()
    return {
        level: [(rows[name][at] - mean) / sd for name, (mean, sd) in numbers.items()]
        for at, level in enumerate(levels)
    }
