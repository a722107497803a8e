"""The propensity of being released, of records that are not in memory.

Columns are made part by part. A pass over both data sets adds up the products of all columns, and
each step of Newton's method takes one more. The steps are those of `fit_logistic`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain
from typing import Any

import numpy as np
import polars as pl

from sfumato.cells.codes import encode
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.engines.summaries import Quantile
from sfumato.engines.verbs import Combine
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats
from sfumato.kernels.exact_sums import exact_parts, use_one_thread
from sfumato.utility.models.distributed import (
    DistantVariable,
    align_distant_variables,
    gather_levels,
    refuse_drawing,
)
from sfumato.utility.models.propensity import (
    MOST_COLUMNS,
    MOST_LEVELS,
    TOO_MANY_LEVELS,
    CategoricalVariable,
    Derivatives,
    DesignMatrix,
    MergedRecords,
    ModelVariable,
    compute_gram,
    differentiate,
    list_columns,
    list_variables,
    maximise_likelihood,
    predict,
    require_comparable,
    select_columns,
    standardise,
)

_PROPENSITY = "propensity"


@dataclass(frozen=True, eq=False)
class _Number:
    """How a number is standardised: over both data sets, as in memory."""

    variable: DistantVariable
    mean: float
    deviation: float
    gaps: bool

    def read(self, batch: pl.DataFrame) -> ModelVariable:
        """Its values in some records."""
        values = self.variable.read(batch)
        return standardise(values.name, values, self.mean, self.deviation, gaps=self.gaps)


@dataclass(frozen=True, eq=False)
class _Category:
    """The levels of a category; one more for all new names, and one for missing."""

    variable: DistantVariable
    levels: pl.Series = field(repr=False)
    new: bool
    gaps: bool

    def read(self, batch: pl.DataFrame) -> ModelVariable:
        """Its codes in some records."""
        values = self.variable.read(batch)
        codes = encode(values, self.levels).missing_last
        if self.new:
            codes[values.is_null().to_numpy()] += 1
        return CategoricalVariable(values.name, codes, len(self.levels) + self.new + self.gaps)


@dataclass(frozen=True, eq=False)
class DistantPair:
    """Both data sets where they are, and how the columns of a model are made from them.

    Parameters
    ----------
    sides : the original and the released data.
    engine : where they are.
    readers : what makes columns of a part of the records.
    sizes : how many records either has.
    left_out : variables that are not compared, each with the reason.
    """

    sides: tuple[Dataset, Dataset]
    engine: Engine
    readers: tuple[_Number | _Category, ...] = field(repr=False)
    sizes: tuple[int, int]
    left_out: Mapping[str, str]

    @property
    def names(self) -> list[str]:
        """The variables compared."""
        return [reader.variable.name for reader in self.readers]

    @property
    def records(self) -> int:
        """How many records both data sets have together."""
        return sum(self.sizes)

    @property
    def share(self) -> float:
        """The share of the released records among all."""
        return self.sizes[1] / self.records

    def gather(
        self, function: Callable[[MergedRecords], Any], combine: Combine | None = None
    ) -> list[Any]:
        """What a function makes of each part of both data sets."""
        readers = self.readers

        def gather_side(data: Dataset, *, released: bool) -> list[Any]:
            def read(batch: pl.DataFrame) -> Any:
                with use_one_thread():
                    return function(_read_part(readers, batch, released=released))

            return self.engine.gather(data, read, reads=self.names, combine=combine)

        original, released = self.sides
        return [*gather_side(original, released=False), *gather_side(released, released=True)]

    def read_nothing(self) -> MergedRecords:
        """The variables without a record, to know their columns."""
        data = self.sides[0]
        types = {name: data.dtype(name) for name in self.names}
        return _read_part(self.readers, pl.DataFrame(schema=types), released=False)


def _read_part(
    readers: Sequence[_Number | _Category], batch: pl.DataFrame, *, released: bool
) -> MergedRecords:
    ones, zeros = np.ones(batch.height, np.int64), np.zeros(batch.height, np.int64)
    nowhere = np.empty(0, np.int64)
    return MergedRecords(
        variables=tuple(reader.read(batch) for reader in readers),
        originals=zeros if released else ones,
        releases=ones if released else zeros,
        place_of_original=nowhere,
        place_of_released=nowhere,
        left_out={},
    )


def find_records(
    original: Dataset,
    released: Dataset,
    named: Sequence[str] | None,
    engine: Engine,
    *,
    categories: Sequence[str],
    owner: str,
) -> DistantPair:
    """`merge_records` where the records are; fail when there is nothing to compare."""
    original.schema.require([*(named or ()), *categories])
    sides = original, released
    sizes = engine.count(original), engine.count(released)
    if not all(sizes):
        raise MeasureError("There is no record to compare.", hint="are the data empty?")
    names = list_variables(original, named)
    left_out: dict[str, str] = {}
    variables: list[DistantVariable] = []
    for name, variable in align_distant_variables(original, released, names, engine).items():
        if isinstance(variable, str):
            left_out[name] = variable
        else:
            variables.append(variable)
    coded = [v for v in variables if v.categories or v.name in categories]
    levels = [gather_levels(data, coded, engine, most=MOST_COLUMNS) for data in sides]
    if named is None:
        for variable in list(coded):
            if len(levels[0][variable.name]) > MOST_LEVELS:
                left_out[variable.name] = TOO_MANY_LEVELS
                coded.remove(variable)
    compared = [variable for variable in variables if variable.name not in left_out]
    require_comparable(bool(compared), left_out, named, owner=owner)
    numbers = [variable for variable in compared if variable not in coded]
    readers: dict[str, _Number | _Category] = {
        variable.name: _read_levels(variable, *(side[variable.name] for side in levels))
        for variable in coded
    }
    readers |= {reader.variable.name: reader for reader in _scale_numbers(sides, numbers, engine)}
    in_order = tuple(readers[variable.name] for variable in compared)
    ordered = {name: left_out[name] for name in names if name in left_out}
    return DistantPair(sides, engine, in_order, sizes, ordered)


def _read_levels(variable: DistantVariable, before: pl.Series, after: pl.Series) -> _Category:
    both = pl.concat([before, after]).unique().sort()
    new = set(after.drop_nulls()) - set(before)
    if new and variable.categories:
        raise refuse_drawing([variable.name])
    # New names are all told by being new: one level for them is enough.
    joined = bool(new) and len(both) > MOST_LEVELS
    levels = before if joined else both
    return _Category(variable, levels.drop_nulls(), joined, both.null_count() > 0)


def _scale_numbers(
    sides: tuple[Dataset, Dataset], variables: Sequence[DistantVariable], engine: Engine
) -> list[_Number]:
    """Means and standard deviations over both data sets, from exact sums."""
    names = [variable.name for variable in variables]
    if not names:
        return []

    def read(batch: pl.DataFrame) -> list[Floats]:
        return [v.read(batch).drop_nulls().to_numpy() for v in variables]

    def add_up(batch: pl.DataFrame) -> list[tuple[Any, ...]]:
        return [
            (len(v), exact_parts(v), v.min(initial=math.inf), v.max(initial=-math.inf))
            for v in read(batch)
        ]

    def gather(function: Callable[[pl.DataFrame], list[Any]]) -> list[tuple[Any, ...]]:
        parts = [part for data in sides for part in engine.gather(data, function, reads=names)]
        return list(zip(*parts, strict=True))

    sums = [tuple(zip(*parts, strict=True)) for parts in gather(add_up)]
    counts = [sum(column[0]) for column in sums]
    means = [
        math.fsum(chain.from_iterable(column[1])) / count
        for column, count in zip(sums, counts, strict=True)
    ]

    def add_squares(batch: pl.DataFrame) -> list[list[float]]:
        return [exact_parts((v - mean) ** 2) for v, mean in zip(read(batch), means, strict=True)]

    squares = [math.fsum(chain.from_iterable(terms)) for terms in gather(add_squares)]
    records = sum(engine.count(data) for data in sides)
    return [
        _Number(
            variable,
            mean,
            # A mean of equal values may miss them by a last bit.
            math.sqrt(square / (count - 1)) if min(column[2]) < max(column[3]) else 0.0,
            gaps=count < records,
        )
        for variable, mean, square, count, column in zip(
            variables, means, squares, counts, sums, strict=True
        )
    ]


def build_distant_design(records: DistantPair, *, interactions: bool) -> DesignMatrix:
    """`build_design` by one pass; the design has no records of its own."""
    full = list_columns(records.read_nothing(), interactions=interactions)

    def multiply(part: MergedRecords) -> Floats:
        return compute_gram(replace(full, merged=part))

    return select_columns(full, np.sum(records.gather(multiply, operator.add), axis=0))


@dataclass(frozen=True, eq=False)
class DistantFit:
    """The mean squared deviation, whether a record is certain, and propensities by quantiles."""

    value: float
    certain: bool
    table: pl.DataFrame = field(repr=False)


def fit_distant_logistic(
    records: DistantPair, design: DesignMatrix, shares: Mapping[str, float]
) -> DistantFit:
    """`fit_logistic` by one pass a step; then what the model says of the records.

    `shares` are those of the quantiles, by their names.
    """
    slim = replace(design, gram=np.empty((0, 0)))

    def compute_derivatives(beta: Floats) -> Derivatives:
        def add_up(part: MergedRecords) -> Derivatives:
            return differentiate(replace(slim, merged=part), beta)

        total: Derivatives = reduce(_add_derivatives, records.gather(add_up, _add_derivatives))
        return total

    share = records.share
    beta = maximise_likelihood(compute_derivatives, design.parameters, share, records.records)

    def judge(part: MergedRecords) -> tuple[list[float], bool]:
        if not len(part.counts):
            return [], False
        fitted = predict(replace(slim, merged=part), beta)
        return exact_parts((fitted.probability - share) ** 2), fitted.certain

    squares, certain = zip(*records.gather(judge), strict=True)
    value = math.fsum(chain.from_iterable(squares)) / records.records
    # Never above 0.25 by rounding, which is the value of a perfect model.
    return DistantFit(min(value, 0.25), any(certain), _summarise(records, slim, beta, shares))


def _add_derivatives(first: Derivatives, second: Derivatives) -> Derivatives:
    return first[0] + second[0], first[1] + second[1], first[2] + second[2]


def _summarise(
    records: DistantPair, design: DesignMatrix, beta: Floats, shares: Mapping[str, float]
) -> pl.DataFrame:
    """The propensities of either data set, for two box plots."""
    readers = records.readers

    def derive(batch: pl.DataFrame) -> dict[str, pl.Series]:
        part = _read_part(readers, batch, released=True)
        if not batch.height:
            return {_PROPENSITY: pl.Series(dtype=pl.Float64)}
        return {_PROPENSITY: pl.Series(predict(replace(design, merged=part), beta).probability)}

    rows = []
    quantiles = {label: Quantile(share) for label, share in shares.items()}
    summaries = {_PROPENSITY: list(quantiles.values())}
    for side, data in zip(("original", "released"), records.sides, strict=True):
        taken = records.engine.aggregate(data, summaries, derive=derive, reads=records.names)
        numbers = {
            label: taken[_PROPENSITY][quantile.name] for label, quantile in quantiles.items()
        }
        rows.append({"data": side, **numbers})
    return pl.DataFrame(rows)
