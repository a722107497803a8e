"""Linked tables as a drawing: a box for each table, an arrow for each key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_WIDTH, _HEAD, _LINE, _GAP_X, _GAP_Y, _EDGE = 250, 48, 22, 120, 28, 14
_LANE = 18
"""Between arrows that go round below the tables."""


@dataclass
class TableBox:
    """A table: its name, its rows, and the variables that keys lead from or to."""

    name: str
    rows: int
    variables: list[str] = field(default_factory=list)
    left: int = 0
    top: int = 0
    width: int = _WIDTH
    person: bool = False

    @property
    def height(self) -> int:
        """Of the box."""
        return _HEAD + _LINE * len(self.variables) + (8 if self.variables else 0)

    def find_line(self, variable: str) -> int:
        """Where the name of a variable stands."""
        return self.top + _HEAD + _LINE * self.variables.index(variable) + _LINE // 2


@dataclass(frozen=True)
class Arrow:
    """A key: the path of the arrow, and what is said beside it."""

    key: str
    target: str
    path: str
    label: str
    left: float
    top: float
    tone: str


@dataclass(frozen=True)
class Drawing:
    """Boxes, arrows, and how large it all is."""

    width: int
    height: int
    boxes: Sequence[TableBox]
    arrows: Sequence[Arrow]


def draw_tables(
    tables: Mapping[str, int],
    keys: Sequence[Sequence[str]],
    person: str | None,
    checks: Mapping[str, Mapping[str, Any]],
) -> Drawing:
    """Place the tables: those that others lead to on the left, the many on the right.

    Parameters
    ----------
    tables : the number of rows of each.
    keys : from the many to the one, `["visits.patient", "patients.id"]`.
    person : the variable that says who a person is.
    checks : for the first of each key how many rows lead nowhere (`orphans`).

    Examples
    --------
    >>> drawing = draw_tables({"visits": 3, "patients": 2}, [["visits.p", "patients.p"]],
    ...                       "patients.p", {"visits.p": {"orphans": 1}})
    >>> [(box.name, box.left) for box in drawing.boxes], drawing.arrows[0].label
    ([('visits', 384), ('patients', 14)], '1 row leads nowhere')
    """
    boxes = {name: TableBox(name, rows) for name, rows in tables.items()}
    pairs = [
        (key, *key.partition(".")[::2], *target.partition(".")[::2])
        for key, target in (pair[:2] for pair in keys)
    ]
    pairs = [pair for pair in pairs if pair[1] in boxes and pair[3] in boxes]
    if person is not None and (owner := boxes.get(person.partition(".")[0])) is not None:
        owner.person = True
        owner.variables.append(person.partition(".")[2])
    for _, table, variable, to_table, to_variable in pairs:
        for name, item in ((to_table, to_variable), (table, variable)):
            if item not in boxes[name].variables:
                boxes[name].variables.append(item)
    depths = _find_depths(boxes, [(pair[1], pair[3]) for pair in pairs])
    columns: dict[int, list[TableBox]] = {}
    for name, box in boxes.items():
        columns.setdefault(depths[name], []).append(box)
    for depth, column in columns.items():
        top = _EDGE
        for box in column:
            box.left, box.top = _EDGE + depth * (_WIDTH + _GAP_X), top
            top += box.height + _GAP_Y
    bottom = max((box.top + box.height for box in boxes.values()), default=0)
    arrows: list[Arrow] = []
    lane = 0
    for pair in pairs:
        # An arrow that would cross the tables between its ends goes round below them.
        far = depths[pair[1]] - depths[pair[3]] != 1
        lane += far
        round_by = bottom + _LANE * lane if far else None
        arrows.append(_draw_arrow(boxes, pair, checks.get(pair[0], {}), round_by, lane))
    return Drawing(
        width=max((box.left + _WIDTH for box in boxes.values()), default=0) + _EDGE,
        height=bottom + _LANE * lane + _EDGE,
        boxes=list(boxes.values()),
        arrows=arrows,
    )


def _find_depths(names: Mapping[str, Any], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """How many keys lead from a table to one that leads nowhere, at most; circles stop there."""
    depths = dict.fromkeys(names, 0)
    for _ in names:
        for table, to_table in edges:
            if table != to_table:
                depths[table] = min(max(depths[table], depths[to_table] + 1), len(depths) - 1)
    return depths


def _draw_arrow(
    boxes: Mapping[str, TableBox],
    pair: tuple[str, ...],
    check: Mapping[str, Any],
    round_by: int | None,
    lane: int,
) -> Arrow:
    key, table, variable, to_table, to_variable = pair
    many, one = boxes[table], boxes[to_table]
    start, end = many.find_line(variable), one.find_line(to_variable)
    begins, ends = many.left, one.left + _WIDTH + 7
    if round_by is None:
        middle = (begins + ends) // 2
        path = f"M{begins},{start} C{middle},{start} {middle},{end} {ends},{end}"
    else:
        down, up = begins - 12 - 6 * lane, ends + 16 + 6 * lane
        path = f"M{begins},{start} H{down} V{round_by} H{up} V{end} H{ends}"
    orphans = check.get("orphans")
    label = "" if orphans is None else _count_orphans(orphans)
    return Arrow(
        key=key,
        target=f"{to_table}.{to_variable}",
        path=path,
        label=label,
        left=many.left + _WIDTH - 12,
        top=start + 4,
        tone="bad" if orphans or check.get("repeated") else "good",
    )


def _count_orphans(rows: int) -> str:
    if not rows:
        return "all rows match"
    return "1 row leads nowhere" if rows == 1 else f"{rows:,} rows lead nowhere"
