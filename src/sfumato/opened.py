"""A release as it lies on the disk: opened, paired with its original, and checked again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sfumato.data import Dataset, read
from sfumato.errors import ReleaseError
from sfumato.evidence import Evidence
from sfumato.frames import Positions
from sfumato.identity import Identity, matched
from sfumato.plan import Plan
from sfumato.randomness import Key, keyed_order
from sfumato.release import aligned
from sfumato.schema import Column, Schema
from sfumato.targets import Judgement, judge

MANIFEST = "manifest.json"
CUSTODY = "custody"
RECORDS = "records.parquet"
REMOVED = "removed.parquet"


def plain_json(content: Mapping[str, Any]) -> bytes:
    """The bytes in which manifests and custody records are written."""
    return json.dumps(content, indent=2, ensure_ascii=False, default=str, allow_nan=False).encode()


def sha256(path: Path) -> str:
    """Digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, eq=False)
class Opened:
    """A release as it lies on the disk."""

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

    def key(self) -> Key:
        """The key of this release; only the custodian has it."""
        return Key.of(self.folder / CUSTODY / "key")

    def plan(self) -> Plan:
        """The plan of this release; only the custodian has it."""
        return Plan.load(self.folder / CUSTODY / "plan.toml")

    def paired(self, original: Dataset) -> Dataset:
        """The released records with the identity they have in the original."""
        if not self.has_custody:
            raise ReleaseError(
                "The custody record is not here, so nothing says which records belong together.",
                hint="use the custodian's copy of the release.",
            )
        known = original.with_schema(self.plan().schema)
        if known.identity.total() != self.record()["input"]["records_digest"]:
            raise ReleaseError(
                "These are not the data that the release was made from.",
                hint="pass the very file that was protected.",
            )
        identity = Identity(known.identity.basis, known.identity.digests[self._rows(known)])
        return Dataset(self.dataset.frame, self.dataset.schema, self.dataset.source, identity)

    def _rows(self, original: Dataset) -> Positions:
        """Which original record stands on each row of the file."""
        key = self.key()
        ids = original.identity.ids(key)
        kept = np.arange(len(ids))
        if (removed := self.folder / CUSTODY / REMOVED).is_file():
            kept = kept[matched(pl.read_parquet(removed).to_numpy(), ids) < 0]
        if self.manifest["order_of_rows"] == "as given":
            return kept
        return kept[keyed_order(ids[kept], key)]

    def record(self) -> dict[str, Any]:
        """The custody record; only the custodian has it."""
        record: dict[str, Any] = json.loads(
            (self.folder / CUSTODY / "custody.json").read_text("utf-8")
        )
        return record

    def judge(
        self, plan: Plan, original: Dataset | None
    ) -> tuple[tuple[Judgement, ...], dict[str, Evidence]]:
        """Hold the plan's targets against these very bytes."""
        measures = plan.measures
        released = self.dataset if original is None else self.paired(original)
        evidence = {}
        for label, one in measures.items():
            if one.of == "one":
                evidence[label] = one.look(released, "released")
            elif original is not None:
                known = original.with_schema(plan.schema)
                evidence[label] = one.measure(aligned(known, released), released)
            else:
                reason = "it compares with the original, which was not given."
                evidence[label] = Evidence.failed(one.name, "pair", reason)
        return judge(plan.targets, measures, evidence), evidence


def open_release(folder: Path) -> Opened:
    """Open a release: the data by the types in its manifest, and the manifest itself."""
    manifest = _manifest(folder)
    told = manifest["data"]
    path = folder / told["file"]
    if not path.is_file():
        raise ReleaseError(f"The file '{told['file']}' of the release is missing.")
    options: dict[str, Any] = {}
    if path.suffix == ".csv":
        options = {"types": told["types"], "encoding": "utf-8"}
        options |= {"delimiter": told["delimiter"], "decimal": told["decimal"]}
        if told["formulas"] == "escape":
            options["formulas"] = "unescape"
    data = read(path, **options)
    schema = {
        name: Column(role=one["role"], kind=one["kind"], missing=one["missing_codes"])
        for name, one in manifest["variables"].items()
    }
    if tuple(schema) != data.columns or len(data) != manifest["records"]:
        raise ReleaseError("The data have other variables or records than the manifest says.")
    return Opened(folder, Dataset(data.frame, Schema(schema), data.source), manifest)


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text("utf-8"))
        name = manifest["data"]["file"]
    except (OSError, ValueError, KeyError, TypeError):
        raise ReleaseError(
            f"'{folder}' is not a release: it has no readable {MANIFEST}.",
            hint="pass the folder that `sfumato protect` wrote.",
        ) from None
    if Path(name).name != name:
        raise ReleaseError("The manifest names a data file outside the release.")
    return manifest


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that was checked, and whether it holds."""

    name: str
    passed: bool
    said: str


def verify_release(folder: Path, original: Dataset | None = None) -> tuple[Check, ...]:
    """Check the digests of a release, and measure its targets again from its bytes."""
    manifest = _manifest(folder)
    path = folder / manifest["data"]["file"]
    intact = path.is_file() and sha256(path) == manifest["data"]["sha256"]
    said = "is what the manifest says" if intact else "was changed or is missing"
    checks = [Check(name="data", passed=intact, said=f"{manifest['data']['file']} {said}")]
    custody = folder / CUSTODY / "custody.json"
    if custody.is_file():
        record = json.loads(custody.read_text("utf-8"))
        checks += _custody_checks(folder, manifest, record)
    if intact:
        checks += _target_checks(folder, original, custody=custody.is_file())
    return tuple(checks)


def _custody_checks(
    folder: Path, manifest: Mapping[str, Any], record: Mapping[str, Any]
) -> list[Check]:
    same = hashlib.sha256(plain_json(manifest)).hexdigest() == record["manifest_sha256"]
    opened = {
        "manifest": (same, "is the one that was written", "was changed"),
        "key": (
            Key.of(folder / CUSTODY / "key").commitment == manifest["key_commitment"],
            "fits the published commitment",
            "does not fit the published commitment",
        ),
        "plan": (
            Plan.load(folder / CUSTODY / "plan.toml").digest == record["plan_digest"],
            "is the one that was carried out",
            "was changed",
        ),
    }
    return [
        Check(name=name, passed=good, said=f"the {name} {yes if good else no}")
        for name, (good, yes, no) in opened.items()
    ]


def _target_checks(folder: Path, original: Dataset | None, *, custody: bool) -> list[Check]:
    opened = open_release(folder)
    if not custody:
        said = "the targets can be measured again only with the custody record"
        return [Check(name="targets", passed=True, said=said)]
    verdict, _ = opened.judge(opened.plan(), original)
    return [Check(name=one.target.name, passed=one.met, said=one.said()) for one in verdict]
