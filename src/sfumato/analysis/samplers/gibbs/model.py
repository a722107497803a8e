"""The linear model as arrays: what stays fixed while chains run, and what they draw.

For a record with level k of its noised categories, in group g,

    outcome              y  = z_k' β + x' δ + w' u_g + ε,        ε ~ N(0, σ²),  u_g ~ N(0, T)
    true numbers         x  = μ_j + Γ' f_k + v_g + η,            η ~ N(0, Σ_j), v_g ~ N(0, V)
    mixture component    j  ~ shares of level k
    level                k  ~ a table by clean values, or sequential logits with random intercepts
    released             y* = y + noise,  x* = x + noise,        noise normal and of known variance

where z_k are the terms without numbers, f_k clean columns and dummies of the levels. Clean columns
are replaced by an orthogonal basis, numbers and outcome are standardised, and coefficients rotated
so that they are nearly uncorrelated; `Scaling` leads back.

References: Carroll, Ruppert, Stefanski & Crainiceanu (2006), Measurement Error in Nonlinear Models,
chapters 8 and 9; Richardson & Gilks (1993), Statistics in Medicine 12:1703 (outcome, measurement
and exposure model); Agresti (2013), Categorical Data Analysis, section 8.3 (sequential logits).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sfumato.analysis.problem import NoisyNumber, Problem
from sfumato.analysis.samplers.mixture import Mixture, choose_flexible_mixture
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Integers

_SAME = 1e-9
_CLOSE = 1e-7
_ROUNDED = 1e-12
_MOST_JOINT_LEVELS = 64
_MOST_PATTERNS = 32
_LEVEL_SD = 10.0
"""Of the prior of a level's coefficient, in SD of the outcome: a level that no record may truly
have would otherwise have no distribution at all."""
_COMPONENT_PRECISION = 1e-2
_COMPONENT_SCALE = 0.1
"""Priors of several components: the precision of their means, and the scale matrix of their
covariances as a share of the mean variance of a component."""
_INNER_STEPS = (3, 6)
"""Steps on the coefficients for each pass over the records: with few of them, and with many."""
_MANY_RECORDS = 10_000
_MOST_TABLE_ROWS = 200
_RECORDS_PER_CELL = 20
_PROFILE_SAMPLE = 2000


@dataclass(frozen=True, eq=False, kw_only=True)
class Scaling:
    """The way back from standardised coefficients to those of the terms.

    Parameters
    ----------
    fixed_terms, number_terms : positions of the terms without numbers, and of those with.
    centers, scales : of the numbers and the outcome.
    random_scales : of the columns with random effects.
    rotation : coefficients of the fixed terms = rotation @ those that are drawn.
    constant : the combination of fixed terms that is 1; None where there is none.
    """

    fixed_terms: tuple[int, ...]
    number_terms: tuple[int, ...]
    centers: Floats
    scales: Floats
    random_scales: Floats
    rotation: Floats
    constant: Floats | None


@dataclass(frozen=True, eq=False)
class Profiles:
    """Records that have clean columns and group in common, once for each level.

    Parameters
    ----------
    rows, group, level : of each profile.
    first : (record) the index of its profile with the first level; the others follow.
    """

    rows: Floats
    group: Integers
    level: npt.NDArray[np.uint8]
    first: Integers


@dataclass(frozen=True, eq=False)
class Translation:
    """A direction in which a random effect and the coefficients can be exchanged.

    Adding `column` to the effect of each group changes the outcome as adding `coefficients` to β.
    """

    effect: int
    column: Floats
    coefficients: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearModel:
    """What stays as it is while chains run.

    A cell is a component, a pattern of missing values and a level. Its records have the same
    distribution, but for clean columns and groups.

    Parameters
    ----------
    rows : (record, column) a basis of all clean columns (the first is 1, those constant in groups
        come next), the released numbers and the outcome; 0 where missing. Records are in an order
        that depends on their values alone, by group first.
    columns, numbers : how many clean columns and numbers.
    index : (record, 3) pattern of missing values, row of the table of level probabilities, group.
    present : (pattern, number) 1 or 0.
    log_density : (record, level) log density of what was released of the categories.
    roles, earlier : (split, level), (split, level, dummy): of the sequential logits; see
        `sfumato.analysis.samplers.gibbs.steps`.
    dummies : (level, dummy) of the categories, for the model of the numbers.
    group_starts : group g has the records group_starts[g] to group_starts[g + 1].
    group_columns : (group, column) the clean columns that are constant in groups.
    random_design : (effect, column) the columns whose coefficients differ by group.
    outcome_design : (level, term, column) fixed terms as combinations of clean columns.
    term_precision : prior precision of their coefficients.
    noise : covariance of the noise of the numbers and the outcome.
    translations : exchanges of coefficients and random effects.
    component_scale : prior scale matrix of components' covariances, a multiple of the identity.
    mixture : the first guess of the distribution of true numbers.
    table_rows : how many rows the table of level probabilities has.
    clustered, sequential, interacting : whether numbers and levels differ by group; whether levels
        follow sequential logits; whether levels interact with clean columns.
    inner_steps : on the coefficients for each pass.
    profiles : where logits are needed and many records are alike in all that these look at.
    scaling : the way back.
    """

    rows: Floats
    columns: int
    numbers: int
    index: Integers
    present: Floats
    log_density: Floats
    roles: Integers
    earlier: Floats
    dummies: Floats
    group_starts: Integers
    group_columns: Floats
    random_design: Floats
    outcome_design: Floats
    term_precision: Floats
    noise: Floats
    translations: list[Translation]
    component_scale: float
    mixture: Mixture
    table_rows: int
    clustered: bool
    sequential: bool
    interacting: bool
    inner_steps: int
    profiles: Profiles | None
    scaling: Scaling

    @property
    def levels(self) -> int:
        """How many joint levels."""
        return len(self.outcome_design)

    @property
    def components(self) -> int:
        """How many components the mixture has."""
        return self.mixture.components

    @property
    def component_precision(self) -> float:
        """Prior precision of components' means; a single one has a flat prior."""
        return _COMPONENT_PRECISION if self.components > 1 else 0.0

    @property
    def groups(self) -> int:
        """How many groups; 1 where there are none."""
        return len(self.group_starts) - 1

    @property
    def number_effects(self) -> int:
        """How many random effects of a group are on numbers."""
        return self.numbers if self.clustered else 0

    @property
    def effects(self) -> int:
        """How many random effects a group has: on numbers, then on the outcome."""
        return self.number_effects + len(self.random_design)

    @property
    def two_shifted_levels(self) -> bool:
        """Whether there are two levels that differ by shifts alone."""
        single = self.components == 1 and len(self.present) == 1 and not self.interacting
        return self.levels == 2 and single  # noqa: PLR2004

    @cached_property
    def group(self) -> Integers:
        """(record) its group."""
        return np.ascontiguousarray(self.index[:, 2])

    @cached_property
    def cells(self) -> Integers:
        """(3, cell): component, pattern of missing values and level."""
        shape = (self.components, len(self.present), self.levels)
        return np.indices(shape).reshape(3, -1)


