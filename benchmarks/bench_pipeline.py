"""Load + protect (drop, pseudonymise, coarsen) + write, against polars reading and writing.

Goal for 4 million x 10: at most 2.5 times the CPU of polars, peak memory at most 3 times the frame.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.cost import cost

DATA = Path(__file__).parent / "data"
SIZES = (500_000, 1_000_000, 2_000_000, 4_000_000)

POLARS = """
frame = pl.read_csv({path!r})
frame.write_csv({path!r} + ".out")
"""
FRAME = """
frame = pl.read_csv({path!r})
"""
SFUMATO = """
data = sf.read({path!r})
release = sf.protect(data, plan, key=bytes(32))
release.write({path!r} + ".release", overwrite=True, ledger=False)
"""
PLAN = """
import sfumato as sf
from sfumato.storage.writing import write_release
from sfumato.kernels.digests import blake2b
import numpy as np
blake2b(np.array([0, 1]), np.zeros(1, np.uint8), key=bytes(32))  # compiled code is loaded once
plan = sf.Plan(
    schema={
        "id": "direct", "name": "direct", "postcode": "quasi", "sex": "quasi", "region": "quasi",
        "age": sf.Column(role="quasi", kind="integer", domain=(0, 99)),
        "income": sf.Column(role="sensitive", kind="continuous"),
        "height": sf.Column(role="quasi", kind="continuous", domain=(50, 260)),
        "glucose": "sensitive", "visits": "other",
    },
    steps=[
        sf.methods.Drop(variables=["name"]),
        sf.methods.Pseudonymise(variables=["id"]),
        sf.methods.Coarsen(variables=["age", "height"], intervals=8),
    ],
)
"""


def make(records: int) -> Path:
    """A file of so many persons, made once."""
    DATA.mkdir(exist_ok=True)
    path = DATA / f"pipeline_{records}.csv"
    if not path.exists():
        random = np.random.default_rng(1)
        number = random.permutation(records)
        pl.DataFrame(
            {
                "id": pl.Series(number)
                .cast(pl.String)
                .str.zfill(8)
                .map_elements(lambda text: f"P{text}", return_dtype=pl.String),
                "name": pl.Series(random.integers(0, 10**7, records))
                .cast(pl.String)
                .str.pad_start(14, "N"),
                "age": random.integers(0, 95, records),
                "postcode": pl.Series(random.integers(1000, 99999, records))
                .cast(pl.String)
                .str.zfill(5),
                "sex": np.array(["F", "M"])[random.integers(0, 2, records)],
                "region": np.array(["north", "south", "east", "west"])[
                    random.integers(0, 4, records)
                ],
                "income": np.round(random.lognormal(10, 0.5, records), 2),
                "height": np.round(random.normal(170, 10, records), 1),
                "glucose": np.round(random.normal(5, 1, records), 2),
                "visits": random.integers(0, 30, records),
            }
        ).write_csv(path)
    return path


def main() -> None:
    """Print the ratios, and how they grow."""
    print(f"{'records':>10} {'polars CPU s':>13} {'ours':>7} {'ratio':>6} {'frame MB':>9} {'peak':>7} {'ratio':>6}")  # fmt: skip  # noqa: E501
    for records in SIZES:
        path = str(make(records))
        theirs = cost(POLARS.format(path=path), setup="import polars as pl", repeats=2)
        frame = cost(FRAME.format(path=path), setup="import polars as pl")
        ours = cost(SFUMATO.format(path=path), setup=PLAN, repeats=2)
        print(
            f"{records:>10,} {theirs.cpu:>13.2f} {ours.cpu:>7.2f} {ours.cpu / theirs.cpu:>6.2f} "
            f"{frame.peak:>9.0f} {ours.peak:>7.0f} {ours.peak / frame.peak:>6.2f}"
        )


if __name__ == "__main__":
    main()
