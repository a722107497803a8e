"""How long work tells how far it is. The library calls it; only the command line draws it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called with what is being done, how much of it is done, and how much there is."""

    def __call__(self, what: str, done: int, total: int) -> None:
        """Take note."""


def silent(what: str, done: int, total: int) -> None:
    """Take no note."""
