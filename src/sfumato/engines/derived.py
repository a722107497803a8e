"""Summaries of values that a function makes of the records, such as those of one group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import polars as pl

from sfumato.data import Dataset
from sfumato.engines.summaries import Summary, aggregate_in_passes
from sfumato.engines.verbs import Engine

Derive = Callable[[pl.DataFrame], Mapping[str, pl.Series]]
"""A batch of records in, columns of values without gaps out, of any length."""
Taken = dict[str, list[list[Any]]]
"""By column and summary, what was kept of some parts."""


def aggregate_derived_columns(
    engine: Engine,
    data: Dataset,
    derive: Derive,
    wanted: Mapping[str, Sequence[Summary]],
    *,
    reads: Sequence[str],
) -> dict[str, dict[str, Any]]:
    """`Engine.aggregate` of columns that are not among the variables, one pass for each need.

    No column is added to the data, so that nothing but what is read moves, and records need no ids.
    """

    def pass_over(ready: Mapping[str, Sequence[Summary]], known: dict[str, dict[str, Any]]) -> None:
        take = partial(_take, derive, ready, {name: dict(values) for name, values in known.items()})
        parts = engine.gather(data, take, reads=reads, combine=partial(_combine, ready))
        taken = reduce(partial(_combine, ready), parts)
        for name, summaries in ready.items():
            for summary, partials in zip(summaries, taken[name], strict=True):
                known[name][summary.name] = summary.merge(partials, known[name])

    return aggregate_in_passes(wanted, pass_over)


def _take(
    derive: Derive,
    ready: Mapping[str, Sequence[Summary]],
    known: Mapping[str, Mapping[str, Any]],
    batch: pl.DataFrame,
) -> Taken:
    columns = derive(batch)
    return {
        name: [[summary.partial(columns[name], known[name])] for summary in summaries]
        for name, summaries in ready.items()
    }


def _combine(ready: Mapping[str, Sequence[Summary]], first: Taken, second: Taken) -> Taken:
    """What was kept of two parts; in one piece where a summary can join them."""
    joined: Taken = {}
    for name, summaries in ready.items():
        both = zip(summaries, first[name], second[name], strict=True)
        joined[name] = [
            _join(summary, [*partials, *further]) for summary, partials, further in both
        ]
    return joined


def _join(summary: Summary, partials: list[Any]) -> list[Any]:
    combine = getattr(summary, "combine", None)
    return partials if combine is None else [reduce(combine, partials)]
