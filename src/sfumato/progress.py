"""Progress and cancelling: how long work reports how far it is, and where it may be stopped.

The library reports; only the command line and the studio show it. A report is also the place where
work may stop: a `Token` raises `Cancelled` there, once somebody has called its `cancel`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event
from typing import Protocol


class Progress(Protocol):
    """Called with what is being done, how much of it is done, and how much there is."""

    def __call__(self, what: str, done: int, total: int) -> None:
        """Take note."""


class Cancelled(KeyboardInterrupt):
    """Work was stopped through its token. What handles Ctrl-C handles this too."""


class Token:
    """A progress that can be cancelled from another thread.

    Parameters
    ----------
    progress : who is told how far the work is; nobody by default.

    Examples
    --------
    >>> token = Token(lambda what, done, total: print(what, done, "of", total))
    >>> token("counting", 1, 2)
    counting 1 of 2
    >>> token.cancel()
    >>> try:
    ...     token("counting", 2, 2)
    ... except Cancelled:
    ...     print("stopped")
    stopped
    """

    def __init__(self, progress: Progress | None = None) -> None:
        self._progress = progress or silent
        self._cancelled = Event()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Report progress, or stop the work that reports it."""
        if self._cancelled.is_set():
            raise Cancelled
        self._progress(what, done, total)

    def cancel(self) -> None:
        """Stop the work at its next report."""
        self._cancelled.set()


def part_of(progress: Progress | None, what: str) -> Callable[[int, int], None] | None:
    """A report for one piece of work that need not know what it is part of."""
    if progress is None:
        return None
    return lambda done, total: progress(what, min(done, total), total) if total else None


def silent(what: str, done: int, total: int) -> None:
    """Take no note."""


_CURRENT: ContextVar[Progress] = ContextVar("sfumato_progress", default=silent)


@contextmanager
def send_progress_to(progress: Progress | None) -> Iterator[None]:
    """Send all reports of what is called within here, without handing it from call to call."""
    before = _CURRENT.set(progress or _CURRENT.get())
    try:
        yield
    finally:
        _CURRENT.reset(before)


def current_progress() -> Progress:
    """Where work that was called by others reports how far it is.

    Examples
    --------
    >>> with send_progress_to(lambda what, done, total: print(what, done, "of", total)):
    ...     current_progress()("counting", 1, 2)
    counting 1 of 2
    """
    return _CURRENT.get()
