"""How many records are protected when several variables are coarser at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from sfumato.errors import MeasureError
from sfumato.kernels.arrays import AnyIntegers
from sfumato.risk._peers.cuts import is_above
from sfumato.risk._peers.rows import Rows
from sfumato.tuning.recommendation.joint_choices import Choice


def enough_records(share: float, records: int) -> int:
    """How many records a share of them are at least; 0.95 of 20 is 19.

    Examples
    --------
    >>> enough_records(0.95, 20), enough_records(0.95, 21)
    (19, 20)
    """
    return math.ceil(Fraction(share).limit_denominator(1 << 31) * records)


class State:
    """Counts protected records, and how much of the budget that took."""

    def __init__(self, rows: Rows, p: Fraction, budget: int) -> None:
        self._rows, self._p, self._left = rows, p, budget
        self._distinct = len(rows.counts)

    @classmethod
    def of(cls, rows: Rows, p: Fraction, budget: int) -> State:
        """A state that can afford to look at the data at least once."""
        made = cls(rows, p, budget)
        if made._cost(len(rows.known)) > budget:
            raise MeasureError(
                f"{len(rows.counts):,} distinct records in all combinations of "
                f"{len(rows.known)} variables are more than the budget allows.",
                hint="name fewer variables in `known`, or raise `budget`.",
            )
        return made

    def _cost(self, known: int) -> int:
        # Without a share to stay above, all that is known at once decides.
        return self._distinct * (1 if self._p == 0 else 2**known - 1)

    def affords(self, now: Sequence[Choice]) -> bool:
        """Whether one more look fits into the budget; it takes about as long as the last."""
        return self._cost(sum(not one.drops for one in now)) <= self._left

    def protected(self, now: Sequence[Choice]) -> int:
        """How many records have a share of protective peers above p in every combination."""
        from sfumato.kernels.lattice.groups import keys

        known = [one.variable for one in now if not one.drops]
        columns = [now[at].lookup[self._rows.codes[:, at]] for at in known]
        codes = np.column_stack([*columns, self._rows.codes[:, -1]])
        _, first, of = np.unique(
            keys(codes, range(codes.shape[1])), return_index=True, return_inverse=True
        )
        codes, self._distinct = codes[first], len(first)
        self._left -= self._cost(len(known))
        counts = np.bincount(of.ravel(), self._rows.counts).astype(np.int64)
        return self._at_once(codes, counts) if self._p == 0 else self._above(codes, counts)

    @staticmethod
    def _at_once(codes: AnyIntegers, counts: AnyIntegers) -> int:
        """Somebody protects a record in every combination if somebody does when all is known."""
        from sfumato.kernels.lattice.groups import keys

        # Rows are distinct, so two of a group differ in what is sensitive.
        group = keys(codes, range(codes.shape[1] - 1))
        _, of, sizes = np.unique(group, return_inverse=True, return_counts=True)
        return int(counts[sizes[of.ravel()] > 1].sum())

    def _above(self, codes: AnyIntegers, counts: AnyIntegers) -> int:
        from sfumato.kernels.lattice.lattice import lattice

        last = codes.shape[1] - 1
        seen = lattice(codes, counts, sensitive=[last], known=range(last), p=self._p)
        safe = is_above(seen.least_protective[0], seen.least_peers[0], self._p)
        return int(counts[safe].sum())
