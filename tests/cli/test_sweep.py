"""`sfumato sweep` as a stranger uses it."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from tests.cli.command_line import sfumato
from tests.cli.test_cli import PLAN
from typer.testing import CliRunner, Result

import sfumato as sf
from sfumato.cli.app import app
from sfumato.errors import SfumatoError

STEPS = """
[[steps]]
method = "topcode"
variables = ["income"]
top_quantile = 0.9

[[steps]]
method = "coarsen"
variables = ["systolic"]
intervals = 4

[targets]
"""
SWEEP = ("sweep", "cohort.csv", "-p", "plan.toml")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    sf.datasets.cohort(200).write_csv(tmp_path / "cohort.csv")
    text = PLAN.replace("{k}", "5").replace('systolic = "sensitive"', SYSTOLIC)
    (tmp_path / "plan.toml").write_text(text.replace("[targets]", STEPS))
    return tmp_path


SYSTOLIC = 'systolic = { role = "quasi", kind = "integer", domain = [70, 260] }'


def test_the_table_is_printed_or_written_and_every_run_is_in_it(place):
    shown = sfumato(*SWEEP, "--set", "intervals=2,9", cwd=place)
    assert shown.returncode == 0, shown.stderr
    assert "Nothing is released" in shown.stdout
    assert "intervals" in shown.stdout
    words = ("--set", "intervals=2,9", "--set", "topcode.top_quantile=0.5,0.9")
    sizes = ("--sizes", "50,100", "--repeats", "2", "--out", "table.csv", "--json")
    made = sfumato(*SWEEP, *words, *sizes, cwd=place)
    assert made.returncode == 0, made.stderr
    rows = json.loads(made.stdout)
    assert len(rows) == 2 * 2 * 2 * 2
    assert rows[0]["topcode.top_quantile"] == 0.5
    assert {row["met"] for row in rows} <= {True, False}
    table = pl.read_csv(place / "table.csv", infer_schema_length=None)
    assert table["intervals"].to_list() == [row["intervals"] for row in rows]
    assert table["uniqueness"].to_list() == [row["uniqueness"] for row in rows]
    again = sfumato(*SWEEP, *words, *sizes, cwd=place)
    assert again.returncode == 2
    assert "exists already" in again.stderr
    assert "Traceback" not in again.stderr


def in_process(place: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> Result:
    """Without a process of its own, which costs seconds; errors are raised, not told."""
    monkeypatch.chdir(place)
    return CliRunner().invoke(app, [*SWEEP, *words])


def test_quiet_is_quiet_and_a_written_table_is_told(place, monkeypatch):
    words = ("--set", "intervals=2", "--out", "table.parquet")
    told = in_process(place, monkeypatch, *words)
    assert "The table of 1 runs is in 'table.parquet'" in told.stderr
    assert told.stdout == ""
    quiet = in_process(place, monkeypatch, *words, "--overwrite", "--quiet")
    assert (quiet.exit_code, quiet.stdout, quiet.stderr) == (0, "", "")


def test_a_picture_is_drawn(place, monkeypatch):
    words = ("--set", "intervals=2,9", "--picture", "sweep.svg", "--json")
    assert in_process(place, monkeypatch, *words).exit_code == 0
    assert "<svg" in (place / "sweep.svg").read_text()
    words = ("--sizes", "50,100", "--picture", "n.svg", "--quiet")
    assert in_process(place, monkeypatch, *words).exit_code == 0
    assert (place / "n.svg").is_file()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ("--set", "topcode.top_quantile=0.5,0.9"),
            "here vary 'intervals' and 'topcode.top_quantile'.",
        ),
        (("--sizes", "50,100"), "here vary 'intervals' and the size."),
    ],
)
def test_a_picture_of_two_things_that_vary_is_refused_before_the_runs(
    place, monkeypatch, words, expected
):
    (place / "cohort.csv").unlink()  # nothing is read, let alone run
    words = ("--set", "intervals=2,9", *words, "--picture", "sweep.svg")
    error = in_process(place, monkeypatch, *words).exception
    assert isinstance(error, SfumatoError)
    assert expected in str(error)
    assert "vary one at a time" in str(error)


def test_one_measure_over_two_things_is_a_map(place, monkeypatch):
    # The plan has targets of its own, whose measures are taken first.
    words = ("--set", "intervals=2,9", "--sizes", "50,100", "--measure", "information_loss")
    made = in_process(place, monkeypatch, *words, "--picture", "two.svg", "--quiet")
    assert made.exception is None
    assert "information_loss by intervals and records" in (place / "two.svg").read_text()
    words = ("--set", "intervals=2,9", "--measure", "information_loss", "--picture", "one.svg")
    assert in_process(place, monkeypatch, *words, "--quiet").exception is None
    picture = (place / "one.svg").read_text()
    assert "information_loss" in picture
    assert "uniqueness" not in picture


def test_a_surface_in_three_dimensions_stands_beside_the_map(place, monkeypatch):
    words = ("--set", "intervals=2,9", "--sizes", "50,100", "--measure", "uniqueness")
    made = in_process(place, monkeypatch, *words, "--picture", "two.svg", "--relief", "--quiet")
    assert made.exception is None
    assert "as heights" in (place / "two.svg").read_text()
    words = ("--set", "intervals=2,9", "--measure", "uniqueness", "--picture", "one.svg")
    error = in_process(place, monkeypatch, *words, "--relief").exception
    assert "--relief draws one measure over two things that vary" in str(error)


def test_a_picture_is_drawn_over_what_varies(place, monkeypatch):
    words = ("--set", "intervals=4", "--sizes", "50,100", "--picture", "n.svg", "--quiet")
    assert in_process(place, monkeypatch, *words).exit_code == 0
    drawn = (place / "n.svg").read_text()
    assert ">records<" in drawn
    assert ">intervals<" not in drawn


def test_runs_that_the_data_refuse_are_told_and_leave_with_2(place, monkeypatch):
    plan = place / "plan.toml"
    # Text cannot be topcoded.
    plan.write_text(plan.read_text().replace('["income"]', '["smoking"]'))
    made = in_process(place, monkeypatch, "--set", "topcode.top_quantile=0.5")
    assert made.exit_code == 2
    assert "Runs that lack numbers: 1" in made.stderr
    assert "'smoking'" in made.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--set", "interval=2"), "did you mean 'intervals'"),
        (("--set", "intervals"), "write --set k=3,5,7"),
        (("--set", "intervals=2", "--set", "intervals=3"), "given twice"),
        (("--set", "intervals=some"), "'intervals' parameter of Coarsen"),
        (("--set", "intervals=2", "--sizes", "many"), "whole numbers"),
        (("--set", "intervals=2", "--sizes", "900"), "cannot be drawn"),
        (("--set", "intervals=2", "--out", "table.odd"), "ends in .csv"),
        (("--set", "intervals=2", "--picture", "p.gif"), "ends in .svg"),
        (("--set", "coarsen.variables=systolic;agee"), "'agee' is not in the data"),
        (("--measure", "uniquness"), "did you mean 'uniqueness'"),
    ],
)
def test_mistakes_are_told_with_a_hint(place, monkeypatch, words, expected):
    error = in_process(place, monkeypatch, *words).exception
    assert isinstance(error, SfumatoError)
    assert error.exit_code == 2
    assert expected in str(error)


def test_the_help_has_an_example():
    assert "Example: sfumato sweep" in CliRunner().invoke(app, ["sweep", "--help"]).stdout


SIMULATED = """
[columns]
sex = "quasi"
height = { role = "sensitive", kind = "continuous", domain = [120.0, 230.0] }
systolic = { role = "sensitive", kind = "integer" }

