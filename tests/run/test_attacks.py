"""All attacks on a release: which apply, with what they are told."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato import catalogue
from sfumato.invariants import Invariant
from sfumato.method import Fitted, RowWise
from sfumato.parameters import parameters
from sfumato.plan import Writing
from sfumato.risk.attacks import attacks
from sfumato.run.attacks import list_unattacked, tried

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.HeavyLossWarning")
DIRECT = ["person_id", "name", "email", "nhs_number", "address", "postcode"]


@pytest.fixture(scope="module")
def release() -> tuple[sf.Dataset, sf.Release]:
    data = sf.Dataset(sf.datasets.cohort(300), sf.datasets.cohort_schema())
    steps = [
        sf.methods.Drop(variables=DIRECT),
        sf.methods.Noise(variables=["height"], variance_share=0.3),
        sf.methods.Noise(variables=["systolic"], variance_share=0.3),
        sf.methods.Deterministic(
            variables=["weight_kg", "glucose"], missing="median", at_most=0.1, k=3
        ),
    ]
    accepted = Writing(accept_attacks="nobody is in it")
    plan = sf.Plan(schema=data.schema, steps=steps, release=accepted)
    return data, sf.protect(data, plan, key=bytes(32))


def test_those_that_apply_are_tried(release, tmp_path):
    data, made = release
    found = tried(data, made)
    assert list(found) == [
        "group_profiles",
        "recoverable",
        "mixed_linkage",
        "attribute_inference",
        "singling_out",
        "extremes",
        "repeated_readings",
        "averaging",
        "clumps",
        "extremes_2",
        "repeated_readings_2",
        "averaging_2",
        "clumps_2",
        "undoing",
    ]
    assert all(one.computed for one in found.values())
    # The k that was looked for stands in the manifest.
    assert found["undoing"].details["k"] == made.manifest["methods"][-1]["k"] > 3
    made.write(tmp_path / "release")
    again = tried(data, tmp_path / "release")
    assert {name: one.value for name, one in again.items()} == pytest.approx(
        {name: one.value for name, one in found.items()}, abs=1e-9
    )


def test_a_plan_can_report_them(release):
    data, made = release
    measures = {name: one for name, one in attacks(made.plan).items() if name != "undoing"}
    plan = sf.Plan(schema=data.schema, steps=made.plan.steps, evaluate=measures)
    assert sf.Plan.parse(plan.text(comments=True)) == plan
    again = sf.protect(data, plan, key=bytes(32))
    assert set(measures) <= set(again.evidence)


def test_without_a_plan_only_those_that_need_none(release):
    data, _ = release
    turned = data.take(np.arange(300))
    assert list(tried(data, turned, paired=True)) == list(attacks())


def test_a_target_may_be_set_on_each(release):
    data, made = release
    plan = sf.Plan(
        schema=data.schema,
        steps=made.plan.steps,
        evaluate={"attribute_inference": sf.risk.AttributeInference(individuals=50)},
        targets={"inference_gain.max": 0.01},
    )
    with pytest.raises(sf.SfumatoError, match="targets missed"):
        sf.protect(data, plan, key=bytes(32))


def make_plug_in(called: str, kept: tuple[Invariant, ...]) -> sf.Method:
    """A method of somebody else, which changes nothing and says what it preserves."""

    @parameters
    class PlugIn(RowWise):
        """Change nothing."""

        name = called
        preserves = kept
        examples = ({"variables": ["a"]},)
        variables: list[str]

        def rows(self, batch: pl.DataFrame, fitted: Fitted, draws: Any) -> pl.DataFrame:
            return batch.select(self.variables)

    return PlugIn(variables=["a"])


@settings(max_examples=60, deadline=None)
@given(
    called=st.text("abcdefgh_", min_size=3, max_size=12),
    kept=st.lists(st.sampled_from(get_args(Invariant)), unique=True),
)
def test_a_plug_in_is_attacked_by_what_it_preserves(called, kept):
    step = make_plug_in(called, tuple(kept))
    schema = sf.Schema({"a": "sensitive"})
    plan = sf.Plan(schema=schema, steps=[step])
    made = attacks(plan).values()
    tried_on = {what for one in made if one.trial for what in one.trial.exploits}
    # What could not be set up with what is known of a stranger's step is said.
    said = " ".join(list_unattacked(plan, {}))
    assert all(what in tried_on or f"as it was: {what}." in said for what in kept)
    for name in ("extremes", "support points", "gaps", "repeated readings", "order", "sums"):
        assert name not in kept or name in tried_on


def test_each_invariant_has_an_attack():
    exploited = {
        what for one in catalogue.measures().values() if one.trial for what in one.trial.exploits
    }
    assert exploited == {*get_args(Invariant)}


def test_a_misspelt_invariant_is_refused():
    with pytest.raises(TypeError, match="names 'gap', which is none of"):
        make_plug_in("swap", ("gap",))  # type: ignore[arg-type]


def test_a_variable_that_is_dropped_later_hides_no_other():
    schema = sf.Schema({"a": "sensitive", "b": "sensitive"})
    noise = sf.methods.Noise(variables=["a", "b"], variance=1.0)
    plan = sf.Plan(schema=schema, steps=[noise, sf.methods.Drop(variables=["a"])])
    made = attacks(plan)
    for name in ("clumps", "extremes", "repeated_readings"):
        assert getattr(made[name], "variables", None) == ["b"]
