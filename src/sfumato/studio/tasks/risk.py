"""Who stands out in the data as they are, by what, and what would protect them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import polars as pl

from sfumato import catalogue
from sfumato.cells.classes import CellCodes
from sfumato.cells.codes import encode_unordered
from sfumato.data import Dataset
from sfumato.data.linked import PERSON, TABLE, LinkedTables
from sfumato.engines import engine_for
from sfumato.errors import DataError, MeasureError, PlanError
from sfumato.evidence import Evidence
from sfumato.figures.custodian.album import draw_evidence
from sfumato.figures.custodian.peers import PooledPeople, pool_people
from sfumato.io import frames
from sfumato.kernels.arrays import AnyIntegers, Floats, Mask
from sfumato.measure import Measure
from sfumato.method import Method
from sfumato.methods.suppress import Suppress
from sfumato.parameters import list_settings
from sfumato.plan import Plan
from sfumato.progress import current_progress
from sfumato.report.answers import answer_for_original
from sfumato.risk.least_known import CombinationRisk, KnownRows, list_combination_risks
from sfumato.risk.peers import Peers
from sfumato.risk.protection.groups import (
    assign_groups,
    at_or_below,
    group_by_protection,
    order_by_similarity,
)
from sfumato.risk.uniqueness import Uniqueness
from sfumato.run import assess
from sfumato.run.exposure import list_exposed_records
from sfumato.run.tables import assess_tables
from sfumato.schema import IDENTIFYING
from sfumato.studio.tasks import Work, task
from sfumato.tuning.grid import change_plan
from sfumato.tuning.recommendation.advice import advise
from sfumato.tuning.recommendation.person import Fix, FixSearch
from sfumato.tuning.recommendation.placement import find_placement, insert_steps
from sfumato.units import Units

MOST_COMBINATIONS = 1000
"""Combinations that are looked at; of more variables, only the small ones are."""
LARGEST = 4
"""Variables in a combination at most, besides all of them together."""
_LISTED = 40
"""Combinations of each size that are listed, the worst first."""
_LISTED_OF_RECORD = 15
_PAGE = 15
"""Records on a page."""
_THRESHOLDS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 25, 30, 40, 50)
_ALL_PEOPLE = 50_000
"""Records up to which everybody is on the map; of more, some are drawn at random."""
_DRAWN, _DRAWN_PERSONS = 3000, 100
_ALL_COMBINATIONS = 12
"""Variables of which the map looks at all combinations; of more, only at small ones."""
_COLUMNS = 240
_STEPS = 6
"""Colours of the map, besides the one of a breach."""
_LONGEST_TABLE = 60


# What all tasks of the page look at ------------------------------------------------------------


def load_records(work: Work) -> Dataset:
    """The records with their roles; of several tables, the joined view that an outsider has."""
    if work.source.linked:
        tables = _link(work)
        data: Dataset = work.workshop.keep(f"joined:{_digest(work)}", tables.join)
        return data
    table: Dataset = work.workshop.keep(f"records:{_digest(work)}", lambda: work.data)
    return table


def _link(work: Work) -> LinkedTables:
    tables: LinkedTables = work.workshop.keep(f"linked:{_digest(work)}", lambda: work.joined)
    return tables


def _digest(work: Work, *further: Any) -> str:
    """Changes when the records, their roles or anything further does."""
    plan = work.plan
    part = work.plan_text if plan.tables else Plan(schema=plan.schema, read=plan.read).text()
    return hashlib.sha256(repr((work.source.stamp, part, further)).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class _MapCells:
    """The cells of each variable as codes, encoded when they are first asked for."""

    data: Dataset
    codes: dict[str, tuple[AnyIntegers, int]] = field(default_factory=dict)

    def get(self, names: Sequence[str]) -> CellCodes:
        for name in names:
            if name not in self.codes:
                # A release shows which code for missing a cell holds.
                shown = self.data.with_schema(self.data.schema.changed([name], missing=()))
                codes, width = encode_unordered(shown.column(name))
                # Kept as narrow as they are: most variables have few values.
                self.codes[name] = codes.astype(np.min_scalar_type(width - 1)), width
        cells = np.empty((len(names), len(self.data)), np.int32)
        for row, name in enumerate(names):
            cells[row] = self.codes[name][0]
        return CellCodes(cells, tuple(self.codes[name][1] for name in names))


def _encode(work: Work, data: Dataset) -> _MapCells:
    if not engine_for(data.frame).in_memory:
        raise DataError(
            "This file is read batch by batch, so single records cannot be looked at here.",
            hint="open a smaller extract, or use `sfumato who` on a machine with more memory.",
        )
    cells: _MapCells = work.workshop.keep(f"cells:{_digest(work)}", lambda: _MapCells(data))
    return cells


def _read_rows(work: Work, data: Dataset, known: Sequence[str]) -> KnownRows:
    """The distinct rows of what is known; codes of variables are made once."""
    engine = engine_for(data.frame)
    if not engine.in_memory:
        return KnownRows.of(data, known, engine)
    cells = _encode(work, data)
    return KnownRows(tuple(known), cells.get(known), data.units).join_equal()


# Combinations ------------------------------------------------------------------------------------


@task(lane="quick", depends="schema")
def list_known(work: Work) -> dict[str, Any]:
    """The variables that an outsider may know, with their roles; what counts as a person."""
    data = load_records(work)
    persons = data.schema.having("person")
    return {
        "records": len(data),
        "person": persons[0] if persons and not work.source.linked else "",
        "linked": work.source.linked,
        "variables": [
            {
                "name": name,
                "label": column.label,
                "role": column.role or "",
                "accessibility": column.accessibility,
            }
            for name, column in data.schema.items()
            if column.role not in IDENTIFYING and name != PERSON
        ],
        "identifying": [
            name
            for name, column in data.schema.items()
            if column.role in IDENTIFYING and name != PERSON
        ],
        "sensitive": list(data.schema.having("sensitive")),
        "quasi": list(data.schema.having("quasi")),
    }


@task(lane="quick", depends="schema")
def answer_risk(work: Work, *, known: list[str]) -> dict[str, Any]:
    """The answer in a sentence, as `sfumato assess` gives it."""
    measures: dict[str, Measure] = {Uniqueness.name: Uniqueness(known=known)}
    if work.source.linked:
        evidence = assess_tables(_link(work), measures, progress=current_progress())
    else:
        evidence = assess(load_records(work), measures, progress=current_progress())
    measured = evidence[Uniqueness.name]
    if not measured.computed:
        raise MeasureError(f"This could not be measured: {measured.reason}")
    return {
        "sentence": answer_for_original(evidence, measures, load_records(work)),
        "alone": measured.details["unique_records"],
        "k": measured.details["k"],
        "warnings": list(measured.warnings),
    }


@task(lane="quick", depends="schema")
def list_combinations(work: Work, *, known: list[str], k: int) -> dict[str, Any]:
    """Every combination of what is known: who is alone in it, and who is one of fewer than k."""
    data = load_records(work)
    data.schema.require(known)
    rows = _read_rows(work, data, known)
    largest = choose_largest(len(known))
    every = [
        combination
        for size in range(1, largest + 1)
        for combination in combinations(range(len(known)), size)
    ]
    everything = tuple(range(len(known)))
    without = [everything[:one] + everything[one + 1 :] for one in everything]
    further = [everything, *(rest for rest in without if rest)]
    risks = list_combination_risks(rows, [*every, *further], k=k)
    by_size: dict[int, list[CombinationRisk]] = {}
    for risk in risks[: len(every)]:
        by_size.setdefault(len(risk.variables), []).append(risk)
    complete = risks[len(every)]
    classes = rows.codes.classify(everything, rows.units)
    return {
        "people": classes.total,
        "largest": largest,
        "looked_at": len(every),
        "everything": _write_risk(complete),
        "sizes": [
            {"size": size, "number": len(some),
             "risks": [_write_risk(risk) for risk in sorted(some, key=_rank)[:_LISTED]]}
            for size, some in by_size.items()
        ],
        "without": sorted(
            (
                {"variable": known[one], **_write_risk(risk)}
                for one, risk in zip(everything, risks[len(every) + 1 :], strict=False)
            ),
            key=lambda row: (row["alone"], row["below"]),
        ),
        "curve": [
            {"k": least, "people": classes.count_in(classes.sizes < least)}
            for least in _THRESHOLDS
        ],
    }  # fmt: skip


def choose_largest(known: int) -> int:
    """The most variables of a combination such that there are not too many combinations.

    Examples
    --------
    >>> choose_largest(3), choose_largest(12), choose_largest(20), choose_largest(60)
    (3, 4, 2, 1)
    """
    most = min(LARGEST, known)
    while most > 1 and sum(comb(known, size) for size in range(1, most + 1)) > MOST_COMBINATIONS:
        most -= 1
    return most


def _rank(risk: CombinationRisk) -> tuple[int, int, int]:
    return -risk.alone, -risk.below, risk.smallest


def _write_risk(risk: CombinationRisk) -> dict[str, Any]:
    return {
        "variables": list(risk.variables),
        "alone": risk.alone,
        "smallest": risk.smallest,
        "below": risk.below,
    }


# Single people -----------------------------------------------------------------------------------


@task(lane="quick", depends="schema")
def list_riskiest(work: Work, *, known: list[str], first: int) -> dict[str, Any]:
    """Some records, the most exposed first, as `sfumato who` lists them; no value is shown."""
    data = load_records(work)
    _encode(work, data)
    measures: dict[str, Measure] = {Uniqueness.name: Uniqueness(known=known)}
    frame: pl.DataFrame = work.workshop.keep(
        f"riskiest:{_digest(work, known)}",
        lambda: list_exposed_records(data, measures, progress=current_progress()).select(
            "record", "class_size", "alone_by"
        ),
    )
    page = frame.slice(first, _PAGE)
    tables = frames.get_column(data.frame, TABLE) if work.source.linked else None
    return {
        "records": len(frame),
        "first": first,
        "page": _PAGE,
        "rows": [
            {
                "record": row["record"],
                "class_size": row["class_size"],
                "alone_by": row["alone_by"],
                "table": "" if tables is None else tables[row["record"] - 1],
            }
            for row in page.rows(named=True)
        ],
    }


@task(lane="quick", depends="schema", keep=False)
def describe_record(work: Work, *, known: list[str], record: int, k: int) -> dict[str, Any]:
    """One record: its values, how many share them, and by which few it stands alone."""
    data = load_records(work)
    position = _require_record(data, record)
    known, secrets = _choose_own(work, data, known, position)
    matches = _Matches.of(_encode(work, data), known, position)
    everything = tuple(range(len(known)))
    row = frames.wrap(data.frame)[position : position + 1].to_polars()
    listed, left_out = matches.list_combinations(choose_largest(len(known)))
    return {
        "record": record,
        "alike": matches.count(everything),
        "people": matches.people,
        "values": [
            {
                "variable": name,
                "value": _show_cell(row[name][0]),
                "share": matches.count((one,)),
                "without": matches.count(everything[:one] + everything[one + 1 :]),
            }
            for one, name in enumerate(known)
        ],
        "combinations": [
            {"variables": [known[one] for one in combination], "people": people}
            for combination, people in listed
        ],
        "left_out": left_out,
        "secrets": [
            {
                "variable": name,
                "value": _show_cell(row[name][0]),
                **_describe_secret(work, data, name, matches, known, position),
            }
            for name in secrets
            if row[name][0] is not None
        ],
        "k": k,
    }


def _require_record(data: Dataset, record: int) -> int:
    if not 1 <= record <= len(data):
        raise DataError("There is no such record.")
    return record - 1


def _choose_own(
    work: Work, data: Dataset, known: Sequence[str], position: int
) -> tuple[list[str], list[str]]:
    """What can be known and what is secret of a record: a row of one table has no other's cells."""
    secrets = [name for name in data.schema.having("sensitive") if name not in known]
    if not work.source.linked:
        return list(known), secrets
    table = frames.get_column(data.frame, TABLE)[position]
    own = {*_link(work).join_rows(table).columns} - {TABLE}
    return [name for name in known if name in own], [name for name in secrets if name in own]


