"""The groups of a hierarchy as a grid for the ends of ranges.

Where the schema declares groups of numbers, dates or ordered levels, such as ages by five and by
ten years, ranges end where groups do.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import polars as pl

from sfumato.cells.notation import format_value, parse_number
from sfumato.errors import DataError
from sfumato.kernels.arrays import Array, Integers
from sfumato.schema import Column

_EPOCH = dt.date(1970, 1, 1)


@dataclass(frozen=True, eq=False)
class GroupGrid:
    """Groups of neighbours, from the narrowest level of a hierarchy to the broadest.

    Parameters
    ----------
    position : where each value of the hierarchy stands in its order, by its text.
    values : all values in order, as ranges write them.
    starts : for each level, the position at which each group begins, and an end.
    """

    position: dict[str, int] = field(repr=False)
    values: Sequence[Any] = field(repr=False)
    starts: Sequence[Integers] = field(repr=False)

    @classmethod
    def read(cls, column: Column, levels: pl.Series) -> GroupGrid | None:
        """The groups that a schema declares; None where they are no neighbours, or not all."""
        paths = column.hierarchy
        if paths is None or any(format_value(level) not in paths for level in levels.to_list()):
            return None
        try:
            ranked = sorted((_rank_value(text, column), text) for text in paths)
        except (DataError, KeyError, TypeError):
            return None
        texts = [text for _, text in ranked]
        starts = []
        for level in range(min(len(path) for path in paths.values())):
            runs = [len(list(run)) for _, run in groupby(paths[text][level] for text in texts)]
            # A group that is torn apart by others has no two ends.
            if len(runs) > len({paths[text][level] for text in texts}):
                break
            starts.append(np.cumsum([0, *runs]))
        if not starts:
            return None
        values = [_write_value(rank, text, column) for rank, text in ranked]
        return cls({text: index for index, text in enumerate(texts)}, values, starts)

    def locate(self, levels: pl.Series) -> Array:
        """The number of the narrowest group that each value is in."""
        positions = [self.position[format_value(level)] for level in levels.to_list()]
        return np.searchsorted(self.starts[0], np.array(positions, np.int64), "right") - 1

    def begin(self, cells: Array) -> pl.Series:
        """The first value of each group."""
        return pl.Series([self.values[start] for start in self.starts[0][cells].tolist()])

    def widen(self, first: Array, last: Array, parts: int) -> tuple[list[Any], list[Any]]:
        """Both ends of the ranges from one group to another, where broader groups end.

        They are the narrowest of which at most `parts` and one more make up the range.
        """
        low, high = [], []
        for begin, finish in zip(first.tolist(), last.tolist(), strict=True):
            start, end = int(self.starts[0][begin]), int(self.starts[0][finish + 1]) - 1
            for starts in self.starts:
                outer, inner = np.searchsorted(starts, [start, end], "right") - 1
                if inner - outer <= parts:
                    break
            low.append(self.values[int(starts[outer])])
            high.append(self.values[int(starts[inner + 1]) - 1])
        return low, high


def _rank_value(text: str, column: Column) -> Any:
    """What a value is sorted by: a number, a day, or its place among the declared levels."""
    if column.levels is not None:
        return {format_value(level): rank for rank, level in enumerate(column.levels)}[text]
    return parse_number(text, "date" if column.kind == "date" else "number", "hierarchy")


def _write_value(rank: Any, text: str, column: Column) -> Any:
    if column.levels is not None:
        return text
    return _EPOCH + dt.timedelta(days=rank) if column.kind == "date" else rank
