"""Confidential variables as codes, in the order of their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from sfumato.cells.classes import EquivalenceClasses
from sfumato.cells.codes import cast_untyped, encode
from sfumato.cells.notation import WILDCARD, is_generalised
from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.evidence import Subject
from sfumato.kernels.arrays import Codes, Integers

_SUPPRESSED = "A confidential cell that stands for anything (`*`) counts as missing."
_GENERALISED = (
    "Confidential cells that are ranges, sets or masks are taken as they stand, as values."
)


@dataclass(frozen=True, eq=False)
class ConfidentialVariable:
    """One confidential variable.

    Parameters
    ----------
    name : the variable.
    codes : a number for each row, -1 where missing, in the order of the values.
    distinct : the values the codes stand for.
    generalised : whether some cells stand for several values.
    suppressed : whether some cells stand for anything; they count as missing.
    counts : how many records each row stands for; None: one each.
    """

    name: str
    codes: Codes
    distinct: pl.Series
    generalised: bool
    suppressed: bool
    counts: Integers | None = None

    @property
    def missing(self) -> bool:
        """Whether some record has no value."""
        return bool((self.codes < 0).any())

    @property
    def missing_records(self) -> int:
        """How many records have no value."""
        rows = self.codes < 0
        return int(rows.sum() if self.counts is None else self.counts[rows].sum())

    @property
    def remarks(self) -> tuple[str, ...]:
        """How cells that are not plain values are read."""
        remarks = ((self.generalised, _GENERALISED), (self.suppressed, _SUPPRESSED))
        return tuple(text for applies, text in remarks if applies)


def select_confidential(
    named: Sequence[str] | None, known: Sequence[str], data: Dataset, subject: Subject
) -> tuple[str, ...]:
    """The variables that nobody should learn; by default all whose role is "sensitive".

    What the release left out, nobody can learn from it.
    """
    wanted = data.schema.having("sensitive") if named is None else tuple(named)
    if not wanted:
        raise MeasureError(
            "No variable is declared as confidential.",
            hint='give some the role "sensitive", or name them: confidential = [...].',
        )
    released = tuple(name for name in wanted if name in data.schema)
    if subject == "original":
        data.schema.require(wanted)
    elif not released:
        raise MeasureError(
            "None of the confidential variables is in the released data: "
            "there is nothing to learn and nothing to measure.",
            hint="leave this measure out, or name variables that are released.",
        )
    require_apart(released, known)
    return released


def require_apart(confidential: Sequence[str], known: Sequence[str]) -> None:
    """Refuse variables that the outsider knows already: a class has one value of them."""
    if both := [name for name in confidential if name in known]:
        raise MeasureError(
            f"Both known to the outsider and confidential: {', '.join(both)}.",
            hint="what the outsider knows cannot be learned; take it from one of the two.",
        )


def encode_confidential(
    data: Dataset, name: str, counts: Integers | None = None
) -> ConfidentialVariable:
    """Number the values of a variable in their order; all codes for missing are missing.

    `counts` says how many records each row stands for.

    Examples
    --------
    >>> data = Dataset(pl.DataFrame({"charge": [300, None, 100, 300]}))
    >>> encode_confidential(data, "charge").codes.tolist()
    [1, -1, 0, 1]
    """
    values = cast_untyped(data.column(name))
    distinct = values.drop_nulls().unique().sort()
    generalised = suppressed = False
    if distinct.dtype == pl.String and data.schema[name].generalised:
        # A suppressed cell says nothing, as missing does; ranges and sets are values.
        suppressed = WILDCARD in distinct
        distinct = distinct.filter(distinct != WILDCARD)
        generalised = len(filter_generalised(distinct)) > 0
    codes = encode(values, distinct).codes
    return ConfidentialVariable(name, codes, distinct, generalised, suppressed, counts)


def filter_generalised(texts: pl.Series) -> pl.Series:
    """The cells that are written as ranges, sets or masks."""
    # By their last character first: a pass over all texts costs less than three matches each.
    likely = texts.filter(texts.str.contains(r"[\]}*]\z"))
    return likely.filter(pl.Series(map(is_generalised, likely), dtype=pl.Boolean))


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """The values that occur in each class: a row per class and value, with its records."""

    at: Integers
    code: Integers
    counts: Integers


def count_by_class(classes: EquivalenceClasses, codes: Codes, width: int) -> ClassCounts:
    """Count the records of every class with every value (codes from 0 to below `width`).

    A person with several rows counts once for each value in a class. Rows whose code is -1
    are left out.
    """
    from sfumato.kernels.trees.equivalence_classes import find_classes as group_equal

    classes, codes = classes.drop_repeats(codes)
    both = np.stack([classes.of, codes]).astype(np.int32, copy=False)
    records = classes.units.counts
    if (codes < 0).any():
        both, records = both[:, codes >= 0], None if records is None else records[codes >= 0]
    pairs = group_equal(both, [len(classes), width], records)
    at, code = (row[pairs.first].astype(np.int64) for row in both)
    return ClassCounts(at, code, pairs.counts)
