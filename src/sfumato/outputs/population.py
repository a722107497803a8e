"""The records behind an output, as keyed hashes, and what the output shows of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import polars as pl

from sfumato.cells.codes import encode
from sfumato.data import Dataset
from sfumato.data.identity import digest, digest_identifiers
from sfumato.kernels.arrays import Floats, Integers, Words
from sfumato.outputs.record_linkage import hash_cells, hash_name
from sfumato.randomness import Key, encrypt

ID = "id"
CONTENT = "content of the record"
_PERSON, _FIRST, _CELL = "person", "first", "cell "
_GROUP, _WAY, _WINDOW, _TERM = "group", "way", "window", "term"
"""How an output splits its records: into groups, into parts whose numbers are shown, or into those
on which a quantile rests and the others; and the terms of a model, which weigh them."""
ALL_RECORDS = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class Shown:
    """What an output shows beyond how many records it has.

    Parameters
    ----------
    groups : the variables that split the records into groups.
    parts : for each way of splitting the records, the part each is in; below 0 where it is hidden.
        None: by the groups, none hidden.
    grouped : whether the groups are compared although there are parts.
    sums : variables whose sums, means or squares are shown, of every part.
    windows : for each quantile that is shown, a number for each record on which it rests, the same
        within a cell; below 0 for all others.
    terms : of a model, the weighted terms of each record; the last column is the weight.
    outcome : of a model, the variable whose sums it shows.
    """

    groups: Sequence[str] = ()
    parts: Sequence[Integers] | None = None
    grouped: bool = False
    sums: Sequence[str] = ()
    windows: Sequence[Integers] = ()
    terms: Floats | None = None
    outcome: str | None = None


@dataclass(frozen=True, eq=False)
class OutputPopulation:
    """The records behind an output: a keyed hash of each, and the group it is in.

    Parameters
    ----------
    basis : what distinguishes records.
    records : the hashes; and for each way in which the output splits its records a number for
        the part a record is in, below 0 where that part is hidden.
    cells : a short keyed hash of every cell, to recognise records whose content was changed.
    persons : the hash under which each record was first seen; None: its own.
    first_copies : of copies, and of rows with one identifier, the hash of the first; of rows of one
        person (role "person") the person's. None: its own.
    sums : keyed hashes of the names of variables whose sums are shown, of every part.
    outcome : the same of the outcome of a model; "" where there is none.
    """

    basis: str
    records: pl.DataFrame
    cells: pl.DataFrame = field(default_factory=pl.DataFrame, repr=False)
    persons: pl.Series | None = field(default=None, repr=False)
    first_copies: pl.Series | None = field(default=None, repr=False)
    sums: tuple[str, ...] = ()
    outcome: str = ""

    def __len__(self) -> int:
        return self.records.height

    def fingerprint(self) -> str:
        """The same for the same records, whatever their order; it discloses nothing about them."""
        # A sum modulo 2**64 does not depend on the order.
        total = int(self.records[ID].to_numpy().sum(dtype=np.uint64))
        return hashlib.sha256(f"{len(self)}-{total}".encode()).hexdigest()[:16]

    def meets(self, other: OutputPopulation) -> bool:
        """Whether the two have a person in common."""
        return bool(np.isin(self.get_persons(), other.get_persons()).any())

    def get_persons(self) -> Words:
        """The hash under which each record was first seen."""
        persons = self.records[ID] if self.persons is None else self.persons
        return persons.to_numpy()

    def get_owners(self) -> Words:
        """The person of each record: copies, and rows of one identifier, have the same."""
        persons = self.get_persons()
        if self.first_copies is None:
            return persons.copy()
        ids, firsts = self.records[ID].to_numpy(), self.first_copies.to_numpy()
        order = np.argsort(ids)
        rows = order[np.minimum(np.searchsorted(ids, firsts, sorter=order), len(ids) - 1)]
        return np.where(ids[rows] == firsts, persons[rows], firsts)

    def by_person(self) -> OutputPopulation:
        """The same records, each under the hash under which it was first seen."""
        by_person = self.records.with_columns(pl.Series(ID, self.get_persons()))
        return replace(self, records=by_person)

    def drop_terms(self) -> OutputPopulation:
        """The same without what a model weighs records by."""
        return replace(self, records=self.records.drop(self._list(_TERM)))

    @property
    def ways(self) -> list[str]:
        """The ways in which the output splits its records; not at all comes first."""
        return [ALL_RECORDS, *self._list(_GROUP), *self.shown_ways]

    @property
    def shown_ways(self) -> list[str]:
        """The ways whose parts have their numbers shown."""
        return self._list(_WAY)

    @property
    def windows(self) -> list[str]:
        """The ways of picking the records on which a quantile rests."""
        return self._list(_WINDOW)

    @property
    def terms(self) -> Floats | None:
        """The weighted terms of a model, the weight last; None where it is no model."""
        names = self._list(_TERM)
        return self.records.select(names).to_numpy().astype(np.float64) if names else None

    def _list(self, kind: str) -> list[str]:
        return [name for name in self.records.columns if name.startswith(f"{kind} ")]

    def write(self, path: Path, key: Key) -> None:
        """Store it in a file; what a model weighs records by is encrypted."""
        firsts = self.records[ID] if self.first_copies is None else self.first_copies
        table = self.records.with_columns(
            pl.Series(_PERSON, self.get_persons()),
            firsts.alias(_FIRST),
            *(column.alias(f"{_CELL}{column.name}") for column in self.cells),
            *_mask_terms(self.records, self._list(_TERM), key),
        )
        shown = json.dumps({"sums": self.sums, "outcome": self.outcome})
        table.write_parquet(path, metadata={"basis": self.basis, "shown": shown})

    @classmethod
    def read(cls, path: Path, key: Key) -> OutputPopulation:
        """Read it back."""
        table, metadata = pl.read_parquet(path), pl.read_parquet_metadata(path)
        hashed = [name for name in table.columns if name.startswith(_CELL)]
        cells = table.select(pl.col(name).alias(name.removeprefix(_CELL)) for name in hashed)
        persons = table[_PERSON] if _PERSON in table.columns else None
        firsts = table[_FIRST] if _FIRST in table.columns else None
        records = table.drop(*hashed, _PERSON, _FIRST, strict=False)
        terms = [name for name in records.columns if name.startswith(f"{_TERM} ")]
        records = records.with_columns(
            pl.exclude(ID, *terms).cast(pl.Int64), *_mask_terms(records, terms, key)
        )
        shown = json.loads(metadata.get("shown", "{}"))
        return cls(
            metadata["basis"], records, cells, persons, firsts,
            tuple(shown.get("sums", ())), shown.get("outcome", ""),
        )  # fmt: skip


def _mask_terms(records: pl.DataFrame, names: Sequence[str], key: Key) -> list[pl.Series]:
    """The columns with a keyed pad over their bits; once more, and they are as they were.

    Terms are values of the data, and nothing in a log's folder may show any without its key.
    """
    masked, ids = [], records[ID].to_numpy()
    for index, name in enumerate(names):
        blocks = np.stack([ids, np.full_like(ids, index)], axis=1)
        pad = encrypt(blocks, key.subkey("terms of a model"))[:, 0]
        bits = np.ascontiguousarray(records[name].to_numpy()).view(np.uint64) ^ pad
        plain = records[name].dtype == pl.UInt64
        masked.append(pl.Series(name, bits.view(np.float64) if plain else bits))
    return masked


def hash_population(data: Dataset, shown: Shown, key: Key) -> OutputPopulation:
    """Hash the records of an output, and number the parts it splits them into.

    Without `parts`, or with `grouped`, these are the groups by each variable and by all of them,
    none hidden; how many records a group has is not shown then.
    """
    columns = {ID: pl.Series(data.identity.ids(key)[:, 0])}
    if shown.parts is None or shown.grouped:
        known = [name for name in shown.groups if name in data.schema]
        ways = [[name] for name in known] + ([known] if len(known) > 1 else [])
        # Only which records go together is kept, not what they have in common.
        columns |= {
            f"{_GROUP} {index}": pl.Series(
                encode(data.batch(way).to_struct()).missing_first.astype(np.int64)
            )
            for index, way in enumerate(ways)
        }
    columns |= _number_columns(_WAY, shown.parts or ()) | _number_columns(_WINDOW, shown.windows)
    if shown.terms is not None:
        columns |= _number_columns(_TERM, list(shown.terms.T))
    wanted = [name for name in (*shown.sums, shown.outcome) if name in data.columns]
    labels = {name: hash_name(name, key) for name in wanted if name is not None}
    return OutputPopulation(
        data.identity.basis,
        pl.DataFrame(columns),
        hash_cells(data, key, always=tuple(labels)),
        first_copies=_hash_first_copies(data, key),
        sums=tuple(labels[name] for name in shown.sums if name in labels),
        outcome=labels.get(shown.outcome or "", ""),
    )


def _number_columns(kind: str, columns: Sequence[Integers | Floats]) -> dict[str, pl.Series]:
    return {f"{kind} {index}": pl.Series(np.asarray(c)) for index, c in enumerate(columns)}


def _hash_first_copies(data: Dataset, key: Key) -> pl.Series | None:
    """The hash that each record has where it is the first of its copies; or that of its person."""
    identity = data.identity
    if identity.persons is not None:
        digests = identity.persons.digests[identity.persons.numbers]
        unknown = ~digests.any(axis=1)
        digests[unknown] = identity.digests[unknown]
        return pl.Series(encrypt(digests, key.subkey("record id"))[:, 0])
    if not identity.columns or not {*identity.columns} <= {*data.columns}:
        return None  # an identity from elsewhere
    columns = [data.column(name) for name in identity.columns]
    content = identity.basis == CONTENT
    digests = digest(columns) if content else digest_identifiers(columns)
    unknown = ~digests.any(axis=1)
    digests[unknown] = identity.digests[unknown]
    return pl.Series(encrypt(digests, key.subkey("record id"))[:, 0])
