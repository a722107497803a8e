"""A release of several tables on disk, written all or nothing, opened and verified.

release/
  patients.csv ...  the protected records of each table
  manifest.json     public: what was done in each table and over all, what holds, checksums
  report.html, codebook.html, codebook.json, accredited/    as of a release of one table
  custody/          private: key, plan, custody record, internal report
  custody/table-patients/ ...     what was measured of each record of a table
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.data.linked import LinkedTables
from sfumato.errors import DataError, PlanError, ReleaseError, SchemaError, SfumatoError
from sfumato.io import frames
from sfumato.io.atomic import (
    PRIVATE,
    PUBLIC,
    create_file,
    put_folder_in_place,
    restore_former_folder,
)
from sfumato.plan import Plan
from sfumato.plan.linked import LinkedPlan
from sfumato.plan.targets import Judgement
from sfumato.progress import Progress, send_progress_to, silent
from sfumato.release import Release
from sfumato.risk.composition import Composition
from sfumato.run.composed_tables import (
    EarlierTables,
    hold_joined_composition,
    place_tables,
    require_joined_composition,
)
from sfumato.run.distributions import tabulate_distributions
from sfumato.run.dossier import build_linked_dossier
from sfumato.run.gates import require_met
from sfumato.run.joined import JOINED, attack_joined_view, judge_joined_view
from sfumato.run.lights import (
    describe_success,
    dim_lights,
    judge_attacks,
    list_judged_attacks,
    list_public,
)
from sfumato.run.linked import (
    LinkedRelease,
    PreparedTable,
    prepare_tables,
    require_attacks_fail,
)
from sfumato.schema import Column, Schema
from sfumato.storage.authentication import encode_json, encode_with_tag
from sfumato.storage.contents import (
    ACCREDITED_FILE,
    CODEBOOK,
    CUSTODY,
    KEY_FILE,
    MANIFEST,
    PLAN_FILE,
    RECORD_FILE,
    REPORT,
    digest_files,
    is_file_with,
    sha256,
)
from sfumato.storage.earlier import (
    FoundRelease,
    find_earlier,
    match_earlier,
    require_unchanged_release,
)
from sfumato.storage.ledger import Ledger
from sfumato.storage.opened_tables import find_private, open_tables
from sfumato.storage.opening import (
    OpenedRelease,
    is_of_several,
    list_data_files,
    open_data,
    open_release,
    read_any_manifest,
    read_custody,
)
from sfumato.storage.verifying import Check, check_attacks, list_judged_targets
from sfumato.storage.writing import (
    explain_failing_disk,
    open_to_readers,
    prepare_beside,
    require_free,
    spare_strangers,
    write_evidence,
    write_file_of,
)


def write_tables(
    release: LinkedRelease,
    folder: Path,
    *,
    overwrite: bool,
    ledger: str | Path | Literal[False] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write everything beside the folder, check it there, and move it into place at once."""
    from sfumato.storage.composing import open_ledger

    target = folder.resolve()
    originals = [table.original for table in release.tables.values()]
    with explain_failing_disk():
        restore_former_folder(target)
        require_free(originals, release.key, target, overwrite=overwrite)
    with send_progress_to(progress):
        require_attacks_fail(release)
    tables = release.tables
    book = open_ledger(ledger)
    with explain_failing_disk(), nullcontext() if book is None else book.lock(progress):
        facts = _hold_together(release, tables, target, book)
        target.parent.mkdir(parents=True, exist_ok=True)
        with prepare_beside(target) as folder_to_fill:
            _write_all(release, tables, facts, folder_to_fill, progress or silent)
            open_to_readers(folder_to_fill)
            with _write_down(tables, book, folder_to_fill, target, overwrite=overwrite):
                put_folder_in_place(folder_to_fill, target, overwrite=overwrite)
            spare_strangers(release.key, folder_to_fill, target)
    return folder


