"""Months, quarters, years and decades: what they are called, and which days they hold."""

from __future__ import annotations

import calendar
import datetime as dt
from collections.abc import Callable, Iterator
from typing import Literal

Period = Literal["month", "quarter", "year", "decade"]
MONTHS: dict[Period, int] = {"month": 1, "quarter": 3, "year": 12, "decade": 120}


def format_label(day: dt.date, period: Period) -> str:
    """`2020-05`, `2020-Q2`, `2020` or `2020s`."""
    if period == "decade":
        return f"{day.year // 10 * 10:04}s"
    if period == "quarter":
        return f"{day.year:04}-Q{(day.month + 2) // 3}"
    return f"{day.year:04}-{day.month:02}" if period == "month" else f"{day.year:04}"


def format_range(day: dt.date, period: Period) -> str:
    """The first and the last day of a period, as generalised cells are written."""
    first = (day.year * 12 + day.month - 1) // MONTHS[period] * MONTHS[period]
    last = first + MONTHS[period] - 1
    # There is no year 0.
    end = dt.date(last // 12, last % 12 + 1, calendar.monthrange(last // 12, last % 12 + 1)[1])
    return f"[{dt.date(max(first // 12, 1), first % 12 + 1, 1)};{end}]"


def list_periods(low: dt.date, high: dt.date, label: Callable[[dt.date], str]) -> Iterator[str]:
    """What every period from low to high is called, in order."""
    day, last = low.replace(day=1), ""
    while day <= high:
        if (name := label(day)) != last:
            yield name
        last = name
        day = (day + dt.timedelta(days=31)).replace(day=1)
