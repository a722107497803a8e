"""Names that are new in the release: they stand for the original levels that became them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.cells.held import groups_of, said, texts_of
from sfumato.cells.notation import MASK, RANGE, SET, WILDCARD
from sfumato.schema import Column

_TWO = 2


def with_renamed(
    column: Column,
    levels: Sequence[str],
    values: pl.Series,
    now: pl.Series,
    at: npt.NDArray[np.intp] | None,
    after: Column | None,
) -> Column:
    """The declaration, with a group for every new name such as `other`, and for sets with one.

    A name that one level only became stays no level at all: it tells nothing by itself. Of an
    ordered variable, only what the release declares as a level or as a range of its levels is
    a name; all else is a value that cannot be.

    Parameters
    ----------
    column : what is known of the original variable.
    levels : the levels of the original.
    values, now : the variable before and after.
    at : where each original record stands in the release; None for row by row.
    after : what is known of the released variable.
    """
    known = {*levels, *groups_of(column)}
    found = texts_of(now.drop_nulls().unique()).unique().to_list()
    # A range or a set of levels that the original has needs no name.
    new = [one for one in found if not _named(one) <= known and one not in known]
    if column.kind == "ordinal":
        declared = set(map(said, after.levels or ())) if after else set()
        new = [one for one in new if _named(one) <= known | declared]
    else:
        new = [one for one in new if _nameable(one)]
    if not new:
        return column
    became = _became(values, texts_of(now), at, new, levels)
    held = {one: became.get(one, set()) | _named(one).intersection(levels) for one in new}
    for one in new:
        held[one] = held[one].union(*(held.get(name, set()) for name in _named(one)))
    groups = {one: found for one, found in held.items() if len(found) >= _fewest(column)}
    broader = dict(column.hierarchy or {})
    for name in sorted(groups):
        for level in sorted(groups[name]):
            broader[level] = (*broader.get(level, ()), name)
    return replace(column, hierarchy=broader)


def _fewest(column: Column) -> int:
    return 1 if column.kind == "ordinal" else _TWO


def _nameable(text: str) -> bool:
    if SET.fullmatch(text):
        return True
    return text != WILDCARD and not (RANGE.fullmatch(text) or MASK.fullmatch(text))


def _named(text: str) -> set[str]:
    """The values that a cell names: one, those of a set, or the ends of a range."""
    if found := SET.fullmatch(text):
        return set(found[1].split(";"))
    found = RANGE.fullmatch(text)
    return set(found.groups()) if found else {text}


def _became(
    values: pl.Series,
    cells: pl.Series,
    at: npt.NDArray[np.intp] | None,
    new: Sequence[str],
    levels: Sequence[str],
) -> dict[str, set[str]]:
    """The original levels of the records that have each of the new names."""
    was = texts_of(values)
    if at is not None:
        kept = at >= 0
        was, cells = was.filter(pl.Series(kept)), cells.gather(at[kept])
    pairs = pl.DataFrame({"was": was, "now": cells}).filter(
        pl.col("now").is_in(list(new)) & pl.col("was").is_in(list(levels))
    )
    found: dict[str, set[str]] = {}
    for level, name in pairs.unique().iter_rows():
        found.setdefault(name, set()).add(level)
    return found
