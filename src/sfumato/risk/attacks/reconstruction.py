"""Taking centres of neighbours back: guess the original, protect the guess, correct it.

The attacker knows the release, k, the strata, and the mean and standard deviation of the original:
all of that is published. Who is whose neighbour is not; it follows from the guess, and changes
with it. The guess that, once protected, gives the release again is the attacker's answer. How well
it does can be seen without the original, so the attacker knows when to stop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from sfumato.kernels.arrays import Floats
from sfumato.kernels.exact_sums import exact_mean, standard_deviation
from sfumato.progress import current_progress

Centred = Callable[[Floats], Floats]
"""The centres that the method would make of a guess."""
_STEPS = (0.5, 0.2, 0.1)
"""How much of what is missing is added at a time: large steps first, then fine ones."""
_NEARLY = 1e-12


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """The attacker's answer.

    Parameters
    ----------
    values : the guess, a row per record.
    misfit : how far the guess, once protected, is from the release, in standard deviations (the
        root of the mean square). The attacker sees this.
    before : the same if the release itself is taken for the original.
    """

    values: Floats = field(repr=False)
    misfit: float
    before: float


def reconstruct(
    released: Floats, means: Floats, deviations: Floats, centred: Centred, *, rounds: int
) -> Reconstruction:
    """The best guess of the original behind released centres, which are stretched to its spread.

    Parameters
    ----------
    released : the released values, a row per record.
    means, deviations : those of the original, which are published.
    centred : what the method makes of values before it stretches them back.
    rounds : how often the guess is corrected, for each of three sizes of steps.

    Examples
    --------
    >>> from sfumato.kernels.trees.neighbours import centroids
    >>> truth = np.array([[1.0], [2.0], [4.0], [8.0], [9.0], [15.0]])
    >>> mean, sd = truth.mean(axis=0), truth.std(axis=0, ddof=1)
    >>> centred = lambda values: centroids(values, 1 / sd, np.array([0, 6]), 3)
    >>> centres = centred(truth)
    >>> release = mean + (centres - mean) * sd / centres.std(axis=0, ddof=1)
    >>> found = reconstruct(release, mean, sd, centred, rounds=50)
    >>> [round(float(np.abs(guess - truth).mean()), 2) for guess in (release, found.values)]
    [1.84, 0.71]
    """
    say = current_progress()
    best, guess = released, released
    misfit = before = float("inf")
    total = len(_STEPS) * rounds
    for phase, step in enumerate(_STEPS):
        guess = best
        for turn in range(rounds):
            gap = released - _protect_guess(guess, means, deviations, centred)
            size = _root_mean_square(gap / deviations)
            if phase == turn == 0:
                before = size
            # The attacker sees the misfit, so the best guess so far can be kept.
            if size < misfit:
                best, misfit = guess, size
            if size < _NEARLY:
                return Reconstruction(best, misfit, before)
            # Van Cittert: add what is missing, and keep the published moments.
            guess = _match_moments(guess + step * gap, means, deviations)
            say("measuring what can be undone", phase * rounds + turn + 1, total)
    return Reconstruction(best, misfit, before)


def _protect_guess(values: Floats, means: Floats, deviations: Floats, centred: Centred) -> Floats:
    """The method itself: centres, each variable stretched to its spread about the mean."""
    centres = centred(values)
    for index in range(centres.shape[1]):
        spread = standard_deviation(centres[:, index])
        factor = deviations[index] / spread if spread > 0 else 1.0
        centres[:, index] = means[index] + (centres[:, index] - means[index]) * factor
    return centres


def _match_moments(values: Floats, means: Floats, deviations: Floats) -> Floats:
    """Values with the published mean and standard deviation."""
    matched = np.empty_like(values)
    for index in range(values.shape[1]):
        spread = standard_deviation(values[:, index])
        factor = deviations[index] / spread if spread > 0 else 1.0
        matched[:, index] = (
            means[index] + (values[:, index] - exact_mean(values[:, index])) * factor
        )
    return matched


def _root_mean_square(values: Floats) -> float:
    return float(np.sqrt(exact_mean((values * values).ravel())))
