"""Folders as a person sees them who looks for a file: what is below the allowed ones, no links."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sfumato.errors import DataError
from sfumato.io import find_reader
from sfumato.studio.paths import confine

_MOST = 300
"""Entries of a folder that are shown at once; the search box finds the others."""
_UNITS = ("bytes", "kB", "MB", "GB", "TB")
_THOUSAND = 1000


@dataclass(frozen=True)
class Entry:
    """A folder, or a file that can be opened."""

    name: str
    path: str
    folder: bool
    size: str = ""


@dataclass(frozen=True)
class Folder:
    """What is in a folder.

    Parameters
    ----------
    path : of the folder; empty where several folders are open to the studio and none is chosen.
    crumbs : name and path of it and of the folders above, as far up as is allowed.
    entries : folders first, then files that can be read.
    tables : how many files can be read as one table each: two and more may be linked.
    others : files that no reader knows, and links, which are not followed.
    more : entries that are not shown.
    """

    path: str
    crumbs: Sequence[tuple[str, str]]
    entries: Sequence[Entry]
    tables: int = 0
    others: int = 0
    more: int = 0


def list_folder(text: str, roots: Sequence[Path], *, search: str = "") -> Folder:
    """The folders and readable files of a folder; without one, the folders that are allowed.

    Parameters
    ----------
    text : the path of the folder; empty for the first page.
    roots : the folders below which files may be opened.
    search : only names that have this in them.
    """
    allowed = list(dict.fromkeys(root.resolve() for root in roots))
    if not text and len(allowed) > 1:
        return Folder("", (), [Entry(str(root), str(root), folder=True) for root in allowed])
    path = confine(text or str(allowed[0]), allowed)
    if not path.is_dir():
        raise DataError("This is no folder.", hint="choose one from the list.")
    folders: list[Entry] = []
    files: list[Entry] = []
    tables = others = 0
    for item in _scan(path):
        wanted = search.casefold() in item.name.casefold()
        if not item.is_symlink() and item.is_dir():
            folders += [Entry(item.name, item.path, folder=True)] if wanted else []
        elif item.is_symlink() or not (reader := _find_reader(Path(item.path))):
            others += 1
        else:
            tables += reader != "databases.read_duckdb"
            size = format_size(item.stat().st_size)
            files += [Entry(item.name, item.path, folder=False, size=size)] if wanted else []
    shown = [*folders, *files]
    return Folder(
        path=str(path),
        crumbs=_list_crumbs(path, allowed),
        entries=shown[:_MOST],
        tables=tables,
        others=others,
        more=max(0, len(shown) - _MOST),
    )


def _scan(path: Path) -> list[os.DirEntry[str]]:
    """What lies in a folder and is not hidden, by name."""
    try:
        with os.scandir(path) as items:
            entries = [item for item in items if not item.name.startswith(".")]
    except OSError:
        raise DataError("This folder cannot be looked into.", hint="may you read it?") from None
    return sorted(entries, key=lambda item: item.name.casefold())


def _find_reader(path: Path) -> str:
    try:
        return find_reader(path)
    except DataError:
        return ""


def _list_crumbs(path: Path, allowed: Sequence[Path]) -> list[tuple[str, str]]:
    root = max((root for root in allowed if path.is_relative_to(root)), key=lambda r: len(r.parts))
    below = path.relative_to(root).parts
    steps = [root.joinpath(*below[:count]) for count in range(len(below) + 1)]
    return [(step.name or str(step), str(step)) for step in steps]


def format_size(size: float) -> str:
    """A number of bytes for people.

    Examples
    --------
    >>> format_size(12), format_size(1_234_567)
    ('12 bytes', '1.2 MB')
    """
    unit = 0
    while size >= _THOUSAND and unit + 1 < len(_UNITS):
        size, unit = size / _THOUSAND, unit + 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"
