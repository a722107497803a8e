"""The search for a plan that meets its targets at the least loss."""

from __future__ import annotations

import hashlib
import math
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from sfumato.data import Dataset
from sfumato.errors import PlanError, SfumatoError, TargetError
from sfumato.evidence import Evidence
from sfumato.measure import Measure
from sfumato.plan import Plan
from sfumato.plan.targets import Judgement, measures_for
from sfumato.progress import Progress, silent
from sfumato.randomness import Key
from sfumato.run import protect
from sfumato.run.measuring import Measures
from sfumato.tuning.bisection import Climb, Enumeration, Heights, Outcome
from sfumato.tuning.candidates import (
    Family,
    SearchSpace,
    propose_families,
    read_space,
    single_candidate,
    vary_plan,
)
from sfumato.tuning.checkpoint import Checkpoint
from sfumato.tuning.grid import change_plan
from sfumato.tuning.requirements import (
    check_weights,
    choose_utility,
    read_requirements,
    require_protection,
    split_steps,
)
from sfumato.tuning.result import Tuned
from sfumato.tuning.runner import Run, Runner, Steps
from sfumato.tuning.scores import (
    Candidate,
    average_utility,
    describe_incomparable,
    excess,
    find_incomparable,
    judge_run,
    list_failures,
    score_candidates,
)

_MOST_WORKERS = 4
AS_IT_IS = "no protection"
"""The data after the preparation: what all losses are counted from."""


