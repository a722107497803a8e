"""What is tried by default: it follows from the roles and the targets."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import sfumato as sf
from sfumato.data import Dataset
from sfumato.tuning.candidates import LEVELS, coarsen_to_level, propose_families, vary_plan
from sfumato.tuning.requirements import Requirements, read_requirements


def wanted(data: Dataset, targets: dict[str, float], *evaluate: Any) -> Requirements:
    plan = sf.Plan(schema=data.schema, targets=targets, evaluate=evaluate)
    return read_requirements(plan.targets, plan.measures, data)


def names(data: Dataset, targets: dict[str, float], *evaluate: Any) -> list[str]:
    return [one.name for one in propose_families(data, wanted(data, targets, *evaluate))]


def test_crowds_for_crowds(people: Dataset) -> None:
    found = names(people, {"k.min": 5})
    assert found == [
        "k_anonymity", "k_anonymity, mean", "k_anonymity, middle", "k_anonymity, origin",
        "coarsen", "coarsen, suppress", "generalise",
    ]  # fmt: skip


def test_single_values_are_tried_where_a_model_matters(people: Dataset) -> None:
    made = propose_families(people, wanted(people, {"k.min": 5}), models=True)
    outputs = {family.name: family.make(5)[0].output for family in made[1:4]}  # type: ignore[attr-defined]
    assert list(outputs) == [f"k_anonymity, {kind}" for kind in ("mean", "median", "middle")]
    assert outputs["k_anonymity, median"] == {
        "height": "median", "household_size": "median", "sex": "mode", "region": "mode",
    }  # fmt: skip
    assert outputs["k_anonymity, mean"]["region"] == "balanced"
    categories = people.without(["height", "household_size"])
    found = propose_families(categories, wanted(categories, {"k.min": 50}), models=True)
    assert {"k_anonymity, balanced", "k_anonymity, mode"} <= {family.name for family in found}


def test_fewer_than_the_target_are_never_tried(people: Dataset) -> None:
    first = propose_families(people, wanted(people, {"k.min": 7}))[0]
    assert first.axes[0].values[0] == 7
    assert first.axes[0].value_at(0.5) > 7


def test_secrets_need_diverse_or_close_crowds(people: Dataset) -> None:
    found = names(people, {"closeness.max": 0.3})
    assert {"l_diversity", "t_closeness", "suppress"} <= set(found)
    made = wanted(people, {"attribute_disclosure.max": 0.1},
                  sf.risk.AttributeDisclosure(confidential=["diagnosis"]))  # fmt: skip
    assert made.confidential == ("diagnosis",)


def test_numbers_are_moved_where_a_target_is_about_distance(people: Dataset) -> None:
    near = sf.utility.Displacement(variables=["systolic"])
    found = names(people, {"stayed.max": 0.1}, near)
    assert found == ["deterministic", "noise", "correlated_noise", "microaggregation"]
    both = names(people, {"stayed.max": 0.1, "k.min": 5}, near)
    assert "deterministic + k_anonymity(5)" in both
    assert "noise + coarsen, suppress(5)" in both


def test_a_target_that_holds_already_needs_nothing(people: Dataset) -> None:
    few = people.without(["height", "region", "household_size"])
    made = wanted(few, {"k.min": 5, "stayed.max": 0.1})
    assert made.known == ()
    assert made.k is None
    assert made.distant == ("systolic",)


def test_noise_begins_where_calibration_says(people: Dataset) -> None:
    measure = sf.risk.HIndex(variables=["height", "systolic"])
    made = propose_families(people, wanted(people, {"mean_h.min": 2.0}, measure))
    noise = next(one for one in made if one.name == "noise")
    assert noise.start is not None
    share = noise.axes[0].value_at(noise.start[0])
    found = sf.calibrate(people, ["height", "systolic"], known=["height", "systolic"], mean_h=2.0,
                         draws=4, precision=0.1)  # fmt: skip
    assert share == found.share


def test_what_is_compared_as_a_number_stays_one(people: Dataset) -> None:
    measure = sf.risk.Linkage(variables=["height"])
    made = propose_families(people, wanted(people, {"k.min": 3, "linkage.max": 0.2}, measure))
    step: Any = made[0].make(3)[0]
    assert step.output == {"height": "mean"}


def test_strata_are_categories_with_room(people: Dataset) -> None:
    near = sf.utility.Displacement(variables=["systolic"])
    made = propose_families(people, wanted(people, {"stayed.max": 0.1}, near))
    step: Any = made[0].make(3)[0]
    assert step.strata == ["sex"]  # some region has fewer than 30


def test_a_plan_of_one_step_is_made_weaker_and_stronger() -> None:
    noise = vary_plan((sf.methods.Noise(variables=["x"], variance_share=0.2),))
    assert noise.axes[0].value_at(noise.start[0]) == 0.2  # type: ignore[index]
    cut = vary_plan((sf.methods.Coarsen(variables=["x"], intervals=10),))
    assert list(cut.axes[0].values) == sorted(cut.axes[0].values, reverse=True)
    centres = vary_plan((sf.methods.Deterministic(variables=["x"], k=4),))
    assert min(centres.axes[0].values) == 3
    two = vary_plan((sf.methods.KAnonymity(k=4), sf.methods.Suppress(k=3)))
    assert two.axes == ()


@pytest.mark.parametrize("level", range(LEVELS + 1))
def test_every_level_can_be_carried_out(people: Dataset, level: int) -> None:
    known = list(people.schema.having("quasi"))
    data = people
    for step in coarsen_to_level(people, known, level):
        data = step.apply(data)
    assert len(data) == len(people)
    parts = [data.column(name).n_unique() for name in known]
    assert all(
        now <= people.column(name).n_unique() for name, now in zip(known, parts, strict=True)
    )


def test_levels_are_ever_coarser(people: Dataset) -> None:
    known = list(people.schema.having("quasi"))
    sizes = []
    for level in range(LEVELS + 1):
        data = people
        for step in coarsen_to_level(people, known, level):
            data = step.apply(data)
        sizes.append(data.batch(known).n_unique())
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0] / 4


def test_what_cannot_be_made_coarser_is_left() -> None:
    frame = pl.DataFrame({"grade": [1, 2, 2, 3], "note": ["a", "b", "c", "d"], "x": [1.0, 2, 3, 4]})
    schema = {"grade": sf.Column(role="quasi", kind="ordinal"),
              "note": sf.Column(role="quasi", kind="text"), "x": "quasi"}  # fmt: skip
    data = sf.Dataset(frame, sf.Schema(schema))  # type: ignore[arg-type]
    assert coarsen_to_level(data, ["grade", "note", "x"], 3) == ()
