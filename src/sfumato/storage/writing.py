"""A release on disk, written all or nothing.

release/
  data.csv          the protected records; on a cluster a folder of files, see cluster.py
  manifest.json     public: what was done, what holds, checksums
  report.html       public edition of the report
  codebook.html     public: every variable, and how to read its cells; codebook.json for programs
  accredited/       for accredited analysts: the manifest with the noise in full, if kept back
  custody/          private: key, plan, custody record, per-record evidence, internal report; who
                    did what in the studio, where it was written there
"""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import secrets
import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.data.identity import match_identities
from sfumato.errors import (
    ReleaseError,
    ReplacedReleaseWarning,
    TargetError,
)
from sfumato.evidence import Evidence
from sfumato.io import Batches, choose_suffix, frames, write_table
from sfumato.io.atomic import (
    PRIVATE,
    PUBLIC,
    create_file,
    note_incomplete,
    put_folder_in_place,
    replace_file,
    restore_former_folder,
)
from sfumato.io.locks import hold_new_lock, take_abandoned_lock
from sfumato.kernels.arrays import Words
from sfumato.plan import WHOLE, Plan
from sfumato.plan.targets import Judgement, judge
from sfumato.progress import Progress, part_of, send_progress_to, silent
from sfumato.randomness import Key
from sfumato.release import Release
from sfumato.run.composition import select_targeted
from sfumato.run.distributions import tabulate_distributions
from sfumato.run.dossier import build_dossier
from sfumato.run.gates import require_met
from sfumato.run.lights import list_judged_attacks, list_public
from sfumato.run.measuring import take_measures
from sfumato.run.use import describe_certificate
from sfumato.storage.authentication import encode_json, encode_with_tag
from sfumato.storage.cluster import write_parts
from sfumato.storage.composing import Composing, hold_together, open_ledger
from sfumato.storage.contents import (
    ACCREDITED_FILE,
    CODEBOOK,
    CUSTODY,
    DRAFT,
    KEY_FILE,
    MANIFEST,
    PARTIAL,
    PERSON,
    PLAN_FILE,
    PURPOSE,
    RECORD_FILE,
    RECORDS,
    REMOVED,
    REPORT,
    digest_files,
    sha256,
)
from sfumato.storage.labelling import label_variables
from sfumato.storage.opened_tables import find_private
from sfumato.storage.opening import list_data_files, open_data, read_any_manifest
from sfumato.storage.signing import list_signature_files
from sfumato.storage.streamed import Digest, batches_to_write, digest_batches, digest_file
from sfumato.storage.verifying import is_intact, verify_files

if TYPE_CHECKING:
    from sfumato.run.tables import LinkedRelease

# Formats that cannot hold every value; what they hold is compared with what was protected.
_LOSSY = (".dta", ".sav", ".xpt", ".xlsx")
_LOCK = ".lock"
_NOT_FOR_OTHERS = 0o755


def write_release(
    release: Release | LinkedRelease,
    folder: Path,
    *,
    overwrite: bool,
    ledger: str | Path | Literal[False] | None = None,
    draft: bool = False,
    progress: Progress | None,
) -> Path:
    """Write everything beside the folder, check it there, and move it into place at once.

    A draft says so in its files. It is passed on to nobody, so it is held against no other release,
    and no other one is held against it.
    """
    target = folder.resolve()
    with explain_failing_disk():
        restore_former_folder(target)
        originals = [table.original for table in release.tables.values()]
        require_free(originals, release.key, target, overwrite=overwrite)
    with send_progress_to(progress):
        release.case.require_attacks_held()
    with (
        explain_failing_disk(),
        _hold(release, target, ledger, progress, draft=draft) as composing,
    ):
        target.parent.mkdir(parents=True, exist_ok=True)
        with prepare_beside(target) as folder_to_fill:
            _write_all(composing, folder_to_fill, progress or silent)
            # Until here nobody else could look into it.
            open_to_readers(folder_to_fill)
            with composing.write_down(folder_to_fill, target, overwrite=overwrite):
                put_folder_in_place(folder_to_fill, target, overwrite=overwrite)
            spare_strangers(release.key, folder_to_fill, target)
    return folder


def _hold(
    release: Release | LinkedRelease,
    target: Path,
    ledger: str | Path | Literal[False] | None,
    progress: Progress | None,
    *,
    draft: bool,
) -> AbstractContextManager[Composing]:
    """The release together with all earlier ones; a draft by itself."""
    if draft:
        return nullcontext(Composing(release, release.case.evidence, {"ledger": None}, None, True))
    return hold_together(release, target, open_ledger(ledger), progress)


