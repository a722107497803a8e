"""The command line as a stranger uses it: its streams, its exit codes, and a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.command_line import sfumato

import sfumato as sf
from sfumato.cli.app import MODULES

PLAN = """
version = 1
[columns]
person_id = "direct"
name = "direct"
email = "direct"
nhs_number = "direct"
address = "direct"
postcode = { role = "quasi", kind = "text" }
birth_date = "quasi"
sex = "quasi"
ethnicity = "quasi"
region = "quasi"
school = "cluster"
household_size = "quasi"
marital_status = "quasi"
education = "quasi"
smoking = "sensitive"
income = "sensitive"
height = "quasi"
weight_kg = "sensitive"
glucose = "sensitive"
hdl = "sensitive"
systolic = "sensitive"
diagnosis = "sensitive"
children = "quasi"
survey_weight = "weight"
exam_score = "sensitive"

[[steps]]
method = "drop"

[[steps]]
method = "drop"
variables = ["postcode", "birth_date", "ethnicity", "household_size", "marital_status", "education",
             "height", "children", "region", "school"]

[targets]
k.min = {k}
"""


def start(*words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The same in a process of its own, where that is the point."""
    return subprocess.run(
        [sys.executable, "-c", "from sfumato.cli import main; main()", *map(str, words)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "160", "NO_COLOR": "1"},
    )


@pytest.fixture
def place(tmp_path: Path) -> Path:
    sf.datasets.cohort(200).write_csv(tmp_path / "cohort.csv")
    (tmp_path / "plan.toml").write_text(PLAN.replace("{k}", "5"))
    return tmp_path


def test_from_the_file_to_the_checked_release(place):
    made = start("protect", "cohort.csv", "--plan", "plan.toml", "--out", "release", cwd=place)
    assert made.returncode == 0, made.stderr
    assert "k at least 5" in made.stdout
    assert "custody" in made.stderr
    checked = sfumato("verify", "release", "--original", "cohort.csv", "--json", cwd=place)
    assert checked.returncode == 0
    assert all(one["passed"] for one in json.loads(checked.stdout))
    judged = sfumato("evaluate", "cohort.csv", "release", "--json", cwd=place)
    found = json.loads(judged.stdout)["uniqueness"]
    assert (found["value"], found["baseline"]) == (0.0, 1.0)
    again = sfumato("protect", "cohort.csv", "-p", "plan.toml", "-o", "release", cwd=place)
    assert again.returncode == 4
    assert "exists already" in again.stderr
    other = sfumato("protect", "cohort.csv", "-p", "plan.toml", "-o", "two", cwd=place)
    assert other.returncode == 0
    assert "Warning: The same data were released before" in other.stderr
    key = place / "release" / "custody" / "key"
    same = sfumato(
        "protect", "cohort.csv", "-p", "plan.toml", "-o", "three", "--key", key, cwd=place
    )
    assert "in 'release'" not in same.stderr
    data = [(place / one / "data.csv").read_bytes() for one in ("release", "three")]
    assert data[0] == data[1]


def test_a_missed_target_leaves_with_3_and_keeps_the_evidence(place):
    (place / "plan.toml").write_text(PLAN.replace("{k}", "5000"))
    made = sfumato("protect", "cohort.csv", "-p", "plan.toml", "-o", "release", "--json", cwd=place)
    assert made.returncode == 3
    assert json.loads(made.stdout)["error"] == "TargetError"
    assert "MISSED" in made.stderr
    assert not (place / "release").exists()
    kept = json.loads((place / "release.refused" / "attempt-1.json").read_text())
    assert kept["targets"][0]["met"] is False


def test_protect_shows_what_each_variable_still_shows_and_two_lights(place):
    made = sfumato("protect", "cohort.csv", "-p", "plan.toml", "-o", "release", cwd=place)
    assert made.returncode == 0, made.stderr
    rows = [line.split() for line in made.stdout.replace("│", " ").splitlines()]
    assert ["survey_weight", "weight", "as", "it", "is", "100%", "200", "100%", "100%"] in rows
    assert ["region", "quasi", "dropped"] in rows
    assert "Targets:   GREEN" in made.stderr
    assert "Attacks:   AMBER" in made.stderr
    assert "'survey_weight': values leave unchanged" in made.stderr
    made = sfumato("protect", "cohort.csv", "-p", "plan.toml", "-o", "two", "--json", cwd=place)
    shown = json.loads(made.stdout)
    assert shown["lights"]["attacks"]["colour"] == "amber"
    ledger = {row["variable"]: row for row in shown["ledger_of_variables"]}
    assert ledger["survey_weight"]["fingerprint"] == 1
    assert ledger["name"]["done"] == "dropped"
    assert ledger["name"]["steps"] == ["drop"]


