"""Information loss of ranges, sets and wildcards, against numpy on expanded ranges.

The baseline cuts every cell of every record into two floats (polars), then takes Eq. 3 and 4 with
numpy; it knows ranges and `*` of numbers, and nothing of granularity, classes or entropy.
"""

from __future__ import annotations

from benchmarks.rows import Row, compare

SIZES = (100_000, 300_000, 1_000_000)

SETUP = """
import numpy as np, polars as pl
import sfumato as sf
random = np.random.default_rng(1)
names = [f"v{{at}}" for at in range(9)]
widths = [400, 86, 3, 4, 7, 2000, 60, 300, 5]  # as many values as the discharge file has
original, released, schema = {{}}, {{}}, {{}}
for name, width in zip(names, widths):
    values = random.integers(0, width, {records})
    step = max(width // 32, 2)
    lows = range(0, width, step)
    cells = pl.Series([f"[{{low}};{{min(low + step, width) - 1}}]" for low in lows])
    original[name] = values
    stars = random.random({records}) < 0.02
    released[name] = cells.gather(values // step).set(pl.Series(stars), "*")
    schema[name] = sf.Column(
        role="quasi", kind="integer", domain=(0, width - 1), cells="generalised"
    )
original = sf.Dataset(pl.DataFrame(original), sf.Schema(schema))
released = sf.Dataset(pl.DataFrame(released), sf.Schema(schema))

def expanded():
    total = np.zeros({records})
    for name, width in zip(names, widths):
        ends = released.frame[name].replace("*", f"[0;{{width - 1}}]")
        parts = ends.str.strip_chars("[]").str.split_exact(";", 1).struct.unnest()
        low, high = (parts.to_series(at).cast(pl.Float64).to_numpy() for at in (0, 1))
        value = original.frame[name].to_numpy()
        total += (np.maximum(high - value, value - low) / value.std()) ** 2
    return float(np.sqrt(total).mean()) / 9

measure = sf.utility.InformationLoss()
measure.measure(original.take(np.arange(100)), released.take(np.arange(100)))
if {records} <= 100_000:  # both answer the same question
    assert abs(measure.measure(original, released).value - expanded()) < 1e-9
"""
THEIRS = "loss = expanded()"
OURS = "loss = measure.measure(original, released).value"
ROWS = [
    Row(
        f"information loss, 9 variables, {records:,} records",
        OURS,
        THEIRS,
        "numpy on expanded ranges",
        SETUP.format(records=records),
        repeats=2,
        quick=records == SIZES[0],
    )
    for records in SIZES
]


if __name__ == "__main__":
    list(compare(ROWS))