@contextmanager
def explain_failing_disk() -> Iterator[None]:
    """Say in plain words that nothing could be written."""
    try:
        yield
    except (OSError, pl.exceptions.PolarsError, MemoryError) as error:
        # Libraries report a full disk in types of their own, and with texts that may quote cells.
        why = (error.strerror if isinstance(error, OSError) else None) or "the disk failed"
        if isinstance(error, MemoryError):
            why = "there is too little memory"
        raise ReleaseError(
            f"The release could not be written: {why}. Nothing was left behind.",
            hint="is there enough space, and are you allowed to write there?",
        ) from None


def open_to_readers(folder: Path) -> None:
    """Let others look into a folder that is complete, as far as the user's files are for others."""
    folder.chmod(_NOT_FOR_OTHERS & ~_get_umask())


def _get_umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _write_all(composing: Composing, folder: Path, report: Progress) -> None:
    from sfumato.report import describe_codebook, render_codebook, render_report

    release, case = composing.release, composing.release.case
    plan = release.plan
    manifest, verdict = _write_tables(release, folder, report, draft=composing.draft)
    if composing.draft:
        manifest["draft"] = True
    tables = release.tables if plan.tables else {}
    dossier = build_dossier(plan, verdict, case.evidence, case.attacks, tables)
    if dossier is not None:
        manifest["dossier"] = dossier.public()
    steps = len(release.tables) + 2
    report("writing", steps - 1, steps)
    private = folder / CUSTODY
    private.mkdir(mode=0o700)
    create_file(folder / REPORT, render_report(manifest).encode(), mode=PUBLIC)
    page, table = CODEBOOK
    create_file(folder / page, render_codebook(manifest).encode(), mode=PUBLIC)
    create_file(folder / table, encode_json(describe_codebook(manifest)), mode=PUBLIC)
    manifest["files"] = {name: sha256(folder / name) for name in (REPORT, *CODEBOOK)}
    encoded = encode_with_tag(manifest, release.key, "manifest")
    create_file(folder / MANIFEST, encoded, mode=PUBLIC)
    _write_accredited_manifest(release, folder, manifest)
    create_file(folder / KEY_FILE, f"{release.key.text}\n".encode(), mode=PRIVATE)
    create_file(folder / PLAN_FILE, plan.text(comments=True).encode(), mode=PRIVATE)
    for name, own in release.tables.items():
        _write_evidence_of(own, composing, find_private(folder, name) if name else private)
    custody = {
        **release.custody,
        **(_describe_tables(release) if plan.tables else {}),
        "evidence": {label: item.plain() for label, item in composing.evidence.items()},
        "plan": plan.text(comments=True),
        "created": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "targets": [judgement.plain() for judgement in verdict],
        "lights": composing.lights.plain(),
        "judged_attacks": list_judged_attacks(plan, case.attacks, case.judged),
        **({} if dossier is None else {"dossier": dossier.plain()}),
        **({} if plan.tables else _tabulate(release.tables[WHOLE])),
        "composition": composing.facts,
        **({"draft": True} if composing.draft else {}),
        "manifest_sha256": sha256(folder / MANIFEST),
    }
    create_file(private / REPORT, render_report(manifest, custody).encode(), mode=PRIVATE)
    for name, own in release.tables.items():
        _write_purpose(own, find_private(folder, name) if name else private)
    # The key is checked against its commitment, and this record against the key.
    data = list_data_files(manifest)
    custody["files"] = {**data, **digest_files(folder, without=[KEY_FILE, *data])}
    encoded = encode_with_tag(custody, release.key, "custody")
    create_file(folder / RECORD_FILE, encoded, mode=PRIVATE)
    report("writing", steps, steps)


def _write_tables(
    release: Release | LinkedRelease, folder: Path, report: Progress, *, draft: bool
) -> tuple[dict[str, Any], Sequence[Judgement]]:
    """Write the records of every table: the manifest, and the targets held against the files."""
    manifests: dict[str, dict[str, Any]] = {}
    verdict: Sequence[Judgement] = ()
    for position, (name, table) in enumerate(release.tables.items()):
        report("writing", position, len(release.tables) + 2)
        write_data = _write_on_cluster if _is_on_cluster(table) else write_file_of
        if frames.is_lazy(table.dataset.frame):
            write_data = _write_in_batches
        facts, verdict = write_data(
            table, folder, report, name=name or (DRAFT if draft else "data")
        )
        manifests[name] = {
            **facts,
            "targets": [judgement.public() for judgement in verdict],
            "attacks": list_public(table.plan, table.attacks),
        }
    if WHOLE in manifests:
        return manifests[WHOLE], verdict
    from sfumato.storage.tables import judge_files

    report("checking what was written", len(release.tables), len(release.tables) + 2)
    verdict = judge_files(release.plan, folder, manifests)
    targets = [judgement.public() for judgement in verdict]
    return {**release.manifest, "tables": manifests, "targets": targets}, verdict


