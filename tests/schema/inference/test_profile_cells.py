"""Ranges written as text are numbers or dates, not names of groups."""

from __future__ import annotations

import polars as pl
import pytest

import sfumato as sf
from sfumato.schema.inference.profile import infer_cell_kind


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["26", "[24;28]", "*"], "integer"),
        (["-5", "[-9;+3]", "{1;2}", "937**", None], "integer"),
        (["[0.5;2]", "1e3"], "continuous"),
        (["[2020-01-01;2020-12-31]", "2020-02-29"], "date"),
        (["[2020-01-01;2020-02-30]"], None),
        (["2020-01-**"], None),
        (["[a;b]", "1"], None),
        (["[1;2", "1;2]"], None),
        (["[1;2;3]"], None),
        (["[\u0661;\u0662]"], None),
        ([" 1"], None),
        (["*", "*"], None),
        ([], None),
    ],
)
def test_what_cells_are_about(cells, kind):
    assert infer_cell_kind(pl.Series(cells, dtype=pl.String)) == kind


def suggested(**columns):
    return sf.Schema.infer(pl.DataFrame(columns))


def test_a_generalised_variable_is_a_number_with_a_reason():
    found = suggested(
        age=["26", "[24;28]", "*"] * 10,
        length=["[0.5;1.5]", "2", "2"] * 10,
        day=["[2020-01-01;2020-06-30]", "[2020-07-01;2020-12-31]", "*"] * 10,
    )
    assert (found["age"].role, found["age"].kind) == ("quasi", "integer")
    assert "ranges of whole numbers" in found["age"].reason
    assert found["length"].kind == "continuous"
    assert "ranges of numbers" in found["length"].reason
    assert (found["day"].role, found["day"].kind) == ("quasi", "date")
    assert "ranges of dates" in found["day"].reason


def test_bands_in_our_notation_are_generalised_numbers_and_not_levels():
    found = suggested(q1=["[20;29]", "[30;39]"] * 9, q2=["20-29", "30-39"] * 9)
    assert [column.kind for column in found.values()] == ["integer", "ordinal"]


def test_ranges_that_few_records_share_are_no_identifier():
    found = suggested(x=[f"[{at};{at + 1}]" for at in range(40)])
    assert (found["x"].role, found["x"].kind) == (None, "integer")


def test_codes_masks_and_levels_stay_what_they_were():
    found = suggested(
        zip=["937**", "94928", "*"] * 10,
        code=["1", "2", "3"] * 10,
        level=["[low;high]", "low", "*"] * 10,
    )
    assert [column.kind for column in found.values()] == ["nominal"] * 3


STAYS = ["I10;E11;J45", "E11", "I10", "J45; I10", "E11;N18", "N18", "I10;N18;E11"] * 5


def test_lists_of_codes_are_suggested_with_a_reason():
    found = suggested(diagnoses=STAYS, x=STAYS)
    for column in found.values():
        assert (column.cells, column.kind) == ("lists", "text")
        assert 'suggested as cells = "lists"' in column.reason
        assert "I10" not in column.reason
    assert [column.role for column in found.values()] == ["sensitive", None]


def test_lists_that_few_records_share_are_no_identifier():
    codes = [f"{letter}{at}" for letter in "ABC" for at in range(10, 17)]
    lists = [";".join(codes[at % 21 : at % 21 + 1 + at % 5]) for at in range(60)]
    found = suggested(x=lists)
    assert (found["x"].role, found["x"].cells) == (None, "lists")


def test_another_delimiter_is_told_and_not_set():
    found = suggested(dx=[cell.replace(";", "|") for cell in STAYS])
    assert found["dx"].cells is None
    assert 'delimiter = "|"' in found["dx"].reason


@pytest.mark.parametrize(
    "cells",
    [
        ["I10", "E11", "J45"] * 10,  # single codes
        ["51.5;0.1", "52.2;0.3", "53.1;0.1"] * 10,  # pairs, all of one length
        [f"A{at};B{at};C{at}" if at % 2 else f"D{at};E{at}" for at in range(40)],  # none recurs
        ["Anna;Bob", "Bob", "Anna;Carl;Bob"] * 10,  # names
        ["[1;2]", "3", "[1;4]"] * 10,  # ranges
        ["I10;E11", "no diagnosis", "E11;J45;I10"] * 10,  # words among them
        ["I10;E11", *["I10", "E11"] * 20],  # a slip of the pen
    ],
)
def test_what_is_no_list_of_codes(cells):
    column = suggested(x=cells)["x"]
    assert column.cells != "lists"
    assert "lists of codes" not in column.reason


def test_many_variables_are_looked_at_alike():
    alone = suggested(dx=STAYS)["dx"]
    among = suggested(**{f"v{at}": STAYS for at in range(60)}, dx=STAYS)["dx"]
    assert among == alone
