"""The cohort's schema, as its custodian would write it by hand."""

from __future__ import annotations

import datetime as dt

from sfumato.datasets.society import (
    DIAGNOSES,
    EDUCATION,
    ETHNICITY,
    MARITAL,
    MOST_CHILDREN,
    REGIONS,
    SEX,
    SMOKING,
)
from sfumato.schema import Column, Schema

FIRST_BIRTH = dt.date(1958, 1, 1)
LAST_BIRTH = dt.date(1970, 12, 31)

BOUNDS: dict[str, tuple[float, float]] = {
    "income": (0, 5_000_000),
    "height": (120.0, 230.0),
    "weight_kg": (30.0, 250.0),
    "glucose": (2.0, 40.0),
    "hdl": (0.3, 6.0),
    "systolic": (70, 260),
    "survey_weight": (50.0, 2500.0),
    "exam_score": (0.0, 100.0),
}
"""What an instrument or a questionnaire would accept. Nothing in the cohort lies outside."""


def cohort_schema() -> Schema:
    """Roles, kinds, domains and accessibility of every variable of `cohort`.

    Examples
    --------
    >>> cohort_schema().having("direct")
    ('person_id', 'name', 'email', 'nhs_number', 'address')
    """
    return Schema({**_identifiers(), **_background(), **_sensitive()})


def _identifiers() -> dict[str, Column]:
    return {
        "person_id": Column(role="direct", kind="text", accessibility=0.1),
        "name": Column(role="direct", kind="text", accessibility=1.0),
        "email": Column(role="direct", kind="text", accessibility=0.8),
        "nhs_number": Column(role="direct", kind="text", accessibility=0.2),
        "address": Column(role="direct", kind="text", accessibility=0.9),
    }


def _background() -> dict[str, Column]:
    broader = {level: (group,) for level, (_, _, group) in ETHNICITY.items()}
    return {
        "postcode": Column(role="quasi", kind="text", accessibility=0.9),
        "birth_date": Column(
            role="quasi", kind="date", domain=(FIRST_BIRTH, LAST_BIRTH), accessibility=0.8
        ),
        "sex": Column(role="quasi", kind="nominal", domain=SEX, accessibility=1.0),
        "ethnicity": Column(
            role="quasi",
            kind="nominal",
            domain=tuple(ETHNICITY),
            hierarchy=broader,
            accessibility=0.8,
        ),
        "region": Column(role="quasi", kind="nominal", domain=tuple(REGIONS), accessibility=1.0),
        # No domain: a larger cohort has more schools.
        "school": Column(role="cluster", kind="nominal", accessibility=0.7),
        "household_size": Column(
            role="quasi", kind="integer", domain=(1, MOST_CHILDREN + 4), accessibility=0.7
        ),
        "marital_status": Column(
            role="quasi", kind="nominal", domain=tuple(MARITAL), accessibility=0.8
        ),
        "education": Column(
            role="quasi", kind="ordinal", domain=tuple(EDUCATION), accessibility=0.6
        ),
    }


def _sensitive() -> dict[str, Column]:
    def measured(name: str, accessibility: float) -> Column:
        return Column(
            role="sensitive", kind="continuous", domain=BOUNDS[name], accessibility=accessibility
        )

    def whole(name: str, accessibility: float) -> Column:
        return Column(
            role="sensitive", kind="integer", domain=BOUNDS[name], accessibility=accessibility
        )

    chapters = {code: (chapter,) for code, (chapter, _, _) in DIAGNOSES.items()}
    return {
        "smoking": Column(
            role="sensitive", kind="nominal", domain=tuple(SMOKING), accessibility=0.5
        ),
        "income": whole("income", 0.2),
        # Anybody who meets the person sees it.
        "height": Column(
            role="quasi", kind="continuous", domain=BOUNDS["height"], accessibility=0.5
        ),
        "weight_kg": measured("weight_kg", 0.3),
        "glucose": measured("glucose", 0.0),
        "hdl": measured("hdl", 0.0),
        "systolic": whole("systolic", 0.05),
        "diagnosis": Column(
            role="sensitive",
            kind="nominal",
            domain=tuple(DIAGNOSES),
            hierarchy=chapters,
            accessibility=0.1,
        ),
        "children": Column(
            role="quasi", kind="integer", domain=(0, MOST_CHILDREN), accessibility=0.8
        ),
        "survey_weight": Column(
            role="weight", kind="continuous", domain=BOUNDS["survey_weight"], accessibility=0.0
        ),
        "exam_score": measured("exam_score", 0.2),
    }
