"""The ledger on the command line: what was released, and what it changes for the next release."""

from __future__ import annotations

import json
import shutil
from typing import Any

import polars as pl
import pytest
from tests.cli.command_line import sfumato

import sfumato as sf
from sfumato.plan import Writing

PEOPLE = pl.DataFrame(
    {
        "id": [f"P{number}" for number in range(60)],
        "age": [20 + number for number in range(60)],
        "town": [("x", "y")[number % 2] for number in range(60)],
    }
)
SCHEMA: dict[str, Any] = {
    "id": "direct",
    "age": sf.Column(role="quasi", kind="integer", domain=(20, 79)),
    "town": sf.Column(role="quasi", kind="nominal"),
}


def plan(intervals: int, **release) -> str:
    steps = [sf.methods.Drop(), sf.methods.Coarsen(variables=["age"], intervals=intervals)]
    targets = {"k.min": 5}
    return sf.Plan(schema=SCHEMA, steps=steps, targets=targets, release=Writing(**release)).text(
        comments=True
    )


@pytest.fixture
def place(tmp_path):
    PEOPLE.write_csv(tmp_path / "people.csv")
    (tmp_path / "three.toml").write_text(plan(3))
    (tmp_path / "four.toml").write_text(plan(4))
    (tmp_path / "accepted.toml").write_text(plan(4, accept_composition="one team has both"))
    done = sfumato("protect", "people.csv", "-p", "three.toml", "-o", "first", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return tmp_path


def protect(place, how: str, to: str, *more: str):
    key = ("--key", "first/custody/key") if (place / "first").exists() else ()
    return sfumato("protect", "people.csv", "-p", how, "-o", to, *key, *more, cwd=place)


def test_a_release_that_discloses_more_together_is_refused(place):
    done = protect(place, "four.toml", "second")
    assert done.returncode == 3
    assert "k at least 5 (together with 'first'): MISSED, it is 2" in done.stderr
    assert "accept_composition" in done.stderr
    assert not (place / "second").exists()
    [attempt] = (place / "second.refused").glob("*.json")
    assert json.loads(attempt.read_text())["evidence"]["composition"]["value"] == 2


def test_what_is_accepted_is_shown(place):
    done = protect(place, "accepted.toml", "second")
    assert done.returncode == 0, done.stderr
    assert "Together with earlier releases" in done.stdout
    assert "MISSED, accepted" in done.stdout
    assert "Together:  2 left in the smallest class of people, 7 in this release" in done.stderr
    assert "Accepted:  one team has both" in done.stderr
    inside = (place / "second" / "custody" / "report.html").read_text()
    assert "these targets are missed: k. The plan accepts that: one team has both" in inside
    assert "composed_k" not in (place / "second" / "report.html").read_text()
    shutil.rmtree(place / "second")
    sfumato("ledger", "forget", 2, "--reason", "a test", cwd=place)
    done = protect(place, "accepted.toml", "second", "--json")
    composition = json.loads(done.stdout)["composition"]
    assert composition["evidence"]["value"] == 2
    assert composition["targets"][0]["met"] is False


def test_the_ledger_is_listed_shown_and_forgotten(place):
    listed = sfumato("ledger", "list", cwd=place)
    assert "coarsen" in listed.stdout
    assert "counts" in listed.stdout
    [entry] = json.loads(sfumato("ledger", "list", "--json", cwd=place).stdout)["releases"]
    assert entry["folder"] == str(place / "first")
    assert "sketches" not in entry
    shown = sfumato("ledger", "show", 1, cwd=place)
    assert entry["plan_digest"][:20] in shown.stdout.replace("\n", "")
    assert json.loads(sfumato("ledger", "show", 1, "--json", cwd=place).stdout) == entry
    assert sfumato("ledger", "show", 9, cwd=place).returncode == 4
    without = sfumato("ledger", "forget", 1, cwd=place)
    assert without.returncode == 2
    done = sfumato("ledger", "forget", 1, "--reason", "never passed on", cwd=place)
    assert "no longer counts" in done.stderr
    assert protect(place, "four.toml", "second").returncode == 0
    [first, _] = json.loads(sfumato("ledger", "list", "--json", cwd=place).stdout)["releases"]
    assert first["state"].startswith("forgotten: never passed on")


def test_without_a_ledger_it_is_said_and_neighbours_still_count(place):
    done = protect(place, "four.toml", "second", "--no-ledger")
    assert done.returncode == 3
    done = protect(place, "four.toml", "elsewhere/second", "--no-ledger")
    assert done.returncode == 0
    assert "Ledger:    not used" in done.stderr
    done = protect(place, "four.toml", "elsewhere/third", "--ledger", "other")
    assert done.returncode == 0
    assert (place / "other" / "ledger.json").is_file()
    empty = sfumato("ledger", "list", "--ledger", "none", cwd=place)
    assert "There is no release in the ledger" in empty.stderr
    assert not (place / "none").exists()
