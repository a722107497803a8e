"""Forest plots: coefficients that rest on enough records, rounded."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import statsmodels.formula.api as smf
from sklearn.linear_model import LinearRegression, Ridge

import sfumato as sf
from sfumato.errors import DataError, PlanError, SfumatoError
from sfumato.figures.public.forest import ForestTerm
from sfumato.outputs.output import OutputRefused


def records(n: int = 200) -> pd.DataFrame:
    chance = np.random.default_rng(8)
    frame = pd.DataFrame(
        {"age": chance.normal(50, 10, n), "region": chance.choice(["north", "south", "west"], n)}
    )
    return frame.assign(pressure=90 + 0.6 * frame["age"] + chance.normal(0, 9, n))


TABLE = pl.DataFrame(
    {"term": ["age", "sex"], "estimate": [1.01234, -0.4], "low": [0.5, -0.9], "high": [1.5, 0.1]}
)


def test_estimates_are_those_of_the_model_to_two_digits_of_the_interval():
    fit = smf.ols("pressure ~ age + region", records()).fit()
    made = sf.plots.forest(fit, intercept=True)
    ends = fit.conf_int()
    for term, estimate, low, high in made.table.rows():
        half = (ends.loc[term, 1] - ends.loc[term, 0]) / 2
        assert estimate == pytest.approx(fit.params[term], abs=half / 15)
        assert low == pytest.approx(ends.loc[term, 0], abs=half / 15)
        assert high == pytest.approx(ends.loc[term, 1], abs=half / 15)
        assert f"{estimate:.17g}" != f"{fit.params[term]:.17g}"
    assert made.verdict == "pass"
    assert "95 % intervals" in made.caption


def test_scikit_learn_has_the_intervals_of_least_squares():
    frame = records()
    model = LinearRegression().fit(frame[["age"]], frame["pressure"])
    theirs = sf.plots.forest(smf.ols("pressure ~ age", frame).fit())
    made = sf.plots.forest(model, (frame[["age"]], frame["pressure"]))
    assert made.table.equals(theirs.table)
    ridge = Ridge().fit(frame[["age"]], frame["pressure"])
    with pytest.raises(SfumatoError, match="LinearRegression only"):
        sf.plots.forest(ridge, (frame[["age"]], frame["pressure"]))


def test_terms_on_few_records_are_refused():
    frame = records()
    frame.loc[:1, "region"] = "zone"
    with pytest.raises(OutputRefused, match=r"region\[T.zone\]"):
        sf.plots.forest(smf.ols("pressure ~ age + region", frame).fit())


def test_a_rare_level_of_reference_is_refused_too():
    frame = records()
    frame.loc[:1, "region"] = "alone"  # the first in the alphabet is what others are compared with
    with pytest.raises(OutputRefused, match="rare level"):
        sf.plots.forest(smf.ols("pressure ~ age + region", frame).fit())
    frame.loc[2, "region"] = "alone"
    assert sf.plots.forest(smf.ols("pressure ~ age + region", frame).fit()).verdict == "pass"
    with pytest.raises(OutputRefused):
        sf.plots.forest(smf.ols("pressure ~ age + region", frame).fit(), k=5)


def test_a_single_record_of_much_influence_asks_for_a_second_look():
    frame = records(40)
    frame.loc[0, "age"] = 150
    made = sf.plots.forest(smf.ols("pressure ~ age", frame).fit())
    assert made.verdict == "review"
    assert "influence" in made.reasons[0]


def test_saturated_models_are_refused():
    frame = records(20).assign(one=[str(at % 12) for at in range(20)])
    with pytest.raises(OutputRefused, match="nearly as many parameters"):
        sf.plots.forest(smf.ols("pressure ~ one", frame).fit())
    with pytest.raises(OutputRefused, match="fewer than 10 records"):
        sf.plots.forest(smf.ols("pressure ~ age", records(9)).fit())


def test_a_table_of_coefficients_will_do_but_asks_for_a_second_look():
    for frame in (TABLE, TABLE.to_pandas(), TABLE.to_arrow()):
        made = sf.plots.forest(frame)
        assert made.table["estimate"].to_list() == [1.01, -0.4]
        assert made.verdict == "review"
    known = TABLE.with_columns(records=pl.Series([90, 40]))
    assert sf.plots.forest(known).verdict == "pass"
    with pytest.raises(OutputRefused, match="sex"):
        sf.plots.forest(TABLE.with_columns(records=pl.Series([90, 2])))
    assert "records" not in sf.plots.forest(known).table.columns


def test_the_fit_of_noised_data_will_do():
    class Fit:
        terms, records, level = ("Intercept", "age"), 500, 0.9
        parameters = ("Intercept", "age", "variance")
        rows = tuple({"term": one, "mean": 1.234, "low": 1.0, "high": 1.5} for one in parameters)

    made = sf.plots.forest(Fit())
    assert made.table["term"].to_list() == ["age"]
    assert "90 % intervals" in made.caption


def test_terms_can_be_chosen_and_wrong_ones_are_told():
    fit = smf.ols("pressure ~ age + region", records()).fit()
    assert sf.plots.forest(fit, terms=["age"]).table.height == 1
    with pytest.raises(SfumatoError, match="did you mean 'age'"):
        sf.plots.forest(fit, terms=["agee"])
    with pytest.raises(PlanError, match="level"):
        sf.plots.forest(fit, level=95)
    with pytest.raises(OutputRefused, match="neither moved nor noised"):
        sf.plots.forest(fit, protection="noise")  # type: ignore[arg-type]
    with pytest.raises(OutputRefused, match="k is below"):
        sf.plots.forest(fit, k=2)
    with pytest.raises(DataError, match="'low'"):
        sf.plots.forest(TABLE.drop("low"))
    with pytest.raises(SfumatoError, match="no model"):
        sf.plots.forest(3)


def test_rounding_keeps_what_the_interval_warrants():
    assert ForestTerm("a", 1234.567, 1200.0, 1270.0).round().estimate == 1235.0
    assert ForestTerm("a", 0.0012345, 0.001, 0.0015).round().estimate == 0.00123
    assert ForestTerm("a", 1.23456, 1.23456, 1.23456).round().estimate == 1.23456


def test_a_forest_is_logged_with_its_rule():
    log = sf.outputs.Log()
    frame = records()
    sf.plots.forest(smf.ols("pressure ~ age", frame).fit(), log=log)
    with pytest.raises(OutputRefused):
        sf.plots.forest(smf.ols("pressure ~ age", records(9)).fit(), log=log)
    sf.plots.forest(TABLE, log=log)
    assert [one.verdict for one in log] == ["pass", "refuse", "review"]
    assert next(iter(log)).rule["k"] == 3
