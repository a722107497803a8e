"""An interrupt returns what is there, and says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli.app import app
from sfumato.errors import MeasureError
from sfumato.progress import send_progress_to

WORK = ("drawing coefficients", "drawing covariances", "resampling", "adding noise")
NOISE = {"x": sf.Gaussian(variance=0.3)}


def frame(n: int = 400) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    x = rng.normal(size=n)
    y = 1 + x + rng.normal(size=n)
    return pl.DataFrame({"y": y, "x": x + 0.3**0.5 * rng.normal(size=n), "g": np.arange(n) % 20})


def stopped(share: float, formula: str, **given: Any) -> sf.Fit:
    """A fit that is interrupted when so large a share of the work is done."""

    def tell(what: str, done: int, total: int) -> None:
        if what in WORK and done >= share * total:
            raise KeyboardInterrupt

    with send_progress_to(tell):
        return sf.fit(formula, frame(), noise=NOISE, **given)


@pytest.mark.parametrize("method", ["calibration", "simex"])
def test_a_quick_look(method):
    made = stopped(0.6, "y ~ x", method=method)
    whole = sf.fit("y ~ x", frame(), noise=NOISE, method=method)
    assert not made.complete
    assert sum("interrupted" in one for one in made.warnings) == 1
    row, other = made.summary().loc["x"], whole.summary().loc["x"]
    assert row["mean"] == pytest.approx(other["mean"], abs=0.05)
    assert row["sd"] == pytest.approx(other["sd"], rel=0.4)
    assert whole.complete


def test_a_quick_look_that_has_hardly_begun():
    made = stopped(0.0, "y ~ x", method="calibration")
    assert not made.complete
    assert np.isnan(made.summary().loc["x", "sd"])
    assert made.summary().loc["x", "mean"] == pytest.approx(1, abs=0.2)
    with pytest.raises(MeasureError, match="before there was an estimate"):
        stopped(0.0, "y ~ x", method="simex")
    # After the first step there is a line to go back on, if no parabola.
    line = stopped(0.26, "y ~ x", method="simex").summary().loc["x"]
    assert line["naive"] < line["mean"]


@pytest.mark.parametrize("formula", ["y ~ x + (1 | g)", "y ~ x + I(x ** 2)"])
def test_chains(formula):
    made = stopped(0.5, formula, draws=600, shape="normal")
    assert not made.complete
    assert made.sampled is not None
    assert 0 < made.sampled.shape[1] < 600
    assert any("interrupted" in one for one in made.warnings)


@pytest.mark.parametrize(
    ("formula", "work", "wanted"),
    [("y ~ x + (1 | g)", "drawing coefficients", 100), ("y ~ x", "weighing draws", 400)],
)
def test_generalised_chains_and_weighed_draws(formula, work, wanted):
    data = frame().with_columns(y=(pl.col("y") > 1).cast(pl.Int64))

    def tell(what: str, done: int, total: int) -> None:
        if what == work and done >= 0.5 * total:
            raise KeyboardInterrupt

    with send_progress_to(tell):
        made = sf.fit(formula, data, noise=NOISE, family="bernoulli", draws=wanted, shape="normal")
    assert not made.complete
    assert made.sampled is not None
    chains, draws, _ = made.sampled.shape
    assert 0 < draws < wanted
    # It says how much there is.
    told = f"interrupted: what is here rests on the {chains} x {draws}"
    assert any(told in warning for warning in made.warnings)


def test_independent_draws():
    # So much noise that many draws leave no proper covariance, and one batch does not do.
    noise = {"x": sf.Gaussian(variance=0.6)}

    def tell(what: str, done: int, total: int) -> None:
        if what == "drawing covariances" and done < total:
            raise KeyboardInterrupt

    data = frame(40)
    with send_progress_to(tell):
        made = sf.fit("y ~ x", data, noise=noise)
    whole = sf.fit("y ~ x", data, noise=noise)
    assert made.engine == whole.engine == "saturated"
    assert not made.complete
    assert whole.complete
    assert made.sampled is not None
    assert whole.sampled is not None
    chains, draws, _ = made.sampled.shape
    assert chains == 4
    assert 0 < draws < 1000
    assert any("interrupted" in one for one in made.warnings)
    # The residual variance is the first that the whole has: the same draws, cut short.
    np.testing.assert_array_equal(
        made.sampled[..., -1].ravel(), whole.sampled[..., -1].ravel()[: 4 * draws]
    )
    with pytest.raises(KeyboardInterrupt), send_progress_to(tell):
        sf.fit("y ~ x", data, noise=noise, draws=2, chains=2000)


def test_independent_draws_that_are_all_there_are_whole():
    made = stopped(1.0, "y ~ x")
    assert made.engine == "saturated"
    assert made.complete
    assert not made.warnings


@pytest.mark.parametrize("formula", ["y ~ x + (1 | g)", "y ~ x + c"])
def test_before_the_first_draw_there_is_nothing_to_return(formula, monkeypatch):
    monkeypatch.setattr("sfumato.analysis.samplers.gibbs.sampler._REPORT_SECONDS", -1.0)

    def density(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(
        "sfumato.analysis.samplers.gibbs.independence._evaluate_in_batches", density
    )
    data = frame().with_columns(c=pl.Series(np.arange(400) % 3 == 0).cast(pl.Int64))
    told = {**NOISE, "c": sf.Misclassification(levels=[0, 1], matrix=[[0.9, 0.1], [0.1, 0.9]])}

    def tell(what: str, done: int, total: int) -> None:
        if what == "drawing coefficients":
            raise KeyboardInterrupt

    with send_progress_to(tell), pytest.raises(KeyboardInterrupt):
        sf.fit(formula, data, noise=told, draws=50)


def test_the_command_line_says_so_and_shows_what_there_is(tmp_path, monkeypatch):
    frame().write_csv(tmp_path / "data.csv")
    (tmp_path / "noise.toml").write_text('[x]\ndistribution = "gaussian"\nvariance = 0.3\n')
    monkeypatch.setattr("sfumato.cli.fit.run_fit", lambda *_, **__: stopped(0.6, "y ~ x",
                        method="simex"))  # fmt: skip
    noise = str(tmp_path / "noise.toml")
    done = CliRunner().invoke(app, ["fit", "y ~ x", str(tmp_path / "data.csv"), "--noise", noise])
    assert done.exit_code == 130
    assert "naive" in done.stdout
    assert "interrupted" in done.stderr
