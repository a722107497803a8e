"""Local suppression: cells blanked on Adult, and CPU time by size, against simpler ways.

The baselines: "wholly" blanks all variables of every record that stands out; "stepwise" blanks one
variable after the other, the one with most values first, of whoever still stands out (the heuristic
that sdcMicro documents). Both are one polars expression a step, and neither mends what is left with
too little company.
"""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl

import sfumato as sf
from benchmarks.rows import Row, compare

SIZES = (125_000, 250_000, 500_000, 1_000_000)

SETUP = """
import polars as pl
import sfumato as sf
from benchmarks.bench_suppress import known, wholly
frame = known({records})
data = sf.Dataset(frame, sf.Schema(dict.fromkeys(frame.columns, "quasi")))
sf.methods.Suppress(k=5, missing={missing!r}).apply(data.take(__import__("numpy").arange(100)))
wholly(frame.head(100), 5)
"""
OURS = "sf.methods.Suppress(k=5, missing={missing!r}).apply(data)"
NAIVE = "wholly(frame, 5)"


def known(records: int) -> pl.DataFrame:
    """Eight variables of the invented cohort."""
    names = ["sex", "region", "ethnicity", "education", "marital_status", "children",
             "household_size", "birth_year"]  # fmt: skip
    frame = sf.datasets.cohort(records)
    return frame.with_columns(birth_year=pl.col("birth_date").dt.year()).select(names)


def wholly(frame: pl.DataFrame, k: int) -> pl.DataFrame:
    """Blank all variables of whoever stands out."""
    return _blanked(frame, frame.columns, k)


def stepwise(frame: pl.DataFrame, k: int) -> pl.DataFrame:
    """Blank one variable after the other of whoever stands out."""
    for name in sorted(frame.columns, key=lambda one: -frame[one].n_unique()):
        frame = _blanked(frame, [name], k)
    return frame


def _blanked(frame: pl.DataFrame, names: list[str], k: int) -> pl.DataFrame:
    company = pl.len().over(frame.columns) >= k
    return frame.with_columns(pl.when(company).then(pl.col(name)).alias(name) for name in names)


ROWS = [
    Row(
        f"local suppression, missing as {missing}, {records:,} records",
        OURS.format(missing=missing),
        NAIVE,
        "blanking whole records in polars",
        SETUP.format(records=records, missing=missing),
        quick=records == SIZES[0],
    )
    for records in SIZES
    for missing in ("value", "wildcard")
]


def main() -> None:
    """Cells blanked in the 30,162 records of Adult, by eight variables."""
    folder = os.environ.get("SFUMATO_DATA")
    if not folder:
        print("Adult: set SFUMATO_DATA")
        return
    frame = pl.read_csv(Path(folder) / "adult.csv", infer_schema=False).drop("salary")
    data = sf.Dataset(frame, sf.Schema(dict.fromkeys(frame.columns, "quasi")))
    print(f"{'k':>3} {'way':>20} {'cells':>8} {'of wholly':>10}")
    for k in (3, 5):
        made = {"wholly": wholly(frame, k), "stepwise": stepwise(frame, k)}
        for missing in ("value", "wildcard"):
            made[f"ours, {missing}"] = sf.methods.Suppress(k=k, missing=missing).apply(data).frame
        cells = {way: sum(one.null_count().row(0)) for way, one in made.items()}
        for way, blank in cells.items():
            print(f"{k:>3} {way:>20} {blank:>8,} {blank / cells['wholly']:>10.3f}")


if __name__ == "__main__":
    list(compare(ROWS))
    main()
