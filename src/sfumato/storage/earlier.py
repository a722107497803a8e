"""Find earlier releases of the same records, and pair them with the original of today."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.data import Dataset
from sfumato.data.identity import match_identities
from sfumato.errors import ReleaseError, SfumatoError
from sfumato.io import frames
from sfumato.io.json_reader import parse_json
from sfumato.kernels.arrays import Positions
from sfumato.release import Release
from sfumato.risk.composition import EarlierRelease
from sfumato.run.composition import NOT_ON_CLUSTER, place_records
from sfumato.schema import Schema
from sfumato.storage.contents import (
    CUSTODY,
    MANIFEST,
    PARTIAL,
    RECORD_FILE,
    is_file_with,
    is_plain_file,
    sha256,
)
from sfumato.storage.fingerprint import share_people
from sfumato.storage.ledger import Entry, Ledger
from sfumato.storage.opening import OpenedRelease, open_release

_AGREEMENT = 0.5
"""How far beyond chance unchanged cells must agree with today's original, of what is possible."""


@dataclass(frozen=True)
class FoundRelease:
    """An earlier release: where it lies, and what the ledger knows of it.

    Parameters
    ----------
    folder : where it lies, or lay.
    key_commitment, identity : of its key, and by what its records were told apart.
    entry : in the ledger; None where only its folder was found.
    unsure : whether nothing tells if it is of the same people.
    """

    folder: Path
    key_commitment: str
    identity: str
    entry: Entry | None = None
    unsure: bool = False

    @property
    def label(self) -> str:
        """How people call it."""
        if self.entry is not None and self.entry.replaced_by is not None:
            return f"release {self.entry.number} of the ledger, which was overwritten"
        return f"'{self.folder.name}'"


def find_earlier(release: Release, target: Path, ledger: Ledger | None) -> list[FoundRelease]:
    """Releases of the same records: those in the ledger, and those in folders beside the target.

    Also those of which nothing tells whether they are (`unsure`). One that is about to be
    overwritten counts, if the ledger knows it: somebody may have it.
    """
    if ledger is not None:
        _settle_pending(ledger)
    beside = dict(list_beside(target))
    moved = {str(record.get("manifest_sha256")): path for path, record in beside.items()}
    releases: list[FoundRelease] = []
    for entry, likeness in [] if ledger is None else ledger.compare_people(release.original):
        if likeness == "others" or ledger is None:
            continue
        folder = Path(entry.folder)
        if not is_file_with(folder / MANIFEST, entry.manifest_sha256):
            kept = ledger.find_overwritten(entry)
            folder = moved.get(entry.manifest_sha256, kept if kept.exists() else folder)
        releases.append(
            FoundRelease(folder, entry.key_commitment, entry.identity, entry, likeness == "unknown")
        )
    settled = set() if ledger is None else {entry.manifest_sha256 for entry in ledger.read()}
    mine = release.original.identity.total()
    for path, record in beside.items():
        # Those that the ledger knows are there already, or do not count.
        if path == target or record.get("manifest_sha256") in settled:
            continue
        if record["input"].get("records_digest") == mine:
            commitment, basis = record.get("key_commitment"), record["input"].get("identity")
            releases.append(FoundRelease(path, str(commitment), str(basis)))
    return releases


def _settle_pending(ledger: Ledger) -> None:
    """Find out what became of releases whose writers died; nobody writes while we hold the lock.

    One whose folder is in place came into being. One that still lies in the folder it was prepared
    in did not. Where neither is there, it may have been passed on, and counts. What it replaced
    lies in the folder it was prepared in.
    """
    entries = ledger.read()
    for entry in entries:
        if not entry.pending:
            continue
        folder = Path(entry.folder)
        remains = [path / MANIFEST for path in folder.parent.glob(f"{PARTIAL}*")]
        partial_digests = {sha256(path) for path in remains if is_plain_file(path)}
        if is_file_with(folder / MANIFEST, entry.manifest_sha256):
            replaced = next(
                (
                    path.parent
                    for path in remains
                    for known in entries
                    if known.folder == entry.folder and is_file_with(path, known.manifest_sha256)
                ),
                None,
            )
            beside = [
                known.number
                for known in entries
                if known.pending and known.manifest_sha256 == entry.manifest_sha256
            ]
            ledger.settle(entry.number, replaced=replaced, beside=beside)
        elif entry.manifest_sha256 in partial_digests:
            ledger.remove(entry.number)


