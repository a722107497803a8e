"""Signatures: what is replaced is found out, also if everything is replaced together."""

from __future__ import annotations

import json
import shutil
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import sfumato as sf
from sfumato.cli.app import app
from sfumato.errors import ReleaseError
from sfumato.storage.contents import list_entries
from sfumato.storage.signing import (
    create_keys,
    judge_signatures,
    read_private_key,
    read_public_key,
    sign_release,
)
from sfumato.storage.verifying import verify_release

PASSPHRASE = "the heron waits by the weir"  # noqa: S105
DAY = date(2026, 11, 16)


def write_release(folder: Path, *, records: int = 60) -> Path:
    frame = sf.datasets.cohort(records).select("sex", "systolic")
    plan = sf.Plan(
        schema=sf.Schema({"sex": "quasi", "systolic": "sensitive"}), targets={"k.min": 5}
    )
    sf.protect(sf.Dataset(frame, plan.schema), plan).write(folder)
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two signers' keys, and a release that both signed."""
    place = tmp_path_factory.mktemp("signing")
    for name in ("first", "second"):
        create_keys(place / f"{name}.pem", place / f"{name}.public.pem", PASSPHRASE)
    release = write_release(place / "release")
    sign(place, release, "first")
    sign(place, release, "second", remark="attacks read")
    return place


def sign(place: Path, release: Path, name: str, remark: str = "") -> None:
    key = read_private_key(place / f"{name}.pem", PASSPHRASE)
    sign_release(release, key, signed_by=name, date=DAY, remark=remark)


def read_signers(place: Path, *names: str):
    return [read_public_key(place / f"{name}.public.pem") for name in names]


def copy_release(place: Path, target: Path, *, custody: bool = True) -> Path:
    shutil.copytree(place / "release", target)
    if not custody:
        shutil.rmtree(target / "custody")
    return target


@pytest.mark.parametrize("custody", [True, False])
def test_both_signatures_hold_with_and_without_custody(place, tmp_path, custody):
    folder = copy_release(place, tmp_path / "copy", custody=custody)
    checks = verify_release(folder, signers=read_signers(place, "first", "second"))
    named = [check for check in checks if check.name == "signature"]
    assert [check.passed for check in named] == [True, True]
    assert next(check for check in checks if check.name == "manifest").passed is True
    assert not any(check.passed is False for check in checks)


def test_a_signature_of_an_unknown_key_is_neither_passed_nor_failed(place):
    findings = judge_signatures(place / "release", read_signers(place, "first"))
    assert sorted(str(passed) for passed, _ in findings) == ["None", "True"]


def test_a_named_signer_must_have_signed(place, tmp_path):
    release = write_release(tmp_path / "release")
    sign(place, release, "first")
    findings = judge_signatures(release, read_signers(place, "first", "second"))
    assert [passed for passed, _ in findings] == [True, False]
    assert "has not signed" in findings[1][1]


@settings(max_examples=60)
@given(st.data())
def test_no_byte_can_be_changed(place, tmp_path_factory, data):
    """Any bit of any file outside custody, of the custody record and of any signature."""
    folder = copy_release(place, tmp_path_factory.mktemp("changed") / "copy")
    names = [
        name
        for name in list_entries(folder)
        if (folder / name).is_file()
        and (not name.startswith("custody/") or name == "custody/custody.json")
    ]
    path = folder / data.draw(st.sampled_from(names))
    content = bytearray(path.read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    findings = judge_signatures(folder, read_signers(place, "first", "second"))
    assert any(passed is False for passed, _ in findings)
    shutil.rmtree(folder.parent)


@pytest.mark.parametrize("what", ["added", "first taken away", "all taken away", "data gone"])
def test_additions_and_removals_are_found(place, tmp_path, what):
    folder = copy_release(place, tmp_path / "copy", custody=False)
    signers = read_signers(place, "first", "second")
    if what == "added":
        (folder / "more.csv").write_text("x\n")
    elif what == "data gone":
        (folder / "data.csv").unlink(missing_ok=True)
        (folder / "data.parquet").unlink(missing_ok=True)
    else:
        for path in (folder / "signatures").iterdir():
            if what == "all taken away" or json.loads(path.read_text())["signed_by"] == "first":
                path.unlink()
    assert any(passed is False for passed, _ in judge_signatures(folder, signers))


def test_a_whole_release_replaced_under_another_key_is_found(place, tmp_path):
    """Data, manifest and custody are genuine by themselves; the signatures are copied over."""
    other = write_release(tmp_path / "other", records=80)
    assert not any(check.passed is False for check in verify_release(other))
    shutil.copytree(place / "release" / "signatures", other / "signatures")
    checks = verify_release(other, signers=read_signers(place, "first"))
    assert any(check.name == "signature" and check.passed is False for check in checks)


def test_a_forger_cannot_sign_as_another(place, tmp_path):
    """The claimed public key is put in place of the forger's own."""
    release = write_release(tmp_path / "release")
    create_keys(tmp_path / "forger.pem", tmp_path / "forger.public.pem", PASSPHRASE)
    sign_release(
        release, read_private_key(tmp_path / "forger.pem", PASSPHRASE), signed_by="A", date=DAY
    )
    (path,) = (release / "signatures").iterdir()
    true = next(
        json.loads(file.read_text())
        for file in (place / "release" / "signatures").iterdir()
        if json.loads(file.read_text())["signed_by"] == "first"
    )
    forged = json.loads(path.read_text()) | {"public_key": true["public_key"]}
    path.unlink()
    names = [file.name for file in (place / "release" / "signatures").iterdir()]
    for name in names:
        (release / "signatures" / name).write_text(json.dumps(forged, indent=2))
    findings = judge_signatures(release, read_signers(place, "first"))
    assert not any(passed for passed, _ in findings)
    assert any(passed is False for passed, _ in findings)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"signature": 1}', b"\xff", b'{"files": {}, "files": {}}']
)
def test_a_strangers_file_among_the_signatures_fails_and_does_not_crash(place, tmp_path, content):
    folder = copy_release(place, tmp_path / "copy")
    (folder / "signatures" / f"{'0' * 16}.json").write_bytes(content)
    assert any(passed is False for passed, _ in judge_signatures(folder))
    (folder / "signatures" / "notes.txt").write_bytes(content)
    strange = next(check for check in verify_release(folder) if check.name == "folder")
    assert strange.passed is False


