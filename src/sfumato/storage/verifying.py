"""Verify a release folder: its digests, its key and plan, and its targets measured again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.cells.noise.description import is_accredited_version
from sfumato.data import Dataset
from sfumato.errors import SfumatoError
from sfumato.plan import Plan
from sfumato.randomness import Key
from sfumato.storage.opening import (
    CUSTODY,
    OpenedRelease,
    encode_json,
    open_release,
    read_accredited,
    read_custody,
    read_manifest,
    sha256,
)


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that was checked, and whether it holds; None when it could not be checked."""

    name: str
    passed: bool | None
    finding: str


def verify_release(folder: Path, original: Dataset | None = None) -> tuple[Check, ...]:
    """Check the digests of a release, and measure its targets again from its bytes."""
    manifest = read_manifest(folder)
    path = folder / manifest["data"]["file"]
    intact = path.is_file() and sha256(path) == manifest["data"]["sha256"]
    state = "is what the manifest says" if intact else "was changed or is missing"
    checks = [Check(name="data", passed=intact, finding=f"{path.name} {state}")]
    if (accredited := read_accredited(folder)) is not None:
        same = is_accredited_version(accredited, manifest)
        relation = "belongs to" if same else "does not belong to"
        finding = f"the manifest for accredited analysts {relation} the public one"
        checks.append(Check(name="accredited", passed=same, finding=finding))
    if not (folder / CUSTODY).is_dir():
        finding = "they can be measured again only with the custody record"
        return (*checks, Check(name="targets", passed=None, finding=finding))
    custody = _check_custody(folder, manifest)
    if original is not None and intact:
        custody.append(_check_original(open_release(folder), original))
    if intact and not any(check.passed is False for check in custody):
        custody += _check_targets(open_release(folder), original)
    return (*checks, *custody)


def _check_custody(folder: Path, manifest: Mapping[str, Any]) -> list[Check]:
    record = read_custody(folder)

    def check(name: str, holds: Callable[[], bool], yes: str, no: str) -> Check:
        try:
            passed = holds()
        except SfumatoError:
            return Check(name=name, passed=False, finding=f"the {name} is missing or damaged")
        return Check(name=name, passed=passed, finding=f"the {name} {yes if passed else no}")

    return [
        check(
            "manifest",
            lambda: hashlib.sha256(encode_json(manifest)).hexdigest() == record["manifest_sha256"],
            "is the one that was written",
            "was changed",
        ),
        check(
            "key",
            lambda: Key.of(folder / CUSTODY / "key").commitment == manifest.get("key_commitment"),
            "fits the published commitment",
            "does not fit the published commitment",
        ),
        check(
            "plan",
            lambda: Plan.load(folder / CUSTODY / "plan.toml").digest == record["plan_digest"],
            "is the one that was carried out",
            "was changed",
        ),
        check(
            "files",
            lambda: _check_files(folder, record),
            "(reports, evidence) are those that were written",
            "(reports, evidence) were changed or are missing",
        ),
    ]


def _check_files(folder: Path, record: Mapping[str, Any]) -> bool:
    return all(
        (folder / name).is_file() and sha256(folder / name) == digest
        for name, digest in record["files"].items()
    )


def _check_original(release: OpenedRelease, original: Dataset) -> Check:
    same = release.is_from(original)
    state = {
        True: "is the one that was protected",
        False: "is not the one that was protected",
        None: "has the same persons, but is another file than the one that was protected",
    }[same]
    return Check(name="original", passed=same, finding=f"the original {state}")


def _check_targets(release: OpenedRelease, original: Dataset | None) -> list[Check]:
    plan = release.plan()
    verdict, _ = release.judge(plan, original)
    checks = []
    for judgement in verdict:
        # Without the original a comparison is neither met nor missed.
        undecided = original is None and plan.measures[judgement.measure].of == "pair"
        target = judgement.target
        finding = f"{target.describe()}: {judgement.reason}" if undecided else judgement.describe()
        passed = None if undecided else judgement.met
        checks.append(Check(name=target.name, passed=passed, finding=finding))
    return checks
