"""The levels of variables as codes: what each value becomes at each of them, and what that loses.

Level 0 is the value itself, then come the levels of its hierarchy, and at last `*`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from sfumato.cells.codes import encode
from sfumato.cells.notation import WILDCARD, format_value
from sfumato.errors import MethodError, PlanError
from sfumato.kernels.arrays import Codes, Floats, Integers, Mask
from sfumato.methods._recoding.grouping import format_values
from sfumato.schema import Column
from sfumato.schema.hierarchies import Hierarchy


@dataclass(frozen=True, eq=False)
class LevelledVariable:
    """One variable at each level that may be chosen.

    Parameters
    ----------
    name : its name.
    codes : the code of each row; 0 is what is missing.
    first : the number of the lowest level.
    cells : at each level, the cell that each code becomes; missing stays missing below `*`.
    groups : the same as numbers: equal cells of a level have equal ones.
    lost : at each level, what a record with each code loses of its detail.
    left : what it would lose besides if its cell were suppressed. All codes of a group have the
        same, and at a higher level none has more.
    """

    name: str
    codes: Codes
    first: int
    cells: list[list[str | None]]
    groups: Codes
    lost: Floats
    left: Floats

    @property
    def levels(self) -> int:
        """How many levels may be chosen."""
        return len(self.cells)

    def write_cells(self, level: int) -> pl.Series:
        """The cell of each row at a level."""
        table = pl.Series(self.name, self.cells[level - self.first], dtype=pl.String)
        return table.gather(self.codes)


def level_variable(
    values: pl.Series,
    counts: Integers,
    column: Column,
    *,
    span: tuple[int, int | None],
    by_entropy: bool,
) -> LevelledVariable:
    """A variable at the levels that may be chosen; `counts` are the records of each row."""
    texts = format_values(values)
    coded = encode(texts)
    occurring = coded.levels.to_list()
    codes = (coded.codes + 1).astype(np.int32)
    missing = {None, *map(format_value, column.missing)}
    rows: list[str | None] = [None, *occurring]
    times = np.bincount(codes, counts, len(rows)).astype(np.int64)
    every = _list_cells(values.name, rows, missing, times, column)
    first, last = _choose_span(values.name, span, len(every) - 1)
    cells = every[first : last + 1]
    present = np.array([text not in missing and text != WILDCARD for text in rows], np.bool_)
    weigh = _weigh_by_entropy if by_entropy else _weigh_by_leaves
    lost, left = weigh(rows, cells, present, times, column)
    return LevelledVariable(values.name, codes, first, cells, _number_cells(cells), lost, left)


def _list_cells(
    name: str,
    rows: Sequence[str | None],
    missing: set[str | None],
    times: Integers,
    column: Column,
) -> list[list[str | None]]:
    """The cells of all levels: as it is, its groups, and `*` where they do not end with it."""
    hierarchy = Hierarchy.of(column.hierarchy or {})
    if hierarchy.flaw:
        raise MethodError(f"Variable '{name}': {hierarchy.flaw}.", hint="correct the hierarchy.")
    paths = {**hierarchy.paths, WILDCARD: (WILDCARD,) * hierarchy.depth}
    known = [text in paths or text in missing for text in rows]
    if hierarchy and not all(known):
        raise MethodError(
            f"Variable '{name}' has {int(times[~np.array(known)].sum())} records with a value "
            "that its hierarchy does not know.",
            hint="add all values to the hierarchy; codes are text, so 01067 is not 1067.",
        )
    groups = [
        [text if text is None or text in missing else paths[text][level] for text in rows]
        for level in range(hierarchy.depth)
    ]
    levels: list[list[str | None]] = [list(rows), *groups]
    whole: list[str | None] = [WILDCARD] * len(rows)
    if hierarchy.depth and {groups[-1] for groups in hierarchy.values()} == {WILDCARD}:
        levels[-1] = whole
    else:
        levels.append(whole)
    return levels


def _choose_span(name: str, span: tuple[int, int | None], top: int) -> tuple[int, int]:
    first, last = span[0], top if span[1] is None else span[1]
    if not 0 <= first <= last <= top:
        raise PlanError(
            f"Variable '{name}' has the levels 0 to {top}, and not all of {first} to {last}.",
            hint=f"0 is the value itself, {top} is `*`; correct `lowest` and `highest`.",
        )
    return first, last


def _number_cells(cells: Sequence[Sequence[str | None]]) -> Codes:
    """Equal cells of a level as equal numbers, from 0 on."""
    numbered = []
    for level in cells:
        number: dict[str | None, int] = {}
        numbered.append([number.setdefault(cell, len(number)) for cell in level])
    return np.array(numbered, np.int32)


def _weigh_by_leaves(
    rows: Sequence[str | None],
    cells: Sequence[Sequence[str | None]],
    present: Mask,
    times: Integers,
    column: Column,
) -> tuple[Floats, Floats]:
    """Granularity: how many of the values that there may be a cell leaves open, less one.

    As a share of all of them, less one.
    """
    del times
    if column.hierarchy is not None:
        hierarchy: Mapping[str, Sequence[str]] = Hierarchy.of(column.hierarchy)
    else:
        domain = [format_value(level) for level in column.levels or ()]
        hierarchy = dict.fromkeys([*domain, *_take(rows, present)], ())
    behind: Counter[str | None] = Counter()
    for leaf, groups in hierarchy.items():
        behind.update({leaf, *groups})
    behind[WILDCARD] = len(hierarchy)
    most = max(len(hierarchy) - 1, 1)
    exact = np.array(
        [behind[text] if here else 0 for text, here in zip(rows, present, strict=True)]
    )
    opened = np.array([[behind[cell] for cell in level] for level in cells])
    return (
        np.where(present, opened - exact, 0) / most,
        np.where(present, len(hierarchy) - opened, 0) / most,
    )


def _weigh_by_entropy(
    rows: Sequence[str | None],
    cells: Sequence[Sequence[str | None]],
    present: Mask,
    times: Integers,
    column: Column,
) -> tuple[Floats, Floats]:
    """Non-uniform entropy: the bits that it takes to tell a value within its cell, by frequency."""
    del rows, column
    alone = np.where(present, np.maximum(times, 1), 1)
    total = max(int(times[present].sum()), 1)
    sizes = []
    for level in cells:
        together: Counter[str | None] = Counter()
        for cell, here, count in zip(level, present, times.tolist(), strict=True):
            together[cell] += count if here else 0
        sizes.append([max(together[cell], 1) for cell in level])
    shown = np.array(sizes)
    return (
        np.where(present, np.log2(shown / alone), 0.0),
        np.where(present, np.log2(total / shown), 0.0),
    )


def _take(rows: Sequence[str | None], present: Mask) -> list[str]:
    return [text for text, here in zip(rows, present, strict=True) if here and text is not None]
