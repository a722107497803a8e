"""Bars before and after: shares that add up, no bar of a few, no value of a record."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.run.distributions import FEWEST, tabulate_distributions


def tabulate(before: list[Any], after: list[Any] | None = None, **column: Any) -> list[Any]:
    frames = [
        pl.DataFrame({"x": values}) for values in (before, before if after is None else after)
    ]
    cells: Any = "generalised" if after is not None and isinstance(after[0], str) else None
    schemas = [sf.Schema({"x": sf.Column(role="quasi", **column)}),
               sf.Schema({"x": sf.Column(role="quasi", cells=cells, **column)})]  # fmt: skip
    tables = tabulate_distributions(
        *(sf.Dataset(*pair) for pair in zip(frames, schemas, strict=True))
    )
    return tables[0]["bars"] if tables else []


@settings(max_examples=40)
@given(
    st.lists(st.floats(-1e6, 1e6) | st.integers(0, 30).map(float) | st.none(), min_size=20,
             max_size=120)
)  # fmt: skip
def test_a_bar_stands_for_none_or_at_least_ten_records(values):
    bars = tabulate(values, kind="continuous")
    present = sum(value is not None for value in values)
    for bar in bars:
        count = round(bar["before"] * len(values), 2)
        assert round(count) == 0 or round(count) >= FEWEST - 1e-9
        assert bar["before"] == bar["after"]
    if bars:
        missing = len(values) - present
        shown = 1.0 if missing >= FEWEST else present / len(values)
        assert sum(bar["before"] for bar in bars) == pytest.approx(shown, abs=0.01)


@given(st.lists(st.sampled_from("abcdefghijklmnop"), min_size=20, max_size=200))
def test_a_level_is_named_only_if_ten_records_have_it(values):
    for bar in tabulate(values, kind="nominal"):
        if bar["label"] != "all others":
            assert values.count(bar["label"]) >= FEWEST
        else:
            assert round(bar["before"] * len(values)) >= FEWEST


def test_a_range_counts_for_each_of_its_whole_numbers():
    before = [number for number in (1, 2, 3, 4) for _ in range(25)]
    after = ["[2;3]" if number in (2, 3) else str(number) for number in before]
    bars = tabulate(before, after, kind="integer")
    assert [bar["after"] for bar in bars] == pytest.approx([0.25] * 4)
    # A straightforward count: one for each number that a cell may be, by the same part.
    wide = ["[1;4]"] * 100
    assert [bar["after"] for bar in tabulate(before, wide, kind="integer")] == pytest.approx(
        [0.25] * 4
    )


def test_a_set_counts_for_each_of_its_levels():
    bars = tabulate(["a"] * 50 + ["b"] * 50, ["{a;b}"] * 100, kind="nominal")
    assert [(bar["label"], bar["after"]) for bar in bars] == [("a", 0.5), ("b", 0.5)]


def test_edges_are_round_and_no_value_of_a_record():
    values = np.random.default_rng(1).normal(70.123456, 11.98765, 500).tolist()
    labels = [bar["label"] for bar in tabulate(values, kind="continuous")]
    ends = {float(word) for label in labels for word in label.split() if word[0].isdigit()}
    assert all(end % 5 == 0 for end in ends)
    days = [dt.date(1960, 1, 1) + dt.timedelta(days=20 * n) for n in range(400)]
    labels = [bar["label"] for bar in tabulate(days, kind="date")]
    assert labels[0] == "under 1962"
    assert labels[-1] == "from 1980"


def test_identifiers_text_and_groups_have_no_bars():
    frame = pl.DataFrame(
        {"name": list("ab") * 30, "school": list("ab") * 30, "note": list("ab") * 30}
    )
    schema = sf.Schema({"name": "direct", "school": "cluster",
                        "note": sf.Column(role="other", kind="text")})  # fmt: skip
    data = sf.Dataset(frame, schema)
    assert tabulate_distributions(data, data) == []
    assert tabulate(list(range(19)), kind="integer") == []
