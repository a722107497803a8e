"""The first plan turns postcodes into what they begin with."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.methods.drop import Drop
from sfumato.schema.inference.formats import are_prefix_codes
from sfumato.suggestion.first_plan import first_plan


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    draw = np.random.default_rng(0)
    codes = draw.choice(np.r_[1060:1100, 10110:10160, 80330:80370], 400)
    return pl.DataFrame(
        {"plz": [f"{code:05}" for code in codes], "alter": draw.integers(18, 90, 400)}
    )


def test_postcodes_become_prefixes(frame: pl.DataFrame) -> None:
    data = sf.Dataset(frame)
    plan = first_plan(data)
    assert plan.schema["plz"].kind == "text"
    assert not any(isinstance(step, Drop) for step in plan.steps)
    declared = data.with_schema(plan.schema)
    for step in plan.steps:
        declared = step.apply(declared, key=bytes(32))
    cells = declared.frame["plz"]
    assert cells.str.contains(r"^(?:[0-9]{1,5}\**|\*)$").all()
    assert cells.str.contains(r"^0[0-9]+\*+$").any()


def test_a_postcode_that_gives_the_region_away_stays_inside(frame: pl.DataFrame) -> None:
    data = sf.Dataset(frame.with_columns(region=pl.col("plz").str.head(1) + " land"))
    assert Drop(variables=["plz"]) in first_plan(data).steps


def test_codes_of_one_length() -> None:
    assert are_prefix_codes(pl.Series(["01067", None, "10115"]))
    assert are_prefix_codes(pl.Series(["01-01301", "06-08507"]))
    for texts in (["Ulm1", "Bonn2"], ["1067", "10115"], ["main", "road"], [], [None]):
        assert not are_prefix_codes(pl.Series(texts, dtype=pl.String))
    assert not are_prefix_codes(pl.Series([10115, 10117]))
