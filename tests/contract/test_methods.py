"""What every method keeps. A new file in methods/ is tested here without a change."""

from __future__ import annotations

import polars as pl
import pytest
from tests.conftest import drawn

import sfumato as sf
from sfumato import catalogue
from sfumato.testing import METHOD_CHECKS, methods
from sfumato.testing.samples import LIBRARIES

CASES = [
    pytest.param(entry, position, id=f"{name}-{position}")
    for name, entry in catalogue.methods().items()
    for position in range(len(entry.examples))
]
each_method = pytest.mark.parametrize(("entry", "position"), CASES)
_DRAWN = ("row order", "partitions", "input untouched", "libraries")


@each_method
@pytest.mark.parametrize("check", [name for name in METHOD_CHECKS if name not in _DRAWN])
def test_keeps_the_contract(entry, position, check, cohort):
    METHOD_CHECKS[check](entry, position, cohort)


@each_method
@drawn("seed", range(3))
def test_row_order_does_not_matter(entry, position, seed, cohort):
    methods.check_row_order(entry, position, cohort, seed=seed)


@each_method
@drawn("seed", range(3))
def test_partitioning_does_not_matter(entry, position, seed, cohort):
    methods.check_partitions(entry, position, cohort, seed=seed)


@each_method
@drawn("library", LIBRARIES)
def test_input_and_other_variables_stay_untouched(entry, position, library, cohort):
    methods.check_input_untouched(entry, position, cohort, library=library)


@each_method
@drawn("library", LIBRARIES[1:])
def test_all_libraries_give_the_same_values(entry, position, library, cohort):
    methods.check_libraries(entry, position, cohort, library=library)


@pytest.mark.parametrize(("name", "entry"), catalogue.methods().items())
def test_lives_in_the_file_of_its_name(name, entry):
    assert entry.__module__ == f"sfumato.methods.{name}"


def test_infinite_values_are_refused_by_name():
    data = sf.Dataset(pl.DataFrame({"x": [1.0, float("inf")]}), sf.Schema({"x": "quasi"}))
    with pytest.raises(sf.SfumatoError, match="'x' holds infinite"):
        sf.methods.Topcode(variables=["x"], top=1).apply(data)
