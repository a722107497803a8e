"""Several tables at the command line: inspect, assess, protect and verify of a folder."""

from __future__ import annotations

import json

import polars as pl
import pytest
from tests.cli.command_line import sfumato
from tests.run.test_linked import make_hospital

from sfumato.plan import Plan

PLAN = """
person = "patients.patient"
[keys]
"stays.patient" = "patients.patient"
"lab.stay" = "stays.stay"
[tables.patients.columns]
name = "direct"
age = "quasi"
sex = "quasi"
born = "other"
[[tables.patients.steps]]
method = "drop"
[tables.stays.columns]
ward = "quasi"
admitted = "other"
[tables.lab.columns]
test = "quasi"
value = "sensitive"
[[steps]]
method = "k_anonymity"
k = 5
[targets]
k.min = 5
[evaluate.uniqueness]
row_counts = false
"""


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "hospital"
    place.mkdir()
    for name, frame in make_hospital().items():
        frame.write_csv(place / f"{name}.csv")
    (tmp_path / "plan.toml").write_text(PLAN)
    return place


def test_inspect_suggests_keys_and_writes_a_plan_that_reads(folder, tmp_path):
    done = sfumato("inspect", folder, "--plan", tmp_path / "first.toml", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {key: facts["to"] for key, facts in found["keys"].items()} == {
        "stays.patient": "patients.patient",
        "lab.stay": "stays.stay",
    }
    assert found["person"] == "patients.patient"
    plan = Plan.load(tmp_path / "first.toml")
    assert list(plan.tables) == ["lab", "patients", "stays"]
    assert plan.tables["patients"].schema["name"].role == "direct"
    shown = sfumato("inspect", folder)
    assert "lab.stay" in shown.stdout
    assert "row_counts" in shown.stderr


def test_a_folder_becomes_a_release_that_verifies(folder, tmp_path):
    plan, out = tmp_path / "plan.toml", tmp_path / "release"
    assessed = sfumato("assess", folder, "--plan", plan, "--json")
    assert assessed.returncode == 0
    assert json.loads(assessed.stdout)["uniqueness"]["details"]["k_at_worst"] == 1
    done = sfumato("protect", folder, "--plan", plan, "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["targets"][0]["met"]
    assert list(told["tables"]) == ["patients", "stays", "lab"]
    assert told["lights"]["targets"]["colour"] == "green"
    assert {path.name for path in out.glob("*.csv")} == {"patients.csv", "stays.csv", "lab.csv"}
    checked = sfumato("verify", out, "--original", folder)
    assert checked.returncode == 0, checked.stdout
    assert "every key joins" in checked.stdout
    (out / "stays.csv").write_text((out / "stays.csv").read_text() + "\n")
    assert sfumato("verify", out).returncode == 4


def test_what_is_missed_is_kept_and_leaves_with_3(folder, tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN.replace("row_counts = false", ""))
    done = sfumato("protect", folder, "--plan", plan, "--out", tmp_path / "release")
    assert done.returncode == 3
    assert "joined view" in done.stderr
    kept = json.loads((tmp_path / "release.refused/attempt-1.json").read_text())
    assert kept["evidence"]["joined view.uniqueness"]["details"]["k_at_worst"] < 5
    assert not (tmp_path / "release").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--engine", "streaming"], "joined in memory"),
        (["--engine", "spark"], "joined in memory"),
        (["--query", "SELECT 1"], "read whole"),
        (["--table", "stays"], "names one"),
    ],
)
def test_what_does_not_work_is_refused_before_any_work(folder, tmp_path, words, said):
    done = sfumato(
        "protect", folder, "--plan", tmp_path / "plan.toml", "--out", tmp_path / "r", *words
    )
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: (folder / "stays.csv").unlink(), "no table 'stays'"),
        (
            lambda folder: (
                pl.read_csv(folder / "stays.csv").drop("patient").write_csv(folder / "stays.csv")
            ),
            "key 'stays.patient' is not in the data",
        ),
        (
            lambda folder: (
                pl.read_csv(folder / "patients.csv").tail(50).write_csv(folder / "patients.csv")
            ),
            "rows of table 'stays' have no row in 'patients'",
        ),
        (
            lambda folder: (folder / "lab.csv").write_text("stay,test,value\n"),
            "no record in table 'lab'",
        ),
    ],
)
def test_bad_input_says_what_is_wrong_and_shows_no_value(folder, tmp_path, change, said):
    change(folder)
    done = sfumato("protect", folder, "--plan", tmp_path / "plan.toml", "--out", tmp_path / "r")
    assert done.returncode == 2
    assert said in done.stderr
    assert "Hint" in done.stderr
    assert "P00" not in done.stderr


def test_a_plan_for_several_tables_is_refused_where_one_is_meant(folder, tmp_path):
    plan = tmp_path / "plan.toml"
    for words in (
        ["tune", folder / "lab.csv", "--plan", plan],
        ["sweep", folder / "lab.csv", "--plan", plan],
    ):
        done = sfumato(*words)
        assert done.returncode == 2, done.stdout
    assert "several tables" in done.stderr


def test_a_database_is_protected_as_a_folder_is(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "clinic.duckdb"
    with duckdb.connect(str(path)) as connection:
        for name, frame in make_hospital().items():
            connection.register("frame", frame.to_arrow())
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM frame")  # noqa: S608
            connection.unregister("frame")
    (tmp_path / "plan.toml").write_text(PLAN)
    done = sfumato("inspect", path, "--json")
    assert set(json.loads(done.stdout)["keys"]) == {"stays.patient", "lab.stay"}
    done = sfumato(
        "protect", path, "--plan", tmp_path / "plan.toml", "--out", tmp_path / "r", "--json"
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "r/lab.parquet").is_file()
    assert sfumato("verify", tmp_path / "r", "--original", path).returncode == 0
