"""What every measure keeps. A new file in risk/ or utility/ is tested here without a change."""

from __future__ import annotations

import inspect
import json
import math

import numpy as np
import polars as pl
import pytest
from tests.conftest import LIBRARIES, drawn, in_library

import sfumato as sf
from sfumato import catalogue
from sfumato.errors import MeasureError, SfumatoError
from sfumato.measure import Measure
from sfumato.numbers import Number

CASES = [
    pytest.param(name, example, id=f"{name}-{at}")
    for name, measure in catalogue.measures().items()
    for at, example in enumerate(measure.examples)
]
each_measure = pytest.mark.parametrize(("name", "example"), CASES)


def take(name, example, data):
    one = catalogue.measures()[name](**example)
    return one.measure(data) if one.of == "one" else one.measure(data, data)


@each_measure
def test_says_what_it_asks(name, example):
    entry = catalogue.measures()[name]
    doc = inspect.getdoc(entry) or ""
    assert "Question:" in doc
    assert "Assumes:" in doc
    assert ">>>" in doc
    assert entry.__module__ == f"sfumato.{entry.room()}.{name}"
    assert all(one.help for one in catalogue.parameters_of(entry))
    assert set(example) <= {one.name for one in catalogue.parameters_of(entry)}


@each_measure
def test_evidence_is_complete(name, example, cohort):
    found = take(name, example, cohort)
    assert found.name == name
    assert math.isfinite(found.value)
    assert found.assumptions
    assert found.direction in ("lower", "higher")
    entry = catalogue.measures()[name]
    assert {number.name for number in entry.numbers[1:]} <= set(found.details)
    for number in entry.numbers:
        value = found.number(number.name)
        assert math.isnan(value) or number.lowest <= value <= number.highest
        # Of a risk people must be told which way is safer, of a use which way serves them.
        assert (number.safer if entry.room() == "risk" else number.counts) != "neither"
    assert json.dumps(found.plain(), allow_nan=False)
    if found.records is not None:
        assert len(found.records) == len(cohort)


@each_measure
@drawn("seed", range(3))
def test_row_order_does_not_matter(name, example, seed, cohort):
    order = np.random.default_rng(seed).permutation(len(cohort))
    found = take(name, example, cohort)
    other = take(name, example, sf.Dataset(cohort.frame[order], cohort.schema))
    assert other.plain() == found.plain()
    if found.records is not None:
        assert other.records.equals(found.records[order])


@each_measure
@drawn("library", LIBRARIES[1:])
def test_all_libraries_give_the_same_numbers(name, example, library, cohort_frame):
    schema = sf.datasets.cohort_schema()
    found = [
        take(name, example, sf.Dataset(in_library(cohort_frame, each), schema)).plain()
        for each in (LIBRARIES[0], library)
    ]
    assert found[0] == found[1]


@each_measure
def test_data_stay_untouched(name, example, cohort):
    before = cohort.frame.clone()
    take(name, example, cohort)
    assert cohort.frame.equals(before)


ODD = {
    "one row": {
        # Risk: one record that nobody protects is at the worst; nothing is known of its dependence.
        "attribute_disclosure-0": 1, "attribute_disclosure-1": 1, "attribute_disclosure-4": 1,
        "closeness": 0, "composition": 1, "diversity": 1, "identifiers_left": 1, "interval": 1,
        "k_of_items": 1,
        "mixed_h_index": 1, "mixed_linkage": 1, "peers": 1, "recoverable": 0, "reidentification": 1,
        "singling_out": 1, "surviving_identifiers": 1, "uniqueness": 1, "untouched": 1,
        # Utility: the same data lose nothing.
        "displacement": 0, "information_loss": 0, "marginals": 0, "masked_cells": 0, "moments": 0,
        "weighted_estimates": 0,
    },
    "all missing": {
        # Twenty equal records, of which nobody has a secret.
        "closeness": 0, "composition": 20, "diversity": 1, "diversity-1": 0, "identifiers_left": 0,
        "peers": 1,
        "recoverable": 0, "reidentification": 0, "uniqueness": 0, "untouched": 0, "marginals": 0,
    },
}  # fmt: skip
"""What measures say of odd data, held against themselves. All that are not here must refuse."""


@each_measure
@pytest.mark.parametrize("odd", ["empty", "one row", "all missing"])
def test_odd_data_are_never_called_safe_by_accident(name, example, odd, cohort_frame, request):
    frame = {
        "empty": cohort_frame.clear(),
        "one row": cohort_frame.head(1),
        "all missing": cohort_frame.head(20).with_columns(
            pl.lit(None).cast(dtype).alias(one) for one, dtype in cohort_frame.schema.items()
        ),
    }[odd]
    data = sf.Dataset(frame, sf.datasets.cohort_schema())
    said = ODD.get(odd, {})
    value = said.get(request.node.callspec.id.removeprefix(f"{odd}-"), said.get(name))
    if value is None:
        with pytest.raises(
            MeasureError, match=r"(?i)record|value|level|variable|vary|compare|outcome"
        ):
            take(name, example, data)
    else:
        assert take(name, example, data).value == pytest.approx(value, abs=1e-12)


@each_measure
def test_survives_the_plan_file(name, example):
    plan = sf.Plan(evaluate={"label": catalogue.measures()[name](**example)})
    assert sf.Plan.parse(plan.text(comments=True)) == plan


def test_a_measure_that_fails_is_no_number_and_meets_no_target(cohort):
    none = cohort.with_schema(dict.fromkeys(cohort.columns, "other"))
    found = sf.assess(none, ["uniqueness"])["uniqueness"]
    assert math.isnan(found.value)
    assert "known to outsiders" in found.reason
    plan = sf.Plan(schema=none.schema, targets={"uniqueness.max": 0.99})
    with pytest.raises(SfumatoError, match="targets missed"):
        sf.protect(none, plan, key=bytes(32))


def test_no_number_belongs_to_two_measures():
    # A bare target such as `k.min` must mean one thing, whatever files are added.
    told = [number.name for one in catalogue.measures().values() for number in one.numbers]
    assert sorted(told) == sorted(set(told))


def test_a_measure_that_takes_no_engine_is_refused_when_it_is_defined():
    with pytest.raises(TypeError, match=r"Old.compare lacks a parameter of compare\(self"):

        class Old(Measure):
            name = "old"
            numbers = (Number.share("old"),)

            def compare(self, original, released):  # type: ignore[override]
                return released


def test_a_measure_says_what_its_value_means():
    with pytest.raises(TypeError, match=r"Mute.numbers must begin with Number\(name=\"mute\""):

        class Mute(Measure):
            name = "mute"
