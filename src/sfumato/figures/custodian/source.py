"""Where a picture's numbers come from: evidence, a frame, or rows of a table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.evidence import Direction, Evidence

Source = Any
"""Evidence with a table, a frame of any library, or a list of rows."""
Row = Mapping[str, Any]

_MOST_COLUMNS = 30
_HINT = "pass the evidence of the measure that this picture is for."


# Rows and records --------------------------------------------------------------------------------


def read_rows(source: Source, needed: Sequence[str], *, picture: str) -> list[Row]:
    """The rows of a table; fail when it was not computed, is empty or lacks a column."""
    rows = _list_rows(source, picture)
    if not rows:
        raise refuse_empty(picture)
    _require(rows, needed, picture, _HINT)
    return rows


def require_columns(table: Any, needed: Sequence[str], *, picture: str) -> list[Row]:
    """The rows of a table; where a column is missing, the hint lists those that there are."""
    rows = read_rows(table, [], picture=picture)
    missing = [name for name in needed if name not in rows[0]]
    _require(rows, needed, picture, f"the columns are: {_list_columns(list(rows[0]), missing)}.")
    return rows


def _require(rows: list[Row], needed: Sequence[str], picture: str, hint: str) -> None:
    missing = [name for name in needed if name not in rows[0]]
    if missing:
        raise SfumatoError(
            f"The picture '{picture}' needs the columns {', '.join(needed)}; the table lacks "
            f"{', '.join(missing)}.",
            hint=hint,
        )


def read_records(evidence: Evidence, column: str, *, picture: str) -> list[float]:
    """One number per record, those that are missing left out."""
    if not isinstance(evidence, Evidence) or evidence.records is None:
        raise refuse_without_records(picture)
    rows = read_rows(evidence.records, [column], picture=picture)
    return [value for row in rows if math.isfinite(value := to_float(row[column]))]


def refuse_without_records(picture: str) -> SfumatoError:
    """The evidence has no row per record."""
    return SfumatoError(
        f"The picture '{picture}' needs evidence with a row per record.",
        hint="measure it again: what was read from a public file has no records.",
    )


def refuse_empty(picture: str) -> SfumatoError:
    """There is no number to draw."""
    return SfumatoError(
        f"The picture '{picture}' has nothing to show: there is not one number in the table.",
        hint="look at the evidence: its `reason` and its `table`.",
    )


def to_float(value: Any) -> float:
    """A number, NaN for what is none."""
    try:
        return math.nan if value is None or isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        return math.nan


def average_finite(values: Iterable[Any]) -> float:
    """The mean of those values that are numbers; NaN where there is none."""
    finite = [number for value in values if math.isfinite(number := to_float(value))]
    return math.fsum(finite) / len(finite) if finite else math.nan


def list_measured(rows: Sequence[Row], besides: Sequence[str]) -> list[str]:
    """The columns that hold a measured number, besides the parameters."""
    return [
        name
        for name in rows[0]
        if name not in besides
        and not any(isinstance(row[name], bool) for row in rows)
        and any(math.isfinite(to_float(row[name])) for row in rows)
    ]


def _list_rows(source: Source, picture: str) -> list[Row]:
    if isinstance(source, Evidence):
        if source.table is None:
            why = f" ({source.reason})" if source.reason else ""
            raise SfumatoError(
                f"The picture '{picture}' needs evidence with a table; "
                f"'{source.name}' has none{why}.",
                hint=_HINT,
            )
        source = source.table
    if isinstance(source, Sequence) and all(isinstance(row, Mapping) for row in source):
        return list(source)
    from sfumato.io.frames import wrap

    return list(wrap(source).rows(named=True))


def _list_columns(names: Sequence[str], missing: Sequence[str]) -> str:
    """The columns, those first that are written alike."""
    ends = [name for name in names if name.rpartition(".")[2] in missing]
    similar = [name for name in names if any(part in name for part in missing)]
    order = list(dict.fromkeys([*ends, *similar, *names]))
    more = f" and {len(order) - _MOST_COLUMNS} more" if len(order) > _MOST_COLUMNS else ""
    return ", ".join(order[:_MOST_COLUMNS]) + more


# Which way is better -----------------------------------------------------------------------------


def describe_direction(columns: Iterable[str], known: dict[str, Evidence]) -> str:
    """Whether lower or higher numbers are better, where that is the same for all columns.

    Parameters
    ----------
    columns : a measure, or one of its further numbers as "reidentification.guess".
    known : evidence by the label that leads the column; others are looked up by their names.
    """
    directions = {_find_direction(name, known) for name in columns}
    direction = directions.pop() if len(directions) == 1 else None
    return f"{direction} is better" if direction else ""


def _find_direction(column: str, known: dict[str, Evidence]) -> Direction | None:
    label, _, detail = column.partition(".")
    if label in known:
        evidence = known[label]
        name, direction = evidence.name, evidence.direction
        return _find_detail_direction(name, detail) if detail else direction
    return _find_detail_direction(label, detail) if detail else _list_directions().get(label)


def _find_detail_direction(measure: str, detail: str) -> Direction | None:
    """Of a further number; None where nothing is declared about it, or nobody wants it either way.

    What is good for the analyst here may be bad for the people: that has no better end.
    """
    from sfumato import catalogue

    entry = catalogue.measures().get(measure)
    number = entry.find_number(detail) if entry is not None else None
    if number is None or entry is None:
        return None
    wanted = number.safer if entry.room() == "risk" else number.useful
    return None if wanted == "neither" else number.better


@cache
def _list_directions() -> dict[str, Direction]:
    """Measures and their further numbers."""
    from sfumato import catalogue

    directions: dict[str, Direction] = {}
    for name, measure in catalogue.measures().items():
        directions[name] = measure.direction
        for number in measure.numbers[1:]:
            direction = _find_detail_direction(name, number.name)
            if direction:
                directions[number.name] = direction
    return directions
