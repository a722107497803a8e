"""The parameters of a method or measure: typed fields, checked when they are set.

A method is a frozen dataclass. Its fields and its docstring are all that the plan, the command
line, the report and the reference page know of it.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import inspect
import re
from collections.abc import Mapping
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

# Findings of pydantic that are said of the whole value: of a list or table that is none, and of
# the parts of one.
_OUTER = ("dict_type", "list_type")
_INNER = ("_type", "_parsing", "_from_float")
_LONGEST = 60


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
    made = dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))(cls)
    checked = made.__init__

    def init(self: Any, *args: Any, **given: Any) -> None:
        if args:
            raise ParameterError(cls.__name__, [("", "parameters are given by name.")])
        given = {name: [one] if _one_name(made, name, one) else one for name, one in given.items()}
        for name, value in given.items():
            if isinstance(value, (list, tuple)) and _repeats(value):
                raise ParameterError(cls.__name__, [(name, "names something twice.")])
        try:
            checked(self, **given)
        except ValidationError as error:
            found = [dict(one) for one in error.errors(include_url=False)]
            raise ParameterError(cls.__name__, _sentences(found, made, given)) from None

    init.__signature__ = inspect.signature(checked)  # type: ignore[attr-defined]
    init.__wrapped__ = checked  # type: ignore[attr-defined]
    made.__init__ = init  # type: ignore[method-assign]
    return cast("type[T]", made)


def _one_name(made: Any, name: str, value: Any) -> bool:
    """Whether a single name was given where a list of names is meant."""
    types = {one.name: str(one.type) for one in dataclasses.fields(made)}
    return isinstance(value, str) and _NAMES.search(types.get(name, "")) is not None


def _repeats(values: list[Any] | tuple[Any, ...]) -> bool:
    texts = [value for value in values if isinstance(value, str)]
    return len(texts) != len(set(texts))


def _sentences(
    found: list[dict[str, Any]], made: type[Any], given: dict[str, Any]
) -> list[tuple[str, str]]:
    """One sentence for each parameter, however many of its parts or alternatives are wrong."""
    known = [one.name for one in dataclasses.fields(made)]
    by_name: dict[str, list[dict[str, Any]]] = {}
    for one in found:
        by_name.setdefault(str(one["loc"][0]) if one["loc"] else "", []).append(one)
    wrong = []
    for name, several in by_name.items():
        depth = max(len(one["loc"]) for one in several)
        # Of the alternatives of a type, the one that fits furthest is the one that was meant.
        meant = [one for one in several if len(one["loc"]) == depth]
        if any(one["type"].endswith(_INNER if depth > 1 else _OUTER) for one in meant):
            types = get_type_hints(made, include_extras=True)
            wrong.append((name, f"must be {expected(types[name])}. {_got(given[name])}"))
        else:
            wrong.append(_sentence(meant[0], name, known))
    return wrong


def _sentence(error: dict[str, Any], name: str, known: list[str]) -> tuple[str, str]:
    """Turn one of pydantic's findings into: which parameter, and what it must be."""
    if error["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        return name, f"does not exist. Hint: {did_you_mean(name, known)}"
    if error["type"] in ("missing", "missing_argument", "missing_keyword_only_argument"):
        return name, "must be given."
    if error["type"] in ("value_error", "assertion_error"):
        return name, str(error.get("ctx", {}).get("error", error["msg"]))
    must = error["msg"].removeprefix("Input should be ").replace("a valid i", "an i")
    return name, f"must be {must.replace('a valid ', 'a ')}. {_got(error['input'])}"


def _got(value: Any) -> str:
    shown = repr(value)
    return f"Got {shown if len(shown) <= _LONGEST else f'{shown[: _LONGEST - 3]}…'} instead."


def given(one: Any) -> dict[str, Any]:
    """The parameters of a method or measure as plain values; those left at `None` are left out."""
    plain = TypeAdapter(type(one)).dump_python(one, mode="python")
    return {name: _plain(value) for name, value in plain.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    return value


_ONE: dict[Any, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    dt.date: "date",
}
_MANY: dict[Any, str] = {
    str: "names",
    int: "whole numbers",
    float: "numbers",
    bool: "true or false",
    dt.date: "dates",
}
_SHARE = re.compile(r"g[et]=0(?:\.0)?\), L[et]\(l[et]=1(?:\.0)?\)")
_ARTICLE = ("list", "table", "number", "whole", "share", "date")


def type_said(annotation: Any) -> str:
    """A type in words; a list comes first, since text from a command line is then split.

    Examples
    --------
    >>> type_said(dict[str, list[str]] | None)
    'table of lists of names'
    """
    return " or ".join(_alternatives(annotation))


def expected(annotation: Any) -> str:
    """A type in words, as the end of "it must be"; a table comes with an example.

    Examples
    --------
    >>> expected(dict[str, float])
    'a table of numbers, such as { gender = 5 }'
    """
    told = [f"a {one}" if one.startswith(_ARTICLE) else one for one in _alternatives(annotation)]
    said = " or ".join(told)
    return f"{said}, such as {example(annotation)}" if "table" in said else said


def example(annotation: Any) -> str:
    """A value of this type as TOML writes it; a table where it may be one.

    Examples
    --------
    >>> example(list[list[str]])
    '[["gender", "age"]]'
    """
    parts = _parts(annotation)
    one = next((part for part in parts if get_origin(part) in (dict, Mapping)), parts[0])
    origin, inside = get_origin(one), get_args(one)
    if origin in (dict, Mapping):
        if inside[1] == list[str]:
            return '{ look = ["gender", "race"], home = ["region"] }'
        return f"{{ gender = {example(inside[1]).replace('gender', 'female')} }}"
    if origin is list:
        return '["gender", "age"]' if inside[0] is str else f"[{example(inside[0])}]"
    if origin is Literal:
        return f'"{inside[0]}"'
    if _is_share(one):
        return "0.5"
    plain = {str: '"gender"', bool: "true", dt.date: "2020-12-31"}.get(one, "5")
    return _filled(one) if is_dataclass(one) else plain


def _filled(one: Any) -> str:
    """A table with what must be given."""
    types = get_type_hints(one, include_extras=True)
    needed = [field.name for field in fields(one) if field.default is MISSING]
    return f"{{ {', '.join(f'{name} = {example(types[name])}' for name in needed)} }}"


def _alternatives(annotation: Any) -> list[str]:
    told = sorted(_words(annotation), key=lambda one: not one.startswith("list"))
    return list(dict.fromkeys(told))


def _words(annotation: Any) -> list[str]:
    """The alternatives of a type, each in words."""
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return ["share between 0 and 1"] if _is_share(annotation) else _words(inside[0])
    if origin is Literal:
        return [f'"{one}"' for one in inside]
    if origin in (Union, UnionType):
        each = [one for one in inside if one is not NoneType]
        same = f"table of {_many(each[0])}"  # one for all, or one by name
        words = [word for one in each for word in _words(one)]
        return [word if word != same else "a table of these" for word in words]
    if origin is list:
        return [f"list of {_many(inside[0])}"]
    if origin in (dict, Mapping):
        return [f"table of {_many(inside[1])}"]
    named = str(getattr(annotation, "__name__", annotation))
    if is_dataclass(annotation):
        named = f"table with {', '.join(field.name for field in fields(annotation))}"
    return [_ONE.get(annotation, named)]


def _many(annotation: Any) -> str:
    """Several of a type in words."""
    told: list[str] = []
    for one in _parts(annotation):
        origin, inside = get_origin(one), get_args(one)
        if origin is Literal:
            told += _words(one)
        elif origin is list:
            told.append(f"lists of {_many(inside[0])}")
        elif origin in (dict, Mapping):
            told.append(f"tables of {_many(inside[1])}")
        else:
            several = "shares between 0 and 1" if _is_share(one) else "values"
            told.append(_MANY.get(one, several))
    return " or ".join(dict.fromkeys(told))


def _is_share(annotation: Any) -> bool:
    inside = get_args(annotation)
    narrowed = get_origin(annotation) is Annotated and inside[0] is float
    return narrowed and bool(_SHARE.search(repr(inside[1:])))


def _parts(annotation: Any) -> list[Any]:
    """The alternatives of a type, without what narrows them unless it makes them shares."""
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return [annotation] if _is_share(annotation) else _parts(inside[0])
    if origin in (Union, UnionType):
        return [part for one in inside if one is not NoneType for part in _parts(one)]
    return [annotation]


def value_said(value: Any) -> str:
    """A value as people read it, without the signs of Python.

    Examples
    --------
    >>> value_said({"looks": ["gender", "race"], "home": ["region"]})
    'looks: gender, race; home: region'
    """
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {_inside(one)}" for key, one in value.items())
    if isinstance(value, (list, tuple)):
        deep = any(isinstance(one, (list, tuple, Mapping)) for one in value)
        return ("; " if deep else ", ").join(_inside(one) for one in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _inside(value: Any) -> str:
    # Another level needs brackets: commas and semicolons part the first two.
    if isinstance(value, Mapping):
        return f"({', '.join(f'{key}: {value_said(one)}' for key, one in value.items())})"
    return value_said(value)
