"""The types and values of parameters in words: for the reference, the command line and errors."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

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
