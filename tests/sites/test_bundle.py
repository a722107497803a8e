"""A bundle, a round and a request are somebody else's files: whatever is odd in them is refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from tests.sites.examples import make_request, make_sites

import sfumato as sf
from sfumato.errors import DataError, PlanError
from sfumato.sites.bundle import BUNDLE, CHECKSUM, MOST_ROUNDS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    request = make_request(
        {"name": "ages", "kind": "histogram", "x": "age"},
        {"name": "box", "kind": "box", "x": "age"},
        {"name": "map", "kind": "heatmap", "x": "bmi", "y": "visits"},
        {"name": "both", "kind": "crosstab", "rows": "sex", "columns": "smoking"},
        {"name": "alive", "kind": "survival", "time": "years", "event": "died"},
        {"name": "model", "kind": "model", "formula": "bmi ~ age"},
    )
    made = sf.sites.answer(make_sites()["North"], request, site="North", log=sf.outputs.Log())
    target = tmp_path_factory.mktemp("sites") / "north"
    made.write(target)
    return target


def write_changed(folder: Path, target: Path, change) -> Path:
    """A bundle in which somebody changed something, with a checksum that fits."""
    content = json.loads((folder / BUNDLE).read_text())
    change(content)
    text = json.dumps(content)
    target.mkdir()
    (target / BUNDLE).write_text(text)
    (target / CHECKSUM).write_text(f"{hashlib.sha256(text.encode()).hexdigest()}  {BUNDLE}\n")
    return target


def test_a_bundle_comes_back_as_it_was_written(folder, tmp_path):
    first = sf.sites.Bundle.load(folder)
    first.write(tmp_path / "again")
    assert sf.sites.Bundle.load(tmp_path / "again") == first
    assert (tmp_path / "again" / BUNDLE).read_bytes() == (folder / BUNDLE).read_bytes()
    assert (folder / CHECKSUM).read_text() == f"{first.digest}  {BUNDLE}\n"


def test_a_damaged_bundle_is_told_from_a_whole_one(folder, tmp_path):
    target = tmp_path / "damaged"
    target.mkdir()
    (target / CHECKSUM).write_bytes((folder / CHECKSUM).read_bytes())
    (target / BUNDLE).write_bytes((folder / BUNDLE).read_bytes().replace(b"North", b"Nordh"))
    with pytest.raises(DataError, match="checksum differs"):
        sf.sites.Bundle.load(target)
    with pytest.raises(DataError, match="no bundle"):
        sf.sites.Bundle.load(tmp_path)


def set_count(content):
    counts = content["results"]["ages"]["groups"][""]["counts"]
    counts[counts.index(max(counts))] = 2


CHANGES = {
    "below its own threshold": set_count,
    "another kind": lambda content: content["results"].update(ages=content["results"]["model"]),
    "answers other results": lambda content: content["results"].pop("ages"),
    "groups that were not agreed": lambda content: content["results"]["ages"]["groups"].update(
        secret=content["results"]["ages"]["groups"][""]
    ),
    "none of the agreed ones": lambda content: content["results"]["box"]["groups"][""][
        "edges"
    ].reverse(),
    "do not rise": lambda content: content["results"]["box"]["groups"][""]["five"].reverse(),
    "another number of cells": lambda content: content["results"]["map"]["counts"].pop(),
    "another number of rows": lambda content: content["results"]["both"]["cells"].pop(),
    "unequal length": lambda content: content["results"]["alive"]["groups"][""]["ends"].pop(),
    "another number of terms": lambda content: content["results"]["model"]["factor"].pop(),
    "version": lambda content: content.update(version=2),
    "format": lambda content: content.update(format="something else"),
    "extra": lambda content: content.update(extra=1),
    "integer": lambda content: content["results"]["model"].update(records="420"),
    "greater than or equal": lambda content: content.update(k=1),
    "site": lambda content: content.update(site="North\nSouth"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_bundle_that_is_not_what_was_asked_for_is_refused(what, folder, tmp_path):
    target = write_changed(folder, tmp_path / "changed", CHANGES[what])
    with pytest.raises(DataError, match=what):
        sf.sites.Bundle.load(target)


@pytest.mark.parametrize("text", ['{"k": NaN}', '{"k": 3, "k": 4}', "[1, 2", "\xff", ""])
def test_what_is_no_json_is_refused(text, tmp_path):
    (tmp_path / BUNDLE).write_text(text)
    digest = hashlib.sha256((tmp_path / BUNDLE).read_bytes()).hexdigest()
    (tmp_path / CHECKSUM).write_text(f"{digest}  {BUNDLE}\n")
    with pytest.raises(DataError, match="is not a bundle"):
        sf.sites.Bundle.load(tmp_path)


def test_a_bundle_is_not_written_over_something_else(folder, tmp_path):
    made = sf.sites.Bundle.load(folder)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "notes.txt").write_text("mine")
    with pytest.raises(DataError, match="exists already"):
        made.write(tmp_path / "work", overwrite=True)
    made.write(tmp_path / "new")
    with pytest.raises(DataError, match="exists already"):
        made.write(tmp_path / "new")
    made.write(tmp_path / "new", overwrite=True)


def test_a_round_of_another_request_is_refused():
    request = make_request(
        {"name": "m", "kind": "model", "formula": "died ~ age", "family": "logistic"}
    )
    step = {"beta": [0.0, 0.0], "sites": ["North"]}
    other = sf.sites.FitRound(number=1, request="0" * 64, models={"m": step})
    with pytest.raises(PlanError, match="another request"):
        sf.sites.answer(
            make_sites()["North"], request, site="North", log=sf.outputs.Log(), round=other
        )
    with pytest.raises(ValueError, match="less than or equal"):
        sf.sites.FitRound(number=MOST_ROUNDS + 1, request="0" * 64, models={"m": step})


def parse(**changes):
    content = {
        "variables": {"age": {"low": 20, "high": 90}, "sex": {"levels": ["f", "m"]},
                      "far": {"step": 5}},
        "results": [{"name": "ages", "kind": "histogram", "x": "age"}],
    }  # fmt: skip
    return sf.sites.SiteRequest.parse(content | changes)


WRONG: dict[str, Any] = {
    "low below high": {"variables": {"age": {"low": 90, "high": 20}}},
    "a level twice": {"variables": {"sex": {"levels": ["f", "f"]}}},
    "either low and high": {"variables": {"age": {"low": 1, "high": 2, "levels": ["a", "b"]}}},
    "too narrow": {"variables": {"age": {"low": 1.0, "high": 1.0 + 1e-15}}},
    "less than or equal to 200": {"variables": {"age": {"low": 1, "high": 2, "bins": 10**9}}},
    "finite": {"variables": {"age": {"low": 1, "high": float("inf")}}},
    "not among the variables": {"results": [{"name": "b", "kind": "box", "x": "bmi"}]},
    "needs the levels of 'age'": {"results": [{"name": "c", "kind": "crosstab", "rows": "age"}]},
    "needs low and high of 'sex'": {"results": [{"name": "h", "kind": "histogram", "x": "sex"}]},
    "it has a step": {"results": [{"name": "h", "kind": "histogram", "x": "far"}]},
    "which needs a step": {"results": [{"name": "r", "kind": "ranges", "of": ["age"]}]},
    "one variable twice": {"results": [{"name": "m", "kind": "heatmap", "x": "age", "y": "age"}]},
    "two results of one name": {"results": [{"name": "a", "kind": "histogram", "x": "age"}] * 2},
    "pattern": {"results": [{"name": "../../etc", "kind": "histogram", "x": "age"}]},
    "calls 'center'": {"results": [{"name": "m", "kind": "model", "formula": "age ~ center(sex)"}]},
    "calls 'eval'": {"results": [{"name": "m", "kind": "model", "formula": "age ~ eval(sex)"}]},
    "two levels of the outcome": {
        "results": [{"name": "m", "kind": "model", "formula": "age ~ sex", "family": "logistic"}]
    },
    "not levels": {"results": [{"name": "m", "kind": "model", "formula": "sex ~ age"}]},
    "of a filter needs": {"where": [{"variable": "age"}]},
    "Extra inputs": {"secret": 1},
}


@pytest.mark.parametrize("what", WRONG)
def test_a_request_that_cannot_be_answered_is_told(what):
    with pytest.raises(PlanError, match=what):
        parse(**WRONG[what])


def test_a_request_is_the_same_in_whatever_order_its_file_has_it(tmp_path):
    path = tmp_path / "request.toml"
    path.write_text(
        '[[results]]\nx = "age"\nkind = "histogram"\nname = "ages"\n'
        '[variables]\nsex.levels = ["f", "m"]\nage = { high = 90, low = 20.0 }\nfar.step = 5\n'
    )
    assert sf.sites.SiteRequest.load(path).digest == parse().digest
    assert parse(title="another").digest != parse().digest
    with pytest.raises(PlanError, match="no request"):
        sf.sites.SiteRequest.load(tmp_path / "none.toml")
