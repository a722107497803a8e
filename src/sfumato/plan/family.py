"""A plan for several tables: one for each of them, the keys between them, and what holds for all.

[tables.patients]            # read, columns, steps, targets, evaluate, as in a plan for one table
[keys]                       # "visits.patient" = "patients.patient": from the many to the one
[[steps]]                    # over all tables, after the steps of each
[targets]                    # of the joined view
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from sfumato.data.linked import ForeignKey, LinkedTables, Structure, split_name
from sfumato.errors import PlanError, did_you_mean
from sfumato.measure import Measure
from sfumato.method import Method
from sfumato.methods.k_anonymity import KAnonymity
from sfumato.methods.shift_dates import ShiftDates
from sfumato.plan import Plan, Writing
from sfumato.plan.profile import build_measures, compare_targets, list_narrowed_measures
from sfumato.plan.targets import Target, find_number, measures_for, read_targets, require_labels
from sfumato.plan.toml_reader import VERSION, PlanReader, parse_toml, read_text
from sfumato.plan.toml_writer import format_key, format_value, write_sections
from sfumato.profiles import load_profile
from sfumato.risk.attribute_disclosure import AttributeDisclosure
from sfumato.risk.closeness import Closeness
from sfumato.risk.diversity import Diversity
from sfumato.risk.uniqueness import Uniqueness
from sfumato.schema import Schema

_SECTIONS = (
    "version", "profile", "person", "keys", "tables", "steps", "targets", "evaluate", "release",
)  # fmt: skip
_OF_TABLE = ("file", "read", "columns", "steps", "targets", "evaluate")
SHARED_METHODS = (KAnonymity, ShiftDates)
"""What works over all tables at once."""
_CLUSTERING = (None, "mondrian")
_LEGEND = ("#   ", "# Every variable with its role")
ConfidentialMeasure = AttributeDisclosure | Diversity | Closeness
"""What is learnt of confidential variables; these are measured on the joined view too."""
_JOINED = (
    "k", "uniqueness", "prosecutor", "unique_records", "k_of_trajectories", "unique_trajectories",
    "attribute_disclosure", "disclosed_records",
    "diversity", "l", "l_entropy", "l_recursive", "closeness", "t", "beta",
)  # fmt: skip
"""Numbers of the joined view on which a target may be set."""
_HELD_JOINED = (
    "k", "diversity", "l", "closeness", "t", "attribute_disclosure", "disclosed_records",
)  # fmt: skip
"""Numbers whose strictest target of a table holds in the joined view, unless the plan sets one."""


@dataclass(frozen=True, init=False)
class LinkedPlan:
    """A plan for each table, the keys between them, and what is done and holds over all.

    Parameters
    ----------
    tables : a `Plan` for each table. Variables that are keys need no role there.
    keys : from the many to the one, `{"visits.patient": "patients.patient"}`.
    person : the variable that says who a person is, `"patients.patient"`.
    steps : over all tables, after the steps of each: `k_anonymity`, which makes persons alike in
        all their tables, and `shift_dates`. Variables are named with their table,
        `"visits.date"`.
    targets : what must hold in the joined view. Without one, the strictest `k`, `l`, `t` and
        `attribute_disclosure` of a table hold there too.
    evaluate : the measures of the joined view: `uniqueness`, which is always taken,
        `attribute_disclosure`, which is where there is a confidential variable, `diversity` and
        `closeness`.
    release : how the release is written; see `Writing`. That of the tables' plans does not count.
    files : the file, or the table of a database, of each table that is not called like it.
    profile : the rule book that the release shall meet, such as "ema-0070". Its targets hold in
        the joined view; those that are not measured there hold in every table.

    Examples
    --------
    >>> import sfumato as sf
    >>> plan = LinkedPlan(
    ...     tables={"patients": sf.Plan(schema={"sex": "quasi"}), "visits": sf.Plan()},
    ...     keys={"visits.patient": "patients.patient"}, person="patients.patient",
    ...     targets={"k.min": 5})
    >>> LinkedPlan.parse(plan.text()) == plan
    True
    """

    tables: Mapping[str, Plan]
    keys: tuple[ForeignKey, ...]
    person: str
    steps: tuple[Method, ...]
    targets: tuple[Target, ...]
    evaluate: Mapping[str, Measure]
    release: Writing
    files: Mapping[str, str]
    profile: str | None

    def __repr__(self) -> str:
        return f"LinkedPlan({len(self.tables)} tables, {len(self.targets)} targets)"

    def __init__(  # noqa: PLR0913 - a parameter for each section of a plan file
        self,
        *,
        tables: Mapping[str, Plan],
        keys: Mapping[str, str] | Iterable[ForeignKey],
        person: str,
        steps: Iterable[Method] = (),
        targets: Mapping[str, Any] | Iterable[Target] = (),
        evaluate: Mapping[str, Measure] | Iterable[Measure] = (),
        release: Writing | None = None,
        files: Mapping[str, str] | None = None,
        profile: str | None = None,
    ) -> None:
        put = partial(object.__setattr__, self)
        writing = release or Writing()
        for name, plan in tables.items():
            if plan.profile is not None:
                raise PlanError(
                    f"The plan of table '{name}' has a profile of its own.",
                    hint="give the profile to the plan for all tables.",
                )
        put("profile", profile)
        profile_targets = self.profile_targets
        added = {n: _add_profile_targets(plan, profile_targets) for n, plan in tables.items()}
        put("tables", {n: _replace_parts(plan, release=writing, **added[n])
                       for n, plan in tables.items()})  # fmt: skip
        pairs = keys.items() if isinstance(keys, Mapping) else ()
        put("keys", tuple(ForeignKey.parse(*pair) for pair in pairs) or tuple(keys))
        put("person", person)
        put("steps", tuple(steps))
        bounds = read_targets(targets) if isinstance(targets, Mapping) else tuple(targets)
        put("targets", _add_missing(bounds, profile_targets.joined))
        if not isinstance(evaluate, Mapping):
            evaluate = {measure.name: measure for measure in evaluate}
        require_labels(evaluate)
        put("evaluate", {**evaluate, **profile_targets.joined_measures, **evaluate})
        put("release", writing)
        put("files", {n: f for n, f in (files or {}).items() if f != n})
        _ = self.structure
        self._require_steps()
        self._require_measures()

    @property
    def structure(self) -> Structure:
        """The tables and how keys lead from one to the other."""
        return Structure(tuple(self.tables), self.keys, split_name(self.person))

    def link(self, tables: Mapping[str, Any]) -> LinkedTables:
        """The tables of this plan, with its keys; others are refused."""
        for name in self.tables:
            if name not in tables:
                raise PlanError(
                    f"The plan has a table '{name}', and the data do not.",
                    hint=did_you_mean(name, tables),
                )
        for name in tables:
            if name not in self.tables:
                raise PlanError(
                    f"The data have a table '{name}', and the plan does not.",
                    hint="add it to the plan, or leave it out of the data.",
                )
        chosen = {name: tables[name] for name in self.tables}
        return LinkedTables(chosen, keys=self.keys, person=self.person)

    @property
    def measures(self) -> dict[str, Measure]:
        """Every measure of the joined view, by label. Who stands alone there is always counted."""
        named = measures_for(self.all_targets, self.evaluate)
        if any(isinstance(measure, Uniqueness) for measure in named.values()):
            return named
        return {**named, Uniqueness.name: Uniqueness()}

    @property
    def all_targets(self) -> tuple[Target, ...]:
        """What must hold in the joined view, also what the tables promise each by itself."""
        labels = measures_for(self.targets, self.evaluate)
        set_on = {
            labels[where[0]].name
            for target in self.targets
            if (where := find_number(target, labels)) is not None
        }
        stated: dict[str, list[Target]] = {}
        for plan in self.tables.values():
            measures = plan.measures
            for target in plan.targets:
                label, number = find_number(target, measures) or ("", "")
                if number not in _HELD_JOINED or getattr(measures[label], "where", None):
                    continue  # a statement about one table
                if measures[label].name not in set_on:
                    stated.setdefault(number, []).append(target)
        strictest = [
            Target(
                name=number,
                least=max((t.least for t in targets if t.least is not None), default=None),
                most=min((t.most for t in targets if t.most is not None), default=None),
            )
            for number, targets in stated.items()
        ]
        return (*self.targets, *strictest)

    @property
    def profile_targets(self) -> ProfileTargets:
        """What the profile asks of the joined view, and of every table."""
        return ProfileTargets() if self.profile is None else split_profile(self.profile)

    def list_weaker(self) -> tuple[str, ...]:
        """Where the plan asks for less than its profile, in words; empty without a profile."""
        declared = {
            f"{table}.{variable}"
            for table in self.structure.owned
            for variable in self.tables[table].schema.having("quasi")
        }
        profile_targets = self.profile_targets
        lines = compare_targets(profile_targets.joined, self.targets)
        lines += list_narrowed_measures(
            profile_targets.joined, self.targets, self.measures, declared
        )
        for table, plan in self.tables.items():
            of_table = compare_targets(profile_targets.of_tables, plan.targets)
            of_table += list_narrowed_measures(
                profile_targets.of_tables, plan.targets, plan.measures, set(plan.schema)
            )
            lines += [f"{table}: {line}" for line in of_table]
        return tuple(lines)

    def _require_steps(self) -> None:
        for number, step in enumerate(self.steps, 1):
            if not isinstance(step, SHARED_METHODS):
                raise PlanError(
                    f"Step {number}, {step.name}, does not work over several tables.",
                    hint="put it into the steps of a table, [[tables.NAME.steps]]. Over all tables "
                    f"work {' and '.join(method.name for method in SHARED_METHODS)}.",
                )
            if isinstance(step, KAnonymity) and (step.strata or step.clustering not in _CLUSTERING):
                raise PlanError(
                    f"Step {number}, k_anonymity, has no strata over several tables, and clusters "
                    'by "mondrian" only.',
                    hint="leave strata and clustering out.",
                )
            if isinstance(step, ShiftDates) and step.origin is not None:
                raise PlanError(
                    f"Step {number}, shift_dates, counts days from an event of one table only.",
                    hint="put it into the steps of that table, or give window instead of origin.",
                )
            for name in _list_named_variables(step):
                table, variable = split_name(name)
                if table not in self.tables:
                    raise PlanError(
                        f"Step {number}, {step.name}, names the table '{table}'.",
                        hint=did_you_mean(table, self.tables),
                    )
                self._refuse_key(table, variable, step)
        for table, plan in self.tables.items():
            for step in plan.steps:
                for variable in getattr(step, "variables", None) or ():
                    self._refuse_key(table, variable, step)

    def _refuse_key(self, table: str, variable: str, step: Method) -> None:
        """Keys are replaced by pseudonyms anyway, in all tables alike; nothing else may touch."""
        if self.structure.is_key(table, variable):
            raise PlanError(
                f"{step.name} treats '{table}.{variable}', which is a key.",
                hint="leave it out: keys are replaced by pseudonyms, the same in all tables.",
            )

    def _require_measures(self) -> None:
        for label, measure in self.measures.items():
            if isinstance(measure, ConfidentialMeasure):
                if isinstance(measure, AttributeDisclosure) and measure.groups is not None:
                    raise PlanError(
                        f"'{label}' has groups, which the joined view does not know.",
                        hint="leave groups out, or set the measure for a table.",
                    )
                continue
            if not isinstance(measure, Uniqueness):
                raise PlanError(
                    f"'{label}' is not measured on the joined view.",
                    hint="uniqueness, attribute_disclosure, diversity and closeness are. Set "
                    "others for a table, [tables.NAME.targets] or [tables.NAME.evaluate].",
                )
            if measure.missing != "value":
                raise PlanError(
                    f"'{label}' reads missing as a wildcard, which the joined view does not know: "
                    "there, an empty cell may mean that a person has no such row.",
                    hint='leave missing = "wildcard" out.',
                )
        for target in self.all_targets:
            where = find_number(target, self.measures)
            if where and where[1] not in _JOINED:
                raise PlanError(
                    f"The target on '{target.name}' cannot be held for who knows everything of a "
                    "person.",
                    hint=f"of the joined view there are {', '.join(_JOINED)}.",
                )

    @classmethod
    def load(cls, path: str | Path) -> LinkedPlan:
        """Read a plan from a TOML file."""
        file = Path(path)
        return _parse(read_text(file), name=str(file), folder=file.parent)

    @classmethod
    def parse(cls, text: str) -> LinkedPlan:
        """Read a plan from TOML text."""
        return _parse(text, name="plan", folder=Path())

    def text(self, *, comments: bool = False) -> str:
        """The plan as TOML; with comments, each line says what it does."""
        lines = [*_write_head(self, comments=comments)]
        for number, (name, plan) in enumerate(self.tables.items()):
            table = _write_table(name, plan, self.files.get(name), comments=comments)
            # What roles and kinds mean is said once.
            lines += [line for line in table if not (number and line.startswith(_LEGEND))]
        overall = Plan(
            steps=self.steps, targets=self.targets, evaluate=self.evaluate, release=self.release
        )
        about = "\n# Over all tables, after the steps of each; targets are of the joined view."
        lines += [about] if comments else []
        lines += write_sections(overall, ("steps", "targets", "evaluate", "release"), comments)
        return "\n".join(lines).strip() + "\n"

    @property
    def digest(self) -> str:
        """SHA-256 of the plan without comments: equal plans, equal digests."""
        return hashlib.sha256(self.text().encode()).hexdigest()

    def __hash__(self) -> int:
        return hash(self.digest)


@dataclass(frozen=True)
class ProfileTargets:
    """The targets of a profile, by where they are measured.

    Parameters
    ----------
    joined : of the joined view, where the whole of a person is seen.
    of_tables : of every table by itself, such as that no name is left.
    joined_measures, table_measures : what is measured besides, by label.
    """

    joined: tuple[Target, ...] = ()
    of_tables: tuple[Target, ...] = ()
    joined_measures: Mapping[str, Measure] = field(default_factory=dict)
    table_measures: Mapping[str, Measure] = field(default_factory=dict)


def split_profile(name: str) -> ProfileTargets:
    """The targets of a profile for the joined view, and those for every table.

    Examples
    --------
    >>> [target.name for target in split_profile("ema-0070").joined]
    ['prosecutor', 'k']
    """
    profile = load_profile(name)
    wanted, measures = read_targets(profile.targets), build_measures(profile)
    joined = {label for label, measure in measures.items()
              if isinstance(measure, Uniqueness | ConfidentialMeasure)}  # fmt: skip
    return ProfileTargets(
        tuple(target for target in wanted if target.name in _JOINED),
        tuple(target for target in wanted if target.name not in _JOINED),
        {label: measure for label, measure in measures.items() if label in joined},
        {label: measure for label, measure in measures.items() if label not in joined},
    )


def _add_missing(stated: tuple[Target, ...], required: tuple[Target, ...]) -> tuple[Target, ...]:
    names = {target.name for target in stated}
    return (*stated, *(target for target in required if target.name not in names))


def _add_profile_targets(plan: Plan, required: ProfileTargets) -> dict[str, Any]:
    """The targets and measures of a table, with those of the profile where it sets none."""
    return {
        "targets": _add_missing(plan.targets, required.of_tables),
        "evaluate": {**plan.evaluate, **required.table_measures, **plan.evaluate},
    }


def _replace_parts(plan: Plan, **parts: Any) -> Plan:
    fields = ("schema", "steps", "targets", "evaluate", "read", "release")
    return Plan(**{**{name: getattr(plan, name) for name in fields}, **parts})


def _list_named_variables(step: Method) -> Iterable[str]:
    """The variables that a step over all tables names."""
    named = [*(getattr(step, "variables", None) or ())]
    for option in ("grid", "output", "blank_before"):
        value = getattr(step, option, None)
        named += [*value] if isinstance(value, dict) else []
    return dict.fromkeys(named)


class TableSteps(NamedTuple):
    """The part of a step over all tables that one table has; None: it does not touch it."""

    step: Method
    of_table: dict[str, Method]


def split_step(step: Method, schemas: Mapping[str, Schema]) -> TableSteps:
    """A step over all tables as one step for each table that it touches.

    Parameters
    ----------
    step : with variables that are named with their table, or none: then roles or kinds say which.
    schemas : of the tables whose rows are persons'.
    """
    named: Sequence[str] | None = getattr(step, "variables", None)
    parts: dict[str, Method] = {}
    for table, schema in schemas.items():
        options_of_table = {
            option: {
                split_name(name)[1]: value
                for name, value in getattr(step, option).items()
                if split_name(name)[0] == table
            }
            for option in ("grid", "output", "blank_before")
            if isinstance(getattr(step, option, None), dict)
        }
        if named is None:
            variables = list(replace(step, **options_of_table).touches(schema))  # type: ignore[type-var]
        else:
            variables = [v for t, v in map(split_name, named) if t == table]
            schema.require(variables)
        if variables:
            parts[table] = replace(step, variables=variables, **options_of_table)  # type: ignore[type-var]
    return TableSteps(step, parts)


def load_any(path: Path) -> Plan | LinkedPlan:
    """Read a plan file, for one table or for several."""
    several = "tables" in parse_toml(read_text(path), str(path))
    return LinkedPlan.load(path) if several else Plan.load(path)


def _parse(text: str, *, name: str, folder: Path) -> LinkedPlan:
    raw = parse_toml(text, name)
    reader = PlanReader(name, text, folder)
    for key in raw:
        if key not in _SECTIONS:
            what = f"a plan for several tables has no '{key}'."
            raise reader.fail((key,), what, did_you_mean(key, _SECTIONS))
    if raw.get("version", VERSION) != VERSION:
        raise reader.fail(("version",), f"only plans of version {VERSION} are known.")
    tables = reader.table(raw, "tables")
    if not tables:
        raise reader.fail((), "there is no table.", "begin one with [tables.NAME].")
    keys = reader.table(raw, "keys")
    if wrong := [child for child, parent in keys.items() if not isinstance(parent, str)]:
        hint = 'write "visits.patient" = "patients.patient", with the quotation marks.'
        raise reader.fail(("keys", wrong[0]), "a key leads from a variable to another.", hint)
    if not isinstance(person := raw.get("person"), str):
        hint = 'for instance person = "patients.patient", above the first table.'
        raise reader.fail((), "nothing says who a person is.", hint)
    plans, files = {}, {}
    for table in tables:
        plans[table], files[table] = _read_plan(table, tables[table], name, text, folder)
    # Sections over all tables are those of a plan for one.
    linked_sections = ("profile", "person", "keys", "tables")
    overall = reader.plan({key: value for key, value in raw.items() if key not in linked_sections})
    try:
        return LinkedPlan(
            tables=plans,
            keys=keys,
            person=person,
            steps=overall.steps,
            targets=overall.targets,
            evaluate=overall.evaluate,
            release=overall.release,
            files={table: file for table, file in files.items() if file is not None},
            profile=reader.profile(raw.get("profile")),
        )
    except PlanError as error:
        raise PlanError(f"{name}: {error.what}", hint=error.hint) from None


def _read_plan(table: str, raw: Any, name: str, text: str, folder: Path) -> tuple[Plan, str | None]:
    """The plan of one table, and the file that it names."""
    reader = PlanReader(name, text, folder, above=("tables", table))
    if not isinstance(raw, dict):
        raise reader.fail((), f"'{table}' must be a table.", f"begin it with [tables.{table}].")
    for key in raw:
        if key not in _OF_TABLE:
            raise reader.fail((key,), f"a table has no '{key}'.", did_you_mean(key, _OF_TABLE))
    file = raw.get("file")
    if file is not None and (not isinstance(file, str) or Path(file).name != file):
        hint = "name it without a path: it lies in the folder that is protected."
        raise reader.fail(("file",), "the file of a table is no name of a file.", hint)
    return reader.plan({key: value for key, value in raw.items() if key != "file"}), file


def _write_head(plan: LinkedPlan, *, comments: bool) -> list[str]:
    rule_book = [] if plan.profile is None else [f"profile = {format_value(plan.profile)}"]
    person = f"person = {format_value(plan.person)}"
    lines = [f"version = {VERSION}", *rule_book, person, "", "[keys]"]
    if comments:
        title = "" if plan.profile is None else load_profile(plan.profile).title
        lines = [
            "# A plan for several tables of the same people. Read it before you run it.",
            "# Nothing here is applied until you run: sfumato protect FOLDER --plan THIS --out OUT",
            "",
            f"version = {VERSION}  # the version of this file format",
            *(f"{line}  # {title}" for line in rule_book),
            f"{person}  # who a person is: one row for each",
            "",
            "# Keys lead from many rows to one. They leave as pseudonyms, the same in all tables.",
            "[keys]",
        ]
    lines += [f"{format_value(str(key))} = {format_value(key.target)}" for key in plan.keys]
    return lines


def _write_table(name: str, plan: Plan, file: str | None, *, comments: bool) -> list[str]:
    """The sections of a table, each under its name."""
    above = f"tables.{format_key(name)}"
    parts = ("read", "columns", "steps", "targets", "evaluate")
    lines = ["", f"[{above}]", *([f"file = {format_value(file)}"] if file else [])]
    for line in write_sections(plan, parts, comments):
        if line.startswith("[["):
            lines.append(f"[[{above}.{line[2:]}")
        else:
            lines.append(f"[{above}.{line[1:]}" if line.startswith("[") else line)
    return lines
