"""What one variable lost between the original and the release.

A cell is what it may stand for. The loss is how far the released cell reaches beyond the original
one: for a single value and a range that is the end farther from the value (Eq. 4), and what the
original leaves open already is no loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from sfumato.cells.ends import Ends, same_cells
from sfumato.cells.held import Held
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Codes, Floats, Integers, Mask
from sfumato.kernels.canonical import mean_of, total_of

Cells = Any
"""Numbers of cells, or all of them in turn."""
_PAIRS = 1 << 22
"""Pairs of an original and a released cell that are looked up, not sorted."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs of an original and a released cell that occur.

    Parameters
    ----------
    of : which pair each record has; None where every record counts as a pair of its own.
    first, second : the original and the released cell of each pair.
    times : how many records have it.
    """

    of: Codes | None = field(repr=False)
    first: Cells = field(repr=False)
    second: Cells = field(repr=False)
    times: Integers = field(repr=False)


@dataclass(frozen=True, eq=False)
class Lost:
    """The loss of one variable.

    Parameters
    ----------
    of : which of the distances each record has; None where every record has its own.
    moved : how far a cell moved, in standard deviations of the original.
    mean_moved : its mean over the records.
    granularity : over all cells, the share of the domain that each leaves open, in sum.
    generalised : how many cells were changed or generalised: no longer just what they were.
    bits : over all cells, the bits (non-uniform entropy) lost.
    most_bits : the same if every cell were suppressed.
    """

    of: Codes | None = field(repr=False)
    moved: Floats = field(repr=False)
    mean_moved: float
    granularity: float
    generalised: int
    bits: float
    most_bits: float

    def squares(self) -> Floats:
        """The squared distance of each record."""
        squares = self.moved * self.moved
        return squares if self.of is None else squares[self.of]


def lost_numbers(name: str, was: Ends, now: Ends, domain: tuple[float, float]) -> Lost:
    """The loss of numbers, dates or ranks."""
    pairs = _pairs(was.of, now.of, (len(was.low), len(now.low)))
    first, second = pairs.first, pairs.second
    low, high = (
        np.where(now.open, end, ends) for end, ends in zip(domain, (now.low, now.high), strict=True)
    )
    moved = np.maximum(was.low[first] - low[second], high[second] - was.high[first])
    moved = _standardised(name, np.maximum(moved, 0.0), _spread(was))
    width = domain[1] - domain[0]
    before, after = _widths(was, width)[first], _widths(now, width)[second]
    share = (after - before) / width if width > 0 else (after > before).astype(float)
    changed = ~same_cells(was, now, first, second) & ~was.open[first]
    return _lost(pairs, moved, np.clip(share, 0.0, 1.0), changed, _bits(was, now, pairs))


def _lost(
    pairs: Pairs, moved: Floats, share: Floats, changed: Mask, bits: tuple[float, float]
) -> Lost:
    return Lost(
        of=pairs.of,
        moved=moved,
        mean_moved=total_of(moved * pairs.times) / int(pairs.times.sum()),
        granularity=total_of(share * pairs.times),
        generalised=int(pairs.times[changed].sum()),
        bits=bits[0],
        most_bits=bits[1],
    )


def _pairs(was: Codes | None, now: Codes | None, cells: tuple[int, int]) -> Pairs:
    """The pairs of cells, counted where there are few."""
    if was is None or now is None or cells[0] * cells[1] > max(_PAIRS, len(was)):
        first, second = (slice(None) if of is None else of for of in (was, now))
        records = next(len(of) for of in (was, now, range(cells[0])) if of is not None)
        return Pairs(None, first, second, np.ones(records, np.int64))
    keys = was * np.int32(cells[1]) + now
    counts = np.bincount(keys, minlength=cells[0] * cells[1])
    used = np.flatnonzero(counts)
    number = np.zeros(len(counts), np.int32)
    number[used] = np.arange(len(used))
    return Pairs(number[keys], used // cells[1], used % cells[1], counts[used])


def _spread(was: Ends) -> float:
    """The standard deviation over all records of the data set (with n), ranges at their middle."""
    middles = was.middles_of_cells()
    known = ~np.isnan(middles)
    times = np.ones(len(known)) if was.of is None else np.bincount(was.of, minlength=len(known))
    known &= times > 0
    held, times = middles[known], times[known]
    if not len(held) or held.min() == held.max():
        return 0.0
    records = int(times.sum())
    apart = held - mean_of(held * times) * (len(held) / records)
    # Over a power of two, so that no square is beyond all floats.
    power = math.frexp(float(np.abs(apart).max()))[1]
    return math.ldexp(math.sqrt(total_of(np.ldexp(apart, -power) ** 2 * times) / records), power)


def _standardised(name: str, moved: Floats, spread: float) -> Floats:
    if spread > 0:
        with np.errstate(over="ignore"):
            moved /= spread
    elif moved.any():
        raise MeasureError(
            f"Variable '{name}' has one value in the original and more in the release, so there is "
            "no spread to count the loss in.",
            hint="leave it out of `variables`.",
        )
    if not np.isfinite(moved).all():
        raise MeasureError(
            f"Variable '{name}' changed by more than can be counted in its own spread.",
            hint="leave it out of `variables`, or look at its values.",
        )
    return moved


def _widths(cells: Ends, domain: float) -> Floats:
    """How much each cell leaves open; a set of whole numbers as many as it has, less one."""
    widths = np.where(cells.open, domain, cells.high - cells.low)
    for at, members in cells.sets.items():
        if (members == np.floor(members)).all():
            widths[at] = len(members) - 1
    return widths


def _bits(was: Ends, now: Ends, pairs: Pairs) -> tuple[float, float]:
    """The non-uniform entropy lost, and what suppressing everything would lose.

    A released cell that does not hold the original value tells nothing of it.
    """
    point = (was.low == was.high)[pairs.first]
    values, times = was.low[pairs.first][point], pairs.times[point]
    held = pl.DataFrame({"value": values, "times": times}).group_by("value").agg(pl.sum("times"))
    if not held.height:
        return 0.0, 0.0
    held = held.sort("value")
    counts = held["times"].to_numpy()
    records = int(counts.sum())
    cell = np.arange(len(now.low))[pairs.second][point]
    covers = (now.low[cell] <= values) & (values <= now.high[cell]) & _in_sets(now, cell, values)
    sizes = _covered(now, held["value"].to_numpy(), counts)[cell]
    kept = _logs(np.where(covers, sizes, records), times)
    own = _logs(counts, counts)
    return kept - own, records * math.log2(records) - own


def _logs(sizes: Integers, times: Integers) -> float:
    """The sum of the sizes' logarithms; equal sizes together, so that equal sums are equal."""
    found = pl.DataFrame({"size": sizes, "times": times}).group_by("size").agg(pl.sum("times"))
    return math.fsum(found["times"].to_numpy() * np.log2(found["size"].to_numpy()))


