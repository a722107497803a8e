"""What somebody who knows a person guesses of a secret, from the released records nearest to them.

Members are in the release. To learn what the release gives away of the very person, and not of
people like them, the same is tried without the person's own record, or for persons who were never
in the release.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sfumato.kernels.arrays import Floats, Positions
from sfumato.risk._attacks.nearness import as_near, costs
from sfumato.risk._attacks.sights import Ordered, Sight


@dataclass(frozen=True, eq=False)
class Persons:
    """Whose secrets are guessed.

    Parameters
    ----------
    known : what the attacker knows of them, a column per variable seen.
    truths : their secrets, a column per secret; NaN where it is not known.
    rows : whom of them to guess for.
    members : whether they stand, row by row, in the release.
    """

    known: Sequence[Floats] = field(repr=False)
    truths: Sequence[Floats] = field(repr=False)
    rows: Positions = field(repr=False)
    members: bool


def inferred(
    seen: Sequence[Sight],
    secrets: Sequence[Sight],
    persons: Persons,
    *,
    nearest: int,
    tolerance: float,
) -> tuple[Floats, Floats]:
    """How likely each guess is right, a row per secret: from all records, and less one's own.

    NaN where the truth is not known; the second table is all NaN for who is no member.
    """
    rows, truths = persons.rows, persons.truths
    guesses = [one.guess() for one in secrets]
    tables = np.full((2, len(secrets), len(rows)), np.nan)
    done = 0
    for some, cost in costs(seen, persons.known, rows, what="measuring guesses of secrets"):
        for at, row in enumerate(some.tolist()):
            arms = [cost[at]]
            if persons.members:
                arms.append(cost[at].copy())
                arms[1][row] = np.inf
            for arm, distance in enumerate(arms):
                pool = _pool(distance, nearest)
                for which, (one, guess) in enumerate(zip(secrets, guesses, strict=True)):
                    truth = truths[which][row]
                    if not np.isnan(truth):
                        share = _right(one, guess[pool], float(truth), tolerance)
                        tables[arm, which, done + at] = share
        done += len(some)
    return tables[0], tables[1]


def _pool(distance: Floats, nearest: int) -> Positions:
    """The nearest records, and all that are as near as the last of them."""
    last = min(nearest, int(np.isfinite(distance).sum())) - 1
    limit = distance.min() if last <= 0 else np.partition(distance, last)[last]
    return np.flatnonzero(as_near(distance, limit))


def _right(one: Sight, guesses: Floats, truth: float, tolerance: float) -> float:
    """The chance that a guess from these records is right; 0 where they say nothing."""
    told = guesses[~np.isnan(guesses)]
    if not len(told):
        return 0.0
    if isinstance(one, Ordered):
        middle = np.array([np.median(told)])
        return float(one.right(middle, np.array([truth]), tolerance)[0])
    counts = np.bincount(told.astype(np.int64))
    modes = np.flatnonzero(counts == counts.max())
    return float(truth in modes) / len(modes)


def by_guess(one: Sight, truths: Floats, tolerance: float) -> float:
    """How often the one best guess for everybody is right: without any record of theirs."""
    known = np.sort(truths[~np.isnan(truths)])
    if not isinstance(one, Ordered):
        return int(np.bincount(known.astype(np.int64)).max()) / len(known)
    # The window as wide as the tolerance allows that holds the most values.
    reach = 2 * tolerance * one.spread
    inside = np.searchsorted(known, known + reach, side="right") - np.arange(len(known))
    return int(inside.max()) / len(known)
