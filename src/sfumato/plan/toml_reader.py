"""Plans from TOML: every mistake is told with its line, what was expected, and a hint."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato import catalogue
from sfumato.errors import DataError, PlanError, SchemaError, did_you_mean
from sfumato.parameters import ParameterError
from sfumato.plan.targets import Target, measures_for, read_targets
from sfumato.plan.tiers import TierOf, with_tiers
from sfumato.profiles import load_profile
from sfumato.schema import NOT_DECLARED, Column, Schema, hierarchies

if TYPE_CHECKING:
    from sfumato.plan import Plan

VERSION = 1
_SECTIONS = ("version", "profile", "read", "columns", "purpose", "steps", "targets", "evaluate",
             "release", "tiers", "tier")  # fmt: skip
_OF_SEVERAL = (
    "version", "profile", "person", "keys", "tables", "steps", "targets", "evaluate", "release",
)  # fmt: skip
_OF_TABLE = ("file", "read", "columns", "steps", "targets", "evaluate")
_COLUMN = tuple(field.name for field in fields(Column) if field.name not in NOT_DECLARED)
_MOST_LETTERS = 64 << 20
"""A plan of 100,000 variables with all its comments has a quarter of that."""
_DEEPEST = 12
"""Tables and lists within each other; no plan needs half as many."""


def load(path: Path) -> Plan:
    """Read a plan file; every mistake names the file and the line."""
    return parse(read_text(path), name=str(path), folder=path.parent)


def read_text(path: Path) -> str:
    """The text of a plan file."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise PlanError(
            f"There is no plan '{path}'.", hint="make one: sfumato inspect FILE --plan PLAN"
        ) from None
    except UnicodeDecodeError:
        raise PlanError(f"The plan '{path}' is not UTF-8 text.") from None
    except OSError:
        raise PlanError(f"The plan '{path}' cannot be read.", hint="is it a file?") from None


def parse(text: str, *, name: str = "plan", folder: Path = Path()) -> Plan:
    """Read a plan from TOML text; files it names are looked for in the folder."""
    raw = parse_toml(text, name)  # first: lines are looked up only in a text that is not too deep
    return PlanReader(name, text, folder).plan(raw)


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """The raw tables of a plan, which nests nothing deeply and has no number that is too long."""
    if len(text) > _MOST_LETTERS:
        raise PlanError(f"{name}: longer than {_MOST_LETTERS} characters.", hint="is it a plan?")
    # Before parsing: the time for a key grows with the square of its parts
    if _LONG_KEY.search(text):
        raise PlanError(f"{name}: {_TOO_DEEP}.", hint=_FLATTEN)
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PlanError(
            f"{name}: not valid TOML: {error}.", hint="text values need quotes."
        ) from None
    except RecursionError:
        raise PlanError(f"{name}: {_TOO_DEEP}.", hint=_FLATTEN) from None
    except ValueError:  # a number of more digits than Python converts
        raise PlanError(
            f"{name}: not valid TOML: a number is too long.", hint="text values need quotes."
        ) from None
    _require_shallow(raw, name)
    return raw


_LARGEST = 2**63
_TOO_DEEP = f"tables or lists are nested more than {_DEEPEST} deep"
_FLATTEN = "a plan has sections, and tables in them."
# A key of very many parts. It begins where a word begins, and never gives back what it took: a long
# text that is no key costs one look at each letter.
_LONG_KEY = re.compile(
    r"""(?<![\w"'\\-])"""
    r"""(?:(?:"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+'|[A-Za-z0-9_-]++)[ \t]*+\.[ \t]*+){200}"""
)


