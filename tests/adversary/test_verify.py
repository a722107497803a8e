# ruff: noqa: E501 - a forgery is one line
"""Claim: "`sfumato verify` finds every change of a release: a changed, added, removed or exposed
file, another spelling of a record, another original. Whoever has no key cannot write a custody record or
a manifest that it takes for genuine."

The adversary can write to the folder and has no key. They know how Sfumato works: after a change
they put every digest right that can be put right without the key.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cli.command_line import sfumato

import sfumato as sf
from sfumato.errors import ReleaseError
from sfumato.plan import Writing
from sfumato.storage.ledger import Ledger
from sfumato.storage.verifying import Check, verify_release

KEY = sf.Key(bytes(range(32)))
FRAME = pl.DataFrame(
    {
        "id": [f"p{i:03d}" for i in range(80)],
        "sex": ["f", "m"] * 40,
        "income": [1000.0 + 37.5 * i for i in range(80)],
        "bmi": [18 + (i * 37 % 80) / 8 for i in range(80)],
    }
)
SCHEMA = sf.Schema({"id": "direct", "sex": "quasi", "income": "sensitive", "bmi": "sensitive"})
DATA = sf.Dataset(FRAME, SCHEMA)


def protect(sd_share: float = 0.3, key: sf.Key = KEY) -> sf.Release:
    growth = {"form": "power", "constant": 1.0, "slope": 0.01, "power": 2.0}
    steps = [
        sf.methods.Drop(),
        sf.methods.Noise(variables=["income"], growth=growth),
        sf.methods.Noise(variables=["bmi"], sd_share=sd_share),
    ]
    plan = sf.Plan(schema=SCHEMA, steps=steps, targets={"k.min": 5})
    return sf.protect(DATA, plan, key=key)


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two releases under one key, and one under another."""
    place = tmp_path_factory.mktemp("releases")
    protect().write(place / "1" / "genuine", ledger=False)
    protect(0.4).write(place / "2" / "earlier", ledger=False)
    protect(key=sf.Key(bytes(32))).write(place / "3" / "foreign", ledger=False)
    return place


@pytest.fixture
def folder(releases: Path, tmp_path: Path) -> Path:
    shutil.copytree(releases / "1" / "genuine", tmp_path / "out", symlinks=True)
    return tmp_path / "out"


def is_refused(folder: Path, original: sf.Dataset | None = None, **options) -> bool:
    try:
        checks = verify_release(folder, original, **options)
    except ReleaseError:
        return True
    return any(check.passed is False for check in checks)


# What an adversary does ---------------------------------------------------------------------------


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def put_right(folder: Path) -> None:
    """Recompute every digest that needs no key, in the spelling of Sfumato."""
    assert not any(file.is_fifo() for file in folder.rglob("*")), "reading it would never end"
    path = folder / "manifest.json"
    manifest = json.loads(path.read_bytes())
    manifest["data"]["sha256"] = digest(folder / manifest["data"]["file"])
    public = ("report.html", "codebook.html", "codebook.json")
    manifest["files"] = {name: digest(folder / name) for name in public}
    path.write_text(json.dumps(manifest, indent=2, ensure_ascii=False))
    path = folder / "custody" / "custody.json"
    record = json.loads(path.read_bytes())
    record["manifest_sha256"] = digest(folder / "manifest.json")
    record["plan_digest"] = sf.Plan.load(folder / "custody" / "plan.toml").digest
    skipped = ("custody/custody.json", "custody/key")
    names = [str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()]
    record["files"] = {name: digest(folder / name) for name in sorted(names) if name not in skipped}
    path.write_text(json.dumps(record, indent=2, ensure_ascii=False))


def list_contents(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything there is to know of a folder."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            path.lstat().st_nlink if path.is_file() else 0,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in [folder, *folder.rglob("*")]
    }


def replace(name: str, old: str, new: str):
    def forge(folder: Path, _: Path) -> None:
        text = (folder / name).read_text("utf-8")
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1), "utf-8")

    return forge


def change_json(name: str, change, **options):
    def forge(folder: Path, _: Path) -> None:
        content = json.loads((folder / name).read_text("utf-8"))
        change(content)
        options.setdefault("indent", 2)
        (folder / name).write_text(json.dumps(content, ensure_ascii=False, **options), "utf-8")

    return forge


def append(name: str, content: bytes):
    def forge(folder: Path, _: Path) -> None:
        with (folder / name).open("ab") as file:
            file.write(content)

    return forge


