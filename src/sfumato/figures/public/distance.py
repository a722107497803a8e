"""How far a protected figure lies from the same figure without protection.

One distance for all of them, that of Kolmogorov and Smirnov: by how much the share of the records
on one side of a line differs, at worst. In two dimensions the lines are two, and the sides the four
corners that they make. The caption tells it as a bound on a coarse ladder, so that a record more or
less hardly ever changes it, and never finer than the share that 2 k records are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.figures.public.grid import Grid, choose_edges, count_cells
from sfumato.kernels.arrays import Floats

if TYPE_CHECKING:
    from sfumato.figures.public.subjects import Subjects

_LADDER = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_FEW_IN_K = 40
"""Times k: a group of fewer records has a bound above 5 percentage points, whatever it shows."""
FAR = 0.1
"""A figure farther from the unprotected one than this asks for a second look."""
REFERENCE_BINS = 30
"""Bins an axis that a figure has without protection."""
IN_CORNERS = "the share of records in any corner of the figure"
BELOW = "the share of records below any value"


@dataclass(frozen=True)
class Distance:
    """How far a figure is from the unprotected one.

    Parameters
    ----------
    of : what differs.
    gaps : by group, by how much at worst, as a share.
    records : by group, how many there are.
    """

    of: str
    gaps: tuple[float, ...]
    records: tuple[int, ...]

    @property
    def value(self) -> float:
        """The largest of all groups."""
        return max(self.gaps)

    def sentence(self, k: int) -> str:
        """The distance in words; a group of few records has a bound of its own.

        Examples
        --------
        >>> Distance("a bar", (0.013, 0.02), (900, 25)).sentence(3)
        'Without protection, a bar would differ by at most 2 percentage points, 50 in small groups.'
        """
        bounds = [round_up_share(gap, records=records, k=k)
                  for gap, records in zip(self.gaps, self.records, strict=True)]  # fmt: skip
        large = [bound for bound, records in zip(bounds, self.records, strict=True)
                 if records >= _FEW_IN_K * k]  # fmt: skip
        most = max(large or bounds)
        if most > _LADDER[-1]:
            return f"Without protection, {self.of} would differ by more than 50 percentage points."
        unit = "percentage point" if most == _LADDER[0] else "percentage points"
        small = f", {_format_bound(max(bounds))} in small groups" if max(bounds) > most else ""
        return (
            f"Without protection, {self.of} would differ by at most {_format_bound(most)} "
            f"{unit}{small}."
        )

    def concerns(self) -> tuple[str, ...]:
        """Why a second look: the figure may mislead."""
        if self.value <= FAR:
            return ()
        return (
            f"The figure is more than {100 * FAR:.0f} percentage points from the unprotected one.",
        )


def _format_bound(share: float) -> str:
    return f"{100 * share:.0f}"


def round_up_share(share: float, *, records: int | None = None, k: int = 0) -> float:
    """The rung of the ladder that a share does not exceed; 1 above the highest.

    Never finer than 2 k of so many records, where they are given.

    Examples
    --------
    >>> round_up_share(0.013, records=5000, k=3), round_up_share(0.013, records=100, k=3)
    (0.02, 0.1)
    """
    least = share if records is None else max(share, 2 * k / max(records, 1))
    return next((rung for rung in _LADDER if rung >= least), 1.0)


def measure_groups(of: str, subjects: Subjects, gaps: Sequence[float]) -> Distance:
    """The distance of a figure, from those of its groups in their order."""
    return Distance(of, tuple(gaps), tuple(map(len, subjects.groups)))


def list_reference_edges(subjects: Subjects, name: str, bins: int = REFERENCE_BINS) -> Floats:
    """The edges that a variable's bins have without protection."""
    return choose_edges(subjects.column(name), bins, k=1, domain=subjects.bounds(name),
                        whole=subjects.is_integer(name))  # fmt: skip


# One variable ------------------------------------------------------------------------------------


