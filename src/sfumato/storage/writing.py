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
import json
import os
import secrets
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.data.identity import match_identities
from sfumato.errors import ReleaseError, RepeatedReleaseWarning, TargetError
from sfumato.io import choose_suffix, frames, write_table
from sfumato.io.atomic import PRIVATE, PUBLIC, create_file, put_folder_in_place, replace_file
from sfumato.kernels.arrays import Positions
from sfumato.plan import Plan
from sfumato.progress import Progress, part_of, silent
from sfumato.randomness import Key
from sfumato.release import Release
from sfumato.run import require_met
from sfumato.storage.opening import (
    ACCREDITED,
    CUSTODY,
    MANIFEST,
    RECORDS,
    REMOVED,
    encode_json,
    open_data,
    sha256,
)

# Formats that cannot hold every value; what they hold is compared with what was protected.
_LOSSY = (".dta", ".sav", ".xpt", ".xlsx")
_PARTIAL = ".sfumato-partial-"
_OURS = {MANIFEST, "report.html", ACCREDITED, CUSTODY}


def write_release(
    release: Release, folder: Path, *, overwrite: bool, progress: Progress | None
) -> Path:
    """Write everything beside the folder, check it there, and move it into place at once."""
    target = folder.resolve()
    try:
        _require_free(release, target, overwrite=overwrite)
        _warn_of_earlier(release, target)
        target.parent.mkdir(parents=True, exist_ok=True)
        with _prepare_beside(target) as folder_to_fill:
            _write_all(release, folder_to_fill, progress or silent)
            # Until here nobody else could look into it.
            folder_to_fill.chmod(0o777 & ~_get_umask())
            put_folder_in_place(folder_to_fill, target, overwrite=overwrite)
    except OSError as error:
        raise ReleaseError(
            f"The release could not be written: {error.strerror or 'the disk failed'}. "
            "Nothing was left behind.",
            hint="is there enough space, and are you allowed to write there?",
        ) from None
    return folder


def _get_umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _write_all(release: Release, folder: Path, report: Progress) -> None:
    from sfumato.report import render_report

    plan, order = release.plan, release.order()
    suffix = (
        f".{plan.release.format}" if plan.release.format else choose_suffix(release.original.source)
    )
    data_file = folder / f"data{suffix}"
    report("writing", 0, 3)
    frame = frame_to_write(release.dataset)
    facts = write_table(
        frame,
        data_file,
        source=release.dataset.source,
        formulas=plan.release.formulas,
        order=order,
        progress=part_of(report, "writing"),
    )
    report("checking what was written", 1, 3)
    manifest = {**release.manifest, "data": _describe_data(frame, data_file, facts, release)}
    manifest["targets"] = _measure_again(release, folder, manifest, frame)
    report("writing", 2, 3)
    private = folder / CUSTODY
    private.mkdir(mode=0o700)
    create_file(folder / MANIFEST, encode_json(manifest), mode=PUBLIC)
    create_file(folder / "report.html", render_report(manifest).encode(), mode=PUBLIC)
    accredited = _write_accredited(release, folder, manifest)
    create_file(private / "key", f"{release.key.text}\n".encode(), mode=PRIVATE)
    create_file(private / "plan.toml", plan.text(comments=True).encode(), mode=PRIVATE)
    _write_records(release, private, order)
    custody = {
        **release.custody,
        "plan": plan.text(comments=True),
        "created": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "targets": manifest["targets"],
        "manifest_sha256": hashlib.sha256(encode_json(manifest)).hexdigest(),
        "files": {
            str(path.relative_to(folder)): sha256(path)
            for path in (folder / "report.html", accredited, private / RECORDS, private / REMOVED)
            if path.is_file()
        },
    }
    create_file(private / "report.html", render_report(manifest, custody).encode(), mode=PRIVATE)
    create_file(private / "custody.json", encode_json(custody), mode=PRIVATE)
    report("writing", 3, 3)


def _write_accredited(release: Release, folder: Path, manifest: Mapping[str, Any]) -> Path:
    """The manifest with the noise in full, where the public one keeps a part of it back."""
    path = folder / ACCREDITED / MANIFEST
    if release.accredited is not None:
        path.parent.mkdir(mode=0o700)
        create_file(
            path, encode_json({**manifest, "noise": release.accredited["noise"]}), mode=PRIVATE
        )
    return path


