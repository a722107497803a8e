"""Open a release folder: its data by the manifest, paired with the original, judged again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sfumato.cells.vocabulary import vocabulary_from_json
from sfumato.data import Dataset, read, scan
from sfumato.data.identity import Identity, match_identities
from sfumato.engines import engine_for
from sfumato.errors import ReleaseError
from sfumato.evidence import Evidence
from sfumato.io import frames
from sfumato.io.json_reader import parse_json
from sfumato.kernels.arrays import Positions, Words
from sfumato.plan import Plan
from sfumato.plan.targets import Judgement, judge
from sfumato.randomness import Key, keyed_order
from sfumato.release import buckets_digest, values_digest
from sfumato.run.composition import leave_out_composition, select_targeted
from sfumato.run.measuring import take_measures
from sfumato.schema import Column, Schema
from sfumato.storage.cluster import Arrangement, list_parts, pair_parts, read_parts
from sfumato.storage.contents import (
    ACCREDITED,
    ACCREDITED_FILE,
    CUSTODY,
    MANIFEST,
    PERSON,
    PLAN_FILE,
    RECORD_FILE,
    RECORDS,
    REMOVED,
    is_plain_file,
)

_PART = re.compile(r"part-\d{5,}\.(parquet|csv)")


@dataclass(frozen=True, eq=False)
class OpenedRelease:
    """A release as it is on the disk."""

    folder: Path
    dataset: Dataset
    manifest: Mapping[str, Any]

    @property
    def data(self) -> Any:
        """The protected data as a frame."""
        return self.dataset.frame

    @property
    def has_custody(self) -> bool:
        """Whether the private part is here: it is for the custodian, not for an analyst."""
        return (self.folder / RECORD_FILE).is_file()

    @property
    def noise(self) -> Mapping[str, Any]:
        """The noise as described here: in full where the accredited manifest is here too."""
        manifest = read_accredited_manifest(self.folder) or self.manifest
        noise: Mapping[str, Any] = manifest.get("noise", {})
        return noise

    def key(self) -> Key:
        """The key of this release; only the custodian has it."""
        require_custody(self.folder)
        return Key.of(self.folder / CUSTODY / "key")

    def plan(self) -> Plan:
        """The plan of this release; only the custodian has it."""
        return read_plan_of(self.folder)

    def record(self) -> dict[str, Any]:
        """The custody record; only the custodian has it."""
        require_custody(self.folder)
        return read_custody(self.folder)

    def paired(self, original: Dataset) -> Dataset:
        """The released records with the identity they have in the original."""
        declared = _prepare(self.plan().declare(original))
        if declared.identity.total() != self.record()["input"]["records_digest"]:
            raise ReleaseError(
                "These are not the data that the release was made from.",
                hint="pass the exact file that was protected.",
            )
        if frames.is_distributed(declared.frame):
            return self._pair_on_cluster(declared)
        identity = declared.identity.take(self.find_rows(declared))
        return Dataset(self.dataset.frame, self.dataset.schema, self.dataset.source, identity)

    def _pair_on_cluster(self, original: Dataset) -> Dataset:
        """The released records beside the ids of the original on its cluster."""
        if self.manifest["order_of_rows"] == "as given":
            raise ReleaseError(
                "The rows of this release are in the order of the original, which records on a "
                "cluster do not have.",
                hint="read the original on one machine.",
            )
        data, purpose = self.manifest["data"], str(self.record()["arrangement"])
        arrangement = Arrangement(self.key(), purpose, data.get("files", 1))
        frame, ids = pair_parts(
            self.folder, data, _read_options(data), original, arrangement, self._read_removed()
        )
        return Dataset(frame, self.dataset.schema, self.dataset.source, ids)

    def _read_removed(self) -> Words:
        """The keyed ids of the records that were left out."""
        path = self.folder / CUSTODY / REMOVED
        return pl.read_parquet(path).to_numpy() if path.is_file() else np.empty((0, 2), np.uint64)

    def is_from(self, original: Dataset) -> bool:
        """Whether these are the very data that were protected: the same values, in any file."""
        recorded = self.record()["input"]
        declared = _prepare(self.plan().declare(original))
        in_buckets = str(recorded["values_digest"]).startswith("buckets:")
        if frames.is_distributed(declared.frame) and not in_buckets:
            raise ReleaseError(
                "The values of this release's original were digested on one machine, and those "
                "on a cluster are digested otherwise.",
                hint="verify it on one machine, or without the original.",
            )
        digests = (
            declared.identity.total(),
            (buckets_digest if in_buckets else values_digest)(declared),
        )
        return digests == (recorded["records_digest"], recorded["values_digest"])

    def find_rows(self, original: Dataset) -> Positions:
        """Which original record stands on each row of the file."""
        key = self.key()
        ids = original.identity.ids(key)
        rows = np.arange(len(ids))
        if len(removed := self._read_removed()):
            rows = rows[match_identities(removed, ids) < 0]
        if self.manifest["order_of_rows"] == "as given":
            return rows
        return rows[keyed_order(ids[rows], key, self.record()["arrangement"])]

    def _add_persons(self, released: Dataset) -> Dataset:
        """The records with whose they are, where the custody record tells it."""
        path = self.folder / CUSTODY / RECORDS
        if not path.is_file() or PERSON not in pl.read_parquet_schema(path):
            return released
        persons = pl.read_parquet(path, columns=[PERSON])[PERSON].to_numpy().astype(np.int64)
        return replace(released, given_identity=released.identity.with_persons(persons))

    def judge(
        self, plan: Plan, original: Dataset | None, *, targeted: bool = False
    ) -> tuple[tuple[Judgement, ...], dict[str, Evidence]]:
        """Check the plan's targets against exactly these bytes.

        `targeted` takes the measures behind targets only, and not what else the plan measures.
        """
        targets, measures = (select_targeted if targeted else leave_out_composition)(plan)
        released = self.dataset
        if original is None:
            released = self._add_persons(released)
        elif released.given_identity is None:
            released = self.paired(original)
        declared = None if original is None else _prepare(plan.declare(original))
        # Only what is compared needs the original: a target is checked against the file as it is.
        evidence = take_measures(measures, declared, released, baselines=None)
        return judge(targets, measures, evidence), evidence


def _prepare(data: Dataset) -> Dataset:
    return engine_for(data.frame).prepare(data)


def require_custody(folder: Path) -> None:
    """Refuse a folder without its private part."""
    if not (folder / RECORD_FILE).is_file():
        raise ReleaseError(
            "The custody record is not here: key, plan and evidence are with the custodian.",
            hint="use the custodian's copy of the release.",
        )


def read_plan_of(folder: Path) -> Plan:
    """The plan of a release; only the custodian has it."""
    require_custody(folder)
    return Plan.load(folder / PLAN_FILE)


def open_release(folder: str | Path, *, like: Any = None) -> OpenedRelease:
    """Open a release: `data`, a frame with the types that its manifest declares, and `manifest`.

    Parameters
    ----------
    folder : the release.
    like : a frame, or the session of a cluster: its data are then read on the same cluster.
    """
    path = Path(folder)
    return open_data(path, read_manifest(path), like=like)


def open_data(
    folder: Path,
    manifest: Mapping[str, Any],
    identity: Identity | None = None,
    *,
    like: Any = None,
) -> OpenedRelease:
    """Open the data of a release as a manifest describes them."""
    paths = [folder / name for name in list_parts(manifest["data"])]
    for path in paths:
        if not path.is_file():
            raise ReleaseError(f"The file '{path.name}' of the release is missing.")
    try:
        options = _read_options(manifest["data"])
        schema = {
            name: Column(
                role=entry["role"],
                kind=entry["kind"],
                missing=entry["missing_codes"],
                cells=entry.get("cells"),
                formula=entry.get("formula", ""),
                **vocabulary_from_json(entry, entry["kind"]),
            )
            for name, entry in manifest["variables"].items()
        }
        records = manifest["records"]
    except (KeyError, TypeError, AttributeError, ValueError):
        raise _refuse_unreadable(folder) from None
    if frames.is_distributed(like):
        session = getattr(like, "sparkSession", like)
        data = Dataset(read_parts(session, folder, manifest["data"], options))
    elif frames.is_lazy(like):
        data = scan(paths[0], **options)
    else:
        data = read(paths[0], **options)
        if len(paths) > 1:
            others = [read(path, **options).frame for path in paths[1:]]
            data = replace(data, frame=pl.concat([data.frame, *others]))
    # On a cluster, to count them is to read them all: what is read is checked by its digest.
    counted = records if frames.is_distributed(like) else len(data)
    if tuple(schema) != data.columns or counted != records:
        raise ReleaseError("The data have other variables or records than the manifest says.")
    return OpenedRelease(
        folder, Dataset(data.frame, Schema(schema), data.source, identity), manifest
    )


def _read_options(data: Mapping[str, Any]) -> dict[str, Any]:
    """How the data file is to be read: as it was written, with nothing inferred."""
    if "delimiter" not in data:
        return {}  # not a text format: the types are in the file
    options = {"types": data["types"], "encoding": "utf-8"}
    options |= {"delimiter": data["delimiter"], "decimal": data["decimal"]}
    return options | ({"formulas": "unescape"} if data["formulas"] == "escape" else {})


def read_manifest(folder: Path) -> dict[str, Any]:
    """The public manifest of a release of one table."""
    manifest = read_any_manifest(folder)
    if is_of_several(manifest):
        raise ReleaseError(
            f"'{folder}' is a release of several tables.",
            hint="verify it as a whole; in Python, sf.open_tables gives each of its tables.",
        )
    return manifest


def is_of_several(manifest: Mapping[str, Any]) -> bool:
    """Whether a release holds several linked tables."""
    return "tables" in manifest


def list_manifests(manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The manifests of the tables of a release: of most, its own."""
    return list(manifest["tables"].values()) if is_of_several(manifest) else [manifest]


