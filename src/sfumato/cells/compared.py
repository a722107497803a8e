"""Numbers that stand in both data sets, compared value by value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.cells.pairs import Pair, paired
from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats
from sfumato.kernels.canonical import deviation_of


@dataclass(frozen=True, eq=False)
class Compared(Pair):
    """A pair whose variables all have something to compare.

    Parameters
    ----------
    without : variables that no record has a value of in both data sets.
    """

    without: tuple[str, ...] = ()

    def warnings(self) -> tuple[str, ...]:
        """What is not part of the comparison, in words."""
        listed = ", ".join(f"'{name}'" for name in self.without)
        told = (f"Not compared, since no record has a value in both data sets: {listed}.",)
        return (*super().warnings(), *(told if self.without else ()), *changes_in_missing(self))


def compared(
    original: Dataset, released: Dataset, named: Sequence[str] | None, *, owner: str
) -> Compared:
    """The numbers of both data sets, less variables without a single value to compare.

    Such a variable is an error when somebody named it.
    """
    pair = paired(original, released, named, owner=owner)
    held = [len(change_of(pair, at)) > 0 for at in range(len(pair.names))]
    without = tuple(name for name, has in zip(pair.names, held, strict=True) if not has)
    if without and (named is not None or not any(held)):
        listed = ", ".join(f"'{name}'" for name in without)
        raise MeasureError(
            f"'{owner}' finds no record with a value in both data sets for: {listed}.",
            hint="are the right data compared? Otherwise leave them out of `variables`.",
        )
    return Compared(
        names=tuple(name for name in pair.names if name not in without),
        original=pair.original[:, held],
        released=pair.released[:, held],
        left_out=pair.left_out,
        without=without,
    )


def change_of(pair: Pair, at: int) -> Floats:
    """What the release added to the values of one variable, where both have one."""
    change = pair.released[:, at] - pair.original[:, at]
    return change[~np.isnan(change)]


def spread_of(pair: Pair, at: int) -> float:
    """The standard deviation of the original; 1 for a constant that nobody changed."""
    values = pair.original[:, at]
    spread = deviation_of(values[~np.isnan(values)])
    if spread > 0:
        return spread
    if change_of(pair, at).any():
        raise MeasureError(
            f"Variable '{pair.names[at]}' has one value in the original and others in the release, "
            "so there is no spread to count the change in.",
            hint="leave it out of `variables`.",
        )
    return 1.0


def changes_in_missing(pair: Pair) -> tuple[str, ...]:
    """How many values became missing, and how many were filled in, in words."""
    was, now = np.isnan(pair.original), np.isnan(pair.released)
    counts = {"became missing": int((now & ~was).sum()), "were filled in": int((was & ~now).sum())}
    return tuple(
        f"Not compared, since they {what}: {count} values."
        for what, count in counts.items()
        if count
    )
