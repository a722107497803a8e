from __future__ import annotations

import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import DataError, SchemaError


def test_all_errors_come_together_with_hints():
    with pytest.raises(SchemaError) as error:
        sf.Schema(
            {
                "a": "quas",  # type: ignore[dict-item]
                "b": sf.Column(kind="integr"),  # type: ignore[arg-type]
                "c": sf.Column(kind="integer", domain=(5, 1)),
                "d": sf.Column(accessibility=2.0),
                "e": sf.Column(domain=(0, 1)),
                "f": sf.Column(kind="nominal", domain=("x", "x")),
                "g": sf.Column(hierarchy={"x": ("y",), "z": ()}),
            }
        )
    text = str(error.value)
    assert "7 things" in text
    assert "did you mean 'quasi'?" in text
    assert "did you mean 'integer'?" in text
    assert all(f"'{name}'" in text for name in "abcdefg")


def test_a_wrong_name_is_told_with_the_right_one():
    frame = pl.DataFrame({"region": ["n"], "age": [3]})
    with pytest.raises(
        SchemaError, match=r"variable 'regoin' is not in the data. Hint: did you mean 'region'\?"
    ):
        sf.Dataset(frame, sf.Schema({"regoin": "quasi"}))


def test_unknown_stays_unknown():
    data = sf.Dataset(pl.DataFrame({"a": [1], "b": ["x"]}), sf.Schema({"a": "quasi"}))
    assert data.schema.unknown == ("b",)
    assert data.schema["b"].kind == "nominal"


def test_a_schema_is_frozen_and_comparable():
    schema = sf.Schema({"a": "quasi"})
    changed = schema.changed(["a"], role="other")
    assert schema["a"].role == "quasi"
    assert changed != schema
    assert schema == sf.Schema({"a": sf.Column(role="quasi")})
    with pytest.raises(AttributeError):
        schema["a"].role = "other"  # type: ignore[misc]


def test_duplicate_and_odd_names_are_refused():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(DataError, match="more than once: a"):
        sf.Dataset(pandas.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(DataError, match="must be text"):
        sf.Dataset(pandas.DataFrame([[1, 2]], columns=["a", 7]))
    with pytest.raises(DataError, match="not a frame"):
        sf.Dataset({"a": [1]})


def test_declared_missing_codes_are_missing_and_come_back():
    frame = pl.DataFrame({"x": [1, -9, 50], "y": [1, 2, 3]})
    schema = sf.Schema({"x": sf.Column(role="quasi", kind="integer", missing=(-9,)), "y": "other"})
    data = sf.Dataset(frame, schema)
    assert data.column("x").to_list() == [1, None, 50]
    after = sf.methods.Topcode(variables=["x"], top=10, bottom=0).apply(data)
    assert after.frame["x"].to_list() == [1, -9, 10]
    coarse = sf.methods.Coarsen(variables=["x"], breaks=[0, 10], edges="observed").apply(data)
    # Round numbers outside: neither 1 nor 50 is shown, and -9 does not count.
    assert coarse.frame["x"].to_list() == ["[0;9]", None, "[10;54]"]


def test_a_plan_does_not_throw_away_what_the_file_declares():
    column = sf.Column(kind="integer", missing=(-9,))
    data = sf.Dataset(pl.DataFrame({"age": [30, -9]}), sf.Schema({"age": column}))
    told = data.with_schema({"age": "quasi"})
    assert told.schema["age"] == sf.Column(role="quasi", kind="integer", missing=(-9,))
    after = sf.methods.Topcode(variables=["age"], bottom=18).apply(told)
    assert after.frame["age"].to_list() == [30, -9]


@pytest.mark.parametrize(("values", "code"), [([1, 2], "-9"), (["a", "b"], -9), ([True, False], 9)])
def test_a_missing_code_of_another_type_is_an_error(values, code):
    data = sf.Dataset(pl.DataFrame({"x": values}), sf.Schema({"x": sf.Column(missing=(code,))}))
    with pytest.raises(SchemaError, match="'x': a missing code is of another type"):
        data.column("x")


@pytest.mark.parametrize("code", [-9, 999, -9.0, 10**22])
def test_a_missing_code_outside_the_type_does_no_harm(code):
    frame = pl.DataFrame({"x": pl.Series([1, 2], dtype=pl.UInt8)})
    data = sf.Dataset(frame, sf.Schema({"x": sf.Column(missing=(code,))}))
    assert data.column("x").to_list() == [1, 2]
    whole = sf.Dataset(pl.DataFrame({"x": [1, -9]}), sf.Schema({"x": sf.Column(missing=(-9.0,))}))
    assert whole.column("x").to_list() == [1, None]


@pytest.mark.parametrize(
    "bad", [{"missing": "-9"}, {"missing": [[1]]}, {"kind": "integer", "domain": (0, float("inf"))}]
)
def test_declarations_that_make_no_sense_are_refused(bad):
    with pytest.raises(SchemaError):
        sf.Schema({"x": sf.Column(**bad)})
