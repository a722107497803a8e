"""Where a plan runs. The engine follows from the frame's type, never from the plan."""

from __future__ import annotations

from sfumato.engines.local import LocalEngine
from sfumato.engines.verbs import Chance, Combinations, Engine, GroupFunction, RowFunction
from sfumato.progress import Progress, silent

__all__ = [
    "Chance",
    "Combinations",
    "Engine",
    "GroupFunction",
    "LocalEngine",
    "RowFunction",
    "Starts",
    "engine_for",
]


def engine_for(frame: object, progress: Progress | None = None) -> Engine:
    """The engine that runs frames of this type. In-memory frames run locally."""
    del frame  # every frame that a Dataset accepts today is in memory
    return LocalEngine(progress or silent)
