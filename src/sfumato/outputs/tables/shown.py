"""A protected table as text, HTML, Markdown, LaTeX, CSV or a frame."""

from __future__ import annotations

import math
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from sfumato.errors import DataError
from sfumato.io.atomic import replacing
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


def heads(table: Table) -> list[tuple[str, ...]]:
    """The label of each column; the statistic first where there are several."""
    several = len(table.statistics) > 1 or not table.columns
    return [
        (*((_said(name),) if several else ()), *table.names_of(column, row=False))
        for name in table.statistics
        for column in table.across
    ]


def lines(table: Table) -> list[tuple[tuple[str, ...], list[float]]]:
    """For each row its labels and its cells, in the order of `heads`."""
    return [
        (table.names_of(row, row=True), [
            table.cell(name, row, column) for name in table.statistics for column in table.across
        ])
        for row in table.down
    ]  # fmt: skip


def _said(statistic: str) -> str:
    return _NAMES.get(statistic, statistic)


def number(value: float) -> str:
    """A cell as people read it."""
    if math.isnan(value):
        return HIDDEN
    return f"{value:.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:.6g}"  # noqa: PLR2004


def _grid(table: Table) -> tuple[list[str], list[list[str]]]:
    head = [*table.rows, *(", ".join(one) for one in heads(table))]
    return head, [[*labels, *map(number, cells)] for labels, cells in lines(table)]


def as_text(table: Table) -> str:
    """Columns in line, for a terminal."""
    head, body = _grid(table)
    names = len(table.rows)
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    made = []
    for row in (head, *body):
        cells = [
            text.ljust(width) if at < names else text.rjust(width)
            for at, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        made.append("  ".join(cells).rstrip())
    return "\n".join([*made, *_foot(table)])


def _foot(table: Table) -> list[str]:
    hidden = any(math.isnan(cell) for _, cells in lines(table) for cell in cells)
    if "base" in table.rule:
        said = [f"Rounded to multiples of {table.rule['base']}; sums hold."]
    else:
        said = [f"{HIDDEN} hidden, so that no cell of fewer than {table.rule['k']} shows."] * hidden
    return said + list(table.notes)


def as_markdown(table: Table) -> str:
    """A pipe table."""
    head, body = _grid(table)
    rule = ["---"] * len(table.rows) + ["---:"] * (len(head) - len(table.rows))
    rows = [
        "| " + " | ".join(text.translate(_MARKDOWN) for text in row) + " |"
        for row in (head, rule, *body)
    ]
    return "\n".join([*rows, *(f"\n{one}" for one in _foot(table))])


def as_latex(table: Table) -> str:
    """A tabular with booktabs rules."""
    head, body = _grid(table)
    names = len(table.rows)
    rows = [
        " & ".join(text.translate(_LATEX).replace(HIDDEN, r"$\cdot$") for text in row) + r" \\"
        for row in (head, *body)
    ]
    columns = "l" * names + "r" * (len(head) - names)
    inside = [r"\toprule", rows[0], r"\midrule", *rows[1:], r"\bottomrule"]
    return "\n".join([f"\\begin{{tabular}}{{{columns}}}", *inside, r"\end{tabular}"])


def as_html(table: Table) -> str:
    """A fragment; columns of several variables have a head in several lines."""
    tops = heads(table)
    depth = len(tops[0])
    titles = "".join(f"<th rowspan={depth}>{escape(name)}</th>" for name in table.rows)
    head = []
    for level in range(depth):
        labels = "".join(
            f"<th colspan={span}>{escape(text)}</th>" for text, span in _spans(tops, level)
        )
        head.append(f"<tr>{titles if level == 0 else ''}{labels}</tr>")
    body = []
    for levels, cells in lines(table):
        names = "".join(f"<th scope=row>{escape(text)}</th>" for text in levels)
        numbers = "".join(f"<td align=right>{number(cell)}</td>" for cell in cells)
        body.append(f"<tr>{names}{numbers}</tr>")
    foot = "".join(f"<p>{escape(one)}</p>" for one in _foot(table))
    return (
        f"<table><caption>{escape(table.title)}</caption><thead>{''.join(head)}</thead>"
        f"<tbody>{''.join(body)}</tbody></table>{foot}"
    )


def _spans(tops: list[tuple[str, ...]], level: int) -> list[tuple[str, int]]:
    """Neighbours under one head share it."""
    starts = [0, *(at + 1 for at, (one, other) in enumerate(pairwise(tops))
                   if one[: level + 1] != other[: level + 1])]  # fmt: skip
    ends = [*starts[1:], len(tops)]
    return [(tops[start][level], end - start) for start, end in zip(starts, ends, strict=True)]


def as_frame(table: Table) -> Any:
    """The table in the user's library: with an index in pandas, flat in the others."""
    tops, body = heads(table), lines(table)
    columns = [_typed([cells[at] for _, cells in body]) for at in range(len(tops))]
    if table.library == "pandas":
        return _pandas(table, tops, columns, [labels for labels, _ in body])
    names = _unlike([*table.rows, *(" | ".join(one) for one in tops)], len(table.rows))
    made = [
        pl.Series(name, [labels[at] for labels, _ in body], pl.String)
        for at, name in enumerate(names[: len(table.rows)])
    ]
    made += [column.alias(name) for name, column in zip(names[len(made) :], columns, strict=True)]
    frame = pl.DataFrame(made)
    return frame.to_arrow() if table.library == "pyarrow" else frame


def _typed(cells: list[float]) -> pl.Series:
    """Counts as whole numbers, missing where hidden."""
    series = pl.Series(cells, dtype=pl.Float64).fill_nan(None)
    whole = bool((series.drop_nulls() == series.drop_nulls().round()).all())
    return series.cast(pl.Int64) if whole else series


def _pandas(
    table: Table, tops: list[tuple[str, ...]], columns: list[pl.Series], index: list[Any]
) -> Any:
    import pandas as pd

    several = len(table.statistics) > 1 or not table.columns
    across = [*(["statistic"] if several else []), *table.columns]
    made = {
        at: pd.array(column.to_list(), dtype="Int64" if column.dtype == pl.Int64 else "Float64")
        for at, column in enumerate(columns)
    }
    frame = pd.DataFrame(made)
    frame.index = _index(
        [labels[0] if len(labels) == 1 else labels for labels in index], table.rows
    )
    frame.columns = _index([top[0] if len(top) == 1 else top for top in tops], across)
    return frame


def _index(labels: list[Any], names: Any) -> Any:
    import pandas as pd

    if len(names) == 1:
        return pd.Index(labels, name=names[0], dtype=object)
    return pd.MultiIndex.from_tuples(labels, names=list(names))


def _unlike(names: list[str], kept: int) -> list[str]:
    """Names of columns, none of them twice; those of the rows stay as they are."""
    found = names[:kept]
    for name in names[kept:]:
        while name in found:
            name += "_"  # noqa: PLW2901 - longer until it is free
        found.append(name)
    return found


def write_csv(table: Table, path: Path | None, *, overwrite: bool) -> str:
    """The cells as CSV, harmless in a spreadsheet."""
    texts = [name for name, dtype in table.cells.schema.items() if dtype == pl.String]
    safe = table.cells.with_columns(escape_formulas(pl.col(name)) for name in texts)
    safe.columns = [escape_name(name) for name in safe.columns]
    text = safe.write_csv()
    if path is not None:
        if path.exists() and not overwrite:
            raise DataError(f"'{path}' is there already.", hint="pass overwrite=True.")
        with replacing(path) as sibling:
            sibling.write_text(text, "utf-8")
    return text
