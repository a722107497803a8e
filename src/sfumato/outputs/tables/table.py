"""A table that holds only what may be shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl

from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Mask
from sfumato.outputs.output import Verdict
from sfumato.outputs.tables.lattice import Lattice
from sfumato.parameters import cut_repr

LIBRARIES = ("polars", "pandas", "pyarrow")

Position = tuple[int, ...]
"""The index of the level of each variable; that of the total comes last."""


@dataclass(frozen=True, eq=False)
class AttackerKnowledge:
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

    Examples
    --------
    >>> import sfumato as sf
    >>> table = sf.tables.crosstab(sf.datasets.cohort(500), "smoking", "sex")
    >>> table.verdict, table.cells.columns
    ('pass', ['smoking', 'sex', 'statistic', 'value', 'hidden'])
    """

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...] = field(repr=False)
    occupied: Mask = field(repr=False)
    shown: Mapping[str, Floats] = field(repr=False)
    known: Mapping[str, AttackerKnowledge] = field(repr=False)
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
    def down(self) -> list[Position]:
        """The rows that are shown: a level index for each of their variables."""
        return self._list_positions(0, len(self.rows))

    @cached_property
    def across(self) -> list[Position]:
        """The columns that are shown."""
        return self._list_positions(len(self.rows), len(self.labels))

    def _list_positions(self, first: int, last: int) -> list[Position]:
        sizes = self.lattice.sizes
        # Somebody is in the row when its total over all other variables is occupied.
        selection = tuple(
            slice(None) if first <= axis < last else size for axis, size in enumerate(sizes)
        )
        occupied = self.occupied.reshape(self.lattice.shape)[selection]
        side = sizes[first:last]
        positions = []
        for position in product(*(range(size + 1) for size in side)):
            total = [index == size for index, size in zip(position, side, strict=True)]
            nested = sorted(total) == total  # once a total, all within it are totals
            grand = not any(total) or all(total)
            wanted = not any(total) or (self.margins and (grand or self.subtotals))
            if nested and wanted and occupied[position]:
                positions.append(position)
        return positions if side else [()]

    def cell(self, statistic: str, row: Position, column: Position) -> float:
        """One cell; NaN where it is hidden."""
        index = np.ravel_multi_index((*row, *column), self.lattice.shape)
        return float(self.shown[statistic][index])

    def names_of(self, place: Position, *, row: bool) -> tuple[str, ...]:
        """The labels of a row or column."""
        start = 0 if row else len(self.rows)
        return tuple(self.labels[start + axis][index] for axis, index in enumerate(place))

    @cached_property
    def cells(self) -> pl.DataFrame:
        """Every cell that is shown or hidden, a line each: labels, statistic, value, hidden."""
        lines = [
            (*self._get_labels(row, column), name, self.cell(name, row, column))
            for row in self.down for column in self.across for name in self.statistics
        ]  # fmt: skip
        frame = self._build_lines(lines, ("value",))
        value, hidden = frame.columns[-1], _make_unique("hidden", [*self.rows, *self.columns])
        return frame.with_columns(
            pl.col(value).is_nan().alias(hidden), pl.col(value).fill_nan(None)
        )

    @cached_property
    def frame(self) -> Any:
        """The table as it is read, in the user's library; missing where hidden."""
        from sfumato.outputs.tables.rendering import build_frame

        return build_frame(self)

    def attack(self, *, unshown: bool = False) -> pl.DataFrame:
        """Between which values each hidden cell must lie, for whoever has this table.

        Needs no secret: only what is shown goes in. With `unshown`, hidden cells of margins that
        the table leaves out are listed as well.
        """
        from sfumato.outputs.tables.attack import compute_feasibility_intervals

        if not self.known:
            return self._attack_rounded_table()
        lines = []
        for name, known in self.known.items():
            intervals = compute_feasibility_intervals(
                self.lattice, known.cells, nonnegative=known.nonnegative
            )
            for cell in np.flatnonzero(np.isnan(known.cells)).tolist():
                position = tuple(map(int, np.unravel_index(cell, self.lattice.shape)))
                row, column = position[: len(self.rows)], position[len(self.rows) :]
                if unshown or (row in self.down and column in self.across):
                    ends = float(intervals.low[cell]), float(intervals.high[cell])
                    lines.append((*self._get_labels(row, column), name, *ends))
        return self._build_lines(lines, ("low", "high"))

    def _attack_rounded_table(self) -> pl.DataFrame:
        if "base" not in self.rule or "count" not in self.shown:
            raise MeasureError("Nothing is known of this table that could be attacked.")
        # See `controlled_rounding`: nobody learns more than base - 1 either way.
        reach = self.rule["base"] - 1
        lines = []
        for row, column in product(self.down, self.across):
            value = self.cell("count", row, column)
            ends = max(value - reach, 0.0), value + reach
            lines.append((*self._get_labels(row, column), "count", *ends))
        return self._build_lines(lines, ("low", "high"))

    def _get_labels(self, row: Position, column: Position) -> tuple[str, ...]:
        return self.names_of(row, row=True) + self.names_of(column, row=False)

    def _build_lines(self, lines: list[tuple[Any, ...]], numbers: Sequence[str]) -> pl.DataFrame:
        """A frame of labels, statistic and numbers; its own columns give way to variables."""
        names = [*self.rows, *self.columns]
        texts = [*names, _make_unique("statistic", names)]
        schema = {
            **dict.fromkeys(texts, pl.String),
            **{_make_unique(name, names): pl.Float64 for name in numbers},
        }
        return pl.DataFrame(lines, schema=cast("Any", schema), orient="row")

    def to_html(self) -> str:
        """The table as an HTML fragment."""
        from sfumato.outputs.tables.rendering import render_html

        return render_html(self)

    def to_markdown(self) -> str:
        """The table as Markdown."""
        from sfumato.outputs.tables.rendering import render_markdown

        return render_markdown(self)

    def to_latex(self) -> str:
        """The table as LaTeX with booktabs rules."""
        from sfumato.outputs.tables.rendering import render_latex

        return render_latex(self)

    def to_csv(self, path: str | Path | None = None, *, overwrite: bool = False) -> str:
        """The cells as CSV text, one a line; written to a file where one is named."""
        from sfumato.outputs.tables.rendering import write_csv

        return write_csv(self, None if path is None else Path(path), overwrite=overwrite)

    def __str__(self) -> str:
        from sfumato.outputs.tables.rendering import render_text

        return render_text(self)

    def __repr__(self) -> str:
        return cut_repr(f"Table({self.title!r}, {self.verdict})")

    def _repr_html_(self) -> str:
        return self.to_html()


def _make_unique(name: str, taken: list[str]) -> str:
    while name in taken:
        name += "_"
    return name
