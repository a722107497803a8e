"""Claim: "`--overwrite` replaces a release only by one under the same key, and deletes nothing that
Sfumato did not write."
"""

from __future__ import annotations

import shutil
import warnings

import pytest
from tests.cli.command_line import sfumato

import sfumato as sf
from sfumato.errors import ReleaseError, ReplacedReleaseWarning
from sfumato.storage import writing
from sfumato.storage.verifying import verify_release

KEY = sf.Key(bytes(range(32)))


def protect(cohort: sf.Dataset, intervals: int = 3, key: sf.Key | None = KEY) -> sf.Release:
    steps = [sf.methods.Drop(), sf.methods.Coarsen(variables=["height"], intervals=intervals)]
    plan = sf.Plan(
        schema=cohort.schema,
        steps=steps,
        targets={"k.min": 2},
        evaluate=[sf.risk.Uniqueness(known=["sex"])],
    )
    return sf.protect(cohort, plan, key=key)


@pytest.fixture
def folder(cohort, tmp_path):
    return protect(cohort).write(tmp_path / "out", ledger=False)


def list_files(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_new_key_is_never_taken_silently(cohort, folder, tmp_path):
    """Also where the custody record was moved to a safe, as the docs advise."""
    shutil.move(folder / "custody", tmp_path / "safe")
    before = list_files(folder)
    for key in (None, sf.Key(bytes(32))):
        with pytest.raises(ReleaseError, match="another key"):
            protect(cohort, key=key).write(folder, overwrite=True, ledger=False)
    assert list_files(folder) == before
    key = sf.Key.of(tmp_path / "safe" / "key")
    protect(cohort, 2, key).write(folder, overwrite=True, ledger=False)
    assert all(check.passed for check in verify_release(folder))
    assert list_files(folder) != before


def test_the_command_asks_for_the_key_before_it_works(cohort, folder, tmp_path):
    shutil.move(folder / "custody", tmp_path / "safe")
    cohort.frame.write_parquet(tmp_path / "cohort.parquet")
    plan = tmp_path / "plan.toml"
    plan.write_text(protect(cohort).plan.text())
    words = ["protect", tmp_path / "cohort.parquet", "--plan", plan, "--out", folder]
    done = sfumato(*words, "--overwrite", "--quiet")
    assert done.returncode == 4
    assert "--key" in done.stderr
    done = sfumato(*words, "--overwrite", "--quiet", "--key", tmp_path / "safe" / "key")
    assert done.returncode == 0, done.stderr


STRANGE = ["notes.txt", "data.xlsx", "data", "custody/notes.txt", "custody/deep/x", "accredited/x",
           "more/x", ".hidden", "report.htm", "MANIFEST.JSON"]  # fmt: skip


@pytest.mark.parametrize("name", STRANGE)
def test_a_strangers_file_stops_it(cohort, folder, name):
    path = folder / name
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text("mine")
    with pytest.raises(ReleaseError, match="not of a release"):
        protect(cohort).write(folder, overwrite=True, ledger=False)
    assert path.read_text() == "mine"


@pytest.mark.parametrize("name", ["data.parquet", "report.html", "custody/report.html"])
def test_a_file_that_somebody_worked_in_stops_it(cohort, folder, name):
    """It has one of our names, and is not what we wrote."""
    (folder / name).write_text("mine")
    with pytest.raises(ReleaseError, match="not of a release"):
        protect(cohort).write(folder, overwrite=True, ledger=False)
    assert (folder / name).read_text() == "mine"


def test_links_stop_it_and_are_not_followed(cohort, folder, tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "x").write_text("mine")
    (folder / "link").symlink_to(tmp_path / "precious")
    with pytest.raises(ReleaseError, match="not of a release"):
        protect(cohort).write(folder, overwrite=True, ledger=False)
    assert (tmp_path / "precious" / "x").read_text() == "mine"


def test_a_custody_record_that_lists_strangers_files_stops_it(cohort, folder):
    """Without the key nobody can make us take a file for ours."""
    import hashlib
    import json

    (folder / "notes.txt").write_text("mine")
    path = folder / "custody" / "custody.json"
    record = json.loads(path.read_text())
    record["files"]["notes.txt"] = hashlib.sha256(b"mine").hexdigest()
    path.write_text(json.dumps(record, indent=2, ensure_ascii=False))
    with pytest.raises(ReleaseError, match="not of a release"):
        protect(cohort).write(folder, overwrite=True, ledger=False)
    assert (folder / "notes.txt").exists()


def test_a_file_that_comes_while_we_write_is_kept(cohort, folder, monkeypatch):
    real = writing._write_all

    def write_slowly(*given):
        real(*given)
        (folder / "late.txt").write_text("mine")

    monkeypatch.setattr(writing, "_write_all", write_slowly)
    with pytest.warns(ReplacedReleaseWarning, match="is kept as 'out.replaced-"):
        protect(cohort, 2).write(folder, overwrite=True, ledger=False)
    assert all(check.passed for check in verify_release(folder))
    (spared,) = folder.parent.glob("out.replaced-*")
    assert (spared / "late.txt").read_text() == "mine"


def test_a_release_of_ours_is_replaced_and_leaves_nothing(cohort, folder):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        protect(cohort, 2).write(folder, overwrite=True, ledger=False)
    assert all(check.passed for check in verify_release(folder, cohort))
    assert [path.name for path in folder.parent.iterdir()] == ["out"]
