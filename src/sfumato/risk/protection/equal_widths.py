"""Equal-width generalisations of an ordered variable, and how many records each protects."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import polars as pl

from sfumato.data import Dataset, find_missing_codes
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import AnyIntegers
from sfumato.risk.protection.distinct_records import (
    DistinctRecords,
    find_distinct_records,
    read_threshold,
)

Ends = Literal["narrow", "any"]
_EPOCH = dt.date(1970, 1, 1)
_WIDEST = 1 << 31
_FAR = 1 << 40
_CELLS = 1 << 20
"""Cells that are worked on at once."""
_INTEGERS = ("width", "offset", "categories", "protected_records")


def widths(  # noqa: PLR0913 - the last three by name only
    data: Dataset,
    sensitive: str,
    variable: str,
    known: Sequence[str] | None = None,
    p: float = 0.0,
    *,
    ends: Ends = "narrow",
    sizes: Sequence[int] | None = None,
    budget: int = 2_000_000_000,
) -> Any:
    """The share of records that are protected, for every equal-width generalisation of a variable.

    Question: how coarse must a variable become, and where should it be cut?
    Assumes: a record is protected if, for every combination of the known variables, more than a
    share p of its peers have another sensitive value. Missing stays a category of its own.

    Parameters
    ----------
    data : the records.
    sensitive : the variable to protect.
    variable : the one to generalise: whole numbers, dates, or ordered categories.
    known : what an outsider may know. Default: all whose role is "quasi".
    p : the share of protective peers that is still a breach.
    ends : "narrow": the lowest and the highest category may be cut short. "any": they may also be
        wider than the others, and there are as many categories as the width needs at least. This
        is the published choice.
    sizes : the widths to look at. Default: all.
    budget : how many generalisations times records times combinations may be looked at.

    Returns a row per generalisation: `width`, `offset` (how many values the lowest category has),
    `categories`, `protected_records`, `protected` (their share), and `best`: nothing with as many
    categories protects more. Where two protect equally, the narrower stands, then the lower offset.

    Examples
    --------
    >>> frame = pl.DataFrame({"age": [30, 31, 33], "ill": [0, 1, 0]})
    >>> table = widths(Dataset(frame), "ill", "age", ["age"], sizes=[2])
    >>> table.select("width", "offset", "categories", "protected_records").rows()
    [(2, 1, 3, 0), (2, 2, 2, 2)]

    References: Kroes, Janssen, Groenwold & van Leeuwen (2021), Health Informatics Journal 27(2),
    Fig. 4.
    """
    above = read_threshold(p, "p")
    records = find_distinct_records(data, sensitive, known)
    if variable not in records.known:
        raise MeasureError(
            f"Variable '{variable}' is not known to the outsider, so making it coarse is no help.",
            hint="name it in `known`.",
        )
    column = records.known.index(variable)
    ordered = order_distinct(data, variable, records.values[variable])
    _check_budget(ordered.span, ends, sizes, records, above, budget)
    candidates = list_widths(ordered.span, ends, sizes)
    if above == 0:
        # Somebody protects a record in every combination if somebody does when all is known.
        neighbours = _find_protective_neighbours(records, column, ordered)
        protected: list[Any] = [
            _count_with_any_peer(neighbours, candidate, ordered.span) for candidate in candidates
        ]
    else:
        protected = [
            _count_above(records, column, ordered, candidate, above) for candidate in candidates
        ]
    return data.like(_tabulate(candidates, np.concatenate(protected), records.records))


def _tabulate(candidates: Sequence[EqualWidths], protected: Any, records: int) -> pl.DataFrame:
    table = pl.DataFrame(
        {
            "width": np.concatenate(
                [np.full(len(candidate.offsets), candidate.width) for candidate in candidates]
            ),
            "offset": np.concatenate([candidate.offsets for candidate in candidates]),
            "categories": np.concatenate([candidate.categories for candidate in candidates]),
            "protected_records": protected,
            # Not divided by polars, which multiplies by the reciprocal: 3 of 3 must be 1.
            "protected": protected / records,
        },
        schema_overrides=dict.fromkeys(_INTEGERS, pl.Int64),
    ).with_row_index("row")
    order = table.sort("protected_records", "row", descending=[True, False])
    best = order.unique("categories", keep="first", maintain_order=True)["row"]
    return table.with_columns(best=pl.col("row").is_in(best.implode())).drop("row")


@dataclass(frozen=True, eq=False)
class OrderedValues:
    """Where each distinct record stands in the order of one variable.

    position : from 0 on; 0 where the value is missing.
    missing : whether it is.
    span : how many positions there are.
    value : the value at a position.
    numbers : whether the values are numbers or dates, as the method "coarsen" takes them.
    """

    position: AnyIntegers
    missing: Any
    span: int
    value: Callable[[int], Any]
    numbers: bool


def order_distinct(data: Dataset, name: str, values: pl.Series) -> OrderedValues:
    """The positions of whole numbers, dates or ordered categories; others have none.

    Examples
    --------
    >>> ages = pl.Series("age", [30, 33, None])
    >>> ordered = order_distinct(Dataset(pl.DataFrame([ages])), "age", ages)
    >>> ordered.position.tolist(), ordered.span, ordered.value(3)
    ([0, 3, 0], 4, 33)
    """
    column = data.schema[name]
    absent = find_missing_codes(values, column)
    values = values if absent is None else values.set(absent, None)
    missing = values.is_null().to_numpy()
    if missing.all():
        raise MeasureError(f"Variable '{name}' has no values.", hint="leave it out.")
    if column.kind == "ordinal" and column.domain is not None:
        return _order_levels(name, values, missing, column.domain)
    numbers = _to_integers(name, values)
    low = int(numbers.min())  # type: ignore[arg-type]
    position = (numbers - low).fill_null(0).to_numpy()
    span = int(position.max()) + 1
    if values.dtype.is_temporal():
        return OrderedValues(
            position, missing, span, lambda days: _EPOCH + dt.timedelta(low + days), numbers=True
        )
    return OrderedValues(position, missing, span, lambda steps: low + steps, numbers=True)


def _order_levels(
    name: str, values: pl.Series, missing: Any, levels: Sequence[Any]
) -> OrderedValues:
    index = {level: position for position, level in enumerate(levels)}
    position = [0 if value is None else index.get(value, -1) for value in values.to_list()]
    if min(position) < 0:
        raise MeasureError(
            f"Variable '{name}' has values that its declared domain lacks.",
            hint="correct them or the domain.",
        )
    numbers = values.dtype.is_numeric() and list(levels) == sorted(levels)
    return OrderedValues(
        np.array(position), missing, len(levels), lambda position: levels[position], numbers
    )


def _to_integers(name: str, values: pl.Series) -> pl.Series:
    """The values as whole numbers; dates are days."""
    dated = values.dtype in (pl.Date, pl.Datetime)
    numbers = values.cast(pl.Date).to_physical() if dated else values
    integral = numbers.dtype.is_integer() or (
        numbers.dtype.is_float() and bool((numbers == numbers.floor()).all())
    )
    # Not strictly, since the text of that error would quote a value.
    integers = numbers.cast(pl.Int64, strict=False) if integral else numbers
    if not integral or integers.null_count() > numbers.null_count():
        raise MeasureError(
            f"Variable '{name}' holds neither whole numbers nor ordered categories.",
            hint='round it first, or declare kind = "ordinal" with its levels in order as domain.',
        )
    if int(integers.max()) - int(integers.min()) >= _WIDEST:  # type: ignore[arg-type]
        raise MeasureError(f"The values of variable '{name}' lie too far apart to be cut.")
    return integers


@dataclass(frozen=True, eq=False)
class EqualWidths:
    """Generalisations of one width, by how many values the lowest category has (the offset).

    width : values in a category.
    offsets : of each generalisation.
    categories : how many it has.
    """

    width: int
    offsets: AnyIntegers
    categories: AnyIntegers

    def category(self, position: AnyIntegers, some: slice) -> AnyIntegers:
        """The category of each position: generalisations x positions."""
        offsets, last = self.offsets[some, None], self.categories[some, None] - 1
        category: AnyIntegers = np.clip(1 + (position[None, :] - offsets) // self.width, 0, last)
        return category

    def starts(self, which: int) -> list[int]:
        """The positions at which categories begin, without the lowest."""
        first, count = int(self.offsets[which]), int(self.categories[which])
        return [first + self.width * step for step in range(count - 1)]


def list_widths(span: int, ends: Ends, sizes: Sequence[int] | None) -> list[EqualWidths]:
    """Every generalisation of so many positions.

    Examples
    --------
    >>> [(cuts.width, cuts.offsets.tolist()) for cuts in list_widths(3, "narrow", None)]
    [(1, [1]), (2, [1, 2]), (3, [1, 2, 3])]
    >>> [(cuts.width, cuts.offsets.tolist()) for cuts in list_widths(4, "any", None)]
    [(1, [1]), (2, [1, 2, 3]), (4, [4])]
    """
    build = _with_narrow_ends if ends == "narrow" else _with_any_ends
    return [build(span, width) for width in _choose_sizes(span, ends, sizes)]


def _choose_sizes(span: int, ends: Ends, sizes: Sequence[int] | None) -> list[int]:
    if ends not in ("narrow", "any"):
        raise MeasureError('`ends` is "narrow" or "any".')
    if sizes is None and ends == "narrow":
        return list(range(1, span + 1))
    if sizes is None:
        # Wider ones with as many categories differ in nothing but wide ends.
        return sorted({-(-span // count) for count in range(1, span + 1)})
    if not sizes or min(sizes) < 1:
        raise MeasureError("A width is 1 or more.", hint="name at least one in `sizes`.")
    return sorted({min(int(size), span) for size in sizes})


def _check_budget(
    span: int,
    ends: Ends,
    sizes: Sequence[int] | None,
    records: DistinctRecords,
    p: Fraction,
    budget: int,
) -> None:
    """Refuse what would take too long before anything is done; nothing is left out silently."""
    cost = len(records.counts) * (1 if p == 0 else 2 ** len(records.known) - 1)
    number = span
    if sizes is not None or span * cost <= budget:
        # No width has more offsets than positions, or than two categories have.
        wide = 1 if ends == "narrow" else 2
        number = sum(min(wide * width, span) for width in _choose_sizes(span, ends, sizes))
    if number * cost > budget:
        raise MeasureError(
            f"At least {number:,} generalisations of {len(records.counts):,} distinct records are "
            "more than the budget allows.",
            hint="name some widths: sizes = [...]; or raise `budget`.",
        )


def _with_narrow_ends(span: int, width: int) -> EqualWidths:
    offsets = np.arange(1, width + 1)
    return EqualWidths(width, offsets, 1 - (offsets - span) // width)


def _with_any_ends(span: int, width: int) -> EqualWidths:
    count = -(-span // width)
    if width == 1 or count == 1:
        return EqualWidths(width, np.array([width]), np.array([count]))
    offsets = np.arange(1, span - (count - 2) * width)
    return EqualWidths(width, offsets, np.full(len(offsets), count))


@dataclass(frozen=True, eq=False)
class _ProtectiveNeighbours:
    """Distinct positions, each with the nearest that protects on either side, and their records."""

    position: AnyIntegers
    below: AnyIntegers
    above: AnyIntegers
    counts: AnyIntegers


def _find_protective_neighbours(
    records: DistinctRecords, variable: int, ordered: OrderedValues
) -> _ProtectiveNeighbours:
    """For each record the nearest positions of records that differ only there and in the secret.

    They decide whether anybody protects it, however the variable is cut: somebody does if and only
    if one of both lies in its category.
    """
    from sfumato.kernels.lattice.peers import key_rows

    others = [column for column in range(len(records.known)) if column != variable]
    secret = records.codes[:, -1]
    with_missing = np.column_stack([records.codes, ordered.missing.astype(np.int64)])
    group = key_rows(with_missing, [*others, records.codes.shape[1]])
    order = np.lexsort((secret, ordered.position, group))
    group, secret = group[order], secret[order]
    position = ordered.position[order].astype(np.int64)
    # Within a group, a run of equal secrets is protected by its neighbours.
    new_group = np.concatenate([[True], group[1:] != group[:-1]])
    starts = np.flatnonzero(new_group | np.concatenate([[True], secret[1:] != secret[:-1]]))
    sizes = np.diff(np.append(starts, len(position)))
    first = new_group[starts]
    last = np.append(first[1:], True)
    below = np.where(first, -1, position[np.maximum(starts - 1, 0)])
    above = np.where(last, _FAR, position[np.minimum(starts + sizes, len(position) - 1)])
    triples = np.column_stack([position, np.repeat(below, sizes), np.repeat(above, sizes)])
    # Records with the same three positions share their fate, however the variable is cut.
    distinct, row_of = np.unique(triples, axis=0, return_inverse=True)
    counts = np.bincount(row_of.ravel(), records.counts[order], len(distinct)).astype(np.int64)
    return _ProtectiveNeighbours(distinct[:, 0], distinct[:, 1], distinct[:, 2], counts)


def _count_with_any_peer(
    neighbours: _ProtectiveNeighbours, cuts: EqualWidths, span: int
) -> AnyIntegers:
    """How many records have a protective peer when everything is known."""
    step = max(1, _CELLS // len(neighbours.position))
    protected = []
    for low in range(0, len(cuts.offsets), step):
        some = slice(low, low + step)
        category = cuts.category(neighbours.position, some)
        offsets, count = cuts.offsets[some, None], cuts.categories[some, None]
        start = np.where(category == 0, 0, offsets + (category - 1) * cuts.width)
        end = np.where(category == count - 1, span - 1, offsets + category * cuts.width - 1)
        safe = (neighbours.below >= start) | (neighbours.above <= end)
        protected.append(safe @ neighbours.counts)
    return np.concatenate(protected)


def _count_above(
    records: DistinctRecords, variable: int, ordered: OrderedValues, cuts: EqualWidths, p: Fraction
) -> list[int]:
    """How many records have a share above p in every combination of the known variables."""
    from sfumato.kernels.lattice.peers import count_peers

    protected = []
    last = len(records.known)
    for which in range(len(cuts.offsets)):
        codes = records.codes.copy()
        category = cuts.category(ordered.position, slice(which, which + 1))[0]
        codes[:, variable] = np.where(ordered.missing, cuts.categories[which], category)
        # Coarser values make rows equal: counting distinct ones is far less work.
        codes, row_of = np.unique(codes, axis=0, return_inverse=True)
        counts = np.bincount(row_of.ravel(), records.counts).astype(np.int64)
        peers = count_peers(codes, counts, sensitive=[last], known=range(last), p=p)
        safe = is_above(peers.least_protective[0], peers.least_peers[0], p)
        protected.append(int(counts[safe].sum()))
    return protected


def is_above(protective: AnyIntegers, peers: AnyIntegers, p: Fraction) -> Any:
    """Whether the share is above p: whole numbers decide, since 1 of 5 is not above 0.2."""
    return protective.astype(np.int64) * p.denominator > peers.astype(np.int64) * p.numerator
