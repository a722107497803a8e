"""Finds a plan that passes its own gate and keeps what the data are for: tried, not only written.

Question: which plan protects everybody and loses least of the purpose?
Assumes: a plan that passes on these records under one key passes under another; that is checked
again when it is carried out. What a refusal names is changed, and the plan is tried again: the
custodian gets a plan, and not one refusal after another.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sfumato import catalogue
from sfumato.data import Dataset
from sfumato.engines import engine_for
from sfumato.errors import SfumatoError, TargetError
from sfumato.method import Method
from sfumato.methods.drop import Drop
from sfumato.methods.k_anonymity import KAnonymity
from sfumato.methods.l_diversity import LDiversity
from sfumato.methods.noise import Noise
from sfumato.plan import Plan
from sfumato.plan.targets import BARELY, Judgement, Target
from sfumato.progress import Progress, silent
from sfumato.randomness import Key
from sfumato.release import Release
from sfumato.risk.attribute_disclosure import AttributeDisclosure
from sfumato.risk.dependencies.rules import Finding, find_dependencies
from sfumato.run import protect
from sfumato.run.finishing import finish_table
from sfumato.run.steps import apply_steps
from sfumato.schema import Role, Schema
from sfumato.suggestion.first_plan import first_plan
from sfumato.suggestion.roles import assign_roles
from sfumato.utility.purpose import Purpose

SECONDS = 20.0
"""CPU seconds for which better plans are looked for, once one has passed."""
_SAMPLE = 20_000
"""Records on which plans are tried; the chosen one is confirmed on all."""
_MOST_TRIES = 30
_LARGEST_K = 20
_MOST_NOISE = 4.0
_DISCLOSED = 0.05
"""The share of people whose secret everybody alike has in common, at most."""
_PRICE = 0.1
"""The share of the purpose that classes which differ in what is secret may cost. Where they cost
more, no target is set, and the light names the secret and how many share it."""
_WORTH = 0.01
"""The share of the purpose that a plan must keep more to be preferred to a simpler one."""
_LIMIT = 0.2
"""The share of protected values that may come back: what `recoverable` allows."""
_MOST_KNOWN = 8
"""Variables that are made alike; with more, one that gives another away is left out instead."""
_MOST_LEVELS = 30


@dataclass(frozen=True)
class TriedPlan:
    """A plan that was carried out once, and what came of it.

    Parameters
    ----------
    plan : what to do.
    kept : the share of the purpose that it keeps.
    colours : of the lights on targets, attacks and use.
    changes : what was left out or treated otherwise than roles ask for, and why.
    how : in a few words, what tells it from the others.
    """

    plan: Plan
    kept: float
    colours: Mapping[str, str] = field(default_factory=dict)
    changes: tuple[str, ...] = ()
    how: str = ""


@dataclass(frozen=True)
class _PlanDraft:
    """What a plan is made of, before it is written.

    Parameters
    ----------
    roles : those that were changed, by variable.
    dropped : variables that are left out.
    k : the smallest class.
    diverse : whether classes must differ in what is secret.
    settings : parameters of the step that makes records alike.
    noise : how many times as much noise as a first plan adds.
    changes : what was done, in words.
    """

    roles: Mapping[str, Role] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    k: int = 0
    diverse: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    noise: float = 1.0
    changes: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """What tells a draft from others, whatever it is called."""
        settings = sorted(self.settings.items())
        return repr((sorted(self.roles.items()), sorted(self.dropped), self.k, self.diverse,
                     settings, self.noise))  # fmt: skip

    def with_role(self, name: str, role: Role, why: str) -> _PlanDraft:
        """The same with another role of a variable."""
        return replace(
            self, roles={**self.roles, name: role}, changes=(*self.changes, f"'{name}' {why}")
        )

    def without(self, name: str, why: str) -> _PlanDraft:
        """The same without a variable."""
        line = f"'{name}' is left out: {why}"
        return replace(self, dropped=(*self.dropped, name), changes=(*self.changes, line))


def suggest_plans(  # noqa: PLR0913 - what somebody says in one go
    data: Dataset,
    *,
    known: Sequence[str] = (),
    secret: Sequence[str] = (),
    rest: Role | None = None,
    purpose: Purpose | Sequence[str] | None = None,
    profile: str | None = None,
    seconds: float = SECONDS,
    progress: Progress | None = None,
) -> list[TriedPlan]:
    """Plans that pass their own gate on these data, the one that keeps most of the purpose first.

    Parameters
    ----------
    data : the original records.
    known : variables by which somebody may be known.
    secret : what nobody should learn.
    rest : the role of all others; see `sfumato inspect --rest`.
    purpose : what the data are for, line by line; see `sf.utility.Purpose`. Default: the usual
        questions.
    profile : the rule book that the release shall meet.
    seconds : CPU seconds for which better plans are looked for, once one has passed.

    Examples
    --------
    >>> import sfumato as sf
    >>> data = sf.Dataset(sf.datasets.cohort(300).select("sex", "height", "glucose"))
    >>> best = sf.suggest_plans(data, known=["sex", "height"], secret=["glucose"],
    ...                         purpose=["mean glucose by sex"], seconds=0)[0]
    >>> best.colours["targets"]
    'green'
    """
    if purpose is not None and not isinstance(purpose, Purpose):
        purpose = Purpose(items=list(purpose))
    needed = [] if purpose is None else purpose.list_variables()
    assigned = assign_roles(data, known=known, secret=secret, rest=rest, needed=needed)
    return search_first_plan(
        data, assigned.schema, purpose=purpose, profile=profile,
        open_roles=assigned.open_roles, seconds=seconds, progress=progress,
    )  # fmt: skip


def search_first_plan(
    data: Dataset,
    schema: Schema | None = None,
    *,
    purpose: Purpose | None = None,
    profile: str | None = None,
    open_roles: Collection[str] = (),
    seconds: float = SECONDS,
    progress: Progress | None = None,
) -> list[TriedPlan]:
    """Plans that pass their own gate, the one that keeps most of the purpose first.

    Parameters
    ----------
    data : the original records.
    schema : roles that somebody has decided on. Default: suggestions.
    purpose : what the data are for. Default: the usual questions.
    profile : the rule book that the release shall meet.
    open_roles : variables whose role may still change where the data speak against it.
    seconds : CPU seconds for which better plans are looked for, once one has passed.
    """
    search = _PlanSearch(data, schema, purpose, profile, open_roles, progress or silent)
    return search.run(seconds)


@dataclass(frozen=True, eq=False)
class _PlanAttempt:
    """A draft that was carried out: the release, or why there is none."""

    draft: _PlanDraft
    plan: Plan
    release: Release | None
    missed: tuple[Judgement, ...] = ()
    error: SfumatoError | None = None

    @property
    def passed(self) -> bool:
        return self.release is not None and not self.missed and self.error is None

    @property
    def kept(self) -> float:
        if self.release is None or self.release.case.purpose is None:
            return 0.0
        value = self.release.case.purpose.value
        return 0.0 if np.isnan(value) else value


class _PlanSearch:
    """Tries drafts on the data."""

    def __init__(
        self,
        data: Dataset,
        schema: Schema | None,
        purpose: Purpose | None,
        profile: str | None,
        open_roles: Collection[str],
        progress: Progress,
    ) -> None:
        self._all, self._schema, self._profile = data, schema, profile
        self._data = _draw_sample(data)
        self._purpose, self._open = purpose or Purpose(), {*open_roles}
        if schema is None:
            self._open = {*data.columns}
        self._named = frozenset() if purpose is None else frozenset(purpose.list_variables())
        self._progress = progress
        self._tries = 0

    def run(self, seconds: float) -> list[TriedPlan]:
        """The first draft that passes, and what is better than it."""
        began = time.process_time()
        best = self._mend(self._try(_PlanDraft()))
        found = [best]
        variants, seen = deque(self._list_variants(best)), set[str]()
        while variants and time.process_time() - began <= seconds:
            how, draft = variants.popleft()
            if draft.key in seen:
                continue
            seen.add(draft.key)
            attempt = self._try(draft)
            if attempt.passed and attempt.kept > best.kept + _WORTH:
                best = replace(attempt, draft=replace(draft, changes=(*draft.changes, how)))
                found.append(best)
                variants.extend(self._list_variants(best))
        best = self._limit_disclosure(best)
        ranked = [best, *sorted(found, key=lambda attempt: -attempt.kept)]
        tried = [self._describe(attempt) for attempt in _drop_repeated(ranked)]
        return [self._confirm(tried[0]), *tried[1:3]]

    # Trying --------------------------------------------------------------------------------------

    def _try(self, draft: _PlanDraft) -> _PlanAttempt:
        """Write the plan of a draft, carry it out, and see what refuses it."""
        self._tries += 1
        self._progress("trying plans", min(self._tries, _MOST_TRIES), _MOST_TRIES + 1)
        plan = self._write(draft)
        engine = engine_for(self._data.frame)
        try:
            original = engine.keep(engine.prepare(plan.declare(self._data)))
            released, fitted = apply_steps(original, plan.steps, Key.of(bytes(32)), engine=engine)
            release = finish_table(original, released, plan, fitted=fitted,
                                   key=Key.of(bytes(32)), engine=engine, progress=None)  # fmt: skip
        except SfumatoError as error:
            return _PlanAttempt(draft, plan, None, error=error)
        missed = [judgement for judgement in release.verdict if not judgement.met]
        if not missed:
            missed = [judgement for judgement in release.case.judged if not judgement.met]
        return _PlanAttempt(draft, plan, release, tuple(missed))

    def _write(self, draft: _PlanDraft) -> Plan:
        """The plan of a draft: what roles ask for, and what was changed since."""
        rest = self._data.without([name for name in draft.dropped if name in self._data.columns])
        schema = self._schema
        if schema is not None:
            schema = schema.without([name for name in draft.dropped if name in schema])
        if draft.roles:
            base = rest.schema if schema is None else schema
            named = {n: replace(base[n], role=r) for n, r in draft.roles.items() if n in base}
            schema = base.with_columns(named)
        plan = first_plan(rest, schema, profile=self._profile,
                          open_roles=self._open - {*draft.roles})  # fmt: skip
        steps = [self._change_step(step, draft, plan) for step in plan.steps]
        if draft.dropped:
            steps = _drop_more(steps, draft.dropped)
        whole = {name: self._declare_dropped(name) for name in draft.dropped}
        ordered = {**plan.schema, **whole}
        columns = {name: ordered[name] for name in self._data.columns if name in ordered}
        columns |= {name: column for name, column in ordered.items() if name not in columns}
        evaluate = {**plan.evaluate, Purpose.name: self._purpose}
        k = max(draft.k, 0)
        targets = [
            replace(target, least=float(k)) if target.name == "k" and k else target
            for target in plan.targets
        ]
        if draft.diverse:
            targets.append(Target(name=AttributeDisclosure.name, most=_DISCLOSED))
        return replace(
            plan,
            schema=Schema(columns),
            steps=tuple(steps),
            targets=tuple(targets),
            evaluate=evaluate,
        )

    def _declare_dropped(self, name: str) -> Any:
        column = (self._schema or self._data.schema).get(name) or self._data.schema[name]
        return replace(column, role=column.role or "other")

    def _change_step(self, step: Method, draft: _PlanDraft, plan: Plan) -> Method:
        if isinstance(step, Noise) and draft.noise > 1:
            return replace(step, sd_share=_enlarge(step.sd_share, draft.noise))
        if not isinstance(step, KAnonymity):
            return step
        k = max(draft.k, step.k)
        if draft.diverse and plan.schema.having("sensitive"):
            return LDiversity(k=k, l=2, output="value")
        return replace(step, k=k, **draft.settings)

    # Mending -------------------------------------------------------------------------------------

    def _mend(self, attempt: _PlanAttempt) -> _PlanAttempt:
        """Change what refuses a plan, until nothing does."""
        seen = set[str]()
        while not attempt.passed and self._tries < _MOST_TRIES:
            for draft in self._list_remedies(attempt):
                if draft.key not in seen:
                    seen.add(draft.key)
                    break
            else:
                break
            attempt = self._try(draft)
        if attempt.passed:
            return attempt
        if attempt.error is not None:
            raise attempt.error
        lines = "; ".join(judgement.describe() for judgement in attempt.missed)
        raise TargetError(
            f"No plan was found that protects these data: {lines}.",
            hint="leave out variables that are not needed, and state what the data are for.",
        )

    def _list_remedies(self, attempt: _PlanAttempt) -> Iterator[_PlanDraft]:
        """What may help against the first thing that refuses a plan, what loses least first."""
        draft, release = attempt.draft, attempt.release
        if release is None:
            yield from self._list_simpler(attempt)
            return
        first = attempt.missed[0]
        if self._is_on_noise(first) and draft.noise < _MOST_NOISE:
            why = "More noise, since what is released gave values back."
            yield replace(draft, noise=2 * draft.noise, changes=(*draft.changes, why))
        on_attacks = first not in release.verdict
        name = "" if on_attacks else release.evidence[first.measure].name
        if first.filled_in or name == "recoverable":
            yield from self._treat_tools(draft, release)
        if name == "untouched":
            yield from self._treat_fingerprints(draft, release)
        if name == AttributeDisclosure.name or (
            on_attacks and release.plan.schema.having("sensitive")
        ):
            yield replace(draft, diverse=True)
        smallest = max(draft.k, *(step.k for step in attempt.plan.steps
                                  if isinstance(step, (KAnonymity, LDiversity))), 0)  # fmt: skip
        if smallest and smallest < _LARGEST_K:
            k = min(2 * smallest, _LARGEST_K)
            why = f"Classes of at least {k}, since an attack succeeded too often with {smallest}."
            yield replace(draft, k=k, changes=(*draft.changes, why))
        yield from self._leave_out(draft, release)

    def _is_on_noise(self, judgement: Judgement) -> bool:
        """Whether an attack uses what noise leaves as it was."""
        measure = catalogue.measures().get(judgement.measure)
        trial = None if measure is None else measure.trial
        return trial is not None and bool({*trial.exploits} & {*Noise.preserves})

    def _list_simpler(self, attempt: _PlanAttempt) -> Iterator[_PlanDraft]:
        """Where a step could not be carried out: without strata, then without what it names."""
        draft, error = attempt.draft, attempt.error
        if not draft.settings:
            yield replace(draft, settings={"strata": []})
        yield replace(draft, settings={}, diverse=False)
        text = "" if error is None else f"{error.what} {error.hint}"
        for name in self._data.columns:
            if f"'{name}'" in text and name not in draft.dropped:
                yield draft.without(name, "no step could treat it")

    def _treat_tools(self, draft: _PlanDraft, release: Release) -> Iterator[_PlanDraft]:
        """A variable that gives a protected one back is as well known, or is left out."""
        original = release.original
        findings = find_dependencies(original, release.dataset)
        findings.sort(key=lambda finding: -finding.gain)
        # What somebody has named as known or secret goes last: it is what the data are about.
        for named in (False, True):
            for finding in findings:
                tools = [t for t in self._rank(finding) if (t not in self._open) == named]
                for tool in tools:
                    role = original.schema[finding.protected].role
                    told = f"it gives '{finding.protected}' away"
                    if self._can_promote(tool, draft, original) and role is not None:
                        yield draft.with_role(tool, role, f"is protected as well: {told}")
                    yield draft.without(tool, told)

    def _rank(self, finding: Finding) -> list[str]:
        """The tools of a rule, what nobody needs first."""
        tools = [tool for tool in finding.tools if tool != finding.protected]
        return sorted(tools, key=lambda tool: tool in self._named)

    def _can_promote(self, name: str, draft: _PlanDraft, original: Dataset) -> bool:
        """Whether a variable can be protected instead of left out, and somebody needs it."""
        column = original.schema[name]
        if name not in self._open or name in draft.roles or column.role not in ("other", None):
            return False
        known = len(original.schema.having("quasi"))
        is_number = column.kind in ("continuous", "integer")
        few = original.column(name).n_unique() <= _MOST_LEVELS
        return (
            (name in self._named or not self._named) and known < _MOST_KNOWN and (is_number or few)
        )

    def _treat_fingerprints(self, draft: _PlanDraft, release: Release) -> Iterator[_PlanDraft]:
        """A variable of which many values are one person's gets noise, or is left out."""
        table = release.evidence["untouched"].table
        original = release.original
        rows = sorted(original.like(table).to_dicts() if hasattr(table, "to_dicts") else [],
                      key=lambda row: -row.get("unique", 0.0))  # fmt: skip
        for row in rows:
            name = row["variable"]
            if name not in original.schema or not row.get("unique"):
                continue
            told = "many of its values are one person's"
            is_number = original.schema[name].kind in ("continuous", "integer")
            if is_number and name in self._open and name not in draft.roles:
                yield draft.with_role(name, "sensitive", f"gets noise: {told}")
            yield draft.without(name, told)

    def _leave_out(self, draft: _PlanDraft, release: Release) -> Iterator[_PlanDraft]:
        """The variable with the most values that nobody named, then any."""
        left = [
            name
            for name in release.dataset.columns
            if name in self._open and release.original.schema[name].role in ("other", None)
        ]
        left.sort(key=lambda n: (n in self._named, -release.original.column(n).n_unique()))
        for name in left:
            yield draft.without(name, "with it, an attack succeeds too often")

    # Better ones ---------------------------------------------------------------------------------

    def _list_variants(self, attempt: _PlanAttempt) -> Iterator[tuple[str, _PlanDraft]]:
        """Other ways to make records alike."""
        draft = attempt.draft
        if not any(isinstance(step, KAnonymity) for step in attempt.plan.steps):
            return
        yield "A class gets one of its values.", _set(draft, output="balanced")
        if len(self._data) <= 5_000 and "strata" not in draft.settings:  # noqa: PLR2004
            yield "Classes of nearest records.", _set(draft, clustering="mdav", strata=[])
        yield "A class gets its median.", _set(draft, output="median")
        yield "No variable stays as it is.", _set(draft, strata=[])
        unneeded = [name for name in attempt.plan.schema.having("quasi") if name not in self._named]
        if self._named and len(unneeded) < len(attempt.plan.schema.having("quasi")):
            fewer = draft
            for name in unneeded:
                if name not in draft.dropped:
                    fewer = fewer.without(name, "the purpose does not need it, and others gain")
            yield "Only known variables that the purpose needs.", fewer

    def _limit_disclosure(self, attempt: _PlanAttempt) -> _PlanAttempt:
        """Ask that nobody's secret is shared by all who look alike; make classes diverse for it."""
        release = attempt.release
        if release is None or not release.dataset.schema.having("sensitive"):
            return attempt
        target = Target(name=AttributeDisclosure.name, most=_DISCLOSED)
        if not release.dataset.schema.having("quasi"):
            return attempt
        plan = replace(attempt.plan, targets=(*attempt.plan.targets, target))
        asked = _measure_disclosure(release)
        if asked <= BARELY * _DISCLOSED:
            again = self._carry_out(plan, attempt.draft)
            return again if again.passed else attempt
        diverse = self._try(replace(attempt.draft, diverse=True, settings={}))
        if diverse.passed and diverse.kept >= attempt.kept - _PRICE:
            why = "Classes differ in what is secret, so that nobody's is that of all alike."
            changed = replace(diverse.draft, changes=(*diverse.draft.changes, why))
            return replace(diverse, draft=changed)
        return attempt

    def _carry_out(self, plan: Plan, draft: _PlanDraft) -> _PlanAttempt:
        """Try a plan as it stands."""
        try:
            release = protect(self._data, plan, key=bytes(32))
        except SfumatoError as error:
            return _PlanAttempt(draft, plan, None, error=error)
        missed = tuple(judgement for judgement in release.case.judged if not judgement.met)
        return _PlanAttempt(draft, plan, release, missed)

    # The answer ----------------------------------------------------------------------------------

    def _describe(self, attempt: _PlanAttempt) -> TriedPlan:
        lights = {} if attempt.release is None else attempt.release.lights.plain()
        return TriedPlan(
            plan=attempt.plan,
            kept=attempt.kept,
            colours={name: light["colour"] for name, light in lights.items()},
            changes=attempt.draft.changes,
            how=attempt.draft.changes[-1] if attempt.draft.changes else "As roles ask for.",
        )

    def _confirm(self, tried: TriedPlan) -> TriedPlan:
        """Where plans were tried on some of the records: the same on all of them."""
        if self._data is self._all:
            return tried
        release = protect(self._all, tried.plan, key=bytes(32))
        release.case.require_attacks_held()
        lights = release.lights.plain()
        purpose = release.case.purpose
        kept = tried.kept if purpose is None else purpose.value
        colours = {name: light["colour"] for name, light in lights.items()}
        return replace(tried, kept=kept, colours=colours)


