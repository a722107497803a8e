"""Keys between tables that nobody has declared: columns that contain each other's values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.data.identity import digest_identifiers, match_identities
from sfumato.data.linked import ForeignKey
from sfumato.kernels.arrays import Words
from sfumato.randomness import fold_name
from sfumato.schema.inference.repeats import names_person

_MOST_MISSING = 0.5
"""The share of rows that may lead nowhere where the names agree. They stop protect, in words."""
_SEVERAL = 5
"""Different texts from which on all of them are hardly in another column by chance."""


@dataclass(frozen=True)
class SuggestedKey:
    """A key that values speak for.

    Parameters
    ----------
    key : from the many to the one.
    orphans : rows of the many that lead nowhere.
    reason : why it was suggested.
    """

    key: ForeignKey
    orphans: int
    reason: str


@dataclass(frozen=True, eq=False)
class _KeyCandidate:
    """A column that may be one side of a key."""

    table: str
    variable: str
    words: Words
    is_text: bool

    @property
    def known(self) -> Words:
        """The digests of the values that are there."""
        return self.words[self.words.any(axis=1)]

    @property
    def names_rows(self) -> bool:
        """Whether each row has a value of its own."""
        return len(self.known) == len(self.words) == len(np.unique(self.words, axis=0))


def suggest_keys(tables: Mapping[str, Dataset]) -> list[SuggestedKey]:
    """The keys between some tables, as far as names and values show them.

    A key leads to a variable with a value for each row. Its values are among those, and the names
    agree (`patient`, or `patient_id` and the table `patients`), or they are texts that hardly
    agree by chance.

    Examples
    --------
    >>> patients = Dataset(pl.DataFrame({"id": [1, 2, 3], "age": [3, 1, 2]}))
    >>> visits = Dataset(pl.DataFrame({"patient_id": [3, 3, 1]}))
    >>> [str(s.key) for s in suggest_keys({"patients": patients, "visits": visits})]
    ['visits.patient_id']
    """
    columns = [column for name, data in tables.items() for column in _list_columns(name, data)]
    targets = [column for column in columns if column.names_rows]
    suggestions: list[SuggestedKey] = []
    for column in columns:
        fitting = [
            (rank, target, orphans)
            for target in targets
            if target.table != column.table
            and (rank := _rank(column, target)) is not None
            and (orphans := _count_orphans(column, target)) is not None
        ]
        # The best name first; then the table with more rows, of which this one is a part.
        fitting.sort(key=lambda item: (item[0], -len(item[1].words), item[1].table))
        for rank, target, orphans in fitting[:1]:
            if _is_reverse_key(column, target, rank):
                continue
            key = ForeignKey(column.table, column.variable, target.table, target.variable)
            suggestions.append(
                SuggestedKey(key, orphans, _explain(rank, orphans, len(column.words)))
            )
    return _drop_circles(suggestions)


@dataclass(frozen=True)
class KeyCheck:
    """How well a key that somebody names holds in the data.

    Parameters
    ----------
    rows : of the table of the many.
    orphans : those of them that lead nowhere.
    repeated : rows of the table of the one that share a value with another, or have none.
    """

    rows: int
    orphans: int
    repeated: int


def check_key(tables: Mapping[str, Dataset], key: ForeignKey) -> KeyCheck:
    """Count the rows that a key leads nowhere, and those that it cannot tell apart.

    Examples
    --------
    >>> patients = Dataset(pl.DataFrame({"id": [1, 2, 2]}))
    >>> visits = Dataset(pl.DataFrame({"patient": [2, 1, 7]}))
    >>> key = ForeignKey("visits", "patient", "patients", "id")
    >>> check_key({"patients": patients, "visits": visits}, key)
    KeyCheck(rows=3, orphans=1, repeated=1)
    """
    referring, referenced = (
        digest_identifiers([tables[table].column(variable)])
        for table, variable in ((key.table, key.variable), (key.to_table, key.to_variable))
    )
    known = referenced[referenced.any(axis=1)]
    rows = match_identities(referenced, referring)
    rows[~referring.any(axis=1)] = -1
    repeated = len(referenced) - len(np.unique(known, axis=0))
    return KeyCheck(rows=len(referring), orphans=int((rows < 0).sum()), repeated=repeated)


def _list_columns(table: str, data: Dataset) -> Iterator[_KeyCandidate]:
    for name in data.columns:
        values = data.column(name)
        is_text = values.dtype in (pl.String, pl.Categorical, pl.Enum)
        if (is_text or values.dtype.is_integer()) and values.count():
            yield _KeyCandidate(table, name, digest_identifiers([values]), is_text)


def _rank(column: _KeyCandidate, target: _KeyCandidate) -> int | None:
    """How well the names agree, 0 best; None where nothing speaks for a key."""
    mine, theirs = fold_name(column.variable), fold_name(target.variable)
    owner = fold_name(target.table)
    singular = owner.removesuffix("s")
    named = {owner, singular, *(f"{o}{j}{theirs}" for o in (owner, singular) for j in ("", "_"))}
    if mine == theirs:
        # `patient` of `patients` rather than `patient` of `addresses`; `id` says nothing.
        return 0 if singular in mine else 1 if mine != "id" else None
    if mine in {fold_name(name) for name in named}:
        return 0
    if column.is_text and target.is_text and _are_telling(column):
        return 2
    return None


def _are_telling(column: _KeyCandidate) -> bool:
    return len(np.unique(column.known, axis=0)) >= _SEVERAL


def _count_orphans(column: _KeyCandidate, target: _KeyCandidate) -> int | None:
    """Rows that lead nowhere; None where too many do for a key."""
    rows = match_identities(target.words, column.words)
    rows[~column.words.any(axis=1)] = -1
    orphans = int((rows < 0).sum())
    allowed = _MOST_MISSING * len(rows) if _rank(column, target) != 2 else 0  # noqa: PLR2004
    return orphans if orphans <= allowed else None


def _is_reverse_key(column: _KeyCandidate, target: _KeyCandidate, rank: int) -> bool:
    """Whether the key rather leads the other way: both name their rows, and the other has more."""
    if not column.names_rows:
        return False
    back = _rank(target, column)
    if back is None:
        return False
    return (back, -len(column.words), column.table) < (rank, -len(target.words), target.table)


def _explain(rank: int, orphans: int, rows: int) -> str:
    reason = ("its name is that of the table", "the names are the same", "all values are there")[
        rank
    ]
    return f"{reason}; {orphans:,} of {rows:,} rows lead nowhere" if orphans else reason


def _drop_circles(suggestions: list[SuggestedKey]) -> list[SuggestedKey]:
    """The keys less those that would lead back to where others come from."""
    acyclic: list[SuggestedKey] = []
    for suggestion in sorted(suggestions, key=lambda s: (s.orphans > 0, s.key)):
        reached, waiting = set[str](), [suggestion.key.to_table]
        while waiting:
            table = waiting.pop()
            if table not in reached:
                reached.add(table)
                waiting += [s.key.to_table for s in acyclic if s.key.table == table]
        if suggestion.key.table not in reached:
            acyclic.append(suggestion)
    return sorted(acyclic, key=lambda s: s.key)


def suggest_person(tables: Mapping[str, Dataset], keys: list[SuggestedKey]) -> str | None:
    """The variable that says who a person is: that to which most tables lead; None without keys."""

    def count(target: tuple[str, str]) -> int:
        reached, waiting = set[str](), [target[0]]
        while waiting:
            table = waiting.pop()
            mine = [s.key.table for s in keys if s.key.to_table == table]
            waiting += [name for name in mine if name not in reached]
            reached.update(mine)
        return len(reached)

    targets = sorted({(s.key.to_table, s.key.to_variable) for s in keys})
    targets = [target for target in targets if target[0] in tables]
    if not targets:
        return None
    best = max(targets, key=lambda target: (names_person(target[1]), count(target)))
    return ".".join(best)
