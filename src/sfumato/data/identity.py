"""The identity of records: an id that follows the person, not the row.

Question: how does a record keep its noise when rows are shuffled or a file is exported again?
The id comes from a direct identifier that is unique, else from the record's whole content, with
a counter for identical records (these are interchangeable). Numbers count by value, so that 5,
5.0 and a 32-bit 5 are the same; variables count by name, so that their order does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.kernels.arrays import Words
from sfumato.kernels.memory import allocate
from sfumato.randomness import KEY_BYTES, SLICE, Key, encrypt
from sfumato.schema import Schema

# Public and fixed: this only mixes. Secrecy comes from the key, in `Identity.ids`.
_MIX = bytes(range(KEY_BYTES))
_BLOCK = 16
_BATCH = 1 << 17
"""Records for which ordinary memory is quicker to get."""


@dataclass(frozen=True, eq=False)
class Identity:
    """What makes each record itself: 128 bits a record, and where they come from."""

    basis: str
    digests: Words

    def ids(self, key: Key) -> Words:
        """The keyed record ids: without the key they say nothing of the content."""
        # A batch is not worth a mapping of its own.
        new = np.empty if len(self.digests) <= _BATCH else allocate
        out, subkey = new(self.digests.shape, np.uint64), key.subkey("record id")
        for start in range(0, len(out), SLICE):
            out[start : start + SLICE] = encrypt(self.digests[start : start + SLICE], subkey)
        return out

    def take(self, positions: npt.NDArray[np.intp] | slice) -> Identity:
        """Some of the records, in this order."""
        return Identity(self.basis, self.digests[positions])

    def total(self) -> str:
        """A digest of all records together, whatever their order."""
        low, high = (int(self.digests[:, word].sum(dtype=np.uint64)) for word in (0, 1))
        return f"{len(self.digests):x}-{high:016x}{low:016x}"


def identify(schema: Schema, column: Callable[[str], pl.Series]) -> Identity:
    """Give every record its identity. `column` returns a variable by name."""
    direct = schema.having("direct")
    for name in direct:
        values = column(name)
        if values.null_count() == 0 and _are_unique(digests := digest([values])):
            return Identity(f"direct identifier '{name}'", digests)
    if len(direct) > 1 and _are_unique(digests := digest(column(name) for name in sorted(direct))):
        together = ", ".join(f"'{name}'" for name in sorted(direct))
        return Identity(f"direct identifiers {together} together", digests)
    # Column by column, so that no second copy of the data is made.
    content = digest(column(name) for name in sorted(schema))
    return Identity("content of the record", _number_duplicates(content))


def _are_unique(digests: Words) -> bool:
    first = np.sort(digests[:, 0])
    return len(first) > 0 and not (first[1:] == first[:-1]).any()


def digest(columns: Iterable[pl.Series]) -> Words:
    """128 bits for each record's values in these columns, in this order."""
    state: Words | None = None
    for values in columns:
        if state is None:
            state = allocate((len(values), 2), np.uint64)
            state[:] = 0
        name = _digest_texts(pl.Series([values.name]))[0]
        # A slice at a time: it stays in the processor's cache, and its memory is used again.
        for start in range(0, len(values), SLICE):
            some = slice(start, start + SLICE)
            token = encrypt(_digest_values(values[some]) ^ name, _MIX)
            state[some] = encrypt(state[some] ^ token, _MIX)
    return np.empty((0, 2), np.uint64) if state is None else state


def _digest_values(values: pl.Series) -> Words:
    dtype = values.dtype
    if dtype.is_integer() or dtype.is_float() or dtype.is_decimal() or dtype == pl.Boolean:
        return _digest_numbers(values)
    if dtype == pl.Date:
        return _digest_words(values.cast(pl.Datetime("us")).to_physical(), kind=2)
    if isinstance(dtype, pl.Datetime):
        return _digest_words(values.dt.cast_time_unit("us").to_physical(), kind=2)
    if dtype in (pl.Time, pl.Duration):
        return _digest_words(values.to_physical(), kind=3)
    if dtype == pl.Binary:
        return _digest_texts(values.bin.encode("hex"))
    return _digest_texts(values.cast(pl.String))


