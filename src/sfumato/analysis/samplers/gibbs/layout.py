"""A linear problem as the arrays that the compiled chain wants, and the way back."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.analysis.problem import Number, Problem
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Integers

_SAME = 1e-9
_CLOSE = 1e-7
_ROUNDED = 1e-12
_MOST_JOINT = 64
_MOST_PATTERNS = 32
_LEVEL_SD = 10.0
"""Of the prior of a level's coefficient, in SD of the outcome: a level that no record may truly
have would otherwise have no distribution at all."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Layout:
    """See `collapsed_state.Data` for what is not explained here.

    Parameters
    ----------
    order : the records in a canonical order, by group first.
    joint : (joint level, category) the levels that make up each joint one.
    plain, numbers : places of the terms without numbers, and of those with.
    rotation : coefficients of plain terms = rotation @ those that are drawn.
    constant : how a constant is made of the plain terms; None where it cannot be.
    """

    order: Integers
    clean: Floats
    upper: int
    seen: Floats
    centers: Floats
    scales: Floats
    pattern: Integers
    present: Floats
    error: Floats
    joint: Integers
    density: Floats
    group: Integers
    starts: Integers
    random: Floats
    random_scales: Floats
    plain: tuple[int, ...]
    numbers: tuple[int, ...]
    outcome: Floats
    rotation: Floats
    outcome_prior: Floats
    constant: Floats | None

    @property
    def groups(self) -> int:
        """How many groups there are; 1 where there are none."""
        return len(self.starts) - 1


def fits(problem: Problem) -> bool:
    """Whether the terms are sums of clean columns, numbers and levels, and the noise is normal."""
    everything = (*problem.numbers, *([problem.outcome_number] if problem.outcome_number else []))
    if not all(_normal(one) for one in everything):
        return False
    if np.prod([len(one.levels) for one in problem.categories] or [1]) > _MOST_JOINT:
        return False
    used = []
    for one in problem.terms:
        if one.numbers:
            if one.clean is not None or one.levels or len(one.numbers) > 1 or one.numbers[0][1]:
                return False
            used.append(one.numbers[0][0])
    if sorted(used) != list(range(len(problem.numbers))):
        return False
    if any(problem.terms[at].noised for at in problem.random):
        return False
    return len(_patterns(problem)[1]) <= _MOST_PATTERNS


def laid_out(problem: Problem) -> Layout:
    """The arrays. Refuses what has no distribution: too few records or groups, collinear terms."""
    _enough(problem)
    order = _canonical(problem)
    groups = np.zeros(problem.records, np.int64) if problem.groups is None else problem.groups
    group = np.ascontiguousarray(groups[order])
    found, starts = np.unique(group, return_index=True)
    group = np.searchsorted(found, group)
    every = list(itertools.product(*(range(len(one.levels)) for one in problem.categories)))
    joint = np.array(every, np.int64).reshape(len(every), len(problem.categories))
    density = sum(
        (one.density[order][:, joint[:, at]] for at, one in enumerate(problem.categories)),
        np.zeros((problem.records, len(joint))),
    )
    clean, upper, maps = _basis(problem, order, group)
    plain = tuple(at for at, one in enumerate(problem.terms) if not one.numbers)
    numbers = tuple(at for at, one in enumerate(problem.terms) if one.numbers)
    raw = np.zeros((len(joint), len(plain), clean.shape[1]))
    for place, at in enumerate(plain):
        for k, levels in enumerate(joint):
            if all(levels[category] == level for category, level in problem.terms[at].levels):
                raw[k, place] = maps[at]
    constant = _made_constant(raw)
    seen, centers, scales = _standard(problem, order, center=constant is not None)
    rotation = _rotation(problem, plain, raw, clean, density)
    back = np.diag([float(bool(problem.terms[at].levels)) for at in plain]) / _LEVEL_SD**2
    random = np.column_stack(
        [_clean(problem, at)[order] for at in problem.random] or [np.zeros((len(order), 0))]
    )
    random_scales = np.sqrt((random**2).mean(axis=0))
    pattern, present = _patterns(problem)
    return Layout(
        order=order,
        clean=clean,
        upper=upper,
        seen=seen,
        centers=centers,
        scales=scales,
        pattern=pattern[order],
        present=present,
        error=_error(problem, scales),
        joint=joint,
        density=np.ascontiguousarray(density - density.max(axis=1, keepdims=True)),
        group=group,
        starts=np.append(starts, len(group)).astype(np.int64),
        random=random / random_scales,
        random_scales=random_scales,
        plain=plain,
        numbers=numbers,
        outcome=np.ascontiguousarray(np.einsum("st,ksc->ktc", rotation, raw)),
        rotation=rotation,
        outcome_prior=rotation.T @ back @ rotation,
        constant=constant,
    )


