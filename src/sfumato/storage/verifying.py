"""Verify a release folder: every file, who wrote it, its targets and the attacks on it once more.

What is checked rests on one chain. The key authenticates the custody record; the custody record
holds the digest of every other file; the manifest holds the digests of the public ones, and is
authenticated by the key too, so that a custodian recognises it without the custody record. What
nobody wrote down is strange, and fails.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from sfumato.data import Dataset
from sfumato.engines import engine_for
from sfumato.errors import ReleaseError, SfumatoError
from sfumato.evidence import Evidence
from sfumato.noise.description import is_accredited_version
from sfumato.plan import Plan
from sfumato.plan.targets import Judgement, Target
from sfumato.randomness import Key
from sfumato.run.attacks import try_attacks
from sfumato.run.lights import describe_success, judge_attacks
from sfumato.storage.authentication import TAG, is_as_written, is_authentic
from sfumato.storage.cluster import digest_listing, list_parts
from sfumato.storage.contents import (
    ACCREDITED_FILE,
    CUSTODY,
    KEY_FILE,
    MANIFEST,
    PLAN_FILE,
    RECORD_FILE,
    TRAIL_FILE,
    find_changed_files,
    find_exposed_files,
    find_shared_files,
    find_strange,
    format_names,
    is_file_with,
    is_plain_file,
    sha256,
)
from sfumato.storage.ledger import Entry, Ledger
from sfumato.storage.opening import (
    OpenedRelease,
    is_of_several,
    list_data_files,
    list_manifests,
    open_release,
    read_accredited_manifest,
    read_any_manifest,
    read_custody,
    read_plan_of,
)
from sfumato.storage.signing import judge_signatures, list_signature_files
from sfumato.storage.trail import is_trail_genuine

_PERMISSIONS, _LEDGER, _ATTACKS = "permissions", "ledger", "attacks"


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that was checked, and whether it holds; None when it could not be checked.

    Examples
    --------
    >>> Check(name="key", passed=True, finding="the key fits the published commitment").passed
    True
    """

    name: str
    passed: bool | None
    finding: str


def verify_release(
    folder: Path,
    original: Dataset | Mapping[str, Dataset] | None = None,
    *,
    key: Key | None = None,
    ledger: Ledger | None = None,
    signers: Sequence[Ed25519PublicKey] = (),
    session: Any = None,
) -> tuple[Check, ...]:
    """Check every file of a release, measure its targets from its bytes, and try attacks again.

    Parameters
    ----------
    folder : the release, with its custody record or without.
    original : the data it was made from, of several tables each by its name. Other data fail.
    key : the key it must have been made under, from a place that nobody else can write to. Whoever
        replaces a whole release by one of their own has to use another key.
    ledger : where it was written down. Only there it shows that a genuine release is an older one.
    signers : public keys of those who must have signed it. Only a signature shows a recipient, who
        has no key, that nobody replaced the whole release.
    session : of a Spark cluster, on which the targets are to be measured.
    """
    files = verify_files(folder, key=key)
    signatures = _check_signatures(folder, signers)
    checks = (*_trust_signed_manifest(files, signatures), *signatures)
    if ledger is not None:
        checks = (*checks, _check_ledger(folder, ledger))
    if not (folder / CUSTODY).is_dir():
        return (*checks, *_list_open_checks(original))
    if not is_intact(checks):
        finding = "they were not measured again, since the release is not as it was written"
        return (*checks, Check(name="targets", passed=None, finding=finding))
    if is_of_several(read_any_manifest(folder)) or isinstance(original, Mapping):
        from sfumato.storage.tables import verify_tables

        return (*checks, *verify_tables(folder, original))
    return (*checks, *verify_targets(folder, original, session=session))


def require_sound(folder: Path) -> None:
    """Refuse to go on with a release that is not what it says."""
    failed = [check.finding for check in verify_release(folder) if check.passed is False]
    if failed:
        raise ReleaseError(
            f"The release is not signed: {'; '.join(failed)}.",
            hint="`sfumato verify` lists what was checked.",
        )


def is_intact(checks: Iterable[Check]) -> bool:
    """Whether all files are as they were written, whoever may read or change them."""
    return all(check.passed is not False or check.name == _PERMISSIONS for check in checks)


def verify_files(folder: Path, *, key: Key | None = None) -> tuple[Check, ...]:
    """Check that a release consists of the files that were written, and of no others."""
    manifest = read_any_manifest(folder)
    checks = [_check_data(folder, table) for table in list_manifests(manifest)]
    if (accredited := read_accredited_manifest(folder)) is not None:
        checks.append(_check_accredited_manifest(folder, accredited, manifest, key))
    if (folder / CUSTODY).is_dir():
        checks += _check_custody(folder, manifest, key)
    else:
        checks += _check_public_part(folder, manifest, key)
    return (*checks, _check_permissions(folder))


