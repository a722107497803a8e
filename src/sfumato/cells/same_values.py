"""Values that say the same to a reader though they are written differently: spellings and cents.

"HIV", "hiv", "HIV " and one with an invisible character in it are one disease; 90000.00 and
90000.04 are one income. To a computer they differ, and would count as diversity. So secrets are
also measured after values are united:

- **Text** by Unicode's NFKC form, without case, invisible characters, accents and punctuation at
  the ends, with blanks, dashes and quotation marks made alike, and Cyrillic and Greek letters that
  look like Latin ones taken for those. Synonyms, typing errors and other alphabets are not found.
- **Numbers**, also those kept as text, that differ by less than a share of their size, and near
  zero by less than that share of how far numbers usually lie apart. Neighbours are united by two
  grids, one shifted by half a cell against the other: whatever lies within the tolerance shares a
  cell in at least one.
- **Moments** within half a day, by two such grids.
- **Cells that stand for several values** where they may stand for the same one: see `overlaps`.

Where values count by their ranks, as in the earth mover's distance, only groups of neighbours are
united that stand apart from all others: among numbers that lie close everywhere, ranks are right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import polars as pl

from sfumato.cells.confidential import ConfidentialVariable
from sfumato.cells.overlaps import (
    WITHIN,
    CellMeanings,
    describe_overlap,
    read_meanings,
    scale_numbers,
)
from sfumato.cells.text_numbers import read_text_numbers
from sfumato.kernels.arrays import Floats, Integers
from sfumato.schema import Column
from sfumato.schema.spelling import choose_representatives, normalise_spellings

TOLERANCE = 5e-5
"""Numbers that differ by less than this share are the same to a reader: 90,000 and 90,004.

