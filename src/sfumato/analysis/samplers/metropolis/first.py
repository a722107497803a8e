"""First values of a chain, by regression calibration and least squares."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sfumato.analysis.problem import Problem
from sfumato.analysis.samplers.metropolis.chance import Chance
from sfumato.analysis.samplers.metropolis.outcome import Outcome
from sfumato.analysis.samplers.metropolis.predictor import OfNumber
from sfumato.analysis.samplers.metropolis.start import Start
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats

_ROUNDS = 50
_LIKELY = {"logit": 5.0, "probit": 3.0}
"""How large a slope may well be: change on the link's scale for one SD of the predictor."""
_LEVEL_SD = 10.0
"""Of the prior of a coefficient of a level, in SD of the outcome or on the scale of the link."""
_SURE = 25.0
"""A linear predictor that far out says that the outcome is certain."""


def first_latent(start: Start, chance: Chance) -> Floats:
    """True numbers drawn about where they are expected; within reach of the model's functions."""
    noise = chance.standard_normal(start.centre.shape)
    made = start.centre + start.spread * noise
    for at, number in enumerate(start.problem.numbers):
        of_number = OfNumber(start.problem, at, 1.0)

        def bad(values: Floats, of_number: OfNumber = of_number) -> npt.NDArray[np.bool_]:
            found = of_number.values(values)
            finite = [np.isfinite(one) for one in found]
            return ~np.logical_and.reduce(finite) if finite else np.zeros(len(values), bool)

        for other in (start.centre[:, at], start.released[at].seen):
            lost = bad(made[:, at])
            made[lost, at] = other[lost]
        lost = bad(made[:, at])
        if lost.all():
            raise MeasureError(
                f"A function of '{number.name}' has no finite value near what was released.",
                hint="a logarithm or root takes positive numbers only.",
            )
        if lost.any():
            made[lost, at] = np.median(made[~lost, at])
        if bad(made[:, at]).any():
            made[:, at] = np.where(bad(made[:, at]), np.max(made[~lost, at]), made[:, at])
    return np.asfortranarray(made)


def first_coefficients(design: Floats, outcome: Outcome) -> tuple[Floats, float]:
    """Coefficients and residual variance, as if the first true values were true."""
    if not np.isfinite(design).all():
        raise MeasureError(
            "Some terms have no finite value for some records.",
            hint="a logarithm or root takes positive numbers only.",
        )
    size = np.sqrt(np.mean(design**2, axis=0))
    size[size == 0] = 1.0
    scaled = design / size
    _refuse_collinear(scaled[:, scaled.any(axis=0)])
    if outcome.linear:
        if outcome.released is not None:
            outcome.true[outcome.released.missing] = float(
                outcome.true[~outcome.released.missing].mean()
            )
        found = np.linalg.lstsq(scaled, outcome.true, rcond=None)[0]
        away = outcome.true - scaled @ found
        left = float(away @ away) / max(len(away) - len(found), 1)
        if left <= 1e-20 * float(np.var(outcome.true)) or not np.var(outcome.true):
            raise MeasureError(
                "The terms tell the outcome without error, so that nothing is left to estimate.",
                hint="is the outcome also a predictor?",
            )
        return found / size, max(left - (outcome.noise if outcome.released else 0.0), 0.05 * left)
    return _climbed(scaled, outcome) / size, 1.0


def _refuse_collinear(scaled: Floats) -> None:
    values = np.linalg.eigvalsh(scaled.T @ scaled / len(scaled))
    if values[0] < 1e-13 * values[-1]:
        raise MeasureError(
            "Some terms say the same as others together.", hint="leave one of them out."
        )


def _climbed(design: Floats, outcome: Outcome) -> Floats:
    """The mode of a generalised model, by weighted least squares with halved steps."""
    beta: Floats = np.zeros(design.shape[1])
    if outcome.family == "poisson":
        target = np.log(outcome.true + 0.5)
        beta = np.asarray(np.linalg.lstsq(design, target, rcond=None)[0], np.float64)
    here = outcome.parts(design @ beta)
    for _ in range(_ROUNDS):
        precision = design.T @ (design * here.curve[:, None])
        precision[np.diag_indices(len(beta))] += 1e-9 * np.trace(precision)
        move = np.linalg.solve(precision, design.T @ here.slope)
        for _ in range(_ROUNDS):
            there = outcome.parts(design @ (beta + move))
            if there.log.sum() >= here.log.sum() or not np.any(move):
                break
            move = move / 2
        else:
            break
        beta, gain = beta + move, float(there.log.sum() - here.log.sum())
        here = there
        if gain < 1e-6:  # noqa: PLR2004 - a part of the log likelihood that nobody can see
            break
    far = float(np.quantile(np.abs(design @ beta), 0.9))
    if outcome.family != "poisson" and far > _SURE:
        raise MeasureError(
            "Some combination of predictors tells the outcome for sure.",
            hint="leave one out, or merge rare levels.",
        )
    return beta


def exchanges(
    problem: Problem, design: Floats, random: list[int], groups: int
) -> list[tuple[list[int], Floats]]:
    """By random term: the coefficients that can take over its effects, and (group, coefficient)."""
    made: list[tuple[list[int], Floats]] = []
    group = problem.groups
    if group is None:
        return made
    rows = np.zeros(groups, np.int64)
    rows[group] = np.arange(len(group))
    for term in random:
        terms, shared = [term], [np.ones(groups)]
        if not problem.terms[term].noised and problem.terms[term].clean is None:
            for at, other in enumerate(problem.terms):
                column = design[:, at]
                if at != term and not other.noised and (column == column[rows][group]).all():
                    terms.append(at)
                    shared.append(column[rows])
        made.append((terms, np.column_stack(shared)))
    return made


def precisions(problem: Problem, design: Floats, outcome: Outcome) -> Floats:
    """Of the coefficients' prior: flat, but for levels, which may have no record at times.

    Slopes of a yes or no have a weak prior, as in the engine by quadrature: few records do not
    bound them where predictors have noise.
    """
    made = np.zeros(design.shape[1])
    likely = _LIKELY.get(problem.link) if problem.family in ("bernoulli", "binomial") else None
    if likely is not None:
        made[:] = design.var(axis=0) / likely**2
    scale = float(np.std(outcome.true)) if outcome.linear else 1.0
    for at, term in enumerate(problem.terms):
        if term.levels:
            used = design[design[:, at] != 0, at]
            size = float(np.mean(used**2)) if len(used) else 1.0
            made[at] = size / (_LEVEL_SD * scale) ** 2
    return made
