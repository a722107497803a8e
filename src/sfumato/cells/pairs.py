"""What two data sets, the original and the released, both hold as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats


@dataclass(frozen=True, eq=False)
class Pair:
    """The numeric variables of both, a row per record, NaN where a value is missing.

    Parameters
    ----------
    names : the variables compared.
    original, released : their values, in the order of `names`.
    left_out : numeric variables of the original that the release holds no longer as numbers.
    """

    names: tuple[str, ...]
    original: Floats = field(repr=False)
    released: Floats = field(repr=False)
    left_out: tuple[str, ...]

    def warnings(self) -> tuple[str, ...]:
        """What is not part of the comparison, in words."""
        if not self.left_out:
            return ()
        listed = ", ".join(f"'{name}'" for name in self.left_out)
        return (f"Not compared, since the release no longer holds numbers there: {listed}.",)


def numbers_of(original: Dataset) -> tuple[str, ...]:
    """The variables that are measured numbers of a person: no identifier, weight or cluster."""
    return tuple(
        name
        for name, told in original.schema.items()
        if told.role not in ("direct", "weight", "cluster")
        and told.kind in ("continuous", "integer", None)
        and original.column(name).dtype.is_numeric()
    )


def paired(
    original: Dataset, released: Dataset, named: Sequence[str] | None, *, owner: str
) -> Pair:
    """The numbers of both data sets, record by record; fail when nothing can be compared.

    Variables that somebody named must be numbers in both. By default all numbers of the original
    are taken that are still numbers in the release; the others are told in `left_out`.
    """
    if len(original) != len(released):
        raise MeasureError(
            f"'{owner}' compares record by record; the original has {len(original)} records, the "
            f"released data {len(released)}.",
            hint="evaluate a Release or its folder, so that the records can be paired.",
        )
    if not len(original):
        raise MeasureError("There is no record to compare.", hint="are the data empty?")
    if named is not None:
        original.schema.require(named)
        wrong = [name for name in named if not (_holds(original, name) and _holds(released, name))]
        if wrong:
            listed = ", ".join(f"'{name}'" for name in wrong)
            raise MeasureError(
                f"'{owner}' needs numbers in both data sets; these are not: {listed}.",
                hint="leave them out of `variables`.",
            )
    wanted = numbers_of(original) if named is None else tuple(named)
    names = tuple(name for name in wanted if _holds(released, name))
    if not names:
        raise MeasureError(
            f"'{owner}' finds no variable that is a number in both data sets.",
            hint="name some: variables = [...].",
        )
    return Pair(
        names=names,
        original=matrix(original, names),
        released=matrix(released, names),
        left_out=tuple(name for name in wanted if name not in names),
    )


def matrix(data: Dataset, names: Sequence[str]) -> Floats:
    """A column per variable, NaN where a value is missing; fail on infinite values."""
    values = np.empty((len(data), len(names)))
    for at, name in enumerate(names):
        values[:, at] = data.column(name).cast(pl.Float64).fill_null(np.nan).to_numpy()
        if np.isinf(values[:, at]).any():
            raise MeasureError(
                f"Variable '{name}' holds infinite values.",
                hint="set them to missing, or correct them at the source.",
            )
    return values


def _holds(data: Dataset, name: str) -> bool:
    return name in data.columns and data.column(name).dtype.is_numeric()


def distances(original: Floats, released: Floats, spread: Floats) -> Floats:
    """How far each record moved, in standard deviations; NaN where nothing can be compared."""
    apart = (released - original) / spread
    known = ~np.isnan(apart)
    total = np.zeros(len(apart))
    for at in range(apart.shape[1]):  # one after the other: the same sum for every layout
        total += np.where(known[:, at], apart[:, at], 0.0) ** 2
    return np.where(known.any(axis=1), np.sqrt(total), np.nan)