def _covered(cells: Ends, table: Floats, counts: Integers) -> Integers:
    """How many original records have a value that each cell may stand for."""
    before = np.concatenate([[0], np.cumsum(counts)])
    first, after = (
        np.searchsorted(table, end, side=side)  # type: ignore[call-overload]
        for end, side in ((cells.low, "left"), (cells.high, "right"))
    )
    found: Integers = before[after] - before[first]
    for at, members in cells.sets.items():
        found[at] = counts[np.isin(table, members)].sum()
    return found


def _in_sets(now: Ends, cell: Integers, values: Floats) -> Mask:
    """Whether each value is in its cell, as far as that is a set."""
    fits = np.ones(len(values), bool)
    if not now.sets:
        return fits
    among = np.flatnonzero(np.isin(cell, list(now.sets)))
    members = pl.DataFrame(
        {
            "cell": np.repeat(list(now.sets), [len(one) for one in now.sets.values()]),
            "value": np.concatenate(list(now.sets.values())),
        }
    )
    asked = pl.DataFrame({"cell": cell[among], "value": values[among]})
    found = asked.with_row_index("at").join(members, on=["cell", "value"], how="semi")
    fits[among] = False
    fits[among[found["at"].to_numpy()]] = True
    return fits


def lost_levels(name: str, was: Held, now: Held, levels: int) -> Lost:
    """The loss of categories: every level is as far from every other."""
    single = was.single()
    cells = np.bincount(was.of, minlength=len(single))
    counts = np.zeros(levels, np.int64)
    np.add.at(counts, single[single >= 0], cells[single >= 0])
    records = int(counts.sum())
    apart = records**2 - sum(one**2 for one in counts.tolist())
    # The distance of two indicator vectors over the spread of the indicators.
    unit = math.sqrt(2 * records**2 / apart) if apart else 0.0
    pairs = _distinct_pairs(was, now)
    first, second = pairs.first, pairs.second
    gone = ~_within(was, now, first, second)
    moved = _standardised(name, np.where(gone, unit or 1.0, 0.0), 1.0 if unit else 0.0)
    shares = [_shares(cells, levels) for cells in (was, now)]
    share = np.clip(shares[1][second] - shares[0][first], 0.0, 1.0)
    changed = gone | (now.counts[second] != was.counts[first])
    bits = _bits_of_levels(now, single[first], second, pairs.times, counts)
    return _lost(pairs, moved, share, changed & ~was.open[first], bits)


