"""Each record by itself: whom the data give away, and by what."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.data.identity import match_identities
from sfumato.engines import engine_for
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence
from sfumato.io.frames import wrap
from sfumato.kernels.arrays import AnyIntegers
from sfumato.measure import Measure
from sfumato.progress import Progress
from sfumato.risk.least_known import find_keys
from sfumato.risk.uniqueness import Uniqueness
from sfumato.run import assess, evaluate, pair

_MOST_KNOWN = 3
"""Variables by which a person is looked for when it is said what gives them away."""


def list_exposed_records(
    data: Dataset,
    measures: Mapping[str, Measure],
    release: Path | None = None,
    *,
    progress: Progress | None = None,
) -> pl.DataFrame:
    """A row per record: what each measure says of it; the most exposed first. It stays inside.

    `record` is the position of the record, from 1. With `uniqueness` alone, `alone_by` names the
    fewest variables, up to three, in which the person stands alone.

    Parameters
    ----------
    data : the original records.
    measures : by label; each must say something of single records.
    release : the folder of a release of the data, if that is to be looked at.

    Examples
    --------
    >>> import sfumato as sf
    >>> frame = pl.DataFrame({"sex": ["f", "f", "m"], "age": [30, 30, 30]})
    >>> data = sf.Dataset(frame, sf.Schema({"sex": "quasi", "age": "quasi"}))
    >>> list_exposed_records(data, {"uniqueness": sf.risk.Uniqueness()})["record"].to_list()
    [3, 1, 2]
    """
    if release is None:
        looked_at, rows = engine_for(data.frame).prepare(data), None
        evidence = assess(data, measures, progress=progress)
    else:
        evidence = evaluate(data, release, measures, progress=progress)
        original, looked_at = pair(data, release)
        everybody = engine_for(data.frame).prepare(data.with_schema(original.schema))
        rows = match_identities(everybody.identity.digests, original.identity.digests)
    frame = pl.DataFrame({"record": np.arange(1, len(data) + 1)})
    for label, measure in measures.items():
        part = _read_records(evidence[label], label)
        if len(measures) > 1:
            part = part.rename({name: f"{label}_{name}" for name in part.columns})
        frame = frame.hstack(_spread_rows(part, None if measure.whole else rows, len(data)))
    [measure, *others] = measures.values()
    if not others and isinstance(measure, Uniqueness):
        keys, key_of = find_keys(
            looked_at,
            [name for name in measure.known or looked_at.schema.having("quasi")
             if name in looked_at.schema],
            most=_MOST_KNOWN,
        )  # fmt: skip
        names = pl.DataFrame(
            {
                "alone_by": pl.Series([", ".join(key) for key in keys]).gather(key_of),
                "size": pl.Series([len(key) or _MOST_KNOWN + 1 for key in keys]).gather(key_of),
            }
        )
        frame = frame.hstack(_spread_rows(names, rows, len(data)))
        frame = frame.sort("class_size", "size", "record", nulls_last=True).drop("size")
    return frame


def _spread_rows(part: pl.DataFrame, rows: AnyIntegers | None, records: int) -> pl.DataFrame:
    """A row for each record, where those of a table are of some of them; None: of all, in order."""
    if rows is None:
        return part
    position = np.full(records, -1)
    position[rows[rows >= 0]] = np.flatnonzero(rows >= 0)
    index = pl.Series(position).set(pl.Series(position < 0), None)
    return part.select(pl.all().gather(index))


def _read_records(evidence: Evidence, label: str) -> pl.DataFrame:
    if not evidence.computed:
        raise MeasureError(f"{label} could not be computed: {evidence.reason}")
    if evidence.records is None:
        raise MeasureError(
            f"{label} says nothing of each record.", hint="name another measure: --measure peers"
        )
    frame: pl.DataFrame = wrap(evidence.records).to_polars()
    return frame
