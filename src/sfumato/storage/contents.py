"""What lies in a release folder: every entry as it is, no link followed, and its digest."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

MANIFEST = "manifest.json"
CUSTODY = "custody"
ACCREDITED = "accredited"
RECORDS = "records.parquet"
PERSON = "person"
"""The column of `RECORDS` that says which rows are one person's."""
REMOVED = "removed.parquet"
REPORT = "report.html"
CODEBOOK = ("codebook.html", "codebook.json")
KEY_FILE = f"{CUSTODY}/key"
PLAN_FILE = f"{CUSTODY}/plan.toml"
RECORD_FILE = f"{CUSTODY}/custody.json"
DRAFT = "draft"
"""What the file of the data is called as long as it is for nobody else."""
PURPOSE = "purpose.json"
"""What the release is good for, answer by answer, beside the custody record."""
TRAIL_FILE = f"{CUSTODY}/studio.jsonl"
"""Who did what in the studio that wrote the release; not there where no studio did."""
ACCREDITED_FILE = f"{ACCREDITED}/{MANIFEST}"
PARTIAL = ".sfumato-partial-"
"""How folders are called in which a release is prepared."""
PRIVATE_FOLDERS = (CUSTODY, ACCREDITED)
_NAMED = 5
"""Files that are named before the others are only counted."""


def sha256(path: Path) -> str:
    """Digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def list_entries(folder: Path) -> dict[str, os.stat_result]:
    """Every file and folder in a folder, whatever its depth, by its path within; links as links."""
    entries: dict[str, os.stat_result] = {}
    folders = [""]
    while folders:
        inner = folders.pop()
        with os.scandir(folder / inner) as scan:
            for entry in scan:
                name = f"{inner}/{entry.name}" if inner else entry.name
                entries[name] = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(entries[name].st_mode):
                    folders.append(name)
    return dict(sorted(entries.items()))


def digest_files(folder: Path, *, without: Iterable[str] = ()) -> dict[str, str]:
    """The digest of every file in a folder, by its path within, but for some."""
    left_out = set(without)
    return {
        name: sha256(folder / name)
        for name, status in list_entries(folder).items()
        if stat.S_ISREG(status.st_mode) and name not in left_out
    }


def find_changed_files(folder: Path, digests: Mapping[str, str]) -> list[str]:
    """Which of these files are not there, or not as they were."""
    return [name for name, digest in digests.items() if not is_file_with(folder / name, digest)]


def is_file_with(path: Path, digest: str) -> bool:
    """Whether a file, not a link to one, has this digest."""
    return is_plain_file(path) and sha256(path) == digest


def is_plain_file(path: Path) -> bool:
    """Whether there is a file: no link, no pipe that would make us wait, no device."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def find_strange(folder: Path, known: Iterable[str]) -> list[str]:
    """What lies in a folder and is not known: files, links, folders, anything."""
    files = set(known)
    folders = {name.rpartition("/")[0] for name in files if "/" in name}
    return [
        name
        for name, status in list_entries(folder).items()
        if not (
            (stat.S_ISREG(status.st_mode) and name in files)
            or (stat.S_ISDIR(status.st_mode) and name in folders)
        )
    ]


def find_exposed_files(folder: Path) -> list[str]:
    """What others than its owner could change, or what is private and others could read.

    A file with a second name on the disk counts too: who has that name changes the file. So does
    one that belongs to somebody else than the folder. A copy without custody may belong to a group
    of people; see `find_shared_files`.
    """
    if os.name == "nt":  # the permissions of Windows are no mode bits
        return []
    folder_status = folder.stat()
    writable = stat.S_IWOTH | (stat.S_IWGRP if (folder / CUSTODY).is_dir() else 0)
    exposed = ["the folder itself"] if folder_status.st_mode & writable else []
    for name, status in list_entries(folder).items():
        private = name.partition("/")[0] in PRIVATE_FOLDERS
        forbidden = 0o077 if private else writable
        linked = stat.S_ISREG(status.st_mode) and status.st_nlink > 1
        foreign = status.st_uid != folder_status.st_uid
        if linked or foreign or (status.st_mode & forbidden and not stat.S_ISLNK(status.st_mode)):
            exposed.append(format_name(name))
    return exposed


def find_shared_files(folder: Path) -> list[str]:
    """What the group of its owner could change."""
    modes = {"the folder itself": folder.stat().st_mode} | {
        name: status.st_mode for name, status in list_entries(folder).items()
    }
    return [
        name
        for name, mode in modes.items()
        if os.name != "nt" and mode & stat.S_IWGRP and not stat.S_ISLNK(mode)
    ]


def format_names(names: Iterable[str]) -> str:
    """Names of files for a message."""
    shown = [format_name(name) for name in names]
    more = f" and {len(shown) - _NAMED} more" if len(shown) > _NAMED else ""
    return ", ".join(shown[:_NAMED]) + more


def format_name(name: str) -> str:
    r"""A file's name as it can be shown: a stranger's may hold commands for the terminal.

    Examples
    --------
    >>> print(format_name("notes.txt"), format_name("a\x1b[2J"))
    notes.txt 'a\x1b[2J'
    """
    return name if name.isprintable() else ascii(name)
