"""`sfumato table` as a stranger uses it."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
import typer
from typer.testing import CliRunner, Result

import sfumato as sf
from sfumato.cli import outputs, table
from sfumato.errors import SfumatoError
from sfumato.outputs import OutputRefused

app = typer.Typer()
for command in (table, outputs):
    command.register(app)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def file(tmp_path: Path) -> str:
    sf.datasets.cohort(500).write_csv(tmp_path / "cohort.csv")
    return str(tmp_path / "cohort.csv")


def test_a_table_is_printed_and_judged(file):
    done = run("table", file, "--rows", "education", "--columns", "sex")
    assert done.exit_code == 0, done.output
    assert "education" in done.stdout
    assert "Verdict:" in done.stderr


@pytest.mark.parametrize("suffix", ["csv", "html", "md", "tex"])
def test_a_table_is_written_in_every_format(file, tmp_path, suffix):
    path = tmp_path / f"table.{suffix}"
    call = ("table", file, "--rows", "education", "--columns", "sex", "--out", str(path), "-q")
    assert run(*call).exit_code == 0
    assert path.stat().st_size > 100
    again = run(*call)
    assert isinstance(again.exception, SfumatoError)
    assert "exists already" in str(again.exception)
    assert run(*call, "--overwrite").exit_code == 0


def test_json_holds_the_cells_the_verdict_and_the_attack(file):
    done = run("table", file, "--rows", "education", "--columns", "region", "--values", "income",
               "--aggregate", "mean,count", "--attack", "--json")  # fmt: skip
    told = json.loads(done.stdout)
    assert told["verdict"] == "review"
    hidden = [cell for cell in told["cells"] if cell["hidden"]]
    assert hidden
    assert all(cell["value"] is None for cell in hidden)
    counted = [one for one in told["attack"] if one["statistic"] == "count"]
    assert all(one["high"] > one["low"] for one in counted)


def test_a_refusal_leaves_with_3_and_is_in_the_log(file, tmp_path):
    folder = tmp_path / "log"
    call = (
        "table",
        file,
        "--rows",
        "sex",
        "--values",
        "income",
        "--aggregate",
        "mean",
        "--k",
        "499",
    )
    done = run(*call, "--log", str(folder), "--json")
    assert done.exit_code == 3
    assert json.loads(done.stdout)["verdict"] == "refuse"
    plain = run(*call)
    assert isinstance(plain.exception, OutputRefused)
    assert run("outputs", str(folder)).exit_code == 0
    told = json.loads(run("outputs", str(folder), "--json").stdout)
    assert [one["verdict"] for one in told["outputs"]] == ["refuse"]


def test_plan_rules_weights_and_rounding(file, tmp_path):
    (tmp_path / "rules.toml").write_text("k = 10\n")
    (tmp_path / "plan.toml").write_text('version = 1\n[columns]\neducation = "quasi"\n')
    done = run("table", file, "--rows", "education", "--columns", "sex", "--rules",
               str(tmp_path / "rules.toml"), "--plan", str(tmp_path / "plan.toml"), "--protection",
               "round", "--base", "10", "--missing", "leave-out", "--json")  # fmt: skip
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["rule"]["k"] == 10
    assert all(cell["value"] % 10 == 0 for cell in told["cells"])
    done = run("table", file, "--rows", "sex", "--weights", "survey_weight", "--normalize", "all")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("extra", "match"),
    [
        (("--normalize", "rows"), "all, index or columns"),
        (("--missing", "drop"), "level or leave-out"),
        (("--protection", "none"), "suppress or round"),
        (("--aggregate", "max", "--values", "income"), "may not leave"),
        (("--out", "table.docx"), "its format is not known"),
    ],
)
def test_what_cannot_be_is_told(file, extra, match):
    done = run("table", file, "--rows", "sex", *extra)
    assert isinstance(done.exception, SfumatoError)
    assert match in str(done.exception)


def test_a_table_of_a_parquet_file(tmp_path):
    pl.DataFrame({"a": ["x", "y"] * 20}).write_parquet(tmp_path / "a.parquet")
    done = run("table", str(tmp_path / "a.parquet"), "--rows", "a", "-q")
    assert done.exit_code == 0
    assert "20" in done.stdout
