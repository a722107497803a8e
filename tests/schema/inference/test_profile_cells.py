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
