"""Where chains start: what all chains of a problem share, and the first values of one chain.

Shared are the canonical order of records, an orthogonal basis of the clean columns, and the
residuals' shape. First values come from regression calibration and least squares.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.analysis.exposure import fit_spread
from sfumato.analysis.group_level import (
    average_by_group,
    find_first_records,
    is_constant_in_groups,
)
from sfumato.analysis.mixed_models import maximise_likelihood
from sfumato.analysis.outcome_fits import MultinomialLikelihood, place_thresholds
from sfumato.analysis.problem import Exposure, GeneralisedNumber, Problem, Shape
from sfumato.analysis.samplers.metropolis.cells import draw_evenly, place_near_ends
from sfumato.analysis.samplers.metropolis.coefficients import Generator
from sfumato.analysis.samplers.metropolis.latent import NumberTerms
from sfumato.analysis.samplers.metropolis.likelihood import OutcomeModel, ReleasedNumber
from sfumato.analysis.samplers.mixture import Mixture, choose_mixture, fit_mixture
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Integers, Mask

_COLLINEAR = 1e-9
_IMPUTATIONS = 12
_COMPONENTS, _RECORDS = 6, 100
"""So many components where a mixture is needed, and so many records for each and number."""
_MIXTURE_RECORDS = 20_000
_LEAST = 0.05
"""The least share of the released variance that is taken for true."""
_GROUPS_PER_COLUMN = 5
"""Groups for each clean column, from which on true values of groups depend on its mean."""
_NEWTON_STEPS = 50
_LIKELY = {"logit": 5.0, "probit": 3.0}
"""How large a slope may well be: change on the link's scale for one SD of the predictor."""
_LEVEL_SD = 10.0
"""Of the prior of a coefficient of a level, in SD of the outcome or on the scale of the link."""
_CERTAIN = 25.0
"""A linear predictor that far out says that the outcome is certain."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SharedStart:
    """What all chains of a problem share.

    Parameters
    ----------
    problem : with its records in canonical order, groups numbered from 0 on; of the numbers those
        of groups come last, of the categories first.
    clean : (record, column) clean columns of size one, the constant first.
    shared : indices of those that are constant in groups.
    groups : how many there are; 0 where there are none.
    released : what was released of each number.
    error_regressions : by number, (record, number) the regression of its noise on that of the
        others; None where they are uncorrelated.
    group_level : the same of numbers and categories of groups, a row for each group; None where
        there are none.
    centre, sd : (record, number) where each true value is expected, and how far from it.
    size : the SD of each number.
    mixture : the shape of the residuals.
    spread_slopes : (column, number) first slopes of the log spread.
    """

    problem: Problem
    clean: Floats = field(repr=False)
    shared: list[int]
    groups: int
    released: list[ReleasedNumber]
    error_regressions: list[Floats | None]
    centre: Floats = field(repr=False)
    sd: Floats = field(repr=False)
    size: Floats
    mixture: Mixture
    spread_slopes: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    group_level: SharedStart | None = None

    @property
    def record_numbers(self) -> int:
        """How many numbers have a value of their own for each record."""
        return sum(not number.by_group for number in self.problem.numbers)


class _ErrorRegression(NamedTuple):
    """The regression of one number's noise on that of others, and its remaining variance."""

    weights: Floats
    variance: Floats


class _Calibration(NamedTuple):
    """Where true values are expected given released ones, how far from it, and noisy residuals."""

    centre: Floats
    sd: Floats
    residual: Floats


def prepare_start(problem: Problem, seed: int) -> SharedStart:
    """The start of a problem. Refuses what has no posterior."""
    _require_enough(problem)
    problem = _order_records(_order_by_level(problem))
    clean, shared = _orthogonalise_covariates(problem)
    start = _describe_numbers(problem, clean, shared, seed)
    if not problem.group_level:
        return start
    of_groups = _take_groups(problem)
    _require_enough_groups(of_groups)
    clean, _ = _orthogonalise_covariates(of_groups)
    group_level = _describe_numbers(of_groups, clean, [0], seed)
    group = np.asarray(problem.groups)
    spread = start.record_numbers
    for filled, by_group in ((start.centre, group_level.centre), (start.sd, group_level.sd)):
        filled[:, spread:] = by_group[group]
    start.size[spread:] = group_level.size
    return replace(start, group_level=group_level)


