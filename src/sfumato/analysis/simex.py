"""SIMEX, simulation and extrapolation: add more noise, and extrapolate back to none.

Cook & Stefanski (1994), JASA 89:1314; categories as in Küchenhoff, Mwalili & Lesaffre (2006),
Biometrics 62:85. The line back is a parabola, which goes a little less far than it should.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import polars as pl

from sfumato.analysis.fit_warnings import describe_left_out
from sfumato.analysis.group_level import find_first_records, find_group_numbers
from sfumato.analysis.measurement_error import StratifiedNumber, build_category, noise_covariances
from sfumato.analysis.naive_fit import Estimates, fit_columns
from sfumato.analysis.problem import Category, NoisyNumber, Problem
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Integers, Mask
from sfumato.noise.description import CodeNoise, Misclassification, NoiseDescription
from sfumato.noise.transitions import draw_transitions
from sfumato.progress import current_progress

_SIZES = (0.5, 1.0, 1.5, 2.0)
_REPEATS, _LARGE = 40, 100_000


def fit_by_simex(
    problem: Problem,
    columns: Mapping[str, Floats],
    noise: Mapping[str, NoiseDescription],
    seed: int,
) -> tuple[Estimates, tuple[str, ...]]:
    """Fit by simulation and extrapolation.

    Parameters
    ----------
    problem : the model.
    columns : the variables as released.
    noise : the description of the noise of each variable.
    seed : of the added noise.
    """
    if problem.outcome_number is not None or problem.outcome_category is not None:
        raise MeasureError(
            "The outcome has noise, which simulation and extrapolation leaves as it is.",
            hint='use method="posterior", or "moments" for a quick look.',
        )
    rng = np.random.default_rng(seed)
    matrices = [
        _transition_matrix(variable.name, noise[variable.name]) for variable in problem.categories
    ]
    codes = np.zeros((problem.records, len(matrices)), np.int64)
    for index, category in enumerate(problem.categories):
        codes[:, index] = _nearest_levels(category, columns)
    complete_numbers = np.isfinite(problem.observed).all(axis=1)
    known: Mask = np.logical_and(complete_numbers, (codes >= 0).all(axis=1))
    repeats = _REPEATS if problem.records <= _LARGE else _REPEATS // 4
    naive = _fit_values(problem, known, problem.observed, codes)
    names = [name for name in naive.value if name in naive.error]
    if not problem.numbers and not problem.categories:
        return naive, ()  # there is no noise to add

    def refit(size: float) -> Estimates:
        exchanged = codes.copy()
        for index, matrix in enumerate(matrices):
            draws = rng.random(problem.records)
            if problem.groups is not None and problem.categories[index].by_group:
                draws = draws[find_first_records(problem.groups)][problem.groups]
            exchanged[:, index] = _exchange_more(codes[:, index], matrix, size, draws)
        return _fit_values(problem, known, _add_noise(problem, root, size, rng), exchanged, naive)

    root = _covariance_roots(problem)
    repeats_by_size = _repeat_fits(refit, repeats)
    complete = len(repeats_by_size) == len(_SIZES) and len(repeats_by_size[-1]) == repeats
    value, spread = [_to_row(naive.value, names)], [_to_row(naive.error, names) ** 2]
    for fits in repeats_by_size:
        values = np.array([_to_row(fit.value, names) for fit in fits])
        errors = np.array([_to_row(fit.error, names) ** 2 for fit in fits])
        value.append(values.mean(axis=0))
        # The variance at no noise: mean of squared errors less the variance of the estimates.
        spread.append(errors.mean(axis=0) - values.var(axis=0, ddof=1))
    best, variance = _extrapolate(np.array(value)), _extrapolate(np.array(spread))
    sd = np.sqrt(np.where(variance > 0, variance, np.nan))
    left_out = int((~known).sum())
    notes = ["The extrapolation is a parabola, which goes a little less far than it should."]
    notes += [describe_left_out(left_out)] if left_out else []
    return (
        Estimates(
            value=dict(zip(names, best.tolist(), strict=True)),
            error=dict(zip(names, sd.tolist(), strict=True)),
            complete=complete,
        ),
        tuple(notes),
    )


def _repeat_fits(refit: Callable[[float], Estimates], repeats: int) -> list[list[Estimates]]:
    """Fits with more and more noise. An interrupt leaves the steps that have two or more."""
    progress = current_progress()
    fits: list[list[Estimates]] = []
    try:
        for step, size in enumerate(_SIZES):
            fits.append([])
            for repeat in range(repeats):
                progress("adding noise", step * repeats + repeat, len(_SIZES) * repeats)
                fits[-1].append(refit(size))
    except KeyboardInterrupt:
        fits = [sized for sized in fits if len(sized) > 1]
        if not fits:
            raise MeasureError(
                "It was interrupted before there was an estimate.", hint="fit again."
            ) from None
    return fits


def _to_row(of: Mapping[str, float], names: list[str]) -> Floats:
    return np.array([of[name] for name in names])


def _covariance_roots(problem: Problem) -> Floats:
    """(record or one for all, number, number): a root of a covariance that may be singular."""
    eigenvalues, eigenvectors = np.linalg.eigh(noise_covariances(problem))
    return np.asarray(eigenvectors * np.sqrt(np.maximum(eigenvalues, 0.0))[:, None, :], float)


def _extrapolate(rows: Floats) -> Floats:
    """Back to no noise: a parabola, or the line that two points allow after an interrupt."""
    # Sizes 0, 0.5, … are noise beyond that of the release; size -1 is none at all.
    powers = np.array([0.0, *_SIZES])[: len(rows), None] ** np.arange(min(3, len(rows)))
    curve, *_ = np.linalg.lstsq(powers, rows, rcond=None)
    extrapolated: Floats = (-1.0) ** np.arange(powers.shape[1]) @ curve
    return extrapolated


def _fit_values(
    problem: Problem, known: Mask, numbers: Floats, codes: Integers, start: Estimates | None = None
) -> Estimates:
    with np.errstate(all="ignore"):
        x = problem.design(numbers, codes)
    return fit_columns(problem, x, known & np.isfinite(x).all(axis=1), start)


def _add_noise(problem: Problem, root: Floats, size: float, rng: np.random.Generator) -> Floats:
    """(record, number): with `size` times the variance of the noise added once more."""
    perturbed = problem.observed.copy()
    if not problem.numbers:
        return perturbed
    noise = np.sqrt(size) * rng.standard_normal(perturbed.shape)
    if problem.groups is not None and (shared := find_group_numbers(problem)).any():
        # One draw for all records of a group, as in the release.
        noise[:, shared] = noise[find_first_records(problem.groups)][problem.groups][:, shared]
    extra = noise @ root[0].T if len(root) == 1 else np.einsum("nab,nb->na", root, noise)
    for index, number in enumerate(problem.numbers):
        average = problem.error[index, index]
        perturbed[:, index] = _perturb_number(number, extra[:, index], average)
    return perturbed


def _perturb_number(number: NoisyNumber, extra: Floats, average: float) -> Floats:
    if number.growth is not None and average and not isinstance(number, StratifiedNumber):
        extra = extra * np.sqrt(number.growth.variance(number.observed) / average)
    return np.clip(number.observed + extra, number.low, number.high)


def _nearest_levels(category: Category, columns: Mapping[str, Floats]) -> Integers:
    """The nearest level as released; -1 where missing."""
    codes = columns[category.name]
    nearest = np.clip(np.floor(np.nan_to_num(codes) + 0.5), 0, len(category.levels) - 1)
    return np.where(np.isnan(codes), -1, nearest).astype(np.int64)


def _transition_matrix(name: str, noise: NoiseDescription) -> Floats:
    """The probability that each true level is released as, or nearest to, each level."""
    if isinstance(noise, Misclassification) and noise.matrix is not None:
        return np.asarray(noise.matrix, float)
    if isinstance(noise, CodeNoise):
        rounded = CodeNoise(variance=noise.variance, levels=noise.levels, ends="round")
        levels = pl.Series(name, noise.levels, strict=False)
        return np.exp(build_category(name, levels, rounded, pl.DataFrame()).density).T
    raise MeasureError(
        f"The exchange of '{name}' differs by stratum, which SIMEX cannot repeat.",
        hint='use method="posterior".',
    )


def _exchange_more(codes: Integers, matrix: Floats, size: float, draws: Floats) -> Integers:
    """Exchange levels as if the noise had been added `size` times again."""
    # A power of the transition matrix, which need not be whole (Küchenhoff et al. 2006).
    eigenvalues, eigenvectors = np.linalg.eig(matrix)
    again = (eigenvectors * np.power(eigenvalues.astype(complex), size)) @ np.linalg.inv(
        eigenvectors
    )
    chance = np.maximum(again.real, 0.0)
    chance = chance / chance.sum(axis=1, keepdims=True)
    return draw_transitions(codes, draws, chance)
