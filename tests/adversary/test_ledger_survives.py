"""Claim: "Whatever fails while a release is written down, the ledger can be used afterwards, and
what is said about the release is true."

The disk is full at each file of the ledger in turn, on a fresh ledger and on one with entries.
"""

from __future__ import annotations

import errno
import shutil
from functools import cache
from typing import Any

import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import ReleaseError, TargetError
from sfumato.storage import composing, writing
from sfumato.storage import ledger as ledgers
from sfumato.storage.ledger import Ledger
from sfumato.storage.verifying import verify_release

FILES_OF_A_FRESH_LEDGER, FILES_OF_AN_OLD_ONE = 5, 3
"""Key, empty ledger, records, entry, settled entry."""


@cache
def protect(key: int = 0) -> sf.Release:
    data = sf.Dataset(sf.datasets.cohort(60), sf.datasets.cohort_schema())
    steps = [sf.methods.Drop(), sf.methods.Coarsen(variables=["height"], intervals=2)]
    plan = sf.Plan(schema=data.schema, steps=steps, targets={"unique_records.max": 60})
    return sf.protect(data, plan, key=bytes([key] * 32))


@pytest.fixture
def fill_disk(monkeypatch):
    """Let the n-th file that the ledger writes meet a full disk."""

    def fill(number: int) -> list[int]:
        left = [number]

        def strike(write):
            def struck(*args, **options):
                left[0] -= 1
                if left[0] == 0:
                    raise OSError(errno.ENOSPC, "No space left on device")
                return write(*args, **options)

            return struck

        for name in ("write_file", "replace_file"):
            monkeypatch.setattr(ledgers, name, strike(getattr(ledgers, name)))
        return left

    return fill


def find_first(entries, folder):
    return next((entry for entry in entries if entry.folder == str(folder)), None)


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("number", range(1, 7))
def test_a_full_disk_leaves_a_ledger_that_can_be_used(
    tmp_path, fill_disk, monkeypatch, number, fresh
):
    place, out = tmp_path / "ledger", tmp_path / "releases" / "out"
    if not fresh:
        protect().write(tmp_path / "earlier" / "out", ledger=place)
    before = [] if fresh else [tmp_path / "earlier" / "out"]
    with monkeypatch.context():
        left = fill_disk(number)
        told = ""
        try:
            protect().write(out, ledger=place)
        except ReleaseError as error:
            told = error.what
    monkeypatch.undo()
    # The disk was met, unless there are fewer files to write; and whenever it was, it was said.
    assert left[0] <= 0 or number > (FILES_OF_A_FRESH_LEDGER if fresh else FILES_OF_AN_OLD_ONE)
    assert bool(told) == (left[0] <= 0)
    # A release is out, complete, and known to the ledger; or there is none, and it knows of none.
    entry = find_first(Ledger(place).read(), out)
    if out.exists():
        assert all(check.passed for check in verify_release(out))
        assert entry is not None
        assert entry.pending == bool(told)
        assert not told or "is complete" in told
    else:
        assert entry is None
        assert "Nothing was left behind" in told
    assert sorted(path.name for path in out.parent.glob(".*")) == []
    known = [entry.folder for entry in Ledger(place).read()]
    assert known == [str(path) for path in before] + ([str(out)] if out.exists() else [])
    records = sorted((place / "records").glob("*")) if place.exists() else []
    assert len(records) == len(known)
    # The next one is written, and then both are known for good.
    protect().write(tmp_path / "next" / "out", ledger=place)
    entries = Ledger(place).read()
    assert [entry.folder for entry in entries] == [*known, str(tmp_path / "next" / "out")]
    assert not any(entry.pending for entry in entries)


# A writer that was killed -------------------------------------------------------------------------


@cache
def protect_ages(intervals: int, letter: str = "p") -> sf.Release:
    """Sixty people in classes of 20 or of 15 years: together, five are left in some."""
    frame = pl.DataFrame({"id": [f"{letter}{i:03d}" for i in range(60)], "age": [*range(20, 80)]})
    schema: dict[str, Any] = {
        "id": "direct",
        "age": sf.Column(role="quasi", kind="integer", domain=(20, 79)),
    }
    steps = [sf.methods.Drop(), sf.methods.Coarsen(variables=["age"], intervals=intervals)]
    plan = sf.Plan(schema=schema, steps=steps, targets={"k.min": 10})
    return sf.protect(sf.Dataset(frame, sf.Schema(schema)), plan, key=bytes(32))


def kill_writer(monkeypatch, out, ledger, *, before: bool) -> None:
    """Stop as if by kill -9, just before the release is in place or just after."""

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if before:
            patch.setattr(writing, "put_folder_in_place", stop)
        patch.setattr(composing, "_settle_entry", stop)
        patch.setattr(Ledger, "remove", lambda *_: None)
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)
        with pytest.raises(KeyboardInterrupt):
            protect_ages(3).write(out, ledger=ledger)
    assert [entry.pending for entry in Ledger(ledger).read()] == [True]


