"""The parameters of a method or measure: typed fields, checked when they are set.

A method is a frozen dataclass. Its fields and its docstring are all that the plan, the command
line, the report and the reference page know of it.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, TypeVar, cast, dataclass_transform

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from sfumato.errors import PlanError, did_you_mean

T = TypeVar("T")


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
        for name, value in given.items():
            if isinstance(value, (list, tuple)) and _repeats(value):
                raise ParameterError(cls.__name__, [(name, "names something twice.")])
        try:
            checked(self, **given)
        except ValidationError as error:
            known = [one.name for one in dataclasses.fields(made)]
            wrong = [_sentence(dict(one), known) for one in error.errors(include_url=False)]
            raise ParameterError(cls.__name__, wrong) from None

    init.__signature__ = inspect.signature(checked)  # type: ignore[attr-defined]
    init.__wrapped__ = checked  # type: ignore[attr-defined]
    made.__init__ = init  # type: ignore[method-assign]
    return cast("type[T]", made)


def _repeats(values: list[Any] | tuple[Any, ...]) -> bool:
    texts = [value for value in values if isinstance(value, str)]
    return len(texts) != len(set(texts))


def _sentence(error: dict[str, Any], known: list[str]) -> tuple[str, str]:
    """Turn one of pydantic's findings into: which parameter, and what it must be."""
    where = [str(part) for part in error["loc"]]
    name = where[0] if where else ""
    if error["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        return name, f"does not exist. Hint: {did_you_mean(name, known)}"
    if error["type"] in ("missing", "missing_argument", "missing_keyword_only_argument"):
        return name, "must be given."
    if error["type"] in ("value_error", "assertion_error"):
        return name, str(error.get("ctx", {}).get("error", error["msg"]))
    expected = error["msg"].removeprefix("Input should be ").replace("a valid i", "an i")
    expected = expected.replace("a valid ", "a ")
    got = repr(error["input"])
    shown = got if len(got) <= 60 else f"{got[:57]}…"  # noqa: PLR2004
    return name, f"must be {expected}. Got {shown} instead."


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
