"""Which variables a step has generalised, so that their cells are read as ranges, sets and masks.

Text of the original may look like the notation of generalised cells: `*` for "not asked", `{f;m}`,
`[1;9]`. It is a value. A variable's cells are notation only if a step wrote notation into it, and
then no value of the original may look like it: nobody could tell the two apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from sfumato.cells.notation import find_notation, format_value
from sfumato.data import Dataset
from sfumato.errors import MethodError
from sfumato.schema import Column


def declare_generalised(
    before: Dataset, after: Dataset, names: Sequence[str], step: str, *, draws: bool = False
) -> Dataset:
    """The data after a step, with every variable declared into which it wrote notation.

    Parameters
    ----------
    before, after : the data before and after the step.
    names : the variables that the step touches.
    step : the name of its method.
    draws : whether it draws values among those that occur, so that a value may become commoner
        without having been written anew.

    Examples
    --------
    >>> before = Dataset(pl.DataFrame({"age": [24, 28]}))
    >>> after = Dataset(pl.DataFrame({"age": ["[24;28]", "[24;28]"]}))
    >>> declare_generalised(before, after, ["age"], "k_anonymity").schema["age"].cells
    'generalised'
    """
    changes: dict[str, Column] = {}
    for name in names:
        if name not in after.schema:
            continue
        was, column = before.schema.get(name), after.schema[name]
        cells = _read_text(after, name)
        if cells is None:
            if column.generalised:
                changes[name] = replace(column, cells=None)
            continue
        if was is not None and was.generalised:
            if not column.generalised:
                changes[name] = replace(column, cells="generalised")
            continue
        literals = _count_notation(_read_text(before, name) if was is not None else None)
        written = _count_notation(cells)
        if not (set(written) - set(literals) if draws else _has_more(written, literals)):
            continue
        _require_no_literals(literals, was, name, step)
        changes[name] = replace(column, cells="generalised")
    return replace(after, schema=after.schema.with_columns(changes)) if changes else after


def _read_text(data: Dataset, name: str) -> pl.Series | None:
    """The cells of a text variable, codes for missing left out; None for another type."""
    values = data.column(name)
    return values if values.dtype == pl.String else None


def _count_notation(values: pl.Series | None) -> dict[str, int]:
    """How many cells there are of each text that reads as notation."""
    if values is None:
        return {}
    # Each text is looked at once, however many cells have it.
    counted = values.drop_nulls().value_counts(name="cells")
    return dict(counted.filter(find_notation(counted[values.name])).iter_rows())


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