def _normal(one: Number) -> bool:
    ends = np.isinf(one.low) and np.isinf(one.high)
    alike = one.growth is None and one.scale is None and not one.laplace
    return bool(ends and alike and one.width == 0 and one.variance is not None)


def _clean(problem: Problem, at: int) -> Floats:
    found = problem.terms[at].clean
    return np.ones(problem.records) if found is None else np.asarray(found, float)


def _enough(problem: Problem) -> None:
    if problem.records < len(problem.terms) + len(problem.numbers) + 3:
        raise MeasureError(
            f"There are {problem.records} records, too few for {len(problem.terms)} coefficients.",
            hint="leave terms out of the formula.",
        )
    if problem.groups is None:
        return
    groups, d = len(np.unique(problem.groups)), len(problem.numbers) if problem.clustered else 0
    least = 3 * max(len(problem.random), d, 1) + 1
    if groups < least:
        raise MeasureError(
            f"There are {groups} groups; {least} are needed to tell how they vary.",
            hint="leave the groups out, or make them a clean factor of the formula.",
        )


def _canonical(problem: Problem) -> Integers:
    """An order that depends on the values alone: equal records may change places."""
    keys: list[npt.NDArray[np.generic]] = [one.density[:, k] for one in problem.categories
                                           for k in range(one.density.shape[1])]  # fmt: skip
    keys += [_clean(problem, at) for at, one in enumerate(problem.terms) if one.clean is not None]
    keys += [one.seen for one in problem.numbers]
    keys.append(problem.y)
    if problem.groups is not None:
        keys.append(problem.groups)
    return np.lexsort(keys).astype(np.int64)


def _patterns(problem: Problem) -> tuple[Integers, Floats]:
    """Which values of a record are there: the pattern of each, and what the patterns are."""
    there = np.column_stack(
        [~np.isnan(one.seen) for one in problem.numbers] + [~np.isnan(problem.y)]
    )
    if there.all():
        return np.zeros(problem.records, np.int64), np.ones((1, there.shape[1]))
    found, place = np.unique(there, axis=0, return_inverse=True)
    return place.reshape(-1).astype(np.int64), found.astype(float)


def _basis(
    problem: Problem, order: Integers, group: Integers
) -> tuple[Floats, int, dict[int, Floats]]:
    """Uncorrelated clean columns, how many are constant in groups, and the terms made of them."""
    columns = {at: _clean(problem, at)[order] for at, one in enumerate(problem.terms)
               if not one.numbers}  # fmt: skip
    others = [np.asarray(one, float)[order] for one in problem.covariates.T]
    every = [np.ones(problem.records), *columns.values(), *others]
    if not all(np.isfinite(one).all() for one in every):
        raise MeasureError(
            "A clean column of the model has infinite or missing values.",
            hint="drop or repair those records first.",
        )
    first = np.append(True, group[1:] != group[:-1])
    head = np.flatnonzero(first)[np.cumsum(first) - 1]
    within = [problem.groups is not None and bool((one == one[head]).all()) for one in every]
    kept: list[Floats] = []
    upper = 0
    for wanted in (True, False):
        for one, constant in zip(every, within, strict=True):
            if (constant is not wanted and len(kept) > 0) or (not kept and one is not every[0]):
                continue
            left = one.copy()
            for _ in range(2):  # twice is enough
                for basis in kept:
                    left -= basis * (basis @ left / problem.records)
            size = float(np.sqrt((left**2).mean()))
            if size > _SAME * max(float(np.sqrt((one**2).mean())), 1e-300):
                kept.append(left / size)
        upper = upper or len(kept)
    clean = np.ascontiguousarray(np.column_stack(kept))
    return clean, upper, {at: _made_of(clean, one) for at, one in columns.items()}


