"""Re-identification by fitting, against one `np.argsort` of a float column of the same length.

The records are like the patient discharges of paper 002: nine variables of the sizes of its
Table S1, a hospital that follows the county, and a zip code within it. They come as cells that
are coded already: reading text is not part of it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from benchmarks.cost import cost
from sfumato.kernels.boxes import Cells

RECORDS = 3_985_166
SIZES = {
    "hospital": 450, "age": 86, "sex": 4, "ethnicity": 4, "race": 7, "zip": 2600, "county": 58,
    "stay": 365, "quarter": 4,
}  # fmt: skip
MASKED = (
    ("age", 5), ("ethnicity", 9), ("race", 9), ("sex", 9), ("age", 20), ("age", 99),
    ("quarter", 9), ("zip", 50), ("county", 99), ("zip", 9999),
)  # fmt: skip
"""Table S3: what is masked in which order, and the width of the range that is left."""
Values = npt.NDArray[np.int64]
Coded = tuple[npt.NDArray[np.int32], Cells]
Made = tuple[npt.NDArray[np.int32], tuple[Cells, ...]]


def discharges(records: int) -> dict[str, Values]:
    """Invented discharges, as codes from 0 on."""
    random = np.random.default_rng(1)

    def draw(*shares: float) -> Values:
        return random.choice(len(shares), records, p=shares)

    many = random.zipf(1.3, 4 * records) - 1
    county = many[many < SIZES["county"]][:records]
    near = county * 450 // 58 + random.integers(0, 7, records)
    far = random.integers(0, 450, records)
    return {
        "hospital": np.where(draw(0.2, 0.8), near, far) % 450,
        "age": random.integers(0, 86, records),
        "sex": draw(0.44, 0.55, 0.005, 0.005),
        "ethnicity": draw(0.3, 0.66, 0.03, 0.01),
        "race": draw(0.65, 0.09, 0.01, 0.08, 0.13, 0.03, 0.01),
        "zip": county * 2600 // 58 + (random.beta(1, 3, records) * 44).astype(np.int64),
        "county": county,
        "stay": np.minimum(random.geometric(0.2, records) - 1, 364),
        "quarter": random.integers(0, 4, records),
    }


def numbered(low: Values, high: Values, size: int) -> Coded:
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
    for name, values in discharges(records).items():
        starts = np.unique(np.arange(intervals) * SIZES[name] // intervals)
        ends = np.append(starts[1:], SIZES[name]) - 1
        at = np.searchsorted(starts, values, side="right") - 1
        parts.append(numbered(starts[at], ends[at], SIZES[name]))
    return together(parts)


def masked(records: int, share: float) -> Made:
    """Some records masked, each down to some line of Table S3."""
    values = discharges(records)
    random = np.random.default_rng(2)
    deep = np.where(random.random(records) < share, random.geometric(0.35, records), 0)
    wide = {name: (value, value) for name, value in values.items()}
    for at, (name, width) in enumerate(MASKED):
        start = values[name] // width * width
        end = np.minimum(start + width, SIZES[name]) - 1
        low, high = wide[name]
        wide[name] = np.where(deep > at, start, low), np.where(deep > at, end, high)
    return together(numbered(*wide[name], SIZES[name]) for name in SIZES)


def ranged(records: int, share: float) -> Made:
    """Some cells any range about the value, up to an eighth of the domain wide."""
    random = np.random.default_rng(3)
    parts = []
    for name, value in discharges(records).items():
        hit = random.random(records) < share
        below, above = random.integers(0, SIZES[name] // 8 + 2, (2, records)) // 2
        low = np.maximum(value - np.where(hit, below, 0), 0)
        high = np.minimum(value + np.where(hit, above, 0), SIZES[name] - 1)
        parts.append(numbered(low, high, SIZES[name]))
    return together(parts)


CASES = {
    "coarsened to 32 intervals": "coarsened({records}, 32)",
    "coarsened to 8 intervals": "coarsened({records}, 8)",
    "10 % of records masked": "masked({records}, 0.1)",
    "60 % of records masked": "masked({records}, 0.6)",
    "ranges in 5 % of cells": "ranged({records}, 0.05)",
    "ranges in 30 % of cells": "ranged({records}, 0.3)",
    "ranges in all cells": "ranged({records}, 1.0)",
}
SETUP = """
from benchmarks.bench_fitting import *
from sfumato.kernels.boxes import covered
covered(*{small}, budget=10_000)
made = {large}
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # forget the memory that making the data took at its peak
"""
SORT = "import numpy as np\ncolumn = np.random.default_rng(0).random({records})"


def main(records: int = RECORDS, only: str = "") -> None:
    """Print what each kind of data costs."""
    base = cost("np.argsort(column)", setup=SORT.format(records=records), repeats=3)
    print(f"{records:,} records x {len(SIZES)}; np.argsort takes {base.cpu:.2f} s of CPU")
    print(f"{'data':>26} {'CPU s':>7} {'x argsort':>9} {'peak MB':>8}")
    for label, made in CASES.items():
        if only in label:
            setup = SETUP.format(
                small=made.format(records=2000), large=made.format(records=records)
            )
            ours = cost("covered(*made, budget=10_000)", setup=setup)
            print(f"{label:>26} {ours.cpu:>7.2f} {ours.cpu / base.cpu:>9.2f} {ours.peak:>8.0f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else RECORDS, *sys.argv[2:3])
