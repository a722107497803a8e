"""What was found about peers, in tables and words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.kernels.arrays import Floats
from sfumato.risk._peers.match_sample import LEVEL, number_interval
from sfumato.risk._peers.matching import Found

_LISTED = 10
"""Combinations that are named; of more, only the number is told."""
_VISITED = 20_000
"""Combinations that are gone through to find those that were left out."""
_CODES = 20
"""Up to so many different numbers with decimals may be codes, such as 0.0 and 1.0."""
AND = " + "
"""Stands between the variables of a combination."""


def table(found: Found) -> pl.DataFrame:
    """A row per sensitive variable; of a sample also the ends of the interval."""
    rows = []
    records, looked = len(found.of), int(found.counts.sum())
    every_least, every_poac = found.peers.least_ppp, found.peers.least_poac
    for at, name in enumerate(found.asked.sensitive):
        breached = int(found.counts[found.breached(at)].sum())
        least, sizes = every_least[at], found.peers.breach_size[at]
        row = {
            "variable": name,
            "peers": breached / looked,
            # Of a sample, what it says of all records; never less than it says.
            "breached_records": -(-breached * records // looked),
            "downward": _downward(found, at, every_poac[at]),
            "mean_least_ppp": math.fsum(np.sort(least * found.counts)) / looked,
            "fewest_known": int(sizes[sizes > 0].min()) if (sizes > 0).any() else None,
            "often_by": _often(found, at),
        }
        if found.sampled:
            ends = number_interval(breached, looked, records)
            row |= {"low": ends[0] / records, "high": ends[1] / records}
        rows.append(row)
    types = {"fewest_known": pl.Int64, "often_by": pl.String, "downward": pl.Float64}
    return pl.DataFrame(rows, schema_overrides=types)


def _downward(found: Found, at: int, least: Floats) -> float | None:
    """The share of records of which some other value can be ruled out, if that can be told."""
    if (found.peers.fewest_alternatives[at] < 0).any():
        return None
    ruled = ~(least >= 1)
    return int(found.counts[ruled].sum()) / int(found.counts.sum())


def _by_combination(found: Found, at: int) -> list[tuple[int, int]]:
    """The smallest combinations that breach somebody: records and mask, the most records first."""
    masks, of = np.unique(found.peers.breach_mask[at], return_inverse=True)
    totals = np.bincount(of.ravel(), found.counts, len(masks)).astype(np.int64)
    pairs = zip(totals.tolist(), masks.tolist(), strict=True)
    return sorted(((n, mask) for n, mask in pairs if mask), key=lambda one: (-one[0], one[1]))


def _often(found: Found, at: int) -> str | None:
    """The small combination that gives most records away."""
    most = _by_combination(found, at)[:1]
    return ", ".join(found.names_of(most[0][1])) if most else None


def breaching(found: Found) -> list[dict[str, Any]]:
    """The combinations that breach most records, each record counted at its smallest."""
    every: list[dict[str, Any]] = [
        {"sensitive": name, "known": ", ".join(found.names_of(mask)), "records": number}
        for at, name in enumerate(found.asked.sensitive)
        for number, mask in _by_combination(found, at)
    ]
    return sorted(every, key=lambda one: -int(one["records"]))[:_LISTED]


def interval(found: Found) -> tuple[int, int] | None:
    """The least and the most records that may be breached in the worst variable.

    All variables are taken together: each interval is as wide as it must be for all to hold.
    """
    if not found.sampled:
        return None
    records, looked = len(found.of), int(found.counts.sum())
    level = 1 - (1 - LEVEL) / len(found.asked.sensitive)
    ends = [
        number_interval(int(found.counts[found.breached(at)].sum()), looked, records, level)
        for at in range(len(found.asked.sensitive))
    ]
    return max(low for low, _ in ends), max(high for _, high in ends)


@dataclass(frozen=True)
class LeftOut:
    """The combinations that were not looked at, in words.

    smallest : those that have no smaller one left out within them, as far as they are listed.
    more : how many more there are at least.
    wide : the number of variables beyond which all were left out, if there is such a number.
    """

    smallest: tuple[str, ...]
    more: int
    wide: int | None

    def said(self) -> str:
        """As a list, and everything that contains them."""
        parts = list(self.smallest)
        if self.more:
            parts.append(f"at least {self.more} more")
        told = f"{', '.join(parts)} and what contains them" if parts else ""
        wide = ""
        if self.wide is not None:
            wide = f"all of more than {self.wide} variable{'s' if self.wide > 1 else ''}"
        return " and ".join(one for one in (wide, told) if one)


def left_out(found: Found, data: Dataset) -> LeftOut | None:
    """Which combinations the limits leave out; None if none."""
    if found.peers.complete:
        return None
    asked = found.asked
    alone = asked.sensitive[0] if len(asked.sensitive) == 1 else None
    known = [name for name in asked.known if name != alone]
    most = asked.most if asked.most is not None and asked.most < len(known) else None
    if asked.effort is None:
        return LeftOut((), 0, most)
    easy = {name: data.schema[name].accessibility for name in known}
    costs = {name: 1 - (1.0 if one is None else one) for name, one in easy.items()}
    sets = _dear(costs, asked.effort, most or len(known))
    named = [AND.join(name for name in known if name in one) for one in sets]
    return LeftOut(tuple(named[:_LISTED]), max(0, len(named) - _LISTED), most)


def _dear(costs: dict[str, float], limit: float, most: int) -> list[set[str]]:
    """The smallest combinations that cost too much, fewest variables first.

    Variables are added from dear to cheap. So what is too dear with its last one, and is not
    without it, has nothing smaller in it that is too dear.
    """
    from sfumato.kernels.lattice.limits import Effort

    # In whole numbers, as the search itself counts: sums of floats may miss the limit.
    whole, dearest = Effort(list(costs.values()), limit).whole(len(costs))
    cost = dict(zip(costs, whole.tolist(), strict=True))
    order = sorted(cost, key=lambda name: -cost[name])
    found: list[set[str]] = []
    level: list[tuple[int, int, tuple[str, ...]]] = [(0, 0, ())]
    visited = 0
    for _ in range(most):
        after = []
        for first, spent, names in level:
            for at in range(first, len(order)):
                visited += 1
                total = spent + cost[order[at]]
                if total > dearest:
                    found.append({*names, order[at]})
                else:
                    after.append((at + 1, total, (*names, order[at])))
            if visited > _VISITED:
                return found
        level = after
    return found


def assumptions(found: Found) -> Iterator[str]:
    """What must hold for the numbers to mean what they say."""
    yield (
        "The outsider knows that the person is in the data, and the exact cells of some of the "
        "known variables; which, nobody can say, so the worst combination counts."
    )
    yield "The outsider knows nothing of other persons. Missing is a value of its own."
    near, fitted = found.matched.tolerated, found.matched.fitted
    if near:
        yield (
            f"Numbers match within the tolerance: {', '.join(near)}. A peer whose sensitive number "
            "lies within it does not protect."
        )
    yield (
        "Numbers without a tolerance count as different as soon as they are not equal."
        if near
        else "Numbers count as different as soon as they are not equal."
    )
    if fitted:
        yield (
            "Ranges, sets, masks and wildcards match the values they stand for: "
            f"{', '.join(fitted)}."
        )


def measured_apart(data: Dataset, secrets: Iterable[str]) -> tuple[str, ...]:
    """Secrets that are measured numbers: without a tolerance those nearly equal seem to protect.

    Examples
    --------
    >>> frame = pl.DataFrame({"kilos": [50 + at / 8 for at in range(40)], "ill": [0.0, 1.0] * 20})
    >>> measured_apart(Dataset(frame), ["kilos", "ill"])
    ('kilos',)
    """
    kinds = {name: data.schema[name].kind for name in secrets}
    some = [name for name, kind in kinds.items() if kind == "continuous"]
    return tuple(name for name in some if data.column(name).n_unique() > _CODES)


def warnings(found: Found, out: LeftOut | None, data: Dataset, *, in_turn: bool) -> Iterator[str]:
    """What makes the numbers less than they seem."""
    held = {*found.matched.tolerated, *found.matched.fitted}
    exactly = [one for one in found.asked.sensitive if one not in held]
    if apart := measured_apart(data, exactly):
        yield (
            f"Measured numbers without a tolerance: {', '.join(apart)}. Even who has nearly the "
            "same number counts as protective, so that people may be less safe than it seems."
        )
    if out is not None:
        yield (
            f"Only {int(max(found.peers.combinations)):,} combinations were looked at; "
            f"{int(max(found.peers.left_out)):,} were left out and may breach more: {out.said()}."
        )
    if in_turn:
        yield "No variable is declared as sensitive: each known one was taken in turn."
    if found.sampled:
        yield (
            f"An estimate: {int(found.counts.sum()):,} of {len(found.of):,} records were drawn at "
            "random, and only these were looked at. The interval holds with 95 % confidence."
        )
    if not found.exact.all():
        yield (
            "Cells that stand for several values leave open who matches: the share of protective "
            f"peers is a bound from below for {_share(found)} of the records looked at."
        )
    if (found.peers.fewest_alternatives < 0).any():
        yield (
            "Which other values can be ruled out is not told where values lie within a tolerance, "
            "overlap, or are too many for these limits."
        )


def _share(found: Found) -> str:
    looked = int(found.counts.sum())
    return f"{int(found.counts[~found.exact].sum()) / looked:.1%}"
