"""Claim: "`sfumato verify` refuses what does not belong there", whatever a stranger wrote."""

from __future__ import annotations

import json
import os
import shutil

import pytest

import sfumato as sf
from sfumato.errors import PlanError
from sfumato.storage.verifying import verify_release


@pytest.fixture
def folder(tmp_path):
    data = sf.Dataset(sf.datasets.cohort(60), sf.datasets.cohort_schema())
    steps = [sf.methods.Drop(), sf.methods.Coarsen(variables=["height"], intervals=2)]
    plan = sf.Plan(
        schema=data.schema,
        steps=steps,
        targets={"k.min": 2},
        evaluate=[sf.risk.Uniqueness(known=["sex"])],
    )
    return sf.protect(data, plan, key=bytes(32)).write(tmp_path / "release", ledger=False)


@pytest.mark.parametrize("files", [["report.html"], "report.html", 3, None, [["a", "b"]]])
def test_a_list_of_files_that_is_none_hides_no_file(folder, files):
    shutil.rmtree(folder / "custody")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"] = files
    text = json.dumps(manifest, indent=2, ensure_ascii=False)
    (folder / "manifest.json").write_text(text)
    checks = {check.name: check.passed for check in verify_release(folder)}
    assert checks["folder"] is False, "the report is then nobody's"


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("name", ["data.csv", "custody/key", "custody"])
def test_a_file_of_another_owner_is_exposed(folder, name):
    name = next(path.name for path in folder.glob("data.*")) if name == "data.csv" else name
    os.chown(folder / name, 65534, -1)
    checks = {check.name: check.passed for check in verify_release(folder)}
    assert checks["permissions"] is False


@pytest.mark.parametrize("where", ["[targets]\nk.min = {}", "x = [{}]", "[columns]\na = {}"])
def test_a_number_that_cannot_be_written_out_is_a_mistake_in_the_plan(where):
    with pytest.raises(PlanError, match="too long"):
        sf.Plan.parse("version = 1\n" + where.format("0x" + "f" * 60_000))
