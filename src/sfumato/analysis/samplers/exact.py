"""Linear models of one level with noised numbers: independent draws, no chain.

Given the clean columns, outcome and released numbers are normal with a covariance that nothing
restricts. Its distribution given the data is known in closed form (normal and inverse Wishart);
the covariance of the noise is taken off each draw, draws that leave no proper covariance are
rejected, and what is left is turned into coefficients and residual variance. Records enter
through exact cross products only, so their order cannot matter.

Prior: density 1 / |covariance of what was seen|. Without noise that is flat on the coefficients
and 1 / σ² on the residual variance, and gives the t intervals of ordinary least squares.

The shape of true values does not matter here. Coefficients and residual variance depend on second
moments alone; and the spread of what decides them, products of seen values with (residual - noise
times coefficient), involves no higher moment of true values, which are independent of both
factors of the latter. Skewed true values have the same coverage (`bench_fit_linear`).

Chance is the analyst's own: numpy's generator under a seed, not the custodian's keyed randomness.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sfumato.analysis.problem import Posterior, Problem, Sampling
from sfumato.analysis.samplers.gibbs.random import inverse_of_lower, proper
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats
from sfumato.progress import Progress

_SAME = 1e-9
_RAREST = 1e-3
"""A smaller share of draws accepted, and the other engine is cheaper."""


@dataclass(frozen=True, eq=False)
class _Moments:
    """Cross products about the mean, on scales of one: clean columns, numbers, the outcome."""

    means: Floats
    scales: Floats
    products: Floats
    records: int


def can(problem: Problem) -> bool:
    """Whether the model is linear in numbers with plain noise, and of one level."""
    if problem.family != "gaussian" or problem.groups is not None or problem.categories:
        return False
    outcome = problem.outcome_number
    alike = all(not one.numbers or one.simple(problem) for one in problem.terms)
    used = [one.numbers[0][0] for one in problem.terms if one.numbers]
    if not (problem.simple and alike and len(set(used)) == len(used)):
        return False
    if len(used) != len(problem.numbers) or (outcome is not None and not outcome.plain):
        return False
    return not bool(np.isnan(problem.y).any()) and _covered(problem)


def sample(problem: Problem, sampling: Sampling, say: Progress | None = None) -> Posterior:
    """Independent draws of coefficients and residual variance.

    Parameters
    ----------
    problem : the model; `can` says whether it is one of these.
    sampling : how many draws; there is no warm-up.
    say : told how far it is.
    """
    clean, numbers = _places(problem)
    moments = _moments(problem, clean, numbers)
    noise = _noise(problem, numbers, moments)
    q = len(clean)
    inside, outside = moments.products[:q, :q], moments.products[:q, q:]
    _independent(problem, clean, inside)
    coefficients = np.asarray(np.linalg.solve(inside, outside), np.float64)
    rest = moments.products[q:, q:] - outside.T @ coefficients
    freedom = moments.records - q - len(numbers) - (_constant(problem) >= 0)
    if freedom < len(numbers) + 1:
        raise MeasureError(
            f"There are {moments.records} records, too few for {len(problem.terms)} coefficients.",
            hint="leave terms out of the formula.",
        )
    _fits(problem, rest, numbers)
    chance = [np.random.default_rng(one) for one in np.random.SeedSequence(sampling.seed).spawn(2)]
    total = sampling.chains * sampling.draws
    kept, tried, complete = _accepted(rest, freedom, noise, total, chance[0], say)
    if complete and len(kept) < total:
        return _handed_over(problem, sampling, say, len(kept) / tried)
    each = len(kept) // sampling.chains
    if not each:  # interrupted, and nothing to return yet: those who called are to know
        raise KeyboardInterrupt
    kept = kept[: each * sampling.chains]
    draws = _back(problem, moments, (coefficients, inside), (kept, noise), chance[1])
    return Posterior(
        engine="saturated",
        parameters=(*(one.name for one in problem.terms), "residual variance"),
        draws=draws.reshape(sampling.chains, each, -1),
        independent=True,
        complete=complete,
        details={"accepted": len(kept) / tried},
    )


def _places(problem: Problem) -> tuple[list[int], list[int]]:
    """Which terms are clean and not constant, and which are numbers, by place among the terms."""
    constant = _constant(problem)
    clean = [at for at, one in enumerate(problem.terms) if not one.noised and at != constant]
    return clean, [at for at, one in enumerate(problem.terms) if one.numbers]


def _constant(problem: Problem) -> int:
    """The place of the intercept; -1 where there is none."""
    for at, one in enumerate(problem.terms):
        if not one.noised and (one.clean is None or bool((one.clean == 1).all())):
            return at
    return -1


def _covered(problem: Problem) -> bool:
    """Whether all clean columns are in the model, so that nothing restricts the covariance."""
    terms = [one.column(np.zeros((0, 0)), np.zeros((0, 0), np.int64), problem)
             for one in problem.terms if not one.noised]  # fmt: skip
    if not terms:
        return False
    names = {column.tobytes() for column in terms}
    others = [c for c in problem.covariates.T if np.ascontiguousarray(c).tobytes() not in names]
    if not others:
        return True
    design, rest = np.column_stack(terms), np.column_stack(others)
    left = rest - design @ np.linalg.lstsq(design, rest, rcond=None)[0]
    return bool((left**2).sum(axis=0).max() <= _SAME * max(float((rest**2).sum()), 1e-300))


def _moments(problem: Problem, clean: list[int], numbers: list[int]) -> _Moments:
    from sfumato.kernels.sums import exact_parts

    def total(values: Floats) -> float:
        return math.fsum(exact_parts(values))

    columns = [problem.terms[at].clean for at in clean]
    columns += [problem.numbers[problem.terms[at].numbers[0][0]].seen for at in numbers]
    columns.append(problem.y)
    found = [np.asarray(one, float) for one in columns if one is not None]
    if not all(np.isfinite(one).all() for one in found):
        raise MeasureError(
            "A column of the model has infinite or missing values.",
            hint="drop or repair those records first.",
        )
    n, size = problem.records, len(found)
    center = _constant(problem) >= 0
    means = np.array([total(one) / n if center else 0.0 for one in found])
    centered = [one - mean for one, mean in zip(found, means, strict=True)]
    products = np.empty((size, size))
    for a in range(size):
        for b in range(a + 1):
            products[a, b] = products[b, a] = total(centered[a] * centered[b])
    scales = np.sqrt(np.diag(products) / n)
    _vary(problem, [*clean, *numbers], scales, means)
    return _Moments(means, scales, products / np.outer(scales, scales), n)


def _vary(problem: Problem, places: list[int], scales: Floats, means: Floats) -> None:
    for at, scale, mean in zip([*places, -1], scales, means, strict=True):
        if scale <= 1e-12 * abs(mean) or scale == 0:
            name = "the outcome" if at < 0 else f"term '{problem.terms[at].name}'"
            raise MeasureError(
                f"The values of {name} are all the same.", hint="leave it out of the formula."
            )


def _independent(problem: Problem, clean: list[int], inside: Floats) -> None:
    """Refuse clean columns of which one follows from the others."""
    for at in range(1, len(clean)):
        before = inside[:at, :at]
        left = inside[at, at] - inside[at, :at] @ np.linalg.solve(before, inside[:at, at])
        if left <= _SAME * inside[at, at]:
            raise MeasureError(
                f"Term '{problem.terms[clean[at]].name}' follows from the terms before it.",
                hint="leave it out of the formula.",
            )


def _fits(problem: Problem, rest: Floats, numbers: list[int]) -> None:
    names = [problem.terms[at].name for at in numbers] + ["the outcome"]
    for at in range(len(rest)):
        others = [other for other in range(len(rest)) if other < at]
        part = rest[np.ix_(others, others)]
        left = rest[at, at] - rest[at, others] @ np.linalg.solve(part, rest[others, at])
        if left <= _SAME * rest[at, at] or rest[at, at] <= 0:
            raise MeasureError(
                f"The released values of {names[at]} follow from other columns without error.",
                hint="leave one of them out of the formula.",
            )


def _noise(problem: Problem, numbers: list[int], moments: _Moments) -> Floats:
    size = len(numbers) + 1
    made = np.zeros((size, size))
    at = [problem.terms[one].numbers[0][0] for one in numbers]
    made[:-1, :-1] = problem.error[np.ix_(at, at)]
    if problem.outcome_number is not None:
        made[-1, -1] = problem.outcome_number.variance or 0.0
    scales = moments.scales[len(moments.scales) - size :]
    divided: Floats = made / np.outer(scales, scales)
    return divided


def _accepted(
    rest: Floats,
    freedom: int,
    noise: Floats,
    total: int,
    chance: np.random.Generator,
    say: Progress | None,
) -> tuple[Floats, int, bool]:
    """Draws that leave a proper covariance, how many were tried, and whether all are there."""
    lower = np.asarray(np.linalg.cholesky(rest), np.float64)
    some: list[Floats] = [np.zeros((0, *rest.shape))]
    found, tried = 0, 0
    try:
        while found < total and (tried < 4 * total or found > _RAREST * tried):
            batch = max(total - found, 256)
            drawn = _drawn(lower, freedom, batch, chance)
            good = proper(drawn - noise)
            some.append(drawn[good])
            found, tried = found + int(good.sum()), tried + batch
            if say is not None:
                say("drawing covariances", min(found, total), total)
        complete = True
    except KeyboardInterrupt:
        complete = found >= total
    made = np.concatenate(some)
    # The rate is that of all draws tried for those kept.
    tried = max(round(tried * min(1.0, total / max(found, 1))), 1)
    return made[:total], tried, complete


def _drawn(lower: Floats, freedom: int, batch: int, chance: np.random.Generator) -> Floats:
    """Draws X = L A⁻ᵀ A⁻¹ L' with Bartlett's A, where L L' is what is left of the products."""
    size = len(lower)
    core = np.zeros((size, size, batch))
    for a in range(size):
        core[a, a] = np.sqrt(chance.chisquare(freedom - a, batch))
        for b in range(a):
            core[a, b] = chance.standard_normal(batch)
    half = np.tensordot(inverse_of_lower(core), lower, (1, 1)).transpose(1, 2, 0)
    return np.asarray(half @ np.swapaxes(half, 1, 2), np.float64)


