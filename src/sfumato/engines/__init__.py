"""Engines: where a plan runs. The engine follows from the frame's type, never from the plan.

An engine is the few verbs of `Engine` (verbs.py) over one kind of frame. `LocalEngine` (local.py)
holds frames in memory. A Spark engine goes beside it, as `spark.py`, the only module that imports
pyspark; `engine_for` then looks at the frame's type.
"""

from __future__ import annotations

from sfumato.engines.local import LocalEngine
from sfumato.engines.verbs import (
    Chance,
    Combinations,
    Engine,
    GroupFunction,
    RowFunction,
    Starts,
)
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
    # Every frame that a Dataset accepts today is in memory; this is where Spark frames part.
    del frame
    return LocalEngine(progress or silent)
