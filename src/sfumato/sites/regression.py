"""Regressions over several sites: each adds up its own records, and the sums are joined.

A site sends the triangular factor R of its terms X and its outcome y. R'R holds the sums of squares
and cross-products and nothing else, so R tells exactly as much as they do. The factors of all
sites, one below the other, have the factor of the united records: the estimates are those of the
united data but for rounding. A model with a link is fitted in rounds, each with the weights that
the estimates before give (iteratively reweighted least squares).

What a factor gives away: all quadratic forms of X and y, and so every combination of their columns,
squared and summed. The largest share that one record can have in such a sum is its leverage, the
diagonal of the projection onto the columns; that of several records together is at most the sum of
theirs. A site refuses where the k - 1 largest leverages are more than 90 % together: then some
combination would show a few records and next to nothing else. Estimates from outside that weigh
single records, and terms made to pick them out, are refused by the same rule.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Integers, Positions
from sfumato.kernels.exact_sums import canonical_order, use_one_thread
from sfumato.outputs.output import OutputRefused
from sfumato.outputs.rules import Rules
from sfumato.sites.bundle import ModelAnswer, ModelStep
from sfumato.sites.population import SitePopulation
from sfumato.sites.request import ModelResult, SiteRequest
from sfumato.utility.models.covariates import build_frame, list_categories
from sfumato.utility.models.fitting import (
    FittedRegression,
    Solution,
    Weighing,
    factorise,
    require_estimates,
    require_finite,
    require_independent,
    require_residuals,
    solve_factor,
)
from sfumato.utility.models.regression import build_terms, build_terms_again

FREEDOM = 10
"""Fewest degrees of freedom of a site's own records."""
_SHARE = 1 / 3
"""Terms of one model, at most this share of the records."""
_MOST_LEVERAGE = 0.9
_START = 1.0
"""Added to a count before its logarithm is taken for the first round."""
_ALL = "the sites together"
_CHANGE = 1e-9
"""A change of the deviance, as a share of it, at which the rounds end."""
_CERTAIN = 200.0
"""A standard error, times the typical size of its term, beyond which there is no estimate."""


@dataclass(frozen=True, eq=False)
class SharedTerms:
    """How a formula becomes columns, the same at every site: from the agreed levels alone.

    Parameters
    ----------
    names : of the terms.
    spec : how their columns are built.
    categories : the levels of the variables that are categories in it.
    """

    names: tuple[str, ...]
    spec: Any = field(repr=False)
    categories: Mapping[str, Sequence[str]] = field(repr=False)


def make_terms(request: SiteRequest, result: ModelResult) -> SharedTerms:
    """The terms of a model, learnt from invented records that have every level."""
    formula = result.parsed_formula
    labels = {
        name: list(levels)
        for name in formula.variables
        if (levels := request.variables[name].levels) is not None
    }
    categories = list_categories(formula, labels, binary=result.family == "logistic")
    rows = np.arange(max(map(len, labels.values()), default=2))
    example = build_frame(
        {
            name: rows % len(labels[name]) if name in labels else np.ones(len(rows))
            for name in formula.variables
        },
        categories,
    )
    built = build_terms(formula, example)
    names = tuple(formula.name_column(column, labels) for column in built.rhs.columns)
    if not names:
        raise MeasureError("The formula has no term.", hint="add one, as in 'y ~ x'.")
    return SharedTerms(names, built.model_spec, categories)


# At a site


@dataclass(frozen=True, eq=False)
class LocalStep:
    """What a site adds to a model in one round, and how that weighs its records.

    Parameters
    ----------
    answer : what would leave.
    terms : of each record, times the root of its weight; and the weight.
    """

    answer: ModelAnswer
    terms: Floats = field(repr=False)

    @property
    def equations(self) -> int:
        """How many sums over its records the answer holds: of two terms, and of one and y."""
        count = int(self.terms.shape[1]) - 1
        return count * (count + 1) // 2 + count


