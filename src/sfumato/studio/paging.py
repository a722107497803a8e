"""Long lists a page at a time: a browser never gets thousands of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SIZE = 50


@dataclass(frozen=True)
class Paged:
    """Some of many items.

    Parameters
    ----------
    items : those of this page.
    number : of the page, from 0.
    pages : how many there are.
    total : items on all pages.
    """

    items: Sequence[Any]
    number: int
    pages: int
    total: int


def cut_page(items: Sequence[Any], number: int, size: int = SIZE) -> Paged:
    """One page of many items; beyond the last, the last.

    Examples
    --------
    >>> cut_page("abcde", 9, size=2)
    Paged(items='e', number=2, pages=3, total=5)
    """
    pages = max(1, -(-len(items) // size))
    number = min(max(number, 0), pages - 1)
    return Paged(items[number * size : (number + 1) * size], number, pages, len(items))


def read_number(query: Mapping[str, str], name: str) -> int:
    """A whole number from an address; 0 where there is none."""
    text = query.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0  # noqa: PLR2004
