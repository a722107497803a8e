"""Files that come up from the browser: streamed to the disk, bounded, private, whole or gone."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import stat
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO

from sfumato.errors import DataError
from sfumato.io import find_reader
from sfumato.io.atomic import PRIVATE
from sfumato.io.damage import refuse_damage
from sfumato.io.room import bound_unpacked
from sfumato.studio.paths import clean_name
from sfumato.studio.picker import format_size

_BATCH = re.compile(r"[a-z0-9-]{8,40}")
_HALF = ".part"
_BLOCK = 4 << 20
_SPARE = 512 << 20
"""Bytes of the disk that an upload leaves free."""
_MOST_FILES = 200


def open_batch(folder: Path, batch: str) -> Path:
    """The folder for the files of one upload; half files of uploads that broke off are removed."""
    if not _BATCH.fullmatch(batch):
        raise DataError("This upload has no proper name.", hint="reload the page.")
    for half in folder.glob(f"*/*{_HALF}"):
        if half.parent.name != batch:
            half.unlink(missing_ok=True)
    place = folder / batch
    place.mkdir(mode=0o700, exist_ok=True)
    return place


async def store(
    chunks: AsyncIterator[bytes], folder: Path, name: str, *, length: int, most: int
) -> Path:
    """Write what comes up into a private file; if it breaks off or is too much, nothing is left.

    Parameters
    ----------
    chunks : the file, as it comes.
    folder : of this upload.
    name : as the browser calls it.
    length : how long it says it is.
    most : bytes that all files of the upload may have.
    """
    target = folder / clean_name(name)
    stored = _measure_stored(folder, target)
    require_space(folder, stored, length, most)
    half = target.with_name(f"{target.name}{_HALF}")
    handle = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    try:
        with os.fdopen(handle, "wb") as file:
            await _write(chunks, file, folder, stored, most)
        half.rename(target)
    except BaseException:
        half.unlink(missing_ok=True)
        raise
    return target


def _measure_stored(folder: Path, target: Path) -> int:
    """Bytes that came up with this upload before; a name that did is refused."""
    stored = list(folder.iterdir())
    if target in stored:
        raise DataError("Two of these files have the same name.", hint="rename one of them.")
    return sum(item.stat().st_size for item in stored)


async def _write(
    chunks: AsyncIterator[bytes], file: BinaryIO, folder: Path, stored: int, most: int
) -> None:
    held, size = bytearray(), 0
    async for chunk in chunks:
        held += chunk
        size += len(chunk)
        if len(held) >= _BLOCK:
            require_space(folder, stored + size, 0, most)
            # Other pages must not wait for the disk.
            await asyncio.to_thread(file.write, bytes(held))
            held.clear()
    require_space(folder, stored + size, 0, most)
    await asyncio.to_thread(file.write, bytes(held))
    if not size:
        raise DataError("This file is empty.", hint="is it the right one?")


def require_space(folder: Path, stored: int, length: int, most: int) -> None:
    """Refuse what is longer than allowed, or than the disk has room for."""
    if stored + length > most:
        raise DataError(
            f"This is more than the {format_size(most)} that an upload may have.",
            hint="open the file by its path instead: nothing needs to be uploaded then.",
        )
    if length + _SPARE > shutil.disk_usage(folder).free:
        raise DataError(
            "There is not enough room on the disk for this upload.",
            hint="free some, or open the file by its path: nothing needs to be uploaded then.",
        )


def unpack_all(folder: Path, most: int) -> list[Path]:
    """Unpack every .zip of an upload; the files that are there then."""
    for archive in [item for item in folder.iterdir() if item.suffix.lower() == ".zip"]:
        unpack(archive, most)
    return sorted(folder.iterdir())


def unpack(archive: Path, most: int) -> None:
    """Put the tables of a .zip beside it; the archive itself is removed.

    Nothing that its directory says is believed: what comes out is counted. Folders within are left
    out of the names, files that are no tables are left packed.

    Parameters
    ----------
    archive : the file that was uploaded.
    most : bytes that all tables may have.
    """
    damaged = DataError("This .zip file is not complete.", hint="was it sent completely?")
    with refuse_damage(damaged), zipfile.ZipFile(archive) as packed:
        targets = _choose_targets(archive, _list_parts(packed))
        for target, part in targets.items():
            _extract(packed, part, target, most)
            most -= target.stat().st_size
    archive.unlink()


def _choose_targets(archive: Path, parts: list[zipfile.ZipInfo]) -> dict[Path, zipfile.ZipInfo]:
    """Where each table goes."""
    targets = {archive.parent / clean_name(part.filename): part for part in parts}
    if not parts:
        raise DataError("There is no table in this .zip file.", hint="is it the right one?")
    if len(targets) < len(parts) or any(target.exists() for target in targets):
        raise DataError("Two of these files have the same name.", hint="rename one of them.")
    return targets


def _list_parts(packed: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """The tables of an archive; what could be meant to do harm is refused."""
    infos = packed.infolist()
    if len(infos) > _MOST_FILES:
        raise DataError(f"There are more than {_MOST_FILES} files in this .zip file.")
    parts = []
    for info in infos:
        steps = re.split(r"[\\/]", info.filename)
        if info.filename.startswith(("/", "\\")) or ".." in steps or ":" in steps[0]:
            raise DataError(
                "A file in this .zip would be placed outside its folder.",
                hint="it may be made to do harm; do not open it.",
            )
        if stat.S_ISLNK(info.external_attr >> 16):
            raise DataError("There is a link in this .zip file.", hint="pack the files themselves.")
        if info.flag_bits & 1:
            raise DataError(
                "This .zip file is protected by a password.",
                hint="unpack it, and upload the files.",
            )
        hidden = steps[-1].startswith(".") or steps[0] == "__MACOSX"
        if not info.is_dir() and not hidden and _is_table(steps[-1]):
            parts.append(info)
    return parts


def _is_table(name: str) -> bool:
    try:
        find_reader(Path(name))
    except DataError:
        return False
    return True


def _extract(packed: zipfile.ZipFile, part: zipfile.ZipInfo, target: Path, most: int) -> None:
    bound = bound_unpacked(part.compress_size)
    size = 0
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    with os.fdopen(handle, "wb") as file, packed.open(part) as stream:
        while block := stream.read(_BLOCK):
            size += len(block)
            if size > bound:
                raise DataError(
                    "This .zip file unpacks to far more than tables do.",
                    hint="it may be made to fill the disk; do not open it.",
                )
            require_space(target.parent, size, 0, most)
            file.write(block)
