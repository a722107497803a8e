"""What an attacker knows of the persons, and what the release shows of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Mask
from sfumato.pairs.alignment import find_numeric_variables, read_matrix
from sfumato.parameters import write_short
from sfumato.units import Units


@dataclass(frozen=True, eq=False)
class Knowledge:
    """The numbers an attacker compares, of the records that have all of them in both data sets.

    Parameters
    ----------
    names : the variables that the attacker knows.
    original : what the attacker knows, a row per complete record.
    released : what the release shows of the same records, row by row.
    complete : which of all records these are.
    units : whom each complete record is about.
    warnings : what was left out, in words.
    unseen : why a target cannot be held against this: somebody sees more than is compared here.
    """

    names: tuple[str, ...]
    original: Floats = field(repr=False)
    released: Floats = field(repr=False)
    complete: Mask = field(repr=False)
    units: Units = field(repr=False)
    warnings: tuple[str, ...] = ()
    unseen: str = ""

    __repr__ = write_short


def knowledge(
    original: Dataset, released: Dataset, named: Sequence[str] | None, *, owner: str
) -> Knowledge:
    """What an attacker can compare; fail where there is nothing.

    By default the attacker knows the numbers whose role is "quasi"; where there are none, those
    whose role is "sensitive". Variables that somebody named must be numbers in both data sets.
    """
    require_pairs(original, released, owner)
    wanted = _choose_default(original, owner) if named is None else tuple(named)
    original.schema.require(wanted)
    names = tuple(name for name in wanted if _is_number(original, name) and name in released.schema)
    names = tuple(name for name in names if _is_number(released, name))
    dropped = ", ".join(f"'{name}'" for name in wanted if name not in names)
    if dropped and (named is not None or not names):
        raise MeasureError(
            f"'{owner}' compares numbers, and these are none in the original or in the release: "
            f"{dropped}.",
            hint="leave them out of `variables`; 'mixed_h_index' and 'mixed_linkage' compare "
            "categories and ranges too.",
        )
    if not names:
        raise MeasureError(f"'{owner}' needs a variable.", hint="name some: variables = [...].")
    # A distance needs all coordinates, so only complete records are compared.
    sides = [read_matrix(data, names) for data in (original, released)]
    complete: Mask = np.logical_not(np.isnan(np.concatenate(sides, axis=1)).any(axis=1))
    incomplete = int((~complete).sum())
    if incomplete == len(complete):
        raise MeasureError(
            f"No record has a value of each variable in both data sets, so '{owner}' cannot "
            "compare any.",
            hint="name variables with fewer missing values.",
        )
    warnings = []
    if dropped:
        warnings.append(
            f"Not compared, since the release no longer holds numbers there: {dropped}."
        )
    if incomplete:
        warnings.append(
            f"{incomplete} records lack a value in one of the data sets and were left out; their "
            "risk is not known, and all shares are of the others."
        )
    other = ", ".join(f"'{n}'" for n in wanted if n not in names and n in released.schema)
    unseen = other and (
        f"the release shows {other}, but not as numbers, so '{owner}' cannot compare all that is "
        "known; name the variables that it is to compare."
    )
    return Knowledge(
        names,
        sides[0][complete],
        sides[1][complete],
        complete,
        original.units.take(complete),
        tuple(warnings),
        unseen,
    )


def require_pairs(original: Dataset, released: Dataset, owner: str) -> None:
    """Fail unless each original record has its released one, and there is any."""
    if len(original) != len(released):
        raise MeasureError(
            f"'{owner}' must know which records belong together; the original has {len(original)} "
            f"records, the released data {len(released)}.",
            hint="evaluate a Release or its folder, so that the records can be paired.",
        )
    if not len(original):
        raise MeasureError("There is no record to look for.", hint="are the data empty?")


def _choose_default(original: Dataset, owner: str) -> tuple[str, ...]:
    numbers = find_numeric_variables(original)
    for role in ("quasi", "sensitive"):
        of_role = tuple(name for name in numbers if original.schema[name].role == role)
        if of_role:
            return of_role
    raise MeasureError(
        f"'{owner}' compares numbers, and no number has the role quasi or sensitive.",
        hint="say what the attacker knows: variables = [...].",
    )


def _is_number(data: Dataset, name: str) -> bool:
    return data.column(name).dtype.is_numeric()