def _hold_together(
    release: LinkedRelease, tables: Mapping[str, Release], target: Path, ledger: Ledger | None
) -> dict[str, Any]:
    """Measure the tables together with earlier releases of the same persons.

    Refused is what misses a target, and what cannot be measured, unless the plan says why it may
    leave.
    """
    by_folder: dict[Path, dict[str, FoundRelease]] = {}
    for name, table in tables.items():
        content = "" if ledger is None else ledger.digest_content(table.dataset)
        for item in find_earlier(table, target, ledger):
            # The very same shows nothing new.
            if item.entry is None or item.entry.content != content:
                by_folder.setdefault(item.folder, {}).setdefault(name, item)
    paired = [_pair_tables(release, tables, items, ledger) for items in by_folder.values()]
    earlier = [item for item in paired if item is not None]
    facts: dict[str, Any] = {
        "ledger": None if ledger is None else str(ledger.folder),
        "earlier": {
            name: [str(folder) for folder, items in by_folder.items() if name in items]
            for name in tables
            if any(name in items for items in by_folder.values())
        },
        "accepted": None,
    }
    if not earlier:
        return facts
    together = hold_joined_composition(
        release.plan, release.original, release.linked, release.evidence, earlier
    )
    require_joined_composition(release.plan, together, earlier)
    return {
        **facts,
        "evidence": together.evidence.plain(),
        "targets": [judgement.plain() for judgement in together.verdict],
        "accepted": release.plan.release.accept_composition,
    }


def _pair_tables(
    release: LinkedRelease,
    tables: Mapping[str, Release],
    earlier: Mapping[str, FoundRelease],
    ledger: Ledger | None,
) -> EarlierTables | None:
    """An earlier release with the persons of today, or why nothing can be measured of it.

    None where it turns out to be of other people.
    """
    label = next(iter(earlier.values())).label
    person = release.plan.structure.person[0]
    try:
        if person not in earlier:
            raise ReleaseError("it has records of these tables, and not of their persons.")
        require_unchanged_release(earlier[person])
        return open_earlier(earlier[person], release.original, tables[person].original, ledger)
    except SfumatoError as error:
        return EarlierTables(label, reason=error.what)


def open_folder(folder: Path, release: LinkedRelease) -> EarlierTables:
    """The folder of an earlier release with the persons of today."""
    person = release.plan.structure.person[0]
    earlier = FoundRelease(folder, "", "")
    try:
        placed = open_earlier(earlier, release.original, release.tables[person].original, None)
    except SfumatoError as error:
        return EarlierTables(earlier.label, reason=error.what)
    return placed or EarlierTables(earlier.label, reason="it is of other people.")


def open_earlier(
    earlier: FoundRelease, original: LinkedTables, persons: Dataset, ledger: Ledger | None
) -> EarlierTables | None:
    """An earlier release, of several tables or of the persons alone, with the persons of today.

    Parameters
    ----------
    earlier : where it lies.
    original : the tables of today.
    persons : the table of persons among them, as the plan declares it.
    """
    folder = earlier.folder
    table, variable = original.structure.person
    if is_of_several(read_any_manifest(folder)):
        opened, plan = open_tables(folder), LinkedPlan.load(folder / PLAN_FILE)
        linked = _link(plan, {name: item.dataset for name, item in opened.items()})
        rows = match_earlier(earlier, opened[plan.structure.person[0]], persons, ledger)
    else:
        single = open_release(folder)
        rows = match_earlier(earlier, single, persons, ledger)
        # Each row is one person's, whatever it shows of who they are.
        data = single.dataset.without([variable] if variable in single.dataset.schema else [])
        numbers = pl.DataFrame({variable: np.arange(len(data))})
        frame = frames.with_columns(data.frame, numbers)
        numbered = Dataset(frame, Schema({**data.schema, variable: Column(role="person")}))
        linked = LinkedTables({table: numbered}, keys={}, person=f"{table}.{variable}")
    return None if rows is None else place_tables(earlier.label, original, linked, rows)


