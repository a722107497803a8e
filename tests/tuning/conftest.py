"""A small cohort and a small plan, so that a search takes a second or two."""

from __future__ import annotations

import pytest

import sfumato as sf
from sfumato.data import Dataset
from sfumato.plan import Plan

NAMES = ["person_id", "sex", "region", "height", "household_size", "systolic", "diagnosis"]


@pytest.fixture(scope="session")
def people() -> Dataset:
    schema = sf.datasets.cohort_schema()
    frame = sf.datasets.cohort(200).select(NAMES)
    return sf.Dataset(frame, sf.Schema({name: schema[name] for name in NAMES}))


@pytest.fixture(scope="session")
def crowd(people: Dataset) -> Plan:
    """Nobody alone among five, judged by the cheap measure of loss."""
    return sf.Plan(
        schema=people.schema,
        steps=[sf.methods.Drop(), sf.methods.KAnonymity(k=8)],
        targets={"k.min": 5},
        evaluate=[sf.utility.InformationLoss()],
    )


@pytest.fixture(scope="session")
def moved(people: Dataset) -> Plan:
    """Few within a hair of their original, in one measured number."""
    return sf.Plan(
        schema=people.schema,
        steps=[sf.methods.Drop()],
        targets={"stayed.max": 0.2},
        evaluate=[
            sf.utility.Displacement(variables=["systolic"], within=0.05),
            sf.utility.Moments(variables=["systolic"]),
        ],
    )