def _show_cell(value: Any) -> str:
    return "" if value is None else str(value)


@dataclass(frozen=True, eq=False)
class _Matches:
    """Which rows have the same cell as one of them, variable by variable."""

    same: Mask
    units: Units

    @classmethod
    def of(cls, cells: _MapCells, known: Sequence[str], position: int) -> _Matches:
        codes = cells.get(known).cells
        return cls(codes == codes[:, [position]], cells.data.units)

    @property
    def people(self) -> int:
        return self.units.count

    def find(self, variables: Sequence[int]) -> Mask:
        """Which rows match in all of these variables."""
        return np.asarray(self.same[list(variables)].all(axis=0), bool)

    def count(self, variables: Sequence[int]) -> int:
        """How many people match, the person among them."""
        return self.units.count_among(self.find(variables))

    def list_combinations(self, largest: int) -> tuple[list[tuple[tuple[int, ...], int]], int]:
        """Combinations by how few people match; what contains one that is enough is left out."""
        found: list[tuple[tuple[int, ...], int]] = []
        enough: list[set[int]] = []
        for size in range(1, largest + 1):
            for combination in combinations(range(len(self.same)), size):
                if any(some <= {*combination} for some in enough):
                    continue
                people = self.count(combination)
                found.append((combination, people))
                if people == 1:
                    enough.append({*combination})
        found.sort(key=lambda item: (item[1], len(item[0])))
        return found[:_LISTED_OF_RECORD], max(0, len(found) - _LISTED_OF_RECORD)


