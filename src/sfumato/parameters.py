"""The parameters of a method or measure: typed fields, checked when they are set.

A method is a frozen dataclass. Its fields and its docstring are all that the plan, the command
line, the report and the reference page know of it.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import inspect
import re
from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from sfumato.errors import PlanError, did_you_mean

T = TypeVar("T")
_NAMES = re.compile(r"^(?!.*(?:dict|list\[list|\bstr \|)).*\blist\[str\]")
"""A type that takes a list of names, and no single one."""

# Errors of pydantic that concern a value as such: one that is no list or table, or a part of one.
_OUTER = ("dict_type", "list_type")
_INNER = ("_type", "_parsing", "_from_float")
_LONGEST = 60
_SHORT, _SHORT_VALUE, _FEW = 120, 40, 4
"""Characters of a repr and of a value in it, and values that are listed rather than counted."""


class ParameterError(PlanError):
    """A parameter has a value it cannot have. `wrong` lists (parameter, what is wrong)."""

    def __init__(self, owner: str, wrong: list[tuple[str, str]]) -> None:
        self.wrong = wrong
        lines = [
            f"The '{name}' parameter of {owner} {what}" if name else f"{owner}: {what}"
            for name, what in wrong
        ]
        super().__init__("\n".join(lines))


@dataclass_transform(kw_only_default=True, frozen_default=True)
def parameters(cls: type[T]) -> type[T]:
    """Make a class a frozen dataclass whose wrong parameters say what was expected."""
    has_own_repr = "__repr__" in vars(cls)
    built = dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))(cls)
    checked = built.__init__

    def init(self: Any, *args: Any, **settings: Any) -> None:
        if args:
            raise ParameterError(cls.__name__, [("", "parameters are given by name.")])
        settings = {
            name: [value] if _is_single_name(built, name, value) else value
            for name, value in settings.items()
        }
        for name, value in settings.items():
            if isinstance(value, (list, tuple)) and _repeats(value):
                raise ParameterError(cls.__name__, [(name, "names something twice.")])
        try:
            checked(self, **settings)
        except ValidationError as error:
            findings = [dict(finding) for finding in error.errors(include_url=False)]
            raise ParameterError(
                cls.__name__, _describe_errors(findings, built, settings)
            ) from None

    init.__signature__ = inspect.signature(checked)  # type: ignore[attr-defined]
    init.__wrapped__ = checked  # type: ignore[attr-defined]
    built.__init__ = init  # type: ignore[method-assign]
    if not has_own_repr:
        built.__repr__ = write_short  # type: ignore[method-assign]
    return cast("type[T]", built)


def write_short(thing: Any) -> str:
    """A dataclass on one short line: the fields that are not at their default, cut where long.

    Examples
    --------
    >>> from sfumato.schema import Column
    >>> write_short(Column(role="quasi", label="Sex"))
    "Column(role='quasi', label='Sex')"
    """
    shown = [
        f"{field.name}={_write_short_value(getattr(thing, field.name))}"
        for field in dataclasses.fields(thing)
        if field.repr and not _is_default(field, getattr(thing, field.name))
    ]
    return cut_repr(f"{type(thing).__name__}({', '.join(shown)})")


def cut_repr(text: str) -> str:
    """A repr on one line that is not too long."""
    text = " ".join(text.split())
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 2]}…)"


def _is_default(field: dataclasses.Field[Any], value: Any) -> bool:
    if value is None or (isinstance(value, Collection) and not len(value)):
        return True
    return type(value) is type(field.default) and bool(value == field.default)


def _write_short_value(value: Any) -> str:
    if isinstance(value, (str, int, float, bool, type(None))):
        text = repr(value)
        return text if len(text) <= _SHORT_VALUE else f"{text[: _SHORT_VALUE - 2]}…{text[-1]}"
    if isinstance(value, (list, tuple, set, frozenset, Mapping)):
        if len(value) <= _FEW and not isinstance(value, Mapping):
            text = f"[{', '.join(map(_write_short_value, value))}]"
            if len(text) <= _SHORT_VALUE:
                return text
        return f"{len(value)} value{'s' if len(value) > 1 else ''}"
    text = repr(value)
    is_short = len(text) <= _SHORT_VALUE and "\n" not in text
    return text if is_short else f"{type(value).__name__}(…)"


def _is_single_name(cls: Any, name: str, value: Any) -> bool:
    """Whether a single name was given where a list of names is meant."""
    types = {field.name: str(field.type) for field in dataclasses.fields(cls)}
    return isinstance(value, str) and _NAMES.search(types.get(name, "")) is not None


def _repeats(values: list[Any] | tuple[Any, ...]) -> bool:
    texts = [value for value in values if isinstance(value, str)]
    return len(texts) != len(set(texts))


def _describe_errors(
    findings: list[dict[str, Any]], cls: type[Any], settings: dict[str, Any]
) -> list[tuple[str, str]]:
    """One sentence for each parameter, however many of its parts or alternatives are wrong."""
    known = [field.name for field in dataclasses.fields(cls)]
    by_name: dict[str, list[dict[str, Any]]] = {}
    for finding in findings:
        by_name.setdefault(str(finding["loc"][0]) if finding["loc"] else "", []).append(finding)
    wrong = []
    for name, several in by_name.items():
        depth = max(len(finding["loc"]) for finding in several)
        # Of the alternatives of a type, the one that fits furthest is the one that was meant.
        meant = [finding for finding in several if len(finding["loc"]) == depth]
        if any(finding["type"].endswith(_INNER if depth > 1 else _OUTER) for finding in meant):
            types = get_type_hints(cls, include_extras=True)
            wrong.append(
                (
                    name,
                    f"must be {describe_expectation(types[name])}. {_quote_value(settings[name])}",
                )
            )
        else:
            wrong.append(_describe_error(meant[0], name, known))
    return wrong


def _describe_error(error: dict[str, Any], name: str, known: list[str]) -> tuple[str, str]:
    """Turn one of pydantic's findings into: which parameter, and what it must be."""
    if error["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        return name, f"does not exist. Hint: {did_you_mean(name, known)}"
    if error["type"] in ("missing", "missing_argument", "missing_keyword_only_argument"):
        return name, "must be given."
    if error["type"] in ("value_error", "assertion_error"):
        return name, str(error.get("ctx", {}).get("error", error["msg"]))
    must = error["msg"].removeprefix("Input should be ").replace("a valid i", "an i")
    return name, f"must be {must.replace('a valid ', 'a ')}. {_quote_value(error['input'])}"


def _quote_value(value: Any) -> str:
    shown = repr(value)
    return f"Got {shown if len(shown) <= _LONGEST else f'{shown[: _LONGEST - 3]}…'} instead."


def list_settings(entry: Any) -> dict[str, Any]:
    """The parameters of a method or measure as plain values; those left at `None` are left out."""
    values = TypeAdapter(type(entry)).dump_python(entry, mode="python")
    return {name: _to_plain(value) for name, value in values.items() if value is not None}


def _to_plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_to_plain(part) for part in value]
    if isinstance(value, dict):
        return {str(key): _to_plain(part) for key, part in value.items()}
    return value


