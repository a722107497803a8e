"""`sfumato hierarchy` as a stranger uses it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

import sfumato as sf
from sfumato.cli import hierarchy
from sfumato.errors import SfumatoError

app = typer.Typer(callback=lambda: None)
hierarchy.register(app)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["hierarchy", *arguments])


@pytest.fixture
def file(tmp_path: Path) -> str:
    sf.datasets.cohort(300).write_csv(tmp_path / "cohort.csv")
    return str(tmp_path / "cohort.csv")


@pytest.mark.parametrize(
    ("variable", "groups"),
    [("income", 3), ("birth_date", 4), ("postcode", 4), ("ethnicity", 2), ("height", 3)],
)
def test_every_kind_of_variable_has_groups_that_hold_all_its_values(file, variable, groups):
    done = run(file, variable, "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["unknown_records"] == 0
    assert len(told["levels"]) == groups
    assert all(level["groups"] >= 1 for level in told["levels"])


def test_what_is_written_is_read_again_and_can_be_named_in_a_plan(file, tmp_path):
    path = tmp_path / "income.csv"
    done = run(file, "income", "--by", "width", "--sizes", "5000,20000", "--out", str(path))
    assert done.exit_code == 0, done.output
    assert 'hierarchy = "income.csv"' in done.stderr
    assert sf.hierarchies.read(path)["61000"] == ("[60000;64999]", "[60000;79999]")
    assert path.stat().st_mode & 0o077 == 0
    assert isinstance(run(file, "income", "--out", str(path)).exception, SfumatoError)
    assert run(file, "income", "--check", str(path)).exit_code == 0


def test_a_hierarchy_that_does_not_fit_says_how_many_records_and_no_value(file, tmp_path):
    path = tmp_path / "sex.csv"
    path.write_text("female;*\n")
    done = run(file, "sex", "--check", str(path))
    assert isinstance(done.exception, SfumatoError)
    assert "records of 'sex'" in str(done.exception)
    assert "male" not in str(done.exception).replace("female", "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sex", "--by", "round"], "no numbers"),
        (["sex", "--by", "dates"], "no dates"),
        (["sex", "--by", "neighbours"], "no declared order"),
        (["income", "--sizes", "five"], "--sizes are numbers"),
        (["incone"], "did you mean 'income'"),
    ],
)
def test_what_cannot_be_done_is_said(file, arguments, said):
    done = run(file, *arguments)
    assert said in str(done.exception)
