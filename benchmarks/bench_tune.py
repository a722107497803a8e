"""A search against `sf.sweep` over the very same candidates, one by one.

Both carry out and measure the same plans of k-anonymity. The search measures the original once for
all of them; besides, it measures the data without protection, and its recommendation once more.
"""

from __future__ import annotations

from benchmarks.rows import Row, compare

SIZES = (500, 4_000)
SETUP = """
import numpy as np
import sfumato as sf
from sfumato.tuning.search import tune
names = ["birth_date", "sex", "region", "household_size", "height", "diagnosis", "systolic"]
told = sf.datasets.cohort_schema()
data = sf.Dataset(sf.datasets.cohort({records}).select(names),
                  sf.Schema({{name: told[name] for name in names}}))
ks = [2, 3, 4, 5, 6, 8, 10, 15, 20, 40]
plan = sf.Plan(schema=data.schema, steps=[sf.methods.KAnonymity(k=2)],
               targets={{"k.min": 5, "attribute_disclosure.max": 0.1}},
               evaluate=[sf.utility.InformationLoss(), sf.utility.Propensity()])
small = data.take(np.arange(200))
sf.sweep(small, plan, k=[2, 3])
tune(small, plan, space={{"k": [2, 3]}})
"""
SWEEP = "sf.sweep(data, plan, k=ks)"
TUNE = 'tune(data, plan, space={"k": ks}, workers=1)'
TWO = 'tune(data, plan, space={"k": ks}, workers=2)'


ROWS = [
    Row(
        f"search, {workers}, {records:,} records",
        work,
        SWEEP,
        "sf.sweep over the same candidates",
        SETUP.format(records=records),
        repeats=2,
        quick=records == SIZES[0],
    )
    for records in SIZES
    for workers, work in (("one worker", TUNE), ("two workers", TWO))
]


if __name__ == "__main__":
    list(compare(ROWS))
