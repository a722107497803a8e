"""Whose confidential values are known as soon as their class is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import polars as pl
from pydantic import field_validator, model_validator

from sfumato.cells.classes import EquivalenceClasses, find_equivalence_classes
from sfumato.cells.confidential import (
    ConfidentialVariable,
    count_by_class,
    encode_confidential,
    require_apart,
    select_confidential,
)
from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence, Subject
from sfumato.kernels.arrays import Mask
from sfumato.measure import Measure
from sfumato.parameters import parameters
from sfumato.risk._disclosure.evaluation import evaluate_predicate
from sfumato.risk._disclosure.predicate import Predicate, list_variables, parse
from sfumato.risk._known import describe_known, known_variables

_WHERE = (
    "Missing satisfies no statement, nor its opposite. A range, set or mask satisfies a statement "
    "only if all its values do."
)
_VALUES = "Missing is no value that could be learned, but one by which records differ."


@parameters
class AttributeDisclosure(Measure):
    """Share of records whose confidential value is known to whoever finds their class.

    Question: of how many persons does one learn that a statement holds, such as a charge above
    100,000, because it holds for everybody who looks like them?
    Assumes: the outsider knows that the person is in the data, and knows the exact values of
    `known`. A class is the records that share those values; missing is a value there. With `where`,
    the share is of the records that satisfy it: those in a class where all do. Without, it is of
    all records: those in a class with a single value, for the worst confidential variable.

    Parameters
    ----------
    known : the variables the outsider knows. Default: all whose role is "quasi".
    where : a statement about variables: `charge > 100000`, `diagnosis == "AIDS"`,
        `diagnosis in ["a", "b"]`, `10 <= age < 20`, joined by and, or, not. Odd names stand in
        backticks, dates in quotes: "2020-01-31", which is the whole day.
    confidential : without `where`, the variables nobody should learn. Default: all whose role is
        "sensitive".

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"age": [30, 30, 41, 41], "charge": [150, 120, 300, 90]})
    >>> data = sf.Dataset(frame, sf.Schema({"age": "quasi", "charge": "sensitive"}))
    >>> found = AttributeDisclosure(where="charge > 100").measure(data)
    >>> round(found.value, 3), found.details["disclosed_records"]
    (0.667, 2)

    References: Sánchez, Martínez & Domingo-Ferrer (2016), Science 351:1274, Eq. 5.
    """

    name = "attribute_disclosure"
    examples = (
        {},
        {"known": ["sex", "region", "education"], "confidential": ["smoking", "diagnosis"]},
        {"known": ["sex", "region", "children"], "where": "income > 40000"},
        {"where": 'diagnosis in ["E11", "E66"] or not systolic < 140'},
    )
    provides = ("disclosed_records",)
    reach = {  # noqa: RUF012 - a class variable by its base
        "attribute_disclosure": (0.0, 1.0),
        "disclosed_records": (0.0, math.inf),
    }
    known: list[str] | None = None
    where: str | None = None
    confidential: list[str] | None = None

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
        return self

    def look(self, data: Dataset, subject: Subject) -> Evidence:
        """Find the classes that give the answer away."""
        known = known_variables(self.known, data, subject)
        classes = find_equivalence_classes(data, known)
        if self.where is None:
            names = select_confidential(self.confidential, known, data, subject)
            disclosure = _disclose_values(data, names, classes)
        else:
            predicate = parse(self.where)
            names = list_variables(predicate)
            _require_present(names, known, data, subject)
            disclosure = _disclose_statement(data, predicate, classes)
        return Evidence(
            name=self.name,
            subject=subject,
            value=max(disclosure.table[self.name]),
            direction=self.direction,
            records=data.like(disclosure.records),
            table=data.like(disclosure.table),
            details={
                "disclosed_records": max(disclosure.table["disclosed_records"]),
                **disclosure.details,
                "records": len(data),
                "classes": len(classes),
                "smallest_class": int(classes.sizes.min()),
                "known": ", ".join(known),
                "confidential": ", ".join(names),
            },
            assumptions=(describe_known(known), *disclosure.assumptions),
            audience="public" if subject == "released" else "custodian",
        )


@dataclass(frozen=True, eq=False)
class _Disclosure:
    """What the classes give away."""

    table: pl.DataFrame
    records: pl.DataFrame
    details: dict[str, Any]
    assumptions: tuple[str, ...]


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
    holding = int(evaluation.surely.sum())
    if not holding:
        raise MeasureError(
            "No record satisfies the statement, so there is no share of them to take.",
            hint="check the values in it, and the kinds of its variables in the schema.",
        )
    disclosed = evaluation.surely & _is_throughout(evaluation.surely, classes)
    # If all cells that may satisfy the statement did.
    at_most = int((evaluation.possibly & _is_throughout(evaluation.possibly, classes)).sum())
    table = pl.DataFrame(
        {
            "variable": [", ".join(list_variables(predicate))],
            "attribute_disclosure": [int(disclosed.sum()) / holding],
            "disclosed_records": [int(disclosed.sum())],
        }
    )
    details = {
        "satisfying_records": holding,
        "may_satisfy_records": int((evaluation.possibly & ~evaluation.surely).sum()),
        "disclosed_records_if_all_that_may_satisfy_do": at_most,
        "undecided_for_missing": int(evaluation.unknown.sum()),
    }
    records = pl.DataFrame({"satisfies": evaluation.surely, "disclosed": disclosed})
    return _Disclosure(table, records, details, (_WHERE,))


def _is_throughout(flags: Mask, classes: EquivalenceClasses) -> Mask:
    """For each record whether all records of its class are flagged."""
    complete = np.ones(len(classes), bool)
    complete[classes.of[~flags]] = False
    return complete[classes.of]


def _disclose_values(
    data: Dataset, names: tuple[str, ...], classes: EquivalenceClasses
) -> _Disclosure:
    """Whose class has a single value, variable by variable."""
    rows, learned, empty = [], np.zeros(len(data), np.int64), []
    remarks: tuple[str, ...] = ()
    for name in names:
        confidential = encode_confidential(data, name)
        remarks += confidential.remarks
        flags = (confidential.codes >= 0) & _has_single_value(confidential, classes)
        learned += flags
        empty += [] if len(confidential.distinct) else [name]
        count = int(flags.sum())
        rows.append(
            {
                "variable": name,
                "attribute_disclosure": count / len(data),
                "disclosed_records": count,
            }
        )
    if len(empty) == len(names):
        raise MeasureError(
            f"No record has a value that could be learned: {', '.join(empty)}.",
            hint="are the confidential variables all missing?",
        )
    records = pl.DataFrame({"disclosed_variables": learned, "disclosed": learned > 0})
    details = {"records_with_any_value_disclosed": int((learned > 0).sum())}
    return _Disclosure(pl.DataFrame(rows), records, details, (_VALUES, *dict.fromkeys(remarks)))


def _has_single_value(confidential: ConfidentialVariable, classes: EquivalenceClasses) -> Mask:
    """For each record whether all records of its class have the same cell."""
    both = count_by_class(classes, confidential.codes + np.int32(1), len(confidential.distinct) + 1)
    alone: Mask = np.bincount(both.at, minlength=len(classes)) == 1
    return alone[classes.of]
