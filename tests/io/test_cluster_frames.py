"""A frame on a cluster is recognised without PySpark, and refused where it cannot be used."""

from __future__ import annotations

import pytest

import sfumato as sf
from sfumato.errors import DataError, MethodError
from sfumato.io import frames


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
    data = sf.Dataset(_Frame(age="int", sex="string"), sf.Schema({"age": "quasi"}))
    with pytest.raises(DataError, match="Plans do not run on Spark yet"):
        sf.protect(data, sf.Plan(schema=data.schema, steps=[sf.methods.Drop()]))
    with pytest.raises(DataError, match="Measures do not run on Spark yet"):
        sf.assess(data, ["uniqueness"])
    with pytest.raises(MethodError, match="'k_anonymity' does not run on Spark"):
        sf.methods.KAnonymity(variables=["age"], k=2).apply(data)
    with pytest.raises(DataError, match="'age' are on a cluster"):
        data.column("age")


def test_a_type_that_is_not_known_is_named() -> None:
    with pytest.raises(DataError, match="'visits' is of a type that is not used here"):
        sf.Dataset(_Frame(visits="array<int>"))
