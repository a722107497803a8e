"""The records of a site that a request is about: the same for every one of its results.

One population for all results leaves nothing to subtract: whoever has two results of a request has
them of the same records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.errors import DataError, SchemaError
from sfumato.figures.sheet.text import format_rough_share
from sfumato.io import frames
from sfumato.kernels.arrays import Floats, Integers
from sfumato.outputs.output import OutputRefused
from sfumato.outputs.rules import Rules
from sfumato.sites.request import AgreedVariable, Filter, SiteRequest
from sfumato.utility.models.covariates import format_level


@dataclass(frozen=True, eq=False)
class SitePopulation:
    """The records that count, and the variables of the request.

    Parameters
    ----------
    data : the records, with all their variables: the log distinguishes them by these.
    numbers : the variables with a range, or with a step.
    codes : of the variables with levels, the position of each record's level.
    left_out : roughly what share of the site's records does not count.
    """

    data: Dataset = field(repr=False)
    numbers: Mapping[str, Floats] = field(repr=False)
    codes: Mapping[str, Integers] = field(repr=False)
    left_out: str = ""

    def __len__(self) -> int:
        return len(self.data)


def select_population(data: Dataset, request: SiteRequest, rules: Rules) -> SitePopulation:
    """The complete records within the agreed ranges and levels; refused where there are few."""
    if not frames.is_in_memory(data.frame):
        raise DataError(
            "A site answers a request from records in memory, and these are in a file or on a "
            "cluster.",
            hint="read them with sf.read, or answer from an extract with the variables asked for.",
        )
    filtered = [part.variable for part in request.where]
    names = list(dict.fromkeys([*request.variables, *filtered]))
    data.schema.require(names)
    if direct := [name for name in names if name in data.schema.identifiers]:
        raise OutputRefused(
            f"Variable '{direct[0]}' names people, so nothing about it may be released.",
            hint="leave it out of the request.",
        )
    numbers: dict[str, Floats] = {}
    codes: dict[str, Integers] = {}
    known = np.ones(len(data), bool)
    for name, agreed in request.variables.items():
        if agreed.levels is None:
            numbers[name] = _read_numbers(data, name)
            known &= _is_within(numbers[name], agreed)
        else:
            codes[name] = _find_levels(data.column(name), agreed.levels)
            known &= codes[name] >= 0
    chosen = np.logical_and.reduce([_meets_filter(data, part) for part in request.where])
    rows = np.flatnonzero(known & chosen)
    if len(rows) < rules.records:
        raise OutputRefused(
            f"Fewer than {rules.records} records have all that the request is about.",
            hint=f"an answer rests on at least {rules.records} records.",
        )
    total = int(np.broadcast_to(chosen, known.shape).sum())
    missing = 1 - len(rows) / total
    return SitePopulation(
        data.take(rows),
        {name: values[rows] for name, values in numbers.items()},
        {name: values[rows] for name, values in codes.items()},
        format_rough_share(missing, records=total, k=rules.k) if missing else "",
    )


def _read_numbers(data: Dataset, name: str) -> Floats:
    values = data.column(name)
    if not values.dtype.is_numeric():
        raise SchemaError(
            f"Variable '{name}' holds no numbers, and the request has a range for it.",
            hint="declare its levels in the request, or recode it.",
        )
    return values.cast(pl.Float64).fill_null(np.nan).to_numpy()


def _is_within(values: Floats, agreed: AgreedVariable) -> Any:
    if agreed.low is None or agreed.high is None:
        return np.isfinite(values)
    return (values >= agreed.low) & (values <= agreed.high)


def _find_levels(values: pl.Series, levels: tuple[str, ...]) -> Integers:
    """The position of each value among the levels, as text; -1 where it is none of them."""
    position = {level: index for index, level in enumerate(levels)}
    distinct = values.unique().drop_nulls()
    texts = [format_level(value) for value in distinct.to_list()]
    if values.dtype == pl.Boolean:
        texts = [text.lower() for text in texts]
    codes = [position.get(text, -1) for text in texts]
    coded = values.replace_strict(distinct, codes, default=-1, return_dtype=pl.Int64)
    return coded.fill_null(-1).to_numpy()


def _meets_filter(data: Dataset, part: Filter) -> Any:
    if part.levels is not None:
        return _find_levels(data.column(part.variable), part.levels) >= 0
    values = _read_numbers(data, part.variable)
    low = -np.inf if part.low is None else part.low
    high = np.inf if part.high is None else part.high
    return (values >= low) & (values <= high)
