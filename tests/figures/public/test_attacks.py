"""What an attacker tried on figures, and must not succeed with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import sfumato as sf
from sfumato.figures import public as plots
from sfumato.outputs import Log, OutputRefused

KEY = bytes(range(32))


def people(records: int = 60, seed: int = 1) -> pl.DataFrame:
    chance = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "x": chance.normal(50, 10, records),
            "y": chance.normal(20, 5, records),
            "time": chance.exponential(3, records),
            "event": np.ones(records, int),
        }
    )


def test_fine_round_times_are_no_times_of_persons() -> None:
    """A step ends at somebody's event: with a billion round times it told when."""
    frame = people()
    with pytest.raises(OutputRefused, match="finer"):
        plots.survival(frame, "time", "event", bins=10**9)
    made = plots.survival(frame, "time", "event")
    assert made.rule["bins"] <= len(frame) / 3


def test_a_quantile_plot_of_what_stays_is_for_the_custodian() -> None:
    nothing = sf.methods.Noise(variables=["x"], sd_share=1e-9)
    made = plots.qq(people(), "x", protection=nothing, key=KEY)
    assert (made.audience, made.verdict) == ("custodian", "refuse")


def test_a_forest_hears_what_the_log_says() -> None:
    import statsmodels.formula.api as smf

    frame = people(200).with_columns(id=pl.int_range(200))
    log = Log()
    whole = smf.ols("y ~ x", frame.to_pandas()).fit()
    less = smf.ols("y ~ x", frame[1:].to_pandas()).fit()
    known = sf.Schema({"id": "direct"})
    first = plots.forest(whole, sf.Dataset(frame, known), log=log)
    second = plots.forest(less, sf.Dataset(frame[1:], known), log=log)
    assert first.verdict == "pass"
    assert second.verdict == "review"
    assert [one.verdict for one in log] == ["pass", "review"]


@pytest.mark.parametrize("share", [0.02, 0.1])
def test_less_noise_than_the_house_asks_for_is_not_let_out_as_a_method(share: float) -> None:
    frame = people(300)
    little = sf.methods.Noise(variables=["x"], sd_share=share)
    made = plots.histogram(frame, "x", protection=little, key=KEY)
    assert (made.audience, made.verdict) == ("custodian", "refuse")
    enough = sf.methods.Noise(variables=["x"], sd_share=0.3)
    made = plots.histogram(frame, "x", protection=enough, key=KEY)
    assert (made.audience, made.verdict) == ("public", "review")


def test_bars_that_end_a_little_later_are_subtracted_by_the_log() -> None:
    """Counts up to 60 and up to 60.3 differ by those between."""
    frame = people(400)
    for density in (True, False):
        log = Log()
        first = plots.histogram(frame, "x", bins=10, limits=(0, 100), density=density, log=log)
        same = plots.histogram(frame, "x", bins=10, limits=(0, 100), density=density, log=log)
        later = plots.histogram(frame, "x", bins=10, limits=(0, 100.5), density=density, log=log)
        assert (first.verdict, same.verdict, later.verdict) == ("pass", "pass", "review")
        assert [one.verdict for one in log] == ["pass", "pass", "review"]


def test_a_hidden_bar_is_not_found_in_a_table_of_the_same_bins() -> None:
    """All but one bar, and how many there are in all, tell the last."""
    ages = np.r_[np.repeat(np.arange(20.0, 70.0, 10.0), 40) + np.tile(np.arange(40) / 10, 5), 91.0]
    frame = pl.DataFrame({"age": ages, "sex": ["f", "m"] * 100 + ["f"]})
    log = Log()
    table = sf.tables.crosstab(frame, "sex", log=log)
    made = plots.histogram(frame, "age", bins=10, limits=(0, 100), density=False, log=log)
    assert table.verdict == "pass"
    assert made.verdict == "review"
    assert "worked out" in " ".join(made.reasons)


@pytest.mark.parametrize("draw", [plots.heatmap, plots.scatter, plots.contour])
def test_grids_that_differ_a_little_are_subtracted_too(draw: Any) -> None:
    frame, log = people(600), Log()
    for right, verdict in ((100, "pass"), (100, "pass"), (101, "review")):
        limits = ((0, right), (0, 40))
        made = draw(frame, "x", "y", bins=4, protection="generalise", limits=limits, log=log)
        assert made.verdict == verdict


def test_groups_are_still_compared_where_bars_are() -> None:
    frame = people(200).with_columns(id=pl.int_range(200), sex=pl.Series(["f", "m"] * 100))
    moved = frame.with_columns(sex=pl.when(pl.col("id") == 0).then(pl.lit("m")).otherwise("sex"))
    known, log = sf.Schema({"id": "direct"}), Log()
    first = plots.histogram(sf.Dataset(frame, known), "x", hue="sex", log=log)
    second = plots.histogram(sf.Dataset(moved, known), "x", hue="sex", log=log)
    assert first.verdict == "pass"
    assert second.verdict == "review"


def test_the_same_scatter_with_another_k_asks_for_a_second_look() -> None:
    frame, log = people(200), Log()
    verdicts = [plots.scatter(frame, "x", "y", k=k, log=log).verdict for k in (3, 3, 4)]
    assert verdicts == ["pass", "pass", "review"]


def test_no_figure_shows_who_somebody_is() -> None:
    frame = people(100).with_columns(person=pl.int_range(100) // 5)
    data = sf.Dataset(frame, sf.Schema({"person": "direct"}))
    with pytest.raises(OutputRefused, match="names people"):
        plots.histogram(data, "person")
    made = plots.histogram(data, "x")
    assert made.verdict == "review"
    assert "fewer persons" in " ".join(made.reasons)


def test_labels_of_groups_are_no_formulas_in_a_spreadsheet(tmp_path: Path) -> None:
    frame = people(100).with_columns(sex=pl.Series(["=cmd|'/c calc'!A0", "+1"] * 50))
    text = plots.histogram(frame, "x", hue="sex").export(tmp_path / "figure.csv").read_text()
    assert all(not line.lstrip('"').startswith(("=", "+")) for line in text.splitlines())


@pytest.mark.parametrize("protection", ["deterministic", "noise"])
@pytest.mark.parametrize("k", [3, 10])
@pytest.mark.parametrize("couple", [1, 2])
def test_who_lies_far_from_all_others_is_not_drawn(protection: Any, k: int, couple: int) -> None:
    """The SD that he makes up blew centres and noise up to where he was: to within a percent."""
    frame = people(300)
    far = np.zeros(300)
    far[:couple] = 1e6
    giant = frame.with_columns(x=pl.col("x") + far)
    for made in (
        plots.scatter(giant, "x", "y", protection=protection, k=k, key=KEY),
        plots.qq(giant, "x", protection=protection, k=k, key=KEY),
        plots.histogram(giant, "x", protection=protection, k=k, key=KEY),
        plots.box(giant, "x", protection=protection, k=k, key=KEY),
        plots.residuals(
            giant.select(fitted="y", residual="x"), protection=protection, k=k, key=KEY
        ),
    ):
        told = made.table.select(pl.selectors.numeric()).to_numpy()
        assert np.abs(told).max() < 1000
        assert np.abs(np.array([made.axes[0].get_xlim(), made.axes[0].get_ylim()])).max() < 1000
    usual = plots.scatter(frame, "x", "y", protection=protection, k=k, key=KEY)
    assert usual.table.height >= 295
