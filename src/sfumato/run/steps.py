"""Carry out the steps of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sfumato.data import Dataset
from sfumato.engines import Chance, Engine, engine_for
from sfumato.evidence import Evidence
from sfumato.method import Fitted, Method, carry_out
from sfumato.progress import Progress, send_progress_to, silent
from sfumato.randomness import Key


def add_losses(
    steps: Sequence[Method], fitted: Sequence[Fitted], evidence: Mapping[str, Evidence]
) -> dict[str, Evidence]:
    """What a step says it costs, as a warning in the measures that it reports."""
    noted: dict[str, Evidence] = {}
    for step, values in zip(steps, fitted, strict=True):
        for label, item in evidence.items():
            if "loss" in values and item.name in step.reports:
                warned = noted.get(label, item)
                noted[label] = replace(warned, warnings=(*warned.warnings, values["loss"]))
    return noted


def apply_steps(
    original: Dataset,
    steps: Sequence[Method],
    key: Key,
    *,
    first: int = 0,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> tuple[Dataset, list[Fitted]]:
    """Carry out the steps of a plan one after the other: the protected data, and what was fitted.

    Parameters
    ----------
    original : the records as the plan declares them.
    steps : what to do, in order.
    key : the secret from which every draw is derived.
    first : the position of the first step in its plan. A draw belongs to a position.
    """
    where = engine or engine_for(original.frame, progress)
    report = progress or silent
    data, fitted_steps, total = original, list[Fitted](), len(steps)
    for position, step in enumerate(steps):
        report(f"protecting: step {position + 1} of {total}, {step.name}", position, total)
        data.schema.require(step.touches(data.schema))
        chance = Chance(key, first + position) if step.keyed else None
        with send_progress_to(progress):
            fitted = step.fit_keyed(data, where, chance)
            data = carry_out(step, data, fitted, engine=where, chance=chance)
        fitted_steps.append(fitted)
    report("protecting", total, total)
    return data, fitted_steps
