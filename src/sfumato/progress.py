"""How long work tells how far it is. The library calls it; only the command line draws it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class Progress(Protocol):
    """Called with what is being done, how much of it is done, and how much there is."""

    def __call__(self, what: str, done: int, total: int) -> None:
        """Take note."""


def part_of(progress: Progress | None, what: str) -> Callable[[int, int], None] | None:
    """How one piece of work tells how far it is, without knowing what it is part of."""
    if progress is None:
        return None
    return lambda done, total: progress(what, min(done, total), total) if total else None


def silent(what: str, done: int, total: int) -> None:
    """Take no note."""


_TOLD: ContextVar[Progress] = ContextVar("sfumato_progress", default=silent)


@contextmanager
def send_progress_to(progress: Progress | None) -> Iterator[None]:
    """Let whatever is called within tell its progress, without handing it from call to call."""
    before = _TOLD.set(progress or _TOLD.get())
    try:
        yield
    finally:
        _TOLD.reset(before)


def current_progress() -> Progress:
    """How long work that was called by others tells how far it is.

    Examples
    --------
    >>> with send_progress_to(lambda what, done, total: print(what, done, "of", total)):
    ...     current_progress()("counting", 1, 2)
    counting 1 of 2
    """
    return _TOLD.get()
