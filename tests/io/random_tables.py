"""Random small text tables, sound and damaged, and how they are asked to be read: by a seed."""

from __future__ import annotations

import gzip
import random
from dataclasses import dataclass, field
from typing import Any

_WORDS = ("N", "Refused", "don't know", "keine Angabe", "Weiß nicht", "?", "unknown", "--", "k.A.")
_TOKENS = ("NA", "N/A", "NaN", "nan", "null", ".", "-", "None", "NAN", "")
_CELLS: dict[str, tuple[str, ...]] = {
    "whole": ("0", "1", "17", "-3", "255", "1000000"),
    "signed": ("+5", "-0", "+0", "5", "-01"),
    "zeros": ("007", "01067", "10115", "00", "0"),
    "huge": ("9007199254740993", "9007199254740992", "9223372036854775808", "-1", "12"),
    "point": ("1.5", "-0.25", ".5", "2.", "1e3", "0.125", "10.75", "1e400", "0.0"),
    "comma": ("1,5", "-0,25", "12,75", "0,125", "3", "1234,567"),
    "thousands": ("1,234", "5,678,901", "1.234", "12", "1'234", "1 234"),
    "infinite": ("inf", "-inf", "1.5", "Infinity", "NAN"),
    "yes": ("true", "false", "True", "FALSE"),
    "day": ("2021-04-03", "1999-12-31", "2020-02-29", "0001-01-01"),
    "odd day": ("2021-4-3", "2021-02-30", "21-04-03", "2021-04-03 "),
    "time": ("2021-04-03T10:15:01.5", "2021-04-03T10:15:00", "1999-12-31T23:59:59"),
    "minute": ("2021-04-03 10:15", "1999-12-31 00:00"),
    "zulu": ("2021-04-03T10:15:00Z", "2021-04-03T23:59:59.25Z"),
    "zone": ("2021-04-03T10:15:00+02:00", "2021-04-03T10:15:00Z"),
    "german": ("03.04.2021", "13.04.2021", "28.12.1999"),
    "american": ("03/04/2021", "04/13/2021", "12/28/1999"),
    "unclear": ("03.04.2021", "05.06.2020", "01.02.99"),
    "clock": ("03.04.2021 10:15", "13.04.2021 09:00"),
    "impossible": ("31.02.2021", "13.04.2021"),
    "spaces": (" 5", "5 ", "7", " 1.5"),
    "name": ("Ann", "Müller", "x", "a b", "Größmann-Çelik", "NA", "O'Neil"),
    "nasty": ("a,b", 'say "so"', "two\nlines", "a;b|c\td", "\r\n", "=1+1", "'=1", "<5", "ends\r"),
    "missing": _TOKENS,
    "words": _WORDS,
}
_ENCODINGS = ("utf-8",) * 12 + ("utf-8-sig", "utf-8-sig", "utf-16", "cp1252", "cp1252", "cp1250")


@dataclass
class RandomTable:
    """A file by its content, and the options it is read with."""

    content: bytes
    name: str
    options: dict[str, Any] = field(default_factory=dict)


def make_table(seed: int) -> RandomTable:
    """The table of this seed; three in ten are damaged, four in ten come with options."""
    chance = random.Random(seed)  # noqa: S311 - tables for tests
    width = chance.choice((1, 2, 2, 3, 3, 5, 8)) if chance.random() < 0.97 else 70
    height = chance.choice((0, 1, 2, 3, 5, 9, 20, 60))
    names = [f"v{number}" for number in range(width)]
    if chance.random() < 0.1:
        names[0] = chance.choice(("'=x", "größe", 'a "b"', "a,b", "two\nlines", "^v1$", "v"))
    columns = [_draw_column(chance, height) for _ in names]
    delimiter = chance.choice((",", ",", ";", "\t", "|"))
    quote, options = '"', {}
    if chance.random() < 0.06:
        quote = options["quote"] = "'"
    rows = [names, *(list(row) for row in zip(*columns, strict=True))]
    damage = chance.choice(_DAMAGES) if chance.random() < 0.3 else ""
    if damage in {"cell more", "cell less", "blank line", "header again", "no header"}:
        _damage_rows(chance, rows, damage)
    always = chance.choice((0.0, 0.0, 0.3, 1.0))
    lines = [
        delimiter.join(_quote_cell(chance, cell, delimiter, quote, always) for cell in row)
        for row in rows
    ]
    end = chance.choice(("\n", "\n", "\n", "\r\n"))
    text = end.join(lines) + chance.choice((end, end, end, "", end + end, end * 3))
    if chance.random() < 0.4:
        options |= _draw_options(chance, names, delimiter)
    return _encode(chance, text, damage, options)


