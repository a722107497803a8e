"""Several tables of the same persons: protected each by its plan, judged by what joins them.

Each table goes through the steps of its own plan, as a table by itself would. Steps over all tables
follow. Whoever is removed in one table is removed in all. Risk is then measured in every table, and
in the joined view (`LinkedTables.join`), for somebody who knows one row of one table, and for
somebody who knows all rows of a person in all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from sfumato import __version__
from sfumato.data import Dataset
from sfumato.data.identity import match_identities
from sfumato.data.linked import LinkedTables, Structure
from sfumato.engines import engine_for
from sfumato.errors import (
    MethodError,
    SchemaError,
    SfumatoError,
)
from sfumato.evidence import Evidence
from sfumato.io import frames
from sfumato.kernels.arrays import Integers, Mask, Positions
from sfumato.method import Fitted, Method
from sfumato.methods.clustering.linked import cluster_tables, find_rare_persons
from sfumato.methods.drop import Drop
from sfumato.methods.k_anonymity import KAnonymity
from sfumato.methods.pseudonymise import Pseudonymise
from sfumato.plan import Plan
from sfumato.plan.family import split_step
from sfumato.plan.targets import Judgement, find_number, list_harmless
from sfumato.progress import Progress
from sfumato.randomness import Key
from sfumato.release import FORMAT, Release, write_to_disk
from sfumato.risk.attribute_disclosure import AttributeDisclosure
from sfumato.run.composed_tables import (
    EarlierTables,
    hold_joined_composition,
    place_release,
    require_joined_composition,
)
from sfumato.run.dossier import Dossier, build_dossier
from sfumato.run.finishing import finish_table
from sfumato.run.folders import place_folder
from sfumato.run.gates import (
    LAST_GATES,
    Protected,
    declare,
    pass_gates,
    require_met,
    require_persons,
    require_runs,
)
from sfumato.run.joined import (
    JOINED,
    add_disclosure,
    attack_joined_view,
    judge_joined_view,
    measure_joined_view,
)
from sfumato.run.lights import (
    Findings,
    Light,
    Lights,
    judge_attacks,
    light_attempts,
    list_barely_met,
    list_judged_attacks,
    require_attempts_fail,
)
from sfumato.run.measuring import choose_measures
from sfumato.run.remedies import suggest_for_joined_view
from sfumato.run.steps import apply_steps
from sfumato.schema import Column


@dataclass(frozen=True, eq=False)
class PreparedTable:
    """A table as its plan declares it, with its keys.

    Parameters
    ----------
    original : its records. Where no key leads straight to the persons, with a variable that does.
    plan : the table's own, with the role of each key.
    attached : the variable that was added; None where none was.
    """

    original: Dataset
    plan: Plan
    attached: str | None


def prepare_tables(linked: LinkedTables, plan: Plan) -> dict[str, PreparedTable]:
    """Every table as the plan declares it."""
    structure = linked.structure
    table, variable = structure.person
    names = frames.get_column(linked[table].frame, variable)
    first = np.empty(linked.person_count, np.int64)
    first[linked.persons[table]] = np.arange(linked.person_count)
    prepared = {}
    for name, table_plan in plan.tables.items():
        data, roles = linked[name], dict[str, Column]()
        for key in structure.list_key_variables(name):
            roles[key] = _declare_key(structure, name, key, table_plan)
        attached = None
        persons = [key for key, column in roles.items() if column.role == "person"]
        if name in structure.owned and not persons:
            attached = f"{table}.{variable}"
            while attached in data.schema:
                attached += "_"
            column = names[first[linked.persons[name]]].alias(attached)
            data = replace(data, frame=frames.with_columns(data.frame, pl.DataFrame([column])))
            roles[attached] = Column(role="person")
        declared = table_plan.with_schema(table_plan.schema.with_columns(roles))
        try:
            original = declare(Dataset(data.frame, data.schema, data.source), declared)
        except SfumatoError as error:
            raise type(error)(f"Table '{name}': {error.what}", hint=error.hint) from None
        prepared[name] = PreparedTable(original, declared, attached)
    return prepared


def _declare_key(structure: Structure, table: str, variable: str, plan: Plan) -> Column:
    """What a key is: it says whose a row is, or it is a number without a meaning."""
    stated: Column = plan.schema.get(variable, Column())
    if stated.role not in (None, "person", "direct", "other"):
        raise SchemaError(
            f"'{table}.{variable}' is a key and cannot have the role {stated.role}.",
            hint="leave its role out: keys leave as pseudonyms.",
        )
    root = ".".join(structure.person)
    is_person = structure.find_root(table, variable) == root and table in structure.owned
    return replace(stated, role="person" if is_person else "other", kind=None)


@dataclass(frozen=True, eq=False, kw_only=True)
class LinkedRelease:
    """Protected tables that can still be joined, with one verdict, manifest and custody record.

    Parameters
    ----------
    tables : the release of each table, in the order of the plan.
    plan : what was done.
    original, linked : the tables before and after, with their keys.
    evidence : of the joined view.
    verdict : the targets of the joined view.
    key : the secret behind all of it.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> tables = {
    ...     "patients": pl.DataFrame({"patient": range(8), "sex": ["f", "m"] * 4}),
    ...     "visits": pl.DataFrame({"patient": range(8), "ward": ["a", "b"] * 4})}
    >>> plan = sf.Plan(
    ...     tables={"patients": sf.Plan(schema={"sex": "quasi"}),
    ...             "visits": sf.Plan(schema={"ward": "quasi"})},
    ...     keys={"visits.patient": "patients.patient"}, person="patients.patient",
    ...     targets={"k.min": 4})
    >>> release = sf.protect(tables, plan)
    >>> list(release.data), release.verdict[0].number
    (['patients', 'visits'], 4.0)
    """

    tables: Mapping[str, Release]
    plan: Plan
    original: LinkedTables = field(repr=False)
    linked: LinkedTables = field(repr=False)
    evidence: Mapping[str, Evidence]
    verdict: Sequence[Judgement]
    key: Key = field(repr=False)

    @property
    def data(self) -> dict[str, Any]:
        """The protected tables as frames of the user's own library."""
        return {name: release.data for name, release in self.tables.items()}

    @property
    def all_judgements(self) -> list[Judgement]:
        """The verdict on the joined view and on every table, named by it."""
        judged = [_name_judgement(JOINED, judgement) for judgement in self.verdict]
        for name, release in self.tables.items():
            judged += [_name_judgement(name, judgement) for judgement in release.verdict]
        return judged

    @property
    def all_evidence(self) -> dict[str, Evidence]:
        """What was measured of the joined view and of every table, named by it."""
        parts = {JOINED: self.evidence, **{n: own.evidence for n, own in self.tables.items()}}
        return {f"{name}.{label}": item for name, own in parts.items()
                for label, item in own.items()}  # fmt: skip

    @property
    def records(self) -> int:
        """How many rows all tables have."""
        return sum(release.records for release in self.tables.values())

    @cached_property
    def case(self) -> JoinedCase:
        """All that was found out about it, each taken when first asked for, and once."""
        return JoinedCase(self)

    @property
    def attacks(self) -> dict[str, Evidence]:
        """What one table gives away of another; see `attack_joined_view`."""
        return self.case.attacks

    @property
    def lights(self) -> Lights:
        """Whether all targets hold, and what attacks on each table achieve."""
        return self.case.lights

    @property
    def dossier(self) -> Dossier | None:
        """Each rule of the plan's profile with what was measured; None without a profile."""
        return self.case.dossier

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """What an analyst needs and everybody may see."""
        return {
            "format": FORMAT,
            "made_by": f"sfumato {__version__}",
            "person": self.plan.person,
            "keys": {str(key): key.target for key in self.plan.keys},
            "persons": self.linked.person_count,
            **({"parties": parties} if (parties := self.plan.release.describe_parties()) else {}),
            "tables": {name: release.manifest for name, release in self.tables.items()},
            "targets": [judgement.public() for judgement in self.verdict],
            "evidence": {
                label: item.public().plain()
                for label, item in self.evidence.items()
                if item.audience == "public"
            },
            "key_commitment": self.key.commitment,
        }

    @cached_property
    def custody(self) -> dict[str, Any]:
        """What stays inside: how it was made, and all the evidence. The key is kept apart."""
        return {
            "format": FORMAT,
            "key_commitment": self.key.commitment,
            "plan_digest": self.plan.digest,
            "persons": self.original.person_count,
            # Each table has its own: that of a release of one table stands here.
            "input": {},
            "tables": {name: release.custody for name, release in self.tables.items()},
            "targets": [judgement.plain() for judgement in self.verdict],
            "evidence": {
                label: item.plain() for label, item in {**self.evidence, **self.attacks}.items()
            },
            "judged_attacks": list_judged_attacks(self.plan, self.attacks, self.case.judged),
        }

    def write(
        self,
        folder: str | Path,
        *,
        overwrite: bool = False,
        ledger: str | Path | Literal[False] | None = None,
        draft: bool = False,
        progress: Progress | None = None,
    ) -> Path:
        """Write all tables, one manifest, one report and the custody record, all or nothing.

        The targets are measured again on the files as they are on the disk before the folder
        appears under its name. See `Release.write`.
        """
        return write_to_disk(
            self, folder, overwrite=overwrite, ledger=ledger, draft=draft, progress=progress
        )


