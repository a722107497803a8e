"""The joined view of several tables: who is found in it, and what is learnt of them.

Two outsiders are measured. One knows one row of a person in one table, with what its keys lead to,
and learns what stands in such rows. The other knows all rows of a person in all tables (or what
`uniqueness` says: `known_rows`, `row_counts`), and learns what stands in any row of those who have
the same. Whoever knows one row and looks into other tables learns no more than the second: each of
his groups is several of the second one's put together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeGuard

import numpy as np
import polars as pl

from sfumato.cells.classes import find_equivalence_classes
from sfumato.cells.confidential import require_apart, select_confidential
from sfumato.data import Dataset
from sfumato.data.linked import PERSON, TABLE, LinkedTables, stack_rows
from sfumato.engines import engine_for
from sfumato.errors import MeasureError, SchemaError, SfumatoError
from sfumato.evidence import Evidence
from sfumato.measure import AT_WORST, Measure
from sfumato.plan import Plan
from sfumato.plan.targets import Judgement, judge
from sfumato.progress import Progress
from sfumato.release import align_original
from sfumato.risk.attribute_disclosure import AttributeDisclosure
from sfumato.risk.closeness import Closeness
from sfumato.risk.disclosure.predicate import list_variables, parse
from sfumato.risk.diversity import Diversity
from sfumato.risk.known import describe_known, known_variables
from sfumato.risk.recoverable import Recoverable
from sfumato.risk.trajectories import (
    describe_trajectories,
    number_parts,
    number_trajectories,
)
from sfumato.risk.uniqueness import Uniqueness
from sfumato.run.measuring import take_measures
from sfumato.schema import Column, Role
from sfumato.units import Units

SecretMeasure = AttributeDisclosure | Diversity | Closeness
"""What a measure of secrets (`Measure.of_secrets`) has: what is known, and what is confidential."""
JOINED = "joined view"
"""How the view is called where a table's name would stand."""
_EVERYTHING = (
    "Who knows everything of a person knows all their rows in all tables, and which keys lead to "
    "which. Targets are checked against this outsider and against one who knows one row of one "
    "table, "
    "with the rows that its keys lead to, whichever finds fewer."
)
_KNOWN_TO = (
    "A person's value in a table is known to somebody who finds several persons alike if each of "
    "them has it in one of their rows there. Persons without a row in that table are left out."
)
_LEARNS = (
    "Who knows one row learns what stands in it; who knows everything learns what stands in any "
    "row of the persons who look alike. Numbers are those of the outsider who learns more."
)
_BY_WILDCARD = ("k_if_missing_is_wildcard", "uniqueness_if_missing_is_wildcard")
_ONE_ROW, _EVERY_ROW = "one row", "everything"
_ENDINGS = {_ONE_ROW: "_of_rows", _EVERY_ROW: "_of_trajectories"}
TRAJECTORY = "trajectory"
_MOST = 20_000_000
"""Rows that are looked at where each part of a trajectory may be known."""
_TOO_MANY = "There are too many parts of trajectories to look at."
_TOLD: tuple[Role, ...] = ("quasi", "sensitive", "other", "weight", "cluster")


def is_of_secrets(measure: Measure) -> TypeGuard[SecretMeasure]:
    """Whether it says what people who look alike give away of a confidential variable."""
    return measure.of_secrets


def judge_joined_view(
    plan: Plan,
    original: LinkedTables | None,
    released: LinkedTables,
    *,
    progress: Progress | None = None,
) -> tuple[dict[str, Evidence], tuple[Judgement, ...]]:
    """What was measured of the joined view, and the targets held against it.

    `original` gives the baselines, where it is at hand.
    """
    measures = add_disclosure(plan.measures, released)
    evidence = measure_joined_view(measures, released, "released", progress=progress)
    if original is not None:
        before = measure_joined_view(measures, original, "original", progress=progress)
        evidence = {
            label: replace(item, baseline=before[label].value) if before[label].computed else item
            for label, item in evidence.items()
        }
    return evidence, judge(plan.all_targets, measures, evidence)


