"""The generalisations among which a recommendation chooses, each as the step that makes it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.cells.codes import encode
from sfumato.cells.notation import MASK, RANGE, SET, format_value
from sfumato.data import Dataset
from sfumato.errors import MeasureError, SfumatoError
from sfumato.kernels.arrays import AnyIntegers
from sfumato.methods.coarsen import Coarsen
from sfumato.methods.drop import Drop
from sfumato.methods.recode import Recode
from sfumato.risk.protection.distinct_records import DistinctRecords
from sfumato.risk.protection.equal_widths import (
    EqualWidths,
    OrderedValues,
    is_above,
    list_widths,
    order_distinct,
)
from sfumato.schema import Column
from sfumato.schema.hierarchies import Hierarchy

Step = Coarsen | Recode | Drop
_PARTS = (2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100)
"""Into how many parts an order is cut. In between, little changes."""
_RARE = tuple(base * 10**power for power in range(8) for base in (1, 2, 5))[1:]
"""Round numbers: an exact count of the original would be published with the step."""


@dataclass(frozen=True, eq=False)
class Generalisation:
    """One generalisation of one variable.

    variable : its position among the known ones.
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


def build_identity(records: DistinctRecords, variable: int) -> Generalisation:
    """No generalisation at all."""
    values = int(records.codes[:, variable].max()) + 1
    return Generalisation(variable, None, "as it is", np.arange(values), values, 0.0)


def drop_variable(records: DistinctRecords, variable: int) -> Generalisation:
    """The last resort."""
    values = int(records.codes[:, variable].max()) + 1
    step = Drop(variables=[records.known[variable]])
    return Generalisation(variable, step, "left out", np.zeros(values, np.int64), 1, 1.0)


def list_generalisations(
    data: Dataset, records: DistinctRecords, variable: int, fewest: int, offsets: int
) -> list[Generalisation]:
    """What may become of a variable, from the least loss to the greatest; [] where nothing may.

    Examples
    --------
    >>> import polars as pl
    >>> from sfumato.risk.protection.distinct_records import find_distinct_records
    >>> data = Dataset(pl.DataFrame({"age": [30, 31, 40, 41], "ill": [0, 1, 1, 0]}))
    >>> records = find_distinct_records(data, "ill", ["age"])
    >>> coarsest = list_generalisations(data, records, 0, 2, 1)[-1]
    >>> coarsest.how, coarsest.lookup.tolist()
    ('width 6, lowest 6', [0, 0, 1, 1])
    """
    values = _DistinctValues.of(records, variable)
    candidates = [
        candidate
        for candidate in _generalise(data, records, variable, values, offsets)
        if candidate.categories >= fewest
    ]
    distinct: dict[bytes, Generalisation] = {}
    for candidate in sorted(candidates, key=lambda candidate: candidate.loss):
        if candidate.loss > 0:
            # The same categories need to be measured once.
            distinct.setdefault(candidate.lookup.tobytes(), candidate)
    return list(distinct.values())


@dataclass(frozen=True, eq=False)
class _DistinctValues:
    """The distinct values of a variable: how many records each has, and one of its rows."""

    counts: AnyIntegers
    row: AnyIntegers
    record: AnyIntegers

    @classmethod
    def of(cls, records: DistinctRecords, variable: int) -> _DistinctValues:
        codes = records.codes[:, variable]
        counts = np.bincount(codes, records.counts).astype(np.int64)
        _, row = np.unique(codes, return_index=True)
        _, record = np.unique(codes[records.row_of], return_index=True)
        return cls(counts, row, record)

    def generalise(
        self, variable: int, step: Step, how: str, lookup: AnyIntegers
    ) -> Generalisation:
        complete = entropy(self.counts)
        # The loss is the share of the variable's entropy that coarser categories lack.
        remaining = entropy(np.bincount(lookup, self.counts))
        loss = 1 - remaining / complete if complete else 0.0
        return Generalisation(variable, step, how, lookup, len(np.unique(lookup)), loss)