@dataclass(frozen=True, eq=False)
class JoinedCase:
    """A release of several tables with all that was found out about it; see `Case`."""

    release: LinkedRelease

    @cached_property
    def attacks(self) -> dict[str, Evidence]:
        """What one table gives away of another; see `attack_joined_view`."""
        return attack_joined_view(self.release.original, self.release.linked)

    @property
    def evidence(self) -> dict[str, Evidence]:
        """All of it by label: what was measured of the joined view, and the attacks on it."""
        return {**self.release.evidence, **self.attacks}

    @cached_property
    def judged(self) -> tuple[Judgement, ...]:
        """What each attack on the joined view achieved, held against what is acceptable."""
        return judge_attacks(self.release.plan, self.attacks)

    @property
    def findings(self) -> Findings:
        """Nothing: the joined view measures what a single table only has findings of."""
        return Findings()

    @cached_property
    def lights(self) -> Lights:
        """Whether all targets hold, and what attacks on each table achieve."""
        plan, release = self.release.plan, self.release
        tables = {name: table.lights for name, table in release.tables.items()}
        stated = {name: lights for name, lights in tables.items() if plan.tables[name].targets}
        targets = _combine({name: lights.targets for name, lights in stated.items()})
        if not release.verdict and not stated:
            targets = targets.dim(["No target was set, so nothing is guaranteed."])
        unmeasured = [
            f"{label} could not be computed: {item.reason}"
            for label, item in release.evidence.items()
            if not item.computed
        ]
        harmless = list_harmless(plan.targets, plan.measures)
        weaker = [
            f"Less than the profile {plan.profile} asks for: {line}" for line in plan.list_weaker()
        ]
        by_table = {name: lights.attacks for name, lights in tables.items()}
        attacks = _combine({**by_table, JOINED: light_attempts(plan, self.attacks, self.judged)})
        return Lights(
            targets.dim(
                [
                    *_name_view([*harmless, *list_barely_met(release.verdict)]),
                    *weaker,
                    *_name_view(unmeasured),
                ]
            ),
            attacks.dim(_name_view(self._list_learnt())),
        )

    @cached_property
    def dossier(self) -> Dossier | None:
        """Each rule of the plan's profile with what was measured; None without a profile."""
        release = self.release
        return build_dossier(
            release.plan, release.verdict, release.evidence, self.attacks, release.tables
        )

    def require_attacks_held(self) -> None:
        """Refuse a release if an attack succeeds too often, on a table or on several."""
        require_attempts_fail(self.release.plan, self.attacks)
        for name, table in self.release.tables.items():
            with _name_table(name):
                table.case.require_attacks_held()

    def _list_learnt(self) -> list[str]:
        """Where joined tables give away a confidential value, and no target says how often."""
        measures = self.release.plan.measures
        wanted = [find_number(target, measures) for target in self.release.plan.all_targets]
        if any(where and measures[where[0]].of_secrets for where in wanted):
            return []
        return [
            f"of {item.at_worst:.1%} of the persons somebody learns "
            f"'{item.details['worst_variable']}', since all who look alike have the same. Set a "
            "target on attribute_disclosure, diversity or closeness."
            for item in self.release.evidence.values()
            if item.name == AttributeDisclosure.name and item.at_worst > 0
        ]


