"""One column of a text table while it is read: a guess that every further batch must bear out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import polars as pl

from sfumato.errors import DataError
from sfumato.io.csv_pieces import Pieces
from sfumato.io.csv_reasons import FITS, GUESSES, SAMPLE, why_text
from sfumato.io.csv_types import EXACT, Manner, Parsed, iso_pattern, misfits, parse, present_cells
from sfumato.io.source import DTYPES, Reading

if TYPE_CHECKING:
    from sfumato.io.source import Kind


@dataclass
class Column:
    """Collects the batches of one variable in the narrowest type that fits them all.

    While no cell tells, the batches wait as text. A batch that breaks the guess turns whole
    numbers into numbers in place; any other break means the column must be read again as text,
    since what was cast before cannot be told back.
    """

    name: str
    manner: Manner
    told: Kind | None = None
    told_tokens: frozenset[str] = frozenset()
    room: int = 0
    again: bool = False
    kind: Kind | None = None
    reason: str = ""
    height: int = 0
    missing: set[str] = field(default_factory=set)
    waiting: list[pl.Series] = field(default_factory=list)
    pieces: Pieces | None = None

    def take(self, text: pl.Series) -> None:
        """Add a batch of cells."""
        if self.told_tokens:
            text = self._without_told(text)
        if self.told:
            self._keep(self._as_told(text, self.told))
        elif self.again:
            pass
        elif self.kind is None:
            self._guess(text)
        elif parsed := parse(text, self.kind, self.manner):
            self._keep(parsed)
        else:
            self._widen(text)
        self.height += len(text)

    def read_again(self) -> Column:
        """The column that takes the same cells once more, as text."""
        return replace(self, again=False, height=0, missing=set(), pieces=None)

    def finish(self) -> pl.Series:
        """The whole column in one piece."""
        if self.told is None and self.kind is None:
            self._decide("text")
        if self.pieces is None:
            return pl.Series(self.name, [], dtype=DTYPES[self.told or self.kind or "text"])
        pieces, self.pieces = self.pieces, None
        return pieces.join(self.name)

    def reading(self) -> Reading:
        """How the column was read."""
        kind: Kind = self.told or self.kind or "text"
        reason = "as told" if self.told else self.reason or "no values, so text"
        if self.missing and kind != "text":
            reason += "; the tokens for no value are missing"
        return Reading(type=kind, reason=reason, missing=tuple(sorted(self.missing)))

    def _without_told(self, text: pl.Series) -> pl.Series:
        """The cells less the tokens that were told, which are missing in text and numbers alike."""
        gone = text.is_in(list(self.told_tokens))
        self.missing |= set(text.filter(gone).unique().to_list())
        return text.set(gone, None)

    def _keep(self, parsed: Parsed | None) -> None:
        if parsed is None:
            return
        if self.pieces is None:
            self.pieces = Pieces(parsed.values.dtype)
        self.pieces.append(parsed.values, room=self.room)
        self.missing |= parsed.missing

    def _as_told(self, text: pl.Series, kind: Kind) -> Parsed:
        try:
            parsed = parse(text, kind, self.manner)
        except pl.exceptions.PolarsError:
            raise DataError(
                f"the pattern told for the dates of '{self.name}' cannot be used.",
                hint="it is made of %Y, %m, %d, %H, %M, %S and what stands between them.",
            ) from None
        if parsed is None:
            places = misfits(text, kind, self.manner)
            raise DataError(
                f"variable '{self.name}' was told to be {kind}, but {len(places)} cells are not; "
                f"the first is in record {self.height + int(places[0]) + 1}.",
                hint="tell another type or pattern, or tell what stands for missing: missing=[…].",
            )
        return parsed

    def _guess(self, text: pl.Series) -> None:
        cells = present_cells(text, self.manner.tokens)
        if not len(cells):
            self.waiting.append(text)
            return
        head = cells.head(SAMPLE)
        for kind in GUESSES:
            if kind == "datetime":
                self.manner = replace(self.manner, pattern=iso_pattern(cells[0]))
            if parse(head, kind, self.manner) and (parsed := parse(text, kind, self.manner)):
                self._decide(kind)
                self._keep(parsed)
                return
        self._decide("text")
        self.reason = why_text(text, self.manner.tokens)
        self._keep(Parsed(text))

    def _decide(self, kind: Kind) -> None:
        """Fix the kind, and give it to the batches that waited with nothing but tokens."""
        self.kind = kind
        sign = "comma" if self.manner.decimal == "," else "point"
        self.reason = FITS.get(kind, f"numbers, with a decimal {sign} where they have decimals")
        waiting, self.waiting = self.waiting, []
        for text in waiting:
            self._keep(parse(text, kind, self.manner))

    def _widen(self, text: pl.Series) -> None:
        pieces = self.pieces
        if self.kind == "integer" and pieces and pieces.exact_as_floats(EXACT):
            parsed = parse(text, "number", self.manner)
            if parsed:
                pieces.to_floats()
                self.kind = "number"
                self.reason = "numbers; the first ones are whole, later ones are not"
                self._keep(parsed)
                return
        self.reason = why_text(text, self.manner.tokens, self.kind)
        self.kind, self.again, self.pieces = "text", True, None