def add_disclosure(measures: Mapping[str, Measure], tables: LinkedTables) -> dict[str, Measure]:
    """The measures, and attribute disclosure where a table shows a confidential variable."""
    secret = any(data.schema.having("sensitive") for data in tables.tables.values())
    there = any(isinstance(measure, AttributeDisclosure) for measure in measures.values())
    default = {AttributeDisclosure.name: AttributeDisclosure()} if secret and not there else {}
    return {**measures, **default}


def measure_joined_view(
    measures: Mapping[str, Measure],
    tables: LinkedTables,
    subject: Literal["original", "released"],
    *,
    progress: Progress | None = None,
) -> dict[str, Evidence]:
    """Evidence of the joined view; who knows everything of a person is in it."""
    parts = {table: tables.join_rows(table) for table in tables.structure.owned}
    view = JoinedView(parts, subject, measures)
    counting = {k: m for k, m in measures.items() if isinstance(m, Uniqueness)}
    pair = (view.rows, None) if subject == "original" else (None, view.rows)
    counted = take_measures(counting, *pair, progress=progress)
    evidence: dict[str, Evidence] = {}
    for label, measure in measures.items():
        if is_of_secrets(measure):
            evidence[label] = view.measure_confidential(measure)
        else:
            evidence[label] = _hold_worst(counted[label])
    return evidence


def _hold_worst(evidence: Evidence) -> Evidence:
    """Let targets be held against who knows everything of a person, if that finds fewer."""
    if not evidence.computed:
        return evidence
    details = {k: value for k, value in evidence.details.items() if k not in _BY_WILDCARD}
    alike, alone = evidence.number("k_of_trajectories"), evidence.number("unique_trajectories")
    k = min(details["k"], alike) if alike == alike else alike  # noqa: PLR0124 - NaN
    worst = {
        "k": k,
        "uniqueness": max(evidence.value, alone) if alone == alone else alone,  # noqa: PLR0124
        "prosecutor": 1 / k,
        "unique_records": max(details["unique_records"], alone * details["persons"]),
    }
    details |= {f"{name}{AT_WORST}": value for name, value in worst.items()}
    if k != k:  # noqa: PLR0124 - NaN
        details |= {f"{name}_reason": details["k_of_trajectories_reason"] for name in worst}
    return replace(evidence, details=details, assumptions=(*evidence.assumptions, _EVERYTHING))


