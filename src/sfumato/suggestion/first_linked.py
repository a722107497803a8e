"""A first plan for several tables that nobody has looked at yet. A start, not an answer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sfumato.data import Dataset
from sfumato.data.linked import ForeignKey, Structure, split_name
from sfumato.errors import DataError
from sfumato.methods.k_anonymity import KAnonymity
from sfumato.plan import Plan
from sfumato.plan.profile import read_profile_targets
from sfumato.risk.uniqueness import Uniqueness
from sfumato.schema import Column, Schema
from sfumato.suggestion.first_plan import first_plan
from sfumato.suggestion.key_search import SuggestedKey, suggest_keys, suggest_person

_CLASS_SIZE = 5


@dataclass(frozen=True)
class FirstLinkedPlan:
    """A first plan, and what it rests on.

    Parameters
    ----------
    plan : for all tables that keys join.
    keys : those that were suggested.
    left_out : tables that no key joins with the others.
    """

    plan: Plan
    keys: Sequence[SuggestedKey]
    left_out: Sequence[str]


def first_linked_plan(
    tables: Mapping[str, Dataset],
    files: Mapping[str, str] | None = None,
    *,
    profile: str | None = None,
    decided: Plan | None = None,
) -> FirstLinkedPlan:
    """Suggest keys and roles, treat each table by itself, and make persons alike over all.

    Parameters
    ----------
    tables : the original tables.
    files : the file of each, where it is not called like it.
    profile : the rule book that the release shall meet.
    decided : a plan with the keys, the person and the roles that somebody has decided on. Default:
        suggestions.
    """
    if decided is not None:
        structure = decided.structure
        chosen = {name: tables[name] for name in structure.tables}
        plan = _plan_all(structure, chosen, decided.files, profile, decided)
        return FirstLinkedPlan(plan, [], [name for name in tables if name not in chosen])
    keys = suggest_keys(tables)
    person = suggest_person(tables, keys)
    if person is None:
        raise DataError(
            "No key between these tables was found: no variable holds values that name the rows of "
            "another table.",
            hint="inspect each file by itself; or write the keys into a plan: see the page "
            "'Linked tables'.",
        )
    joined = find_joined_tables([s.key for s in keys], person)
    chosen = {name: data for name, data in tables.items() if name in joined}
    links = [s for s in keys if {s.key.table, s.key.to_table} <= joined]
    structure = Structure(tuple(chosen), tuple(s.key for s in links), split_name(person))
    plan = _plan_all(structure, chosen, files or {}, profile, None)
    return FirstLinkedPlan(plan, links, [name for name in tables if name not in joined])


def _plan_all(
    structure: Structure,
    tables: Mapping[str, Dataset],
    files: Mapping[str, str],
    profile: str | None,
    decided: Plan | None,
) -> Plan:
    """A plan for each table, and a step over all of them where others may know anything."""
    plans = {
        name: _plan_table(
            structure, name, data, profile, None if decided is None else decided.tables[name].schema
        )
        for name, data in tables.items()
    }
    k = _choose_class_size(profile)
    known = any(plans[name].schema.having("quasi") for name in structure.owned)
    return Plan(
        tables=plans,
        keys=structure.keys,
        person=".".join(structure.person),
        steps=[KAnonymity(k=k, output="value")] if known else [],
        targets={"k.min": k} if known else {},
        evaluate=[Uniqueness(row_counts=False)] if known else [],
        files={name: file for name, file in files.items() if name in plans},
        profile=profile,
    )


def _choose_class_size(profile: str | None) -> int:
    """As many persons as a profile asks for, and never fewer than is usual."""
    targets = read_profile_targets(profile, several=True).targets
    least = [target.least for target in targets if target.name == "k" and target.least is not None]
    return max(_CLASS_SIZE, *(math.ceil(number) for number in least), 0)


def find_joined_tables(keys: Sequence[ForeignKey], person: str) -> set[str]:
    """The tables that lead to the persons, and those to which these lead."""
    owned, joined = {split_name(person)[0]}, set[str]()
    while joined != owned:
        joined = set(owned)
        owned |= {key.table for key in keys if key.to_table in owned}
    joined = set()
    while joined != owned:
        joined = set(owned)
        owned |= {key.to_table for key in keys if key.table in owned}
    return joined


def declare_keys(structure: Structure, name: str) -> dict[str, Column]:
    """The roles of a table's keys: they leave as pseudonyms, whatever else is decided."""
    root = ".".join(structure.person)
    return {
        key: Column(
            role="person" if structure.find_root(name, key) == root else "direct",
            reason="A key: it leaves as a pseudonym, the same in all tables.",
        )
        for key in structure.list_key_variables(name)
    }


def _plan_table(
    structure: Structure, name: str, data: Dataset, profile: str | None, decided: Schema | None
) -> Plan:
    """The plan of one table: what a first plan for it would do, but for making records alike."""
    roles = declare_keys(structure, name)
    if not set(data.columns) - set(roles):
        return Plan(schema=roles)
    without_keys = replace(data.without(roles), given_identity=None)
    decided_here = None if decided is None else decided.without(roles)
    suggested = first_plan(without_keys, decided_here, profile=profile)
    schema = Schema({**roles, **suggested.schema})
    # Who a record is follows from its keys here.
    schema = schema.changed([n for n in schema if schema[n].identity], identity=None)
    alike = [step for step in suggested.steps if step.treats == "records"]
    if name not in structure.owned:
        return Plan(schema=schema, steps=suggested.steps, read=suggested.read)
    steps = [step for step in suggested.steps if step not in alike]
    return Plan(schema=schema, steps=steps, read=suggested.read)
