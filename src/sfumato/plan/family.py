"""Several tables of the same persons in one plan: what each of them asks, and what holds for all.

[tables.patients]            # read, columns, steps, targets, evaluate, as in a plan for one table
[keys]                       # "visits.patient" = "patients.patient": from the many to the one
[[steps]]                    # over all tables, after the steps of each
[targets]                    # of the joined view
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sfumato import catalogue
from sfumato.data.linked import split_name
from sfumato.errors import PlanError, did_you_mean
from sfumato.measure import Measure
from sfumato.method import Method
from sfumato.plan import Plan, Writing
from sfumato.plan.profile import ProfileTargets, add_missing, compare_with_profile
from sfumato.plan.targets import Target, find_number, measures_for
from sfumato.schema import Schema

_COUNTING = "uniqueness"
"""The measure that says who stands alone in the joined view; it is always taken."""
_BY_VARIABLE = ("grid", "output", "blank_before")
"""Parameters that a step has for each variable."""


def adopt(name: str, plan: Plan, writing: Writing, required: ProfileTargets) -> Plan:
    """The plan of a table as one of several: written as all are, with what the profile asks."""
    if plan.profile is not None:
        raise PlanError(
            f"The plan of table '{name}' has a profile of its own.",
            hint="give the profile to the plan for all tables.",
        )
    evaluate = {**plan.evaluate, **required.table_measures, **plan.evaluate}
    targets = add_missing(plan.targets, required.table_targets)
    return replace(plan.require_one_table(), targets=targets, evaluate=evaluate, release=writing)


def require_family(plan: Plan) -> None:
    """Refuse keys that lead nowhere, and what does not work or is not measured over all tables."""
    if not plan.tables or plan.schema or plan.read or plan.tiers or plan.tier is not None:
        raise PlanError(
            "A plan for several tables has tables, keys between them and a person, and no columns, "
            "reading options or tiers of its own.",
            hint="give each table a plan with its columns: Plan(tables={...}, keys={...}, "
            'person="patients.patient").',
        )
    _ = plan.structure
    _require_steps(plan)
    _require_measures(plan)


def require_tables(plan: Plan, tables: Iterable[str]) -> None:
    """Refuse data that have other tables than the plan."""
    tables = list(tables)
    for name in plan.tables:
        if name not in tables:
            raise PlanError(
                f"The plan has a table '{name}', and the data do not.",
                hint=did_you_mean(name, tables),
            )
    for name in tables:
        if name not in plan.tables:
            raise PlanError(
                f"The data have a table '{name}', and the plan does not.",
                hint="add it to the plan, or leave it out of the data.",
            )


def list_joined_measures(plan: Plan) -> dict[str, Measure]:
    """Every measure of the joined view, by label. Who stands alone there is always counted."""
    named = measures_for(plan.all_targets, plan.evaluate)
    if any(measure.name == _COUNTING for measure in named.values()):
        return named
    return {**named, _COUNTING: catalogue.measure(_COUNTING)()}


def list_promises(plan: Plan) -> tuple[Target, ...]:
    """The strictest that tables promise each by itself, where the plan asks nothing of all."""
    labels = measures_for(plan.targets, plan.evaluate)
    set_on = {
        labels[where[0]].name
        for target in plan.targets
        if (where := find_number(target, labels)) is not None
    }
    stated: dict[str, list[Target]] = {}
    for table_plan in plan.tables.values():
        measures = table_plan.measures
        for target in table_plan.targets:
            label, name = find_number(target, measures) or ("", "")
            number = measures[label].find_number(name) if label else None
            if number is None or number.joined != "held" or getattr(measures[label], "where", None):
                continue  # a statement about one table
            if measures[label].name not in set_on:
                stated.setdefault(name, []).append(target)
    return tuple(
        Target(
            name=number,
            least=max((t.least for t in targets if t.least is not None), default=None),
            most=min((t.most for t in targets if t.most is not None), default=None),
        )
        for number, targets in stated.items()
    )


def list_weaker(plan: Plan, required: ProfileTargets) -> tuple[str, ...]:
    """Where the joined view or a table is asked for less than the profile asks, in words."""
    declared = {
        f"{table}.{variable}"
        for table in plan.structure.owned
        for variable in plan.tables[table].schema.having("quasi")
    }
    lines = [*compare_with_profile(plan, required, declared)]
    for table, own in plan.tables.items():
        weaker = compare_with_profile(own, required, set(own.schema), of_table=True)
        lines += [f"{table}: {line}" for line in weaker]
    return tuple(lines)


def _require_steps(plan: Plan) -> None:
    for number, step in enumerate(plan.steps, 1):
        if not step.over_tables:
            known = [name for name, entry in catalogue.methods().items() if entry.over_tables]
            raise PlanError(
                f"Step {number}, {step.name}, does not work over several tables.",
                hint="put it into the steps of a table, [[tables.NAME.steps]]. Over all tables "
                f"work {' and '.join(known)}.",
            )
        step.require_over_tables(number)
        for name in _list_named_variables(step):
            table, variable = split_name(name)
            if table not in plan.tables:
                raise PlanError(
                    f"Step {number}, {step.name}, names the table '{table}'.",
                    hint=did_you_mean(table, plan.tables),
                )
            _refuse_key(plan, table, variable, step)
    for table, own in plan.tables.items():
        for step in own.steps:
            for variable in getattr(step, "variables", None) or ():
                _refuse_key(plan, table, variable, step)


def _refuse_key(plan: Plan, table: str, variable: str, step: Method) -> None:
    """Keys are replaced by pseudonyms anyway, in all tables alike; nothing else may touch."""
    if plan.structure.is_key(table, variable):
        raise PlanError(
            f"{step.name} treats '{table}.{variable}', which is a key.",
            hint="leave it out: keys are replaced by pseudonyms, the same in all tables.",
        )


def _require_measures(plan: Plan) -> None:
    measures = plan.measures
    for label, measure in measures.items():
        if not measure.joined_numbers():
            joined = [n for n, entry in catalogue.measures().items() if entry.joined_numbers()]
            raise PlanError(
                f"'{label}' is not measured on the joined view.",
                hint=f"{', '.join(joined)} are. Set others for a table, [tables.NAME.targets] or "
                "[tables.NAME.evaluate].",
            )
        measure.require_joined(label)
    for target in plan.all_targets:
        where = find_number(target, measures)
        if where is not None and where[1] not in measures[where[0]].joined_numbers():
            known = [n for e in catalogue.measures().values() for n in e.joined_numbers()]
            raise PlanError(
                f"The target on '{target.name}' cannot be held for who knows everything of a "
                "person.",
                hint=f"of the joined view there are {', '.join(known)}.",
            )


def _list_named_variables(step: Method) -> Iterable[str]:
    """The variables that a step over all tables names."""
    named = [*(getattr(step, "variables", None) or ())]
    for option in _BY_VARIABLE:
        value = getattr(step, option, None)
        named += [*value] if isinstance(value, dict) else []
    return dict.fromkeys(named)


def split_step(step: Method, schemas: Mapping[str, Schema]) -> dict[str, Method]:
    """A step over all tables as one step for each table that it touches.

    Parameters
    ----------
    step : with variables that are named with their table, or none: then roles or kinds say which.
    schemas : of the tables whose rows are persons'.
    """
    named: Sequence[str] | None = getattr(step, "variables", None)
    parts: dict[str, Method] = {}
    for table, schema in schemas.items():
        options: dict[str, Any] = {
            option: {
                split_name(name)[1]: value
                for name, value in getattr(step, option).items()
                if split_name(name)[0] == table
            }
            for option in _BY_VARIABLE
            if isinstance(getattr(step, option, None), dict)
        }
        if named is None:
            variables = list(replace(step, **options).touches(schema))  # type: ignore[type-var]
        else:
            variables = [v for t, v in map(split_name, named) if t == table]
            schema.require(variables)
        if variables:
            parts[table] = replace(step, variables=variables, **options)  # type: ignore[type-var]
    return parts
