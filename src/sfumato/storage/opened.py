"""A release as it lies on the disk: opened, paired with its original, and checked again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sfumato.cells.noise.published import belongs
from sfumato.cells.published import from_plain
from sfumato.data import Dataset, read
from sfumato.data.identity import Identity, matched
from sfumato.errors import ReleaseError, SfumatoError
from sfumato.evidence import Evidence
from sfumato.kernels.arrays import Positions
from sfumato.measure import Measure
from sfumato.plan import Plan
from sfumato.plan.targets import Judgement, judge
from sfumato.randomness import Key, keyed_order
from sfumato.release import aligned, content_digest
from sfumato.schema import Column, Schema

MANIFEST = "manifest.json"
CUSTODY = "custody"
ACCREDITED = "accredited"
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

    @property
    def noise(self) -> Mapping[str, Any]:
        """What is told here of noise: in full where the accredited manifest lies here too."""
        told = _accredited(self.folder) or self.manifest
        noise: Mapping[str, Any] = told.get("noise", {})
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
        return _record(self.folder)

    def _require_custody(self) -> None:
        if not self.has_custody:
            raise ReleaseError(
                "The custody record is not here: key, plan and evidence are with the custodian.",
                hint="use the custodian's copy of the release.",
            )

    def paired(self, original: Dataset) -> Dataset:
        """The released records with the identity they have in the original."""
        known = original.with_schema(self.plan().schema)
        if known.identity.total() != self.record()["input"]["records_digest"]:
            raise ReleaseError(
                "These are not the data that the release was made from.",
                hint="pass the very file that was protected.",
            )
        identity = Identity(known.identity.basis, known.identity.digests[self._rows(known)])
        return Dataset(self.dataset.frame, self.dataset.schema, self.dataset.source, identity)

    def is_from(self, original: Dataset) -> bool | None:
        """Whether these are the very data that were protected; None: same persons, other file."""
        told = self.record()["input"]
        known = original.with_schema(self.plan().schema)
        if known.identity.total() != told["records_digest"]:
            return False
        return True if content_digest(known) == told["content_digest"] else None

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

    def judge(
        self, plan: Plan, original: Dataset | None
    ) -> tuple[tuple[Judgement, ...], dict[str, Evidence]]:
        """Hold the plan's targets against these very bytes."""
        measures = plan.measures
        released = self.dataset
        if original is not None and released.given_identity is None:
            released = self.paired(original)
        every = None if original is None else original.with_schema(plan.schema)
        kept = None if every is None else aligned(every, released)
        evidence = {
            label: _measured(one, every if one.whole else kept, released)
            for label, one in measures.items()
        }
        return judge(plan.targets, measures, evidence), evidence


def _measured(one: Measure, original: Dataset | None, released: Dataset) -> Evidence:
    """What a measure finds on the file; what it cannot compute is evidence with a reason."""
    try:
        if one.of == "one":
            return one.look(released, "released")
        if original is None:
            return Evidence.failed(one.name, "pair", "it needs the original, which was not given.")
        return one.measure(original, released)
    except SfumatoError as error:
        return Evidence.failed(one.name, "released", str(error))


def open_release(folder: Path) -> Opened:
    """Open a release: the data by the types in its manifest, and the manifest itself."""
    return opened_as(folder, read_manifest(folder))


def opened_as(
    folder: Path, manifest: Mapping[str, Any], identity: Identity | None = None
) -> Opened:
    """Open the data of a release as a manifest describes them."""
    path = folder / manifest["data"]["file"]
    if not path.is_file():
        raise ReleaseError(f"The file '{path.name}' of the release is missing.")
    try:
        options = _reading(manifest["data"])
        schema = {
            name: Column(
                role=one["role"],
                kind=one["kind"],
                missing=one["missing_codes"],
                **from_plain(one, one["kind"]),
            )
            for name, one in manifest["variables"].items()
        }
        records = manifest["records"]
    except (KeyError, TypeError, AttributeError, ValueError):
        raise _unreadable(folder) from None
    data = read(path, **options)
    if tuple(schema) != data.columns or len(data) != records:
        raise ReleaseError("The data have other variables or records than the manifest says.")
    return Opened(folder, Dataset(data.frame, Schema(schema), data.source, identity), manifest)


def _reading(told: Mapping[str, Any]) -> dict[str, Any]:
    """How the data file is to be read: as it was written, with nothing inferred."""
    if "delimiter" not in told:
        return {}  # not a text format: the types are in the file
    options = {"types": told["types"], "encoding": "utf-8"}
    options |= {"delimiter": told["delimiter"], "decimal": told["decimal"]}
    return options | ({"formulas": "unescape"} if told["formulas"] == "escape" else {})


