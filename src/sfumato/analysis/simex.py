"""Simulation and extrapolation: add more noise, see what it does, and go back to none.

Cook & Stefanski (1994), JASA 89:1314; categories as in Küchenhoff, Mwalili & Lesaffre (2006),
Biometrics 62:85. The line back is a parabola, which goes a little less far than it should.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.analysis.measured import category_of
from sfumato.analysis.modelled import Modelled, left_out
from sfumato.analysis.naive import Estimates, fitted
from sfumato.analysis.problem import Number, Problem, Term
from sfumato.analysis.stratified import StratifiedNumber, errors_of
from sfumato.cells.noise.described import CodeNoise, Misclassification, Noise
from sfumato.cells.noise.transitions import exchanged
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats
from sfumato.progress import current_progress

_MORE = (0.5, 1.0, 1.5, 2.0)
_REPEATS, _LARGE = 40, 100_000


def simex(
    model: Modelled, noise: Mapping[str, Noise], seed: int
) -> tuple[Estimates, tuple[str, ...]]:
    """Fit by simulation and extrapolation."""
    problem = model.problem
    if problem.outcome_number is not None or problem.outcome_category is not None:
        raise MeasureError(
            "The outcome has noise, which simulation and extrapolation leaves as it is.",
            hint='use method="posterior", or "moments" for a quick look.',
        )
    rng = np.random.default_rng(seed)
    matrices = [_matrix(one.name, noise[one.name]) for one in problem.categories]
    places = [_places(model, at) for at in range(len(problem.categories))]
    known = np.ones(problem.records, bool)
    for number in problem.numbers:
        known &= np.isfinite(number.seen)
    for place in places:
        known &= place >= 0
    repeats = _REPEATS if problem.records <= _LARGE else _REPEATS // 4
    plain = _fit(problem, known, [one.seen for one in problem.numbers], places)
    names = [name for name in plain.value if name in plain.error]
    if not problem.numbers and not problem.categories:
        return plain, ()  # there is no noise to add to

    def noisier(more: float) -> Estimates:
        moved = [
            _exchanged(place, matrix, more, rng)
            for place, matrix in zip(places, matrices, strict=True)
        ]
        return _fit(problem, known, _noisier(problem, root, more, rng), moved, plain)

    root = _roots(problem)
    found = _repeated(noisier, repeats)
    complete = len(found) == len(_MORE) and len(found[-1]) == repeats
    value, spread = [_row(plain.value, names)], [_row(plain.error, names) ** 2]
    for some in found:
        values = np.array([_row(one.value, names) for one in some])
        errors = np.array([_row(one.error, names) ** 2 for one in some])
        value.append(values.mean(axis=0))
        spread.append(errors.mean(axis=0) - values.var(axis=0, ddof=1))
    best, variance = _extrapolated(np.array(value)), _extrapolated(np.array(spread))
    sd = np.sqrt(np.where(variance > 0, variance, np.nan))
    gone = int((~known).sum())
    notes = ["The extrapolation is a parabola, which goes a little less far than it should."]
    notes += [left_out(gone)] if gone else []
    return (
        Estimates(
            value=dict(zip(names, best.tolist(), strict=True)),
            error=dict(zip(names, sd.tolist(), strict=True)),
            complete=complete,
        ),
        tuple(notes),
    )


def _repeated(noisier: Callable[[float], Estimates], repeats: int) -> list[list[Estimates]]:
    """Fits with more and more noise. An interrupt leaves the steps that have two or more."""
    say = current_progress()
    found: list[list[Estimates]] = []
    try:
        for step, more in enumerate(_MORE):
            found.append([])
            for at in range(repeats):
                say("adding noise", step * repeats + at, len(_MORE) * repeats)
                found[-1].append(noisier(more))
    except KeyboardInterrupt:
        found = [some for some in found if len(some) > 1]
        if not found:
            raise MeasureError(
                "It was interrupted before there was an estimate.", hint="fit again."
            ) from None
    return found


def _row(of: Mapping[str, float], names: list[str]) -> Floats:
    return np.array([of[name] for name in names])


def _roots(problem: Problem) -> Floats:
    """(record or one for all, number, number): a root of a covariance that may be singular."""
    size, turned = np.linalg.eigh(errors_of(problem))
    return np.asarray(turned * np.sqrt(np.maximum(size, 0.0))[:, None, :], float)


def _extrapolated(rows: Floats) -> Floats:
    """Back to no noise: a parabola, or the line that two points allow after an interrupt."""
    at = np.array([0.0, *_MORE])[: len(rows), None] ** np.arange(min(3, len(rows)))
    curve, *_ = np.linalg.lstsq(at, rows, rcond=None)
    made: Floats = (-1.0) ** np.arange(at.shape[1]) @ curve
    return made


def _fit(
    problem: Problem,
    known: npt.NDArray[np.bool_],
    numbers: list[Floats],
    places: list[npt.NDArray[np.int64]],
    start: Estimates | None = None,
) -> Estimates:
    x = np.column_stack([_column(one, problem, numbers, places) for one in problem.terms])
    return fitted(problem, x, known & np.isfinite(x).all(axis=1), start)


def _column(
    term: Term, problem: Problem, numbers: list[Floats], places: list[npt.NDArray[np.int64]]
) -> Floats:
    made = np.ones(problem.records) if term.clean is None else term.clean
    with np.errstate(all="ignore"):
        for at, of in term.numbers:
            true = problem.numbers[at].true(numbers[at])
            made = made * (true if of is None else of(true))
    for at, level in term.levels:
        made = made * (places[at] == level)
    return np.asarray(made, float)


def _noisier(problem: Problem, root: Floats, more: float, rng: np.random.Generator) -> list[Floats]:
    if not problem.numbers:
        return []
    drawn = np.sqrt(more) * rng.standard_normal((problem.records, len(problem.numbers)))
    extra = drawn @ root[0].T if len(root) == 1 else np.einsum("nab,nb->na", root, drawn)
    return [
        _cut(one, extra[:, at], problem.error[at, at]) for at, one in enumerate(problem.numbers)
    ]


def _cut(one: Number, extra: Floats, average: float) -> Floats:
    if one.growth is not None and average and not isinstance(one, StratifiedNumber):
        extra = extra * np.sqrt(one.growth.variance(one.seen) / average)
    return np.clip(one.seen + extra, one.low, one.high)


def _places(model: Modelled, at: int) -> npt.NDArray[np.int64]:
    """The nearest level as released; -1 where missing."""
    one = model.problem.categories[at]
    place = model.ready.columns[one.name]
    near = np.clip(np.floor(np.nan_to_num(place) + 0.5), 0, len(one.levels) - 1)
    return np.where(np.isnan(place), -1, near).astype(np.int64)


def _matrix(name: str, noise: Noise) -> Floats:
    """The probability that each true level is released as, or nearest to, each level."""
    if isinstance(noise, Misclassification) and noise.matrix is not None:
        return np.asarray(noise.matrix, float)
    if isinstance(noise, CodeNoise):
        rounded = CodeNoise(variance=noise.variance, levels=noise.levels, ends="round")
        levels = pl.Series(name, noise.levels, strict=False)
        return np.exp(category_of(name, levels, rounded, pl.DataFrame()).density).T
    raise MeasureError(
        f"The exchange of '{name}' differs by stratum, which cannot be repeated.",
        hint='use method="posterior".',
    )


def _exchanged(
    place: npt.NDArray[np.int64], matrix: Floats, more: float, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Exchange levels as if the noise had come `more` times again."""
    size, turned = np.linalg.eig(matrix)
    again = (turned * np.power(size.astype(complex), more)) @ np.linalg.inv(turned)
    chance = np.maximum(again.real, 0.0)
    chance = chance / chance.sum(axis=1, keepdims=True)
    return exchanged(place, rng.random(len(place)), chance)
