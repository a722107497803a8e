"""Linear models of one level with noised numbers: independent draws, no chain.

Given the clean columns, outcome and released numbers are normal with a covariance that nothing
restricts (the model is saturated). Its posterior is known in closed form, normal and inverse
Wishart; the covariance of the noise is subtracted from each draw, draws that leave no positive
definite covariance are rejected, and the remainder is turned into coefficients and residual
variance: with S the covariance of what was released and N that of the noise,

    δ = (S_xx - N_xx)⁻¹ S_xy,    σ² = S_yy - N_yy - δ' S_xy.

Records enter through exact cross products only, so their order cannot matter.

Prior: density 1 / |S|. Without noise that is flat on the coefficients and 1 / σ² on the residual
variance, and gives the t intervals of ordinary least squares.

The shape of true values does not matter here. Coefficients and residual variance depend on second
moments alone; and the spread of what decides them, products of released values with (residual -
noise times coefficient), involves no higher moment of true values, which are independent of both
factors of the latter. Skewed true values have the same coverage (`bench_fit_linear`).

Randomness is the analyst's own: numpy's generator under a seed, not the custodian's keyed
randomness.

References: Fuller (1987), Measurement Error Models, section 2.2 (the estimator); Gelman et al.
(2013), Bayesian Data Analysis, sections 3.6 and 14.2 (the posterior); Anderson (2003), An
Introduction to Multivariate Statistical Analysis, section 7.2 (Bartlett's decomposition).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sfumato.analysis.problem import Posterior, Problem, Sampling
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Mask
from sfumato.kernels.exact_sums import exact_sum
from sfumato.progress import Progress

_SAME = 1e-9
_TINY = 1e-12
_BATCH = 256
_RAREST = 1e-3
"""A smaller share of draws accepted, and the other engine is cheaper."""


@dataclass(frozen=True, eq=False)
class CrossMoments:
    """Cross products about the mean, on scales of one: clean columns, numbers, the outcome."""

    means: Floats
    scales: Floats
    products: Floats
    records: int


@dataclass(frozen=True, eq=False)
class CovarianceDraws:
    """Covariances of what was released that leave a positive definite one without the noise.

    Parameters
    ----------
    draws : (draw, value, value).
    tried : how many draws it took.
    complete : whether all that were wanted are there.
    """

    draws: Floats
    tried: int
    complete: bool


def can(problem: Problem) -> bool:
    """Whether the model is linear in numbers with plain noise, and of one level."""
    if problem.family != "gaussian" or problem.groups is not None or problem.categories:
        return False
    outcome = problem.outcome_number
    simple = all(not term.numbers or term.simple(problem) for term in problem.terms)
    used = [term.numbers[0][0] for term in problem.terms if term.numbers]
    if not (problem.simple and simple and len(set(used)) == len(used)):
        return False
    if len(used) != len(problem.numbers) or (
        outcome is not None and not outcome.is_homoscedastic_normal
    ):
        return False
    return not bool(np.isnan(problem.y).any()) and _spans_covariates(problem)


def sample(problem: Problem, sampling: Sampling, progress: Progress | None = None) -> Posterior:
    """Independent draws of coefficients and residual variance.

    Parameters
    ----------
    problem : the model; `can` says whether it is one of these.
    sampling : how many draws; there is no warm-up.
    progress : called with how far it is.
    """
    clean, numbers = _split_terms(problem)
    moments = _compute_moments(problem, clean, numbers)
    noise = _noise_covariance(problem, numbers, moments)
    q = len(clean)
    within, across = moments.products[:q, :q], moments.products[:q, q:]
    _require_independent(problem, clean, within)
    coefficients = np.asarray(np.linalg.solve(within, across), np.float64)
    residual = moments.products[q:, q:] - across.T @ coefficients
    freedom = moments.records - q - len(numbers) - (_find_intercept(problem) >= 0)
    if freedom < len(numbers) + 1:
        raise MeasureError(
            f"There are {moments.records} records, too few for {len(problem.terms)} coefficients.",
            hint="leave terms out of the formula.",
        )
    _require_errors(problem, residual, numbers)
    rngs = [np.random.default_rng(seed) for seed in np.random.SeedSequence(sampling.seed).spawn(2)]
    total = sampling.chains * sampling.draws
    covariances = _draw_covariances(residual, freedom, noise, total, rngs[0], progress)
    if covariances.complete and len(covariances.draws) < total:
        return _sample_by_gibbs(
            problem, sampling, progress, len(covariances.draws) / covariances.tried
        )
    length = len(covariances.draws) // sampling.chains
    if not length:  # interrupted, and nothing to return yet: callers must know
        raise KeyboardInterrupt
    released = covariances.draws[: length * sampling.chains]
    draws = _draw_coefficients(
        problem, moments, regression=coefficients, within=within, released=released, noise=noise,
        rng=rngs[1],
    )  # fmt: skip
    return Posterior(
        engine="saturated",
        parameters=(*(term.name for term in problem.terms), "residual variance"),
        draws=draws.reshape(sampling.chains, length, -1),
        independent=True,
        complete=covariances.complete,
        details={"accepted": len(released) / covariances.tried},
    )


def _split_terms(problem: Problem) -> tuple[list[int], list[int]]:
    """Positions of the terms that are clean and not constant, and of those that are numbers."""
    intercept = _find_intercept(problem)
    clean = [i for i, term in enumerate(problem.terms) if not term.has_noise and i != intercept]
    return clean, [i for i, term in enumerate(problem.terms) if term.numbers]


def _find_intercept(problem: Problem) -> int:
    """The position of the intercept; -1 where there is none."""
    for i, term in enumerate(problem.terms):
        if not term.has_noise and (term.clean is None or bool((term.clean == 1).all())):
            return i
    return -1


def _spans_covariates(problem: Problem) -> bool:
    """Whether all clean columns are in the model, so that nothing restricts the covariance."""
    terms = [
        term.column(np.zeros((0, 0)), np.zeros((0, 0), np.int64), problem)
        for term in problem.terms
        if not term.has_noise
    ]
    if not terms:
        return False
    known = {column.tobytes() for column in terms}
    others = [c for c in problem.covariates.T if np.ascontiguousarray(c).tobytes() not in known]
    if not others:
        return True
    design, covariates = np.column_stack(terms), np.column_stack(others)
    residual = covariates - design @ np.linalg.lstsq(design, covariates, rcond=None)[0]
    total = max(float((covariates**2).sum()), 1e-300)
    return bool((residual**2).sum(axis=0).max() <= _SAME * total)


def _compute_moments(problem: Problem, clean: list[int], numbers: list[int]) -> CrossMoments:
    """Means and cross products, each an exact sum rounded once."""
    terms = [problem.terms[i].clean for i in clean]
    terms += [problem.numbers[problem.terms[i].numbers[0][0]].observed for i in numbers]
    terms.append(problem.y)
    columns = [np.asarray(term, float) for term in terms if term is not None]
    if not all(np.isfinite(column).all() for column in columns):
        raise MeasureError(
            "A column of the model has infinite or missing values.",
            hint="drop or repair those records first.",
        )
    n, size = problem.records, len(columns)
    center = _find_intercept(problem) >= 0
    means = np.array([exact_sum(column) / n if center else 0.0 for column in columns])
    centered = [column - mean for column, mean in zip(columns, means, strict=True)]
    products = np.empty((size, size))
    for a in range(size):
        for b in range(a + 1):
            products[a, b] = products[b, a] = exact_sum(centered[a] * centered[b])
    scales = np.sqrt(np.diag(products) / n)
    _require_variation(problem, [*clean, *numbers], scales, means)
    return CrossMoments(means, scales, products / np.outer(scales, scales), n)


def _require_variation(problem: Problem, terms: list[int], scales: Floats, means: Floats) -> None:
    for i, scale, mean in zip([*terms, -1], scales, means, strict=True):
        if scale <= _TINY * abs(mean) or scale == 0:
            name = "the outcome" if i < 0 else f"term '{problem.terms[i].name}'"
            raise MeasureError(
                f"The values of {name} are all the same.", hint="leave it out of the formula."
            )


def _residual_variance(products: Floats, i: int) -> float:
    """What the columns before column i leave of its sum of squares."""
    weights = np.linalg.solve(products[:i, :i], products[:i, i])
    return float(products[i, i] - products[i, :i] @ weights)


def _require_independent(problem: Problem, clean: list[int], products: Floats) -> None:
    """Refuse clean columns of which one follows from the others."""
    for i in range(1, len(clean)):
        if _residual_variance(products, i) <= _SAME * products[i, i]:
            raise MeasureError(
                f"Term '{problem.terms[clean[i]].name}' follows from the terms before it.",
                hint="leave it out of the formula.",
            )


def _require_errors(problem: Problem, products: Floats, numbers: list[int]) -> None:
    """Refuse released values that follow from other columns."""
    names = [problem.terms[i].name for i in numbers] + ["the outcome"]
    for i, name in enumerate(names):
        if _residual_variance(products, i) <= _SAME * products[i, i] or products[i, i] <= 0:
            raise MeasureError(
                f"The released values of {name} follow from other columns without error.",
                hint="leave one of them out of the formula.",
            )


def _noise_covariance(problem: Problem, numbers: list[int], moments: CrossMoments) -> Floats:
    size = len(numbers) + 1
    covariance = np.zeros((size, size))
    order = [problem.terms[i].numbers[0][0] for i in numbers]
    covariance[:-1, :-1] = problem.error[np.ix_(order, order)]
    if problem.outcome_number is not None:
        covariance[-1, -1] = problem.outcome_number.variance or 0.0
    scales = moments.scales[len(moments.scales) - size :]
    scaled: Floats = covariance / np.outer(scales, scales)
    return scaled


def _draw_covariances(
    residual: Floats,
    freedom: int,
    noise: Floats,
    total: int,
    rng: np.random.Generator,
    progress: Progress | None,
) -> CovarianceDraws:
    """Rejection sampling: inverse Wishart draws that exceed the noise in every direction."""
    root = np.asarray(np.linalg.cholesky(residual), np.float64)
    accepted: list[Floats] = [np.zeros((0, *residual.shape))]
    count, tried = 0, 0
    try:
        while count < total and (tried < 4 * total or count > _RAREST * tried):
            batch = max(total - count, _BATCH)
            draws = _draw_inverse_wishart(root, freedom, batch, rng)
            positive = _is_positive_definite(draws - noise)
            accepted.append(draws[positive])
            count, tried = count + int(positive.sum()), tried + batch
            if progress is not None:
                progress("drawing covariances", min(count, total), total)
        complete = True
    except KeyboardInterrupt:
        complete = count >= total
    # The rate is that of all draws tried for those kept.
    tried = max(round(tried * min(1.0, total / max(count, 1))), 1)
    return CovarianceDraws(np.concatenate(accepted)[:total], tried, complete)


def _draw_inverse_wishart(
    root: Floats, freedom: int, batch: int, rng: np.random.Generator
) -> Floats:
    """Draws X = L A⁻ᵀ A⁻¹ L' with Bartlett's A, where L L' are the residual products."""
    size = len(root)
    # The draw is the last axis: few rows, many draws.
    factor = np.zeros((size, size, batch))
    for a in range(size):
        factor[a, a] = np.sqrt(rng.chisquare(freedom - a, batch))
        for b in range(a):
            factor[a, b] = rng.standard_normal(batch)
    inverse = np.zeros_like(factor)
    for a in range(size):
        inverse[a, a] = 1.0 / factor[a, a]
        for b in range(a):
            inverse[a, b] = -(factor[a, b:a] * inverse[b:a, b]).sum(axis=0) * inverse[a, a]
    half = np.tensordot(inverse, root, (1, 1)).transpose(1, 2, 0)
    return np.asarray(half @ half.mT, np.float64)