def list_data_files(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Every data file of a release, and its digest."""
    parts = (list_parts(table["data"]) for table in list_manifests(manifest))
    return {name: digest for part in parts for name, digest in part.items()}


def read_any_manifest(folder: Path) -> dict[str, Any]:
    """The public manifest of a release, of one table or of several."""
    try:
        manifest: dict[str, Any] = parse_json(_read_file(folder, MANIFEST))
        tables = list_manifests(manifest)
        for table in tables:
            _ = table["data"]["file"], table["data"]["sha256"], table["data"].get("parts", {})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise _refuse_unreadable(folder) from None
    for table in tables:
        _require_own_files(table)
    return manifest


def _require_own_files(manifest: Mapping[str, Any]) -> None:
    name = manifest["data"]["file"]
    if not isinstance(name, str) or Path(name).name != name:
        raise ReleaseError("The manifest names a data file outside the release.")
    if name in (MANIFEST, CUSTODY, ACCREDITED) or not name.isprintable():
        raise ReleaseError("The manifest names a data file that is none.")
    parts = manifest["data"].get("parts", {})
    if not isinstance(parts, dict) or not all(_PART.fullmatch(part) for part in parts):
        raise ReleaseError("The manifest names parts of the data that are none.")


def _read_file(folder: Path, name: str) -> bytes:
    """The bytes of a file; what is no plain file is not there, so that nobody makes us wait."""
    if not is_plain_file(folder / name):
        raise FileNotFoundError
    return (folder / name).read_bytes()


def read_accredited_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest for accredited analysts, where it is here."""
    try:
        manifest: dict[str, Any] | None = parse_json(_read_file(folder, ACCREDITED_FILE))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        manifest = None
    if not isinstance(manifest, dict):
        raise ReleaseError(f"{ACCREDITED_FILE} of this release is damaged.")
    return manifest


def _refuse_unreadable(folder: Path) -> ReleaseError:
    return ReleaseError(
        f"'{folder}' is not a release: it has no readable {MANIFEST}.",
        hint="pass the folder that `sfumato protect` wrote.",
    )


def read_custody(folder: Path) -> dict[str, Any]:
    """The custody record of a release."""
    try:
        record: dict[str, Any] = parse_json(_read_file(folder, RECORD_FILE))
        _ = record["manifest_sha256"], record["plan_digest"], record["files"].items()
        _ = record["input"]["records_digest"], record["input"]["values_digest"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise ReleaseError("The custody record of this release is damaged.") from None
    return record
