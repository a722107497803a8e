"""Whose confidential values are known as soon as their class is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import polars as pl
from pydantic import field_validator, model_validator

from sfumato.cells.classes import EqualClasses, equal_classes
from sfumato.cells.confidential import Coded, coded, confidential_variables, joint, require_apart
from sfumato.data import Dataset
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence, Subject
from sfumato.kernels.arrays import Mask
from sfumato.measure import Measure
from sfumato.parameters import parameters
from sfumato.risk._disclosure.predicate import Predicate, parse, variables_of
from sfumato.risk._disclosure.satisfied import satisfied
from sfumato.risk._known import known_said, known_variables

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
        classes = equal_classes(data, known)
        if self.where is None:
            names = confidential_variables(self.confidential, known, data, subject)
            found = _values(data, names, classes)
        else:
            predicate = parse(self.where)
            names = variables_of(predicate)
            _require_there(names, known, data, subject)
            found = _statement(data, predicate, classes)
        return Evidence(
            name=self.name,
            subject=subject,
            value=max(found.table[self.name]),
            direction=self.direction,
            records=data.like(found.records),
            table=data.like(found.table),
            details={
                "disclosed_records": max(found.table["disclosed_records"]),
                **found.details,
                "records": len(data),
                "classes": len(classes),
                "smallest_class": int(classes.sizes.min()),
                "known": ", ".join(known),
                "confidential": ", ".join(names),
            },
            assumptions=(known_said(known), *found.assumptions),
            audience="public" if subject == "released" else "custodian",
        )


@dataclass(frozen=True, eq=False)
class _Found:
    """What the classes give away."""

    table: pl.DataFrame
    records: pl.DataFrame
    details: dict[str, Any]
    assumptions: tuple[str, ...]


def _require_there(
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


def _statement(data: Dataset, predicate: Predicate, classes: EqualClasses) -> _Found:
    """Whose class consists only of records that satisfy the statement."""
    found = satisfied(data, predicate)
    holding = int(found.surely.sum())
    if not holding:
        raise MeasureError(
            "No record satisfies the statement, so there is no share of them to take.",
            hint="check the values in it, and the kinds of its variables in the schema.",
        )
    disclosed = found.surely & _throughout(found.surely, classes)
    at_most = int((found.possibly & _throughout(found.possibly, classes)).sum())
    table = pl.DataFrame(
        {
            "variable": [", ".join(variables_of(predicate))],
            "attribute_disclosure": [int(disclosed.sum()) / holding],
            "disclosed_records": [int(disclosed.sum())],
        }
    )
    details = {
        "satisfying_records": holding,
        "may_satisfy_records": int((found.possibly & ~found.surely).sum()),
        "disclosed_records_if_all_that_may_satisfy_do": at_most,
        "undecided_for_missing": int(found.unknown.sum()),
    }
    records = pl.DataFrame({"satisfies": found.surely, "disclosed": disclosed})
    return _Found(table, records, details, (_WHERE,))


def _throughout(flags: Mask, classes: EqualClasses) -> Mask:
    """For each record whether all records of its class are flagged."""
    every = np.ones(len(classes), bool)
    every[classes.of[~flags]] = False
    return every[classes.of]


def _values(data: Dataset, names: tuple[str, ...], classes: EqualClasses) -> _Found:
    """Whose class has a single value, variable by variable."""
    rows, learned, empty = [], np.zeros(len(data), np.int64), []
    said: tuple[str, ...] = ()
    for name in names:
        one = coded(data, name)
        said += one.said
        flags = (one.codes >= 0) & _single(one, classes)
        learned += flags
        empty += [] if len(one.distinct) else [name]
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
    return _Found(pl.DataFrame(rows), records, details, (_VALUES, *dict.fromkeys(said)))


def _single(one: Coded, classes: EqualClasses) -> Mask:
    """For each record whether all records of its class have the same cell."""
    both = joint(classes, one.codes + np.int32(1), len(one.distinct) + 1)
    alone: Mask = np.bincount(both.at, minlength=len(classes)) == 1
    return alone[classes.of]