def tune(  # noqa: PLR0913 - the options are the interface
    data: Dataset,
    plan: Plan,
    *,
    space: SearchSpace | None = None,
    measures: Measures = None,
    weights: Mapping[str, float] | None = None,
    runs: int = 60,
    budget: float | None = None,
    repeats: int = 5,
    seed: int = 0,
    key: Key | bytes | str | Path | None = None,
    folder: str | Path | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Tuned:
    """Search methods and parameters for the plan that meets the targets and loses least.

    Question: which protection is enough, and costs the analyst least?
    Assumes: the targets say what is safe, and the utility measures what is useful. More of a
    method's parameter protects more; where that is not so, something weaker may be overlooked, but
    what is recommended was measured. Random methods are measured with several keys, and must meet
    the targets with the worst of them and with what a further key may bring (97.5 % sure). A
    candidate whose target could not be measured is never called safe.

    Parameters
    ----------
    data : the original records.
    plan : roles, targets and what matters: its utility measures, such as `coefficients` for the
        models that analysts will fit; without any, information loss, propensity and moments. Its
        steps drop, pseudonymise, topcode and weights are kept; the others are the first candidate.
    space : what to try. Default: what suits the schema and the targets. Otherwise values by
        parameter of the plan's own steps, `{"deterministic.k": [3, 5, 10]}`, all combinations;
        or a list of lists of methods.
    measures : utility measures besides those of the plan.
    weights : how much each utility measure counts, by label. Default: all alike.
    runs : how many candidates to try at most.
    budget : seconds after which no further candidate is begun. How far one comes in them depends
        on the machine; without it the same arguments give the same result.
    repeats : with how many keys random methods are measured.
    seed : another seed, other keys.
    key : the custodian's key, with which the recommended plan is measured at last. Default: one
        made from the seed.
    folder : where finished candidates are stored, so that the search can be interrupted and
        resumed. It holds what was measured on the original: it stays inside.
    workers : how many candidates are tried at once. The result does not depend on it.
    progress : is called with the number of candidates that are done.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"age": [20, 31, 33, 38, 45, 47], "x": [1, 2, 3, 4, 5, 6]})
    >>> age = sf.Column(role="quasi", kind="integer", domain=(0, 99))
    >>> plan = sf.Plan(schema={"age": age, "x": "sensitive"}, targets={"k.min": 2})
    >>> found = tune(sf.Dataset(frame), plan)
    >>> found.met, found.best.describe()
    (True, 'k_anonymity, mean (k = 2)')

    References: Duncan, Keller-McNulty & Stokes (2001), Disclosure risk vs. data utility: the R-U
    confidentiality map (the map); Hundepool et al. (2012), Statistical Disclosure Control, 1.5.
    """
    plan.require_one_table()
    _require_sense(plan, runs, budget, repeats, workers)
    problem = _pose_problem(data, plan, space, measures)
    keys = _derive_keys(seed, repeats)
    checkpoint = None if folder is None else Checkpoint(Path(folder))
    checked = check_weights(weights, problem.utility)
    runner = Runner(problem.data, problem.plan, keys, checkpoint)
    search = CandidateSearch(
        runner,
        tuple(problem.utility),
        runs,
        math.inf if budget is None else time.monotonic() + budget,
        workers or min(_MOST_WORKERS, os.cpu_count() or 1),
        progress or silent,
    )
    candidates = search.run(problem.families)
    last = Key(keys[0].subkey("tune", "last")) if key is None else Key.of(key)
    final = _FinalRun(problem.data, plan, problem.utility, last)
    scored, best = _choose_best(candidates, runner.measures, checked, final)
    return Tuned(
        candidates=tuple(scored),
        best=best,
        weights=checked,
        stopped=search.stopped,
        runner=runner,
    )


def _require_sense(
    plan: Plan, runs: int, budget: float | None, repeats: int, workers: int | None
) -> None:
    if not plan.targets:
        raise PlanError(
            "The plan sets no target, so nothing says what is safe.",
            hint="add [targets], for instance k.min = 5.",
        )
    require_protection(plan)
    for name, number, least in (
        ("runs", runs, 2),
        ("repeats", repeats, 1),
        ("workers", workers, 1),
    ):
        if number is None:
            continue
        if isinstance(number, bool) or not isinstance(number, int) or number < least:
            raise PlanError(f"`{name}` must be a whole number, {least} or more.")
    if budget is not None and not budget > 0:
        raise PlanError("`budget` must be a number of seconds above 0.")


@dataclass(frozen=True, eq=False)
class _Problem:
    """The data as declared, what all candidates share, what to try."""

    data: Dataset
    plan: Plan
    utility: Mapping[str, Measure]
    families: list[Family]


def _pose_problem(
    data: Dataset, plan: Plan, space: SearchSpace | None, measures: Measures
) -> _Problem:
    original = plan.declare(data)
    preparing, protecting = split_steps(plan, original)
    bare = Plan(schema=plan.schema, steps=preparing, read=plan.read, release=plan.release)
    # Fails on what is wrong with the data or the roles, before hours of work.
    prepared = protect(original, bare, key=bytes(32)).dataset
    requirements = read_requirements(plan.targets, plan.measures, prepared)
    utility = choose_utility(plan, measures, prepared)
    families = [single_candidate(AS_IT_IS, (), from_user=True)]
    # The plan as it stands is always tried, so that tuning cannot make it worse.
    if protecting:
        families.append(
            vary_plan(protecting) if space is None else single_candidate("as planned", protecting)
        )
    if space is None:
        models = any(hasattr(measure, "formula") for measure in utility.values())
        families += propose_families(prepared, requirements, models=models)
    else:
        families += read_space(space, protecting)
    measured = {**measures_for(plan.targets, plan.evaluate), **utility}
    shared = change_plan(plan, steps=preparing, evaluate=measured)
    return _Problem(original, shared, utility, families)


def _derive_keys(seed: int, repeats: int) -> tuple[Key, ...]:
    master = Key(hashlib.sha256(f"sfumato tune {seed}".encode()).digest())
    return tuple(Key(master.subkey("tune", repeat)) for repeat in range(repeats))


Strategy = Climb | Enumeration


@dataclass(frozen=True, eq=False)
class _Task:
    family: Family
    strategy: Strategy
    heights: Heights
    steps: Steps
    digest: str


@dataclass(eq=False)
class CandidateSearch:
    """The search over all families, in rounds: one candidate of every family at a time.

    What is tried in a round depends on the outcome of the rounds before, and on nothing else: not
    on how many workers there are, nor on who is done first.

    Parameters
    ----------
    runner : where candidates are carried out.
    labels : the utility measures.
    runs : how many candidates at most.
    deadline : when to stop, by the clock of `time.monotonic`.
    workers : how many are carried out at once.
    progress : is called with the number of candidates that are done.
    """

    runner: Runner
    labels: Sequence[str]
    runs: int
    deadline: float
    workers: int
    progress: Progress
    candidates: list[Candidate] = field(default_factory=list)
    stopped: bool = False
    _done: dict[str, int] = field(default_factory=dict)

    def run(self, families: Sequence[Family]) -> list[Candidate]:
        """Try all families; the first candidate is that of the first family."""
        strategies = [(family, _choose_strategy(family)) for family in families]
        with warnings.catch_warnings(), ThreadPoolExecutor(self.workers) as pool:
            # A method's warnings belong to a release. The one recommended is made again.
            warnings.simplefilter("ignore")
            # Whatever the budget: no protection at all, and the plan as it stands.
            self._run_round(pool, strategies[:2], timed=False)
            self._run_rounds(pool, strategies)
            self.stopped, stopped = False, self.stopped
            # What remains of the budget fills the gaps of the map.
            gaps = [
                (family, Enumeration(strategy.list_rungs()))
                for family, strategy in strategies
                if isinstance(strategy, Climb)
            ]
            self._run_rounds(pool, gaps)
            self.stopped = stopped
        self.progress("tuning", self.runs, self.runs)
        return self.candidates

    def _run_rounds(
        self, pool: ThreadPoolExecutor, strategies: Sequence[tuple[Family, Strategy]]
    ) -> None:
        while not self.stopped and self._run_round(pool, strategies, timed=True):
            pass

    def _run_round(
        self,
        pool: ThreadPoolExecutor,
        strategies: Sequence[tuple[Family, Strategy]],
        *,
        timed: bool,
    ) -> bool:
        """One candidate of every family; whether there was any."""
        tasks = self._collect_tasks(strategies)
        new: dict[str, _Task] = {}
        # Two families may come to the same steps: they are run once.
        for task in tasks:
            new.setdefault(task.digest, task)
        # Never more candidates than `runs`, whatever the round holds.
        started = list(new.values())[: self.runs - len(self.candidates)]
        deadline = self.deadline if timed else math.inf
        runs = pool.map(lambda task: self._run_task(task, deadline), started)
        for task, run in zip(started, runs, strict=True):
            if run is not None:
                self._record(task, run)
        for task in tasks:
            if task.digest in self._done:
                task.strategy.tell(task.heights, self._outcome(task.digest))
            else:
                self.stopped = True
        return bool(tasks)

    def _collect_tasks(self, strategies: Sequence[tuple[Family, Strategy]]) -> list[_Task]:
        tasks = []
        for family, strategy in strategies:
            while (heights := strategy.ask()) is not None:
                steps = _build_steps(family, heights)
                if steps is None:
                    strategy.tell(heights, "refused")  # there is no such step
                    continue
                digest = self.runner.digest_of(steps)
                # Another family has tried the same steps: its outcome counts here too.
                if digest in self._done:
                    strategy.tell(heights, self._outcome(digest))
                    continue
                tasks.append(_Task(family, strategy, heights, steps, digest))
                break
        return tasks

    def _run_task(self, task: _Task, deadline: float) -> Run | None:
        if time.monotonic() >= deadline:
            return None
        return self.runner.run(task.steps, from_user=task.family.from_user)

    def _record(self, task: _Task, run: Run) -> None:
        runner = self.runner
        self._done[task.digest] = len(self.candidates)
        # The first candidate is the data before protection: what it is scored on is the measure.
        before = self.candidates[0].evidence if self.candidates else {}
        incomparable = find_incomparable(run, self.labels, before) if before else {}
        failures = list_failures(run.draws[-1]) if run.draws else ""
        self.progress(f"tuning: {task.family.name}", len(self.candidates), self.runs)
        self.candidates.append(
            Candidate(
                number=len(self.candidates),
                family=task.family.name,
                parameters=task.family.values(task.heights),
                plan=runner.build_plan(task.steps),
                verdict=judge_run(run, runner.plan.targets, runner.measures),
                utility=average_utility(run, self.labels, incomparable),
                draws=len(run.draws),
                evidence=run.draws[0] if run.draws else {},
                reason=run.refused
                or " ".join(filter(None, (failures, describe_incomparable(incomparable)))),
                refused=bool(run.refused),
            )
        )

    def _outcome(self, digest: str) -> Outcome:
        candidate = self.candidates[self._done[digest]]
        if candidate.refused:
            return "refused"
        return "met" if candidate.met else "missed"


def _choose_strategy(family: Family) -> Strategy:
    if not family.axes:
        return Enumeration([()])
    if family.exhaustive:
        return Enumeration([(float(height),) for height in range(family.axes[0].top + 1)])
    return Climb(family.axes, family.start)


def _build_steps(family: Family, heights: Heights) -> Steps | None:
    try:
        return family.steps(heights)
    except PlanError:
        if family.from_user:
            raise
        return None


@dataclass(frozen=True, eq=False)
class _FinalRun:
    """The recommended plan, carried out as it will be: by `protect`, with the last key."""

    data: Dataset
    plan: Plan
    utility: Mapping[str, Measure]
    key: Key

    def build_plan(self, candidate: Candidate) -> Plan:
        """The plan to be written: what the user has in it, and the steps of the candidate."""
        evaluate = {**self.plan.evaluate, **self.utility}
        return change_plan(self.plan, steps=candidate.plan.steps, evaluate=evaluate)

    def measure(self, candidate: Candidate) -> Candidate:
        """The candidate with its last evidence, and the worse of both verdicts."""
        plan = self.build_plan(candidate)
        evidence: Mapping[str, Evidence]
        try:
            release = protect(self.data, plan, key=self.key)
            evidence, verdict = release.evidence, tuple(release.verdict)
        except TargetError as missed:
            evidence, verdict = missed.evidence, missed.verdict
        except SfumatoError as error:
            # Measured, but no release: never to be recommended.
            return replace(candidate, plan=plan, verdict=(), refused=True, reason=str(error))
        # A lucky last key must not hide what the search has seen.
        worse = [_choose_worse(*pair) for pair in zip(candidate.verdict, verdict, strict=True)]
        return replace(candidate, plan=plan, evidence=evidence, verdict=tuple(worse))


def _choose_worse(searched: Judgement, last: Judgement) -> Judgement:
    if math.isnan(last.number) or math.isnan(searched.number):
        return last if math.isnan(last.number) else searched
    beyond = excess(last.target, last.number) > excess(searched.target, searched.number)
    return last if beyond and not last.met else searched


def _choose_best(
    candidates: list[Candidate],
    measures: Mapping[str, Measure],
    weights: Mapping[str, float],
    final: _FinalRun,
) -> tuple[list[Candidate], Candidate]:
    """The least loss that meets the targets with the last key too; else what comes nearest."""
    confirmed: dict[int, Candidate] = {}
    while True:
        scored = score_candidates(
            [confirmed.get(candidate.number, candidate) for candidate in candidates],
            measures,
            weights,
        )
        ranked = sorted(
            (candidate for candidate in scored if candidate.met),
            key=lambda safe: (safe.loss, not safe.front, safe.excess, safe.number),
        ) or sorted(
            (candidate for candidate in scored if candidate.verdict),
            key=lambda unsafe: (unsafe.excess, unsafe.loss, unsafe.number),
        )
        first = ranked[0] if ranked else scored[0]
        # The first one is confirmed with the last key: there is nothing better.
        if not ranked or first.number in confirmed:
            return scored, first
        confirmed[first.number] = final.measure(first)