def _describe_secret(
    work: Work, data: Dataset, name: str, matches: _Matches, known: Sequence[str], position: int
) -> dict[str, Any]:
    """How many of those who match have the same secret, and by how little it is known."""
    codes = _encode(work, data).get([name]).cells[0]
    other = codes != codes[position]
    everything = matches.find(range(len(known)))
    known_by: list[str] = []
    if not (everything & other).any():
        smallest = next(
            (
                combination
                for size in range(1, choose_largest(len(known)) + 1)
                for combination in combinations(range(len(known)), size)
                if not (matches.find(combination) & other).any()
            ),
            tuple(range(len(known))),
        )
        known_by = [known[one] for one in smallest]
    return {"differ": int((everything & other).sum()), "known_by": known_by}


# What would protect ------------------------------------------------------------------------------


@task(lane="slow", depends="schema")
def find_fixes(work: Work, *, known: list[str], record: int, k: int) -> dict[str, Any]:
    """The least changes after which a person shares what is known with k - 1 others."""
    data = load_records(work)
    known, _ = _choose_own(work, data, known, _require_record(data, record))
    search: FixSearch = work.workshop.keep(
        f"fixes:{_digest(work, known)}", lambda: FixSearch.of(data, known)
    )
    single = search.list_single(record - 1, k=k)
    joint = None if single else search.find_cheapest(record - 1, k=k)
    return {
        "alike": search.count_alike(record - 1),
        "alone": search.count_alone(),
        "fixes": [_write_fix(fix, known) for fix in (single or ([] if joint is None else [joint]))],
        "suppress": {}
        if work.source.linked
        else _measure_suppression(work, data, known, record, k),
    }


