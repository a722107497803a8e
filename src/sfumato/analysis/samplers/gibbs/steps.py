"""The full conditionals of the Gibbs sampler, in the order of a sweep, for all chains at once.

1. `RecordStep`: level and mixture component of every record, and the random effects of every
   group, true numbers integrated out of both; then the probabilities of the levels.
2. `CoefficientStep`: coefficients, residual variance, means and covariances of the components.
3. `draw_between_covariances`: the covariances of the random effects.

Symbols are those of `sfumato.analysis.samplers.gibbs.model`.

A category of L levels whose probabilities depend on clean columns or groups is L - 1 sequential
(continuation-ratio) logits: level 0 or a later one; among those level 1 or a later one; and so on.
The role of a level in a split is 1 (this one), 0 (a later one) or -1 (not at risk).

References: Liu (1994), JASA 89:958 (collapsing); Laird & Ware (1982), Biometrics 38:963 (random
effects); Diebolt & Robert (1994), JRSS B 56:363 (mixtures); Gamerman (1997), Statistics and
Computing 7:57 (logits with random effects); Liu & Sabatti (2000), Biometrika 87:353 (translations);
Gelman (2006), Bayesian Analysis 1:515 (priors of variances between groups).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sfumato.analysis.samplers.gibbs.model import (
    ChainState,
    LinearModel,
    cell_means,
    released_covariance,
)
from sfumato.kernels.arrays import Floats, Integers

if TYPE_CHECKING:
    from sfumato.kernels.sampling.gibbs_records import MembershipTerms

FEATURE_PRECISION = 1e-2
"""Prior precision of what levels add to the numbers: one without records must not run away."""
TINY = 1e-12
WORTH_THREADS = 20_000
_MOST_PRODUCTS = 4_000_000
"""Cross products held at a time; with more groups than that they are computed in parts."""
_INTERCEPT_SD, _LOGIT_SD = 5.0, 2.5


@dataclass(frozen=True, eq=False)
class ReleasedMoments:
    """By chain: mean and precision of what was released, given level and component.

    Parameters
    ----------
    residual : (cell, value, column) residual of a record = residual @ row, but for random effects.
    precision : (component, pattern, value, value).
    odds : (group, column) coefficients of the log odds of the second of two levels that differ by
        shifts alone; None for other levels.
    terms : for other levels, what the kernels need.
    """

    residual: Floats
    precision: Floats
    odds: Floats | None
    terms: MembershipTerms | None


def released_moments(model: LinearModel, state: ChainState) -> ReleasedMoments:
    """The moments of what was released, true numbers integrated out."""
    from sfumato.kernels.sampling.gibbs_records import MembershipTerms

    covariance = released_covariance(model, state)
    both = model.present[:, :, None] * model.present[:, None, :]
    precision = np.linalg.inv(covariance) * both
    chains, components, patterns, size, _ = covariance.shape
    columns, two = model.columns, model.two_shifted_levels
    mean = cell_means(model, state)
    residual = np.empty((*mean.shape[:3], columns + size))
    residual[..., :columns], residual[..., columns:] = -mean, np.eye(size)
    by_group = residual[:, :1]
    if model.effects:
        effects = np.concatenate([state.number_effect, state.outcome_effect], axis=-1)
        added = effects @ _loadings(model, state).reshape(chains, model.effects, -1)
        by_group = np.repeat(by_group, model.groups, axis=1)
        by_group[..., :columns] -= added.reshape(chains, model.groups, size, columns)
    elif not two:
        by_group = np.repeat(by_group, model.groups, axis=1)
    logits, logit_shift = _logit_coefficients(model, state)
    # Means do not depend on the pattern of missing values: those of the first are enough.
    mean = mean.reshape(chains, components, patterns, model.levels, size, columns)[:, :, 0]
    mean_shift = mean[..., 0] - mean[:, :1, :1, :, 0]
    if two:
        # Linear discriminant: log odds = s' P r - ½ s' P s with s the shift, P the precision.
        weights = mean_shift[:, 0, 1, None] @ precision[:, 0, 0]
        odds = (weights[:, None] @ by_group)[..., 0, :]
        odds[..., 0] -= 0.5 * (weights @ mean_shift[:, 0, 1, :, None])[..., 0]
        if model.sequential:
            odds[..., :columns] -= logits[:, :, 0]
        return ReleasedMoments(residual, precision, odds, None)
    log_constant = -0.5 * np.linalg.slogdet(covariance)[1][..., None]
    log_constant = log_constant + np.log(np.swapaxes(state.share, 1, 2))[:, :, None]
    interaction = np.zeros((chains, model.levels if model.interacting else 0, columns))
    if model.interacting:
        interaction[..., 1:] = mean[:, 0, :, -1, 1:] - mean[:, 0, :1, -1, 1:]
    terms = MembershipTerms(
        log_table=state.log_table,
        residual=by_group,
        precision=precision,
        mean_shift=mean_shift,
        log_constant=log_constant,
        interaction=interaction,
        logits=logits,
        logit_shift=logit_shift,
        roles=model.roles,
    )
    contiguous: list[Any] = [np.ascontiguousarray(part) for part in terms]
    return ReleasedMoments(residual, precision, None, MembershipTerms(*contiguous))


def _logit_coefficients(model: LinearModel, state: ChainState) -> tuple[Floats, Floats]:
    """(group, split, column) of clean columns, and (split, level) of earlier categories."""
    if not model.sequential:
        return np.zeros((len(state.beta), 1, 0, 0)), np.zeros((len(state.beta), 0, 0))
    columns = model.columns
    shape = (len(state.beta), model.groups, len(model.roles), columns)
    logits = np.broadcast_to(state.alpha[:, None, :, :columns], shape).copy()
    logits[..., 0] += np.swapaxes(state.level_effect, 1, 2)
    shift = (model.earlier @ state.alpha[:, :, columns:, None])[..., 0]
    return logits, shift


class RecordStep:
    """Levels, components and random effects, with cross products for all other steps.

    Parameters
    ----------
    model : what stays as it is.
    chains : how many.
    rng : of all chains.
    pool : for the chains' passes over many records.
    """

    def __init__(
        self, model: LinearModel, chains: int, rng: np.random.Generator, pool: ThreadPoolExecutor
    ) -> None:
        self.model, self.rng, self.pool = model, rng, pool
        cells, width = model.cells.shape[1], model.rows.shape[1]
        self.levels = [np.zeros(len(model.rows), np.uint8) for _ in range(chains)]
        step = int(min(max(_MOST_PRODUCTS // (chains * cells * width**2), 1), model.groups))
        self.products = np.zeros((chains, step, cells, width, width))
        self.released_odds = model.log_density[:, -1] - model.log_density[:, 0]
        self.below = np.tril(np.ones((width, width)), -1)
        # Without levels and components products by group never change.
        self.constant = model.levels * model.components == 1 and step == model.groups
        self.counted = False

    def draw(self, state: ChainState) -> Floats:
        """Change the state; cross products (chain, cell, column, column) less random effects."""
        model = self.model
        moments = released_moments(model, state)
        step = self.products.shape[1]
        totals: Floats | float = 0.0
        for first in range(0, model.groups, step):
            last = min(first + step, model.groups)
            if not (self.constant and self.counted):
                self._visit_records(state, moments, first, last)
            products = self.products[:, : last - first]
            if model.effects:
                effects = _draw_effects(model, state, products, moments, self.rng)
                state.number_effect[:, first:last] = effects[..., : model.number_effects]
                state.outcome_effect[:, first:last] = effects[..., model.number_effects :]
                totals = totals + _remove_effects(model, products, effects)
            else:
                totals = products[:, 0]
        self.counted = True
        if model.levels > 1 and model.sequential:
            draw_logits(model, state, self.levels, self.rng)
        elif model.levels > 1:
            draw_table(state, self._count_levels(np.asarray(totals)), self.rng)
        return np.asarray(totals)

    def _visit_records(
        self, state: ChainState, moments: ReleasedMoments, first: int, last: int
    ) -> None:
        """Draw level and component of the records of some groups; fill cross products."""
        from sfumato.kernels.sampling import gibbs_records as kernels

        model = self.model
        records = kernels.LinearRecords(model.rows, model.index, model.log_density)
        begin, end = int(model.group_starts[first]), int(model.group_starts[last])
        span = kernels.RecordSpan(begin, end, first)
        keys = self.rng.integers(0, 2**64, len(self.products), np.uint64)
        self.products[:, : last - first] = 0.0

        def visit(chain: int) -> None:
            level, products = self.levels[chain], self.products[chain]
            if moments.terms is not None:
                parts: list[Any] = [*(part[chain] for part in moments.terms[:-1]), model.roles]
                terms = kernels.MembershipTerms(*parts)
                kernels.draw_memberships(records, terms, span, keys[chain], level, products)
            elif moments.odds is not None:
                table_odds = state.log_table[chain, :, 1] - state.log_table[chain, :, 0]
                kernels.draw_two_levels(
                    records, self.released_odds, table_odds, moments.odds[chain], span,
                    keys[chain], level, products,
                )  # fmt: skip

        chains = range(len(self.products))
        parallel = end - begin >= WORTH_THREADS
        for _ in self.pool.map(visit, chains) if parallel else map(visit, chains):
            pass
        # The kernel fills lower triangles.
        filled = self.products[:, : last - first]
        filled += np.swapaxes(filled * self.below, -1, -2)

    def _count_levels(self, totals: Floats) -> Floats:
        """(chain, row of the table, level): how many records."""
        model = self.model
        if model.table_rows == 1:
            counts: Floats = totals[..., 0, 0].reshape(len(totals), 1, -1, model.levels)
            return np.asarray(counts.sum(axis=2))
        cell, size = model.index[:, 1] * model.levels, model.table_rows * model.levels
        tallies = [np.bincount(cell + level, minlength=size) for level in self.levels]
        return np.array(tallies, float).reshape(-1, model.table_rows, model.levels)


def _loadings(model: LinearModel, state: ChainState) -> Floats:
    """(chain, effect, value, column): what a random effect adds to means of numbers and outcome.

    An effect on a number reaches the outcome through δ.
    """
    d, front = model.numbers, model.number_effects
    loadings = np.zeros((len(state.beta), model.effects, d + 1, model.columns))
    number = np.arange(front)
    loadings[:, number, number, 0] = 1.0
    loadings[:, :front, d, 0] = state.slope[:, :front]
    loadings[:, front:, d] = model.random_design
    return loadings


def _draw_effects(
    model: LinearModel,
    state: ChainState,
    products: Floats,
    moments: ReleasedMoments,
    rng: np.random.Generator,
) -> Floats:
    """(chain, group, effect): all random effects of each group at once.

    Normal with precision Σ_i Z_i' P Z_i + D⁻¹ and mean precision⁻¹ Σ_i Z_i' P r_i, where Z are the
    loadings, P the precision of what was released, and D the covariance of the effects (Laird &
    Ware 1982, section 3). The sums over records are taken from cross products by group and cell.

    Parameters
    ----------
    products : (chain, group, cell, column, column).
    """
    precision = moments.precision[:, model.cells[0], model.cells[1]]
    loadings = _loadings(model, state)
    chains, groups, cells, width, _ = products.shape
    effects, front, columns = model.effects, model.number_effects, model.columns
    # (chain, cell, effect, column, value): an effect's loading times the precision.
    weighted = np.swapaxes(loadings, 2, 3)[:, None] @ precision[:, :, None]
    weighted = weighted.reshape(chains, cells, effects * columns, -1)
    flat = loadings.transpose(0, 2, 1, 3).reshape(chains, -1, effects * columns)
    squares = weighted @ flat[:, None]
    squares = squares.reshape(chains, cells, effects, columns, effects, columns)
    squares = squares.transpose(0, 1, 3, 5, 2, 4).reshape(chains, cells * columns**2, effects**2)
    cross = (weighted @ moments.residual).reshape(chains, cells, effects, columns, width)
    cross = cross.transpose(0, 1, 3, 4, 2).reshape(chains, cells * columns * width, effects)
    clean = products[..., :columns, :columns].reshape(chains, groups, -1)
    information = (clean @ squares).reshape(chains, groups, effects, effects)
    vector = products[..., :columns, :].reshape(chains, groups, -1) @ cross
    prior = np.zeros((chains, effects, effects))
    if front:
        prior[:, :front, :front] = np.linalg.inv(state.number_between)
    prior[:, front:, front:] = np.linalg.inv(state.outcome_between)
    return draw_normal(information + prior[:, None], vector, rng)


def _remove_effects(model: LinearModel, products: Floats, effects: Floats) -> Floats:
    """Cross products summed over groups: effects on numbers as columns, others subtracted."""
    columns, front, d = model.columns, model.number_effects, model.numbers
    chains, groups = effects.shape[:2]
    width = columns + d + 1
    change = np.zeros((chains, groups, width + front, width))
    change[..., range(columns), range(columns)] = 1.0
    change[..., columns : columns + front, 0] = effects[..., :front]
    change[..., range(columns + front, width + front), range(columns, width)] = 1.0
    change[..., -1, :columns] = -effects[..., front:] @ model.random_design
    total: Floats = (change[:, :, None] @ products @ change.mT[:, :, None]).sum(axis=1)
    return total


def draw_table(state: ChainState, counts: Floats, rng: np.random.Generator) -> None:
    """Probabilities of the levels in each row of the table: Dirichlet(counts + ½)."""
    gammas = np.maximum(rng.standard_gamma(counts + 0.5), 1e-300)
    state.log_table = np.log(gammas / gammas.sum(axis=-1, keepdims=True))


class CoefficientStep:
    """Coefficients and variances given levels, components and random effects.

    Parameters
    ----------
    model : what stays as it is.
    rng : of all chains.
    """

    def __init__(self, model: LinearModel, rng: np.random.Generator) -> None:
        from sfumato.kernels.sampling.gibbs_coefficients import RegressionDesign

        self.model, self.rng = model, rng
        columns, d, terms = model.columns, model.numbers, model.outcome_design.shape[1]
        component, pattern, level = model.cells
        fixed = columns - 1 + model.dummies.shape[1]
        width = columns + model.number_effects + d + 1
        features = np.zeros((len(level), fixed + model.components, width))
        features[:, range(columns - 1), range(1, columns)] = 1.0
        features[:, columns - 1 : fixed, 0] = model.dummies[level]
        features[range(len(level)), fixed + component, 0] = 1.0
        outcome_terms = np.zeros((len(level), terms, width))
        outcome_terms[..., :columns] = model.outcome_design[level]
        term_precision = np.zeros((terms + d, terms + d))
        term_precision[:terms, :terms] = model.term_precision
        feature_precision = np.zeros(fixed + model.components)
        feature_precision[columns - 1 :] = FEATURE_PRECISION
        feature_precision[fixed:] = model.component_precision
        self.design = RegressionDesign(
            cells=np.column_stack([component, pattern]),
            features=features,
            terms=outcome_terms,
            noise=model.noise,
            present=model.present,
            term_precision=term_precision,
            feature_precision=feature_precision,
            columns=columns,
            number_effects=model.number_effects,
        )

    def draw(self, state: ChainState, products: Floats) -> None:
        """Change the state, given the cross products (chain, cell, column, column)."""
        from sfumato.kernels.sampling import gibbs_coefficients as kernels

        model, rng, design = self.model, self.rng, self.design
        chains, cells, width, _ = products.shape
        d, components, steps = model.numbers, model.components, model.inner_steps
        terms, features = design.terms.shape[1], len(design.feature_precision)
        root, nonzero = _symmetric_root(products)
        records = products[..., 0, 0]
        # Rounding must not make more columns than records.
        freedom = np.maximum(records - nonzero.sum(axis=-1), 0.0)
        # Records by component and level, summed over patterns of missing values.
        counts = records.reshape(chains, components, -1, model.levels).sum(axis=2)
        normal = rng.standard_normal((chains, steps, cells, d + 1, width))
        deviates = kernels.StepDeviates(
            normal=normal * nonzero[:, None, :, None, :],
            wishart=draw_bartlett(np.repeat(freedom[:, None], steps, axis=1), d + 1, rng),
            inverse_wishart=self._draw_inverse_factors(counts.sum(axis=-1)),
            features=rng.standard_normal((chains, steps, features * d)),
            terms=rng.standard_normal((chains, steps, terms + d)),
            chi_squared=2.0 * rng.standard_gamma(len(model.rows) / 2.0, (chains, steps)),
            uniform=rng.random((chains, steps)),
        )
        by_cell = design.features @ products @ design.features.mT
        scale = model.component_scale if components > 1 else TINY * counts.sum(axis=-1)
        cross_products = kernels.CrossProducts(
            columns=products,
            root=root,
            features=by_cell.reshape(chains, components, -1, features, features).sum(axis=2),
            terms=(design.terms @ products @ design.terms.mT).sum(axis=1),
            scale=np.multiply.outer(np.broadcast_to(scale, (chains, components)), np.eye(d)),
        )
        parameters = kernels.LinearParameters(
            coefficients=np.concatenate([state.beta, state.slope], axis=1),
            features=np.concatenate([state.gamma, state.mean], axis=1),
            covariance=state.covariance,
            residual_variance=state.residual_variance[:, None],
        )
        for c in range(chains):
            kernels.draw_coefficients(
                design=design,
                products=kernels.CrossProducts(*(part[c] for part in cross_products)),
                deviates=kernels.StepDeviates(*(part[c] for part in deviates)),
                parameters=kernels.LinearParameters(*(part[c] for part in parameters)),
            )
        coefficients, gamma = parameters.coefficients, parameters.features
        state.beta, state.slope = coefficients[:, :terms], coefficients[:, terms:]
        state.gamma, state.mean = gamma[:, : features - components], gamma[:, -components:]
        if components > 1:
            # Shares of the components in each level: Dirichlet(counts + 1).
            share = np.maximum(rng.standard_gamma(1.0 + np.swapaxes(counts, 1, 2)), 1e-300)
            state.share = share / share.sum(axis=-1, keepdims=True)

    def _draw_inverse_factors(self, counts: Floats) -> Floats:
        """Transposed inverse Cholesky factors of Wishart deviates, for the covariances Σ_j."""
        model, d = self.model, self.model.numbers
        # One component has a uniform prior on its covariance, several a proper one.
        freedom = counts + d + 2.0 if model.components > 1 else counts - d - 1.0
        factor = draw_bartlett(np.repeat(freedom[:, None], model.inner_steps, axis=1), d, self.rng)
        return np.ascontiguousarray(np.linalg.inv(factor).mT)


def draw_between_covariances(
    model: LinearModel, state: ChainState, rng: np.random.Generator
) -> None:
    """Covariances of the random effects, after these were exchanged with coefficients.

    A random effect's mean and the coefficient it belongs to are exchanged with their sum fixed: a
    generalised Gibbs step along a group of translations (Liu & Sabatti 2000), which makes up for
    the slow mixing of non-centred effects.
    """
    if model.number_effects:
        _translate_numbers(model, state, rng)
        state.number_between = _draw_between(state.number_effect, rng)
    if len(model.random_design):
        _translate_outcome(model, state, rng)
        state.outcome_between = _draw_between(state.outcome_effect, rng)


def _draw_between(effects: Floats, rng: np.random.Generator) -> Floats:
    chains, groups, size = effects.shape
    # A uniform prior on the covariance, so that its degrees of freedom are fewer than groups.
    freedom = np.full(chains, groups - size - 1.0)
    scale = effects.mT @ effects + TINY * groups * np.eye(size)
    return draw_inverse_wishart(freedom, scale, rng)


def _translate_outcome(model: LinearModel, state: ChainState, rng: np.random.Generator) -> None:
    precision = np.linalg.inv(state.outcome_between)
    for translation in model.translations:
        r, column = translation.effect, translation.column
        gradient = (state.outcome_effect @ precision[:, :, r, None])[..., 0]
        information = precision[:, r, r] * (column @ column)
        step = gradient @ column / information
        step = step + rng.standard_normal(len(information)) / np.sqrt(information)
        state.outcome_effect[:, :, r] -= step[:, None] * column
        state.beta = state.beta + step[:, None] * translation.coefficients


def _translate_numbers(model: LinearModel, state: ChainState, rng: np.random.Generator) -> None:
    root = _cholesky(state.number_between)
    for c, column in enumerate(model.group_columns.T):
        # Only a single component has a flat prior on its mean.
        if c == 0 and model.components > 1:
            continue
        total = column @ column
        normal = rng.standard_normal((*root.shape[:2], 1)) / np.sqrt(total)
        step = column @ state.number_effect / total + (root @ normal)[..., 0]
        state.number_effect -= column[:, None] * step[:, None]
        if c == 0:
            state.mean[:, 0] += step
        else:
            state.gamma[:, c - 1] += step


@dataclass(frozen=True, eq=False)
class LogitFit:
    """By chain: log posterior, gradient and information of a split; and by group."""

    value: Floats
    gradient: Floats
    information: Floats
    by_group: Floats


@dataclass(frozen=True, eq=False)
class LatentLevelCounts:
    """Records, or profiles of records: columns, groups, levels by chain, and how many of each."""

    rows: Floats
    group: Integers
    levels: list[npt.NDArray[np.uint8]]
    counts: list[Floats]


def draw_logits(
    model: LinearModel,
    state: ChainState,
    levels: list[npt.NDArray[np.uint8]],
    rng: np.random.Generator,
) -> None:
    """Coefficients, random intercepts and their variance, of every sequential logit."""
    profiles = model.profiles
    if profiles is None:
        ones = np.ones(len(model.rows))
        counts = LatentLevelCounts(model.rows, model.group, levels, [ones] * len(levels))
    else:
        tallies = [np.bincount(profiles.first + codes, minlength=len(profiles.rows))
                   for codes in levels]  # fmt: skip
        counts = LatentLevelCounts(
            profiles.rows,
            profiles.group,
            [profiles.level] * len(levels),
            [tally.astype(float) for tally in tallies],
        )
    for split in range(len(model.roles)):
        _LogitStep(model, state, split, counts, rng).draw()


def logit_precision(size: int) -> Floats:
    """Prior precision of the coefficients of a logit."""
    return 1.0 / np.where(np.arange(size) == 0, _INTERCEPT_SD, _LOGIT_SD) ** 2


@dataclass(frozen=True, eq=False)
class _LogitStep:
    """Metropolis-Hastings steps on one split, proposed by Newton's method (Gamerman 1997)."""

    model: LinearModel
    state: ChainState
    split: int
    counts: LatentLevelCounts
    rng: np.random.Generator

    def draw(self) -> None:
        """Take a step on coefficients, random intercepts, their sum, and their variance."""
        state, split = self.state, self.split
        fit = self._fit(state.alpha[:, split], state.level_effect[:, split])
        fit = self._step_coefficients(fit)
        if not self.model.clustered:
            return
        self._step_intercepts(fit)
        self._translate()
        # A uniform prior on the standard deviation (Gelman 2006).
        total = (state.level_effect[:, split] ** 2).sum(axis=-1) / 2.0 + TINY
        gamma = self.rng.standard_gamma((self.model.groups - 1) / 2.0, len(total))
        state.level_between[:, split] = total / gamma

    def _fit(self, alpha: Floats, intercepts: Floats) -> LogitFit:
        from sfumato.kernels.sampling import gibbs_records as kernels

        model, counts = self.model, self.counts
        chains, size = alpha.shape
        by_group, gradient = np.zeros((chains, model.groups, 3)), np.zeros((chains, size))
        information = np.zeros((chains, size, size))
        for c in range(chains):
            kernels.add_logit_derivatives(
                kernels.LogitSplit(
                    counts.rows, counts.group, counts.levels[c], counts.counts[c],
                    model.roles[self.split], model.earlier[self.split],
                ),
                alpha[c],
                intercepts[c],
                kernels.LogitDerivatives(by_group[c], gradient[c], information[c]),
            )  # fmt: skip
        prior = logit_precision(size)
        value = by_group[..., 0].sum(axis=1) - 0.5 * alpha**2 @ prior
        information = information + np.tril(information, -1).mT + np.diag(prior)
        return LogitFit(value, gradient - prior * alpha, information, by_group)

    def _step_coefficients(self, fit: LogitFit) -> LogitFit:
        """Propose α ~ N(α + I⁻¹ gradient, I⁻¹), with I the information where the chain is."""
        state, split = self.state, self.split
        old = state.alpha[:, split].copy()
        vector = fit.gradient + (fit.information @ old[..., None])[..., 0]
        new = draw_normal(fit.information, vector, self.rng)
        proposed = self._fit(new, state.level_effect[:, split])
        ratio = proposed.value - fit.value
        ratio = ratio + _log_proposal(old, new, proposed) - _log_proposal(new, old, fit)
        accepted = np.log(self.rng.random(len(old))) < ratio
        state.alpha[:, split] = np.where(accepted[:, None], new, old)
        by_group = np.where(accepted[:, None, None], proposed.by_group, fit.by_group)
        return LogitFit(fit.value, fit.gradient, fit.information, by_group)

    def _step_intercepts(self, fit: LogitFit) -> None:
        """The same for all groups at once; each accepts or rejects for itself."""
        state, split = self.state, self.split
        old, variance = state.level_effect[:, split].copy(), state.level_between[:, split, None]
        value, gradient, information = _with_prior(fit.by_group, old, variance)
        normal = self.rng.standard_normal(old.shape)
        new = old + gradient / information + normal / np.sqrt(information)
        proposed = self._fit(state.alpha[:, split], new)
        new_value, new_gradient, new_information = _with_prior(proposed.by_group, new, variance)
        # Hastings ratio: posterior and proposal back, over posterior and proposal forth.
        back = old - new - new_gradient / new_information
        ratio = new_value - value + 0.5 * np.log(new_information / information)
        ratio += 0.5 * normal**2 - 0.5 * new_information * back**2
        accepted = np.log(self.rng.random(old.shape)) < ratio
        state.level_effect[:, split] = np.where(accepted, new, old)

    def _translate(self) -> None:
        """Exchange coefficients with random intercepts, their sum fixed."""
        alpha, effect = self.state.alpha[:, self.split], self.state.level_effect[:, self.split]
        variance, prior = self.state.level_between[:, self.split], logit_precision(alpha.shape[1])
        for c, column in enumerate(self.model.group_columns.T):
            information = prior[c] + column @ column / variance
            vector = (effect + column * alpha[:, c, None]) @ column / variance
            new = vector / information
            new = new + self.rng.standard_normal(len(variance)) / np.sqrt(information)
            effect -= (new - alpha[:, c])[:, None] * column
            alpha[:, c] = new