_SINGULAR: dict[Any, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    dt.date: "date",
}
_PLURAL: dict[Any, str] = {
    str: "names",
    int: "whole numbers",
    float: "numbers",
    bool: "true or false",
    dt.date: "dates",
}
_SHARE = re.compile(r"g[et]=0(?:\.0)?\), L[et]\(l[et]=1(?:\.0)?\)")
_ARTICLE = ("list", "table", "number", "whole", "share", "date")


def describe_type(annotation: Any) -> str:
    """A type in words; a list comes first, since text from a command line is then split.

    Examples
    --------
    >>> describe_type(dict[str, list[str]] | None)
    'table of lists of names'
    """
    return " or ".join(_list_alternatives(annotation))


def describe_expectation(annotation: Any) -> str:
    """A type in words, as the end of "it must be"; a table comes with an example.

    Examples
    --------
    >>> describe_expectation(dict[str, float])
    'a table of numbers, such as { gender = 5 }'
    """
    words = [
        f"a {word}" if word.startswith(_ARTICLE) else word
        for word in _list_alternatives(annotation)
    ]
    text = " or ".join(words)
    return f"{text}, such as {write_example(annotation)}" if "table" in text else text


def write_example(annotation: Any) -> str:
    """A value of this type as TOML writes it; a table where it may be one.

    Examples
    --------
    >>> write_example(list[list[str]])
    '[["gender", "age"]]'
    """
    parts = _split_union(annotation)
    kind = next((part for part in parts if get_origin(part) in (dict, Mapping)), parts[0])
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (dict, Mapping):
        if arguments[1] == list[str]:
            return '{ look = ["gender", "race"], home = ["region"] }'
        return f"{{ gender = {write_example(arguments[1]).replace('gender', 'female')} }}"
    if origin is list:
        return '["gender", "age"]' if arguments[0] is str else f"[{write_example(arguments[0])}]"
    if origin is Literal:
        return f'"{arguments[0]}"'
    if _is_share(kind):
        return "0.5"
    value = {str: '"gender"', bool: "true", dt.date: "2020-12-31"}.get(kind, "5")
    return _write_table(kind) if is_dataclass(kind) else value


