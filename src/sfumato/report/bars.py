"""A small bar chart as data; the page draws it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

_MOST = 40


def bars(table: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Bars for a table whose first column is a label and which counts `records`."""
    label = next(iter(table[0]))
    most = max(row["records"] for row in table) or 1
    said = label.replace("_", " ")
    # Only a size can be too small; of words the column says what becomes of the records.
    size = str(table[0][label])[:1].isdigit()
    return {
        "title": f"Records by {said} (in red: fewer than 3)" if size else f"Records {said}",
        "rows": [
            {
                "label": str(row[label]),
                "told": f"{row['records']:,}",
                "share": round(100 * row["records"] / most, 2),
                "alone": str(row[label]) in ("1", "2"),
            }
            for row in table
        ],
    }


def bars_by_variable(table: Sequence[Mapping[str, Any]], name: str) -> dict[str, Any]:
    """Bars of one number per variable; of many variables the largest, in the table's order."""
    sizes = [_size(row[name]) for row in table]
    most = max(sizes) or 1.0
    ranked = sorted(range(len(table)), key=lambda at: (-sizes[at], at))
    kept = sorted(ranked[:_MOST])
    more = f", the {_MOST} largest of {len(table):,}" if len(table) > _MOST else ""
    return {
        "title": f"{name.replace('_', ' ').capitalize()} by variable{more}",
        "rows": [
            {
                "label": str(table[at]["variable"]),
                "told": _told(table[at][name]),
                "share": round(100 * sizes[at] / most, 2),
                "alone": False,
            }
            for at in kept
        ],
    }


def _size(value: Any) -> float:
    number = isinstance(value, (int, float)) and math.isfinite(value)
    return abs(float(value)) if number else 0.0


def _told(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, (int, float)) else "could not be computed"
