"""Unequal bins, the mean of a box, two more protections, discrete models, pages and galleries."""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.catalogue import read_parameter_docs
from sfumato.errors import PlanError, SfumatoError
from sfumato.figures.public.box import is_dominated
from sfumato.figures.public.diagnostics import read_outcomes
from sfumato.figures.public.interactive import _locate_rows
from sfumato.outputs.rules import Rules


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    rng = np.random.default_rng(4)
    x = rng.normal(50, 10, 300)
    y = 0.8 * x + rng.normal(0, 5, 300)
    sex = rng.choice(["f", "m"], 300)
    ill = (rng.random(300) < 1 / (1 + np.exp(5 - 0.1 * x))).astype(int)
    return pl.DataFrame({"x": x, "y": y, "sex": sex, "ill": ill, "count": rng.poisson(x / 20)})


# Unequal bins


def test_unequal_bins_are_counted_where_they_were_asked_for(frame):
    edges = [20, 40, 45, 50, 60, 90]
    made = sf.plots.histogram(frame, "x", edges=edges, density=False)
    expected, _ = np.histogram(frame["x"].to_numpy(), edges)
    assert made.table["low"].to_list() == edges[:-1]
    assert made.table["records"].to_list() == expected.tolist()
    assert made.verdict == "pass"


def test_small_unequal_bins_are_hidden_and_too_many_are_refused(frame):
    made = sf.plots.histogram(frame, "x", edges=[0, 1, 40, 60, 150, 151], density=False)
    assert made.table["low"].to_list() == [1.0, 40.0, 60.0]
    fine: Any = np.linspace(0, 100, 150)
    with pytest.raises(sf.outputs.OutputRefused, match="finer than these records allow"):
        sf.plots.histogram(frame, "x", edges=fine)


def test_edges_at_an_extreme_ask_for_a_second_look(frame):
    highest = float(frame["x"].max())
    assert sf.plots.histogram(frame, "x", edges=[0, 50, highest]).verdict == "review"


@pytest.mark.parametrize("edges", [[3], [1, 1, 2], [2, 1], [0, float("nan")], ["a", "b"], 7])
def test_edges_that_are_none_are_told(frame, edges):
    with pytest.raises(PlanError, match="Edges"):
        sf.plots.histogram(frame, "x", edges=edges)
    with pytest.raises(PlanError, match="where the bins are"):
        sf.plots.histogram(frame, "x", edges=[0, 50, 100], bins=3)


# The mean of a box


def test_the_mean_is_drawn_rounded_to_the_grid_of_the_box(frame):
    made = sf.plots.box(frame, "x", by="sex", mean=True)
    means = dict(made.table.filter(pl.col("part") == "mean").select("group", "value").rows())
    for sex, mean in means.items():
        exact = frame.filter(pl.col("sex") == sex)["x"].mean()
        assert exact is not None
        assert abs(mean - float(exact)) < 0.5
        assert round(mean, 1) == mean
    assert "diamond is the mean" in made.description
    assert "mean" not in sf.plots.box(frame, "x").table["part"].to_list()


def test_a_mean_that_one_record_makes_is_not_drawn(frame):
    rich = frame.with_columns(
        pl.when(pl.int_range(pl.len()) == 7).then(1e6).otherwise("x").alias("x")
    )
    made = sf.plots.box(rich, "x", mean=True)
    assert "mean" not in made.table["part"].to_list()
    assert "the mean is not shown" in made.description


def test_protected_values_have_a_mean_of_their_own(frame):
    made = sf.plots.box(frame, "x", mean=True, protection="deterministic")
    assert made.table.filter(pl.col("part") == "mean")["value"][0] == pytest.approx(50, abs=2)


@given(st.lists(st.floats(0, 1e6), min_size=3, max_size=30))
@settings(max_examples=100, deadline=None)
def test_dominance_is_judged_as_its_definition_says(values):
    ordered = sorted(values, reverse=True)
    total = sum(ordered)
    expected = ordered[0] > 0.8 * total or total - ordered[0] - ordered[1] < 0.1 * ordered[0]
    margin = min(
        abs(ordered[0] - 0.8 * total), abs(total - ordered[0] - ordered[1] - 0.1 * ordered[0])
    )
    if margin > 1e-6 * (total + 1e-300):
        assert is_dominated(np.array(values), Rules()) == expected


