"""The first plan offers to unite spellings, and says where text looks like notation."""

from __future__ import annotations

import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import SchemaError
from sfumato.plan.first_plan import first_plan

FRAME = pl.DataFrame(
    {
        "age": list(range(30, 60)),
        "diagnosis": ["HIV", "hiv", "HIV ", "flu", "flu", "asthma", "HIV", "HIV", "Flu", "*"] * 3,
    }
)


def test_spellings_are_offered_as_a_step_that_names_the_commonest():
    plan = first_plan(sf.Dataset(FRAME))
    (step,) = (step for step in plan.steps if isinstance(step, sf.methods.Recode))
    assert step.groups == {"HIV": ["HIV", "hiv", "HIV "], "flu": ["flu", "Flu"]}
    data = sf.Dataset(FRAME).with_schema(plan.schema)
    assert set(step.apply(data).frame["diagnosis"]) == {"HIV", "flu", "asthma", "*"}
    reason = plan.schema["diagnosis"].reason
    assert "7 spellings of 4 values" in reason
    assert "3 cells look like ranges" in reason
    assert data.frame.equals(FRAME)  # nothing is changed before the plan is run


def test_without_other_spellings_there_is_no_such_step():
    plan = first_plan(sf.Dataset(FRAME.with_columns(diagnosis=pl.lit("flu"))))
    assert all(step.name != "recode" for step in plan.steps)
    assert "spellings" not in plan.schema["diagnosis"].reason


def test_ranges_of_numbers_are_suggested_as_generalised_cells():
    frame = pl.DataFrame({"age": ["[20;29]", "[30;39]", "41"] * 10})
    schema = sf.Schema.infer(frame)
    assert schema["age"].cells == "generalised"
    assert schema["age"].generalised
    plan = first_plan(sf.Dataset(frame))
    assert sf.Plan.parse(plan.text(comments=True)).schema["age"].cells == "generalised"


def test_cells_are_values_or_generalised():
    with pytest.raises(SchemaError, match="'age' has no known cells 'generalized'"):
        sf.Schema({"age": sf.Column(cells="generalized")})  # type: ignore[arg-type]
