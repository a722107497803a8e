"""The disclosure-risk measures, one per file."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    from sfumato.catalogue import attribute

    return attribute("risk", name)


def __dir__() -> list[str]:
    from sfumato.catalogue import measures

    return sorted(one.__name__ for one in measures().values() if one.room() == "risk")
