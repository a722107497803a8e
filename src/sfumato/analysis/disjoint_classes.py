"""Which classes of a release were cut apart, although their ranges overlap.

Mondrian cuts the data in two again and again, so that the values of any two classes are apart in at
least one variable: all of one class are below all of the other. What is released are ranges whose
ends were moved outwards to round numbers, and those overlap. Taken by itself, a range lets a value
lie where only records of a neighbouring class are; and as the density of true values is greatest in
the middle, more of them lie too near to it than too far from it. True values would seem to spread
less than they do, and coefficients come out too far from 0.

Here the pairs of classes are listed that must be apart in some variable of the model, and of which
the released cells do not say in which one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import polars as pl

from sfumato.analysis.generalised_cells import build_cells
from sfumato.analysis.problem import Category, GeneralisedNumber, NoisyNumber, Partition
from sfumato.analysis.release_input import Clustered
from sfumato.analysis.tight_ranges import number_classes
from sfumato.cells.codes import encode
from sfumato.errors import DataError
from sfumato.kernels.arrays import Floats, Integers, Mask
from sfumato.schema import Schema

_BLOCK = 1 << 22
"""Pairs of classes that are compared at a time."""


def find_partition(
    cells: pl.DataFrame,
    rows: Integers,
    clustered: Mapping[str, Clustered],
    schema: Schema,
    numbers: Mapping[str, NoisyNumber],
) -> Partition | None:
    """The classes of the records of a model, and which pairs of them are neighbours.

    Parameters
    ----------
    cells : as released, of all records.
    rows : those of the model, in its order.
    clustered : how variables were clustered.
    schema : of the release.
    numbers : the predictors of the model that are numbers.
    """
    together = next((clustering for clustering in clustered.values() if clustering.apart), None)
    if together is None:
        return None
    cells, k = cells.select(together.variables), together.k
    names = [name for name in cells.columns if isinstance(numbers.get(name), GeneralisedNumber)]
    if not names:
        return None
    everybody = number_classes(cells, np.ones(len(cells), bool))
    sizes = np.bincount(everybody)
    classes, first, of_record = np.unique(everybody[rows], return_index=True, return_inverse=True)
    torn = np.bincount(everybody[rows], minlength=len(sizes)) < sizes
    complete_classes = np.where(torn, -1, np.arange(len(sizes)))[everybody[rows]]
    released = cells[rows]
    try:
        cuts = [
            _read_cut(released[name], schema, numbers.get(name), complete_classes, k).take(first)
            for name in cells.columns
        ]
    except DataError:
        return None  # what cannot be read may be what keeps any two classes apart
    # Classes that are written alike are taken for one; two of them have 2k records. And k records
    # without a difference are a class before anything is cut, maybe in the midst of another. What
    # is missing is cut off too, and leaves no trace in numbers.
    points = np.logical_and.reduce([cut.point for cut in cuts])
    missing = np.logical_or.reduce([cut.missing for cut in cuts])
    single = (sizes[classes] < 2 * k) & ~points & ~missing
    neighbours = _pair_neighbours(cuts, single)
    if not len(neighbours):
        return None
    return Partition(variables=tuple(names), classes=of_record.reshape(-1), neighbours=neighbours)


class _Cut(NamedTuple):
    """What is known of one variable, by class.

    Parameters
    ----------
    latent : whether it is a number of the model, whose true values will say what is apart.
    lower, upper : the ends of its cell; of a category the number of its set of levels, twice.
    least, most : the least value is at most, and the greatest at least, so much.
    apart : (set, set) whether two sets of levels may have none in common; None of numbers.
    point : whether all records may have the same value.
    missing : whether some records may have none.
    """

    latent: bool
    lower: Floats
    upper: Floats
    least: Floats
    most: Floats
    apart: Mask | None
    point: Mask
    missing: Mask

    def take(self, rows: Integers) -> _Cut:
        return self._replace(
            lower=self.lower[rows],
            upper=self.upper[rows],
            least=self.least[rows],
            most=self.most[rows],
            point=self.point[rows],
            missing=self.missing[rows],
        )

    def is_neighbour(self, rows: Integers, others: Integers) -> Mask:
        """(row, other): whether this variable leaves open that others keep the two apart.

        A number of the model does, if cells overlap; any other if it surely does not do so itself.
        """
        column, row = rows[:, None], others[None, :]
        if self.apart is not None:
            codes = self.lower.astype(np.int64)
            return ~self.apart[codes[column], codes[row]]
        if self.latent:
            return (self.lower[column] < self.upper[row]) & (self.lower[row] < self.upper[column])
        return (self.most[column] >= self.least[row]) & (self.most[row] >= self.least[column])


def _read_cut(
    values: pl.Series, schema: Schema, number: NoisyNumber | None, classes: Integers, k: int
) -> _Cut:
    column = schema[values.name]
    cells: GeneralisedNumber | Category | None = None
    if isinstance(number, GeneralisedNumber):
        cells = number
    elif column.generalised:
        cells = build_cells(values, column, classes, k)
    if isinstance(cells, GeneralisedNumber):
        tells, point = np.zeros(len(values), bool), np.ones(len(values), bool)
        near_lower, near_upper = cells.lower, cells.upper
        low, high = cells.near_lower, cells.near_upper
        if cells.classes is not None and low is not None and high is not None:
            near_lower, near_upper = low, high
            tells, point = cells.classes >= 0, near_lower == cells.lower
        return _Cut(
            latent=number is not None,
            lower=cells.lower,
            upper=cells.upper,
            least=np.where(tells, near_lower, cells.upper),
            most=np.where(tells, near_upper, cells.lower),
            apart=None,
            point=point,
            missing=~np.isfinite(cells.observed),
        )
    if cells is None:
        codes = encode(values.cast(pl.String).fill_null("")).codes.astype(np.int64)
        possible = np.eye(int(codes.max()) + 1, dtype=bool)
    else:
        possible, codes = np.unique(cells.density > -1.0, axis=0, return_inverse=True)
        codes = codes.reshape(-1)
    apart = ~(possible.astype(np.int64) @ possible.T.astype(np.int64)).astype(bool)
    # Every level of a set occurs; but groups of a hierarchy and masks hold more than occur, so that
    # classes with a level in common may be apart as well.
    if cells is not None and (column.hierarchy or column.kind == "text"):
        apart |= True
    count = possible.sum(axis=1)[codes]
    number_of_set = codes.astype(np.float64)
    return _Cut(
        latent=False,
        lower=number_of_set,
        upper=number_of_set,
        least=number_of_set,
        most=number_of_set,
        apart=apart,
        point=count == 1,
        missing=values.is_null().to_numpy() | (count == possible.shape[1]) & (cells is not None),
    )


def _pair_neighbours(cuts: list[_Cut], single: Mask) -> Integers:
    """(pair, 2) the pairs of single classes that every variable leaves open."""
    # Along one number only those that begin before the last of a block ends need to be compared.
    along = next(cut for cut in cuts if cut.latent)
    order = np.flatnonzero(single)
    order = order[np.argsort(along.lower[order], kind="stable")]
    pairs = [np.zeros((0, 2), np.int64)]
    begin = 0
    while begin < len(order):
        rows = order[begin : begin + max(1, _BLOCK // len(order))]
        last = np.searchsorted(along.lower[order], along.upper[rows].max(), side="right")
        others = order[begin:last]
        open_pairs = np.logical_and.reduce([cut.is_neighbour(rows, others) for cut in cuts])
        first, second = np.nonzero(np.triu(open_pairs, 1))
        pairs.append(np.column_stack([rows[first], others[second]]))
        begin += len(rows)
    return np.concatenate(pairs)
