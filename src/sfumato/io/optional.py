"""Libraries that only some formats need, imported when such a format is met."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sfumato.errors import DataError


def library(name: str, *, extra: str, purpose: str) -> Any:
    """The library of that name, or an error that says how to install it."""
    try:
        return import_module(name)
    except ImportError:
        raise DataError(
            f"{purpose} needs the library '{name}', which is not installed.",
            hint=f"pip install 'sfumato[{extra}]'",
        ) from None