def _with_prior(
    by_group: Floats, effect: Floats, variance: Floats
) -> tuple[Floats, Floats, Floats]:
    """Log posterior, gradient and information of random intercepts."""
    value = by_group[..., 0] - 0.5 * effect**2 / variance
    return value, by_group[..., 1] - effect / variance, by_group[..., 2] + 1.0 / variance


def _log_proposal(to: Floats, start: Floats, fit: LogitFit) -> Floats:
    """Log density of proposing `to` from `start`, but for a constant."""
    deviation = (to - start)[..., None] - np.linalg.solve(fit.information, fit.gradient[..., None])
    determinant = np.linalg.slogdet(fit.information)[1]
    square = (deviation.mT @ fit.information @ deviation)[:, 0, 0]
    log_density: Floats = 0.5 * (determinant - square)
    return log_density


def draw_normal(precision: Floats, vector: Floats, rng: np.random.Generator) -> Floats:
    """Draws from N(P⁻¹ vector, P⁻¹) for each precision matrix P."""
    inverse = np.linalg.inv(_cholesky(precision))
    standard = inverse @ vector[..., None]
    standard += rng.standard_normal(standard.shape)
    draws: Floats = (inverse.mT @ standard)[..., 0]
    return draws


def draw_bartlett(freedom: Floats, size: int, rng: np.random.Generator) -> Floats:
    """Cholesky factors of Wishart draws of unit scale; also for fewer degrees than the size.

    Bartlett's decomposition: roots of chi-squared draws on the diagonal, normal draws below
    (Anderson 2003, section 7.2).
    """
    remaining = freedom[..., None] - np.arange(size)
    few = size > 0 and bool((freedom <= size - 1).any())
    # sqrt(2 gamma(f / 2)) is the root of a chi-squared draw with f degrees of freedom.
    shapes = (np.maximum(remaining, 0.0) if few else remaining) / 2.0
    factor = np.sqrt(2.0 * rng.standard_gamma(shapes))[..., None] * np.eye(size)
    for a in range(1, size):
        factor[..., a, :a] = rng.standard_normal((*freedom.shape, a))
    if few:
        factor *= (remaining > 0)[..., None, :]
    return np.asarray(factor)


