"""Whether the memory of this machine holds what a file says it has, asked before it is read."""

from __future__ import annotations

import os
from pathlib import Path

from sfumato.errors import DataError

MOST_UNPACKED = 300
"""How many times larger than packed a file may be; tables of text and sheets reach 50."""
UNPACKED_FREELY = 64 << 20
"""Bytes below which that does not matter."""
_UNKNOWN = 16 << 30  # bytes, where the system does not tell
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def bound_unpacked(packed: int) -> int:
    """The bytes that a file of so many may unpack to; what is more was made to do harm.

    Examples
    --------
    >>> bound_unpacked(1_000) >> 20, bound_unpacked(1_000_000)
    (64, 300000000)
    """
    return max(UNPACKED_FREELY, MOST_UNPACKED * packed)


def require_room(path: Path, *, records: int, variables: int, bytes_per_cell: float) -> None:
    """Refuse a file whose table would not fit into memory.

    A few hundred bytes can say that a table has billions of cells. The libraries that read such
    files reserve the memory first, and a process that gets none is killed without a word.
    """
    needed = records * variables * bytes_per_cell
    if needed > get_memory():
        raise DataError(
            f"'{path.name}' says that it has {records:,} records of {variables:,} variables, "
            "more than the memory of this machine holds.",
            hint="is it damaged? otherwise read some of its variables only, with columns=[…].",
        )


def get_free_memory() -> int:
    """The bytes of memory that a process can have now."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(line.split()[1] for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):  # not on every system
        return get_memory() // 2
    return min(int(free) << 10, get_memory())


def get_memory() -> int:
    """The bytes of memory that a process can have here, at most."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on every system
        return _UNKNOWN
    for path in _LIMITS:  # what a container or a batch job may have
        try:
            total = min(total, int(path.read_text()))
        except (OSError, ValueError):  # no limit, or none of this kind
            continue
    return total