@dataclass(eq=False, kw_only=True)
class ChainState:
    """What is drawn; the first axis is the chain.

    Parameters
    ----------
    beta, slope, residual_variance : β, δ and σ² of the outcome.
    gamma : (feature, number) Γ: clean columns but the first, dummies.
    mean, covariance : (component) μ_j and Σ_j.
    share : (level, component).
    outcome_effect, outcome_between : (group, effect) u_g, and their covariance T.
    number_effect, number_between : (group, number) v_g, and their covariance V.
    log_table : (table row, level) log probabilities.
    alpha, level_effect, level_between : (split, feature), (split, group), (split): coefficients,
        random intercepts and their variance, of the sequential logits.
    """

    beta: Floats
    slope: Floats
    residual_variance: Floats
    gamma: Floats
    mean: Floats
    covariance: Floats
    share: Floats
    outcome_effect: Floats
    outcome_between: Floats
    number_effect: Floats
    number_between: Floats
    log_table: Floats
    alpha: Floats
    level_effect: Floats
    level_between: Floats


def joint_covariance(state: ChainState) -> Floats:
    """(chain, component): the covariance of true numbers and outcome within a group.

    [[Σ, Σ δ], [δ' Σ, σ² + δ' Σ δ]].
    """
    d = state.slope.shape[1]
    joint = np.empty((*state.covariance.shape[:2], d + 1, d + 1))
    along = state.covariance @ state.slope[:, None, :, None]
    explained = (state.slope[:, None] * along[..., 0]).sum(axis=-1)
    joint[..., :d, :d] = state.covariance
    joint[..., :d, d:] = along
    joint[..., d, :d] = along[..., 0]
    joint[..., d, d] = state.residual_variance[:, None] + explained
    return joint