def entropy(counts: Iterable[float]) -> float:
    """The entropy of categories in bits; an exact sum, whatever their order.

    Examples
    --------
    >>> entropy([2, 2])
    1.0
    """
    positive = [float(count) for count in counts if count > 0]
    total = math.fsum(positive)
    return math.fsum(count / total * math.log2(total / count) for count in positive)


def _generalise(
    data: Dataset,
    records: DistinctRecords,
    variable: int,
    values: _DistinctValues,
    offsets: int,
) -> Iterator[Generalisation]:
    name = records.known[variable]
    column, levels = data.schema[name], records.values[name][values.row]
    depth = Hierarchy.of(column.hierarchy or {}).depth
    steps: list[tuple[Step, str]] = [
        (Recode(variables=[name], level=level), f"level {level} of its hierarchy")
        for level in range(1, depth + 1)
    ]
    try:
        ordered = order_distinct(data, name, levels)
        yield from _cut_order(data, name, variable, values, ordered, offsets)
    except MeasureError:
        # Its values have no order.
        steps += _list_intervals(name, column) if levels.dtype.is_float() else []
        if not depth and not levels.dtype.is_numeric():
            steps += _join_rare(name, int(values.counts.max()))
    for step, how in steps:
        candidate = _carry_out(data, name, variable, values, step, how)
        if candidate is not None:
            yield candidate


def _list_intervals(name: str, column: Column) -> list[tuple[Step, str]]:
    # The declared domain gives nothing away; observed ends would.
    edges: Any = "declared" if column.bounds is not None else "observed"
    return [
        (Coarsen(variables=[name], intervals=parts, edges=edges), f"{parts} intervals")
        for parts in _PARTS
    ]


def _join_rare(name: str, most: int) -> list[tuple[Step, str]]:
    return [
        (Recode(variables=[name], fewest=least), f"joined below {least:,} records")
        for least in _RARE
        if least <= most
    ]


def _carry_out(
    data: Dataset, name: str, variable: int, values: _DistinctValues, step: Step, how: str
) -> Generalisation | None:
    """The step on the data as they are, so that what is measured is what will be done."""
    try:
        column = step.apply(data).column(name)
    except SfumatoError:
        return None  # a method that refuses these data is no candidate
    lookup = encode(column.gather(values.record)).missing_last.astype(np.int64)
    return values.generalise(variable, step, how, lookup)


