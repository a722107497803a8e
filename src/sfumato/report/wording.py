"""Numbers, shares and lists as people read them on a page: one wording for all reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
    # Records made before there was a worst reading have only the value.
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


def format_variables(names: str) -> str:
    """Names that a comma separates; only their number where there are many."""
    count = len(names.split(", "))
    return names if count <= _MOST_NAMES else f"{count} variables of a person"


def format_label(name: str) -> str:
    """The name of a field or a rule as words."""
    return name.replace("_", " ")