@contextmanager
def _write_down(
    tables: Mapping[str, Release],
    ledger: Ledger | None,
    folder: Path,
    target: Path,
    *,
    overwrite: bool,
) -> Iterator[None]:
    """Enter every table into the ledger, and take all out if the release never comes to be."""
    from sfumato.storage.composing import describe_entry, settle_entry

    if ledger is None:
        yield
        return
    seal = sha256(folder / MANIFEST)
    numbers: list[int] = []
    try:
        numbers.extend(
            ledger.add(*describe_entry(table, ledger, target, seal)).number
            for table in tables.values()
        )
        yield
    finally:
        for number in numbers:
            if is_file_with(target / MANIFEST, seal):
                settle_entry(ledger, number, target, overwrite=overwrite, beside=numbers)
            else:
                ledger.remove(number)


def _write_all(
    release: LinkedRelease,
    tables: Mapping[str, Release],
    composition: Mapping[str, Any],
    folder: Path,
    report: Progress,
) -> None:
    from sfumato.report.linked import describe_codebook, render_codebook, render_report

    plan, key = release.plan, release.key
    manifests: dict[str, Any] = {}
    verdicts: dict[str, Sequence[Judgement]] = {}
    for position, (name, table) in enumerate(tables.items()):
        report("writing", position, len(tables) + 1)
        facts, verdicts[name] = write_file_of(table, folder, silent, name=name)
        manifests[name] = {
            **facts,
            "targets": [judgement.public() for judgement in verdicts[name]],
            "attacks": list_public(table.plan, table.attacks),
        }
    report("checking what was written", len(tables), len(tables) + 1)
    verdict = _judge_files(plan, folder, manifests)
    manifest = {
        **release.manifest,
        "tables": manifests,
        "targets": [judgement.public() for judgement in verdict],
    }
    written = {name: replace(table, verdict=verdicts[name]) for name, table in tables.items()}
    dossier = build_linked_dossier(plan, verdict, release.evidence, written, release.attacks)
    if dossier is not None:
        manifest["dossier"] = dossier.public()
    private = folder / CUSTODY
    private.mkdir(mode=0o700)
    create_file(folder / REPORT, render_report(manifest).encode(), mode=PUBLIC)
    page, machine = CODEBOOK
    create_file(folder / page, render_codebook(manifest).encode(), mode=PUBLIC)
    create_file(folder / machine, encode_json(describe_codebook(manifest)), mode=PUBLIC)
    manifest["files"] = {name: sha256(folder / name) for name in (REPORT, *CODEBOOK)}
    create_file(folder / MANIFEST, encode_with_tag(manifest, key, "manifest"), mode=PUBLIC)
    _write_accredited_manifest(release, folder, manifest)
    create_file(folder / KEY_FILE, f"{key.text}\n".encode(), mode=PRIVATE)
    create_file(folder / PLAN_FILE, plan.text(comments=True).encode(), mode=PRIVATE)
    for name, table in tables.items():
        private_folder = find_private(folder, name)
        private_folder.mkdir(mode=0o700)
        write_evidence(table, table.case.evidence, private_folder)
        if not any(private_folder.iterdir()):
            private_folder.rmdir()
    together = composition.get("evidence")
    custody = {
        **release.custody,
        "evidence": {
            **release.custody["evidence"],
            **({Composition.name: together} if together else {}),
        },
        "input": _digest_inputs(tables),
        "tables": {
            name: {
                **table.custody,
                "evidence": {label: item.plain() for label, item in table.case.evidence.items()},
                "targets": [judgement.plain() for judgement in verdicts[name]],
                "judged_attacks": list_judged_attacks(table.plan, table.attacks, table.case.judged),
                "distributions": tabulate_distributions(table.original, table.dataset),
                "lights": table.lights.plain(),
                # With its part of the steps over all tables, and what replaced the keys.
                "plan": table.plan.text(),
            }
            for name, table in tables.items()
        },
        "plan": plan.text(comments=True),
        "created": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "targets": [judgement.plain() for judgement in verdict],
        "lights": dim_lights(release.lights, composition).plain(),
        **({} if dossier is None else {"dossier": dossier.plain()}),
        "composition": {name: fact for name, fact in composition.items() if name != "evidence"},
        "manifest_sha256": sha256(folder / MANIFEST),
    }
    create_file(private / REPORT, render_report(manifest, custody).encode(), mode=PRIVATE)
    data = list_data_files(manifest)
    custody["files"] = {**data, **digest_files(folder, without=[KEY_FILE, *data])}
    create_file(folder / RECORD_FILE, encode_with_tag(custody, key, "custody"), mode=PRIVATE)
    report("writing", 1, 1)