def _write_table(cls: Any) -> str:
    """A table with what must be given."""
    types = get_type_hints(cls, include_extras=True)
    needed = [field.name for field in fields(cls) if field.default is MISSING]
    return f"{{ {', '.join(f'{name} = {write_example(types[name])}' for name in needed)} }}"


def _list_alternatives(annotation: Any) -> list[str]:
    words = sorted(_describe_each(annotation), key=lambda word: not word.startswith("list"))
    return list(dict.fromkeys(words))


def _describe_each(annotation: Any) -> list[str]:
    """The alternatives of a type, each in words."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return ["share between 0 and 1"] if _is_share(annotation) else _describe_each(arguments[0])
    if origin is Literal:
        return [f'"{value}"' for value in arguments]
    if origin in (Union, UnionType):
        members = [member for member in arguments if member is not NoneType]
        same = f"table of {_describe_several(members[0])}"  # one for all, or one by name
        words = [word for member in members for word in _describe_each(member)]
        return [word if word != same else "a table of these" for word in words]
    if origin is list:
        return [f"list of {_describe_several(arguments[0])}"]
    if origin in (dict, Mapping):
        return [f"table of {_describe_several(arguments[1])}"]
    named = str(getattr(annotation, "__name__", annotation))
    if is_dataclass(annotation):
        named = f"table with {', '.join(field.name for field in fields(annotation))}"
    return [_SINGULAR.get(annotation, named)]


def _describe_several(annotation: Any) -> str:
    """Several of a type in words."""
    words: list[str] = []
    for member in _split_union(annotation):
        origin, arguments = get_origin(member), get_args(member)
        if origin is Literal:
            words += _describe_each(member)
        elif origin is list:
            words.append(f"lists of {_describe_several(arguments[0])}")
        elif origin in (dict, Mapping):
            words.append(f"tables of {_describe_several(arguments[1])}")
        else:
            several = "shares between 0 and 1" if _is_share(member) else "values"
            words.append(_PLURAL.get(member, several))
    return " or ".join(dict.fromkeys(words))


def _is_share(annotation: Any) -> bool:
    arguments = get_args(annotation)
    narrowed = get_origin(annotation) is Annotated and arguments[0] is float
    return narrowed and bool(_SHARE.search(repr(arguments[1:])))


def _split_union(annotation: Any) -> list[Any]:
    """The alternatives of a type, without what narrows them unless it makes them shares."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return [annotation] if _is_share(annotation) else _split_union(arguments[0])
    if origin in (Union, UnionType):
        return [
            part for member in arguments if member is not NoneType for part in _split_union(member)
        ]
    return [annotation]


def format_value(value: Any) -> str:
    """A value as people read it, without the signs of Python.

    Examples
    --------
    >>> format_value({"looks": ["gender", "race"], "home": ["region"]})
    'looks: gender, race; home: region'
    """
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {_format_inner(part)}" for key, part in value.items())
    if isinstance(value, (list, tuple)):
        deep = any(isinstance(part, (list, tuple, Mapping)) for part in value)
        return ("; " if deep else ", ").join(_format_inner(part) for part in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _format_inner(value: Any) -> str:
    # Another level needs brackets: commas and semicolons part the first two.
    if isinstance(value, Mapping):
        return f"({', '.join(f'{key}: {format_value(part)}' for key, part in value.items())})"
    return format_value(value)
