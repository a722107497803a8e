"""Class sizes under both readings of missing values, against one pandas groupby.

The baseline counts classes under one reading and nothing else. First with seven variables of few
values, then with eleven that single out everybody: so many classes take the most memory.
"""

from __future__ import annotations

from benchmarks.cost import cost

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


def main() -> None:
    """Print the ratios, and how they grow."""
    print(f"{'':>21} {'CPU s':^21} {'peak MB':^21}")
    header = "".join(f"{'pandas':>8} {'ours':>6} {'ratio':>6}" for _ in range(2))
    print(f"{'variables':>10} {'records':>10}{header}")
    for known in (KNOWN, EVERYTHING):
        for records in SIZES:
            setup = SETUP.format(records=records, known=known)
            theirs = cost(PANDAS, setup=setup, repeats=2)
            ours = cost(OURS, setup=setup, repeats=2)
            print(
                f"{len(known):>10} {records:>10,}"
                f"{theirs.cpu:>8.2f} {ours.cpu:>6.2f} {ours.cpu / theirs.cpu:>6.2f}"
                f"{theirs.peak:>8.0f} {ours.peak:>6.0f} {ours.peak / theirs.peak:>6.2f}"
            )


if __name__ == "__main__":
    main()
