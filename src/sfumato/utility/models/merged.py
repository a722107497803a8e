"""The original and the released records put together, ready to be told apart.

Equal records are counted, not repeated, and stand in canonical order: what is fitted to them does
not depend on the order of the records, and is exactly even when both data sets are the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.cells.alike import alike
from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import AnyIntegers, Codes, Floats, Integers, Mask
from sfumato.kernels.canonical import deviation_of, mean_of, order_of

MOST_LEVELS = 50
"""A category with more levels is left out unless somebody names it."""


@dataclass(frozen=True, eq=False)
class Number:
    """A numeric variable, standardised over both data sets; 0 where it is missing."""

    name: str
    values: Floats = field(repr=False)
    missing: Mask | None = field(repr=False)

    def parts(self) -> list[npt.NDArray[Any]]:
        """What tells its values apart."""
        return [self.values] if self.missing is None else [self.values, self.missing]

    def take(self, at: Integers) -> Number:
        """Some of its values."""
        missing = None if self.missing is None else self.missing[at]
        return replace(self, values=self.values[at], missing=missing)


@dataclass(frozen=True, eq=False)
class Category:
    """A categorical variable as codes from 0 to `levels` - 1; missing is a level of its own."""

    name: str
    codes: Codes = field(repr=False)
    levels: int

    def parts(self) -> list[npt.NDArray[Any]]:
        """What tells its values apart."""
        return [self.codes]

    def take(self, at: Integers) -> Category:
        """Some of its values."""
        return replace(self, codes=self.codes[at])


Variable = Number | Category


@dataclass(frozen=True, eq=False)
class Merged:
    """The distinct records of both data sets, in canonical order.

    Parameters
    ----------
    variables : their values, one for each distinct record.
    originals, releases : how many records of either data set are equal to it.
    place_of_original, place_of_released : for each record of a data set, which one it equals.
    left_out : variables that are not compared, each with the reason.
    """

    variables: tuple[Variable, ...]
    originals: Integers = field(repr=False)
    releases: Integers = field(repr=False)
    place_of_original: Integers = field(repr=False)
    place_of_released: Integers = field(repr=False)
    left_out: Mapping[str, str]

    @property
    def counts(self) -> Integers:
        """How many records of both data sets are equal to each."""
        return self.originals + self.releases

    @property
    def records(self) -> int:
        """How many records both data sets have together."""
        return len(self.place_of_original) + len(self.place_of_released)

    @property
    def share(self) -> float:
        """The share of the released records among all."""
        return len(self.place_of_released) / self.records

    def shuffled(self, permutations: int) -> Iterator[AnyIntegers]:
        """`releases` as they would be if the labels were dealt out anew, time after time.

        The same data give the same permutations, other data give others: one seed for all would
        make the same error everywhere.
        """
        draw = np.random.default_rng(self._seed())
        labels = np.zeros(self.records, np.int8)
        labels[: len(self.place_of_released)] = 1
        starts = np.cumsum(self.counts) - self.counts
        small = np.min_scalar_type(self.counts.max())
        for _ in range(permutations):
            yield np.add.reduceat(draw.permutation(labels), starts, dtype=small)

    def _seed(self) -> int:
        """A digest of the records, whichever data set they stem from."""
        digest = hashlib.sha256(f"sfumato permutations {self.records}".encode())
        digest.update(np.ascontiguousarray(self.counts, "<i8").data)
        for one in self.variables:
            for part in one.parts():
                digest.update((np.ascontiguousarray(part, "<f8") + 0.0).data)  # no -0.0
        return int.from_bytes(digest.digest()[:16], "big")


def merge(
    original: Dataset,
    released: Dataset,
    named: Sequence[str] | None,
    *,
    categories: Sequence[str] = (),
    owner: str,
) -> Merged:
    """Put both data sets together; fail when there is nothing to compare.

    By default all variables are taken but direct identifiers, weights and clusters; what cannot
    be compared is told. A variable that somebody named and that cannot be compared is an error.
    """
    original.schema.require([*(named or ()), *categories])
    if not len(original) or not len(released):
        raise MeasureError("There is no record to compare.", hint="are the data empty?")
    found: list[Variable] = []
    left_out: dict[str, str] = {}
    for name in _wanted(original) if named is None else named:
        one = _variable(original, released, name, name in categories)
        if isinstance(one, Category) and one.levels > MOST_LEVELS and named is None:
            one = f"it has more than {MOST_LEVELS} levels"
        if isinstance(one, str):
            left_out[name] = one
        else:
            found.append(one)
    if (named is not None and left_out) or not found:
        told = "; ".join(f"'{name}': {why}" for name, why in left_out.items())
        raise MeasureError(
            f"'{owner}' cannot compare {told or 'anything'}.",
            hint="leave it out of `variables`." if named else "name some: variables = [...].",
        )
    return _distinct(found, len(original), left_out)


def _wanted(original: Dataset) -> list[str]:
    """What describes a person: a weight or the name of a group does not."""
    return [
        name
        for name, told in original.schema.items()
        if told.role not in ("direct", "weight", "cluster")
    ]


def _variable(
    original: Dataset,
    released: Dataset,
    name: str,
    as_category: bool,  # noqa: FBT001
) -> Variable | str:
    """One variable of both data sets, or the reason why it cannot be compared."""
    sides = alike(original, released, name)
    if isinstance(sides, str):
        return sides
    both = pl.concat([sides.original, sides.released])
    return _category(name, both) if sides.categories or as_category else _number(name, both)


def _category(name: str, values: pl.Series) -> Category:
    levels = values.drop_nulls().unique().sort()
    if values.dtype == pl.String:
        codes = values.cast(pl.Enum(levels)).to_physical()
    else:
        codes = values.rank("dense") - 1
    missing = bool(values.null_count())
    # Missing comes last, as one more level.
    filled = codes.cast(pl.Int32).fill_null(len(levels)).to_numpy()
    return Category(name, filled, len(levels) + missing)


def _number(name: str, values: pl.Series) -> Number:
    held = values.drop_nulls().to_numpy() + 0.0  # no -0.0
    missing = values.is_null().to_numpy()
    scaled = np.zeros(len(values))
    spread = deviation_of(held)
    if spread > 0:
        scaled[~missing] = (held - mean_of(held)) / spread
    return Number(name, scaled, missing if missing.any() else None)


def _distinct(variables: Sequence[Variable], originals: int, left_out: Mapping[str, str]) -> Merged:
    """Count equal records."""
    keys = [key for one in variables for key in one.parts()]
    order = order_of(keys)
    new = np.zeros(len(order), bool)
    new[0] = True
    for key in keys:
        new[1:] |= key[order[1:]] != key[order[:-1]]
    place = np.empty(len(order), np.int64)
    place[order] = np.cumsum(new) - 1
    first, distinct = order[new], int(new.sum())
    return Merged(
        variables=tuple(one.take(first) for one in variables),
        originals=np.bincount(place[:originals], minlength=distinct),
        releases=np.bincount(place[originals:], minlength=distinct),
        place_of_original=place[:originals],
        place_of_released=place[originals:],
        left_out=left_out,
    )
