"""Finds methods and measures by looking into the folders. No list to edit anywhere."""

from __future__ import annotations

import datetime as dt
import importlib
import inspect
import pkgutil
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from sfumato.errors import PlanError, did_you_mean
from sfumato.measure import Measure
from sfumato.method import Method

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
                type=_type_said(types[one.name]),
                default=None if default is MISSING else default,
                required=default is MISSING,
                help=told.get(one.name, ""),
            )
        )
    return tuple(found)


def parsed(entry: Entry, given: Mapping[str, str]) -> dict[str, Any]:
    """Parameters from text, as the command line gives them: lists by commas, the rest as TOML."""
    known = {one.name: one for one in parameters_of(entry)}
    values: dict[str, Any] = {}
    for name, text in given.items():
        if name not in known:
            hint = did_you_mean(name, known)
            raise PlanError(f"'{entry.name}' has no parameter '{name}'.", hint=hint)
        if known[name].type.startswith("list"):
            values[name] = [_scalar(part.strip()) for part in text.split(",") if part.strip()]
        else:
            values[name] = _scalar(text)
    return values


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


_TYPES: dict[Any, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    dt.date: "date",
}
_SHARE = re.compile(r"g[et]=0(?:\.0)?\), L[et]\(l[et]=1(?:\.0)?\)")
_LISTED = {str: "names", float: "numbers", dt.date: "dates", dict: "tables", list: "lists"}


def _type_said(annotation: Any) -> str:
    """A type in words; a list comes first, since text from a command line is then split."""
    told = sorted(_words(annotation), key=lambda one: not one.startswith("list"))
    return " or ".join(dict.fromkeys(told))


def _words(annotation: Any) -> list[str]:
    """The alternatives of a type, each in words."""
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        share = inside[0] is float and _SHARE.search(repr(inside[1:]))
        return ["share between 0 and 1"] if share else _words(inside[0])
    if origin is Literal:
        return [f'"{one}"' for one in inside]
    if origin in (Union, UnionType):
        each = [_words(one) for one in inside if one is not NoneType]
        same = "table of " + " or ".join(each[0])  # one for all, or one by name
        return [word if word != same else "a table of these" for one in each for word in one]
    if origin is list:
        return [f"list of {' or '.join(dict.fromkeys(_listed(one) for one in _parts(inside[0])))}"]
    if origin in (dict, Mapping):
        return ["table of " + " or ".join(_words(inside[1]))]
    return [_TYPES.get(annotation, str(getattr(annotation, "__name__", annotation)))]


def _parts(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def _listed(annotation: Any) -> str:
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(_words(annotation))
    plain = inside[0] if origin is Annotated else annotation
    return _LISTED.get(get_origin(plain) or plain, "values")


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
