"""Attackers of a release that share no code with the measures they check.

Each is plain Python over rows of cells, written from the promise and not from the source: slow,
short, and wrong in other ways than the library could be. An attacker returns what it broke, in
words without a value, or None.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, combinations
from typing import Any

Row = Mapping[str, Any]
_TOLERANCE = 1e-9
_LUCK = 0.01
_SURPRISE = 15.0
"""A rule counts if chance would bring it about less than once in 10 to the power of this."""
_SURELY = 0.9


@lru_cache(maxsize=50_000, typed=True)
def parse_cell(cell: Any) -> tuple[str, Any]:  # noqa: PLR0911 - one a notation
    """A released cell as somebody reads it who knows the notation from the documentation."""
    if cell is None:
        return "missing", None
    if not isinstance(cell, str):
        return "value", cell
    if cell == "*":
        return "anything", None
    if match := re.fullmatch(r"\[([^;]*);([^;]*)\]", cell, re.DOTALL):
        return "range", (match[1], match[2])
    if match := re.fullmatch(r"\{(.*)\}", cell, re.DOTALL):
        return "set", match[1].split(";")
    if match := re.fullmatch(r"([^*]+)(\*+)", cell, re.DOTALL):
        return "mask", (match[1], len(cell))
    return "value", cell


@lru_cache(maxsize=200_000, typed=True)
def cell_fits(cell: Any, truth: Any) -> bool:
    """Whether somebody whose true value is known could have this released cell."""
    kind, content = parse_cell(cell)
    if kind in ("anything", "missing"):
        return True
    if truth is None:
        return False
    if kind == "range":
        return _lies_within(content[0], content[1], truth)
    if kind == "set":
        return any(_same(member, truth) for member in content)
    if kind == "mask":
        text = str(truth)
        return len(text) == content[1] and text.startswith(content[0])
    return _same(content, truth)


def _lies_within(low: str, high: str, truth: Any) -> bool:
    if isinstance(truth, dt.date):
        return low <= truth.isoformat() <= high
    try:
        return float(low) - _TOLERANCE <= float(truth) <= float(high) + _TOLERANCE
    except (TypeError, ValueError):
        return low <= str(truth) <= high


def _same(cell: Any, truth: Any) -> bool:
    if isinstance(truth, bool) or isinstance(cell, bool):
        return str(cell).lower() == str(truth).lower()
    if isinstance(truth, (int, float)):
        try:
            return math.isclose(float(cell), float(truth), rel_tol=0, abs_tol=_TOLERANCE)
        except (TypeError, ValueError):
            return False
    return str(cell) == str(truth)


def normalise(value: Any) -> Hashable:
    """A secret as a person reads it: neither case, nor blanks, nor invisible signs, nor cents."""
    if isinstance(value, float):
        return round(value)
    if not isinstance(value, str):
        return repr(value)
    text = unicodedata.normalize("NFKC", value)
    text = "".join(sign for sign in text if unicodedata.category(sign) not in ("Cf", "Cc"))
    return " ".join(text.split()).casefold()


def classes_of(
    released: Sequence[Row], known: Sequence[str], *, filled: bool = False
) -> dict[Any, list[int]]:
    """The rows that share every released cell.

    Where an attacker has filled cells in, a row with a cell left open belongs to every class that
    it may be of: nobody is told apart by what he did not find out.
    """
    classes: dict[Any, list[int]] = defaultdict(list)
    for index, row in enumerate(released):
        classes[tuple(repr(row[name]) for name in known)].append(index)
    if not filled:
        return classes
    examples = {key: released[rows[0]] for key, rows in classes.items()}
    return {
        key: [
            index
            for other, rows in classes.items()
            if all(_may_be_same(example[name], examples[other][name]) for name in known)
            for index in rows
        ]
        for key, example in examples.items()
    }


def _may_be_same(cell: Any, other: Any) -> bool:
    if repr(cell) == repr(other):
        return True
    kinds = parse_cell(cell)[0], parse_cell(other)[0]
    if kinds.count("value") != 1:
        return False
    return cell_fits(cell, other) if kinds[1] == "value" else cell_fits(other, cell)


def match_exactly(
    released: Sequence[Row], known: Sequence[str], k: int, *, filled: bool = False
) -> str | None:
    """Look for a combination of cells that fewer than k rows have."""
    smallest = min(map(len, classes_of(released, known, filled=filled).values()))
    return f"a class of {smallest} where k = {k} was met" if smallest < k else None


def match_by_fitting(
    original: Sequence[Row], released: Sequence[Row], known: Sequence[str], k: int
) -> str | None:
    """Know a person's true values, and count the rows that could be theirs."""
    for truth, own in zip(original, released, strict=True):
        if not all(cell_fits(own[name], truth[name]) for name in known):
            continue
        fitting = sum(all(cell_fits(row[name], truth[name]) for name in known) for row in released)
        if fitting < k:
            return f"{fitting} rows fit somebody where k = {k} was met"
    return None