def _made_of(clean: Floats, column: Floats) -> Floats:
    """How a column is made of the basis; what is nothing but rounding is nought."""
    found: Floats = clean.T @ column / len(column)
    return np.where(np.abs(found) > _ROUNDED * np.abs(found).max(), found, 0.0)


def _made_constant(raw: Floats) -> Floats | None:
    """The combination of plain terms that is 1 for every record and level."""
    return combination(raw, np.eye(raw.shape[2])[0])


def combination(raw: Floats, wanted: Floats) -> Floats | None:
    """The combination of terms that is this clean column, whatever the level."""
    levels, terms, columns = raw.shape
    flat = raw.transpose(0, 2, 1).reshape(levels * columns, terms)
    target = np.tile(wanted, levels)
    if not terms:
        return None
    found = np.asarray(np.linalg.lstsq(flat, target, rcond=None)[0], np.float64)
    return found if float(np.abs(flat @ found - target).max()) < _CLOSE else None


def _standard(problem: Problem, order: Integers, *, center: bool) -> tuple[Floats, Floats, Floats]:
    """Numbers and outcome about 0 with variance 1; missing values are 0."""
    seen = np.column_stack([one.seen for one in problem.numbers] + [problem.y])[order]
    names = [f"variable '{one.name}'" for one in problem.numbers] + ["the outcome"]
    centers, scales = np.zeros(seen.shape[1]), np.ones(seen.shape[1])
    for at, name in enumerate(names):
        there = seen[~np.isnan(seen[:, at]), at]
        scale = float(there.std()) if len(there) > 1 else 0.0
        if not np.isfinite(scale) or scale <= 1e-12 * float(np.abs(there).max(initial=0)):
            raise MeasureError(
                f"The values of {name} are all the same, missing, or infinite.",
                hint="leave it out of the formula.",
            )
        centers[at] = there.mean() if center else 0.0
        scales[at] = scale
    made = np.nan_to_num((seen - centers) / scales)
    return np.ascontiguousarray(made), centers, scales


def _error(problem: Problem, scales: Floats) -> Floats:
    made = np.zeros((len(scales), len(scales)))
    if problem.numbers:
        made[:-1, :-1] = problem.error
    if problem.outcome_number is not None:
        made[-1, -1] = problem.outcome_number.variance or 0.0
    divided: Floats = made / np.outer(scales, scales)
    return divided


def _rotation(
    problem: Problem, plain: tuple[int, ...], raw: Floats, clean: Floats, density: Floats
) -> Floats:
    """Coefficients for which the plain terms are uncorrelated, as far as levels can be told."""
    chance = np.exp(density - density.max(axis=1, keepdims=True))
    chance /= chance.sum(axis=1, keepdims=True)
    design = np.zeros((len(clean), len(plain)))
    for k in range(len(raw)):
        design += chance[:, k, None] * (clean @ raw[k].T)
    scale = np.sqrt((design**2).mean(axis=0))
    upper: Floats = np.asarray(np.linalg.qr(design / np.where(scale > 0, scale, 1), "r"))
    for at, place in enumerate(plain):
        if scale[at] == 0 or abs(upper[at, at]) <= _CLOSE * np.sqrt(len(clean)):
            raise MeasureError(
                f"Term '{problem.terms[place].name}' cannot be told from the terms before it.",
                hint="leave it out of the formula.",
            )
    made: Floats = np.linalg.inv(upper) / scale[:, None] * np.sqrt(len(clean))
    return made