def _enlarge(size: Any, times: float) -> Any:
    """Noise of so many times the size, of one standard deviation at most."""
    if isinstance(size, dict):
        return {name: min(times * share, 1.0) for name, share in size.items()}
    return None if size is None else min(times * size, 1.0)


def _set(draft: _PlanDraft, **settings: Any) -> _PlanDraft:
    return replace(draft, settings={**draft.settings, **settings})


def _drop_repeated(attempts: Sequence[_PlanAttempt]) -> list[_PlanAttempt]:
    """Each way to treat the data once, the first of it."""
    seen: dict[str, _PlanAttempt] = {}
    for attempt in attempts:
        seen.setdefault(repr((attempt.plan.steps, attempt.plan.schema)), attempt)
    return list(seen.values())


def _drop_more(steps: Sequence[Method], names: Sequence[str]) -> list[Method]:
    """The steps with one more that leaves variables out, or with more in the one that does."""
    for index, step in enumerate(steps):
        if isinstance(step, Drop) and step.variables is not None:
            both = [*step.variables, *(name for name in names if name not in step.variables)]
            return [*steps[:index], replace(step, variables=both), *steps[index + 1 :]]
    first = 1 if steps and isinstance(steps[0], Drop) else 0
    return [*steps[:first], Drop(variables=[*names]), *steps[first:]]


def _measure_disclosure(release: Release) -> float:
    try:
        evidence = AttributeDisclosure().measure(release.dataset)
    except SfumatoError:
        return 0.0
    return evidence.at_worst


def _draw_sample(data: Dataset) -> Dataset:
    """Some records, chosen by what they are, so that the order of the file does not matter."""
    if len(data) <= _SAMPLE:
        return data
    digests = data.identity.digests
    return data.take(np.lexsort((digests[:, 1], digests[:, 0]))[:_SAMPLE])
