"""`python -m replication`: what it prints and writes, and its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from replication.__main__ import main
from tests.cli.command_line import WIDE, Done, run_command

from replication import k_anonymity


def replication(*words: str, cwd: Path | None = None, width: int = WIDE) -> Done:
    return run_command(main, ["replication", *words], cwd=cwd, width=width)


def test_it_writes_a_page(tmp_path, shared_data):
    words = ("--paper", "crowds", "--data", str(shared_data), "--page", "page.md")
    done = replication(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Table S6" in done.stdout
    assert "Everything is in 'page.md'." in done.stderr
    assert "The papers, replicated" in (tmp_path / "page.md").read_text()
    again = replication(*words, cwd=tmp_path)
    assert again.returncode == 2
    assert "exists already" in again.stderr
    assert replication(*words, "--overwrite", cwd=tmp_path).returncode == 0


def test_it_prints_json():
    done = replication("--paper", "crowds", "--json")
    assert {row["status"] for row in json.loads(done.stdout)["crowds"]} == {
        "same", "explained", "cannot",
    }  # fmt: skip
    assert done.stderr == ""


def test_what_cannot_be_done_is_refused(tmp_path):
    wrong = replication("--paper", "crowd")
    assert wrong.returncode == 2
    assert "did you mean 'crowds'" in wrong.stderr
    refused = replication("--download", "http://localhost")
    assert refused.returncode == 2
    assert "add --data FOLDER" in refused.stderr
    assert replication("--data", str(tmp_path / "nowhere")).returncode == 2
    assert replication("--papers", "crowds").returncode == 2


def test_it_ends_with_3_where_a_number_differs(monkeypatch):
    done = replication("--paper", "crowds", width=200)
    assert done.returncode == 0
    assert "35 to 35" in done.stdout  # the bound of what is explained
    monkeypatch.setattr(k_anonymity, "_TABLE_S9", {2: "0.26"})
    done = replication("--paper", "crowds", width=200)
    assert done.returncode == 3
    assert "k = 2" in done.stdout
    assert "1 different" in done.stdout
    done = replication("--paper", "crowds", "--json")
    assert done.returncode == 3
    different = [row for row in json.loads(done.stdout)["crowds"] if row["status"] == "different"]
    assert [(row["printed"], row["ours"]) for row in different] == [("0.26", pytest.approx(0.25))]


def test_it_is_a_module_that_runs():
    done = subprocess.run(
        [sys.executable, "-m", "replication", "--help"],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "--paper" in done.stdout