def _describe_numbers(problem: Problem, clean: Floats, shared: list[int], seed: int) -> SharedStart:
    """What is expected of true numbers, and their shape; those of groups are left open."""
    count = sum(not number.by_group for number in problem.numbers)
    regressions = [_regress_error(problem, index) for index in range(len(problem.numbers))]
    released = [
        ReleasedNumber(number, None if regression is None else regression.variance)
        for number, regression in zip(problem.numbers, regressions, strict=True)
    ]
    calibration = _calibrate(problem, released[:count], clean, np.random.default_rng(seed))
    size = np.maximum(calibration.residual.std(axis=0), 1e-300)
    error = _error_covariance(problem, released)[:count, :count]
    mixture = Mixture(np.ones(1), np.zeros((1, 0)), np.zeros((1, 0, 0)), 0.0)
    slopes: Floats = np.zeros((0, count))
    if count and problem.exposure is not None:
        slopes, mixture = describe_residuals(problem, calibration.residual, error)
    elif count:
        scale = np.outer(size, size)
        mixture = _choose_shape(calibration.residual / size, error / scale, problem.shape)
        mixture = Mixture(
            mixture.shares, mixture.means * size, mixture.covariances * scale, mixture.bic
        )
    open_columns = np.zeros((problem.records, len(released) - count))
    return SharedStart(
        problem=problem,
        clean=clean,
        shared=shared,
        groups=0 if problem.groups is None else int(problem.groups.max()) + 1,
        released=released,
        error_regressions=[
            None if regression is None else regression.weights for regression in regressions
        ],
        centre=np.column_stack([calibration.centre, open_columns]),
        sd=np.column_stack([calibration.sd, open_columns]),
        size=np.append(size, np.ones(len(released) - count)),
        mixture=mixture,
        spread_slopes=slopes,
    )


def describe_residuals(problem: Problem, residual: Floats, error: Floats) -> tuple[Floats, Mixture]:
    """First slopes of the log spread, and the shape of residuals over the spread.

    Residuals are divided by the root of all their variance, that of noise included: where true
    values are normal, they are then normal, however much of each is noise.

    Parameters
    ----------
    problem : with the columns and strata by which residuals differ; None for none.
    residual : (record, number) of released values.
    error : the covariance of the noise.
    """
    exposure = problem.exposure or Exposure(np.zeros((len(residual), 0)))
    columns, noise = exposure.spread, np.maximum(np.diag(error), 1e-300)
    fits = [fit_spread(x, np.full(len(x), noise[i]), columns) for i, x in enumerate(residual.T)]
    slopes = np.column_stack([fit.slopes for fit in fits])
    variance = np.array([fit.variance for fit in fits])
    total = variance * np.exp(2 * columns @ slopes) + noise
    # The share of noise in the variance, on average, and correlations of noise as they are.
    share = np.sqrt((noise / total).mean(axis=0) / noise)
    shape = problem.shape
    if exposure.stratum is not None and shape == "auto":
        shape = "mixture"
    mixture = _choose_shape(residual / np.sqrt(total), error * np.outer(share, share), shape)
    size = np.sqrt(variance / np.maximum(1 - share**2 * noise, 1e-3))
    return slopes, Mixture(
        mixture.shares,
        mixture.means * size,
        mixture.covariances * np.outer(size, size),
        mixture.bic,
    )


