"""Candidates in rounds: one of every family at a time, several at once, within a budget."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from sfumato.errors import PlanError
from sfumato.progress import Progress
from sfumato.tuning.bench import Bench, Run
from sfumato.tuning.judged import Candidate, held, reasons, utilities
from sfumato.tuning.ladders import Climb, Heights, Outcome
from sfumato.tuning.space import Family, Steps


class Rungs:
    """One height after the other, whatever came of those before."""

    def __init__(self, heights: Sequence[Heights]) -> None:
        self._left = list(heights)

    def ask(self) -> Heights | None:
        """The next height."""
        return self._left[0] if self._left else None

    def tell(self, heights: Heights, outcome: Outcome) -> None:
        """It is done."""
        del outcome
        if self._left and self._left[0] == heights:
            self._left.pop(0)


@dataclass(frozen=True, eq=False)
class _Task:
    family: Family
    climb: Climb | Rungs
    heights: Heights
    steps: Steps
    name: str


@dataclass(eq=False)
class Search:
    """The search over all families.

    What is tried in a round depends on what came of the rounds before, and on nothing else: not
    on how many workers there are, nor on who is done first.

    Parameters
    ----------
    bench : where candidates are carried out.
    labels : the utility measures.
    runs : how many candidates at most.
    deadline : when to stop, by the clock of `time.monotonic`.
    workers : how many are carried out at once.
    say : told how far it is.
    """

    bench: Bench
    labels: Sequence[str]
    runs: int
    deadline: float
    workers: int
    say: Progress
    candidates: list[Candidate] = field(default_factory=list)
    stopped: bool = False
    _done: dict[str, int] = field(default_factory=dict)

    def go(self, families: Sequence[Family]) -> list[Candidate]:
        """Try all families; the first candidate is that of the first family."""
        climbs = [(family, _climb(family)) for family in families]
        with warnings.catch_warnings(), ThreadPoolExecutor(self.workers) as pool:
            # What a method warns of belongs to a release. The one recommended is made again.
            warnings.simplefilter("ignore")
            # Whatever the budget: no protection at all, and the plan as it stands.
            self._round(pool, climbs[:2], timed=False)
            self._rounds(pool, climbs)
            self.stopped, full = False, self.stopped
            # What is left of the budget fills the gaps of the map.
            filled = [
                (family, Rungs(climb.rungs())) for family, climb in climbs
                if isinstance(climb, Climb)
            ]  # fmt: skip
            self._rounds(pool, filled)
            self.stopped = full
        self.say("tuning", self.runs, self.runs)
        return self.candidates

    def _rounds(
        self, pool: ThreadPoolExecutor, climbs: Sequence[tuple[Family, Climb | Rungs]]
    ) -> None:
        while not self.stopped and self._round(pool, climbs, timed=True):
            pass

    def _round(
        self,
        pool: ThreadPoolExecutor,
        climbs: Sequence[tuple[Family, Climb | Rungs]],
        *,
        timed: bool,
    ) -> bool:
        """One candidate of every family; whether there was any."""
        tasks = self._asked(climbs)
        new: dict[str, _Task] = {}
        for task in tasks:
            new.setdefault(task.name, task)
        begun = list(new.values())[: self.runs - len(self.candidates)]
        deadline = self.deadline if timed else math.inf
        found = pool.map(lambda task: self._one(task, deadline), begun)
        for task, run in zip(begun, found, strict=True):
            if run is not None:
                self._note(task, run)
        for task in tasks:
            if task.name in self._done:
                task.climb.tell(task.heights, self._outcome(task.name))
            else:
                self.stopped = True
        return bool(tasks)

    def _asked(self, climbs: Sequence[tuple[Family, Climb | Rungs]]) -> list[_Task]:
        tasks = []
        for family, climb in climbs:
            while (heights := climb.ask()) is not None:
                steps = _steps(family, heights)
                if steps is None:
                    climb.tell(heights, "refused")  # there is no such step
                    continue
                name = self.bench.name(steps)
                if name in self._done:
                    climb.tell(heights, self._outcome(name))
                    continue
                tasks.append(_Task(family, climb, heights, steps, name))
                break
        return tasks

    def _one(self, task: _Task, deadline: float) -> Run | None:
        if time.monotonic() >= deadline:
            return None
        return self.bench.run(task.steps, own=task.family.own)

    def _note(self, task: _Task, run: Run) -> None:
        bench = self.bench
        self._done[task.name] = len(self.candidates)
        self.say(f"tuning: {task.family.name}", len(self.candidates), self.runs)
        self.candidates.append(
            Candidate(
                number=len(self.candidates),
                family=task.family.name,
                parameters=task.family.values(task.heights),
                plan=bench.plan_of(task.steps),
                verdict=held(run, bench.plan.targets, bench.measures),
                utility=utilities(run, self.labels),
                draws=len(run.draws),
                evidence=run.draws[0] if run.draws else {},
                reason=run.refused or reasons(run.draws[-1]),
                refused=bool(run.refused),
            )
        )

    def _outcome(self, name: str) -> Outcome:
        one = self.candidates[self._done[name]]
        if one.refused:
            return "refused"
        return "met" if one.met else "missed"


def _climb(family: Family) -> Climb | Rungs:
    if not family.axes:
        return Rungs([()])
    if family.every:
        return Rungs([(float(at),) for at in range(family.axes[0].top + 1)])
    return Climb(family.axes, family.start)


def _steps(family: Family, heights: Heights) -> Steps | None:
    try:
        return family.steps(heights)
    except PlanError:
        if family.own:
            raise
        return None


def deadline_of(budget: float | None) -> float:
    """When a budget of so many seconds is spent."""
    return math.inf if budget is None else time.monotonic() + budget
