"""The codebook says what an analyst needs to read a release, and nothing beyond the manifest."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

import polars as pl
import pytest

import sfumato as sf
from sfumato.plan import Writing
from sfumato.report import describe_codebook, render_codebook

NASTY = '<img src=x onerror="alert(1)">&"\''


@pytest.fixture(scope="module")
def release() -> sf.Release:
    records = 60
    frame = pl.DataFrame(
        {
            "id": [f"p{row}" for row in range(records)],
            "age": [20 + row % 40 for row in range(records)],
            "sex": [1 + row % 2 for row in range(records)],
            "postcode": [f"0{1000 + 7 * row}" for row in range(records)],
            "bmi": [round(20 + row * 0.17, 1) for row in range(records)],
            "w": [1.5 + row / 7 for row in range(records)],
            NASTY: ["a", "b", "-9"] * 20,
        }
    )
    schema = sf.Schema(
        {
            "id": "direct",
            "age": sf.Column(role="quasi", kind="integer", label="Age at interview", unit="years"),
            "sex": sf.Column(
                role="other", kind="nominal", labels={"1": "male", "2": "female", "3": "other"}
            ),
            "postcode": sf.Column(role="quasi", kind="text"),
            "bmi": sf.Column(role="sensitive", kind="continuous", unit="kg/m²"),
            "w": "weight",
            NASTY: sf.Column(
                role="other",
                kind="nominal",
                label=NASTY,
                unit=NASTY,
                missing=("-9",),
                labels={"a": NASTY, "-9": f"refused {NASTY}"},
            ),
        }
    )
    steps = [
        sf.methods.Drop(variables=["id"]),
        sf.methods.KAnonymity(variables=["age", "postcode"], k=5),
        sf.methods.Noise(variables=["bmi"], variance_share=0.2),
        sf.methods.Weights(),
    ]
    plan = sf.Plan(schema=schema, steps=steps, release=Writing(accept_attacks="a test"))
    return sf.protect(sf.Dataset(frame, schema), plan, key=bytes(32))


@pytest.fixture(scope="module")
def codebook(release) -> dict[str, Any]:
    return describe_codebook(release.manifest)


def by_name(codebook) -> dict[str, Any]:
    return {variable["name"]: variable for variable in codebook["variables"]}


class Reader(HTMLParser):
    """What a browser sees: the text, the tags with their attributes, and whether they match."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.words: list[str] = []
        self.tags: list[tuple[str, dict[str, Any]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def test_every_variable_is_there_with_its_words(codebook, release):
    variables = by_name(codebook)
    assert list(variables) == list(release.dataset.columns)
    assert variables["age"]["label"] == "Age at interview"
    assert variables["age"]["unit"] == "years"
    # Nobody is of the third sex, so the release does not say that there is one.
    assert variables["sex"]["labels"] == {"1": "male", "2": "female"}
    assert "done" not in variables["sex"]
    assert [step["method"] for step in variables["bmi"]["done"]] == ["noise"]
    assert variables[NASTY]["missing_codes"] == ["-9"]


def test_it_says_how_to_read_a_cell(codebook):
    variables = by_name(codebook)
    assert [row["cell"] for row in variables["age"]["reading"]] == ["[24;28]", "*"]
    assert {row["cell"] for row in variables["postcode"]["reading"]} == {"{a;b}", "937**", "*"}
    assert "reading" not in variables["bmi"]
    assert "rounded to one decimal" in variables["bmi"]["noise"]
    assert "less precise" in variables["w"]["weight"]
    assert "weight" not in variables["age"]


def test_noise_that_is_kept_back_is_kept_back_here_too(release):
    manifest = json.loads(json.dumps(release.manifest))
    manifest["noise"]["variables"]["bmi"] = {"withheld": ["all"]}
    text = by_name(describe_codebook(manifest))["bmi"]["noise"]
    assert "accredited analysts only" in text
    assert "variance" not in text


def test_the_page_is_whole_and_escapes_everything(release):
    page = render_codebook(release.manifest)
    reader = Reader()
    reader.feed(page)
    assert not reader.open
    assert NASTY in "".join(reader.words)
    assert not [tag for tag, _ in reader.tags if tag in ("img", "script", "link", "iframe")]
    assert not [name for _, attributes in reader.tags for name in attributes if name[:2] == "on"]
    # Every link leads to a place on the page, and every place has one name.
    places = [a["id"] for _, a in reader.tags if "id" in a]
    assert len(places) == len(set(places))
    links = [a["href"] for tag, a in reader.tags if tag == "a"]
    assert links
    assert {link.removeprefix("#") for link in links} <= set(places)
    named = [a["aria-labelledby"] for _, a in reader.tags if "aria-labelledby" in a]
    assert set(named) <= set(places)
    assert [a for tag, a in reader.tags if tag == "html"] == [{"lang": "en-GB"}]


def test_page_and_json_follow_from_the_manifest_alone(release, codebook):
    copied = json.loads(json.dumps(release.manifest))
    assert describe_codebook(copied) == codebook
    assert render_codebook(copied) == render_codebook(release.manifest)
    assert json.loads(json.dumps(codebook)) == codebook


def test_a_manifest_of_before_has_a_codebook(release):
    """Folders that an older version wrote have no labels and no steps by variable."""
    manifest = json.loads(json.dumps(release.manifest))
    for facts in manifest["variables"].values():
        for name in ("steps", "label", "labels", "unit", "cells"):
            facts.pop(name, None)
    assert "Codebook" in render_codebook(manifest)


def test_the_example_of_a_fit_works(release, codebook, tmp_path):
    folder = release.write(tmp_path / "out", ledger=False)
    formula = codebook["fitting"]["command"].split('"')[1]
    assert formula == "bmi ~ age"
    assert "age" in sf.fit(formula, folder, draws=50, chains=1).summary().index


@pytest.mark.parametrize("names", [["a b", "ü"], []])
def test_names_that_no_formula_takes_leave_the_example_general(names):
    column = {"role": "other", "kind": "continuous"}
    manifest = {
        "made_by": "sfumato",
        "records": 3,
        "order_of_rows": "random",
        "variables": dict.fromkeys(names, column),
    }
    assert "outcome ~ predictor" in describe_codebook(manifest)["fitting"]["python"]
