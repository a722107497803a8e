"""Tables that may leave: small cells are hidden, and nobody can compute them from the margins."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.outputs.tables.crosstabs import crosstab, pivot
    from sfumato.outputs.tables.table import Table

_HOMES = {"Table": "table", "crosstab": "crosstabs", "pivot": "crosstabs"}

__all__ = ["Table", "crosstab", "pivot"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    msg = f"module 'sfumato.tables' has no attribute '{name}'"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted(__all__)
