"""Files and folders that are there whole or not at all, on disk and not only in memory.

Private files (`PRIVATE`) are readable by their owner only from the first byte on.
"""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import shutil
import time
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.errors import DataError, ReleaseError

if TYPE_CHECKING:
    from collections.abc import Iterator

PRIVATE = 0o600
PUBLIC = 0o644
_AT_CURRENT = -100
_EXCHANGE = 2
_ROUNDS, _PAUSE = 100, 0.02


@dataclass(frozen=True)
class FileLog:
    """What is being written, and what was put in place: for who cleans up after an interruption.

    Parameters
    ----------
    unfinished : files and folders under another name, which nobody should find.
    finished : those that are complete, in their order.
    """

    unfinished: set[Path] = field(default_factory=set)
    finished: list[Path] = field(default_factory=list)

    def remove_incomplete(self) -> None:
        """Leave nothing half-written behind, even where another thread goes on writing."""
        quiet = 0
        for _ in range(_ROUNDS):
            left = [path for path in list(self.unfinished) if os.path.lexists(path)]
            for path in left:
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
            quiet = 0 if left else quiet + 1
            if quiet > 1:
                return
            time.sleep(_PAUSE)  # that thread meets what is gone, and gives up

    def list_complete(self) -> list[Path]:
        """What is complete and still there; not what stands in a folder that is listed too."""
        complete = [path for path in dict.fromkeys(self.finished) if path.exists()]
        return [path for path in complete if not {*path.parents} & {*complete}]


_LOG: ContextVar[FileLog | None] = ContextVar("sfumato_files", default=None)


@contextmanager
def log_files(log: FileLog) -> Iterator[None]:
    """Note in a log what is written within here."""
    before = _LOG.set(log)
    try:
        yield
    finally:
        _LOG.reset(before)


@contextmanager
def note_incomplete(path: Path) -> Iterator[None]:
    """Note that a file or a folder is not complete yet, as long as this lasts."""
    log = _LOG.get() or FileLog()
    log.unfinished.add(path)
    try:
        yield
    finally:
        log.unfinished.discard(path)


def _note_complete(path: Path) -> None:
    if (log := _LOG.get()) is not None:
        log.finished.append(path)


@contextmanager
def replace_file(path: Path, *, mode: int | None = None) -> Iterator[Path]:
    """A sibling to write to; it takes the path's place, on disk, when all went well.

    Assumes: the folder exists. On any error the sibling is removed and the path is as before.

    Parameters
    ----------
    path : the file to replace, or to create.
    mode : its permissions, less the umask. Default: what the process gives to any new file.
    """
    # The suffix stays last: several libraries tell the format by it.
    sibling = path.with_name(f".{secrets.token_hex(8)}.{path.name}")
    try:
        with note_incomplete(sibling):
            if mode is not None:
                create_file(sibling, b"", mode=mode)
            yield sibling
            _flush_to_disk(sibling)
            sibling.replace(path)
        _note_complete(path)
    except FileNotFoundError:
        raise DataError(
            f"the folder of '{path}' does not exist.", hint="create it first."
        ) from None
    finally:
        sibling.unlink(missing_ok=True)
    _flush_to_disk(path.parent)


def write_file(path: Path, content: str | bytes, *, mode: int | None = None) -> None:
    """Write a file, text as UTF-8, in place of the one that is there; see `replace_file`."""
    with replace_file(path, mode=mode) as sibling:
        sibling.write_bytes(content.encode() if isinstance(content, str) else content)


def create_file(path: Path, content: bytes, *, mode: int) -> None:
    """Write a file that must not exist yet; for folders that are put in place when complete."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def put_folder_in_place(folder: Path, target: Path, *, overwrite: bool) -> None:
    """Give `folder` the name of `target`; what stood there before now has the name of `folder`.

    Whoever looks at `target`, at any moment, sees the old folder or the new one, never neither.
    """
    _flush_to_disk(folder)
    if not (overwrite and target.exists()):
        try:
            folder.rename(target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            raise ReleaseError(
                f"'{target}' came into being meanwhile; it is left alone.",
                hint="choose another folder.",
            ) from None
    elif not _exchange_names(folder, target):
        # No exchange on this system: the old one steps aside first. Should we be killed in
        # between, it comes back with the next writer.
        aside = _name_aside(target)
        target.rename(aside)
        folder.rename(target)
        aside.rename(folder)
    _note_complete(target)
    _flush_to_disk(target.parent)


def copy_privately(folder: Path, target: Path) -> None:
    """Copy a folder so that only its owner can read it: all of it, or nothing."""
    sibling = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        shutil.copytree(folder, sibling, symlinks=True, copy_function=shutil.copyfile)
        for path in (sibling, *sibling.rglob("*")):
            path.chmod(0o700 if path.is_dir() else PRIVATE, follow_symlinks=not path.is_symlink())
        sibling.rename(target)
    except BaseException:
        shutil.rmtree(sibling, ignore_errors=True)
        raise
    _flush_to_disk(target.parent)


def restore_former_folder(target: Path) -> None:
    """Give a folder that stepped aside its name back, where its successor never came."""
    aside = _name_aside(target)
    if not aside.is_dir() or aside.is_symlink():
        return
    if os.path.lexists(target):
        shutil.rmtree(aside)  # its successor did come
    else:
        aside.rename(target)
        _flush_to_disk(target.parent)


def _name_aside(target: Path) -> Path:
    return target.with_name(f".{target.name}.sfumato-replaced")


def _exchange_names(first: Path, second: Path) -> bool:
    """Linux and macOS can swap two names at once."""
    names = os.fsencode(first), os.fsencode(second)
    try:
        library = ctypes.CDLL(None, use_errno=True)
        if hasattr(library, "renameat2"):
            done = library.renameat2(_AT_CURRENT, names[0], _AT_CURRENT, names[1], _EXCHANGE)
        else:
            done = library.renamex_np(*names, _EXCHANGE)
    except (AttributeError, OSError, TypeError):
        return False
    return bool(done == 0)


def _flush_to_disk(path: Path) -> None:
    if path.is_dir() and os.name == "nt":  # Windows cannot open a folder to sync it
        return
    # Windows syncs only handles open for writing; POSIX syncs folders only through reading ones
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