def released_covariance(model: LinearModel, state: ChainState) -> Floats:
    """(chain, component, pattern): that of released values; missing ones are independent."""
    both = model.present[:, :, None] * model.present[:, None, :]
    alone = np.eye(both.shape[1]) * (1.0 - model.present)[:, None, :]
    covariance: Floats = (joint_covariance(state)[:, :, None] + model.noise) * both + alone
    return covariance


def cell_means(model: LinearModel, state: ChainState) -> Floats:
    """(chain, cell, value, column): means of true numbers and outcome without random effects."""
    columns, d = model.columns, model.numbers
    component, _, level = model.cells
    chains = len(state.beta)
    means = np.zeros((chains, len(level), d + 1, columns))
    shifts = model.dummies @ state.gamma[:, columns - 1 :]
    means[..., :d, 0] = state.mean[:, component] + shifts[:, level]
    means[..., :d, 1:] = np.swapaxes(state.gamma[:, : columns - 1], 1, 2)[:, None]
    levels, terms, _ = model.outcome_design.shape
    flat = model.outcome_design.transpose(1, 0, 2).reshape(terms, levels * columns)
    fixed = (state.beta @ flat).reshape(chains, levels, columns)
    means[..., d, :] = fixed[:, level]
    means[..., d, :] += (state.slope[:, None, None, :] @ means[..., :d, :])[..., 0, :]
    return means


def is_linear(problem: Problem) -> bool:
    """Whether the terms are sums of clean columns, numbers and levels, and the noise is normal."""
    numbers = (*problem.numbers, *([problem.outcome_number] if problem.outcome_number else []))
    if not all(_has_normal_noise(number) for number in numbers):
        return False
    if (
        np.prod([len(category.levels) for category in problem.categories] or [1])
        > _MOST_JOINT_LEVELS
    ):
        return False
    used = []
    for term in problem.terms:
        if term.numbers:
            if term.clean is not None or term.levels or len(term.numbers) > 1 or term.numbers[0][1]:
                return False
            used.append(term.numbers[0][0])
    if sorted(used) != list(range(len(problem.numbers))):
        return False
    if any(problem.terms[i].has_noise for i in problem.random):
        return False
    _, patterns = _missing_patterns(problem)
    return len(patterns) <= _MOST_PATTERNS


