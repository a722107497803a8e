"""Class sizes under both readings of missing values, against one pandas groupby.

The baseline counts classes under one reading and nothing else. First with seven variables of few
values, then with eleven that single out everybody: so many classes take the most memory.
"""

from __future__ import annotations

from benchmarks.rows import Row, compare

SIZES = (100_000, 300_000, 1_000_000)
KNOWN = ["sex", "region", "ethnicity", "education", "marital_status", "children", "household_size"]
EVERYTHING = [*KNOWN, "postcode", "birth_date", "height", "weight_kg"]

SETUP = """
import pandas as pd
import sfumato as sf
frame = sf.datasets.cohort({records})
schema = sf.datasets.cohort_schema()
known = {known!r}
table = frame.to_pandas()
data = sf.Dataset(frame, schema)
sf.risk.Uniqueness(known=known).measure(data.take(__import__("numpy").arange(40_000)))
# What making the data took does not count.
open("/proc/self/clear_refs", "w").write("5")
"""
PANDAS = "table.groupby(known, dropna=False, observed=True).size()"
OURS = "sf.risk.Uniqueness(known=known).measure(data)"


ROWS = [
    Row(
        f"uniqueness, {len(known)} variables, {records:,} records",
        OURS,
        PANDAS,
        "one pandas groupby",
        SETUP.format(records=records, known=known),
        goal=2,
        repeats=2,
        quick=records == SIZES[0],
    )
    for known in (KNOWN, EVERYTHING)
    for records in SIZES
]


if __name__ == "__main__":
    list(compare(ROWS))
