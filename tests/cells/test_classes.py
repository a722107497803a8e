from __future__ import annotations

import datetime as dt
import math
from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.cells.classes import classify_records, find_equivalence_classes
from sfumato.engines import LocalEngine

LONG = "x" * 300
CELLS: dict[Any, list[Any]] = {
    pl.String: ["", "a", "A", "a ", LONG, LONG + "y", "é", "e\u0301", "\0"],
    pl.Int64: [-(2**63), -1, 0, 1, 2**31, 2**63 - 1],
    pl.UInt64: [0, 1, 2**64 - 1],
    pl.Int8: [-128, 0, 127],
    pl.Float64: [math.nan, -0.0, 0.0, 1e-300, math.inf, -math.inf, 0.1 + 0.2, 0.3],
    pl.Boolean: [True, False],
    pl.Date: [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)],
    pl.Duration("us"): [dt.timedelta(0), dt.timedelta(days=-9, microseconds=1)],
    pl.Binary: [b"", b"a", b"\xff\x00", b"x" * 300],
    pl.Categorical: ["a", "b", LONG],
}


@st.composite
def frames(draw):
    rows = draw(st.integers(1, 25))
    columns = {}
    for number, dtype in enumerate(
        draw(st.lists(st.sampled_from([*CELLS]), min_size=1, max_size=4))
    ):
        cells = st.sampled_from([None, *CELLS[dtype]])
        column = draw(st.lists(cells, min_size=rows, max_size=rows))
        columns[f"v{number}"] = pl.Series(column, dtype=dtype)
    return pl.DataFrame(columns)


def write_cell(cell):
    """Equal cells as equal text: NaN is missing, and zero has no sign."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return "missing"
    return repr(cell + 0.0 if isinstance(cell, float) else cell)


@settings(max_examples=200, deadline=None)
@given(frames())
def test_rows_are_in_one_class_if_and_only_if_all_their_cells_are_equal(frame):
    rows = [tuple(map(write_cell, row)) for row in frame.iter_rows()]
    number = {row: count for count, row in enumerate(dict.fromkeys(rows))}
    classes = find_equivalence_classes(sf.Dataset(frame), frame.columns)
    assert classes.of.tolist() == [number[row] for row in rows]
    assert classes.sizes.tolist() == [rows.count(row) for row in number]
    assert classes.first.tolist() == [rows.index(row) for row in number]


@settings(max_examples=100, deadline=None)
@given(frames())
def test_codes_of_classes_are_equal_where_cells_are_and_tell_what_is_missing(frame):
    records = classify_records(sf.Dataset(frame), frame.columns, LocalEngine())
    cells = [[write_cell(cell) for cell in frame[name]] for name in frame.columns]
    codes = records.encode_classes()
    if codes is None:
        assert not any("missing" in column for column in cells)
        return
    for column, of_classes in zip(cells, codes, strict=True):
        shown = [column[row] for row in records.classes.first]
        assert [code < 0 for code in of_classes] == [cell == "missing" for cell in shown]
        pairs = set(zip(shown, of_classes.tolist(), strict=True))
        assert len(pairs) == len({cell for cell, _ in pairs}) == len({code for _, code in pairs})


def test_codes_for_missing_are_missing_but_tell_classes_apart():
    data = sf.Dataset(
        pl.DataFrame({"age": [30, -8, -9, -8]}),
        sf.Schema({"age": sf.Column(role="quasi", missing=(-8, -9))}),
    )
    records = classify_records(data, ["age"], LocalEngine())
    assert records.classes.of.tolist() == [0, 1, 2, 1]
    codes = records.encode_classes()
    assert codes is not None
    assert codes[0][0] >= 0
    assert codes[0][1:].tolist() == [-1, -1]
