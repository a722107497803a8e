"""Day or month first: all values together tell it, or it is asked."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.io import SourceTable, csv_reader
from sfumato.suggestion.first_plan import first_plan

Read = Callable[..., SourceTable]


def read_cells(read: Read, cells: list[str]) -> SourceTable:
    return read("x|y\n" + "".join(f"{cell}|a\n" for cell in cells))


def test_a_13_in_the_first_place_settles_it(read: Read) -> None:
    table = read_cells(read, ["03.04.2021", "NA", "13.04.2021", ""])
    assert table.frame["x"].to_list() == [date(2021, 4, 3), None, date(2021, 4, 13), None]
    assert table.source.options["dates"] == {"x": "%d.%m.%Y"}
    assert any("day first: in 1 of 2 values" in note for note in table.source.notes)


def test_a_13_in_the_second_place_settles_it_too(read: Read) -> None:
    table = read_cells(read, ["03/04/2021", "04/13/2021"])
    assert table.frame["x"].to_list() == [date(2021, 3, 4), date(2021, 4, 13)]
    assert table.source.options["dates"] == {"x": "%m/%d/%Y"}


def test_times_come_along(read: Read) -> None:
    table = read_cells(read, ["13-04-2021 10:15", "01-02-2021 09:00"])
    assert table.frame["x"][1] == datetime(2021, 2, 1, 9, 0)  # noqa: DTZ001 - as in the file


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        (["03/04/2021", "04/11/2021"], "none of 2 values has a number above 12"),
        (
            ["13/04/2021", "04/13/2021", "14/01/2020"],
            "in 2 values the day must stand first and in 1",
        ),
        (["13/04/21", "04/11/21"], "their years have two digits"),
        (["31.02.2021", "13.04.2021"], "not all are days of the calendar"),
    ],
)
def test_what_is_not_settled_stays_text_and_says_why(
    read: Read, cells: list[str], says: str
) -> None:
    table = read_cells(read, cells)
    reading = table.source.columns["x"]
    assert reading.type == "text"
    assert table.frame["x"].to_list() == cells
    assert says in reading.reason
    assert not any(cell in reading.reason for cell in cells)


def test_a_contradiction_is_a_note(read: Read) -> None:
    notes = read_cells(read, ["13/04/2021", "04/13/2021"]).source.notes
    assert any("'x'" in note and "contradict" in note for note in notes)


DAYS = st.lists(st.dates(date(1900, 1, 1), date(2100, 1, 1)), min_size=1, max_size=8)


@settings(max_examples=40, deadline=None)
@given(days=DAYS, first=st.sampled_from(["%d.%m.%Y", "%m/%d/%Y"]))
def test_never_read_wrongly(
    days: list[date], first: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("dates") / "x.csv"
    path.write_text("x|y\n" + "".join(f"{day.strftime(first)}|a\n" for day in days))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_reader, "BATCH_BYTES", 20)
        table = sf.read(path)
    settled = any(day.day > 12 for day in days)
    if settled:
        assert table.frame["x"].to_list() == days
    else:
        assert table.source is not None
        assert table.source.columns["x"].type == "text"


def test_the_plan_reads_them_alike(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text(
        "birth|y\n"
        + "".join(f"{number % 28 + 1:02}.05.{1950 + number}|1\n" for number in range(40))
    )
    data = sf.read(path)
    plan = sf.Plan.parse(first_plan(data).text(comments=True))
    assert plan.read["dates"] == {"birth": "%d.%m.%Y"}
    assert plan.schema["birth"].kind == "date"
    assert sf.read(path, **plan.read).frame.equals(data.frame)
