"""Which variables a step has generalised, so that their cells are read as ranges, sets and masks.

Text of the original may look like the notation of generalised cells: `*` for "not asked", `{f;m}`,
`[1;9]`. It is a value. A variable's cells are notation only if a step wrote notation into it, and
then no value of the original may look like it: nobody could tell the two apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import polars as pl

from sfumato.cells.notation import find_notation, format_value
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MethodError
from sfumato.schema import Column


def declare_generalised(
    before: Dataset,
    after: Dataset,
    names: Sequence[str],
    step: str,
    *,
    engine: Engine,
    draws: bool = False,
) -> Dataset:
    """The data after a step, with every variable declared into which it wrote notation.

    Parameters
    ----------
    before, after : the data before and after the step.
    names : the variables that the step touches.
    step : the name of its method.
    engine : where the records are.
    draws : whether it draws values among those that occur, so that a value may become commoner
        without having been written anew.

    Examples
    --------
    >>> from sfumato.engines import engine_for
    >>> before = Dataset(pl.DataFrame({"age": [24, 28]}))
    >>> after = Dataset(pl.DataFrame({"age": ["[24;28]", "[24;28]"]}))
    >>> local = engine_for(before.frame)
    >>> after = declare_generalised(before, after, ["age"], "k_anonymity", engine=local)
    >>> after.schema["age"].cells
    'generalised'
    """
    changes: dict[str, Column] = {}
    # Items of a list are read as such, whatever they look like.
    present = [
        name for name in names if name in after.schema and after.schema[name].cells != "lists"
    ]
    # A step that made text of something else may have declared what it wrote.
    declared = [
        name
        for name in present
        if _is_generalised(after, name) and name in before.schema and not _is_text(before, name)
    ]
    unread = [name for name in present if not _is_generalised(before, name)]
    unread = [name for name in unread if name not in declared]
    literals = _count_notation(before, unread, engine)
    written = _count_notation(after, unread, engine)
    for name in present:
        was, column = before.schema.get(name), after.schema[name]
        if not _is_text(after, name):
            if column.generalised:
                changes[name] = replace(column, cells=None)
        elif was is not None and was.generalised:
            if not column.generalised:
                changes[name] = replace(column, cells="generalised")
        elif name not in declared:
            old, new = literals.get(name, {}), written[name]
            if set(new) - set(old) if draws else _has_more(new, old):
                _require_no_literals(old, was, name, step)
                changes[name] = replace(column, cells="generalised")
    return replace(after, schema=after.schema.with_columns(changes)) if changes else after


def _is_generalised(data: Dataset, name: str) -> bool:
    return name in data.schema and data.schema[name].generalised


def _is_text(data: Dataset, name: str) -> bool:
    return data.dtype(name) == pl.String


def _count_notation(
    data: Dataset, names: Sequence[str], engine: Engine
) -> dict[str, dict[str, int]]:
    """How many cells of each text variable read as notation, by text; missing is left out."""
    texts = [name for name in names if name in data.schema and _is_text(data, name)]
    # Of categories each is looked at once, and none is turned into text for every record.
    quick = {
        name: _count_cells(data.frame[name])
        for name in texts
        if isinstance(data.frame, pl.DataFrame)
        and isinstance(data.frame.schema[name], pl.Enum)
        and not data.schema[name].missing
    }
    others = [name for name in texts if name not in quick]

    def count(batch: pl.DataFrame) -> list[Counter[str]]:
        return [_count_cells(batch[name]) for name in others]

    parts = engine.gather(data, count, reads=others, combine=_add_counts) if others else []
    counted = zip(others, reduce(_add_counts, parts) if parts else [], strict=True)
    return {name: dict(counts) for name, counts in (*quick.items(), *counted)}


def _count_cells(values: pl.Series) -> Counter[str]:
    # Each text is looked at once, however many cells have it.
    counted = values.drop_nulls().value_counts(name="cells").with_columns(pl.nth(0).cast(pl.String))
    return Counter(dict(counted.filter(find_notation(counted[values.name])).iter_rows()))


def _add_counts(first: list[Counter[str]], second: list[Counter[str]]) -> list[Counter[str]]:
    return [a + b for a, b in zip(first, second, strict=True)]


def _has_more(after: dict[str, int], before: dict[str, int]) -> bool:
    return any(count > before.get(text, 0) for text, count in after.items())


def _require_no_literals(
    literals: dict[str, int], column: Column | None, name: str, step: str
) -> None:
    """Refuse to write notation among values that look like it, unless they are declared levels."""
    declared = {format_value(level) for level in (column.levels if column else None) or ()}
    cells = sum(count for text, count in literals.items() if text not in declared)
    if cells:
        raise MethodError(
            f"Variable '{name}' has {cells} cells that look like ranges, sets, masks or `*`, and "
            f"'{step}' writes such cells: nobody could tell them apart.",
            hint='recode them first; or declare missing = ["*"] if `*` is a code for missing, or '
            'cells = "generalised" if they stand for several values already.',
        )
