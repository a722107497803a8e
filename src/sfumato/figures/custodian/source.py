"""Where a picture's numbers come from: evidence, a frame, or rows of a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.evidence import Evidence

Source = Any
"""Evidence with a table, a frame of any library, or a list of rows."""
Row = Mapping[str, Any]


def rows_of(source: Source, needed: Sequence[str], *, picture: str) -> list[Row]:
    """The rows of a table; fail when it was not computed, is empty or lacks a column."""
    rows = _rows(source, picture)
    if not rows:
        raise nothing(picture)
    missing = [name for name in needed if name not in rows[0]]
    if missing:
        raise SfumatoError(
            f"The picture '{picture}' needs the columns {', '.join(needed)}; the table lacks "
            f"{', '.join(missing)}.",
            hint="pass the evidence of the measure that this picture is for.",
        )
    return rows


def records_of(evidence: Evidence, column: str, *, picture: str) -> list[float]:
    """One number per record, those that are missing left out."""
    if not isinstance(evidence, Evidence) or evidence.records is None:
        raise SfumatoError(
            f"The picture '{picture}' needs evidence with a row per record.",
            hint="measure it again: what was read from a public file has no records.",
        )
    rows = rows_of(evidence.records, [column], picture=picture)
    return [value for row in rows if math.isfinite(value := real(row[column]))]


def nothing(picture: str) -> SfumatoError:
    """There is no number to draw."""
    return SfumatoError(
        f"The picture '{picture}' has nothing to show: there is not one number in the table.",
        hint="look at the evidence: its `reason` and its `table`.",
    )


def real(value: Any) -> float:
    """A number, NaN for what is none."""
    try:
        return math.nan if value is None or isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        return math.nan


def _rows(source: Source, picture: str) -> list[Row]:
    if isinstance(source, Evidence):
        if source.table is None:
            why = f" ({source.reason})" if source.reason else ""
            raise SfumatoError(
                f"The picture '{picture}' needs evidence with a table; "
                f"'{source.name}' has none{why}.",
                hint="pass the evidence of the measure that this picture is for.",
            )
        source = source.table
    if isinstance(source, Sequence) and all(isinstance(one, Mapping) for one in source):
        return list(source)
    from sfumato.io.frames import wrap

    return list(wrap(source).rows(named=True))
