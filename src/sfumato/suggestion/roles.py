"""Roles in one go: who may be known by what, what is secret, and what holds for the rest."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import polars as pl

from sfumato.data import Dataset
from sfumato.errors import SchemaError
from sfumato.schema import IDENTIFYING, ROLES, Role, Schema
from sfumato.suggestion.first_plan import suggest_schema

_GROUPING: tuple[Role, ...] = ("weight", "cluster")
"""Suggestions that hold against a word on all the rest, as those of names do, which are never
harmless by the way."""


_FEWEST = 20
"""Records that must all have values of their own before these are taken for numbers of records."""


@dataclass(frozen=True)
class AssignedRoles:
    """The schema with the roles that were given, and the variables whose role may still change.

    Parameters
    ----------
    schema : of all variables.
    open_roles : those that nobody has named one by one.
    held : variables that were not given the role of the rest, since they look like identifiers.
    """

    schema: Schema
    open_roles: frozenset[str]
    held: tuple[str, ...] = ()


def _names_each_record(data: Dataset, name: str) -> bool:
    """Whether each record has a text or a whole number of its own, as a case number has."""
    values = data.column(name)
    is_code = values.dtype == pl.String or values.dtype.is_integer()
    several = len(values) >= _FEWEST and values.null_count() == 0
    return is_code and several and values.n_unique() == len(values)


def assign_roles(
    data: Dataset,
    *,
    known: Collection[str] = (),
    secret: Collection[str] = (),
    rest: Role | None = None,
    needed: Collection[str] = (),
) -> AssignedRoles:
    """Give roles in one go.

    Parameters
    ----------
    data : the original records.
    known : variables by which somebody may be known ("quasi").
    secret : what nobody should learn ("sensitive").
    rest : the role of all others. What looks like a name or a number of a person keeps what its
        values suggest. Default: what values suggest; what they do not is read as known to others.
    needed : variables that the purpose computes with: they are no groups or weights.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> data = sf.Dataset(pl.DataFrame({"age": [30, 41], "pay": [1, 2], "town": ["a", "b"]}))
    >>> assigned = assign_roles(data, known=["age"], secret=["pay"], rest="other")
    >>> {name: column.role for name, column in assigned.schema.items()}
    {'age': 'quasi', 'pay': 'sensitive', 'town': 'other'}
    """
    data.schema.require([*known, *secret])
    if both := [name for name in known if name in secret]:
        raise SchemaError(
            f"Variable '{both[0]}' is given as known and as secret.",
            hint="what others may know and nobody should learn is known: leave it there.",
        )
    if rest is not None and rest not in ROLES:
        raise SchemaError(f"There is no role '{rest}'.", hint=f"one of {', '.join(ROLES)}.")
    decided: dict[str, Role] = {}
    decided.update(dict.fromkeys(secret, "sensitive"))
    decided.update(dict.fromkeys(known, "quasi"))
    suggested = suggest_schema(data)
    others = [name for name in data.columns if name not in decided]
    numbering = [n for n in others if n not in needed and _names_each_record(data, n)]
    held = [
        name
        for name in others
        if suggested[name].role in IDENTIFYING
        or (suggested[name].role in _GROUPING and name not in needed)
        or name in numbering
    ]
    if rest is not None:
        # Whatever it is called: nobody needs it, and whoever knows it has the record.
        decided.update({n: "direct" for n in numbering if suggested[n].role not in IDENTIFYING})
        decided.update(dict.fromkeys((name for name in others if name not in held), rest))
    schema = suggest_schema(data, decided)
    return AssignedRoles(schema, frozenset(others), tuple(held) if rest is not None else ())
