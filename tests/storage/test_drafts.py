"""Drafts: as many as one likes, for nobody else, and final by one command."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.cli.command_line import sfumato

import sfumato as sf
from sfumato.errors import ReleaseError
from sfumato.storage.ledger import Ledger
from sfumato.storage.protecting import finish_draft

DRAW = np.random.default_rng(6)
FRAME = pl.DataFrame(
    {
        "who": [f"P{n * 7919 % 100003}" for n in range(400)],
        "age": DRAW.integers(20, 80, 400),
        "pay": DRAW.normal(50, 9, 400).round(1),
    }
)
SCHEMA: dict[str, sf.Column] = {"who": sf.Column(role="direct"), "age": sf.Column(role="quasi"),
                                "pay": sf.Column(role="sensitive", kind="continuous")}  # fmt: skip


def plan(k: int, low: float = 5) -> sf.Plan:
    steps = [sf.methods.Drop(), sf.methods.KAnonymity(k=k, output="value"),
             sf.methods.Noise(sd_share=0.3)]  # fmt: skip
    return sf.Plan(schema=SCHEMA, steps=steps, targets={"k.min": low})


def protect(k: int, low: float = 5) -> sf.Release:
    return sf.protect(sf.Dataset(FRAME), plan(k, low), key=bytes([k] * 32))


def test_a_draft_says_so_and_is_no_release(tmp_path):
    for k in (5, 8, 13):
        protect(k).write(tmp_path / f"draft{k}", draft=True)
    assert not Ledger().exists or not Ledger().read()
    folder = tmp_path / "draft5"
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["draft"] is True
    assert Path(manifest["data"]["file"]).stem == "draft"
    for report in (folder / "report.html", folder / "custody" / "report.html"):
        assert "This is a draft. Do not pass it on." in report.read_text()
    # Nothing is held against drafts: this one would not be written beside two others.
    assert protect(21).write(tmp_path / "final")
    assert [entry.folder for entry in Ledger().read()] == [str(tmp_path / "final")]
    final = json.loads((tmp_path / "final" / "manifest.json").read_text())
    assert "draft" not in final
    assert Path(final["data"]["file"]).stem == "data"


def test_a_draft_becomes_the_release_that_was_looked_at(tmp_path):
    draft = protect(8).write(tmp_path / "out", draft=True)
    cells = sf.open_release(draft).data
    finish_draft(draft, sf.Dataset(FRAME))
    final = sf.open_release(tmp_path / "out")
    assert final.data.equals(cells)
    assert "draft" not in final.manifest
    assert len(Ledger().read()) == 1
    with pytest.raises(ReleaseError, match="is no draft"):
        finish_draft(tmp_path / "out", sf.Dataset(FRAME))


def test_other_records_do_not_pass_for_those_of_the_draft(tmp_path):
    draft = protect(8).write(tmp_path / "out", draft=True)
    before = {path: path.read_bytes() for path in draft.rglob("*") if path.is_file()}
    with pytest.raises(ReleaseError, match="not the records"):
        finish_draft(draft, sf.Dataset(FRAME[1:]))
    assert {path: path.read_bytes() for path in draft.rglob("*") if path.is_file()} == before


def test_a_draft_is_held_against_what_is_out_when_it_becomes_final(tmp_path):
    other = plan(8).with_schema({**SCHEMA, "pay": sf.Column(role="quasi", kind="continuous")})
    one = sf.Plan(schema=other.schema, steps=[sf.methods.Drop(variables=["who", "pay"]),
                                              sf.methods.KAnonymity(k=10, output="value")],
                  targets={"k.min": 10})  # fmt: skip
    two = sf.Plan(schema=other.schema, steps=[sf.methods.Drop(variables=["who", "age"]),
                                              sf.methods.KAnonymity(k=10, output="value")],
                  targets={"k.min": 10})  # fmt: skip
    sf.protect(sf.Dataset(FRAME), one, key=bytes(32)).write(tmp_path / "one")
    draft = sf.protect(sf.Dataset(FRAME), two, key=bytes(32)).write(tmp_path / "two", draft=True)
    with pytest.raises(sf.SfumatoError, match="together with 'one'"):
        finish_draft(draft, sf.Dataset(FRAME))
    assert json.loads((draft / "manifest.json").read_text())["draft"] is True


def test_from_the_command_line(tmp_path):
    FRAME.write_csv(tmp_path / "pay.csv")
    (tmp_path / "plan.toml").write_text(plan(8).text())
    out = tmp_path / "out"
    done = sfumato("protect", tmp_path / "pay.csv", "--plan", tmp_path / "plan.toml", "--out", out,
                   "--draft")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (out / "draft.csv").is_file()
    assert "sfumato release" in done.stdout + done.stderr
    done = sfumato("release", out, "--original", tmp_path / "pay.csv")
    assert done.returncode == 0, done.stderr
    assert (out / "data.csv").is_file()
    assert not (out / "draft.csv").exists()
    again = sfumato("release", out, "--original", tmp_path / "pay.csv")
    assert again.returncode == 4
    assert "is no draft" in again.stderr
    assert sfumato("verify", out, "--original", tmp_path / "pay.csv").returncode == 0
