"""Locks on files: whoever holds one is alive, on whatever machine and in whatever container.

The system gives a lock back when its holder ends, however it ends. A process number says less: in
another container the same number is another process, or none.
"""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PRIVATE = 0o600
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_HELD_BY_OTHERS = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Nobody else holds the lock on this file meanwhile; waits until it is free."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | _NO_LINK, _PRIVATE)
    try:
        _lock(handle, wait=True)
        yield
    finally:
        os.close(handle)


@contextmanager
def hold_new_lock(path: Path) -> Iterator[None]:
    """Create a file and hold its lock; the file goes with the lock. It must not exist yet."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _NO_LINK, _PRIVATE)
    try:
        _lock(handle, wait=True)
        # Between creating and locking, somebody may have taken it for an abandoned one.
        if not _is_still_there(handle, path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


@contextmanager
def take_abandoned_lock(path: Path) -> Iterator[bool]:
    """Hold a lock that nobody holds; False where somebody does, or where nobody can tell."""
    try:
        handle = os.open(path, os.O_RDWR | _NO_LINK)
    except OSError:
        yield False
        return
    try:
        try:
            _lock(handle, wait=False)
        except OSError:
            yield False
            return
        yield _is_still_there(handle, path)
    finally:
        os.close(handle)


def _is_still_there(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except FileNotFoundError:
        return False


def _lock(handle: int, *, wait: bool) -> None:
    try:
        import fcntl
    except ImportError:
        _lock_on_windows(handle, wait=wait)
        return
    fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def _lock_on_windows(handle: int, *, wait: bool) -> None:
    import msvcrt

    while True:
        try:
            # Ten tries, a second apart; then an error.
            msvcrt.locking(handle, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError as error:
            if wait and error.errno in _HELD_BY_OTHERS:
                continue
            raise
        return
