"""What categorical cells may stand for, against reading them one by one."""

from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.cells.level_sets import encode_level_cells, list_levels, read_level_sets
from sfumato.errors import DataError
from sfumato.schema import Column

LEVELS = ["a", "b", "c", "d", "120", "121", "200"]


def read_slowly(text, levels, leaves):
    """The levels of a cell, and whether something else could be there."""
    if text == "*":
        return set(levels), False
    if text.startswith("{"):
        named = set(text[1:-1].split(";"))
        return named & set(levels), not named <= set(levels)
    if text.endswith("*"):
        under = {leaf for leaf in leaves if len(leaf) == len(text) and leaf[0] == text[0]}
        # Not all codes under the mask occur.
        return under & set(levels), True
    return {text} & set(levels), text not in levels


@st.composite
def columns(draw):
    some = st.lists(st.sampled_from(LEVELS), min_size=1, max_size=5, unique=True)
    cell = st.one_of(
        st.none(),
        st.just("*"),
        st.just("1**"),
        st.sampled_from(LEVELS),
        some.map(lambda members: "{" + ";".join(members) + "}"),
    )
    return draw(st.lists(cell, min_size=1, max_size=30))


@given(columns())
def test_each_cell_stands_for_what_its_text_says(cells):
    column = Column(kind="nominal", cells="generalised")
    values = pl.Series("v", cells, dtype=pl.String)
    texts = values.drop_nulls().to_list()
    levels = list_levels(texts, column, "v", ordered=False)
    assert levels == sorted({t for t in texts if t in LEVELS})
    found = read_level_sets(values, levels, column)
    leaves = {part for t in texts for part in t.strip("{}").split(";")}
    for row, text in enumerate(cells):
        cell = found.of[row]
        members = [levels[at] for at in found.levels[found.starts[cell] : found.starts[cell + 1]]]
        assert members == sorted(members)
        if text is None:
            assert members == levels
            assert found.open[cell]
            continue
        expected, beyond = read_slowly(text, levels, leaves)
        assert set(members) == expected
        assert found.open[cell] == (text == "*")
        if text != "*":
            assert found.beyond[cell] == beyond


@given(columns())
def test_runs_of_codes_overlap_where_cells_share_a_value(cells):
    texts = sorted({text for text in cells if text is not None and text != "1**"})
    if not texts:
        return
    low, high, starts, size = encode_level_cells(texts, Column(cells="generalised"), "v")
    leaves = {part for t in texts if t != "*" for part in t.strip("{}").split(";")}
    codes = [
        {code for run in range(first, last) for code in range(low[run], high[run] + 1)}
        for first, last in pairwise(starts)
    ]
    named = [leaves if t == "*" else set(t.strip("{}").split(";")) for t in texts]
    for one, his in zip(codes, named, strict=True):
        assert len(one) == (max(len(his), 1))
        assert max(one) < size
        for other, theirs in zip(codes, named, strict=True):
            if leaves:
                assert len(one & other) == len(his & theirs)


def test_nested_cells_are_single_runs_and_a_hundred_thousand_sets_are_read_at_once():
    sets = ["{" + f"{at:06d};{at + 3:06d}" + "}" for at in range(100_000)]
    low, high, starts, _ = encode_level_cells(sets, Column(cells="generalised"), "v")
    assert (high >= low).all()
    assert len(starts) == len(sets) + 1
    nested = ["{a;c}", "{a;c;e}", "{b;d}", "a", "*"]
    _, _, starts, _ = encode_level_cells(nested, Column(cells="generalised"), "v")
    assert np.diff(starts).tolist() == [1] * 5


def test_a_range_that_falls_is_refused_with_the_name_of_the_variable():
    column = Column(kind="ordinal", domain=("low", "mid", "high"), cells="generalised")
    values = pl.Series("grade", ["[high;low]"])
    with pytest.raises(DataError, match="'grade' has a range"):
        read_level_sets(values, ["low", "mid", "high"], column)
