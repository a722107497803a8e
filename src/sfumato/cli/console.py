"""What the command line prints: results to stdout, everything else to stderr."""

from __future__ import annotations

import json
import math
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from sfumato import progress as library
from sfumato.errors import StrataError, TargetError

_STRATA_SHOWN = 20


class _Output(Console):
    """A console whose reader may go away, as `| head` does, without that being an error."""

    def on_broken_pipe(self) -> None:
        """Leave quietly."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0)


out = _Output(highlight=False, soft_wrap=False)
err = Console(stderr=True, highlight=False)


def show_json(content: Any) -> None:
    """One JSON document on stdout, and nothing else."""
    text = json.dumps(content, indent=2, ensure_ascii=False, default=str, allow_nan=False)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()  # a program that reads it does not wait for a server to end


# What moves the cursor, talks to the terminal or turns the direction of writing around
_COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def disarm(text: str) -> str:
    r"""Text without commands for the terminal; names in a stranger's file may hold some.

    Examples
    --------
    >>> print(disarm("a\x1b[2Jb"))
    a\x1b[2Jb
    """
    return _COMMANDS.sub(lambda found: ascii(found[0])[1:-1], text)


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table on stdout; plain text where the terminal cannot draw.

    No word is broken: where a terminal is too narrow, columns stand closer; and where even their
    longest words do not fit, they stand in several tables that begin with the same column.
    """
    out.print(escape(disarm(title)), style="bold", soft_wrap=True)
    texts = [[disarm(str(cell)) for cell in row] for row in rows]
    headings = list(map(disarm, columns))
    least, wanted = [], []
    for column in zip(headings, *texts, strict=True):
        least.append(max((cell_len(word) for cell in column for word in cell.split()), default=0))
        wanted.append(max(cell_len(line) for cell in column for line in cell.split("\n")))
    for part in _split_columns(least, out.width):
        needs = [[needed[index] for index in part] for needed in (wanted, least)]
        padding = next(
            (space for need in needs for space in (1, 0) if _add_borders(need, space) <= out.width),
            0,
        )
        available = out.width - _add_borders([0 for _ in part], padding)
        widths = share_width(needs[1], needs[0], available)
        table = Table(expand=False, padding=(0, padding))
        for index, width in zip(part, widths, strict=True):
            table.add_column(escape(headings[index]), overflow="fold", width=width)
        for cells in texts:
            table.add_row(*(escape(cells[index]) for index in part))
        out.print(table)


def share_width(least: Sequence[int], wanted: Sequence[int], available: int) -> list[int]:
    """The width of each column: its longest word at least, what it wants if there is room.

    A word that is longer than the terminal has to be broken somewhere.

    Examples
    --------
    >>> share_width([4, 4, 4], [4, 20, 40], 40)
    [4, 18, 18]
    """
    widths = list(least)
    while sum(widths) > available and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1
    for _ in range(available - sum(widths)):
        lacking = [index for index, width in enumerate(widths) if width < wanted[index]]
        if not lacking:
            break
        widths[min(lacking, key=lambda index: widths[index])] += 1
    return widths


def _add_borders(widths: Sequence[int], padding: int) -> int:
    return sum(widths) + len(widths) * (1 + 2 * padding) + 1


def _split_columns(widths: Sequence[int], available: int) -> list[list[int]]:
    """Which columns stand in each table; the first stands in all of them.

    Examples
    --------
    >>> _split_columns([4, 5, 6], 80)
    [[0, 1, 2]]
    >>> _split_columns([4, 5, 6], 12)
    [[0, 1], [0, 2]]
    """
    parts: list[list[int]] = [[0]]
    for index in range(1, len(widths)):
        together = [widths[column] for column in (*parts[-1], index)]
        if len(parts[-1]) > 1 and _add_borders(together, padding=0) > available:
            parts.append([0])
        parts[-1].append(index)
    return parts


def say(message: str, *, style: str = "") -> None:
    """A message for people, on stderr: wrapped on a terminal, one line each in a file."""
    # A command is there to be copied, and stays on its line.
    as_it_is = not err.is_terminal or message.startswith("  sfumato ")
    err.print(escape(disarm(message)), style=style or None, soft_wrap=as_it_is)


@contextmanager
def progress(*, quiet: bool) -> Iterator[library.Progress]:
    """A bar with the time left on a terminal; a line per step elsewhere; nothing when quiet."""
    if quiet:
        yield library.silent
        return
    if not err.is_terminal:
        announced: set[str] = set()

        def line(what: str, done: int, total: int) -> None:
            if what not in announced and done < total:
                announced.add(what)
                say(what)

        yield line
        return
    columns = (
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(),
        TextColumn("left:"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def draw(what: str, done: int, total: int) -> None:
            bar.update(task, description=escape(disarm(what)), completed=done, total=total)

        yield draw


@contextmanager
def show_warnings() -> Iterator[None]:
    """Warnings as plain sentences on stderr, without file names and line numbers."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: say(f"Warning: {message}", style="yellow")
        yield


def show_error(error: Exception, *, as_json: bool) -> None:
    """An error for people on stderr and, when asked, for machines on stdout."""
    what = getattr(error, "what", str(error))
    hint = getattr(error, "hint", "")
    if as_json:
        content: dict[str, Any] = {"error": type(error).__name__, "what": what, "hint": hint}
        if isinstance(error, TargetError):
            verdict = [judgement.plain() for judgement in error.verdict]
            content |= {"targets": verdict, "evidence": error.kept}
        show_json(content)
    say(f"Error: {what}", style="red")
    if isinstance(error, StrataError) and err.is_terminal and not as_json:
        # For the eyes of whoever sits there; a log never gets to see a category.
        from sfumato.io.frames import wrap

        rows = wrap(error.strata).rows(named=True)
        for row in rows[:_STRATA_SHOWN]:
            say("  " + ", ".join(f"{name}: {value}" for name, value in row.items()))
        if len(rows) > _STRATA_SHOWN:
            say(f"  and {len(rows) - _STRATA_SHOWN} more")
    if isinstance(error, TargetError) and error.kept:
        page = Path(error.kept).with_suffix(".html")
        if page.exists():
            say(f"What was missed, and what to try: '{page}'.")
        say(f"The evidence of the attempt is in '{error.kept}'.")
    if hint:
        say(f"Hint: {hint}")


def format_number(value: Any) -> str:
    """A number as people read it."""
    if value is None:
        return "could not be computed"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {format_number(part)}" for key, part in value.items())
    if isinstance(value, (list, tuple)):
        from sfumato.parameters import format_value

        return format_value(value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def finite_or_none(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
