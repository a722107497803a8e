"""The parameters of a method or measure: typed fields, checked when they are set.

A method is a frozen dataclass. Its fields and its docstring are all that the plan, the command
line, the report and the reference page know of it.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any, TypeVar, cast, dataclass_transform, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from sfumato.errors import PlanError, did_you_mean
from sfumato.wording import expected

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
