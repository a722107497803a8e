"""Records that are read batch by batch: a lazy frame, and what is done to each of its batches.

A file may be larger than memory. Steps are noted, and carried out when a batch is read; nothing is
held but one batch and, where somebody asks for it, 16 bytes a record that tell who it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl
from polars.io.plugins import register_io_source

from sfumato.data.identity import (
    Identity,
    describe_basis,
    digest,
    digest_identifiers,
    fill_gaps,
    list_identifiers,
    number_duplicates,
    sort_digests,
    split_digests,
    tell_apart,
)
from sfumato.io import frames
from sfumato.io.scratch import Spill
from sfumato.kernels.arrays import AnyIntegers, Words
from sfumato.kernels.memory import allocate
from sfumato.schema import Schema

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.data import Dataset

BATCH = 1 << 17
"""Records that are read at a time."""
_EARLY = 0.15
"""Share of the records after which it is seen whether an identifier can still tell them apart."""
_KEYS = ("__sfumato_key_0", "__sfumato_key_1")


@dataclass(frozen=True, eq=False)
class StreamStep:
    """New columns of a batch.

    Parameters
    ----------
    reads : the columns that the function needs.
    types : the columns that it returns.
    function : a batch, and which of all records it holds, to its new columns.
    placed : whether the function must know which records they are. If not, they may come in any
        order.
    """

    reads: frozenset[str]
    types: Mapping[str, pl.DataType]
    function: Callable[[pl.DataFrame, slice], pl.DataFrame]
    placed: bool

    def apply(self, batch: pl.DataFrame, rows: slice) -> pl.DataFrame:
        """The batch with its new columns."""
        new = self.function(batch, rows).select(list(self.types))
        return batch.with_columns(new.cast(pl.Schema(self.types)).get_columns())


@dataclass(frozen=True, eq=False)
class Stream:
    """A lazy frame, and the steps that each of its batches takes.

    Parameters
    ----------
    base : what is read.
    steps : what is done to it.
    """

    base: pl.LazyFrame
    steps: tuple[StreamStep, ...] = ()

    @classmethod
    def of(cls, data: Dataset) -> Stream:
        """The stream behind some data."""
        identity = data.given_identity
        return identity.stream if isinstance(identity, StreamIdentity) else cls(data.frame)

    @cached_property
    def records(self) -> int:
        """How many records there are."""
        return int(self.base.select(pl.len()).collect(engine="streaming").item())

    @cached_property
    def types(self) -> dict[str, pl.DataType]:
        """The types of all columns."""
        types = dict(self.base.collect_schema())
        for step in self.steps:
            types |= step.types
        return types

    def add(self, step: StreamStep) -> Stream:
        """With one step more."""
        longer = replace(self, steps=(*self.steps, step))
        vars(longer)["records"] = self.records  # counted once
        return longer

    def read(
        self, names: Sequence[str], *, size: int | None = None
    ) -> Iterator[tuple[slice, pl.DataFrame]]:
        """Some columns, batch by batch, and which of the records each batch holds."""
        steps, needed = self.plan(names)
        start = 0
        # Without a column there would be no records.
        base = self.base.select(sorted(needed) or self.base.collect_schema().names()[:1])
        for batch in base.collect_batches(chunk_size=size or BATCH, maintain_order=True):
            rows = slice(start, start + batch.height)
            start = rows.stop
            yield rows, apply_steps(batch, rows, steps).select(names)

    def plan(self, names: Iterable[str]) -> tuple[list[StreamStep], set[str]]:
        """The steps on which some columns depend, and the columns of the base that they need."""
        needed, steps = set(names), list[StreamStep]()
        for step in reversed(self.steps):
            if needed.isdisjoint(step.types):
                continue
            steps.insert(0, step)
            needed = (needed - set(step.types)) | step.reads
        return steps, needed

    def split(self, names: Iterable[str]) -> tuple[Stream, list[StreamStep], set[str]]:
        """What comes before the steps that take records in any order, these, and what they need."""
        steps, _ = self.plan(names)
        placed_steps = [number for number, step in enumerate(steps, 1) if step.placed]
        later = steps[placed_steps[-1] if placed_steps else 0 :]
        early = replace(self, steps=self.steps[: self.steps.index(later[0])]) if later else self
        vars(early)["records"] = self.records
        needed = set(names)
        for step in reversed(later):
            needed = (needed - set(step.types)) | step.reads
        return early, later, needed

    def to_lazy(self, names: Sequence[str]) -> pl.LazyFrame:
        """Some columns as a lazy frame, whose records are worked out when somebody collects it."""

        def read(columns: Sequence[str], size: int | None) -> Iterator[pl.DataFrame]:
            for _, batch in self.read(columns, size=size):
                yield batch

        return make_lazy({name: self.types[name] for name in names}, read)

    def arrange(
        self,
        names: Sequence[str],
        make_keys: Callable[[slice], Words],
        *,
        size: int,
        folder: Path | None = None,
    ) -> Iterator[pl.DataFrame]:
        """Some columns, the records in the order of keys of 128 bits each.

        They are put into buckets on the disk by the leading bits of their keys, and sorted bucket
        by bucket. Steps that need not know which records they have are left for later: there may
        be less to put down before them than after.
        """
        early, later, needed = self.split(names)
        bits = max(0, -(-self.records // size) - 1).bit_length()
        spill = Spill(1 << bits, folder)
        for rows, batch in early.read(sorted(needed), size=size):
            keys = make_keys(rows)
            bucket = keys[:, 0] >> np.uint64(64 - bits) if bits else np.zeros(len(keys), np.int64)
            spill.add(batch.with_columns(pl.Series(_KEYS[i], keys[:, i]) for i in (0, 1)), bucket)
        for number in range(len(spill)):
            part = spill.take(number).sort(_KEYS).drop(_KEYS)
            if part.height:
                yield apply_steps(part, slice(0, 0), later).select(names)
        spill.close()


def make_lazy(
    types: Mapping[str, pl.DataType],
    read: Callable[[Sequence[str], int | None], Iterator[pl.DataFrame]],
) -> pl.LazyFrame:
    """A lazy frame of what a function reads: some columns, so many records at a time."""

    def source(
        columns: list[str] | None, predicate: pl.Expr | None, most: int | None, size: int | None
    ) -> Iterator[pl.DataFrame]:
        remaining = most
        for batch in read(columns or list(types), size):
            part = batch if remaining is None else batch.head(remaining)
            yield part if predicate is None else part.filter(predicate)
            if remaining is not None:
                remaining -= part.height
                if remaining <= 0:
                    return

    return register_io_source(source, schema=dict(types), is_pure=True)


def apply_steps(batch: pl.DataFrame, rows: slice, steps: Iterable[StreamStep]) -> pl.DataFrame:
    """A batch after some steps."""
    for step in steps:
        batch = step.apply(batch, rows)
    return batch


def number_records(
    data: Dataset, names: Sequence[str], number: Callable[[Dataset], AnyIntegers]
) -> AnyIntegers:
    """A number, or a few, of each record, from some of its variables: of all batches together."""
    if not frames.is_lazy(data.frame):
        return number(data)
    stream, schema = Stream.of(data), Schema({name: data.schema[name] for name in names})
    numbers: AnyIntegers | None = None
    for rows, batch in stream.read(names):
        part = number(replace(data, frame=batch, schema=schema, given_identity=None))
        if numbers is None:
            numbers = allocate((stream.records, *part.shape[1:]), part.dtype)
        numbers[rows] = part
    return np.empty(0, np.int32) if numbers is None else numbers


class StreamIdentity(Identity):
    """The ids of records that are read batch by batch, and the stream that they come in."""

    def __init__(self, stream: Stream, work_out: Callable[[], Any]) -> None:
        super().__init__(work_out)
        self.stream = stream
        self.content: bytes | None = None
        """SHA-256 of the sorted digests of the records, where the ids were made from these."""

    @classmethod
    def known_in(cls, stream: Stream, identity: Identity) -> StreamIdentity:
        """Ids that are known already, of the records of a stream."""
        return cls(stream, lambda: identity._digests)  # noqa: SLF001 - of the base class

    def move_to(self, stream: Stream) -> StreamIdentity:
        """The same ids, of the same records after a step."""
        return StreamIdentity(stream, lambda: self._digests)


def identify_stream(schema: Schema, stream: Stream) -> StreamIdentity:
    """Give every record its identity, in bounded memory; the same as `identify` gives."""

    def work_out() -> Any:
        names, digests = _find_identifiers(schema, stream)
        if digests is None:
            content = digest_content(stream, sorted(schema))
            total = hashlib.sha256()
            words = number_duplicates(content, lambda part: total.update(_to_bytes(part)))
            identity.content = total.digest()
        else:
            words = fill_gaps(digests, lambda rows: _digest_some(schema, stream, rows))
        known = Identity.from_digests(describe_basis(names), words, names or tuple(sorted(schema)))
        return known._digests  # noqa: SLF001 - of the base class

    identity = StreamIdentity(stream, work_out)
    return identity


def digest_stream(
    stream: Stream, names: Sequence[str], digest_batch: Callable[[list[pl.Series]], Words]
) -> Words:
    """128 bits a record from some columns."""
    words: Words = allocate((stream.records, 2), np.uint64)
    for rows, batch in stream.read(names):
        words[rows] = digest_batch([frames.get_column(batch, name) for name in names])
    return words


def digest_values(data: Dataset) -> bytes:
    """What tells these values from others, whatever the file and the order of rows."""
    identity = data.identity
    assert isinstance(identity, StreamIdentity)  # noqa: S101 - the frame is lazy
    if identity.digests.size and identity.content is not None and not identity.stream.steps:
        return identity.content
    return hash_in_order(digest_content(identity.stream, sorted(data.columns)))


def digest_content(stream: Stream, names: Sequence[str]) -> Words:
    """128 bits a record from the values of these columns; equal records have equal ones."""
    return digest_stream(stream, names, digest)


def hash_in_order(words: Words) -> bytes:
    """SHA-256 of digests in rising order: of the same records the same, in whatever order."""
    total = hashlib.sha256()
    for rows in split_digests(words):
        part = words[rows]
        total.update(_to_bytes(part[sort_digests(part)]))
    return total.digest()


def _to_bytes(words: Words) -> memoryview:
    return words.astype(">u8").data.cast("B") if words.size else memoryview(b"")


def _digest_some(schema: Schema, stream: Stream, rows: npt.NDArray[np.intp]) -> Words:
    """The content of some records, in this order."""
    names, words = sorted(schema), np.empty((len(rows), 2), np.uint64)
    order = np.argsort(rows, kind="stable")
    ranked = rows[order]
    for span, batch in stream.read(names):
        first, last = np.searchsorted(ranked, [span.start, span.stop])
        if first < last:
            some = batch[ranked[first:last] - span.start]
            words[order[first:last]] = digest(frames.get_column(some, name) for name in names)
    return words


def _find_identifiers(schema: Schema, stream: Stream) -> tuple[tuple[str, ...], Words | None]:
    stated, sets = list_identifiers(schema)
    for names in sets:
        if stated:
            return names, digest_stream(stream, names, digest_identifiers)
        digests = _digest_if_apart(stream, names)
        if digests is not None:
            return names, digests
    return (), None


def _digest_if_apart(stream: Stream, names: Sequence[str]) -> Words | None:
    """The digests of identifiers that tell nearly all records apart; None where they do not."""
    words: Words = allocate((stream.records, 2), np.uint64)
    open_until = _EARLY * stream.records
    for rows, batch in stream.read(names):
        words[rows] = digest_identifiers([frames.get_column(batch, name) for name in names])
        if open_until <= rows.stop < stream.records:
            # Even if all others differed, they could be too few.
            open_until = stream.records
            remaining = stream.records - rows.stop
            if not tell_apart(_count_distinct(words[: rows.stop]) + remaining, stream.records):
                return None
    return words if tell_apart(_count_distinct(words), len(words)) else None


def _count_distinct(digests: Words) -> int:
    """How many different identifiers there are; zero is none."""
    distinct = 0
    for rows in split_digests(digests):
        part = digests[rows]
        known = np.sort(part[part.any(axis=1), 0])
        distinct += int((known[1:] != known[:-1]).sum()) + min(len(known), 1)
    return distinct