[[steps]]
method = "deterministic"
variables = ["height", "systolic"]
strata = ["sex"]

[evaluate.displacement]
[evaluate.mahalanobis]
variables = ["height", "systolic"]
"""


def test_cohorts_of_any_size_are_simulated(place):
    sf.datasets.cohort(400).select("sex", "height", "systolic").write_csv(place / "people.csv")
    (place / "simulated.toml").write_text(SIMULATED)
    words = ("sweep", "people.csv", "-p", "simulated.toml", "--set", "k=3,8")
    made = ("--simulate", "height,systolic", "--strata", "sex", "--repeats", "2", "--json")
    sizes = ("--sizes", "100,1000")
    first = sfumato(
        *words, *made, *sizes, "--picture", "figure.svg", "-m", "displacement", cwd=place
    )
    assert first.returncode == 0, first.stderr
    assert "complete of 400 records" in first.stderr
    rows = json.loads(first.stdout)
    # More than there are: nothing is drawn from the data themselves.
    assert {row["records"] for row in rows} == {100, 1000}
    assert len(rows) == 2 * 2 * 2
    assert len({row["displacement"] for row in rows}) == len(rows)
    assert (place / "figure.svg").stat().st_size > 1000
    by_size = {
        size: [row["displacement"] for row in rows if row["records"] == size and row["k"] == 8]
        for size in (100, 1000)
    }
    assert max(by_size[1000]) < min(by_size[100])
    other = json.loads(sfumato(*words, *made, *sizes, "--seed", "1", cwd=place).stdout)
    assert {row["displacement"] for row in other}.isdisjoint(row["displacement"] for row in rows)
    alone = json.loads(sfumato(*words, *made, cwd=place).stdout)
    assert {row["records"] for row in alone} == {
        pl.read_csv(place / "people.csv").drop_nulls().height
    }


def test_what_belongs_to_simulated_cohorts_is_refused_without_them(place):
    for words in (("--strata", "sex"), ("--nearest-kurtosis",)):
        refused = sfumato(*SWEEP, "--set", "intervals=2", *words, cwd=place)
        assert refused.returncode == 2
        assert "simulated cohorts" in refused.stderr
    unknown = sfumato(*SWEEP, "--set", "intervals=2", "--simulate", "systolick", cwd=place)
    assert unknown.returncode == 2
    assert "did you mean 'systolic'" in unknown.stderr
