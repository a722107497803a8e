"""Forms from the parameters of methods and measures: what a new one declares, a page shows.

Bounds and choices come from the JSON schema of the class, help from its docstring. What a form
sends is read by the same code that reads the options of the command line.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_type_hints

import tomlkit
from pydantic import TypeAdapter

from sfumato.catalogue import Entry, parameters_of, parse_parameters
from sfumato.parameters import write_example

FieldKind = Literal["switch", "choice", "number", "names", "text"]
NONE = "[]"
"""What a form sends for none of the variables, where that is not the default."""
_CLOSED, _OPEN = ("minimum", "maximum"), ("exclusiveMinimum", "exclusiveMaximum")


@dataclass(frozen=True, kw_only=True)
class Field:
    """One parameter as a form shows it.

    Parameters
    ----------
    name, help : of the parameter.
    label : what people call it.
    kind : "switch" for true or false, "choice" for one of several, "number", "names" for some of
        the variables, "text" for everything else, written as in a plan.
    value : as the form shows it: text, or a list of names.
    default : what holds if nothing is given, as text.
    choices : of a choice or of names; of a text, what may stand there among others.
    may_be_empty : whether "none of the variables" is something else than saying nothing.
    least, most : bounds of a number.
    whole : whether a number must be whole.
    required : whether something must be given.
    example : of a text.
    """

    name: str
    label: str
    help: str
    kind: FieldKind
    value: Any
    default: str
    choices: Sequence[str] = ()
    may_be_empty: bool = False
    least: float | None = None
    most: float | None = None
    whole: bool = False
    required: bool = False
    example: str = ""


@cache
def read_json_schema(entry: Entry) -> Mapping[str, Any]:
    """The JSON schema of a method or measure."""
    return TypeAdapter(entry).json_schema()


def list_fields(
    entry: Entry, settings: Mapping[str, Any] | None = None, variables: Sequence[str] = ()
) -> list[Field]:
    """The fields of a form for a method or a measure.

    Parameters
    ----------
    entry : the method or measure.
    settings : what its parameters are now; defaults where not given.
    variables : names to choose from.

    Examples
    --------
    >>> from sfumato.methods.k_anonymity import KAnonymity
    >>> fields = {field.name: field for field in list_fields(KAnonymity, {"k": 7}, ["age"])}
    >>> fields["k"].kind, fields["k"].value, fields["k"].least, fields["variables"].choices
    ('number', '7', 2, ['age'])
    """
    properties = read_json_schema(entry).get("properties", {})
    types = get_type_hints(entry, include_extras=True)
    fields = []
    for parameter in parameters_of(entry):
        value = (settings or {}).get(parameter.name, parameter.default)
        shape = _drop_null(properties[parameter.name])
        kind, facts = _classify(shape, variables)
        if kind == "names":
            facts["may_be_empty"] = parameter.default is None and "minItems" not in shape
            value = [NONE] if value == [] and facts["may_be_empty"] else value
        fields.append(
            Field(
                name=parameter.name,
                label=parameter.label,
                help=parameter.further,
                kind=kind,
                value=_list_names(value) if kind == "names" else _write_value(value),
                default=_write_value(parameter.default),
                required=parameter.required,
                example=_write_example(types[parameter.name], shape) if kind == "text" else "",
                **facts,
            )
        )
    return fields


def read_form(entry: Entry, form: Mapping[str, Sequence[str]], before: str = "") -> dict[str, Any]:
    """The parameters of a method or measure from what a form sent; what is empty is left out.

    Parameters
    ----------
    entry : the method or measure.
    form : the values of each field.
    before : what the names of the fields begin with.

    Examples
    --------
    >>> from sfumato.methods.k_anonymity import KAnonymity
    >>> read_form(KAnonymity, {"k": ["7"], "variables": ["age", "sex, at birth"], "ends": [""]})
    {'variables': ['age', 'sex, at birth'], 'k': 7}
    """
    texts: dict[str, str | list[str]] = {}
    singles: dict[str, Any] = {}
    for field in list_fields(entry):
        sent = [text for text in form.get(f"{before}{field.name}", ()) if text != ""]
        if not sent:
            continue
        if field.kind == "names":
            if len(sent) == 1 and _takes_single_name(entry, field.name):
                singles[field.name] = sent[0]
                continue
            # A name may have a comma in it.
            texts[field.name] = NONE if NONE in sent else _write_value(sent)
        elif sent[-1] != field.default or field.required:
            texts[field.name] = sent[-1]
    return parse_parameters(entry, texts) | singles


def _write_example(annotation: Any, shape: Mapping[str, Any]) -> str:
    """What may stand in a field: where one number does for all variables, that first."""
    example = write_example(annotation)
    number = {"number", "integer"} & {part.get("type") for part in shape.get("anyOf", ())}
    if not number or not example.startswith("{"):
        return example
    return f"{example.partition('= ')[2].rstrip(' }')}, or {example}"


def _list_names(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value or [])


def _takes_single_name(entry: Entry, name: str) -> bool:
    """Whether one name may stand there without a list around it."""
    return _is_name_or_names(_drop_null(read_json_schema(entry)["properties"][name]))


def _is_name_or_names(shape: Mapping[str, Any]) -> bool:
    return [part.get("type") for part in shape.get("anyOf", ())] == ["string", "array"]


def _drop_null(shape: Mapping[str, Any]) -> Mapping[str, Any]:
    """A JSON schema without the alternative "nothing"."""
    if "anyOf" not in shape:
        return shape
    parts = [part for part in shape["anyOf"] if part.get("type") != "null"]
    return parts[0] if len(parts) == 1 else {"anyOf": parts}


def _classify(
    shape: Mapping[str, Any], variables: Sequence[str]
) -> tuple[FieldKind, dict[str, Any]]:
    kind = shape.get("type")
    if "enum" in shape:
        return "choice", {"choices": [str(choice) for choice in shape["enum"]]}
    if "const" in shape:
        return "choice", {"choices": [str(shape["const"])]}
    if kind == "boolean":
        return "switch", {}
    if kind in ("integer", "number"):
        least, most = (
            next((shape[name] for name in names if name in shape), None)
            for names in zip(_CLOSED, _OPEN, strict=True)
        )
        return "number", {"least": least, "most": most, "whole": kind == "integer"}
    names = kind == "array" and shape.get("items", {}).get("type") == "string"
    if names or _is_name_or_names(shape):
        return "names", {"choices": list(variables)}
    parts = shape.get("anyOf", ())
    return "text", {"choices": [str(choice) for part in parts for choice in part.get("enum", ())]}


def _write_value(value: Any) -> str:
    """A value as a field shows it: text plain, the rest as in a plan."""
    if value is None or value in ([], {}, ()):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, float, dt.date)):
        return str(value)
    plain = TypeAdapter(Any).dump_python(value, exclude_none=True)
    if isinstance(plain, dict):
        table = tomlkit.inline_table()
        table.update(plain)
        return str(table.as_string())
    return str(tomlkit.item(list(plain)).as_string()).replace("\n", " ")