def _order_by_level(problem: Problem) -> Problem:
    """Numbers of groups last, and categories of groups first: no record decides on its group."""
    numbers = sorted(range(len(problem.numbers)), key=lambda i: problem.numbers[i].by_group)
    levels = sorted(
        range(len(problem.categories)), key=lambda i: not problem.categories[i].by_group
    )
    return replace(
        problem,
        numbers=tuple(problem.numbers[i] for i in numbers),
        categories=tuple(problem.categories[i] for i in levels),
        error=problem.error[np.ix_(numbers, numbers)],
        terms=tuple(
            replace(
                term,
                numbers=tuple((numbers.index(i), function) for i, function in term.numbers),
                levels=tuple((levels.index(i), level) for i, level in term.levels),
            )
            for term in problem.terms
        ),
    )


def _take_groups(problem: Problem) -> Problem:
    """The numbers and categories of groups, a record for each group."""
    groups = np.asarray(problem.groups)
    rows = find_first_records(groups)
    varies = [not is_constant_in_groups(column, groups) for column in problem.covariates.T]
    count = sum(not number.by_group for number in problem.numbers)
    # True values of groups may depend on who is in them, as far as there are groups enough.
    covariates = problem.covariates[rows][:, ~np.array(varies)]
    means = average_by_group(problem.covariates[:, varies], groups)
    if len(rows) >= _GROUPS_PER_COLUMN * problem.covariates.shape[1]:
        covariates = np.column_stack([covariates, means])
    return replace(
        problem,
        y=problem.y[rows],
        trials=None,
        offset=None,
        numbers=tuple(
            replace(number.take(rows), by_group=False)
            for number in problem.numbers
            if number.by_group
        ),
        categories=tuple(
            replace(x, density=x.density[rows]) for x in problem.categories if x.by_group
        ),
        error=problem.error[count:, count:],
        terms=(),
        covariates=covariates,
        exposure=None,
        groups=None,
        random=(),
        more_factors=(),
    )


def _require_enough_groups(of_groups: Problem) -> None:
    least = of_groups.covariates.shape[1] + len(of_groups.numbers) + 3
    if of_groups.records < least:
        numbers = [number.name for number in of_groups.numbers]
        names = ", ".join([*numbers, *(category.name for category in of_groups.categories)])
        raise MeasureError(
            f"There are {of_groups.records} groups, too few for a model of what groups have: "
            f"{names}.",
            hint="leave it out of the formula.",
        )