def _name_view(lines: Iterable[str]) -> list[str]:
    return [f"{JOINED}: {line}" for line in lines]


def _combine(lights: Mapping[str, Light]) -> Light:
    """The worst of some lights, with the reasons of all by table."""
    colours = {light.colour for light in lights.values()}
    colour = next((c for c in ("red", "amber") if c in colours), "green")
    reasons = [f"{name}: {line}" for name, light in lights.items() for line in light.reasons]
    return Light(colour, tuple(reasons))  # type: ignore[arg-type]


def protect_tables(
    tables: LinkedTables | Mapping[str, Any],
    plan: Plan,
    *,
    key: Key,
    earlier: Iterable[LinkedRelease | str | Path],
    progress: Progress | None,
) -> LinkedRelease:
    """Carry out a plan for several tables; see `protect`."""
    datasets = tables if isinstance(tables, Mapping) else tables.tables
    for data in datasets.values():
        frame = data.frame if isinstance(data, Dataset) else data
        for table_plan in plan.tables.values():
            require_runs(table_plan, engine_for(frame))
    linked = plan.link(datasets)
    _ = linked.persons  # two keys that lead to different persons are refused before any work
    prepared = prepare_tables(linked, plan)
    for name, table in prepared.items():
        with _name_table(name):
            require_persons(table.original, engine_for(table.original.frame))
    work = _Work(linked, plan, prepared, key, progress)
    for name in linked.structure.order:
        work.protect_table(name)
    work.remove_rows()
    for step in plan.steps:
        work.protect_all(step)
    release = work.finish()
    paired = [_place_earlier(item, release) for item in earlier]
    if not paired:
        return release
    composition = hold_joined_composition(
        plan, release.original, release.linked, release.evidence, paired
    )
    require_joined_composition(plan, composition, paired)
    return replace(release, evidence={**release.evidence, composition.label: composition.evidence})


