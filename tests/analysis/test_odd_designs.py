"""Odd designs give a result, or an error of ours with a hint: never one of numpy or scipy."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import SfumatoError

FAMILIES = (
    "gaussian", "bernoulli", "poisson", "binomial", "negative_binomial", "ordinal", "multinomial"
)  # fmt: skip
METHODS = ("moments", "calibration", "simex", "posterior")
TURNS = [
    ("gaussian", "posterior"), ("gaussian", "calibration"), ("bernoulli", "posterior"),
    ("gaussian", "moments"), ("poisson", "posterior"), ("gaussian", "simex"),
    ("binomial", "calibration"), ("ordinal", "posterior"), ("negative_binomial", "posterior"),
    ("multinomial", "posterior"),
]  # fmt: skip
FORMULAS = (
    "y ~ x",
    "y ~ x + z",
    "y ~ x * z",
    "y ~ x + I(x ** 2)",
    "y ~ x + w",
    "y ~ C(c) + x",
    "y ~ x + (1 | s)",
    "y ~ g + (1 | s)",
    "y ~ g + x + (1 | s)",
    "y ~ g * x + (1 + x | s)",
    "y ~ k + g + (1 | s)",
)
ODD = (
    "plain", "constant", "collinear", "one group", "group level", "few", "no noise", "huge noise",
    "huge values", "tiny values", "missing", "groups of one", "certain", "same outcome",
)  # fmt: skip


def build_design(odd: str, records: int, seed: int) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Records that are odd in one way, and the noise of their variables."""
    rng = np.random.default_rng(seed)
    n = min(records, 5) if odd == "few" else records
    s = np.zeros(n, int) if odd == "one group" else np.arange(n) % max(n // 4, 1)
    s = np.arange(n) if odd == "groups of one" else s
    z, g = rng.normal(size=n), rng.normal(size=n)[s]
    x: Any = rng.normal(size=n)
    x = np.full(n, 3.0) if odd == "constant" else x
    z = 2 * x + 1 if odd == "collinear" else z
    g = s.astype(float) if odd == "group level" else g
    scale = {"huge values": 1e150, "tiny values": 1e-150}.get(odd, 1.0)
    x, g = scale * x, scale * g
    y = 1 + x / scale + 0.5 * z + rng.normal(size=n)
    y = 1.0 * (x > 0) if odd == "certain" else np.ones(n) if odd == "same outcome" else y
    if odd == "missing":
        x, g = np.where(rng.uniform(size=n) < 0.8, np.nan, x), np.where(s % 2 == 0, np.nan, g)
    variance = {"no noise": 0.0, "huge noise": 1e6}.get(odd, 0.3) * scale**2
    data = pl.DataFrame(
        {
            "y": y, "x": x, "z": z, "w": z, "g": g, "s": s,
            "c": rng.integers(0, 2, size=n), "k": rng.integers(0, 2, size=n)[s],
            "trials": np.full(n, 3),
        },
        nan_to_null=True,
    )  # fmt: skip
    matrix = [[0.9, 0.1], [0.1, 0.9]]
    codes = sf.Misclassification(levels=[0, 1], matrix=matrix)
    number = sf.Gaussian(variance=variance)
    return data, {"x": number, "w": number, "g": number, "c": codes, "k": codes}


def fit_or_refuse(formula: str, odd: str, family: str, method: Any, records: int, seed: int) -> str:
    data, noise = build_design(odd, records, seed)
    y = data["y"].to_numpy()
    if family != "gaussian":
        most = {"bernoulli": 1, "binomial": 3, "ordinal": 3, "multinomial": 2}.get(family, 20)
        data = data.with_columns(y=pl.Series(np.clip(np.rint(y), 0, most)))
    options: dict[str, Any] = {"trials": "trials"} if family == "binomial" else {}
    used = {name: kind for name, kind in noise.items() if name in formula}
    try:
        with warnings.catch_warnings():
            # A warning of numpy would reach the user as well.
            warnings.simplefilter("error", RuntimeWarning)
            fit = sf.fit(
                formula, data, noise=used, family=family, method=method, draws=8, chains=2,
                seed=seed, **options,
            )  # fmt: skip
    except SfumatoError as error:
        assert error.hint, f"{error} has no hint"
        # What is caught at the door says that numbers ran out, and is no mistake of ours.
        assert isinstance(error.__cause__, (np.linalg.LinAlgError, ArithmeticError, type(None)))
        return "refused"
    assert set(fit.terms) <= set(fit.parameters)
    assert fit.summary() is not None
    return "fitted"


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_design_is_fitted_or_refused(odd):
    # A third of the formulas, with families and methods taking turns; the study has all.
    start = ODD.index(odd)
    turns = itertools.cycle(TURNS[start % len(TURNS) :] + TURNS[: start % len(TURNS)])
    for formula, (family, method) in zip(FORMULAS[start % 3 :: 3], turns, strict=False):
        assert fit_or_refuse(formula, odd, family, method, records=20, seed=1)


@pytest.mark.study
@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(FORMULAS), st.sampled_from(ODD), st.sampled_from(FAMILIES),
    st.sampled_from(METHODS), st.integers(1, 40), st.integers(0, 1000),
)  # fmt: skip
def test_any_odd_design_is_fitted_or_refused(formula, odd, family, method, records, seed):
    assert fit_or_refuse(formula, odd, family, method, records, seed)
