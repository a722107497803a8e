"""The constants of a statement as numbers: what they stand for on the scale of a variable."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

from sfumato.errors import MeasureError
from sfumato.risk._disclosure.predicate import Comparison, Constant

Span = tuple[Any, Any]
"""The first and the last number that a constant stands for."""
Spans = dict[Constant, Span]
EPOCH = dt.date(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)


def spans_of(told: Sequence[Comparison], name: str, read: Callable[[Constant, str], Span]) -> Spans:
    """What each constant stands for on the scale of a variable."""
    return {one: read(one, name) for comparison in told for one in comparison.constants}


def ends_of(spans: Spans) -> list[Any]:
    """Where all of them begin and end, in rising order."""
    return sorted({end for span in spans.values() for end in span})


def number_of(constant: Constant, name: str) -> Span:
    """A number stands for itself."""
    if isinstance(constant, str):
        raise MeasureError(
            f"Variable '{name}' holds numbers, and the statement compares it with text.",
            hint="write numbers without quotes.",
        )
    found = int(constant) if isinstance(constant, bool) else constant
    return found, found


def days_of(constant: Constant, name: str) -> Span:
    """Days since 1970: a date is one of them."""
    try:
        found = (dt.date.fromisoformat(str(constant)) - EPOCH).days
    except ValueError:
        raise _no_date(name) from None
    return found, found


def moments_of(constant: Constant, name: str) -> Span:
    """Microseconds since 1970, from the first to the last: a date is its whole day."""
    try:
        first = (dt.date.fromisoformat(str(constant)) - EPOCH) // _MICROSECOND
    except ValueError:
        only = _moment(constant, name)
        return only, only
    return first, first + dt.timedelta(days=1) // _MICROSECOND - 1


def _moment(constant: Constant, name: str) -> int:
    try:
        found = dt.datetime.fromisoformat(str(constant))
    except ValueError:
        raise _no_date(name) from None
    if found.tzinfo is not None:
        raise MeasureError(
            f"The statement compares variable '{name}' with a time that has an offset from UTC, "
            "and its moments are read by the clock of their own zone.",
            hint="write the time on that clock, without an offset.",
        )
    return (found - dt.datetime.combine(EPOCH, dt.time())) // _MICROSECOND


def _no_date(name: str) -> MeasureError:
    return MeasureError(
        f"Variable '{name}' holds dates, and the statement compares it with something else.",
        hint='write dates as text, such as "2020-01-31" (among moments: that whole day).',
    )
