"""The protections, one per file. `sf.methods.Coarsen` lives in `coarsen.py`."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    from sfumato.catalogue import attribute

    return attribute("methods", name)


def __dir__() -> list[str]:
    from sfumato.catalogue import methods

    return sorted(method.__name__ for method in methods().values())
