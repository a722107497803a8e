"""The columns of a model of merged records, made block by block so that memory stays small."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np

from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Integers
from sfumato.utility.models.merged import Category, Merged, Number, Variable

BLOCK = 1 << 15
"""Distinct records whose columns are made at a time."""
MOST_COLUMNS = 1000
_COLLINEAR = 1e-12
"""A column with less than this share of its square left, given those before it, adds nothing."""


@dataclass(frozen=True, eq=False)
class Design:
    """An intercept, a column per number, dummies per category, and their products if wanted.

    Parameters
    ----------
    merged : the records.
    owners : for each plain column after the intercept, the place of its variable.
    products : the two plain columns of each product, an array of two rows.
    kept : the columns that say something the ones before them do not.
    gram : the products of all pairs of kept columns, summed over all records.
    """

    merged: Merged
    owners: Integers = field(repr=False)
    products: Integers = field(repr=False)
    kept: Integers = field(repr=False)
    gram: Floats = field(repr=False)

    @property
    def parameters(self) -> int:
        """How many parameters the model has, the intercept included."""
        return len(self.kept)

    def dropped(self) -> tuple[str, ...]:
        """The variables of which some column is constant or collinear."""
        lost = np.setdiff1d(np.arange(len(self.owners) + 1), self.kept)
        places = sorted({int(self.owners[at - 1]) for at in lost if at})
        return tuple(self.merged.variables[at].name for at in places)

    def blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Which distinct records, and their columns."""
        for start in range(0, len(self.merged.counts), BLOCK):
            at = slice(start, min(start + BLOCK, len(self.merged.counts)))
            yield at, self.block(at)

    def block(self, at: slice) -> Floats:
        """The kept columns of some distinct records."""
        plain = np.empty((at.stop - at.start, len(self.owners) + 1), order="F")
        plain[:, 0] = 1.0
        columns = (column for one in self.merged.variables for column in _columns(one, at))
        for place, column in enumerate(columns, 1):
            plain[:, place] = column
        if not self.products.size:
            whole = plain.shape[1] == len(self.kept)
            return plain if whole else np.asfortranarray(plain[:, self.kept])
        made = np.empty((len(plain), len(self.kept)), order="F")
        for place, column in enumerate(self.kept):
            if column < plain.shape[1]:
                made[:, place] = plain[:, column]
            else:
                first, second = self.products[:, column - plain.shape[1]]
                np.multiply(plain[:, first], plain[:, second], out=made[:, place])
        return made


def _columns(one: Variable, at: slice) -> Iterator[Floats]:
    if isinstance(one, Number):
        yield one.values[at]
        if one.missing is not None:
            yield one.missing[at].astype(float)
    else:
        for level in range(1, one.levels):
            yield (one.codes[at] == level).astype(float)


def _width(one: Variable) -> int:
    return one.levels - 1 if isinstance(one, Category) else 1 + (one.missing is not None)


def design(merged: Merged, *, interactions: bool) -> Design:
    """The design of all variables; constant and collinear columns are left out of `kept`.

    With interactions there is a product for each pair of columns of different variables, and
    the square of each number: noise changes nothing else.
    """
    widths = [_width(one) for one in merged.variables]
    owners = np.repeat(np.arange(len(widths)), widths)
    products = np.empty((2, 0), np.int64)
    if interactions:
        _require_few(1 + sum(widths) + _pairs(widths))
        starts = np.cumsum([1, *widths])
        squares = [
            (int(starts[at]),) * 2
            for at, one in enumerate(merged.variables)
            if isinstance(one, Number)
        ]
        columns = range(1, sum(widths) + 1)
        pairs = [
            pair for pair in combinations(columns, 2) if owners[pair[0] - 1] != owners[pair[1] - 1]
        ]
        products = np.array([*squares, *pairs], np.int64).reshape(-1, 2).T
    width = 1 + sum(widths) + products.shape[1]
    _require_few(width)
    whole = Design(merged, owners, products, np.arange(width), np.zeros((width, width)))
    gram = _gram(whole)
    kept = _independent(gram)
    return replace(whole, kept=kept, gram=gram[np.ix_(kept, kept)])


def _gram(whole: Design) -> Floats:
    total = np.zeros_like(whole.gram)
    for at, block in whole.blocks():
        total += block.T @ (block * whole.merged.counts[at, None])
    return total


def _pairs(widths: list[int]) -> int:
    return (sum(widths) ** 2 - sum(width**2 for width in widths)) // 2


def _require_few(width: int) -> None:
    if width > MOST_COLUMNS:
        raise MeasureError(
            f"A model of these variables would have {width} parameters; {MOST_COLUMNS} are the "
            "most.",
            hint='name fewer variables, or choose model = "tree".',
        )


def _independent(gram: Floats) -> Integers:
    """The columns that are no combination of those before them, by the steps of Cholesky."""
    size = np.sqrt(np.diag(gram))
    scale = np.where(size > 0, size, 1.0)
    left = gram / np.outer(scale, scale)
    kept = []
    for at in range(len(left)):
        if left[at, at] <= _COLLINEAR:
            continue
        kept.append(at)
        rest = left[at + 1 :, at] / left[at, at]
        left[at + 1 :, at + 1 :] -= np.outer(rest, left[at, at + 1 :])
    return np.array(kept, np.int64)