def _write_fix(fix: Fix, known: Sequence[str]) -> dict[str, Any]:
    return {
        "changes": [
            {"variable": known[change.variable], "how": change.how} for change in fix.changes
        ],
        "loss": fix.loss / len(fix.changes),
        "alike": fix.alike,
        "alone": fix.alone,
        "steps": _write_steps([change.step for change in fix.changes if change.step is not None]),
    }


def _write_steps(steps: Sequence[Method]) -> list[dict[str, Any]]:
    return [{"method": step.name, **list_settings(step)} for step in steps]


def _measure_suppression(
    work: Work, data: Dataset, known: Sequence[str], record: int, k: int
) -> dict[str, Any]:
    """How many cells are blanked where k people must be alike, and which of this record."""
    if work.source.linked:
        return {}
    step = Suppress(variables=list(known), k=k)

    def find_blanks() -> Mask:
        before, after = data.batch(known), step.apply(data).batch(known)
        return np.column_stack(
            [(after[name].is_null() & before[name].is_not_null()).to_numpy() for name in known]
        )

    try:
        blanks: Mask = work.workshop.keep(f"blanks:{_digest(work, known, k)}", find_blanks)
    except (MeasureError, PlanError) as error:
        return {"reason": error.what}
    return {
        "cells": int(blanks.sum()),
        "records": int(blanks.any(axis=1).sum()),
        "here": [name for one, name in enumerate(known) if blanks[record - 1, one]],
        "steps": _write_steps([step]),
    }


@task(lane="slow", depends="plan")
def advise_coarser(
    work: Work, *, known: list[str], sensitive: str, enough: float
) -> dict[str, Any]:
    """Which variables to make coarser so that a secret is protected, and what that buys."""
    data = load_records(work)
    plan = work.table_plan
    placement = find_placement(plan, data)
    prepared = placement.reach(data)
    names = [name for name in known if name in prepared.schema]
    advice = advise(plan, placement, prepared, sensitive, names, enough=enough)
    joint = advice.joint
    return {
        "before": joint.before,
        "protected": joint.protected,
        "reached": joint.reached,
        "reason": joint.reason,
        "measured_number": advice.is_measured_number,
        "alone": _list_plain_rows(advice.alone.table),
        "path": _list_plain_rows(joint.table),
        "steps": _write_steps(joint.steps),
        "single_steps": {
            name: _write_steps([step])
            for step in advice.alone.steps
            for name in step.touches(prepared.schema)
        },
        "remarks": list(advice.list_remarks()),
    }


