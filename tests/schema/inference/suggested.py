"""Suggestions for frames made on the spot."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from sfumato.schema import Column
from sfumato.schema.inference import suggest


def one(name: str, values: Iterable[Any], **beside: Iterable[Any]) -> Column:
    """The suggestion for one variable, with others beside it."""
    columns = {name: list(values), **{other: list(told) for other, told in beside.items()}}
    return suggest(pl.DataFrame(columns, strict=False))[name]


def told(frame: Any) -> dict[str, tuple[str | None, str | None, str]]:
    """Role, kind and reason of every variable."""
    return {name: (one.role, one.kind, one.reason) for name, one in suggest(frame).items()}
