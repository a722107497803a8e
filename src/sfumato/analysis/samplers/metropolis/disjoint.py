"""True values of classes that were cut apart: draws that keep them apart (see `disjoint_classes`).

The condition is that of any two neighbouring classes all values of one are below all of the other
in at least one variable. While one variable is drawn the others stay, so that it must keep apart
those pairs that no other variable does.

Half of the passes the least value of every upper class stays where it is: then the values of the
lower class must be below it, and the others of the upper class above it, whatever else they are, so
that all are drawn independently. In the other half the greatest value of every lower class stays.
Either is a Gibbs step given who is least (greatest) and where, and leaves the target as it is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sfumato.analysis.problem import GeneralisedNumber, Partition, Problem
from sfumato.analysis.samplers.metropolis.cells import CellEnds
from sfumato.analysis.samplers.metropolis.coefficients import Generator
from sfumato.kernels.arrays import Floats, Integers, Mask

_HALF = 0.5


class _Extents(NamedTuple):
    """The least and the greatest value of each class, in each number that was cut."""

    least: Floats
    most: Floats


class DisjointClasses:
    """The classes of a problem, and the numbers in which they are apart.

    Parameters
    ----------
    problem : the problem.
    partition : its classes.
    """

    def __init__(self, problem: Problem, partition: Partition) -> None:
        self.classes, self.neighbours = partition.classes, partition.neighbours
        self.numbers: dict[int, GeneralisedNumber] = {
            index: number
            for index, number in enumerate(problem.numbers)
            if isinstance(number, GeneralisedNumber) and number.name in partition.variables
        }
        self.rows = np.argsort(self.classes, kind="stable")
        self.starts = np.searchsorted(
            self.classes[self.rows], np.arange(int(self.classes.max()) + 1)
        )

    def _measure(self, values: Floats) -> _Extents:
        """By class; values that are rounded count as what they are rounded to."""
        ordered = values[self.rows]
        return _Extents(
            np.minimum.reduceat(ordered, self.starts), np.maximum.reduceat(ordered, self.starts)
        )

    def _is_below(self, index: int, latent: Floats) -> tuple[Mask, Mask]:
        """Of each pair, whether the first (the second) class is below the other in a number."""
        values = latent[:, index]
        extents = self._measure(np.rint(values) if self.numbers[index].whole else values)
        first, second = self.neighbours.T
        below: Mask = extents.most[first] < extents.least[second]
        above: Mask = extents.most[second] < extents.least[first]
        return below, above

    def find_overlaps(self, latent: Floats) -> Mask:
        """Which pairs are not apart in any number."""
        apart = np.zeros(len(self.neighbours), bool)
        for index in self.numbers:
            apart |= np.logical_or(*self._is_below(index, latent))
        return ~apart

    def restrict(self, index: int, latent: Floats, rng: Generator) -> CellEnds | None:
        """Between which values those of a number may be drawn; None for any.

        Parameters
        ----------
        index : of the number.
        latent : (record, number) the values now.
        rng : where draws come from.
        """
        if index not in self.numbers:
            return None
        free = np.zeros(len(self.neighbours), bool)
        for other in self.numbers:
            if other != index:
                free |= np.logical_or(*self._is_below(other, latent))
        below, above = (side & ~free for side in self._is_below(index, latent))
        first, second = self.neighbours.T
        lower = np.concatenate([first[below], second[above]])
        upper = np.concatenate([second[below], first[above]])
        values, whole = latent[:, index], self.numbers[index].whole
        if rng.uniform() < _HALF:
            ends = _hold_least(self.classes, lower, upper, self._measure(values).least, whole=whole)
            is_extreme = values == ends.lower
        else:
            mirrored = _hold_least(
                self.classes, upper, lower, -self._measure(values).most, whole=whole
            )
            ends = CellEnds(-mirrored.upper, -mirrored.lower)
            is_extreme = values == ends.upper
        # Whoever is least or greatest stays.
        return CellEnds(
            np.where(is_extreme, values, ends.lower), np.where(is_extreme, values, ends.upper)
        )

    def arrange(self, latent: Floats, rng: Generator) -> None:
        """Move first values to where neighbours are apart, as far as that is easily found.

        For each pair a threshold is put between the two in the variable that leaves most room for
        it. A pair for which there is no room is left as it is: it is kept apart from the moment on
        at which it happens to be.
        """
        boxes = {index: _ClassBoxes(self, index, latent) for index in self.numbers}
        for pair in rng.permutation(len(self.neighbours)).tolist():
            first, second = self.neighbours[pair].tolist()
            _cut_apart(boxes, first, second, rng)
        for index, box in boxes.items():
            latent[:, index] = box.place(latent[:, index], self.classes, rng)


def arrange_disjoint(problem: Problem, latent: Floats, rng: Generator) -> DisjointClasses | None:
    """The classes that were cut apart, of which first values are moved apart; None if unknown."""
    if problem.partition is None:
        return None
    disjoint = DisjointClasses(problem, problem.partition)
    disjoint.arrange(latent, rng)
    return disjoint


def _hold_least(
    classes: Integers, lower: Integers, upper: Integers, least: Floats, *, whole: bool
) -> CellEnds:
    """The ends of each record, if the least value of every upper class stays where it is."""
    bottom, top = np.full(len(least), -np.inf), np.full(len(least), np.inf)
    bottom[upper] = least[upper]
    limits = np.rint(least) - _HALF if whole else least
    np.minimum.at(top, lower, limits[upper])
    return CellEnds(bottom[classes], top[classes])


class _ClassBoxes:
    """For each class the ends between which its first values are put, in one number."""

    def __init__(self, partition: DisjointClasses, index: int, latent: Floats) -> None:
        number = partition.numbers[index]
        records = partition.rows[partition.starts]
        self.number = number
        self.lower, self.upper = number.lower[records].tolist(), number.upper[records].tolist()
        self.tight = np.zeros(len(latent), bool)
        near_lower, near_upper = number.upper, number.lower
        if number.classes is not None and number.near_lower is not None:
            assert number.near_upper is not None  # noqa: S101 - both or none
            self.tight = number.classes >= 0
            near_lower = np.where(self.tight, number.near_lower, number.upper)
            near_upper = np.where(self.tight, number.near_upper, number.lower)
        self.near_lower, self.near_upper = (
            near_lower[records].tolist(),
            near_upper[records].tolist(),
        )
        self.size = float(np.std(latent[:, index])) or 1.0

    def find_room(self, below: int, above: int) -> tuple[float, float]:
        """Between which values a threshold may lie."""
        least = max(self.near_upper[below], self.lower[below], self.lower[above])
        most = min(self.near_lower[above], self.upper[above], self.upper[below])
        if self.number.whole:
            # Half a unit from whole numbers, and somebody of each class on its side.
            inner = max(self.near_upper[below], self.lower[below]) + 1
            outer = min(self.near_lower[above], self.upper[above]) - 1
            least, most = max(inner, self.lower[above]), min(outer, self.upper[below])
        return least, most

    def place(self, values: Floats, classes: Integers, rng: Generator) -> Floats:
        """Values within the boxes, in each class that is tight one near each end."""
        lower, upper = np.array(self.lower)[classes], np.array(self.upper)[classes]
        finite = np.isfinite(lower) & np.isfinite(upper)
        outside = finite & ((values < lower) | (values > upper))
        share = rng.uniform(size=len(values))
        with np.errstate(invalid="ignore"):
            values = np.where(outside, lower + share * (upper - lower), values)
        values = np.clip(values, lower, upper)
        near_lower, near_upper = (
            np.array(self.near_lower)[classes],
            np.array(self.near_upper)[classes],
        )
        bound = np.flatnonzero(self.tight)
        rows = bound[np.lexsort((values[bound], classes[bound]))]
        of_row = classes[rows]
        changes = of_row[1:] != of_row[:-1]
        least = rows[np.append(True, changes)[: len(rows)]]
        most = rows[np.append(changes, True)[: len(rows)]]
        # Only what is tight has both ends.
        midpoint = (lower[least] + np.minimum(near_lower, upper)[least]) / 2
        values[least] = np.minimum(values[least], midpoint)
        midpoint = (upper[most] + np.maximum(near_upper, lower)[most]) / 2
        values[most] = np.maximum(values[most], midpoint)
        return values


def _cut_apart(boxes: dict[int, _ClassBoxes], first: int, second: int, rng: Generator) -> None:
    """Put a threshold between two classes, if there is room for one."""
    best: tuple[float, _ClassBoxes, int, int, float] | None = None
    for box in boxes.values():
        for below, above in ((first, second), (second, first)):
            if box.upper[below] <= box.lower[above]:
                return
            least, most = box.find_room(below, above)
            room = (most - least) / box.size
            if (room > 0 or (box.number.whole and room == 0)) and (best is None or room > best[0]):
                best = room, box, below, above, least
    if best is None:
        return
    _, box, below, above, least = best
    width = best[0] * box.size
    threshold = least + rng.uniform(0.2, 0.8) * width
    if box.number.whole:
        threshold = least + np.rint(rng.uniform() * width)
    box.upper[below] = box.lower[above] = float(threshold)