def test_a_release_that_was_moved_after_its_writer_was_killed_still_counts(tmp_path, monkeypatch):
    out = tmp_path / "releases" / "out"
    kill_writer(monkeypatch, out, tmp_path / "ledger", before=False)
    (tmp_path / "away").mkdir()
    out.rename(tmp_path / "away" / "with the researchers")
    with pytest.raises(TargetError, match="release 1 of the ledger"):
        protect_ages(4).write(tmp_path / "next" / "out", ledger=tmp_path / "ledger")
    # Beside the new one it is found, and measured.
    with pytest.raises(TargetError, match="together with 'with the researchers'"):
        protect_ages(4).write(tmp_path / "away" / "out", ledger=tmp_path / "ledger")
    # Put back, it is noted.
    (tmp_path / "away" / "with the researchers").rename(out)
    with pytest.raises(TargetError, match="together with 'out'"):
        protect_ages(4).write(tmp_path / "next" / "out", ledger=tmp_path / "ledger")
    assert [entry.pending for entry in Ledger(tmp_path / "ledger").read()] == [False]


def test_a_release_that_never_came_into_being_does_not_count(tmp_path, monkeypatch):
    out = tmp_path / "releases" / "out"
    kill_writer(monkeypatch, out, tmp_path / "ledger", before=True)
    assert not out.exists()
    assert len(list(out.parent.glob(".sfumato-partial-*"))) == 1
    # Whoever releases other people there first takes its remains away, and the entry with them.
    protect_ages(3, "q").write(out.parent / "others", ledger=tmp_path / "ledger")
    protect_ages(4).write(tmp_path / "next" / "out", ledger=tmp_path / "ledger")
    folders = [entry.folder for entry in Ledger(tmp_path / "ledger").read()]
    assert folders == [str(out.parent / "others"), str(tmp_path / "next" / "out")]


def test_a_writer_that_was_killed_after_it_replaced_a_release(tmp_path, monkeypatch):
    out, ledger = tmp_path / "releases" / "out", tmp_path / "ledger"
    protect_ages(4).write(out, ledger=ledger)

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(composing, "_settle_entry", stop)
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)
        with pytest.raises(KeyboardInterrupt):
            protect_ages(2).write(out, overwrite=True, ledger=ledger)
    # The next one knows which of both is out, and that somebody may have the other.
    with pytest.raises(TargetError, match="release 1 of the ledger, which was overwritten"):
        protect_ages(5).write(tmp_path / "next" / "out", ledger=ledger)
    first, second = Ledger(ledger).read()
    assert (first.state, second.state) == ("counts; overwritten by 2", "counts")
    assert not any(entry.pending for entry in (first, second))


def test_where_nobody_can_tell_whether_it_came_into_being_it_counts(tmp_path, monkeypatch):
    out = tmp_path / "releases" / "out"
    kill_writer(monkeypatch, out, tmp_path / "ledger", before=True)
    [partial] = out.parent.glob(".sfumato-partial-*")
    partial.rename(tmp_path / "taken")  # as if by a tidy colleague
    with pytest.raises(TargetError, match="its writer was stopped.*release 1 of the ledger"):
        protect_ages(4).write(tmp_path / "next" / "out", ledger=tmp_path / "ledger")
    Ledger(tmp_path / "ledger").forget(1, "it was never there")
    protect_ages(4).write(tmp_path / "next" / "out", ledger=tmp_path / "ledger")


def test_a_release_that_was_not_noted_is_noted_by_the_next_one(tmp_path, fill_disk, monkeypatch):
    """The writer failed after the release was in place: it counts, also once it is moved."""
    place, out = tmp_path / "ledger", tmp_path / "releases" / "out"
    Ledger(place).folder.mkdir(mode=0o700)
    monkeypatch.setattr(Ledger, "settle", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "x")))
    with pytest.raises(ReleaseError, match="is complete"):
        protect().write(out, ledger=place)
    monkeypatch.undo()
    assert out.exists()
    assert [entry.pending for entry in Ledger(place).read()] == [True]
    protect().write(tmp_path / "next" / "out", ledger=place)
    assert [entry.pending for entry in Ledger(place).read()] == [False, False]


@pytest.mark.parametrize("content", [b"", b"\xff\x00garbage", b"{}\n\xff", b"\n\n", b"{}"])
def test_a_damaged_ledger_is_said_and_never_empty(tmp_path, content):
    protect().write(tmp_path / "first" / "out", ledger=tmp_path / "ledger")
    (tmp_path / "ledger" / "ledger.json").write_bytes(content)
    with pytest.raises(ReleaseError, match="cannot be used"):
        protect(1).write(tmp_path / "second" / "out", ledger=tmp_path / "ledger")
    assert not (tmp_path / "second" / "out").exists()