def _is_positive_definite(matrices: Floats) -> Mask:
    """Which of the matrices have nothing but positive pivots."""
    pivots = matrices.transpose(1, 2, 0).copy()
    positive = np.ones(len(matrices), bool)
    with np.errstate(all="ignore"):
        for a in range(len(pivots)):
            positive &= pivots[a, a] > _TINY
            for b in range(a + 1, len(pivots)):
                pivots[b, a + 1 :] -= pivots[b, a] / pivots[a, a] * pivots[a, a + 1 :]
    return positive


def _draw_coefficients(
    problem: Problem,
    moments: CrossMoments,
    *,
    regression: Floats,
    within: Floats,
    released: Floats,
    noise: Floats,
    rng: np.random.Generator,
) -> Floats:
    """Coefficients on the scales of the terms, and the residual variance, of each covariance.

    Parameters
    ----------
    regression, within : of numbers and outcome on clean columns, and these columns' products.
    released, noise : covariances of what was released, and that of the noise.
    """
    clean, numbers = _split_terms(problem)
    total, q, d = len(released), len(clean), len(numbers)
    # δ = Σ_xx⁻¹ Σ_xy and σ² = Σ_yy - δ' Σ_xy, of the covariance Σ of true values.
    true = released - noise
    slope = np.linalg.solve(true[:, :d, :d], true[:, :d, d, None])[..., 0]
    residual = true[:, d, d] - (slope * true[:, :d, d]).sum(axis=1)
    # Of the regression on clean columns only the combination y - x' δ is needed: it is normal.
    weights = np.concatenate([-slope, np.ones((total, 1))], axis=1)
    spread = np.sqrt(np.einsum("ta,tab,tb->t", weights, released, weights))
    root = np.linalg.inv(np.linalg.cholesky(within)).T if q else np.zeros((0, 0))
    direct = weights @ regression.T
    direct += spread[:, None] * (rng.standard_normal((total, q)) @ root.T)
    y_scale = moments.scales[-1]
    draws = np.zeros((total, len(problem.terms) + 1))
    draws[:, clean] = direct * y_scale / moments.scales[:q]
    draws[:, numbers] = slope * y_scale / moments.scales[q:-1]
    draws[:, -1] = residual * y_scale**2
    intercept = _find_intercept(problem)
    if intercept >= 0:
        error = rng.standard_normal(total) * spread * y_scale / np.sqrt(moments.records)
        draws[:, intercept] = moments.means[-1] - draws[:, clean + numbers] @ moments.means[:-1]
        draws[:, intercept] += error
    return draws


def _sample_by_gibbs(
    problem: Problem, sampling: Sampling, progress: Progress | None, accepted: float
) -> Posterior:
    """Hand over to the Gibbs sampler: hardly any draw is positive definite."""
    from sfumato.analysis.samplers.gibbs import sampler as gibbs

    posterior = gibbs.sample(problem, sampling, progress)
    note = (
        "The data hardly allow for as much noise as is described: check the description. Draws "
        "were made by the collapsed sampler."
    )
    return replace(
        posterior,
        notes=(*posterior.notes, note),
        details={**posterior.details, "accepted": accepted},
    )