def match_backwards(
    original: Sequence[Row], released: Sequence[Row], known: Sequence[str], k: int
) -> str | None:
    """Begin with a row, and count the persons whose true values fit it."""
    pairs = zip(original, released, strict=True)
    if not all(_fits(row, truth, known) for truth, row in pairs):
        return None  # noise and the like: a row need not be its person's
    for row in _distinct(released, known):
        persons = sum(_fits(row, truth, known) for truth in original)
        if persons < k:
            return f"{persons} persons fit a row where k = {k} was met"
    return None


def _fits(row: Row, truth: Row, known: Sequence[str]) -> bool:
    return all(cell_fits(row[name], truth[name]) for name in known)


def _distinct(rows: Sequence[Row], known: Sequence[str]) -> list[Row]:
    return list({tuple(repr(row[name]) for name in known): row for row in rows}.values())


def intersect_candidates(
    original: Sequence[Row],
    releases: Sequence[Sequence[Row]],
    known: Sequence[str],
    k: int,
) -> str | None:
    """Who could be behind a person's row in every release: rows cannot be joined, cells can."""
    for rows in releases:
        if not all(_fits(row, truth, known) for truth, row in zip(original, rows, strict=True)):
            return None
    cells = {
        tuple(tuple(repr(rows[person][name]) for name in known) for rows in releases): person
        for person in range(len(original))
    }
    for person in cells.values():
        own = [rows[person] for rows in releases]
        candidates = sum(all(_fits(row, truth, known) for row in own) for truth in original)
        if candidates < k:
            return f"{candidates} candidates are left by two releases where k = {k} was met"
    return None


def look_up_by_others(
    original: Sequence[Row],
    released: Sequence[Row],
    known: Sequence[str],
    others: Sequence[str],
) -> list[dict[str, Any]]:
    """Fill in each known variable by one or two columns that left as they were.

    Only where every person with the same values has the same, so many times over that it is no
    accident: who owns a value alone tells nothing of a rule.
    """
    exact = [
        name
        for name in others
        if name in released[0]
        and all(_same(row[name], truth[name]) if truth[name] is not None else row[name] is None
                for truth, row in zip(original, released, strict=True))
    ]  # fmt: skip
    filled = [dict(row) for row in released]
    for name in known:
        for tools in chain(combinations(exact, 1), combinations(exact, 2)):
            table = _learn(original, name, tools)
            if table is None or name not in released[0]:
                continue
            # Single values are believed, unless some of them are known to be false.
            believed = all(
                cell_fits(row[name], truth[name])
                for truth, row in zip(original, released, strict=True)
            )
            for row, source in zip(filled, released, strict=True):
                key = tuple(source[tool] for tool in tools)
                # What a first rule says stays; a second one says something of the others.
                unsaid = row[name] == source[name]
                single = believed and parse_cell(source[name])[0] == "value"
                if key in table and unsaid and not single:
                    row[name] = _write_like(table[key], source[name])
    return filled


def _write_like(value: Any, cell: Any) -> Any:
    """A value as the column writes it: in a column of text, 1 is "1"."""
    if not isinstance(cell, str) or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _learn(
    original: Sequence[Row], name: str, tools: Sequence[str]
) -> dict[tuple[Any, ...], Any] | None:
    """What goes with each value of the tools; None where it is no rule, or may be an accident."""
    shares = Counter(row[name] for row in original if row[name] is not None)
    total = shares.total()
    groups: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
    for row in original:
        key = tuple(row[tool] for tool in tools)
        if row[name] is not None and None not in key:
            groups[key].append(row[name])
    if any(len(set(values)) > 1 for values in groups.values()):
        return None
    surprise = sum(
        (len(values) - 1) * math.log10(total / shares[values[0]]) for values in groups.values()
    )
    if surprise < _SURPRISE:
        return None
    return {key: values[0] for key, values in groups.items() if len(values) > 1}


def count_recovered(
    original: Sequence[Row],
    released: Sequence[Row],
    filled: Sequence[Row],
    known: Sequence[str],
    share: float,
) -> str | None:
    """The share of changed cells of a variable that were filled in, and rightly."""
    for name in known:
        changed = [
            index
            for index, truth in enumerate(original)
            if truth[name] is not None and not _same(released[index][name], truth[name])
        ]
        back = sum(_same(filled[index][name], original[index][name]) for index in changed)
        if changed and back / len(changed) > _SURELY:
            return f"{back} of {len(changed)} come back where at most {share} was met"
    return None


