"""Class sizes under both readings of missing values, against one pandas groupby.

The baseline counts classes under one reading and nothing else.
"""

from __future__ import annotations

from benchmarks.cost import cost

SIZES = (100_000, 300_000, 1_000_000)
KNOWN = ["sex", "region", "ethnicity", "education", "marital_status", "children", "household_size"]

SETUP = """
import pandas as pd
import sfumato as sf
frame = sf.datasets.cohort({records})
schema = sf.datasets.cohort_schema()
known = {known!r}
table = frame.to_pandas()
data = sf.Dataset(frame, schema)
sf.risk.Uniqueness(known=known).measure(data.take(__import__("numpy").arange(100)))
"""
PANDAS = "table.groupby(known, dropna=False, observed=True).size()"
OURS = "sf.risk.Uniqueness(known=known).measure(data)"


def main() -> None:
    """Print the ratios, and how they grow."""
    print(f"{'records':>10} {'pandas CPU s':>13} {'ours':>7} {'ratio':>6} {'peak MB':>8}")
    for records in SIZES:
        setup = SETUP.format(records=records, known=KNOWN)
        theirs = cost(PANDAS, setup=setup, repeats=2)
        ours = cost(OURS, setup=setup, repeats=2)
        print(
            f"{records:>10,} {theirs.cpu:>13.2f} {ours.cpu:>7.2f} {ours.cpu / theirs.cpu:>6.2f} "
            f"{ours.peak:>8.0f}"
        )


if __name__ == "__main__":
    main()
