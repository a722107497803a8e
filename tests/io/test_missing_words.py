"""Words for "no value" among numbers are read as missing, named and counted; text stays text."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.io import SourceTable, csv_reader, read_table
from sfumato.io.missing_words import is_word_for_missing
from sfumato.suggestion.first_plan import first_plan

Read = Callable[..., SourceTable]


def read_cells(read: Read, cells: list[str], **options: object) -> SourceTable:
    return read("x|y\n" + "".join(f"{cell}|a\n" for cell in cells), **options)


@pytest.mark.parametrize(
    ("cells", "kind", "values"),
    [
        (["1", "2", "N"], "integer", [1, 2, None]),
        (["1.5", "Refused", "2", "don't know"], "number", [1.5, None, 2.0, None]),
        (["3", "4", "keine Angabe", ""], "integer", [3, 4, None, None]),
        (["3", "4", "Weiß nicht"], "integer", [3, 4, None]),
        (
            ["2020-01-31", "2020-02-01", "unknown"],
            "date",
            [date(2020, 1, 31), date(2020, 2, 1), None],
        ),
    ],
)
def test_words_among_numbers_are_missing(
    read: Read, cells: list[str], kind: str, values: list[object]
) -> None:
    table = read_cells(read, cells)
    reading = table.source.columns["x"]
    assert (reading.type, table.frame["x"].to_list()) == (kind, values)
    words = {cell for cell in cells if cell and not cell[0].isdigit()}
    assert set(reading.missing) == words
    assert table.source.options["missing"] == {"x": sorted(words)}
    (note,) = [note for note in table.source.notes if "read as missing" in note]
    assert f"x ({sum(cell in words for cell in cells)})" in note


@pytest.mark.parametrize(
    "cells",
    [
        ["1", "2", "<5"],  # below the limit of detection is no missing value
        ["1", "2", "ND"],
        ["1", "N", "N"],  # yes and no, perhaps
        ["Y", "N"],
        ["N", "N"],
        ["1", "2", "N", "high"],
        ["01067", "10115", "N"],
        ["1", "2", *(f"refused {number}" for number in range(9))],
    ],
)
def test_other_words_leave_text(read: Read, cells: list[str]) -> None:
    table = read_cells(read, cells)
    assert table.source.columns["x"].type == "text"
    assert table.frame["x"].to_list() == cells
    assert "missing" not in table.source.options


def test_declared_tokens_win(read: Read) -> None:
    assert read_cells(read, ["1", "2", "N"], missing=["?"]).source.columns["x"].type == "text"
    declared = read_cells(read, ["1", "2", "N"], missing={"y": ["?"]})
    assert declared.source.options["missing"] == {"y": ["?"], "x": ["N"]}


def test_several_words_are_said_not_to_be_told_apart(read: Read) -> None:
    notes = read_cells(read, ["1", "2", "N", "Refused"]).source.notes
    assert any("which of them a cell had is not kept" in note for note in notes)


CELLS = st.lists(
    st.sampled_from(["1", "2", "17", "2.5", "N", "Refused", "", "NA", "x", "007"]),
    min_size=1,
    max_size=12,
)


@settings(max_examples=40, deadline=None)
@given(cells=CELLS, data=st.data())
def test_neither_batches_nor_the_order_of_records_make_a_difference(
    cells: list[str], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("words")
    order = data.draw(st.permutations(range(len(cells))))
    lines = [f"{cell}|{'a' * 30}\n" for cell in cells]
    whole, batches = folder / "whole.csv", folder / "batches.csv"
    whole.write_text("x|y\n" + "".join(lines))
    batches.write_text("x|y\n" + "".join(lines[place] for place in order))
    expected = read_table(whole)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_reader, "BATCH_BYTES", 40)
        table = read_table(batches)
    assert table.source.columns["x"].type == expected.source.columns["x"].type
    assert table.source.columns["x"].missing == expected.source.columns["x"].missing
    assert table.frame["x"].to_list() == [expected.frame["x"][place] for place in order]
    if expected.source.columns["x"].type != "text":
        notes = [n for n in expected.source.notes if "missing" in n]
        assert [n for n in table.source.notes if "missing" in n] == notes


def test_the_plan_reads_alike_and_the_release_says_what_was_missing(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    rows = [f"{20 + number % 40},{'N' if number % 3 else number % 7}" for number in range(60)]
    path.write_text("age,income\n" + "\n".join(rows) + "\n")
    data = sf.read(path)
    plan = first_plan(data)
    assert plan.read["missing"] == {"income": ["N"]}
    again = sf.Plan.parse(plan.text(comments=True))
    assert sf.read(path, **again.read).frame.equals(data.frame)
    release = sf.protect(sf.read(path, **again.read), sf.Plan(schema=plan.schema), key=bytes(32))
    assert release.manifest["variables"]["income"]["missing_tokens"] == ["N"]
    assert "missing_tokens" not in release.manifest["variables"]["age"]


def test_words_are_known_in_many_spellings() -> None:
    for word in ("REFUSED", " n ", "Don\u2019t know", "nicht_zutreffend", "Non concerné", "k.A."):
        assert is_word_for_missing(word)
    for word in ("no", "none of these", "M", "ND", "0", ""):
        assert not is_word_for_missing(word)
