"""Text that stands for numbers or dates: values among ranges, sets, masks and wildcards."""

from __future__ import annotations

import polars as pl

from sfumato.schema import Kind

_WHOLE = r"[+-]?[0-9]+"
_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_FORMS: dict[Kind, str] = {"integer": _WHOLE, "continuous": _NUMBER, "date": _DATE}
_SAID: dict[Kind, str] = {"integer": "whole numbers", "continuous": "numbers", "date": "dates"}
_MASK = r"[0-9]+\*+"
WILDCARD = "*"


def kind_of_cells(cells: pl.Series) -> Kind | None:
    """What the cells of a text variable are about; None where not all are numbers or dates.

    Values, ranges `[24;28]`, sets `{24;28}`, masked codes `937**` and wildcards `*` may stand
    side by side. Wildcards alone say nothing.

    Examples
    --------
    >>> kind_of_cells(pl.Series(["26", "[24;28]", "*"])), kind_of_cells(pl.Series(["a", "*"]))
    ('integer', None)
    """
    told = cells.drop_nulls()
    told = told.filter(told != WILDCARD)
    if told.is_empty():
        return None
    for kind, form in _FORMS.items():
        if told.str.contains(_cell(kind, form)).all():
            return kind if kind != "date" or _are_dates(told) else None
    return None


def has_ranges(cells: pl.Series) -> bool:
    """Whether some cell is a range; codes and masks alone may be names of something."""
    return bool(cells.str.contains(r"^\[[^;]+;[^;]+\]$").any())


def ranges_said(kind: Kind) -> str:
    """The remark on a variable of such cells."""
    return f"Its values are ranges of {_SAID[kind]}."


def _cell(kind: Kind, form: str) -> str:
    masks = "" if kind == "date" else f"|{_MASK}"
    return rf"^(?:{form}|\[{form};{form}\]|\{{{form}(?:;{form})*\}}{masks})$"


def _are_dates(cells: pl.Series) -> bool:
    """Whether every date in the cells is a day of the calendar."""
    each = cells.str.extract_all(_DATE).explode()
    return each.str.to_date("%Y-%m-%d", strict=False).null_count() == 0
