"""The parameters of the measures as options, and what a stranger trips over."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.cli.command_line import sfumato
from typer.testing import CliRunner, Result

import sfumato as sf
from sfumato import catalogue
from sfumato.cli.app import app
from sfumato.cli.look import list_drawn
from sfumato.errors import DataError, PlanError

PLAN = """
[columns]
sex = "quasi"
region = "quasi"
age = { role = "quasi", kind = "integer", domain = [0, 100] }
answer = { role = "sensitive", kind = "nominal" }

[[steps]]
method = "topcode"
variables = ["age"]
top = 65

[[steps]]
method = "topcode"
variables = ["age"]
bottom = 22

[[steps]]
method = "coarsen"
variables = ["age"]
intervals = 1

[targets]
k.min = 2
"""
GROUPS = """
[targets.reidentification]
max = 0.0

[evaluate.reidentification]
groups = { looks = ["sex", "age"], home = ["region"] }
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = range(48)
    pl.DataFrame(
        {
            "sex": [["f", "m"][i % 2] for i in rows],
            "region": [["n", "s", "w"][i % 3] for i in rows],
            "age": [20 + i for i in rows],
            "answer": [["yes", "no"][i // 2 % 2] for i in rows],
        }
    ).write_csv(tmp_path / "people.csv")
    (tmp_path / "plan.toml").write_text(PLAN)
    (tmp_path / "asked.toml").write_text(f"{PLAN}\n[evaluate.uniqueness]\n[evaluate.diversity]\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(*words: str) -> Result:
    """In this process, since one of its own costs seconds; errors are raised, not told."""
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "200"})


def assessed(*words: str) -> dict[str, Any]:
    done = told("assess", "people.csv", "-p", "plan.toml", "--json", *words)
    assert done.exit_code == 0, done.exception
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def refused(*words: str) -> PlanError:
    error = told(*words).exception
    assert isinstance(error, PlanError), error
    return error


@pytest.mark.parametrize(
    "given",
    [
        ("--known", "sex,age"),
        ("--known", "sex", "--known", "age"),
        ("--known", '["sex", "age"]'),
        ("--known", '["sex"]', "--known", " age "),
    ],
)
def test_a_list_may_be_repeated_parted_by_commas_or_written_as_in_a_plan(place, given):
    found = assessed("-m", "uniqueness", *given)["uniqueness"]
    assert found["details"]["known"] == ["sex", "age"]


def test_a_list_without_quotes_and_a_choice_made_twice_are_refused(place):
    words = ("assess", "people.csv", "-m", "uniqueness")
    assert '["gender", "age"]' in refused(*words, "--known", "[sex,age]").hint
    twice = refused(*words, "--missing", "value", "--missing", "wildcard")
    assert "'missing' is given more than once" in twice.what


def test_names_that_look_like_numbers_stay_names():
    entry = catalogue.measure("uniqueness")
    assert catalogue.parse_parameters(entry, {"known": "1,true"}) == {"known": ["1", "true"]}
    model = catalogue.parse_parameters(catalogue.measure("coefficients"), {"formula": "1"})
    assert model == {"formula": "1"}
    assert catalogue.parse_parameters(catalogue.measure("interval"), {"k": "2.5"}) == {"k": 2.5}


def test_a_table_is_given_as_in_a_plan(place):
    table = '{looks = ["sex", "age"], home = ["region"]}'
    found = assessed("-m", "reidentification", "--groups", table)["reidentification"]
    assert [row["known"] for row in found["table"]] == ["looks", "home", "looks + home"]


@pytest.mark.parametrize(
    "given", ["sex,age", "{looks = sex}", '["sex"]', "{}\ny = 1", "", "5", '{a = ["x"]'], ids=repr
)
def test_what_is_no_table_is_told_with_an_example(place, given):
    error = refused("assess", "people.csv", "-m", "reidentification", "--groups", given)
    assert "table of lists of names" in error.what
    if given != '["sex"]':
        assert '--groups \'{ look = ["gender", "race"], home = ["region"] }\'' in error.hint


def test_methods_take_tables_and_lists_of_lists():
    suppress = catalogue.methods()["suppress"]
    given = {"combinations": '[["a", "b"], ["c"]]', "spare": "{ a = 2 }"}
    assert catalogue.parse_parameters(suppress, given) == {
        "combinations": [["a", "b"], ["c"]],
        "spare": {"a": 2},
    }
    crowds = catalogue.methods()["k_anonymity"]
    assert catalogue.parse_parameters(crowds, {"output": '{ a = "set" }'}) == {
        "output": {"a": "set"}
    }
    assert catalogue.parse_parameters(crowds, {"output": "set"}) == {"output": "set"}


def test_parameters_are_explained_with_their_measure_and_not_in_the_help(place):
    assert "--groups" not in told("assess", "--help").stdout
    shown = told("measures", "reidentification").stdout
    assert "groups (table of lists of names)" in shown
    assert "known (list of names)" in shown
    assert 'missing ("value" or "wildcard"; default: value)' in shown


def test_the_example_of_every_measure_can_be_typed():
    for name, entry in catalogue.measures().items():
        shown = told("measures", name).stdout.rpartition("On the command line")[2]
        words = shlex.split(shown.replace("\\\n", ""))
        given = words[words.index("--measure") + 2 :]
        flags = {flag.strip("-").replace("-", "_"): [text] for flag, text in batched(given)}
        example = next((example for example in entry.examples if example), {})
        assert entry(**catalogue.parse_parameters(entry, flags)) == entry(**example)


def batched(words: list[str]) -> list[tuple[str, str]]:
    return list(zip(words[::2], words[1::2], strict=True))


def test_a_parameter_changes_the_measures_that_are_taken_anyway(place):
    words = ("assess", "people.csv", "-p", "asked.toml", "--json")
    plain = json.loads(told(*words).stdout)
    assert list(plain) == ["uniqueness", "diversity"]
    known = json.loads(told(*words, "--known", "sex").stdout)
    assert list(known) == list(plain)
    assert [one["details"]["known"] for one in known.values()] == [["sex"]] * len(known)
    assert set(assessed("--known", "sex")) == set(assessed())


def test_a_parameter_that_no_measure_taken_has_names_those_that_have_it(place):
    error = refused("assess", "people.csv", "-p", "asked.toml", "--formula", "age ~ sex")
    assert error.what == (
        "None of the measures taken here ('uniqueness', 'diversity') has --formula."
    )
    assert error.hint == "coefficients, efficiency have it: --measure coefficients"
    error = refused("assess", "people.csv", "-m", "uniqueness", "--missing-confidential", "none")
    assert "diversity has it" in error.hint


def test_a_plan_of_comparisons_only_leaves_something_to_assess(place):
    (place / "plan.toml").write_text(
        PLAN.replace("[targets]\nk.min = 2", '[evaluate.displacement]\nvariables = ["age"]')
    )
    assert "uniqueness" in assessed()


def test_each_assumption_is_told_once_with_who_makes_it(place):
    lines = told("assess", "people.csv", "-p", "plan.toml", "--details").stderr.splitlines()
    assumed = [line for line in lines if line.startswith("Assumed:")]
    assert len(assumed) == len({line.partition(" (")[0] for line in assumed}) > 1
    assert assumed[0].startswith("Assumed: The outsider knows that the person is in the data")
    assert "Assumed: Missing counts as a value of its own. (uniqueness)" in assumed
    words = ("assess", "people.csv", "-p", "plan.toml", "-m", "uniqueness")
    assert "(uniqueness)" not in told(*words, "--details").stderr
    assert "Assumed" not in told(*words).stderr


def test_pictures_leave_no_empty_folder(place):
    assert told("protect", "people.csv", "-p", "plan.toml", "-o", "release").exit_code == 0
    words = ("evaluate", "people.csv", "release", "--pictures", "pictures")
    none = told(*words, "-m", "uniqueness")
    assert none.exit_code == 0
    assert "None of these measures has a picture. There are pictures of attr" in none.stderr
    assert not (place / "pictures").exists()
    drawn = told(*words, "-m", "reidentification", "--groups", '{home = ["region"]}')
    assert drawn.exit_code == 0, drawn.exception
    assert list((place / "pictures").iterdir())
    assert refused(*words).exit_code == 2
    (place / "file").write_text("")
    there = (*words[:-1], "file/inside", "-m", "reidentification")
    assert refused(*there, "--groups", '{home = ["region"]}').exit_code == 2


def test_the_measures_said_to_have_pictures_have_them():
    drawn = list_drawn().replace(" with groups", "").split(", ")
    assert drawn == [
        "attribute_disclosure", "coefficients", "displacement", "h_index", "mahalanobis",
        "masked_cells", "mixed_linkage", "moments", "peers", "propensity", "reidentification",
    ]  # fmt: skip
    assert all(hasattr(sf.pictures, str(catalogue.measure(name).picture)) for name in drawn)


def test_steps_are_counted_and_groups_are_told_in_words(place):
    (place / "plan.toml").write_text(PLAN + GROUPS)
    made = told("protect", "people.csv", "-p", "plan.toml", "-o", "release")
    assert made.exit_code == 0, made.exception
    for line in ("protecting: step 1 of 3, topcode", "protecting: step 2 of 3, topcode"):
        assert line in made.stderr
    # A narrow terminal wraps the cell over several lines.
    words = re.findall(r"[\w:;,]+", made.stdout)
    told_groups = ["groups:", "looks:", "sex,", "age;", "home:", "region"]
    assert [word for word in words if word in told_groups][: len(told_groups)] == told_groups
    checked = told("verify", "release", "--json")
    assert "(groups: looks: sex, age; home: region): met" in checked.stdout
    assert "['sex'" not in (place / "release" / "report.html").read_text()


@pytest.mark.parametrize("read", ["", '[read]\ntypes = { region = "text" }\n'])
def test_a_file_of_other_variables_is_not_the_original(place, read):
    (place / "plan.toml").write_text(PLAN + read)
    assert told("protect", "people.csv", "-p", "plan.toml", "-o", "release").exit_code == 0
    (place / "other.csv").write_text("height,weight\n1,2\n3,4\n")
    done = told("verify", "release", "--original", "other.csv", "--json")
    assert done.exit_code == 4
    checks = json.loads(done.stdout)
    assert [one["name"] for one in checks if one["passed"] is False] == ["original"]
    assert checks[0]["said"] == (
        "this is not the original that was protected: it lacks the variables "
        "'sex', 'region', 'age' and 1 more"
    )
    gone = told("verify", "release", "--original", "none.csv").exception
    assert isinstance(gone, DataError)


@pytest.mark.parametrize(("number", "owner"), [("k", "uniqueness"), ("t", "closeness")])
def test_a_number_of_a_measure_is_no_measure(number, owner):
    error = refused("measures", number)
    assert error.hint == f"'{number}' is a number of '{owner}': sfumato measures {owner}"


def test_tables_are_swept_between_semicolons(place):
    (place / "plan.toml").write_text(
        PLAN.replace('"coarsen"', '"k_anonymity"').replace("intervals = 1", "k = 2")
    )
    values = 'k_anonymity.output={ age = "range" }; { age = "mean" }'
    done = told("sweep", "people.csv", "-p", "plan.toml", "--set", values, "--json")
    assert done.exit_code == 0, done.exception
    assert len(json.loads(done.stdout)) == 2


@pytest.mark.parametrize(
    "command",
    [
        ["inspect"],
        ["assess"],
        ["who"],
        ["who", "--plan", "empty.toml"],
        ["protect", "--plan", "empty.toml", "--out", "out"],
        ["tune", "--plan", "empty.toml"],
        ["table", "--rows", "sex"],
        ["plot", "histogram", "--x", "age"],
    ],
)
def test_every_command_says_of_a_file_without_records_that_there_is_none(tmp_path, command):
    (tmp_path / "none.csv").write_text("age,sex\n")
    (tmp_path / "empty.toml").write_text('[columns]\nage = "quasi"\nsex = "quasi"\n')
    first, *rest = command
    words = [first, *([rest.pop(0)] if first == "plot" else []), "none.csv", *rest]
    done = sfumato(*words, cwd=tmp_path)
    assert done.returncode != 0
    assert "There is no record in these data." in done.stderr
