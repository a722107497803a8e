"""Engines: where a plan runs. The engine follows from the frame's type, never from the plan.

An engine is the few verbs of `Engine` (verbs.py) over one kind of frame. `LocalEngine` (local.py)
holds frames in memory, `StreamingEngine` (streaming.py) reads files larger than memory batch by
batch, `SparkEngine` (spark.py, the only module that imports pyspark) has frames on a cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfumato.engines.local import LocalEngine
from sfumato.engines.verbs import (
    BatchEngine,
    Chance,
    Combinations,
    Engine,
    GroupFunction,
    GroupingEngine,
    RowFunction,
    Rows,
    Starts,
)
from sfumato.errors import MethodError
from sfumato.io import frames
from sfumato.progress import Progress, silent

__all__ = [
    "BatchEngine",
    "Chance",
    "Combinations",
    "Engine",
    "GroupFunction",
    "GroupingEngine",
    "LocalEngine",
    "RowFunction",
    "Rows",
    "Starts",
    "engine_for",
    "require_engine",
]
_PLACES = {"local": "in memory", "streaming": "batch by batch", "spark": "on Spark"}


def engine_for(frame: object, progress: Progress | None = None) -> Engine:
    """The engine that runs frames of this type: lazy ones batch by batch."""
    if frames.is_distributed(frame):
        from sfumato.engines.spark import SparkEngine

        return SparkEngine(progress or silent)
    if frames.is_lazy(frame):
        from sfumato.engines.streaming import StreamingEngine

        return StreamingEngine(progress or silent)
    return LocalEngine(progress or silent)


def require_engine(items: Any, engine: Engine, *, others: Sequence[str] = ()) -> None:
    """Say before any work starts what does not run on an engine, all of it at once.

    Parameters
    ----------
    items : a method or measure, or several; `runs_on` says where each runs.
    engine : where they are to run.
    others : what else does not run there, each a sentence.
    """
    wanted = items if isinstance(items, (list, tuple)) else [items]
    # Engines of tests run whatever is ready for any.
    known = [thing for thing in wanted if engine.name in _PLACES]
    refused = {f"'{t.name}'": None for t in known if engine.name not in t.runs_on}
    reasons = [thing.explain_refusal(engine) for thing in wanted if not engine.in_memory]
    lines = [*dict.fromkeys(filter(None, reasons)), *others]
    if refused:
        verb = "does" if len(refused) == 1 else "do"
        lines.insert(0, f"{', '.join(refused)} {verb} not run {_PLACES[engine.name]}.")
    if lines:
        raise MethodError(
            " ".join(lines),
            hint="leave it out, take it from data that one machine holds in memory, or from a "
            "sample. `sfumato methods` and `sfumato measures` say what runs where.",
        )
