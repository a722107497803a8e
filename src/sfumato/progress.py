"""How long work tells how far it is. The library calls it; only the command line draws it."""

from __future__ import annotations

from collections.abc import Callable
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