def _write_purpose(table: Release, private: Path) -> None:
    """The certificate of what the release is good for: every answer before and after."""
    evidence = table.case.purpose
    if evidence is not None and evidence.computed:
        content = encode_json(describe_certificate(evidence, table.plan.purpose))
        create_file(private / PURPOSE, content, mode=PRIVATE)


def _tabulate(table: Release) -> dict[str, Any]:
    return {"distributions": tabulate_distributions(table.original, table.dataset)}


def _describe_tables(release: Release | LinkedRelease) -> dict[str, Any]:
    """For the custody record, what was done to each of several tables and found of it."""
    tables = release.tables
    return {
        "input": {
            name: _digest_all({table: own.custody["input"][name] for table, own in tables.items()})
            for name in ("records_digest", "values_digest")
        },
        "tables": {
            name: {
                **own.custody,
                "evidence": {label: item.plain() for label, item in own.case.evidence.items()},
                "judged_attacks": list_judged_attacks(own.plan, own.attacks, own.case.judged),
                **_tabulate(own),
                "lights": own.lights.plain(),
                # With its part of the steps over all tables, and what replaced the keys.
                "plan": own.plan.text(),
            }
            for name, own in tables.items()
        },
    }


def _digest_all(digests: Mapping[str, str]) -> str:
    """What tells the original tables from others, all together."""
    text = "\n".join(f"{table}\n{digest}" for table, digest in digests.items())
    return hashlib.sha256(text.encode()).hexdigest()


def write_file_of(
    release: Release, folder: Path, report: Progress, *, name: str = "data"
) -> tuple[dict[str, Any], Sequence[Judgement]]:
    """Write the records into one file: what everybody may know, and the targets of the file."""
    plan = release.plan
    data_file = folder / f"{name}{_choose_suffix(release)}"
    frame = frame_to_write(release.dataset)
    facts = write_table(
        frame,
        data_file,
        source=label_variables(release.dataset, frame),
        formulas=plan.release.formulas,
        order=release.order(),
        progress=part_of(report, "writing"),
    )
    # Whatever the umask, nobody else can change it.
    data_file.chmod(data_file.stat().st_mode & _NOT_FOR_OTHERS)
    report("checking what was written", 1, 3)
    manifest = {**release.manifest, "data": _describe_data(frame, data_file, facts, release)}
    return manifest, _measure_again(release, folder, manifest, frame)


def _write_in_batches(
    release: Release, folder: Path, report: Progress, *, name: str = "data"
) -> tuple[dict[str, Any], Sequence[Judgement]]:
    """Write the records batch by batch: the same file and manifest as `write_file_of`."""
    data_file = folder / f"{name}{_choose_suffix(release)}"
    batches, written = batches_to_write(release, folder), Digest()
    facts = write_table(
        digest_batches(batches, written),
        data_file,
        source=release.dataset.source,
        formulas=release.plan.release.formulas,
        progress=part_of(report, "writing"),
    )
    data_file.chmod(data_file.stat().st_mode & _NOT_FOR_OTHERS)
    report("checking what was written", 1, 3)
    manifest = {**release.manifest, "data": _describe_data(batches, data_file, facts, release)}
    opened = open_data(folder, manifest, like=release.dataset.frame)
    if digest_file(opened.dataset, batches.schema) != written:
        raise ReleaseError(
            "The file does not hold the values that were protected.",
            hint='write another format, such as format = "parquet".',
        )
    return manifest, _judge_file(release, opened.dataset)


def _judge_file(release: Release, written: Dataset) -> Sequence[Judgement]:
    """The targets of what was written, where all values were found again."""
    if not release.plan.targets:
        return []
    targets, measures = select_targeted(release.plan)
    without_original = {
        label: measure for label, measure in measures.items() if measure.of == "one"
    }
    # The file holds the very values that were compared with the original, record by record.
    evidence = {**release.evidence, **take_measures(without_original, None, written)}
    verdict = judge(targets, measures, evidence)
    require_met(verdict, evidence)
    return verdict


