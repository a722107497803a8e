"""A small bar chart as data; the page draws it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def bars(table: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Bars for a table whose first column is a label and which counts `records`."""
    label = next(iter(table[0]))
    most = max(row["records"] for row in table) or 1
    return {
        "title": f"Records by {label.replace('_', ' ')}",
        "rows": [
            {
                "label": str(row[label]),
                "records": f"{row['records']:,}",
                "share": round(100 * row["records"] / most, 2),
                "alone": str(row[label]) in ("1", "2"),
            }
            for row in table
        ],
    }
