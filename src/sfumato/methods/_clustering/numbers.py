"""Codes as numbers, for clusterings that measure distances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.errors import MethodError
from sfumato.methods._clustering.coded import Variable


def numbers(variables: Sequence[Variable], owner: str) -> npt.NDArray[Any]:
    """A row per record, a column per variable: the values themselves, as the paper codes them.

    Categories without numbers count by their place among the levels.
    """
    columns = []
    for one in variables:
        _require_complete(one, owner)
        units: Any = one.worth
        if one.levels.dtype.is_integer():
            units = one.levels.to_numpy()
        elif one.levels.dtype.is_numeric():
            units = one.levels.cast(pl.Float64).to_numpy()
        elif units is None:
            units = np.arange(len(one.levels))
        columns.append(units[one.codes])
    whole = all(column.dtype.kind in "iu" for column in columns)
    return np.column_stack(columns).astype(np.int64 if whole else np.float64)


def standardised(variables: Sequence[Variable], owner: str) -> npt.NDArray[np.float64]:
    """A row per record, a column per variable, with mean 0 and SD 1; exact whatever the order."""
    columns = []
    for one in variables:
        _require_complete(one, owner)
        if one.worth is None or one.column.kind in ("nominal", "text"):
            raise MethodError(
                f"{owner} needs numbers, dates or ordered levels; variable '{one.name}' is "
                f"{one.column.kind}.",
                hint='choose clustering = "mondrian", which takes any variable.',
            )
        # Sums over the distinct values, in their order, do not depend on the records' order.
        often = np.bincount(one.codes, minlength=len(one.levels))
        mean = math.fsum(often * one.worth) / len(one.codes)
        away = one.worth - mean
        sd = math.sqrt(math.fsum(often * away * away) / len(one.codes))
        columns.append((away / sd if sd > 0 else away * 0.0)[one.codes])
    return np.column_stack(columns)


def _require_complete(one: Variable, owner: str) -> None:
    if one.missing:
        raise MethodError(
            f"{owner} measures distances, and variable '{one.name}' has missing values.",
            hint='choose clustering = "mondrian", or fill them in first.',
        )