def draw_inverse_wishart(freedom: Floats, scale: Floats, rng: np.random.Generator) -> Floats:
    """Draws with density ∝ |X|^-(freedom + size + 1)/2 exp(-tr(scale X⁻¹)/2)."""
    # X = L A⁻ᵀ A⁻¹ L' with L L' the scale and A Bartlett's factor.
    factor = draw_bartlett(freedom, scale.shape[-1], rng)
    root = _cholesky(scale) @ np.linalg.inv(factor).mT
    draws: Floats = root @ root.mT
    return draws


def _symmetric_root(matrix: Floats) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """R with R R' = matrix, which may be singular; and which columns of R are not 0."""
    values, vectors = np.linalg.eigh(matrix)
    nonzero = values > TINY * np.maximum(values[..., -1:], 0.0)
    return vectors * np.sqrt(np.where(nonzero, values, 0.0))[..., None, :], nonzero


def _cholesky(matrix: Floats) -> Floats:
    """Cholesky factors, also where rounding left a matrix not quite positive."""
    try:
        return np.asarray(np.linalg.cholesky(matrix), np.float64)
    except np.linalg.LinAlgError:
        size = np.sqrt(np.maximum(np.diagonal(matrix, axis1=-2, axis2=-1), 1e-300))
        scaled = matrix / size[..., None] / size[..., None, :]
        values, vectors = np.linalg.eigh(scaled)
        positive = (vectors * np.maximum(values, TINY)[..., None, :]) @ vectors.mT
        repaired = positive * size[..., None] * size[..., None, :]
        return np.asarray(np.linalg.cholesky(repaired), np.float64)
