"""Figures, tables and models with a link on a real Spark: only counts and sums come back."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from tests.engines.spark_frames import upload
from tests.figures.public.test_distant import (
    FIGURES,
    REFUSED,
    TABLES,
    assert_same_figure,
    assert_same_table,
)
from tests.utility.models.test_distributed import assert_close, disturb, simulate

import sfumato as sf
from sfumato.errors import DataError, MethodError

pytestmark = [
    pytest.mark.spark,
    # Py4J leaves its sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
Pair = tuple[sf.Dataset, sf.Dataset]
QUICK = {"groups", "panels", "one box", "complete"}
"""All others are for `make test-all`."""


def mark(names: Any) -> list[Any]:
    return [pytest.param(n, marks=() if n in QUICK else pytest.mark.study) for n in names]


def carry_over(session: Any, data: sf.Dataset) -> sf.Dataset:
    frame = upload(session, data.frame).repartition(3).cache()
    return sf.Dataset(frame, data.schema)


@pytest.fixture(scope="module")
def cohorts(session: Any) -> Pair:
    here = sf.Dataset(sf.datasets.cohort(600), sf.datasets.cohort_schema())
    return here, carry_over(session, here)


@pytest.mark.parametrize("name", mark(FIGURES))
def test_a_figure_is_that_of_one_machine(name: str, cohorts: Pair) -> None:
    here, there = cohorts
    assert_same_figure(FIGURES[name](there), FIGURES[name](here))


@pytest.mark.parametrize("name", mark(TABLES))
def test_a_table_is_that_of_one_machine(name: str, cohorts: Pair) -> None:
    here, there = cohorts
    assert_same_table(TABLES[name](there), TABLES[name](here))


def test_what_needs_the_records_says_so(cohorts: Pair) -> None:
    for name in ("scatter", "noise", "values"):
        with pytest.raises(DataError, match=r"cluster.*Hint"):
            REFUSED[name](cohorts[1])


def test_a_model_with_a_link_is_that_of_one_machine(session: Any) -> None:
    original = simulate(4, 300)
    released = disturb(original, 4)
    there = [carry_over(session, data) for data in (original, released)]
    measure = sf.utility.Coefficients(formula="letter ~ z + group", family="logistic")
    evidence = measure.measure(*there)
    object.__setattr__(evidence, "table", pl.DataFrame(evidence.table))
    assert_close(measure.measure(original, released), evidence)
    with pytest.raises(MethodError, match="A tree is grown in memory only"):
        sf.utility.Propensity(model="tree").measure(*there)
