"""Write a release as the command line does, verify it, sign it, and look at the next extract."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import date as Date  # noqa: N812
from pathlib import Path
from typing import Any, Literal

from sfumato.data import Dataset, read
from sfumato.data.linked import read_tables
from sfumato.errors import ReleaseError, SfumatoError, TargetError
from sfumato.io import frames
from sfumato.io.atomic import PRIVATE, write_file
from sfumato.plan import Plan
from sfumato.progress import current_progress
from sfumato.release import values_digest
from sfumato.report.front import describe_lights
from sfumato.storage.contents import CUSTODY, list_entries
from sfumato.storage.ledger import Ledger
from sfumato.storage.opening import read_any_manifest, read_custody
from sfumato.storage.protecting import (
    find_identifiers,
    is_rather_streamed,
    list_folders,
    protect_into,
)
from sfumato.storage.signing import create_keys, read_private_key, sign_release
from sfumato.storage.trail import write_trail
from sfumato.storage.verifying import Check, require_sound, verify_release
from sfumato.studio.session import add_to_audit, now, read_audit
from sfumato.studio.tasks import Work, task
from sfumato.studio.texts import join_sentences

_WRITTEN = "written.json"
"""The releases of a session, in its folder."""


def list_written(folder: Path) -> list[dict[str, Any]]:
    """What a session has written, or was refused, the first first; `folder` is the session's."""
    path = folder / _WRITTEN
    return list(json.loads(path.read_text("utf-8"))) if path.exists() else []


def _keep_written(folder: Path, written: list[dict[str, Any]]) -> None:
    write_file(folder / _WRITTEN, json.dumps(written, default=str), mode=PRIVATE)


@task(keep=False)
def write_release(
    work: Work, *, to: str, approved: str, overwrite: bool, ledger: bool, by: str, branch: str
) -> dict[str, Any]:
    """Carry out the plan and write the folder, exactly as `sfumato protect` does.

    Where a target is missed or an attack succeeds, nothing is written but the evidence beside it.
    `approved` is the digest of the data that somebody looked at; it is empty where nobody did.
    """
    plan, target, progress = work.plan, Path(to), current_progress()
    if target.exists() and not overwrite:
        raise ReleaseError(
            f"'{target}' exists already.", hint="choose another, or say that it is overwritten."
        )
    place: Literal[False] | None = None if ledger else False
    data = _read_approved(work, approved)
    warnings = list(find_identifiers(data, plan).values()) if isinstance(data, Dataset) else []
    facts = {"to": str(target), "at": now(), "by": by, "plan": plan.digest, "ledger": ledger,
             "source": work.source.title, "warnings": warnings, "refused": None,
             "folders": []}  # fmt: skip
    try:
        protect_into(
            target, data, plan, key=work.key, overwrite=overwrite, ledger=place, progress=progress
        )
    except TargetError as error:
        kept = Path(error.kept) if error.kept else None
        told = {"what": error.what, "hint": error.hint,
                "page": str(kept.with_suffix(".html")) if kept else ""}  # fmt: skip
        _keep_written(work.folder, [*list_written(work.folder), {**facts, "refused": told}])
        add_to_audit(work.folder, f"release to '{target}' refused", by=by, branch=branch)
        return {"refused": True}
    add_to_audit(work.folder, f"release written to '{target}'", by=by, branch=branch)
    for folder in list_folders(plan, target):
        write_trail(folder, read_audit(work.folder), work.key)
    folders = [
        _describe_folder(work, folder, ledger=ledger) for folder in list_folders(plan, target)
    ]
    # Of a folder that was overwritten only the new release counts.
    others = [item for item in list_written(work.folder) if item["to"] != str(target)]
    _keep_written(work.folder, [*others, {**facts, "folders": folders}])
    return {"refused": False}


@task(depends="source", keep=False)
def digest_records(work: Work) -> str:
    """What was read, whatever the order of the rows: a release is made of this and nothing else."""
    data = work.tables if work.source.linked else {"": work.raw}
    digests = {name: values_digest(table) for name, table in data.items()}
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()


def _read_approved(work: Work, approved: str) -> Dataset | Mapping[str, Dataset]:
    """The records, if they are still those that were approved."""
    before = work.source.stamp
    data = _read_data(work)
    if approved:
        found = work.source.compute_digest() if work.source.in_files else digest_records(work)
        if found != approved or work.source.stamp != before:
            raise ReleaseError(
                "The data changed since somebody looked at them; nothing was written.",
                hint="look at them again, and let the plan be approved again.",
            )
    return data


def _read_data(work: Work) -> Dataset | Mapping[str, Dataset]:
    """The records as the command line would read them."""
    if work.source.linked:
        return work.tables
    data = work.data
    if frames.is_lazy(data.frame) and not is_rather_streamed(work.source.where, work.table_plan):
        whole = read(work.source.where, progress=current_progress(), **work.table_plan.read)
        return work.table_plan.declare(whole)
    return data