class JoinedView:
    """All rows of all persons, and what outsiders know of them.

    Parameters
    ----------
    parts : by table its rows with what their keys lead to.
    subject : the original or the released tables.
    measures : of which those of uniqueness say what outsiders know.
    """

    def __init__(
        self,
        parts: Mapping[str, Dataset],
        subject: Literal["original", "released"],
        measures: Mapping[str, Measure],
    ) -> None:
        self.subject: Literal["original", "released"] = subject
        self.variables = {table: {*part.schema} for table, part in parts.items()}
        self.rows = _number_persons(stack_rows([*parts.values()]))
        stated = [m for m in measures.values() if isinstance(m, Uniqueness)] or [Uniqueness()]
        # Where several are stated, targets are checked against the outsider who knows most.
        known_rows = [measure.known_rows for measure in stated]
        self.known_rows = None if None in known_rows else max(rows or 1 for rows in known_rows)
        self.row_counts = any(measure.row_counts for measure in stated)

    def measure_confidential(self, measure: SecretMeasure) -> Evidence:
        """What both outsiders learn of confidential variables, whichever learns more."""
        try:
            known = known_variables(measure.known, self.rows, self.subject)
            lives = self.find_lives(known)
            looks = [*self.look_at_all(measure, known, {_EVERY_ROW: lives})]
        except SchemaError:
            raise
        except SfumatoError as error:
            return Evidence.failed(measure.name, self.subject, str(error))
        assumptions = (
            describe_known(known),
            describe_trajectories(self.known_rows, row_counts=self.row_counts),
            _KNOWN_TO,
            _LEARNS,
        )
        united = unite_looks(measure, looks)
        lines = dict.fromkeys((*assumptions, *united.assumptions))
        return replace(
            united,
            details={**united.details, "known": tuple(known)},
            assumptions=tuple(line for line in lines if f"exactly: {TRAJECTORY}." not in line),
        )

    def shows(self, measure: SecretMeasure) -> bool:
        """Whether something stands here that the measure is about."""
        schema, statement = self.rows.schema, _states(measure)
        if statement is not None:
            return all(name in schema for name in list_variables(parse(statement)))
        return any(name in schema for name in measure.confidential or schema.having("sensitive"))

    def look_at_all(
        self, measure: SecretMeasure, known: Sequence[str], lives: Mapping[str, pl.DataFrame]
    ) -> Iterator[tuple[str, Evidence]]:
        """What each outsider learns: one who knows a row, and others by what they know of lives.

        Parameters
        ----------
        measure : of confidential variables.
        known : what an outsider knows of a row.
        lives : by outsider, each person with the number of what is known of their trajectory.
        """
        failed: MeasureError | None = None
        looks = 0
        for names, tables in self._group_variables(measure, known).items():
            by_name: dict[str, Any] = {} if _states(measure) else {"confidential": [*names]}
            outsiders = {_ONE_ROW: (self._select_rows(tables), known)}
            for outsider, trajectories in lives.items():
                alike = self._select_alike(names, tables, trajectories)
                outsiders[outsider] = alike, (TRAJECTORY,)
            for outsider, (rows, by) in outsiders.items():
                narrowed = replace(measure, known=[*by], **by_name)
                try:
                    yield outsider, narrowed.look(rows, self.subject, engine_for(rows.frame))
                    looks += 1
                except MeasureError as error:
                    failed = error  # all values of a table are missing: nothing to learn there
        if not looks and failed is not None:
            raise failed

    def _group_variables(
        self, measure: SecretMeasure, known: Sequence[str]
    ) -> dict[tuple[str, ...], tuple[str, ...]]:
        """The confidential variables whose values stand in rows of the same tables."""
        statement = _states(measure)
        if statement is not None:
            names = list_variables(parse(statement))
            if gone := [name for name in names if name not in self.rows.schema]:
                raise MeasureError(
                    f"The statement is about variables that the joined view lacks: "
                    f"{', '.join(gone)}.",
                    hint="name them with their table, in backticks: `stays.diagnosis`.",
                )
            require_apart(names, known)
            return {names: self._find_tables(names)}
        chosen = select_confidential(measure.confidential, known, self.rows, self.subject)
        groups: dict[tuple[str, ...], list[str]] = {}
        for name in chosen:
            groups.setdefault(self._find_tables([name]), []).append(name)
        return {tuple(names): tables for tables, names in groups.items()}

    def _find_tables(self, names: Sequence[str]) -> tuple[str, ...]:
        """The tables whose rows have all these variables, their own or by a key."""
        tables = tuple(t for t, shown in self.variables.items() if shown.issuperset(names))
        if not tables:
            raise MeasureError(
                f"No row has all of {', '.join(names)}.",
                hint="make a statement about variables of one table and of those it leads to.",
            )
        return tables

    def _select_rows(self, tables: Sequence[str]) -> Dataset:
        chosen = self.rows.frame[TABLE].is_in([*tables]).arg_true().to_numpy()
        return self.rows.take(chosen.astype(np.intp))

    def _select_alike(
        self, names: Sequence[str], tables: Sequence[str], lives: pl.DataFrame
    ) -> Dataset:
        """The rows with these variables, and to which trajectory each one's person belongs."""
        # Rows of other tables that lead there repeat the same values of the same person.
        holding_all = [
            t for t in tables if all(n.startswith(f"{t}.") and " by " not in n for n in names)
        ]
        rows = self._select_rows(holding_all or tables)
        persons = rows.frame[PERSON]
        parts = np.bincount(lives[PERSON], minlength=int(persons.max()) + 1)
        if parts[persons.to_numpy()].sum() > _MOST:
            raise MeasureError(_TOO_MANY, hint="name fewer known_rows.")
        columns = [PERSON, *names]
        frame = rows.frame.select(columns).join(lives, on=PERSON, how="inner")
        declared = rows.schema.without([n for n in rows.schema if n not in columns])
        schema = declared.with_columns({TRAJECTORY: Column(role="quasi", kind="nominal")})
        return _number_persons(Dataset(frame, schema))

    def find_lives(self, known: Sequence[str]) -> pl.DataFrame:
        """Each person with the number of their trajectory, or of every part of it."""
        classes = find_equivalence_classes(self.rows, known)
        persons = self.rows.frame[PERSON].to_numpy().astype(np.int64)
        of = classes.of.astype(np.int64)
        if self.known_rows is None:
            chosen: Any = slice(None)
            if not self.row_counts:
                chosen = Units.of(persons).find_once(classes.of)
            number = number_trajectories(of[chosen], persons[chosen])
            return pl.DataFrame({PERSON: np.unique(persons), TRAJECTORY: number})
        parts = number_parts(of, persons, self.known_rows, row_counts=self.row_counts)
        if parts is None:
            raise MeasureError(_TOO_MANY, hint="name fewer known_rows.")
        part, person = parts
        return pl.DataFrame({PERSON: np.unique(persons)[person], TRAJECTORY: part})


