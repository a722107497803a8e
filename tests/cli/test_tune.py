"""`sfumato tune`: as somebody at a terminal would use it."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli.app import app
from sfumato.errors import SfumatoError

runner = CliRunner()
NAMES = ["person_id", "sex", "region", "household_size", "systolic"]


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    schema = sf.datasets.cohort_schema()
    sf.datasets.cohort(150).select(NAMES).write_csv(tmp_path / "cohort.csv")
    plan = sf.Plan(
        schema={name: schema[name] for name in NAMES},
        steps=[sf.methods.Drop(), sf.methods.KAnonymity(k=6)],
        targets={"k.min": 3},
        evaluate=[sf.utility.InformationLoss()],
    )
    (tmp_path / "plan.toml").write_text(plan.text())
    return str(tmp_path / "cohort.csv"), str(tmp_path / "plan.toml")


def test_a_tuned_plan_is_written_and_runs(files: tuple[str, str], tmp_path: Path) -> None:
    made, drawn, table = tmp_path / "tuned.toml", tmp_path / "map.svg", tmp_path / "map.csv"
    done = runner.invoke(
        app,
        ["tune", files[0], "--plan", files[1], "--write", str(made), "--map", str(drawn),
         "--out", str(table), "--runs", "10", "--budget", "60", "--resume", str(tmp_path / "kept")],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    for words in ("Nothing is released", "Recommended", "k at least 3", "sfumato protect"):
        assert words in done.output
    assert "<svg" in drawn.read_text()
    assert len(list((tmp_path / "kept").iterdir())) == len(pl.read_csv(table)) == 10
    out = tmp_path / "release"
    done = runner.invoke(app, ["protect", files[0], "--plan", str(made), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert (out / "manifest.json").exists()


def test_json_holds_the_map(files: tuple[str, str]) -> None:
    asked = ["--runs", "6", "--weight", "information_loss=2", "--compare", "0,1", "--json"]
    done = runner.invoke(app, ["tune", files[0], "--plan", files[1], *asked])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["met"]
    assert len(found["candidates"]) == 6
    assert found["candidates"][found["recommended"]]["recommended"]
    assert found["weights"] == {"information_loss": 2.0}
    better = {row["number"]: row["better"] for row in found["compared"]}
    assert better["information_loss"] == "a"
    assert found["written"] is None


def test_quiet_says_only_the_result(files: tuple[str, str]) -> None:
    done = runner.invoke(app, ["tune", files[0], "--plan", files[1], "--runs", "3", "--quiet"])
    assert done.exit_code == 0
    assert "tuning" not in done.output


def test_what_cannot_be_met_ends_with_three(files: tuple[str, str], tmp_path: Path) -> None:
    plan = sf.Plan.load(files[1])
    hard = sf.Plan(
        schema=plan.schema,
        steps=plan.steps,
        targets={"k.min": 3, "information_loss.max": 0.001},
    )
    (tmp_path / "hard.toml").write_text(hard.text())
    asked = ["--runs", "5", "--write", str(tmp_path / "no.toml"), "--map", str(tmp_path / "m.svg")]
    done = runner.invoke(app, ["tune", files[0], "--plan", str(tmp_path / "hard.toml"), *asked])
    assert done.exit_code == 3
    assert "comes nearest" in done.output
    assert "No plan was written" in done.output
    assert not (tmp_path / "no.toml").exists()
    assert (tmp_path / "m.svg").exists()  # the map shows what is missing


@pytest.mark.parametrize(
    "asked",
    [
        ["--weight", "information_loss"],
        ["--weight", "nothing=2"],
        ["--compare", "1"],
        ["--compare", "0,999"],
        ["--map", "map.bmp"],
        ["--write", "plan.txt"],
    ],
)
def test_nonsense_is_refused(files: tuple[str, str], asked: list[str]) -> None:
    done = runner.invoke(app, ["tune", files[0], "--plan", files[1], "--runs", "2", *asked])
    assert isinstance(done.exception, SfumatoError)


def test_existing_files_are_left_alone(files: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "tuned.toml").write_text("mine")
    asked = ["tune", files[0], "--plan", files[1], "--runs", "3", "--write",
             str(tmp_path / "tuned.toml")]  # fmt: skip
    assert isinstance(runner.invoke(app, asked).exception, SfumatoError)
    assert (tmp_path / "tuned.toml").read_text() == "mine"
    assert runner.invoke(app, [*asked, "--overwrite"]).exit_code == 0
    assert sf.Plan.load(tmp_path / "tuned.toml").targets
