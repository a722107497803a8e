"""What every measure keeps. A new file in risk/ or utility/ is tested here without a change."""

from __future__ import annotations

import math

import pytest
from tests.conftest import drawn

import sfumato as sf
from sfumato import catalogue
from sfumato.errors import SfumatoError
from sfumato.measure import Measure
from sfumato.numbers import Number
from sfumato.testing import MEASURE_CHECKS, measures
from sfumato.testing.samples import LIBRARIES

CASES = [
    pytest.param(entry, position, id=f"{name}-{position}")
    for name, entry in catalogue.measures().items()
    for position in range(len(entry.examples))
]
each_measure = pytest.mark.parametrize(("entry", "position"), CASES)
_DRAWN = ("row order", "libraries")


@each_measure
@pytest.mark.parametrize("check", [name for name in MEASURE_CHECKS if name not in _DRAWN])
def test_keeps_the_contract(entry, position, check, cohort):
    MEASURE_CHECKS[check](entry, position, cohort)


@each_measure
@drawn("seed", range(3))
def test_row_order_does_not_matter(entry, position, seed, cohort):
    measures.check_row_order(entry, position, cohort, seed=seed)


@each_measure
@drawn("library", LIBRARIES[1:])
def test_all_libraries_give_the_same_numbers(entry, position, library, cohort):
    measures.check_libraries(entry, position, cohort, library=library)


@pytest.mark.parametrize(("name", "entry"), catalogue.measures().items())
def test_lives_in_the_file_of_its_name(name, entry):
    assert entry.__module__ == f"sfumato.{entry.room()}.{name}"


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
