"""Months, quarters and years: what they are called, and which days they hold."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Literal

Period = Literal["month", "quarter", "year"]
MONTHS: dict[Period, int] = {"month": 1, "quarter": 3, "year": 12}


def format_label(day: dt.date, period: Period) -> str:
    """`2020-05`, `2020-Q2` or `2020`."""
    if period == "quarter":
        return f"{day.year:04}-Q{(day.month + 2) // 3}"
    return f"{day.year:04}-{day.month:02}" if period == "month" else f"{day.year:04}"


def format_range(day: dt.date, period: Period) -> str:
    """The first and the last day of a period, as generalised cells are written."""
    months = MONTHS[period]
    first = (day.month - 1) // months * months + 1
    last = first + months - 1
    end = dt.date(day.year, last, 31 if last in (1, 3, 5, 7, 8, 10, 12) else 28)
    while (end + dt.timedelta(days=1)).month == last:
        end += dt.timedelta(days=1)
    return f"[{dt.date(day.year, first, 1)};{end}]"


def list_periods(low: dt.date, high: dt.date, label: Callable[[dt.date], str]) -> Iterator[str]:
    """What every period from low to high is called, in order."""
    day, last = low.replace(day=1), ""
    while day <= high:
        if (name := label(day)) != last:
            yield name
        last = name
        day = (day + dt.timedelta(days=31)).replace(day=1)
