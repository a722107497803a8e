"""Folders as a person sees them who looks for something: what is below the allowed ones, no links.

One picker for data, releases, keys and folders to write to; `Want` says what is looked for.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sfumato.errors import DataError
from sfumato.io import find_reader
from sfumato.storage.contents import MANIFEST, is_plain_file
from sfumato.studio.paths import OpenFolders, confine

Want = Literal["data", "extract", "release", "key", "folder"]
"""A file to open, the same or a folder of linked tables, the folder of a release, a private key, or
a folder to write to."""

_MOST = 300
"""Entries of a folder that are shown at once; the search box finds the others."""
_UNITS = ("bytes", "kB", "MB", "GB", "TB")
_THOUSAND = 1000
_DATABASE = "databases.read_duckdb"


@dataclass(frozen=True)
class PickerEntry:
    """A folder, or a file that can be chosen.

    Parameters
    ----------
    folder : whether it is a folder; it can be looked into.
    choice : whether it is what is looked for.
    """

    name: str
    path: str
    folder: bool
    size: str = ""
    choice: bool = False


@dataclass(frozen=True)
class Folder:
    """What is in a folder.

    Parameters
    ----------
    path : of the folder; empty where several folders are open to the studio and none is chosen.
    crumbs : name and path of it and of the folders above, as far up as is allowed.
    entries : folders first, then files that can be chosen.
    choice : whether the folder itself is what is looked for.
    tables : how many files can be read as one table each: two and more may be linked.
    others : files that are not looked for, and links, which are not followed.
    more : entries that are not shown.
    """

    path: str
    crumbs: Sequence[tuple[str, str]]
    entries: Sequence[PickerEntry]
    choice: bool = False
    tables: int = 0
    others: int = 0
    more: int = 0


def list_folder(text: str, places: OpenFolders, *, search: str = "", want: Want = "data") -> Folder:
    """The folders of a folder, and the files that can be chosen; without one, the allowed folders.

    Parameters
    ----------
    text : the path of the folder; empty for the first page.
    places : what is open to the studio.
    search : only names that have this in them.
    want : what is looked for.
    """
    allowed = places.allowed
    if not text and len(allowed) > 1:
        entries = [_describe_folder(str(root), root, want) for root in allowed]
        return Folder("", (), entries)
    path = confine(text or str(allowed[0]), places)
    if not path.is_dir():
        raise DataError("This is no folder.", hint="choose one from the list.")
    folders: list[PickerEntry] = []
    files: list[PickerEntry] = []
    tables = others = 0
    for item in _scan(path):
        named = search.casefold() in item.name.casefold()
        place = Path(item.path)
        if not item.is_symlink() and item.is_dir():
            named = named and places.holds(place)
            folders += [_describe_folder(item.name, place, want)] if named else []
        elif item.is_symlink() or not _is_wanted(place, want):
            others += 1
        else:
            tables += want in ("data", "extract") and _find_reader(place) != _DATABASE
            size = format_size(item.stat().st_size)
            files += [PickerEntry(item.name, item.path, folder=False, size=size, choice=True)] if (
                named) else []  # fmt: skip
    shown = [*folders, *files]
    itself = _describe_folder(path.name, path, want).choice
    return Folder(
        path=str(path),
        crumbs=_list_crumbs(path, allowed),
        entries=shown[:_MOST],
        choice=tables > 1 if want == "extract" else itself,
        tables=tables,
        others=others,
        more=max(0, len(shown) - _MOST),
    )


def find_start(text: str, places: OpenFolders) -> str:
    """The folder in which to begin to look, near what a field says; "" for the first page."""
    try:
        path = confine(text, places)
    except DataError:
        return ""
    return next((str(folder) for folder in (path, *path.parents) if folder.is_dir()), "")


def _describe_folder(name: str, path: Path, want: Want) -> PickerEntry:
    choice = want == "folder" or (want == "release" and is_plain_file(path / MANIFEST))
    return PickerEntry(name, str(path), folder=True, choice=choice)


def _is_wanted(path: Path, want: Want) -> bool:
    """Whether a file is one of those that are looked for."""
    if want in ("data", "extract"):
        return bool(_find_reader(path))
    # A pair of keys is my-key.pem and my-key.public.pem.
    return want == "key" and path.suffix == ".pem" and not path.name.endswith(".public.pem")


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
