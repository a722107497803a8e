"""What a fit shows: summary, diagnostics, warnings, pictures, export, the command line."""

from __future__ import annotations

import importlib.util
import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import sfumato as sf
from sfumato.analysis.diagnostics import bulk_ess, mcse, rhat
from sfumato.analysis.result import Fit
from sfumato.cli.app import app
from sfumato.errors import SfumatoError

COLUMNS = ["mean", "sd", "low", "high", "rhat", "ess", "mcse", "naive", "moments"]


def frame_of(n: int = 800, variance: float = 0.3) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    x = rng.normal(size=n)
    y = 1 + x + rng.normal(size=n)
    return pl.DataFrame(
        {"y": y, "x": x + np.sqrt(variance) * rng.normal(size=n), "z": rng.normal(size=n)}
    )


NOISE = {"x": sf.Gaussian(variance=0.3)}


@pytest.fixture(scope="module")
def made() -> Fit:
    return sf.fit("y ~ x + z", frame_of(), noise=NOISE, draws=500)


def autoregressive() -> np.ndarray:
    rng = np.random.default_rng(0)
    pushes = rng.normal(size=(4, 2000))
    chain = np.zeros_like(pushes)
    for at in range(1, 2000):
        chain[:, at] = 0.8 * chain[:, at - 1] + pushes[:, at]
    return chain


def test_diagnostics_are_those_of_arviz():
    chain = autoregressive()
    # ArviZ 0.23.4 on the same draws.
    assert rhat(chain) == pytest.approx(1.004233427761898, rel=1e-12)
    assert bulk_ess(chain) == pytest.approx(739.1738698133723, rel=1e-10)
    assert mcse(chain) == pytest.approx(0.0623171276005365, rel=1e-10)


def test_diagnostics_of_odd_draws():
    assert np.isnan(rhat(np.ones((4, 100))))
    assert np.isnan(bulk_ess(np.zeros((2, 3))))
    assert np.isnan(mcse(np.full((2, 100), np.nan)))
    apart = np.random.default_rng(1).normal(size=(4, 200)) + np.arange(4)[:, None] * 3
    assert rhat(apart) > 1.5
    assert bulk_ess(apart) < 20
    # A chain that is wider than the others shows in the distances.
    wide = np.random.default_rng(1).normal(size=(4, 500)) * np.array([[1], [1], [1], [4]])
    assert rhat(wide) > 1.05
    assert np.isfinite(rhat(np.random.default_rng(1).normal(size=(1, 100))))


def test_the_summary_is_indexed_by_term(made):
    table = made.summary()
    assert list(table.columns) == COLUMNS
    assert list(table.index) == ["Intercept", "x", "z", "residual variance"]
    assert (table["low"] < table["mean"]).all()
    assert (table["mean"] < table["high"]).all()
    assert abs(table.loc["x", "mean"] - 1) < 3 * table.loc["x", "sd"]
    assert table.loc["x", "naive"] < 0.85
    assert table.loc["x", "moments"] == pytest.approx(table.loc["x", "mean"], abs=0.03)
    assert table.loc["x", "mcse"] < table.loc["x", "sd"] / 20
    wide = sf.fit("y ~ x", frame_of(), noise=NOISE, draws=500, level=0.5).summary().loc["x"]
    assert wide["high"] - wide["low"] < 1.6 * wide["sd"]
    assert list(made.table.columns) == ["term", *COLUMNS]


def test_the_draws_are_a_frame(made):
    assert made.draws.columns == ["chain", "draw", "Intercept", "x", "z", "residual variance"]
    assert made.draws.height == 4 * 500
    quick = sf.fit("y ~ x", frame_of(), noise=NOISE, method="moments")
    for call in (lambda: quick.draws, quick.to_arviz, quick.plot_trace, quick.plot_ranks):
        with pytest.raises(SfumatoError, match="no draws"):
            call()


def test_efficiency_predicted_and_realised(made):
    rows = {row["term"]: row for row in made.efficiency.rows(named=True)}
    assert 0.3 < rows["x"]["realised"] < 0.8
    assert rows["x"]["realised"] == pytest.approx(rows["x"]["predicted"], rel=0.3)
    # The paper's ratio is optimistic.
    assert rows["x"]["realised"] < made.determinant_ratio < 0.9
    rng = np.random.default_rng(1)
    x = rng.normal(size=800)
    clean = np.linalg.lstsq(np.column_stack([np.ones(800), x]), 1 + x + rng.normal(size=800))
    assert rows["x"]["se_without_noise"] == pytest.approx(
        np.sqrt(clean[1][0] / 798 / (x @ x)), rel=0.1
    )


