"""Draw values for masked cells from what is seen elsewhere, and else from what a cell may hold."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import partial

import numpy as np
import polars as pl

from sfumato.cells.ends import number_ends
from sfumato.cells.held import held, levels_of
from sfumato.cells.notation import MASK, RANGE, SET, written
from sfumato.errors import MethodError
from sfumato.kernels.arrays import Floats, Integers
from sfumato.methods._regeneration.masked import Masked, fitting
from sfumato.schema import Column

Draw = Callable[[Floats], list[str]]
_EPOCH = dt.date(1970, 1, 1)
_PARTIAL = 'masked = ["missing", "wildcard"]'
_DIGITS = 15
"""Decimals that a float has at most."""


def drawn(
    values: pl.Series, found: Masked, column: Column, choice: pl.Series, counts: Integers, u: Floats
) -> pl.Series:
    """The variable with a value in each cell that says something, though not everything.

    A cell draws from the unmasked values that fit, in their proportions. Where none fits, every
    whole number, day or level in the cell is as likely.

    Parameters
    ----------
    values : the variable, as text.
    found : its masked cells.
    column : what is known of it.
    choice, counts : the unmasked values in rising order, each once, and how often each occurs.
    u : for each record a draw from 0 to 1.
    """
    rows = np.flatnonzero(found.sort > 0)
    if not len(rows):
        return values
    none = np.zeros(0, np.int64)
    fits = fitting(found, choice, column) if len(choice) else [none] * (len(found.partial) + 1)
    order = rows[np.argsort(found.sort[rows], kind="stable")]
    unfit = [at for at in range(1, len(fits)) if not len(fits[at])]
    inside = dict(
        zip(
            unfit,
            _inside([found.partial[at - 1] for at in unfit], found, column, values.name),
            strict=True,
        )
    )
    texts: list[str] = []
    for sort, own in enumerate(np.split(order, np.cumsum(found.counts[1:])[:-1]), 1):
        if sort in inside:
            texts += inside[sort](u[own])
        else:
            texts += choice.gather(_weighted(counts[fits[sort]], fits[sort], u[own])).to_list()
    return values.scatter(order, pl.Series(texts, dtype=values.dtype))


def _weighted(weights: Integers, positions: Integers, u: Floats) -> Integers:
    ends = np.cumsum(weights)
    at = np.searchsorted(ends, u * ends[-1], side="right").clip(0, len(ends) - 1)
    found: Integers = positions[at]
    return found


def from_domain(found: Masked, column: Column, name: str, u: Floats) -> list[str]:
    """Values of the declared domain, each as likely as the others, as text."""
    if found.type == "level":
        levels = levels_of([], column, name, ordered=False)
        if not levels:
            raise _nothing(name)
        return _some(levels, u, said=str)
    low, high = (one.date() if isinstance(one, dt.datetime) else one for one in column.bounds or ())
    return _inside([f"[{written(low)};{written(high)}]"], found, column, name)[0](u)


def _inside(cells: Sequence[str], found: Masked, column: Column, name: str) -> list[Draw]:
    """For each cell how to draw from all that it may stand for."""
    if found.type == "level":
        return _levels(cells, column, name)
    ends = number_ends(pl.Series(name, cells, dtype=pl.String), column, found.type)
    bounds = -math.inf, math.inf
    if column.bounds is not None:
        known = number_ends(pl.Series(name, list(column.bounds)), Column(), found.type)
        bounds = float(known.each(known.low)[0]), float(known.each(known.low)[1])
    made: list[Draw] = []
    for at, text in enumerate(cells):
        if at in ends.sets:
            members = ends.sets[at].tolist()
            made.append(partial(_some, members, said=_day if found.type == "date" else written))
            continue
        low, high = max(ends.low[at], bounds[0]), min(ends.high[at], bounds[1])
        if low > high:  # a domain that the data do not keep to says nothing
            low, high = ends.low[at], ends.high[at]
        made.append(_numbers(text, float(low), float(high), column, found.type))
    return made


def _numbers(text: str, low: float, high: float, column: Column, kind: str) -> Draw:
    """Whole numbers and days; other numbers as fine as the ends of the range are written."""
    whole = math.ceil(low), math.floor(high)
    if whole[0] <= whole[1] and (kind == "date" or column.kind == "integer"):
        ends, fine = (Decimal(whole[0]), Decimal(whole[1])), 0
    else:
        ends = Decimal(repr(low)), Decimal(repr(high))
        told = RANGE.fullmatch(text)
        fine = max(map(_decimals, (*(told.groups() if told else ()), *ends)))
    how = _day if kind == "date" else _number
    return partial(_steps, ends, fine, said=how)


def _number(value: Decimal) -> str:
    return written(float(value))


def _decimals(end: str | Decimal) -> int:
    try:
        exponent = Decimal(end).normalize().as_tuple().exponent
    except InvalidOperation:
        return 0
    return min(max(-int(exponent), 0), _DIGITS)


def _steps(
    ends: tuple[Decimal, Decimal], decimals: int, u: Floats, *, said: Callable[[Decimal], str]
) -> list[str]:
    """Draws from one end to the other in steps of so many decimals."""
    scale = 10**decimals
    first, last = (int(end * scale) for end in ends)
    # Exact, since there may be more steps than a float can count.
    each = (first + int(Fraction(one) * (last - first + 1)) for one in u.tolist())
    return [said(Decimal(one) / scale) for one in each]


def _levels(cells: Sequence[str], column: Column, name: str) -> list[Draw]:
    """Levels inside the cells: those declared, in the hierarchy, or named by a cell itself."""
    sets = (SET.fullmatch(text) for text in cells)
    named = {one for found in sets if found for one in found[1].split(";")}
    levels = levels_of([*named, *(column.hierarchy or ())], column, name, ordered=False)
    told = held(pl.Series(name, cells, dtype=pl.String), levels, column) if levels else None
    made: list[Draw] = []
    for at, text in enumerate(cells):
        inside = told.levels[told.starts[at] : told.starts[at + 1]].tolist() if told else ()
        mask = MASK.fullmatch(text)
        if len(inside):
            made.append(partial(_some, [levels[one] for one in inside], said=str))
        elif mask and mask[1].isdecimal():
            ends = Decimal(0), Decimal(10 ** len(mask[2]) - 1)
            made.append(partial(_steps, ends, 0, said=partial(_code, mask[1], len(mask[2]))))
        else:
            raise _nothing(name)
    return made


def _code(start: str, places: int, number: Decimal) -> str:
    return f"{start}{int(number):0{places}}"


def _some(
    members: Sequence[str] | Sequence[float], u: Floats, *, said: Callable[..., str]
) -> list[str]:
    at = (u * len(members)).astype(np.int64).clip(0, len(members) - 1)
    return [said(members[one]) for one in at.tolist()]


def _day(days: float | Decimal) -> str:
    return str(_EPOCH + dt.timedelta(days=int(days)))


def _nothing(name: str) -> MethodError:
    return MethodError(
        f"Variable '{name}' has masked cells, and neither an unmasked value nor the schema tells "
        "what they could be.",
        hint=f"declare its domain, give counts for it, or leave partial cells as they are: "
        f"{_PARTIAL}.",
    )