def _describe_folder(work: Work, folder: Path, *, ledger: bool) -> dict[str, Any]:
    """What lies in a release folder, how its lights stand, and whether all of it is sound."""
    entries = list_entries(folder)
    files = [{"name": name, "bytes": status.st_size, "private": name.startswith(f"{CUSTODY}/")}
             for name, status in entries.items() if not (folder / name).is_dir()]  # fmt: skip
    record = read_custody(folder)
    return {
        "folder": str(folder),
        "name": folder.name,
        "files": files,
        "lights": describe_lights(record, written=True),
        "checks": list(map(_describe_check, _verify(work, folder, ledger=ledger))),
        "verified": now(),
        "records": _count_records(folder),
    }


def _count_records(folder: Path) -> int:
    manifest = read_any_manifest(folder)
    tables = manifest.get("tables", {"": manifest})
    return sum(int(table["records"]) for table in tables.values())


def _verify(work: Work, folder: Path, *, ledger: bool, original: Any = None) -> tuple[Check, ...]:
    book = Ledger() if ledger else None
    return verify_release(folder, original, key=work.key, ledger=book)


def _describe_check(check: Check) -> dict[str, Any]:
    return {"name": check.name, "passed": check.passed, "finding": check.finding}


def _update_trails(work: Work) -> None:
    """Put the audit trail, as it is now, into the custody of all that was written here."""
    entries = read_audit(work.folder)
    for item in list_written(work.folder):
        for written in item["folders"]:
            if (Path(written["folder"]) / CUSTODY).is_dir():
                write_trail(Path(written["folder"]), entries, work.key)


def _refresh(work: Work, folder: str, original: Any = None) -> None:
    """Look again at a folder that was written, after something was done to it."""
    written = list_written(work.folder)
    for item in written:
        for position, known in enumerate(item["folders"]):
            if known["folder"] == folder:
                described = _describe_folder(work, Path(folder), ledger=item["ledger"])
                if original is not None:
                    checks = _verify(work, Path(folder), ledger=item["ledger"], original=original)
                    described["checks"] = list(map(_describe_check, checks))
                item["folders"][position] = described
    _keep_written(work.folder, written)


@task(keep=False)
def verify_written(work: Work, *, folder: str, by: str, branch: str) -> dict[str, Any]:
    """Check every file, measure the targets and try the attacks again, against the original."""
    _refresh(work, folder, _read_data(work))
    add_to_audit(work.folder, f"release in '{folder}' verified", by=by, branch=branch)
    _update_trails(work)
    return {"folder": folder}


@task(keep=False, depends="nothing")
def sign_written(  # noqa: PLR0913 - all of them by name
    work: Work,
    *,
    folder: str,
    key_file: str,
    signed_by: str,
    remark: str,
    by: str,
    branch: str,
    passphrase: str,
) -> dict[str, Any]:
    """Sign a release with somebody's own key, if it is still what was written."""
    target = Path(folder)
    signer = read_private_key(Path(key_file), passphrase)
    current_progress()("checking what is signed", 0, 1)
    require_sound(target)
    day = Date.today()  # noqa: DTZ011 - the day of who signs
    signature = sign_release(target, signer, signed_by=signed_by, date=day, remark=remark)
    add_to_audit(work.folder, f"release in '{folder}' signed by '{signed_by}', key "
                 f"{signature.fingerprint}", by=by, branch=branch)  # fmt: skip
    _update_trails(work)
    _refresh(work, folder)
    return {"fingerprint": signature.fingerprint}


@task(lane="quick", keep=False, depends="nothing")
def make_keys(work: Work, *, name: str, passphrase: str) -> dict[str, Any]:
    """A pair of keys to sign with: the private one behind a passphrase, the public one beside."""
    del work
    path = Path(name)
    private, public = path.with_name(f"{path.name}.pem"), path.with_name(f"{path.name}.public.pem")
    return {"private": str(private), "public": str(public),
            "fingerprint": create_keys(private, public, passphrase)}  # fmt: skip


@task(depends="plan", keep=False)
def compare_extract(work: Work, *, file: str) -> dict[str, Any]:
    """How the variables of another extract differ from those the plan was made for."""
    plan = work.plan
    if plan.tables:
        options = {name: own.read for name, own in plan.tables.items()}
        found = read_tables(file, files=plan.files, options=options, progress=current_progress())
        before = work.tables
        rows = [
            {"table": name, **row}
            for name in sorted({*before, *found})
            for row in _compare(before.get(name), found.get(name), plan.tables.get(name))
        ]
        return {"file": file, "records": sum(map(len, found.values())), "rows": rows}
    new = read(file, progress=current_progress(), **plan.read)
    return {"file": file, "records": len(new),
            "rows": [{"table": "", **row} for row in _compare(work.raw, new, plan)]}  # fmt: skip


def _compare(
    before: Dataset | None, after: Dataset | None, plan: Plan | None
) -> list[dict[str, Any]]:
    """Variables that came, went or have another type, and what of the plan no longer fits."""
    old = {} if before is None else {name: str(before.dtype(name)) for name in before.columns}
    new = {} if after is None else {name: str(after.dtype(name)) for name in after.columns}
    rows = [
        {"variable": name, "before": old.get(name, ""), "after": new.get(name, ""),
         "needed": plan is not None and name in plan.schema}
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]  # fmt: skip
    if after is not None and plan is not None:
        try:
            plan.declare(after)
        except SfumatoError as error:
            rows.append({"variable": "", "before": "", "after": "", "needed": True,
                         "trouble": join_sentences(error.what, error.hint)})  # fmt: skip
    return rows
