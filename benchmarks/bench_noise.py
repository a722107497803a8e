"""Keyed noise against numpy's PCG64, which gives its state away from a few draws.

Numpy draws one normal number a record. A keyed path takes 17, from nine blocks of AES, so that
noise of two sizes cannot be averaged: "normal" has one variance for all records, "laplace" one for
each. From record identities to noise. "method" is all of `Noise`: the variance of the original, the
noise, and the new frame.
"""

from __future__ import annotations

from benchmarks.cost import Cost, cost

SIZES = (100_000, 1_000_000, 10_000_000)
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
WORK = {
    "numpy": "numpy()",
    "normal": "draw('normal')",
    "laplace": "draw('laplace')",
    "method": "step.apply(data, key=key)",
}


def main() -> None:
    """Print the ratios, and how they grow; fail above the bound."""
    heads = ["records", "numpy ns", "normal ns", "ratio", "laplace", "method ns", "peak MB"]
    print(" ".join(f"{head:>10}" for head in heads))
    worst = 0.0
    for records in SIZES:
        setup, times = SETUP.format(records=records), REPEAT[records]
        found: dict[str, Cost] = {
            name: cost(f"for _ in range({times}): {work}", setup=setup, repeats=2)
            for name, work in WORK.items()
        }
        each = {name: one.cpu / times / records * 1e9 for name, one in found.items()}
        ratio, other = (each[name] / each["numpy"] for name in ("normal", "laplace"))
        if records >= BOUND_FROM:
            worst = max(worst, ratio)
        print(
            f"{records:>10,} {each['numpy']:>10.1f} {each['normal']:>10.1f} {ratio:>10.2f} "
            f"{other:>10.2f} {each['method']:>10.1f} {found['method'].peak:>10.0f}"
        )
    print(f"at most {BOUND:g} times numpy from a million on: {'yes' if worst <= BOUND else 'NO'}")


if __name__ == "__main__":
    main()
