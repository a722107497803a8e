"""Forms for figures and tables, made from the signatures of the functions that make them."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from sfumato import catalogue
from sfumato.errors import PlanError, did_you_mean
from sfumato.figures import public as plots
from sfumato.figures.public import grid, protection
from sfumato.outputs.tables.crosstabs import crosstab
from sfumato.studio.forms import Field, FieldKind

_NOT_FOR_FORMS = {"data", "model", "rules", "log", "key", "limits", "terms"}
"""What the studio gives by itself, and what few ever set."""
_WORDS = {"title", "aggregate"}
"""Texts that name no variable."""
_ALBUMS = ("compare", "gallery")
"""They show several figures at once, some of which must stay inside."""
MODEL = "model"
_ABOUT_MODEL = "A linear model of the data, written as outcome ~ variable + variable."


@dataclass(frozen=True)
class OutputKind:
    """A kind of figure or table.

    Parameters
    ----------
    name : of the function.
    make : the function.
    of : whether it is made of "data" or of a "model".
    shows : "figure" or "table".
    line : what it is, in a line.
    """

    name: str
    make: Callable[..., Any]
    of: str
    shows: str
    line: str

    @property
    def takes(self) -> Mapping[str, inspect.Parameter]:
        """The parameters of the function."""
        return inspect.signature(self.make).parameters


@cache
def list_kinds() -> Mapping[str, OutputKind]:
    """All figures that may leave, and the table."""
    functions = {name: getattr(plots, name) for name in plots.__all__ if name not in _ALBUMS}
    kinds = {
        name: _describe(name, function, "figure")
        for name, function in sorted(functions.items())
        if inspect.isfunction(function)
    }
    return {"crosstab": _describe("crosstab", crosstab, "table"), **kinds}


def _describe(name: str, function: Callable[..., Any], shows: str) -> OutputKind:
    first = next(iter(inspect.signature(function).parameters))
    line = (inspect.getdoc(function) or "").partition("\n")[0]
    return OutputKind(name, function, first, shows, line)


def get_kind(name: str) -> OutputKind:
    """A kind by its name."""
    kinds = list_kinds()
    if name not in kinds:
        raise PlanError("This kind of output is not known.", hint=did_you_mean(name, kinds))
    return kinds[name]


def list_output_fields(kind: OutputKind, variables: Sequence[str]) -> list[Field]:
    """The fields of the form of a kind.

    Examples
    --------
    >>> fields = {item.name: item for item in list_output_fields(get_kind("scatter"), ["age"])}
    >>> fields["x"].required, fields["x"].choices, fields["bins"].kind, fields["trend"].value
    (True, ['age'], 'number', 'true')
    """
    hints = _read_types(kind.make)
    docs = catalogue.read_parameter_docs(inspect.getdoc(kind.make) or "")
    fields = []
    if kind.of == MODEL:
        fields.append(Field(name=MODEL, label="Model", help=_ABOUT_MODEL, kind="text", value="",
                            default="", required="x" not in kind.takes,
                            example="weight ~ height"))  # fmt: skip
    for name, parameter in kind.takes.items():
        if name in _NOT_FOR_FORMS:
            continue
        required = parameter.default is parameter.empty
        shape, facts = _classify(name, hints[name], variables)
        default = "" if required or parameter.default is None else parameter.default
        text = str(default).lower() if isinstance(default, bool) else str(default)
        value: Any = [] if shape == "names" else text
        about = catalogue.Parameter(name=name, type=shape, default=default, required=required,
                                    help=docs.get(name, ""))  # fmt: skip
        fields.append(Field(name=name, label=about.label, help=about.further, kind=shape,
                            value=value, default=text, required=required, **facts))  # fmt: skip
    return fields


def read_output_form(kind: OutputKind, form: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The parameters of a kind from what a form sent; what is empty or the default is left out.

    Examples
    --------
    >>> read_output_form(get_kind("histogram"), {"x": ["age"], "bins": ["12"], "density": ["true"]})
    {'x': 'age', 'bins': 12}
    """
    values: dict[str, Any] = {}
    for item in list_output_fields(kind, ()):
        sent = [text.strip() for text in form.get(item.name, ()) if text.strip()]
        if not sent and item.required:
            raise PlanError(f"A {kind.name} needs '{item.label}'.", hint="choose a variable.")
        if not sent or sent[-1] == item.default:
            continue
        values[item.name] = _parse(item, sent)
    return values


def _parse(item: Field, sent: Sequence[str]) -> Any:
    if item.kind == "names":
        return list(sent)
    if item.kind == "switch":
        return sent[-1] == "true"
    try:
        if item.kind == "number":
            return int(sent[-1]) if item.whole else float(sent[-1])
        if item.name == "edges":
            return [float(part) for part in sent[-1].split(",")]
    except ValueError:
        raise PlanError(f"'{item.label}' takes numbers.", hint="such as 0, 18, 40, 65.") from None
    if item.name == "aggregate":
        return [part.strip() for part in sent[-1].split(",") if part.strip()]
    return sent[-1]


@cache
def _read_types(function: Callable[..., Any]) -> Mapping[str, Any]:
    """The types of the parameters, also of those that are only imported for checking."""
    known = dict.fromkeys(("Rules", "Log", "Method", "Key", "Plot"), Any)
    return get_type_hints(function, localns={**vars(grid), **vars(protection), **known})


def _classify(name: str, hint: Any, variables: Sequence[str]) -> tuple[FieldKind, dict[str, Any]]:
    parts = [part for part in _list_parts(hint) if part is not types.NoneType]
    literals = [str(choice) for part in parts if get_origin(part) is Literal
                for choice in get_args(part)]  # fmt: skip
    sequence = any(get_origin(part) is not None and get_origin(part) is not Literal
                   for part in parts)  # fmt: skip
    if literals:
        return "choice", {"choices": literals}
    if bool in parts:
        return "switch", {}
    if name in _WORDS or (sequence and str not in parts):
        return "text", {}
    if int in parts or float in parts:
        return "number", {"whole": int in parts}
    return ("names" if sequence else "choice"), {"choices": list(variables)}


def _list_parts(hint: Any) -> list[Any]:
    if get_origin(hint) in (Union, types.UnionType):
        return [inner for part in get_args(hint) for inner in _list_parts(part)]
    return [hint]
