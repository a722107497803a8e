"""Clusters of persons who have several rows: by a summary of their rows, then all rows alike.

The summary of a person is the least and the greatest value of what has an order (numbers, dates,
ordered levels, codes by their spelling), and the commonest of other categories, the first in order
of those that are equally common. Missing is a value below all others. All rows of all persons of
a cluster then get one cell, which covers every value that stands in one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sfumato.kernels.arrays import AnyIntegers, Codes, Integers
from sfumato.methods.clustering.cells import Clusters
from sfumato.methods.clustering.variables import Variable


@dataclass(frozen=True, eq=False)
class PersonRows:
    """Which rows are whose.

    Parameters
    ----------
    of_row : the number of each row's person, from 0.
    order : the rows person after person.
    starts : where each person begins in that order.
    """

    of_row: Integers
    order: Integers
    starts: Integers

    @classmethod
    def of(cls, persons: AnyIntegers) -> PersonRows:
        """From any numbers of persons, whose order is kept."""
        sizes = np.bincount(persons)
        of_row = (np.cumsum(sizes > 0) - 1)[persons]
        order = np.argsort(of_row, kind="stable")
        return cls(of_row, order, np.concatenate([[0], np.cumsum(sizes[sizes > 0])])[:-1])

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def firsts(self) -> Integers:
        """A row of each person."""
        return self.order[self.starts]

    def summarise(self, variables: Sequence[Variable]) -> list[Variable]:
        """The variables of persons: one or two for each, see above."""
        summaries = []
        for variable in variables:
            if variable.worth is None:
                summaries.append(replace(variable, codes=self._find_modes(variable)))
                continue
            codes = variable.codes[self.order]
            low, high = (side.reduceat(codes, self.starts) for side in (np.minimum, np.maximum))
            summaries.append(replace(variable, codes=low))
            if (low != high).any():
                summaries.append(replace(variable, codes=high))
        return summaries

    def _find_modes(self, variable: Variable) -> Codes:
        """The commonest code of each person, the lowest of several."""
        levels = len(variable.levels)
        pairs = self.of_row * levels + variable.codes
        distinct, counts = np.unique(pairs, return_counts=True)
        person, code = np.divmod(distinct, levels)
        best = np.lexsort((code, -counts, person))
        first = np.unique(person[best], return_index=True)[1]
        modes: Codes = code[best][first].astype(variable.codes.dtype)
        return modes

    def find_changing(self, codes: AnyIntegers) -> bool:
        """Whether some person has different codes in their rows; codes may have several columns."""
        return bool((codes != codes[self.firsts][self.of_row]).any())

    def spread(self, clusters: Clusters) -> Clusters:
        """The clusters of rows, given those of persons."""
        sizes = np.diff(self.starts, append=len(self.order))[clusters.order]
        ends = np.concatenate([[0], np.cumsum(sizes)])
        # Person after person, in the order of the clusters, all rows of each.
        positions = np.repeat(self.starts[clusters.order] - ends[:-1], sizes)
        positions += np.arange(len(positions))
        return Clusters(self.order[positions], ends[clusters.starts])