def verify_targets(
    folder: Path, original: Dataset | None = None, *, session: Any = None
) -> list[Check]:
    """Hold a release whose files were verified against its original, its targets and attacks."""
    if original is not None:
        original = engine_for(original.frame).prepare(read_plan_of(folder).declare(original))
    release = open_release(folder, like=session if original is None else original.frame)
    plan, checks = release.plan(), [_check_stated_targets(release)]
    if original is not None:
        same = release.is_from(original)
        state = "is the one" if same else "is not the one"
        finding = f"the original {state} that was protected"
        checks.append(Check(name="original", passed=same, finding=finding))
        if not same:
            return checks
        release = replace(release, dataset=release.paired(original))
    verdict, evidence = release.judge(plan, original)
    checks += list_judged_targets(plan, verdict, original)
    if (release.manifest.get("attacks") or {}).get("tried"):
        checks.append(check_attacks(release, plan, original, evidence))
    return checks


def _list_open_checks(original: object | None) -> list[Check]:
    """What cannot be checked without the custody record."""
    finding = "they can be measured again only with the custody record"
    checks = [Check(name="targets", passed=None, finding=finding)]
    if original is not None:
        finding = "only the custody record tells which data were protected"
        checks.append(Check(name="original", passed=None, finding=finding))
    return checks


def _check_data(folder: Path, manifest: Mapping[str, Any]) -> Check:
    data = manifest["data"]
    name = data["file"]
    intact = not find_changed_files(folder, list_parts(data))
    if "parts" in data:
        intact = intact and digest_listing(data["parts"]) == data["sha256"]
    state = "is what the manifest says" if intact else "was changed"
    missing = [part for part in list_parts(data) if not (folder / part).is_file()]
    if missing:
        state = "is missing" if missing == [name] else f"lacks {format_names(missing)}"
    return Check(name="data", passed=intact, finding=f"{name} {state}")


def _check_accredited_manifest(
    folder: Path, accredited: dict[str, Any], manifest: dict[str, Any], key: Key | None
) -> Check:
    same = is_as_written((folder / ACCREDITED_FILE).read_bytes(), accredited)
    same = same and _is_accredited_version(accredited, manifest)
    if key is not None:
        same = same and is_authentic(accredited, key, "accredited")
    relation = "belongs to" if same else "does not belong to"
    finding = f"the manifest for accredited analysts {relation} the public one"
    return Check(name="accredited", passed=same, finding=finding)


def _is_accredited_version(accredited: dict[str, Any], manifest: dict[str, Any]) -> bool:
    """Whether two manifests are the same but for the noise, in every table."""
    if not is_of_several(manifest):
        return is_accredited_version(accredited, manifest)
    full = accredited.get("tables")
    if not isinstance(full, dict) or list(full) != list(manifest["tables"]):
        return False
    ignored = {"tables": None, TAG: None}
    return {**accredited, **ignored} == {**manifest, **ignored} and all(
        is_accredited_version(full[name], table) for name, table in manifest["tables"].items()
    )


def _check_public_part(folder: Path, manifest: dict[str, Any], key: Key | None) -> list[Check]:
    """A copy without custody: all that digests can tell, and no more."""
    public = _get_digests(manifest)
    known = {MANIFEST, ACCREDITED_FILE, *list_data_files(manifest), *public}
    checks = [_check_manifest(folder, manifest, key)]
    if key is not None:
        checks.append(_check_key(manifest, key))
    return [*checks, _check_files(folder, public), _check_strange(folder, known)]


def _check_manifest(folder: Path, manifest: dict[str, Any], key: Key | None) -> Check:
    """Without custody: by the key where it is given; else only whether it was rewritten."""
    passed: bool | None = None
    finding = (
        "only the custodian's key shows whether the manifest is genuine; compare its SHA-256 with "
        "the one that the custodian gave you"
    )
    if not is_as_written((folder / MANIFEST).read_bytes(), manifest):
        passed, finding = False, "the manifest was changed: Sfumato does not write it like this"
    elif key is not None:
        passed = is_authentic(manifest, key, "manifest")
        finding = f"the manifest was {'' if passed else 'not '}written by a holder of this key"
    return Check(name="manifest", passed=passed, finding=finding)


def _check_key(manifest: dict[str, Any], key: Key) -> Check:
    fits = key.commitment == manifest.get("key_commitment")
    finding = f"the key {'fits' if fits else 'does not fit'} the published commitment"
    return Check(name="key", passed=fits, finding=finding)


