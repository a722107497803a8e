"""Suggests a `Column` for every variable of a frame."""

from __future__ import annotations

from typing import Any

import narwhals as nw

from sfumato.io import frames
from sfumato.schema import Column
from sfumato.schema.inference.kinds import CLOSED, suggest_kind
from sfumato.schema.inference.names import signs_in
from sfumato.schema.inference.profile import read_profile
from sfumato.schema.inference.roles import NAMELESS, suggest_role

_MIXED = "Holds values of several types; make them one type and look again."


def suggest(frame: Any) -> dict[str, Column]:
    """Suggest a `Column` for every variable of an eager frame, with the reason for it.

    Examples
    --------
    >>> import polars as pl
    >>> columns = suggest(pl.DataFrame({"eMail": ["a@b.org"], "Alter": [50], "x": [0.5]}))
    >>> [column.role for column in columns.values()]
    ['direct', 'quasi', None]
    """
    table = frames.wrap(frame)
    tall = any(sign.what == "body height" for name in table.columns for sign in signs_in(name))
    return {name: _column(table, name, tall=tall) for name in table.columns}


def _column(table: nw.DataFrame[Any], name: str, *, tall: bool) -> Column:
    profile = read_profile(table, name)
    if profile is None:
        several = table[name].dtype == nw.Object
        return Column(reason=_MIXED if several else f"{NAMELESS} {CLOSED}")
    found = suggest_role(signs_in(name), profile, tall=tall)
    kind = suggest_kind(found.role, found.sign, profile)
    return Column(role=found.role, kind=kind.kind, reason=f"{found.reason} {kind.remark}".strip())
