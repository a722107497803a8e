"""Noised predictors of groups: one true value and one draw of the noise for all records of a group.

The size of a school stands in the record of each of its pupils. If its noise was drawn once for the
school, all pupils have the same released value, and a thousand of them say no more of the true one
than one does. Taken for noise of each record it would seem to average out, and it does not.

That it was drawn once can be seen: noise that was drawn for each record leaves no two records of a
group alike. So a noised predictor whose released values are the same within every group is one of
groups. There is nothing to declare.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from sfumato.analysis.measurement_error import StratifiedNumber, covariance_between
from sfumato.analysis.problem import Category, GeneralisedNumber, NoisyNumber, Problem
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Integers, Mask
from sfumato.noise.description import NoiseDescription

_FEWEST_REPEATS = 10
"""Levels repeat by chance where there are few: so many records beyond the first of their group."""


def mark_group_level(
    numbers: Mapping[str, NoisyNumber],
    categories: Mapping[str, Category],
    outcome: str | None,
    groups: Mapping[int, Integers],
) -> tuple[dict[str, NoisyNumber], dict[str, Category], dict[int, Integers]]:
    """The noised variables, predictors of groups marked, and a value that some lack filled in.

    Parameters
    ----------
    numbers, categories : the noised variables of a formula.
    outcome : the outcome, which is not one of groups.
    groups : by grouping factor, the group of each record; none in a model of one level.

    Returns
    -------
    The numbers, the categories, and the groups, of which the first are those of the predictors that
    were marked; else the most numerous.
    """
    # Who is constant in regions is so in their schools: the largest groups are what it belongs to.
    factors = sorted(groups, key=lambda index: int(groups[index].max(initial=0)))
    factor_of: dict[str, int] = {}
    for index in factors:
        marked = [name for name, x in numbers.items() if _mark_number(x, groups[index]).by_group]
        marked += [n for n, x in categories.items() if _mark_category(x, groups[index]).by_group]
        factor_of = {name: index for name in marked if name != outcome} | factor_of
    if len(set(factor_of.values())) > 1:
        raise MeasureError(
            "These variables have one value in each group, but not of the same grouping factor: "
            f"{', '.join(factor_of)}.",
            hint="leave all but one of them out of the formula.",
        )
    if not factors:
        return dict(numbers), dict(categories), {}
    most = max(groups, key=lambda index: int(groups[index].max(initial=0)))
    first = next(iter(factor_of.values()), most)
    by = groups[first]
    return (
        {name: _mark_number(x, by) if name in factor_of else x for name, x in numbers.items()},
        {name: _mark_category(x, by) if name in factor_of else x for name, x in categories.items()},
        {first: by, **groups},
    )


def _mark_number(number: NoisyNumber, groups: Integers) -> NoisyNumber:
    if isinstance(number, GeneralisedNumber):
        return number
    values = spread_over_groups(number.observed[:, None], groups)
    if values is None or not _is_alike(number, groups):
        return number
    return replace(number, observed=values[:, 0], by_group=True)


def _mark_category(category: Category, groups: Integers) -> Category:
    if category.generalised:
        return category
    # A missing value is equally probable under every level.
    missing = (category.density == 0).all(axis=1)
    known = np.where(missing[:, None], np.nan, category.density)
    density = spread_over_groups(known, groups, _FEWEST_REPEATS)
    if density is None:
        return category
    return replace(category, density=np.nan_to_num(density), by_group=True)


def _is_alike(number: NoisyNumber, groups: Integers) -> bool:
    """Whether the noise of all records of a group is of one size."""
    if not isinstance(number, StratifiedNumber):
        return True
    return spread_over_groups(number.stratum[:, None].astype(float), groups) is not None


def spread_over_groups(values: Floats, groups: Integers, repeats: int = 1) -> Floats | None:
    """Values with that of its group for each record; None where groups have several values.

    Parameters
    ----------
    values : (record, column); NaN where missing.
    groups : of each record.
    repeats : the fewest records with a value that are not the first of their group.

    Examples
    --------
    >>> groups = np.array([0, 0, 1])
    >>> spread_over_groups(np.array([[2.0], [np.nan], [3.0]]), np.array([0, 0, 1]), repeats=0)
    array([[2.],
           [2.],
           [3.]])
    >>> spread_over_groups(np.array([[2.0], [1.0], [3.0]]), groups) is None
    True
    """
    known = np.isfinite(values).all(axis=1)
    by_group = np.full((int(groups.max()) + 1, values.shape[1]), np.nan)
    by_group[groups[known]] = values[known]
    if int(known.sum()) - len(np.unique(groups[known])) < repeats:
        return None
    if not (values[known] == by_group[groups[known]]).all():
        return None
    spread: Floats = by_group[groups]
    return spread


def is_constant_in_groups(values: Floats, groups: Integers) -> bool:
    """Whether all records of a group have the same value."""
    by_group = np.zeros(int(groups.max()) + 1)
    by_group[groups] = values
    return bool((values == by_group[groups]).all())


def find_first_records(groups: Integers) -> Integers:
    """A record of each group, in the order of the groups' numbers."""
    return np.asarray(np.unique(groups, return_index=True)[1], np.int64)


def find_group_numbers(problem: Problem) -> Mask:
    """Which of the noised numbers are those of groups."""
    return np.array([number.by_group for number in problem.numbers], bool)


def average_by_group(columns: Floats, groups: Integers) -> Floats:
    """(group, column): the means, for groups that are numbered from 0 on without a gap."""
    sizes = np.bincount(groups)
    sums = [np.bincount(groups, weights=column) for column in columns.T]
    return np.column_stack(sums) / sizes[:, None] if sums else np.zeros((len(sizes), 0))


def require_separate_draws(problem: Problem, noise: Mapping[str, NoiseDescription]) -> None:
    """Refuse what no model of groups can tell apart."""
    names = problem.group_level
    for factor, index in ((x, i) for x in problem.factors for i in x.random):
        term = problem.terms[index]
        values = [problem.numbers[i].observed for i, _ in term.numbers]
        values += [column for i, _ in term.levels for column in problem.categories[i].density.T]
        if any(is_constant_in_groups(column, factor.groups) for column in values):
            raise MeasureError(
                f"The coefficient of '{term.name}' cannot differ by group: a group has one value "
                "of it.",
                hint="let the intercept differ by group: (1 | group).",
            )
    others = [number.name for number in problem.numbers if not number.by_group]
    if problem.outcome_number is not None:
        others.append(problem.outcome_number.name)
    for name in names:
        shared = [other for other in others if covariance_between(noise, name, other)]
        if shared:
            raise MeasureError(
                f"The noise of '{name}' was drawn once for each group, and is described as "
                f"correlated with that of '{shared[0]}', which differs within groups.",
                hint="is it the description of these data? Else leave one of both out.",
            )