def _digest_inputs(tables: Mapping[str, Release]) -> dict[str, Any]:
    """What tells the original tables from others, all together."""

    def digest_all(name: str) -> str:
        texts = [f"{table}\n{release.custody['input'][name]}" for table, release in tables.items()]
        return hashlib.sha256("\n".join(texts).encode()).hexdigest()

    return {name: digest_all(name) for name in ("records_digest", "values_digest")}


def _write_accredited_manifest(
    release: LinkedRelease, folder: Path, manifest: dict[str, Any]
) -> None:
    """The manifest with the noise in full, where the public one keeps a part of it back."""
    full = {name: table.accredited for name, table in release.tables.items()}
    if not any(full.values()):
        return
    tables = {
        name: {**facts, "noise": noise["noise"]} if (noise := full[name]) else facts
        for name, facts in manifest["tables"].items()
    }
    path = folder / ACCREDITED_FILE
    path.parent.mkdir(mode=0o700)
    content = {**manifest, "tables": tables}
    create_file(path, encode_with_tag(content, release.key, "accredited"), mode=PRIVATE)


def _judge_files(
    plan: LinkedPlan, folder: Path, manifests: Mapping[str, Any]
) -> tuple[Judgement, ...]:
    """The targets of the joined view, measured on the files as they lie on the disk."""
    written = {name: open_data(folder, facts).dataset for name, facts in manifests.items()}
    evidence, verdict = judge_joined_view(plan, None, _link(plan, written))
    require_met(verdict, evidence)
    return verdict


def _link(plan: LinkedPlan, tables: Mapping[str, Dataset]) -> LinkedTables:
    """Released tables, joined by the pseudonyms that they have."""
    try:
        return plan.link(tables)
    except (DataError, SchemaError) as error:
        raise ReleaseError(
            f"The released tables cannot be joined: {error.what}",
            hint='write another format, such as format = "parquet".',
        ) from None


def verify_tables(
    folder: Path, originals: Dataset | Mapping[str, Dataset] | None = None
) -> list[Check]:
    """Hold a release of several tables, whose files were verified, against originals and targets.

    The tables are joined by the pseudonyms in their files, as an outsider would do it.
    """
    opened, plan = open_tables(folder), LinkedPlan.load(folder / PLAN_FILE)
    manifest, record = read_any_manifest(folder), read_custody(folder)
    checks = [_check_stated_targets(plan, manifest, record)]
    try:
        released = _link(plan, {name: table.dataset for name, table in opened.items()})
    except ReleaseError as error:
        return [*checks, Check(name="keys", passed=False, finding=error.what)]
    finding = f"every key joins, {released.person_count:,} people"
    checks.append(Check(name="keys", passed=True, finding=finding))
    evidence, verdict = judge_joined_view(plan, None, released)
    del evidence
    checks += [
        Check(name=f"{JOINED}: {item.target.name}", passed=item.met, finding=item.describe())
        for item in verdict
    ]
    prepared = None
    if originals is not None:
        if isinstance(originals, Dataset):
            raise PlanError(
                "The release is of several tables, and the original is one.",
                hint="pass the folder or the database that was protected.",
            )
        try:
            prepared = prepare_tables(plan.link(originals), plan)
        except SfumatoError as error:
            finding = f"these are not the original tables: {error.what}"
            return [*checks, Check(name="original", passed=False, finding=finding)]
        same = _are_originals(record, prepared)
        state = "are the ones" if same else "are not the ones"
        finding = f"the original tables {state} that were protected"
        checks.append(Check(name="original", passed=same, finding=finding))
        if not same:
            return checks
        checks.append(_check_joined_attacks(plan, opened, released, prepared))
    for name, table in opened.items():
        checks += _check_table(name, table, released, prepared)
    return checks


