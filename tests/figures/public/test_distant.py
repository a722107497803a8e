"""Figures and tables of records that are not in memory are those of records that are."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.test_seam import SealedDataset, SealedEngine

import sfumato as sf
from sfumato.data import stream
from sfumato.engines.summaries import Count, Mean, OrderStatistics, Quantile, Summary
from sfumato.errors import DataError, SfumatoError
from sfumato.figures.public import distant, subjects
from sfumato.outputs.output import OutputRefused
from sfumato.testing.partitioned import PartitionedEngine

Call = Callable[[Any], Any]
FIGURES: dict[str, Call] = {
    "histogram": lambda data: sf.plots.histogram(data, "glucose"),
    "groups": lambda data: sf.plots.histogram(data, "income", hue="sex", density=False),
    "wide": lambda data: sf.plots.histogram(data, "income", hue="region", protection="generalise"),
    "whole": lambda data: sf.plots.histogram(data, "children", k=5),
    "limits": lambda data: sf.plots.histogram(data, "height", limits=(150, 190), bins=7),
    "heatmap": lambda data: sf.plots.heatmap(data, "height", "weight_kg"),
    "panels": lambda data: sf.plots.heatmap(
        data, "hdl", "income", hue="smoking", protection="suppress"
    ),
    "contour": lambda data: sf.plots.contour(data, "height", "weight_kg"),
    "box": lambda data: sf.plots.box(data, ["height", "glucose"], by="sex"),
    "one box": lambda data: sf.plots.box(data, "glucose", by="sex"),
    "box of bins": lambda data: sf.plots.box(data, "income", protection="generalise"),
}
TABLES: dict[str, Call] = {
    "counts": lambda data: sf.tables.crosstab(data, ["sex", "region"], "smoking"),
    "complete": lambda data: sf.tables.crosstab(data, "education", "sex", missing="leave out"),
    "rounded": lambda data: sf.tables.crosstab(data, "diagnosis", "sex", protection="round"),
    "shares": lambda data: sf.tables.crosstab(data, "children", normalize=True),
}
REFUSED: dict[str, Call] = {
    "scatter": lambda data: sf.plots.scatter(data, "height", "weight_kg"),
    "density": lambda data: sf.plots.density(data, "height"),
    "violin": lambda data: sf.plots.violin(data, "height"),
    "qq": lambda data: sf.plots.qq(data, "height"),
    "survival": lambda data: sf.plots.survival(data, "height", "sex"),
    "noise": lambda data: sf.plots.histogram(data, "height", protection="noise"),
    "log": lambda data: sf.plots.box(data, "height", log=sf.outputs.Log()),
    "values": lambda data: sf.tables.crosstab(data, "sex", values="height", aggregate="mean"),
    "weights": lambda data: sf.tables.crosstab(data, "sex", weights="survey_weight"),
    "table log": lambda data: sf.tables.crosstab(data, "sex", log=sf.outputs.Log()),
}


@pytest.fixture(scope="module")
def here() -> sf.Dataset:
    return sf.Dataset(sf.datasets.cohort(1500), sf.datasets.cohort_schema())


@pytest.fixture(scope="module")
def there(here: sf.Dataset) -> sf.Dataset:
    return sf.Dataset(here.frame.lazy(), here.schema)


def assert_same_figure(plot: Any, wanted: Any) -> None:
    """The same rows are drawn, under the same caption, with the same verdict."""
    assert plot.table.equals(wanted.table)
    assert plot.caption == wanted.caption
    assert (plot.verdict, plot.reasons) == (wanted.verdict, wanted.reasons)
    assert plot.rule == wanted.rule
    assert plot.details == wanted.details


def assert_same_table(table: Any, wanted: Any) -> None:
    assert str(table) == str(wanted)
    assert (table.verdict, table.reasons) == (wanted.verdict, wanted.reasons)


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_by_batches_is_that_in_memory(
    name: str, here: sf.Dataset, there: sf.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "BATCH", 400)
    assert_same_figure(FIGURES[name](there), FIGURES[name](here))


@pytest.mark.parametrize("name", ["groups", "panels", "box"])
def test_a_figure_of_random_parts_looks_through_verbs_only(
    name: str, here: sf.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records are sealed: nothing but a verb of the engine can look at them."""
    engine = SealedEngine(PartitionedEngine(5))
    sealed = SealedDataset(here.frame, here.schema)
    elsewhere = SimpleNamespace(is_in_memory=lambda _: False)
    monkeypatch.setattr(subjects, "frames", elsewhere)
    monkeypatch.setattr(subjects, "engine_for", lambda _: engine)
    monkeypatch.setattr("sfumato.figures.public.plot.warn_of_shared_persons", lambda *_: ())
    plot = FIGURES[name](sealed)
    monkeypatch.undo()
    assert set(engine.verbs) == {"aggregate", "gather"}
    assert plot.table.equals(FIGURES[name](here).table)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_counts_is_that_in_memory(
    name: str, here: sf.Dataset, there: sf.Dataset
) -> None:
    assert_same_table(TABLES[name](there), TABLES[name](here))


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_the_records_says_so_before_it_looks_at_them(
    name: str, there: sf.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(*args: Any, **options: Any) -> Any:
        raise AssertionError(args, options)

    monkeypatch.setattr("sfumato.engines.streaming.StreamingEngine._read", look)
    with pytest.raises(DataError, match=r"cluster.*Hint"):
        REFUSED[name](there)


def make_odd() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "x": [1.0, 2.0, None] * 20,
            "equal": [3] * 60,
            "far": [*np.arange(59.0), float("inf")],
            "text": ["a", "b"] * 30,
            "few": ["a"] * 57 + ["b"] * 3,
            "many": [str(number) for number in range(60)],
            "person": [number // 2 for number in range(60)],
        }
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda data: sf.plots.histogram(data, "equal"),
        lambda data: sf.plots.histogram(data, "far"),
        lambda data: sf.plots.histogram(data, "text"),
        lambda data: sf.plots.histogram(data, "person"),
        lambda data: sf.plots.histogram(data, "x", hue="many"),
        lambda data: sf.plots.box(data, "x", by="many"),
        lambda data: sf.plots.box(data.frame.head(9), "x"),
        lambda data: sf.tables.crosstab(data, "many"),
    ],
)
def test_odd_data_are_refused_with_the_same_words(call: Call) -> None:
    schema = sf.Schema({"person": "direct"})
    messages = []
    for frame in (make_odd(), make_odd().lazy()):
        with pytest.raises(SfumatoError) as caught:
            call(sf.Dataset(frame, schema))
        messages.append((type(caught.value), str(caught.value)))
    assert messages[0] == messages[1]


