"""Attackers who know people with errors, know only some variables, or look for who is not there.

What is drawn here follows from the content of the records alone: the same whatever their order,
and for everybody who measures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from sfumato.errors import MeasureError, did_you_mean
from sfumato.kernels.arrays import Floats, Mask, Positions
from sfumato.kernels.orders import scatter_numbers
from sfumato.risk.attacks.attacker_view import OrderedView, VariableView, order_records
from sfumato.units import Units

Errors = float | dict[str, float]
_STREAM = 40
_WHOLE = ("integer", "ordinal", "date")
_MOST_SUBSETS = 40
"""Subsets of one size that are tried; of more, so many without pattern."""


def rank_by_content(views: Sequence[VariableView]) -> Positions:
    """The number of each record in an order that follows from what it holds."""
    order = order_records(views)
    number = np.empty(len(order), np.intp)
    number[order] = np.arange(len(order))
    return number


def read_errors(errors: Errors, views: Sequence[VariableView]) -> dict[str, float]:
    """The size of the error in each variable."""
    names = [view.name for view in views]
    if not isinstance(errors, Mapping):
        return dict.fromkeys(names, float(errors))
    for name in errors:
        if name not in names:
            raise MeasureError(
                f"'{name}' has errors but is not compared.", hint=did_you_mean(name, names)
            )
    return {name: float(errors.get(name, 0.0)) for name in names}


def blur_knowledge(views: Sequence[VariableView], errors: Errors) -> list[VariableView]:
    """The same variables for an attacker whose knowledge of people has errors.

    Numbers are off by a normal error of so many standard deviations; whole numbers, days and ranks
    are rounded. Of categories so large a share is that of somebody else. Where there may be errors,
    nobody is ruled out.
    """
    sizes = read_errors(errors, views)
    from scipy.special import ndtri

    number = rank_by_content(views)
    blurred: list[VariableView] = []
    for position, view in enumerate(views):
        size = sizes[view.name]
        if not size:
            blurred.append(view)
            continue
        first, second = (
            _draw_uniform(len(number), _STREAM + 2 * position + turn)[number] for turn in (0, 1)
        )
        if isinstance(view, OrderedView):
            moved = view.persons + size * view.spread * ndtri(first)
            if view.column.kind in _WHOLE:
                moved = np.round(moved)
            blurred.append(replace(view, persons=moved, truthful=False))
        else:
            others = np.sort(view.persons[~np.isnan(view.persons)])
            taken = others[(second * len(others)).astype(np.intp)]
            wrong = (first < size) & ~np.isnan(view.persons)
            persons = np.where(wrong, taken, view.persons)
            blurred.append(replace(view, persons=persons, truthful=False))
    return blurred


def draw_present(views: Sequence[VariableView], fraction: float, units: Units) -> Mask | None:
    """Who is in the file, where only a fraction of those looked for is; None: everybody.

    A person is in it with all rows, or not at all.
    """
    if fraction == 1:
        return None
    number = (
        rank_by_content(views)
        if units.one_row_each
        else np.unique(units.numbers, return_inverse=True)[1].ravel()
    )
    chosen = np.zeros(units.count, bool)
    order = np.argsort(scatter_numbers(units.count, _STREAM - 1), kind="stable")
    chosen[order[: max(1, round(fraction * units.count))]] = True
    present: Mask = chosen[number]
    return present


def list_subsets(width: int) -> Iterator[tuple[int, ...]]:
    """Subsets of so many variables, size by size; of sizes with many, some without pattern."""
    for size in range(1, width + 1):
        subsets = list(combinations(range(width), size))
        if len(subsets) > _MOST_SUBSETS:
            order = np.argsort(scatter_numbers(len(subsets), _STREAM - 2), kind="stable")
            subsets = [subsets[index] for index in sorted(order[:_MOST_SUBSETS].tolist())]
        yield from subsets


def _draw_uniform(count: int, stream: int) -> Floats:
    """Numbers between 0 and 1 without pattern, the same each time."""
    words = scatter_numbers(count, stream)
    uniform: Floats = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53 + 2.0**-54
    return uniform
