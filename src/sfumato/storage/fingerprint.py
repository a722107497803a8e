"""Recognise the same records again, in another file, with other variables or a few more records.

Question: were these people released before?
People come first: those who have an identifier are looked for by it, see `people`. Then, of every
variable and of whole records, the ledger keeps a few keyed hashes of the values: those that are
lowest, of all that occur (a bottom-k sketch). Two files share about as many of their lowest hashes
as they share values. A variable in which most values are one person's, such as a patient number, a
date of birth or a measurement, is shared by files of the same people and hardly by others. A number
that stands in all rows of a patient is one person's: units are counted, not rows.

Values that are counted through or evenly spaced, such as the numbers from 1 to n or the days of a
year, tell nobody apart: other people have them too.

Assumes: fewer than a tenth of the records in common are not recognised. Nor is a variable that was
recoded meanwhile: if most of those that tell people apart were, more than half of the records must
be the same. Where nothing tells people apart, the answer is "unknown", which turns a light amber.
The hashes need the ledger's key: without it nobody can try out values.
"""

from __future__ import annotations

import base64
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.data.identity import digest
from sfumato.engines import engine_for
from sfumato.io import frames
from sfumato.kernels.arrays import Words
from sfumato.randomness import Key, encrypt, fold_name
from sfumato.schema import IDENTIFYING
from sfumato.storage.people import PEOPLE, Likeness, PeopleSample, sample_people, spell
from sfumato.units import Units

_HASHES = PEOPLE
"""Of each variable, as many as people are kept."""
_VARIABLES = 128
"""Variables that are looked at one by one, so that a very wide file takes no minutes: those that
name people first. Whole records are looked at over all variables."""
_TELLING = 0.5
"""A variable tells people apart if a value that somebody has is new more often than this."""
_EXCESS = 0.1
"""How much more than chance two files must share."""
_MOST_OF_THEM = 0.5
"""How much more if most variables differ: one that is shared must be shared by most people."""
_SIGMA = 3.0
_FILLED = 0.5
"""Whole numbers are dense if more of those between the least and the greatest occur."""
_SPACED = 0.5
"""Values are regular if more of them than this have the same distance from the next."""
_ALIKE = 0.5
"""Share of the different records of one file that are in the other if both may be of the same
people, where so many records are alike that nothing tells them apart."""


@dataclass(frozen=True)
class Sketch:
    """The lowest keyed hashes of a variable's values.

    Parameters
    ----------
    distinct : how many different values there are.
    chance : how likely the value of one more person is there already (Good-Turing).
    hashes : the lowest of their hashes, in rising order.
    regular : whether they are evenly spaced, such as P001, P002 or the days of a year, which
        other people may have too.
    dense : whether they are whole numbers with few gaps, such as those from 1 to n, which
        everybody has who counts.
    """

    distinct: int
    chance: float
    hashes: tuple[int, ...]
    regular: bool = False
    dense: bool = False

    def plain(self) -> dict[str, Any]:
        """As it is written down."""
        words = np.array(self.hashes, "<u8").tobytes()
        hashes = base64.b64encode(words).decode()
        names = ("distinct", "chance", "regular", "dense")
        return {**{name: getattr(self, name) for name in names}, "hashes": hashes}

    @classmethod
    def from_plain(cls, stored: Mapping[str, Any]) -> Sketch:
        """As it was written down."""
        words = np.frombuffer(base64.b64decode(stored["hashes"]), "<u8")
        return cls(
            int(stored["distinct"]),
            float(stored["chance"]),
            tuple(words.tolist()),
            bool(stored.get("regular", stored["dense"])),  # older ledgers do not tell
            bool(stored["dense"]),
        )

    def contains(self, other: Sketch) -> float:
        """The share of the smaller set of values that is in the larger one, estimated."""
        both = self._set & other._set
        if not both:
            return 0.0
        size = min(_HASHES, len(self.hashes), len(other.hashes))
        lowest = sorted(self._set | other._set)[:size]
        jaccard = sum(word in both for word in lowest) / len(lowest)
        shared = jaccard / (1 + jaccard) * (self.distinct + other.distinct)
        return min(shared / min(self.distinct, other.distinct), 1.0)

    @cached_property
    def _set(self) -> frozenset[int]:
        return frozenset(self.hashes)

    def is_telling(self) -> bool:
        """Whether values of other people are mostly other values."""
        return self.chance < _TELLING and self.distinct > 1

    def is_of_the_same(self, other: Sketch, excess: float = _EXCESS) -> bool:
        """Whether more values are shared than chance would explain, by so much."""
        chance = max(self.chance, other.chance, 1 / _HASHES)
        margin = excess + _SIGMA * math.sqrt(chance * (1 - chance) / _HASHES)
        return self.contains(other) > chance + margin