def _number_persons(data: Dataset) -> Dataset:
    """The same rows; their persons are numbered already."""
    persons = data.frame[PERSON].to_numpy().astype(np.int64)
    return replace(data, given_identity=data.identity.with_persons(persons))


def _states(measure: SecretMeasure) -> str | None:
    """The statement that attribute disclosure is about, if there is one."""
    return measure.where if isinstance(measure, AttributeDisclosure) else None


def unite_looks(measure: SecretMeasure, looks: Sequence[tuple[str, Evidence]]) -> Evidence:
    """One piece of evidence, with the worst number of both outsiders and all tables."""
    worst = max if measure.direction == "lower" else min
    numbers = [number.name for number in measure.numbers]
    details: dict[str, Any] = {}
    for outsider, ending in _ENDINGS.items():
        of = [item for name, item in looks if name == outsider]
        if not of:
            continue
        details |= {f"{n}{ending}": worst(_read(item, n) for item in of) for n in numbers}
    items = [item for _, item in looks]
    for number in numbers:
        details[number] = worst(_read(item, number) for item in items)
        details[f"{number}{AT_WORST}"] = worst(
            item.details.get(f"{number}{AT_WORST}", _read(item, number)) for item in items
        )
    tables = [
        item.table.select(pl.lit(outsider).alias("outsider"), pl.all()) for outsider, item in looks
    ]
    table = pl.concat(tables, how="diagonal_relaxed")
    rank = table[measure.name].arg_max() if worst is max else table[measure.name].arg_min()
    names = dict.fromkeys(name for item in items for name in item.details["confidential"])
    return Evidence(
        name=measure.name,
        subject=items[0].subject,
        value=details.pop(measure.name),
        direction=measure.direction,
        table=table,
        details={
            **details,
            "worst_variable": table["variable"][rank or 0],
            "confidential": tuple(names),
        },
        assumptions=tuple(dict.fromkeys(line for item in items for line in item.assumptions)),
        warnings=tuple(dict.fromkeys(line for item in items for line in item.warnings)),
        audience="public" if all(i.audience == "public" for i in items) else "custodian",
    )


def _read(evidence: Evidence, number: str) -> Any:
    return evidence.value if number == evidence.name else evidence.details[number]


def attack_joined_view(original: LinkedTables, released: LinkedTables) -> dict[str, Evidence]:
    """Work out what one table hides from what others show, by the table whose rows are looked at.

    Each row stands with the rows that its keys lead to. Of every person one row of each table is
    looked at: a second one of the same person would give back what is the person's own.
    """
    aligned = original.with_tables(
        {name: align_original(data, released[name]) for name, data in original.tables.items()}
    )
    evidence: dict[str, Evidence] = {}
    for table in released.structure.owned:
        before, after = (tables.join_rows(table, _TOLD) for tables in (aligned, released))
        if all(name.startswith(f"{table}.") for name in before.columns if "." in name):
            continue  # it leads nowhere, and was attacked by itself
        identity = aligned[table].identity
        order = np.lexsort(identity.digests.T)
        first = np.unique(released.persons[table][order], return_index=True)[1]
        rows = np.sort(order[first])
        pair = [
            replace(data.take(rows), given_identity=identity.take(rows)).without([TABLE, PERSON])
            for data in (before, after)
        ]
        label = f"{table} with what its keys lead to"
        evidence |= take_measures({label: Recoverable()}, *pair)
    return evidence
