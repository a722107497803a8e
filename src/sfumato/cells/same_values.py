"""Values that say the same to a reader though they are written differently: spellings and cents.

"HIV", "hiv", "HIV " and one with an invisible character in it are one disease; 90000.00 and
90000.04 are one income. To a computer they differ, and would count as diversity. So secrets are
also measured after values are united:

- **Text** by Unicode's NFKC form, without case, invisible characters, accents and punctuation at
  the ends, with blanks, dashes and quotation marks made alike, and Cyrillic and Greek letters that
  look like Latin ones taken for those. Synonyms, typing errors and other alphabets are not found.
- **Numbers** that differ by less than a share of their size, and near zero by less than that share
  of how far numbers usually lie apart. Neighbours are united by two grids, one shifted by half a
  cell against the other: whatever lies within the tolerance shares a cell in at least one.
- **Moments** within half a day, by two such grids.

Where values count by their ranks, as in the earth mover's distance, only groups of neighbours are
united that stand apart from all others: among numbers that lie close everywhere, ranks are right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from sfumato.cells.confidential import ConfidentialVariable
from sfumato.kernels.arrays import Floats, Integers
from sfumato.schema import Column
from sfumato.schema.spelling import choose_representatives, normalise_spellings

TOLERANCE = 5e-5
"""Numbers that differ by less than this share are the same to a reader: 90,000 and 90,004.

They agree in four digits. Ages, years, scores and measurements have no more, so they are never
united: 2020 and 2021 differ by ten times as much."""
_DAY = 86_400_000_000
_WITHIN = 0.5
"""The tolerance where a cell of the grids has length 1."""


@dataclass(frozen=True)
class UnitedReading:
    """A confidential variable after values that say the same are united.

    Parameters
    ----------
    variable : the variable with fewer values.
    written : how many different values there were.
    how : what was ignored: "spelling" or "tolerance".
    """

    variable: ConfidentialVariable
    written: int
    how: str

    def describe(self) -> str:
        """A warning that names the variable and numbers, and no value."""
        name, left = self.variable.name, len(self.variable.distinct)
        if self.how == "spelling":
            return (
                f"'{name}' has {self.written} spellings of {left} values: they differ in case, "
                "blanks, accents or signs that nobody sees. Targets are held against the values."
            )
        return (
            f"'{name}' has {self.written} numbers, and {left} if those that are nearly equal are "
            "one. Targets are held against the worse; `same_within` says how near."
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
    if distinct.dtype == pl.String:
        numbers = _read_numbers(distinct, column)
        if numbers is not None:
            return _unite_numbers(variable, numbers, same_within, apart=apart)
        return _unite_spellings(variable, column)
    if distinct.dtype == pl.Datetime:
        moments = distinct.cast(pl.Datetime("us")).to_physical().to_numpy() / _DAY
        return _unite_neighbours(variable, moments, np.arange(len(distinct)), apart=apart)
    if distinct.dtype.is_numeric() and column.kind in ("continuous", "integer"):
        numbers = distinct.cast(pl.Float64).to_numpy()
        return _unite_numbers(variable, numbers, same_within, apart=apart)
    return []


def _read_numbers(texts: pl.Series, column: Column) -> Floats | None:
    """Numbers that came as text; None where some text is none."""
    if column.kind not in ("continuous", "integer"):
        return None
    numbers = texts.str.strip_chars().cast(pl.Float64, strict=False)
    return None if numbers.null_count() else numbers.to_numpy()


def _unite_spellings(variable: ConfidentialVariable, column: Column) -> list[UnitedReading]:
    keys = normalise_spellings(variable.distinct)
    empty = int((keys == "").sum())
    if keys.n_unique() == len(keys) and not empty:
        return []
    of = choose_representatives(variable.distinct, keys, _list_declared(column))
    # What is left of a text without any sign is as good as missing.
    of[(keys == "").to_numpy()] = -1
    return [_rename(variable, of, "spelling")]


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
    if keys.n_unique() == len(keys):
        return {}
    of = choose_representatives(texts, keys, [*named, *_list_declared(column)])
    written = texts.to_list()
    return {text: written[of[index]] for index, text in enumerate(written) if of[index] != index}


def _unite_numbers(
    variable: ConfidentialVariable, numbers: Floats, same_within: float, *, apart: bool
) -> list[UnitedReading]:
    finite = np.isfinite(numbers)
    if not same_within or not finite.all():
        return []
    order = np.argsort(numbers, kind="stable")
    rising = numbers[order]
    with np.errstate(over="ignore"):
        # Near zero the scale is linear in units of the spread, far from it logarithmic: a step is
        # a share of the number. Half a cell is the tolerance.
        scaled = np.arcsinh(rising / _measure_spread(rising)) / (2 * same_within)
    return _unite_neighbours(variable, scaled, order, apart=apart)


def _measure_spread(rising: Floats) -> float:
    """How far nine in ten numbers lie from their median at most; a few huge ones do not count."""
    middle = rising[len(rising) // 2]
    with np.errstate(over="ignore"):
        apart = np.sort(np.abs(rising - middle))
    spread = float(apart[len(apart) * 9 // 10])
    if not spread > 0 or not np.isfinite(spread):
        spread = float(apart[-1]) if np.isfinite(apart[-1]) else 0.0
    return spread if spread > 0 else 1.0


def _unite_neighbours(
    variable: ConfidentialVariable,
    scaled: Floats,
    order: Sequence[int] | Integers,
    *,
    apart: bool,
) -> list[UnitedReading]:
    """One reading for each of two grids with cells of length 1, or one of the groups apart."""
    readings: list[UnitedReading] = []
    rows = np.asarray(order, np.int64)
    cells = [_number_groups(scaled)] if apart else [np.floor(scaled), np.floor(scaled + _WITHIN)]
    for cell in cells:
        begins = np.append(True, cell[1:] != cell[:-1])
        if begins.all():
            continue
        of = np.empty(len(rows), np.int64)
        of[rows] = rows[np.maximum.accumulate(np.where(begins, np.arange(len(rows)), 0))]
        readings.append(_rename(variable, of, "tolerance"))
    return readings


def _number_groups(scaled: Floats) -> Floats:
    """A number for each group of neighbours that lies within the tolerance, and for each other."""
    begins = np.flatnonzero(np.append(True, np.diff(scaled) > _WITHIN))
    sizes = np.diff(np.append(begins, len(scaled)))
    width = scaled[begins + sizes - 1] - scaled[begins]
    group = np.repeat(np.arange(len(begins), dtype=np.float64), sizes)
    # Of a chain that goes on and on, each value stays by itself.
    long = np.repeat(width > _WITHIN, sizes)
    group[long] = -1.0 - np.arange(int(long.sum()))
    return group


def _rename(variable: ConfidentialVariable, of: Integers, how: str) -> UnitedReading:
    """The variable with each value replaced by the one that stands for it; -1 is missing."""
    chosen = np.unique(of[of >= 0])
    code = np.searchsorted(chosen, of)
    code[of < 0] = -1
    codes = np.append(code, -1)[variable.codes].astype(np.int32)  # -1 takes the last: missing
    united = replace(variable, codes=codes, distinct=variable.distinct.gather(chosen))
    return UnitedReading(united, len(variable.distinct), how)
