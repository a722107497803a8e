"""Try a plan: check single steps, carry it out, hold it against its targets, attack the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sfumato import catalogue, run
from sfumato.data import Dataset
from sfumato.errors import SfumatoError, TargetError
from sfumato.evidence import Evidence
from sfumato.io import frames
from sfumato.method import Method
from sfumato.methods.drop import Drop
from sfumato.plan import WHOLE, Plan
from sfumato.plan.family import split_step
from sfumato.plan.targets import Judgement
from sfumato.progress import current_progress
from sfumato.randomness import Key
from sfumato.release import Release
from sfumato.report.attacks import describe_attacks
from sfumato.report.front import describe_lights, tell_singled_out
from sfumato.report.measured import (
    build_dumbbells,
    describe_result,
    describe_target,
    list_assumptions,
)
from sfumato.report.refusal import describe_missed
from sfumato.report.variables import describe_ledger
from sfumato.report.wording import format_percent
from sfumato.run.lights import judge_attacks, list_judged_attacks
from sfumato.run.steps import apply_steps
from sfumato.run.tables import LinkedRelease
from sfumato.schema import Schema
from sfumato.studio.tasks import Work, task
from sfumato.studio.texts import join_sentences, say

_SAMPLE = 2000
"""Records on which a step is tried while somebody still types."""
_SHOWN = (
    "label", "name", "room", "question", "value", "mild", "baseline", "arrow", "direction",
    "subject", "reason", "numbers", "words", "warnings", "bars",
)  # fmt: skip


def get_release(work: Work, *, tier: str = "") -> Release | LinkedRelease:
    """The plan carried out under the session's key; made once, and kept while there is room.

    Raises
    ------
    TargetError : a target is missed.
    """
    plan = _choose_tier(work.plan, tier)
    release: Release | LinkedRelease = work.workshop.keep(
        f"release:{work.source.stamp}:{plan.digest}", lambda: carry_out(work, plan)
    )
    return release


def carry_out(work: Work, plan: Plan) -> Release | LinkedRelease:
    """Protect the session's data by a plan, under the session's key."""
    key, progress = work.key, current_progress()
    if plan.tables:
        tables = work.workshop.read_several(work.source, plan)
        return run.protect(tables, plan, key=key, progress=progress)
    return run.protect(read_table(work, plan), plan, key=key, progress=progress)


def read_table(work: Work, plan: Plan) -> Dataset:
    """The records of a single table, as a plan reads and declares them."""
    return plan.declare(work.workshop.read(work.source, dict(plan.read)))


def _choose_tier(plan: Plan, tier: str) -> Plan:
    return plan.for_tier(tier) if tier else plan


# Variables and single steps ----------------------------------------------------------------------


@task(lane="quick", depends="schema")
def list_variables(work: Work) -> dict[str, list[dict[str, str]]]:
    """The variables of each part of the plan, with what they are."""
    if not work.source.linked:
        return {WHOLE: _describe_variables(work.data)}
    plan = work.plan
    tables = {
        name: _describe_variables(data.with_schema(plan.tables[name].schema))
        for name, data in work.tables.items()
        if name in plan.tables
    }
    keys = plan.structure
    # Keys leave as pseudonyms anyway: no step treats them.
    free = {
        name: [row for row in rows if not keys.is_key(name, row["name"])]
        for name, rows in tables.items()
    }
    joined = [{**row, "name": f"{name}.{row['name']}"} for name, rows in free.items()
              for row in rows]  # fmt: skip
    return {**free, WHOLE: joined}


def _describe_variables(data: Dataset) -> list[dict[str, str]]:
    return [
        {"name": name, "role": data.schema[name].role or "", "kind": data.schema[name].kind or ""}
        for name in data.columns
    ]


@task(lane="quick", keep=False)
def check_step(
    work: Work, *, part: str, position: int, method: str, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Whether a step fits the data: which variables it treats, and what a trial on some shows."""
    step = catalogue.methods()[method](**settings)
    if part == WHOLE and work.source.linked:
        tables = work.plan.tables
        schemas = {
            name: drop_variables(data.with_schema(tables[name].schema).schema, tables[name].steps)
            for name, data in work.tables.items()
        }
        split = split_step(step, schemas)
        return {"treats": [f"{table}.{name}" for table, own in split.items()
                           for name in own.touches(schemas[table])],
                "trouble": "", "records": 0}  # fmt: skip
    data = _read_part(work, part)
    before = work.plan.get_part(part).steps[:position]
    schema = drop_variables(data.schema, before)
    schema.require(step.touches(schema))
    trial = _try_on_some(data, before, step)
    return {"treats": list(step.touches(schema)), **trial}


def _read_part(work: Work, part: str) -> Dataset:
    if part == WHOLE:
        return work.data
    return work.tables[part].with_schema(work.plan.tables[part].schema)


def drop_variables(schema: Schema, steps: Sequence[Method]) -> Schema:
    """What is left of the variables after steps that leave some out."""
    for step in steps:
        if isinstance(step, Drop):
            schema = schema.without(step.touches(schema))
    return schema