def test_it_says_what_it_is_in_a_line_without_a_value(made):
    assert (
        repr(made)
        == "Fit('y ~ x + z', gaussian, 800 records, posterior, 4 x 500 draws by saturated)"
    )
    assert made.warnings == ()


def test_warnings_say_what_to_do():
    drowned = sf.fit("y ~ x", frame_of(variance=3.0), noise={"x": sf.Gaussian(variance=3.0)},
                     method="moments")  # fmt: skip
    assert "more than half is noise" in drowned.warnings[0]
    rng = np.random.default_rng(2)
    few = frame_of().with_columns(pl.Series("g", rng.integers(0, 5, 800)))
    found = sf.fit("y ~ x + (1 | g)", few, noise=NOISE, method="moments").warnings
    assert any("There are 5 groups" in one for one in found)
    apart = frame_of().with_columns(split=(pl.col("z") > 0).cast(int))
    found = sf.fit("split ~ z + x", apart, noise=NOISE, family="bernoulli", method="simex").warnings
    assert any("separation" in one for one in found)
    short = sf.fit("y ~ x", frame_of(), noise=NOISE, draws=20)
    assert any("effective draws" in one for one in short.warnings)


def test_pictures(made, tmp_path):
    for picture in (made.plot_forest(), made.plot_trace(), made.plot_ranks(["x"])):
        assert picture.audience == "public"
        assert picture.save(tmp_path / f"{picture.title}.svg").stat().st_size > 1000
    with pytest.raises(SfumatoError, match="did you mean 'x'"):
        made.plot_forest(["xx"])
    with pytest.raises(SfumatoError, match="no term"):
        made.plot_trace(["nobody"])
    alone = sf.fit("y ~ 1", frame_of(), noise=NOISE, method="moments")
    assert "Intercept" in alone.plot_forest().svg()


def test_export_to_arviz(made, monkeypatch):
    if importlib.util.find_spec("arviz") is None:
        with pytest.raises(SfumatoError, match="not installed"):
            made.to_arviz()
    import sys
    import types

    class Group(dict[str, Any]):
        attrs: dict[str, Any] = {}  # noqa: RUF012

    def old(*, posterior):
        return {"posterior": Group(posterior)}

    def new(groups):
        return {name: Group(one) for name, one in groups.items()}

    for version, call in (("0.23.4", old), ("1.2.0", new)):
        fake = types.SimpleNamespace(__version__=version, from_dict=call)
        monkeypatch.setitem(sys.modules, "arviz", fake)
        exported = made.to_arviz()["posterior"]
        assert exported["x"].shape == (4, 500)
        assert exported.attrs["formula"] == "y ~ x + z"


def run(*arguments: str):
    return CliRunner().invoke(app, ["fit", *arguments])


@pytest.fixture
def files(tmp_path):
    frame_of(300).write_csv(tmp_path / "data.csv")
    (tmp_path / "noise.toml").write_text('[noise.x]\ndistribution = "gaussian"\nvariance = 0.3\n')
    told = {"version": 1, "variables": {"x": {"distribution": "gaussian", "variance": 0.3}}}
    (tmp_path / "noise.json").write_text(json.dumps({"noise": told}))
    return tmp_path


def test_the_command_line(files):
    data = str(files / "data.csv")
    out, picture = files / "summary.csv", files / "forest.svg"
    done = run("y ~ x + z", data, "--noise", str(files / "noise.json"), "--draws", "50",
               "--out", str(out), "--picture", str(picture))  # fmt: skip
    assert done.exit_code == 0, done.output
    assert pl.read_csv(out)["term"].to_list() == ["Intercept", "x", "z", "residual variance"]
    assert picture.is_file()
    done = run("y ~ x", data, "--noise", str(files / "noise.toml"), "--method", "moments", "--json")
    told = json.loads(done.stdout)
    assert told["summary"][1]["term"] == "x"
    assert told["summary"][1]["rhat"] is None
    done = run("y ~ x", data, "--noise", str(files / "noise.toml"), "--method", "moments")
    assert "naive" in done.stdout


def test_what_the_command_line_refuses(files):
    data, noise = str(files / "data.csv"), str(files / "noise.toml")
    (files / "empty.toml").write_text("x = 3\n")
    for arguments in (
        ("y ~ x", data),
        ("y ~ x", data, "--noise", str(files / "none.toml")),
        ("y ~ x", data, "--noise", str(files / "empty.toml")),
        ("y ~ x", data, "--noise", noise, "--out", str(files / "summary.odd")),
        ("y ~ x", data, "--noise", noise, "--picture", data),
        ("y ~ x", data, "--noise", noise, "--method", "magic"),
    ):
        done = run(*arguments)
        assert isinstance(done.exception, SfumatoError)
        assert done.exception.exit_code == 2
