"""Assess, protect, evaluate, in memory."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import DataError, PlanError, SchemaError, TargetError

SCHEMA = sf.Schema(
    {
        "id": "direct",
        "age": sf.Column(role="quasi", kind="integer", domain=(0, 99)),
        "sex": "quasi",
        "x": "sensitive",
    }
)
STEPS = [sf.methods.Drop(), sf.methods.Coarsen(variables=["age"], intervals=2)]


def people(library: str = "polars") -> sf.Dataset:
    frame = pl.DataFrame(
        {
            "id": [f"p{i}" for i in range(40)],
            "age": [(7 * i) % 100 for i in range(40)],
            "sex": ["f", "m"] * 20,
            # Follows from nothing else: who could work the age out would break every k.
            "x": [(37 * i * i + 11 * i) % 101 / 7 for i in range(40)],
        }
    )
    return sf.Dataset(frame.to_pandas() if library == "pandas" else frame, SCHEMA)


def test_a_release_stays_paired_with_the_original_and_in_the_users_library():
    data = people("pandas")
    data.frame.index = pd.Index(range(100, 140), name="case_number")
    release = sf.protect(data, sf.Plan(schema=SCHEMA, steps=STEPS, targets={"k.min": 5}))
    assert isinstance(release.data, pd.DataFrame)
    # The order is the original's; an index may hold identifiers, so it does not leave.
    assert release.data.index.equals(pd.RangeIndex(40))
    assert release.data.index.name is None
    assert release.data["x"].tolist() == data.frame["x"].tolist()
    assert list(release.data.columns) == ["age", "sex", "x"]
    assert release.verdict[0].met
    assert release.evidence["uniqueness"].baseline == 1.0


def test_a_missed_target_releases_nothing_and_says_by_how_much():
    with pytest.raises(TargetError, match="k at least 30: MISSED, it is") as error:
        sf.protect(people(), sf.Plan(schema=SCHEMA, steps=STEPS, targets={"k.min": 30}))
    assert error.value.exit_code == 3
    assert error.value.evidence["uniqueness"].details["k"] < 30
    assert not error.value.verdict[0].met


def test_variables_without_a_role_do_not_leave():
    plan = sf.Plan(schema={"id": "direct", "age": "quasi"}, steps=[sf.methods.Drop()])
    frame = people().frame
    with pytest.raises(SchemaError, match="no role.*'sex', 'x'"):
        sf.protect(sf.Dataset(frame), plan)


def test_direct_identifiers_do_not_leave():
    with pytest.raises(PlanError, match="direct identifiers would be released.*'id'"):
        sf.protect(people(), sf.Plan(schema=SCHEMA))


def test_no_record_or_no_variable_is_no_release():
    with pytest.raises(DataError, match="no record"):
        sf.protect(people().take(np.array([], int)), sf.Plan(schema=SCHEMA, steps=STEPS))
    with pytest.raises(PlanError, match="drops every variable"):
        sf.protect(
            people(), sf.Plan(schema=SCHEMA, steps=[sf.methods.Drop(variables=list(SCHEMA))])
        )


def test_evaluate_pairs_by_identity_and_refuses_to_guess():
    data = people()
    release = sf.protect(data, sf.Plan(schema=SCHEMA, steps=STEPS))
    found = sf.evaluate(data, release, ["uniqueness"])["uniqueness"]
    assert found.baseline == 1.0
    with pytest.raises(DataError, match="nothing says which belong together"):
        sf.evaluate(data, sf.Dataset(release.data.head(3)), ["uniqueness"])


def test_the_schema_may_come_with_the_data():
    release = sf.protect(people(), sf.Plan(steps=STEPS))
    assert release.dataset.schema["x"].role == "sensitive"


def test_an_unknown_measure_is_told():
    with pytest.raises(PlanError, match="did you mean 'uniqueness'"):
        sf.assess(people(), ["uniquness"])


def test_assess_takes_measures_in_every_form():
    data = people()
    by_default = sf.assess(data)
    assert "uniqueness" in by_default
    labelled = sf.assess(data, {"sex only": sf.risk.Uniqueness(known=["sex"])})
    assert labelled["sex only"].details["k"] == 20
    assert not math.isnan(sf.assess(data, [sf.risk.Uniqueness()])["uniqueness"].value)


def test_the_manifest_is_the_same_each_time_and_tells_no_secret():
    plan = sf.Plan(schema=SCHEMA, steps=[sf.methods.Pseudonymise(variables=["id"]), *STEPS[1:]])
    key = sf.Key.new()
    one, other = (sf.protect(people(), plan, key=key) for _ in range(2))
    assert one.manifest == other.manifest
    assert one.data.equals(other.data)
    assert key.text not in str(one.manifest) + str(one.custody) + repr(one)
    assert one.manifest["key_commitment"] == key.commitment


def test_progress_is_told_and_never_past_the_end():
    told = []
    sf.protect(
        people(),
        sf.Plan(schema=SCHEMA, steps=STEPS, targets={"k.min": 2}),
        progress=lambda what, done, total: told.append((what, done, total)),
    )
    assert {"protecting: step 1 of 2, drop", "measuring: uniqueness"} <= {
        what for what, _, _ in told
    }
    assert all(0 <= done <= total for _, done, total in told)


def test_pairs_are_never_guessed(monkeypatch):
    """A released file stands in another order: comparing row by row would look safe."""
    from typing import ClassVar, Literal

    from sfumato.evidence import Evidence
    from sfumato.measure import Measure
    from sfumato.numbers import Number

    class Pair(Measure):
        name = "pair"
        numbers = (Number.loss("pair"),)
        of: ClassVar[Literal["one", "pair"]] = "pair"

        def variables(self, data):
            return ()

        def compare(self, original, released, engine):
            return Evidence(name="pair", subject="pair", value=0.0)

    data = people()
    loose = sf.Dataset(data.frame)
    with pytest.raises(DataError, match="which records belong together"):
        sf.evaluate(data, loose, [Pair()])
    assert sf.evaluate(data, loose, [Pair()], paired=True)["pair"].value == 0.0
    release = sf.protect(data, sf.Plan(schema=SCHEMA, steps=STEPS))
    assert sf.evaluate(data, release, [Pair()])["pair"].value == 0.0
