"""Re-identification by fitting, against one `np.argsort` of a float column of the same length.

How the cost depends on what was done to the data. They come as cells that are coded already:
reading text is not part of it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from benchmarks.cost import Cost, cost
from benchmarks.discharges import KEYS, coded, discharges, mask
from benchmarks.rows import Row, compare
from sfumato.kernels.arrays import Integers
from sfumato.kernels.clustering.clusters import find_ranges, origin_order
from sfumato.kernels.trees.boxes import Cells

RECORDS = 1_000_000
Coded = tuple[npt.NDArray[np.int32], Cells]
Made = tuple[npt.NDArray[np.int32], tuple[Cells, ...]]


def columns(records: int) -> list[tuple[Integers, int]]:
    """The quasi-identifiers as codes from 0 on, and how many each has."""
    codes, values = coded(discharges(records))
    return [
        (column.astype(np.int64), len(seen)) for column, seen in zip(codes.T, values, strict=True)
    ]


def numbered(low: Integers, high: Integers, size: int) -> Coded:
    """Cells from their ends."""
    key = low * size + high
    found, cells = np.unique(key, return_inverse=True)
    ends = (found // size).astype(np.int32), (found % size).astype(np.int32)
    return cells.ravel().astype(np.int32), Cells(*ends, size)


def together(parts: Iterable[Coded]) -> Made:
    """One array of cells and the tables of all variables."""
    cells, tables = zip(*parts, strict=True)
    return np.array(cells), tables


def coarsened(records: int, intervals: int) -> Made:
    """Algorithm S3: fixed intervals."""
    parts = []
    for value, size in columns(records):
        starts = np.unique(np.arange(intervals) * size // intervals)
        ends = np.append(starts[1:], size) - 1
        at = np.searchsorted(starts, value, side="right") - 1
        parts.append(numbered(starts[at], ends[at], size))
    return together(parts)


def masked(records: int) -> Made:
    """Unique records masked in the order of Table S3."""
    frame = discharges(records)
    parts = []
    for name, cells in mask(frame).items():
        seen = frame[name].unique().sort().to_numpy()
        low = np.searchsorted(seen, cells.low)
        high = np.searchsorted(seen, cells.high, side="right") - 1
        ends, own = np.unique(np.column_stack([low, high]), axis=0, return_inverse=True)
        first, last = np.ascontiguousarray(ends.T.astype(np.int32))
        table = Cells(first, last, len(seen))
        parts.append((own.ravel().astype(np.int32)[cells.of], table))
    return together(parts)


def clustered(records: int, k: int, share: float) -> Made:
    """Algorithm S2 applied to some of the records; the others are as they were."""
    codes, values = coded(discharges(records))
    hit = np.random.default_rng(4).random(records) < share
    order, starts = origin_order(codes[hit], k)
    ends = find_ranges(codes[hit], order, starts)
    low, high = codes.copy(), codes.copy()
    for end, found in ((low, ends[0]), (high, ends[1])):
        end[np.flatnonzero(hit)[order]] = np.repeat(found, np.diff(starts), axis=0)
    return together(
        numbered(low[:, at].astype(np.int64), high[:, at].astype(np.int64), len(values[at]))
        for at in range(len(KEYS))
    )


def ranged(records: int, share: float) -> Made:
    """Some cells any range about the value, up to an eighth of the domain wide."""
    random = np.random.default_rng(3)
    parts = []
    for value, size in columns(records):
        hit = random.random(records) < share
        below, above = random.integers(0, size // 8 + 2, (2, records)) // 2
        low = np.maximum(value - np.where(hit, below, 0), 0)
        high = np.minimum(value + np.where(hit, above, 0), size - 1)
        parts.append(numbered(low, high, size))
    return together(parts)


CASES = {
    "coarsened to 32 intervals": "coarsened({records}, 32)",
    "coarsened to 8 intervals": "coarsened({records}, 8)",
    "masked, Table S3": "masked({records})",
    "S2, k = 3, all records": "clustered({records}, 3, 1.0)",
    "S2, k = 3, half of them": "clustered({records}, 3, 0.5)",
    "ranges in 5 % of cells": "ranged({records}, 0.05)",
    "ranges in 30 % of cells": "ranged({records}, 0.3)",
    "ranges in all cells": "ranged({records}, 1.0)",
}
SETUP = """
from benchmarks.bench_fitting import *
from sfumato.kernels.trees.boxes import find_covered
find_covered(*{small}, budget=10_000)
made = {large}
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # forget the memory that making the data took at its peak
"""
SORT = "import numpy as np\ncolumn = np.random.default_rng(0).random({records})"
FIND = "find_covered(*made, budget=10_000)"


def _set_up(made: str, records: int) -> str:
    return SETUP.format(small=made.format(records=2000), large=made.format(records=records))


def fitting(made: str, records: int) -> Cost:
    """What it costs to tell who is covered, in data made by such a call."""
    return cost(FIND, setup=_set_up(made, records))


ROWS = [
    Row(
        f"fitting, {label}, {len(KEYS)} variables, {RECORDS:,} records",
        FIND,
        "np.argsort(column)",
        "one np.argsort",
        _set_up(made, RECORDS),
        their_setup=SORT.format(records=RECORDS),
        goal=25,
        quick=label == "ranges in all cells",
    )
    for label, made in CASES.items()
]


if __name__ == "__main__":
    list(compare(ROWS))
