"""Each warning of a fit begins where it says: just inside nothing is said, just outside it is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sfumato.analysis.fit_warnings import (
    check_agreement,
    check_draws,
    check_mismatches,
    check_problem,
    detect_separation,
    find_disagreements,
    quote_terms,
)
from sfumato.analysis.predictive_check import Mismatch
from sfumato.analysis.problem import GroupingFactor

FINE: Any = SimpleNamespace(certain=False)


def problem(groups: int | None = None, generalised: tuple[str, ...] = ()) -> Any:
    numbers = [SimpleNamespace(name="x")]
    factors = []
    if groups is not None:
        factors = [GroupingFactor("school", np.arange(3 * groups) % groups, (0,))]
    return SimpleNamespace(
        numbers=numbers,
        generalised=generalised,
        categories=(),
        factors=factors,
        more_factors=factors[1:],
        partition=None,
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


@pytest.mark.parametrize(("share", "said"), [(0.76, ""), (0.74, "its interval may be too narrow")])
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


@pytest.mark.parametrize(
    ("moments", "error", "more", "warned"),
    [
        # The SD of the difference is that of independent information: sqrt(0.5^2 - 0.3^2) = 0.4.
        (1 + 3.29 * 0.4, 0.5, {"sd": 0.3}, False),
        (1 - 3.31 * 0.4, 0.5, {"sd": 0.3}, True),
        # It is at least 0.35 of the moments' error.
        (1 + 3.29 * 0.35, 1.0, {"sd": 0.99}, False),
        (1 + 3.31 * 0.35, 1.0, {"sd": 0.99}, True),
        # What chains are uncertain about counts as well: sqrt(0.4^2 + 0.3^2) = 0.5.
        (1 + 3.29 * 0.5, 0.5, {"sd": 0.3, "mcse": 0.3}, False),
        (1 + 3.31 * 0.5, 0.5, {"sd": 0.3, "mcse": 0.3}, True),
        (1 + 3.31 * 0.4, 0.5, {"sd": 0.3, "mcse": np.inf}, True),
    ],
)
def test_corrected_moments_disagree_from_3_3_sds_of_the_difference_on(moments, error, more, warned):
    shown = row(moments=moments, **{"mcse": 0.0, **more})
    estimates: Any = SimpleNamespace(error={"x": error})
    assert find_disagreements([shown], estimates) == ["x"] * warned
    assert [("corrected moments" in said) for said in check_agreement([shown], estimates)] == [
        True
    ] * warned
    assert find_disagreements([shown], None) == []


def test_each_variable_has_its_own_mismatch_and_residuals_have_theirs():
    mismatches = [
        Mismatch("x2", "SD", "in a group of 'z'", 2.0, 1.0, 9.0),
        Mismatch("x1", "mean", "", 4.0, 3.0, 8.0),
        Mismatch("x2", "skewness", "", 6.0, 5.0, 7.0),
        Mismatch("", "SD", "", 8.0, 7.0, 6.0),
    ]
    first, second, third = check_mismatches(mismatches)
    assert "released of 'x2' (SD in a group of 'z': 2, simulated 1)" in first
    assert "released of 'x1' (mean: 4, simulated 3)" in second
    assert "(SD of residuals: 8, simulated 7)" in third
    assert check_mismatches([]) == []


@pytest.mark.parametrize(
    ("family", "sd", "warned"),
    [
        ("bernoulli", 0.74, False),
        ("bernoulli", 0.76, True),
        ("poisson", 2.49, False),
        ("poisson", 2.51, True),
        ("gaussian", 99.0, False),
    ],
)
def test_a_coefficient_is_hardly_bound_from_an_effect_of_a_prior_on(family, sd, warned):
    model: Any = SimpleNamespace(family=family, terms=[SimpleNamespace(name="x")])
    x = np.array([[-2.0], [2.0], [np.nan]])
    assert bool(detect_separation(model, x, [row(sd=sd)])) == warned


def test_the_first_four_terms_are_named():
    assert quote_terms(["a", "b", "c", "d"]) == "'a', 'b', 'c', 'd'"
    assert quote_terms(["a", "b", "c", "d", "e", "f"]) == "'a', 'b', 'c', 'd' and 2 more"
