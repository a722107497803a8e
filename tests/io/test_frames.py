"""Any key dtype, any index: what people bring comes back as they brought it."""

from __future__ import annotations

import datetime as dt
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import DataError
from sfumato.io import frames

KEYS = {
    "string": ["a", "a", "b"],
    "bool": [True, True, False],
    "int": [1, 1, 2],
    "float": [1.5, 1.5, 2.5],
    "date": [dt.date(2020, 1, 1)] * 2 + [dt.date(2021, 1, 1)],
    "datetime": [dt.datetime(2020, 1, 1, 3)] * 2 + [dt.datetime(2021, 1, 1)],  # noqa: DTZ001
    "bytes": [b"a", b"a", b"b"],
    "decimal": [decimal.Decimal("1.5")] * 2 + [decimal.Decimal("2.5")],
}


def versions(values):
    yield pl.DataFrame({"key": values})
    yield pd.DataFrame({"key": values})
    yield pd.DataFrame({"key": pd.Series(values).astype("category")})
    yield pd.DataFrame({"key": pd.Series(values, dtype=object)})
    yield pa.table({"key": values})


@pytest.mark.parametrize("kind", KEYS)
def test_every_type_of_key_makes_classes(kind):
    for frame in versions(KEYS[kind]):
        found = sf.risk.Uniqueness(known=["key"]).measure(sf.Dataset(frame))
        assert found.details["unique_records"] == 1, (kind, type(frame))
        assert found.details["k"] == 1


def test_dictionary_arrays_and_unused_levels_do_not_invent_classes():
    category = pd.Categorical(["a", "a"], categories=["a", "b", "never"])
    for frame in (
        pd.DataFrame({"key": category}),
        pa.table({"key": pa.array(["a", "a"]).dictionary_encode()}),
        pl.DataFrame({"key": pl.Series(["a", "a"], dtype=pl.Enum(["a", "b"]))}),
    ):
        found = sf.risk.Uniqueness(known=["key"]).measure(sf.Dataset(frame))
        assert (found.details["k"], found.details["classes"]) == (2, 1)


@pytest.mark.parametrize(
    "index",
    [
        pd.Index([7, 7, 3, 1]),
        pd.Index(["w", "x", "y", "z"], name="row"),
        pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1), ("b", 2)]),
    ],
)
def test_any_index_gives_the_same_numbers_and_comes_back(index):
    frame = pd.DataFrame({"sex": list("ffmm"), "age": [30, 30, 41, 30]}, index=index)
    data = sf.Dataset(frame, sf.Schema({"sex": "quasi", "age": "quasi"}))
    found = sf.risk.Uniqueness().measure(data)
    assert (found.value, found.details["k"]) == (0.5, 1)
    assert found.records["class_size"].tolist() == [2, 2, 1, 1]
    sorted_again = sf.Dataset(frame.sort_values(["age", "sex"]), data.schema)
    assert sf.risk.Uniqueness().measure(sorted_again).plain() == found.plain()
    after = sf.methods.Topcode(variables=["age"], top=35).apply(data).frame
    assert after.index.equals(frame.index)
    assert after["age"].tolist() == [30, 30, 35, 30]
    assert frame["age"].tolist() == [30, 30, 41, 30]


@pytest.mark.parametrize(
    "dtype", ["int64", "int8", "Int64", "float32", "Float64", "int64[pyarrow]"]
)
def test_numbers_keep_the_users_type(dtype):
    frame = pd.DataFrame({"x": pd.Series([1, 2, 90]).astype(dtype)})
    after = sf.methods.Topcode(variables=["x"], top=50).apply(sf.Dataset(frame)).frame
    assert str(after["x"].dtype) == dtype
    assert after["x"].tolist() == [1, 2, 50]


def test_nullable_integers_with_gaps_keep_their_type():
    frame = pd.DataFrame({"x": pd.array([1, None, 90], dtype="Int64")})
    after = sf.methods.Topcode(variables=["x"], top=50).apply(sf.Dataset(frame)).frame
    assert str(after["x"].dtype) == "Int64"
    assert after["x"].isna().tolist() == [False, True, False]


def test_nan_and_none_are_missing_and_nothing_else_is():
    frame = pd.DataFrame({"x": [1.0, np.nan, 2.0], "t": ["NA", None, ""]})
    assert frames.get_column(frame, "x").to_list() == [1.0, None, 2.0]
    assert frames.get_column(frame, "t").to_list() == ["NA", None, ""]


def test_mixed_types_are_refused_without_showing_a_value():
    frame = pd.DataFrame({"code": [17, "secret-value", 3.5]})
    with pytest.raises(DataError, match="'code' holds values of several types") as error:
        sf.risk.Uniqueness(known=["code"]).measure(sf.Dataset(frame))
    assert "secret-value" not in str(error.value)
    assert error.value.__cause__ is None


def test_lists_are_refused():
    with pytest.raises(DataError, match="'x' holds lists"):
        frames.get_column(pl.DataFrame({"x": [[1], [2]]}), "x")


@pytest.mark.parametrize(
    "name",
    ["<script>alert(1)</script>", "../../etc", "a b", "ä", "=x", "'", "^x", "x$", "count", "value"],
)
def test_odd_names_are_just_names(name):
    frame = pl.DataFrame({name: [1, 2, 2], "class_size": [1, 1, 1]})
    data = sf.Dataset(frame, sf.Schema({name: "quasi", "class_size": "weight"}))
    found = sf.risk.Uniqueness().measure(data)
    assert (found.details["k"], found.details["journalist"]) == (1, 1.0)
    assert found.records["class_size"].to_list() == [1, 2, 2]
    assert sf.methods.Drop(variables=[name]).apply(data).columns == ("class_size",)
    assert sf.Schema.infer(frame)[name].reason
    plan = sf.Plan(schema=data.schema, steps=[sf.methods.Topcode(variables=[name], top=1)])
    assert sf.protect(data, plan).data[name].to_list() == [1, 1, 1]
    assert sf.Plan.parse(plan.text(comments=True)) == plan


@pytest.mark.parametrize("name", ["^$", "^.*$", "^[$"])
def test_names_that_would_be_taken_for_patterns_are_refused(name, tmp_path):
    with pytest.raises(DataError, match=r"begin with \^ and end with \$"):
        sf.Dataset(pl.DataFrame({name: [1]}))
    (tmp_path / "x.csv").write_text(f"{name},b\n1,2\n")
    with pytest.raises(DataError, match=r"begin with \^ and end with \$"):
        sf.read(tmp_path / "x.csv")
