"""Claim: "Whatever fails while a release is written down, the ledger can be used afterwards, and
what is said about the release is true."

The disk is full at each file of the ledger in turn, on a fresh ledger and on one with entries.
"""

from __future__ import annotations

import errno
from contextlib import suppress
from functools import cache

import pytest

import sfumato as sf
from sfumato.errors import ReleaseError
from sfumato.storage import ledger as ledgers
from sfumato.storage.ledger import Ledger


@cache
def protect(key: int = 0) -> sf.Release:
    data = sf.Dataset(sf.datasets.cohort(60), sf.datasets.cohort_schema())
    steps = [sf.methods.Drop(), sf.methods.Coarsen(variables=["height"], intervals=2)]
    plan = sf.Plan(schema=data.schema, steps=steps, targets={"k.max": 59})
    return sf.protect(data, plan, key=bytes([key] * 32))


@pytest.fixture
def fill_disk(monkeypatch):
    """Let the n-th file that the ledger writes meet a full disk."""

    def fill(number: int) -> None:
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

    return fill


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("number", range(1, 7))
def test_a_full_disk_leaves_a_ledger_that_can_be_used(
    tmp_path, fill_disk, monkeypatch, number, fresh
):
    place, out = tmp_path / "ledger", tmp_path / "releases" / "out"
    if not fresh:
        protect().write(tmp_path / "earlier" / "out", ledger=place)
    with monkeypatch.context():
        fill_disk(number)
        told = ""
        try:
            protect().write(out, ledger=place)
        except ReleaseError as error:
            told = error.what
    monkeypatch.undo()
    # What was said is true.
    assert ("Nothing was left behind" in told) == (not out.exists())
    # The ledger knows what is out, and takes the next one.
    known = [entry.folder for entry in Ledger(place).read() if not entry.pending]
    assert str(out) in known or not out.exists() or told
    with suppress(FileNotFoundError):
        out.rename(tmp_path / "passed on")
    protect().write(tmp_path / "next" / "out", ledger=place)
    assert str(tmp_path / "next" / "out") in [entry.folder for entry in Ledger(place).read()]


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