_DAMAGES = (
    "cell more", "cell less", "blank line", "header again", "no header", "stray mark", "nul",
    "not utf-8", "cut", "names twice", "no name", "carriage returns", "marks off", "empty",
)  # fmt: skip


def _draw_column(chance: random.Random, height: int) -> list[str]:
    kind = chance.choice(list(_CELLS))
    cells = [chance.choice(_CELLS[kind]) for _ in range(height)]
    for other, share in (("missing", 0.2), ("words", 0.06)):
        if chance.random() < 0.35:
            few = chance.sample(_CELLS[other], 2)
            cells = [chance.choice(few) if chance.random() < share else cell for cell in cells]
    if height and chance.random() < 0.25:
        cells[chance.randrange(height)] = chance.choice(_CELLS[chance.choice(list(_CELLS))])
    return cells


def _damage_rows(chance: random.Random, rows: list[list[str]], damage: str) -> None:
    row = chance.randrange(len(rows))
    if damage == "cell more":
        rows[row] = [*rows[row], "17"]
    elif damage == "cell less":
        rows[row] = rows[row][:-1]
    elif damage == "blank line":
        rows.insert(row, [])
    elif damage == "header again":
        rows.append(rows[0])
    else:
        del rows[0]


def _quote_cell(chance: random.Random, cell: str, delimiter: str, quote: str, always: float) -> str:
    needed = any(sign in cell for sign in (delimiter, quote, "\n", "\r"))
    if needed or chance.random() < always:
        return quote + cell.replace(quote, quote * 2) + quote
    return cell


def _draw_options(chance: random.Random, names: list[str], delimiter: str) -> dict[str, Any]:
    name, other = chance.choice(names), chance.choice(names)
    kinds = ("text", "integer", "number", "boolean", "date", "datetime")
    pool: tuple[dict[str, Any], ...] = (
        {"types": {name: chance.choice(kinds), other: chance.choice(kinds)}},
        {"types": dict.fromkeys(names, "text")},
        {"dates": {name: chance.choice(("%d.%m.%Y", "%m/%d/%Y", "%Y-%m-%d", "%d.%m.%Y %H:%M"))}},
        {"missing": chance.choice((["-3"], ["NA", "17"], ["N"], []))},
        {"missing": {name: chance.choice((["1"], ["N", "?"], ["x"]))}},
        {"decimal": chance.choice((".", ","))},
        {"delimiter": delimiter},
        {"columns": chance.sample(names, chance.randint(1, len(names)))},
        {"columns": ["none such"]},
        {"formulas": "unescape"},
        {"quote": None},
        {"encoding": chance.choice(("utf-8", "cp1252", "utf-16"))},
        {"dates": {name: "%Q"}},
    )
    drawn: dict[str, Any] = {}
    for options in chance.sample(pool, chance.choice((1, 1, 2))):
        drawn |= options
    return drawn


def _encode(chance: random.Random, text: str, damage: str, options: dict[str, Any]) -> RandomTable:
    encoding = chance.choice(_ENCODINGS)
    text = _damage_text(chance, text, damage)
    content = text.encode(encoding, errors="replace")
    if damage == "not utf-8":
        middle = chance.randrange(len(content) + 1)
        content = content[:middle] + b"\xff\xe4" + content[middle:]
    name = chance.choice(("x.csv", "x.csv", "x.csv", "x.txt", "x.tsv", "x.csv.gz"))
    if name.endswith(".gz"):
        content = gzip.compress(content, mtime=0)
    if damage == "cut":
        content = content[: chance.randrange(len(content) + 1)]
    return RandomTable(content, name, options)


def _damage_text(chance: random.Random, text: str, damage: str) -> str:
    place = chance.randrange(len(text) + 1)
    damaged = {
        "stray mark": text[:place] + '"' + text[place:],
        "nul": text[:place] + "\0" + text[place:],
        "carriage returns": text.replace("\r\n", "\n").replace("\n", "\r"),
        "marks off": text.replace('"', "", 1),
        "names twice": text.replace("v1", "v0", 1),
        "no name": text.replace("v1", "", 1),
        "empty": chance.choice(("", "\n", "\r\n\r\n", "v0,v1", "v0", " ")),
    }
    return damaged.get(damage, text)
