"""Where candidates are carried out and measured; the original is measured once for all of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

from sfumato import __version__
from sfumato.data import Dataset
from sfumato.data.identity import Identity, digest
from sfumato.engines import Chance, engine_for
from sfumato.errors import PlanError, SchemaError, SfumatoError
from sfumato.evidence import Evidence
from sfumato.io import frames
from sfumato.measure import Measure
from sfumato.method import Method
from sfumato.plan import Plan
from sfumato.plan.targets import judge
from sfumato.randomness import Key
from sfumato.release import aligned
from sfumato.tuning.kept import Kept
from sfumato.tuning.space import Steps

Draw = Mapping[str, Evidence]


@dataclass(frozen=True, eq=False)
class Run:
    """What came of one candidate: the evidence of every draw, or why the data refuse it."""

    draws: tuple[Draw, ...] = ()
    refused: str = ""


@dataclass(eq=False)
class Bench:
    """The data, what to measure, and the keys to draw with.

    Parameters
    ----------
    data : the original records, as the plan declares them.
    plan : targets and measures; its steps are those that all candidates begin with.
    keys : one a draw. Plans without chance are measured once.
    kept : where finished candidates are kept; or None.
    """

    data: Dataset
    plan: Plan
    keys: Sequence[Key] = field(repr=False)
    kept: Kept | None = None
    _lock: Lock = field(default_factory=Lock, repr=False)
    _baselines: dict[str, float] = field(default_factory=dict, repr=False)
    _prepared: dict[bytes, Dataset] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.measures: dict[str, Measure] = dict(self.plan.evaluate)
        self._content = _content(self.data)

    def name(self, steps: Steps) -> str:
        """What tells this candidate's numbers from all others: data, plan, draws, version."""
        about = [
            __version__,
            self._content,
            self.plan_of(steps).digest,
            *(key.commitment for key in self.keys),
        ]
        return hashlib.sha256(json.dumps(about).encode()).hexdigest()

    def plan_of(self, steps: Steps) -> Plan:
        """The whole plan of a candidate."""
        plan = self.plan
        return Plan(
            schema=plan.schema,
            steps=(*plan.steps, *steps),
            targets=plan.targets,
            evaluate=plan.evaluate,
            read=plan.read,
            release=plan.release,
        )

    def run(self, steps: Steps, *, own: bool = False) -> Run:
        """Carry out and measure a candidate, or find it among those that are kept.

        A draw that misses a target ends it: another cannot mend that.
        """
        if self.kept is not None and (found := self.kept.read(self.name(steps))) is not None:
            return Run(tuple(found[0]), found[1])
        draws: list[Draw] = []
        refused = ""
        try:
            for key in self.keys[: len(self.keys) if by_chance(steps) else 1]:
                draws.append(self._draw(steps, key))
                if not self.meets(draws[-1]):
                    break
        except SfumatoError as error:
            if own and isinstance(error, (PlanError, SchemaError)):
                raise  # the user's to mend
            refused, draws = str(error), []
        made = Run(tuple(draws), refused)
        if self.kept is not None:
            self.kept.write(self.name(steps), made.draws, made.refused)
        return made

    def meets(self, draw: Draw) -> bool:
        """Whether every target is met in this draw."""
        return all(one.met for one in judge(self.plan.targets, self.measures, draw))

    def _draw(self, steps: Steps, key: Key) -> Draw:
        released = self.prepared(key)
        begun = len(self.plan.steps)
        for at, step in enumerate(steps, begun):
            released = _stepped(released, step, at, key)
        if left := released.schema.having("direct"):
            raise PlanError(f"Direct identifiers would be released: {', '.join(left)}.")
        released = replace(released, frame=frames.bare(released.frame))
        same = aligned(self.data, released)
        return {
            label: _slim(self._measured(label, one, same, released))
            for label, one in self.measures.items()
        }

    def prepared(self, key: Key) -> Dataset:
        """The data as the first steps leave them."""
        keyed = any(step.keyed for step in self.plan.steps)
        known = key.secret if keyed else b""
        with self._lock:
            if known not in self._prepared:
                data = self.data
                for at, step in enumerate(self.plan.steps):
                    data = _stepped(data, step, at, key)
                self._prepared[known] = data
            return self._prepared[known]

    def _measured(self, label: str, one: Measure, same: Dataset, released: Dataset) -> Evidence:
        try:
            if one.of == "pair" or same is not self.data:
                return one.measure(self.data if one.whole else same, released)
            found = one.look(released, "released")
            return replace(found, baseline=self._baseline(label, one))
        except SchemaError:
            raise  # a wrong name is the user's to mend
        except SfumatoError as error:
            return Evidence.failed(one.name, "released", str(error))

    def _baseline(self, label: str, one: Measure) -> float:
        """The number of the original: taken once, since it never changes."""
        with self._lock:
            if label not in self._baselines:
                self._baselines[label] = one.look(self.data, "original").value
            return self._baselines[label]


def by_chance(steps: Steps) -> bool:
    """Whether another key gives other numbers."""
    return any(step.keyed for step in steps)


def _stepped(data: Dataset, step: Method, at: int, key: Key) -> Dataset:
    """One step, as `protect` takes it."""
    engine = engine_for(data.frame)
    data.schema.require(step.touches(data.schema))
    fitted = step.fit(data, engine)
    chance = Chance(key, at) if step.keyed else None
    return step.transform(data, fitted, engine=engine, chance=chance)


def _slim(found: Evidence) -> Evidence:
    """The numbers, without tables: what is kept in memory and what is read back are the same."""
    # A number that could not be computed stays NaN: left out, a target could be read off another.
    numbers = {
        name: float(value) if isinstance(value, float) else value
        for name, value in found.details.items()
        if isinstance(value, (int, float, str))
    }
    return replace(found, records=None, table=None, details=numbers)


def _content(data: Dataset) -> str:
    """A digest of all values, whatever the order of the rows."""
    values = (frames.column(data.frame, name) for name in sorted(data.columns))
    return Identity("content", digest(values)).total()
