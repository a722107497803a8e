"""Claim: "A release appears complete or not at all, even if the program is killed, the disk is full
or the memory ends. A writer never removes what another living writer is working on."

Here a few points; `python -m tests.soak.kills` strikes at 200.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress

import pytest
from tests.soak import kills
from tests.waiting import PATIENCE

import sfumato as sf
from sfumato.errors import ReleaseError
from sfumato.io import atomic
from sfumato.storage import writing
from sfumato.storage.verifying import verify_release

KEY = bytes(32)


def protect(intervals: int = 2) -> sf.Release:
    data = sf.Dataset(sf.datasets.cohort(60), sf.datasets.cohort_schema())
    steps = [sf.methods.Drop(), sf.methods.Coarsen(variables=["height"], intervals=intervals)]
    plan = sf.Plan(
        schema=data.schema,
        steps=steps,
        targets={"k.min": 2},
        evaluate=[sf.risk.Uniqueness(known=["sex"])],
    )
    return sf.protect(data, plan, key=KEY)


def is_whole(folder) -> bool:
    return all(check.passed is not False for check in verify_release(folder))


def strike(place, trial: kills.Trial) -> None:
    if trial.overwrite:
        protect().write(place / "out", ledger=False)
    done = kills.run(place / "out", trial)
    assert kills.find_fault(place, trial, done) == ""


@pytest.mark.parametrize(
    "trial",
    [
        pytest.param(kills.Trial("time", 0.05, overwrite=True), marks=pytest.mark.study),
        kills.Trial("file", 8, overwrite=True),
    ],
)
def test_a_struck_writer_leaves_the_old_release(tmp_path, trial):
    strike(tmp_path, trial)


@pytest.mark.skipif(not kills.can_mount(), reason="this machine lets nobody mount a small disk")
def test_a_full_disk_leaves_nothing(tmp_path):
    done = kills.run(tmp_path / "disk" / "out", kills.Trial("disk", 24))
    assert done.returncode == kills.STRUCK, done.stderr
    assert done.stdout.split() == ["ready"], "the small disk is empty again"


# Each call that touches the disk, in this process -------------------------------------------------

CALLS = (
    (writing, ("create_file", "write_table", "write_evidence", "_measure_again",
               "put_folder_in_place", "digest_files")),
    (atomic, ("_flush_to_disk", "_exchange_names")),
)  # fmt: skip


class Disaster(BaseException):
    """No handler for errors stops it, like a signal."""


def arm(monkeypatch, last: int, error: BaseException) -> list[int]:
    """Raise at the n-th call of anything that touches the disk."""
    calls = [0]

    def deadly(function):
        def call(*given, **options):
            calls[0] += 1
            if calls[0] == last:
                raise error
            return function(*given, **options)

        return call

    for module, names in CALLS:
        for name in names:
            monkeypatch.setattr(module, name, deadly(getattr(module, name)))
    return calls


@pytest.mark.parametrize(
    ("error", "overwrite"),
    [(Disaster(), True), (OSError(28, "No space left on device"), False)],
    ids=["stopped", "no space"],
)
def test_whatever_fails_nothing_partial_stays(tmp_path, error, overwrite):
    """At every call in turn; what is not killed cleans up behind itself."""
    old, new = protect(2), protect(3)
    last = 1
    while True:
        place = tmp_path / str(last)
        if overwrite:
            old.write(place / "out", ledger=False)
        with pytest.MonkeyPatch.context() as patch:
            calls = arm(patch, last, error)
            with suppress(Disaster, ReleaseError):
                new.write(place / "out", overwrite=overwrite, ledger=False)
        names = [path.name for path in place.iterdir()] if place.exists() else []
        assert set(names) <= {"out"}
        if overwrite or names:
            assert is_whole(place / "out")
        if calls[0] < last:
            break
        last += 1
    assert last > 10


def test_without_exchange_an_interrupted_release_comes_back(tmp_path, monkeypatch):
    """Some file systems cannot swap two names; then the old one steps aside for a moment."""
    folder = protect(2).write(tmp_path / "out", ledger=False)
    before = (folder / "manifest.json").read_bytes()
    monkeypatch.setattr(atomic, "_exchange_names", lambda first, second: False)
    protect(3).write(folder, overwrite=True, ledger=False)
    assert is_whole(folder)
    assert (folder / "manifest.json").read_bytes() != before
    folder.rename(tmp_path / ".out.sfumato-replaced")  # killed between the two renamings
    with pytest.raises(ReleaseError, match="exists already"):
        protect(2).write(folder, ledger=False)
    assert is_whole(folder)
    shutil.copytree(folder, tmp_path / ".out.sfumato-replaced")  # killed after the second
    protect(2).write(folder, overwrite=True, ledger=False)
    assert (folder / "manifest.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


# Other writers ------------------------------------------------------------------------------------


def start_slow_writer(folder, *before: str) -> subprocess.Popen[str]:
    """A process that is in the middle of writing, until it reads a line."""
    code = textwrap.dedent("""
        import sys
        import sfumato as sf
        from sfumato.plan import Writing
        from sfumato.storage import writing
        real = writing._measure_again
        def wait(*given):
            print("writing", flush=True)
            sys.stdin.readline()
            return real(*given)
        writing._measure_again = wait
        data = sf.Dataset(sf.datasets.cohort(60), sf.datasets.cohort_schema())
        accepted = Writing(accept_attacks="nobody is in it")
        plan = sf.Plan(
            schema=data.schema, steps=[sf.methods.Drop()], targets={"k.min": 2},
            evaluate=[sf.risk.Uniqueness(known=["sex"])], release=accepted,
        )
        sf.protect(data, plan, key=bytes(32)).write(sys.argv[1], ledger=False)
    """)
    child = subprocess.Popen(
        [*before, sys.executable, "-c", code, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "writing\n"
    return child


def can_isolate() -> bool:
    words = ["unshare", "-rpf", "--mount-proc", "true"]
    return (
        bool(shutil.which("unshare"))
        and not subprocess.run(words, capture_output=True, check=False).returncode
    )


@pytest.mark.skipif(not can_isolate(), reason="this machine has no namespaces for processes")
def test_a_writer_in_another_container_is_left_alone(tmp_path):
    """Its process number is nobody here, and it lives."""
    child = start_slow_writer(tmp_path / "theirs", "unshare", "-rpf", "--mount-proc")
    protect().write(tmp_path / "ours", ledger=False)
    child.communicate("go\n", timeout=PATIENCE)
    assert child.returncode == 0
    assert is_whole(tmp_path / "theirs")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ours", "theirs"]


def test_what_a_killed_writer_left_is_removed(tmp_path):
    child = start_slow_writer(tmp_path / "theirs")
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=PATIENCE)
    left = [path.name for path in tmp_path.iterdir()]
    assert len(left) == 2, "the partial folder and its lock"
    assert all(name.startswith(".sfumato-partial-") for name in left)
    protect().write(tmp_path / "ours", ledger=False)
    assert [path.name for path in tmp_path.iterdir()] == ["ours"]


def test_a_strangers_folder_with_our_prefix_is_left_alone(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "x").write_text("mine")
    (tmp_path / ".sfumato-partial-1").mkdir()
    (tmp_path / ".sfumato-partial-2").symlink_to(tmp_path / "precious")
    (tmp_path / ".sfumato-partial-2.lock").write_text("")
    protect().write(tmp_path / "ours", ledger=False)
    assert (tmp_path / ".sfumato-partial-1").is_dir()
    assert (tmp_path / "precious" / "x").read_text() == "mine"


# Odd surroundings ---------------------------------------------------------------------------------


def test_links_are_resolved_and_never_replaced(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "parent").symlink_to(tmp_path / "real")
    protect().write(tmp_path / "parent" / "out", ledger=False)
    assert is_whole(tmp_path / "real" / "out")
    (tmp_path / "dangling").symlink_to(tmp_path / "real" / "later")
    protect().write(tmp_path / "dangling", ledger=False)
    assert is_whole(tmp_path / "real" / "later")
    assert (tmp_path / "dangling").is_symlink()
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises((ReleaseError, RuntimeError)):
        protect().write(tmp_path / "loop", ledger=False)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["dangling", "loop", "parent", "real"]


@pytest.mark.study
@pytest.mark.skipif(not kills.can_mount(), reason="this machine lets nobody mount")
def test_a_read_only_disk_is_said(tmp_path):
    code = (
        "import sfumato as sf, sys\n"
        "data = sf.Dataset(sf.datasets.cohort(60), sf.datasets.cohort_schema())\n"
        "plan = sf.Plan(schema=data.schema, steps=[sf.methods.Drop()])\n"
        "try: sf.protect(data, plan).write(sys.argv[1] + '/out', ledger=False)\n"
        "except sf.SfumatoError as error: print(error)\n"
    )
    script = 'mount -t tmpfs -o ro tmpfs "$2" && "$1" -c "$3" "$2"'
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", sys.executable, str(tmp_path), code],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "could not be written: Read-only file system" in done.stdout, done.stderr


@pytest.mark.study
def test_a_locale_without_utf_8_changes_no_byte(tmp_path):
    code = (
        "import sfumato as sf, polars as pl, sys, pathlib\n"
        "from sfumato.plan import Writing\n"
        "frame = pl.DataFrame({'größe': [1, 2] * 20, 'straße': ['ä', '☃'] * 20})\n"
        "plan = sf.Plan(schema=sf.Schema({'größe': 'quasi', 'straße': 'quasi'}),"
        " targets={'k.min': 5}, release=Writing(format='csv'))\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "sf.protect(sf.Dataset(frame), plan, key=bytes(32)).write(folder, ledger=False)\n"
        "from sfumato.storage.verifying import verify_release\n"
        "assert all(check.passed for check in verify_release(folder))\n"
    )
    (tmp_path / "write.py").write_text(code, "utf-8")
    contents = []
    for locale in ("C.UTF-8", "C"):
        place = tmp_path / locale
        place.mkdir()
        environment = {**os.environ, "LC_ALL": locale, "LANG": locale, "PYTHONUTF8": "0",
                       "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-X", "utf8=0", str(tmp_path / "write.py"), str(place / "ö")],
            env=environment, capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        (folder,) = place.iterdir()
        names = ("data.csv", "manifest.json", "report.html", "codebook.html", "codebook.json")
        contents.append([(folder / name).read_bytes() for name in names])
    assert contents[0] == contents[1]


def test_a_clock_that_jumps_changes_no_released_byte(tmp_path, monkeypatch):
    import datetime as dt

    class Jumping(dt.datetime):
        times = iter(
            [dt.datetime(2040, 1, 1, tzinfo=dt.UTC), dt.datetime(1971, 1, 1, tzinfo=dt.UTC)]
        )

        @classmethod
        def now(cls, tz=None):
            del tz
            return next(cls.times)

    release = protect()
    first = release.write(tmp_path / "before", ledger=False)
    monkeypatch.setattr("sfumato.storage.writing.dt.datetime", Jumping)
    for name in ("2040", "1971"):
        folder = release.write(tmp_path / name, ledger=False)
        os.utime(folder, (0, 0))
        assert is_whole(folder)
        for file in ("data.parquet", "manifest.json", "report.html", "codebook.html"):
            assert (folder / file).read_bytes() == (first / file).read_bytes()