def compute_step(
    population: SitePopulation,
    request: SiteRequest,
    result: ModelResult,
    step: ModelStep | None,
    rules: Rules,
) -> LocalStep:
    """What a site adds to a model in one round; refused where it would show a few records."""
    terms = make_terms(request, result)
    columns = {
        name: population.codes.get(name, population.numbers.get(name))
        for name in result.parsed_formula.variables
    }
    values = {name: column for name, column in columns.items() if column is not None}
    require_counts(population, list(values), rules)
    order = canonical_order(list(values.values()))
    matrices = build_terms_again(terms.spec, build_frame(values, terms.categories, order))
    x, y = matrices.rhs.to_numpy(dtype=float), matrices.lhs.to_numpy(dtype=float)[:, 0]
    finite = np.isfinite(np.column_stack([x, y])).all(axis=0)
    require_finite(finite.tolist(), (*terms.names, str(result.parsed_formula.outcome)), "this site")
    _require_freedom(len(y), len(terms.names), rules)
    if step is not None and len(step.beta) != x.shape[1]:
        raise MeasureError("The round has another number of estimates than the model has terms.")
    beta = None if step is None else np.array(step.beta)
    with use_one_thread(), np.errstate(all="ignore"):
        weighted, deviance, _ = Weighing(result.family, beta=beta, mean=_START).weigh(y, x)
        if not (np.isfinite(weighted).all() and math.isfinite(deviance)):
            raise OutputRefused(
                "The estimates of this round lead to weights beyond all numbers.",
                hint="ask the person who sent the round.",
            )
        require_leverage(weighted, rules)
        factor = factorise(weighted)
    factor *= np.where(np.diag(factor) < 0, -1.0, 1.0)[:, None]  # the sign says nothing
    rows = tuple(tuple(row[index:].tolist()) for index, row in enumerate(factor))
    answer = ModelAnswer(records=len(y), factor=rows, deviance=float(deviance))
    return LocalStep(answer, _weigh_terms(x, weighted, order))


def _weigh_terms(x: Floats, weighted: Floats, order: Positions) -> Floats:
    """The weighted terms of each record, and its weight, in the order of the records."""
    largest = np.abs(x).argmax(axis=1)[:, None]
    size = np.take_along_axis(x, largest, axis=1)[:, 0]
    root = np.take_along_axis(weighted, largest, axis=1)[:, 0] / np.where(size, size, 1.0)
    terms = np.empty(weighted.shape)
    terms[order] = np.column_stack([weighted[:, :-1], root**2])
    return terms


def _require_freedom(records: int, terms: int, rules: Rules) -> None:
    if records - terms < max(FREEDOM, rules.records) or terms > records * _SHARE:
        raise OutputRefused(
            "The model has too many terms for the records of this site.",
            hint=f"at least {FREEDOM} degrees of freedom, and three records for each term.",
        )


def require_counts(population: SitePopulation, names: Sequence[str], rules: Rules) -> None:
    """Refuse where two categories of a model meet in a few records, or one has few of a level."""
    codes = _list_discrete(population, names)
    sides = [(name,) for name in codes] + list(combinations(codes, 2))
    for side in sides:
        counts = _count_pairs([codes[name] for name in side])
        if ((counts > 0) & (counts < rules.k)).any():
            quoted = " and ".join(f"'{name}'" for name in side)
            raise OutputRefused(
                f"Fewer than {rules.k} records share a level of {quoted}.",
                hint="leave it out of the model, or join its levels.",
            )


def _list_discrete(population: SitePopulation, names: Sequence[str]) -> dict[str, Integers]:
    """The variables whose levels are counted by a model: categories, and numbers of two values."""
    codes: dict[str, Integers] = {}
    for name in names:
        if name in population.codes:
            codes[name] = population.codes[name]
            continue
        distinct, positions = np.unique(population.numbers[name], return_inverse=True)
        if len(distinct) <= 2:  # noqa: PLR2004 - an indicator
            codes[name] = positions
    return codes


def _count_pairs(codes: Sequence[Integers]) -> Integers:
    sizes = [int(code.max()) + 1 for code in codes]
    cells = np.ravel_multi_index(tuple(codes), sizes)
    return np.bincount(cells, minlength=int(np.prod(sizes)))


def list_model_parts(population: SitePopulation, names: Sequence[str]) -> list[Integers]:
    """For the log: how a model's sums split the records: not at all, by levels, by two of them."""
    codes = _list_discrete(population, names)
    parts = [np.zeros(len(population), np.int64), *codes.values()]
    for first, second in combinations(codes.values(), 2):
        parts.append(first * (int(second.max()) + 1) + second)
    return parts


