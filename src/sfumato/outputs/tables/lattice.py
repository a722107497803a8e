"""The shape of a table: its cells, its margins, and the sums that tie them together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from sfumato.kernels.arrays import Floats, Integers


@dataclass(frozen=True)
class Lattice:
    """A table of one or more variables with the margin over every set of them.

    Cells are numbered flat, the last variable fastest; the last position along a variable is
    its total. A variable that is nested in another (district in region) is one more variable here:
    its subtotals are margins, and combinations that cannot occur are empty cells.

    Parameters
    ----------
    sizes : how many levels each variable has.

    Examples
    --------
    >>> Lattice((2, 3)).with_margins(np.array([[1.0, 2, 3], [4, 5, 6]])).tolist()
    [1.0, 2.0, 3.0, 6.0, 4.0, 5.0, 6.0, 15.0, 5.0, 7.0, 9.0, 21.0]
    """

    sizes: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """How many positions there are along each variable, the total among them."""
        return tuple(size + 1 for size in self.sizes)

    @property
    def cells(self) -> int:
        """How many cells there are, margins among them."""
        return prod(self.shape)

    @cached_property
    def depth(self) -> Integers:
        """Over how many variables a cell is a total: 0 for the inner cells."""
        positions = np.indices(self.shape).reshape(len(self.sizes), -1)
        last = np.array(self.sizes)[:, None]
        depth: Integers = (positions == last).sum(axis=0).astype(np.int64)
        return depth

    def with_margins(self, inner: Floats) -> Floats:
        """The inner cells and all their sums, flat."""
        values = np.asarray(inner, np.float64).reshape(self.sizes)
        for axis in range(len(self.sizes)):
            total = values.sum(axis=axis, keepdims=True)
            values = np.concatenate([values, total], axis=axis)
        return values.ravel()

    @cached_property
    def lines(self) -> Integers:
        """Every line of cells that ends in its total, as (first cell, step, how many) rows."""
        numbers = np.arange(self.cells).reshape(self.shape)
        lines = []
        for axis, size in enumerate(self.sizes):
            first = np.take(numbers, 0, axis=axis).ravel()
            step = prod(self.shape[axis + 1 :])
            lines.append(
                np.column_stack([first, np.full(len(first), step), np.full(len(first), size)])
            )
        return np.concatenate(lines)

    @cached_property
    def sums(self) -> Any:
        """A sparse matrix with a row for each line: its cells less its total are zero."""
        from scipy.sparse import csc_array

        rows, cells, signs = [], [], []
        for number, (first, step, size) in enumerate(self.lines.tolist()):
            cells.append(first + step * np.arange(size + 1))
            rows.append(np.full(size + 1, number))
            signs.append(np.append(np.ones(size), -1.0))
        shape = (len(self.lines), self.cells)
        return csc_array(
            (np.concatenate(signs), (np.concatenate(rows), np.concatenate(cells))), shape=shape
        )