def _try_on_some(data: Dataset, before: Sequence[Method], step: Method) -> dict[str, Any]:
    """What goes wrong on some records; what only fails for want of others is said as such."""
    if not frames.is_in_memory(data.frame) or not len(data):
        return {"trouble": "", "records": 0}
    rows = np.unique(np.linspace(0, len(data) - 1, min(_SAMPLE, len(data))).astype(np.int64))
    # Who is who among all records need not be known to try a step on some.
    some = replace(data, frame=frames.take(data.frame, rows), given_identity=None)
    key = Key(bytes(32))
    trouble = ""
    try:
        prepared, _ = apply_steps(some, before, key)
        step.apply(prepared, key=key, step=len(before))
    except SfumatoError as error:
        trouble = join_sentences(error.what, error.hint)
    return {"trouble": trouble, "records": len(rows)}


# The whole plan ----------------------------------------------------------------------------------


@task()
def try_plan(work: Work, *, tier: str = "") -> dict[str, Any]:
    """Carry out the plan, measure, and hold it against its targets. Missing one is a result."""
    try:
        release = get_release(work, tier=tier)
    except TargetError as error:
        facts = {"met": False, "hint": error.hint, "records": None, "secrets": None}
        return {**facts, **_describe_outcome(error.verdict, error.evidence)}
    outcome = _describe_outcome(release.all_judgements, release.all_evidence)
    return {"met": True, "hint": "", "records": release.records,
            "secrets": _describe_secrets(release), **outcome}  # fmt: skip


def _describe_secrets(release: Release | LinkedRelease) -> dict[str, Any] | None:
    """The secret that most people share with all who are alike, where no target asks about it."""
    shares = release.case.findings.shared_secrets
    if not shares:
        return None
    worst = max(shares, key=lambda name: shares[name])
    return {"variable": worst, "share": shares[worst], "text": format_percent(shares[worst])}


def _describe_outcome(
    judged: Sequence[Judgement], evidence: Mapping[str, Evidence]
) -> dict[str, Any]:
    plain = {label: item.plain() for label, item in evidence.items()}
    targets = [describe_target({**item.plain(), "worst": item.worst}, plain) for item in judged]
    assumptions = list_assumptions(plain)
    results = [
        describe_result(label, item, item["assumptions"] if item["reason"] else assumptions,
                        inside=True, pictures=False)
        for label, item in plain.items()
    ]  # fmt: skip
    counts = [item["details"].get("records") for item in plain.values()]
    records = max((int(count) for count in counts if count), default=0)
    return {
        "targets": targets,
        "missed": describe_missed(targets, plain),
        "results": [{name: result.get(name) for name in _SHOWN} for result in results],
        "dumbbells": build_dumbbells(results),
        "summary": tell_singled_out(plain, {"input": {"records": records}}),
    }


@task()
def attack_release(work: Work, *, tier: str = "") -> dict[str, Any]:
    """Try every attack that applies, and show both lights and the ledger of variables."""
    release = get_release(work, tier=tier)
    joined = _describe_tried(release.plan, {}, release.attacks)
    parts = {
        WHOLE: {"attacks": joined, "ledger": []},
        **{name: _describe_attacked(table) for name, table in release.tables.items()},
    }
    lights = describe_lights({"lights": release.lights.plain()}, written=False)
    return {"lights": lights, "parts": parts}


def _describe_attacked(release: Release) -> dict[str, Any]:
    evidence = {label: item.plain() for label, item in
                {**release.evidence, **release.attacks}.items()}  # fmt: skip
    roles = {name: column.role for name, column in release.original.schema.items()}
    ledger = describe_ledger(release.manifest, {"evidence": evidence, "input": {"roles": roles}})
    # The words of the page Roles, where the roles were given.
    named = [{**row, "role": say(f"roles.role.{roles[row['name']]}")} if roles.get(row["name"])
             else row for row in ledger]  # fmt: skip
    return {
        "attacks": _describe_tried(release.plan, release.evidence, release.attacks),
        "ledger": named,
    }


def _describe_tried(
    plan: Plan, evidence: Mapping[str, Evidence], attacks: Mapping[str, Evidence]
) -> dict[str, Any] | None:
    plain = {label: item.plain() for label, item in {**evidence, **attacks}.items()}
    judged = list_judged_attacks(plan, attacks, judge_attacks(plan, attacks))
    described = describe_attacks(plain, inside=True, judged=judged)
    if described is None:
        return None
    names = [item["name"] for item in plain.values() if catalogue.measure(item["name"]).attack]
    rows = [{**row, "measure": name} for row, name in zip(described["rows"], names, strict=True)]
    return {**described, "rows": rows}


def get_trial(work: Work, *, tier: str = "") -> Release | LinkedRelease:
    """What the plan makes of the data, also where a target is missed: for comparing only."""
    try:
        return get_release(work, tier=tier)
    except TargetError:
        plan = _choose_tier(work.plan, tier).relax()
    trial: Release | LinkedRelease = work.workshop.keep(
        f"trial:{work.source.stamp}:{plan.digest}", lambda: carry_out(work, plan)
    )
    return trial