def compute_leverage(weighted: Floats) -> Floats:
    """The largest share of each record in the squared length of any combination of columns.

    Examples
    --------
    >>> compute_leverage(np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 5.0]])).round(2).tolist()
    [0.5, 0.5, 1.0]
    """
    # First by the largest value: squares of large ones are beyond all numbers.
    largest = np.abs(weighted).max(axis=0)
    scaled = weighted / np.where(largest > 0, largest, 1.0)
    size = np.sqrt((scaled**2).sum(axis=0))
    left_vectors, values, _ = np.linalg.svd(
        scaled / np.where(size > 0, size, 1.0), full_matrices=False
    )
    basis = left_vectors[:, values > values.max() * np.finfo(float).eps * max(weighted.shape)]
    leverage: Floats = (basis**2).sum(axis=1)
    return leverage


def require_leverage(weighted: Floats, rules: Rules) -> None:
    """Refuse where some combination of the columns rests on fewer than k records."""
    leverage = np.sort(compute_leverage(weighted))[::-1]
    most = 1 - rules.p_percent if rules.p_percent is not None else _MOST_LEVERAGE
    if leverage[: rules.k - 1].sum() > most:
        raise OutputRefused(
            f"Fewer than {rules.k} records make up nearly all of a sum that the model asks for.",
            hint="leave out the term that picks them out, or narrow the agreed range.",
        )


# Where the bundles meet


@dataclass(frozen=True, eq=False)
class PooledStep:
    """What all sites together say of a model after a round.

    Parameters
    ----------
    fitted : the regression; None as long as another round is needed.
    step : where it stands, for the next round; None where it is finished.
    """

    fitted: FittedRegression | None
    step: ModelStep | None


def join_answers(
    answers: Mapping[str, ModelAnswer],
    request: SiteRequest,
    result: ModelResult,
    step: ModelStep | None,
    *,
    level: float,
) -> PooledStep:
    """Fit a model to what the sites have added up, or say what they are to add up next."""
    terms = make_terms(request, result)
    sites = tuple(sorted(answers))
    if step is not None and sites != step.sites:
        raise MeasureError(
            f"Model '{result.name}' began with other sites than have answered now.",
            hint="combine the bundles of all sites that took part, or begin again.",
        )
    # In the order of their names: the order of the files changes nothing.
    with use_one_thread():
        factor = factorise(np.concatenate([_unfold(answers[site].factor) for site in sites]))
    records = sum(answers[site].records for site in sites)
    size = np.sqrt((factor[:-1, :-1] ** 2).sum(axis=0))
    scaled = factorise(factor[:-1, :-1] / np.where(size > 0, size, 1.0))
    require_independent(scaled, terms.names, _ALL)
    if result.family == "linear":
        freedom = records - len(terms.names)
        residual = float(factor[-1, -1] ** 2)
        solution = solve_factor(factor, residual / freedom, freedom, records)
        require_estimates(solution.estimate, solution.error, _ALL)
        require_residuals(residual, float((factor[:, -1] ** 2).sum()), _ALL)
        return PooledStep(solution.show(terms.names, level=level), None)
    solution = solve_factor(factor, 1.0, math.inf, records)
    deviance = math.fsum(answers[site].deviance for site in sites)
    require_estimates(solution.estimate, solution.error, _ALL, certain=_is_certain(solution, size))
    before = None if step is None else step.deviance
    if before is not None and abs(deviance - before) <= _CHANGE * max(abs(deviance), 1.0):
        return PooledStep(solution.show(terms.names, level=level), None)
    # The deviance of the invented start is nobody's.
    reached = None if step is None else deviance
    beta = tuple(solution.estimate.tolist())
    return PooledStep(None, ModelStep(beta=beta, deviance=reached, sites=sites))


def _is_certain(solution: Solution, size: Floats) -> bool:
    typical = size / math.sqrt(solution.records)
    return bool((solution.error * typical > _CERTAIN).any())


def _unfold(rows: Sequence[Sequence[float]]) -> Floats:
    """The triangle as a matrix."""
    factor = np.zeros((len(rows), len(rows)))
    for index, row in enumerate(rows):
        factor[index, index:] = row
    return factor
