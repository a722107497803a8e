"""k, l and t of 1 million records by 8 known variables, against pandas.

Two baselines in the same run: one `groupby(...).ngroup()`, which finds the classes and nothing
else; and, on fewer records, l and t written in plain pandas the way the common Python packages
do: a loop over the classes.
"""

from __future__ import annotations

from benchmarks.rows import Row, compare

SIZES = (100_000, 300_000, 1_000_000)
FEW = 5_000
LEVELS = (2, 9, 12, 7, 5, 8, 9, 12)
"""Of the known variables, the first five of them text; rare levels are rare."""

SETUP = """
import numpy as np
import pandas as pd
import sfumato as sf
import polars as pl
rng = np.random.default_rng(1)
frame = pl.DataFrame({{
    f"known {{at}}": (rng.random({records}) ** 2 * levels).astype(int)
    for at, levels in enumerate({levels})
}})
known, confidential = frame.columns, "systolic"
frame = frame.with_columns(("level " + pl.nth(range(5)).cast(str)).name.keep())
frame = frame.with_columns(pl.Series(confidential, rng.normal(130, 15, {records}).astype(int)))
schema = sf.Schema({{**dict.fromkeys(known, "quasi"), confidential: "sensitive"}})
table = frame.to_pandas()
data = sf.Dataset(frame, schema)

def in_pandas():
    order = np.sort(table[confidential].unique())
    whole = table[confidential].value_counts(normalize=True).reindex(order, fill_value=0)
    l, t = len(order), 0.0
    for _, part in table.groupby(known, dropna=False, observed=True):
        here = part[confidential].value_counts(normalize=True).reindex(order, fill_value=0)
        l = min(l, part[confidential].nunique())
        t = max(t, (here - whole).cumsum().abs().sum() / (len(order) - 1))
    return l, t

def ours():
    far, many = sf.risk.Closeness().measure(data), sf.risk.Diversity().measure(data)
    return many.details["smallest_class"], many.value, far.value

for one in (sf.risk.Closeness(), sf.risk.Diversity()):
    one.measure(data.take(np.arange(1000)))
open("/proc/self/clear_refs", "w").write("5")  # the peak so far was that of making the data
"""
CLASSES = "table.groupby(known, dropna=False, observed=True).ngroup()"
SAME = "k, l, t = ours(); assert np.allclose((l, t), in_pandas())"
OURS = "ours()"


ROWS = [
    *(
        Row(
            f"k, l and t, 8 variables, {records:,} records",
            OURS,
            CLASSES,
            "one pandas ngroup()",
            SETUP.format(records=records, levels=LEVELS),
            repeats=2,
            quick=records == SIZES[0],
        )
        for records in SIZES
    ),
    Row(
        f"l and t, 8 variables, {FEW:,} records",
        SAME.partition(";")[0],
        "in_pandas()",
        "a loop over the classes in pandas",
        SETUP.format(records=FEW, levels=LEVELS) + SAME,
    ),
]


if __name__ == "__main__":
    list(compare(ROWS))
