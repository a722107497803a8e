"""The propensity U of a noised copy, against a GLM of statsmodels on the same design.

The baseline gets the finished design and fits it once; ours reads the frames, puts them together
and fits. The last two columns are with the null distribution by 50 permutations.
"""

from __future__ import annotations

from benchmarks.cost import cost

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


def main() -> None:
    """Print the ratios, and how they grow."""
    print(
        f"{'records':>10} {'GLM CPU s':>10} {'MB':>6} {'ours':>7} {'MB':>6} {'ratio':>6} "
        f"{'with null':>10} {'ratio':>6}"
    )
    for records in SIZES:
        theirs = cost(GLM, setup=THEIRS.format(records=records), repeats=2)
        setup = OURS.format(records=records)
        alone = cost(MEASURE.format(permutations=0), setup=setup, repeats=2)
        null = cost(MEASURE.format(permutations=50), setup=setup)
        print(
            f"{records:>10,} {theirs.cpu:>10.2f} {theirs.peak:>6.0f} {alone.cpu:>7.2f} "
            f"{alone.peak:>6.0f} {alone.cpu / theirs.cpu:>6.2f} {null.cpu:>10.2f} "
            f"{null.cpu / theirs.cpu:>6.2f}"
        )


if __name__ == "__main__":
    main()