def build_model(problem: Problem) -> LinearModel:
    """Arrange the arrays; refuse too few records or groups, and collinear terms."""
    _require_enough(problem)
    order = _canonical_order(problem)
    groups = np.zeros(problem.records, np.int64) if problem.groups is None else problem.groups
    group = np.ascontiguousarray(groups[order])
    names, starts = np.unique(group, return_index=True)
    group = np.searchsorted(names, group)
    levels = _joint_levels(problem)
    log_density = sum(
        (category.density[order][:, levels[:, c]] for c, category in enumerate(problem.categories)),
        np.zeros((problem.records, len(levels))),
    )
    clean, shared, maps = _orthogonal_basis(problem, order, group)
    fixed = tuple(i for i, term in enumerate(problem.terms) if not term.numbers)
    design = np.zeros((len(levels), len(fixed), clean.shape[1]))
    for t, i in enumerate(fixed):
        for k, codes in enumerate(levels):
            if all(codes[category] == level for category, level in problem.terms[i].levels):
                design[k, t] = maps[i]
    constant = _combine_terms(design, np.eye(clean.shape[1])[0])
    released, centers, scales = _standardise(problem, order, center=constant is not None)
    rotation = _decorrelate_terms(problem, fixed, design, clean, log_density)
    outcome_design = np.ascontiguousarray(np.einsum("st,ksc->ktc", rotation, design))
    precision = np.diag([float(bool(problem.terms[i].levels)) for i in fixed]) / _LEVEL_SD**2
    random = np.column_stack(
        [_clean_column(problem, i)[order] for i in problem.random] or [np.zeros((len(order), 0))]
    )
    random_scales = np.sqrt((random**2).mean(axis=0))
    random = random / random_scales
    pattern, present = _missing_patterns(problem)
    pattern = pattern[order]
    log_density = np.ascontiguousarray(log_density - log_density.max(axis=1, keepdims=True))
    noise = _noise_covariance(problem, scales)
    dummies = _level_dummies(problem, levels)
    clustered = problem.groups is not None and problem.clustered
    mixture = _guess_mixture(
        problem,
        features=np.column_stack([clean, _level_probabilities(log_density) @ dummies]),
        released=released,
        complete=np.asarray(present[pattern][:, :-1].all(axis=1)),
        group=group if clustered else None,
        noise=noise,
    )
    roles, earlier = _sequential_splits(problem, levels, dummies)
    row = np.zeros(len(order), np.int64)
    sequential = clustered and len(levels) > 1
    if len(levels) > 1 and not sequential:
        row, sequential = _table_rows(clean, len(levels))
    group_columns = np.ascontiguousarray(clean[starts, :shared])
    sizes = [np.trace(matrix) / len(matrix) for matrix in mixture.covariances if len(matrix)]
    return LinearModel(
        rows=np.column_stack([clean, released]),
        columns=clean.shape[1],
        numbers=len(problem.numbers),
        index=np.column_stack([pattern, row, group]),
        present=present,
        log_density=log_density,
        roles=roles,
        earlier=earlier,
        dummies=dummies,
        group_starts=np.append(starts, len(group)).astype(np.int64),
        group_columns=group_columns,
        random_design=random.T @ clean / len(order),
        outcome_design=outcome_design,
        term_precision=rotation.T @ precision @ rotation,
        noise=noise,
        translations=_find_translations(random, clean, outcome_design, group_columns),
        component_scale=_COMPONENT_SCALE * float(np.mean(sizes)) if sizes else 0.0,
        mixture=mixture,
        table_rows=int(row.max(initial=0)) + 1,
        clustered=clustered,
        sequential=sequential,
        interacting=bool((outcome_design[:, :, 1:] != outcome_design[:1, :, 1:]).any()),
        inner_steps=_INNER_STEPS[len(order) >= _MANY_RECORDS],
        profiles=_find_profiles(clean, shared, group, len(levels)) if sequential else None,
        scaling=Scaling(
            fixed_terms=fixed,
            number_terms=tuple(i for i, term in enumerate(problem.terms) if term.numbers),
            centers=centers,
            scales=scales,
            random_scales=random_scales,
            rotation=rotation,
            constant=constant,
        ),
    )


def start_chains(model: LinearModel, chains: int, rng: np.random.Generator) -> ChainState:
    """First states that differ from chain to chain more than draws do."""
    d, q, columns = model.numbers, len(model.random_design), model.columns
    splits, features = len(model.roles), model.dummies.shape[1]
    clean, released = model.rows[:, :columns], model.rows[:, columns : columns + d]
    gamma = np.zeros((columns - 1 + features, d))
    gamma[: columns - 1] = clean[:, 1:].T @ released / len(clean)
    log_share = 0.0 if model.sequential else -np.log(model.levels)

    def repeat(values: Floats) -> Floats:
        return np.repeat(values[None], chains, axis=0)

    return ChainState(
        beta=np.zeros((chains, model.outcome_design.shape[1])),
        slope=rng.normal(0, 0.3, (chains, d)),
        residual_variance=rng.uniform(0.3, 1.5, chains),
        gamma=repeat(gamma),
        mean=repeat(model.mixture.means + released.mean(axis=0)),
        covariance=repeat(model.mixture.covariances),
        share=repeat(np.tile(model.mixture.shares, (model.levels, 1))),
        outcome_effect=np.zeros((chains, model.groups, q)),
        outcome_between=np.eye(q) * rng.uniform(0.02, 0.3, (chains, 1, 1)),
        number_effect=np.zeros((chains, model.groups, model.number_effects)),
        number_between=repeat(np.eye(d) * 0.1),
        log_table=np.full((chains, model.table_rows, model.levels), log_share),
        alpha=np.zeros((chains, splits, columns + features)),
        level_effect=np.zeros((chains, splits, model.groups)),
        level_between=np.ones((chains, splits)),
    )


