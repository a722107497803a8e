"""What is in the data: how they were read, and their first records."""

from __future__ import annotations

from typing import Any

from sfumato.data import Dataset
from sfumato.io import frames
from sfumato.studio.tasks import Work, task

_SHOWN_COLUMNS = 200
"""Variables of which single records are shown."""


@task(lane="quick", depends="source", keep=False)
def preview(work: Work, *, first: int = 0, rows: int = 20, table: str = "") -> dict[str, Any]:
    """Some records as they are in the file. They go to the page that asked, and nowhere else."""
    data = work.tables[table] if work.source.linked else work.raw
    return {"records": len(data), "first": first, **_list_records(data, first, rows)}


def _list_records(data: Dataset, first: int, rows: int) -> dict[str, Any]:
    names = list(data.columns)[:_SHOWN_COLUMNS]
    frame = frames.wrap(data.frame).select(names)[first : first + rows].to_polars()
    cells = [["" if cell is None else str(cell) for cell in row] for row in frame.iter_rows()]
    return {"variables": names, "more": len(data.columns) - len(names), "cells": cells}
