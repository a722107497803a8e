"""`sfumato compare` as a stranger uses it."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

import sfumato as sf
from sfumato.cli.app import app
from sfumato.errors import SfumatoError

PLAN = """version = 1

[read]
columns = ["sex", "height", "diagnosis"]

[columns]
sex = "quasi"
height = { role = "quasi", kind = "continuous", domain = [120, 230] }
diagnosis = "sensitive"

[[steps]]
method = "coarsen"
variables = ["height"]
intervals = {intervals}

[targets]
k.min = 2
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    sf.datasets.cohort(150).write_csv(tmp_path / "cohort.csv")
    for name, intervals in (("coarse", 2), ("fine", 40)):
        text = PLAN.replace("{intervals}", str(intervals))
        (tmp_path / f"{name}.toml").write_text(text)
    return tmp_path


def run(place: Path, monkeypatch, *words: str) -> Result:
    monkeypatch.chdir(place)
    return CliRunner().invoke(app, ["compare", "cohort.csv", *words])


def test_risk_disclosure_and_loss_side_by_side(place, monkeypatch):
    shown = run(place, monkeypatch, "coarse.toml", "fine.toml")
    assert shown.exception is None
    assert "Plans: 2. Nothing is released." in shown.stdout
    for word in ("coarse", "fine", "reidentification", "yes", "no"):
        assert word in shown.stdout
    made = run(place, monkeypatch, "coarse.toml", "fine.toml", "--json", "--picture", "p.svg")
    rows = json.loads(made.stdout)
    assert [row["plan"] for row in rows] == ["coarse", "fine"]
    assert rows[0]["reidentification"] < rows[1]["reidentification"]
    assert rows[0]["information_loss"] > rows[1]["information_loss"]
    drawing = (place / "p.svg").read_text()
    assert "information loss" in drawing
    assert "coarse" in drawing


def test_names_measures_and_a_file(place, monkeypatch):
    words = ("--name", "first", "--name", "second", "-m", "uniqueness", "--out", "t.csv", "-q")
    assert run(place, monkeypatch, "coarse.toml", "fine.toml", *words).exception is None
    table = pl.read_csv(place / "t.csv")
    assert table["plan"].to_list() == ["first", "second"]
    assert "uniqueness" in table.columns
    assert "reidentification" not in table.columns


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("coarse.toml",), "no two plans"),
        (("coarse.toml", "coarse.toml"), "same name"),
        (("coarse.toml", "fine.toml", "--name", "x"), "2 plans and 1 names"),
        (("coarse.toml", "fine.toml", "--picture", "p.gif"), "ends in .svg"),
    ],
)
def test_mistakes_are_told_with_a_hint(place, monkeypatch, words, expected):
    error = run(place, monkeypatch, *words).exception
    assert isinstance(error, SfumatoError)
    assert error.exit_code == 2
    assert expected in str(error)
    assert error.hint
