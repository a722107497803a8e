"""A table that holds only what may be shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl

from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Mask
from sfumato.outputs.judged import Verdict
from sfumato.outputs.tables.lattice import Lattice

LIBRARIES = ("polars", "pandas", "pyarrow")
_LAST = "hidden"
_SHARE = 1e-9

Place = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Known:
    """Additive numbers that an attacker may have of every cell that is shown; NaN if hidden."""

    cells: Floats
    nonnegative: bool = True


@dataclass(frozen=True, eq=False, kw_only=True)
class Table:
    """A protected table. Hidden cells are gone: they are nowhere in it.

    Parameters
    ----------
    title : what it shows.
    rows : the variables down the side.
    columns : the variables across the top.
    labels : the levels of each variable; the last is the label of its total.
    occupied : which cells hold records; rows and columns that hold none are not shown.
    shown : for each statistic the cells, flat, margins among them; NaN where hidden.
    known : what an attacker may know; see `attack`.
    margins : whether totals are shown.
    subtotals : whether totals within nested rows and columns are shown.
    verdict : "pass", or "review" where something asks for a second look.
    reasons : what that is.
    notes : what was left out.
    rule : how it was protected.
    library : in which library `frame` is.
    """

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...] = field(repr=False)
    occupied: Mask = field(repr=False)
    shown: Mapping[str, Floats] = field(repr=False)
    known: Mapping[str, Known] = field(repr=False)
    margins: bool = True
    subtotals: bool = False
    verdict: Verdict = "pass"
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    rule: Mapping[str, Any] = field(default_factory=dict)
    library: str = "polars"

    @property
    def lattice(self) -> Lattice:
        """The shape of the table."""
        return Lattice(tuple(len(labels) - 1 for labels in self.labels))

    @property
    def statistics(self) -> tuple[str, ...]:
        """What is shown in each cell."""
        return tuple(self.shown)

    @cached_property
    def down(self) -> list[Place]:
        """The rows that are shown: a place for each of their variables."""
        return self._places(0, len(self.rows))

    @cached_property
    def across(self) -> list[Place]:
        """The columns that are shown."""
        return self._places(len(self.rows), len(self.labels))

    def _places(self, first: int, last: int) -> list[Place]:
        sizes = self.lattice.sizes
        # Somebody is in the row when its total over all other variables is occupied.
        at = tuple(slice(None) if first <= here < last else size for here, size in enumerate(sizes))
        anybody = self.occupied.reshape(self.lattice.shape)[at]
        mine = sizes[first:last]
        found = []
        for place in product(*(range(size + 1) for size in mine)):
            total = [here == size for here, size in zip(place, mine, strict=True)]
            nested = sorted(total) == total  # once a total, all within it are totals
            whole = not any(total) or all(total)
            asked = not any(total) or (self.margins and (whole or self.subtotals))
            if nested and asked and anybody[place]:
                found.append(place)
        return found if mine else [()]

    def cell(self, statistic: str, row: Place, column: Place) -> float:
        """One cell; NaN where it is hidden."""
        at = np.ravel_multi_index((*row, *column), self.lattice.shape)
        return float(self.shown[statistic][at])

    def names_of(self, place: Place, *, row: bool) -> tuple[str, ...]:
        """The labels of a row or column."""
        start = 0 if row else len(self.rows)
        return tuple(self.labels[start + at][here] for at, here in enumerate(place))

    @cached_property
    def cells(self) -> pl.DataFrame:
        """Every cell that is shown or hidden, one a line: labels, statistic, value, hidden."""
        lines = [
            (*self.names_of(row, row=True), *self.names_of(column, row=False), name,
             self.cell(name, row, column))
            for row in self.down for column in self.across for name in self.statistics
        ]  # fmt: skip
        names = [*self.rows, *self.columns]
        more = [_free(one, names) for one in ("statistic", "value", _LAST)]
        schema = {**dict.fromkeys(names, pl.String), more[0]: pl.String, more[1]: pl.Float64}
        made = pl.DataFrame(lines, schema=schema, orient="row")
        return made.with_columns(
            pl.col(more[1]).is_nan().alias(more[2]), pl.col(more[1]).fill_nan(None)
        )

    @cached_property
    def frame(self) -> Any:
        """The table as it is read, in the user's library; missing where hidden."""
        from sfumato.outputs.tables.shown import as_frame

        return as_frame(self)

    def attack(self, *, unshown: bool = False) -> pl.DataFrame:
        """Between which values each hidden cell must lie, for whoever has this table.

        Needs no secret: only what is shown goes in. With `unshown`, hidden cells of margins that
        the table leaves out are listed as well.
        """
        from sfumato.outputs.tables.attack import intervals

        if not self.known:
            return self._attack_on_rounded()
        lines = []
        for name, known in self.known.items():
            found = intervals(self.lattice, known.cells, nonnegative=known.nonnegative)
            for at in np.flatnonzero(np.isnan(known.cells)).tolist():
                place = tuple(int(one) for one in np.unravel_index(at, self.lattice.shape))
                row, column = place[: len(self.rows)], place[len(self.rows) :]
                if unshown or (row in self.down and column in self.across):
                    labels = self.names_of(row, row=True) + self.names_of(column, row=False)
                    lines.append((*labels, name, float(found.low[at]), float(found.high[at])))
        return self._lines(lines)

    def _attack_on_rounded(self) -> pl.DataFrame:
        if "base" not in self.rule or "count" not in self.shown:
            raise MeasureError("Nothing is known of this table that could be attacked.")
        reach = self.rule["base"] - 1
        lines = []
        for row, column in product(self.down, self.across):
            value = self.cell("count", row, column)
            labels = self.names_of(row, row=True) + self.names_of(column, row=False)
            lines.append((*labels, "count", max(value - reach, 0.0), value + reach))
        return self._lines(lines)

    def _lines(self, lines: list[tuple[Any, ...]]) -> pl.DataFrame:
        names = [*self.rows, *self.columns]
        more = [_free(one, names) for one in ("statistic", "low", "high")]
        schema = {
            **dict.fromkeys([*names, more[0]], pl.String),
            **dict.fromkeys(more[1:], pl.Float64),
        }
        return pl.DataFrame(lines, schema=cast("Any", schema), orient="row")

    def to_html(self) -> str:
        """The table as an HTML fragment."""
        from sfumato.outputs.tables.shown import as_html

        return as_html(self)

    def to_markdown(self) -> str:
        """The table as Markdown."""
        from sfumato.outputs.tables.shown import as_markdown

        return as_markdown(self)

    def to_latex(self) -> str:
        """The table as LaTeX with booktabs rules."""
        from sfumato.outputs.tables.shown import as_latex

        return as_latex(self)

    def to_csv(self, path: str | Path | None = None, *, overwrite: bool = False) -> str:
        """The cells as CSV text, one a line; written to a file where one is named."""
        from sfumato.outputs.tables.shown import write_csv

        return write_csv(self, None if path is None else Path(path), overwrite=overwrite)

    def __str__(self) -> str:
        from sfumato.outputs.tables.shown import as_text

        return as_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.to_html()


def _free(name: str, taken: list[str]) -> str:
    while name in taken:
        name += "_"
    return name
