"""All attacks that apply to a release, with what its manifest tells an outsider; and their outcome.

What is tried follows from the plan and the size of the data, never from the clock: the same release
is attacked in the same way on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from sfumato import catalogue
from sfumato.data import Dataset
from sfumato.engines import engine_for
from sfumato.errors import PlanError
from sfumato.evidence import Evidence
from sfumato.invariants import Invariant
from sfumato.io import frames
from sfumato.measure import Measure
from sfumato.method import Method
from sfumato.methods.drop import Drop
from sfumato.plan import Plan
from sfumato.plan.targets import find_number
from sfumato.progress import Progress, current_progress
from sfumato.release import Release
from sfumato.risk.untouched import Untouched
from sfumato.run import evaluate, read_plan
from sfumato.run.measuring import take_measures
from sfumato.schema import Schema

SECONDS = 60.0
"""For how long a release is attacked unless the plan says otherwise, by what attacks state."""
NOT_TRIED = "it was not tried"
"""How the reason begins where there was no time for an attack."""
_MILLION = 1e6
_FEWEST = 5_000
"""Fewer records hardly make an attack quicker."""
_WIDE = 25
"""Variables from which on their pairs cost more than they do."""
SAMPLE = 20_000
"""Records on a cluster on which an attack is tried that does not run there."""
_MANY = 20_000
"""Records from which on few people are looked for first."""
_LOOKS = (125, 500)
"""For how many people an attack looks before it looks for as many as it states."""
_LEDGER = Untouched.name
_USUAL_K = 5


def attacks(
    plan: Plan | None = None, manifest: Mapping[str, Any] | None = None
) -> dict[str, Measure]:
    """The attacks to try on a release: those that apply to any, and those its steps invite.

    Each measure says how it is tried (`Measure.trial`), and each method's class what it leaves as
    it was (`preserves`): a step invites all attacks that exploit that. Their parameters are
    those of the step, which the manifest publishes. A k that the method looks for (`at_most`) is
    known from the manifest only; one for each stratum is not published, and not attacked here.

    `Release.write` tries them in any case. To set others, name them in the plan:
    `Plan(..., evaluate={**plan.evaluate, **attacks(plan)})`.

    Examples
    --------
    >>> import sfumato as sf
    >>> steps = [sf.methods.Deterministic(variables=["height", "weight_kg"], k=5)]
    >>> made = attacks(sf.Plan(steps=steps))
    >>> "recoverable" in made, "undoing" in made
    (True, True)
    >>> made["undoing"].k
    5
    """
    measures = catalogue.measures()
    on_any = [
        (entry.trial.seconds, name)
        for name, entry in measures.items()
        if entry.trial is not None
        and entry.trial.needs is not None
        and (plan is None or not plan.schema or _has_roles(plan.schema, entry.trial.needs))
    ]
    # The quickest first: where time is short, as many as possible are tried.
    chosen: dict[str, Measure] = {name: measures[name]() for _, name in sorted(on_any)}
    steps = () if plan is None else plan.steps
    # Without a manifest an outsider knows the plan, and nothing that was fitted.
    published = [{}] * len(steps) if manifest is None else manifest["methods"]
    for position, (step, public) in enumerate(zip(steps, published, strict=True)):
        for attack in _attack_step(step, public, measures, plan):
            if attack in chosen.values():
                continue  # it is tried on any release
            narrowed = _leave_out_changed_variables(attack, plan, position)
            chosen[_label(attack.name, chosen)] = narrowed
    return chosen


def _leave_out_changed_variables(attack: Measure, plan: Plan | None, position: int) -> Measure:
    """The attack without variables that a later step has changed, where it needs them as written.

    Those that are dropped are not attacked. If of the others none is left, it is as it was: then it
    says why it cannot be tried.
    """
    variables = getattr(attack, "variables", None)
    if plan is None or not attack.as_written or not variables:
        return attack
    changed, dropped = set[str](), set[str]()
    for step in plan.steps[position + 1 :]:
        (dropped if isinstance(step, Drop) else changed).update(step.touches(plan.schema))
    released = [name for name in variables if name not in dropped]
    unchanged = [name for name in released if name not in changed]
    if not released:
        return attack
    return replace(attack, variables=unchanged or released)  # type: ignore[type-var]


def list_invited(step: Method, measures: Mapping[str, type[Measure]]) -> tuple[type[Measure], ...]:
    """The attacks that exploit what a step leaves as it was, the quickest first."""
    invited = [
        (entry.trial.seconds, name)
        for name, entry in measures.items()
        if entry.trial is not None and {*entry.trial.exploits} & {*step.preserves}
    ]
    return tuple(measures[name] for _, name in sorted(invited))


def _attack_step(
    step: Method,
    published: Mapping[str, Any],
    measures: Mapping[str, type[Measure]],
    plan: Plan | None,
) -> Iterator[Measure]:
    """The attacks that a step invites, with the parameters that it shares with each of them."""
    for attack in list_invited(step, measures):
        shared = {
            parameter.name: getattr(step, parameter.name)
            for parameter in fields(attack)  # type: ignore[arg-type]  # all are dataclasses
            if hasattr(step, parameter.name)
        }
        names = {parameter.name for parameter in fields(attack)}  # type: ignore[arg-type]
        if "variables" in names and shared.get("variables") is None:
            # Which they are, follows from roles; the manifest names them.
            shared["variables"] = published.get("variables") or (
                [*step.touches(plan.schema)] if plan is not None and plan.schema else None
            )
        if "k" in shared and getattr(step, "at_most", None) is not None:
            # The method looks for k in the data: an outsider knows it if it is published.
            shared["k"] = published.get("k")
        try:
            yield attack(**shared)
        except PlanError:
            continue  # something the attack needs is not known


def list_unattacked(plan: Plan, tried: Mapping[str, Evidence]) -> list[str]:
    """What steps leave as it was although no attack on that could be set up: nobody looked."""
    measures = catalogue.measures()
    exploited = {what for item in tried.values() for what in _list_exploits(measures[item.name])}
    reasons = []
    for number, step in enumerate(plan.steps, 1):
        set_up = {
            what
            for attack in _attack_step(step, {}, measures, plan)
            for what in _list_exploits(type(attack))
        }
        reasons += [
            f"Step {number}, {step.name}, leaves as it was: {what}. No attack on that could be set "
            "up with what is known of the step."
            for what in step.preserves
            if what not in exploited | set_up
        ]
    return reasons


def _list_exploits(measure: type[Measure]) -> tuple[Invariant, ...]:
    return measure.trial.exploits if measure.trial is not None else ()


def try_attacks(
    plan: Plan,
    manifest: Mapping[str, Any],
    original: Dataset,
    released: Dataset,
    *,
    measured: Mapping[str, Evidence],
    again: Collection[str] | None = None,
) -> dict[str, Evidence]:
    """The ledger of variables, and every attack that applies to a release: label to evidence.

    What was measured for the plan is there as it is, and replaces the very same attack. One that
    the plan has narrowed replaces nothing: whoever narrows an attack does not narrow attackers.
    What does not fit into `attack_seconds` of the plan is there with that as the reason. With
    `again`, those of these labels are tried whatever the time, and no others.
    """
    wanted: dict[str, Measure] = {_LEDGER: Untouched(k=promise_k(plan))}
    possible = attacks(plan, manifest)
    wanted |= {label: item for label, item in possible.items() if _applies(item, released)}
    evidence: dict[str, Evidence] = {}
    chosen: dict[str, Measure] = {}
    plan_measures, stated = plan.measures, plan.release.attack_seconds
    seconds_left = SECONDS if stated is None else stated
    for attack in wanted.values():
        known = {label: item for label, item in measured.items() if item.name == attack.name}
        evidence |= known
        if any(plan_measures.get(label, attack) == attack for label in known):
            continue
        label = _label(attack.name, {**plan_measures, **chosen})
        seconds = estimate_seconds(attack, released)
        if again is not None:
            chosen |= {label: attack} if label in again else {}
        elif seconds <= seconds_left:
            chosen[label] = attack
            seconds_left -= seconds
        else:
            why = (
                f"{NOT_TRIED}: it takes about {seconds:,.0f} s, and of the time for attacks "
                f"{seconds_left:,.0f} s are left ([release] attack_seconds)."
            )
            evidence[label] = Evidence.failed(attack.name, "pair", why)
    from sfumato.risk.attacks.attacker_view import share_views

    carry_out = _look_for_more if frames.is_in_memory(released.frame) else _try_elsewhere
    with share_views():
        return {**carry_out(chosen, original, released, plan), **evidence}


def _look_for_more(
    chosen: Mapping[str, Measure], original: Dataset, released: Dataset, plan: Plan
) -> dict[str, Evidence]:
    """Try attacks; of many records those that look for people look for few of them first.

    Where these decide, by a wide margin, nothing is learnt from more. All other people are the
    crowd each time, and whoever was looked for is looked for again: the rates are those of one
    sample that grows.
    """
    evidence: dict[str, Evidence] = {}
    for people in _LOOKS if len(released) > _MANY else ():
        fewer = {
            label: replace(attack, **{attack.trial.looks_for: people})  # type: ignore[type-var]
            for label, attack in chosen.items()
            if attack.trial
            and attack.trial.looks_for
            and label not in evidence
            and getattr(attack, attack.trial.looks_for) > people
        }
        tried = take_measures(fewer, original, released, progress=current_progress())
        evidence |= {label: item for label, item in tried.items() if _is_decided(item, plan)}
    others = {label: attack for label, attack in chosen.items() if label not in evidence}
    evidence |= take_measures(others, original, released, progress=current_progress())
    # What stands for an attack that is worked out again, `..._filled_in`, comes with it.
    return {label: evidence[label] for label in dict.fromkeys((*chosen, *evidence))}


def _is_decided(evidence: Evidence, plan: Plan) -> bool:
    """Whether twice the margin of the sample would change nothing.

    The verdict rests on the end of a 95 % interval. Twice as far from the rate is about a chance
    of 1 in 10,000, so that several looks allow no more than one would.
    """
    from sfumato.run.lights import find_limits, judge_attacks

    for judgement in judge_attacks(plan, {evidence.name: evidence}):
        rate, at_worst = evidence.number(judgement.target.name), judgement.number
        remarkable, acceptable = find_limits(judgement, evidence, plan)
        clearly_met = at_worst + (at_worst - rate) <= remarkable
        clearly_missed = rate - (at_worst - rate) > acceptable
        if not (clearly_met or clearly_missed):
            return False
    return evidence.computed


def _try_elsewhere(
    chosen: Mapping[str, Measure], original: Dataset, released: Dataset, plan: Plan
) -> dict[str, Evidence]:
    """Attacks on records that are not in memory: on all where they run there, else on some classes.

    People are rarer among fewer others. So an attack that achieves little there achieves little
    among all; what it achieves beyond is not known, and said.
    """
    engine: Any = engine_for(released.frame, current_progress())
    there = {label: attack for label, attack in chosen.items() if engine.name in attack.runs_on}
    here = {label: attack for label, attack in chosen.items() if label not in there}
    evidence = take_measures(there, original, released, progress=current_progress())
    if not here:
        return evidence
    known = released.schema.having("quasi") or released.columns
    some = engine.sample_classes(original, released, known, SAMPLE)
    looked_at, records = len(some[1]), len(released)
    can_be_tried = {
        label: attack
        for label, attack in here.items()
        if attack.trial is None or attack.trial.in_sample != "unknown" or looked_at == records
    }
    tried_here = take_measures(can_be_tried, *some, progress=current_progress())
    note = f"It was tried on {looked_at:,} of {records:,} records, all of some classes."
    for label, attack in here.items():
        item = tried_here.get(label)
        if item is None:
            why = "it was not tried: it needs all records together, in memory."
            evidence[label] = Evidence.failed(attack.name, "pair", why)
        elif looked_at == records or not item.computed:
            evidence[label] = item
        elif attack.trial and attack.trial.in_sample == "overstated" and not _is_met(item, plan):
            why = f"it is not known for all records. {note} It succeeds too often there"
            evidence[label] = Evidence.failed(
                attack.name, "pair", f"{why}, where people are rarer."
            )
        else:
            noted = {**item.details, "tried_on_records": looked_at}
            lines = (*item.warnings, note)
            evidence[label] = replace(item, details=noted, warnings=lines, records=None)
    return evidence


def _is_met(evidence: Evidence, plan: Plan) -> bool:
    from sfumato.run.lights import judge_attacks

    return all(judgement.met for judgement in judge_attacks(plan, {evidence.name: evidence}))


def promise_k(plan: Plan, usual: int = _USUAL_K) -> int:
    """The class size that the plan promises; without a target on one, what is usual.

    Only what counts the units of a class is such a promise, whatever it is called. The largest
    counts, so that a further target can only tighten what attacks may achieve.
    """
    measures = plan.measures
    promised = []
    for target in plan.targets:
        where = find_number(target, measures)
        number = measures[where[0]].find_number(where[1]) if where is not None else None
        if target.least is not None and number and number.counts == "units in a class":
            promised.append(math.ceil(target.least))
    return max(2, *promised) if promised else usual


def estimate_seconds(attack: Measure, released: Dataset) -> float:
    """About how long an attack takes: what its class states, for so many records and variables."""
    if attack.trial is None or attack.name == _LEDGER:
        return 0.0
    width = len(released.columns)
    records = len(released)
    if engine_for(released.frame).name not in attack.runs_on:
        records = min(records, SAMPLE)
    cells = max(records, _FEWEST) * width * max(1.0, width / _WIDE)
    return attack.trial.seconds * cells / _MILLION


def _applies(attack: Measure, released: Dataset) -> bool:
    """Whether the release shows what the attack is about."""
    needed = (attack.trial.needs if attack.trial else None) or ()
    named = [name for part in ("variables", "strata") for name in getattr(attack, part, None) or ()]
    return _has_roles(released.schema, needed) and all(name in released.schema for name in named)


def _has_roles(schema: Schema, needed: Collection[str]) -> bool:
    """Whether a variable has each of these roles."""
    return all(schema.having(role) for role in needed)  # type: ignore[arg-type]


def tried(
    original: Dataset,
    release: Release | Dataset | str | Path,
    *,
    plan: Plan | None = None,
    paired: bool = False,
    progress: Progress | None = None,
) -> dict[str, Evidence]:
    """Try every attack that applies to a release: name to evidence.

    Parameters
    ----------
    original : the original records.
    release : a `Release`, its folder, or protected records.
    plan : what was done. Default: that of the release. Without one, attacks that need to know the
        method are left out.
    paired : as for `evaluate`.
    progress : is called with how far it is.

    Examples
    --------
    >>> import sfumato as sf
    >>> data = sf.Dataset(sf.datasets.cohort(300), sf.datasets.cohort_schema())
    >>> found = tried(data, data, paired=True)
    >>> {name: round(found[name].value, 2) for name in ("recoverable", "mixed_linkage")}
    {'recoverable': 0.0, 'mixed_linkage': 1.0}
    """
    carried_out, manifest = read_plan(release)
    measures = attacks(plan) if plan is not None else attacks(carried_out, manifest)
    return evaluate(original, release, measures, paired=paired, progress=progress)


def _label(name: str, taken: Mapping[str, Measure]) -> str:
    """A second step of the same kind has a label of its own."""
    count = sum(1 for label in taken if taken[label].name == name)
    return name if not count else f"{name}_{count + 1}"
