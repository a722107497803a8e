"""The generalisations among which a joint search chooses, each as the step that makes it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.cells.notation import MASK, RANGE, SET, written
from sfumato.data import Dataset
from sfumato.errors import MeasureError, SfumatoError
from sfumato.kernels.arrays import AnyIntegers
from sfumato.methods.coarsen import Coarsen
from sfumato.methods.drop import Drop
from sfumato.methods.recode import Recode
from sfumato.risk._peers.cuts import Cuts, all_cuts
from sfumato.risk._peers.places import Places, placed
from sfumato.risk._peers.rows import Rows
from sfumato.schema import Column
from sfumato.schema.hierarchies import Hierarchy

Step = Coarsen | Recode | Drop
_PARTS = (2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100)
"""Into how many parts an order is cut. In between, little changes."""
_RARE = tuple(base * 10**power for power in range(8) for base in (1, 2, 5))[1:]
"""Round numbers: an exact count of the original would be published with the step."""


@dataclass(frozen=True, eq=False)
class Choice:
    """One generalisation of one variable.

    variable : its place among the known ones.
    step : the method that makes it; None where the variable stays as it is.
    how : in words, without a value.
    lookup : the category of each value, by its code.
    categories : how many there are, missing among them where it occurs.
    loss : the share of the variable's entropy that is lost; 1 when it is left out.
    """

    variable: int
    step: Step | None
    how: str
    lookup: AnyIntegers
    categories: int
    loss: float

    @property
    def drops(self) -> bool:
        """Whether the variable is left out."""
        return isinstance(self.step, Drop)


def as_it_is(rows: Rows, variable: int) -> Choice:
    """No generalisation at all."""
    values = int(rows.codes[:, variable].max()) + 1
    return Choice(variable, None, "as it is", np.arange(values), values, 0.0)


def left_out(rows: Rows, variable: int) -> Choice:
    """The last resort."""
    values = int(rows.codes[:, variable].max()) + 1
    gone = Drop(variables=[rows.known[variable]])
    return Choice(variable, gone, "left out", np.zeros(values, np.int64), 1, 1.0)


def choices(data: Dataset, rows: Rows, variable: int, fewest: int, offsets: int) -> list[Choice]:
    """What may become of a variable, from the least loss to the greatest; [] where nothing may.

    Examples
    --------
    >>> import polars as pl
    >>> from sfumato.risk._peers.rows import distinct_rows
    >>> data = Dataset(pl.DataFrame({"age": [30, 31, 40, 41], "ill": [0, 1, 1, 0]}))
    >>> found = choices(data, distinct_rows(data, "ill", ["age"]), 0, 2, 1)
    >>> found[-1].how, found[-1].lookup.tolist()
    ('width 6, lowest 6', [0, 0, 1, 1])
    """
    seen = _Seen.of(rows, variable)
    made = [one for one in _made(data, rows, variable, seen, offsets) if one.categories >= fewest]
    kept: dict[bytes, Choice] = {}
    for one in sorted(made, key=lambda one: one.loss):
        if one.loss > 0:
            # The same categories need to be measured once.
            kept.setdefault(one.lookup.tobytes(), one)
    return list(kept.values())


@dataclass(frozen=True, eq=False)
class _Seen:
    """The distinct values of a variable: how many records each has, and one of its rows."""

    counts: AnyIntegers
    row: AnyIntegers
    record: AnyIntegers

    @classmethod
    def of(cls, rows: Rows, variable: int) -> _Seen:
        codes = rows.codes[:, variable]
        counts = np.bincount(codes, rows.counts).astype(np.int64)
        _, row = np.unique(codes, return_index=True)
        _, record = np.unique(codes[rows.of], return_index=True)
        return cls(counts, row, record)

    def loss(self, lookup: AnyIntegers) -> float:
        whole = entropy(self.counts)
        return 1 - entropy(np.bincount(lookup, self.counts)) / whole if whole else 0.0


def entropy(counts: Iterable[float]) -> float:
    """The entropy of categories in bits; an exact sum, whatever their order.

    Examples
    --------
    >>> entropy([2, 2])
    1.0
    """
    some = [float(one) for one in counts if one > 0]
    total = math.fsum(some)
    return math.fsum(one / total * math.log2(total / one) for one in some)


def _made(data: Dataset, rows: Rows, variable: int, seen: _Seen, offsets: int) -> Iterator[Choice]:
    name = rows.known[variable]
    column, values = data.schema[name], rows.values[name][seen.row]
    levels = Hierarchy.of(column.hierarchy or {}).depth
    tried: list[tuple[Step, str]] = [
        (Recode(variables=[name], level=level), f"level {level} of its hierarchy")
        for level in range(1, levels + 1)
    ]
    try:
        yield from _cut(data, name, variable, seen, placed(data, name, values), offsets)
    except MeasureError:
        # It has no places in an order.
        tried += _intervals(name, column) if values.dtype.is_float() else []
        if not levels and not values.dtype.is_numeric():
            tried += _rare(name, int(seen.counts.max()))
    for step, how in tried:
        found = _carried_out(data, name, variable, seen, step, how)
        if found is not None:
            yield found


def _intervals(name: str, column: Column) -> list[tuple[Step, str]]:
    edges: Any = "declared" if column.bounds is not None else "observed"
    return [
        (Coarsen(variables=[name], intervals=parts, edges=edges), f"{parts} intervals")
        for parts in _PARTS
    ]


def _rare(name: str, most: int) -> list[tuple[Step, str]]:
    return [
        (Recode(variables=[name], fewest=least), f"joined below {least:,} records")
        for least in _RARE
        if least <= most
    ]


def _carried_out(
    data: Dataset, name: str, variable: int, seen: _Seen, step: Step, how: str
) -> Choice | None:
    """The step on the data as they are, so that what is measured is what will be done."""
    try:
        column = step.apply(data).column(name)
    except SfumatoError:
        return None  # a method that refuses these data is no choice
    new = column.gather(seen.record)
    levels = new.drop_nulls().unique().sort()
    place = dict(zip(levels.to_list(), range(len(levels)), strict=True))
    lookup = np.array([place.get(one, len(levels)) for one in new.to_list()], np.int64)
    return _choice(variable, seen, step, how, lookup)


def _choice(variable: int, seen: _Seen, step: Step, how: str, lookup: AnyIntegers) -> Choice:
    return Choice(variable, step, how, lookup, len(np.unique(lookup)), seen.loss(lookup))


def _cut(
    data: Dataset, name: str, variable: int, seen: _Seen, places: Places, offsets: int
) -> Iterator[Choice]:
    sizes = sorted({-(-places.span // parts) for parts in _PARTS if parts < places.span})
    checked = False
    for cuts in all_cuts(places.span, "narrow", sizes) if sizes else []:
        for which in _some(len(cuts.offsets), offsets):
            step = cut_step(data, name, places, cuts, which)
            if step is None:
                continue
            how = f"width {cuts.width:,}, lowest {int(cuts.offsets[which]):,}"
            if not checked and _carried_out(data, name, variable, seen, step, how) is None:
                return
            checked = True
            category = cuts.category(places.at, slice(which, which + 1))[0]
            lookup = np.where(places.missing, int(cuts.categories[which]), category)
            yield _choice(variable, seen, step, how, lookup.astype(np.int64))


def _some(number: int, most: int) -> list[int]:
    """At most so many offsets, as even as possible: all where there are few."""
    if number <= most:
        return list(range(number))
    return sorted({round((at + 1) * number / most) - 1 for at in range(most)})


def cut_step(
    data: Dataset, name: str, places: Places, cuts: Cuts, which: int
) -> Coarsen | Recode | None:
    """The step of a plan that cuts a variable so; None where no method can."""
    starts = cuts.starts(which)
    if places.numbers:
        declared = data.schema[name].bounds is not None
        return Coarsen(
            variables=[name],
            breaks=[places.value(one) for one in starts],
            edges="declared" if declared else "observed",
        )
    levels = [written(places.value(one)) for one in range(places.span)]
    return _joined(name, levels, starts)


def _joined(name: str, levels: Sequence[str], starts: Sequence[int]) -> Recode | None:
    """Neighbours in a declared order, in groups named by their ends."""
    groups: dict[str, Any] = {}
    for first, end in zip([0, *starts], [*starts, len(levels)], strict=True):
        if end - first > 1:
            groups[f"{levels[first]} to {levels[end - 1]}"] = list(levels[first:end])
    # Groups of ranges would stand beside ranges, and nothing could read such a column.
    ranges = any(pattern.fullmatch(one) for one in levels for pattern in (RANGE, SET, MASK))
    if not groups or ranges or set(groups) & set(levels):
        return None
    return Recode(variables=[name], groups=groups)