def _choose_suffix(release: Release) -> str:
    stated = release.plan.release.format
    return f".{stated}" if stated else choose_suffix(release.original.source)


def _write_on_cluster(
    release: Release, folder: Path, report: Progress, *, name: str = "data"
) -> tuple[dict[str, Any], Sequence[Judgement]]:
    """Let the workers write the records, many files in one folder; else as `write_file_of`."""
    from sfumato.engines.spark import SparkEngine

    facts = write_parts(release, folder / f"{name}.{release.plan.release.format or 'parquet'}")
    report("checking what was written", 1, 3)
    data = release.dataset
    described = {
        "types": {name: name_type(data.dtype(name)) for name in data.columns},
        "formulas": release.plan.release.formulas,
    }
    manifest = {**release.manifest, "data": {**facts, **described}}
    engine, opened = SparkEngine(), open_data(folder, manifest, like=data.frame)
    written = opened.dataset
    cached = written.frame.persist()
    try:
        if engine.add_up(written) != engine.add_up(data):
            raise ReleaseError(
                "The files do not hold the values that were protected.",
                hint='write another format, such as format = "parquet".',
            )
        return manifest, _judge_file(release, written)
    finally:
        cached.unpersist()


def _is_on_cluster(release: Release) -> bool:
    return frames.is_distributed(release.dataset.frame)


def _write_accredited_manifest(
    release: Release | LinkedRelease, folder: Path, manifest: Mapping[str, Any]
) -> None:
    """The manifest with the noise in full, where the public one keeps a part of it back."""
    full = {name: own.accredited["noise"] for name, own in release.tables.items() if own.accredited}
    if not full:
        return
    content = {**manifest, **({"noise": full[WHOLE]} if WHOLE in full else {})}
    if WHOLE not in full:
        content["tables"] = {
            name: {**facts, "noise": full[name]} if name in full else facts
            for name, facts in manifest["tables"].items()
        }
    path = folder / ACCREDITED_FILE
    path.parent.mkdir(mode=0o700)
    create_file(path, encode_with_tag(content, release.key, "accredited"), mode=PRIVATE)


def _describe_data(
    frame: pl.DataFrame | Batches, data_file: Path, facts: Mapping[str, Any], release: Release
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
) -> Sequence[Judgement]:
    """The targets, measured again on the file as it lies on the disk."""
    lossy = Path(manifest["data"]["file"]).suffix in _LOSSY
    if not release.plan.targets and not lossy:
        return []
    order = release.order()
    identity = release.dataset.identity
    opened = open_data(folder, manifest, identity if order is None else identity.take(order))
    require_same(frame if order is None else frame[order], opened.dataset)
    verdict, evidence = opened.judge(release.plan, release.original, targeted=True)
    require_met(verdict, evidence)
    return verdict


def _write_evidence_of(table: Release, composing: Composing, private: Path) -> None:
    """What was measured of each record of a table; no folder is left where that is nothing."""
    evidence = composing.evidence if table is composing.release else table.case.evidence
    if table is composing.release:
        write_evidence(table, evidence, private)
        return
    private.mkdir(mode=0o700)
    write_evidence(table, evidence, private)
    if not any(private.iterdir()):
        private.rmdir()


def write_evidence(release: Release, evidence: Mapping[str, Evidence], private: Path) -> None:
    """What was measured of each record, in the order of the file, and which records were left out.

    Where persons have several rows, it also says which rows are one's, so that the release can be
    measured again without the original. Who stands on which row is not written down: key and
    original together tell it again.
    """
    if frames.is_lazy(release.dataset.frame):
        return  # nothing was measured of single records, and none was left out
    if _is_on_cluster(release):
        from sfumato.engines.spark import SparkEngine

        removed = SparkEngine().list_removed_ids(release.original, release.dataset, release.key)
        _write_removed_ids(private, removed)
        return
    order = release.order()
    measured = [
        frames.get_column(item.records, name).alias(f"{label}.{name}")
        for label, item in evidence.items()
        if item.records is not None
        for name in frames.wrap(item.records).columns
    ]
    if (units := release.dataset.units).declared:
        measured.append(pl.Series(PERSON, units.numbers, dtype=pl.UInt32))
    if measured:
        table = pl.DataFrame(measured)
        _put_table(private / RECORDS, table if order is None else table[order])
    if len(release.dataset) < len(release.original):
        rows = match_identities(release.dataset.identity.digests, release.original.identity.digests)
        _write_removed_ids(private, release.original.identity.ids(release.key)[rows < 0])