def _check_custody(folder: Path, manifest: dict[str, Any], key: Key | None) -> list[Check]:
    record = read_custody(folder)
    digests = _get_digests(record)
    # Files that have a check of their own are named there.
    others = {
        name: digest
        for name, digest in digests.items()
        if name not in (MANIFEST, PLAN_FILE, *list_data_files(manifest))
    }

    def check(name: str, holds: Callable[[], bool], yes: str, no: str) -> Check:
        try:
            passed = holds()
        except (SfumatoError, OSError):
            return Check(name=name, passed=False, finding=f"the {name} is missing or damaged")
        return Check(name=name, passed=passed, finding=f"the {name} {yes if passed else no}")

    return [
        check(
            "manifest",
            lambda: (
                is_file_with(folder / MANIFEST, record["manifest_sha256"])
                and is_authentic(manifest, _read_key(folder, key), "manifest")
            ),
            "is the one that was written",
            "was changed",
        ),
        check(
            "key",
            lambda: _read_key(folder, key).commitment == manifest.get("key_commitment"),
            "fits the published commitment",
            "does not fit the published commitment",
        ),
        check(
            "plan",
            lambda: (
                is_file_with(folder / PLAN_FILE, str(digests.get(PLAN_FILE)))
                and Plan.load(folder / PLAN_FILE).digest == record["plan_digest"]
            ),
            "is the one that was carried out",
            "was changed",
        ),
        check(
            "custody",
            lambda: (
                is_authentic(record, _read_key(folder, key), "custody")
                and is_as_written((folder / RECORD_FILE).read_bytes(), record)
            ),
            "record was written by a holder of the key",
            "record was changed, or belongs to another key",
        ),
        *(
            [
                check(
                    "trail",
                    lambda: is_trail_genuine(folder, _read_key(folder, key)),
                    "of the studio was written by a holder of the key",
                    "of the studio was changed, or belongs to another key",
                )
            ]
            if os.path.lexists(folder / TRAIL_FILE)
            else []
        ),
        _check_files(folder, others),
        _check_strange(folder, {*digests, MANIFEST, RECORD_FILE, KEY_FILE, TRAIL_FILE}),
    ]


def _read_key(folder: Path, expected: Key | None) -> Key:
    """The key in custody, which must be the one that is given, and written as we write it."""
    path = folder / KEY_FILE
    key = Key.of(path) if is_plain_file(path) else None
    if key is None or path.read_bytes() != f"{key.text}\n".encode() or expected not in (None, key):
        raise OSError
    return key


def _get_digests(record: Mapping[str, Any]) -> dict[str, str]:
    files = record.get("files")
    # A stranger's manifest may hold anything there
    entries = files if isinstance(files, Mapping) else {}
    return {str(name): str(digest) for name, digest in entries.items()}


def _check_files(folder: Path, digests: Mapping[str, str]) -> Check:
    changed = find_changed_files(folder, digests)
    finding = "reports and evidence are those that were written"
    if changed:
        finding = f"changed or missing: {format_names(changed)}"
    return Check(name="files", passed=not changed, finding=finding)


def _check_signatures(folder: Path, signers: Sequence[Ed25519PublicKey]) -> list[Check]:
    return [
        Check(name="signature", passed=passed, finding=finding)
        for passed, finding in judge_signatures(folder, signers)
    ]


def _trust_signed_manifest(checks: Iterable[Check], signatures: Iterable[Check]) -> list[Check]:
    """A manifest that nothing else tells of is genuine where somebody whom we trust signed it."""
    signed = any(check.passed for check in signatures)
    finding = "the manifest is the one that was signed"
    return [
        replace(check, passed=True, finding=finding)
        if signed and check.name == "manifest" and check.passed is None
        else check
        for check in checks
    ]


def _check_strange(folder: Path, known: set[str]) -> Check:
    strange = find_strange(folder, {*known, *list_signature_files(folder)})
    finding = "there is nothing else in the folder"
    if strange:
        finding = f"not written by Sfumato: {format_names(strange)}"
    return Check(name="folder", passed=not strange, finding=finding)


def _check_ledger(folder: Path, ledger: Ledger) -> Check:
    """Whether this is the release that was written here last, and how many others there are."""
    if not ledger.exists:
        finding = f"there is no ledger of releases in '{ledger.folder}'"
        return Check(name=_LEDGER, passed=None, finding=finding)
    try:
        passed, finding = _find_in_ledger(folder, ledger.read())
    except SfumatoError as error:
        passed, finding = False, error.what
    return Check(name=_LEDGER, passed=passed, finding=finding)