def _place_earlier(earlier: LinkedRelease | str | Path, release: LinkedRelease) -> EarlierTables:
    """An earlier release, or its folder, with the persons of today."""
    if isinstance(earlier, (str, Path)):
        return place_folder(earlier, release)
    label = f"the release of plan {earlier.plan.digest[:8]}"
    return place_release(label, release.original, earlier.linked)


class _name_table:  # noqa: N801 - used as a function
    """Put the name of a table before what is wrong with it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, SfumatoError) and not error.what.startswith(f"Table '{self.name}'"):
            error.what = f"Table '{self.name}': {error.what}"
            error.args = (f"{error.what} Hint: {error.hint}" if error.hint else error.what,)


class _Work:
    """Tables on their way through a plan."""

    def __init__(
        self,
        linked: LinkedTables,
        plan: Plan,
        prepared: Mapping[str, PreparedTable],
        key: Key,
        progress: Progress | None,
    ) -> None:
        self.linked, self.plan, self.prepared = linked, plan, prepared
        self.key, self.progress = key, progress
        self.data = {name: table.original for name, table in prepared.items()}
        self.steps: dict[str, list[Method]] = {name: [] for name in prepared}
        self.fitted: dict[str, list[Fitted]] = {name: [] for name in prepared}
        self.gone = np.zeros(linked.person_count, bool)
        self.kept: dict[str, Mask] = {}

    def protect_table(self, name: str) -> None:
        """Replace the keys of a table, and carry out its own steps on who is still there."""
        stays = self._find_staying(name)
        self.data[name] = self.data[name].take(np.flatnonzero(stays))
        with _name_table(name):
            self.apply(name, list(self._replace_keys(name)))
            keys = self.linked.structure.list_key_variables(name)
            if (attached := self.prepared[name].attached) is not None:
                keys.append(attached)  # it goes at the very end, when nothing draws by it any more
            data = self.data[name]
            self.data[name] = replace(data, schema=data.schema.changed(keys, cells="pseudonyms"))
            self.apply(name, self.prepared[name].plan.steps)
        rows = self._find_rows(name)
        remains = np.zeros(len(stays), bool)
        remains[rows] = True
        self.kept[name] = remains
        if name in self.linked.structure.owned:
            persons = self.linked.persons[name]
            before, after = (np.zeros_like(self.gone) for _ in range(2))
            before[persons[stays]] = True
            after[persons[remains]] = True
            self.gone |= before & ~after

    def _replace_keys(self, name: str) -> Iterator[Method]:
        """Pseudonyms for the keys: the same in every table in which the same row is meant."""
        structure = self.linked.structure
        roots: dict[str, list[str]] = {}
        for variable in structure.list_key_variables(name):
            roots.setdefault(structure.find_root(name, variable), []).append(variable)
        for root, variables in roots.items():
            namespace = "person" if root == self.plan.person else root
            yield Pseudonymise(variables=variables, namespace=namespace)

    def _find_staying(self, name: str) -> Mask:
        """The rows whose person and whose parents are still there."""
        stays = np.ones(len(self.prepared[name].original), bool)
        if name in self.linked.structure.owned:
            stays &= ~self.gone[self.linked.persons[name]]
        for key in self.linked.structure.keys_of(name):
            stays &= self.kept[key.to_table][self.linked.parents[key]]
        return stays

    def _find_rows(self, name: str) -> Positions:
        """Which original row stands on each row of what is left."""
        original = self.prepared[name].original.identity.digests
        return match_identities(original, self.data[name].identity.digests)

    def remove_rows(self) -> None:
        """Remove in all tables who was removed in one, and the rows whose parents are gone."""
        for name in self.linked.structure.order:
            stays = self.kept[name] & self._find_staying(name)
            rows = self._find_rows(name)
            self.kept[name] = stays
            if not stays[rows].all():
                self.data[name] = self.data[name].take(np.flatnonzero(stays[rows]))
            if not len(self.data[name]):
                raise MethodError(
                    f"No row is left in table '{name}'.",
                    hint="remove fewer persons or rows, take a smaller k, or leave the table out.",
                )

    def protect_all(self, step: Method) -> None:
        """Carry out a step over all tables."""
        owned = self.linked.structure.owned
        parts = split_step(step, {name: self.data[name].schema for name in owned})
        if not isinstance(step, KAnonymity):
            for name, part in parts.items():
                with _name_table(name):
                    self.apply(name, [part])
            return
        if not parts:
            return
        rare, remaining = find_rare_persons(self._number_rows(), step.k), int((~self.gone).sum())
        fitted: Fitted = {}
        if len(rare) == remaining:
            raise MethodError(
                f"There is no combination of tables in which k = {step.k} of the {remaining:,} "
                "persons have rows.",
                hint="choose a smaller k, or leave a table out.",
            )
        if len(rare):
            self.gone[rare] = True
            self.remove_rows()
            fitted = {
                "loss": f"{len(rare):,} of {remaining:,} people were left out: fewer than {step.k} "
                "people have rows in the same tables as they do."
            }
        tables = {name: self.data[name] for name in owned}
        self.data |= cluster_tables(parts, tables, self._number_rows())  # type: ignore[arg-type]
        for name, part in parts.items():
            self.steps[name].append(part)
            self.fitted[name].append(fitted)

    def _number_rows(self) -> dict[str, Integers]:
        """The person of each row that is left, in every owned table."""
        return {
            name: self.linked.persons[name][self._find_rows(name)]
            for name in self.linked.structure.owned
        }

    def apply(self, name: str, steps: Sequence[Method]) -> None:
        """Carry out steps on one table."""
        first = len(self.steps[name])
        data, fitted = apply_steps(
            self.data[name], steps, self.key, first=first, progress=self.progress
        )
        self.data[name] = data
        self.steps[name] += steps
        self.fitted[name] += fitted

    def finish(self) -> LinkedRelease:
        """Measure every table and the joined view, and hold them against the targets."""
        releases: dict[str, Release] = {}
        for name, table in self.prepared.items():
            if table.attached is not None:
                self.apply(name, [Drop(variables=[table.attached])])
            with _name_table(name):
                releases[name] = self._release(name)
        linked = self.linked.with_tables(
            {name: release.dataset for name, release in releases.items()}
        )
        originals = {name: table.original for name, table in self.prepared.items()}
        original = self.linked.with_tables(originals)
        evidence, verdict = judge_joined_view(self.plan, original, linked, progress=self.progress)
        release = LinkedRelease(
            tables=releases,
            plan=self.plan,
            original=original,
            linked=linked,
            evidence=evidence,
            verdict=verdict,
            key=self.key,
        )
        joined = any(not judgement.met for judgement in verdict)
        hint = suggest_for_joined_view() if joined else ""
        require_met(release.all_judgements, release.all_evidence, hint=hint)
        for name, own in releases.items():
            engine = engine_for(own.dataset.frame)
            with _name_table(name):
                protected = Protected(own.original, own.dataset, own.plan.steps, engine)
                pass_gates(protected, LAST_GATES)
        return release

    def _release(self, name: str) -> Release:
        table, data = self.prepared[name], self.data[name]
        return finish_table(
            table.original,
            data,
            replace(table.plan, steps=tuple(self.steps[name])),
            fitted=self.fitted[name],
            key=self.key,
            engine=engine_for(data.frame),
            progress=self.progress,
        )


def _name_judgement(table: str, judgement: Judgement) -> Judgement:
    """A judgement that says in which table."""
    under = "; ".join(filter(None, [f"in {table}", judgement.under]))
    return replace(judgement, measure=f"{table}.{judgement.measure}", under=under)


def assess_tables(
    tables: LinkedTables,
    measures: Any = None,
    *,
    progress: Progress | None = None,
) -> dict[str, Evidence]:
    """Measure the risk of several tables as they are, in the joined view; see `assess`."""
    chosen = choose_measures(["uniqueness"] if measures is None else measures, of="one")
    chosen = add_disclosure(chosen, tables) if measures is None else chosen
    # A plan refuses what is not measured there.
    _ = Plan(
        tables={name: Plan() for name in tables.tables},
        keys=tables.structure.keys,
        person=".".join(tables.structure.person),
        evaluate=chosen,
    )
    return measure_joined_view(chosen, tables, "original", progress=progress)
