"""Put a finished folder into its place in one step."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

from sfumato.errors import ReleaseError

_AT_CURRENT = -100
_EXCHANGE = 2


def put_in_place(made: Path, target: Path, *, overwrite: bool) -> None:
    """Give `made` the name of `target`; what stood there before is left under the name `made`.

    Whoever looks at `target`, at any moment, sees the old folder or the new one, never neither.
    """
    _settle(made)
    if not (overwrite and target.exists()):
        try:
            made.rename(target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            raise ReleaseError(
                f"'{target}' came into being meanwhile; it is left alone.",
                hint="choose another folder.",
            ) from None
    elif not _exchanged(made, target):
        # No exchange on this system: the old one steps aside first.
        aside = made.with_name(f"{made.name}-old")
        target.rename(aside)
        made.rename(target)
        aside.rename(made)
    _settle(target.parent)


def _exchanged(one: Path, other: Path) -> bool:
    """Linux can swap two names at once (renameat2)."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    done = rename(_AT_CURRENT, os.fsencode(one), _AT_CURRENT, os.fsencode(other), _EXCHANGE)
    return bool(done == 0)


def _settle(folder: Path) -> None:
    """Make sure that the names in a folder are on the disk, not only in memory."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