def _cut_order(
    data: Dataset,
    name: str,
    variable: int,
    values: _DistinctValues,
    ordered: OrderedValues,
    offsets: int,
) -> Iterator[Generalisation]:
    sizes = sorted({-(-ordered.span // parts) for parts in _PARTS if parts < ordered.span})
    checked = False
    for widths in list_widths(ordered.span, "narrow", sizes) if sizes else []:
        for which in _spread_evenly(len(widths.offsets), offsets):
            step = build_cut_step(data, name, ordered, widths, which)
            if step is None:
                continue
            how = f"width {widths.width:,}, lowest {int(widths.offsets[which]):,}"
            # If the method refuses one cut of this variable, it refuses all.
            if not checked and _carry_out(data, name, variable, values, step, how) is None:
                return
            checked = True
            category = widths.category(ordered.position, slice(which, which + 1))[0]
            lookup = np.where(ordered.missing, int(widths.categories[which]), category)
            yield values.generalise(variable, step, how, lookup.astype(np.int64))


def _spread_evenly(number: int, most: int) -> list[int]:
    """At most so many offsets, as even as possible: all where there are few."""
    if number <= most:
        return list(range(number))
    return sorted({round((index + 1) * number / most) - 1 for index in range(most)})


def build_cut_step(
    data: Dataset, name: str, ordered: OrderedValues, widths: EqualWidths, which: int
) -> Coarsen | Recode | None:
    """The step of a plan that cuts a variable so; None where no method can."""
    starts = widths.starts(which)
    if ordered.numbers:
        declared = data.schema[name].bounds is not None
        return Coarsen(
            variables=[name],
            breaks=[ordered.value(start) for start in starts],
            edges="declared" if declared else "observed",
        )
    levels = [format_value(ordered.value(position)) for position in range(ordered.span)]
    return _join_neighbours(name, levels, starts)


def _join_neighbours(name: str, levels: Sequence[str], starts: Sequence[int]) -> Recode | None:
    """Neighbours in a declared order, in groups named by their ends."""
    groups: dict[str, Any] = {}
    for first, end in zip([0, *starts], [*starts, len(levels)], strict=True):
        if end - first > 1:
            groups[f"{levels[first]} to {levels[end - 1]}"] = list(levels[first:end])
    # Groups of ranges would stand beside ranges, and nothing could read such a column.
    ranges = any(pattern.fullmatch(level) for level in levels for pattern in (RANGE, SET, MASK))
    if not groups or ranges or set(groups) & set(levels):
        return None
    return Recode(variables=[name], groups=groups)


class ProtectedCounter:
    """Counts the records that generalisations protect, and how much of the budget that took."""

    def __init__(self, records: DistinctRecords, p: Fraction, budget: int) -> None:
        self._records, self._p, self._remaining = records, p, budget
        self._distinct = len(records.counts)
        if self._cost(len(records.known)) > budget:
            raise MeasureError(
                f"{len(records.counts):,} distinct records in all combinations of "
                f"{len(records.known)} variables are more than the budget allows.",
                hint="name fewer variables in `known`, or raise `budget`.",
            )

    def _cost(self, known: int) -> int:
        # Without a share to stay above, all that is known at once decides.
        return self._distinct * (1 if self._p == 0 else 2**known - 1)

    def affords(self, chosen: Sequence[Generalisation]) -> bool:
        """Whether one more count fits into the budget; it takes about as long as the last."""
        known = sum(not generalisation.drops for generalisation in chosen)
        return self._cost(known) <= self._remaining

    def count(self, chosen: Sequence[Generalisation]) -> int:
        """How many records have a share of protective peers above p in every combination."""
        from sfumato.kernels.lattice.peers import key_rows

        known = [generalisation.variable for generalisation in chosen if not generalisation.drops]
        columns = [chosen[variable].lookup[self._records.codes[:, variable]] for variable in known]
        codes = np.column_stack([*columns, self._records.codes[:, -1]])
        _, first, row_of = np.unique(
            key_rows(codes, range(codes.shape[1])), return_index=True, return_inverse=True
        )
        codes, self._distinct = codes[first], len(first)
        # The budget counts what was looked at: distinct rows times combinations.
        self._remaining -= self._cost(len(known))
        counts = np.bincount(row_of.ravel(), self._records.counts).astype(np.int64)
        if self._p == 0:
            return _count_with_any_peer(codes, counts)
        return _count_above(codes, counts, self._p)


def _count_with_any_peer(codes: AnyIntegers, counts: AnyIntegers) -> int:
    """Somebody protects a record in every combination if somebody does when all is known."""
    from sfumato.kernels.lattice.peers import key_rows

    # Rows are distinct, so two of a class differ in what is sensitive.
    classes = key_rows(codes, range(codes.shape[1] - 1))
    _, class_of, sizes = np.unique(classes, return_inverse=True, return_counts=True)
    return int(counts[sizes[class_of.ravel()] > 1].sum())


def _count_above(codes: AnyIntegers, counts: AnyIntegers, p: Fraction) -> int:
    from sfumato.kernels.lattice.peers import count_peers

    last = codes.shape[1] - 1
    peers = count_peers(codes, counts, sensitive=[last], known=range(last), p=p)
    safe = is_above(peers.least_protective[0], peers.least_peers[0], p)
    return int(counts[safe].sum())
