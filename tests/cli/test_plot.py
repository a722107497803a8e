"""`sfumato plot`: as somebody at a terminal would use it."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli.app import app
from sfumato.cli.plot import KINDS
from sfumato.errors import PlanError, SfumatoError

runner = CliRunner()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("data") / "cohort.csv"
    sf.datasets.cohort(300).write_csv(path)
    return str(path)


def asked(*words: str) -> list[str]:
    return ["plot", *words, "--quiet"]


def test_a_figure_its_table_and_its_log(file: str, tmp_path: Path) -> None:
    figure, table, log = (str(tmp_path / name) for name in ("f.svg", "f.csv", "outputs"))
    words = ["plot", "scatter", file, "--x", "height", "--y", "weight_kg", "--hue", "sex"]
    done = runner.invoke(app, [*words, "--out", figure, "--table", table, "--log", log])
    assert done.exit_code == 0, done.output
    assert "Verdict: pass" in done.output
    assert "<svg" in Path(figure).read_text()
    assert pl.read_csv(table).columns == ["group", "x", "y"]
    listed = json.loads((Path(log) / "log.json").read_text())["outputs"]
    assert [one["verdict"] for one in listed] == ["pass"]
    again = runner.invoke(app, [*words, "--out", figure])
    assert isinstance(again.exception, PlanError)


def test_json_says_everything_and_nothing_else(file: str, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text(sf.Key(bytes(range(32))).text)
    told = ["--protection", "noise", "--key", str(key), "--json"]
    done = runner.invoke(app, ["plot", "histogram", file, "--x", "height", *told])
    found = json.loads(done.stdout)
    assert found["verdict"] == "pass"
    assert found["rule"]["protection"] == "noise"
    assert key.read_text() not in done.stdout


def test_a_refusal_is_exit_code_3_and_is_logged(file: str, tmp_path: Path) -> None:
    log = str(tmp_path / "outputs")
    words = asked("histogram", file, "--x", "height", "--bins", "250", "--log", log)
    done = runner.invoke(app, [*words, "--json"])
    assert done.exit_code == 3
    told = json.loads(done.stdout)
    assert told["verdict"] == "refuse"
    assert "bins" in told["hint"]
    listed = json.loads((Path(log) / "log.json").read_text())["outputs"]
    assert [one["verdict"] for one in listed] == ["refuse"]
    plain = runner.invoke(app, words)
    assert isinstance(plain.exception, SfumatoError)
    assert plain.exception.exit_code == 3


CALLS = {
    "histogram": ["--x", "height"],
    "bar": ["--x", "education", "--hue", "sex"],
    "scatter": ["--x", "height", "--y", "weight_kg"],
    "heatmap": ["--x", "height", "--y", "weight_kg", "--protection", "deterministic"],
    "contour": ["--x", "height", "--y", "weight_kg"],
    "box": ["--x", "height,weight_kg", "--by", "sex"],
    "violin": ["--x", "height"],
    "density": ["--x", "height", "--hue", "sex"],
    "survival": ["--time", "height", "--event", "event"],
    "residuals": ["--model", "weight_kg ~ height"],
    "qq": ["--model", "weight_kg ~ height"],
    "leverage": ["--model", "weight_kg ~ height"],
    "forest": ["--model", "weight_kg ~ height"],
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind(kind: str, file: str, tmp_path: Path) -> None:
    if kind == "survival":
        made = pl.read_csv(file).with_columns(event=(pl.int_range(pl.len()) % 3 > 0).cast(pl.Int8))
        file = str(tmp_path / "events.csv")
        made.write_csv(file)
    figure = tmp_path / f"{kind}.png"
    done = runner.invoke(app, asked(kind, file, *CALLS[kind], "--out", str(figure)))
    assert done.exit_code == 0, (done.output, done.exception)
    assert figure.read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["pie", "FILE"], "not known"),
        (["scatter", "FILE", "--x", "height"], "needs --y"),
        (["histogram", "FILE", "--x", "height", "--y", "age"], "no --y"),
        (["residuals", "FILE"], "needs a model"),
        (["residuals", "FILE", "--model", "weight_kg ~ nonsense"], "cannot be fitted"),
        (["forest", "FILE", "--model", "weight_kg ~ height", "--hue", "sex"], "no --hue"),
        (["forest", "FILE", "--model", "weight_kg ~ height", "--bins", "3"], "no --bins"),
        (["histogram", "FILE", "--x", "height", "--out", "figure.gif"], "format"),
    ],
)
def test_odd_requests(words: list[str], match: str, file: str) -> None:
    done = runner.invoke(app, asked(*[file if one == "FILE" else one for one in words]))
    assert isinstance(done.exception, PlanError)
    assert match in str(done.exception)


def test_rules_and_plan_are_read(file: str, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text("k = 5\n")
    words = asked("histogram", file, "--x", "height", "--rules", str(rules))
    told = json.loads(runner.invoke(app, [*words, "--json"]).stdout)
    assert told["rule"]["k"] == 5
    done = runner.invoke(app, [*words, "--k", "3"])
    assert isinstance(done.exception, SfumatoError)
    assert done.exception.exit_code == 3
    plan = tmp_path / "plan.toml"
    plan.write_text(sf.Plan(schema=sf.datasets.cohort_schema(), steps=[]).text())
    words = asked("histogram", file, "--x", "height", "--plan", str(plan))
    assert runner.invoke(app, words).exit_code == 0


def test_the_original_beside_all_protections_stays_inside(file, tmp_path):
    out = tmp_path / "inside.svg"
    done = runner.invoke(
        app, ["plot", "histogram", file, "--x", "height", "--compare", "--json", "--out", str(out)]
    )
    assert done.exit_code == 0
    assert json.loads(done.stdout)["verdict"] == "refuse"
    assert "Inside only" in out.read_text()
    assert out.stat().st_mode & 0o777 == 0o600
    words = asked("histogram", file, "--x", "height", "--compare", "--protection", "noise")
    assert isinstance(runner.invoke(app, words).exception, PlanError)


def test_edges_means_and_pages_are_options(file, tmp_path):
    page, table = tmp_path / "height.html", tmp_path / "height.csv"
    words = ["--edges", "140,160,170,200", "--out", str(page), "--table", str(table)]
    assert runner.invoke(app, asked("histogram", file, "--x", "height", *words)).exit_code == 0
    assert pl.read_csv(table)["low"].to_list() == [140.0, 160.0, 170.0]
    assert "const marks" in page.read_text()
    table = tmp_path / "box.csv"
    words = asked("box", file, "--x", "height", "--mean", "--table", str(table))
    assert runner.invoke(app, words).exit_code == 0
    assert "mean" in pl.read_csv(table)["part"].to_list()
    for wrong in (["--edges", "a,b"], ["--mean"]):
        words = asked("histogram", file, "--x", "height", *wrong)
        assert isinstance(runner.invoke(app, words).exception, PlanError)


def test_a_gallery_is_one_private_page(file, tmp_path):
    out = tmp_path / "gallery.html"
    words = ["gallery", file, "--x", "height", "--y", "systolic", "--out", str(out), "--json"]
    done = runner.invoke(app, words)
    assert done.exit_code == 0
    assert "scatter plot" in json.loads(done.stdout)["plots"]
    assert out.stat().st_mode & 0o777 == 0o600
    assert runner.invoke(app, words).exit_code != 0
