"""Descriptions of noise: what is written is what is read, and nonsense is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import DataError, PlanError
from sfumato.noise.description import (
    NoiseDescription,
    level_codes,
    read_descriptions,
    write_descriptions,
)
from sfumato.noise.scales import Growth, Scale

KNOTS: dict[str, Any] = {"values": [0.0, 1.0, 5.0], "scores": [-1.0, 0.0, 1.0]}
SOME: list[NoiseDescription] = [
    sf.Gaussian(variance=0.2),
    sf.Gaussian(variance=0.2, scale=Scale(name="log", shift=1), at_most=9.0, whole=True),
    sf.Gaussian(growth=Growth(form="step", breaks=[1.0], variances=[0.1, 0.4])),
    sf.Gaussian(variance=1.0, scale=Scale(name="rank_normal", **KNOTS)),
    sf.Laplace(variance=2.0, at_least=0.0),
    sf.CorrelatedGaussian(
        variables=["a", "b"], weight=0.9, mean=[0.1, 0.2], covariance=[[1.0, 0.5], [0.5, 1.0]]
    ),
    sf.CodeNoise(variance=[0.2, 0.3], levels=["no", "yes"], ends="round"),
    sf.Misclassification(levels=[0, 1], matrix=[[0.9, 0.1], [0.2, 0.8]]),
    sf.Misclassification(
        levels=["a", "b"], strata=[{"where": {"sex": "f"}, "matrix": [[1.0, 0.0], [0.5, 0.5]]}]
    ),
]


@pytest.mark.parametrize("one", SOME, ids=lambda one: type(one).__name__)
def test_what_is_written_is_read(one: NoiseDescription) -> None:
    through = json.loads(json.dumps(write_descriptions({"age": one})))
    assert read_descriptions(through) == {"age": one}


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (sf.Gaussian, {}),
        (sf.Gaussian, {"variance": 1.0, "growth": Growth(form="linear", slope=1.0)}),
        (sf.Gaussian, {"variance": -1.0}),
        (sf.Gaussian, {"variance": float("nan")}),
        (sf.Gaussian, {"variance": 1.0, "at_least": 3.0, "at_most": 2.0}),
        (sf.CodeNoise, {"variance": 1.0, "levels": ["a"]}),
        (sf.CodeNoise, {"variance": [1.0], "levels": ["a", "b"]}),
        (sf.Misclassification, {"levels": ["a", "b"]}),
        (sf.Misclassification, {"levels": ["a", "b"], "matrix": [[0.9, 0.2], [0.5, 0.5]]}),
        (sf.CorrelatedGaussian, {"variables": ["a"], "weight": 0.5, "mean": [], "covariance": []}),
        (Scale, {"name": "logit", "low": 1.0, "high": 1.0}),
        (Scale, {"name": "rank_normal", "values": [1.0, 1.0], "scores": [0.0, 1.0]}),
        (Growth, {"form": "step", "breaks": [1.0], "variances": [1.0]}),
    ],
)
def test_nonsense_is_refused(made: Any, told: dict[str, Any]) -> None:
    with pytest.raises(PlanError):
        made(**told)


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(DataError, match="version"):
        read_descriptions({"version": 99, "variables": {}})
    with pytest.raises(DataError, match="'age'"):
        read_descriptions({"version": 1, "variables": {"age": {"distribution": "cauchy"}}})
    with pytest.raises(DataError, match="'age'"):
        read_descriptions({"version": 1, "variables": {"age": {"distribution": "gaussian"}}})


def test_codes_are_the_levels_where_these_count() -> None:
    assert level_codes([1, 2, 3]).tolist() == [1, 2, 3]
    assert level_codes([0.0, 1.0]).tolist() == [0, 1]
    assert level_codes([2, 4]).tolist() == [0, 1]
    assert level_codes([False, True]).tolist() == [0, 1]
    assert level_codes(["b", "a"]).tolist() == [0, 1]


@given(st.lists(st.floats(0.001, 0.999), min_size=1, max_size=20))
def test_scales_come_back(values: list[float]) -> None:
    x = np.array(values)
    for scale in (
        Scale(name="log", shift=0.5),
        Scale(name="square_root", shift=0.1),
        Scale(name="logit", low=0.0, high=1.0),
        Scale(name="rank_normal", **KNOTS),
    ):
        assert scale.holds(x).all()
        np.testing.assert_allclose(scale.back(scale.forth(x)), x, atol=1e-12)


def test_a_scale_says_what_it_cannot_hold() -> None:
    x = np.array([-1.0, 0.0, 0.5, 1.0])
    assert Scale(name="log").holds(x).tolist() == [False, False, True, True]
    assert Scale(name="square_root").holds(x).tolist() == [False, True, True, True]
    assert Scale(name="logit", low=0, high=1).holds(x).tolist() == [False, False, True, False]
    assert np.isfinite(Scale(name="logit", low=0, high=1).back(np.array([-900.0, 900.0]))).all()


def test_variances_never_fall_below_nought() -> None:
    x = np.array([-5.0, 0.0, 5.0])
    assert Growth(form="linear", constant=1, slope=1).variance(x).tolist() == [0, 1, 6]
    assert Growth(form="power", slope=2, power=2).variance(x).tolist() == [50, 0, 50]
