"""Recognise records again whose content was changed in between.

Question: are these the same people, after some of their values were cleaned, recoded or dropped?
Without an identifier a record is known by its content, and whoever corrects one cell makes another
record of it. So records are compared cell by cell, as in record linkage: two agree in a cell by
chance as often as its value occurs, and the agreement of several cells counts in bits, the rarer
the value the more. A pair that agrees in more bits than chance gives to the best of all pairs is
one person.

Assumes: variables keep their names. Variables that follow from one another count as if they did
not, so that people of one household may be taken for one another; what rests on this is reported
for a second look, never called safe. Records that cannot be told apart, since their common
variables have few values, are linked to nobody.

References: Fellegi & Sunter (1969), J. American Statistical Association 64:1183.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.data.identity import digest
from sfumato.kernels.arrays import Floats, Integers, Positions
from sfumato.randomness import Key, encrypt
from sfumato.schema import IDENTIFYING

_MOST_VARIABLES = 64
"""Variables whose cells are hashed; which of more is a matter of the key, not of the data."""
_CELL_BITS = 16
"""Of a hash: enough to tell cells apart, and too few to find a rare value by trying out."""
_MARGIN_BITS = 10.0
"""Beyond what the best of all pairs reaches by chance: one wrong link in a thousand times."""
_BLOCK_BITS = 4.0
_MOST_ROUNDS = 48
_STRIDES = (1, 2, 3, 5, 7, 11)


def hash_cells(data: Dataset, key: Key, *, always: Collection[str] = ()) -> pl.DataFrame:
    """A short keyed hash of every cell; columns are named by a keyed hash of their names.

    Direct identifiers are left out where they tell the records apart: their hashes are there.
    Of very many variables some are taken, and `always` those whose changes must be seen.
    """
    content = data.identity.basis.startswith("content")
    names = [name for name in data.columns if content or data.schema[name].role not in IDENTIFYING]
    subkey = key.subkey("cells of an output")
    hashed = {hash_name(name, key): name for name in names}
    wanted = [label for label in sorted(hashed) if hashed[label] in always]
    others = [label for label in sorted(hashed) if hashed[label] not in always]
    columns = [
        pl.Series(
            label,
            (encrypt(digest([data.column(hashed[label])]), subkey)[:, 0] >> (64 - _CELL_BITS))
            .astype(np.uint16),
        )
        for label in sorted(wanted + others[: max(_MOST_VARIABLES - len(wanted), 0)])
    ]  # fmt: skip
    return pl.DataFrame(columns)


def hash_name(name: str, key: Key) -> str:
    """A keyed hash of the name of a variable."""
    subkey = key.subkey("cells of an output")
    return f"{int(encrypt(digest([pl.Series('', [name])]), subkey)[0, 0]):016x}"


def link_records(
    new: pl.DataFrame,
    old: pl.DataFrame,
    open_new: Positions | None = None,
    open_old: Positions | None = None,
    *,
    repeated: bool = False,
) -> tuple[Positions, Positions]:
    """Which records of two sets of hashed cells are the same people: positions, pair by pair.

    Parameters
    ----------
    new, old : the hashed cells of all records, which say how rare a value is.
    open_new, open_old : positions of those to be linked. Default: all.
    repeated : whether several new records may be the same old one, as copies of it.

    Examples
    --------
    >>> import polars as pl
    >>> old = pl.DataFrame({name: [(i * step) % 997 for i in range(50)]
    ...                     for name, step in zip("abcdef", (31, 57, 89, 7, 101, 13))})
    >>> new = old.reverse().head(49).with_columns(a=pl.lit(5))
    >>> left, right = link_records(new, old)
    >>> len(left), bool((right == 49 - left).all())
    (49, True)
    """
    names = [name for name in new.columns if name in old.columns]
    links: list[tuple[Positions, Positions]] = []
    open_new = np.arange(new.height) if open_new is None else open_new
    open_old = np.arange(old.height) if open_old is None else open_old
    if not names or not len(open_new) or not len(open_old):
        return np.empty(0, np.intp), np.empty(0, np.intp)
    cells, bits = _weigh_cells(new.select(names), old.select(names))
    mine, theirs = cells[: new.height], cells[new.height :]
    # A copy is looked for one by one: a few that are wrong do not matter.
    pairs = len(open_old) * (1 if repeated else len(open_new))
    # Among so many pairs some agree in log2(pairs) bits by chance; what goes beyond is evidence.
    needed = math.log2(pairs) + _MARGIN_BITS
    for block in _list_blocks(bits, max(len(open_new), len(open_old))):
        new_rows, old_rows = _match_unique(
            mine[open_new][:, block], theirs[open_old][:, block], repeated=repeated
        )
        new_rows, old_rows = open_new[new_rows], open_old[old_rows]
        agreement = (bits[new_rows] * (mine[new_rows] == theirs[old_rows])).sum(axis=1)
        new_rows, old_rows = new_rows[agreement >= needed], old_rows[agreement >= needed]
        links.append((new_rows, old_rows))
        open_new = np.setdiff1d(open_new, new_rows)
        open_old = open_old if repeated else np.setdiff1d(open_old, old_rows)
        if not len(open_new) or not len(open_old):
            break
    linked_new, linked_old = zip(*links, strict=True)
    return np.concatenate(linked_new), np.concatenate(linked_old)


def _weigh_cells(new: pl.DataFrame, old: pl.DataFrame) -> tuple[Integers, Floats]:
    """The cells of both as numbers, and how many bits each tells: by how rare its value is."""
    cells = np.concatenate([new.to_numpy(), old.to_numpy()]).astype(np.int64)
    bits = np.empty(cells.shape)
    for column in range(cells.shape[1]):
        _, codes, counts = np.unique(cells[:, column], return_inverse=True, return_counts=True)
        # A value that one record of each has is as rare as it can be.
        bits[:, column] = np.log2(len(cells) / np.maximum(counts, 2))[codes]
    return cells, bits


def _list_blocks(bits: Floats, records: int) -> Iterator[list[int]]:
    """Sets of variables that tell records apart; if one was changed, another is tried."""
    means, count = bits.mean(axis=0), bits.shape[1]
    enough = math.log2(max(records, 2)) + _BLOCK_BITS
    tried: set[tuple[int, ...]] = set()
    for stride in _STRIDES:
        for first in range(count):
            order = list(dict.fromkeys([(first + stride * k) % count for k in range(count)]))
            order += [column for column in range(count) if column not in order]
            reached = np.cumsum(means[order])
            block = sorted(order[: int(np.searchsorted(reached, enough)) + 1])
            if tuple(block) not in tried:
                tried.add(tuple(block))
                yield block
            if len(tried) == _MOST_ROUNDS:
                return


def _match_unique(new: Integers, old: Integers, *, repeated: bool) -> tuple[Positions, Positions]:
    """Rows that are equal and occur once in each of two tables, or once in the old one."""
    both = np.ascontiguousarray(np.concatenate([new, old]))
    _, codes = np.unique(both, axis=0, return_inverse=True)
    codes = codes.ravel()
    mine, theirs = codes[: len(new)], codes[len(new) :]
    sizes = [np.bincount(part, minlength=len(both)) for part in (mine, theirs)]
    single = (sizes[1] == 1) & ((sizes[0] == 1) | repeated)
    position = np.full(len(both), -1, np.intp)
    position[theirs] = np.arange(len(theirs))
    new_rows = np.flatnonzero(single[mine])
    return new_rows, position[mine[new_rows]]
