"""Confidential variables as the rules of closeness and diversity see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from sfumato.clustered.coded import Codes, Variable, coded
from sfumato.data import Dataset
from sfumato.errors import MethodError

Distance = Literal["auto", "ordered", "equal", "hierarchical"]


def confidential(
    data: Dataset, named: str | list[str] | None, taken: Sequence[str], owner: str
) -> list[Variable]:
    """The confidential variables as codes; by default all whose role is "sensitive"."""
    names = data.schema.having("sensitive") if named is None else _listed(named)
    if not names:
        raise MethodError(
            f"{owner} needs a confidential variable.",
            hint='give one the role "sensitive", or name it: confidential = "...".',
        )
    if both := [name for name in names if name in taken]:
        raise MethodError(
            f"{', '.join(map(repr, both))} cannot be generalised and confidential in one step.",
            hint="name it in one of `variables` and `confidential`.",
        )
    return [_one_missing(one) for one in coded(data, names, owner)]


def _one_missing(one: Variable) -> Variable:
    """All codes for missing are one value: otherwise they would make a cluster look diverse."""
    if one.missing <= 1:
        return one
    more = one.missing - 1
    return replace(
        one,
        codes=np.maximum(one.codes - more, 0).astype(np.int32),
        levels=one.levels[more:],
        missing=1,
        worth=None if one.worth is None else one.worth[more:],
    )


def _listed(named: str | list[str]) -> tuple[str, ...]:
    return (named,) if isinstance(named, str) else tuple(named)


def table(variables: Sequence[Variable]) -> Codes:
    """A row per record, a column per confidential variable."""
    return np.column_stack([one.codes for one in variables])


def distance_of(one: Variable, asked: Distance) -> Literal["ordered", "equal", "hierarchical"]:
    """The distance between values: as asked, else what the kind of the variable has."""
    nominal = one.column.kind in ("nominal", "text")
    if asked == "auto":
        return "ordered" if not nominal else "hierarchical" if one.column.hierarchy else "equal"
    if asked == "ordered" and (nominal or one.worth is None):
        raise MethodError(
            f"Variable '{one.name}' has no order, so there is no ordered distance.",
            hint='declare its levels in order (kind = "ordinal"), or say distance = "equal".',
        )
    if asked == "hierarchical" and one.column.hierarchy is None:
        raise MethodError(
            f"Variable '{one.name}' has no hierarchy, so there is no hierarchical distance.",
            hint='declare one in the schema, or say distance = "equal".',
        )
    return asked


def tree_of(one: Variable) -> npt.NDArray[np.int64]:
    """A row per level of the hierarchy, with a number of the group for each code.

    Missing values are a group of their own at every level. The last level is left out where it is
    one group for all: that is the root.
    """
    rows = []
    for names in zip(*(one.groups or []), strict=True):
        number = {name: at for at, name in enumerate(dict.fromkeys(names))}
        last = len(number)
        row = [last] * one.missing + [number[name] for name in names]
        if len(number) > 1 or one.missing:
            rows.append(row)
    return np.array(rows, np.int64).reshape(len(rows), len(one.levels))