@dataclass(frozen=True)
class Fingerprint:
    """By what the people of a file are recognised in another.

    Parameters
    ----------
    people : those who have an identifier; None where nobody has, or they are not in memory.
    records : whole records, without what names people.
    sketches : by variable.
    """

    people: PeopleSample | None
    records: Sketch
    sketches: Mapping[str, Sketch]

    def plain(self) -> dict[str, Any]:
        """As it is written down."""
        return {
            "people": None if self.people is None else self.people.plain(),
            "records": self.records.plain(),
            "sketches": {name: sketch.plain() for name, sketch in self.sketches.items()},
        }

    @classmethod
    def from_plain(cls, stored: Mapping[str, Any]) -> Fingerprint:
        """As it was written down."""
        people, sketches = stored["people"], stored["sketches"]
        return cls(
            None if people is None else PeopleSample.from_plain(people),
            Sketch.from_plain(stored["records"]),
            {name: Sketch.from_plain(sketch) for name, sketch in sketches.items()},
        )

    def compare(self, other: Fingerprint) -> Likeness:
        """Whether two files are of the same people, or many of the same, or may be so.

        Values that nobody else has speak first, then who has which number, then what is counted
        through: there the cells of both must decide.
        """
        if share_people(self.sketches, other.sketches) or self._share_records(other):
            return "same"
        if self.people is not None and other.people is not None:
            likeness = self.people.compare(other.people)
            if likeness is not None:
                return likeness
        if share_numbers(self.sketches, other.sketches):
            return "same"
        return "unknown" if self._cannot_tell(other) else "others"

    def _share_records(self, other: Fingerprint) -> bool:
        """Whether whole records are shared that nobody else has."""
        mine, theirs = self.records, other.records
        told = all(side.is_telling() and not side.regular for side in (mine, theirs))
        return told and mine.is_of_the_same(theirs)

    def _cannot_tell(self, other: Fingerprint) -> bool:
        """Whether nothing tells people apart, and the records of both files are alike."""
        told = [*_list_telling(self.sketches).values(), *_list_telling(other.sketches).values()]
        if any(not sketch.regular for sketch in told):
            return False
        return (
            not (self.records.is_telling() and other.records.is_telling())
            and self.records.contains(other.records) >= _ALIKE
        )


def take_fingerprint(data: Dataset, key: Key) -> Fingerprint:
    """By what the people of some records are recognised elsewhere."""
    sketches = sketch_variables(data, key)
    if not frames.is_in_memory(data.frame):
        return Fingerprint(None, Sketch(0, 1.0, ()), sketches)
    named = (data.schema.person,) if data.schema.person is not None else data.identity.columns
    has_number = {*named} <= {*data.columns} and not data.identity.of_content
    people = None
    if named and has_number:
        regular = all(name in sketches and sketches[name].regular for name in named)
        people = sample_people(data, named, key, regular=regular)
    return Fingerprint(people, _sketch_records(data, key), sketches)


def _sketch_records(data: Dataset, key: Key) -> Sketch:
    """The sketch of whole records, less what names people: they may have been numbered anew."""
    names = sorted(name for name in data.columns if data.schema[name].role not in IDENTIFYING)
    if not names:
        return Sketch(0, 1.0, ())
    # By their folded names, so that a new spelling of a heading changes nothing.
    columns = [data.column(name) for name in names]
    plain = [c for c in columns if not c.dtype.is_nested() and c.dtype != pl.Object]
    words = digest(spell(values).alias(fold_name(values.name)) for values in plain)
    counts = _count_units(pl.Series(words[:, 0]), data.units)
    telling = [values for values in plain if values.n_unique() > 1]
    # The one number that differs may be counted through.
    regular = len(telling) == 1 and _are_regular(telling[0].drop_nulls())
    return _sketch_counts(counts, key.subkey("records"), regular=regular, dense=regular)


