"""`sfumato outputs` as an output checker uses it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.cli.test_table import run

import sfumato as sf
from sfumato.errors import DataError, SfumatoError


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
