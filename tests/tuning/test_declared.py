"""A method of another package is found by what its class declares: `tune` turns its strength, and
the attacks it invites are tried."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
import polars as pl
import pytest
from pydantic import Field

import sfumato as sf
from sfumato import catalogue
from sfumato.data import Dataset
from sfumato.method import Fitted, Method, Strength
from sfumato.parameters import parameters
from sfumato.plan import Plan
from sfumato.run.attacks import attacks
from sfumato.tuning.candidates import propose_families, vary_plan
from sfumato.tuning.requirements import read_requirements
from sfumato.tuning.search import tune

if TYPE_CHECKING:
    from sfumato.engines import Chance, Engine
    from sfumato.schema import Schema


@parameters
class RecordSwapping(Method):
    """Swap values between neighbouring records, for a share of them.

    Parameters
    ----------
    variables : the variables whose values are swapped.
    share : the share of records that are swapped.
    """

    name = "record_swapping"
    strength = Strength("share")
    preserves = ("repeated readings",)
    examples = ({"variables": ["systolic"], "share": 0.1},)
    variables: list[str]
    share: Annotated[float, Field(gt=0, le=0.5)] = 0.1

    def transform(
        self, data: Dataset, fitted: Fitted, *, engine: Engine, chance: Chance | None
    ) -> Dataset:
        order = np.arange(len(data))
        swapped = int(self.share * len(data)) // 2 * 2
        order[:swapped] = order[:swapped].reshape(-1, 2)[:, ::-1].ravel()
        columns = [data.column(name).gather(order) for name in self.variables]
        return data.with_columns(pl.DataFrame(columns), data.schema)

    def touches(self, schema: Schema) -> tuple[str, ...]:
        return tuple(self.variables)


@pytest.fixture
def swapping(monkeypatch: pytest.MonkeyPatch) -> type[RecordSwapping]:
    known = catalogue.methods()
    monkeypatch.setattr(
        catalogue, "methods", lambda: {**known, RecordSwapping.name: RecordSwapping}
    )
    return RecordSwapping


def test_a_declared_strength_makes_a_family(
    swapping: type[RecordSwapping], people: Dataset, moved: Plan
) -> None:
    requirements = read_requirements(moved.targets, moved.measures, people)
    families = {family.name: family for family in propose_families(people, requirements)}
    family = families["record_swapping"]
    assert family.axes[0].name == "share"
    assert family.axes[0].values == (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)  # 1 is no valid share
    assert family.steps((2.0,)) == (swapping(variables=["systolic"], share=0.01),)


def test_a_declared_strength_varies_the_plan() -> None:
    family = vary_plan((RecordSwapping(variables=["systolic"], share=0.2),))
    assert family.axes[0].values == (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3)
    assert family.start == (5.0,)


def test_the_search_tries_it(swapping: type[RecordSwapping], people: Dataset, moved: Plan) -> None:
    found = tune(people, moved, runs=12, repeats=1)
    assert "record_swapping" in {candidate.family for candidate in found.candidates}


def test_the_attacks_it_invites_are_tried() -> None:
    invited = attacks(sf.Plan(steps=[RecordSwapping(variables=["systolic"])]))
    assert invited["averaging"] == sf.risk.Averaging(variables=["systolic"])


@pytest.mark.parametrize("name", sorted(catalogue.methods()))
def test_what_a_class_declares_exists(name: str) -> None:
    method = catalogue.methods()[name]
    # Each of what it leaves as it was is exploited by an attack.
    trials = [measure.trial for measure in catalogue.measures().values() if measure.trial]
    attacked = {what for trial in trials for what in trial.exploits}
    assert {*method.preserves} <= attacked
    if method.strength is not None:
        names = {parameter.name for parameter in catalogue.parameters_of(method)}
        assert method.strength.parameter in names
