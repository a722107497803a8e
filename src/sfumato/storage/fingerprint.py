"""Recognise the same records again, in another file, with other variables or a few more records.

Question: were these people released before?
Of every variable the ledger keeps a few keyed hashes of its values: those that are lowest, of all
values that occur (a bottom-k sketch). Two files share about as many of their lowest hashes as they
share values. A variable in which most values occur once, such as an identifier, a date of birth or
a measurement, is shared by files of the same people and hardly by others.

Assumes: fewer than a tenth of the records in common, or variables in which values repeat so often
that any two files share them, are not recognised. Nor is a variable that was recoded meanwhile.
The hashes need the ledger's key: without it nobody can try out values.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.data.identity import digest
from sfumato.io import frames
from sfumato.kernels.arrays import Words
from sfumato.randomness import Key, encrypt

_HASHES = 256
"""Of each variable; an overlap is then known to about three hundredths."""
_VARIABLES = 128
"""Variables that are looked at, so that a very wide file takes no minutes."""
_TELLING = 0.5
"""A variable tells people apart if a value that somebody has is new more often than this."""
_EXCESS = 0.1
"""How much more than chance two files must share."""
_SIGMA = 3.0
_FILLED = 0.5
"""Whole numbers are dense if more of those between the least and the greatest occur."""


@dataclass(frozen=True)
class Sketch:
    """The lowest keyed hashes of a variable's values.

    Parameters
    ----------
    distinct : how many different values there are.
    chance : how likely the value of one more person is there already (Good-Turing).
    hashes : the lowest of their hashes, in rising order.
    dense : whether they are whole numbers with few gaps, such as those from 1 to n, which
        everybody has who counts.
    """

    distinct: int
    chance: float
    hashes: tuple[int, ...]
    dense: bool = False

    def plain(self) -> dict[str, Any]:
        """As it is written down."""
        words = np.array(self.hashes, "<u8").tobytes()
        hashes = base64.b64encode(words).decode()
        facts = {"distinct": self.distinct, "chance": self.chance, "dense": self.dense}
        return {**facts, "hashes": hashes}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Sketch:
        """As it was written down."""
        words = np.frombuffer(base64.b64decode(plain["hashes"]), "<u8")
        return cls(
            int(plain["distinct"]),
            float(plain["chance"]),
            tuple(words.tolist()),
            bool(plain["dense"]),
        )

    def contains(self, other: Sketch) -> float:
        """The share of the smaller set of values that is in the larger one, estimated."""
        size = min(_HASHES, len(self.hashes), len(other.hashes))
        if not size:
            return 0.0
        lowest = sorted({*self.hashes, *other.hashes})[:size]
        both = {*self.hashes} & {*other.hashes}
        jaccard = sum(word in both for word in lowest) / len(lowest)
        shared = jaccard / (1 + jaccard) * (self.distinct + other.distinct)
        return min(shared / min(self.distinct, other.distinct), 1.0)

    def is_telling(self) -> bool:
        """Whether values of other people are mostly other values."""
        return self.chance < _TELLING and self.distinct > 1

    def is_of_the_same(self, other: Sketch) -> bool:
        """Whether more values are shared than chance would explain."""
        chance = max(self.chance, other.chance, 1 / _HASHES)
        margin = _EXCESS + _SIGMA * math.sqrt(chance * (1 - chance) / _HASHES)
        return self.contains(other) > chance + margin


def sketch_variables(data: Dataset, key: Key) -> dict[str, Sketch]:
    """The sketch of every variable of some records."""
    subkey = key.subkey("values of a variable")
    names = sorted(data.columns)[:_VARIABLES]
    return {name: _sketch(frames.get_column(data.frame, name), subkey) for name in names}


def _sketch(values: pl.Series, subkey: bytes) -> Sketch:
    present = values.drop_nulls()
    if present.dtype.is_nested() or present.dtype == pl.Object:
        return Sketch(0, 1.0, ())
    # Spelling and types change from export to export: 17, "17" and " 17" are one value.
    texts = frames.to_canonical_text(present).str.strip_chars().str.to_lowercase()
    counts = texts.alias("").value_counts(name="count")
    once = int((counts["count"] == 1).sum())
    chance = 1 - once / len(present) if len(present) else 1.0
    words = _hash(counts.to_series(0), subkey)
    lowest = tuple(np.sort(words)[:_HASHES].tolist())
    return Sketch(len(words), chance, lowest, _is_dense(counts.to_series(0)))


def _is_dense(texts: pl.Series) -> bool:
    numbers = texts.cast(pl.Int64, strict=False)
    if not len(numbers) or numbers.null_count():
        return False
    span = int(numbers.max()) - int(numbers.min()) + 1  # type: ignore[arg-type]
    return len(numbers) > span * _FILLED


def _hash(texts: pl.Series, subkey: bytes) -> Words:
    return encrypt(digest([texts]), subkey)[:, 0]


def are_same_records(first: Mapping[str, Sketch], second: Mapping[str, Sketch]) -> bool:
    """Whether two files hold the same people, or many of the same.

    One telling variable that is shared is enough, under any name, unless most telling variables of
    the same name are not. Numbers from 1 to n decide only where nothing else does, and only for
    files that have most variables in common.
    """
    names = [
        name
        for name in first.keys() & second.keys()
        if first[name].is_telling() and second[name].is_telling() and not first[name].dense
    ]
    if names:
        return 2 * sum(first[name].is_of_the_same(second[name]) for name in names) >= len(names)
    tellings = [
        [sketch for sketch in side.values() if sketch.is_telling()] for side in (first, second)
    ]
    shared = [
        mine for mine in tellings[0] if any(mine.is_of_the_same(theirs) for theirs in tellings[1])
    ]
    if any(not sketch.dense for sketch in shared):
        return True
    in_common = len(first.keys() & second.keys())
    return bool(shared) and 2 * in_common >= min(len(first), len(second))
