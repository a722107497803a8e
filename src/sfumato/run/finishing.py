"""From protected records to a release: gates, measures, verdict. The same for every table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.io import frames
from sfumato.method import Fitted
from sfumato.plan import Plan
from sfumato.plan.targets import judge
from sfumato.progress import Progress
from sfumato.randomness import Key
from sfumato.release import Release
from sfumato.run.gates import GATES, Protected, pass_gates
from sfumato.run.measuring import take_measures
from sfumato.run.steps import add_losses


def finish_table(
    original: Dataset,
    released: Dataset,
    plan: Plan,
    *,
    fitted: Sequence[Fitted],
    key: Key,
    engine: Engine,
    progress: Progress | None,
) -> Release:
    """Let protected records pass the gates, measure them, and hold them against the targets.

    Missed targets are in the verdict; whoever calls refuses them.
    """
    # Before anything is measured: afterwards it would stand in memory beside all evidence.
    released = engine.keep(replace(released, frame=frames.strip_metadata(released.frame)))
    pass_gates(Protected(original, released, plan.steps, engine), GATES)
    evidence = take_measures(plan.measures, original, released, progress=progress)
    evidence |= add_losses(plan.steps, fitted, evidence)
    return Release(
        dataset=released,
        plan=plan,
        evidence=evidence,
        verdict=judge(plan.targets, plan.measures, evidence),
        original=original,
        key=key,
        fitted=fitted,
    )
