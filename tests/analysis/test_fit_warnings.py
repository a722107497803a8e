"""Each warning of a fit begins where it says: just inside nothing is said, just outside it is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sfumato.analysis.fit_warnings import check_agreement, check_draws, check_problem

FINE: Any = SimpleNamespace(certain=False)


def problem(groups: int | None = None, generalised: tuple[str, ...] = ()) -> Any:
    numbers = [SimpleNamespace(name="x")]
    ids = None if groups is None else np.arange(3 * groups) % groups
    return SimpleNamespace(
        numbers=numbers, generalised=generalised, categories=(), groups=ids, partition=None
    )


def row(**more: float) -> dict[str, Any]:
    return {"term": "x", "mean": 1.0, "sd": 0.1, "rhat": 1.0, "ess": 1e4} | more


@pytest.mark.parametrize(
    ("share", "said"),
    [(0.51, ""), (0.49, "more than half is noise"), (0.21, "more than half"), (0.19, "nearly all")],
)
def test_little_reliability_is_said_from_one_half_on(share, said):
    warnings = check_problem(problem(), {"x": share}, FINE)
    assert len(warnings) == bool(said)
    assert all(said in warning for warning in warnings)


@pytest.mark.parametrize(
    ("name", "share", "said"),
    [
        ("x", 0.91, ""),
        ("x", 0.89, "11% lies within its ranges"),
        ("c", 0.51, ""),
        ("c", 0.49, "known for 49% of the records"),
    ],
)
def test_wide_cells_are_said_from_a_tenth_and_from_one_half_on(name, share, said):
    warnings = check_problem(problem(generalised=("x", "c")), {name: share}, FINE)
    assert len(warnings) == bool(said)
    assert all(said in warning for warning in warnings)


@pytest.mark.parametrize(
    ("share", "said"), [(0.76, ""), (0.74, "rests on the shape of its true values")]
)
def test_wide_cells_that_were_cut_apart_are_said_from_a_quarter_on(share, said):
    cells = problem(generalised=("x",))
    cells.partition = SimpleNamespace(variables=("x",))
    warnings = check_problem(cells, {"x": share}, FINE)
    assert len(warnings) == bool(said)
    assert all(said in warning for warning in warnings)


@pytest.mark.parametrize(("groups", "warned"), [(9, True), (10, False), (None, False)])
def test_fewer_than_ten_groups_are_few(groups, warned):
    assert bool(check_problem(problem(groups), {"x": 0.9}, FINE)) == warned


@pytest.mark.parametrize(("normal", "warned"), [(1.049, False), (1.051, True), (0.949, True)])
def test_another_shape_matters_from_half_an_sd_on(normal, warned):
    warnings = check_agreement([row(normal=normal)], None)
    assert [("more than half an SD" in warning) for warning in warnings] == [True] * warned


@pytest.mark.parametrize(("rhat", "warned"), [(1.009, False), (1.011, True)])
@pytest.mark.parametrize("independent", [False, True])
def test_chains_disagree_from_an_r_hat_of_1_01_on(rhat, warned, independent):
    posterior: Any = SimpleNamespace(
        complete=True, draws=np.zeros((4, 1000, 1)), independent=independent
    )
    said = [
        warning for warning in check_draws([row(rhat=rhat)], posterior) if "do not agree" in warning
    ]
    assert bool(said) == (warned and not independent)


@pytest.mark.parametrize(("ess", "warned"), [(401.0, False), (399.0, True)])
def test_fewer_than_400_effective_draws_are_few(ess, warned):
    posterior: Any = SimpleNamespace(complete=True, draws=np.zeros((4, 1000, 1)), independent=False)
    assert bool(check_draws([row(ess=ess)], posterior)) == warned
