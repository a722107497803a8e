"""A release on disk, written all or nothing.

release/
  data.csv          the protected records
  manifest.json     public: what was done, what holds, checksums
  report.html       public edition of the report
  custody/          private: key, plan, custody record, per-record evidence, inside report
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import secrets
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl

from sfumato import frames
from sfumato.atomic import swap
from sfumato.data import Dataset
from sfumato.errors import ReleaseError, RepeatedReleaseWarning, TargetError
from sfumato.formats import suffix_for, write_table
from sfumato.identity import matched
from sfumato.opened import CUSTODY, MANIFEST, RECORDS, REMOVED, open_release, plain_json, sha256
from sfumato.plan import Plan
from sfumato.progress import Progress, silent
from sfumato.randomness import Key
from sfumato.release import Release
from sfumato.report import render

_PARTIAL = ".sfumato-partial-"


def write_release(
    release: Release, folder: Path, *, overwrite: bool, progress: Progress | None
) -> Path:
    """Write everything beside the folder, check it there, and move it into place at once."""
    target = folder.absolute()
    _require_free(release, target, overwrite=overwrite)
    _warn_of_earlier(release, target)
    target.parent.mkdir(parents=True, exist_ok=True)
    with _partial(target) as place:
        _write_all(release, place, progress or silent)
        if release.plan.targets:
            _remeasure(release, place)
        swap(place, target)
    return folder


def _require_free(release: Release, target: Path, *, overwrite: bool) -> None:
    source = release.original.source
    if source and source.path and source.path.absolute().is_relative_to(target):
        raise ReleaseError(
            "The folder holds the original data and would be overwritten.",
            hint="write the release elsewhere.",
        )
    if not target.exists():
        return
    if not overwrite:
        raise ReleaseError(
            f"'{target}' exists already.", hint="choose another folder, or say --overwrite."
        )
    if not (target / MANIFEST).is_file():
        raise ReleaseError(
            f"'{target}' is not a release, so it is not overwritten.", hint="choose another folder."
        )
    if (target / CUSTODY / "key").is_file() and earlier_key(target) != release.key:
        raise ReleaseError(
            f"Overwriting '{target}' would destroy the key of the release that lies there.",
            hint=f"use that key ({CUSTODY}/key), or choose another folder.",
        )


def earlier_key(folder: Path) -> Key:
    """The key of the release that lies in a folder."""
    return Key.of(folder / CUSTODY / "key")


def _warn_of_earlier(release: Release, target: Path) -> None:
    """Noise under two keys can be averaged; say so when another release of these data lies near."""
    mine = release.custody["input"]["records_digest"]
    found: list[str] = []
    for record in sorted(target.parent.glob(f"*/{CUSTODY}/custody.json")):
        try:
            earlier = json.loads(record.read_text("utf-8"))
        except (OSError, ValueError):
            continue
        same_data = earlier.get("input", {}).get("records_digest") == mine
        if not same_data:
            continue
        if earlier.get("key_commitment") == release.key.commitment:
            return  # not a new key: whoever used the others has been warned
        found.append(record.parts[-3])
    if found:
        warnings.warn(
            "The same data were released before under another key, in "
            f"{', '.join(repr(one) for one in found)}. Who has both releases learns more than "
            f"from one. Hint: use the key in '{found[0]}/{CUSTODY}/key'.",
            RepeatedReleaseWarning,
            stacklevel=4,
        )


@contextmanager
def _partial(target: Path) -> Iterator[Path]:
    """A private folder beside the target that does not outlive us, whatever happens."""
    for stale in target.parent.glob(f"{_PARTIAL}*"):
        if not _alive(stale):
            shutil.rmtree(stale, ignore_errors=True)
    place = target.parent / f"{_PARTIAL}{os.getpid()}-{secrets.token_hex(4)}"
    place.mkdir(mode=0o700)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _alive(stale: Path) -> bool:
    try:
        os.kill(int(stale.name.removeprefix(_PARTIAL).partition("-")[0]), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True


def _write_all(release: Release, place: Path, say: Progress) -> None:
    plan, order = release.plan, release.order()
    suffix = (
        f".{plan.release.format}" if plan.release.format else suffix_for(release.original.source)
    )
    data_file = place / f"data{suffix}"
    say("writing", 0, 3)
    batch = release.dataset
    facts = write_table(
        _polars(batch),
        data_file,
        source=batch.source,
        formulas=plan.release.formulas,
        order=order,
    )
    say("writing", 1, 3)
    manifest = {**release.manifest, "data": _described(release, data_file, facts)}
    custody = {
        **release.custody,
        "created": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "manifest_sha256": hashlib.sha256(plain_json(manifest)).hexdigest(),
    }
    private = place / CUSTODY
    private.mkdir(mode=0o700)
    _put(place / MANIFEST, plain_json(manifest), mode=0o644)
    _put(place / "report.html", render(manifest).encode(), mode=0o644)
    _put(private / "key", f"{release.key.text}\n".encode(), mode=0o600)
    _put(private / "plan.toml", plan.text(comments=True).encode(), mode=0o600)
    _put(private / "custody.json", plain_json(custody), mode=0o600)
    _put(private / "report.html", render(manifest, custody).encode(), mode=0o600)
    say("writing", 2, 3)
    _write_records(release, private, order)
    place.chmod(0o755)
    say("writing", 3, 3)


def _polars(data: Dataset) -> pl.DataFrame:
    if isinstance(data.frame, pl.DataFrame):
        return data.frame
    return pl.DataFrame([frames.column(data.frame, name) for name in data.columns])


def _described(release: Release, data_file: Path, facts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "file": data_file.name,
        "sha256": sha256(data_file),
        "types": {
            name: _type(frames.column(release.dataset.frame, name).dtype)
            for name in release.dataset.columns
        },
        "formulas": release.plan.release.formulas,
        **facts,
    }


def _type(dtype: pl.DataType) -> str:
    if dtype.is_integer():
        return "integer"
    if dtype.is_float() or dtype.is_decimal():
        return "number"
    if dtype == pl.Boolean:
        return "boolean"
    if dtype == pl.Date:
        return "date"
    return "datetime" if dtype.is_temporal() else "text"


def _write_records(release: Release, private: Path, order: frames.Positions | None) -> None:
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


def _remeasure(release: Release, place: Path) -> None:
    """Measure the targets again on the file as it lies on the disk."""
    from sfumato.run import require_met

    opened = open_release(place)
    verdict, evidence = opened.judge(release.plan, release.original)
    require_met(verdict, evidence)


def keep_attempt(folder: Path, plan: Plan, error: TargetError) -> Path:
    """Keep the evidence of a refused release inside: in a private folder beside the target."""
    place = folder.absolute().with_name(f"{folder.name}.refused")
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    number = 1 + sum(1 for _ in place.glob("attempt-*.json"))
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
