"""Whose confidential values are known as soon as their class is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import numpy as np
import polars as pl
from pydantic import Field, field_validator, model_validator

from sfumato.cells.classes import ClassifiedRecords, EquivalenceClasses, classify_records
from sfumato.cells.confidential import (
    ConfidentialVariable,
    count_by_class,
    encode_confidential,
    require_apart,
    select_confidential,
)
from sfumato.cells.notation import infer_cell_type
from sfumato.cells.overlaps import describe_overlap, read_meanings, spell_levels
from sfumato.cells.same_values import TOLERANCE, unite_groups, unite_texts, unite_values
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MeasureError, PlanError
from sfumato.evidence import Evidence, Subject
from sfumato.kernels.arrays import Mask
from sfumato.measure import AT_WORST, Measure
from sfumato.numbers import Number
from sfumato.parameters import parameters
from sfumato.risk._persons import choose_audience
from sfumato.risk.disclosure.class_scores import count_fewest_values
from sfumato.risk.disclosure.evaluation import evaluate_predicate
from sfumato.risk.disclosure.nearness import (
    IN_MEANING,
    find_closest,
    group_by_meaning,
    measure_spread,
)
from sfumato.risk.disclosure.predicate import (
    Predicate,
    list_comparisons,
    list_variables,
    parse,
    replace_constants,
)
from sfumato.risk.disclosure.united import IN_SPELLING, WorstReading
from sfumato.risk.known import (
    Groups,
    check_groups,
    describe_known,
    known_variables,
    list_combinations,
    require_records,
    warn_of_unknown_variables,
)
from sfumato.schema import Column, Schema

_WHERE = (
    "Missing satisfies no statement, nor its opposite. A range, set or mask satisfies a statement "
    "only if all its values do."
)
_UNDECIDED = (
    "What is missing, or stands for several values, may satisfy the statement: targets are checked "
    "against the worst, that it does so in every class where it holds for some and fails for none."
)
_VALUES = (
    "Missing is no value that could be learned, but one by which records differ, except at worst."
)


@parameters
class AttributeDisclosure(Measure):
    """Share of records whose confidential value is known to whoever finds their class.

    Question: of how many persons does one learn that a statement holds, such as a charge above
    100,000, because it holds for everybody who looks like them?
    Assumes: the outsider knows that the person is in the data, and knows the exact values of
    `known`. A class is the records that share those values; missing is a value there. With `where`,
    the share is of the records that satisfy it: those in a class where all do. Without, it is of
    all records: those in a class with a single value, for the worst confidential variable.
    Where persons have several rows, shares are of persons. A statement holds for a person in a
    class if it holds for one of their rows there, and a value is known if every person of the class
    has it among theirs.

    A secret need not be one value to be learned. Salaries within 400 of each other tell each, and
    so do three stages of HIV: targets are checked against a reading in which numbers that lie near
    each other, and categories of one group, are one. Groups are the first level of a hierarchy;
    without one, chapters of ICD-10, and HIV and AIDS.

    Parameters
    ----------
    known : the variables the outsider knows. Default: all whose role is "quasi".
    where : only records for which this holds: a statement about variables, `charge > 100000`,
        `diagnosis == "AIDS"`, `diagnosis in ["a", "b"]`, `10 <= age < 20`, joined by and, or, not.
        Odd names stand in backticks, dates in quotes: "2020-01-31", which is the whole day.
    confidential : the variables nobody should learn: if there is no `where`. Default: all whose
        role is "sensitive".
    same_within : numbers that count as the same: those that differ by less than this share are one
        value, and texts that differ only in spelling are, and ranges and sets that share a value
        may be. Missing may be the value of its class. Targets are checked against the worst of
        these readings.
    close_within : numbers and dates that are as good as one: within so large a part of their
        spread (the standard deviation, or what the middle half has, if that is less). 0: none are.
    close_share : share of a class that must lie so near; then the class gives its values away.
    groups : what outsiders may know together: up to six lists of variables by name. The table then
        has what is disclosed to whoever knows each combination of groups, for the worst
        confidential variable.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"age": [30, 30, 41, 41], "charge": [150, 120, 300, 90]})
    >>> data = sf.Dataset(frame, sf.Schema({"age": "quasi", "charge": "sensitive"}))
    >>> found = AttributeDisclosure(where="charge > 100").measure(data)
    >>> round(found.value, 3), found.details["disclosed_records"]
    (0.667, 2)
    >>> found = AttributeDisclosure(groups={"years": ["age"]}).measure(data)
    >>> found.table.select("known", "attribute_disclosure", "worst_variable").rows()
    [('years', 0.0, 'charge')]

    References: Sánchez, Martínez & Domingo-Ferrer (2016), Science 351:1274, Eq. 5 and Fig. S3.
    """

    name = "attribute_disclosure"
    runs_on = ("local", "streaming", "spark")
    counts_persons = True
    odd = {"one row": {0: 1, 1: 1, 4: 1}}
    examples = (
        {},
        {"known": ["sex", "region", "education"], "confidential": ["smoking", "diagnosis"]},
        {"known": ["sex", "region", "children"], "where": "income > 40000"},
        {"where": 'diagnosis in ["E11", "E66"] or not systolic < 140'},
        {"groups": {"census": ["sex", "education"], "spatial": ["region"]}},
    )
    picture = "known_groups"
    of_secrets = True
    numbers = (
        Number.share("attribute_disclosure", usual=True, joined="held"),
        Number.count("disclosed_records", joined="held"),
    )
    known: list[str] | None = None
    where: str | None = None
    confidential: list[str] | None = None
    same_within: Annotated[float, Field(ge=0, lt=1)] = TOLERANCE
    close_within: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.05
    close_share: Annotated[float, Field(gt=0.5, le=1)] = 1.0
    groups: Groups | None = None

    @field_validator("where")
    @classmethod
    def _readable(cls, where: str | None) -> str | None:
        if where is not None:
            parse(where)
        return where

    @model_validator(mode="after")
    def _one_question(self) -> Self:
        if self.where is not None and self.confidential is not None:
            msg = "give either where or confidential."
            raise ValueError(msg)
        check_groups(self.groups)
        return self

    def require_joined(self, label: str) -> None:
        """Refuse groups of variables."""
        if self.groups is not None:
            raise PlanError(
                f"'{label}' has groups, which the joined view does not know.",
                hint="leave groups out, or set the measure for a table.",
            )

    def look(self, data: Dataset, subject: Subject, engine: Engine) -> Evidence:
        """Find the classes that give the answer away."""
        known = known_variables(self.known, data, subject)
        combined = dict(list_combinations(self.groups, data, subject))
        records = classify_records(data, known, engine)
        require_records(records.rows.total)
        classes = records.classes
        disclosure = self._disclose(records, subject)
        rows = [
            {
                "known": label,
                "variables": ", ".join(names),
                **self._disclose(classify_records(data, names, engine), subject).find_worst(),
            }
            for label, names in combined.items()
        ]
        return Evidence(
            name=self.name,
            subject=subject,
            value=max(disclosure.table[self.name]),
            direction=self.direction,
            records=records.rows.show_records(disclosure.records),
            table=data.like(pl.DataFrame(rows) if rows else disclosure.table),
            details={
                "disclosed_records": max(disclosure.table["disclosed_records"]),
                **disclosure.details,
                "records": records.rows.total,
                **classes.units.details(),
                "classes": len(classes),
                "smallest_class": int(classes.sizes.min()),
                "known": tuple(known),
                "confidential": tuple(disclosure.names),
            },
            assumptions=(
                describe_known(known),
                *classes.units.describe(),
                *disclosure.assumptions,
            ),
            warnings=(*disclosure.warnings, *warn_of_unknown_variables(known, combined)),
            audience=choose_audience(data, subject, classes.units),
        )

    def _disclose(self, records: ClassifiedRecords, subject: Subject) -> _Disclosure:
        """What somebody learns who knows what the records are classified by."""
        data, known = records.data, records.known
        if self.where is None:
            names = select_confidential(self.confidential, known, data, subject)
            return self._disclose_values(records, names)
        predicate = parse(self.where)
        names = list_variables(predicate)
        _require_present(names, known, data, subject)
        rows, classes = records.read(names)
        disclosure = _disclose_statement(rows, predicate, classes)
        return _add_spellings(disclosure, rows, predicate, classes)

    def _disclose_values(self, records: ClassifiedRecords, names: tuple[str, ...]) -> _Disclosure:
        """Whose class has a single value, variable by variable."""
        rows: list[dict[str, Any]] = []
        total, schema = records.classes.total, records.data.schema
        learned, empty = np.zeros(len(records.classes), np.int64), list[str]()
        worst = WorstReading(max)
        remarks: tuple[str, ...] = ()
        for name in names:
            rows_of, classes = records.read([name])
            confidential = encode_confidential(rows_of, name, classes.units.counts)
            remarks += confidential.remarks
            disclosing = _have_one_cell(confidential, classes)
            learned += disclosing
            empty += [] if len(confidential.distinct) else [name]
            numbers = _list_numbers(classes.count_in(disclosing), total)
            # Who is disclosed in one of the readings is disclosed.
            either = disclosing.copy()
            if confidential.missing:
                either |= _have_one_value(confidential, classes)
                filled = _list_numbers(classes.count_in(either), total)
                worst.add_reading_without_missing(numbers, filled, confidential)
            meanings = read_meanings(confidential, schema[name], self.same_within)
            if meanings is not None and meanings.overlapping:
                fewest = count_fewest_values(classes, confidential.codes, meanings)
                either |= (fewest.counts == 1) & ~classes.are_all(confidential.codes < 0)
                warning = describe_overlap(name, len(meanings))
                overlapping = _list_numbers(classes.count_in(either), total)
                worst.add(numbers, overlapping, warning, IN_SPELLING)
            else:
                readings = unite_values(confidential, schema[name], self.same_within)
                for reading in readings:
                    either |= _have_one_value(reading.variable, classes)
                for reading in readings[:1]:
                    united = _list_numbers(classes.count_in(either), total)
                    worst.add_united_reading(numbers, united, reading)
                either |= self._mean_the_same(confidential, schema[name], classes)
                near = _list_numbers(classes.count_in(either), total)
                worst.add(numbers, near, _describe_near(name), IN_MEANING)
            at_worst = classes.count_in(either) / total
            rows.append({"variable": name, **numbers, "at_worst": at_worst})
        if len(empty) == len(names):
            raise MeasureError(
                f"No record has a value that could be learned: {', '.join(empty)}.",
                hint="are the confidential variables all missing?",
            )
        by_record = learned[records.classes.of]
        table = pl.DataFrame({"disclosed_variables": by_record, "disclosed": by_record > 0})
        most = max(row["disclosed_records"] for row in rows)
        details = {
            "records_with_any_value_disclosed": records.classes.count_in(learned > 0),
            **worst.judge(_list_numbers(most, total)),
        }
        assumptions = (_VALUES, *dict.fromkeys(remarks), *worst.assumptions)
        return _Disclosure(
            names, pl.DataFrame(rows), table, details, assumptions, tuple(worst.warnings)
        )

    def _mean_the_same(
        self, confidential: ConfidentialVariable, column: Column, classes: EquivalenceClasses
    ) -> Mask:
        """For each class whether its values are nearly one number, or of one group."""
        width = self.close_within * measure_spread(confidential, column)
        near: Mask = find_closest(confidential, column, classes, width) >= self.close_share
        groups = group_by_meaning(confidential, column)
        if groups is not None:
            near |= _have_one_value(unite_groups(confidential, groups).variable, classes)
        return near


@dataclass(frozen=True, eq=False)
class _Disclosure:
    """What the classes give away about some variables."""

    names: tuple[str, ...]
    table: pl.DataFrame
    records: pl.DataFrame
    details: dict[str, Any]
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    def find_worst(self) -> dict[str, Any]:
        """The numbers of the variable that most is learned of, also as targets see them."""
        # The first of equals, so that the order of the variables decides and nothing else.
        worst = self.table.row(self.table["disclosed_records"].arg_max() or 0, named=True)
        names = ("attribute_disclosure", "disclosed_records")
        return {
            **{name: worst[name] for name in names},
            **{
                f"{name}{AT_WORST}": self.details.get(f"{name}{AT_WORST}", worst[name])
                for name in names
            },
            "worst_variable": worst["variable"],
        }


def _require_present(
    names: tuple[str, ...], known: tuple[str, ...], data: Dataset, subject: Subject
) -> None:
    if subject == "original":
        data.schema.require(names)
    if gone := [name for name in names if name not in data.schema]:
        raise MeasureError(
            f"The statement is about variables that the released data lack: {', '.join(gone)}.",
            hint="what is not released cannot be learned from it; leave this measure out.",
        )
    require_apart(names, known)


def _disclose_statement(
    data: Dataset, predicate: Predicate, classes: EquivalenceClasses
) -> _Disclosure:
    """Whose class consists only of records that satisfy the statement."""
    evaluation = evaluate_predicate(data, predicate)
    surely = evaluation.surely
    count = classes.units.count_among
    holding = count(surely)
    if not holding:
        raise MeasureError(
            "No record satisfies the statement, so there is no share of them to take.",
            hint="check the values in it, and the kinds of its variables in the schema.",
        )
    disclosing = classes.are_all(surely)
    disclosed = classes.count_in(disclosing)
    # If all cells that may satisfy the statement did.
    at_most = classes.count_in(classes.are_all(evaluation.possibly))
    names = list_variables(predicate)
    table = pl.DataFrame(
        {
            "variable": [", ".join(names)],
            "attribute_disclosure": [disclosed / holding],
            "disclosed_records": [disclosed],
        }
    )
    details: dict[str, Any] = {
        "satisfying_records": holding,
        "may_satisfy_records": count(evaluation.possibly & ~evaluation.surely),
        "disclosed_records_if_all_that_may_satisfy_do": at_most,
        "undecided_for_missing": count(evaluation.unknown),
    }
    records = pl.DataFrame({"satisfies": surely, "disclosed": disclosing[classes.of]})
    # At worst it holds for all that may satisfy it, in classes where it is known to hold for some.
    undecided = (evaluation.possibly | evaluation.unknown) & ~surely
    if not undecided.any():
        return _Disclosure(names, table, records, details, (_WHERE,))
    caught = classes.are_all(surely | undecided) & ~classes.are_all(~surely)
    number = classes.count_in(caught)
    more = count(caught[classes.of] & undecided)
    details |= {
        f"attribute_disclosure{AT_WORST}": number / (holding + more),
        f"disclosed_records{AT_WORST}": number,
    }
    return _Disclosure(names, table, records, details, (_WHERE, _UNDECIDED))


def _add_spellings(
    disclosure: _Disclosure, data: Dataset, predicate: Predicate, classes: EquivalenceClasses
) -> _Disclosure:
    """The same statement about values however they are spelt; targets take the worse."""
    changed, renamed, warnings, columns = [], predicate, [], dict(data.schema)
    for name in list_variables(predicate):
        values, column = data.column(name), data.schema[name]
        if values.dtype != pl.String:
            continue
        constants = [
            constant
            for comparison in list_comparisons(predicate)
            if comparison.variable == name
            for constant in comparison.constants
            if isinstance(constant, str)
        ]
        if column.generalised:
            cells = values.drop_nulls().unique().sort().to_list()
            if infer_cell_type(cells, column, name) != "level":
                continue
            texts, columns[name] = spell_levels([*constants, *cells], column)
            spellings = {
                cell: text
                for cell, text in zip([*constants, *cells], texts, strict=True)
                if cell != text
            }
        else:
            spellings = unite_texts(values, column, constants)
        if not spellings:
            continue
        changed.append(values.replace(spellings))
        renamed = replace_constants(renamed, name, spellings)
        if len({*spellings.values()}) < len({*spellings, *spellings.values()}):
            warnings.append(
                f"'{name}' has {len(spellings)} spellings of values that are written in another "
                "way too. Targets are checked against the statement about values however they are "
                "spelt."
            )
    if not changed:
        return disclosure
    spelt = data.with_columns(pl.DataFrame(changed), Schema(columns))
    united = _disclose_statement(spelt, renamed, classes)
    worst = {
        f"{name}{AT_WORST}": max(
            reading.details.get(f"{name}{AT_WORST}", reading.table[name][0])
            for reading in (disclosure, united)
        )
        for name in ("attribute_disclosure", "disclosed_records")
    }
    return replace(
        disclosure,
        details={**disclosure.details, **worst},
        assumptions=(*disclosure.assumptions, IN_SPELLING),
        warnings=tuple(warnings),
    )


def _describe_near(name: str) -> str:
    """A warning that a class tells nearly what a secret is."""
    return (
        f"In some classes all values of '{name}' lie near each other, or in one group: whoever "
        "finds the class learns the secret nearly. `close_within` says how near."
    )


def _list_numbers(disclosed: int, records: int) -> dict[str, float]:
    """The numbers on which a target may be set."""
    return {"attribute_disclosure": disclosed / records, "disclosed_records": disclosed}


def _have_one_value(confidential: ConfidentialVariable, classes: EquivalenceClasses) -> Mask:
    """For each class whether it shows a single value: what is missing may be that one."""
    both = count_by_class(classes, confidential.codes, len(confidential.distinct))
    # Of a person with several values anybody knows each that all persons of the class have.
    having = classes.sizes
    if confidential.missing:
        having = classes.count_some(confidential.codes >= 0)
    shared: Mask = np.zeros(len(classes), bool)
    shared[both.at[both.counts == having[both.at]]] = True
    return shared


def _have_one_cell(confidential: ConfidentialVariable, classes: EquivalenceClasses) -> Mask:
    """For each class whether it gives the value away that all its records have."""
    one_value = _have_one_value(confidential, classes)
    return (
        one_value & classes.are_all(confidential.codes >= 0) if confidential.missing else one_value
    )
