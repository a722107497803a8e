"""What a stranger meets in a terminal of 80 columns: help, tables, answers, Ctrl-C, reprs."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from tests.cli.command_line import TERMINAL, sfumato
from tests.waiting import PATIENCE

import sfumato as sf
from sfumato import catalogue
from sfumato.cli import console
from sfumato.cli.app import GROUPS, MODULES
from sfumato.cli.console import show_table

SCREEN = 30
WORDS = st.lists(st.text("abc_", min_size=1, max_size=24), min_size=1, max_size=3).map(" ".join)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    sf.datasets.cohort(150).write_csv(tmp_path / "cohort.csv")
    return tmp_path


@pytest.mark.parametrize("command", ["", *MODULES])
def test_help_fits_two_screens(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(TERMINAL))
    lines = sfumato(*command.split(), "--help").stdout.splitlines()
    assert len(lines) <= 2 * SCREEN
    assert max(map(len, lines)) <= TERMINAL


def test_commands_stand_in_their_groups():
    shown = sfumato("--help").stdout
    assert list(GROUPS) == ["Look", "Protect", "Check", "Analyse", "Publish"]
    places = [shown.index(f"\n{group}:\n") for group in GROUPS]
    assert places == sorted(places)
    assert all(f"\n  {command} " in shown for command in MODULES)
    wrong = sfumato("asses", "cohort.csv")
    assert (wrong.returncode, "did you mean 'assess'?" in wrong.stderr) == (2, True)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 9).flatmap(
    lambda width: st.lists(st.lists(WORDS, min_size=width, max_size=width), min_size=1, max_size=4)
))  # fmt: skip
def test_no_table_breaks_a_word(rows):
    drawn = Console(file=io.StringIO(), width=TERMINAL, highlight=False)
    original, console.out = console.out, drawn  # type: ignore[assignment]
    try:
        show_table("title", rows[0], rows)
    finally:
        console.out = original
    text = drawn.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, text.splitlines())) <= TERMINAL
    shown = set(text.replace("│", " ").replace("┃", " ").split())
    assert {word for row in rows for cell in row for word in cell.split()} <= shown


def test_assess_begins_with_the_answer(place):
    shown = sfumato("assess", "cohort.csv", "-m", "uniqueness", cwd=place).stdout
    assert shown.startswith("All 150 people can be singled out by ")
    assert "class_size" not in shown
    words = ("assess", "cohort.csv", "-m", "uniqueness", "--known", "sex,region")
    found = json.loads(sfumato(*words, "--json", cwd=place).stdout)["uniqueness"]["details"]
    first = sfumato(*words, cwd=place).stdout.partition("\n")[0]
    assert first == f"{found['unique_records']} of 150 people can be singled out by sex and region."
    words = ("assess", "cohort.csv", "-m", "uniqueness", "--known", "sex")
    found = json.loads(sfumato(*words, "--json", cwd=place).stdout)["uniqueness"]["details"]
    first = sfumato(*words, cwd=place).stdout.partition("\n")[0]
    assert first == (
        f"Nobody can be singled out by sex: at least {found['k']} people share every combination."
    )


def test_evaluate_begins_with_the_answer(place):
    plan = '[columns]\nsex = "quasi"\nregion = "quasi"\n[[steps]]\nmethod = "drop"\n'
    (place / "plan.toml").write_text(plan + 'variables = ["region"]\n[targets]\nk.min = 2\n')
    pl.read_csv(place / "cohort.csv").select("sex", "region").write_csv(place / "few.csv")
    made = sfumato("protect", "few.csv", "-p", "plan.toml", "-o", "release", cwd=place)
    assert made.returncode == 0, made.stderr
    shown = sfumato("evaluate", "few.csv", "release", cwd=place).stdout
    assert shown.startswith("Nobody can be singled out in the release: at least ")
    assert "class_size" not in shown
    assert "class_size" in sfumato("evaluate", "few.csv", "release", "--details", cwd=place).stdout
    checked = sfumato("verify", "release", "--original", "few.csv", cwd=place).stdout
    assert checked.startswith("Nothing wrong was found: ")
    (place / "release" / "data.csv").unlink()
    checked = sfumato("verify", "release", "--original", "few.csv", cwd=place).stdout
    assert checked.startswith("Wrong: data.")
    assert "data.csv is missing" in checked


def test_who_lists_each_record_once_with_what_gives_it_away(place):
    names = ["sex", "region", "education"]
    words = ("who", "cohort.csv", "--known", ",".join(names))
    rows = json.loads(sfumato(*words, "--json", cwd=place).stdout)
    assert sorted(row["record"] for row in rows) == list(range(1, 151))
    frame = pl.read_csv(place / "cohort.csv")
    for row in rows:
        record = frame.row(row["record"] - 1, named=True)
        for known in filter(None, (row["alone_by"], ", ".join(names))):
            alike = pl.all_horizontal(
                pl.col(name).eq_missing(record[name]) for name in known.split(", ")
            )
            expected = 1 if known == row["alone_by"] else row["class_size"]
            assert frame.filter(alike).height == expected
    assert [row["class_size"] for row in rows] == sorted(row["class_size"] for row in rows)
    assert any(row["alone_by"] for row in rows)
    written = sfumato(*words, "--out", "who.csv", cwd=place)
    assert "must stay inside" in written.stderr
    assert (place / "who.csv").stat().st_mode & 0o077 == 0
    refused = sfumato("who", "cohort.csv", "-m", "displacement", cwd=place)
    assert refused.returncode == 2


def test_who_finds_the_records_of_a_release_again(place):
    """The rows of a release are in another order, and some were removed."""
    plan = (
        '[columns]\nperson_id = "direct"\nsex = "quasi"\nregion = "quasi"\neducation = "quasi"\n'
        '[[steps]]\nmethod = "drop"\n[release]\naccept_attacks = "they are invented"\n'
    )
    (place / "plan.toml").write_text(plan)
    frame = pl.read_csv(place / "cohort.csv").select("person_id", "sex", "region", "education")
    frame.write_csv(place / "few.csv")
    made = sfumato("protect", "few.csv", "-p", "plan.toml", "-o", "release", cwd=place)
    assert made.returncode == 0, made.stderr
    listed = [
        json.loads(sfumato("who", "few.csv", *words, "--json", cwd=place).stdout)
        for words in (["-p", "plan.toml"], ["release"])
    ]
    assert listed[0] == listed[1]


def test_an_identifier_is_told_before_the_work(place):
    plan = '[columns]\nname = "sensitive"\nemail = "direct"\nsex = "quasi"\n'
    pl.read_csv(place / "cohort.csv").select("name", "email", "sex").write_csv(place / "few.csv")
    (place / "plan.toml").write_text(plan)
    done = sfumato("protect", "few.csv", "-p", "plan.toml", "-o", "release", cwd=place)
    assert done.returncode == 2
    assert "'name' is released unchanged" in done.stderr
    assert "would be released unchanged: 'email'" in done.stderr
    assert "protecting" not in done.stderr


def test_ctrl_c_stops_what_does_not_listen_and_says_what_was_kept(tmp_path):
    """A call into compiled code hears of no signal; half-written files must not outlive it."""
    code = (
        "import hashlib, sys\n"
        "from pathlib import Path\n"
        "import sfumato.cli.look as look\n"
        "from sfumato.io.atomic import replace_file, write_file\n"
        "def work(*words, **options):\n"
        "    write_file(Path('complete.txt'), 'complete')\n"
        "    with replace_file(Path('secret.txt')) as sibling:\n"
        "        sibling.write_text('half')\n"
        "        print('ready', flush=True)\n"
        "        hashlib.pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)\n"
        "look.run_assess = work\n"
        "Path('few.csv').write_text('sex\\nf\\nm\\n')\n"
        "sys.argv = ['sfumato', 'assess', 'few.csv']\n"
        "from sfumato.cli import main; main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "Interrupted. Complete, and kept: 'complete.txt'." in told
    assert sorted(path.name for path in tmp_path.iterdir()) == ["complete.txt", "few.csv"]


def test_a_bare_frame_is_told_what_to_do():
    frame = pl.DataFrame({"age": [30, 31], "income": [1, 2]})
    with pytest.raises(sf.SfumatoError) as error:
        sf.assess(frame)  # type: ignore[arg-type]
    assert "sf.Dataset(frame, sf.Schema.infer(frame))" in error.value.hint
    data = sf.Dataset(frame, sf.Schema.infer(frame))
    assert sf.assess(data, ["uniqueness"])


def test_reprs_are_one_short_line(tmp_path):
    data = sf.Dataset(sf.datasets.cohort(50), sf.datasets.cohort_schema())
    steps = [sf.methods.Drop(), sf.methods.Drop(variables=list(data.schema.having("quasi")))]
    plan = sf.Plan(schema=data.schema, steps=steps)
    examples = [
        entry(**example)
        for entry in (catalogue.methods() | catalogue.measures()).values()
        for example in entry.examples
    ]
    evidence = sf.assess(data, ["uniqueness"])["uniqueness"]
    things = [data, data.schema, *data.schema.values(), plan, evidence, *examples]
    for thing in things:
        assert "\n" not in repr(thing)
        assert len(repr(thing)) <= 120, repr(thing)
    assert repr(plan) == "Plan(25 variables, 2 steps, 0 targets)"
    assert repr(sf.methods.Drop(variables=["age"])) == "Drop(variables=['age'])"


@pytest.mark.parametrize(
    ("target", "hint"),
    [("kk.min = 5", "'k'"), ("k.mni = 5", "k.min"), ("k_anonymity.min = 5", "'k'"),
     ("uniquness.max = 0.1", "'uniqueness'")],
)  # fmt: skip
def test_a_mistyped_target_is_answered_with_the_right_one(target, hint):
    with pytest.raises(sf.SfumatoError) as error:
        sf.Plan.parse(f'[columns]\nage = "quasi"\n[targets]\n{target}')
    assert hint in error.value.hint
