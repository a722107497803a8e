"""What a Stata or SPSS file of a release says of its variables: the labels that still apply.

Labels come from the schema, which has those of the file that was read and those that the plan
declares. A value's label is written only where a cell shows the value: the others could disclose
who was taken out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from sfumato.cells.notation import RANGE, SET, WILDCARD, format_value
from sfumato.data import Dataset
from sfumato.io.source import Reading, Source, get_kind
from sfumato.schema import Column


def label_variables(data: Dataset, frame: pl.DataFrame) -> Source:
    """The source of the data with the labels and missing codes of what is written.

    Parameters
    ----------
    data : the released records.
    frame : the same as they are written.
    """
    source = data.source or Source(format="frame")
    columns = {name: _label(frame[name], data.schema[name], source) for name in frame.columns}
    return replace(source, columns=columns)


def _label(values: pl.Series, column: Column, source: Source) -> Reading:
    name = values.name
    reading = source.columns.get(name) or Reading(type=get_kind(values.dtype), reason="its type")
    labels = column.labels or {format_value(code): text for code, text in reading.values.items()}
    label = column.label or reading.label
    if label and column.generalised and values.dtype == pl.String:
        label += " (ranges or sets)"
    cells = values.unique().drop_nulls().sort().to_list() if labels else []
    texts = {
        value: text
        for value in cells
        if (text := _name_cell(format_value(value), labels, generalised=column.generalised))
    }
    return replace(reading, label=label, values=texts, missing_codes=column.missing)


def _name_cell(cell: str, labels: Mapping[str, str], *, generalised: bool) -> str:
    """The label of a cell: that of its code, or of the codes that it stands for.

    Examples
    --------
    >>> labels = {"1": "low", "2": "middle", "3": "high"}
    >>> [_name_cell(cell, labels, generalised=True) for cell in ("2", "{1;3}", "[1;3]", "*", "7")]
    ['middle', 'low or high', 'low to high', 'any value', '']
    """
    if cell in labels or not generalised:
        return labels.get(cell, "")
    if cell == WILDCARD:
        return "any value"
    members, ends = SET.fullmatch(cell), RANGE.fullmatch(cell)
    parts = members[1].split(";") if members else list(ends.groups()) if ends else []
    between = " or " if members else " to "
    return between.join(labels[part] for part in parts) if set(parts) <= set(labels) else ""
