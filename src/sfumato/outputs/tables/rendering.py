"""A protected table as text, HTML, Markdown, LaTeX, CSV or a frame."""

from __future__ import annotations

import math
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from sfumato.errors import DataError
from sfumato.io.atomic import write_file
from sfumato.io.formulas import escape as escape_formulas
from sfumato.io.formulas import escape_name

if TYPE_CHECKING:
    from sfumato.outputs.tables.table import Table

HIDDEN = "·"
_LATEX = str.maketrans(
    {char: f"\\{char}" for char in "&%$#_{}"}
    | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
)
_MARKDOWN = str.maketrans(
    {"|": r"\|", "[": r"\[", "\\": r"\\", "\n": " ", "\r": " ", "<": "&lt;", "&": "&amp;"}
)
"""Pages are made of Markdown: names of levels are neither HTML nor links there."""
_NAMES = {"q50": "median"}


def list_headings(table: Table) -> list[tuple[str, ...]]:
    """The labels of each column; the statistic first where there are several."""
    several = len(table.statistics) > 1 or not table.columns
    return [
        (*((_NAMES.get(name, name),) if several else ()), *table.names_of(column, row=False))
        for name in table.statistics
        for column in table.across
    ]


def list_rows(table: Table) -> list[tuple[tuple[str, ...], list[float]]]:
    """For each row its labels and its cells, in the order of `list_headings`."""
    return [
        (table.names_of(row, row=True), [
            table.cell(name, row, column) for name in table.statistics for column in table.across
        ])
        for row in table.down
    ]  # fmt: skip


def format_cell(value: float) -> str:
    """A cell as people read it."""
    if math.isnan(value):
        return HIDDEN
    return f"{value:.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:.6g}"  # noqa: PLR2004


def format_grid(table: Table) -> tuple[list[str], list[list[str]]]:
    """The head and the rows of a table as people read them."""
    head = [*table.rows, *(", ".join(labels) for labels in list_headings(table))]
    return head, [[*labels, *map(format_cell, cells)] for labels, cells in list_rows(table)]


def _list_notes(table: Table) -> list[str]:
    hidden = any(math.isnan(cell) for _, cells in list_rows(table) for cell in cells)
    if "base" in table.rule:
        notes = [f"Rounded to multiples of {table.rule['base']}; sums hold."]
    else:
        unit = f" {table.rule['unit']}" if "unit" in table.rule else ""
        note = f"{HIDDEN} hidden, so that no cell of fewer than {table.rule['k']}{unit} shows."
        notes = [note] * hidden
    return notes + list(table.notes)


