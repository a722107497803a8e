"""`sfumato profiles`, and the option --profile of other commands."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli import look, profiles, table
from sfumato.errors import PlanError
from sfumato.methods.k_anonymity import KAnonymity
from sfumato.profiles import list_profiles

app = typer.Typer()
for command in (look, profiles, table):
    command.register(app)


def run(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def test_profiles_are_listed_and_explained():
    listed = json.loads(run("profiles", "--json").stdout)
    assert list(listed) == list(list_profiles())
    assert {"read", "silent", "source", "edition"} <= set(listed["ema-0070"])
    shown = run("profiles", "hipaa-safe-harbor").stdout
    assert "What it does not say" in shown
    assert 'profile = "hipaa-safe-harbor"' in shown
    assert "--profile sacro" in run("profiles", "sacro").stdout
    assert isinstance(run("profiles", "ema").exception, PlanError)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("profiles") / "cohort.csv"
    sf.datasets.cohort(200).select("sex", "region", "education", "glucose").write_csv(path)
    return path


def test_inspect_writes_the_targets_of_a_profile_with_their_reasons(file):
    path = file.with_name("plan.toml")
    done = run("inspect", str(file), "--plan", str(path), "--profile", "ema-0070")
    assert done.exit_code == 0, done.output
    text = path.read_text()
    assert "# ema-0070: Where everybody may read the data" in text
    plan = sf.Plan.load(path)
    assert plan.profile == "ema-0070"
    assert [step.k for step in plan.steps if isinstance(step, KAnonymity)] == [12]
    assert "add --plan" in str(run("inspect", str(file), "--profile", "cms").exception)


def test_a_table_takes_the_rules_of_a_profile_or_of_the_plans(file):
    asked = ("table", str(file), "--rows", "education", "--json")
    cms = json.loads(run(*asked, "--profile", "cms").stdout)
    assert cms["rule"]["k"] == 11
    plan = file.with_name("sacro.toml")
    plan.write_text('profile = "sacro"\n')
    assert json.loads(run(*asked, "--plan", str(plan)).stdout)["rule"]["k"] == 10
    both = run(*asked, "--profile", "cms", "--rules", str(plan))
    assert "give one of them" in str(both.exception)
