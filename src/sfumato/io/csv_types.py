"""Types from text: a column is what all its cells are, and text whenever that is in doubt.

The cells of a column come in batches. The first cells suggest a type; every further batch must
bear it out. The typed cells of all batches are gathered in one run of memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.errors import DataError
from sfumato.io.missing_words import MOST, is_word_for_missing
from sfumato.io.source import DTYPES, Reading, has_time
from sfumato.kernels import memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from sfumato.io.source import Kind


#: What people write for "no value" in columns of numbers and dates. In text it is text:
#: NA is Namibia.
TOKENS = frozenset(
    {"NA", "N/A", "NaN", "nan", "null", "NULL", "Null", ".", "-", "#N/A", "None", "none", "n/a"}
)
#: From here on a 64-bit float cannot tell neighbouring whole numbers apart.
EXACT = 2**53

_TRUE = ("true", "True", "TRUE")
_FALSE = ("false", "False", "FALSE")


@dataclass(frozen=True)
class CellFormat:
    """How the cells of one column are to be understood."""

    decimal: str = "."
    tokens: frozenset[str] = TOKENS
    pattern: str = ""  # of dates; empty: the one ISO form the cells have
    strict: bool = True  # False where the type was declared: then 007 may be a number


@dataclass(frozen=True)
class Parsed:
    """The typed cells, and the tokens that were read as missing."""

    values: pl.Series
    missing: frozenset[str] = frozenset()


def parse(text: pl.Series, kind: Kind, cell_format: CellFormat) -> Parsed | None:
    """The column as this kind, or None if a single cell does not fit."""
    if kind == "text":
        return Parsed(text)
    if not cell_format.strict:
        text = text.str.strip_chars()
    return _PARSERS[kind](text, cell_format)


def find_misfits(text: pl.Series, kind: Kind, cell_format: CellFormat) -> pl.Series:
    """Which cells (by index) keep the column from being of a declared kind."""
    cells = text.str.strip_chars()
    apart = cells.is_not_null() & ~cells.is_in(["", *cell_format.tokens])
    if kind == "boolean":
        return (apart & ~cells.is_in([*_TRUE, *_FALSE])).arg_true()
    typed = _convert_cells(cells, kind, cell_format)
    return (apart & typed.is_null()).arg_true()


def _convert_cells(text: pl.Series, kind: Kind, cell_format: CellFormat) -> pl.Series:
    if kind == "number" and cell_format.decimal == ",":
        text = text.set(text.str.contains(".", literal=True), None)
        text = text.str.replace(",", ".", literal=True)
    if kind in {"integer", "number"}:
        return text.cast(DTYPES[kind], strict=False)
    pattern = cell_format.pattern or (
        "%Y-%m-%d" if kind == "date" else _find_iso_pattern(text, cell_format.tokens)
    )
    dtype: pl.Date | pl.Datetime = pl.Date() if kind == "date" else pl.Datetime("us")
    if not pattern:
        return pl.Series(text.name, [None], dtype=dtype).new_from_index(0, len(text))
    if kind == "datetime" and not has_time(pattern):
        return text.str.to_date(pattern, strict=False).cast(dtype)
    values = text.str.strptime(dtype, pattern, strict=False)
    return values.dt.replace_time_zone("UTC") if pattern.endswith("Z") else values


def _collect_tokens(
    text: pl.Series, values: pl.Series, tokens: frozenset[str]
) -> frozenset[str] | None:
    """The tokens among the cells without a value; None if one of them is no token."""
    if values.null_count() == text.null_count():
        return frozenset()
    odd = text.filter(values.is_null() & text.is_not_null())
    if not odd.is_in(["", *tokens]).all():
        return None
    return frozenset(odd.unique().to_list()) - {""}


def _parse_integer(text: pl.Series, cell_format: CellFormat) -> Parsed | None:
    values = text.cast(pl.Int64, strict=False)
    missing = _collect_tokens(text, values, cell_format.tokens)
    if missing is None:
        return None
    if cell_format.strict:
        doubtful = _find_doubtful(text, values)
        if len(doubtful) and not doubtful.str.contains(r"^-[1-9]").all():
            return None
    return Parsed(values, missing)


def _find_doubtful(text: pl.Series, values: pl.Series) -> pl.Series:
    """The numbers that may have a leading zero or a sign: all of those sort before "1".

    Few cells, or none. Few calls as well: wide tables pay for each of them per column.
    """
    early = (text < "1") & (text != "0")
    return text.filter(early & values.is_not_null()) if early.any() else text.clear()


def _parse_number(text: pl.Series, cell_format: CellFormat) -> Parsed | None:
    values = _convert_cells(text, "number", cell_format)
    missing = _collect_tokens(text, values, cell_format.tokens)
    if missing is None:
        return None
    nan = values.is_nan()
    if nan.any():
        missing |= frozenset(text.filter(nan).unique().to_list())
        values = values.fill_nan(None)
    if cell_format.strict and _loses_digits(text, values):
        return None
    return Parsed(values, missing)


def _loses_digits(text: pl.Series, values: pl.Series) -> bool:
    """Whether a number would lose what the text says: leading zeros, a plus, last digits."""
    doubtful = _find_doubtful(text, values)
    if len(doubtful) and doubtful.str.contains(r"^(\+|-?0[0-9])").any():
        return True
    low, high = values.min(), values.max()
    if low is None or (low > -EXACT and high < EXACT):  # type: ignore[operator]  # floats, where there are any
        return False
    return bool(text.filter(values.abs() >= EXACT).str.contains(r"^-?[0-9]+$").any())


def _parse_boolean(text: pl.Series, cell_format: CellFormat) -> Parsed | None:
    true = text.is_in(list(_TRUE))
    values = true.set(~(true | text.is_in(list(_FALSE))), None)
    missing = _collect_tokens(text, values, cell_format.tokens)
    return None if missing is None else Parsed(values, missing)


def _make_temporal_parser(kind: Kind) -> Callable[[pl.Series, CellFormat], Parsed | None]:
    def parser(text: pl.Series, cell_format: CellFormat) -> Parsed | None:
        values = _convert_cells(text, kind, cell_format)
        missing = _collect_tokens(text, values, cell_format.tokens)
        if missing is None:
            return None
        # Lenient parsers take 2021-1-5 and 21-01-05 as well; a guess must not
        if cell_format.strict:
            shape = _DATE if kind == "date" else _DATETIME
            if not text.filter(values.is_not_null()).str.contains(shape).all():
                return None
        return Parsed(values, missing)

    return parser


_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_DATETIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?Z?$"


def drop_missing_cells(text: pl.Series, tokens: frozenset[str]) -> pl.Series:
    """The cells that hold something: neither empty nor a token for missing."""
    return text.filter(text.is_not_null() & ~text.is_in(["", *tokens]))


_NUMBER_LIKE = r"^\s*[-+.,]?[0-9]"


def find_missing_words(cells: pl.Series) -> frozenset[str]:
    """The words for "no value" among numbers or dates; none where any other word is there."""
    numeric = cells.str.contains(_NUMBER_LIKE)
    if not numeric.any() or numeric.all():
        return frozenset()
    words = cells.filter(~numeric).unique()
    if len(words) > MOST or not all(map(is_word_for_missing, words.to_list())):
        return frozenset()
    return frozenset(words.to_list())


def _find_iso_pattern(text: pl.Series, tokens: frozenset[str]) -> str:
    """The ISO pattern of the first date-time in the column, empty if it is none."""
    cells = drop_missing_cells(text, tokens).head(1)
    if not cells.str.contains(_DATETIME).any():
        return ""
    return guess_iso_pattern(cells[0])


def guess_iso_pattern(cell: str) -> str:
    """The pattern of an ISO date-time: `T` or space, with or without seconds, with or without Z.

    Of a text that is none, a pattern that will not fit it.

    Examples
    --------
    >>> guess_iso_pattern("2021-04-03 10:15")
    '%Y-%m-%d %H:%M'
    """
    seconds = "%H:%M:%S%.f" if cell.count(":") == 2 else "%H:%M"  # noqa: PLR2004 - hours:minutes:seconds
    between = " " if cell[10:11] == " " else "T"
    return f"%Y-%m-%d{between}{seconds}{'Z' if cell.endswith('Z') else ''}"


_PARSERS: dict[str, Callable[[pl.Series, CellFormat], Parsed | None]] = {
    "integer": _parse_integer,
    "number": _parse_number,
    "boolean": _parse_boolean,
    "date": _make_temporal_parser("date"),
    "datetime": _make_temporal_parser("datetime"),
}


GUESSES: tuple[Kind, ...] = ("integer", "number", "boolean", "date", "datetime")
SAMPLE = 2000

REASONS = {
    "text": "no values, so text",
    "integer": "whole numbers throughout",
    "boolean": "true or false throughout",
    "date": "dates written year-month-day throughout",
    "datetime": "dates with times, written year-month-day, throughout",
}

_DECLARE_DATES = (
    "so it stays text; declare it under [read]: dates = {{ {name!r} = '%d.%m.%Y' }}, or as it is "
    "written"
)
_MAY_BE_DATES = f"may be dates, but which part is the day is not certain, {_DECLARE_DATES}"
# All cells of the sample have the first shape and one at least the second.
_TRAPS = (
    (
        r"^-?[0-9]+([.,][0-9]+)?$",
        r"^-?0[0-9]",
        "codes with leading zeros, such as postcodes, stay text",
    ),
    (r"^\+?[0-9]+$", r"^\+", "numbers led by a plus, such as telephone numbers, stay text"),
    (r"^-?[0-9]+$", r"[0-9]{16}", "whole numbers too long to be held exactly stay text"),
    (
        r"^[0-9]{1,4}[./-][0-9]{1,2}[./-][0-9]{1,4}( .*)?$",
        r"",
        _MAY_BE_DATES,
    ),
    (
        r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.]+",
        r"",
        (
            "dates with times in another form than one ISO form throughout, such as with a "
            "time zone, stay text"
        ),
    ),
    (
        r"^-?[0-9]{1,3}([,.'\x{2019} \x{a0}][0-9]{3})*([.,][0-9]+)?$",
        r"[,.'\x{2019} \x{a0}][0-9]{3}",
        "may be numbers with thousands separators, which are not guessed, so it stays text",
    ),
    (
        r"^-?[0-9]+([.,][0-9]+)?$",
        r"[.,]",
        (
            "numbers with another decimal sign than the rest of the file stay text; "
            "declare it under [read]: decimal = ',' or decimal = '.'"
        ),
    ),
    (
        r"^\s*[-+]?[0-9.,]+\s*$",
        r"^\s|\s$",
        (
            "numbers with spaces around them stay text; declare it under [read]: "
            "types = {{ {name!r} = 'number' }}"
        ),
    ),
)


def explain_text(text: pl.Series, tokens: frozenset[str], before: Kind | None = None) -> str:
    """A sentence on why the column is text, without any cell of it.

    `before` is the kind that the cells before these had.
    """
    cells = drop_missing_cells(text, tokens).head(SAMPLE)
    for shape, trap, sentence in _TRAPS:
        if len(cells) and cells.str.contains(shape).all() and cells.str.contains(trap).any():
            return sentence.format(name=text.name)
    if before is not None:
        return f"not all cells are of the type of the first ones, {before}, so it stays text"
    return "words" if len(cells) else "no values, so text"


_PARTS = (
    r"^(?<first>[0-9]{1,2})(?<between>[./-])(?<second>[0-9]{1,2})[./-](?<year>[0-9]{2}|[0-9]{4})"
    r"(?<time>[ T][0-9]{2}:[0-9]{2}(?::[0-9]{2})?)?$"
)
_CLOCKS = {0: "", 6: "%H:%M", 9: "%H:%M:%S"}
_LAST_MONTH = 12


@dataclass(frozen=True)
class DateOrder:
    """Which part of dates is the day, and what says so. No pattern: it cannot be told."""

    pattern: str
    reason: str


def find_date_order(text: pl.Series) -> DateOrder | None:
    """Tell from all dates of a column which part is the day; None where they are no such dates.

    A number above 12 is no month: one such value in the first place settles it for all.
    Assumes: a column is written in one way. Where it is not, or nothing settles it, it is said.
    """
    cells = drop_missing_cells(text, TOKENS)
    parts = cells.str.extract_groups(_PARTS).struct.unnest()
    times = parts["time"].fill_null("")
    alike = (parts["between"], parts["year"].str.len_chars(), times.str.len_chars())
    if parts["year"].null_count() or any(part.n_unique() != 1 for part in alike):
        return None
    days_first, days_second = (
        int((parts[name].cast(pl.Int32) > _LAST_MONTH).sum()) for name in ("first", "second")
    )
    if len(parts["year"][0]) == 2:  # noqa: PLR2004 - which century? Never guessed
        return DateOrder("", f"may be dates, but their years have two digits, {_DECLARE_DATES}")
    if days_first and days_second:
        reason = (
            f"dates that contradict each other: in {days_first:,} values the day must stand first "
            f"and in {days_second:,} second, so it stays text; write them alike"
        )
        return DateOrder("", reason)
    if not days_first and not days_second:
        reason = (
            f"may be dates, but none of {len(cells):,} values has a number above 12 that would "
            f"tell the day from the month, {_DECLARE_DATES}"
        )
        return DateOrder("", reason)
    order, which, ordinal = (
        ("%d{0}%m{0}%Y", "day", "first") if days_first else ("%m{0}%d{0}%Y", "month", "second")
    )
    clock = times[0][:1] + _CLOCKS[len(times[0])]
    return DateOrder(
        order.format(parts["between"][0]) + clock,
        f"dates with the {which} first: in {max(days_first, days_second):,} of {len(cells):,} "
        f"values the {ordinal} number is above 12",
    )


def detect_decimal_sign(frame: pl.DataFrame, delimiter: str) -> str:
    """The decimal sign of the file: a comma only where nothing else explains the cells.

    Assumes: one sign per file. Where both are seen, the semicolon speaks for the comma.
    """
    comma = point = False
    if not frame.height:
        return "."
    marked = _any_of_column(_stack(list(frame.head(SAMPLE))).str.contains("[.,]"), frame.width)
    commas = _any_of_column(_stack(list(frame)).str.contains(",", literal=True), frame.width)
    for text, signs, with_comma in zip(frame, marked, commas, strict=True):
        # Nothing new can be learnt from it: wide tables pay for every look at a column
        if not signs or (point and not with_comma):
            continue
        cells = drop_missing_cells(text, CellFormat().tokens)
        head = cells.head(SAMPLE)
        # 1,234 may be a thousand; 12,5 and 0,125 and 1234,567 cannot
        if (
            not comma
            and head.str.contains(r"^-?[0-9]*(,[0-9]+)?$").all()
            and head.str.contains(r"^-?(0?|[0-9]{4,}),[0-9]+$|,([0-9]{1,2}|[0-9]{4,})$").any()
        ):
            comma = parse(cells, "number", CellFormat(decimal=",")) is not None
        elif not point and head.str.contains(r"^-?[0-9]+\.[0-9]+$").any():
            point = parse(cells, "number", CellFormat()) is not None
    return "," if comma and (delimiter == ";" or not point) else "."


def _stack(columns: list[pl.Series]) -> pl.Series:
    """Columns of one height below each other, to be looked at in one go."""
    return pl.concat(columns, rechunk=True)


def _any_of_column(cells: pl.Series, width: int) -> np.ndarray:
    """For each of the stacked columns, whether any of its cells is marked; missing ones are not."""
    marked = cells.fill_null(value=False).to_numpy()
    return np.asarray(marked.reshape(width, -1).any(axis=1))


@dataclass(frozen=True)
class Guess:
    """What all cells of a column are: its kind, the typed cells, and why it is text if it is."""

    kind: Kind
    parsed: Parsed
    reason: str = ""


def guess_together(columns: list[pl.Series], cell_format: CellFormat) -> list[Guess | None]:
    """What `TextColumn` would guess of each of many short columns, found in a few calls.

    Every call on a column costs more than its cells do, where the table is wide and short. None
    where a column must be looked at by itself: it has no values, or may hold dates with times.
    """
    guesses: list[Guess | None] = [None] * len(columns)
    text = _stack(columns)
    without = text.is_null() | text.is_in(["", *cell_format.tokens])
    open_ones = np.flatnonzero(_any_of_column(~without, len(columns)))
    stages: tuple[tuple[Kind, Callable[..., tuple[pl.Series, pl.Series]]], ...] = (
        ("integer", _judge_integers),
        ("number", _judge_numbers),
        ("boolean", _judge_booleans),
        ("date", _judge_dates),
    )
    for kind, judge in stages:
        if not len(open_ones):
            return guesses
        text = _stack([columns[index] for index in open_ones])
        values, misfit = judge(text, cell_format)
        tokens = ["", *cell_format.tokens]
        misfit |= values.is_null() & text.is_not_null() & ~text.is_in(tokens)
        wrong = _any_of_column(misfit, len(open_ones))
        missing = _collect_tokens_together(text, values, len(open_ones))
        if kind == "number":
            values = values.fill_nan(None)
        height = len(columns[0])
        for offset in np.flatnonzero(~wrong).tolist():
            index = open_ones[offset]
            cells = values.slice(offset * height, height).alias(columns[index].name)
            guesses[index] = Guess(kind, Parsed(cells, frozenset(missing.get(offset, ()))))
        open_ones = open_ones[wrong]
    if len(open_ones):
        for index, reason in _explain_together(
            [columns[index] for index in open_ones], cell_format
        ):
            name = columns[open_ones[index]].name
            guesses[open_ones[index]] = Guess(
                "text", Parsed(columns[open_ones[index]]), reason.format(name=name)
            )
    return guesses


def _judge_integers(text: pl.Series, _: CellFormat) -> tuple[pl.Series, pl.Series]:
    values = text.cast(pl.Int64, strict=False)
    early = (text < "1") & (text != "0") & values.is_not_null()
    return values, early & ~text.str.contains(r"^-[1-9]")


def _judge_numbers(text: pl.Series, cell_format: CellFormat) -> tuple[pl.Series, pl.Series]:
    values = _convert_cells(text, "number", cell_format)
    early = (text < "1") & (text != "0") & values.is_not_null() & ~values.is_nan()
    misfit = early & text.str.contains(r"^(\+|-?0[0-9])")
    return values, misfit | ((values.abs() >= EXACT) & text.str.contains(r"^-?[0-9]+$"))


def _judge_booleans(text: pl.Series, _: CellFormat) -> tuple[pl.Series, pl.Series]:
    true = text.is_in(list(_TRUE))
    values = true.set(~(true | text.is_in(list(_FALSE))), None)
    return values, pl.repeat(value=False, n=len(text), eager=True)


def _judge_dates(text: pl.Series, cell_format: CellFormat) -> tuple[pl.Series, pl.Series]:
    values = _convert_cells(text, "date", cell_format)
    return values, values.is_not_null() & ~text.str.contains(_DATE)


def _collect_tokens_together(
    text: pl.Series, values: pl.Series, width: int
) -> dict[int, list[str]]:
    """The tokens for missing met in each of the stacked columns."""
    gone = values.is_null() | values.is_nan() if values.dtype.is_float() else values.is_null()
    odd = (gone & text.is_not_null() & (text != "")).fill_null(value=False)
    met = pl.DataFrame(
        {"column": odd.arg_true() // (len(text) // width), "token": text.filter(odd)}
    )
    tokens: dict[int, list[str]] = {}
    for column, token in met.unique().rows():
        tokens.setdefault(column, []).append(token)
    return tokens


def _explain_together(
    columns: list[pl.Series], cell_format: CellFormat
) -> Iterator[tuple[int, str]]:
    """Which of the columns are text, and the sentence on why; none of them has no values."""
    width = len(columns)
    text = _stack(columns)
    present = text.is_not_null() & ~text.is_in(["", *cell_format.tokens])
    first = present.to_numpy().reshape(width, -1).argmax(axis=1) + np.arange(width) * len(
        columns[0]
    )
    temporal = text.gather(first).str.contains(_DATETIME).to_numpy()
    numeric = text.str.contains(_NUMBER_LIKE)
    # Numbers and words: they are looked at by themselves, since the words may say "no value"
    mixed = _any_of_column(present & numeric, width) & _any_of_column(present & ~numeric, width)
    reasons: list[str | None] = [None] * width
    for shape, trap, sentence in _TRAPS:
        shaped = ~_any_of_column(present & ~text.str.contains(shape), width)
        if shaped.any():
            trapped = shaped & _any_of_column(present & text.str.contains(trap), width)
            for index in np.flatnonzero(trapped).tolist():
                reasons[index] = reasons[index] or sentence
    for index, reason in enumerate(reasons):
        if not temporal[index] and not mixed[index]:
            yield index, reason or "words"


_INLINE = 12  # bytes up to which Arrow keeps a text within its view

# How Arrow holds a cell. A text is a view of four words: length, three of the text itself
# or its beginning, the number of its buffer and its place there.
_WORDS: dict[type[pl.DataType], tuple[Any, int]] = {
    pl.String: (np.int32, 4),
    pl.Int64: (np.int64, 1),
    pl.Float64: (np.float64, 1),
    pl.Date: (np.int32, 1),
    pl.Datetime: (np.int64, 1),
}


class ColumnBuffer:
    """A column that grows batch by batch in one run of memory.

    The bytes of long texts are never copied: only the numbers of their buffers are shifted.
    """

    def __init__(self, dtype: pl.DataType) -> None:
        self.dtype = dtype
        words, per_cell = _WORDS.get(type(dtype), (bool, 1))
        self._cells = np.empty((0, per_cell), words)
        self._valid: np.ndarray | None = None
        self._buffers: list[pa.Buffer] = []
        self._only: pl.Series | None = None  # the first batch, until a second one comes
        self.height = 0

    def append(self, batch: pl.Series, *, room: int = 0) -> None:
        """Add a batch; `room` is how many cells the column may get in all."""
        if not self.height and self._only is None and len(batch) <= SAMPLE and room <= 2 * SAMPLE:
            self._only = batch
            return
        self._gather_first(room)
        self._add(batch, room)

    def _gather_first(self, room: int = 0) -> None:
        first, self._only = self._only, None
        if first is not None:
            self._add(first, room)

    def _add(self, batch: pl.Series, room: int) -> None:
        self._cells = self._grow(self._cells, len(batch), room)
        if self._valid is not None:
            self._valid = self._grow(self._valid, len(batch), room)
        for piece in batch.get_chunks():
            self._append(piece.to_arrow(compat_level=pl.CompatLevel.newest()))

    def _grow(self, cells: np.ndarray, more: int, room: int) -> np.ndarray:
        needed = self.height + more
        if needed <= len(cells):
            return cells
        shape = (max(needed, room, len(cells) * 3 // 2), *cells.shape[1:])
        wider = memory.allocate(shape, cells.dtype)
        wider[: self.height] = cells[: self.height]
        return wider

    def _append(self, piece: pa.Array) -> None:
        here = slice(self.height, self.height + len(piece))
        validity, values, *buffers = piece.buffers()
        cells = self._cells[here]
        within = slice(piece.offset, piece.offset + len(piece))
        cells[:] = _unpack(values, cells.dtype).reshape(-1, cells.shape[1])[within]
        if piece.null_count:
            if self._valid is None:
                self._valid = np.ones(len(self._cells), bool)
            self._valid[here] = _unpack(validity, np.dtype(bool))[within]
            cells[~self._valid[here]] = 0
        elif self._valid is not None:
            self._valid[here] = True
        if buffers and self._buffers:
            cells[:, 2] += (cells[:, 0] > _INLINE) * np.int32(len(self._buffers))
        self._buffers += buffers
        self.height = here.stop

    def exact_as_floats(self, limit: int) -> bool:
        """Whether whole numbers stay what they are as floats."""
        self._gather_first()
        cells = self._cells[: self.height]
        return not len(cells) or bool(cells.min() > -limit and cells.max() < limit)

    def holds_several_values(self) -> bool:
        """Whether not all cells that hold something hold the same."""
        if self._only is not None:
            return self._only.drop_nulls().n_unique() > 1
        cells = self._cells[: self.height]
        cells = cells if self._valid is None else cells[self._valid[: self.height]]
        return bool(len(cells) and (cells != cells[0]).any())

    def to_floats(self) -> None:
        """Turn whole numbers into floats where they stand."""
        floats = self._cells.view(np.float64)
        floats[: self.height] = self._cells[: self.height]
        self._cells, self.dtype = floats, pl.Float64()

    def join(self, name: str) -> pl.Series:
        """The whole column in one piece, in the memory it was gathered in."""
        if self._only is not None:
            return self._only.alias(name)
        import pyarrow as pa

        valid = None if self._valid is None else self._valid[: self.height]
        if self.dtype == pl.Boolean:
            flags = pl.Series(name, self._cells[: self.height, 0], dtype=pl.Boolean)
            return flags if valid is None else flags.set(pl.Series(~valid), None)
        buffers = [
            None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little")),
            pa.py_buffer(self._cells),
            *self._buffers,
        ]
        empty = pl.Series([], dtype=self.dtype).to_arrow(compat_level=pl.CompatLevel.newest())
        array = pa.Array.from_buffers(empty.type, self.height, buffers)
        return pl.Series(name, array)


def _unpack(buffer: pa.Buffer, dtype: np.dtype[Any]) -> np.ndarray:
    """The cells in a buffer; Arrow keeps flags as single bits."""
    if dtype.kind == "b":
        bits = np.unpackbits(np.frombuffer(buffer, np.uint8), bitorder="little")
        return bits.astype(bool)
    return np.frombuffer(buffer, dtype)


_OF: dict[Kind, str] = {
    "integer": "numbers",
    "number": "numbers",
    "date": "dates",
    "datetime": "dates",
}


@dataclass
class TextColumn:
    """Collects the batches of one variable in the narrowest type that fits them all.

    While all cells are missing, the batches wait as text. A batch that breaks the guess turns whole
    numbers into numbers in place; any other break means the column must be read again as text,
    since what was cast before cannot be undone.
    """

    name: str
    format: CellFormat
    declared: Kind | None = None
    declared_tokens: frozenset[str] = frozenset()
    room: int = 0
    must_reread: bool = False
    kind: Kind | None = None
    reason: str = ""
    height: int = 0
    missing: set[str] = field(default_factory=set)
    words: frozenset[str] = frozenset()
    word_cells: int = 0
    pattern: str = ""
    pending: list[pl.Series] = field(default_factory=list)
    pieces: ColumnBuffer | None = None

    @property
    def is_plain(self) -> bool:
        """Whether nothing was declared about it, and nothing of it was seen."""
        undeclared = not self.declared and not self.declared_tokens and not self.format.pattern
        return undeclared and self.format.tokens is TOKENS and not self.height and self.kind is None

    def add_batch(self, text: pl.Series) -> None:
        """Add a batch of cells."""
        if self.declared_tokens:
            text = self._drop_declared_tokens(text)
        if self.declared:
            self._append(self._parse_as_kind(text, self.declared))
        elif self.must_reread:
            pass
        elif self.kind is None:
            self._guess(text)
        elif parsed := parse(text, self.kind, self.format):
            self._append(parsed)
            self._count_words(text)
        else:
            self._widen(text)
        self.height += len(text)

    def accept(self, guess: Guess) -> None:
        """Take the first batch with what was found out of it together with other columns."""
        self._set_kind(guess.kind)
        self.reason = guess.reason or self.reason
        self._append(guess.parsed)
        self.height += len(guess.parsed.values)

    def restart(self) -> TextColumn:
        """The column that takes the same cells once more, as text."""
        fresh = replace(self, must_reread=False, height=0, missing=set(), pieces=None)
        return replace(fresh, words=frozenset(), word_cells=0)

    def finish(self) -> pl.Series:
        """The whole column in one piece."""
        if self.declared is None and self.kind is None:
            waiting = self.pending
            self._set_kind("text")
            self.reason = explain_text(pl.concat(waiting), self.format.tokens) if waiting else ""
        if self.pieces is None:
            return pl.Series(self.name, [], dtype=DTYPES[self.declared or self.kind or "text"])
        pieces, self.pieces = self.pieces, None
        values = pieces.join(self.name)
        return self._convert_dates(values) if self._may_be_dates else values

    @property
    def _may_be_dates(self) -> bool:
        undeclared = self.declared is None and not self.declared_tokens
        return undeclared and self.reason == _MAY_BE_DATES.format(name=self.name)

    def _convert_dates(self, text: pl.Series) -> pl.Series:
        """Dates of which all values together tell the order of day and month; else text."""
        order = find_date_order(text)
        if order is None:
            return text
        self.reason = order.reason.format(name=self.name)
        if not order.pattern:
            return text
        kind: Kind = "datetime" if has_time(order.pattern) else "date"
        parsed = parse(text, kind, CellFormat(pattern=order.pattern, strict=False))
        if parsed is None:
            self.reason = "written like dates, but not all are days of the calendar, so text"
            return text
        self.kind, self.pattern, self.missing = kind, order.pattern, set(parsed.missing)
        return parsed.values

    def describe_reading(self) -> Reading:
        """How the column was read."""
        kind: Kind = self.declared or self.kind or "text"
        reason = "as declared" if self.declared else self.reason or "no values, so text"
        if self.missing and kind != "text":
            reason += "; the tokens for no value are missing"
        if self.words:
            reason += f" ({self.word_cells:,} cells hold a word for it among the {_OF[kind]})"
        return Reading(type=kind, reason=reason, missing=tuple(sorted(self.missing)))

    def _drop_declared_tokens(self, text: pl.Series) -> pl.Series:
        """The cells less the declared tokens, which are missing in text and numbers alike."""
        gone = text.is_in(list(self.declared_tokens))
        self.missing |= set(text.filter(gone).unique().to_list())
        return text.set(gone, None)

    def _append(self, parsed: Parsed | None) -> None:
        if parsed is None:
            return
        if self.pieces is None:
            self.pieces = ColumnBuffer(parsed.values.dtype)
        self.pieces.append(parsed.values, room=self.room)
        self.missing |= parsed.missing

    def _accept_words(self, text: pl.Series, words: frozenset[str]) -> None:
        """From here on these words mean that there is no value."""
        self.words |= words
        self.format = replace(self.format, tokens=self.format.tokens | words)
        self._count_words(text)

    def _count_words(self, text: pl.Series) -> None:
        if self.words:
            self.word_cells += int(text.is_in(list(self.words)).sum())

    def _parse_as_kind(self, text: pl.Series, kind: Kind) -> Parsed:
        try:
            parsed = parse(text, kind, self.format)
        except pl.exceptions.PolarsError:
            raise DataError(
                f"the pattern declared for the dates of '{self.name}' cannot be used.",
                hint="it is made of %Y, %m, %d, %H, %M, %S and what stands between them.",
            ) from None
        if parsed is None:
            misfits = find_misfits(text, kind, self.format)
            raise DataError(
                f"variable '{self.name}' was declared as {kind}, but {len(misfits)} cells are not; "
                f"the first is in record {self.height + int(misfits[0]) + 1}.",
                hint="declare another type or pattern, or what stands for missing: missing=[…].",
            )
        return parsed

    def _guess(self, text: pl.Series) -> None:
        cells = drop_missing_cells(text, self.format.tokens)
        if not len(cells):
            self.pending.append(text)
            return
        if self.pending:
            text, self.pending = pl.concat([*self.pending, text], rechunk=True), []
            cells = drop_missing_cells(text, self.format.tokens)
        if self._fit_guesses(text, cells, self.format, GUESSES):
            return
        words = frozenset() if self.declared_tokens else find_missing_words(cells)
        if words:
            with_words = replace(self.format, tokens=self.format.tokens | words)
            values = drop_missing_cells(cells, words)
            if self._fit_guesses(text, values, with_words, tuple(_OF)):
                self._accept_words(text, words)
                return
        elif self._may_be_words(cells):
            self.pending.append(text)  # numbers may come
            return
        self._set_kind("text")
        self.reason = explain_text(text, self.format.tokens)
        self._append(Parsed(text))

    def _fit_guesses(
        self, text: pl.Series, cells: pl.Series, cell_format: CellFormat, kinds: tuple[Kind, ...]
    ) -> bool:
        """Take the first kind that all cells are of, if there is one."""
        head = cells.head(SAMPLE)
        for kind in kinds:
            trial = cell_format
            if kind == "datetime":
                trial = replace(cell_format, pattern=guess_iso_pattern(cells[0]))
            if parse(head, kind, trial) and (parsed := parse(text, kind, trial)):
                self.format = trial
                self._set_kind(kind)
                self._append(parsed)
                return True
        return False

    def _may_be_words(self, cells: pl.Series) -> bool:
        """Whether nothing but words for "no value" was seen so far."""
        if self.declared_tokens:
            return False
        words = cells.unique().head(MOST + 1).to_list()
        return len(words) <= MOST and all(map(is_word_for_missing, words))

    def require_numbers(self) -> None:
        """Words for "no value" need two different numbers: `1` beside `N` may be yes beside no."""
        if self.words and self.pieces and not self.pieces.holds_several_values():
            self.kind, self.reason = "text", "words beside a single number"
            self.must_reread, self.pieces = True, None

    def _set_kind(self, kind: Kind) -> None:
        """Fix the kind, and give it to the batches that waited with nothing but tokens."""
        self.kind = kind
        sign = "comma" if self.format.decimal == "," else "point"
        self.reason = REASONS.get(kind, f"numbers, with a decimal {sign} where they have decimals")
        waiting, self.pending = self.pending, []
        for text in waiting:
            self._append(parse(text, kind, self.format))

    def _widen(self, text: pl.Series) -> None:
        pieces = self.pieces
        if self.kind == "integer" and pieces and pieces.exact_as_floats(EXACT):
            parsed = parse(text, "number", self.format)
            if parsed:
                pieces.to_floats()
                self.kind = "number"
                self.reason = "numbers; the first ones are whole, later ones are not"
                self._append(parsed)
                return
        if self._widen_by_words(text):
            return
        self.reason = explain_text(text, self.format.tokens, self.kind)
        self.kind, self.must_reread, self.pieces = "text", True, None

    def _widen_by_words(self, text: pl.Series) -> bool:
        """Read on where all that breaks the guess are words for "no value"."""
        pieces = self.pieces
        if self.kind not in _OF or self.declared_tokens or not pieces:
            return False
        cells = drop_missing_cells(text, self.format.tokens)
        different = cells.filter(~cells.str.contains(_NUMBER_LIKE)).unique()
        words = frozenset(different.head(MOST + 1).to_list())
        if not words or len(words | self.words) > MOST:
            return False
        with_words = replace(self.format, tokens=self.format.tokens | words)
        if not all(map(is_word_for_missing, words)):
            return False
        parsed = parse(text, self.kind, with_words)
        if parsed is None and self.kind == "integer" and pieces.exact_as_floats(EXACT):
            parsed = parse(text, "number", with_words)
            if parsed is not None:
                pieces.to_floats()
                self.kind = "number"
                self.reason = "numbers; the first ones are whole, later ones are not"
        if parsed is None:
            return False
        self._append(parsed)
        self._accept_words(text, words)
        return True
