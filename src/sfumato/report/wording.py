"""Numbers, shares and lists as people read them on a page: one wording for all reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sfumato import catalogue
from sfumato.parameters import format_value

_FULL = 100.0
_MOST_NAMES = 4


def format_percent(share: float) -> str:
    r"""A share in per cent, with digits where it is small.

    Examples
    --------
    >>> shares = (0.0, 0.00005, 0.0123, 0.5, 0.9996, 1.0)
    >>> [format_percent(share).replace("\N{NO-BREAK SPACE}", " ") for share in shares]
    ['0 %', '0.005 %', '1.2 %', '50 %', '99.96 %', '100 %']
    """
    size = _FULL * share
    if size in (0, _FULL) or size > _FULL:
        return f"{size:.0f}\N{NO-BREAK SPACE}%"
    # Neither "0 %" nor "100 %" where that is not so.
    distance = min(size, _FULL - size)
    digits = next((count for count in range(5) if distance >= 10.0 ** (1 - count)), 5)
    text = f"{size:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if digits else text}\N{NO-BREAK SPACE}%"


def format_interval(interval: Sequence[float | None] | None) -> str:
    """An interval of a share; empty where an end is missing."""
    if interval is None:
        return ""
    ends = [end for end in interval if end is not None]
    if len(ends) < len(interval):
        return ""
    low, high = (format_percent(0.0 if end < 1e-9 else min(end, 1.0)) for end in ends)  # noqa: PLR2004
    return f"{low} to {high}"


def read_worst(result: Mapping[str, Any]) -> float | None:
    """The headline of a result: its worst reading, never the milder one."""
    # What a page puts together itself, such as the ledger of several tables, has only the value.
    worst: float | None = result.get("at_worst", result["value"])
    return worst


def format_result(value: Any) -> str:
    """A measured value or a parameter, of whatever type.

    Examples
    --------
    >>> [format_result(value) for value in (None, True, 0.123456, 12345, ["a", "b"])]
    ['could not be computed', 'yes', '0.1235', '12,345', 'a, b']
    """
    if value is None:
        return "could not be computed"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (list, tuple, dict)):
        return format_value(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def format_setting(value: Any) -> str:
    """A setting of a rule: a number short, a list with commas."""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(format_setting, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def format_numbers(numbers: float | list[float]) -> str:
    """One number or several, with three digits."""
    return ", ".join(f"{number:.3g}" for number in numbers) if isinstance(numbers, list) else (
        f"{numbers:.3g}"
    )  # fmt: skip


def format_variables(names: Sequence[str]) -> str:
    """Names that a comma separates; only their number where there are many."""
    if len(names) > _MOST_NAMES:
        return f"{len(names)} variables of a person"
    return ", ".join(names)


def format_label(name: str) -> str:
    """The name of a field or a rule as words."""
    return name.replace("_", " ")


def get_evidence(evidence: Mapping[str, Mapping[str, Any]], name: str) -> Mapping[str, Any] | None:
    """The first computed result of a measure of this name, whatever its label."""
    results = (item for item in evidence.values() if item["name"] == name)
    return next((item for item in results if item["value"] is not None), None)


def is_share(measure: str, number: str) -> bool:
    """Whether a number lies between 0 and 1 by its nature, so that it reads best in per cent."""
    entry = catalogue.measures().get(measure)
    meaning = entry.find_number(number) if entry is not None else None
    return meaning is not None and meaning.is_share


def format_measured(measure: str, number: str, value: float | None) -> str:
    """A number of a measure: a share in per cent, any other as it is."""
    if value is None or not is_share(measure, number):
        return format_result(value)
    return format_percent(value)


def name_variables(
    names: Sequence[str], variables: Mapping[str, Mapping[str, Any]] | None = None
) -> list[str]:
    """Variables in plain words: their label where they have one, else the name without dashes."""
    facts = variables or {}
    return [facts.get(name, {}).get("label") or format_label(name) for name in names]


def join_words(words: Sequence[str], most: int = _MOST_NAMES) -> str:
    """A list as people say it; of many the first ones, and how many more.

    Examples
    --------
    >>> join_words(["a", "b", "c"]), join_words(list("abcdef"))
    ('a, b and c', 'a, b, c and 3 more')
    """
    if len(words) > most:
        return f"{', '.join(words[: most - 1])} and {len(words) - most + 1} more"
    if len(words) < 2:  # noqa: PLR2004 - nothing to join
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def format_change(row: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """By how much a mean or a spread moved, in the variable's unit, and against the original."""
    before, after = row["original"], row["released"]
    if before is None or after is None:
        return "an unknown amount"
    unit = f" {facts['unit']}" if facts.get("unit") else ""
    text = f"{abs(after - before):.2g}{unit}"
    return f"{text} ({format_percent(abs(after / before - 1))})" if before else text