# Two more protections


def test_centres_by_mahalanobis_pass_and_differ_from_the_usual_ones(frame):
    usual, other = (
        sf.plots.scatter(frame, "x", "y", protection=name)
        for name in ("deterministic", "mahalanobis")
    )
    assert other.verdict == "pass"
    assert not usual.table.equals(other.table)
    expected = sf.methods.Deterministic(
        variables=["x", "y"], strata=[], k=3, distance="mahalanobis"
    ).apply(sf.Dataset(frame.select("x", "y")))
    # The figure rounds to what can be seen, and sorts.
    drawn, exact = (np.sort(table["x"].to_numpy()) for table in (other.table, expected.frame))
    assert np.abs(drawn - exact[: len(drawn)]).max() < 0.2


def test_noise_that_grows_is_larger_far_out(frame):
    rng = np.random.default_rng(1)
    wide = pl.DataFrame({"x": rng.standard_t(4, 4000) * 10, "y": rng.normal(size=4000)})
    values = wide["x"].to_numpy()
    made = sf.methods.Noise(variables=["x"], sd_share=0.25)
    del made
    from sfumato.figures.public.protected_values import _apply_method, _take_group
    from sfumato.figures.public.protection import Protection

    protection = Protection(name="growing_noise", key=sf.Key.of(bytes(32)))
    released = _apply_method(_take_group(sf.Dataset(wide), ["x"]), ["x"], protection)
    moved = released.values["x"].to_numpy() - values
    spread = values.std(ddof=1)
    z = np.abs(values - np.median(values)) / spread
    inner, outer = moved[z < 0.5].std() / spread, moved[z > 2].std() / spread
    assert inner == pytest.approx(0.25 * np.sqrt(1 + np.mean(z[z < 0.5] ** 2)), rel=0.1)
    assert outer == pytest.approx(0.25 * np.sqrt(1 + np.mean(z[z > 2] ** 2)), rel=0.25)
    figure = sf.plots.scatter(frame, "x", "y", protection="growing_noise", key=bytes(32))
    assert figure.verdict == "pass"
    assert figure.rule["sd_share"] == pytest.approx(0.25)
    with pytest.raises(sf.outputs.OutputRefused, match="less than the house rules"):
        sf.plots.scatter(frame, "x", "y", protection="growing_noise", sd_share=0.1, key=bytes(32))


@pytest.mark.parametrize("pair", [("deterministic", "mahalanobis"), ("noise", "growing_noise")])
def test_two_ways_of_moving_the_same_points_are_noticed(frame, pair):
    log = sf.outputs.Log()
    verdicts = [
        sf.plots.scatter(frame, "x", "y", protection=name, key=bytes(32), log=log).verdict
        for name in pair
    ]
    assert verdicts == ["pass", "review"]


# Models that statsmodels calls discrete


@pytest.mark.parametrize(
    ("fit", "family"),
    [
        (smf.logit, sm.families.Binomial()),
        (smf.probit, sm.families.Binomial(sm.families.links.Probit())),
        (smf.poisson, sm.families.Poisson()),
    ],
)
def test_discrete_models_say_what_the_same_glm_says(frame, fit, family):
    formula = "count ~ x + C(sex)" if fit is smf.poisson else "ill ~ x + C(sex)"
    data = frame.to_pandas()
    ours = read_outcomes(fit(formula, data).fit(disp=0, tol=1e-12))
    theirs = read_outcomes(smf.glm(formula, data, family=family).fit(tol=1e-12))
    for name in ("fitted", "residual", "standardised", "leverage", "cook"):
        expected = theirs.frame[name].to_numpy()
        assert ours.frame[name].to_numpy() == pytest.approx(expected, rel=1e-5), name
    assert ours.support == theirs.support


def test_residuals_of_a_logit_are_drawn(frame):
    fitted = smf.logit("ill ~ x", frame.to_pandas()).fit(disp=0)
    for draw in (sf.plots.residuals, sf.plots.qq, sf.plots.leverage, sf.plots.forest):
        assert draw(fitted).audience == "public"


# Pages


def list_marks(page: str) -> list[list[object]]:
    found = re.search(r"const marks = (\[.*?\]);\n", page)
    assert found is not None
    marks: list[list[object]] = json.loads(found[1])
    return marks


