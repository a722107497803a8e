"""The linear predictor as a function of one number, or of one category, all else as it is.

The coefficient of a term may differ by group. Of one number the predictor is a sum of a few
functions, each times a weight that all the rest decides; of one category it is a value per level.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sfumato.kernels.arrays import Floats, Integers

if TYPE_CHECKING:
    from sfumato.analysis.problem import Number, Of, Problem, Term

_NOTHING: Floats = np.zeros(0)
_ONE: Floats = np.ones(1)
Made = tuple["Of | None", ...]


class Bend(NamedTuple):
    """The functions of a number at its values, and their derivatives."""

    values: list[Floats]
    slopes: list[Floats]


def _product(functions: Made, true: Floats) -> Floats:
    made = true if functions[0] is None else functions[0](true)
    for of in functions[1:]:
        made = made * (true if of is None else of(true))
    return made


class OfNumber:
    """How the terms depend on one number.

    Parameters
    ----------
    problem : the problem.
    place : of the number.
    step : a small change of the latent value, for derivatives.
    """

    def __init__(self, problem: Problem, place: int, step: float) -> None:
        self.place = place
        self.number: Number = problem.numbers[place]
        self.step = step
        found: dict[Made, int] = {}
        self.uses: list[tuple[int, int]] = []
        """(term, which of the functions)."""
        for at, term in enumerate(problem.terms):
            own = tuple(of for number, of in term.numbers if number == place)
            if own:
                self.uses.append((at, found.setdefault(own, len(found))))
        self.functions = list(found)
        self.linear = [one == (None,) and self.number.scale is None for one in self.functions]

    def values(self, latent: Floats) -> list[Floats]:
        """All functions; not a number where there is none."""
        with np.errstate(all="ignore"):
            true = self.number.true(latent)
            return [_product(own, true) for own in self.functions]

    def bend(self, latent: Floats) -> Bend:
        """All functions and their derivatives; those are nought where there is none."""
        values = self.values(latent)
        if all(self.linear):
            return Bend(values, [_ONE] * len(values))
        slopes: list[Floats] = []
        with np.errstate(all="ignore"):
            up = self.number.true(latent + self.step)
            down = self.number.true(latent - self.step)
            for own, plain in zip(self.functions, self.linear, strict=True):
                if plain:
                    slopes.append(_ONE)
                    continue
                made = (_product(own, up) - _product(own, down)) / (2 * self.step)
                slopes.append(np.where(np.isfinite(made), made, 0.0))
        return Bend(values, slopes)

    def weights(self, coefficient: list[Floats | float], rest: list[Floats]) -> list[Floats]:
        """What each function is multiplied by, given the rest of each term."""
        made: list[Floats | None] = [None] * len(self.functions)
        for at, which in self.uses:
            one = coefficient[at] * rest[at]
            before = made[which]
            made[which] = one if before is None else before + one
        return [one for one in made if one is not None]


class Predictor:
    """All terms at the present latent values, and how they depend on each of those.

    Parameters
    ----------
    problem : the problem.
    latent : (record, number); kept, and read at every update.
    codes : (record, category); the same.
    steps : a small change of each number.
    """

    def __init__(self, problem: Problem, latent: Floats, codes: Integers, steps: Floats) -> None:
        self.problem, self.latent, self.codes = problem, latent, codes
        self.of_number = [OfNumber(problem, at, float(steps[at])) for at in range(len(steps))]
        self.design: Floats = np.empty((problem.records, len(problem.terms)), order="F")
        self.noised = [at for at, term in enumerate(problem.terms) if term.noised]
        for at, term in enumerate(problem.terms):
            if not term.noised:
                self.design[:, at] = 1.0 if term.clean is None else term.clean
        self.refresh()

    def refresh(self) -> None:
        """Make the noised columns anew."""
        with np.errstate(all="ignore"):
            for at in self.noised:
                term = self.problem.terms[at]
                self.design[:, at] = term.column(self.latent, self.codes, self.problem)

    def rest(self, at: int, *, number: int = -1, category: int = -1) -> Floats:
        """A term without its factors of one number or one category."""
        term: Term = self.problem.terms[at]
        made = np.ones(self.problem.records) if term.clean is None else term.clean
        with np.errstate(all="ignore"):
            for place, of in term.numbers:
                if place != number:
                    true = self.problem.numbers[place].true(self.latent[:, place])
                    made = made * (true if of is None else of(true))
        for place, level in term.levels:
            if place != category:
                made = made * (self.codes[:, place] == level)
        return made

    def weights(self, place: int, coefficient: list[Floats | float]) -> list[Floats]:
        """What each function of a number is multiplied by."""
        one = self.of_number[place]
        rest = {at: self.rest(at, number=place) for at, _ in one.uses}
        return one.weights(coefficient, [rest.get(at, _NOTHING) for at in range(len(coefficient))])

    def levels(self, place: int, coefficient: list[Floats | float]) -> Floats:
        """(level, record) what each level of a category adds to the predictor."""
        made = np.zeros((len(self.problem.categories[place].levels), self.problem.records))
        for at, term in enumerate(self.problem.terms):
            own = {level for category, level in term.levels if category == place}
            if len(own) == 1:
                made[own.pop()] += coefficient[at] * self.rest(at, category=place)
        return made
