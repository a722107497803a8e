"""Confidential variables as codes, in the order of their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.cells.classes import EqualClasses, places, typed
from sfumato.cells.notation import MASK, RANGE, SET, WILDCARD
from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.evidence import Subject
from sfumato.kernels.arrays import Codes, Integers

_SUPPRESSED = "A confidential cell that stands for anything (`*`) counts as missing."
_GENERALISED = (
    "Confidential cells that are ranges, sets or masks are taken as they stand, as values."
)


@dataclass(frozen=True, eq=False)
class Coded:
    """One confidential variable.

    Parameters
    ----------
    name : the variable.
    codes : a number for each record, -1 where missing, in the order of the values.
    distinct : the values the codes stand for.
    generalised : whether some cells stand for several values.
    suppressed : whether some cells stand for anything; they count as missing.
    """

    name: str
    codes: Codes
    distinct: pl.Series
    generalised: bool
    suppressed: bool

    @property
    def missing(self) -> bool:
        """Whether some record has no value."""
        return bool((self.codes < 0).any())

    @property
    def said(self) -> tuple[str, ...]:
        """How cells that are not plain values are read."""
        told = ((self.generalised, _GENERALISED), (self.suppressed, _SUPPRESSED))
        return tuple(text for holds, text in told if holds)


def confidential_variables(
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
    left = tuple(name for name in wanted if name in data.schema)
    if subject == "original":
        data.schema.require(wanted)
    elif not left:
        raise MeasureError(
            "None of the confidential variables is in the released data: "
            "there is nothing to learn and nothing to measure.",
            hint="leave this measure out, or name variables that are released.",
        )
    require_apart(left, known)
    return left


def require_apart(confidential: Sequence[str], known: Sequence[str]) -> None:
    """Refuse variables that the outsider knows already: a class has one value of them."""
    if both := [name for name in confidential if name in known]:
        raise MeasureError(
            f"Both known to the outsider and confidential: {', '.join(both)}.",
            hint="what the outsider knows cannot be learned; take it from one of the two.",
        )


def coded(data: Dataset, name: str) -> Coded:
    """Number the values of a variable in their order; all codes for missing are missing.

    Examples
    --------
    >>> coded(Dataset(pl.DataFrame({"charge": [300, None, 100, 300]})), "charge").codes.tolist()
    [1, -1, 0, 1]
    """
    values = typed(data.column(name))
    distinct = values.drop_nulls().unique().sort()
    several = suppressed = False
    if distinct.dtype == pl.String:
        every, distinct = len(distinct), distinct.filter(distinct != WILDCARD)
        several, suppressed = len(generalised(distinct)) > 0, len(distinct) < every
    codes = places(values, distinct).fill_null(-1).to_numpy()
    return Coded(name, codes, distinct, several, suppressed)


def generalised(texts: pl.Series) -> pl.Series:
    """The cells that are written as ranges, sets or masks."""
    near = texts.filter(texts.str.contains(r"[\]}*]\z"))
    several = [any(one.fullmatch(text) for one in (RANGE, SET, MASK)) for text in near]
    return near.filter(pl.Series(several, dtype=pl.Boolean))


@dataclass(frozen=True, eq=False)
class Joint:
    """The values that occur in each class: a row per class and value, with its records."""

    at: npt.NDArray[np.int64]
    code: npt.NDArray[np.int64]
    counts: Integers


def joint(classes: EqualClasses, codes: Codes, width: int) -> Joint:
    """Count the records of every class with every value (codes from 0 to below `width`)."""
    from sfumato.kernels.trees.box_classes import classes as equal

    both = np.stack([classes.of, codes]).astype(np.int32, copy=False)
    found = equal(both, [len(classes), width])
    return Joint(
        classes.of[found.first].astype(np.int64), codes[found.first].astype(np.int64), found.counts
    )
