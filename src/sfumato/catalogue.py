"""Finds methods and measures by looking into the folders. No list to edit anywhere."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any, get_type_hints

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from sfumato.errors import PlanError, did_you_mean
from sfumato.measure import Measure
from sfumato.method import Method
from sfumato.parameters import example, type_said

Entry = type[Method] | type[Measure]


@cache
def _room(room: str) -> dict[str, Entry]:
    package = importlib.import_module(f"sfumato.{room}")
    found: dict[str, Entry] = {}
    for module in sorted(one.name for one in pkgutil.iter_modules(package.__path__)):
        inside = vars(importlib.import_module(f"sfumato.{room}.{module}"))
        for thing in inside.values():
            if _is_entry(thing) and thing.__module__ == f"sfumato.{room}.{module}":
                found[thing.name] = thing
    return found


def _is_entry(thing: object) -> bool:
    return (
        inspect.isclass(thing)
        and issubclass(thing, (Method, Measure))
        and not inspect.isabstract(thing)
        and "name" in vars(thing)
    )


def methods() -> dict[str, type[Method]]:
    """All protections by name."""
    return {name: one for name, one in _room("methods").items() if issubclass(one, Method)}


def measures() -> dict[str, type[Measure]]:
    """All measures of risk and of utility by name."""
    both = {**_room("risk"), **_room("utility")}
    return {name: one for name, one in both.items() if issubclass(one, Measure)}


def measure(name: str) -> type[Measure]:
    """The measure of this name."""
    known = measures()
    if name not in known:
        raise PlanError(f"There is no measure '{name}'.", hint=did_you_mean(name, known))
    return known[name]


def attribute(room: str, name: str) -> Any:
    """A class of a room by its name, for `sf.methods.Coarsen` and the like."""
    # Other names are asked for by tools that look around, and must not load the whole room.
    for one in _room(room).values() if name[:1].isupper() else ():
        if one.__name__ == name:
            return one
    msg = f"module 'sfumato.{room}' has no attribute '{name}'"
    raise AttributeError(msg)


def question(entry: Entry) -> str:
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


def parameters_of(entry: Entry) -> tuple[Parameter, ...]:
    """The parameters of an entry, from its fields and the Parameters section of its docstring."""
    told = _described(inspect.getdoc(entry) or "")
    found = []
    types = get_type_hints(entry, include_extras=True)
    for one in fields(entry):  # type: ignore[arg-type]
        default = _default(one)
        found.append(
            Parameter(
                name=one.name,
                type=type_said(types[one.name]),
                default=None if default is MISSING else default,
                required=default is MISSING,
                help=told.get(one.name, ""),
            )
        )
    return tuple(found)


def parsed(entry: Entry, given: Mapping[str, str | Sequence[str]]) -> dict[str, Any]:
    """Parameters from text, as the command line gives them: lists by commas, the rest as TOML.

    Examples
    --------
    >>> parsed(measure("uniqueness"), {"known": ["sex,region", "age"]})
    {'known': ['sex', 'region', 'age']}
    """
    known = {one.name: one for one in parameters_of(entry)}
    values: dict[str, Any] = {}
    for name, told in given.items():
        if name not in known:
            hint = did_you_mean(name, known)
            raise PlanError(f"'{entry.name}' has no parameter '{name}'.", hint=hint)
        texts = [told] if isinstance(told, str) else list(told)
        if len(texts) > 1 and not known[name].type.startswith("list"):
            raise PlanError(f"The parameter '{name}' is given more than once.", hint="choose one.")
        try:
            values[name] = _value(texts, known[name].type)
        except ValueError as error:
            shown = example(get_type_hints(entry, include_extras=True)[name])
            raise PlanError(
                f"The parameter '{name}' {error}",
                hint=f"write --{name.replace('_', '-')} '{shown}'",
            ) from None
    return values


def _value(texts: Sequence[str], kind: str) -> Any:
    """A value from text; a list may be given in several pieces."""
    if kind.startswith("list"):
        return [one for text in texts for one in _several(text, kind)]
    text = texts[0].strip()
    if kind.startswith("table") or ("table" in kind and text.startswith("{")):
        return _toml(text, kind)
    return texts[0] if kind == "text" else _scalar(text)


def _several(text: str, kind: str) -> list[Any]:
    if text.strip().startswith("["):
        return list(_toml(text.strip(), kind))
    parts = [part.strip() for part in text.split(",") if part.strip()]
    # A variable may be called 1 or true.
    return parts if kind.startswith("list of names") else [_scalar(part) for part in parts]


def _toml(text: str, kind: str) -> Any:
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


def _scalar(text: str) -> Any:
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text, text)


def _default(one: Any) -> Any:
    value = one.default
    if isinstance(value, FieldInfo):
        value = value.get_default(call_default_factory=True)
        return MISSING if value is PydanticUndefined else value
    return value


def _described(doc: str) -> dict[str, str]:
    _, _, after = doc.partition("Parameters\n----------\n")
    section = re.split(r"\n\S+\n-{3,}\n|\n\nReferences", after)[0]
    told: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines():
        head = re.match(r"^(\w+(?:, \w+)*) : (.*)", line)
        if head:
            names = head[1].split(", ")
            told |= dict.fromkeys(names, head[2])
        elif line.startswith(" ") and names:
            told |= {name: f"{told[name]} {line.strip()}" for name in names}
        else:
            names = []
    return told