def _find_in_ledger(folder: Path, entries: list[Entry]) -> tuple[bool | None, str]:
    digest = sha256(folder / MANIFEST)
    path = str(folder.resolve())
    here = [known for known in entries if known.folder == path and known.counts]
    # The very same release may have been written more than once.
    same_bytes = [known for known in entries if known.manifest_sha256 == digest]
    entry = max(same_bytes, key=lambda known: (known.folder == path, known.counts), default=None)
    if entry is None or (here and here[-1].manifest_sha256 != digest):
        what = "this is not" if entry is None else f"this is release {entry.number}, not"
        if here:
            return False, (
                f"{what} the release that the ledger knows here: release {here[-1].number} was "
                f"written here on {_get_day(here[-1])}"
            )
        commitment = read_any_manifest(folder).get("key_commitment")
        others = sum(known.key_commitment == commitment for known in entries)
        known_key = f", which knows {others} releases under its key" if others else ""
        return None, f"this release is not in the ledger{known_key}"
    if entry.replaced_by is not None:
        return False, f"this is release {entry.number}, which release {entry.replaced_by} replaced"
    if entry.forgotten:
        return True, f"this is release {entry.number}, which no longer counts: {entry.forgotten}"
    # Several tables of one release are one release, of the same people.
    same = [
        known
        for known in entries
        if known == entry
        or (
            known.counts
            and (known.folder, known.manifest_sha256) != (entry.folder, entry.manifest_sha256)
            and known.is_of_same_records(entry)
        )
    ]
    position = same.index(entry) + 1
    count = "the only one" if len(same) == 1 else f"number {position} of {len(same)}"
    finding = f"its manifest is that of release {entry.number}, {count} of these records"
    if position < len(same):
        latest = same[-1]
        finding += f"; a later one was made on {_get_day(latest)}, in '{latest.folder}'"
    return True, finding


def _get_day(entry: Entry) -> str:
    return entry.created.partition("T")[0]


def _check_permissions(folder: Path) -> Check:
    exposed = find_exposed_files(folder)
    finding = "only the owner can change the files, or read the private ones"
    if shared := find_shared_files(folder):
        finding = f"nobody but the owner and their group can change: {format_names(shared)}"
    if exposed:
        finding = (
            "others could change these or read them, or they have a second name on the disk: "
            f"{format_names(exposed)}"
        )
    return Check(name=_PERMISSIONS, passed=not exposed, finding=finding)


def _check_stated_targets(release: OpenedRelease) -> Check:
    """Whether manifest and custody record state the targets of the plan, all of them as met."""
    wanted = [(target.name, target.plain()) for target in release.plan().targets]
    stated = [
        _list_stated_targets(text.get("targets")) for text in (release.manifest, release.record())
    ]
    same = all(targets == [(*target, True) for target in wanted] for targets in stated)
    relation = "are" if same else "are not"
    finding = f"the targets in the manifest {relation} those of the plan"
    return Check(name="targets", passed=same, finding=finding)


def _list_stated_targets(targets: Any) -> list[tuple[str, dict[str, float], bool]] | None:
    try:
        return [
            (
                target["target"],
                Target.from_plain(target).plain(),
                target["met"],
            )
            for target in targets
        ]
    except (KeyError, TypeError, AttributeError):
        return None


def check_attacks(
    release: OpenedRelease, plan: Plan, original: Dataset | None, measured: Mapping[str, Evidence]
) -> Check:
    """Try the attacks again that were tried on the release, and hold them against what may be."""
    if original is None:
        finding = "they were not tried again, which takes the original"
        return Check(name=_ATTACKS, passed=None, finding=finding)
    declared = plan.declare(original)
    names = [str(name) for name in release.manifest["attacks"]["tried"]]
    tried = try_attacks(
        plan, release.manifest, declared, release.dataset, measured=measured, again=names
    )
    beyond = [
        describe_success(judgement, tried)
        for judgement in judge_attacks(plan, tried)
        if not judgement.met and plan.release.find_reason(tried[judgement.measure].name) is None
    ]
    lacking = [name for name in names if name not in tried or not tried[name].computed]
    if beyond:
        return Check(name=_ATTACKS, passed=False, finding=" ".join(beyond))
    if lacking:
        finding = f"could not be tried again: {', '.join(lacking)}"
        return Check(name=_ATTACKS, passed=None, finding=finding)
    accepted = plan.release.accept_attacks is not None
    often = "more often than the plan accepts" if accepted else "too often"
    finding = f"{len(names)} tried again, none succeeds {often}"
    return Check(name=_ATTACKS, passed=True, finding=finding)


def list_judged_targets(
    plan: Plan, verdict: Iterable[Judgement], original: Dataset | None
) -> list[Check]:
    """A check for each target of a plan."""
    checks = []
    for judgement in verdict:
        # Without the original a comparison is neither met nor missed.
        undecided = original is None and plan.measures[judgement.measure].of == "pair"
        target = judgement.target
        finding = f"{target.describe()}: {judgement.reason}" if undecided else judgement.describe()
        passed = None if undecided else judgement.met
        checks.append(Check(name=target.name, passed=passed, finding=finding))
    return checks
