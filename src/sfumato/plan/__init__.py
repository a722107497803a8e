"""What to do and what must hold: a TOML file that people can read, sign and repeat."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from sfumato import catalogue
from sfumato.data import Dataset
from sfumato.data.linked import ForeignKey, LinkedTables, Structure, split_name
from sfumato.errors import PlanError, did_you_mean
from sfumato.measure import Measure
from sfumato.method import Method
from sfumato.methods.derive import Derive
from sfumato.parameters import ParameterError, parameters
from sfumato.plan.profile import add_missing, compare_with_profile, read_profile_targets
from sfumato.plan.targets import Target, measures_for, read_targets, require_labels
from sfumato.plan.tiers import TierOf, derive_tier, read_tiers, require_tiers
from sfumato.schema import Column, Role, Schema
from sfumato.utility.purpose import Purpose

WHOLE = ""
"""The part of a plan that holds over all its tables; of one table, the plan itself."""
_Reason = Annotated[str, Field(min_length=1, pattern=r"\S")]
PARTIES = ("title", "custodian", "recipient", "purpose", "legal_basis", "date", "contact")
"""What the first page of the report says of a release besides what was measured, and what it is."""


@parameters
class Writing:
    """How the release is written.

    Parameters
    ----------
    format : file format: "csv", "parquet", "arrow", "xlsx", "dta", "sav" or "xpt". Default: as the
        data came.
    keep_order : keep the order of the rows. By default they get a keyed random order,
        since a position in a file can point to a person.
    formulas : text in a CSV file that a spreadsheet would run: "escape" it with an apostrophe,
        "refuse" to write, or "keep" it.
    noise : what the public manifest says about noise: "all"; "safe", the default: all but what
        reveals values (variances that grow with the value, knots of a scale by ranks); or
        "none", only which variables have noise. The rest goes into `accredited/manifest.json`.
    accept_composition : reason to accept what several releases disclose together: why this may be
        released although, with earlier releases of the same records, it misses a target or cannot
        be measured.
    attack_seconds : seconds for attacks on the release: about so many, by the time that each is
        stated to take for so many records and variables; 60 by default. Where less leaves one
        untried, `accept_attacks` must say why.
    accept_attacks : reason to accept what an attack achieves: why this may be released although it
        succeeds too often, or had no time; or reasons by attack, `{ singling_out = "..." }`.
    title : what the first page of the report calls the data.
    custodian : who answers for the original data.
    recipient : who gets the release.
    purpose : what it may be used for.
    legal_basis : what allows it: such as a consent, a law or an approval with its number.
    date : date of the plan. The report shows no other date, so that it stays the same.
    contact : whom analysts may ask.

    Examples
    --------
    >>> import sfumato as sf
    >>> sf.Plan(release=Writing(title="Cohort of 2026", format="parquet")).release.format
    'parquet'
    """

    format: Literal["csv", "parquet", "arrow", "xlsx", "dta", "sav", "xpt"] | None = None
    keep_order: bool = False
    formulas: Literal["escape", "refuse", "keep"] = "escape"
    # None, so that plans written before there was noise keep their digest.
    noise: Literal["all", "safe", "none"] | None = None
    accept_composition: _Reason | None = None
    attack_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    accept_attacks: _Reason | dict[str, _Reason] | None = None
    title: _Reason | None = None
    custodian: _Reason | None = None
    recipient: _Reason | None = None
    purpose: _Reason | None = None
    legal_basis: _Reason | None = None
    date: dt.date | None = None
    contact: _Reason | None = None

    @field_validator("accept_attacks")
    @classmethod
    def _name_attacks(cls, reasons: str | dict[str, str] | None) -> str | dict[str, str] | None:
        known = [name for name, entry in catalogue.measures().items() if entry.trial is not None]
        for name in reasons if isinstance(reasons, dict) else ():
            if name not in known:
                msg = f"names '{name}', which is no attack. Hint: {did_you_mean(name, known)}"
                raise ValueError(msg)
        return reasons or None

    @model_validator(mode="after")
    def _say_why(self) -> Self:
        if self.attack_seconds == 0 and self.accept_attacks is None:
            wrong = (
                "is 0, so that no attack is tried. Hint: leave it out, or say why nobody need try: "
                'accept_attacks = "...".'
            )
            raise ParameterError("Writing", [("attack_seconds", wrong)])
        return self

    def describe_parties(self) -> dict[str, str]:
        """For whom, by whom, what for and since when: what the first page of the report says."""
        stated = {name: getattr(self, name) for name in PARTIES}
        return {name: str(value) for name, value in stated.items() if value is not None}

    def find_reason(self, attack: str) -> str | None:
        """Why an attack may do better than is acceptable, or need not be tried; None: no reason."""
        reasons = self.accept_attacks
        return reasons.get(attack) if isinstance(reasons, dict) else reasons


@dataclass(frozen=True, init=False)
class Plan:
    """Roles, steps, targets and evaluation. Frozen; equal plans have equal digests.

    A plan is for one table, or for several of the same persons with the keys between them
    (`tables`, `keys`, `person`). Then each table has a plan of its own, and `steps`, `targets` and
    `evaluate` are of all tables together.

    Parameters
    ----------
    schema : the role of each variable; a `Schema` or a mapping from variable to role.
    steps : the methods, in the order they are applied. Over several tables, after the steps of
        each: `k_anonymity`, which makes persons alike in all their tables, and `shift_dates`.
        Variables are then named with their table, `"visits.date"`.
    targets : what must hold, `{"k.min": 5}`. If a target is missed, nothing is released. Of several
        tables they hold in the joined view; without one, the strictest `k`, `l`, `t` and
        `attribute_disclosure` of a table hold there too.
    evaluate : the measures to take; a list, or a mapping from a label to a measure. Of the joined
        view: `uniqueness`, which is always taken, `attribute_disclosure`, which is where there is
        a confidential variable, `diversity` and `closeness`.
    read : how to read the file: delimiter, encoding, types (see `sfumato.read`).
    release : how to write the release; see `Writing`. That of the plan of a table among several
        does not count.
    tiers : what differs for users of different trust, from the most trusted to the least,
        `{"internal": {}, "public": {"noise": {"variance_share": 0.4}}}`; see `for_tier`.
    tier : which tier of another plan this one is.
    profile : the rule book that the release shall meet, such as "ema-0070". Its targets and
        measures hold where the plan sets none of its own; see `sfumato profiles`. Those that are
        not measured in the joined view of several tables hold in each of them.
    tables : of several tables, a plan for each. Variables that are keys need no role there.
    keys : from the many to the one, `{"visits.patient": "patients.patient"}`.
    person : the variable that says who a person is, `"patients.patient"`.
    files : the file, or the table of a database, of each table that is not called like it.
    purpose : what the data are for, `["wage ~ age + sex", "mean wage by region"]`; see
        `sf.utility.Purpose`. It is measured with every release, and targets may be set on it.

    Examples
    --------
    >>> import sfumato as sf
    >>> plan = Plan(schema={"name": "direct", "sex": "quasi"}, steps=[sf.methods.Drop()],
    ...             targets={"k.min": 2})
    >>> Plan.parse(plan.text()) == plan
    True

    Of two tables:

    >>> plan = Plan(
    ...     tables={"patients": Plan(schema={"sex": "quasi"}), "visits": Plan()},
    ...     keys={"visits.patient": "patients.patient"}, person="patients.patient",
    ...     targets={"k.min": 5})
    >>> Plan.parse(plan.text()) == plan
    True
    """

    schema: Schema
    steps: tuple[Method, ...]
    targets: tuple[Target, ...]
    evaluate: Mapping[str, Measure]
    read: Mapping[str, Any]
    release: Writing
    tiers: Mapping[str, Mapping[str, Any]]
    tier: TierOf | None
    profile: str | None
    tables: Mapping[str, Plan]
    keys: tuple[ForeignKey, ...]
    person: str
    files: Mapping[str, str]

    def __repr__(self) -> str:
        what = f"{len(self.tables)} tables" if self.tables else f"{len(self.schema)} variables"
        return f"Plan({what}, {len(self.steps)} steps, {len(self.targets)} targets)"

    def __init__(  # noqa: PLR0913 - a parameter for each section of a plan file
        self,
        *,
        schema: Schema | Mapping[str, Column | Role | None] | None = None,
        steps: Iterable[Method] = (),
        targets: Mapping[str, Any] | Iterable[Target] = (),
        evaluate: Mapping[str, Measure] | Iterable[Measure] = (),
        read: Mapping[str, Any] | None = None,
        release: Writing | None = None,
        tiers: Mapping[str, Mapping[str, Any]] | None = None,
        tier: TierOf | None = None,
        profile: str | None = None,
        tables: Mapping[str, Plan] | None = None,
        keys: Mapping[str, str] | Iterable[ForeignKey] = (),
        person: str = "",
        files: Mapping[str, str] | None = None,
        purpose: Purpose | Iterable[str] | str | None = None,
    ) -> None:
        # Frozen, so the fields are set past the dataclass; here people's shorthand becomes types.
        put = partial(object.__setattr__, self)
        put("schema", schema if isinstance(schema, Schema) else Schema(schema))
        put("steps", tuple(steps))
        put("read", dict(read or {}))
        put("release", release or Writing())
        put("tiers", read_tiers(tiers or {}))
        put("tier", tier)
        put("profile", profile)
        bounds = read_targets(targets) if isinstance(targets, Mapping) else tuple(targets)
        if isinstance(evaluate, Mapping):
            named = dict(evaluate)
        else:
            named = {measure.name: measure for measure in evaluate}
        if purpose is not None:
            named[Purpose.name] = _read_purpose(purpose)
        required = read_profile_targets(profile, several=bool(tables))
        put("targets", add_missing(bounds, required.targets))
        require_labels(named)
        # What the plan names comes first, as it was written.
        put("evaluate", {**named, **required.measures, **named})
        if isinstance(keys, Mapping):
            keys = [ForeignKey.parse(*pair) for pair in keys.items()]
        put("keys", tuple(keys))
        put("person", person)
        put("files", {name: file for name, file in (files or {}).items() if file != name})
        put("tables", {})
        require_tiers(self)
        if tables or self.keys or person:
            from sfumato.plan.family import adopt, require_family

            put("tables", {name: adopt(name, plan, self.release, required)
                           for name, plan in (tables or {}).items()})  # fmt: skip
            require_family(self)

    @property
    def purpose(self) -> Purpose | None:
        """What the data are for, where the plan says so."""
        found = self.evaluate.get(Purpose.name)
        return found if isinstance(found, Purpose) else None

    @property
    def by_table(self) -> dict[str, Plan]:
        """The plan of each table by its name; of one table, that is this plan."""
        return dict(self.tables) or {WHOLE: self}

    @property
    def parts(self) -> list[str]:
        """What has steps, targets and measures of its own, in the order it is carried out.

        Each table by its name, and `WHOLE` for what is done and holds over all of them.

        Examples
        --------
        >>> Plan().parts
        ['']
        """
        return [*self.tables, WHOLE]

    def get_part(self, part: str) -> Plan:
        """The plan that has the steps, targets and measures of a part."""
        if part != WHOLE and part not in self.tables:
            raise PlanError(
                f"The plan has no table '{part}'.", hint=did_you_mean(part, self.tables)
            )
        return self if part == WHOLE else self.tables[part]

    def replace_part(self, part: str, **changes: Any) -> Plan:
        """The whole plan, with other steps, targets or measures in one part."""
        changed = replace(self.get_part(part), **changes)
        return changed if part == WHOLE else replace(self, tables={**self.tables, part: changed})

    def list_methods(self, part: str = WHOLE) -> dict[str, type[Method]]:
        """The methods that a part can have: over several tables only some work."""
        methods = catalogue.methods()
        over_tables = part == WHOLE and bool(self.tables)
        return {name: entry for name, entry in methods.items()
                if entry.over_tables or not over_tables}  # fmt: skip

    def require_one_table(self) -> Plan:
        """The plan itself; an error if it is for several tables."""
        if self.tables:
            raise PlanError(
                "The plan is for several tables, and this works with one.",
                hint="take the plan of one of them, plan.tables[...], with the data of that table.",
            )
        return self

    @property
    def structure(self) -> Structure:
        """The tables and how keys lead from one to the other."""
        return Structure(tuple(self.tables), self.keys, split_name(self.person))

    def list_key_variables(self, table: str) -> list[str]:
        """The variables of a table that are keys; of a single table there are none."""
        return self.structure.list_key_variables(table) if self.tables else []

    def link(self, tables: Mapping[str, Any]) -> LinkedTables:
        """The tables of this plan, with its keys; others are refused."""
        from sfumato.plan.family import require_tables

        require_tables(self, tables)
        chosen = {name: tables[name] for name in self.tables}
        return LinkedTables(chosen, keys=self.keys, person=self.person)

    @property
    def measures(self) -> dict[str, Measure]:
        """Every measure the plan needs, by label: named ones, those of targets and of methods.

        Of several tables, those of the joined view, in which who stands alone is always counted.
        """
        if self.tables:
            from sfumato.plan.family import list_joined_measures

            return list_joined_measures(self)
        named = self._inform(measures_for(self.targets, self.evaluate))
        reported = {name: step.set_report(name) for step in self.steps for name in step.reports}
        # A target is checked against what the step promises, unless the plan names the measure.
        return named | {
            name: catalogue.measure(name)(**reported[name])
            for name in sorted(reported)
            if name not in named or (reported[name] and name not in self.evaluate)
        }

    @property
    def all_targets(self) -> tuple[Target, ...]:
        """What must hold; of several tables also what each of them promises by itself."""
        if not self.tables:
            return self.targets
        from sfumato.plan.family import list_promises

        return (*self.targets, *list_promises(self))

    def list_weaker(self) -> tuple[str, ...]:
        """Where the plan asks for less than its profile, in words; empty without a profile.

        Examples
        --------
        >>> Plan(profile="ema-0070", targets={"k.min": 5}).list_weaker()
        ('k at least 5, where the profile asks for at least 12.',)
        """
        if self.profile is None:
            return ()
        required = read_profile_targets(self.profile, several=bool(self.tables))
        if not self.tables:
            return compare_with_profile(self, required, set(self.schema.having("quasi")))
        from sfumato.plan.family import list_weaker

        return list_weaker(self, required)

    def relax(self) -> Plan:
        """The plan with nothing that must hold: to look at what it does, never to release it."""
        tables = {name: plan.relax() for name, plan in self.tables.items()}
        return replace(self, tables=tables, targets=(), evaluate={}, profile=None)

    def _inform(self, measures: dict[str, Measure]) -> dict[str, Measure]:
        """The measures with what steps tell them, where nobody has set it."""
        settings: dict[str, dict[str, Any]] = {}
        for step in self.steps:
            for name in step.informs:
                settings.setdefault(name, {}).update(step.set_report(name))
        informed = dict(measures)
        for label, measure in measures.items():
            unset = {name: value for name, value in settings.get(measure.name, {}).items()
                     if getattr(measure, name) is None}  # fmt: skip
            if unset:
                informed[label] = replace(measure, **unset)  # type: ignore[type-var]
        return informed

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read a plan from a TOML file."""
        from sfumato.plan.toml_reader import load

        return load(Path(path))

    @classmethod
    def parse(cls, text: str) -> Plan:
        """Read a plan from TOML text."""
        from sfumato.plan.toml_reader import parse

        return parse(text)

    def text(self, *, comments: bool = False) -> str:
        """The plan as TOML; with comments, each line says what it does."""
        from sfumato.plan.toml_writer import write

        return write(self, comments=comments)

    @property
    def digest(self) -> str:
        """SHA-256 of the plan without comments: equal plans, equal digests."""
        return hashlib.sha256(self.text().encode()).hexdigest()

    def declare(self, data: Dataset) -> Dataset:
        """The original with the variables that the first steps make, and with roles and kinds."""
        for step in self.steps:
            if not isinstance(step, Derive):
                break
            data = step.prepare(data)
        return data.with_schema(self.schema)

    def with_schema(self, schema: Schema | Mapping[str, Column | Role | None]) -> Plan:
        """The same plan for other declarations."""
        declared = schema if isinstance(schema, Schema) else Schema(schema)
        return replace(self, schema=declared)

    def for_tier(self, name: str) -> Plan:
        """The plan of one of its tiers, as `protect` takes it."""
        return derive_tier(self, name)

    def __hash__(self) -> int:
        return hash(self.digest)


def _read_purpose(purpose: Purpose | Iterable[str] | str) -> Purpose:
    if isinstance(purpose, Purpose):
        return purpose
    items = [purpose] if isinstance(purpose, str) else list(purpose)
    return Purpose(items=items)
