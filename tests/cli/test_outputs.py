"""`sfumato outputs` as an output checker uses it."""

from __future__ import annotations

import errno
import json

import numpy as np
import pytest
from tests.cli.command_line import sfumato
from tests.cli.test_table import run

import sfumato as sf
from sfumato.errors import DataError, SfumatoError
from sfumato.io import atomic


@pytest.fixture
def folder(tmp_path):
    data = sf.Dataset(sf.datasets.cohort(300), sf.datasets.cohort_schema())
    log = sf.outputs.Log(tmp_path / "log", sf.outputs.Rules(zeros="show", full="show"))
    sf.tables.crosstab(data, "sex", log=log)
    sf.tables.crosstab(data.take(np.arange(1, 300)), "sex", log=log, title="All but one")
    return tmp_path / "log"


def test_the_outputs_are_listed_and_the_page_is_written(folder, tmp_path):
    page = tmp_path / "page.html"
    done = run("outputs", str(folder), "--page", str(page))
    assert done.exit_code == 0, done.output
    assert "All but one" in done.stdout
    assert "output 1" in done.stderr
    assert "second look" in page.read_text()
    again = run("outputs", str(folder), "--page", str(page))
    assert isinstance(again.exception, SfumatoError)


def test_check_leaves_with_3_when_something_asks_for_a_look(folder):
    done = run("outputs", str(folder), "--check", "--json")
    assert done.exit_code == 3
    assert [one["verdict"] for one in json.loads(done.stdout)["outputs"]] == ["pass", "review"]


def test_a_folder_without_a_log_is_told(tmp_path):
    done = run("outputs", str(tmp_path))
    assert isinstance(done.exception, DataError)
    assert "--log" in done.exception.hint
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "cohort.parquet"
    sf.datasets.cohort(200).write_parquet(path)
    return path


WORDS = {
    "table": ("--rows", "sex", "--out", "out.csv"),
    "plot": ("histogram", "--x", "height", "--out", "out.svg"),
}


@pytest.mark.parametrize("command", WORDS)
@pytest.mark.parametrize("number", range(1, 6))
def test_a_full_disk_is_told_and_nothing_is_half_written(
    tmp_path, file, monkeypatch, command, number
):
    """Key, record hashes, log, output: the disk is full at each of them in turn."""
    words = (command, str(file), *WORDS[command], "--log", "log")
    if command == "plot":
        words = ("plot", WORDS["plot"][0], str(file), *WORDS["plot"][1:], "--log", "log")
    left, flush = [number], atomic._flush_to_disk

    def fill(path):
        if path.is_file():
            left[0] -= 1
            if left[0] == 0:
                raise OSError(errno.ENOSPC, "No space left on device")
        flush(path)

    monkeypatch.setattr(atomic, "_flush_to_disk", fill)
    done = sfumato(*words, cwd=tmp_path)
    monkeypatch.undo()
    written = sorted(path.name for path in tmp_path.rglob("*") if path.is_file())
    assert not [name for name in written if name.startswith(".")]
    if left[0] > 0:
        assert done.returncode == 0
        return
    assert done.returncode == 2
    assert "No space left on device" in " ".join(done.stderr.split())
    assert "unexpected" not in done.stderr
    # What the log knows it can compare, and the output is there only with its entry.
    log = sf.outputs.Log(tmp_path / "log")
    assert len([name for name in written if name.endswith(".parquet")]) == len(log)
    assert not (tmp_path / WORDS[command][-1]).exists()
    again = sfumato(*words, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert (tmp_path / WORDS[command][-1]).exists()