def count_secrets(
    released: Sequence[Row],
    known: Sequence[str],
    secret: str,
    least: float,
    *,
    filled: bool = False,
) -> str | None:
    """Count the different secrets of a class as a person reads them."""
    for rows in classes_of(released, known, filled=filled).values():
        values = [released[index][secret] for index in rows]
        secrets = {normalise(value) for value in values}
        # A class whose secret nobody recorded discloses none.
        if len(secrets) < least and any(value is not None for value in values):
            return f"{len(secrets)} secrets in a class where l = {least} was met"
    return None


def measure_closeness(
    released: Sequence[Row], known: Sequence[str], secret: str, largest: float
) -> str | None:
    """The variational distance of a class's levels from everybody's."""
    everybody = Counter(normalise(row[secret]) for row in released)
    total = len(released)
    for rows in classes_of(released, known).values():
        inside = Counter(normalise(released[index][secret]) for index in rows)
        distance = 0.5 * sum(
            abs(inside[level] / len(rows) - count / total) for level, count in everybody.items()
        )
        if distance > largest + 1e-9:
            return f"a class {distance:.3f} away where t = {largest} was met"
    return None


def find_unmoved(
    original: Sequence[Row], released: Sequence[Row], names: Sequence[str], share: float
) -> str | None:
    """One variable at a time: how many people's numbers stand there as they were."""
    for name in names:
        pairs = [
            (truth[name], row[name])
            for truth, row in zip(original, released, strict=True)
            if truth[name] is not None
        ]
        if not pairs:
            continue
        stayed = sum(_same(cell, truth) for truth, cell in pairs) / len(pairs)
        if stayed > share + 1e-9:
            return f"{stayed:.2f} of a variable unmoved where at most {share} was met"
    return None


def link_by_one(
    original: Sequence[Row], released: Sequence[Row], names: Sequence[str], share: float
) -> str | None:
    """Name people by one variable that left exactly, and is unique in the register.

    Where several released rows show the value, one of them is picked.
    """
    for name in names:
        if any(row[name] is None for row in (*original, *released)):
            continue
        values = Counter(row[name] for row in original)
        shown = Counter(row[name] for row in released)
        linked = sum(
            1 / shown[row[name]]
            for truth, row in zip(original, released, strict=True)
            if values[truth[name]] == 1 and row[name] == truth[name]
        )
        if linked / len(original) > share + 1e-9:
            return f"{linked:g} of {len(original)} linked by one variable where {share} was met"
    return None


def state_ends(
    original: Sequence[Row], released: Sequence[Row], known: Sequence[str], share: float
) -> str | None:
    """Say of a class "and this variable equals the end of its range"; count who stands alone."""
    statements = isolated = 0
    for cells in classes_of(released, known).values():
        example = released[cells[0]]
        for name in known:
            kind, content = parse_cell(example[name])
            if kind != "range":
                continue
            for end in content:
                statements += 1
                holds = [
                    truth
                    for truth in original
                    if truth[name] is not None
                    and _equals_end(end, truth[name])
                    and all(cell_fits(example[other], truth[other]) for other in known)
                ]
                isolated += len(holds) == 1
    # A few statements are no rate: with luck 5 of 24 hold where 1 in 5 may. But where nobody may be
    # singled out, one is too many.
    lucky = share and _have_luck(isolated, statements, share) > _LUCK
    if isolated and not lucky:
        return f"{isolated} of {statements} ends isolate somebody where {share} was met"
    return None


def _have_luck(hits: int, tries: int, share: float) -> float:
    """How often so many tries or more succeed if each does with this chance."""
    return sum(
        math.comb(tries, count) * share**count * (1 - share) ** (tries - count)
        for count in range(hits, tries + 1)
    )


def _equals_end(end: str, truth: Any) -> bool:
    return end == truth.isoformat() if isinstance(truth, dt.date) else _same(end, truth)


def find_quoted(text: str, original: Sequence[Row], released: Sequence[Row]) -> str | None:
    """Look for originals in public text that the release itself does not show."""
    shown = {str(cell) for row in released for cell in row.values()}
    for row in original:
        for name, value in row.items():
            written = str(value)
            telling = len(written) >= 6 and written not in shown
            if telling and isinstance(value, (str, float, dt.date)) and written in text:
                return f"a value of '{name}' is quoted"
    return None