def list_beside(target: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The custody records of releases in the same folder, as far as they can be read."""
    for path in sorted(target.parent.glob(f"*/{CUSTODY}")):
        folder = path.parent
        if folder.name.startswith(".") or not is_plain_file(folder / RECORD_FILE):
            continue  # one that is just being written, or none
        try:
            record = parse_json((folder / RECORD_FILE).read_bytes())
        except (OSError, ValueError):
            record = None
        if isinstance(record, dict) and isinstance(record.get("input"), dict):
            if not record.get("draft"):  # nobody has a draft
                yield folder, record
        else:
            yield folder, {"input": {}, "damaged": True}


def pair_earlier(
    earlier: FoundRelease, release: Release, ledger: Ledger | None
) -> EarlierRelease | None:
    """An earlier release with the identity its records have today, or why it cannot be paired.

    None where it turns out to be of other people.
    """
    if not frames.is_in_memory(release.original.frame):
        return EarlierRelease(earlier.label, reason=NOT_ON_CLUSTER)
    try:
        require_unchanged_release(earlier)
        opened = open_release(earlier.folder)
        rows = match_earlier(earlier, opened, release.original, ledger)
        if rows is None:
            return None
        dataset = place_records(release.original, opened.dataset, rows)
    except SfumatoError as error:
        return EarlierRelease(earlier.label, reason=error.what)
    keeps_order = opened.manifest["order_of_rows"] == "as given"
    return EarlierRelease(earlier.label, dataset, keeps_order=keeps_order)


def require_unchanged_release(earlier: FoundRelease) -> None:
    """Refuse an earlier release that is not where the ledger knows it."""
    entry = earlier.entry
    if entry and not is_file_with(earlier.folder / MANIFEST, entry.manifest_sha256):
        why = f"its folder is gone or was changed (release {entry.number} of the ledger)."
        if entry.pending:
            why = (
                "its writer was stopped, and nobody knows whether it came into being and was moved "
                f"(release {entry.number} of the ledger)."
            )
        raise ReleaseError(why)


def match_earlier(
    earlier: FoundRelease, opened: OpenedRelease, original: Dataset, ledger: Ledger | None
) -> Positions | None:
    """On which original record of today each row stands, -1 on none; None if of other people."""
    rows = _find_rows(earlier, opened, original, ledger)
    if _agrees(opened, original, rows):
        return rows
    if earlier.entry is None or ledger is None:
        return None
    if not share_people(
        ledger.take_fingerprint(original).sketches, earlier.entry.fingerprint.sketches
    ):
        return None
    # A few numbers that were given to somebody else acquit nobody.
    raise ReleaseError("its people have other identifiers in the data of today.")


def _find_rows(
    earlier: FoundRelease, opened: OpenedRelease, original: Dataset, ledger: Ledger | None
) -> Positions:
    """Which original record of today stands on each row; -1 where it is not there any more."""
    then = opened.record()["input"]
    declared = _declare_as(original, opened, list(then["roles"]))
    if declared.identity.basis != then["identity"]:
        raise ReleaseError(
            f"its records were told apart by {then['identity']}, which these data do not have."
        )
    if declared.identity.total() == then["records_digest"]:
        return opened.find_rows(declared)
    ids = None if ledger is None or earlier.entry is None else ledger.read_ids(earlier.entry)
    if ids is None or len(ids) != len(opened.dataset):
        raise ReleaseError("it was made from other records, and nothing says which are the same.")
    today = declared.identity.ids(opened.key()).copy()
    today[:, 1] = 0  # the ledger keeps the first half of each id
    rows = match_identities(today, np.stack([ids, np.zeros_like(ids)], axis=1))
    if not (rows >= 0).any():
        raise ReleaseError("none of its records is found in the data of today.")
    return rows


def _declare_as(original: Dataset, opened: OpenedRelease, variables: list[str]) -> Dataset:
    """The original of today with the variables and roles of then: those tell records apart."""
    declared = {
        name: column for name, column in opened.plan().schema.items() if name in original.schema
    }
    if original.given_identity is not None:
        return original.with_schema(declared)
    since = [name for name in original.columns if name not in variables]
    frame = frames.drop_columns(original.frame, since) if since else original.frame
    return Dataset(frame, original.schema.without(since)).with_schema(Schema(declared))


def _agrees(opened: OpenedRelease, original: Dataset, rows: Positions) -> bool:
    """Whether what the release shows unchanged is what the original of today holds.

    Many people have the numbers from 1 to n. Where those of others were taken for the same, no
    other variable agrees better than chance (Cohen's kappa). Without such a variable it must be
    taken to be so.
    """
    plan, placed = opened.plan(), rows >= 0
    changed = {name for step in plan.steps for name in step.touches(plan.schema)}
    kappas = []
    for name in opened.dataset.columns:
        if name in changed or name not in original.schema:
            continue
        shown = frames.to_canonical_text(
            frames.get_column(opened.dataset.frame, name).filter(placed)
        )
        truth = frames.to_canonical_text(
            frames.get_column(original.frame, name).gather(rows[placed])
        )
        shares = shown.value_counts(normalize=True)["proportion"].to_numpy()
        chance = float((shares**2).sum())
        if chance < 1:
            agreement = float(shown.eq_missing(truth).to_numpy().mean())
            kappas.append((agreement - chance) / (1 - chance))
    return not kappas or max(kappas) >= _AGREEMENT