def test_an_attack_that_does_too_well_leaves_with_3_unless_the_plan_says_why(place):
    frame = sf.datasets.cohort(200).select("person_id", "sex", "height", "smoking")
    frame.write_csv(place / "few.csv")
    plan = (
        'version = 1\n[columns]\nperson_id = "direct"\nsex = "quasi"\nheight = "quasi"\n'
        'smoking = "sensitive"\n[[steps]]\nmethod = "drop"\n[release]\nattack_seconds = 60\n'
    )
    (place / "open.toml").write_text(plan)
    words = ("protect", "few.csv", "-p", "open.toml", "-o", "release", "--json")
    made = sfumato(*words, cwd=place)
    assert made.returncode == 3
    assert "attacks succeed too often" in made.stderr
    assert "accept_attacks" in json.loads(made.stdout)["hint"]
    assert not (place / "release").exists()
    attempt = json.loads((place / "release.refused" / "attempt-1.json").read_text())
    assert attempt["evidence"]["mixed_linkage"]["at_worst"] > 0.5
    missed = {target["measure"] for target in attempt["targets"] if not target["met"]}
    assert {"mixed_linkage", "singling_out"} <= missed
    (place / "open.toml").write_text(f'{plan}accept_attacks = "they are invented"\n')
    made = sfumato(*words, cwd=place)
    assert made.returncode == 0, made.stderr
    light = json.loads(made.stdout)["lights"]["attacks"]
    assert light["colour"] == "amber"
    assert "The plan accepts that: they are invented" in light["reasons"][0]


def test_a_changed_release_leaves_with_4(place):
    sfumato("protect", "cohort.csv", "-p", "plan.toml", "-o", "release", cwd=place)
    with (place / "release" / "data.csv").open("a") as file:
        file.write("x\n")
    checked = sfumato("verify", "release", cwd=place)
    assert checked.returncode == 4
    assert "FAILED" in checked.stdout


def test_inspect_writes_a_plan_that_can_be_read_and_run(place):
    made = sfumato("inspect", "cohort.csv", "--plan", "first.toml", "--json", cwd=place)
    assert made.returncode == 0, made.stderr
    told = json.loads(made.stdout)["variables"]
    assert told["name"]["role"] == "direct"
    assert all(one["reason"] for one in told.values())
    plan = sf.Plan.load(place / "first.toml")
    assert set(plan.schema) == set(told)
    assert plan.targets
    refused = sfumato("inspect", "cohort.csv", "--plan", "first.toml", cwd=place)
    assert refused.returncode == 2
    assert "exists already" in refused.stderr
    unknown = [name for name, one in told.items() if one["role"] is None]
    # Among 200 records one key in 60 misses k once an attacker has filled in what he can.
    (place / "key").write_text(sf.Key(bytes(range(32))).text)
    words = ("-p", "first.toml", "-o", "out", "--key", "key")
    tried = sfumato("protect", "cohort.csv", *words, cwd=place)
    assert tried.returncode == (2 if unknown else 0), tried.stderr
    assert all(f"'{name}'" in tried.stderr for name in unknown)


def test_inspect_of_the_titanic(shared_data, tmp_path):
    made = sfumato("inspect", shared_data / "titanic.csv", "--json", cwd=tmp_path)
    told = json.loads(made.stdout)["variables"]
    assert told["Name"]["role"] == "direct"
    for name in ("PassengerId", "Ticket"):
        assert told[name]["role"] == "direct"
        assert "identifier-like" in told[name]["reason"]
    assert {told[name]["role"] for name in ("Age", "Sex", "Pclass", "SibSp", "Parch")} == {"quasi"}
    assert all(one["reason"] for one in told.values())
    assert "Braund" not in made.stdout + made.stderr


def test_assess_takes_the_parameters_of_the_measures(place):
    found = sfumato(
        "assess", "cohort.csv", "-p", "plan.toml", "--known", "sex,region", "--json", cwd=place
    )
    assert json.loads(found.stdout)["uniqueness"]["details"]["known"] == ["sex", "region"]
    wrong = sfumato("assess", "cohort.csv", "--known", "sexx", cwd=place)
    assert wrong.returncode == 2
    assert "did you mean 'sex'?" in wrong.stderr
    value = sfumato("assess", "cohort.csv", "--missing", "guess", cwd=place)
    assert value.returncode == 2
    assert "must be 'value' or 'wildcard'" in value.stderr
    shown = sfumato("assess", "cohort.csv", "-p", "plan.toml", "--details", cwd=place)
    assert "class_size" in shown.stdout
    assert "Assumed:" in shown.stderr


