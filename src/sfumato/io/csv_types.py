"""Types from text: a column is what all its cells are, and text whenever that is in doubt.

The cells of a column come in batches. Each batch is typed by itself, and what every batch can be
is what the column is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress

import polars as pl

from sfumato.errors import DataError
from sfumato.io.missing_words import MOST, is_word_for_missing
from sfumato.io.source import DTYPES, Kind, Reading, has_time

#: What people write for "no value" in columns of numbers and dates. In text it is text:
#: NA is Namibia.
TOKENS = frozenset(
    {"NA", "N/A", "NaN", "nan", "null", "NULL", "Null", ".", "-", "#N/A", "None", "none", "n/a"}
)
#: From here on a 64-bit float cannot tell neighbouring whole numbers apart.
EXACT = 2**53
SAMPLE = 2000
"""Cells that are tried before all the others are looked at."""
_TOGETHER = 1 << 16
"""Cells that are looked at in one call: short columns are put below each other."""
_DIFFERENT = 1000
"""Texts of a column that are looked at: where there are more, not all of them say "no value"."""

GUESSES: tuple[Kind, ...] = ("integer", "number", "boolean", "date", "datetime")
_BOOLEANS = dict.fromkeys(("true", "True", "TRUE"), True) | dict.fromkeys(
    ("false", "False", "FALSE"), False
)
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_DATETIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?Z?$"


@dataclass(frozen=True)
class CellFormat:
    """How the cells of one column are to be understood."""

    decimal: str = "."
    tokens: frozenset[str] = TOKENS
    pattern: str = ""  # of dates; empty: the one ISO form the cells have
    strict: bool = True  # False where the type was declared: then 007 may be a number
    words: bool = False  # whether a few words for "no value" are missing as the tokens are


@dataclass(frozen=True)
class Parsed:
    """The typed cells, how often which text was read as missing, and the pattern of dates."""

    values: pl.Series
    missing: Counter[str]
    pattern: str = ""


def parse(text: pl.Series, kind: Kind, cell_format: CellFormat) -> Parsed | None:
    """The column as this kind, or None if a single cell does not fit."""
    return parse_together([text], kind, cell_format)[0]


def parse_together(
    columns: Sequence[pl.Series], kind: Kind, cell_format: CellFormat
) -> list[Parsed | None]:
    """Columns of one height as this kind; None for those of which a single cell does not fit.

    Each call on a column costs more than its cells do, where the table is wide and short.
    """
    if kind == "text":
        return [Parsed(column, Counter()) for column in columns]
    height = max(1, len(columns[0])) if columns else 1
    fits = [True] * len(columns)
    if height > SAMPLE:  # a few cells rule out most kinds
        few = [column.gather_every(-(-height // SAMPLE)) for column in columns]
        fits = [parsed is not None for parsed in parse_together(few, kind, cell_format)]
        columns = list(compress(columns, fits))
    most = max(1, _TOGETHER // height)
    parts = (columns[start : start + most] for start in range(0, len(columns), most))
    parsed = (one for part in parts for one in _parse_stack(part, height, kind, cell_format))
    return [next(parsed) if fit else None for fit in fits]


def _parse_stack(
    columns: Sequence[pl.Series], height: int, kind: Kind, cell_format: CellFormat
) -> list[Parsed | None]:
    text = columns[0] if len(columns) == 1 else pl.concat(columns, rechunk=True)
    if not cell_format.strict:
        text = text.str.strip_chars()
    if kind == "datetime" and not cell_format.pattern:
        found: dict[int, Parsed | None] = {}
        for pattern, indices in _find_iso_patterns(text, height, len(columns)).items():
            alike = [columns[index] for index in indices]
            parsed = _parse_stack(alike, height, kind, replace(cell_format, pattern=pattern))
            found |= zip(indices, parsed, strict=True)
        return [found[index] for index in range(len(columns))]
    values = _convert_cells(text, kind, cell_format)
    missing = _count_missing(text, values, height)
    wrong = {i for i, cells in missing.items() if not _may_be_missing(cells, kind, cell_format)}
    if kind == "number" and values.is_nan().any():
        values = values.fill_nan(None)
        missing = _count_missing(text, values, height)
    if cell_format.strict:
        wrong |= set(_find_doubtful(text, values, kind) // height)
    return [
        None
        if index in wrong
        else Parsed(
            values.slice(index * height, height).alias(column.name),
            missing.get(index, Counter()),
            cell_format.pattern,
        )
        for index, column in enumerate(columns)
    ]


def _convert_cells(text: pl.Series, kind: Kind, cell_format: CellFormat) -> pl.Series:
    """The cells as this kind, those that do not fit as missing."""
    if kind == "boolean":
        return text.replace_strict(_BOOLEANS, default=None, return_dtype=pl.Boolean)
    if kind == "integer":
        return text.cast(pl.Int64, strict=False)
    if kind == "number":
        if cell_format.decimal == ",":
            text = text.set(text.str.contains(".", literal=True), None)
            text = text.str.replace(",", ".", literal=True)
        return text.cast(pl.Float64, strict=False)
    if kind == "date":
        return text.str.to_date(cell_format.pattern or "%Y-%m-%d", strict=False)
    if not has_time(cell_format.pattern):
        return text.str.to_date(cell_format.pattern, strict=False).cast(DTYPES[kind])
    values = text.str.strptime(pl.Datetime("us"), cell_format.pattern, strict=False)
    return values.dt.replace_time_zone("UTC") if cell_format.pattern.endswith("Z") else values


def _find_doubtful(text: pl.Series, values: pl.Series, kind: Kind) -> pl.Series:
    """The cells (by index) that a guess must not read: they say more than the value, or less.

    Those are leading zeros, a plus, more digits than a float holds, and lenient forms of dates.
    """
    if kind in {"date", "datetime"}:
        shape = _DATE if kind == "date" else _DATETIME
        return (values.is_not_null() & ~text.str.contains(shape)).arg_true()
    if kind == "boolean":
        return pl.Series([], dtype=pl.UInt32)
    # All numbers with a leading zero or a sign sort before "1": few cells, or none
    early = ((text < "1") & (text != "0") & values.is_not_null()).arg_true()
    loses = r"^(\+|-?0)" if kind == "integer" else r"^(\+|-?0[0-9])"
    doubtful = early.filter(text.gather(early).str.contains(loses))
    if kind == "number" and not values.is_between(-EXACT, EXACT, closed="none").all():
        large = (values.abs() >= EXACT).arg_true()
        digits = text.gather(large).str.contains(r"^-?[0-9]+$")
        doubtful = doubtful.append(large.filter(digits))
    return doubtful


def _count_missing(text: pl.Series, values: pl.Series, height: int) -> dict[int, Counter[str]]:
    """How often which text stands where there is no value, for each of the stacked columns."""
    counts: dict[int, Counter[str]] = {}
    if values.null_count() > text.null_count():
        rows = (values.is_null() & (text != "")).arg_true()
        met = pl.DataFrame({"column": rows // height, "cell": text.gather(rows)})
        met = met.group_by("column", "cell").len()
        for column, cell, count in met.group_by("column").head(_DIFFERENT).rows():
            counts.setdefault(column, Counter())[cell] = count
    return counts


def _may_be_missing(cells: Counter[str], kind: Kind, cell_format: CellFormat) -> bool:
    """Whether all these texts only say that there is no value."""
    others = cells.keys() - cell_format.tokens
    if not cell_format.words or kind == "boolean" or len(others) > MOST:
        return not others
    return all(map(is_word_for_missing, others))


def _find_misfits(text: pl.Series, kind: Kind, cell_format: CellFormat) -> pl.Series:
    """Which cells (by index) keep the column from being of a declared kind."""
    cells = text.str.strip_chars()
    if kind == "datetime" and not cell_format.pattern:
        (pattern,) = _find_iso_patterns(cells, len(cells), 1)
        cell_format = replace(cell_format, pattern=pattern)
    values = _convert_cells(cells, kind, cell_format)
    return (values.is_null() & ~cells.is_in(["", *cell_format.tokens])).arg_true()


def drop_missing_cells(text: pl.Series, tokens: frozenset[str]) -> pl.Series:
    """The cells that hold something: neither empty nor a token for missing."""
    return text.filter(text.is_not_null() & ~text.is_in(["", *tokens]))


def _find_iso_patterns(text: pl.Series, height: int, width: int) -> dict[str, list[int]]:
    """Which of the stacked columns are written as which ISO pattern, going by their first one."""
    rows = text.str.contains(_DATETIME).arg_true()
    met = pl.DataFrame({"column": rows // height, "cell": text.gather(rows)})
    cells = dict(met.unique("column", keep="first").rows())
    patterns: dict[str, list[int]] = {}
    for index in range(width):
        cell = cells.get(index, "2000-01-01T00:00")
        seconds = "%H:%M:%S%.f" if cell.count(":") == 2 else "%H:%M"  # noqa: PLR2004 - hours:minutes:seconds
        pattern = f"%Y-%m-%d{cell[10]}{seconds}{'Z' if cell.endswith('Z') else ''}"
        patterns.setdefault(pattern, []).append(index)
    return patterns


_REASONS = {
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


def explain_text(text: pl.Series, cell_format: CellFormat) -> str:
    """A sentence on why the column is text, without any cell of it."""
    tokens = cell_format.tokens
    head = drop_missing_cells(text.head(SAMPLE), tokens)
    if not len(head):
        head = drop_missing_cells(text, tokens).head(SAMPLE)
    if not len(head):
        return "no values, so text"
    if not re.match(r"\s*[-+]?[.,]*[0-9]", head[0]) and head[0] not in _BOOLEANS:
        return "words"
    plain = text.str.contains(r"^-?[1-9][0-9]{0,14}$")  # they say nothing against any reason
    others = drop_missing_cells(text.filter(~plain), tokens)
    for shape, trap, sentence in _TRAPS:
        if not head.str.contains(shape).all() or not others.str.contains(shape).all():
            continue
        if head.str.contains(trap).any() or others.str.contains(trap).any():
            return sentence.format(name=text.name)
    for kind in GUESSES if len(text) > SAMPLE else ():
        if parse(head, kind, cell_format):
            return f"not all cells are of the type of the first ones, {kind}, so it stays text"
    return "words"


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
    telling, seen = "," if delimiter == ";" else ".", set[str]()
    marked = frame.head(SAMPLE).select(pl.all().str.contains("[.,][0-9]").any())
    for name in marked.columns:
        if not marked[name].item():
            continue
        head = drop_missing_cells(frame[name], TOKENS).head(SAMPLE)
        for sign, (shape, trap) in _DECIMALS.items():
            if sign in seen or not head.str.contains(shape).all():
                continue
            if head.str.contains(trap).any() and parse(frame[name], "number", CellFormat(sign)):
                seen.add(sign)
        if telling in seen:
            return telling
    return "," if "," in seen else "."


# 1,234 may be a thousand; 12,5 and 0,125 and 1234,567 cannot
_DECIMALS = {
    ",": (r"^-?[0-9]*(,[0-9]+)?$", r"^-?(0?|[0-9]{4,}),[0-9]+$|,([0-9]{1,2}|[0-9]{4,})$"),
    ".": ("", r"^-?[0-9]+\.[0-9]+$"),
}


@dataclass
class TextColumn:
    """Collects the batches of one variable in the narrowest type that fits them all.

    A batch without a value waits as text until there is one. Where no type fits all batches, the
    column takes them once more as text: typed cells do not tell how they were written.
    """

    name: str
    format: CellFormat
    declared: Kind | None = None
    declared_tokens: frozenset[str] = frozenset()
    kind: Kind | None = None
    kinds: tuple[Kind, ...] = GUESSES  # that the next batch may be of
    must_reread: bool = False
    reason: str = ""
    day_order: str = ""  # the pattern of dates whose order all of them tell
    pieces: list[pl.Series] = field(default_factory=list)
    missing: Counter[str] = field(default_factory=Counter)
    dropped: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.declared:
            self.kind, self.reason = self.declared, "as declared"
            self.kinds = () if self.declared == "text" else (self.declared,)

    @property
    def words(self) -> frozenset[str]:
        """The words for "no value" met among numbers and dates, beside the tokens."""
        if not self.format.words or self.kind in {None, "text"}:
            return frozenset()
        return frozenset(filter(is_word_for_missing, self.missing.keys() - self.format.tokens))

    @property
    def word_cells(self) -> int:
        """How many cells hold such a word."""
        return sum(self.missing[word] for word in self.words)

    def drop_declared_tokens(self, text: pl.Series) -> pl.Series:
        """The cells less the declared tokens, which are missing in text and numbers alike."""
        if not self.declared_tokens:
            return text
        gone = text.is_in(list(self.declared_tokens))
        self.dropped |= set(text.filter(gone).unique())
        return text.set(gone, None)

    def take(self, kind: Kind, parsed: Parsed, text: pl.Series) -> None:
        """Add a batch of which all cells are of this kind."""
        self.missing += parsed.missing
        empty = parsed.values.null_count() == len(text)
        if empty and (self.declared or (self.kind is None and kind == "integer")):
            self.pieces.append(text)
            return
        self.pieces.append(parsed.values)
        self.format = replace(self.format, pattern=parsed.pattern)
        if self.kind != "number":
            self.kind = kind
        self.kinds = (kind,) if self.declared or kind != "integer" else ("integer", "number")

    def take_text(self, text: pl.Series, before: int) -> None:
        """Add a batch that is of no other kind; `before` is how many records came before it."""
        if self.declared and self.declared != "text":
            misfits = _find_misfits(text, self.declared, self.format)
            raise DataError(
                f"variable '{self.name}' was declared as {self.declared}, but {len(misfits)} "
                f"cells are not; the first is in record {before + int(misfits[0]) + 1}.",
                hint="declare another type or pattern, or what stands for missing: missing=[…].",
            )
        self.must_reread = self.must_reread or self.kind not in {None, "text"}
        self.kind, self.kinds = "text", ()
        if self.must_reread:
            self.pieces.clear()
        else:
            self.pieces.append(text)

    def settle(self) -> None:
        """Look at all batches together: what fits each of them may not fit them all."""
        if self.declared or self.kind in {None, "text"}:
            return
        typed = [piece for piece in self.pieces if piece.dtype != pl.String]
        if self.words:
            values = {cell for piece in typed for cell in piece.drop_nulls().unique().head(2)}
            if len(values) < 2:  # noqa: PLR2004 - 1 beside N may be yes beside no
                self.reason = "words beside a single number"
            odd = self.kind == "boolean" or len(self.words) > MOST
            self.must_reread = odd or len(values) < 2  # noqa: PLR2004
        if self.kind == "number":
            whole = (piece for piece in typed if piece.dtype == pl.Int64)
            exact = (piece.is_between(-EXACT, EXACT, closed="none").all() for piece in whole)
            self.must_reread |= not all(exact)

    def restart(self) -> None:
        """Take all batches once more, as text."""
        self.kind, self.kinds, self.must_reread, self.pieces = "text", (), False, []

    def finish(self) -> pl.Series:
        """The whole column in one piece."""
        kind = self.kind = self.kind or "text"
        pieces, self.pieces = [self._convert_piece(piece, kind) for piece in self.pieces], []
        cells = pl.concat(pieces) if pieces else pl.Series([], dtype=DTYPES[kind])
        cells = cells.rechunk().alias(self.name)
        if kind == "text" and not self.declared:
            return self._explain_text(cells)
        sign = "comma" if self.format.decimal == "," else "point"
        number = f"numbers, with a decimal {sign} where they have decimals"
        self.reason = self.reason or _REASONS.get(kind, number)
        return cells

    def _convert_piece(self, piece: pl.Series, kind: Kind) -> pl.Series:
        """A batch in the type of the column: one that waited, or whole numbers among others."""
        if piece.dtype == pl.Int64 and kind == "number":
            return piece.cast(pl.Float64)
        if piece.dtype != pl.String or kind == "text":
            return piece
        parsed = parse(piece, kind, self.format)
        assert parsed  # noqa: S101 - it holds nothing but texts that are missing
        return parsed.values

    def _explain_text(self, text: pl.Series) -> pl.Series:
        """The column with the reason why it is text: or dates, if all of them tell their order."""
        self.missing = Counter()
        self.reason = self.reason or explain_text(text, self.format)
        if self.declared_tokens or self.reason != _MAY_BE_DATES.format(name=self.name):
            return text
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
        self.kind, self.day_order, self.missing = kind, order.pattern, parsed.missing
        return parsed.values

    def describe_reading(self) -> Reading:
        """How the column was read."""
        reason = self.reason
        if self.missing or (self.dropped and self.kind != "text"):
            reason += "; the tokens for no value are missing"
        if self.words:
            others = "dates" if self.kind in {"date", "datetime"} else "numbers"
            reason += f" ({self.word_cells:,} cells hold a word for it among the {others})"
        missing = tuple(sorted(self.dropped | self.missing.keys()))
        return Reading(type=self.kind or "text", reason=reason, missing=missing)


def add_batch(columns: Iterable[TextColumn], text: pl.DataFrame, before: int) -> None:
    """Give each column its cells of a batch; `before` is how many records came before it.

    Columns that may be of one kind are looked at together.
    """
    waiting = {column.name: column for column in columns}
    cells = {name: waiting[name].drop_declared_tokens(text[name]) for name in waiting}
    for kind in GUESSES:
        groups: dict[CellFormat, list[str]] = {}
        for name, column in waiting.items():
            if kind in column.kinds:
                groups.setdefault(column.format, []).append(name)
        for cell_format, names in groups.items():
            try:
                parsed = parse_together([cells[name] for name in names], kind, cell_format)
            except pl.exceptions.PolarsError:
                raise DataError(
                    f"the pattern declared for the dates of '{names[0]}' cannot be used.",
                    hint="it is made of %Y, %m, %d, %H, %M, %S and what stands between them.",
                ) from None
            for name, fitting in zip(names, parsed, strict=True):
                if fitting:
                    waiting.pop(name).take(kind, fitting, cells[name])
    for name, column in waiting.items():
        column.take_text(cells[name], before)
