"""Columns of numbers that were measured: which there are, and which way each is better."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.evidence import Direction, Evidence
from sfumato.figures.custodian.source import Row, rows_of

_HIGHER = frozenset(
    {
        "k", "k_by_fitting", "k_of_groups", "k_if_clusters_are_known", "smallest_overlap",
        "mean_overlap", "signs_kept", "significance_kept", "correlation_of_correlations",
    }
)  # fmt: skip
"""Further numbers that go the other way than what they stand beside."""
_NEITHER = frozenset({"p_value", "stayed", "stayed_records"})
"""What is good for the analyst here may be bad for the people, or has no better end."""
_MOST = 30


def rows_with(table: Any, needed: Sequence[str], *, picture: str) -> list[Row]:
    """The rows of a table; where a column is missing, the hint lists those that there are."""
    rows = rows_of(table, [], picture=picture)
    missing = [name for name in needed if name not in rows[0]]
    if missing:
        raise SfumatoError(
            f"The picture '{picture}' needs the columns {', '.join(needed)}; the table lacks "
            f"{', '.join(missing)}.",
            hint=f"the columns are: {_listed(list(rows[0]), missing)}.",
        )
    return rows


def _listed(names: Sequence[str], missing: Sequence[str]) -> str:
    """The columns, those first that are written alike."""
    ends = [name for name in names if name.rpartition(".")[2] in missing]
    near = [name for name in names if any(one in name for one in missing)]
    order = list(dict.fromkeys([*ends, *near, *names]))
    more = f" and {len(order) - _MOST} more" if len(order) > _MOST else ""
    return ", ".join(order[:_MOST]) + more


def better(columns: Iterable[str], known: dict[str, Evidence]) -> str:
    """Whether lower or higher numbers are better, where that is the same for all columns.

    Parameters
    ----------
    columns : a measure, or one of its further numbers as "reidentification.guess".
    known : evidence by the label that leads the column; others are looked up by their names.
    """
    found = {_direction(name, known) for name in columns}
    way = found.pop() if len(found) == 1 else None
    return f"{way} is better" if way else ""


def _direction(column: str, known: dict[str, Evidence]) -> Direction | None:
    label, _, detail = column.partition(".")
    if label in known:
        one = known[label]
        return _of_detail(one.name, detail, one.direction) if detail else one.direction
    of_names = _catalogued()
    if detail:
        return _of_detail(label, detail, of_names.get(label))
    return of_names.get(label)


def _of_detail(measure: str, detail: str, way: Direction | None) -> Direction | None:
    """Of a further number; None where nothing is declared of it."""
    if detail in _NEITHER or detail not in _provided().get(measure, ()):
        return None
    return "higher" if detail in _HIGHER else way


@cache
def _provided() -> dict[str, tuple[str, ...]]:
    from sfumato import catalogue

    return {name: one.provides for name, one in catalogue.measures().items()}


@cache
def _catalogued() -> dict[str, Direction]:
    """Measures and their further numbers."""
    from sfumato import catalogue

    found: dict[str, Direction] = {}
    for name, one in catalogue.measures().items():
        found[name] = one.direction
        for detail in one.provides:
            way = _of_detail(name, detail, one.direction)
            if way:
                found[detail] = way
    return found
