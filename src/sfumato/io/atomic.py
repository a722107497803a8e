"""A file is there whole or not at all."""

from __future__ import annotations

import os
import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sfumato.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A sibling to write to; it takes the path's place, on disk, when all went well.

    Assumes: the folder exists. On any error the sibling is removed and the path is as before.
    """
    # The suffix stays last: several libraries tell the format by it.
    sibling = path.with_name(f".{secrets.token_hex(8)}.{path.name}")
    try:
        yield sibling
        _to_disk(sibling)
        sibling.replace(path)
    except FileNotFoundError:
        raise DataError(
            f"the folder of '{path}' does not exist.", hint="create it first."
        ) from None
    finally:
        sibling.unlink(missing_ok=True)
    _to_disk(path.parent)


def _to_disk(path: Path) -> None:
    if path.is_dir() and os.name == "nt":  # Windows cannot open a folder to sync it
        return
    # Windows syncs only handles open for writing; POSIX syncs folders only through reading ones
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
