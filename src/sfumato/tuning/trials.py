"""One size of noise, tried: how far off an attacker would land, over several draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sfumato.analysis.simulated import draws_of, simulated
from sfumato.cells.noise.described import Noise as Described
from sfumato.kernels.arrays import Floats
from sfumato.progress import current_progress
from sfumato.tuning.exposed import Group


@dataclass(frozen=True)
class Asked:
    """What must hold in every group.

    Parameters
    ----------
    mean_h : the least mean of h; or None.
    below, at_most : the highest share of records with h below a limit; or None.
    """

    mean_h: float | None
    below: int
    at_most: float | None

    @property
    def goal(self) -> float:
        """The number to be reached."""
        return float(self.mean_h if self.mean_h is not None else self.at_most or 0.0)

    def met(self, value: float, error: float, draws: int) -> bool:
        """Whether it is reached, whatever chance has added: 97.5 % sure."""
        margin = error * sureness(draws)
        if self.mean_h is not None:
            return value - margin >= self.goal
        return value + margin <= self.goal

    def said(self) -> str:
        """In words."""
        if self.mean_h is not None:
            return f"mean of h at least {self.goal:g}"
        return f"share of records with h below {self.below} at most {self.goal:g}"


def sureness(draws: int) -> float:
    """How many standard errors of a mean over so many draws are granted; about two for many."""
    from scipy.special import stdtrit

    return float(stdtrit(draws - 1, 0.975))


@dataclass(frozen=True, eq=False)
class Trial:
    """What one size of noise does, by group.

    Parameters
    ----------
    share : the size of the noise.
    values, errors : what was asked for, in each group, and its Monte Carlo standard error.
    met : whether it is reached in every group.
    worst : the group that is furthest from it.
    """

    share: float
    values: tuple[float, ...] = field(repr=False)
    errors: tuple[float, ...] = field(repr=False)
    met: bool
    worst: int


@dataclass(frozen=True, eq=False)
class Attack:
    """Records that an attacker knows, on the scale of the distances.

    Parameters
    ----------
    columns : the true values by variable, in canonical order.
    scale : what each variable is multiplied by.
    groups : whose exposure counts.
    draws : how often the noise is drawn.
    warnings : what was left out.
    """

    columns: Mapping[str, Floats]
    scale: Floats
    groups: Sequence[Group]
    draws: int
    warnings: tuple[str, ...] = ()

    def trial(self, noise: Mapping[str, Described], asked: Asked, share: float) -> Trial:
        """Draw the noise several times and see how far off the attacker lands each time."""
        from sfumato.kernels.trees.ranks import ranks

        original = np.column_stack([self.columns[name] for name in self.columns])
        chance = draws_of(len(original))
        among = np.logical_or.reduce([one.among for one in self.groups])
        cap = None if asked.at_most is None else asked.below
        found = np.empty((self.draws, len(self.groups)))
        for at in range(self.draws):
            current_progress()("trying noise", at, self.draws)
            made = simulated(noise, self.columns, chance, at)
            released = np.column_stack(
                [made.get(name, self.columns[name]) for name in self.columns]
            )
            seen = ranks(original, released, self.scale, among=among, cap=cap)
            each = seen.mean() if cap is None else seen.share_below(cap)
            found[at] = [each[one.among].mean() for one in self.groups]
        values, errors = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(self.draws)
        # The same in a few draws of a few records is not the same in all.
        sizes = np.array([self.draws * int(one.among.sum()) for one in self.groups])
        least = _least_error(values, sizes) if cap is not None else _least_of_means(values, sizes)
        errors = np.maximum(errors, least)
        pairs = list(zip(values.tolist(), errors.tolist(), strict=True))
        sign = 1 if asked.mean_h is not None else -1
        return Trial(
            share,
            tuple(values.tolist()),
            tuple(errors.tolist()),
            all(asked.met(*one, self.draws) for one in pairs),
            int(np.argmin(sign * values)),
        )


def _least_error(shares: Floats, sizes: npt.NDArray[np.int64]) -> Floats:
    """Of a share of so many: two found and two not found are added (Agresti & Coull)."""
    near = (shares * sizes + 2) / (sizes + 4)
    made: Floats = np.sqrt(near * (1 - near) / (sizes + 4))
    return made


def _least_of_means(means: Floats, sizes: npt.NDArray[np.int64]) -> Floats:
    """Of a mean of so many: two of nought and two of twice the mean are added to equal ones."""
    made: Floats = 2 * means / (sizes + 4)
    return made