def _check_joined_attacks(
    plan: LinkedPlan,
    opened: Mapping[str, OpenedRelease],
    released: LinkedTables,
    prepared: Mapping[str, PreparedTable],
) -> Check:
    """Whether one table still gives away no more of another than is acceptable."""
    originals = {name: table.original for name, table in prepared.items()}
    paired = {
        name: replace(table, dataset=released[name]).paired(originals[name])
        for name, table in opened.items()
    }
    tried = attack_joined_view(plan.link(originals), released.with_tables(paired))
    writing_plan = Plan(release=plan.release)
    beyond = [
        describe_success(item, tried)
        for item in judge_attacks(writing_plan, tried)
        if not item.met and plan.release.find_reason(tried[item.measure].name) is None
    ]
    finding = " ".join(beyond) or f"{len(tried)} tried again, none succeeds too often"
    return Check(name=f"{JOINED}: attacks", passed=not beyond, finding=finding)


def _check_stated_targets(
    plan: LinkedPlan, manifest: Mapping[str, Any], record: Mapping[str, Any]
) -> Check:
    """Whether manifest and custody record state the targets of the plan, all of them as met."""
    wanted = {JOINED: plan.all_targets} | {
        n: table_plan.targets for n, table_plan in plan.tables.items()
    }
    same = True
    for text in (manifest, record):
        stated = {JOINED: text["targets"]}
        stated |= {name: table["targets"] for name, table in text["tables"].items()}
        same &= {
            name: [(t["target"], t.get("min"), t.get("max"), t["met"]) for t in targets]
            for name, targets in stated.items()
        } == {
            name: [(t.name, t.plain().get("min"), t.plain().get("max"), True) for t in targets]
            for name, targets in wanted.items()
        }
    relation = "are" if same else "are not"
    finding = f"the targets in the manifest {relation} those of the plan"
    return Check(name="targets", passed=same, finding=finding)


def _are_originals(record: Mapping[str, Any], prepared: Mapping[str, Any]) -> bool:
    """Whether these are the very tables that were protected."""
    from sfumato.release import values_digest

    return all(
        (table.original.identity.total(), values_digest(table.original))
        == (facts["records_digest"], facts["values_digest"])
        for name, table in prepared.items()
        if (facts := record["tables"][name]["input"]) is not None
    )


def _check_table(
    name: str,
    opened: OpenedRelease,
    released: LinkedTables,
    prepared: Mapping[str, Any] | None,
) -> Iterator[Check]:
    """The targets of one table, and the attacks on it where its original is at hand."""
    table_plan, original = opened.plan(), None
    data = released[name]
    if name in released.persons:
        identity = data.identity.with_persons(released.persons[name])
        data = replace(data, given_identity=identity)
    table = replace(opened, dataset=data)
    if prepared is not None:
        original = prepared[name].original
        table = replace(table, dataset=table.paired(original))
    verdict, evidence = table.judge(table_plan, original)
    for check in list_judged_targets(table_plan, verdict, original):
        yield replace(check, name=f"{name}: {check.name}")
    if (table.manifest.get("attacks") or {}).get("tried"):
        check = check_attacks(table, table_plan, original, evidence)
        yield replace(check, name=f"{name}: {check.name}")