def share_below(values: Any, positions: Floats) -> Floats:
    """The share of the values below each of some rising positions, in memory or not.

    Examples
    --------
    >>> share_below(np.array([1.0, 2, 3, 4]), np.array([2.0, 2.5, 9])).tolist()
    [0.25, 0.5, 1.0]
    """
    counts = count_cells([values], [_surround(values, positions)])
    shares: Floats = np.cumsum(counts)[:-1] / len(values)
    return shares


def _surround(values: Any, positions: Floats) -> Floats:
    """Positions with one below and one above all values."""
    low, high = min(float(values.min()), positions[0]), max(float(values.max()), positions[-1])
    room = max(1.0, high - low)
    return np.concatenate([[low - room], positions, [high + room]])


def compare_counts(values: Any, cuts: Floats, counts: Any, edges: Floats) -> float:
    """Counts in bins, each spread evenly over its bin, against the values, at some edges."""
    reached = np.append(0.0, np.cumsum(counts)) / counts.sum()
    shown = np.interp(edges, cuts, reached, left=0.0, right=1.0)
    return float(np.abs(shown - share_below(values, edges)).max())


def compare_curves(shown: tuple[Floats, Floats], unprotected: tuple[Floats, Floats]) -> float:
    """Two densities, each as positions and heights; nothing lies beyond the ends of either."""
    positions = np.union1d(shown[0], unprotected[0])
    reached = [np.interp(positions, x, _integrate(x, y), left=0.0, right=1.0)
               for x, y in (shown, unprotected)]  # fmt: skip
    return float(np.abs(reached[0] - reached[1]).max())


def _integrate(positions: Floats, heights: Floats) -> Floats:
    areas = np.diff(positions) * (heights[1:] + heights[:-1]) / 2
    reached = np.append(0.0, np.cumsum(areas))
    shares: Floats = reached / reached[-1]
    return shares


def compare_lines(values: Any, lines: Sequence[float], shares: Sequence[float]) -> float:
    """Lines that are to have given shares of the values below them; ties count either way."""
    ends = np.array([(line, math.nextafter(line, math.inf)) for line in lines])
    positions, index = np.unique(ends, return_inverse=True)
    reached = share_below(values, positions)[index.reshape(ends.shape)]
    wanted = np.asarray(shares)
    return float(np.abs(np.clip(wanted, reached[:, 0], reached[:, 1]) - wanted).max())


# Two variables -----------------------------------------------------------------------------------


def compare_grid(columns: Sequence[Any], grid: Grid, edges: Sequence[Floats]) -> float:
    """Counts in cells, each spread evenly over its cell, against the pairs of values."""
    reached = np.pad(grid.counts, ((1, 0), (1, 0))).cumsum(0).cumsum(1) / grid.counts.sum()
    for cuts, own in zip((grid.x, grid.y), edges, strict=True):
        ends = np.append(own, np.inf)
        # Along the first axis, which becomes the second; so both have had their turn.
        reached = np.array([np.interp(ends, cuts, line) for line in reached.T])
    return _compare_corners(reached, _reach(columns, edges))


def compare_points(
    columns: Sequence[Any], points: Sequence[Floats], edges: Sequence[Floats]
) -> float:
    """Points against the pairs of values."""
    return _compare_corners(_reach(points, edges), _reach(columns, edges))


def _reach(columns: Sequence[Any], edges: Sequence[Floats]) -> Floats:
    """The share of pairs left of and below each crossing of edges; the last is beyond all."""
    cuts = [_surround(values, own) for values, own in zip(columns, edges, strict=True)]
    shares: Floats = count_cells(columns, cuts).cumsum(0).cumsum(1) / len(columns[0])
    return shares


def _compare_corners(shown: Floats, unprotected: Floats) -> float:
    """The largest difference in any of the four corners at any crossing."""
    lower_left = shown - unprotected
    left, low = lower_left[:, -1:], lower_left[-1:, :]
    corners = (lower_left, left - lower_left, low - lower_left, left + low - lower_left)
    return float(max(np.abs(corner).max() for corner in corners))