def test_persons_with_several_records_ask_for_a_second_look_there_too() -> None:
    schema = sf.Schema({"person": "direct"})
    for frame in (make_odd(), make_odd().lazy()):
        table = sf.tables.crosstab(sf.Dataset(frame, schema), "text")
        assert any("several records" in reason for reason in table.reasons)
        apart = sf.Dataset(frame.with_columns(person=pl.int_range(60)), schema)
        assert not any("several" in reason for reason in sf.tables.crosstab(apart, "text").reasons)


values = st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=60)


@settings(deadline=None, max_examples=40)
@given(values, st.data(), st.integers(0, 99))
def test_order_statistics_of_parts_are_those_of_all(
    numbers: list[float], data: st.DataObject, seed: int
) -> None:
    ranks = data.draw(st.sets(st.integers(0, len(numbers) - 1), min_size=1))
    records = sf.Dataset(pl.DataFrame({"x": numbers}))
    engine = PartitionedEngine(seed)
    known = distant.DistantRecords(records, engine, ("x",), None)
    column = distant.DistantColumn(known, "x", None, len(numbers), min(numbers), max(numbers))
    found = column.order_statistics(np.array(sorted(ranks)))
    assert found.tolist() == [sorted(numbers)[rank] for rank in sorted(ranks)]


@settings(deadline=None, max_examples=40)
@given(values, st.integers(0, 99))
def test_summaries_of_derived_values_are_those_of_the_values(
    numbers: list[float], seed: int
) -> None:
    halves = pl.DataFrame({"x": numbers, "half": [value / 2 for value in numbers]})
    wanted: list[Summary] = [Count(), Mean(), Quantile(0.3), OrderStatistics((0,))]
    derived = PartitionedEngine(seed).aggregate(
        sf.Dataset(halves),
        {"half": wanted},
        derive=lambda batch: {"half": batch["x"] / 2},
        reads=["x"],
    )
    assert derived == PartitionedEngine(seed).aggregate(sf.Dataset(halves), {"half": wanted})


def test_groups_of_few_are_left_out_of_both() -> None:
    frame = make_odd().with_columns(x=pl.int_range(60) % 7)
    captions = []
    for data in (frame, frame.lazy()):
        plot = sf.plots.histogram(sf.Dataset(data), "x", hue="few")
        captions.append((plot.caption, plot.table["group"].unique().to_list()))
    assert captions[0] == captions[1]
    assert captions[0][1] == ["a"]
    with pytest.raises(OutputRefused, match="Fewer than"):
        sf.plots.histogram(sf.Dataset(frame.head(5).lazy()), "x")