def act(change):
    """A forgery as a function of the folder, and of the folder with the other releases."""

    def forge(folder: Path, releases: Path) -> None:
        change(folder, releases)

    return forge


def copy_from(source: str, *names: str):
    def forge(folder: Path, releases: Path) -> None:
        for name in names:
            origin, target = releases / source / name, folder / name
            if origin.is_dir():
                shutil.rmtree(target)
                shutil.copytree(origin, target)
            else:
                shutil.copy(origin, target)

    return forge


def link(name: str, *, hard: bool = False):
    """Put the file elsewhere, and a link to it in its place."""

    def forge(folder: Path, _: Path) -> None:
        away = folder.parent / "away"
        shutil.move(folder / name, away)
        if hard:
            (folder / name).hardlink_to(away)
        else:
            (folder / name).symlink_to(away)

    return forge


def put_pipe(name: str):
    """Whoever reads it waits for ever."""

    def forge(folder: Path, _: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return forge


def rename(name: str, new: str):
    return act(lambda folder, _: (folder / name).rename(folder / new))


def write(name: str, content: str = "x"):
    def forge(folder: Path, _: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True, mode=0o700)
        (folder / name).write_text(content)
        (folder / name).chmod(0o600)

    return forge


def chmod(name: str, mode: int):
    return act(lambda folder, _: (folder / name).chmod(mode))


def set_evidence(record):
    record["evidence"]["uniqueness"]["value"] = 0.125
    record["evidence"]["uniqueness"]["baseline"] = 0.25


def lower_target(content):
    content["targets"][0] |= {"min": 50.0, "value": 50.0}


M, C, P, R = "manifest.json", "custody/custody.json", "custody/plan.toml", "custody/report.html"
FORGERIES = {
    # The manifest
    "a duplicate name, last": replace(M, '"records": 80,', '"records": 80,\n  "records": 79,'),
    "a duplicate name, first": replace(M, '"records": 80,', '"records": 79,\n  "records": 80,'),
    "a duplicate name, deep": replace(M, '"role": "quasi"', '"role": "other",\n "role": "quasi"'),
    "a duplicate name, escaped": replace(M, '"records": 80,', '"records": 80, "r\\u0065cords": 9,'),
    "indented anew": change_json(M, lambda content: None, indent=4),
    "on one line": change_json(M, lambda content: None, indent=None),
    "a blank more": replace(M, '"records": 80', '"records":  80'),
    "a line break at the end": append(M, b"\n"),
    "another order of names": change_json(M, lambda content: content.update(zz=content.pop("made_by"))),
    "80.0 for 80": replace(M, '"records": 80', '"records": 80.0'),
    "8e1 for 80": replace(M, '"records": 80', '"records": 8e1'),
    "an escaped letter": replace(M, '"quasi"', '"qu\\u0061si"'),
    "NaN": replace(M, '"records": 80', '"records": NaN'),
    "an infinite number": replace(M, '"records": 80', '"records": 1e999'),
    "a number of 5,000 digits": replace(M, '"records": 80', f'"records": {"9" * 5000}'),
    "half a character": replace(M, '"quasi"', '"\\ud800"'),
    "nested 100,000 deep": replace(M, '"records": 80', f'"records": {"[" * 10**5}{"]" * 10**5}'),
    "a byte-order mark": act(lambda folder, _: (folder / M).write_bytes(b"\xef\xbb\xbf" + (folder / M).read_bytes())),
    "UTF-16": act(lambda folder, _: (folder / M).write_bytes((folder / M).read_text().encode("utf-16"))),
    "targets removed": change_json(M, lambda content: content.update(targets=[])),
    "a target raised": change_json(M, lower_target),
    "another method": change_json(M, lambda content: content["methods"].pop()),
    "another variance": change_json(M, lambda content: content["noise"]["variables"]["bmi"].update(variance=1e-9)),
    "the tag removed": change_json(M, lambda content: content.pop("authentication")),
    "the tag emptied": change_json(M, lambda content: content.update(authentication="")),
    "the tag of another type": change_json(M, lambda content: content.update(authentication=7)),
    "the tag not ASCII": change_json(M, lambda content: content.update(authentication="é" * 64)),
    "files a list": change_json(M, lambda content: content.update(files=[])),
    "a data file elsewhere": change_json(M, lambda content: content["data"].update(file="../out/data.parquet")),
    "the manifest of an earlier release": copy_from("2/earlier", M),
    # The data
    "a cell changed": act(lambda folder, _: pl.read_parquet(folder / "data.parquet").with_columns(sex=pl.lit("f")).write_parquet(folder / "data.parquet")),
    "rows in another order": act(lambda folder, _: pl.read_parquet(folder / "data.parquet").reverse().write_parquet(folder / "data.parquet")),
    "a file cut off": act(lambda folder, _: os.truncate(folder / "data.parquet", 400)),
    "an empty file": act(lambda folder, _: os.truncate(folder / "data.parquet", 0)),
    "bytes after the end": append("data.parquet", b"PAR1"),
    "the data of an earlier release": copy_from("2/earlier", "data.parquet"),
    "data and manifest of an earlier release": copy_from("2/earlier", "data.parquet", M),
    # Reports
    "the public report changed": replace("report.html", "met", "MET"),
    "the codebook changed": replace("codebook.html", "quasi", "other"),
    "the codebook for programs changed": replace("codebook.json", '"records": 80', '"records": 81'),
    "the codebook of an earlier release": copy_from("2/earlier", "codebook.html", "codebook.json"),
    "no codebook": act(lambda folder, _: (folder / "codebook.json").unlink()),
    "the inside report changed": replace(R, "met", "MET"),
    "the report of an earlier release": copy_from("2/earlier", "report.html"),
    "the inside report of an earlier release": copy_from("2/earlier", R),
    "the reports exchanged": act(lambda folder, _: shutil.copy(folder / "report.html", folder / R)),
    # Custody
    "evidence changed": change_json(C, set_evidence),
    "fitted values changed": change_json(C, lambda content: content["steps"].clear()),
    "another input": change_json(C, lambda content: content["input"].update(records=81)),
    "the list of files emptied": change_json(C, lambda content: content.update(files={})),
    "the list of files removed": change_json(C, lambda content: content.pop("files")),
    "a file off the list": change_json(C, lambda content: content["files"].pop(R)),
    "targets removed from custody": change_json(C, lambda content: content.update(targets=[])),
    "a duplicate name in custody": replace(C, '"format": 1,', '"format": 1, "format": 1,'),
    "custody indented anew": change_json(C, lambda content: None, indent=3),
    "custody of an earlier release": copy_from("2/earlier", "custody"),
    "custody of another key": copy_from("3/foreign", "custody"),
    "the custody record of another key": copy_from("3/foreign", C),
    "all but the manifest of another key": copy_from("3/foreign", "custody", "data.parquet", "report.html", "codebook.html", "codebook.json"),
    "the plan's target lowered": replace(P, "k.min = 5", "k.min = 2"),
    "the plan's targets removed": replace(P, "k.min = 5", ""),
    "a comment in the plan": append(P, b"# harmless\n"),
    "the plan of an earlier release": copy_from("2/earlier", P),
    "a key of zeros": act(lambda folder, _: (folder / "custody/key").write_text("0" * 64 + "\n")),
    "the key in capitals": act(lambda folder, _: (folder / "custody/key").write_text(KEY.text.upper() + "\n")),
    "a blank after the key": append("custody/key", b" "),
    "no key": act(lambda folder, _: (folder / "custody/key").unlink()),
    "no evidence of records": act(lambda folder, _: (folder / "custody/records.parquet").unlink()),
    "no custody record": act(lambda folder, _: (folder / C).unlink()),
    "an empty custody": act(lambda folder, _: [file.unlink() for file in (folder / "custody").iterdir()]),
    # The manifest for accredited analysts
    "accredited noise changed": replace("accredited/manifest.json", '"growth"', '"growht"'),
    "accredited and public out of step": replace("accredited/manifest.json", '"records": 80', '"records": 81'),
    "accredited indented anew": change_json("accredited/manifest.json", lambda content: None, indent=1),
    "accredited of an earlier release": copy_from("2/earlier", "accredited"),
    "no accredited manifest": act(lambda folder, _: shutil.rmtree(folder / "accredited")),
    # The folder
    "a strange file": write("notes.txt"),
    "a hidden file": write(".DS_Store"),
    "a second data file": write("data.csv", "sex\nf\n"),
    "another case": write("Data.parquet"),
    "a strange file in custody": write("custody/notes.txt"),
    "a strange file among the accredited": write("accredited/key"),
    "an empty folder": act(lambda folder, _: (folder / "empty").mkdir()),
    "a folder within": write("more/manifest.json"),
    "custody in capitals": rename("custody", "CUSTODY"),
    "a renamed data file": rename("data.parquet", "data2.parquet"),
    "no report": act(lambda folder, _: (folder / "report.html").unlink()),
    "no data": act(lambda folder, _: (folder / "data.parquet").unlink()),
    "a folder for a file": act(lambda folder, _: ((folder / "report.html").unlink(), (folder / "report.html").mkdir())),
    "commands for the terminal": write("\x1b[2J\x1b[1mpassed"),
    # Links and other things
    "linked data": link("data.parquet"),
    "a linked manifest": link(M),
    "a linked custody": link("custody"),
    "a linked key": link("custody/key"),
    "a dangling link": act(lambda folder, _: (folder / "extra").symlink_to("nowhere")),
    "a link to itself": act(lambda folder, _: ((folder / M).unlink(), (folder / M).symlink_to(M))),
    "a second name of the data": link("data.parquet", hard=True),
    "a second name of the key": link("custody/key", hard=True),
    "a pipe": put_pipe("pipe"),
    "a pipe for the report": put_pipe("report.html"),
    "a pipe for the manifest": put_pipe(M),
    # Permissions
    "the folder open to all": chmod(".", 0o777),
    "data open to all": chmod("data.parquet", 0o666),
    "the manifest open to all": chmod(M, 0o646),
    "custody open to all": chmod("custody", 0o777),
    "custody open to the group": chmod("custody", 0o750),
    "a key for all to read": chmod("custody/key", 0o644),
    "a plan for the group to read": chmod(P, 0o640),
    "accredited for all to read": chmod("accredited", 0o755),
    "the folder open to the group": chmod(".", 0o775),
    "data open to the group": chmod("data.parquet", 0o664),
    "the report open to the group": chmod("report.html", 0o664),
}  # fmt: skip


def test_the_genuine_release_passes(folder):
    """Otherwise all that follows would be easy."""
    checks = verify_release(folder, DATA, key=KEY)
    assert all(check.passed for check in checks), checks


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_a_forgery_fails(folder, releases, forge):
    forge(folder, releases)
    assert is_refused(folder)


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_a_forgery_with_all_digests_put_right_fails(folder, releases, forge):
    """Only the tags cannot be computed without the key."""
    forge(folder, releases)
    with suppress(Exception):  # some are broken beyond repair
        put_right(folder)
    undone = list_contents(folder) == list_contents(releases / "1" / "genuine")
    assert is_refused(folder) or undone


@settings(max_examples=60)
@given(st.data())
def test_any_byte_of_any_file_counts(releases, data):
    genuine = releases / "1" / "genuine"
    files = sorted(path for path in genuine.rglob("*") if path.is_file())
    path = data.draw(st.sampled_from(files))
    content = path.read_bytes()
    position = data.draw(st.integers(0, len(content) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != content[position]))
    try:
        path.write_bytes(content[:position] + bytes([other]) + content[position + 1 :])
        assert is_refused(genuine)
    finally:
        path.write_bytes(content)
    assert not is_refused(genuine)


def test_another_original_fails(folder):
    changed = FRAME.with_columns(sex=pl.lit("m"))
    for other in (
        changed,  # the same persons
        FRAME.head(79),
        FRAME.with_columns(income=pl.when(pl.int_range(80) == 3).then(1.0).otherwise("income")),
        FRAME.with_columns(extra=pl.lit(1)),
    ):
        assert is_refused(folder, sf.Dataset(other, SCHEMA))
    reordered = sf.Dataset(FRAME.sample(fraction=1, shuffle=True, seed=1).to_pandas(), SCHEMA)
    assert not is_refused(folder, reordered)


def test_a_frame_that_was_changed_after_reading_is_another_original(folder, tmp_path):
    """Its source is the right file; its values are not."""
    FRAME.write_parquet(tmp_path / "original.parquet")
    data = sf.read(tmp_path / "original.parquet", schema=SCHEMA)
    assert not is_refused(folder, data)
    assert is_refused(folder, data.with_columns(pl.DataFrame({"sex": ["m"] * 80})))


def test_a_whole_release_of_somebody_else_fails_under_ones_own_key(releases):
    """It is whole in itself; only the key that the custodian keeps tells it from a genuine one."""
    foreign = releases / "3" / "foreign"
    assert not is_refused(foreign)
    assert is_refused(foreign, key=KEY)


def test_without_custody_it_is_said_what_was_not_checked(folder):
    shutil.rmtree(folder / "custody")
    results = {check.name: check.passed for check in verify_release(folder, DATA)}
    assert results == {
        "data": True, "accredited": True, "manifest": None, "files": True, "folder": True,
        "permissions": True, "targets": None, "original": None,
    }  # fmt: skip
    assert {check.name: check.passed for check in verify_release(folder, key=KEY)} == {
        "data": True, "accredited": True, "manifest": True, "key": True, "files": True,
        "folder": True, "permissions": True, "targets": None,
    }  # fmt: skip


PUBLIC = [
    name
    for name in FORGERIES
    if not name.endswith("open to the group")  # a copy may belong to several people
    and not any(word in name for word in ("custody", "plan", "key", "record", "inside", "evidence"))
    and name not in ("no accredited manifest", "the reports exchanged", "fitted values changed",
                     "another input", "the list of files emptied", "the list of files removed",
                     "a file off the list")
]  # fmt: skip


@pytest.mark.parametrize("name", PUBLIC)
def test_the_key_alone_tells_a_forged_public_part(folder, releases, name):
    """A custodian who has nothing but the key recognises what was published."""
    FORGERIES[name](folder, releases)
    shutil.rmtree(folder / "custody", ignore_errors=True)
    earlier = name.endswith("of an earlier release") and "and manifest" in name
    # Data and manifest of an earlier release are genuine; its report is not.
    assert is_refused(folder, key=KEY) or earlier


def test_the_command_says_failed_and_prints_no_commands(folder):
    (folder / "\x1b[2Jx").write_text("x")
    done = sfumato("verify", str(folder))
    assert done.returncode == 4
    assert "\x1b[2J" not in (done.stdout + done.stderr)
    assert "FAILED" in (done.stdout + done.stderr)


def test_a_changed_plan_does_not_say_what_is_read(folder, tmp_path):
    """The original is read by the plan; a forged plan is found before anything is read."""
    secret = tmp_path / "secret.csv"
    secret.write_text("id\n1\n")
    plan = folder / "custody" / "plan.toml"
    plan.write_text(plan.read_text() + f'\n[read]\nsheet = "{secret}"\n')
    done = sfumato("verify", str(folder), "--original", str(secret), "--json")
    assert done.returncode == 4
    told = {check["name"]: check for check in json.loads(done.stdout)}
    assert told["original"]["passed"] is None
    assert "was not read" in told["original"]["said"]


def test_our_own_json_is_read_in_one_way_only(folder, tmp_path):
    """Not only by verify: also what opens a release, an accredited manifest or a log."""
    replace(M, '"records": 80,', '"records": 80, "records": 80,')(folder, tmp_path)
    with pytest.raises(ReleaseError):
        sf.fit("bmi ~ sex", folder)
    log = tmp_path / "log"
    sf.outputs.Log(log).add(sf.outputs.Output(kind="box", title="x"), DATA)
    file = log / "log.json"
    file.write_text(
        file.read_text().replace('"verdict": "pass"', '"verdict": "review", "verdict": "pass"')
    )
    with pytest.raises(sf.SfumatoError, match="not a log"):
        sf.outputs.Log(log)


@pytest.mark.skipif(sys.platform == "win32", reason="no umask")
def test_what_is_written_under_any_umask_passes(tmp_path):
    for mask in (0o000, 0o002, 0o022, 0o077):
        before = os.umask(mask)
        try:
            folder = protect().write(tmp_path / f"{mask:o}", ledger=False)
        finally:
            os.umask(before)
        assert not is_refused(folder)


# Which release it is ------------------------------------------------------------------------------


def get_ledger_check(folder: Path, ledger: Path) -> Check:
    [check] = [
        check for check in verify_release(folder, ledger=Ledger(ledger)) if check.name == "ledger"
    ]
    return check


@pytest.fixture
def versions(tmp_path: Path) -> Path:
    """Two releases of the same people in one place, the first moved away before the second."""
    place = tmp_path / "versions"
    protect().write(place / "out", ledger=place / "ledger")
    (place / "out").rename(place / "old")
    accepted = Writing(accept_composition="a test")
    plan = protect(0.4).plan
    later = sf.Plan(schema=plan.schema, steps=plan.steps, targets={"k.min": 5}, release=accepted)
    sf.protect(DATA, later, key=KEY).write(place / "out", ledger=place / "ledger")
    return place


def test_an_older_release_put_back_is_not_the_one_that_was_written_there(versions):
    assert get_ledger_check(versions / "out", versions / "ledger").passed is True
    shutil.rmtree(versions / "out")
    shutil.copytree(versions / "old", versions / "out")
    assert not is_refused(versions / "out")  # genuine in every byte
    check = get_ledger_check(versions / "out", versions / "ledger")
    assert check.passed is False
    assert "release 1" in check.finding
    assert "release 2 was written here" in check.finding
    shutil.rmtree(versions / "out" / "custody")
    assert get_ledger_check(versions / "out", versions / "ledger").passed is False


def test_an_older_release_elsewhere_is_said_to_be_older(versions):
    check = get_ledger_check(versions / "old", versions / "ledger")
    assert check.passed is True
    assert "number 1 of 2 of these records" in check.finding
    assert "a later one was made on 20" in check.finding
    check = get_ledger_check(versions / "out", versions / "ledger")
    assert "number 2 of 2 of these records" in check.finding
    assert "later" not in check.finding


def test_a_release_that_was_overwritten_fails_wherever_it_lies(tmp_path):
    ledger = tmp_path / "ledger"
    protect().write(tmp_path / "out", ledger=ledger)
    shutil.copytree(tmp_path / "out", tmp_path / "elsewhere" / "copy")
    protect(0.4).write(tmp_path / "out", overwrite=True, ledger=ledger)
    check = get_ledger_check(tmp_path / "elsewhere" / "copy", ledger)
    assert check.passed is False
    assert "release 2 replaced" in check.finding
    # The very same once more is the release itself.
    protect(0.4).write(tmp_path / "again" / "out", ledger=ledger)
    assert get_ledger_check(tmp_path / "out", ledger).passed
    assert get_ledger_check(tmp_path / "again" / "out", ledger).passed


def test_what_the_ledger_does_not_know_is_not_called_passed(versions, tmp_path):
    folder = tmp_path / "unknown" / "out"
    protect(0.5).write(folder, ledger=False)
    assert get_ledger_check(folder, tmp_path / "none").passed is None
    assert not (tmp_path / "none").exists()
    check = get_ledger_check(folder, versions / "ledger")  # the same key, made without the ledger
    assert check.passed is None
    assert "2 releases under its key" in check.finding


def test_a_manifest_that_is_not_the_one_in_the_ledger_fails(versions):
    """Another genuine release under the same key, which the ledger does not know, in its place."""
    shutil.rmtree(versions / "out")
    protect(0.5).write(versions / "out", ledger=False)
    assert get_ledger_check(versions / "out", versions / "ledger").passed is False
    (versions / "ledger" / "ledger.json").write_bytes(b"{}")
    assert get_ledger_check(versions / "out", versions / "ledger").passed is False


def test_the_command_consults_the_ledger(versions):
    def verify(name: str, *options: str):
        return sfumato("verify", name, "--json", *options, cwd=versions)

    def get_state(done) -> dict[str, Any]:
        checks = {check["name"]: check for check in json.loads(done.stdout)}
        found: dict[str, Any] = checks.get("ledger", {})
        return found

    done = verify("old", "--ledger", "ledger")
    assert done.returncode == 0
    assert "a later one was made on" in get_state(done)["said"]
    shutil.rmtree(versions / "out")
    shutil.copytree(versions / "old", versions / "out")
    assert verify("out", "--ledger", "ledger").returncode == 4
    assert verify("out", "--no-ledger").returncode == 0
    assert get_state(verify("out", "--no-ledger")) == {}
    assert get_state(verify("out"))["passed"] is None  # the default place, where there is none


def test_it_is_true_who_can_change_a_copy(folder):
    shutil.rmtree(folder / "custody")
    shutil.rmtree(folder / "accredited")

    def get_finding() -> str:
        [check] = [check for check in verify_release(folder) if check.name == "permissions"]
        assert check.passed
        return check.finding

    assert get_finding().startswith("only the owner can change the files")
    (folder / "data.parquet").chmod(0o664)
    assert "their group can change: data.parquet" in get_finding()


@pytest.mark.skipif(os.name == "nt", reason="no mode bits")
def test_nobody_but_the_owner_can_change_what_is_written_whatever_the_umask(tmp_path):
    mask = os.umask(0)
    try:
        protect().write(tmp_path / "out", ledger=False)
    finally:
        os.umask(mask)
    for path in [tmp_path / "out", *(tmp_path / "out").rglob("*")]:
        assert not path.stat().st_mode & 0o022, path.name
