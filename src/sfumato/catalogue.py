"""Finds methods and measures: those in our folders, and those that other packages bring.

There is no list to edit. A package brings its own through the entry points `sfumato.methods` and
`sfumato.measures`, each of which names a class.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import tomllib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache
from importlib.metadata import entry_points
from typing import Any, get_type_hints

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from sfumato.errors import PlanError, PluginWarning, did_you_mean
from sfumato.measure import Measure
from sfumato.method import Method
from sfumato.parameters import describe_type, write_example

Entry = type[Method] | type[Measure]


_ROOMS = ("risk", "utility")
_NUMBER = re.compile(r'\bNumber(?:\.\w+)?\(\s*(?:name=)?"(\w+)"')


@cache
def _load_room(room: str) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    for module in _list_modules(room):
        entries |= _load_module(room, module)
    return entries


@cache
def _list_modules(room: str) -> list[str]:
    package = importlib.import_module(f"sfumato.{room}")
    return sorted(
        info.name
        for info in pkgutil.iter_modules(package.__path__)
        if not info.ispkg and not info.name.startswith("_")
    )


def _load_module(room: str, module: str) -> dict[str, Entry]:
    """The entries of one file; most have one, which is called like it."""
    place = f"sfumato.{room}.{module}"
    names = vars(importlib.import_module(place)).values()
    return {thing.name: thing for thing in names if _is_entry(thing) and thing.__module__ == place}


def _load_alone(name: str, rooms: Sequence[str]) -> Entry | None:
    """An entry of ours from the file that is called like it: the others need not be loaded."""
    places = (room for room in rooms if name in _list_modules(room))
    return next((_load_module(room, name).get(name) for room in places), None)


@cache
def _locate_numbers() -> dict[str, tuple[str, str]]:
    """Room and file of each number of ours, read from the text of the files.

    A target names a number, and its measure must be found without loading all of them.
    """
    places: dict[str, tuple[str, str]] = {}
    for room in _ROOMS:
        for module in _list_modules(room):
            text = pkgutil.get_data(f"sfumato.{room}", f"{module}.py")
            for number in _NUMBER.findall((text or b"").decode("utf-8")):
                places.setdefault(number, (room, module))
    return places


@cache
def _load_plugins(group: str) -> dict[str, Entry]:
    """The classes that installed packages bring under an entry point, by their names.

    One that cannot be imported, or is no method or measure, is left out with a warning: a broken
    plug-in must not stop a custodian from protecting data, nor go unnoticed.
    """
    plugins: dict[str, Entry] = {}
    for point in sorted(entry_points(group=group), key=lambda point: point.name):
        try:
            entry = point.load()
        except Exception as error:  # noqa: BLE001 - foreign code may fail in any way
            warnings.warn(
                f"The plug-in '{point.name}' of {group} cannot be imported "
                f"({type(error).__name__}), so it is left out. Hint: mend or uninstall it.",
                PluginWarning,
                stacklevel=3,
            )
            continue
        if not _is_entry(entry):
            warnings.warn(
                f"The plug-in '{point.name}' of {group} is no method or measure, so it is left "
                "out. Hint: its entry point must name a class with a `name`.",
                PluginWarning,
                stacklevel=3,
            )
            continue
        plugins[entry.name] = entry
    return plugins


def _is_entry(thing: object) -> bool:
    return (
        inspect.isclass(thing)
        and issubclass(thing, (Method, Measure))
        and not inspect.isabstract(thing)
        and "name" in vars(thing)
    )


def _join(ours: Mapping[str, Entry], plugins: Mapping[str, Entry]) -> dict[str, Entry]:
    """Ours and those of other packages. None may pass itself off as one of ours."""
    if taken := sorted(set(ours) & set(plugins)):
        package = plugins[taken[0]].__module__.partition(".")[0]
        raise PlanError(
            f"The package '{package}' brings a '{taken[0]}', which Sfumato has already.",
            hint="uninstall it, or ask its authors for another name.",
        )
    return {**ours, **plugins}


def methods() -> dict[str, type[Method]]:
    """All protections by name."""
    entries = _join(_load_room("methods"), _load_plugins("sfumato.methods"))
    return {name: entry for name, entry in entries.items() if issubclass(entry, Method)}


def measures() -> dict[str, type[Measure]]:
    """All measures of risk and of utility by name."""
    ours = {**_load_room("risk"), **_load_room("utility")}
    entries = _join(ours, _load_plugins("sfumato.measures"))
    return {name: entry for name, entry in entries.items() if issubclass(entry, Measure)}


def measure(name: str) -> type[Measure]:
    """The measure of this name."""
    alone = _load_alone(name, _ROOMS)
    if alone is not None and issubclass(alone, Measure):
        return alone
    known = measures()
    if name not in known:
        raise PlanError(f"There is no measure '{name}'.", hint=did_you_mean(name, known))
    return known[name]


def measure_of(number: str) -> type[Measure] | None:
    """The measure that yields a number; None: none does."""
    place = _locate_numbers().get(number)
    entries: Mapping[str, Entry] = measures() if place is None else _load_module(*place)
    for entry in entries.values():
        if issubclass(entry, Measure) and entry.find_number(number) is not None:
            return entry
    return None


def attribute(room: str, name: str) -> Any:
    """A class of a room by its name, for `sf.methods.Coarsen` and the like."""
    # Other names are asked for by tools that look around, and must not load the whole room.
    if name[:1].isupper():
        alone = _load_alone(re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(), [room])
        if alone is not None and alone.__name__ == name:
            return alone
        for entries in (_load_room(room), methods() if room == "methods" else measures()):
            for entry in entries.values():
                is_here = not issubclass(entry, Measure) or entry.room() == room
                if entry.__name__ == name and is_here:
                    return entry
    msg = f"module 'sfumato.{room}' has no attribute '{name}'"
    raise AttributeError(msg)


def first_line(entry: Entry) -> str:
    """The first line of its docstring: what it does or answers."""
    return inspect.cleandoc(entry.__doc__ or "").partition("\n")[0]


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One parameter of a method or measure, as the plan, the command line and the docs show it."""

    name: str
    type: str
    default: Any
    required: bool
    help: str

    @property
    def label(self) -> str:
        """What people call it: the first clause of its description, else its name in words."""
        label = first_clause(self.help) or self.name.replace("_", " ")
        return label[:1].upper() + label[1:]

    @property
    def further(self) -> str:
        """What its description says after the first clause."""
        rest = self.help[len(first_clause(self.help)) + 1 :].strip()
        return rest[:1].upper() + rest[1:]