def _has_normal_noise(number: NoisyNumber) -> bool:
    unbounded = np.isinf(number.low) and np.isinf(number.high)
    constant = number.growth is None and number.scale is None and not number.laplace
    return bool(unbounded and constant and number.width == 0 and number.variance is not None)


def _clean_column(problem: Problem, term: int) -> Floats:
    clean = problem.terms[term].clean
    return np.ones(problem.records) if clean is None else np.asarray(clean, float)


def _require_enough(problem: Problem) -> None:
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


def _canonical_order(problem: Problem) -> Integers:
    """An order that depends on the values alone: equal records may change places."""
    keys: list[npt.NDArray[np.generic]] = [
        category.density[:, k]
        for category in problem.categories
        for k in range(category.density.shape[1])
    ]
    keys += [
        _clean_column(problem, i) for i, term in enumerate(problem.terms) if term.clean is not None
    ]
    keys += [number.observed for number in problem.numbers]
    keys.append(problem.y)
    if problem.groups is not None:
        keys.append(problem.groups)
    return np.lexsort(keys).astype(np.int64)


def _joint_levels(problem: Problem) -> Integers:
    """(joint level, category): all combinations of the levels of the categories."""
    codes = [range(len(category.levels)) for category in problem.categories]
    combinations = list(itertools.product(*codes))
    return np.array(combinations, np.int64).reshape(len(combinations), len(codes))


def _missing_patterns(problem: Problem) -> tuple[Integers, Floats]:
    """The pattern of missing values of each record, and what the patterns are."""
    present = np.column_stack(
        [~np.isnan(number.observed) for number in problem.numbers] + [~np.isnan(problem.y)]
    )
    if present.all():
        return np.zeros(problem.records, np.int64), np.ones((1, present.shape[1]))
    patterns, index = np.unique(present, axis=0, return_inverse=True)
    return index.reshape(-1).astype(np.int64), patterns.astype(float)


def _orthogonal_basis(
    problem: Problem, order: Integers, group: Integers
) -> tuple[Floats, int, dict[int, Floats]]:
    """Uncorrelated clean columns, how many are constant in groups, and the terms made of them.

    Modified Gram-Schmidt, repeated once: twice is enough (Giraud et al. 2005).
    """
    terms = {i: _clean_column(problem, i)[order] for i, term in enumerate(problem.terms)
             if not term.numbers}  # fmt: skip
    covariates = [np.asarray(column, float)[order] for column in problem.covariates.T]
    candidates = [np.ones(problem.records), *terms.values(), *covariates]
    if not all(np.isfinite(column).all() for column in candidates):
        raise MeasureError(
            "A clean column of the model has infinite or missing values.",
            hint="drop or repair those records first.",
        )
    first = np.append(True, group[1:] != group[:-1])
    head = np.flatnonzero(first)[np.cumsum(first) - 1]
    grouped = problem.groups is not None
    constant = [grouped and bool((column == column[head]).all()) for column in candidates]
    basis: list[Floats] = []
    shared = 0
    # The constant comes first, then columns that are constant in groups, then all others.
    for in_groups in (True, False):
        for column, is_constant in zip(candidates, constant, strict=True):
            if (is_constant is not in_groups and basis) or (
                not basis and column is not candidates[0]
            ):
                continue
            remainder = column.copy()
            for _ in range(2):
                for vector in basis:
                    remainder -= vector * (vector @ remainder / problem.records)
            size = float(np.sqrt((remainder**2).mean()))
            if size > _SAME * max(float(np.sqrt((column**2).mean())), 1e-300):
                basis.append(remainder / size)
        shared = shared or len(basis)
    clean = np.ascontiguousarray(np.column_stack(basis))
    return clean, shared, {i: _project(clean, column) for i, column in terms.items()}


