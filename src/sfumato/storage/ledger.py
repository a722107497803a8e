"""The ledger: every release that was written from here, so that the next one is not made blindly.

ledger/
  ledger.json       a line for each release: where, of which records, what was done; authenticated
  key               the ledger's own secret: hashes in it mean nothing elsewhere
  records/          the keyed ids of the records of each release, in the order of its file
  overwritten/      releases that others took the place of: somebody may have them all the same

It is the custodian's, and never leaves: `$SFUMATO_LEDGER`, else the user's state folder. It holds
no value of the data, only hashes: of values under its own key, of records under the release's.
Whoever deletes it, or puts back an old copy, deletes the memory: that cannot be noticed from here.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import json
import os
import shutil
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.errors import ReleaseError
from sfumato.io.atomic import PRIVATE, copy_privately, replace_file, write_file
from sfumato.io.locks import hold_lock, take_abandoned_lock
from sfumato.kernels.arrays import Words
from sfumato.progress import Progress, silent
from sfumato.randomness import Key
from sfumato.release import values_digest
from sfumato.storage.contents import MANIFEST, is_file_with
from sfumato.storage.fingerprint import Fingerprint, take_fingerprint
from sfumato.storage.people import Likeness

PLACE = "SFUMATO_LEDGER"
VERSION = 1
_LEDGER, _KEY, _LOCK, _RECORDS = "ledger.json", "key", "lock", "records"
_OVERWRITTEN = "overwritten"
_of_thread = threading.local()
_HINT = (
    "put back a copy of the folder. If there is none, move it away: earlier releases are then "
    "unknown, so tell the composition by hand."
)


@dataclass(frozen=True, eq=False)
class Entry:
    """One release in the ledger.

    Parameters
    ----------
    number : from 1 on, never given twice.
    created : when it was written.
    folder : where it was written to.
    manifest_sha256 : of the manifest, by which its folder is recognised if it was moved.
    content : a keyed digest of the released cells, whatever their order.
    plan_digest, key_commitment : of the plan and the key.
    identity : by what records were told apart.
    records : a keyed digest of who was in the original.
    fingerprint : by which the same people are recognised.
    variables : what was released, with role and kind.
    methods : what was done, as the manifest says.
    noise : the noise by variable, as the manifest describes it.
    drawn : variables with draws that belong to a record.
    paths : digests of what the draws of each variable are known by; see `same_draws`.
    order_of_rows : "random", or "as given".
    pending : whether it was about to be written; True only if the writer died.
    replaced_by : the number of the release that took its place. It counts all the same: somebody
        may have received it before.
    forgotten : why it no longer counts.
    tiers : a keyed digest that all tiers of one plan have in common.
    """

    number: int
    created: str
    folder: str
    manifest_sha256: str
    content: str
    plan_digest: str
    key_commitment: str
    identity: str
    records: str
    fingerprint: Fingerprint
    variables: Mapping[str, Any]
    methods: tuple[Any, ...]
    noise: Mapping[str, Any]
    drawn: tuple[str, ...]
    order_of_rows: str
    paths: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    pending: bool = False
    replaced_by: int | None = None
    forgotten: str = ""
    tiers: str = ""

    @property
    def counts(self) -> bool:
        """Whether it may be out, and so counts together with the next."""
        return not self.forgotten

    def is_of_same_records(self, other: Entry) -> bool:
        """Whether both were made of the same records, or of many of them."""
        return (
            self.records == other.records or self.fingerprint.compare(other.fingerprint) == "same"
        )

    @property
    def state(self) -> str:
        """Whether it counts, in words."""
        if self.forgotten:
            return f"forgotten: {self.forgotten}"
        if self.replaced_by is not None:
            return f"counts; overwritten by {self.replaced_by}"
        return "counts"

    def plain(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {
            **{name: getattr(self, name) for name in self.__dataclass_fields__},
            "fingerprint": self.fingerprint.plain(),
            "methods": list(self.methods),
            "drawn": list(self.drawn),
        }

    def summary(self) -> dict[str, Any]:
        """What a custodian wants to read: no hashes."""
        hidden = ("fingerprint", "records", "content", "paths", "pending", "tiers")
        shown = {name: value for name, value in self.plain().items() if name not in hidden}
        return {**shown, "state": self.state}

    @classmethod
    def from_plain(cls, stored: Mapping[str, Any]) -> Entry:
        """As it was written down."""
        return cls(
            **{
                **stored,
                "fingerprint": Fingerprint.from_plain(stored["fingerprint"]),
                "methods": tuple(stored["methods"]),
                "drawn": tuple(stored["drawn"]),
            }
        )


def find_default_folder() -> Path:
    """Where the ledger is where nobody says otherwise."""
    if folder := os.environ.get(PLACE):
        return Path(folder).expanduser()
    state = os.environ.get("XDG_STATE_HOME")
    try:
        return (Path(state) if state else Path.home() / ".local" / "state") / "sfumato" / "ledger"
    except RuntimeError:
        raise ReleaseError(
            "There is no place for the ledger of releases: nobody's home is known.",
            hint=f"set {PLACE} to a private folder.",
        ) from None


class Ledger:
    """The releases that were written from here, in the order they were written.

    Parameters
    ----------
    folder : where it lies; see `find_default_folder`.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = find_default_folder() if folder is None else Path(folder)
        # Looked up first and then written down: taken once.
        self._taken: tuple[Dataset, Fingerprint] | None = None

    @property
    def exists(self) -> bool:
        """Whether anything was ever written down here."""
        return (self.folder / _LEDGER).exists() or (self.folder / _KEY).exists()

    @contextmanager
    def lock(self, progress: Progress | None = None) -> Iterator[None]:
        """Nobody else makes a release meanwhile: two made at once would not know of each other."""
        path = self.folder / _LOCK
        folder = str(path.parent.resolve())
        if folder in _get_locks():
            yield  # by ourselves, further out: waiting would be for ever
            return
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self.folder / _RECORDS).mkdir(mode=0o700, exist_ok=True)
            with take_abandoned_lock(path) as is_free:
                if not is_free and path.exists():
                    (progress or silent)("waiting for another release to be written", 0, 1)
        except OSError as error:
            raise ReleaseError(
                f"The ledger of releases in '{self.folder}' cannot be written: "
                f"{error.strerror or 'the disk failed'}.",
                hint=f"set {PLACE} to a private folder that can be written to.",
            ) from None
        with hold_lock(path):
            _get_locks().add(folder)
            try:
                yield
            finally:
                _get_locks().discard(folder)

    @property
    def key(self) -> Key:
        """The ledger's secret; made with the first entry."""
        path = self.folder / _KEY
        if not path.exists():
            if (self.folder / _LEDGER).exists():
                raise self._refuse("its key is gone")
            write_file(path, f"{Key.new().text}\n", mode=PRIVATE)
        return Key.of(path)

    def read(self) -> list[Entry]:
        """All entries; a damaged ledger is an error, never an empty one."""
        path = self.folder / _LEDGER
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            if any((self.folder / _RECORDS).glob("*.parquet")):
                raise self._refuse(f"its {_LEDGER} is gone") from None
            return []
        except OSError:
            raise self._refuse("it cannot be read") from None
        body, _, signature = content.rpartition(b"\n")
        if not hmac.compare_digest(signature, self._sign(body).encode()):
            raise self._refuse("it was changed, or is damaged")
        try:
            stored = json.loads(body)
            if stored["version"] != VERSION:
                raise self._refuse(f"it is of version {stored['version']!r:.20}")
            return [Entry.from_plain(entry) for entry in stored["entries"]]
        except (ValueError, KeyError, TypeError):
            raise self._refuse("it is damaged") from None

    def compare_people(self, data: Dataset) -> list[tuple[Entry, Likeness]]:
        """The entries that count, each with whether its release was made of the same people."""
        entries = [entry for entry in self.read() if entry.counts]
        if not entries:
            return []
        who, mine = self.digest_records(data), self.take_fingerprint(data)
        return [
            (entry, "same" if entry.records == who else mine.compare(entry.fingerprint))
            for entry in entries
        ]

    def digest_records(self, data: Dataset) -> str:
        """Who is in the data, as a keyed digest."""
        return self.digest(f"{data.identity.basis}\n{data.identity.total()}")

    def digest_content(self, released: Dataset) -> str:
        """The cells of a release, whatever the order of its rows, as a keyed digest."""
        return self.digest(values_digest(released))

    def take_fingerprint(self, data: Dataset) -> Fingerprint:
        """By what the same people are recognised in other data."""
        if self._taken is None or self._taken[0] is not data:
            self._taken = (data, take_fingerprint(data, self.key))
        return self._taken[1]

    def digest(self, text: str) -> str:
        """A digest that only the ledger's key can make."""
        return hmac.new(self.key.subkey("digest"), text.encode(), hashlib.sha256).hexdigest()

    def add(self, entry: Entry, ids: Words | None) -> Entry:
        """Write an entry down before its release is put in place, with who stands on which row.

        Without ids (on a cluster) its records are found again only in the very same original.
        """
        entries = self.read()
        if not entries:
            # First of all: records without a ledger would look as if the ledger were gone.
            self._write(entries)
        number = 1 + max((known.number for known in entries), default=0)
        numbered = replace(entry, number=number, created=_now(), pending=True)
        try:
            if ids is not None:
                with replace_file(self._get_records(number), mode=PRIVATE) as sibling:
                    pl.DataFrame({"id": ids[:, 0]}).write_parquet(sibling)
            self._write([*entries, numbered])
        except BaseException:
            self._get_records(number).unlink(missing_ok=True)
            raise
        return numbered

    def settle(
        self, number: int, *, replaced: Path | None = None, beside: Collection[int] = ()
    ) -> None:
        """Say that a release is in its place, and keep the one whose place it took.

        Parameters
        ----------
        replaced : where that one lies now, until it is deleted.
        beside : the entries of other tables of the same release.
        """
        entries = {entry.number: entry for entry in self.read()}
        this = entries[number] = replace(entries[number], pending=False)
        for known in list(entries.values()) if replaced is not None else ():
            is_here = known.folder == this.folder and known.number not in {number, *beside}
            if is_here and known.counts and known.replaced_by is None:
                self._keep_overwritten(known, replaced)  # type: ignore[arg-type]
                entries[known.number] = replace(known, replaced_by=number)
        self._write(list(entries.values()))

    def _keep_overwritten(self, entry: Entry, folder: Path) -> None:
        """Copy a release that is about to go, if it is the one that was written."""
        kept = self.find_overwritten(entry)
        if kept.exists() or not is_file_with(folder / MANIFEST, entry.manifest_sha256):
            return
        kept.parent.mkdir(mode=0o700, exist_ok=True)
        copy_privately(folder, kept)

    def find_overwritten(self, entry: Entry) -> Path:
        """Where a release is kept whose place another one took."""
        # Several tables of one release are one folder, with one manifest.
        return self.folder / _OVERWRITTEN / entry.manifest_sha256[:32]

    def remove(self, number: int) -> None:
        """Take out an entry whose release never came into being."""
        self._write([entry for entry in self.read() if entry.number != number])
        self._get_records(number).unlink(missing_ok=True)

    def forget(self, number: int, reason: str) -> Entry:
        """Let a release no longer count: nobody has it. The entry stays, with the reason."""
        if not reason.strip():
            raise ReleaseError(
                "A release is forgotten only for a reason.",
                hint='say why it does not count, for instance "never passed on".',
            )
        entry = self.get(number)
        forgotten = replace(entry, forgotten=f"{reason.strip()} ({_now()})")
        entries = [forgotten if known.number == number else known for known in self.read()]
        self._write(entries)
        kept = self.find_overwritten(entry)
        if not any(known.counts and self.find_overwritten(known) == kept for known in entries):
            shutil.rmtree(kept, ignore_errors=True)
        return forgotten

    def get(self, number: int) -> Entry:
        """One entry by its number."""
        for entry in self.read():
            if entry.number == number:
                return entry
        raise ReleaseError(f"The ledger has no release {number}.", hint="see: sfumato ledger list")

    def read_ids(self, entry: Entry) -> np.ndarray | None:
        """The keyed ids of the records of a release, row by row; None where they are gone."""
        try:
            return pl.read_parquet(self._get_records(entry.number))["id"].to_numpy()
        except (OSError, pl.exceptions.PolarsError):
            return None

    def _get_records(self, number: int) -> Path:
        return self.folder / _RECORDS / f"{number:06d}.parquet"

    def _write(self, entries: list[Entry]) -> None:
        stored = {"version": VERSION, "entries": [entry.plain() for entry in entries]}
        body = json.dumps(stored, ensure_ascii=False, allow_nan=False, default=str).encode()
        write_file(self.folder / _LEDGER, body + b"\n" + self._sign(body).encode(), mode=PRIVATE)

    def _sign(self, body: bytes) -> str:
        return hmac.new(self.key.subkey("ledger"), body, hashlib.sha256).hexdigest()

    def _refuse(self, what: str) -> ReleaseError:
        return ReleaseError(
            f"The ledger of releases in '{self.folder}' cannot be used: {what}.", hint=_HINT
        )


def _get_locks() -> set[str]:
    """The ledgers whose lock this thread holds."""
    locks: set[str] = _of_thread.__dict__.setdefault("held", set())
    return locks


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