@cache
def parameters_of(entry: type[Any]) -> tuple[Parameter, ...]:
    """The parameters of an entry, from its fields and the Parameters section of its docstring."""
    docs = read_parameter_docs(inspect.getdoc(entry) or "")
    described = []
    types = get_type_hints(entry, include_extras=True)
    for field in fields(entry):
        default = _get_default(field)
        described.append(
            Parameter(
                name=field.name,
                type=describe_type(types[field.name]),
                default=None if default is MISSING else default,
                required=default is MISSING,
                help=docs.get(field.name, ""),
            )
        )
    return tuple(described)


def parse_parameters(entry: Entry, texts: Mapping[str, str | Sequence[str]]) -> dict[str, Any]:
    """Parameters from text, as the command line gives them: lists by commas, the rest as TOML.

    Examples
    --------
    >>> parse_parameters(measure("uniqueness"), {"known": ["sex,region", "age"]})
    {'known': ['sex', 'region', 'age']}
    """
    known = {parameter.name: parameter for parameter in parameters_of(entry)}
    values: dict[str, Any] = {}
    for name, text in texts.items():
        if name not in known:
            hint = did_you_mean(name, known)
            raise PlanError(f"'{entry.name}' has no parameter '{name}'.", hint=hint)
        pieces = [text] if isinstance(text, str) else list(text)
        if len(pieces) > 1 and not known[name].type.startswith("list"):
            raise PlanError(f"The parameter '{name}' is given more than once.", hint="choose one.")
        try:
            values[name] = _parse_value(pieces, known[name].type)
        except ValueError as error:
            shown = write_example(get_type_hints(entry, include_extras=True)[name])
            raise PlanError(
                f"The parameter '{name}' {error}",
                hint=f"write --{name.replace('_', '-')} '{shown}'",
            ) from None
    return values


def _parse_value(texts: Sequence[str], kind: str) -> Any:
    """A value from text; a list may be given in several pieces."""
    if kind.startswith("list"):
        return [value for text in texts for value in _parse_list(text, kind)]
    text = texts[0].strip()
    if kind.startswith("table") or ("table" in kind and text.startswith("{")):
        return _parse_toml(text, kind)
    return texts[0] if kind == "text" else _parse_scalar(text)


def _parse_list(text: str, kind: str) -> list[Any]:
    if text.strip().startswith("["):
        return list(_parse_toml(text.strip(), kind))
    parts = [part.strip() for part in text.split(",") if part.strip()]
    # A variable may be called 1 or true.
    return parts if kind.startswith("list of names") else [_parse_scalar(part) for part in parts]


def _parse_toml(text: str, kind: str) -> Any:
    wanted: type = list if text.startswith("[") else dict
    try:
        read = tomllib.loads(f"x = {text}")
    except tomllib.TOMLDecodeError:
        read = {}
    # A line break could smuggle in a second key.
    if len(read) == 1 and isinstance(read["x"], wanted):
        return read["x"]
    msg = f"must be a {kind}, written as in a plan, with quotes around the names."
    raise ValueError(msg)


def _parse_scalar(text: str) -> Any:
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text, text)


def _get_default(field: Any) -> Any:
    value = field.default
    if isinstance(value, FieldInfo):
        value = value.get_default(call_default_factory=True)
        return MISSING if value is PydanticUndefined else value
    return value


def first_clause(text: str) -> str:
    """What comes before the first full stop, colon or semicolon.

    Examples
    --------
    >>> first_clause("fewest records in a cluster: 0.5 is none.")
    'fewest records in a cluster'
    """
    return re.split(r"[.:;](?:\s|$)", text, maxsplit=1)[0]


def read_parameter_docs(doc: str) -> dict[str, str]:
    """What a docstring says of each parameter."""
    _, _, after = doc.partition("Parameters\n----------\n")
    section = re.split(r"\n\S+\n-{3,}\n|\n\nReferences", after)[0]
    docs: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines():
        head = re.match(r"^(\w+(?:, \w+)*) : (.*)", line)
        if head:
            names = head[1].split(", ")
            docs |= dict.fromkeys(names, head[2])
        elif line.startswith(" ") and names:
            docs |= {name: f"{docs[name]} {line.strip()}" for name in names}
        else:
            names = []
    return docs