def sketch_variables(data: Dataset, key: Key) -> dict[str, Sketch]:
    """The sketch of every variable of some records."""
    subkey = key.subkey("values of a variable")
    names = _choose_variables(data)
    if not frames.is_in_memory(data.frame):

        def keep(batch: pl.DataFrame) -> list[_Kept]:
            return [_keep_lowest(batch[name].drop_nulls(), subkey) for name in names]

        def join(first: list[_Kept], second: list[_Kept]) -> list[_Kept]:
            return [_join_kept(a, b) for a, b in zip(first, second, strict=True)]

        parts: list[list[_Kept]] = engine_for(data.frame).gather(
            data, keep, reads=names, combine=join
        )
        joined = reduce(join, parts)
        return {n: _estimate_sketch(kept) for n, kept in zip(names, joined, strict=True)}
    units = data.units
    return {name: _sketch(frames.get_column(data.frame, name), units, subkey) for name in names}


def _choose_variables(data: Dataset) -> list[str]:
    """What names people first, so that no number of a patient lies beyond the last that counts."""
    schema = data.schema

    def rank(name: str) -> tuple[bool, str]:
        return schema[name].role not in IDENTIFYING and not schema[name].identity, name

    return sorted(data.columns, key=rank)[:_VARIABLES]


def _sketch(values: pl.Series, units: Units, subkey: bytes) -> Sketch:
    if values.dtype.is_nested() or values.dtype == pl.Object:
        return Sketch(0, 1.0, ())
    present = values.drop_nulls()
    counts = _count_units(spell(values), units)
    dense = _are_dense(counts.to_series(0))
    return _sketch_counts(counts, subkey, regular=dense or _are_regular(present), dense=dense)


def _count_units(values: pl.Series, units: Units) -> pl.DataFrame:
    """The different values, and how many units have each."""
    table = values.alias("").to_frame()
    if not units.one_row_each:
        table = table.with_columns(unit=pl.Series(units.numbers)).unique()
    return table.drop_nulls().group_by("").agg(pl.len().alias("count"))


def _sketch_counts(counts: pl.DataFrame, subkey: bytes, *, regular: bool, dense: bool) -> Sketch:
    held, once = int(counts["count"].sum()), int((counts["count"] == 1).sum())
    words = _hash(counts.to_series(0), subkey)
    lowest = tuple(np.sort(words)[:_HASHES].tolist())
    return Sketch(len(words), 1 - once / held if held else 1.0, lowest, regular, dense)


class _Kept(NamedTuple):
    """What is kept of some of the values: the lowest hashes with their counts, and the range."""

    values: int
    hashes: Mapping[int, int]
    shapes: frozenset[str]
    ends: tuple[int, int] | None


def _keep_lowest(values: pl.Series, subkey: bytes) -> _Kept:
    texts = spell(values)
    counts = texts.alias("").value_counts(name="count")
    words = _hash(counts.to_series(0), subkey).tolist()
    lowest = sorted(zip(words, counts["count"].to_list(), strict=True))[:_HASHES]
    shapes, digits = texts.str.replace_all(r"\d", ""), texts.str.replace_all(r"\D", "")
    if values.dtype.is_temporal():
        shapes, digits = shapes.clear(), values.cast(pl.Date).to_physical()
    numbers = digits.cast(pl.Int64, strict=False)
    regular = len(numbers) and not numbers.null_count() and not values.dtype.is_float()
    ends = (int(numbers.min()), int(numbers.max())) if regular else None  # type: ignore[arg-type]
    return _Kept(len(values), dict(lowest), frozenset(shapes.unique().head(2)), ends)


def _join_kept(first: _Kept, second: _Kept) -> _Kept:
    if not first.values or not second.values:
        return first if first.values else second
    counts = Counter(first.hashes) + Counter(second.hashes)
    ends = None
    if first.ends and second.ends:
        ends = min(first.ends[0], second.ends[0]), max(first.ends[1], second.ends[1])
    return _Kept(
        first.values + second.values,
        dict(sorted(counts.items())[:_HASHES]),
        first.shapes | second.shapes,
        ends,
    )


