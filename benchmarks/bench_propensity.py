"""The propensity U of a noised copy, against a GLM of statsmodels on the same design.

The baseline gets the finished design and fits it once; ours reads the frames, puts them together
and fits. The last two columns are with the null distribution by 50 permutations.
"""

from __future__ import annotations

from benchmarks.rows import Row, compare

SIZES = (10_000, 100_000, 1_000_000)

SETUP = """
import numpy as np
import polars as pl
import sfumato as sf
import statsmodels.api as sm
draw = np.random.default_rng(0)
numbers = draw.normal(size=({records}, 6))
noise = draw.normal(size=numbers.shape) * 0.1
groups = draw.integers(0, 4, size=({records}, 2))
def framed(values):
    columns = {{f"x{{at}}": values[:, at] for at in range(6)}}
    columns |= {{f"group{{at}}": groups[:, at] for at in range(2)}}
    return sf.Dataset(pl.DataFrame(columns))
"""
OURS = (
    SETUP
    + """
original, released = framed(numbers), framed(numbers + noise)
categories = ["group0", "group1"]
small = np.arange(100)
sf.utility.Propensity(categories=categories).measure(original.take(small), released.take(small))
"""
)
MEASURE = (
    "sf.utility.Propensity(categories=categories, permutations={permutations})"
    ".measure(original, released)"
)
THEIRS = (
    SETUP
    + """
dummies = [groups[:, [at]] == np.arange(1, 4) for at in range(2)]
sides = numbers, numbers + noise
both = [np.column_stack([np.ones({records}), side, *dummies]) for side in sides]
design = np.concatenate(both)
label = np.repeat([0.0, 1.0], {records})
del numbers, noise, groups, dummies, sides, both
sm.GLM(label[:10], design[:10, :2], family=sm.families.Binomial())
"""
)
GLM = """
fitted = sm.GLM(label, design, family=sm.families.Binomial()).fit()
u = float(np.mean((fitted.mu - 0.5) ** 2))
"""


ROWS = [
    Row(
        f"propensity, {words}, {records:,} records",
        MEASURE.format(permutations=permutations),
        GLM,
        "one GLM of statsmodels",
        OURS.format(records=records),
        their_setup=THEIRS.format(records=records),
        repeats=2,
        quick=records == SIZES[0],
    )
    for records in SIZES
    for words, permutations in (("no null distribution", 0), ("50 permutations", 50))
]


if __name__ == "__main__":
    list(compare(ROWS))