They agree in four digits. Ages, years, scores and measurements have no more, so they are never
united: 2020 and 2021 differ by ten times as much."""
_DAY = 86_400_000_000
Ignored = Literal["spelling", "tolerance", "overlap", "meaning"]


@dataclass(frozen=True)
class UnitedReading:
    """A confidential variable after values that say the same are united.

    Parameters
    ----------
    variable : the variable with fewer values.
    written : how many different values there were.
    how : what was ignored: "spelling", "tolerance", an "overlap" of cells, or "meaning": that
        values of one group are different ones.
    """

    variable: ConfidentialVariable
    written: int
    how: Ignored

    def describe(self) -> str:
        """A warning that names the variable and numbers, and no value."""
        name, left = self.variable.name, len(self.variable.distinct)
        if self.how == "spelling":
            return (
                f"'{name}' has {self.written} spellings of {left} values: they differ in case, "
                "blanks, accents or signs that nobody sees. Targets are checked against the values."
            )
        if self.how == "overlap":
            return describe_overlap(name, self.written)
        if self.how == "meaning":
            return (
                f"'{name}' has {self.written} values in {left} groups that mean much the same. "
                "Targets are checked against the worse."
            )
        return (
            f"'{name}' has {self.written} numbers, and {left} if those that are nearly equal are "
            "one. Targets are checked against the worse; `same_within` says how near."
        )


def unite_values(
    variable: ConfidentialVariable,
    column: Column,
    same_within: float = TOLERANCE,
    *,
    apart: bool = False,
) -> list[UnitedReading]:
    """Further readings of a confidential variable, each with some of its values united.

    None where all values differ however one reads them.

    Parameters
    ----------
    variable : the variable as it stands.
    column : what is known of it.
    same_within : the share by which numbers may differ and be the same; 0: not at all.
    apart : unite only groups of numbers that stand apart from all others.

    Examples
    --------
    >>> from sfumato.cells.confidential import encode_confidential
    >>> from sfumato.data import Dataset
    >>> data = Dataset(pl.DataFrame({"ill": ["HIV", "hiv ", "flu"]}))
    >>> (reading,) = unite_values(encode_confidential(data, "ill"), Column(kind="nominal"))
    >>> reading.variable.codes.tolist(), reading.variable.distinct.to_list()
    ([0, 0, 1], ['HIV', 'flu'])
    """
    distinct = variable.distinct
    if not len(distinct):
        return []
    if (meanings := read_meanings(variable, column, same_within)) is not None:
        return _unite_cells(variable, meanings, apart=apart)
    if distinct.dtype == pl.String:
        return _unite_texts(variable, column, same_within, apart=apart)
    if distinct.dtype == pl.Datetime:
        moments = distinct.cast(pl.Datetime("us")).to_physical().to_numpy() / _DAY
        readings = _unite_neighbours(moments, apart=apart)
        return [_rename(variable, of, "tolerance") for of in readings]
    if distinct.dtype.is_numeric() and column.kind in ("continuous", "integer"):
        numbers = distinct.cast(pl.Float64).to_numpy()
        readings = _unite_numbers(numbers, same_within, apart=apart)
        return [_rename(variable, of, "tolerance") for of in readings]
    return []


def _unite_texts(
    variable: ConfidentialVariable, column: Column, same_within: float, *, apart: bool
) -> list[UnitedReading]:
    """Spellings of one text are one, and numbers among the texts as numbers are."""
    keys = normalise_spellings(variable.distinct)
    declared = _list_declared(column)
    spelt = choose_representatives(variable.distinct, keys, declared)
    # What is left of a text without any sign is as good as missing.
    spelt[(keys == "").to_numpy()] = -1
    # What is declared as a level is that, whatever number it looks like.
    candidates = variable.distinct.set(variable.distinct.is_in(declared), "")
    readings: dict[bytes, tuple[Integers, Ignored]] = {}
    for reading in read_text_numbers(candidates):
        units = np.unique(np.array(reading.units), return_inverse=True)[1].ravel()
        groups = [np.flatnonzero(reading.readable & (units == u)) for u in np.unique(units)]
        exact = spelt.copy()
        for members in groups:
            numbers, first = np.unique(reading.numbers[members], return_index=True)
            exact[members] = members[first][np.searchsorted(numbers, reading.numbers[members])]
        ways = [exact, exact.copy(), exact.copy()]
        for members in groups:
            near = _unite_numbers(reading.numbers[members], same_within, apart=apart)
            for way, of in zip(ways[1:], near, strict=False):
                way[members] = members[of]
        for way in ways:
            same = np.array_equal(way, exact)
            readings.setdefault(way.tobytes(), (way, "spelling" if same else "tolerance"))
    readings.setdefault(spelt.tobytes(), (spelt, "spelling"))
    readings.pop(np.arange(len(spelt)).tobytes(), None)
    return [_rename(variable, of, how) for of, how in readings.values()]


def _unite_cells(
    variable: ConfidentialVariable, meanings: CellMeanings, *, apart: bool
) -> list[UnitedReading]:
    """Cells that may stand for the same value are one, and so are those they overlap with.

    No class has fewer values than there are such groups in it. `overlaps` counts them exactly.
    """
    groups = meanings.find_narrow_groups() if apart else meanings.find_groups()
    first = np.unique(groups, return_index=True)[1]
    if len(first) == len(groups):
        return []
    return [_rename(variable, first[groups], "overlap")]


def _list_declared(column: Column) -> list[str]:
    return [*map(str, column.levels or ()), *(column.hierarchy or ())]


def unite_texts(values: pl.Series, column: Column, named: Sequence[str] = ()) -> dict[str, str]:
    """For each text that is not as it is usually spelt, the spelling that stands for it.

    `named` are further texts, such as those a statement compares with; they come first.

    Examples
    --------
    >>> unite_texts(pl.Series(["HIV", "hiv ", "flu"]), Column(), ["hiv"])
    {'HIV': 'hiv', 'hiv ': 'hiv'}
    """
    texts = pl.concat([pl.Series(list(named), dtype=pl.String), values.drop_nulls()]).unique()
    texts = texts.sort()
    keys = normalise_spellings(texts)
    declared = _list_declared(column)
    for reading in read_text_numbers(texts.set(texts.is_in(declared), ""))[:1]:
        written = zip(reading.numbers.tolist(), reading.units, strict=True)
        same = pl.Series([f"\0{number!r} {unit}" for number, unit in written])
        keys = same.zip_with(pl.Series(reading.readable), keys)
    if keys.n_unique() == len(keys):
        return {}
    of = choose_representatives(texts, keys, [*named, *declared])
    spelt = texts.to_list()
    return {text: spelt[of[index]] for index, text in enumerate(spelt) if of[index] != index}


def _unite_numbers(numbers: Floats, same_within: float, *, apart: bool) -> list[Integers]:
    if not same_within or not len(numbers) or not np.isfinite(numbers).all():
        return []
    return _unite_neighbours(scale_numbers(numbers, same_within), apart=apart)


def _unite_neighbours(scaled: Floats, *, apart: bool) -> list[Integers]:
    """For each of two grids with cells of length 1, or for the groups apart, who is who.

    Of each number, the position of the one that stands for it.
    """
    readings: list[Integers] = []
    rows = np.argsort(scaled, kind="stable")
    rising = scaled[rows]
    cells = [_number_groups(rising)] if apart else [np.floor(rising), np.floor(rising + WITHIN)]
    for cell in cells:
        begins = np.append(True, cell[1:] != cell[:-1])
        if begins.all():
            continue
        of = np.empty(len(rows), np.int64)
        of[rows] = rows[np.maximum.accumulate(np.where(begins, np.arange(len(rows)), 0))]
        readings.append(of)
    return readings


def _number_groups(scaled: Floats) -> Floats:
    """A number for each group of neighbours that lies within the tolerance, and for each other."""
    begins = np.flatnonzero(np.append(True, np.diff(scaled) > WITHIN))
    sizes = np.diff(np.append(begins, len(scaled)))
    width = scaled[begins + sizes - 1] - scaled[begins]
    group = np.repeat(np.arange(len(begins), dtype=np.float64), sizes)
    # Of a chain that goes on and on, each value stays by itself.
    long = np.repeat(width > WITHIN, sizes)
    group[long] = -1.0 - np.arange(int(long.sum()))
    return group


def unite_groups(variable: ConfidentialVariable, groups: Sequence[str]) -> UnitedReading:
    """The reading in which values of one group are one; `groups` has that of each value."""
    _, first, of = np.unique(np.array(groups), return_index=True, return_inverse=True)
    return _rename(variable, first[of.ravel()], "meaning")


def _rename(variable: ConfidentialVariable, of: Integers, how: Ignored) -> UnitedReading:
    """The variable with each value replaced by the one that stands for it; -1 is missing."""
    chosen = np.unique(of[of >= 0])
    code = np.searchsorted(chosen, of)
    code[of < 0] = -1
    codes = np.append(code, -1)[variable.codes].astype(np.int32)  # -1 takes the last: missing
    united = replace(variable, codes=codes, distinct=variable.distinct.gather(chosen))
    return UnitedReading(united, len(variable.distinct), how)