def test_a_page_holds_the_values_that_are_drawn_and_asks_nobody(frame, tmp_path):
    made = sf.plots.scatter(frame, "x", "y", hue="sex")
    page = made.save(tmp_path / "scatter.html").read_text()
    assert len(list_marks(page)) == made.table.height
    assert "http" not in re.sub(r'"http://www.w3.org/2000/svg"|http-equiv', "", page)
    assert "default-src 'none'" in page
    for name in ("x", "y"):
        assert not [value for value in frame[name] if repr(value) in page]
    numbers = {float(text) for text in re.findall(r"(?<![\w.])-?\d+\.\d{5,}", page)}
    assert not numbers & {round(value, 6) for value in [*frame["x"], *frame["y"]]}


def test_values_stand_where_they_are_drawn(frame):
    made = sf.plots.histogram(frame, "x", bins=6, limits=(20, 80), density=False)
    height = made.figure.get_size_inches()[1] * 72
    for (x, y, text), row in zip(_locate_rows(made), made.table.to_dicts(), strict=True):
        inverse = made.axes[0].transData.inverted()
        dots = np.array([x, height - y]) / 72 * made.figure.dpi
        middle, records = inverse.transform(dots)
        assert middle == pytest.approx((row["low"] + row["high"]) / 2)
        assert records == pytest.approx(row["records"])
        assert f"records: {row['records']:.6g}" in text


@pytest.mark.parametrize("kind", ["histogram", "box", "density", "violin"])
def test_every_plot_of_one_variable_has_a_page(frame, kind, tmp_path):
    made = getattr(sf.plots, kind)(frame, "x")
    page = made.save(tmp_path / "page.html").read_text()
    assert page.count("<tr>") == made.table.height + 1


def test_labels_cannot_end_the_script(frame, tmp_path):
    named = frame.with_columns(pl.col("sex").replace_strict({"f": "</script><b>", "m": "<!--"}))
    page = sf.plots.scatter(named, "x", "y", hue="sex").save(tmp_path / "page.html").read_text()
    assert page.count("</script>") == 1
    assert "<b>" not in page
    assert {str(mark[2]).split("\n")[0] for mark in list_marks(page)} == {
        "group: </script><b>", "group: <!--",
    }  # fmt: skip


def test_what_shows_the_original_gets_no_page(frame, tmp_path):
    made = sf.plots.compare("histogram", frame, "x")
    with pytest.raises(SfumatoError, match="protected values only"):
        made.save(tmp_path / "page.html")


# The gallery


def test_a_gallery_has_all_plots_and_stays_inside(frame, tmp_path):
    fitted = smf.ols("y ~ x", frame.to_pandas()).fit()
    log = sf.outputs.Log()
    made = sf.plots.gallery(frame[:80], "x", "y", model=fitted, log=log)
    kinds = {"histogram of x", "histogram of y", "density of x", "density of y",
             "box plot of x and y", "violin plot of x", "violin plot of y", "scatter plot",
             "heat map", "contours", "residuals", "quantiles of residuals", "leverage"}  # fmt: skip
    assert set(made.plots) | set(made.refused) == kinds
    assert {plot.audience for plot in made.plots.values()} == {"custodian"}
    assert {output.verdict for output in log} == {"refuse"}
    path = made.save(tmp_path / "gallery.html")
    assert path.stat().st_mode & 0o777 == 0o600
    assert "Inside only" in path.read_text()
    with pytest.raises(SfumatoError, match="exists already"):
        made.save(path)


def test_a_gallery_says_what_it_cannot_draw(frame):
    with pytest.raises(PlanError, match="time and event"):
        sf.plots.gallery(frame, "x", "y", time="x")
    with pytest.raises(SfumatoError):
        sf.plots.gallery(frame, "sex", "ill2")


@pytest.mark.parametrize("name", [name for name in sf.plots.__all__ if name != "Plot"])
def test_every_parameter_is_described_and_no_other_taken(name: str) -> None:
    draw = getattr(sf.plots, name)
    takes = set(inspect.signature(draw).parameters)
    assert set(read_parameter_docs(inspect.getdoc(draw) or "")) == takes
    if name != "compare":  # it passes on what the other plot takes
        with pytest.raises(TypeError, match=rf"{name}\(\) got an unexpected .* mean 'title'"):
            draw(titel="A")
