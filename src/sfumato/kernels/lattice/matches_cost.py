"""What counting matches takes by each way, and whether that fits into a budget.

A step is about what it takes to look at one row in one combination of a lattice (20 ns).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from sfumato.kernels.lattice.limits import Effort, Limits, limits
from sfumato.kernels.lattice.matches_relations import Relation

Way = Literal["sums", "list", "sweep"]
COLUMNS = 16
"""Up to so many variables all counts of a record are held at once."""
_FOLLOWED = 1 << 22
"""Steps per record up to which other values are followed through all combinations."""
_MANY = 3
"""From so many tolerances on, pairs are gone through one by one."""


@dataclass(frozen=True)
class Question:
    """What is asked about how many rows.

    rows, targets : all rows, and those whose peers are counted.
    follow : whether other values are to be followed through the combinations.
    """

    relations: Sequence[Relation]
    sensitive: tuple[int, ...]
    known: tuple[int, ...]
    rows: int
    targets: int
    follow: bool

    @property
    def boxed(self) -> bool:
        """Whether some cells stand for several values."""
        return not all(one.certain for one in self.relations)

    def values(self, at: int) -> int:
        """How many values a variable has, 0 where they cannot be told apart."""
        one = self.relations[at]
        return int(one.low.max()) + 1 if one.kind == "equal" else 0

    @property
    def followed(self) -> int:
        """Steps for one record to follow other values; 0 where nobody asks or it is too much."""
        columns = len(self.relations)
        if not self.follow or columns > COLUMNS:
            return 0
        each = (columns + 2) << columns
        steps = sum(self.values(at) for at in self.sensitive) * each // 32
        return max(1, steps) if steps <= _FOLLOWED else 0


def cheapest(asked: Question, within: Limits) -> tuple[Way, int]:
    """The way that takes fewest steps, and how many."""
    steps = {way: _steps(asked, within, way) for way in ways(asked)}
    best = min(steps, key=lambda way: (steps[way], way))
    return best, steps[best]


def ways(asked: Question) -> tuple[Way, ...]:
    """The ways that would answer the whole question; a sweep does not follow other values."""
    found: tuple[Way, ...] = ("sums",) if len(asked.relations) <= COLUMNS else ("list",)
    valued = any(asked.values(at) for at in asked.sensitive)
    if not asked.boxed and not (asked.follow and valued):
        found = (*found, "sweep")
    return found


def _steps(asked: Question, within: Limits, way: Way) -> int:
    secrets, columns = len(asked.sensitive), len(asked.relations)
    number = sum(within.sizes(asked.known))
    if way == "sweep":
        return _swept(asked, within, number)
    passes = (2 if asked.boxed else 1) * columns + (secrets if asked.boxed else 1)
    each = asked.rows * passes // 40 + 1
    if way == "sums":
        folds = 1 + (secrets if asked.boxed else 0)
        each += (folds * columns << columns) // 64 + number * secrets // 16 + asked.followed
    else:
        each += asked.rows // 4 + number * (1 + min(asked.rows, 1 << columns) // 8)
    return asked.targets * each


def _swept(asked: Question, within: Limits, number: int) -> int:
    """Sorting for every combination; and pairs where three tolerances or more come together."""
    per_sort = (asked.rows + asked.targets) * max(1, int(math.log2(asked.rows + 1))) * 3 // 4
    total = number * (1 + len(asked.sensitive)) * per_sort
    close = [at for at in asked.known if asked.relations[at].kind == "near"]
    secret = [at for at in asked.sensitive if asked.relations[at].kind == "near"]
    most = min(within.most, len(close)) + (1 if secret else 0)
    if not close and not secret:
        return total
    pairs = (
        asked.targets * asked.rows * min(_share(asked.relations[at]) for at in {*close, *secret})
    )
    if most >= _MANY:
        total += number * (1 + len(secret)) * int(pairs) * 3 // 5
    # With everything known, whatever the limits: other values, and counts where pairs are needed.
    whole = sum(asked.values(at) > 0 for at in asked.sensitive if close)
    if len(close) + (1 if secret else 0) >= _MANY:
        whole += 2 * len(asked.sensitive)
    for at in {*asked.known} - {*asked.sensitive}:
        if asked.relations[at].kind == "equal":
            pairs *= float((np.bincount(asked.relations[at].low) ** 2.0).sum()) / asked.rows**2
    return total + whole * int(pairs) * 3 // 5


def _share(one: Relation) -> float:
    """The share of all pairs that match on a variable with a tolerance."""
    held = np.concatenate([[0], np.cumsum(np.bincount(one.low))])
    inside = held[one.sure[0].astype(np.int64) + 1] - held[one.sure[1]]
    return float(inside.mean()) / len(one)


def checked(
    asked: Question, columns: int, most: int | None, effort: Effort | None, budget: int | None
) -> Way:
    """The cheapest way; an error with what would fit if it takes more steps than the budget.

    Where only a sweep fits, it is taken: who protects matters more than which values are left.
    """
    within = limits(columns, most, effort)
    way, steps = cheapest(asked, within)
    if budget is None or steps <= budget:
        return way
    if _fits(asked, within, budget):
        return "sweep"
    fits, fewer = 0, replace(asked, follow=True)
    while fits < within.most and _fits(fewer, limits(columns, fits + 1, effort), budget):
        fits += 1
    some = min(_targets(asked, within, budget), asked.targets)
    hints = [f"most={fits}"] * (fits > 0) + [f"individuals={some}"] * (some > 0)
    hint = f"{' or '.join(hints)} would fit" if hints else "fewer variables might"
    raise ValueError(
        f"matching {asked.targets:,} distinct rows with {asked.rows:,} in "
        f"{sum(within.sizes(asked.known)):,} combinations takes {steps:,} steps, more than the "
        f"budget of {budget:,}; {hint}."
    )


def _fits(asked: Question, within: Limits, budget: int) -> bool:
    """Whether some way fits, if need be without following other values."""
    swept = not asked.boxed and _steps(asked, within, "sweep") <= budget
    return swept or cheapest(asked, within)[1] <= budget


def _targets(asked: Question, within: Limits, budget: int) -> int:
    """How many records could be looked at within the budget."""
    one = replace(asked, targets=1)
    return budget // max(1, _steps(one, within, ways(one)[0]))
