"""Carries out and measures candidates; the original is measured once for all of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

from sfumato import __version__
from sfumato.data import Dataset
from sfumato.data.identity import Identity, digest
from sfumato.errors import PlanError, SchemaError, SfumatoError
from sfumato.evidence import Evidence
from sfumato.io import frames
from sfumato.measure import Measure
from sfumato.method import Method
from sfumato.plan import Plan
from sfumato.plan.targets import find_number, judge
from sfumato.randomness import Key
from sfumato.run.measuring import take_measures
from sfumato.run.steps import apply_steps
from sfumato.tuning.checkpoint import Checkpoint, Draw
from sfumato.tuning.grid import change_plan

Steps = tuple[Method, ...]


@dataclass(frozen=True, eq=False)
class Run:
    """The outcome of one candidate: the evidence of every draw, or why the data refuse it."""

    draws: tuple[Draw, ...] = ()
    refused: str = ""


@dataclass(eq=False)
class Runner:
    """The data, the measures, and the keys to draw with.

    Parameters
    ----------
    data : the original records, as the plan declares them.
    plan : targets and measures; all candidates begin with its steps.
    keys : one per draw. Plans without chance are measured once.
    checkpoint : where finished candidates are stored; or None.
    """

    data: Dataset
    plan: Plan
    keys: Sequence[Key] = field(repr=False)
    checkpoint: Checkpoint | None = None
    _lock: Lock = field(default_factory=Lock, repr=False)
    _baselines: dict[str, float] = field(default_factory=dict, repr=False)
    _prepared: dict[bytes, Dataset] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.measures: dict[str, Measure] = dict(self.plan.evaluate)
        targeted = {find_number(target, self.measures) for target in self.plan.targets}
        # Of a measure on whose further numbers nothing is set, candidates need the value alone.
        self.searched = {
            label: measure
            if any((label, number.name) in targeted for number in measure.numbers[1:])
            else measure.for_value()
            for label, measure in self.measures.items()
        }
        self._content = _digest_content(self.data)

    def digest_of(self, steps: Steps) -> str:
        """What tells this candidate's numbers from all others: data, plan, draws, version."""
        parts = [
            __version__,
            self._content,
            self.build_plan(steps).digest,
            *(key.commitment for key in self.keys),
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def build_plan(self, steps: Steps) -> Plan:
        """The complete plan of a candidate."""
        return change_plan(self.plan, steps=(*self.plan.steps, *steps))

    def run(self, steps: Steps, *, from_user: bool = False) -> Run:
        """Carry out and measure a candidate, or read it from the checkpoint.

        A draw that misses a target ends it: no further draw can mend that.
        """
        if self.checkpoint is not None:
            stored = self.checkpoint.read(self.digest_of(steps))
            if stored is not None:
                return Run(tuple(stored[0]), stored[1])
        draws: list[Draw] = []
        refused = ""
        try:
            for key in self.keys[: len(self.keys) if depends_on_key(steps) else 1]:
                draws.append(self._draw(steps, key))
                if not self.meets(draws[-1]):
                    break
        except SfumatoError as error:
            if from_user and isinstance(error, (PlanError, SchemaError)):
                raise  # a mistake of the user, who can correct it
            refused, draws = str(error), []
        if self.checkpoint is not None:
            self.checkpoint.write(self.digest_of(steps), draws, refused)
        return Run(tuple(draws), refused)

    def meets(self, draw: Draw) -> bool:
        """Whether every target is met in this draw."""
        return all(verdict.met for verdict in judge(self.plan.targets, self.measures, draw))

    def prepare(self, key: Key) -> Dataset:
        """The data as the plan's first steps leave them."""
        # Preparation without chance is the same for every key.
        cached = key.secret if depends_on_key(self.plan.steps) else b""
        with self._lock:
            if cached not in self._prepared:
                self._prepared[cached], _ = apply_steps(self.data, self.plan.steps, key)
            return self._prepared[cached]

    def _draw(self, steps: Steps, key: Key) -> Draw:
        released, _ = apply_steps(self.prepare(key), steps, key, first=len(self.plan.steps))
        if direct := released.schema.identifiers:
            raise PlanError(f"Direct identifiers would be released: {', '.join(direct)}.")
        released = replace(released, frame=frames.strip_metadata(released.frame))
        taken = take_measures(self.searched, self.data, released, baselines=self._baselines)
        return {label: _strip_tables(evidence) for label, evidence in taken.items()}


def depends_on_key(steps: Sequence[Method]) -> bool:
    """Whether another key gives other numbers."""
    return any(step.keyed for step in steps)


def _strip_tables(evidence: Evidence) -> Evidence:
    """The numbers, without tables: what stays in memory and what is read back are the same."""
    # A number that could not be computed stays NaN: without it a target could be read off another.
    numbers = {
        name: float(value) if isinstance(value, float) else value
        for name, value in evidence.details.items()
        if isinstance(value, (int, float, str, tuple))
    }
    return replace(evidence, records=None, table=None, details=numbers)


def _digest_content(data: Dataset) -> str:
    """A digest of all values, whatever the order of the rows."""
    values = (frames.get_column(data.frame, name) for name in sorted(data.columns))
    return Identity.from_digests("content", digest(values)).total()
