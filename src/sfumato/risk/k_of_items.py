"""How many persons fit whoever knows a few items of a list, such as diagnoses."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import Field

from sfumato.cells.item_lists import (
    DELIMITER,
    expand_groups,
    find_lists,
    list_readings,
    read_items,
    split_items,
)
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.errors import MeasureError
from sfumato.evidence import Evidence, Subject
from sfumato.kernels.arrays import Integers, Mask
from sfumato.kernels.itemsets import LARGEST, MOST, ItemRows, count_combinations, count_itemsets
from sfumato.measure import Measure
from sfumato.numbers import Number
from sfumato.parameters import parameters
from sfumato.risk._persons import choose_audience
from sfumato.risk.known import require_records

_GROUPS = "A list with a group of items fits whoever knows any item of the group."
_ORDER = "The order of the items says nothing. A missing list has no items."


@parameters
class KOfItems(Measure):
    """The fewest persons that fit any few items of a list, such as the diagnoses of a stay.

    Question: if an outsider knows some of a person's diagnoses, how many persons may it be?
    Assumes: the outsider knows up to `m` items that the person has, and not which others they have
    or lack. The value is the k of k^m-anonymity: every combination of up to m items that some list
    has is in the lists of at least k persons. A list with a group of items, such as `E10-E14`, fits
    whoever knows any item of the group. `singled_out_by_items` is the share of persons of whom some
    m items, or fewer, are enough to find them. Where persons have several rows, it counts persons:
    both for items of one row, and for items of all rows of a person together. Each variable is
    looked at by itself.

    Parameters
    ----------
    variables : the variables with lists. Default: all that are declared by `cells = "lists"`.
    m : most items that the outsider knows.
    delimiter : what stands between the items of a cell.

    Examples
    --------
    >>> import polars as pl, sfumato as sf
    >>> frame = pl.DataFrame({"codes": ["E11;I10", "E11;I10", "E11;N18", "I10"]})
    >>> data = sf.Dataset(frame, sf.Schema({"codes": sf.Column(role="quasi", cells="lists")}))
    >>> found = KOfItems(m=2).measure(data)
    >>> found.value, found.details["singled_out_by_items"]
    (1.0, 0.25)

    References: Terrovitis, Mamoulis & Kalnis (2008), Privacy-preserving anonymization of set-valued
    data, Proceedings of the VLDB Endowment 1:115.
    """

    name = "k_of_items"
    numbers = (
        Number.class_size("k_of_items", counts="units alike"),
        Number.share("singled_out_by_items"),
    )
    runs_on = ("local", "streaming", "spark")
    counts_persons = True
    by_default = False
    odd = {"one row": 1}
    examples = ({"variables": ["diagnosis"]}, {"variables": ["diagnosis"], "m": 3})
    variables: Annotated[list[str], Field(min_length=1)] | None = None
    m: Annotated[int, Field(ge=1, le=8)] = 2
    delimiter: Annotated[str, Field(min_length=1, max_length=3)] = DELIMITER

    def look(self, data: Dataset, subject: Subject, engine: Engine) -> Evidence:
        """Count every combination of items."""
        names = self._choose(data, subject)
        rows: list[dict[str, Any]] = []
        alone = list[Mask]()
        tabulated = engine.tabulate(data, names)
        require_records(tabulated.total)
        units = tabulated.units
        for name in names:
            items = split_items(tabulated.data.column(name), self.delimiter)
            lists = read_items(items, units)
            expanded = expand_groups(lists, data.schema[name])
            rows_of_variable, singled = self._count(expanded, name)
            rows += rows_of_variable
            alone.append(singled)
        counted = [row["k_of_items"] for row in rows if row["k_of_items"] is not None]
        if not counted:
            raise MeasureError(
                f"No record has an item: {', '.join(names)}.", hint="are the lists all empty?"
            )
        return Evidence(
            name=self.name,
            subject=subject,
            value=float(min(counted)),
            direction=self.direction,
            table=data.like(pl.DataFrame(rows)),
            details={
                "singled_out_by_items": int(np.logical_or.reduce(alone).sum()) / units.count,
                **(units.details() or {"records": units.count}),
                "m": self.m,
                "variables": tuple(names),
            },
            assumptions=(
                f"The outsider knows up to {self.m} items of a person: {', '.join(names)}.",
                *units.describe(),
                _GROUPS,
                _ORDER,
            ),
            audience=choose_audience(data, subject, units),
        )

    def _choose(self, data: Dataset, subject: Subject) -> tuple[str, ...]:
        names = find_lists(self.variables, data.schema)
        if subject == "released":
            names = tuple(name for name in names if name in data.schema)
        else:
            data.schema.require(names)
        if not names:
            raise MeasureError(
                "There is no variable with lists of items to measure.",
                hint='declare one: diagnoses = { role = "quasi", cells = "lists" }, or name it in '
                "`variables`.",
            )
        return names

    def _count(self, lists: ItemRows, name: str) -> tuple[list[dict[str, Any]], Mask]:
        """The table of a variable, and which rows, or persons, some items single out."""
        readings, numbers = list_readings(lists), lists.units.numbers
        alone: Mask = np.zeros(int(numbers.max(initial=-1)) + 1, bool)
        table = []
        for size in range(1, self.m + 1):
            least, combinations = math.inf, 0
            for reading in readings:
                self._require_few(reading, size, name)
                for support, rows in _list_supports(reading, size):
                    least = min(least, int(support.min()))
                    combinations += len(support) if reading is readings[-1] else 0
                    isolated = rows[support == 1]
                    alone[numbers[isolated] if reading is lists else isolated] = True
            table.append(
                {
                    "variable": name,
                    "known_items": size,
                    "k_of_items": None if math.isinf(least) else int(least),
                    "combinations": combinations,
                    "singled_out_by_items": int(alone.sum()) / max(lists.units.count, 1),
                }
            )
        return table, alone

    def _require_few(self, lists: ItemRows, size: int, name: str) -> None:
        if count_combinations(lists, size) > MOST or lists.width**size >= LARGEST:
            raise MeasureError(
                f"The lists of '{name}' have too many combinations of {size} items to be counted.",
                hint=f"take m = {max(size - 1, 1)}, or make the items broader first.",
            )


def _list_supports(lists: ItemRows, size: int) -> Iterator[tuple[Integers, Integers]]:
    for part in count_itemsets(lists, size):
        yield part.support, part.rows
