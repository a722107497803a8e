"""Large arrays: in ordinary pages of memory, and worked on part by part."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import AnyIntegers, Array

PART = 1 << 20
"""Elements that are worked on at a time, where all at once would take another large array."""


def allocate(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array whose memory becomes real only where it is written to, page by page.

    numpy asks for huge pages instead. On virtual machines clearing those can cost more than all
    the work on them.
    """
    kind = np.dtype(dtype)
    size = int(np.prod(shape)) * kind.itemsize
    if os.name == "nt" or not size:
        return np.empty(shape, kind)
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(pages, kind).reshape(shape)


def split_rows(rows: int, size: int = PART) -> Iterator[slice]:
    """All rows, some at a time.

    Examples
    --------
    >>> list(split_rows(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))


def look_up(table: Array, codes: AnyIntegers) -> Array:
    """`table[codes]`, without the copy of all codes in 64 bits that numpy makes.

    Examples
    --------
    >>> look_up(np.array([0.5, 2.0]), np.array([1, 0, 1], np.int32)).tolist()
    [2.0, 0.5, 2.0]
    """
    found = np.empty(len(codes), table.dtype)
    for part in split_rows(len(codes)):
        found[part] = table[codes[part]]
    return found
