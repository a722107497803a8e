"""What is read of a variable, whatever the frame's library and however odd its values."""

from __future__ import annotations

from typing import Any

import pandas as pd
import polars as pl
from tests.schema.inference.suggested import one

from sfumato.schema.inference import suggest


def test_declared_orders_count() -> None:
    levels = ["c", "a", "b"]
    frames: list[Any] = [
        pl.DataFrame({"q": pl.Series(levels * 9, dtype=pl.Enum(levels))}),
        pd.DataFrame({"q": pd.Categorical(levels * 9, categories=levels, ordered=True)}),
        pl.DataFrame({"q": pl.Series(levels * 9, dtype=pl.Enum(levels))}).to_arrow(),
        pd.DataFrame({"q": pd.Categorical([1, 2, 3] * 9, ordered=True)}),
        pd.DataFrame({"q": pd.cut(list(range(40)), 4)}),
    ]
    assert [suggest(frame)["q"].kind for frame in frames] == ["ordinal"] * len(frames)
    loose = pd.DataFrame({"q": pd.Categorical(levels * 9), "n": pd.Categorical([1, 2, None] * 9)})
    assert [column.kind for column in suggest(loose).values()] == ["nominal", "nominal"]


def test_values_of_several_types_are_no_error() -> None:
    frame = pd.DataFrame(
        {
            "age": pd.Series([1, "old", None], dtype=object),
            "z": [1j, 2j, 3j],
            "months": pd.period_range("2020-01", periods=3, freq="M"),
            "diagnoses": [["a"], ["b"], ["c"]],
        }
    )
    found = suggest(frame)
    assert (found["age"].role, found["age"].kind) == (None, None)
    assert "values of several types; " in found["age"].reason
    assert [found[name].kind for name in ("z", "months", "diagnoses")] == [None] * 3
    assert found["diagnoses"].role == "sensitive"
    objects = pl.DataFrame({"o": pl.Series([1, "a", {}], dtype=pl.Object)})
    assert "values of several types; " in suggest(objects)["o"].reason


def test_odd_values() -> None:
    constant = one("q1", [7] * 50)
    assert (constant.role, constant.kind) == (None, "nominal")
    blank = one("q1", ["", "  "] * 5)
    assert (blank.role, blank.kind) == (None, None)
    missing = one("q1", [float("nan")] * 5)
    assert (missing.role, missing.kind) == (None, None)
    assert one("q1", [float("inf"), float("-inf"), 1.0, 2.0]).kind == "continuous"
    assert one("q1", [1e300, 2e300, float("nan")]).kind == "continuous"