@pytest.mark.parametrize("command", ["methods", "measures"])
def test_the_catalogue_is_listed_and_explained(command, tmp_path):
    listed = json.loads(sfumato(command, "--json", cwd=tmp_path).stdout)
    assert listed
    one = next(iter(listed))
    assert one in sfumato(command, cwd=tmp_path).stdout
    assert "Parameters" in sfumato(command, one, cwd=tmp_path).stdout
    wrong = sfumato(command, one[:-1], cwd=tmp_path)
    assert wrong.returncode == 2
    assert f"did you mean '{one}'?" in wrong.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("inspect", "none.csv"), "there is no file"),
        (("protect", "cohort.csv", "-p", "none.toml", "-o", "x"), "There is no plan"),
        (("verify", "."), "is not a release"),
        (("inspect", "plan.toml"), "toml"),
    ],
)
def test_wrong_input_leaves_with_a_hint_and_no_traceback(place, words, expected):
    done = sfumato(*words, cwd=place)
    assert done.returncode in (2, 4)
    assert expected in done.stderr
    assert "Traceback" not in done.stderr


def test_help_of_every_command_has_an_example(tmp_path):
    for command in MODULES:
        shown = sfumato(command, "--help", cwd=tmp_path).stdout
        assert f"Example: sfumato {command}" in shown or command == "ledger"
    assert sf.__version__ in start("--version", cwd=tmp_path).stdout


def test_the_demo_does_the_whole_job_twice(demo, tmp_path):
    demo.copy(tmp_path / "demo")
    second = sfumato("demo", "--json", cwd=tmp_path)
    assert second.returncode == 0, second.stderr
    told = json.loads(second.stdout)
    assert all(one["passed"] for one in told["checks"])
    # By its own plan: with room for t, a target on what people alike share, and a purpose.
    assert {name: light["colour"] for name, light in told["lights"].items()} == {
        "targets": "green", "attacks": "green", "use": "green",
    }  # fmt: skip
    assert not [row["target"] for row in told["targets"] if row.get("barely_met")]
    asked = {row["target"] for row in told["targets"]}
    assert {"k", "t", "attribute_disclosure"} <= asked
    weight = next(row for row in told["ledger_of_variables"] if row["role"] == "weight")
    assert (weight["steps"], weight["unchanged"]) == (["weights"], 0)
    assert (tmp_path / "demo" / "release" / "report.html").is_file()
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "cohort.csv").write_text("precious")
    refused = sfumato("demo", "--out", "study", cwd=tmp_path)
    assert refused.returncode == 4
    assert (tmp_path / "study" / "cohort.csv").read_text() == "precious"


def test_a_reader_may_go_away(place):
    piped = "sfumato inspect cohort.csv --quiet | head -1; exit ${PIPESTATUS[0]}"
    command = f"{sys.executable} -m {piped}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=place, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_inspect_never_writes_over_the_data(place):
    done = sfumato("inspect", "cohort.csv", "--plan", "cohort.csv", "--overwrite", cwd=place)
    assert done.returncode == 2
    assert (place / "cohort.csv").read_bytes().startswith(b"person_id")
    nowhere = sfumato("inspect", "cohort.csv", "--plan", "no/such/plan.toml", cwd=place)
    assert nowhere.returncode == 2


def test_a_process_told_to_stop_cleans_up(place):
    """Killed while it works: the partial folder, with key and data in it, does not stay."""
    code = (
        "import os, signal, sys, sfumato.storage.writing as writing\n"
        "real = writing.create_file\n"
        "def stop(*a, **k): os.kill(os.getpid(), signal.SIGTERM); real(*a, **k)\n"
        "writing.create_file = stop\n"
        "sys.argv = ['sfumato', 'protect', 'cohort.csv', '-p', 'plan.toml', '-o', 'release']\n"
        "from sfumato.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=place, capture_output=True, text=True, check=False
    )
    assert done.returncode == 130, done.stderr
    assert "Interrupted. Nothing was written." in done.stderr
    assert sorted(path.name for path in place.iterdir()) == ["cohort.csv", "plan.toml"]


def test_an_unforeseen_error_shows_no_value(place):
    """A bug must not print the data either: no traceback, no message of a foreign error."""
    code = (
        "import sys, sfumato.cli.look as look\n"
        "def broken(*a, **k): raise RuntimeError('cell 4711-secret')\n"
        "look.run_assess = broken\n"
        "sys.argv = ['sfumato', 'assess', 'cohort.csv']\n"
        "from sfumato.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=place, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "4711" not in done.stdout + done.stderr
    assert "RuntimeError" in done.stderr
