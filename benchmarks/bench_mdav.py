"""MDAV with a tree of boxes: its cost, and its within-cluster variance beside all-with-all.

sdcMicro 5.8.1, which compares all with all, took 78 s for 100 000 records of 4 variables.
The clusters must be the same as those of the published heuristic, so that SSE / SST is as well.
Real data are used where SFUMATO_DATA points to them.
"""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.cost import cost
from sfumato.kernels.arrays import Floats, Integers
from sfumato.kernels.clustering.mdav import mdav

SETUP = """
import numpy as np
from sfumato.kernels.clustering.mdav import mdav
random = np.random.default_rng(0)
normal = random.normal(size=({records}, {variables}))
values = {shape}
mdav(values[:100], 3)
"""
SHAPES = {
    "normal": "normal",
    "lognormal": "np.exp(1.5 * normal)",
    "18 levels": "random.integers(0, 18, normal.shape) * 1.0",
    "on a sphere": "normal / np.sqrt((normal**2).sum(axis=1))[:, None]",
}
COSTS = (
    ("normal", 100_000, 4, 3), ("normal", 100_000, 4, 10), ("lognormal", 100_000, 4, 3),
    ("18 levels", 100_000, 4, 3), ("on a sphere", 100_000, 4, 3), ("normal", 100_000, 10, 3),
    ("normal", 1_000_000, 4, 10),
)  # fmt: skip
_MOST = 5000
"""Records that are compared all with all in reasonable time."""
REAL = {
    "titanic": ["Age", "SibSp", "Parch", "Fare"],
    "diabetes": ["lab_procedures", "medications"],
}


def main() -> None:
    """Print costs, then variances."""
    print(f"{'data':>12} {'records':>10} {'variables':>9} {'k':>4} {'CPU s':>7} {'peak MB':>8}")
    for name, records, variables, k in COSTS:
        setup = SETUP.format(records=records, variables=variables, shape=SHAPES[name])
        found = cost(f"mdav(values, {k})", setup=setup)
        print(
            f"{name:>12} {records:>10,} {variables:>9} {k:>4} {found.cpu:>7.2f} {found.peak:>8.0f}"
        )
    print("SSE / SST in percent and CPU seconds, ours and all with all")
    print(f"{'data':>14} {'records':>8} {'k':>4} {'SSE/SST':>8} {'all':>8} {'CPU s':>6} {'all':>6}")
    for name, values in _tables().items():
        mdav(values[:100], 3)  # compiled
        for k in (3, 5, 10):
            print(_compared(name, values, k))


def _compared(name: str, values: Floats, k: int) -> str:
    start = time.process_time()
    ours = mdav(values, k)
    middle = time.process_time()
    line = f"{name:>14} {len(values):>8,} {k:>4} {_within(values, *ours):>8.4f}"
    if len(values) > _MOST:
        return f"{line} {'-':>8} {middle - start:>6.3f} {'-':>6}"
    slow = quadratic(values, k)
    end = time.process_time()
    same = _within(values, *slow)
    return f"{line} {same:>8.4f} {middle - start:>6.3f} {end - middle:>6.3f}"


def _tables() -> dict[str, Floats]:
    random = np.random.default_rng(1)
    tables = {
        "normal": random.normal(size=(1000, 4)),
        "uniform": random.random((5000, 3)),
        "lognormal": np.exp(random.normal(size=(5000, 4))),
    }
    folder = os.environ.get("SFUMATO_DATA")
    for name, columns in REAL.items():
        if folder:
            frame = pl.read_csv(Path(folder) / f"{name}.csv", columns=columns, null_values=["NA"])
            table = frame.drop_nulls().cast(pl.Float64).to_numpy()
            tables[name] = table
            if len(table) > _MOST:
                tables[f"{name}, some"] = table[:: len(table) // _MOST + 1]
    return {
        name: (table - table.mean(axis=0)) / table.std(axis=0) for name, table in tables.items()
    }


def _within(values: Floats, order: Integers, starts: Integers) -> float:
    """SSE / SST in percent."""
    sums = np.add.reduceat(values[order], starts[:-1], axis=0)
    means = np.repeat(sums / np.diff(starts)[:, None], np.diff(starts), axis=0)
    return float(
        100 * ((values[order] - means) ** 2).sum() / ((values - values.mean(0)) ** 2).sum()
    )


def quadratic(values: Floats, k: int) -> tuple[Integers, Integers]:
    """The published heuristic: distances of all records that are left, again for every cluster."""
    left = np.lexsort(values.T[::-1])
    order: list[Integers] = []

    def far(point: Floats) -> Floats:
        gaps = values[left] - point
        return np.asarray(sum(gap * gap for gap in gaps.T))

    def cluster(at: np.intp) -> Floats:
        nonlocal left
        point = values[left[at]]
        gaps = far(point)
        gaps[at] = -1.0
        near = np.argsort(gaps, kind="stable")[:k]
        order.append(left[near])
        left = np.delete(left, near)
        return np.asarray(point)

    while len(left) >= 2 * k:
        two = len(left) >= 3 * k
        centre = np.array([math.fsum(column) / len(left) for column in values[left].T])
        point = cluster(np.argmax(far(centre)))
        if two:
            cluster(np.argmax(far(point)))
    starts = np.append(np.arange(len(order) + 1) * k, len(values))
    return np.concatenate([*order, left]), starts


if __name__ == "__main__":
    main()
