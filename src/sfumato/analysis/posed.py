"""A formula, a release and a family as the problem that every engine gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sfumato.analysis.formula import ModelFormula
from sfumato.analysis.functions import Of, function_of
from sfumato.analysis.measured import error_of, shared_noise
from sfumato.analysis.prepared import Prepared
from sfumato.analysis.problem import Category, Family, Link, Number, Problem, Shape
from sfumato.analysis.terms import Made, columns_of, matrices, same_terms, terms_of
from sfumato.cells.noise.described import Noise
from sfumato.errors import DataError, MeasureError
from sfumato.kernels.arrays import Floats
from sfumato.utility.models.formula import Token

_LINKS: Mapping[str, tuple[Link, ...]] = {
    "gaussian": ("identity",),
    "bernoulli": ("logit", "probit"),
    "binomial": ("logit", "probit"),
    "poisson": ("log",),
}
_ALSO: Mapping[str, Family] = {"linear": "gaussian", "normal": "gaussian", "logistic": "bernoulli"}
_TWO = 2


def family_and_link(family: str, link: str | None) -> tuple[Family, Link]:
    """The family and its link, or an error that says which there are.

    Examples
    --------
    >>> family_and_link("poisson", None)
    ('poisson', 'log')
    """
    known: Any = _ALSO.get(family, family)
    if known not in _LINKS:
        raise MeasureError(
            f"There is no family '{family}'.", hint=f"there are {', '.join(_LINKS)}."
        )
    chosen: Any = link or _LINKS[known][0]
    if chosen not in _LINKS[known]:
        raise MeasureError(
            f"The family '{known}' has no link '{link}'.", hint=f"{', '.join(_LINKS[known])}."
        )
    return known, chosen


def posed(
    formula: ModelFormula,
    ready: Prepared,
    noise: Mapping[str, Noise],
    kind: tuple[Family, Link],
    *,
    shape: Shape,
    clustered: bool,
) -> tuple[Problem, Mapping[str, float]]:
    """The problem of fitting a formula to what was released.

    With it comes what must be added to each coefficient afterwards.
    """
    made = terms_of(formula.fixed, ready)
    names = {one.name: at for at, one in enumerate(made.terms)}
    random: tuple[int, ...] = ()
    if formula.random is not None:
        inside = [one for one in formula.random.variables if one not in formula.fixed.variables]
        same_terms(dict.fromkeys(formula.fixed.variables, 0), inside)
        wanted = [
            formula.random.named(one, ready.labels) for one in columns_of(formula.random, ready)
        ]
        random = same_terms(names, wanted)
    y, number, category = _outcome(formula, ready, kind[0])
    error, shift = error_of(made.numbers, noise), dict[str, float]()
    if number is not None:
        number, shift = _apart(noise, made, error, number)
        y = number.seen
    clean = made.clean if len(made.clean) else np.ones((len(y), 1))
    outcome = formula.fixed.outcome
    problem = Problem(
        family=kind[0],
        link=kind[1],
        y=y,
        trials=_trials(ready.trials, y, kind[0]),
        outcome_number=number,
        outcome_category=category,
        numbers=made.numbers,
        categories=tuple(one for name, one in ready.categories.items() if name != outcome),
        error=error,
        terms=made.terms,
        covariates=clean,
        groups=ready.groups,
        random=random,
        shape=shape,
        clustered=clustered,
    )
    return problem, shift


def _outcome(
    formula: ModelFormula, ready: Prepared, family: Family
) -> tuple[Floats, Number | None, Category | None]:
    """The outcome as released, and its noise."""
    text, name = _left(formula), formula.fixed.outcome
    noised = {*ready.numbers, *ready.categories} & set(text[1])
    if not noised:
        return _clean_outcome(formula, ready, family), None, None
    name = next(iter(noised))
    if name in ready.categories:
        return _noised_category(ready, name, family, plain=formula.fixed.outcome == name)
    one = ready.numbers[name]
    if family != "gaussian":
        raise MeasureError(
            f"The noised outcome '{name}' is a number, which a {family} model does not have.",
            hint='choose family="gaussian".',
        )
    if formula.fixed.outcome is None:
        one = _transformed(text[0], name, formula, one)
    return one.seen, one, None


def _left(formula: ModelFormula) -> tuple[str, list[str]]:
    """What stands left of ~ under aliases, and its variables."""
    fixed = formula.fixed
    left = fixed.aliased().partition("~")[0].strip()
    at = fixed.tokens.index(Token("operator", "~"))
    return left, [text for kind, text in fixed.tokens[:at] if kind == "name"]


def _transformed(left: str, name: str, formula: ModelFormula, one: Number) -> Number:
    alias = f"v{formula.fixed.variables.index(name)}"
    try:
        of = function_of(left, alias)
    except (ValueError, SyntaxError):
        of = Of("")
    scale = {"log": "log", "sqrt": "square_root"}.get((of.call if of and of.text else None) or "")
    if one.scale is None or one.scale.name != scale or one.scale.shift:
        raise MeasureError(
            f"The noised outcome '{name}' stands in a function that is not the scale of its noise.",
            hint="model the variable itself, or the logarithm to which the noise was added.",
        )
    return replace(one, scale=None)


def _noised_category(
    ready: Prepared, name: str, family: Family, *, plain: bool
) -> tuple[Floats, None, Category]:
    one = ready.categories[name]
    if family != "bernoulli" or len(one.levels) != _TWO or not plain:
        raise MeasureError(
            f"The noised outcome '{name}' is a category: a model needs one of two levels.",
            hint='choose family="bernoulli", and name nothing but the variable before ~.',
        )
    released = (np.nan_to_num(ready.columns[name]) >= 1 / _TWO).astype(float)
    return released, None, one


def _clean_outcome(formula: ModelFormula, ready: Prepared, family: Family) -> Floats:
    name = formula.fixed.outcome
    if name is not None and name in ready.labels:
        if family != "bernoulli" or len(ready.labels[name]) != _TWO:
            raise MeasureError(
                f"The outcome '{name}' is a category.",
                hint='one of two levels can be the outcome with family="bernoulli".',
            )
        return ready.columns[name]
    if name is not None:
        y = ready.columns[name]
    else:
        left, _ = matrices(formula.fixed, ready)
        if left.shape[1] != 1:
            raise MeasureError("The outcome must be one variable.", hint="name one before ~.")
        y = left.to_numpy(dtype=float)[:, 0]
    if not np.isfinite(y).all():
        raise MeasureError(
            "The outcome has no finite value for some records.",
            hint="a logarithm or root takes positive numbers only.",
        )
    return _fitting(y, family)


def _fitting(y: Floats, family: Family) -> Floats:
    if family == "bernoulli" and set(np.unique(y)) != {0.0, 1.0}:
        raise MeasureError(
            "The outcome of a bernoulli model must be 0 or 1, and both must occur.",
            hint='choose another outcome, or family="gaussian".',
        )
    counts = bool((y >= 0).all() and (y == np.rint(y)).all())
    if family in ("poisson", "binomial") and not (counts and y.any()):
        raise MeasureError(
            f"The outcome of a {family} model must be counts, 0 or more.",
            hint='choose another outcome, or family="gaussian".',
        )
    return y


def _trials(trials: Floats | None, y: Floats, family: Family) -> Floats | None:
    if (family == "binomial") != (trials is not None):
        raise MeasureError(
            "A binomial model, and no other, needs the number of trials of each record.",
            hint='name the variable that has it: trials="asked".',
        )
    if trials is not None and not bool((trials >= y).all() and (trials >= 1).all()):
        raise DataError("Some records have fewer trials than successes, or none.")
    return trials


def _apart(
    noise: Mapping[str, Noise], made: Made, error: Floats, outcome: Number
) -> tuple[Number, dict[str, float]]:
    """The outcome without the noise that it shares with predictors, and what that takes away.

    What the noise of the predictors says of that of the outcome is a line. Less that line of the
    released predictors, the outcome has noise of its own only, and each coefficient is smaller by
    the slope of its predictor, which is added again afterwards.
    """
    shared = np.array([shared_noise(noise, outcome.name, one.name) for one in made.numbers])
    if not shared.any():
        return outcome, {}
    slope = np.linalg.lstsq(error, shared, rcond=None)[0]
    shift = {}
    for at, one in enumerate(made.numbers):
        if not slope[at]:
            continue
        own = [
            term.name
            for term in made.terms
            if term.numbers == ((at, None),) and term.clean is None and not term.levels
        ]
        if not own:
            raise MeasureError(
                f"The noise of the outcome '{outcome.name}' and of '{one.name}' is correlated, and "
                f"'{one.name}' is no term of its own.",
                hint=f"add '{one.name}' to the formula.",
            )
        shift[own[0]] = float(slope[at])
    seen = outcome.seen - sum(
        slope[at] * one.seen for at, one in enumerate(made.numbers) if slope[at]
    )
    variance = max((outcome.variance or 0.0) - float(slope @ shared), 0.0)
    return replace(outcome, seen=np.asarray(seen, float), variance=variance), shift
