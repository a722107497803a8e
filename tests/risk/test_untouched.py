"""The ledger of variables."""

from __future__ import annotations

import datetime as dt

import polars as pl
import pytest

import sfumato as sf
from sfumato.risk.untouched import Untouched


def _pair() -> tuple[sf.Dataset, sf.Dataset]:
    schema = sf.Schema(
        {"id": "direct", "age": "quasi", "born": "quasi", "sex": "quasi", "w": "weight",
         "income": "sensitive"}
    )  # fmt: skip
    original = pl.DataFrame(
        {
            "id": list("abcdef"),
            "age": [20, 21, 30, 31, 40, 41],
            "born": [dt.date(2000 - index, 1, 1) for index in range(6)],
            "sex": ["f", "f", "f", "m", "m", None],
            "w": [1.5, 1.5, 1.5, 2.5, 2.5, 9.0],
            "income": [1, 2, 3, 4, 5, 6],
        }
    )
    released = original.drop("id").with_columns(
        age=pl.Series(["[20;29]", "[20;29]", "30", "[30;39]", "[40;49]", "41"]),
        born=pl.lit(None, pl.Date),
    )
    return sf.Dataset(original, schema), sf.Dataset(released, schema.without(["id"]))


@pytest.mark.parametrize(
    ("variable", "done", "unchanged", "distinct", "unique", "fingerprint"),
    [
        ("id", "dropped", 0, 0, 0, 0),
        ("age", "partly changed", 2 / 6, 5, 4 / 6, 2 / 6),
        ("born", "changed", 0, 1, 0, 0),
        ("sex", "unchanged", 1, 3, 1 / 6, 1 / 6),
        ("w", "unchanged", 1, 3, 1 / 6, 1 / 6),
        ("income", "unchanged", 1, 6, 1, 1),
    ],
)
def test_every_variable_has_its_line(
    variable: str, done: str, unchanged: float, distinct: int, unique: float, fingerprint: float
) -> None:
    table = Untouched(k=2).measure(*_pair()).table
    row = table.row(by_predicate=pl.col("variable") == variable, named=True)
    assert (row["done"], row["distinct"]) == (done, distinct)
    assert (row["unchanged"], row["unique"], row["fingerprint"]) == pytest.approx(
        (unchanged, unique, fingerprint)
    )


def test_fingerprints_are_known_variables_and_name_themselves() -> None:
    evidence = Untouched(k=2, at_most=0.2).measure(*_pair())
    assert evidence.value == pytest.approx(2 / 6)
    assert evidence.details["fingerprints"] == ("age",)
    assert "'age'" in evidence.warnings[0]
    assert evidence.details["unchanged"] == ("sex", "w", "income")


def test_the_demo_release_names_its_weight(cohort: sf.Dataset) -> None:
    plan = sf.Plan(
        schema=dict(cohort.schema), steps=[sf.methods.Drop(), sf.methods.KAnonymity(k=5)]
    )
    release = sf.protect(cohort, plan)
    assert Untouched().measure(cohort, release.dataset).details["fingerprints"] == (
        "survey_weight",
    )
