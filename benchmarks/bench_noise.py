"""Keyed noise against numpy's PCG64, which gives its state away from a few draws.

Numpy draws one normal number a record. A keyed path takes 17, from nine blocks of AES, so that
noise of two sizes cannot be averaged: "normal" has one variance for all records, "laplace" one for
each. From record identities to noise. "method" is all of `Noise`: the variance of the original, the
noise, and the new frame.
"""

from __future__ import annotations

from benchmarks.rows import Row, compare

BOUND, BOUND_FROM = 20.0, 1_000_000

SETUP = """
import numpy as np
import polars as pl
import sfumato as sf
from sfumato.data.identity import Identity
from sfumato.kernels.sampling.deviates import exponential
from sfumato.randomness import Draws, Key
records = {records}
generator = np.random.Generator(np.random.PCG64(7))
digests = generator.integers(0, 2**63, (records, 2), dtype=np.uint64)
values = generator.standard_normal(records)
key = Key(bytes(range(32)))
batch = 1 << 17  # as the engine does it
def numpy():
    for at in range(0, records, batch):
        generator.standard_normal(min(batch, records - at))
def draw(shape):
    for at in range(0, records, batch):
        some = slice(at, at + batch)
        draws = Draws(key, 0, Identity.from_digests("records", digests[some]))
        variance = 2.0
        if shape == "laplace":
            variance = 2.0 * exponential(draws.lasting("x", "time", values[some]))
        draws.path("x", "noise", values[some], variance)
schema = sf.Schema({{"x": "quasi"}})
identity = Identity.from_digests("records", digests)
data = sf.Dataset(pl.DataFrame({{"x": values}}), schema, None, identity)
step = sf.methods.Noise(variables=["x"], variance_share=0.1)
step.apply(data.take(np.arange(100_000)), key=key)
"""
REPEAT = {100_000: 10, 1_000_000: 3, 10_000_000: 1}
WORKS = (
    ("keyed normal noise", "draw('normal')", BOUND),
    ("keyed Laplace noise", "draw('laplace')", None),
    ("all of the method Noise", "step.apply(data, key=key)", None),
)
ROWS = [
    Row(
        f"{name}, {records:,} records",
        f"for _ in range({times}): {work}",
        f"for _ in range({times}): numpy()",
        "numpy's PCG64",
        SETUP.format(records=records),
        goal=goal if records >= BOUND_FROM else None,
        repeats=2,
        quick=records == BOUND_FROM,
    )
    for records, times in REPEAT.items()
    for name, work, goal in WORKS
]


if __name__ == "__main__":
    list(compare(ROWS))
