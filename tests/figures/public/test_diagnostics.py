"""Diagnostics of a model: outcomes as others compute them, protected, never refitted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import sfumato as sf
from sfumato.errors import DataError, SfumatoError
from sfumato.figures.public.diagnostics import read_outcomes
from sfumato.figures.public.distance import FAR
from sfumato.figures.public.residuals import fit_local_lines
from sfumato.outputs.output import OutputRefused

KEY = bytes(range(32))
NAMED = ("suppress", "generalise", "deterministic", "noise")
KINDS = ("residuals", "qq", "leverage")


def records(n: int = 300) -> pd.DataFrame:
    chance = np.random.default_rng(4)
    age = chance.normal(50, 10, n)
    sex = chance.choice(["f", "m"], n)
    return pd.DataFrame(
        {
            "age": age,
            "sex": sex,
            "pressure": 90 + 0.6 * age + 4 * (sex == "m") + chance.normal(0, 9, n),
            "visits": chance.poisson(np.exp(0.02 * age)),
            "ill": chance.binomial(1, 1 / (1 + np.exp(5 - 0.1 * age))),
        }
    )


def ols() -> Any:
    return smf.ols("pressure ~ age + sex", records()).fit()


@pytest.mark.parametrize("kind", ["ols", "poisson", "binomial"])
def test_outcomes_are_those_of_statsmodels(kind):
    if kind == "ols":
        fit = ols()
        influence = fit.get_influence()
        standardised = influence.resid_studentized_internal
    else:
        family = getattr(sm.families, kind.title())()
        outcome = {"poisson": "visits", "binomial": "ill"}[kind]
        fit = smf.glm(f"{outcome} ~ age + sex", records(), family=family).fit()
        influence = fit.get_influence()
        standardised = influence.resid_studentized
    made = read_outcomes(fit)
    assert made.parameters == 3
    for name, theirs in (
        ("fitted", fit.fittedvalues),
        ("standardised", standardised),
        ("leverage", influence.hat_matrix_diag),
        ("cook", influence.cooks_distance[0]),
    ):
        assert made.frame[name].to_numpy() == pytest.approx(np.asarray(theirs), abs=1e-9), name


def test_a_link_that_is_not_canonical_has_the_leverage_of_its_weights():
    # statsmodels' own influence takes the observed information; we take the expected, as R does.
    link = sm.families.Gamma(sm.families.links.Log())
    fit = smf.glm("pressure ~ age", records(), family=link).fit()
    theirs = fit.get_hat_matrix_diag(observed=False)
    assert read_outcomes(fit).frame["leverage"].to_numpy() == pytest.approx(theirs, abs=1e-9)


def test_weights_count():
    frame = records()
    weights = np.linspace(0.5, 2, len(frame))
    design = sm.add_constant(frame[["age"]].to_numpy())
    outcome = frame["pressure"].to_numpy()
    root = np.sqrt(weights)
    made = read_outcomes(sm.WLS(outcome, design, weights=weights).fit()).frame
    theirs = sm.OLS(outcome * root, design * root[:, None]).fit().get_influence()
    assert made["leverage"].to_numpy() == pytest.approx(theirs.hat_matrix_diag)
    assert made["standardised"].to_numpy() == pytest.approx(theirs.resid_studentized_internal)


def test_scikit_learn_gives_the_same_as_statsmodels():
    frame = records()
    table, outcome = frame[["age"]].assign(m=(frame["sex"] == "m") * 1.0), frame["pressure"]
    plain = read_outcomes(LinearRegression().fit(table, outcome), (table, outcome))
    scaled = make_pipeline(StandardScaler(), LinearRegression()).fit(table, outcome)
    theirs = read_outcomes(ols())
    for made in (plain, read_outcomes(scaled, (table, outcome))):
        assert made.parameters == 3
        for name in ("fitted", "residual", "standardised", "leverage", "cook"):
            assert made.frame[name].to_numpy() == pytest.approx(theirs.frame[name].to_numpy())
    assert plain.outcome == "pressure"
    bent = make_pipeline(PolynomialFeatures(2, include_bias=False), LinearRegression())
    bent.fit(table[["age"]], outcome)
    assert read_outcomes(bent, (table[["age"]], outcome)).parameters == 3


def test_models_without_a_hat_matrix_have_residuals_and_no_leverage():
    frame = records(80)
    table, outcome = frame[["age"]], frame["pressure"]
    for model in (Ridge(), RandomForestRegressor(5, random_state=0)):
        model.fit(table, outcome)
        made = read_outcomes(model, (table, outcome))
        assert not made.has_leverage
        assert sf.plots.residuals(model, (table, outcome)).table.height > 10
        with pytest.raises(SfumatoError, match="leverage of the records is not known"):
            sf.plots.leverage(model, (table, outcome))


def test_what_gives_no_residuals_says_so():
    frame = records(60)
    with pytest.raises(SfumatoError, match="does not keep its data"):
        read_outcomes(LinearRegression().fit(frame[["age"]], frame["pressure"]))
    with pytest.raises(SfumatoError, match="a classifier"):
        read_outcomes(LogisticRegression().fit(frame[["age"]], frame["ill"]), (frame, frame["ill"]))
    with pytest.raises(SfumatoError, match="no outcomes of a model"):
        read_outcomes(42)
    with pytest.raises(DataError, match="did you mean 'residuals'"):
        read_outcomes(pl.DataFrame({"fitted": [1.0], "residuals": [1.0]}))
    with pytest.raises(DataError, match="must hold numbers"):
        read_outcomes(pl.DataFrame({"fitted": ["a"], "residual": [1.0]}))


def test_a_frame_of_outcomes_will_do():
    theirs = read_outcomes(ols())
    for frame in (theirs.frame, theirs.frame.to_pandas(), theirs.frame.to_arrow()):
        made = read_outcomes(frame)
        assert made.parameters == 3
        assert made.frame["cook"].to_numpy() == pytest.approx(theirs.frame["cook"].to_numpy())


def test_an_object_that_brings_its_diagnostics_will_do():
    class Fitted:
        formula, terms = "pressure ~ age", ("Intercept", "age", "sex")

        def diagnostics_frame(self):
            return read_outcomes(ols()).frame.drop("cook")

    made = read_outcomes(Fitted())
    assert (made.parameters, made.outcome) == (3, "pressure")
    assert sf.plots.leverage(Fitted()).verdict == "pass"


@pytest.mark.parametrize("kind", KINDS)
def test_saturated_models_are_refused(kind):
    frame = records(20).assign(group=[str(at) for at in range(20)])
    with pytest.raises(SfumatoError, match="parameters as records"):
        getattr(sf.plots, kind)(smf.ols("pressure ~ group", frame).fit())
    near = frame.assign(group=[str(at % 15) for at in range(20)])
    with pytest.raises(OutputRefused, match="nearly as many parameters"):
        getattr(sf.plots, kind)(smf.ols("pressure ~ group", near).fit())


@pytest.mark.parametrize("protection", NAMED)
@pytest.mark.parametrize("kind", KINDS)
def test_every_protection_draws_every_diagnostic(kind, protection):
    made = getattr(sf.plots, kind)(ols(), protection=protection, key=KEY)
    assert made.verdict == ("review" if made.details["distance"] > FAR else "pass")
    assert made.audience == "public"
    assert "not fitted again" in made.description
    if "records" in made.table.columns:
        assert made.table["records"].to_numpy().min() >= 3


def test_outcomes_are_protected_and_the_model_is_not_refitted():
    fit = ols()
    told = read_outcomes(fit).frame
    made = sf.plots.residuals(fit, protection="deterministic").table
    # Means and spreads of the outcomes stay, as paper 000 has it; no pair does.
    for name in ("fitted", "residual"):
        assert made[name].mean() == pytest.approx(
            told[name].mean(), abs=0.05 * float(told[name].to_numpy().std())
        )
        # To the four digits that a figure shows.
        assert made[name].std() == pytest.approx(told[name].std(), rel=1e-4)
    assert not set(made.rows()) & set(told.select("fitted", "residual").rows())


def test_noise_is_added_before_ordering_so_that_the_qq_plot_rises():
    made = sf.plots.qq(ols(), protection="noise", key=KEY, sd_share=1.0).table
    assert made["observed"].is_sorted()
    assert made["theoretical"].is_sorted()
    told = read_outcomes(ols()).frame["standardised"]
    assert made["observed"].std() == pytest.approx(float(told.to_numpy().std()) * 2**0.5, rel=0.12)


def test_a_qq_plot_of_a_variable_and_a_method_of_ones_own():
    frame = records()
    made = sf.plots.qq(frame, "age", protection="deterministic")
    assert made.axes[0].get_ylabel() == "age"
    own = sf.methods.Noise(variables=["age"], sd_share=0.5)
    method = sf.plots.qq(frame, "age", protection=own, key=KEY)
    assert method.verdict == "review"
    assert method.table["observed"].is_sorted()
    with pytest.raises(SfumatoError, match="not for a model"):
        sf.plots.qq(ols(), "age")


def test_cooks_contours_are_drawn_where_they_can_be_seen():
    frame = records(60)
    frame.loc[:4, "age"], frame.loc[:4, "pressure"] = 140, 30
    seen = sf.plots.leverage(smf.ols("pressure ~ age", frame).fit(), protection="deterministic")
    assert 0.5 in seen.details["contours"]
    assert sf.plots.leverage(ols()).details["contours"] == []
    assert "stays below 0.5" in sf.plots.leverage(ols()).description
    (lines,) = [one for one in seen.axes if one.lines]
    pull = np.asarray(lines.lines[1].get_xdata())
    height = lines.lines[1].get_ydata()
    distance = np.asarray(height) ** 2 * pull / (1 - np.asarray(pull)) / 2
    assert distance == pytest.approx(np.full(len(pull), distance[0]))
    assert distance[0] in (pytest.approx(0.5), pytest.approx(1.0))


def test_noise_never_draws_a_leverage_below_zero():
    made = sf.plots.leverage(ols(), protection="noise", key=KEY, sd_share=1.0)
    assert made.table["leverage"].to_numpy().min() >= 0.0
    assert "mirrored" in made.description


@pytest.mark.parametrize("protection", NAMED)
def test_records_in_any_order_give_the_same(protection):
    frame = read_outcomes(ols()).frame
    for kind in KINDS:
        draw = getattr(sf.plots, kind)
        first = draw(frame, protection=protection, key=KEY).table
        other = draw(frame.reverse(), protection=protection, key=KEY).table
        assert other.equals(first), kind


def test_the_smoothed_mean_follows_a_bend_and_only_where_points_are():
    x = np.linspace(0, 1, 2000)
    places, level = fit_local_lines(x, np.sin(3 * x), np.ones(2000), 3) or (x, x)
    assert np.abs(level - np.sin(3 * places)).max() < 0.05
    assert fit_local_lines(np.ones(9), np.arange(9.0), np.ones(9), 3) is None


def test_many_records_become_a_grid_and_the_caption_says_so():
    chance = np.random.default_rng(3)
    frame = pl.DataFrame(
        {"fitted": chance.normal(size=30_000), "residual": chance.normal(size=30_000)}
    )
    made = sf.plots.residuals(frame, protection="noise", key=KEY)
    assert "fine grid of counts" in made.description
    assert made.table["records"].to_numpy().min() >= 3
