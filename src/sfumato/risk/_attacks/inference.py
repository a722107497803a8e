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
from sfumato.risk._attacks.attacker_view import OrderedView, VariableView, compute_costs, is_within


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


def infer_secrets(
    views: Sequence[VariableView],
    secrets: Sequence[VariableView],
    persons: Persons,
    *,
    nearest: int,
    tolerance: float,
    by_noise: bool = False,
) -> tuple[Floats, Floats]:
    """How likely each guess is right, a row per secret: from all records, and less one's own.

    NaN where the truth is not known; the second table is all NaN for who is no member.
    """
    rows, truths = persons.rows, persons.truths
    guesses = [secret.guess() for secret in secrets]
    tables = np.full((2, len(secrets), len(rows)), np.nan)
    done = 0
    for batch, cost in compute_costs(
        views, persons.known, rows, what="measuring guesses of secrets", by_noise=by_noise
    ):
        for position, row in enumerate(batch.tolist()):
            arms = [cost[position]]
            if persons.members:
                arms.append(cost[position].copy())
                # The control: the same guess, with the own record out of reach.
                arms[1][row] = np.inf
            for arm, distance in enumerate(arms):
                pool = _pool(distance, nearest)
                for which, (secret, guess) in enumerate(zip(secrets, guesses, strict=True)):
                    truth = truths[which][row]
                    if not np.isnan(truth):
                        share = _right(secret, guess[pool], float(truth), tolerance)
                        tables[arm, which, done + position] = share
        done += len(batch)
    return tables[0], tables[1]


def _pool(distance: Floats, nearest: int) -> Positions:
    """The nearest records, and all that are as near as the last of them."""
    # The excluded own record is infinitely far, and never among the nearest.
    last = min(nearest, int(np.isfinite(distance).sum())) - 1
    limit = distance.min() if last <= 0 else np.partition(distance, last)[last]
    return np.flatnonzero(is_within(distance, limit))


def _right(view: VariableView, guesses: Floats, truth: float, tolerance: float) -> float:
    """The chance that a guess from these records is right; 0 where they say nothing."""
    values = guesses[~np.isnan(guesses)]
    if not len(values):
        return 0.0
    if isinstance(view, OrderedView):
        middle = np.array([np.median(values)])
        return float(view.is_right(middle, np.array([truth]), tolerance)[0])
    counts = np.bincount(values.astype(np.int64))
    # Of several modes the attacker takes any by chance.
    modes = np.flatnonzero(counts == counts.max())
    return float(truth in modes) / len(modes)


def rate_of_best_guess(view: VariableView, truths: Floats, tolerance: float) -> float:
    """How often the one best guess for everybody is right: without any record of theirs."""
    known = np.sort(truths[~np.isnan(truths)])
    if not isinstance(view, OrderedView):
        return int(np.bincount(known.astype(np.int64)).max()) / len(known)
    # The window as wide as the tolerance allows that holds the most values.
    reach = 2 * tolerance * view.spread
    window = np.searchsorted(known, known + reach, side="right") - np.arange(len(known))
    return int(window.max()) / len(known)