def _back(
    problem: Problem,
    moments: _Moments,
    regression: tuple[Floats, Floats],
    covariances: tuple[Floats, Floats],
    chance: np.random.Generator,
) -> Floats:
    """From covariances, and that of the noise, to coefficients on the scales of the terms."""
    clean, numbers = _places(problem)
    coefficients, inside = regression
    seen, noise = covariances
    total, q, d = len(seen), len(clean), len(numbers)
    true = seen - noise
    slope = np.linalg.solve(true[:, :d, :d], true[:, :d, d, None])[..., 0]
    residual = true[:, d, d] - (slope * true[:, :d, d]).sum(axis=1)
    # Of the coefficients of clean columns only this combination is needed, and it is normal.
    weights = np.concatenate([-slope, np.ones((total, 1))], axis=1)
    spread = np.sqrt(np.einsum("ta,tab,tb->t", weights, seen, weights))
    upper = np.linalg.inv(np.linalg.cholesky(inside)).T if q else np.zeros((0, 0))
    direct = weights @ coefficients.T
    direct += spread[:, None] * (chance.standard_normal((total, q)) @ upper.T)
    outcome = moments.scales[-1]
    made = np.zeros((total, len(problem.terms) + 1))
    made[:, clean] = direct * outcome / moments.scales[:q]
    made[:, numbers] = slope * outcome / moments.scales[q:-1]
    made[:, -1] = residual * outcome**2
    constant = _constant(problem)
    if constant >= 0:
        middle = chance.standard_normal(total) * spread * outcome / np.sqrt(moments.records)
        made[:, constant] = moments.means[-1] - made[:, clean + numbers] @ moments.means[:-1]
        made[:, constant] += middle
    return made


def _handed_over(
    problem: Problem, sampling: Sampling, say: Progress | None, accepted: float
) -> Posterior:
    from sfumato.analysis.samplers.gibbs import sampler as collapsed

    found = collapsed.sample(problem, sampling, say)
    note = (
        "The data hardly allow for as much noise as is described: check the description. Draws "
        "were made by the collapsed sampler."
    )
    return replace(
        found, notes=(*found.notes, note), details={**found.details, "accepted": accepted}
    )