def _describe_data(
    frame: pl.DataFrame, data_file: Path, facts: Mapping[str, Any], release: Release
) -> dict[str, Any]:
    return {
        "file": data_file.name,
        "sha256": sha256(data_file),
        "types": {name: name_type(dtype) for name, dtype in frame.schema.items()},
        "formulas": release.plan.release.formulas,
        **facts,
    }


def _measure_again(
    release: Release, folder: Path, manifest: Mapping[str, Any], frame: pl.DataFrame
) -> list[dict[str, Any]]:
    """The targets, measured again on the file as it lies on the disk."""
    lossy = Path(manifest["data"]["file"]).suffix in _LOSSY
    if not release.plan.targets and not lossy:
        return []
    order = release.order()
    identity = release.dataset.identity
    opened = open_data(folder, manifest, identity if order is None else identity.take(order))
    require_same(frame if order is None else frame[order], opened.dataset)
    verdict, evidence = opened.judge(release.plan, release.original)
    require_met(verdict, evidence)
    return [judgement.plain() for judgement in verdict]


def _write_records(release: Release, private: Path, order: Positions | None) -> None:
    """What was measured of each record, in the order of the file, and which records were left out.

    Who stands on which row is not written down: key and original together tell it again.
    """
    measured = [
        frames.get_column(evidence.records, name).alias(f"{label}.{name}")
        for label, evidence in release.evidence.items()
        if evidence.records is not None
        for name in frames.wrap(evidence.records).columns
    ]
    if measured:
        table = pl.DataFrame(measured)
        _put_table(private / RECORDS, table if order is None else table[order])
    if len(release.dataset) < len(release.original):
        rows = match_identities(release.dataset.identity.digests, release.original.identity.digests)
        removed = release.original.identity.ids(release.key)[rows < 0]
        _put_table(private / REMOVED, pl.DataFrame({"id_1": removed[:, 0], "id_2": removed[:, 1]}))


def _put_table(path: Path, table: pl.DataFrame) -> None:
    with replace_file(path, mode=PRIVATE) as sibling:
        table.write_parquet(sibling)


def keep_attempt(folder: Path, plan: Plan, error: TargetError) -> Path:
    """Keep the evidence of a refused release inside: in a private folder beside the target."""
    refused = folder.absolute().with_name(f"{folder.name}.refused")
    refused.mkdir(mode=0o700, parents=True, exist_ok=True)
    numbers = [path.stem.removeprefix("attempt-") for path in refused.glob("attempt-*.json")]
    number = 1 + max((int(text) for text in numbers if text.isdigit()), default=0)
    path = refused / f"attempt-{number}.json"
    content = {
        "created": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "plan": plan.text(),
        "plan_digest": plan.digest,
        "targets": [judgement.plain() for judgement in error.verdict],
        "evidence": {label: evidence.plain() for label, evidence in error.evidence.items()},
    }
    create_file(path, encode_json(content), mode=PRIVATE)
    return path


def _require_free(release: Release, target: Path, *, overwrite: bool) -> None:
    """Refuse a target that holds the original, a stranger's files, or a key that would be lost."""
    source = release.original.source
    if source and source.path and source.path.resolve().is_relative_to(target):
        raise ReleaseError(
            "The folder contains the original data and would be overwritten.",
            hint="write the release elsewhere.",
        )
    if not os.path.lexists(target):
        return
    if not overwrite:
        raise ReleaseError(
            f"'{target}' exists already.", hint="choose another folder, or add --overwrite."
        )
    if not (target / MANIFEST).is_file():
        raise ReleaseError(
            f"'{target}' is not a release, so it is not overwritten.", hint="choose another folder."
        )
    strange = [path.name for path in target.iterdir() if not _is_ours(path)]
    if strange:
        raise ReleaseError(
            f"'{target}' contains files that are not of a release: "
            f"{', '.join(sorted(strange)[:5])}.",
            hint="move them away, or choose another folder.",
        )
    if (target / CUSTODY / "key").is_file() and Key.of(target / CUSTODY / "key") != release.key:
        raise ReleaseError(
            f"Overwriting '{target}' would destroy the key of the release in it.",
            hint=f"use that key ({CUSTODY}/key), or choose another folder.",
        )


def _is_ours(path: Path) -> bool:
    return path.name in _OURS or path.name.partition(".")[0] == "data"


