"""Two variables on a grid: the cells that hold enough values, group by group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.errors import PlanError
from sfumato.figures.public.grid import (
    Limits,
    checked,
    counts,
    edges,
    own_extremes,
    parts_of,
    reach,
    suppressed,
)
from sfumato.figures.public.points import Protected, points
from sfumato.figures.public.words import share_said
from sfumato.kernels.arrays import Floats, Integers
from sfumato.outputs.judged import OutputRefused

if TYPE_CHECKING:
    from sfumato.figures.public.protection import Protection
    from sfumato.figures.public.subjects import Subjects

TwoLimits = tuple[Limits | None, Limits | None]
_COARSEST = 2
EXTREMES = "The limits of an axis are extremes of the data themselves."


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The cells of one group.

    Parameters
    ----------
    label : of the group.
    x, y : the edges of the cells.
    counts : how many values each cell holds; 0 where they are too few.
    hidden : how many cells hold too few.
    records : how many values the group has.
    notes : sentences for the caption.
    """

    label: str
    x: Floats = field(repr=False)
    y: Floats = field(repr=False)
    counts: Integers = field(repr=False)
    hidden: int
    records: int
    notes: tuple[str, ...] = ()

    @property
    def lost(self) -> int:
        """How many values are in no cell that is shown."""
        return self.records - int(self.counts.sum())

    def centres(self) -> tuple[Floats, Floats, Integers]:
        """The middle of each cell that is shown, and its count."""
        at_x, at_y = np.nonzero(self.counts)
        middle_x, middle_y = (self.x[:-1] + self.x[1:]) / 2, (self.y[:-1] + self.y[1:]) / 2
        return middle_x[at_x], middle_y[at_y], self.counts[at_x, at_y]

    def table(self, *, grouped: bool) -> pl.DataFrame:
        """The cells that are shown, one a row."""
        at_x, at_y = np.nonzero(self.counts)
        told: dict[str, Any] = {"group": [self.label] * len(at_x)} if grouped else {}
        for axis, cuts, at in (("x", self.x, at_x), ("y", self.y, at_y)):
            told |= {f"{axis}_low": cuts[at], f"{axis}_high": cuts[at + 1]}
        return pl.DataFrame({**told, "records": self.counts[at_x, at_y]})


def two_limits(first: str, second: str, limits: Any) -> TwoLimits:
    """The limits of the axes of two variables; either may be None."""
    if first == second:
        raise PlanError("x and y are the same variable.", hint="take a histogram of it.")
    if limits is None:
        return None, None
    try:
        x, y = limits
    except (TypeError, ValueError):
        raise PlanError(
            "limits of two axes are two pairs.", hint="limits=((0, 100), None)."
        ) from None
    return (None if x is None else checked(x), None if y is None else checked(y))


def extremes(who: Subjects, names: Sequence[str], limits: TwoLimits) -> tuple[str, ...]:
    """Why limits that were asked for need a second look."""
    found = [own_extremes(who.column(name), one) for name, one in zip(names, limits, strict=True)]
    return (EXTREMES,) if any(found) else ()


def protected(
    who: Subjects, names: Sequence[str], way: Protection, *, lonely: bool = False
) -> list[Protected]:
    """The protected values of each group."""
    return [points(one, names, way, lonely=lonely) for one in who.groups]


def grids(  # noqa: PLR0913 - all but three by name only
    who: Subjects,
    names: Sequence[str],
    way: Protection,
    *,
    bins: int,
    exact: bool,
    limits: TwoLimits,
    k: int,
    made: Sequence[Protected] | None = None,
) -> list[Grid]:
    """The cells of every group on one common grid.

    Parameters
    ----------
    who : the records.
    names : the variables of the two axes.
    way : the protection.
    bins : how many bins an axis has; half as many where no cell would be shown.
    exact : exactly so many, since somebody asked for them.
    limits : of the axes, where somebody gave them.
    k : cells of fewer are hidden.
    made : protected values, where they are known already.
    """
    if way.cells:
        columns = [[one.column(name) for name in names] for one in who.groups]
        notes: list[tuple[str, ...]] = [()] * len(columns)
    else:
        values = protected(who, names, way, lonely=k == 1) if made is None else made
        columns = [[one.column(name) for name in names] for one in values]
        notes = [one.notes() for one in values]
    together = [
        np.concatenate(one) if len(one) > 1 else one[0] for one in zip(*columns, strict=True)
    ]
    domains = [who.bounds(name) for name in names]
    whole = [way.cells and who.whole(name) and not exact for name in names]
    while True:
        cuts = [
            edges(values, bins, ends, reach(way), domain=domain, exact=exact, whole=units)
            for values, ends, domain, units in zip(together, limits, domains, whole, strict=True)
        ]
        made_of = [
            _grid(group.label, held, cuts, k, said)
            for group, held, said in zip(who.groups, columns, notes, strict=True)
        ]
        if all(one.counts.any() for one in made_of):
            return made_of
        if exact or bins <= _COARSEST:
            raise OutputRefused(
                "Not one cell would hold enough records.",
                hint="take fewer bins, or another protection.",
            )
        # Nobody asked for so fine a grid.
        bins //= 2


def _grid(
    label: str, columns: Sequence[Floats], cuts: Sequence[Floats], k: int, notes: tuple[str, ...]
) -> Grid:
    kept, hidden = suppressed(counts(columns, cuts), k)
    return Grid(
        label=label,
        x=cuts[0],
        y=cuts[1],
        counts=kept,
        hidden=hidden,
        records=len(columns[0]),
        notes=notes,
    )


def parts_in(
    who: Subjects, names: Sequence[str], way: Protection, made: Sequence[Grid] | None
) -> list[Any] | None:
    """For the log: in which cell each record is; only where cells count the original's."""
    if not way.cells or made is None:
        return None
    return parts_of(
        [[one.column(name) for name in names] for one in who.groups],
        [(one.x, one.y) for one in made],
        [one.counts for one in made],
    )


def lost_said(made: Sequence[Grid], k: int) -> list[str]:
    """What is in no cell that is shown, as a rounded share."""
    records, lost = sum(one.records for one in made), sum(one.lost for one in made)
    if not lost:
        return []
    return [f"Not shown: {share_said(lost / records, records=records, k=k)} of the values."]


def cell_details(made: Sequence[Grid]) -> dict[str, int]:
    """How many cells there are and how many are hidden, for the custodian."""
    return {
        "cells": sum(one.counts.size for one in made),
        "suppressed": sum(one.hidden for one in made),
    }


def bins_of(made: Sequence[Grid]) -> int:
    """How many bins the longer axis has."""
    return max(len(made[0].x), len(made[0].y)) - 1