def _project(clean: Floats, column: Floats) -> Floats:
    """How a column is made of the basis; what is nothing but rounding is zero."""
    weights: Floats = clean.T @ column / len(column)
    return np.where(np.abs(weights) > _ROUNDED * np.abs(weights).max(), weights, 0.0)


def _combine_terms(design: Floats, target: Floats) -> Floats | None:
    """The combination of terms that is this clean column whatever the level; None without one."""
    levels, terms, columns = design.shape
    if not terms:
        return None
    flat = design.transpose(0, 2, 1).reshape(levels * columns, terms)
    tiled = np.tile(target, levels)
    weights = np.asarray(np.linalg.lstsq(flat, tiled, rcond=None)[0], np.float64)
    return weights if float(np.abs(flat @ weights - tiled).max()) < _CLOSE else None


def _standardise(
    problem: Problem, order: Integers, *, center: bool
) -> tuple[Floats, Floats, Floats]:
    """Numbers and outcome about 0 with variance 1, their centres and scales; missing is 0."""
    released = np.column_stack([number.observed for number in problem.numbers] + [problem.y])[order]
    names = [f"variable '{number.name}'" for number in problem.numbers] + ["the outcome"]
    centers, scales = np.zeros(released.shape[1]), np.ones(released.shape[1])
    for c, name in enumerate(names):
        values = released[~np.isnan(released[:, c]), c]
        scale = float(values.std()) if len(values) > 1 else 0.0
        if not np.isfinite(scale) or scale <= 1e-12 * float(np.abs(values).max(initial=0)):
            raise MeasureError(
                f"The values of {name} are all the same, missing, or infinite.",
                hint="leave it out of the formula.",
            )
        centers[c] = values.mean() if center else 0.0
        scales[c] = scale
    standard = np.nan_to_num((released - centers) / scales)
    return np.ascontiguousarray(standard), centers, scales


def _noise_covariance(problem: Problem, scales: Floats) -> Floats:
    covariance = np.zeros((len(scales), len(scales)))
    if problem.numbers:
        covariance[:-1, :-1] = problem.error
    if problem.outcome_number is not None:
        covariance[-1, -1] = problem.outcome_number.variance or 0.0
    scaled: Floats = covariance / np.outer(scales, scales)
    return scaled


def _level_probabilities(log_density: Floats) -> Floats:
    """(record, joint level): by what was released of the categories alone."""
    density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    shares: Floats = density / density.sum(axis=1, keepdims=True)
    return shares


def _decorrelate_terms(
    problem: Problem,
    fixed: tuple[int, ...],
    design: Floats,
    clean: Floats,
    log_density: Floats,
) -> Floats:
    """Coefficients for which the fixed terms are uncorrelated, at the levels' probabilities."""
    probabilities = _level_probabilities(log_density)
    expected = np.zeros((len(clean), len(fixed)))
    for k in range(len(design)):
        expected += probabilities[:, k, None] * (clean @ design[k].T)
    scale = np.sqrt((expected**2).mean(axis=0))
    upper: Floats = np.asarray(np.linalg.qr(expected / np.where(scale > 0, scale, 1), "r"))
    for t, i in enumerate(fixed):
        if scale[t] == 0 or abs(upper[t, t]) <= _CLOSE * np.sqrt(len(clean)):
            raise MeasureError(
                f"Term '{problem.terms[i].name}' cannot be told from the terms before it.",
                hint="leave it out of the formula.",
            )
    rotation: Floats = np.linalg.inv(upper) / scale[:, None] * np.sqrt(len(clean))
    return rotation