def _warn_of_earlier(release: Release, target: Path) -> None:
    """Noise under two keys can be averaged; say so when another release of these data lies near."""
    mine = release.custody["input"]["records_digest"]
    earlier_folders: list[str] = []
    for record in sorted(target.parent.glob(f"*/{CUSTODY}/custody.json")):
        if record.parts[-3].startswith(_PARTIAL):
            continue
        try:
            earlier = json.loads(record.read_text("utf-8"))
        except (OSError, ValueError):
            unread = f"'{record.parts[-3]}' could not be read: was it made from the same data?"
            warnings.warn(unread, RepeatedReleaseWarning, stacklevel=4)
            continue
        same_data = earlier.get("input", {}).get("records_digest") == mine
        if not same_data:
            continue
        if earlier.get("key_commitment") == release.key.commitment:
            return  # not a new key: whoever used the others has been warned
        earlier_folders.append(record.parts[-3])
    if earlier_folders:
        warnings.warn(
            "The same data were released before under another key, in "
            f"{', '.join(repr(name) for name in earlier_folders)}. Anyone with both releases "
            "learns more than from one: averaging leaves a share of "
            f"1/{len(earlier_folders) + 1} of the noise's variance. "
            f"Hint: use the key in '{earlier_folders[0]}/{CUSTODY}/key'.",
            RepeatedReleaseWarning,
            stacklevel=4,
        )


@contextmanager
def _prepare_beside(target: Path) -> Iterator[Path]:
    """A private folder beside the target that does not outlive us, whatever happens."""
    for stale in target.parent.glob(f"{_PARTIAL}*"):
        if not _is_alive(stale):
            shutil.rmtree(stale, ignore_errors=True)
    folder = target.parent / f"{_PARTIAL}{os.getpid()}-{secrets.token_hex(4)}"
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_alive(stale: Path) -> bool:
    try:
        os.kill(int(stale.name.removeprefix(_PARTIAL).partition("-")[0]), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True


def frame_to_write(data: Dataset) -> pl.DataFrame:
    """The records as they are written.

    Levels that no record has would tell of people who are not there, so categories go as text.
    Minus zero counts as zero in every measure, so it is zero in the file. Whole numbers and days
    are written as such, whatever the library had to make of them: pandas turns whole numbers
    with gaps into fractions, and days into midnights.
    """
    return pl.DataFrame([_column_to_write(data, name) for name in data.columns])


def _column_to_write(data: Dataset, name: str) -> pl.Series:
    values = frames.get_column(data.frame, name)
    kind = data.schema[name].kind
    if kind == "integer" and values.dtype.is_float():
        integers = values.cast(pl.Int64, strict=False)
        if integers.null_count() == values.null_count() and bool((integers == values).all()):
            return integers
    if isinstance(values.dtype, pl.Datetime) and values.dtype.time_zone is None:
        days = values.cast(pl.Date)
        if bool((days.cast(values.dtype) == values).all()):
            return days
    if values.dtype.is_float():
        zero = values == 0
        if bool(np.signbit(values.filter(zero).to_numpy()).any()):
            return values.set(zero, 0.0)
    return values


def name_type(dtype: pl.DataType) -> str:
    """How a variable is to be read back."""
    if dtype.is_integer():
        return "integer"
    if dtype.is_float() or dtype.is_decimal():
        return "number"
    if dtype == pl.Boolean:
        return "boolean"
    if dtype == pl.Date:
        return "date"
    return "datetime" if dtype.is_temporal() else "text"


def require_same(wanted: pl.DataFrame, written: Dataset) -> None:
    """Refuse a file that does not hold what was protected, naming the variables."""
    wrong = {
        name: count
        for name in wanted.columns
        if (count := _count_differences(wanted[name], frames.get_column(written.frame, name)))
    }
    if wrong:
        cells = ", ".join(f"{count:,} of '{name}'" for name, count in wrong.items())
        raise ReleaseError(
            f"The file format cannot hold some cells as they are: {cells}.",
            hint='write another format, such as format = "parquet" or "csv".',
        )


def _count_differences(wanted: pl.Series, written: pl.Series) -> int:
    """How many cells are not the same value, whatever type the format gave them."""
    if wanted.dtype.is_temporal():
        wanted, written = _to_instants(wanted), _to_instants(written)
    elif wanted.dtype.is_decimal():
        wanted, written = wanted.cast(pl.Float64), written.cast(pl.Float64, strict=False)
    else:
        written = written.cast(wanted.dtype, strict=False)
    return int((~wanted.eq_missing(written)).sum())


def _to_instants(values: pl.Series) -> pl.Series:
    if isinstance(values.dtype, pl.Datetime) and values.dtype.time_zone:
        values = values.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    if values.dtype in (pl.Time, pl.Duration):
        return values.cast(pl.Int64)
    return values.cast(pl.Datetime("us"), strict=False)
