"""Recognise the same people by their numbers, and by what else is known of them.

Question: are those who have these numbers the people who had them before?
Of all who have an identifier the ledger keeps the few whose keyed hash is lowest: the same few in
every file they are in. Of each it keeps a short keyed hash of every value. People of two files who
have the same hash, and agree in something else far more often than strangers would, are the same.
Running numbers alone prove nothing: two studies may both begin at P0001.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.data.identity import digest, digest_identifiers
from sfumato.io import frames
from sfumato.kernels.arrays import Floats, Positions, Words
from sfumato.randomness import Key, encrypt, fold_name

Likeness = Literal["same", "others", "unknown"]
"""Whether two files are of the same people, of others, or of people whom nothing tells apart."""

PEOPLE = 256
"""So many are kept of each file; an overlap is then known to about three hundredths."""
_MET = 12
"""People of two samples that must meet before what is known of them says that they are others."""
_SHARED = 0.1
"""The share of the smaller sample that must meet."""
_AGREEMENT = 0.5
"""How far beyond chance they agree in some variable if they are the same (Cohen's kappa)."""
_SURPRISE = 1e-6
"""The chance with which other people agree as well as that, in all variables together."""
_TESTS = 2
"""Variables that must be able to tell before none of them agreeing means other people: income
alone changes from year to year."""


class _Agreement(NamedTuple):
    """How well the people who met agree in one variable, and the chance of that among strangers."""

    kappa: float
    chance: float


@dataclass(frozen=True)
class PeopleSample:
    """The people whose keyed hash is lowest, with what is known of them.

    Parameters
    ----------
    hashes : of the people, in rising order.
    regular : whether their numbers are evenly spaced, so that others may have them too.
    cells : by variable a short hash of each one's values, whatever the order of their rows.
    """

    hashes: tuple[int, ...]
    regular: bool
    cells: Mapping[str, tuple[int, ...]]

    def plain(self) -> dict[str, Any]:
        """As it is written down."""
        cells = {name: _pack(words, "<u4") for name, words in self.cells.items()}
        return {"hashes": _pack(self.hashes, "<u8"), "regular": self.regular, "cells": cells}

    @classmethod
    def from_plain(cls, stored: Mapping[str, Any]) -> PeopleSample:
        """As it was written down."""
        cells = {name: _unpack(words, "<u4") for name, words in stored["cells"].items()}
        return cls(_unpack(stored["hashes"], "<u8"), bool(stored["regular"]), cells)

    def compare(self, other: PeopleSample) -> Likeness | None:
        """Whether those who are in both are the same people; None where too few are in both."""
        mine, theirs = np.array(self.hashes, np.uint64), np.array(other.hashes, np.uint64)
        _, here, there = np.intersect1d(mine, theirs, return_indices=True)
        # Beyond the end of a full sample nobody was kept, so nobody there can meet.
        ends = [side[-1] for side in (mine, theirs) if len(side) == PEOPLE]
        among = min(
            int((side <= end).sum()) for side in (mine, theirs) for end in ends or side[-1:]
        )
        if len(here) <= max(_SHARED * among, 1):
            return None
        agreements = [
            agreement
            for name in sorted(self.cells.keys() & other.cells.keys())
            if (agreement := _compare_cells(self.cells[name], here, other.cells[name], there))
        ]
        if _agree(agreements) or not (self.regular and other.regular):
            return "same"  # nobody else has numbers that are drawn, whatever was recoded since
        if len(here) < _MET or len(agreements) < _TESTS:
            return "unknown"
        return "others"


def _compare_cells(
    mine: Sequence[int], here: Positions, theirs: Sequence[int], there: Positions
) -> _Agreement | None:
    """How well a variable agrees in the people who met; None of one that is the same for all."""
    first, second = np.array(mine)[here], np.array(theirs)[there]
    shares = [np.unique(side, return_counts=True) for side in (first, second)]
    (values, counts), (others, other_counts) = shares
    _, a, b = np.intersect1d(values, others, return_indices=True)
    chance = float((counts[a] * other_counts[b]).sum()) / len(first) ** 2
    if len(values) == 1 or len(others) == 1:
        return None
    from scipy.stats import binom

    equal = int((first == second).sum())
    kappa = (equal / len(first) - chance) / (1 - chance)
    return _Agreement(kappa, float(binom.sf(equal - 1, len(first), chance)))


def _agree(agreements: Sequence[_Agreement]) -> bool:
    """Whether the people agree in some variable as the same people do, and not by accident."""
    if not any(agreement.kappa >= _AGREEMENT for agreement in agreements):
        return False
    from scipy.stats import combine_pvalues

    # Fisher's method; a chance of 0 is one that a float cannot hold.
    chances: Floats = np.clip([agreement.chance for agreement in agreements], 1e-300, 1.0)
    return float(combine_pvalues(chances).pvalue) < _SURPRISE


def sample_people(data: Dataset, names: Sequence[str], key: Key, *, regular: bool) -> PeopleSample:
    """The sample of who is in the data.

    Parameters
    ----------
    names : the variables that say who somebody is.
    regular : whether their values are evenly spaced.
    """
    digests = digest_identifiers([data.column(name) for name in names])
    known = digests.any(axis=1)
    hashes = encrypt(digests, key.subkey("people"))[:, 0]
    lowest = np.unique(hashes[known])[:PEOPLE]
    rows = np.flatnonzero(known & np.isin(hashes, lowest))
    persons, subkey = np.searchsorted(lowest, hashes[rows]), key.subkey("what is known of people")
    cells = {
        fold_name(name): tuple(
            _hash_cells(data.column(name).gather(rows), persons, len(lowest), subkey).tolist()
        )
        for name in sorted(data.columns)
        if name not in names
    }
    return PeopleSample(tuple(lowest.tolist()), regular, cells)


def spell(values: pl.Series) -> pl.Series:
    """Spelling and types change from export to export: 17, "17" and " 17" are one value."""
    return frames.to_canonical_text(values).str.strip_chars().str.to_lowercase()


def _hash_cells(values: pl.Series, persons: Positions, count: int, subkey: bytes) -> Words:
    """A short hash of the different values of each person; a sum has no order."""
    if values.dtype.is_nested() or values.dtype == pl.Object:
        return np.zeros(count, np.uint64)
    words = encrypt(digest([spell(values).alias("")]), subkey)[:, 0]
    different = np.unique(np.stack([persons.astype(np.uint64), words], axis=1), axis=0)
    hashes = np.zeros(count, np.uint64)
    np.add.at(hashes, different[:, 0].astype(np.intp), different[:, 1])
    return hashes >> np.uint64(32)


def _pack(words: Sequence[int], dtype: str) -> str:
    return base64.b64encode(np.array(words, dtype).tobytes()).decode()


def _unpack(words: str, dtype: str) -> tuple[int, ...]:
    return tuple(np.frombuffer(base64.b64decode(words), dtype).tolist())
