"""What protects one person: the generalisations that lose least until enough people are alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.cells.classes import CellCodes
from sfumato.data import Dataset
from sfumato.kernels.arrays import AnyIntegers, Codes, Mask
from sfumato.progress import current_progress
from sfumato.risk.protection.distinct_records import DistinctRecords, code_rows
from sfumato.tuning.recommendation.generalisations import (
    Generalisation,
    drop_variable,
    list_generalisations,
)
from sfumato.units import Units

_OFFSETS = 3
"""Offsets that are tried for each width."""


@dataclass(frozen=True, eq=False)
class Fix:
    """A change after which a person is no longer alone.

    Parameters
    ----------
    changes : what becomes coarser; one generalisation for each variable.
    loss : the sum of the shares of entropy that these variables lose.
    alike : how many people then share what is known with the person, who is one of them.
    alone : how many people then still stand alone, of all.
    """

    changes: tuple[Generalisation, ...]
    loss: float
    alike: int
    alone: int


@dataclass(frozen=True, eq=False)
class FixSearch:
    """Records in what is known, with all that may become of each variable.

    Parameters
    ----------
    records : the distinct records in what is known.
    offered : for each variable its generalisations, from the least loss to the greatest; to leave
        it out is the last.
    units : whom the distinct records are about; or all records, where persons have several.
    counted : which of the distinct records each of these is.
    """

    records: DistinctRecords
    offered: tuple[tuple[Generalisation, ...], ...]
    units: Units
    counted: AnyIntegers | slice

    @classmethod
    def of(cls, data: Dataset, known: Sequence[str]) -> FixSearch:
        """Encode the records, and look for generalisations of each variable.

        Examples
        --------
        >>> import polars as pl
        >>> frame = pl.DataFrame({"age": [30, 31, 32, 33], "sex": ["f", "f", "m", "m"]})
        >>> search = FixSearch.of(Dataset(frame), ["age", "sex"])
        >>> fix = search.find_cheapest(0, k=2)
        >>> [change.how for change in fix.changes], fix.alike, fix.alone
        (['width 2, lowest 2'], 2, 0)
        """
        report, records = current_progress(), DistinctRecords(tuple(known), *code_rows(data, known))
        offered = []
        for variable in range(len(known)):
            report("looking for generalisations", variable, len(known))
            coarser = list_generalisations(data, records, variable, 2, _OFFSETS)
            offered.append((*coarser, drop_variable(records, variable)))
        if data.units.one_row_each:
            units = Units.standing_for(len(records.counts), records.counts.astype(np.int64))
            return cls(records, tuple(offered), units, slice(None))
        return cls(records, tuple(offered), data.units, records.row_of)

    def count_alike(self, record: int) -> int:
        """How many people share what is known with the person of a record, who is one of them."""
        return self._count(self._match(int(self.records.row_of[record])))

    def list_single(self, record: int, *, k: int) -> list[Fix]:
        """For each variable the least change of it alone by which k people are alike, if any.

        The cheapest comes first; there is none where k people are alike already.
        """
        row, fixes = int(self.records.row_of[record]), list[Fix]()
        if self.count_alike(record) >= k:
            return fixes
        for variable, offered in enumerate(self.offered):
            others = self._match(row, leave_out=variable)
            for change in offered:
                if self._count(others & self._find_same(row, change)) >= k:
                    fixes.append(self._measure(row, (change,)))
                    break
        return sorted(fixes, key=lambda fix: fix.loss)

    def find_cheapest(self, record: int, *, k: int) -> Fix | None:
        """The least change found by which k people are alike; None where none helps or is needed.

        Where no variable alone is enough, the change that brings most people per loss is taken,
        one after the other, and then each is made as fine as the others allow: few changes, not
        always the fewest.
        """
        if self.count_alike(record) >= k:
            return None
        if single := self.list_single(record, k=k):
            return single[0]
        row, chosen = int(self.records.row_of[record]), dict[int, Generalisation]()
        while self._count(alike := self._match(row, chosen)) < k:
            best: tuple[float, Generalisation] | None = None
            for variable, offered in enumerate(self.offered):
                others = self._match(row, chosen, leave_out=variable)
                lost = chosen[variable].loss if variable in chosen else 0.0
                for change in offered:
                    gained = self._count(others & self._find_same(row, change)) / self._count(alike)
                    if change.loss > lost and gained > 1:
                        score = float(np.log(gained)) / (change.loss - lost)
                        if best is None or score > best[0]:
                            best = score, change
            if best is None:
                # Only together do they help: the finest variable is left out first.
                unchanged = [i for i in range(len(self.offered)) if i not in chosen]
                if len(unchanged) <= 1:
                    return None
                best = 0.0, max((self.offered[i][-1] for i in unchanged), key=self._count_values)
            chosen[best[1].variable] = best[1]
        return self._measure(row, tuple(self._refine(row, chosen, k).values()))

    def _refine(
        self, row: int, chosen: dict[int, Generalisation], k: int
    ) -> dict[int, Generalisation]:
        """Make each variable as fine as the others allow, the one that lost most first."""
        for variable in sorted(chosen, key=lambda variable: -chosen[variable].loss):
            others = {other: change for other, change in chosen.items() if other != variable}
            if self._count(self._match(row, others)) >= k:
                chosen = others
                continue
            match = self._match(row, others, leave_out=variable)
            finer = (
                change
                for change in self.offered[variable]
                if self._count(match & self._find_same(row, change)) >= k
            )
            chosen = {**others, variable: next(finer)}
        return chosen

    def _count_values(self, change: Generalisation) -> int:
        return len(change.lookup)

    def _find_same(self, row: int, change: Generalisation) -> Mask:
        """Which distinct records have the person's value, once it is coarser."""
        category = change.lookup[self.records.codes[:, change.variable]]
        same: Mask = category == category[row]
        return same

    def _match(
        self,
        row: int,
        chosen: dict[int, Generalisation] | None = None,
        *,
        leave_out: int | None = None,
    ) -> Mask:
        """Which distinct records have the person's values."""
        match = np.ones(len(self.records.counts), bool)
        for variable in range(len(self.records.known)):
            if variable == leave_out:
                continue
            change = (chosen or {}).get(variable)
            codes = self.records.codes[:, variable]
            match &= codes == codes[row] if change is None else self._find_same(row, change)
        return match

    def _count(self, rows: Mask) -> int:
        """How many people some distinct records are."""
        return self.units.count_among(rows[self.counted])

    @cached_property
    def _cells(self) -> Codes:
        return np.ascontiguousarray(self.records.codes.T.astype(np.int32))

    def count_alone(self, changes: Sequence[Generalisation] = ()) -> int:
        """How many people stand alone once these variables are coarser."""
        cells = self._cells.copy()
        for change in changes:
            cells[change.variable] = change.lookup[self._cells[change.variable]]
        cells = cells[:, self.counted]
        codes = CellCodes(cells, tuple(int(row.max()) + 1 for row in cells))
        classes = codes.classify(range(len(cells)), self.units)
        return classes.count_in(classes.sizes == 1)

    def _measure(self, row: int, changes: tuple[Generalisation, ...]) -> Fix:
        chosen = {change.variable: change for change in changes}
        return Fix(
            changes,
            sum(change.loss for change in changes),
            self._count(self._match(row, chosen)),
            self.count_alone(changes),
        )