def _list_plain_rows(table: Any) -> list[dict[str, Any]]:
    """Plain rows; JSON has no NaN."""
    return [
        {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in row.items()
        }
        for row in frames.wrap(table).rows(named=True)
    ]


@task(lane="quick", depends="plan", keep=False)
def place_steps(work: Work, *, steps: list[dict[str, Any]]) -> str:
    """The plan with further steps, each where it makes sense."""
    plan = work.plan
    made = [_build_step(settings) for settings in steps]
    if plan.tables:
        return _place_in_tables(plan, made, load_records(work)).text()
    data = load_records(work)
    together = [step for step in made if step.treats == "records"]
    alone = [step for step in made if step.treats != "records"]
    plan = insert_steps(plan, find_placement(plan, data), alone) if alone else plan
    return change_plan(plan, steps=(*plan.steps, *together)).text()


def _build_step(settings: Mapping[str, Any]) -> Method:
    parameters = {name: value for name, value in settings.items() if name != "method"}
    entry = catalogue.methods().get(settings["method"])
    if entry is None:
        raise PlanError("There is no such method.")
    return entry(**parameters)


def _place_in_tables(plan: Plan, steps: Sequence[Method], data: Dataset) -> Plan:
    """Each step in the plan of the table whose variable it treats."""
    tables = dict(plan.tables)
    for step in steps:
        for label in step.touches(data.schema):
            table, _, variable = label.partition(".")
            if table not in tables or variable not in tables[table].schema:
                raise PlanError("This step belongs to no single table.")
            settings = {**list_settings(step), "variables": [variable]}
            own = type(step)(**settings)
            tables[table] = change_plan(tables[table], steps=(*tables[table].steps, own))
    return Plan(
        tables=tables,
        keys=plan.keys,
        person=plan.person,
        steps=plan.steps,
        targets=plan.targets,
        evaluate=plan.evaluate,
        release=plan.release,
        files=plan.files,
    )


# The map of everybody ----------------------------------------------------------------------------


@task(lane="slow", depends="schema")
def map_protection(work: Work, *, known: list[str], in_turn: bool) -> dict[str, Any]:
    """How well each person is protected in each variable; those who are alike stand together.

    References: Kroes, Janssen, Groenwold & van Leeuwen (2021), Health Informatics Journal 27(2),
    Fig. 2.
    """
    data = load_records(work)
    declared = [name for name in data.schema.having("sensitive") if name not in known]
    secrets = known if in_turn or not declared else declared
    evidence = Peers(
        known=known,
        sensitive=secrets,
        individuals=_choose_individuals(data),
        most=_choose_most(data, known),
    ).measure(data)
    if not evidence.computed:
        raise MeasureError(f"This could not be measured: {evidence.reason}")
    values = frames.wrap(evidence.records).to_polars().select(secrets).to_numpy()
    values = values[~np.isnan(values).any(axis=1)]
    low = at_or_below(values, 0.0).mean(axis=0)
    order = sorted(range(len(secrets)), key=lambda one: (-low[one], one))
    return {
        "variables": [
            {"variable": secrets[one], "breached": float(low[one])} for one in order
        ],
        "people": len(values),
        "sampled": evidence.sampled,
        "value": evidence.value,
        "interval": evidence.interval,
        "combinations": evidence.details["combinations"],
        "left_out": evidence.details["combinations_left_out"],
        "often_by": [
            {**row, "known": row["known"].split(", ")}
            for row in evidence.details.get("breaching_combinations", ())[:5]
        ],
        "steps": _STEPS,
        "warnings": list(evidence.warnings),
        **_draw_map(values[:, order], [secrets[one] for one in order]),
    }  # fmt: skip


def _choose_individuals(data: Dataset) -> int | None:
    """How many people are drawn for the map; None: everybody is on it."""
    if _has_several(data):
        return _DRAWN_PERSONS if data.units.count > _DRAWN_PERSONS else None
    return _DRAWN if len(data) > _ALL_PEOPLE else None


