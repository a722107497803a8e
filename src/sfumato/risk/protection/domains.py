"""Values of a declared domain that no record has: nobody's peers have them either."""

from __future__ import annotations

from sfumato.cells.notation import format_value
from sfumato.data import Dataset, find_missing_codes


def count_unused_values(data: Dataset, name: str) -> int:
    """How many values of the declared domain no record has; -1 where no such domain is declared.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> smoking = sf.Column(kind="nominal", domain=("never", "former", "current"))
    >>> schema = sf.Schema({"smoking": smoking})
    >>> data = sf.Dataset(pl.DataFrame({"smoking": ["never", None]}), schema)
    >>> count_unused_values(data, "smoking")
    2
    """
    column = data.schema[name]
    if column.generalised or column.domain is None:
        return -1
    values = data.column(name).drop_nulls().unique()
    absent = find_missing_codes(values, column)
    present = values if absent is None else values.filter(~absent)
    observed = {format_value(value) for value in present}
    if column.levels is not None:
        return len({format_value(level) for level in column.levels} - observed)
    if column.kind != "integer" or column.bounds is None:
        return -1
    low, high = (int(end) for end in column.bounds)
    occurring = sum(low <= float(value) <= high for value in observed)
    return high - low + 1 - occurring