def read_manifest(folder: Path) -> dict[str, Any]:
    """The public manifest of a release."""
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text("utf-8"))
        name, _ = manifest["data"]["file"], manifest["data"]["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        raise _unreadable(folder) from None
    if not isinstance(name, str) or Path(name).name != name:
        raise ReleaseError("The manifest names a data file outside the release.")
    return manifest


def _accredited(folder: Path) -> dict[str, Any] | None:
    """The manifest for accredited analysts, where it is here."""
    path = folder / ACCREDITED / MANIFEST
    try:
        found: dict[str, Any] | None = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise ReleaseError(f"{ACCREDITED}/{MANIFEST} of this release is damaged.")
    return found


def _unreadable(folder: Path) -> ReleaseError:
    return ReleaseError(
        f"'{folder}' is not a release: it has no readable {MANIFEST}.",
        hint="pass the folder that `sfumato protect` wrote.",
    )


def _record(folder: Path) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads((folder / CUSTODY / "custody.json").read_text("utf-8"))
        _ = record["manifest_sha256"], record["plan_digest"], record["files"]
        _ = record["input"]["records_digest"], record["input"]["content_digest"]
    except (OSError, ValueError, KeyError, TypeError):
        raise ReleaseError("The custody record of this release is damaged.") from None
    return record


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that was checked, and whether it holds; None when it could not be checked."""

    name: str
    passed: bool | None
    said: str


def verify_release(folder: Path, original: Dataset | None = None) -> tuple[Check, ...]:
    """Check the digests of a release, and measure its targets again from its bytes."""
    manifest = read_manifest(folder)
    path = folder / manifest["data"]["file"]
    intact = path.is_file() and sha256(path) == manifest["data"]["sha256"]
    said = "is what the manifest says" if intact else "was changed or is missing"
    checks = [Check(name="data", passed=intact, said=f"{path.name} {said}")]
    if (accredited := _accredited(folder)) is not None:
        same = belongs(accredited, manifest)
        said = "belongs to" if same else "is not that of"
        said = f"the manifest for accredited analysts {said} the public one"
        checks.append(Check(name="accredited", passed=same, said=said))
    if not (folder / CUSTODY).is_dir():
        said = "they can be measured again only with the custody record"
        return (*checks, Check(name="targets", passed=None, said=said))
    custody = _custody_checks(folder, manifest)
    if original is not None and intact:
        custody.append(_original_check(open_release(folder), original))
    if intact and not any(one.passed is False for one in custody):
        custody += _target_checks(open_release(folder), original)
    return (*checks, *custody)


def _custody_checks(folder: Path, manifest: Mapping[str, Any]) -> list[Check]:
    record = _record(folder)

    def held(name: str, good: Callable[[], bool], yes: str, no: str) -> Check:
        try:
            passed = good()
        except SfumatoError:
            return Check(name=name, passed=False, said=f"the {name} is missing or damaged")
        return Check(name=name, passed=passed, said=f"the {name} {yes if passed else no}")

    return [
        held(
            "manifest",
            lambda: hashlib.sha256(plain_json(manifest)).hexdigest() == record["manifest_sha256"],
            "is the one that was written",
            "was changed",
        ),
        held(
            "key",
            lambda: Key.of(folder / CUSTODY / "key").commitment == manifest.get("key_commitment"),
            "fits the published commitment",
            "does not fit the published commitment",
        ),
        held(
            "plan",
            lambda: Plan.load(folder / CUSTODY / "plan.toml").digest == record["plan_digest"],
            "is the one that was carried out",
            "was changed",
        ),
        held(
            "files",
            lambda: _files_hold(folder, record),
            "(reports, evidence) are those that were written",
            "(reports, evidence) were changed or are missing",
        ),
    ]


def _files_hold(folder: Path, record: Mapping[str, Any]) -> bool:
    return all(
        (folder / name).is_file() and sha256(folder / name) == digest
        for name, digest in record["files"].items()
    )


def _original_check(opened: Opened, original: Dataset) -> Check:
    same = opened.is_from(original)
    said = {
        True: "is the one that was protected",
        False: "is not the one that was protected",
        None: "has the same persons, but is another file than the one that was protected",
    }[same]
    return Check(name="original", passed=same, said=f"the original {said}")


def _target_checks(opened: Opened, original: Dataset | None) -> list[Check]:
    plan = opened.plan()
    verdict, _ = opened.judge(plan, original)
    checks = []
    for one in verdict:
        # Without the original a comparison is neither met nor missed.
        open_yet = original is None and plan.measures[one.measure].of == "pair"
        passed = None if open_yet else one.met
        said = f"{one.target.said()}: {one.reason}" if open_yet else one.said()
        checks.append(Check(name=one.target.name, passed=passed, said=said))
    return checks