def _digest_numbers(values: pl.Series) -> Words:
    if values.dtype == pl.Float32:
        # As it reads in a file: 0.1 is 0.1, not the nearest number of half the length.
        values = values.cast(pl.String).cast(pl.Float64)
    exact = values.cast(pl.Float64, strict=False).fill_nan(None)
    numbers = exact.fill_null(0.0).to_numpy() + 0.0  # minus zero is zero
    bits = pl.Series(numbers.view(np.int64))
    out = _digest_words(bits.set(exact.is_null(), None), kind=1)
    if values.dtype.is_integer():
        # Whole numbers beyond the reach of floats count by themselves.
        same = (exact.cast(pl.Int64, strict=False) == values).fill_null(value=False)
        beyond = (~same & values.is_not_null()).to_numpy()
        if beyond.any():
            out[beyond] = _digest_texts(values.cast(pl.String))[beyond]
    return out


def _digest_words(values: pl.Series, *, kind: int) -> Words:
    out = np.empty((len(values), 2), np.uint64)
    out[:, 0] = values.fill_null(0).to_numpy().astype(np.int64, copy=False).view(np.uint64)
    out[:, 1] = np.where(values.is_null().to_numpy(), np.uint64(0), np.uint64(kind))
    return out


def _digest_texts(values: pl.Series) -> Words:
    """AES in a chain over the 16-byte blocks of each text, its length first (a CBC-MAC)."""
    from sfumato.kernels.digests import fold_texts

    offsets, data = get_text_bytes(values)
    lengths = np.diff(offsets)
    state = np.zeros((len(lengths), 2), np.uint64)
    state[:, 0] = lengths
    state[:, 1] = 5
    rows = np.arange(len(lengths))
    fold_texts(offsets, data, rows, block=0, state=state)
    state = encrypt(state, _MIX)
    rows, block = rows[lengths > _BLOCK], 1
    while len(rows):
        part = state[rows]
        fold_texts(offsets, data, rows, block=block, state=part)
        state[rows] = encrypt(part, _MIX)
        block += 1
        rows = rows[lengths[rows] > _BLOCK * block]
    state[values.is_null().to_numpy()] = 0
    return state


def get_text_bytes(values: pl.Series) -> tuple[np.ndarray, np.ndarray]:
    """The UTF-8 bytes of a text column as one buffer, and where each text begins and ends."""
    import pyarrow as pa

    array = values.fill_null("").to_arrow(compat_level=pl.CompatLevel.oldest())
    array = array.cast(pa.large_string())
    _, offsets, data = array.buffers()
    starts = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    size = data.size if data is not None else 0
    return starts, np.frombuffer(data, np.uint8) if size else np.empty(0, np.uint8)


def _number_duplicates(digests: Words) -> Words:
    """Distinguish identical records by a counter; which of them gets which does not matter."""
    order = np.argsort(digests[:, 0], kind="stable")
    first = digests[order, 0]
    if not (first[1:] == first[:-1]).any():
        return digests
    order = np.lexsort((digests[:, 1], digests[:, 0]))
    sorted_digests = digests[order]
    new = np.ones(len(order), bool)
    new[1:] = (sorted_digests[1:] != sorted_digests[:-1]).any(axis=1)
    starts = np.flatnonzero(new)
    counter = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    out = sorted_digests.copy()
    out[:, 1] ^= counter.astype(np.uint64)
    again = counter > 0
    out[again] = encrypt(out[again], _MIX)
    result = np.empty_like(out)
    result[order] = out
    return result


def match_identities(known: Words, wanted: Words) -> npt.NDArray[np.intp]:
    """Where each wanted record stands among the known ones; -1 where it does not."""
    if not len(known):
        return np.full(len(wanted), -1, np.intp)
    order = np.lexsort((known[:, 1], known[:, 0]))
    keys, sought = (_convert_sortable(words) for words in (known[order], wanted))
    index = np.searchsorted(keys, sought).clip(0, len(keys) - 1)
    return np.where(keys[index] == sought, order[index], -1)


def _convert_sortable(words: Words) -> np.ndarray:
    # Big-endian bytes compare like the numbers do; one 16-byte value a record.
    return np.ascontiguousarray(words.astype(">u8")).view("S16").ravel()
