"""What may be published of a variable's vocabulary: only what the released cells show.

A release with `[low;high]` or with groups can only be read by somebody who knows the order and the
groups. But a list of all values, or a hierarchy of all codes, may name values that only one person
had, and that the release has hidden. Whatever no cell shows is therefore summed up as "another
value", once for the variable and once for each group that a cell names. Measures by fitting give
the same numbers as with the full vocabulary: values that no cell names fit the same cells.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import polars as pl

from sfumato.cells.notation import RANGE, SET, WILDCARD, format_value
from sfumato.schema import Column

_ANOTHER = "(another value)"
_ANOTHER_OF = "(another value of {})"


def restrict_vocabulary(column: Column, read_values: Callable[[], pl.Series]) -> Column:
    """The declaration of a released variable, without what its cells do not show.

    Its values are read only where something is declared.

    Examples
    --------
    >>> column = Column(kind="nominal", domain=("ulm", "bonn", "kiel"))
    >>> restrict_vocabulary(column, lambda: pl.Series(["ulm", "ulm"])).domain
    ('ulm', '(another value)')
    """
    if column.levels is None and column.hierarchy is None and not column.labels:
        return column
    shown = _list_shown(read_values(), column)
    column = replace(column, labels=_select_labels(column, shown))
    # What holds for all values, a root of the hierarchy, says nothing about anybody.
    shown |= _list_roots(column)
    paths = dict(
        _summarise_path(value, groups, shown) for value, groups in (column.hierarchy or {}).items()
    )
    return replace(column, domain=_summarise_domain(column, shown), hierarchy=paths or None)


def _select_labels(column: Column, shown: set[str]) -> dict[str, str] | None:
    """The labels of codes that a cell shows, alone, in a set or at the end of a range.

    Those of codes for "missing" as well: the codes are declared.
    """
    ends = (match for text in shown if column.generalised and (match := RANGE.fullmatch(text)))
    named = {*shown, *map(format_value, column.missing), *(end for m in ends for end in m.groups())}
    labels = column.labels or {}
    return {code: text for code, text in labels.items() if code in named} or None


def _list_roots(column: Column) -> set[str]:
    levels = zip(*(column.hierarchy or {}).values(), strict=True)
    return {names[0] for names in levels if len(set(names)) == 1}


def _summarise_path(
    value: str, groups: tuple[str, ...], shown: set[str]
) -> tuple[str, tuple[str, ...]]:
    """A value and its groups; a value that no cell shows is another value of its group."""
    if value in shown:
        return value, groups
    readable = {*shown, WILDCARD}
    named = next((i for i, group in enumerate(groups) if group in readable), len(groups))
    above = groups[named:]
    # A value nobody may learn of is named by the narrowest group that a cell shows.
    label = _ANOTHER_OF.format(above[0]) if above and above[0] != WILDCARD else _ANOTHER
    return label, (*[label] * named, *above)


def _summarise_domain(column: Column, shown: set[str]) -> tuple[Any, ...] | None:
    """The declared levels; of a list of names, those that no cell shows are summed up."""
    if column.kind != "nominal" or column.domain is None:
        return column.domain  # a scale is known with all its steps, as are the ends of numbers
    broader = column.hierarchy or {}
    levels = []
    for level in column.domain:
        text = format_value(level)
        summary = _summarise_path(text, broader.get(text, ()), shown)[0]
        levels.append(level if text in shown else summary)
    return tuple(dict.fromkeys(levels))


def _list_shown(values: pl.Series, column: Column) -> set[str]:
    """The values and groups that cells name, alone or in a set."""
    shown: set[str] = set()
    for value in values.unique().drop_nulls().to_list():
        text = format_value(value)
        match = SET.fullmatch(text) if column.generalised else None
        shown.update(match[1].split(";") if match else [text])
    return shown


def vocabulary_to_json(column: Column) -> dict[str, Any]:
    """The vocabulary as JSON, with the words in which a variable is described."""
    words = {"label": column.label, "unit": column.unit, "labels": column.labels}
    vocabulary: dict[str, Any] = {name: word for name, word in words.items() if word}
    if column.domain is not None:
        vocabulary["domain"] = [
            end.isoformat() if isinstance(end, dt.date) else end for end in column.domain
        ]
    if column.hierarchy is not None:
        vocabulary["hierarchy"] = {
            value: list(broader) for value, broader in column.hierarchy.items()
        }
    return vocabulary


def vocabulary_from_json(vocabulary: dict[str, Any], kind: str | None) -> dict[str, Any]:
    """The vocabulary from JSON, as the fields of a declaration."""
    fields: dict[str, Any] = {
        name: vocabulary[name] for name in ("label", "unit", "labels") if name in vocabulary
    }
    if (domain := vocabulary.get("domain")) is not None:
        fields["domain"] = tuple(map(_parse_day, domain)) if kind == "date" else tuple(domain)
    if (hierarchy := vocabulary.get("hierarchy")) is not None:
        fields["hierarchy"] = {value: tuple(broader) for value, broader in hierarchy.items()}
    return fields


def _parse_day(text: str) -> dt.date:
    return dt.date.fromisoformat(text[:10])
