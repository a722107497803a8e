"""A small bar chart as data; the page draws it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_WIDTH, _LABEL, _ROW = 640, 110, 26


def bars(table: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Bars for a table whose first column is a label and which counts `records`."""
    label = next(iter(table[0]))
    most = max((row["records"] for row in table), default=0) or 1
    room = _WIDTH - _LABEL - 70
    return {
        "title": f"Records by {label.replace('_', ' ')}",
        "axis": label.replace("_", " "),
        "width": _WIDTH,
        "height": _ROW * len(table),
        "x": _LABEL,
        "rows": [
            {
                "label": str(row[label]),
                "records": f"{row['records']:,}",
                "y": _ROW * at + 4,
                "middle": _ROW * at + 17,
                "length": round(room * row["records"] / most, 1),
                "alone": str(row[label]) in ("1", "2"),
            }
            for at, row in enumerate(table)
        ],
    }
