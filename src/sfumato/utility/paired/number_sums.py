"""Numbers of both data sets compared by sums over the records, wherever these are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.engines.local import refuse_to_pair
from sfumato.engines.summaries import (
    Deviation,
    Maximum,
    Mean,
    Minimum,
    Quantile,
    Summary,
    Total,
    to_floats,
)
from sfumato.engines.verbs import AFTER, BEFORE, PRESENT
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Integers
from sfumato.pairs.alignment import (
    Rescaling,
    choose_numbers,
    list_empty,
    name_left_out,
    name_missing_changes,
    quote_names,
    require_finite,
    require_spread,
)


class Marginal(NamedTuple):
    """What one variable is like by itself."""

    mean: float
    sd: float
    quantiles: tuple[float, ...]


class _PairCells(NamedTuple):
    """What a part of the records says of each variable; all of it can be added up."""

    records: int
    present: int
    both: Integers
    lost: Integers
    filled: Integers
    changed: Integers
    infinite: Integers


@dataclass(frozen=True, eq=False)
class NumberPairs:
    """The numeric variables of both data sets, record beside record, on an engine.

    Parameters
    ----------
    engine : where they are.
    pairs : the records; see `Engine.pairs`.
    names : the variables compared.
    left_out : numeric variables of the original that the release holds no longer as numbers.
    without : variables that no record has a value of in both data sets.
    before, after : each variable by itself.
    spreads : the standard deviations in which changes are counted.
    records : how many there are.
    lost, filled : how many values became missing, and were filled in.
    """

    engine: Engine
    pairs: Dataset
    names: tuple[str, ...]
    left_out: tuple[str, ...]
    without: tuple[str, ...]
    before: tuple[Marginal, ...]
    after: tuple[Marginal, ...]
    spreads: Floats
    records: int
    lost: int
    filled: int

    @property
    def not_compared(self) -> dict[str, tuple[str, ...]]:
        """The detail that names what is not part of the comparison."""
        return name_left_out((*self.left_out, *self.without))

    def warnings(self, *, lost: bool = True) -> tuple[str, ...]:
        """What is not part of the comparison, in words; `lost` values may be part of it."""
        gone = (
            (self.left_out, "the release no longer holds numbers there"),
            (self.without, "no record has a value in both data sets"),
        )
        return (
            *(f"Not compared, since {why}: {quote_names(names)}." for names, why in gone if names),
            *name_missing_changes(self.lost if lost else 0, self.filled),
        )

    def gather(self, function: Callable[[Floats, Floats], Any]) -> list[Any]:
        """What a function makes of the original and the released values of each part."""
        return self.engine.gather(self.pairs, _split(self.names, function), reads=self.columns)

    @property
    def columns(self) -> list[str]:
        """The variables of both sides in `pairs`."""
        return [f"{prefix}{name}" for prefix in (BEFORE, AFTER) for name in self.names]


def _split(
    names: Sequence[str], function: Callable[[Floats, Floats], Any]
) -> Callable[[pl.DataFrame], Any]:
    width = len(names)

    def split(batch: pl.DataFrame) -> Any:
        values = batch.cast(pl.Float64).fill_null(np.nan).to_numpy()
        return function(values[:, :width], values[:, width : 2 * width])

    return split


def read_number_pairs(
    original: Dataset,
    released: Dataset,
    named: Sequence[str] | None,
    engine: Engine,
    *,
    owner: str,
    shares: Sequence[float] = (),
) -> NumberPairs:
    """The numbers of both data sets; fail when nothing can be compared.

    `shares` are those of which quantiles are wanted.
    """
    chosen, left_out = choose_numbers(original, released, named, owner=owner, drawn={})
    # Kept, since several passes follow, and to bring the records together is the dearest part.
    pairs = engine.keep(engine.pairs(original, released, chosen))
    cells = _count_cells(pairs, chosen, engine)
    if not cells.records:
        raise MeasureError("There is no record to compare.", hint="are the data empty?")
    if cells.present < cells.records:
        raise refuse_to_pair(cells.records, cells.present)
    for name, infinite in zip(chosen, cells.infinite.tolist(), strict=True):
        require_finite(infinite > 0, name)
    without = list_empty(chosen, (cells.both > 0).tolist(), named, owner=owner)
    rows = [index for index, name in enumerate(chosen) if name not in without]
    names = tuple(chosen[index] for index in rows)
    sides = _summarise(pairs, names, engine, shares)
    changed = cells.changed[rows] > 0
    spreads = [
        require_spread(name, side.sd, changed=bool(other))
        for name, side, other in zip(names, sides[0], changed, strict=True)
    ]
    return NumberPairs(
        engine, pairs, names, left_out, without, *sides, np.array(spreads), cells.records,
        int(cells.lost[rows].sum()), int(cells.filled[rows].sum()),
    )  # fmt: skip


def _count_cells(pairs: Dataset, names: Sequence[str], engine: Engine) -> _PairCells:
    def count(before: Floats, after: Floats) -> tuple[Integers, ...]:
        was, now = ~np.isnan(before), ~np.isnan(after)
        flags = (
            was & now, was & ~now, ~was & now, was & now & (before != after),
            np.isinf(before) | np.isinf(after),
        )  # fmt: skip
        return tuple(flag.sum(axis=0) for flag in flags)

    counted = _split(names, count)

    def count_part(batch: pl.DataFrame) -> _PairCells:
        present = int(batch[PRESENT].sum())
        return _PairCells(batch.height, present, *counted(batch.drop(PRESENT)))

    columns = [f"{prefix}{name}" for prefix in (BEFORE, AFTER) for name in names]
    parts = engine.gather(pairs, count_part, reads=[*columns, PRESENT])
    return _PairCells(*(sum(numbers) for numbers in zip(*parts, strict=True)))


def _summarise(
    pairs: Dataset, names: Sequence[str], engine: Engine, shares: Sequence[float]
) -> tuple[tuple[Marginal, ...], tuple[Marginal, ...]]:
    """Each variable by itself, before and after."""
    wanted: list[Summary] = [Mean(), Deviation(), Minimum(), Maximum(), *map(Quantile, shares)]
    columns = [f"{prefix}{name}" for prefix in (BEFORE, AFTER) for name in names]
    taken = engine.aggregate(pairs, dict.fromkeys(columns, wanted))

    before, after = (
        tuple(_read_marginal(taken[f"{side}{name}"], shares) for name in names)
        for side in (BEFORE, AFTER)
    )
    return before, after


def _read_marginal(summary: Mapping[str, Any], shares: Sequence[float] = ()) -> Marginal:
    # A mean of equal values may miss them by a last bit.
    equal = summary["min"] == summary["max"] and not math.isnan(summary["sd"])
    quantiles = tuple(summary[Quantile(share).name] for share in shares)
    return Marginal(summary["mean"], 0.0 if equal else summary["sd"], quantiles)


def fit_rescaling(pair: NumberPairs) -> list[Rescaling]:
    """What gives the released values of each variable the scale of the original.

    It is fitted to the records that have both values; see `rescale_released`.
    """
    names, columns = pair.names, pair.columns

    def list_known(batch: pl.DataFrame) -> dict[str, pl.Series]:
        known: dict[str, pl.Series] = {}
        for name in names:
            known |= batch.select(f"{BEFORE}{name}", f"{AFTER}{name}").drop_nulls().to_dict()
        return known

    wanted: list[Summary] = [Mean(), Deviation(), Minimum(), Maximum()]
    taken = pair.engine.aggregate(
        pair.pairs, dict.fromkeys(columns, wanted), derive=list_known, reads=columns
    )
    scales = {}
    for name in names:
        before, after = (_read_marginal(taken[f"{side}{name}"]) for side in (BEFORE, AFTER))
        scales[name] = Rescaling(before.mean, before.sd, after.mean, after.sd)
    possible = [name for name in names if scales[name].possible]

    def multiply(batch: pl.DataFrame) -> dict[str, pl.Series]:
        known = {name: to_floats(values) for name, values in list_known(batch).items()}
        sides = ((name, known[f"{BEFORE}{name}"], known[f"{AFTER}{name}"]) for name in possible)
        return {name: pl.Series(scales[name].multiply(*both)) for name, *both in sides}

    total: list[Summary] = [Total()]
    products = pair.engine.aggregate(
        pair.pairs, dict.fromkeys(possible, total), derive=multiply, reads=columns
    )
    return [
        scales[name].turn(products[name]["total"] if name in products else 0.0) for name in names
    ]
