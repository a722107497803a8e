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
from typing import Any

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
    """A table on stdout; plain text where the terminal cannot draw."""
    out.print(escape(disarm(title)), style="bold", soft_wrap=True)
    table = Table(expand=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(escape(disarm(str(cell))) for cell in row))
    out.print(table)


def say(message: str, *, style: str = "") -> None:
    """A message for people, on stderr."""
    err.print(escape(disarm(message)), style=style or None, soft_wrap=True)


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
