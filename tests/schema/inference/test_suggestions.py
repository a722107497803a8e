"""Suggestions for whole frames: of any library, in any order, without quoting a value."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.schema.inference.suggested import one, told

from sfumato.errors import DataError
from sfumato.schema import KINDS, ROLES
from sfumato.schema.inference import suggest


def people() -> pl.DataFrame:
    count = 60
    return pl.DataFrame(
        {
            "Name": [f"A{i} B{i}" for i in range(count)],
            "age": [20 + i % 50 if i % 7 else None for i in range(count)],
            "sex": ["m", "f", None] * 20,
            "married": [True, False, True] * 20,
            "born": [dt.date(1950, 1, 1) + dt.timedelta(days=i) for i in range(count)],
            "hba1c": [5 + i / 17 for i in range(count)],
            "site": [i % 4 for i in range(count)],
            "mail": [f"u{i}@example.org" for i in range(count)],
            "empty": pl.Series([None] * count, dtype=pl.String),
            "smoker": pl.Series(["never", "former", "current"] * 20, dtype=pl.Categorical),
            "q1": [0.25, None, 1.5] * 20,
        }
    )


def test_the_library_makes_no_difference() -> None:
    frame = people()
    objects = frame.to_pandas().astype({"Name": object, "sex": object, "mail": object})
    expected = told(frame)
    assert [role for role, _, _ in expected.values()] == [
        *("direct", "quasi", "quasi", "quasi", "quasi", "sensitive"),
        *("cluster", "direct", None, "sensitive", None),
    ]
    assert told(frame.to_pandas()) == expected
    assert told(objects) == expected
    assert told(frame.to_arrow()) == expected


@settings(max_examples=25)
@given(st.permutations(range(60)))
def test_the_order_of_records_makes_no_difference(order: list[int]) -> None:
    frame = people()
    assert told(frame[order]) == told(frame)


values_of_any_kind = st.one_of(
    st.lists(st.none() | st.integers(-(2**60), 2**60), min_size=1, max_size=40),
    st.lists(st.none() | st.floats(), min_size=1, max_size=40),
    st.lists(st.none() | st.text(max_size=12), min_size=1, max_size=40),
    st.lists(st.none() | st.booleans(), min_size=1, max_size=40),
    st.lists(st.none() | st.dates(), min_size=1, max_size=40),
)


@settings(max_examples=150)
@given(st.text(max_size=30), values_of_any_kind, st.randoms(use_true_random=False))
def test_anything_gets_a_reason(name: str, values: list[Any], random: Any) -> None:
    mixed = list(values)
    random.shuffle(mixed)
    found = one(name, values)
    assert found.reason.endswith(".")
    assert found.role is None or found.role in ROLES
    assert found.kind is None or found.kind in KINDS
    again = one(name, mixed)
    assert (again, again.reason) == (found, found.reason)


def test_reasons_quote_no_value() -> None:
    frame = people().with_columns(
        secret=pl.Series(["Zebrafink", "Ochsenfrosch"] * 30), code=pl.Series([987654, 123987] * 30)
    )
    reasons = " ".join(column.reason for column in suggest(frame).values())
    for value in (
        "Zebrafink",
        "Ochsenfrosch",
        "987654",
        "123987",
        "A1 B1",
        "u1@",
        "1950",
        "former",
    ):
        assert value not in reasons


def test_odd_frames() -> None:
    assert suggest(pl.DataFrame()) == {}
    assert suggest(pd.DataFrame()) == {}
    zero = suggest(people().head(0))
    assert (zero["age"].role, zero["age"].kind) == ("quasi", None)
    assert "no values" in zero["age"].reason
    single = suggest(people().head(1))
    assert (single["Name"].role, single["mail"].role, single["q1"].role) == (
        "direct",
        "direct",
        None,
    )


def test_frames_that_cannot_be_read() -> None:
    with pytest.raises(DataError, match=r"more than once: a\. Hint:"):
        suggest(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(DataError, match="more than once: b"):
        suggest(pa.table([[1], [2]], names=["b", "b"]))
    with pytest.raises(DataError, match=r"must be text; these are not: 0, 1\. Hint:"):
        suggest(pd.DataFrame([[1, 2]]))
    for other in ([1, 2], pl.LazyFrame({"a": [1]}), None, pd.Series([1])):
        with pytest.raises(DataError, match="is not a frame"):
            suggest(other)