def _distinct_pairs(was: Held, now: Held) -> Pairs:
    found = _pairs(was.of, now.of, (len(was.open), len(now.open)))
    if found.of is not None:
        return found
    cells = len(now.open)
    keys = was.of.astype(np.int64) * cells + now.of
    used, of, times = np.unique(keys, return_inverse=True, return_counts=True)
    return Pairs(of.ravel().astype(np.int32), used // cells, used % cells, times)


def _within(was: Held, now: Held, first: Integers, second: Integers) -> Mask:
    """Whether the released cell stands for nothing that the original one does not."""
    before, after = was.single()[first], now.single()[second]
    same: Mask = ((before == after) & (before >= 0)) | was.open[first]
    for at in np.flatnonzero((before < 0) & ~was.open[first] & ~now.open[second]).tolist():
        one, other = first[at], second[at]
        inside, outer = (
            cells.levels[cells.starts[cell] : cells.starts[cell + 1]]
            for cells, cell in ((now, other), (was, one))
        )
        known = not now.beyond[other] and bool(np.isin(inside, outer).all())
        same[at] = known or was.texts[one] == now.texts[other]
    return same


def _shares(cells: Held, levels: int) -> Floats:
    """The share of the domain that each cell leaves open: 0 for one level, 1 for all."""
    open_levels = np.where(cells.open, levels, cells.counts)
    shares: Floats = np.maximum(open_levels - 1, 0) / max(levels - 1, 1)
    return shares


def _bits_of_levels(
    now: Held, level: Integers, cell: Integers, times: Integers, counts: Integers
) -> tuple[float, float]:
    point = level >= 0
    level, cell, times = level[point], cell[point], times[point]
    if not len(level):
        return 0.0, 0.0
    # Levels rise within a cell, so cell and level together rise throughout.
    keys = np.repeat(np.arange(len(now.open)), now.counts) * len(counts) + now.levels
    wanted = cell * len(counts) + level
    at = np.searchsorted(keys, wanted).clip(0, len(keys) - 1)
    covers = keys[at] == wanted
    records = int(counts.sum())
    size = np.where(covers, now.summed(counts)[cell], records)
    own = _logs(counts[level], times)
    return _logs(size, times) - own, records * math.log2(records) - own
