"""Discharges masked as a safe harbour asks: unique records lose one variable after another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.kernels.arrays import Integers


@dataclass(frozen=True)
class Cells:
    """The cells of one masked variable: which each record has, and both ends of each."""

    of: npt.NDArray[np.int32]
    low: npt.NDArray[np.int32]
    high: npt.NDArray[np.int32]


_MASKS = (
    ("age_yrs", 20), ("ethncty", 1), ("race", 1), ("sex", 1), ("age_yrs", 5), ("age_yrs", 1),
    ("adm_qtr", 1), ("patzip", 0), ("patcnty", 1), ("patzip", 1),
)  # fmt: skip
"""Table S3: the variables in the order of masking; how many ranges remain (0: three digits)."""


_DOMAINS = {
    "age_yrs": (0, 85), "ethncty": (1, 3), "race": (1, 6), "sex": (1, 3), "adm_qtr": (1, 4),
    "patzip": (90001, 96162), "patcnty": (1, 58),
}  # fmt: skip


def _coarser(name: str, values: Integers, groups: int) -> tuple[Integers, Integers]:
    """Both ends of the range that each value falls into."""
    least, most = _DOMAINS[name]
    if not groups:
        return (start := values // 100 * 100).clip(least, None), (start + 99).clip(None, most)
    starts = least + np.arange(groups + 1) * (most - least + 1) // groups
    at = np.searchsorted(starts, values, side="right") - 1
    return starts[at], starts[at + 1] - 1


def mask(frame: pl.DataFrame) -> dict[str, Cells]:
    """Mask records that are unique in the variables of Table S3, step by step until none is.

    A record is unique while no other is released with the same cells.
    """
    cells: dict[str, Cells] = {}
    for name in frame.columns:
        if name == "charge":  # what the masking protects
            continue
        seen, of = np.unique(frame[name].to_numpy(), return_inverse=True)
        cells[name] = Cells(of.ravel().astype(np.int32), seen, seen)
    plain = {name: one.of.copy() for name, one in cells.items() if name in _DOMAINS}
    alone = _alone(cells, np.arange(frame.height))
    for name, groups in _MASKS:
        old = cells[name]
        values = old.low[: plain[name].max(initial=-1) + 1].astype(np.int64)
        ends = np.column_stack(_coarser(name, values, groups))
        added, group = np.unique(ends.astype(np.int32), axis=0, return_inverse=True)
        old.of[alone] = len(old.low) + group.ravel()[plain[name][alone]]
        cells[name] = Cells(old.of, *np.append(np.array([old.low, old.high]), added.T, axis=1))
        alone = _alone(cells, alone)
    return cells


def _alone(cells: dict[str, Cells], rows: Integers) -> Integers:
    """Those of the rows that share their cells with no other of them."""
    key = np.zeros(len(rows), np.int64)
    for name in _DOMAINS:
        key = key * len(cells[name].low) + cells[name].of[rows]
    _, first, counts = np.unique(key, return_index=True, return_counts=True)
    return np.sort(rows[first[counts == 1]])


def masked(frame: pl.DataFrame) -> pl.DataFrame:
    """The file as it would be released: values, ranges `[20;24]`, `937**` and wildcards `*`."""
    out = [frame[name] for name in frame.columns if name == "charge"]
    for name, cells in mask(frame).items():
        labels = [_label(name, *ends) for ends in zip(cells.low, cells.high, strict=True)]
        out.append(pl.Series(name, labels, pl.String).gather(cells.of))
    return pl.DataFrame(out).select(frame.columns)


def _label(name: str, low: int, high: int) -> str:
    if (low, high) == _DOMAINS.get(name):
        return "*"
    if low == high:
        return str(low)
    return f"{low // 100}**" if name == "patzip" else f"[{low};{high}]"
