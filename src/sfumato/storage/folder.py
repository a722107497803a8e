"""A release on disk, written all or nothing.

release/
  data.csv          the protected records
  manifest.json     public: what was done, what holds, checksums
  report.html       public edition of the report
  accredited/       for accredited analysts: the manifest with the noise in full, if kept back
  custody/          private: key, plan, custody record, per-record evidence, inside report
"""

from __future__ import annotations

import datetime as dt
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from sfumato.data.identity import matched
from sfumato.errors import ReleaseError, TargetError
from sfumato.io import frames, suffix_for, write_table
from sfumato.io.folders import put_in_place
from sfumato.kernels.arrays import Positions
from sfumato.plan import Plan
from sfumato.progress import Progress, part_of, silent
from sfumato.release import Release
from sfumato.report import render
from sfumato.storage.opened import (
    ACCREDITED,
    CUSTODY,
    MANIFEST,
    RECORDS,
    REMOVED,
    opened_as,
    plain_json,
    sha256,
)
from sfumato.storage.place import partial, require_free, warn_of_earlier
from sfumato.storage.written import plain_frame, require_same, type_of

# Formats that cannot hold every value; what they hold is compared with what was protected.
_LOSSY = (".dta", ".sav", ".xpt", ".xlsx")


def write_release(
    release: Release, folder: Path, *, overwrite: bool, progress: Progress | None
) -> Path:
    """Write everything beside the folder, check it there, and move it into place at once."""
    target = folder.resolve()
    try:
        require_free(release, target, overwrite=overwrite)
        warn_of_earlier(release, target)
        target.parent.mkdir(parents=True, exist_ok=True)
        with partial(target) as place:
            _write_all(release, place, progress or silent)
            # Until here nobody else could look into it.
            place.chmod(0o777 & ~_umask())
            put_in_place(place, target, overwrite=overwrite)
    except OSError as error:
        raise ReleaseError(
            f"The release could not be written: {error.strerror or 'the disk failed'}. "
            "Nothing was left behind.",
            hint="is there room, and may you write there?",
        ) from None
    return folder


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _write_all(release: Release, place: Path, say: Progress) -> None:
    plan, order = release.plan, release.order()
    given = plan.release.format
    data_file = place / f"data{f'.{given}' if given else suffix_for(release.original.source)}"
    say("writing", 0, 3)
    frame = plain_frame(release.dataset)
    facts = write_table(
        frame,
        data_file,
        source=release.dataset.source,
        formulas=plan.release.formulas,
        order=order,
        progress=part_of(say, "writing"),
    )
    say("checking what was written", 1, 3)
    manifest = {**release.manifest, "data": _described(frame, data_file, facts, release)}
    manifest["targets"] = _remeasured(release, place, manifest, frame)
    say("writing", 2, 3)
    private = place / CUSTODY
    private.mkdir(mode=0o700)
    _put(place / MANIFEST, plain_json(manifest), mode=0o644)
    _put(place / "report.html", render(manifest).encode(), mode=0o644)
    special = _write_accredited(release, place, manifest)
    _put(private / "key", f"{release.key.text}\n".encode(), mode=0o600)
    _put(private / "plan.toml", plan.text(comments=True).encode(), mode=0o600)
    _write_records(release, private, order)
    custody = {
        **release.custody,
        "plan": plan.text(comments=True),
        "created": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "targets": manifest["targets"],
        "manifest_sha256": hashlib.sha256(plain_json(manifest)).hexdigest(),
        "files": {
            str(path.relative_to(place)): sha256(path)
            for path in (place / "report.html", special, private / RECORDS, private / REMOVED)
            if path.is_file()
        },
    }
    _put(private / "report.html", render(manifest, custody).encode(), mode=0o600)
    _put(private / "custody.json", plain_json(custody), mode=0o600)
    say("writing", 3, 3)


def _write_accredited(release: Release, place: Path, manifest: Mapping[str, Any]) -> Path:
    """The manifest with the noise in full, where the public one keeps a part of it back."""
    path = place / ACCREDITED / MANIFEST
    if release.accredited is not None:
        path.parent.mkdir(mode=0o700)
        _put(path, plain_json({**manifest, "noise": release.accredited["noise"]}), mode=0o600)
    return path


def _described(
    frame: pl.DataFrame, data_file: Path, facts: Mapping[str, Any], release: Release
) -> dict[str, Any]:
    return {
        "file": data_file.name,
        "sha256": sha256(data_file),
        "types": {name: type_of(dtype) for name, dtype in frame.schema.items()},
        "formulas": release.plan.release.formulas,
        **facts,
    }


def _remeasured(
    release: Release, place: Path, manifest: Mapping[str, Any], frame: pl.DataFrame
) -> list[dict[str, Any]]:
    """The targets, measured again on the file as it lies on the disk."""
    from sfumato.run import require_met

    lossy = Path(manifest["data"]["file"]).suffix in _LOSSY
    if not release.plan.targets and not lossy:
        return []
    order = release.order()
    identity = release.dataset.identity
    opened = opened_as(place, manifest, identity if order is None else identity.take(order))
    require_same(frame if order is None else frame[order], opened.dataset)
    verdict, evidence = opened.judge(release.plan, release.original)
    require_met(verdict, evidence)
    return [one.plain() for one in verdict]


def _write_records(release: Release, private: Path, order: Positions | None) -> None:
    """What was measured of each record, in the order of the file, and which records were left out.

    Who stands on which row is not written down: key and original together tell it again.
    """
    measured = [
        frames.column(found.records, name).alias(f"{label}.{name}")
        for label, found in release.evidence.items()
        if found.records is not None
        for name in frames.wrap(found.records).columns
    ]
    if measured:
        table = pl.DataFrame(measured)
        _put_table(private / RECORDS, table if order is None else table[order])
    if len(release.dataset) < len(release.original):
        kept = matched(release.dataset.identity.digests, release.original.identity.digests)
        gone = release.original.identity.ids(release.key)[kept < 0]
        _put_table(private / REMOVED, pl.DataFrame({"id_1": gone[:, 0], "id_2": gone[:, 1]}))


def _put_table(path: Path, table: pl.DataFrame) -> None:
    path.touch(mode=0o600)
    table.write_parquet(path)


def _put(path: Path, content: bytes, *, mode: int) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def keep_attempt(folder: Path, plan: Plan, error: TargetError) -> Path:
    """Keep the evidence of a refused release inside: in a private folder beside the target."""
    place = folder.absolute().with_name(f"{folder.name}.refused")
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    taken = [path.stem.removeprefix("attempt-") for path in place.glob("attempt-*.json")]
    number = 1 + max((int(one) for one in taken if one.isdigit()), default=0)
    path = place / f"attempt-{number}.json"
    content = {
        "created": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "plan": plan.text(),
        "plan_digest": plan.digest,
        "targets": [one.plain() for one in error.verdict],
        "evidence": {label: one.plain() for label, one in error.evidence.items()},
    }
    _put(path, plain_json(content), mode=0o600)
    return path
