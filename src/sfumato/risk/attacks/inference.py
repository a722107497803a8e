"""What somebody who knows a person guesses of a secret, from the released records nearest to them.

Members are in the release. To learn what the release gives away of the very person, and not of
people like them, the same is tried without the person's own record, or for persons who were never
in the release. Where a secret was averaged over a class, all records of the class show what the
person's own record contributed to: they are left out together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sfumato.kernels.arrays import Floats, Integers, Mask, Positions
from sfumato.risk.attacks.attacker_view import (
    OrderedView,
    VariableView,
    compute_costs,
    is_within,
    number_rows,
)
from sfumato.units import Units

_NEARLY_ALL = 0.95
"""Of the changed records, the share with a copy from which a secret counts as averaged."""


@dataclass(frozen=True, eq=False)
class SecretOwners:
    """Whose secrets are guessed.

    Parameters
    ----------
    known : what the attacker knows of them, a column per variable seen.
    truths : their secrets, a column per secret; NaN where it is not known.
    rows : whom of them to guess for.
    members : whether they stand, row by row, in the release.
    units : whom each row is about.
    """

    known: Sequence[Floats] = field(repr=False)
    truths: Sequence[Floats] = field(repr=False)
    rows: Positions = field(repr=False)
    members: bool
    units: Units


def infer_secrets(
    views: Sequence[VariableView],
    secrets: Sequence[VariableView],
    persons: SecretOwners,
    *,
    nearest: int,
    tolerance: float,
    by_noise: bool = False,
) -> tuple[Floats, Floats]:
    """How likely each guess is right, a row per secret: from all records, and less one's own.

    NaN where the truth is not known; the second table is all NaN for who is no member, and for a
    secret whose class is everybody: then nobody is left to compare with.
    """
    rows, truths = persons.rows, persons.truths
    guesses = [secret.guess() for secret in secrets]
    classes = find_averaged_classes(views, secrets) if persons.members else {}
    tables = np.full((2, len(secrets), len(rows)), np.nan)
    alone = set(classes)
    done = 0
    for batch, cost in compute_costs(
        views, persons.known, rows, what="measuring guesses of secrets", by_noise=by_noise
    ):
        for position, row in enumerate(batch.tolist()):
            everybody = _pool(cost[position], nearest)
            own_records = persons.units.find_rows(row) if persons.members else []
            others = (
                _pool_without(cost[position], own_records, nearest) if persons.members else None
            )
            for which, (secret, guess) in enumerate(zip(secrets, guesses, strict=True)):
                truth = truths[which][row]
                if np.isnan(truth):
                    continue
                pools = [everybody, others]
                if which in classes:
                    left_out = np.concatenate([classes[which].find_others(row), own_records])
                    # The control: the same guess, with the own class out of reach.
                    without = _pool_without(cost[position], left_out, nearest)
                    if without is not None:
                        pools[1] = without
                        alone.discard(which)
                for arm, pool in enumerate(pools):
                    if pool is not None:
                        share = _right(secret, guess[pool], float(truth), tolerance)
                        tables[arm, which, done + position] = share
        done += len(batch)
    tables[1, list(alone)] = np.nan
    return tables[0], tables[1]


@dataclass(frozen=True, eq=False)
class AveragedClasses:
    """The records whose secret was averaged together, as far as the release shows it.

    Parameters
    ----------
    codes : for each way to recognise a class, a number for each record's.
    members : the records of each class, sorted by it, and where each class begins.
    """

    codes: tuple[Integers, ...] = field(repr=False)
    members: tuple[tuple[Positions, Integers], ...] = field(repr=False)

    def find_others(self, row: int) -> Positions:
        """The records of a person's class, their own among them."""
        parts = []
        for codes, (order, starts) in zip(self.codes, self.members, strict=True):
            code = int(codes[row])
            parts.append(order[starts[code] : starts[code + 1]])
        return np.concatenate(parts)


def find_averaged_classes(
    views: Sequence[VariableView], secrets: Sequence[VariableView]
) -> dict[int, AveragedClasses]:
    """By secret, the classes over which it was averaged; nothing for secrets that were not.

    A mean or a mode of a class stands in all its records. So a secret was averaged where nearly
    every record whose secret was changed has another one with the same cells. Noise, exchanged
    categories and untouched secrets leave no such copies.
    """
    known = number_rows([view.kinds for view in views])
    averaged = {}
    for which, secret in enumerate(secrets):
        cell = secret.kinds
        changed = _is_changed(secret)
        if not changed.any():
            continue
        copies = [known * (int(cell.max(initial=0)) + 1) + cell]
        classes = [known]
        if isinstance(secret, OrderedView):
            # Hardly anybody shares a mean by chance, whatever else is known of them.
            copies.append(cell)
            classes.append(cell)
        codes = tuple(
            numbers
            for numbers, copy in zip(classes, copies, strict=True)
            if _share_with_copy(copy, changed) >= _NEARLY_ALL
        )
        if codes:
            averaged[which] = AveragedClasses(codes, tuple(map(_sort_by_class, codes)))
    return averaged


def _is_changed(secret: VariableView) -> Mask:
    """Whose secret the release shows as another one, or not exactly."""
    known = ~np.isnan(secret.persons) & secret.shows_value()
    changed: Mask = known & ~(secret.guess() == secret.persons)
    if isinstance(secret, OrderedView):
        changed |= known & (secret.low() < secret.high())
    return changed


def _share_with_copy(numbers: Integers, changed: Mask) -> float:
    sizes = np.unique(numbers, return_inverse=True, return_counts=True)
    several = sizes[2][sizes[1].ravel()] > 1
    return float(several[changed].mean())


def _sort_by_class(codes: Integers) -> tuple[Positions, Integers]:
    order = np.argsort(codes, kind="stable")
    return order, np.searchsorted(codes[order], np.arange(int(codes.max(initial=0)) + 2))


def _pool_without(
    distance: Floats, left_out: Positions | list[int], nearest: int
) -> Positions | None:
    """The nearest records without some of them; None where nobody is left."""
    own = distance[left_out]
    distance[left_out] = np.inf
    limit = _reach(distance, nearest)
    pool = np.flatnonzero(is_within(distance, limit)) if limit < np.inf else None
    distance[left_out] = own
    return pool


def _pool(distance: Floats, nearest: int) -> Positions:
    """The nearest records, and all that are as near as the last of them."""
    return np.flatnonzero(is_within(distance, _reach(distance, nearest)))


def _reach(distance: Floats, nearest: int) -> float:
    """How far the last of the nearest is; who is left out is infinitely far."""
    if nearest > 1 and (last := min(nearest, int(np.isfinite(distance).sum())) - 1) > 0:
        return float(np.partition(distance, last)[last])
    return float(distance.min())


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
