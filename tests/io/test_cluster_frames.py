"""A frame on a cluster is recognised without PySpark, and refused where it cannot be used."""

from __future__ import annotations

import pytest

import sfumato as sf
from sfumato.errors import DataError, MethodError
from sfumato.io import frames
from sfumato.plan import Writing


class _Type:
    def __init__(self, name: str) -> None:
        self.name = name

    def simpleString(self) -> str:  # noqa: N802 - Spark's name
        return self.name


class _Field:
    def __init__(self, name: str, kind: str) -> None:
        self.name, self.dataType = name, _Type(kind)


class _Frame:
    """As much of a Spark frame as its types."""

    def __init__(self, **types: str) -> None:
        self.schema = type("Schema", (), {"fields": [_Field(*item) for item in types.items()]})
        self.columns = list(types)


_Frame.__module__ = "pyspark.sql.dataframe"


def test_kinds_follow_from_the_types() -> None:
    data = sf.Dataset(_Frame(age="int", bmi="double", sex="string", born="date"))
    assert {name: column.kind for name, column in data.schema.items()} == {
        "age": "integer",
        "bmi": "continuous",
        "sex": "nominal",
        "born": "date",
    }
    assert frames.is_distributed(data.frame)
    assert repr(data) == "Dataset(4 variables, pyspark)"


def test_what_cannot_run_there_says_so() -> None:
    pytest.importorskip("pyspark", reason="PySpark is not installed: pip install sfumato[spark]")
    data = sf.Dataset(_Frame(age="int", sex="string"), sf.Schema({"age": "quasi"}))
    plan = sf.Plan(
        schema=data.schema,
        steps=[sf.methods.Regenerate(variables=["age"])],
        evaluate=[sf.risk.HIndex()],
        release=Writing(keep_order=True, format="sav"),
    )
    with pytest.raises(MethodError, match="'regenerate', 'h_index' do not run on Spark") as refused:
        sf.protect(data, plan)
    assert "keep_order" in str(refused.value)
    assert "Parquet and CSV" in str(refused.value)
    with pytest.raises(MethodError, match="'h_index' does not run on Spark"):
        sf.assess(data, ["h_index"])
    with pytest.raises(MethodError, match="'regenerate' does not run on Spark"):
        sf.methods.Regenerate(variables=["age"]).apply(data)
    with pytest.raises(DataError, match="'age' are on a cluster"):
        data.column("age")


def test_a_type_that_is_not_known_is_named() -> None:
    with pytest.raises(DataError, match="'visits' is of a type that is not used here"):
        sf.Dataset(_Frame(visits="array<int>"))