def _choose_most(data: Dataset, known: Sequence[str]) -> int | None:
    """How many variables a combination has at most; None: all combinations are looked at."""
    if _has_several(data):
        return 2
    return None if len(known) <= _ALL_COMBINATIONS else LARGEST


def _has_several(data: Dataset) -> bool:
    """Whether persons have several rows; they are compared pair by pair, which takes far longer."""
    return engine_for(data.frame).in_memory and not data.units.one_row_each


def _draw_map(values: Floats, names: Sequence[str]) -> dict[str, Any]:
    """A path for each colour, and where each group of people begins and ends."""
    ones = np.ones(len(values), np.int64)
    group = assign_groups(values, ones, 0.0) if len(values) else ones
    rank = np.empty(len(values), np.int64)
    rank[order_by_similarity(values, 0.0)] = np.arange(len(values))
    order = np.lexsort((rank, group))
    described = group_by_protection(values, ones, names, 0.0)
    columns: list[PooledPeople] = []
    spans = []
    for index in range(int(group.max(initial=-1)) + 1):
        people = order[group[order] == index]
        width = max(1, round(_COLUMNS * len(people) / len(values)))
        begin = len(columns)
        columns += pool_people(values, people, 0.0, width)
        spans.append({"begin": begin, "width": len(columns) - begin,
                      "people": len(people), **_get_group(described, index)})  # fmt: skip
    return {
        "columns": len(columns),
        "paths": [_write_path(columns, colour) for colour in range(_STEPS + 1)],
        "groups": spans,
    }


def _get_group(described: Sequence[Mapping[str, Any]], index: int) -> dict[str, Any]:
    return {"variables": described[index]["variables"] if index < len(described) else []}


def _write_path(columns: Sequence[PooledPeople], colour: int) -> str:
    """The boxes of one colour; the share of a column that is dark stands at the foot of a cell."""
    boxes = []
    for row in range(len(columns[0].shares) if columns else 0):
        start, shape = 0, None
        for index, column in enumerate([*columns, None]):
            own = None if column is None else _find_box(column, row, colour)
            if own != shape:
                if shape is not None:
                    top, bottom = shape
                    boxes.append(f"M{start} {row + top:g}H{index}V{row + bottom:g}H{start}Z")
                start, shape = index, own
    return "".join(boxes)


def _find_box(column: PooledPeople, row: int, colour: int) -> tuple[float, float] | None:
    """Where in its cell this colour stands; None where it does not."""
    share = round(float(column.shares[row]), 2)
    if colour == 0:
        return (1 - share, 1.0) if share > 0 else None
    if share >= 1:
        return None
    step = 1 + min(int(float(column.means[row]) * _STEPS), _STEPS - 1)
    return (0.0, 1 - share) if step == colour else None


# Further measures --------------------------------------------------------------------------------


@task(lane="slow", depends="schema")
def take_measure(work: Work, *, name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """What one measure says of the data as they are."""
    measure = catalogue.measure(name)(**settings)
    if work.source.linked:
        evidence = assess_tables(_link(work), {name: measure}, progress=current_progress())[name]
    else:
        evidence = assess(load_records(work), {name: measure}, progress=current_progress())[name]
    if not evidence.computed:
        raise MeasureError(f"{name} could not be computed: {evidence.reason}")
    rows = [] if evidence.table is None else _list_plain_rows(evidence.table)
    return {
        **_write_evidence(evidence),
        "columns": list(rows[0]) if rows else [],
        "rows": rows[:_LONGEST_TABLE],
        "more": max(0, len(rows) - _LONGEST_TABLE),
        **_draw(measure, evidence),
    }


def _write_evidence(evidence: Evidence) -> dict[str, Any]:
    worst = evidence.at_worst
    return {
        "value": evidence.value,
        "worst": worst if math.isfinite(worst) else evidence.value,
        "interval": None if evidence.interval is None else list(evidence.interval),
        "details": {
            name: value
            for name, value in evidence.details.items()
            if isinstance(value, (int, float, str, bool))
            and not (isinstance(value, float) and not math.isfinite(value))
        },
        "assumptions": list(evidence.assumptions),
        "warnings": list(evidence.warnings),
    }


def _draw(measure: Measure, evidence: Evidence) -> dict[str, Any]:
    if evidence.table is None:
        return {"svg": "", "caption": ""}
    picture = draw_evidence(measure.picture, evidence.table, evidence.details)
    if picture is None:
        return {"svg": "", "caption": ""}
    return {"svg": picture.svg(), "caption": picture.caption, "title": picture.title}
