"""Variables as codes: what the clusterings work on, and what each code stands for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.cells.notation import RANGE, SET, written
from sfumato.data import Dataset, coded_missing
from sfumato.errors import DataError, MethodError
from sfumato.io import frames
from sfumato.kernels.arrays import Codes, Floats
from sfumato.schema import Column
from sfumato.schema.hierarchies import Hierarchy

_NUMBERS = ("integer", "continuous")
_APART = 0.5
"""How far missing lies below the lowest value, as a share of the span of the values."""


@dataclass(frozen=True, eq=False)
class Variable:
    """One variable as codes, from 0; the codes of an ordered variable are in its order.

    Parameters
    ----------
    name : its name.
    column : its declaration.
    codes : the code of each record.
    levels : what each code stands for; those that mean missing come first.
    missing : how many of the levels mean missing.
    worth : what each code is worth as a number; None where levels have no order.
    """

    name: str
    column: Column
    codes: Codes
    levels: pl.Series
    missing: int
    worth: Floats | None

    def take(self, positions: npt.NDArray[np.int64]) -> Variable:
        """Some of the records, with the levels that they have."""
        used, codes = np.unique(self.codes[positions], return_inverse=True)
        return replace(
            self,
            codes=codes.ravel().astype(np.int32),
            levels=self.levels.gather(used),
            missing=int((used < self.missing).sum()),
            worth=None if self.worth is None else self.worth[used],
        )

    @property
    def groups(self) -> list[tuple[str, ...]] | None:
        """The ever broader groups of each level, where the schema has a hierarchy."""
        if self.column.hierarchy is None:
            return None
        paths = Hierarchy.of(self.column.hierarchy).paths
        named = [written(level) for level in self.levels.to_list()]
        unknown = [at >= self.missing and name not in paths for at, name in enumerate(named)]
        if any(unknown):
            raise MethodError(
                f"Variable '{self.name}' has {int(np.array(unknown)[self.codes].sum())} records "
                "with a value that its hierarchy does not know.",
                hint="add all values to the hierarchy; codes are text, so 01067 is not 1067.",
            )
        return [paths[name] for name in named[self.missing :]]


def coded(data: Dataset, names: tuple[str, ...], owner: str) -> list[Variable]:
    """Some variables of the data as codes; each missing code is told apart from the others."""
    data.schema.require(names)
    if not names:
        raise MethodError(
            f"{owner} has no variable to work on.",
            hint='give some variables the role "quasi", or name them: variables = [...].',
        )
    return [variable(data, name, owner) for name in names]


def variable(data: Dataset, name: str, owner: str) -> Variable:
    """One variable as codes."""
    column = data.schema[name]
    raw = frames.column(data.frame, name)
    absent = coded_missing(raw, column)
    values = comparable(raw, column, owner)
    held = values.is_null() if absent is None else values.is_null() | absent
    gone = values.filter(held).unique().sort(nulls_last=False)
    levels = values.filter(~held).unique().sort()
    if column.kind == "ordinal" and column.levels is not None:
        levels = _declared(levels, column, name)
    elif _in_tree(column):
        levels = _along_tree(levels, column)
    every = pl.concat([gone, levels]).rename(name)
    codes = _places(values, every)
    return Variable(name, column, codes, every, len(gone), _worth(levels, column, len(gone)))


def comparable(values: pl.Series, column: Column, owner: str) -> pl.Series:
    """Values that can be sorted and told apart; dates by the day, since ranges are of days."""
    name, dtype = values.name, values.dtype
    if dtype in (pl.Date, pl.Datetime):
        return values.dt.date() if dtype == pl.Datetime else values
    if dtype.is_temporal():
        raise MethodError(
            f"{owner} cannot use variable '{name}': it holds times without a date.",
            hint="leave it out, or turn it into a number.",
        )
    if dtype.is_float():
        numbers = values.cast(pl.Float64) + 0.0  # no negative zero
        if numbers.is_infinite().any():
            raise DataError(
                f"Variable '{name}' holds infinite values.",
                hint="set them to missing, or correct them at the source.",
            )
        return numbers
    if dtype == pl.Binary:
        return values.bin.encode("hex")
    if (
        dtype == pl.String
        and column.kind in (*_NUMBERS, "date")
        and values.null_count() < len(values)
    ):
        made = any(RANGE.fullmatch(text) or SET.fullmatch(text) for text in values.drop_nulls())
        if made:
            raise MethodError(
                f"Variable '{name}' holds ranges that an earlier step has made.",
                hint="clusters are found once, in one step: `t_closeness` takes k, t and l.",
            )
        raise MethodError(
            f"{owner} needs numbers or dates in variable '{name}', which holds text.",
            hint="correct the cells, or declare another kind.",
        )
    return values


def _declared(levels: pl.Series, column: Column, name: str) -> pl.Series:
    """The levels that occur, in the declared order."""
    place = {written(level): at for at, level in enumerate(column.levels or ())}
    order = [place.get(written(level), -1) for level in levels.to_list()]
    if -1 in order:
        raise MethodError(
            f"Variable '{name}' has {order.count(-1)} levels that its domain does not list.",
            hint="declare all levels, from low to high.",
        )
    return levels.gather(np.argsort(order, kind="stable"))


def _in_tree(column: Column) -> bool:
    return column.kind in ("nominal", "text") and column.hierarchy is not None


def _along_tree(levels: pl.Series, column: Column) -> pl.Series:
    """Levels such that those of one group stand together; unknown ones at the end."""
    broader = Hierarchy.of(column.hierarchy or {}).paths

    def path(at: int) -> tuple[bool, tuple[str, ...], int]:
        text = written(levels[at])
        return text not in broader, tuple(reversed(broader.get(text, ()))), at

    return levels.gather(sorted(range(len(levels)), key=path))


def _worth(levels: pl.Series, column: Column, missing: int) -> Floats | None:
    if _in_tree(column):
        units = _climbed(levels, column)
    elif column.kind == "text" and levels.dtype == pl.String:
        units = _spelled(levels.to_list())
    elif column.kind == "ordinal" and (column.levels is not None or not levels.dtype.is_numeric()):
        if column.levels is None:
            raise MethodError(
                f"Variable '{levels.name}' is ordinal, and nothing says in which order.",
                hint="declare its levels in the schema, from low to high: domain = [...].",
            )
        units = np.arange(len(levels), dtype=np.float64)
    elif levels.dtype == pl.Date:
        units = levels.to_physical().cast(pl.Float64).to_numpy()
    elif column.kind in (*_NUMBERS, "ordinal") and levels.dtype.is_numeric():
        units = levels.cast(pl.Float64).to_numpy()
    elif column.kind in (*_NUMBERS, "ordinal", "date"):
        units = np.arange(len(levels), dtype=np.float64)  # nothing in it, or yes/no values
    else:
        return None
    if not missing:
        return units
    low, high = (units[0], units[-1]) if len(units) else (0.0, 0.0)
    below = low - _APART * (high - low if high > low else 1.0)
    return np.concatenate([np.full(missing, below), units])


def _climbed(levels: pl.Series, column: Column) -> Floats:
    """Neighbours in the tree are as far apart as their first common group is high."""
    broader = Hierarchy.of(column.hierarchy or {}).paths
    paths = [(text, *broader.get(text, ())) for text in map(written, levels.to_list())]
    steps = [0.0]
    for one, other in pairwise(paths):
        pairs = list(zip(one, other, strict=False))
        common = next((at for at, (a, b) in enumerate(pairs) if a == b), max(len(one), len(other)))
        steps.append(float(common))
    return np.cumsum(steps[: len(paths)])


def _spelled(texts: list[str]) -> Floats:
    """Codes in the order of their spelling, nearer the more of their beginning they share."""
    longest = max(map(len, texts), default=0)
    shared = [len(beginning(*pair)) for pair in pairwise(texts)]
    return np.cumsum([0.0, *(float(longest - one) for one in shared)])[: len(texts)]


def beginning(one: str, other: str) -> str:
    """What two texts begin with alike."""
    same = (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return one[: next(same, min(len(one), len(other)))]


def _places(values: pl.Series, levels: pl.Series) -> Codes:
    """Which of the levels each value is."""
    table = pl.DataFrame({"value": levels, "at": np.arange(len(levels), dtype=np.int32)})
    frame = values.alias("value").to_frame()
    found = frame.join(table, on="value", how="left", nulls_equal=True, maintain_order="left")
    return found["at"].to_numpy()
