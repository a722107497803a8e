"""What holds of several tables together on disk: earlier releases, joined files, verification.

release/
  patients.csv ...  the protected records of each table
  manifest.json     public: what was done in each table and over all, what holds, checksums
  report.html, codebook.html, codebook.json, accredited/    as of a release of one table
  custody/          private: key, plan, custody record, internal report
  custody/table-patients/ ...     what was measured of each record of a table
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.data.linked import LinkedTables
from sfumato.errors import DataError, PlanError, ReleaseError, SchemaError, SfumatoError
from sfumato.evidence import Evidence
from sfumato.io import frames
from sfumato.plan import Plan
from sfumato.plan.targets import Judgement
from sfumato.run.composed_tables import (
    EarlierTables,
    hold_joined_composition,
    place_tables,
    require_joined_composition,
)
from sfumato.run.gates import require_met
from sfumato.run.joined import JOINED, attack_joined_view, judge_joined_view
from sfumato.run.lights import (
    describe_success,
    judge_attacks,
)
from sfumato.run.tables import (
    LinkedRelease,
    PreparedTable,
    prepare_tables,
)
from sfumato.schema import Column, Schema
from sfumato.storage.composing import list_verdict
from sfumato.storage.contents import (
    PLAN_FILE,
)
from sfumato.storage.earlier import (
    FoundRelease,
    match_earlier,
    require_unchanged_release,
)
from sfumato.storage.ledger import Ledger
from sfumato.storage.opened_tables import open_tables
from sfumato.storage.opening import (
    OpenedRelease,
    is_of_several,
    open_data,
    open_release,
    read_any_manifest,
    read_custody,
)
from sfumato.storage.verifying import Check, check_attacks, list_judged_targets


def compose_persons(
    release: LinkedRelease, earlier: Mapping[str, Sequence[FoundRelease]], ledger: Ledger | None
) -> tuple[dict[str, Any], dict[str, Evidence]]:
    """What the tables and the earlier releases of the same persons disclose together.

    Refused is what misses a target, and what cannot be measured, unless the plan says why it may
    leave.
    """
    by_folder: dict[Path, dict[str, FoundRelease]] = {}
    for name, table in release.tables.items():
        content = "" if ledger is None else ledger.digest_content(table.dataset)
        for item in earlier[name]:
            # The very same shows nothing new.
            if item.entry is None or item.entry.content != content:
                by_folder.setdefault(item.folder, {}).setdefault(name, item)
    paired = [_pair_tables(release, items, ledger) for items in by_folder.values()]
    known = [item for item in paired if item is not None]
    facts: dict[str, Any] = {
        "earlier": {
            name: [str(folder) for folder, items in by_folder.items() if name in items]
            for name in release.tables
            if any(name in items for items in by_folder.values())
        },
        "accepted": None,
    }
    if not known:
        return facts, {}
    composition = hold_joined_composition(
        release.plan, release.original, release.linked, release.evidence, known
    )
    require_joined_composition(release.plan, composition, known)
    together = {composition.label: composition.evidence}
    return {**facts, **list_verdict(release.plan, composition)}, together


def _pair_tables(
    release: LinkedRelease, earlier: Mapping[str, FoundRelease], ledger: Ledger | None
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
        original = release.tables[person].original
        return open_earlier(earlier[person], release.original, original, ledger)
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
        opened, plan = open_tables(folder), Plan.load(folder / PLAN_FILE)
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


def judge_files(plan: Plan, folder: Path, manifests: Mapping[str, Any]) -> tuple[Judgement, ...]:
    """The targets of the joined view, measured on the files as they lie on the disk."""
    written = {name: open_data(folder, facts).dataset for name, facts in manifests.items()}
    evidence, verdict = judge_joined_view(plan, None, _link(plan, written))
    require_met(verdict, evidence)
    return verdict


def _link(plan: Plan, tables: Mapping[str, Dataset]) -> LinkedTables:
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
    opened, plan = open_tables(folder), Plan.load(folder / PLAN_FILE)
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
    plan: Plan,
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
    beyond = [
        describe_success(item, tried)
        for item in judge_attacks(plan, tried)
        if not item.met and plan.release.find_reason(tried[item.measure].name) is None
    ]
    finding = " ".join(beyond) or f"{len(tried)} tried again, none succeeds too often"
    return Check(name=f"{JOINED}: attacks", passed=not beyond, finding=finding)


def _check_stated_targets(
    plan: Plan, manifest: Mapping[str, Any], record: Mapping[str, Any]
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