def test_a_signed_release_is_not_overwritten(place, tmp_path):
    folder = copy_release(place, tmp_path / "copy")
    frame = sf.datasets.cohort(60).select("sex", "systolic")
    plan = sf.Plan(
        schema=sf.Schema({"sex": "quasi", "systolic": "sensitive"}), targets={"k.min": 5}
    )
    key = sf.Key.of(folder / "custody" / "key")
    release = sf.protect(sf.Dataset(frame, plan.schema), plan, key=key)
    with pytest.raises(ReleaseError, match="is signed"):
        release.write(folder, overwrite=True)
    assert not any(passed is False for passed, _ in judge_signatures(folder))


def test_keys_are_private_behind_a_passphrase_and_never_overwritten(tmp_path):
    private, public = tmp_path / "a.pem", tmp_path / "a.public.pem"
    create_keys(private, public, PASSPHRASE)
    assert private.stat().st_mode & 0o777 == 0o600
    assert b"ENCRYPTED" in private.read_bytes()
    with pytest.raises(ReleaseError, match="exists already"):
        create_keys(private, tmp_path / "b.public.pem", PASSPHRASE)
    with pytest.raises(ReleaseError, match="passphrase is wrong"):
        read_private_key(private, "another sentence")
    with pytest.raises(ReleaseError, match="no public key"):
        read_public_key(private)
    with pytest.raises(ReleaseError, match="fewer than"):
        create_keys(tmp_path / "c.pem", tmp_path / "c.public.pem", "short")
    assert not (tmp_path / "c.pem").exists()


@pytest.mark.parametrize("name", ["", "   ", "a\nb", "x" * 2000])
def test_odd_names_are_refused(place, tmp_path, name):
    release = write_release(tmp_path / "release")
    key = read_private_key(place / "first.pem", PASSPHRASE)
    with pytest.raises(ReleaseError):
        sign_release(release, key, signed_by=name, date=DAY)
    assert not (release / "signatures").exists()


def test_the_command_line_signs_only_what_is_intact(tmp_path):
    runner = CliRunner()
    secret = tmp_path / "passphrase"
    secret.write_text(f"{PASSPHRASE}\n")
    release = write_release(tmp_path / "release")

    def run(*arguments: object):
        return runner.invoke(app, [str(argument) for argument in arguments])

    made = run("keygen", tmp_path / "me", "--passphrase-file", secret, "--json")
    assert made.exit_code == 0
    key = ("--key", tmp_path / "me.pem", "--passphrase-file", secret)
    signed = run("sign", release, *key, "--name", "A. Novak", "--date", "2026-11-16", "--json")
    assert signed.exit_code == 0
    assert json.loads(signed.stdout)["date"] == "2026-11-16"
    assert PASSPHRASE not in made.output + signed.output
    signer = ("--signer", tmp_path / "me.public.pem")
    assert run("verify", release, *signer, "--no-ledger").exit_code == 0
    again = run("sign", release, *key, "--name", "A. Novak")
    assert isinstance(again.exception, ReleaseError)
    data = next(path for path in release.iterdir() if path.stem == "data")
    data.write_bytes(data.read_bytes() + b"\n")
    assert run("verify", release, *signer, "--no-ledger").exit_code == 4
    shutil.rmtree(release / "signatures")
    refused = run("sign", release, *key, "--name", "A. Novak")
    assert isinstance(refused.exception, ReleaseError)
    assert not (release / "signatures").exists()