def _level_dummies(problem: Problem, levels: Integers) -> Floats:
    """(joint level, dummy): one for each level of a category but the first."""
    columns = [
        levels[:, c] == level
        for c, category in enumerate(problem.categories)
        for level in range(1, len(category.levels))
    ]
    return np.column_stack(columns).astype(float) if columns else np.zeros((len(levels), 0))


def _guess_mixture(
    problem: Problem,
    *,
    features: Floats,
    released: Floats,
    complete: npt.NDArray[np.bool_],
    group: Integers | None,
    noise: Floats,
) -> Mixture:
    """The mixture that fits the residuals of complete records, within groups where these differ."""
    d = len(problem.numbers)
    if not d:
        return Mixture(np.ones(1), np.zeros((1, 0)), np.zeros((1, 0, 0)), 0.0)
    features, numbers = features[complete], released[complete, :d].copy()
    if group is not None:
        group = group[complete]
        counts = np.maximum(np.bincount(group), 1)
        for columns in (features[:, 1:], numbers):
            for c in range(columns.shape[1]):
                columns[:, c] -= (np.bincount(group, columns[:, c]) / counts)[group]
    residual = numbers - features @ np.linalg.lstsq(features, numbers, rcond=None)[0]
    return choose_flexible_mixture(residual, noise[:d, :d], problem.shape)


def _sequential_splits(
    problem: Problem, levels: Integers, dummies: Floats
) -> tuple[Integers, Floats]:
    """Roles of the levels in each split, and the dummies of the categories before it."""
    roles, earlier = [], []
    before = 0
    for c, category in enumerate(problem.categories):
        known = dummies.copy()
        known[:, before:] = 0.0
        for level in range(len(category.levels) - 1):
            codes = levels[:, c]
            roles.append(np.where(codes == level, 1, np.where(codes > level, 0, -1)))
            earlier.append(known)
        before += len(category.levels) - 1
    return (
        np.array(roles, np.int64).reshape(-1, len(levels)),
        np.array(earlier, float).reshape(len(roles), len(levels), dummies.shape[1]),
    )


def _table_rows(clean: Floats, levels: int) -> tuple[Integers, bool]:
    """The combination of clean values of each record; or that there are too many of them."""
    n, columns = clean.shape
    if columns == 1:
        return np.zeros(n, np.int64), False
    rows = np.ascontiguousarray(np.round(clean, 9) + 0.0)
    index = np.unique(rows.view(f"V{columns * 8}").reshape(-1), return_inverse=True)[1]
    index = index.reshape(-1).astype(np.int64)
    count = int(index.max()) + 1
    if count > _MOST_TABLE_ROWS or count * levels * _RECORDS_PER_CELL > n:
        return np.zeros(n, np.int64), True
    return index, False


def _find_profiles(clean: Floats, shared: int, group: Integers, levels: int) -> Profiles | None:
    """Which records are alike; None where hardly any are."""
    # Columns before `shared` are the same for all of a group.
    rows = np.column_stack([clean[:, shared:], group])
    sample = rows[:: max(len(rows) // _PROFILE_SAMPLE, 1)]
    if len(np.unique(sample, axis=0)) * levels > len(sample):
        return None
    view = np.ascontiguousarray(rows).view(f"V{rows.shape[1] * 8}").reshape(-1)
    _, first, profile = np.unique(view, return_index=True, return_inverse=True)
    repeated = np.repeat(first, levels)
    return Profiles(
        np.ascontiguousarray(clean[repeated]),
        group[repeated],
        np.tile(np.arange(levels, dtype=np.uint8), len(first)),
        profile.reshape(-1).astype(np.int64) * levels,
    )


def _find_translations(
    random: Floats, clean: Floats, outcome_design: Floats, group_columns: Floats
) -> list[Translation]:
    """Exchanges of random effects and coefficients: effect times column is a sum of terms."""
    translations = []
    for r, column in enumerate(random.T):
        constant = bool((column == column[0]).all())
        for c in range(group_columns.shape[1] if constant else 1):
            target = clean.T @ (column * clean[:, c]) / len(column)
            coefficients = _combine_terms(outcome_design, target)
            if coefficients is not None:
                translations.append(Translation(r, group_columns[:, c].copy(), coefficients))
    return translations
