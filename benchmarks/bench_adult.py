"""Mondrian on Adult, k = 5, against a common pure-Python Mondrian on a pandas frame.

Adult is read from SFUMATO_DATA. The million records are drawn from it, the ages with some noise.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.cost import cost
from benchmarks.rows import Row, compare

K = 5
SETUP = """
import numpy as np
import pandas as pd
from benchmarks.bench_adult import K, NUMERIC, adult, recursion
from sfumato.kernels.clustering.mondrian import mondrian
frame = adult()
if {records}:
    random = np.random.default_rng(0)
    frame = frame.iloc[random.integers(0, len(frame), {records})].reset_index(drop=True)
    frame["age"] = (frame["age"] + random.normal(0, 3, {records})).round().clip(17, 90)
codes = np.column_stack(
    [np.unique(frame[name].astype(str), return_inverse=True)[1].ravel() if frame[name].dtype.name
     == "category" else (frame[name] - frame[name].min()).astype(int) for name in frame]
).astype(np.int32)
ordered = [name in NUMERIC for name in frame]
mondrian(codes[:300], K, ordered=ordered)
"""
NUMERIC = ("age",)
OURS = "mondrian(codes, K, ordered=ordered)"


def adult() -> pd.DataFrame:
    """The eight quasi-identifiers; what is missing is a level of its own."""
    frame = pd.read_csv(Path(os.environ["SFUMATO_DATA"]) / "adult.csv").drop(columns="salary")
    for name in frame:
        if name not in NUMERIC:
            frame[name] = frame[name].fillna("missing").astype("category")
    return frame


def _spans(frame: pd.DataFrame, rows: Any) -> dict[str, float]:
    part = frame.loc[rows]
    return {
        str(name): float(column.max() - column.min() if name in NUMERIC else len(column.unique()))
        for name, column in part.items()
    }


def _halves(frame: pd.DataFrame, rows: Any, name: str) -> tuple[Any, Any]:
    column = frame[name].loc[rows]
    if name in NUMERIC:
        low = column < column.median()
    else:
        levels = column.unique()
        low = column.isin(set(levels[: len(levels) // 2]))
    return column.index[low], column.index[~low]


def recursion(frame: pd.DataFrame, k: int) -> list[Any]:
    """Mondrian as it is commonly written: frames of row labels, halved while both keep k."""
    whole = _spans(frame, frame.index)
    waiting, done = [frame.index], []
    while waiting:
        rows = waiting.pop()
        spans = {name: span / whole[name] for name, span in _spans(frame, rows).items()}
        for name in sorted(spans, key=lambda name: -spans[name]):
            halves = _halves(frame, rows, name)
            if min(len(half) for half in halves) >= k:
                waiting.extend(halves)
                break
        else:
            done.append(rows)
    return done


ROWS = [
    Row("Mondrian on Adult, k = 5", OURS, "recursion(frame, K)", "Mondrian in pure Python",
        SETUP.format(records=0), goal=0.02, repeats=2)
] if "SFUMATO_DATA" in os.environ else []  # fmt: skip


def main() -> None:
    """A million records."""
    if ROWS:
        many = cost(OURS, setup=SETUP.format(records=1_000_000))
        print(f"1,000,000 records: {many.cpu:.2f} CPU s (at most 10)")


if __name__ == "__main__":
    list(compare(ROWS))
    main()
