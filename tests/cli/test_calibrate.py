"""`sfumato calibrate`: as somebody at a terminal would use it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli.app import app
from sfumato.errors import SfumatoError

runner = CliRunner()


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    sf.datasets.cohort(300).write_csv(tmp_path / "cohort.csv")
    plan = sf.Plan(schema=sf.datasets.cohort_schema(), steps=[sf.methods.Drop()])
    (tmp_path / "plan.toml").write_text(plan.text())
    return str(tmp_path / "cohort.csv"), str(tmp_path / "plan.toml")


NAMES = ["--variables", "height,weight_kg", "--known", "height,weight_kg", "--draws", "2"]


def test_a_calibrated_plan_is_written_and_runs(files: tuple[str, str], tmp_path: Path) -> None:
    made = tmp_path / "noised.toml"
    model = ["--model", "systolic ~ height + weight_kg"]
    done = runner.invoke(
        app,
        ["calibrate", files[0], "--plan", files[1], *NAMES, "--mean-h", "2", *model,
         "--weight", "height=0.5", "--write", str(made), "--picture", str(tmp_path / "c.svg")],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "least noise that suffices" in done.output
    assert (tmp_path / "c.svg").exists()
    plan = sf.Plan.load(made)
    assert [one.name for one in plan.steps] == ["drop", "noise"]
    noise = plan.steps[1]
    assert isinstance(noise, sf.methods.Noise)
    assert isinstance(noise.variance_share, dict)
    assert noise.variance_share["weight_kg"] > noise.variance_share["height"]
    out = tmp_path / "release"
    done = runner.invoke(app, ["protect", files[0], "--plan", str(made), "--out", str(out)])
    assert done.exit_code == 0, done.output
    told = json.loads((out / "manifest.json").read_text())["noise"]["variables"]
    assert set(told) == {"height", "weight_kg"}


def test_categories_may_be_known_and_misclassified(files: tuple[str, str]) -> None:
    shares = []
    for more in ([], ["--misclassified", "region=0.4"]):
        known = ["--variables", "height", "--known", "height,sex,region", "--draws", "2", *more]
        done = runner.invoke(
            app, ["calibrate", files[0], "--plan", files[1], *known, "--mean-h", "2", "--json"]
        )
        assert done.exit_code == 0, done.output
        shares.append(json.loads(done.stdout)["share"])
    assert shares[1] < shares[0]
    wrong = runner.invoke(
        app,
        [
            "calibrate",
            files[0],
            "--plan",
            files[1],
            *NAMES,
            "--mean-h",
            "2",
            "--misclassified",
            "x",
        ],
    )
    assert "--misclassified takes a name and a number" in str(wrong.exception)


def test_json_holds_both_sides(files: tuple[str, str]) -> None:
    asked = ["--at-most", "0.5", "--model", "systolic ~ height", "--json"]
    done = runner.invoke(app, ["calibrate", files[0], "--plan", files[1], *NAMES, *asked])
    found = json.loads(done.stdout)
    assert found["met"]
    assert found["achieved"] <= 0.5
    assert found["models"][0]["terms"][1]["inflation"] > 1


def test_what_cannot_be_met_ends_with_three(files: tuple[str, str], tmp_path: Path) -> None:
    asked = ["--at-most", "0.001", "--who", "0.01", "--write", str(tmp_path / "no.toml")]
    done = runner.invoke(app, ["calibrate", files[0], "--plan", files[1], *NAMES, *asked])
    assert done.exit_code == 3
    assert not (tmp_path / "no.toml").exists()


@pytest.mark.parametrize(
    "asked",
    [
        [],
        ["--mean-h", "3", "--who", "everybody"],
        ["--mean-h", "3", "--weight", "height"],
        ["--mean-h", "3", "--family", "cox", "--model", "systolic ~ height"],
    ],
)
def test_nonsense_is_refused(files: tuple[str, str], asked: list[str]) -> None:
    done = runner.invoke(app, ["calibrate", files[0], "--plan", files[1], *NAMES, *asked])
    assert isinstance(done.exception, SfumatoError)


def test_a_step_that_touches_the_same_variable_is_refused(
    files: tuple[str, str], tmp_path: Path
) -> None:
    plan = sf.Plan(
        schema=sf.datasets.cohort_schema(),
        steps=[sf.methods.Drop(), sf.methods.Topcode(variables=["height"], top=190)],
    )
    (tmp_path / "both.toml").write_text(plan.text())
    done = runner.invoke(
        app,
        ["calibrate", files[0], "--plan", str(tmp_path / "both.toml"), *NAMES, "--mean-h", "3",
         "--write", str(tmp_path / "new.toml")],
    )  # fmt: skip
    assert isinstance(done.exception, SfumatoError)
    assert "'height'" in str(done.exception)
    assert not (tmp_path / "new.toml").exists()
