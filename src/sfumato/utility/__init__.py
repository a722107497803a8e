"""The utility measures, one per file."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    from sfumato.catalogue import attribute

    return attribute("utility", name)


def __dir__() -> list[str]:
    from sfumato.catalogue import measures

    return sorted(
        measure.__name__ for measure in measures().values() if measure.room() == "utility"
    )
