"""Crosstabs and pivots as people call them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import LIBRARIES, drawn, in_library
from tests.outputs.tables import attacker

import sfumato as sf
from sfumato.errors import DataError, PlanError, SchemaError
from sfumato.outputs import OutputRefused, Rules

OPEN = Rules(zeros="show", full="show")


def people(cells: dict[tuple[str, str], int]) -> pl.DataFrame:
    rows = [pair for pair, count in cells.items() for _ in range(count)]
    return pl.DataFrame(rows, schema=["row", "column"], orient="row")


CELLS = {
    ("a", "x"): 20,
    ("a", "y"): 2,
    ("b", "x"): 30,
    ("b", "y"): 40,
    ("c", "x"): 9,
    ("c", "y"): 7,
}


@drawn("library", LIBRARIES)
def test_the_same_table_in_every_library(library):
    table = sf.tables.crosstab(in_library(people(CELLS), library), "row", "column")
    expected = sf.tables.crosstab(people(CELLS), "row", "column")
    assert table.cells.equals(expected.cells)
    assert type(table.frame).__module__.startswith(library)
    assert str(table) == str(expected)


def test_pandas_frames_look_like_pandas_crosstab():
    frame = people({pair: count + 5 for pair, count in CELLS.items()}).to_pandas()
    ours = sf.tables.crosstab(frame, "row", "column").frame
    theirs = pd.crosstab(frame["row"], frame["column"], margins=True)
    assert ours.astype(int).to_numpy().tolist() == theirs.to_numpy().tolist()
    assert list(ours.index) == list(theirs.index)
    assert list(ours.columns) == list(theirs.columns)
    assert (ours.index.name, ours.columns.name) == ("row", "column")


@settings(max_examples=8)
@given(st.permutations(range(108)))
def test_the_order_of_records_changes_nothing(order):
    frame = people(CELLS).with_columns(
        value=pl.Series(np.random.default_rng(0).lognormal(size=108))
    )
    call: dict[str, Any] = {
        "values": "value",
        "aggregate": ["count", "sum", "mean", "std", "median"],
    }
    expected = sf.tables.crosstab(frame, "row", "column", **call)
    found = sf.tables.crosstab(frame[list(order)], "row", "column", **call)
    assert found.cells.equals(expected.cells)


def test_the_trap_of_acro_a_hidden_cell_cannot_be_subtracted():
    table = sf.tables.crosstab(people(CELLS), "row", "column", rules=OPEN)
    assert table.verdict == "pass"
    shown = table.known["count"].cells
    found = attacker.linear((3, 2), shown)
    low, high = found[1]
    assert low <= 0
    assert high >= 3
    assert table.cells.filter(pl.col("hidden"))["value"].null_count() == 4


def test_nothing_in_a_table_holds_what_is_hidden():
    table = sf.tables.crosstab(people(CELLS | {("a", "y"): 1}), "row", "column", rules=OPEN)
    assert np.isnan(table.shown["count"][1])
    assert all(np.isnan(known.cells[1]) for known in table.known.values())
    for text in (
        table.to_html(),
        table.to_markdown(),
        table.to_csv(),
        table.to_latex(),
        str(table),
    ):
        assert "hidden" in text or "cdot" in text
    kept = [value for name, value in vars(table).items() if name != "cells"]
    assert not any(isinstance(value, (pl.DataFrame, sf.Dataset)) for value in kept)


def test_attack_of_a_table_agrees_with_the_other_attacker():
    table = sf.tables.crosstab(people(CELLS), "row", "column")
    expected = attacker.linear((3, 2), table.known["count"].cells)
    found = table.attack()
    ends = np.array(sorted(zip(found["low"], found["high"], strict=True)))
    assert ends == pytest.approx(np.array(sorted(expected.values())))


def test_missing_is_a_level_or_left_out_and_said():
    frame = people(CELLS).with_columns(
        row=pl.when(pl.int_range(pl.len()) % 5 == 0).then(None).otherwise("row")
    )
    level = sf.tables.crosstab(frame, "row", "column")
    assert "(missing)" in level.labels[0]
    assert level.shown["count"][-1] == 108
    left = sf.tables.crosstab(frame, "row", "column", missing="leave out")
    assert left.shown["count"][-1] < 108
    assert "20 %" in left.notes[0]


def test_shares_never_show_a_hidden_whole():
    table = sf.tables.crosstab(people(CELLS), "row", "column", normalize="index")
    assert table.shown["count"].reshape(4, 3)[1].tolist() == pytest.approx([3 / 7, 4 / 7, 1])
    plain = sf.tables.crosstab(people(CELLS), "row", "column")
    assert (np.isnan(table.shown["count"]) >= np.isnan(plain.shown["count"])).all()
    with pytest.raises(PlanError, match="shares"):
        sf.tables.crosstab(
            people(CELLS).with_columns(value=1.0), "row", values="value", aggregate="mean",
            normalize=True,
        )  # fmt: skip


def test_rounded_tables_add_up():
    table = sf.tables.crosstab(people(CELLS), "row", "column", protection="round", base=5)
    cells = table.shown["count"].reshape(4, 3)
    assert (cells % 5 == 0).all()
    assert cells[:3, :2].sum() == cells[3, 2]
    found = table.attack()
    assert (found["high"] - found["low"] >= 4).all()
    with pytest.raises(PlanError, match="at least k"):
        sf.tables.crosstab(people(CELLS), "row", protection="round", base=2)
    with pytest.raises(PlanError, match="suppress"):
        sf.tables.crosstab(people(CELLS), "row", protection="supress")  # type: ignore[arg-type]


def test_nested_rows_have_subtotals_that_hold():
    cells = {("n", "n1"): 2, ("n", "n2"): 14, ("s", "s1"): 11, ("s", "s2"): 12, ("s", "s3"): 13}
    frame = people(cells).with_columns(sex=pl.Series(["f", "m"] * 26))
    table = sf.tables.crosstab(frame, ["row", "column"], "sex", subtotals=True)
    assert ("n", "All") in [table.names_of(place, row=True) for place in table.down]
    assert ("n", "s1") not in [table.names_of(place, row=True) for place in table.down]
    shown = table.known["count"].cells
    found = attacker.linear(table.lattice.sizes, shown)
    counts = table.lattice.with_margins(
        frame.group_by("row", "column", "sex").len().pipe(_cube, table)
    )
    for cell in np.flatnonzero((counts > 0) & (counts < 3)):
        assert found[int(cell)][0] <= 1e-6
        assert found[int(cell)][1] >= 3 - 1e-6


def _cube(counts, table):
    inside = np.zeros(table.lattice.sizes)
    for row, column, sex, count in counts.iter_rows():
        inside[
            tuple(
                labels.index(one)
                for labels, one in zip(table.labels, (row, column, sex), strict=True)
            )
        ] = count
    return inside


def test_what_asks_for_a_second_look_is_said():
    full = {("a", "x"): 20, ("b", "x"): 10, ("b", "y"): 10}
    table = sf.tables.crosstab(people(full), "row", "column")
    assert table.verdict == "review"
    assert any("one cell" in reason for reason in table.reasons)
    assert any("empty" in reason for reason in table.reasons)
    rare = sf.tables.crosstab(
        people({("a", "x"): 20, ("b", "x"): 20, ("c", "x"): 1}), "row", rules=OPEN
    )
    assert rare.verdict == "review"
    assert "'row'" in rare.reasons[0]
    hidden = sf.tables.crosstab(people(full), "row", "column", rules=Rules(full="hide"))
    assert np.isnan(hidden.shown["count"][0])


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        ({"rows": "rwo"}, SchemaError, "did you mean 'row'"),
        ({"rows": "row", "columns": "row"}, DataError, "twice"),
        ({"rows": "row", "aggregate": "mean"}, PlanError, "of which variable"),
        ({"rows": "row", "aggregate": "meen"}, PlanError, "did you mean 'mean'"),
        ({"rows": "row", "values": "column", "aggregate": "mean"}, DataError, "no numbers"),
        ({"rows": "row", "k": 2}, PlanError, "3 or more"),
        ({"rows": "row", "k": 107}, OutputRefused, "105 at most"),
        ({"rows": "row", "missing": "drop"}, PlanError, "leave out"),
        ({"rows": "row", "normalize": "rows"}, PlanError, "normalize"),
        ({"rows": []}, DataError, "at least one"),
        ({"rows": "row", "rules": "rules.toml"}, PlanError, "Rules.load"),
    ],
)
def test_what_cannot_be_is_refused_in_words(call, error, match):
    with pytest.raises(error, match=match):
        sf.tables.crosstab(people(CELLS), **call)


def test_too_few_records_and_too_many_levels_are_refused():
    with pytest.raises(OutputRefused, match="at least 10"):
        sf.tables.crosstab(people({("a", "x"): 9}), "row")
    numbers = pl.DataFrame({"age": range(90)})
    with pytest.raises(OutputRefused, match="30 at most"):
        sf.tables.crosstab(numbers, "age")
    with pytest.raises(OutputRefused, match="at least 10"):
        sf.tables.crosstab(people({}), "row")
    person = sf.Dataset(people(CELLS), sf.Schema({"row": "direct"}))
    with pytest.raises(OutputRefused, match="names people"):
        sf.tables.crosstab(person, "row")


def test_odd_names_and_labels_come_through():
    frame = (
        people(CELLS)
        .rename({"row": "value", "column": "hidden"})
        .with_columns(value=pl.col("value").replace({"a": "All", "b": "=1+1", "c": "<b>&|_"}))
    )
    table = sf.tables.crosstab(frame, "value", "hidden")
    assert table.labels[0][-1] == "All*"
    assert "<b>" not in table.to_html()
    assert "\\|" in table.to_markdown()
    assert "'=1+1" in table.to_csv()
    assert r"\&" in table.to_latex()
    assert len(set(table.cells.columns)) == len(table.cells.columns)


def test_levels_of_every_type(tmp_path):
    frame = pl.DataFrame(
        {
            "flag": [True, False] * 20,
            "number": [1.5, -2.0] * 20,
            "day": [dt.date(2020, 1, 1), None] * 20,
        }
    )
    for name in ("flag", "number", "day"):
        table = sf.tables.crosstab(frame, name)
        assert table.shown["count"].tolist() == [20, 20, 40]
    assert sf.tables.crosstab(frame, "number").labels[0][:2] == ("-2.0", "1.5")
    path = tmp_path / "table.csv"
    sf.tables.crosstab(frame, "flag", "number").to_csv(path)
    assert pl.read_csv(path).height == 9
    with pytest.raises(DataError, match="already"):
        sf.tables.crosstab(frame, "flag").to_csv(path)


def test_declared_levels_keep_their_order():
    column = sf.Column(kind="ordinal", domain=("c", "a", "b"))
    data = sf.Dataset(people(CELLS), sf.Schema({"row": column}))
    assert sf.tables.crosstab(data, "row").labels[0] == ("c", "a", "b", "All")


def test_names_of_levels_are_no_html_and_no_links_in_markdown():
    levels = ["<script>alert(1)</script>", "[a](javascript:x)"]
    frame = pl.DataFrame({"row": levels * 20})
    text = sf.tables.crosstab(frame, "row").to_markdown()
    assert "<script" not in text
    assert "| [a](" not in text