def _write_removed_ids(private: Path, removed: Words) -> None:
    if len(removed):
        _put_table(private / REMOVED, pl.DataFrame({"id_1": removed[:, 0], "id_2": removed[:, 1]}))


def _put_table(path: Path, table: pl.DataFrame) -> None:
    with replace_file(path, mode=PRIVATE) as sibling:
        table.write_parquet(sibling)


def keep_attempt(folder: Path, plan: Plan, error: TargetError) -> Path:
    """Keep the evidence of a refused release inside: in a private folder beside the target."""
    from sfumato.report import render_refusal

    refused = folder.absolute().with_name(f"{folder.name}.refused")
    refused.mkdir(mode=0o700, parents=True, exist_ok=True)
    numbers = [path.stem.removeprefix("attempt-") for path in refused.glob("attempt-*.json")]
    number = 1 + max((int(text) for text in numbers if text.isdigit()), default=0)
    path = refused / f"attempt-{number}.json"
    content: dict[str, Any] = {
        "created": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "plan": plan.text(),
        "plan_digest": plan.digest,
        "targets": [{**item.plain(), "worst": item.worst} for item in error.verdict],
        "evidence": {label: evidence.plain() for label, evidence in error.evidence.items()},
    }
    if plan.profile is not None and not plan.tables:
        dossier = build_dossier(plan, error.verdict, error.evidence, error.evidence)
        content["dossier"] = None if dossier is None else dossier.plain()
    create_file(path, encode_json(content), mode=PRIVATE)
    page = render_refusal(content, plan.release.describe_parties(), error.hint)
    create_file(path.with_suffix(".html"), page.encode(), mode=PRIVATE)
    return path


def require_free(originals: Iterable[Dataset], key: Key, target: Path, *, overwrite: bool) -> None:
    """Refuse a target that holds an original, or anything but a whole release under this key."""
    sources = [original.source for original in originals]
    if any(s and s.path and s.path.resolve().is_relative_to(target) for s in sources):
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
    if read_any_manifest(target).get("key_commitment") != key.commitment:
        # The commitment stays in the manifest when the custody record is moved away.
        raise ReleaseError(
            f"The release in '{target}' was made under another key. Overwriting it would destroy "
            "the key, or make a second release under a second key.",
            hint=f"use its key ({KEY_FILE}, wherever you keep it), or choose another folder.",
        )
    if list_signature_files(target):
        raise ReleaseError(
            f"The release in '{target}' is signed. Overwriting it would destroy the signatures.",
            hint="write to another folder; those who signed this one can then sign the new one.",
        )
    if failed := _find_not_ours(key, target):
        raise ReleaseError(
            f"'{target}' contains files that are not of a release: {failed}.",
            hint="move them away, or choose another folder.",
        )


def _find_not_ours(key: Key, folder: Path) -> str:
    """What in a folder is not as we wrote it, and would be lost; empty if all of it is."""
    failed = [check for check in verify_files(folder, key=key) if not is_intact([check])]
    return "; ".join(check.finding for check in failed)


def spare_strangers(key: Key, replaced: Path, target: Path) -> None:
    """Keep the replaced release if somebody put a file into it while we wrote the new one."""
    if replaced.exists() and _find_not_ours(key, replaced):
        spared = target.with_name(f"{target.name}.replaced-{secrets.token_hex(4)}")
        replaced.rename(spared)
        warnings.warn(
            f"Files were added to the old release meanwhile. It is kept as '{spared.name}'.",
            ReplacedReleaseWarning,
            stacklevel=4,
        )


@contextmanager
def prepare_beside(target: Path) -> Iterator[Path]:
    """A private folder beside the target that does not outlive us, whatever happens.

    A writer holds the lock that belongs to its folder as long as it lives. What has a lock that
    nobody holds was left behind, and is removed.
    """
    for lock in target.parent.glob(f"{PARTIAL}*{_LOCK}"):
        with take_abandoned_lock(lock) as is_abandoned:
            if is_abandoned:
                shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
                lock.unlink(missing_ok=True)
    with ExitStack() as stack:
        while True:
            folder = target.parent / f"{PARTIAL}{secrets.token_hex(8)}"
            # Another writer may have removed the lock before it was held: then once more.
            lock = folder.with_name(f"{folder.name}{_LOCK}")
            # Noted before they are there, so that nobody who cleans up misses them.
            stack.enter_context(note_incomplete(folder))
            stack.enter_context(note_incomplete(lock))
            with suppress(FileExistsError):
                stack.enter_context(hold_new_lock(lock))
                break
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


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
