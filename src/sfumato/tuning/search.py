"""The search for a plan that meets its targets at the least loss."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from sfumato.data import Dataset
from sfumato.errors import PlanError, SfumatoError, TargetError
from sfumato.evidence import Evidence
from sfumato.measure import Measure
from sfumato.plan import Plan
from sfumato.plan.targets import Judgement, measures_for
from sfumato.progress import Progress, silent
from sfumato.randomness import Key
from sfumato.run import Measures, protect
from sfumato.tuning.asked import needs
from sfumato.tuning.bench import Bench
from sfumato.tuning.families import families, planned
from sfumato.tuning.judged import Candidate, excess, on_map
from sfumato.tuning.kept import Kept
from sfumato.tuning.matters import checked_weights, parted, require_protection, what_matters
from sfumato.tuning.rounds import Search, deadline_of
from sfumato.tuning.space import Family, Space, listed, one
from sfumato.tuning.tuned import Tuned

_MOST_WORKERS = 4
AS_IT_IS = "no protection"
"""The data after the preparation: what all losses are counted from."""


def tune(  # noqa: PLR0913 - the options are the interface
    data: Dataset,
    plan: Plan,
    *,
    space: Space | None = None,
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
        steps drop, pseudonymise and topcode are kept; the others are the first candidate.
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
    folder : where finished candidates are kept, so that the search can be stopped and goes on. It
        holds what was measured on the original: it stays inside.
    workers : how many candidates are tried at once. The result does not depend on it.
    progress : told how many candidates are done.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"age": [20, 31, 33, 38, 45, 47], "x": [1, 2, 3, 4, 5, 6]})
    >>> age = sf.Column(role="quasi", kind="integer", domain=(0, 99))
    >>> plan = sf.Plan(schema={"age": age, "x": "sensitive"}, targets={"k.min": 2})
    >>> found = tune(sf.Dataset(frame), plan)
    >>> found.met, found.best.said()
    (True, 'k_anonymity, mdav (k = 2)')

    References: Duncan, Keller-McNulty & Stokes (2001), Disclosure risk vs. data utility: the R-U
    confidentiality map (the map); Hundepool et al. (2012), Statistical Disclosure Control, 1.5.
    """
    _require_sense(plan, runs, budget, repeats, workers)
    asked = _ask(data, plan, space, measures)
    keys = _keys(seed, repeats)
    kept = None if folder is None else Kept(Path(folder))
    counted = checked_weights(weights, asked.utility)
    bench = Bench(asked.data, asked.plan, keys, kept)
    search = Search(
        bench,
        tuple(asked.utility),
        runs,
        deadline_of(budget),
        workers or min(_MOST_WORKERS, os.cpu_count() or 1),
        progress or silent,
    )
    found = search.go(asked.families)
    last = Key(keys[0].subkey("tune", "last")) if key is None else Key.of(key)
    final = _Final(asked.data, plan, asked.utility, last)
    mapped, best = _chosen(found, bench.measures, counted, final)
    return Tuned(
        candidates=tuple(mapped),
        best=best,
        weights=counted,
        stopped=search.stopped,
        bench=bench,
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
class _Asked:
    """The question: the data as declared, what all candidates share, what to try."""

    data: Dataset
    plan: Plan
    utility: Mapping[str, Measure]
    families: list[Family]


def _ask(data: Dataset, plan: Plan, space: Space | None, measures: Measures) -> _Asked:
    original = data.with_schema(plan.schema)
    kept, protecting = parted(plan, original)
    bare = Plan(schema=plan.schema, steps=kept, read=plan.read, release=plan.release)
    # Says what is wrong with the data or the roles, before hours of work.
    prepared = protect(original, bare, key=bytes(32)).dataset
    wanted = needs(plan.targets, plan.measures, prepared)
    utility = what_matters(plan, measures, prepared, wanted)
    tried = [one(AS_IT_IS, (), own=True)]
    if protecting:
        tried.append(planned(protecting) if space is None else one("as planned", protecting))
    tried += families(prepared, wanted) if space is None else listed(space, protecting)
    shared = Plan(
        schema=plan.schema,
        steps=kept,
        targets=plan.targets,
        evaluate={**measures_for(plan.targets, plan.evaluate), **utility},
        read=plan.read,
        release=plan.release,
    )
    return _Asked(original, shared, utility, tried)


def _keys(seed: int, repeats: int) -> tuple[Key, ...]:
    master = Key(hashlib.sha256(f"sfumato tune {seed}".encode()).digest())
    return tuple(Key(master.subkey("tune", at)) for at in range(repeats))


@dataclass(frozen=True, eq=False)
class _Final:
    """The recommended plan, carried out as it will be: by `protect`, with the last key."""

    data: Dataset
    plan: Plan
    utility: Mapping[str, Measure]
    key: Key

    def plan_of(self, one: Candidate) -> Plan:
        """The plan to be written: what the user has in it, and what was found."""
        return Plan(
            schema=self.plan.schema,
            steps=one.plan.steps,
            targets=self.plan.targets,
            evaluate={**self.plan.evaluate, **self.utility},
            read=self.plan.read,
            release=self.plan.release,
        )

    def measured(self, one: Candidate) -> Candidate:
        """The candidate with its last evidence, and the worse of both verdicts."""
        made = self.plan_of(one)
        evidence: Mapping[str, Evidence]
        try:
            done = protect(self.data, made, key=self.key)
            evidence, verdict = done.evidence, tuple(done.verdict)
        except TargetError as missed:
            evidence, verdict = missed.evidence, missed.verdict
        except SfumatoError as error:
            # Measured, but no release: never to be recommended.
            return replace(one, plan=made, verdict=(), refused=True, reason=str(error))
        worse = [_worse(*pair) for pair in zip(one.verdict, verdict, strict=True)]
        return replace(one, plan=made, evidence=evidence, verdict=tuple(worse))


def _worse(searched: Judgement, last: Judgement) -> Judgement:
    if math.isnan(last.number) or math.isnan(searched.number):
        return last if math.isnan(last.number) else searched
    beyond = excess(last.target, last.number) > excess(searched.target, searched.number)
    return last if beyond and not last.met else searched


def _chosen(
    found: list[Candidate],
    measures: Mapping[str, Measure],
    weights: Mapping[str, float],
    final: _Final,
) -> tuple[list[Candidate], Candidate]:
    """The least loss that meets the targets with the last key too; else what comes nearest."""
    done: dict[int, Candidate] = {}
    while True:
        mapped = on_map([done.get(one.number, one) for one in found], measures, weights)
        met = [one for one in mapped if one.met]
        ranked = sorted(met, key=lambda one: (one.loss, not one.front, one.excess, one.number))
        if not ranked:
            ranked = sorted(
                (one for one in mapped if one.verdict),
                key=lambda one: (one.excess, one.loss, one.number),
            )
        first = ranked[0] if ranked else mapped[0]
        if not ranked or first.number in done:
            return mapped, first
        done[first.number] = final.measured(first)
