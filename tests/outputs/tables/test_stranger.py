"""What somebody who comes from pandas expects of a table."""

from __future__ import annotations

import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import PlanError
from sfumato.outputs.rules import warn_of_shared_persons


def people() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "person": range(120),
            "name": ["Ann", "Bob", "Ann"] * 40,
            "sex": ["f", "m"] * 60,
            "region": ["a", "b", "c"] * 40,
            "income": [float(at % 7 + 10) for at in range(120)],
        }
    )


def test_values_need_an_aggregate() -> None:
    with pytest.raises(PlanError, match="what to make of the values"):
        sf.tables.crosstab(people(), "sex", "region", values="income")


def test_pivot_takes_the_name_that_pandas_has() -> None:
    told = {"index": "sex", "columns": "region", "values": "income"}
    one = sf.tables.pivot(people(), **told, aggfunc="mean")
    two = sf.tables.pivot(people(), **told)
    assert one.cells.equals(two.cells)
    with pytest.raises(PlanError, match="the same"):
        sf.tables.pivot(people(), **told, aggfunc="mean", aggregate="sum")


def test_a_log_must_be_one() -> None:
    with pytest.raises(PlanError, match="must be a Log"):
        sf.tables.crosstab(people(), "sex", log="outputs")  # type: ignore[arg-type]


def test_two_people_of_one_name_are_no_reason_to_look_twice() -> None:
    direct = sf.Schema({"person": "direct", "name": "direct", "region": "cluster"})
    assert warn_of_shared_persons(sf.Dataset(people(), direct)) == ()
    assert sf.tables.crosstab(sf.Dataset(people(), direct), "sex").verdict == "pass"
    only_names = sf.Schema({"name": "direct"})
    assert warn_of_shared_persons(sf.Dataset(people(), only_names))


def test_numbers_stand_to_the_right() -> None:
    assert "<td align=right>" in sf.tables.crosstab(people(), "sex").to_html()
