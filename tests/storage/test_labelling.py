"""Labels of Stata and SPSS files survive a release, as far as they still apply."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import sfumato as sf
from sfumato.plan import Writing

pyreadstat = pytest.importorskip("pyreadstat")
RECORDS = 60
LABELS = {
    "age": "Age at interview",
    "sex": "Sex of respondent",
    "rank": "Social class",
    "bmi": "Body mass index",
}
SEXES = {1: "male", 2: "female", 3: "other"}
CLASSES = {1: "lower", 2: "middle", 3: "upper", 9: "refused"}


def write_source(path: Path) -> Path:
    frame = pl.DataFrame(
        {
            "age": [20 + row % 40 for row in range(RECORDS)],
            "sex": [1 + row % 2 for row in range(RECORDS)],
            "rank": [(1, 2, 3, 9)[row % 4] for row in range(RECORDS)],
            "bmi": [round(20 + row * 0.17, 1) for row in range(RECORDS)],
        }
    )
    options: dict[str, Any] = {
        "column_labels": LABELS,
        "variable_value_labels": {"sex": SEXES, "rank": CLASSES},
    }
    if path.suffix == ".sav":
        pyreadstat.write_sav(frame, path, missing_ranges={"rank": [9]}, **options)
    else:
        pyreadstat.write_dta(frame, path, **options)
    return path


def release(path: Path, folder: Path) -> Path:
    plan = sf.Plan(
        schema=sf.Schema({"age": "quasi", "sex": "quasi", "rank": "quasi", "bmi": "sensitive"}),
        steps=[
            sf.methods.KAnonymity(variables=["age", "rank"], k=5),
            sf.methods.Noise(variables=["bmi"], variance_share=0.2),
        ],
        release=Writing(accept_attacks="a test"),
    )
    return sf.protect(sf.read(path), plan, key=bytes(32)).write(folder, ledger=False)


def test_an_spss_file_keeps_what_applies(tmp_path):
    folder = release(write_source(tmp_path / "survey.sav"), tmp_path / "out")
    frame, meta = pyreadstat.read_sav(folder / "data.sav", output_format="polars")
    told = meta.column_names_to_labels
    assert told["sex"] == LABELS["sex"]
    assert told["bmi"] == LABELS["bmi"]
    assert told["age"] == "Age at interview (ranges or sets)"
    # Nobody is of the third sex.
    assert meta.variable_value_labels["sex"] == {1.0: "male", 2.0: "female"}
    cells = meta.variable_value_labels["rank"]
    assert set(cells) <= set(frame["rank"])
    names = set(CLASSES.values())
    for cell, text in cells.items():
        assert cell[0] not in "[{" or set(text.replace(" to ", " or ").split(" or ")) <= names


def test_a_stata_file_keeps_what_applies(tmp_path):
    folder = release(write_source(tmp_path / "survey.dta"), tmp_path / "out")
    _, meta = pyreadstat.read_dta(folder / "data.dta")
    assert meta.column_names_to_labels["sex"] == LABELS["sex"]
    assert meta.variable_value_labels == {"sex": {1: "male", 2: "female"}}
    codebook = (folder / "codebook.html").read_text()
    assert "Age at interview" in codebook
    assert "the column is text" in codebook
    # Somebody reads the release again, and has the labels.
    assert sf.read(folder / "data.dta").schema["bmi"].label == LABELS["bmi"]


def test_declared_labels_reach_a_file_of_another_format(tmp_path):
    """From CSV to SPSS and Stata: labels, codes for missing, and labels that are too long."""
    frame = pl.DataFrame({"x": [1, 2, 9] * 20, "y": [0.5, 1.5, 2.5] * 20})
    column = sf.Column(
        role="other", kind="nominal", label="ä" * 200, labels={"1": "one", "9": "?"}, missing=(9,)
    )
    schema = sf.Schema({"x": column, "y": "other"})
    suffixes: list[Any] = ["sav", "dta"]
    for suffix in suffixes:
        writing = Writing(format=suffix, accept_attacks="a test")
        plan = sf.Plan(schema=schema, release=writing)
        folder = sf.protect(sf.Dataset(frame, schema), plan, key=bytes(32)).write(
            tmp_path / suffix, ledger=False
        )
        read = {"sav": pyreadstat.read_sav, "dta": pyreadstat.read_dta}[suffix]
        found, meta = read(folder / f"data.{suffix}", user_missing=True)
        assert len(found) == len(frame)
        assert meta.variable_value_labels["x"] == {1: "one", 9: "?"}
        assert meta.column_names_to_labels["x"].startswith("ä" * 50)
        if suffix == "sav":
            assert meta.missing_ranges["x"] == [{"lo": 9.0, "hi": 9.0}]


def test_a_code_for_missing_that_is_gone_is_not_written(tmp_path):
    """Noise may give a number that once meant "missing"; it means nothing any more."""
    frame = pl.DataFrame({"x": [*range(30, 90), 999] * 5})
    column = sf.Column(role="quasi", kind="integer", missing=(999,))
    schema = sf.Schema({"x": column})
    step = sf.methods.CorrelatedNoise(variables=["x"], noise_share=0.5)
    plan = sf.Plan(
        schema=schema, steps=[step], release=Writing(format="sav", accept_attacks="test")
    )
    folder = sf.protect(sf.Dataset(frame, schema), plan, key=bytes(32)).write(
        tmp_path / "out", ledger=False
    )
    assert pyreadstat.read_sav(folder / "data.sav", user_missing=True)[1].missing_ranges == {}
