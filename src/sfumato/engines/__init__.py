"""Engines: where a plan runs. The engine follows from the frame's type, never from the plan.

An engine is the few verbs of `Engine` (verbs.py) over one kind of frame. `LocalEngine` (local.py)
holds frames in memory, `SparkEngine` (spark.py, the only module that imports pyspark) has them on a
cluster.
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
from sfumato.io import frames
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
    """The engine that runs frames of this type: Spark frames on Spark, all others here."""
    if frames.is_distributed(frame):
        from sfumato.engines.spark import SparkEngine

        return SparkEngine(progress or silent)
    return LocalEngine(progress or silent)
