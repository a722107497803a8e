"""Open a release folder: its data by the manifest, paired with the original, judged again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sfumato.cells.vocabulary import vocabulary_from_json
from sfumato.data import Dataset, read
from sfumato.data.identity import Identity, match_identities
from sfumato.errors import ReleaseError
from sfumato.evidence import Evidence
from sfumato.io.json_reader import parse_json
from sfumato.kernels.arrays import Positions
from sfumato.plan import Plan
from sfumato.plan.targets import Judgement, judge
from sfumato.randomness import Key, keyed_order
from sfumato.release import values_digest
from sfumato.run import leave_out_composition, take_measures
from sfumato.schema import Column, Schema
from sfumato.storage.contents import (
    ACCREDITED,
    ACCREDITED_FILE,
    CUSTODY,
    MANIFEST,
    RECORD_FILE,
    REMOVED,
    is_plain_file,
)


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
        return (self.folder / CUSTODY / "custody.json").is_file()

    @property
    def noise(self) -> Mapping[str, Any]:
        """The noise as described here: in full where the accredited manifest is here too."""
        manifest = read_accredited(self.folder) or self.manifest
        noise: Mapping[str, Any] = manifest.get("noise", {})
        return noise

    def key(self) -> Key:
        """The key of this release; only the custodian has it."""
        self._require_custody()
        return Key.of(self.folder / CUSTODY / "key")

    def plan(self) -> Plan:
        """The plan of this release; only the custodian has it."""
        self._require_custody()
        return Plan.load(self.folder / CUSTODY / "plan.toml")

    def record(self) -> dict[str, Any]:
        """The custody record; only the custodian has it."""
        self._require_custody()
        return read_custody(self.folder)

    def _require_custody(self) -> None:
        if not self.has_custody:
            raise ReleaseError(
                "The custody record is not here: key, plan and evidence are with the custodian.",
                hint="use the custodian's copy of the release.",
            )

    def paired(self, original: Dataset) -> Dataset:
        """The released records with the identity they have in the original."""
        declared = original.with_schema(self.plan().schema)
        if declared.identity.total() != self.record()["input"]["records_digest"]:
            raise ReleaseError(
                "These are not the data that the release was made from.",
                hint="pass the exact file that was protected.",
            )
        identity = Identity.known(
            declared.identity.basis, declared.identity.digests[self.find_rows(declared)]
        )
        return Dataset(self.dataset.frame, self.dataset.schema, self.dataset.source, identity)

    def is_from(self, original: Dataset) -> bool:
        """Whether these are the very data that were protected: the same values, in any file."""
        recorded = self.record()["input"]
        declared = original.with_schema(self.plan().schema)
        digests = declared.identity.total(), values_digest(declared)
        return digests == (recorded["records_digest"], recorded["values_digest"])

    def find_rows(self, original: Dataset) -> Positions:
        """Which original record stands on each row of the file."""
        key = self.key()
        ids = original.identity.ids(key)
        rows = np.arange(len(ids))
        if (removed := self.folder / CUSTODY / REMOVED).is_file():
            rows = rows[match_identities(pl.read_parquet(removed).to_numpy(), ids) < 0]
        if self.manifest["order_of_rows"] == "as given":
            return rows
        # Releases made before orders differed from plan to plan have none in their record.
        arrangement = self.record().get("arrangement")
        return rows[keyed_order(ids[rows], key, *([arrangement] if arrangement else []))]

    def judge(
        self, plan: Plan, original: Dataset | None
    ) -> tuple[tuple[Judgement, ...], dict[str, Evidence]]:
        """Check the plan's targets against exactly these bytes."""
        targets, measures = leave_out_composition(plan)
        released = self.dataset
        if original is not None and released.given_identity is None:
            released = self.paired(original)
        declared = None if original is None else original.with_schema(plan.schema)
        # Only what is compared needs the original: a target is held against the file as it is.
        evidence = take_measures(measures, declared, released, baselines=None)
        return judge(targets, measures, evidence), evidence


def open_release(folder: Path) -> OpenedRelease:
    """Open a release: the data by the types in its manifest, and the manifest itself."""
    return open_data(folder, read_manifest(folder))


def open_data(
    folder: Path, manifest: Mapping[str, Any], identity: Identity | None = None
) -> OpenedRelease:
    """Open the data of a release as a manifest describes them."""
    path = folder / manifest["data"]["file"]
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
                **vocabulary_from_json(entry, entry["kind"]),
            )
            for name, entry in manifest["variables"].items()
        }
        records = manifest["records"]
    except (KeyError, TypeError, AttributeError, ValueError):
        raise _refuse_unreadable(folder) from None
    data = read(path, **options)
    if tuple(schema) != data.columns or len(data) != records:
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
    """The public manifest of a release."""
    try:
        manifest: dict[str, Any] = parse_json(_read_file(folder, MANIFEST))
        name, _ = manifest["data"]["file"], manifest["data"]["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        raise _refuse_unreadable(folder) from None
    if not isinstance(name, str) or Path(name).name != name:
        raise ReleaseError("The manifest names a data file outside the release.")
    if name in (MANIFEST, CUSTODY, ACCREDITED) or not name.isprintable():
        raise ReleaseError("The manifest names a data file that is none.")
    return manifest


def _read_file(folder: Path, name: str) -> bytes:
    """The bytes of a file; what is no plain file is not there, so that nobody makes us wait."""
    if not is_plain_file(folder / name):
        raise FileNotFoundError
    return (folder / name).read_bytes()


def read_accredited(folder: Path) -> dict[str, Any] | None:
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