def _choose_shape(residual: Floats, error: Floats, shape: Shape) -> Mixture:
    """The shape that the data ask for; a mixture with components to spare.

    Noise hides what true values look like, so that BIC asks for few components. Draws of a
    mixture do not mind having too many, and powers of true values mind having too few.
    """
    mixture = choose_mixture(residual, error, shape)
    spare = min(_COMPONENTS, len(residual) // (_RECORDS * residual.shape[1]))
    if mixture.components == 1 or spare <= mixture.components:
        return mixture
    interval = max(1, -(-len(residual) // _MIXTURE_RECORDS))
    return fit_mixture(residual[::interval], error, spare)


def _require_enough(problem: Problem) -> None:
    if problem.records < len(problem.terms) + len(problem.numbers) + 3:
        raise MeasureError(
            f"There are {problem.records} records, too few for {len(problem.terms)} coefficients.",
            hint="leave terms out of the formula.",
        )
    for number in problem.numbers:
        missing = np.isnan(number.observed)
        if missing.all() or not np.isfinite(number.observed[~missing]).all():
            raise MeasureError(
                f"Variable '{number.name}' has no finite released value for some records, "
                "or for all.",
                hint="leave it out of the formula.",
            )
    if problem.outcome_number is None and not np.isfinite(problem.y).all():
        raise MeasureError("The outcome has no finite value for some records.")
    for factor in problem.factors:
        groups, least = len(np.unique(factor.groups)), 3 * max(len(factor.random), 1) + 1
        named = f" of '{factor.name}'" if problem.more_factors else ""
        if groups < least:
            raise MeasureError(
                f"There are {groups} groups{named}; {least} are needed to estimate how they vary.",
                hint="leave the groups out, or make them a clean factor of the formula.",
            )


def find_order(problem: Problem) -> Integers:
    """An order of the records that depends on their values alone."""
    number, category = problem.outcome_number, problem.outcome_category
    categories = [*problem.categories, *([] if category is None else [category])]
    keys: list[npt.NDArray[np.generic]] = [
        column for ordered in categories for column in ordered.density.T
    ]
    keys += [term.clean for term in problem.terms if term.clean is not None]
    keys += [*problem.covariates.T, *(x.observed for x in problem.numbers), problem.y]
    cells = [x for x in (*problem.numbers, number) if isinstance(x, GeneralisedNumber)]
    keys += [ends for x in cells for ends in (x.lower, x.upper)]
    keys += [factor.groups for factor in problem.more_factors]
    keys += [key for key in (problem.trials, problem.offset, problem.groups) if key is not None]
    return np.lexsort(keys)


def _renumber(groups: Integers) -> Integers:
    """Groups numbered from 0 on without a gap."""
    return np.unique(groups, return_inverse=True)[1].reshape(-1).astype(np.int64)


def list_further_groups(problem: Problem) -> list[Integers]:
    """The groups of further grouping factors, each of the same groups once."""
    distinct: list[Integers] = []
    for factor in problem.factors:
        if not any(np.array_equal(factor.groups, groups) for groups in distinct):
            distinct.append(factor.groups)
    return distinct[1:]


def _order_records(problem: Problem) -> Problem:
    """The records in an order that depends on their values alone."""
    order, number = find_order(problem), problem.outcome_number
    category = problem.outcome_category
    groups = None if problem.groups is None else _renumber(problem.groups[order])
    return replace(
        problem,
        y=problem.y[order],
        trials=None if problem.trials is None else problem.trials[order],
        offset=None if problem.offset is None else problem.offset[order],
        outcome_number=None if number is None else number.take(order),
        outcome_category=(
            None if category is None else replace(category, density=category.density[order])
        ),
        numbers=tuple(x.take(order) for x in problem.numbers),
        categories=tuple(replace(x, density=x.density[order]) for x in problem.categories),
        terms=tuple(
            term if term.clean is None else replace(term, clean=term.clean[order])
            for term in problem.terms
        ),
        covariates=problem.covariates[order],
        exposure=None if problem.exposure is None else problem.exposure.take(order),
        groups=groups,
        more_factors=tuple(
            replace(factor, groups=_renumber(factor.groups[order]))
            for factor in problem.more_factors
        ),
        partition=None
        if problem.partition is None
        else replace(problem.partition, classes=problem.partition.classes[order]),
    )


def _orthogonalise_covariates(problem: Problem) -> tuple[Floats, list[int]]:
    """Uncorrelated clean columns of size one, the constant first; which are constant in groups.

    Gram-Schmidt, every column twice, for accuracy.
    """
    basis: list[Floats] = [np.ones(problem.records)]
    shared = [0]
    columns, group = list(problem.covariates.T), problem.groups
    if group is not None:
        # First those constant in groups, so that what is made of them is so too.
        columns.sort(key=lambda column: not is_constant_in_groups(column, group))
    for column in columns:
        remainder = np.asarray(column, float)
        size = float(np.sqrt(np.mean(remainder**2)))
        for direction in [*basis, *basis]:
            remainder = remainder - np.mean(direction * remainder) * direction
        remaining = float(np.sqrt(np.mean(remainder**2)))
        if not size or remaining <= _COLLINEAR * size:
            continue
        if group is not None and is_constant_in_groups(column, group):
            shared.append(len(basis))
        basis.append(remainder / remaining)
    return np.asfortranarray(np.column_stack(basis)), shared


def _regress_error(problem: Problem, number: int) -> _ErrorRegression | None:
    """The regression of a number's noise on correlated noise of others that are not missing."""
    error = problem.error
    linked = [k for k in range(len(problem.numbers)) if k != number and error[number, k] != 0]
    if not linked:
        return None
    observed = np.column_stack([~np.isnan(problem.numbers[k].observed) for k in linked])
    weights = np.zeros((problem.records, len(problem.numbers)))
    variance = np.full(problem.records, error[number, number])
    patterns, which = np.unique(observed, axis=0, return_inverse=True)
    for index, pattern in enumerate(patterns):
        known = [k for k, is_known in zip(linked, pattern, strict=True) if is_known]
        if not known:
            continue
        rows = which.reshape(-1) == index
        cross = error[np.ix_(known, [number])][:, 0]
        regression = np.linalg.solve(error[np.ix_(known, known)], cross)
        weights[np.ix_(rows, known)] = regression
        variance[rows] -= cross @ regression
    return _ErrorRegression(weights, np.maximum(variance, 1e-9 * error[number, number]))


def _error_covariance(problem: Problem, released: list[ReleasedNumber]) -> Floats:
    """The covariance of the noise; where it grows, its average. Rounding adds width² / 12."""
    error = np.array(problem.error, float).reshape(len(released), len(released))
    for i, number in enumerate(released):
        if problem.error[i, i] == 0 or number.number.growth is not None:
            error[i, i] = float(np.mean(number.variance(number.values)))
        error[i, i] += number.number.width**2 / 12
    return error


def _calibrate(
    problem: Problem, released: list[ReleasedNumber], clean: Floats, rng: Generator
) -> _Calibration:
    """Regression calibration of each number on clean columns, levels and groups.

    What is missing or lies beyond a limit is drawn from a normal regression, a few times over, so
    that the shape of the others is not mistaken.
    """
    records, count = problem.records, len(released)
    centre, sd, residual = (np.zeros((records, count)) for _ in range(3))
    design = _add_level_probabilities(problem, clean)
    for i, number in enumerate(released):
        noisy = np.where(number.missing, number.values[~number.missing].mean(), number.values)
        unknown = np.flatnonzero(number.missing | number.clipped)
        if isinstance(number.number, GeneralisedNumber):
            # Evenly within the cells: a normal regression would leave no tails to begin with.
            noisy = place_near_ends(number.number, draw_evenly(number.number, noisy, rng))
            unknown = np.flatnonzero(~np.isfinite(number.lower) | ~np.isfinite(number.upper))
        for _ in range(_IMPUTATIONS if len(unknown) else 1):
            slopes = np.linalg.lstsq(design, noisy, rcond=None)[0]
            fitted = design @ slopes
            if problem.groups is not None and problem.clustered:
                for groups in (problem.groups, *list_further_groups(problem)):
                    fitted += _shrink_group_means(noisy - fitted, groups)
            noisy_sd = float(np.std(noisy - fitted)) or 1e-300
            z = _draw_between_limits(number, fitted, noisy_sd, unknown, rng)
            noisy[unknown] = fitted[unknown] + noisy_sd * z
        residual[:, i] = noisy - fitted
        variance = np.broadcast_to(np.asarray(number.variance(noisy), float), records)
        # The noise taken off the released variance gives that of the true values.
        true = max(noisy_sd**2 - float(variance.mean()), _LEAST * noisy_sd**2)
        reliability = true / (true + variance)
        centre[:, i] = fitted + reliability * (noisy - fitted)
        sd[:, i] = np.sqrt(true * (1 - reliability))
    return _Calibration(centre, sd, residual)


def _draw_between_limits(
    number: ReleasedNumber, fitted: Floats, sd: float, rows: Integers, rng: Generator
) -> Floats:
    """Standard normal draws between the limits that are known of each value, by inversion."""
    from scipy.special import ndtr, ndtri

    lower = np.where(number.missing, -np.inf, number.lower)[rows]
    upper = np.where(number.missing, np.inf, number.upper)[rows]
    a, b = (lower - fitted[rows]) / sd, (upper - fitted[rows]) / sd
    # In the lower tail nothing cancels.
    sign = np.where(a > 0, -1.0, 1.0)
    a, b = np.where(a > 0, -b, a), np.where(a > 0, -a, b)
    low, high = ndtr(a), ndtr(b)
    uniform = np.clip(low + rng.uniform(size=len(a)) * (high - low), 1e-300, 1 - 1e-16)
    z: Floats = sign * ndtri(uniform)
    return np.clip(z, -8.0, 8.0)


def _add_level_probabilities(problem: Problem, clean: Floats) -> Floats:
    """The clean columns, and how likely each level is by what was released of it."""
    columns = [clean]
    for category in problem.categories:
        shares = np.exp(category.density - category.density.max(axis=1, keepdims=True))
        columns.append((shares / shares.sum(axis=1, keepdims=True))[:, 1:])
    return np.column_stack(columns)


def _shrink_group_means(residual: Floats, group: Integers) -> Floats:
    """The means by group, shrunk as far as chance alone would drive them apart."""
    sizes = np.maximum(np.bincount(group), 1)
    means = np.bincount(group, residual) / sizes
    within = float(np.var(residual))
    between = max(float(np.var(means)) - within * float(np.mean(1 / sizes)), 0.0)
    shrunk = means * between / (between + within / sizes + 1e-300)
    by_record: Floats = shrunk[group]
    return by_record


def draw_first_latent(start: SharedStart, rng: Generator) -> Floats:
    """True numbers drawn about where they are expected; within reach of the model's functions."""
    noise = rng.standard_normal(start.centre.shape)
    if start.group_level is not None:
        group, shared = np.asarray(start.problem.groups), slice(start.record_numbers, None)
        noise[:, shared] = noise[find_first_records(group)][group, shared]
    latent = start.centre + start.sd * noise
    for i, number in enumerate(start.problem.numbers):
        terms = NumberTerms(start.problem, i, 1.0)

        def is_undefined(values: Floats, terms: NumberTerms = terms) -> Mask:
            finite = [np.isfinite(value) for value in terms.values(values)]
            return ~np.logical_and.reduce(finite) if finite else np.zeros(len(values), bool)

        # A logarithm may not exist at a draw; mostly it does at its centre, or as released.
        for fallback in (start.centre[:, i], start.released[i].values):
            bad = is_undefined(latent[:, i])
            latent[bad, i] = fallback[bad]
        bad = is_undefined(latent[:, i])
        if bad.all():
            raise MeasureError(
                f"A function of '{number.name}' has no finite value near what was released.",
                hint="a logarithm or root takes positive numbers only.",
            )
        if bad.any():
            latent[bad, i] = np.median(latent[~bad, i])
        still_bad = is_undefined(latent[:, i])
        if still_bad.any():
            latent[:, i] = np.where(still_bad, np.max(latent[~bad, i]), latent[:, i])
        if isinstance(number, GeneralisedNumber):
            latent[:, i] = place_near_ends(number, latent[:, i])
    return np.asfortranarray(latent)


def fit_first_coefficients(design: Floats, outcome: OutcomeModel) -> tuple[Floats, float]:
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
    if not outcome.linear:
        if outcome.family == "ordinal":
            thresholds = place_thresholds(outcome.codes, outcome.levels)
            outcome.thresholds = thresholds - thresholds[0]
        if outcome.family == "multinomial":
            y, offset = outcome.codes.astype(float), np.zeros(len(scaled))
            model = MultinomialLikelihood(scaled, y, offset, outcome.levels)
            theta, *_ = maximise_likelihood(model, model.start())
            return theta.reshape(-1, scaled.shape[1]) / size, 1.0
        return _find_mode(scaled, outcome) / size, 1.0
    if outcome.released is not None:
        missing = outcome.released.missing
        outcome.true[missing] = float(outcome.true[~missing].mean())
    beta = np.linalg.lstsq(scaled, outcome.true, rcond=None)[0]
    residual = outcome.true - scaled @ beta
    variance = float(residual @ residual) / max(len(residual) - len(beta), 1)
    if variance <= 1e-20 * float(np.var(outcome.true)) or not np.var(outcome.true):
        raise MeasureError(
            "The terms explain the outcome without error, so that nothing is left to estimate.",
            hint="is the outcome also a predictor?",
        )
    noise = outcome.noise if outcome.released else 0.0
    return beta / size, max(variance - noise, 0.05 * variance)


def _refuse_collinear(scaled: Floats) -> None:
    values = np.linalg.eigvalsh(scaled.T @ scaled / len(scaled))
    if values[0] < 1e-13 * values[-1]:
        raise MeasureError(
            "Some terms say the same as others together.", hint="leave one of them out."
        )


def _find_mode(design: Floats, outcome: OutcomeModel) -> Floats:
    """The mode of a generalised model, by Newton's method with halved steps."""
    beta: Floats = np.zeros(design.shape[1])
    if outcome.link == "log":
        target = np.log(outcome.true + 0.5) - outcome.offset
        beta = np.asarray(np.linalg.lstsq(design, target, rcond=None)[0], np.float64)
    here = outcome.evaluate(design @ beta)
    for _ in range(_NEWTON_STEPS):
        hessian = design.T @ (design * here.curvature[:, None])
        hessian[np.diag_indices(len(beta))] += 1e-9 * np.trace(hessian)
        step = np.linalg.solve(hessian, design.T @ here.gradient)
        for _ in range(_NEWTON_STEPS):
            there = outcome.evaluate(design @ (beta + step))
            if there.log.sum() >= here.log.sum() or not np.any(step):
                break
            step = step / 2
        else:
            break
        beta, gain = beta + step, float(there.log.sum() - here.log.sum())
        here = there
        if gain < 1e-6:  # noqa: PLR2004 - a part of the log-likelihood that nobody can see
            break
    far = float(np.quantile(np.abs(design @ beta + outcome.offset), 0.9))
    if outcome.link != "log" and far > _CERTAIN:
        raise MeasureError(
            "Some combination of predictors determines the outcome for sure.",
            hint="leave one out, or merge rare levels.",
        )
    return beta


def find_exchanges(problem: Problem, design: Floats, random: list[int]) -> list[list[int]]:
    """By random term: the coefficients that can take over its effects, as `exchange_effects` has.

    Those of the columns that are constant in groups, true values of groups among them.
    """
    group = problem.groups
    if group is None:
        return []
    exchanges: list[list[int]] = []
    for term in random:
        terms = [term]
        if not problem.terms[term].has_noise and problem.terms[term].clean is None:
            terms += [
                index
                for index, other in enumerate(problem.terms)
                if index != term
                and all(problem.numbers[i].by_group for i, _ in other.numbers)
                and all(problem.categories[i].by_group for i, _ in other.levels)
                and is_constant_in_groups(design[:, index], group)
            ]
        exchanges.append(terms)
    return exchanges


def prior_precisions(problem: Problem, design: Floats, outcome: OutcomeModel) -> Floats:
    """Of the coefficients' prior: flat, but for levels, which may have no record at times.

    Slopes of a binary outcome have a weak prior, as in the engine by quadrature: few records do not
    bound them where predictors have noise.
    """
    precisions = np.zeros(design.shape[1])
    likely = _LIKELY.get(problem.link)
    if likely is not None:
        precisions[:] = design.var(axis=0) / likely**2
    scale = float(np.std(outcome.true)) if outcome.linear else 1.0
    for index, term in enumerate(problem.terms):
        if term.levels:
            used = design[design[:, index] != 0, index]
            size = float(np.mean(used**2)) if len(used) else 1.0
            precisions[index] = size / (_LEVEL_SD * scale) ** 2
    return precisions