def _require_shallow(raw: dict[str, Any], name: str) -> None:
    """Refuse depth before anything walks through the plan by recursion."""
    level: list[Any] = [raw]
    for _ in range(_DEEPEST):
        inner: list[Any] = []
        for value in level:
            if isinstance(value, int) and abs(value) >= _LARGEST:
                # No text can be made of some of them, not even for a message
                raise PlanError(f"{name}: a number is too long.", hint="TOML's have 64 bits.")
            if isinstance(value, dict):
                inner += value.values()
            elif isinstance(value, list):
                inner += value
        level = inner
    if any(isinstance(value, (dict, list)) for value in level):
        raise PlanError(f"{name}: {_TOO_DEEP}.", hint=_FLATTEN)


class PlanReader:
    """Turns raw tables into a plan and knows where each of them stands in the text.

    `above` is the table in which the plan stands, where the text has several.
    """

    def __init__(
        self, name: str, text: str, folder: Path, above: tuple[str | int, ...] = ()
    ) -> None:
        self.name = name
        self.text = text
        self.folder = folder
        self.above = above
        self.lines = dict(_locate_lines(text))

    def fail(self, path: tuple[str | int, ...], what: str, hint: str = "") -> PlanError:
        """What is wrong, with the line of the nearest table or key."""
        path = (*self.above, *path)
        while path and path not in self.lines:
            path = path[:-1]
        line = self.lines.get(path)
        where = f"{self.name}, line {line}" if line else self.name
        return PlanError(f"{where}: {what}", hint=hint)

    def plan(self, raw: dict[str, Any]) -> Plan:
        """The whole plan."""
        from sfumato.plan import Plan

        sections = _OF_SEVERAL if "tables" in raw else _SECTIONS
        for key in raw:
            if key not in sections:
                raise self.fail((key,), f"a plan has no '{key}'.", did_you_mean(key, sections))
        if raw.get("version", VERSION) != VERSION:
            raise self.fail(
                ("version",),
                f"this is a plan of version {raw['version']!r}; only {VERSION} is known.",
                "a newer Sfumato may read it.",
            )
        evaluate = {
            label: self.measure(label, table)
            for label, table in self.table(raw, "evaluate").items()
        }
        if "purpose" in raw:
            settings = self.table(raw, "purpose")
            known = catalogue.measures()
            evaluate["purpose"] = self.entry(known, "purpose", settings, ("purpose",), "measure")
        family = self.family(raw) if "tables" in raw else {}
        try:
            plan = Plan(
                schema=self.schema(self.table(raw, "columns")),
                steps=[
                    self.step(index, table) for index, table in enumerate(self.tables(raw, "steps"))
                ],
                targets=self.targets(self.table(raw, "targets"), evaluate),
                evaluate=evaluate,
                read=self.reading(self.table(raw, "read")),
                release=self.writing(self.table(raw, "release")),
                profile=self.profile(raw.get("profile")),
                **family,
            )
        except PlanError as error:
            if not family:
                raise
            raise PlanError(f"{self.name}: {error.what}", hint=error.hint) from None
        return self.tiers(plan, raw)

    def family(self, raw: dict[str, Any]) -> dict[str, Any]:
        """The tables of a plan for several, each with its own plan, and the keys between them."""
        tables = self.table(raw, "tables")
        if not tables:
            raise self.fail((), "there is no table.", "begin one with [tables.NAME].")
        keys = self.table(raw, "keys")
        if wrong := [child for child, parent in keys.items() if not isinstance(parent, str)]:
            hint = 'write "visits.patient" = "patients.patient", with the quotation marks.'
            raise self.fail(("keys", wrong[0]), "a key leads from a variable to another.", hint)
        if not isinstance(person := raw.get("person"), str):
            hint = 'for instance person = "patients.patient", above the first table.'
            raise self.fail((), "nothing says who a person is.", hint)
        plans = {name: self.of_table(name, table) for name, table in tables.items()}
        return {
            "tables": plans,
            "keys": keys,
            "person": person,
            "files": {name: table["file"] for name, table in tables.items() if "file" in table},
        }

    def of_table(self, name: str, raw: Any) -> Plan:
        """The plan of one of several tables."""
        reader = PlanReader(self.name, self.text, self.folder, above=("tables", name))
        if not isinstance(raw, dict):
            raise reader.fail((), f"'{name}' must be a table.", f"begin it with [tables.{name}].")
        for key in raw:
            if key not in _OF_TABLE:
                raise reader.fail((key,), f"a table has no '{key}'.", did_you_mean(key, _OF_TABLE))
        file = raw.get("file", name)
        if not isinstance(file, str) or Path(file).name != file:
            hint = "name it without a path: it lies in the folder that is protected."
            raise reader.fail(("file",), "the file of a table is no name of a file.", hint)
        return reader.plan({key: value for key, value in raw.items() if key != "file"})

    def profile(self, name: Any) -> str | None:
        """The rule book that the release shall meet."""
        if name is None:
            return None
        try:
            return load_profile(str(name)).name
        except PlanError as error:
            raise self.fail(("profile",), error.what, error.hint) from None

    def reading(self, raw: dict[str, Any]) -> dict[str, Any]:
        """How the file is read."""
        from sfumato.io import require_options

        for key, value in raw.items():
            try:
                require_options({key: value})
            except DataError as error:
                raise self.fail(("read", key), error.what, error.hint) from None
        return raw

    def table(self, raw: Mapping[str, Any], key: str) -> dict[str, Any]:
        """A table of the plan, empty where there is none."""
        value = raw.get(key, {})
        if not isinstance(value, dict):
            where = ".".join([*map(str, self.above), key])
            raise self.fail((key,), f"'{key}' must be a table.", f"begin it with [{where}].")
        return value

    def tables(self, raw: Mapping[str, Any], key: str) -> list[Any]:
        """A list of tables of the plan."""
        value = raw.get(key, [])
        if not isinstance(value, list) or not all(isinstance(table, dict) for table in value):
            raise self.fail((key,), f"'{key}' must be tables.", f"begin each with [[{key}]].")
        return value

    def schema(self, raw: dict[str, Any]) -> Schema:
        """The role of each variable."""
        columns: dict[str, Column] = {}
        for name, entry in raw.items():
            declared = {"role": entry} if isinstance(entry, str) else entry
            if not isinstance(declared, dict):
                raise self.fail(
                    ("columns", name),
                    f"variable '{name}' needs a role or a table.",
                    f'write {name} = "quasi" or {name} = {{ role = "quasi" }}.',
                )
            for key in declared:
                if key not in _COLUMN:
                    raise self.fail(
                        ("columns", name, key),
                        f"a variable has no '{key}'.",
                        did_you_mean(key, _COLUMN),
                    )
            columns[name] = self.column(name, declared)
        return Schema(columns)

    def column(self, name: str, declared: dict[str, Any]) -> Column:
        """The declaration of one variable."""
        try:
            if isinstance(path := declared.get("hierarchy"), str):
                # Read here and now: the plan then says itself which groups were meant.
                declared = {**declared, "hierarchy": hierarchies.read(self.find_file(path))}
            column = Column(**declared)
            Schema({name: column})
        except SchemaError as error:
            raise self.fail(("columns", name), error.what, error.hint) from None
        except (TypeError, AttributeError):
            raise self.fail(
                ("columns", name),
                f"the declaration of variable '{name}' has values of the wrong type.",
                'for instance { role = "quasi", kind = "integer", domain = [0, 120] }.',
            ) from None
        return column

    def find_file(self, name: str) -> Path:
        """A file that the plan names: beside the plan or below it, and nowhere else.

        A plan may come from a stranger. It could otherwise have any file of the machine read,
        also one that is a device or waits for somebody to write into it.
        """
        try:
            folder, path = self.folder.resolve(), (self.folder / name).resolve()
            outside = not path.is_relative_to(folder)
            unusual = path.exists() and not path.is_file()
        except (OSError, ValueError, RuntimeError):  # NUL, a name that is too long, a circle
            outside = unusual = True
        if outside:
            raise SchemaError(
                "a hierarchy is read from the folder of the plan or from one below it.",
                hint="copy the file there, and name it without '..' or a path from the root.",
            )
        if unusual:
            raise SchemaError("the hierarchy is not a file.", hint="name a UTF-8 text file.")
        return self.folder / name

    def step(self, index: int, raw: dict[str, Any]) -> Any:
        """One step."""
        settings = dict(raw)
        name = settings.pop("method", None)
        if not isinstance(name, str):
            raise self.fail(
                ("steps", index),
                "a step needs a method.",
                f"known are {', '.join(catalogue.methods())}.",
            )
        return self.entry(catalogue.methods(), name, settings, ("steps", index), "method")

    def measure(self, label: str, raw: Any) -> Any:
        """One measure to take."""
        if not isinstance(raw, dict):
            raise self.fail(
                ("evaluate", label), f"'{label}' must be a table.", f"write [evaluate.{label}]."
            )
        settings = dict(raw)
        name = settings.pop("measure", label)
        return self.entry(catalogue.measures(), name, settings, ("evaluate", label), "measure")

    def entry(
        self,
        known: Mapping[str, Any],
        name: str,
        settings: dict[str, Any],
        path: tuple[str | int, ...],
        what: str,
    ) -> Any:
        """A method or a measure by its name, with its parameters."""
        if not isinstance(name, str) or name not in known:
            raise self.fail((*path, what), f"no {what} '{name}'.", did_you_mean(str(name), known))
        try:
            return known[name](**settings)
        except ParameterError as error:
            raise self.fail((*path, error.wrong[0][0]), error.what) from None

    def targets(self, raw: dict[str, Any], evaluate: Mapping[str, Any]) -> tuple[Target, ...]:
        """What must hold."""
        for name, bounds in raw.items():
            try:
                measures_for(read_targets({name: bounds}), evaluate)
            except PlanError as error:
                raise self.fail(("targets", name), error.what, error.hint) from None
        return read_targets(raw)

    def tiers(self, plan: Plan, raw: Mapping[str, Any]) -> Plan:
        """The plan with what differs from tier to tier."""
        tiers, tier = self.table(raw, "tiers"), self.table(raw, "tier")
        if not tiers and not tier:
            return plan
        try:
            return with_tiers(plan, tiers, TierOf.from_plain(tier) if tier else None)
        except PlanError as error:
            named = [name for name in tiers if f"'{name}'" in error.what]
            where = ("tiers", (named or list(tiers))[0]) if tiers else ("tier",)
            raise self.fail(where, error.what, error.hint) from None

    def writing(self, raw: dict[str, Any]) -> Any:
        """How the release is written."""
        from sfumato.plan import Writing

        try:
            return Writing(**raw)
        except ParameterError as error:
            raise self.fail(("release", error.wrong[0][0]), error.what) from None


# Possessive: a long line that is no header costs one look at each letter.
_HEADER = re.compile(r"^\s*+\[(\[)?+([^\[\]]++)\]\]?\s*+(?:#.*)?$")
_KEY = re.compile(
    r"""^\s*((?:"(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)(?:\s*\.\s*(?:"(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+))*)\s*="""
)
_PART = re.compile(r""""(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+""")


def _locate_lines(text: str) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """The line on which each table and key of a TOML text begins.

    The standard parser does not tell. This reads headers and keys that begin a line, which is
    how people write plans; anything else falls back to the table around it.
    """
    above: tuple[str | int, ...] = ()
    counted: dict[tuple[str | int, ...], int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            above = tuple(_split_key(header[2]))
            if header[1]:
                index = counted[above] = counted.get(above, -1) + 1
                above = (*above, index)
            yield above, number
        elif key := _KEY.match(line):
            path = (*above, *_split_key(key[1]))
            for depth in range(len(above) + 1, len(path) + 1):
                yield path[:depth], number


def _split_key(dotted: str) -> list[str]:
    parts = []
    for part in _PART.findall(dotted):
        quoted = part[0] in "\"'"
        parts.append(str(tomllib.loads(f"x = {part}")["x"]) if quoted else part)
    return parts
