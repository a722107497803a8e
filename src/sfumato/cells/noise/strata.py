"""Strata that have a description of noise of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.cells.codes import plain
from sfumato.engines.local import class_of_each
from sfumato.errors import MethodError
from sfumato.randomness import Draws

Where = dict[str, Any]
"""The values of the variables that make up the strata; None where one is missing."""


def key_of(row: Sequence[Any]) -> tuple[Any, ...]:
    """A stratum as what it is told apart by: 1 and 1.0 are one value, 1 and yes are two."""
    return tuple((type(one).__name__, one) for one in map(plain, row))


def in_order(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Strata in an order of their own, whatever the order they came in."""
    return sorted(
        rows, key=lambda row: [(type(one).__name__, 0 if one is None else one) for one in row]
    )


def stratum_of_each(
    batch: pl.DataFrame, names: Sequence[str], strata: Sequence[Mapping[str, Any]]
) -> npt.NDArray[np.int64]:
    """Which of the strata each record belongs to."""
    if not names:
        return np.zeros(batch.height, np.int64)
    known = {key_of([one["where"][name] for name in names]): at for at, one in enumerate(strata)}
    wanted = pl.DataFrame([batch[name] for name in names])
    found = wanted.unique()
    at = [known.get(key_of(row)) for row in found.iter_rows()]
    if None in at:
        raise MethodError(
            "Some records are of a stratum that was not there when the method was fitted.",
            hint="fit and apply it to the same records.",
        )
    numbers = np.array(at, np.int64)
    made: npt.NDArray[np.int64] = numbers[class_of_each(wanted, found)]
    return made


def draws_of(draws: Draws, some: npt.NDArray[np.intp]) -> Draws:
    """The draws of some of the records."""
    ids: Any = draws.ids
    return Draws(
        draws.key, draws.step, ids[some] if isinstance(ids, np.ndarray) else ids.take(some)
    )


def require_enough(counts: npt.NDArray[Any], fewest: int, strata: Sequence[str]) -> None:
    """Refuse strata so small that their published description would tell of single records."""
    small = int((counts < fewest).sum())
    if not small and len(counts):
        return
    if not strata or not len(counts):
        raise MethodError(
            f"There are fewer than {fewest} values, and the description of the noise would tell "
            "how they are distributed.",
            hint="take more records, or a smaller `fewest`.",
        )
    raise MethodError(
        f"{small} of {len(counts)} strata have fewer than {fewest} values, and the description of "
        "the noise would tell how these are distributed.",
        hint="use fewer variables in `strata`, or recode them to broader groups.",
    )