def _estimate_sketch(kept: _Kept) -> Sketch:
    """The sketch of a variable whose values are not in memory.

    The number of different values is estimated from the lowest hashes (a k-minimum-values sketch,
    6% off), and so is how many occur once. Values that are counted through by steps greater than
    one do not show.
    """
    if not kept.values:
        return Sketch(0, 1.0, ())
    lowest, share = sorted(kept.hashes), 1.0
    if len(lowest) == _HASHES:
        share = (lowest[-1] + 1) / 2**64 * _HASHES / (_HASHES - 1)
    distinct = round(len(lowest) / share)
    once = sum(count == 1 for count in kept.hashes.values()) / share
    chance = max(0.0, 1 - once / kept.values)
    span = kept.ends[1] - kept.ends[0] + 1 if kept.ends else math.inf
    regular = len(kept.shapes) <= 1 and distinct > span * _FILLED
    return Sketch(distinct, chance, tuple(lowest), regular, regular and kept.shapes <= {""})


def _are_dense(texts: pl.Series) -> bool:
    numbers = texts.cast(pl.Int64, strict=False)
    if not len(numbers) or numbers.null_count():
        return False
    span = int(numbers.max()) - int(numbers.min()) + 1  # type: ignore[arg-type]
    return len(numbers) > span * _FILLED


def _are_regular(values: pl.Series) -> bool:
    """Whether most values have the same distance from the next.

    Examples
    --------
    >>> _are_regular(pl.Series(["P007", "P008", "P009", "P011"]))
    True
    >>> _are_regular(pl.Series([3, 90, 4, 1000]))
    False
    """
    if values.dtype.is_temporal():
        numbers = values.to_physical()
    elif values.dtype.is_numeric():
        numbers = values
    else:
        texts = values.cast(pl.String).str.strip_chars().str.to_lowercase()
        if texts.str.replace_all(r"\d", "").n_unique() > 1:
            return False
        numbers = texts.str.replace_all(r"\D", "")
    ordered = numbers.cast(pl.Float64, strict=False).drop_nulls().unique().sort().to_numpy()
    gaps = np.diff(ordered)
    return bool(len(gaps)) and float(np.isclose(gaps, np.median(gaps)).mean()) > _SPACED


def _hash(texts: pl.Series, subkey: bytes) -> Words:
    return encrypt(digest([texts]), subkey)[:, 0]


def share_numbers(first: Mapping[str, Sketch], second: Mapping[str, Sketch]) -> bool:
    """Whether two files share half of the telling variables of the same name, be it by counting.

    Numbers from 1 to n count only where nothing else does, and only for files that have most
    variables in common.
    """
    mine, theirs = (_list_telling(side) for side in (first, second))
    names = [
        name for name in mine.keys() & theirs.keys() if not (mine[name].dense or theirs[name].dense)
    ]
    if names:
        return 2 * sum(mine[name].is_of_the_same(theirs[name]) for name in names) >= len(names)
    in_common = len(first.keys() & second.keys())
    return 2 * in_common >= min(len(first), len(second)) and any(
        sketch.is_of_the_same(other) for sketch in mine.values() for other in theirs.values()
    )


def share_people(first: Mapping[str, Sketch], second: Mapping[str, Sketch]) -> bool:
    """Whether two files share values that nobody else has; those counted through do not count.

    Most telling variables of the same name are shared; or one, under any name, is shared by more
    than half of the people, though all others were recoded. Where none has the same name, one that
    is shared is enough.
    """
    mine, theirs = (
        {name: sketch for name, sketch in _list_telling(side).items() if not sketch.regular}
        for side in (first, second)
    )
    names = mine.keys() & theirs.keys()
    shared = [name for name in names if mine[name].is_of_the_same(theirs[name])]
    if names and 2 * len(shared) >= len(names):
        return True
    excess = _MOST_OF_THEM if names else _EXCESS
    return any(
        sketch.is_of_the_same(other, excess)
        for sketch in mine.values()
        for other in theirs.values()
    )


def _list_telling(sketches: Mapping[str, Sketch]) -> dict[str, Sketch]:
    return {name: sketch for name, sketch in sketches.items() if sketch.is_telling()}