def render_text(table: Table) -> str:
    """Columns in line, for a terminal."""
    head, body = format_grid(table)
    labels = len(table.rows)
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    lines = []
    for row in (head, *body):
        cells = [
            text.ljust(width) if index < labels else text.rjust(width)
            for index, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join([*lines, *_list_notes(table)])


def render_markdown(table: Table) -> str:
    """A pipe table."""
    head, body = format_grid(table)
    rule = ["---"] * len(table.rows) + ["---:"] * (len(head) - len(table.rows))
    rows = [
        "| " + " | ".join(text.translate(_MARKDOWN) for text in row) + " |"
        for row in (head, rule, *body)
    ]
    return "\n".join([*rows, *(f"\n{note}" for note in _list_notes(table))])


def render_latex(table: Table) -> str:
    """A tabular with booktabs rules."""
    head, body = format_grid(table)
    labels = len(table.rows)
    rows = [
        " & ".join(text.translate(_LATEX).replace(HIDDEN, r"$\cdot$") for text in row) + r" \\"
        for row in (head, *body)
    ]
    columns = "l" * labels + "r" * (len(head) - labels)
    lines = [r"\toprule", rows[0], r"\midrule", *rows[1:], r"\bottomrule"]
    return "\n".join([f"\\begin{{tabular}}{{{columns}}}", *lines, r"\end{tabular}"])


def render_html(table: Table) -> str:
    """A fragment; columns of several variables have a head of several lines."""
    headings = list_headings(table)
    depth = len(headings[0])
    titles = "".join(f"<th rowspan={depth}>{escape(name)}</th>" for name in table.rows)
    head = []
    for level in range(depth):
        labels = "".join(
            f"<th colspan={span}>{escape(text)}</th>" for text, span in _find_spans(headings, level)
        )
        head.append(f"<tr>{titles if level == 0 else ''}{labels}</tr>")
    body = []
    for levels, cells in list_rows(table):
        names = "".join(f"<th scope=row>{escape(text)}</th>" for text in levels)
        numbers = "".join(f"<td align=right>{format_cell(cell)}</td>" for cell in cells)
        body.append(f"<tr>{names}{numbers}</tr>")
    foot = "".join(f"<p>{escape(note)}</p>" for note in _list_notes(table))
    return (
        f"<table><caption>{escape(table.title)}</caption><thead>{''.join(head)}</thead>"
        f"<tbody>{''.join(body)}</tbody></table>{foot}"
    )


def _find_spans(headings: list[tuple[str, ...]], level: int) -> list[tuple[str, int]]:
    """Neighbouring columns under one heading share it."""
    starts = [0]
    for index, (before, after) in enumerate(pairwise(headings)):
        if before[: level + 1] != after[: level + 1]:
            starts.append(index + 1)
    ends = [*starts[1:], len(headings)]
    return [(headings[start][level], end - start) for start, end in zip(starts, ends, strict=True)]


def build_frame(table: Table) -> Any:
    """The table in the user's library: with an index in pandas, flat in the others."""
    headings, rows = list_headings(table), list_rows(table)
    columns = [
        _convert_column([cells[index] for _, cells in rows]) for index in range(len(headings))
    ]
    if table.library == "pandas":
        return _build_pandas(table, headings, columns, [labels for labels, _ in rows])
    labels = len(table.rows)
    names = _make_names_unique([*table.rows, *(" | ".join(top) for top in headings)], labels)
    series = [
        pl.Series(name, [texts[index] for texts, _ in rows], pl.String)
        for index, name in enumerate(names[:labels])
    ]
    series += [column.alias(name) for name, column in zip(names[labels:], columns, strict=True)]
    frame = pl.DataFrame(series)
    return frame.to_arrow() if table.library == "pyarrow" else frame


def _convert_column(cells: list[float]) -> pl.Series:
    """Counts as whole numbers, missing where hidden."""
    series = pl.Series(cells, dtype=pl.Float64).fill_nan(None)
    integral = bool((series.drop_nulls() == series.drop_nulls().round()).all())
    return series.cast(pl.Int64) if integral else series


def _build_pandas(
    table: Table, headings: list[tuple[str, ...]], columns: list[pl.Series], labels: list[Any]
) -> Any:
    import pandas as pd

    several = len(table.statistics) > 1 or not table.columns
    across = [*(["statistic"] if several else []), *table.columns]
    arrays = {
        index: pd.array(column.to_list(), dtype="Int64" if column.dtype == pl.Int64 else "Float64")
        for index, column in enumerate(columns)
    }
    frame = pd.DataFrame(arrays)
    frame.index = _build_index(labels, table.rows)
    frame.columns = _build_index(headings, across)
    return frame


def _build_index(labels: list[Any], names: Any) -> Any:
    import pandas as pd

    labels = [label[0] if len(label) == 1 else label for label in labels]
    if len(names) == 1:
        return pd.Index(labels, name=names[0], dtype=object)
    return pd.MultiIndex.from_tuples(labels, names=list(names))


def _make_names_unique(names: list[str], fixed: int) -> list[str]:
    """Names of columns, none of them twice; the first ones stay as they are."""
    unique = names[:fixed]
    for name in names[fixed:]:
        while name in unique:
            name += "_"  # noqa: PLW2901 - longer until it is free
        unique.append(name)
    return unique


def write_csv(table: Table, path: Path | None, *, overwrite: bool) -> str:
    """The cells as CSV, harmless in a spreadsheet."""
    texts = [name for name, dtype in table.cells.schema.items() if dtype == pl.String]
    safe = table.cells.with_columns(escape_formulas(pl.col(name)) for name in texts)
    safe.columns = [escape_name(name) for name in safe.columns]
    text = safe.write_csv()
    if path is not None:
        if path.exists() and not overwrite:
            raise DataError(f"'{path}' is there already.", hint="pass overwrite=True.")
        write_file(path, text)
    return text
