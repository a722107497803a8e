"""`sfumato recommend` as a stranger uses it: tables, a plan that runs, and refusals."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.cli.command_line import sfumato
from typer.testing import CliRunner, Result

import sfumato as sf
from sfumato.cli.app import app
from sfumato.cli.look import _Clock
from sfumato.cli.recommend import _format_percent
from sfumato.errors import SfumatoError

PLAN = """
version = 1
[columns]
person_id = "direct"
sex = "quasi"
birth_date = "quasi"
region = "quasi"
household_size = { role = "quasi", kind = "integer", domain = [1, 20] }
education = "quasi"
glucose = "sensitive"
hdl = "sensitive"
diagnosis = "sensitive"

[[steps]]
method = "drop"

[[steps]]
method = "drop"
variables = ["birth_date"]
"""
LATER = """
[[steps]]
method = "deterministic"
variables = ["glucose", "hdl"]
strata = ["sex"]
missing = "drop"

[[steps]]
method = "suppress"
variables = ["sex", "education"]
k = 3

[targets]
peers.max = 0.4

[evaluate.peers]
sensitive = ["diagnosis"]

[evaluate.coefficients]
formula = "hdl ~ household_size"
"""
WORDS = ("recommend", "people.csv", "-p", "plan.toml", "--sensitive", "diagnosis")


@pytest.fixture
def place(tmp_path: Path, monkeypatch) -> Path:
    names = list(sf.Plan.parse(PLAN).schema)
    sf.datasets.cohort(600).select(names).write_csv(tmp_path / "people.csv")
    (tmp_path / "plan.toml").write_text(PLAN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(*words: str) -> Result:
    return CliRunner().invoke(app, words)


def refused(*words: str) -> SfumatoError:
    made = told(*words)
    assert isinstance(made.exception, SfumatoError), made.output
    return made.exception


def found(*words: str) -> dict[str, Any]:
    made = told(*words, "--json")
    assert made.exit_code == 0, made.output
    content: dict[str, Any] = json.loads(made.stdout)
    return content


def test_the_tables_are_printed_and_the_written_plan_runs(place):
    (place / "plan.toml").write_text(PLAN + LATER)
    made = told(*WORDS, "--enough", "0.7", "--write", "new.toml")
    assert made.exit_code == 0, made.output
    assert "Each variable alone" in made.stdout
    assert "Together, step by step" in made.stdout
    assert "sfumato protect people.csv --plan new.toml" in made.stderr
    assert "Measured after the plan's own first steps: drop." in made.stderr
    assert "Left as they are, since later steps need numbers: glucose, hdl." in made.stderr
    plan = sf.Plan.load("new.toml")
    names = [step.name for step in plan.steps]
    assert names[:2] == ["drop", "drop"]
    assert names[-2:] == ["deterministic", "suppress"]
    assert set(names[2:-2]) <= {"drop", "coarsen", "recode"}
    assert len(names) > 4
    done = told("protect", "people.csv", "-p", "new.toml", "-o", "release")
    assert done.exit_code == 0, done.exception


def test_json_holds_the_ranking_the_path_and_the_steps(place):
    content = found(*WORDS, "--enough", "0.9", "--write", "new.toml")
    assert content["sensitive"] == "diagnosis"
    gains = [row["gain"] for row in content["variables"]]
    assert gains == sorted(gains, reverse=True)
    assert {row["variable"] for row in content["variables"]} == {
        "sex", "region", "household_size", "education",
    }  # fmt: skip
    assert content["path"][0]["before"] == content["before"]
    assert content["path"][-1]["after"] == content["protected"]
    assert content["reached"] == (content["protected"] >= 0.9)
    steps = [(one["method"], tuple(one["variables"])) for one in content["steps"]]
    plan = sf.Plan.load("new.toml")
    assert steps == [(one.name, one.touches(plan.schema)) for one in plan.steps[2:]]
    assert content["written"] == "new.toml"
    assert found(*WORDS, "--enough", "0.9")["path"] == content["path"]


def test_what_is_said_of_the_plan_is_what_it_does(place):
    content = found(*WORDS, "--known", "sex, region,household_size", "--write", "new.toml")
    plan = sf.Plan.load("new.toml")
    data = sf.read("people.csv").with_schema(plan.schema)
    for step in plan.steps:
        data = step.apply(data)
    known = [name for name in ("sex", "region", "household_size") if name in data.columns]
    measured = sf.risk.Peers(known=known, sensitive=["diagnosis"]).measure(data)
    assert 1 - measured.value == pytest.approx(content["protected"], abs=1e-12)


def test_a_picture_of_what_would_be_gained_stays_inside(place):
    made = told(*WORDS, "--p", "0.1", "--picture", "gains.svg")
    assert made.exit_code == 0, made.output
    assert "Inside only" in (place / "gains.svg").read_text()
    assert (place / "gains.svg").stat().st_mode & 0o077 == 0
    hint = refused(*WORDS, "--picture", "gains.svg").hint
    assert "--overwrite" in hint
    assert told(*WORDS, "--p", "0.1", "--picture", "gains.svg", "--overwrite").exit_code == 0


def test_nothing_is_overwritten_unless_said(place):
    before = (place / "plan.toml").read_text()
    assert "--overwrite" in refused(*WORDS, "--write", "plan.toml").hint
    assert "ends in .toml" in refused(*WORDS, "--write", "plan.txt").hint
    assert (place / "plan.toml").read_text() == before
    assert told(*WORDS, "--write", "plan.toml", "--overwrite").exit_code == 0
    assert len(sf.Plan.load("plan.toml").steps) > 2


def test_variables_that_others_need_stay(place):
    (place / "plan.toml").write_text(PLAN + LATER)
    content = found(*WORDS, "--enough", "1.0")
    gone = [one["variables"] for one in content["steps"] if one["method"] == "drop"]
    assert not {"sex", "education", "household_size"} & {name for some in gone for name in some}
    made = told(*WORDS, "--enough", "1.0")
    if any("household_size" in one["variables"] for one in content["steps"]):
        assert "coefficients names household_size" in made.stderr


def test_what_the_plan_coarsens_already_is_not_cut_again(place):
    coarse = '\n[[steps]]\nmethod = "coarsen"\nvariables = ["household_size"]\nintervals = 10\n'
    target = "\n[targets]\npeers.max = 0.4\n[evaluate.peers]\nsensitive = ['diagnosis']\n"
    (place / "plan.toml").write_text(PLAN + coarse + target)
    made = told(*WORDS, "--enough", "0.7", "--write", "new.toml")
    assert "The plan coarsens these already: household_size." in made.stderr
    steps = sf.Plan.load("new.toml").steps
    assert [one.name for one in steps[:3]] == ["drop", "drop", "coarsen"]
    again = [one for one in steps[3:] if "household_size" in one.touches(sf.Schema({}))]
    assert all(one.name == "drop" for one in again)
    assert told("protect", "people.csv", "-p", "new.toml", "-o", "release").exit_code == 0


def test_the_only_sensitive_variable_is_taken_and_several_are_asked_about(place):
    error = refused("recommend", "people.csv", "-p", "plan.toml")
    assert "several sensitive variables: 'glucose', 'hdl', 'diagnosis'" in error.what
    one = PLAN.replace('glucose = "sensitive"', 'glucose = "other"')
    (place / "plan.toml").write_text(one.replace('hdl = "sensitive"', 'hdl = "other"'))
    assert found("recommend", "people.csv", "-p", "plan.toml")["sensitive"] == "diagnosis"
    (place / "plan.toml").write_text(PLAN.replace('"sensitive"', '"other"'))
    assert "No variable is declared" in refused("recommend", "people.csv", "-p", "plan.toml").what


def test_wrong_words_leave_with_2_and_without_a_result(place):
    for words in (
        ("--known", "birth_date"), ("--p", "1.5"), ("--enough", "0"),
        ("--sensitive", "diagnosys"), ("--budget", "10", "--p", "0.1"),
    ):  # fmt: skip
        assert refused(*WORDS, *words, "--quiet").exit_code == 2
    made = sfumato(*WORDS, "--known", "sxe", "--quiet", cwd=place)
    assert made.returncode == 2
    assert made.stderr.startswith("Error: ")
    assert not made.stdout
    spent = told(*WORDS, "--p", "0.1", "--budget", "30000", "--quiet")
    assert spent.exit_code == 0
    assert "The budget is spent" in spent.stderr


def test_assess_says_how_long_many_combinations_took(monkeypatch, capsys):
    ticks = iter([1.0, 1.5, 61.5])
    monkeypatch.setattr("sfumato.cli.look.process_time", lambda: next(ticks))
    heard: list[str] = []
    clock = _Clock(lambda what, done, total: heard.append(what))
    for what in ("measuring: uniqueness", "measuring: peers", "combinations", "measuring"):
        clock(what, 0, 1)
    table = pl.DataFrame({"variable": ["a", "b"]})
    many = sf.Evidence(
        name="peers", subject="original", value=0.5, table=table, details={"combinations": 1023}
    )
    clock.say({"uniqueness": many, "peers": many})
    said = capsys.readouterr().err
    assert "peers: 1,023 combinations, 2 variables in turn, in 60.0 CPU seconds." in said
    assert heard == ["measuring: uniqueness", "measuring: peers", "combinations", "measuring"]
    clock.say({"peers": sf.Evidence.failed("peers", "original", "too many")})
    assert not capsys.readouterr().err


def test_no_cell_of_the_data_is_printed(place):
    made = told(*WORDS)
    cells = {
        str(one)
        for name in ("region", "education", "diagnosis", "sex")
        for one in pl.read_csv(place / "people.csv")[name].drop_nulls().unique()
    }
    words = set(re.findall(r"[\w-]+", made.output))
    assert not cells & (words - {"none", "other"})


def test_a_measured_secret_is_warned_of(place):
    words = ("recommend", "people.csv", "-p", "plan.toml", "--sensitive", "glucose")
    made = sfumato(*words, "--known", "sex", cwd=place)
    assert "'glucose' holds measured numbers" in made.stderr
    plain = json.loads(told(*words, "--known", "sex", "--json").stdout)
    assert "tolerance" in plain["warnings"][0]
    assert json.loads(told(*WORDS, "--json").stdout)["warnings"] == []


@pytest.mark.parametrize(
    ("share", "said"), [(1.0, "100.0%"), (0.99999, "99.9%"), (0.803, "80.3%"), (0.9499, "94.9%")]
)
def test_protected_shares_are_never_rounded_up(share, said):
    assert _format_percent(share) == said


def test_the_plans_own_measure_says_what_is_known_and_what_is_a_breach(place):
    (place / "plan.toml").write_text(
        PLAN + '\n[evaluate.peers]\nsensitive = ["diagnosis"]\nknown = ["sex", "region"]\np = 0.3\n'
    )
    made = found(*WORDS)
    assert made["p"] == 0.3
    assert {row["variable"] for row in made["variables"]} == {"sex", "region"}
    assert found(*WORDS, "--p", "0.1")["p"] == 0.1


def test_assess_takes_the_measure_that_alone_has_a_parameter(place):
    (place / "plan.toml").write_text(PLAN + "\n[evaluate.uniqueness]\n")
    words = ("assess", "people.csv", "--plan", "plan.toml", "--sensitive", "diagnosis")
    assert set(found(*words, "--known", "sex,region")) == {"uniqueness", "peers"}
