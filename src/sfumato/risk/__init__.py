"""The disclosure-risk measures, one per file."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    from sfumato.catalogue import attribute

    return attribute("risk", name)


def __dir__() -> list[str]:
    from sfumato.catalogue import measures

    return sorted(entry.__name__ for entry in measures().values() if entry.room() == "risk")
