"""From a formula and its variables to the problem that every engine gets.

Each column of the model becomes a `Term`: a product of clean values, of functions of noised numbers
and of levels of noised categories.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sfumato.analysis.exposure import (
    choose_exposure,
    collect_clean_variables,
    needs_exposure,
)
from sfumato.analysis.formula import (
    DATA_DEPENDENT,
    ModelFormula,
    Transformation,
    parse_transformation,
    split_product,
)
from sfumato.analysis.generalised_cells import widen_for_outcome
from sfumato.analysis.measurement_error import (
    add_strata_covariates,
    covariance_between,
    noise_covariance,
)
from sfumato.analysis.problem import (
    Category,
    Family,
    GeneralisedNumber,
    GroupingFactor,
    Link,
    NoisyNumber,
    Problem,
    ScalarFunction,
    Shape,
    Term,
)
from sfumato.analysis.variables import ModelVariables
from sfumato.errors import DataError, MeasureError
from sfumato.kernels.arrays import Floats
from sfumato.noise.description import NoiseDescription
from sfumato.utility.models.covariates import MOST_LEVELS, format_level
from sfumato.utility.models.formula import Formula, FormulaToken

if TYPE_CHECKING:
    import pandas as pd

_LINKS: Mapping[str, tuple[Link, ...]] = {
    "gaussian": ("identity",),
    "bernoulli": ("logit", "probit"),
    "binomial": ("logit", "probit"),
    "poisson": ("log",),
    "negative_binomial": ("log",),
    "ordinal": ("logit",),
    "multinomial": ("logit",),
}
_SYNONYMS: Mapping[str, Family] = {
    "linear": "gaussian",
    "normal": "gaussian",
    "logistic": "bernoulli",
    "negbin": "negative_binomial",
}
_BINARY = 2
_OF_LEVELS = ("ordinal", "multinomial")
"""Families whose outcome has several levels."""
_ALIAS = re.compile(r"\bv(\d+)\b")
_LEVEL = re.compile(r"^(?:C\()?v(\d+)\)?\[(?:T\.)?(\d+)\]$")
_SCALE_OF_FUNCTION = {"log": "log", "sqrt": "square_root"}
"""A function of the formula, and the scale of noise that it undoes."""


def resolve_family(family: str, link: str | None) -> tuple[Family, Link]:
    """The family and its link, or an error that says which there are.

    Examples
    --------
    >>> resolve_family("poisson", None)
    ('poisson', 'log')
    """
    known: Any = _SYNONYMS.get(family, family)
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


def build_problem(
    formula: ModelFormula,
    variables: ModelVariables,
    noise: Mapping[str, NoiseDescription],
    *,
    family: Family,
    link: Link,
    shape: Shape,
    clustered: bool,
) -> tuple[Problem, Mapping[str, float]]:
    """The problem of fitting a formula to what was released.

    With it comes what must be added to each coefficient afterwards, see `_decorrelate_outcome`.
    """
    model = build_terms(formula.fixed, variables)
    outcome = _build_outcome(formula, variables, family)
    offset, released = _build_offset(formula, variables), outcome.y
    clean = _select_independent(model.terms, offset)
    if family == "multinomial" and (offset is not None or formula.parts):
        raise MeasureError(
            "A multinomial model has a predictor for each level, and is not fitted with an offset "
            "or with groups.",
            hint="leave them out; groups may be a fixed term, C(group).",
        )
    if offset is not None and family == "gaussian":
        outcome, offset = _subtract_offset(outcome, offset), None
    # Noise that outcome and predictors share would bias every engine: it is taken out first.
    error, shift = noise_covariance(model.numbers, noise), dict[str, float]()
    if outcome.number is not None:
        number, shift = _decorrelate_outcome(noise, model, error, outcome.number)
        outcome = NoisyOutcome(number.observed, number, None)
    factors = _find_factors(formula, variables, model)
    problem = Problem(
        family=family,
        link=link,
        y=outcome.y,
        trials=_check_trials(variables.trials, outcome.y, family),
        offset=offset,
        subtracted=released - outcome.y if outcome.y is not released else None,
        outcome_number=outcome.number,
        outcome_category=outcome.category,
        outcome_levels=outcome.levels,
        numbers=model.numbers,
        categories=tuple(
            category
            for name, category in variables.categories.items()
            if name != formula.fixed.outcome
        ),
        error=error,
        terms=model.terms,
        covariates=clean if len(clean) else np.ones((len(outcome.y), 1)),
        groups=factors[0].groups if factors else None,
        random=factors[0].random if factors else (),
        group_name=factors[0].name if factors else "group",
        more_factors=factors[1:],
        shape=shape,
        clustered=clustered,
        partition=variables.partition,
    )
    if family == "ordinal" and problem.constant < 0:
        raise MeasureError(
            "An ordinal model needs an intercept, which its thresholds take the place of.",
            hint="leave out '- 1' or '0 +'.",
        )
    problem = add_strata_covariates(problem)
    if shape != "normal" and needs_exposure(problem):
        problem = choose_exposure(problem, collect_clean_variables(formula, variables))
    return problem, shift


# The outcome


class NoisyOutcome(NamedTuple):
    """The outcome as released, and its noise."""

    y: Floats
    number: NoisyNumber | None = None
    category: Category | None = None
    levels: tuple[str, ...] = ()


def _build_outcome(
    formula: ModelFormula, variables: ModelVariables, family: Family
) -> NoisyOutcome:
    tilde = formula.fixed.tokens.index(FormulaToken("operator", "~"))
    names = [token.text for token in formula.fixed.tokens[:tilde] if token.kind == "name"]
    noised = {*variables.numbers, *variables.categories} & set(names)
    if not noised:
        if family in _OF_LEVELS:
            return _build_levels(formula, variables, family)
        return NoisyOutcome(_build_clean_outcome(formula, variables, family))
    name = next(iter(noised))
    if name in variables.categories:
        return _build_noised_category(formula, variables, name, family)
    number = variables.numbers[name]
    if family != "gaussian":
        raise MeasureError(
            f"The noised or generalised outcome '{name}' is a number, which {_name_family(family)} "
            "model does not have: its true values are counts or levels.",
            hint='choose family="gaussian".',
        )
    if isinstance(number, GeneralisedNumber):
        number = _build_generalised_outcome(formula, number)
    elif formula.fixed.outcome is None:
        number = _drop_scale_of_outcome(formula, name, number)
    return NoisyOutcome(number.observed, number)


def _build_generalised_outcome(
    formula: ModelFormula, number: GeneralisedNumber
) -> GeneralisedNumber:
    if formula.fixed.outcome is None:
        raise MeasureError(
            f"The generalised outcome '{number.name}' stands in a function.",
            hint="model the variable itself.",
        )
    return widen_for_outcome(number)


def _drop_scale_of_outcome(formula: ModelFormula, name: str, number: NoisyNumber) -> NoisyNumber:
    """A model of log(y) needs no scale where the noise was added to log(y)."""
    outcome = formula.fixed.write_with_aliases().partition("~")[0].strip()
    try:
        transformation = parse_transformation(outcome, f"v{formula.fixed.variables.index(name)}")
    except (ValueError, SyntaxError):
        transformation = None
    scale = _SCALE_OF_FUNCTION.get((transformation.call if transformation else None) or "")
    if number.scale is None or number.scale.name != scale or number.scale.shift:
        raise MeasureError(
            f"The noised outcome '{name}' stands in a function that is not the scale of its noise.",
            hint="model the variable itself, or the logarithm to which the noise was added.",
        )
    return replace(number, scale=None)


def _build_noised_category(
    formula: ModelFormula, variables: ModelVariables, name: str, family: Family
) -> NoisyOutcome:
    category = variables.categories[name]
    alone = formula.fixed.outcome == name
    if family in _OF_LEVELS and alone:
        codes = np.clip(
            np.rint(np.nan_to_num(variables.columns[name])), 0, len(category.levels) - 1
        )
        _require_levels(variables, name, category.levels, family)
        return NoisyOutcome(codes, None, category, category.levels)
    if family != "bernoulli" or len(category.levels) != _BINARY or not alone:
        raise MeasureError(
            f"The noised or generalised outcome '{name}' is a category: a model needs one of two "
            'levels, or of more with family="ordinal" or "multinomial".',
            hint='choose family="bernoulli", and name nothing but the variable before ~.',
        )
    released = (np.nan_to_num(variables.columns[name]) >= 1 / _BINARY).astype(float)
    return NoisyOutcome(released, None, category)


def _build_levels(formula: ModelFormula, variables: ModelVariables, family: Family) -> NoisyOutcome:
    """The codes of an outcome of several levels; numbers that stand for them may be any."""
    name = formula.fixed.outcome
    if name is None:
        raise MeasureError(
            f"The outcome of {_name_family(family)} model must be one variable.",
            hint="name nothing but the variable before ~.",
        )
    codes, levels = variables.columns[name], tuple(variables.labels.get(name, ()))
    if name not in variables.labels:
        values, positions = np.unique(codes, return_inverse=True)
        codes = positions.reshape(-1).astype(float)
        levels = tuple(map(format_level, values.tolist())) if len(values) <= MOST_LEVELS else ()
    _require_levels(variables, name, levels, family)
    return NoisyOutcome(codes, levels=levels)


def _require_levels(
    variables: ModelVariables, name: str, levels: Sequence[str], family: Family
) -> None:
    if len(levels) <= _BINARY:
        raise MeasureError(
            f"The outcome '{name}' has two levels at most, or more than {MOST_LEVELS}: "
            f"{_name_family(family)} model needs three or more.",
            hint='choose family="bernoulli" for two levels, "gaussian" for a measured number.',
        )
    if family == "ordinal" and name in variables.labels and name not in variables.ordered:
        raise MeasureError(
            f"Nothing says in which order the levels of '{name}' come.",
            hint="declare them in their order (domain in the schema, ordered categories of the "
            'frame), or use numbers; or choose family="multinomial", which needs no order.',
        )


def _name_family(family: Family) -> str:
    return f"an {family}" if family == "ordinal" else f"a {family.replace('_', ' ')}"


def _build_clean_outcome(
    formula: ModelFormula, variables: ModelVariables, family: Family
) -> Floats:
    name = formula.fixed.outcome
    if name is not None and name in variables.labels:
        if family != "bernoulli" or len(variables.labels[name]) != _BINARY:
            raise MeasureError(
                f"The outcome '{name}' is a category.",
                hint='one of two levels can be the outcome with family="bernoulli", one of more '
                'with "ordinal" or "multinomial".',
            )
        return variables.columns[name]
    if name is not None:
        y = variables.columns[name]
    else:
        outcome, _ = _build_matrices(formula.fixed, variables)
        if outcome.shape[1] != 1:
            raise MeasureError("The outcome must be one variable.", hint="name one before ~.")
        y = outcome.to_numpy(dtype=float)[:, 0]
    if not np.isfinite(y).all():
        raise MeasureError(
            "The outcome has no finite value for some records.",
            hint="a logarithm or root takes positive numbers only.",
        )
    _require_in_support(y, family)
    return y


def _require_in_support(y: Floats, family: Family) -> None:
    if family == "bernoulli" and set(np.unique(y)) != {0.0, 1.0}:
        raise MeasureError(
            "The outcome of a bernoulli model must be 0 or 1, and both must occur.",
            hint='choose another outcome, or family="gaussian".',
        )
    counts = bool((y >= 0).all() and (y == np.rint(y)).all())
    if family in ("poisson", "negative_binomial", "binomial") and not (counts and y.any()):
        raise MeasureError(
            f"The outcome of {_name_family(family)} model must be counts, 0 or more.",
            hint='choose another outcome, or family="gaussian".',
        )


def _check_trials(trials: Floats | None, y: Floats, family: Family) -> Floats | None:
    if (family == "binomial") != (trials is not None):
        raise MeasureError(
            "A binomial model, and no other, needs the number of trials of each record.",
            hint='name the variable that has it: trials="asked".',
        )
    if trials is not None and not bool((trials >= y).all() and (trials >= 1).all()):
        raise DataError("Some records have fewer trials than successes, or none.")
    return trials


def _build_offset(formula: ModelFormula, variables: ModelVariables) -> Floats | None:
    """The offset of each record."""
    if formula.offset is None:
        return None
    if texts := [name for name in formula.offset_variables if name in variables.labels]:
        raise MeasureError(
            f"Variable '{texts[0]}' of the offset is a category.", hint="an offset is a number."
        )
    _, columns = _build_matrices(formula.offset, variables)
    offset = columns.to_numpy(dtype=float)[:, 0]
    if not np.isfinite(offset).all():
        raise MeasureError(
            "The offset has no finite value for some records.",
            hint="a logarithm takes positive numbers only: leave out records without exposure.",
        )
    return offset


def _subtract_offset(outcome: NoisyOutcome, offset: Floats) -> NoisyOutcome:
    """The outcome of a linear model less its offset, which then needs no place in any engine."""
    number = outcome.number
    if number is None:
        return NoisyOutcome(outcome.y - offset)
    if not number.is_homoscedastic_normal:
        raise MeasureError(
            f"The outcome '{number.name}' has noise that is not plain, so that no offset can be "
            "taken off it.",
            hint="make the offset a term of the formula.",
        )
    number = replace(number, observed=number.observed - offset)
    return NoisyOutcome(number.observed, number)


def _decorrelate_outcome(
    noise: Mapping[str, NoiseDescription], model: ModelTerms, error: Floats, outcome: NoisyNumber
) -> tuple[NoisyNumber, dict[str, float]]:
    """The outcome less the noise that it shares with predictors, and what to add afterwards.

    The regression of the outcome's noise u on that of the predictors has slopes
    error^-1 cov(w, u). Less these slopes times the released predictors, the outcome has only noise
    that is independent of theirs, and each coefficient is smaller by its predictor's slope, which
    is added again afterwards.
    """
    shared = np.array(
        [covariance_between(noise, outcome.name, number.name) for number in model.numbers]
    )
    if not shared.any():
        return outcome, {}
    slope = np.linalg.lstsq(error, shared, rcond=None)[0]
    shift = {}
    for index, number in enumerate(model.numbers):
        if not slope[index]:
            continue
        linear = [
            term.name
            for term in model.terms
            if term.numbers == ((index, None),) and term.clean is None and not term.levels
        ]
        if not linear:
            raise MeasureError(
                f"The noise of the outcome '{outcome.name}' and of '{number.name}' is correlated, "
                f"and '{number.name}' is no term of its own.",
                hint=f"add '{number.name}' to the formula.",
            )
        shift[linear[0]] = float(slope[index])
    released = outcome.observed - sum(
        slope[index] * number.observed for index, number in enumerate(model.numbers) if slope[index]
    )
    variance = max((outcome.variance or 0.0) - float(slope @ shared), 0.0)
    return replace(outcome, observed=np.asarray(released, float), variance=variance), shift


# The terms


@dataclass(frozen=True, eq=False)
class ModelTerms:
    """The columns of a model.

    Parameters
    ----------
    terms : one for each column.
    numbers : the noised predictors that are numbers; where all terms use the logarithm to which
        the noise was added, on that scale.
    """

    terms: tuple[Term, ...]
    numbers: tuple[NoisyNumber, ...]


def build_terms(formula: Formula, variables: ModelVariables) -> ModelTerms:
    """The terms of a formula."""
    _refuse_data_dependent(formula, variables)
    columns = _build_columns(formula, variables)
    if not columns:
        raise MeasureError("The formula has no term.", hint="add one, as in 'y ~ x'.")
    builder = _TermBuilder(formula, variables)
    terms = [builder.build_term(name, values) for name, values in columns.items()]
    _refuse_level_products(terms)
    numbers = [variables.numbers[name] for name in builder.numbers]
    terms, numbers = _drop_undone_scales(terms, numbers)
    return ModelTerms(tuple(terms), tuple(numbers))


def _build_columns(formula: Formula, variables: ModelVariables) -> dict[str, Floats]:
    """The columns of the terms as released, under aliases."""
    columns = _sum_of_numbers(formula, variables)
    if columns is not None:
        return columns
    _, terms = _build_matrices(formula, variables)
    return {name: terms[name].to_numpy(dtype=float) for name in terms.columns}


def _sum_of_numbers(formula: Formula, variables: ModelVariables) -> dict[str, Floats] | None:
    """The columns of a sum of numbers, which needs no library; None for all else."""
    right = formula.tokens[formula.tokens.index(FormulaToken("operator", "~")) + 1 :]
    is_sum = all(token.kind == "name" or token.text in ("+", "1") for token in right)
    names = [token.text for token in right if token.kind == "name"]
    numeric = [name not in variables.labels or name in variables.as_numbers for name in names]
    # What stands first may be a sign: "+ x" is left to the library.
    if not is_sum or not all(numeric) or formula.outcome is None or right[0].text == "+":
        return None
    columns = {"Intercept": np.ones(variables.released.height)}
    for name in names:
        columns[f"v{formula.variables.index(name)}"] = variables.columns[name]
    return columns


def _build_matrices(
    formula: Formula, variables: ModelVariables
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Outcome and terms as released, under aliases."""
    import formulaic
    from formulaic.errors import FormulaicError

    try:
        with np.errstate(all="ignore"):
            matrices = formulaic.Formula(formula.write_with_aliases()).get_model_matrix(
                variables.build_frame(formula.variables),
                context={"sqrt": np.sqrt},
                na_action="ignore",
            )
    except (FormulaicError, TypeError, ValueError, SyntaxError, AttributeError, KeyError):
        raise MeasureError(
            "The formula cannot be turned into terms.",
            hint="do its functions get numbers, and are its brackets right?",
        ) from None
    return matrices.lhs, matrices.rhs


def _refuse_data_dependent(formula: Formula, variables: ModelVariables) -> None:
    """Refuse functions that would learn a mean or range from noisy values, before any is used."""
    functions: list[str] = []
    for before, token in zip((None, *formula.tokens), formula.tokens, strict=False):
        if token.kind == "operator" and token.text == "(":
            functions.append(before.text if before and before.kind == "function" else "")
        elif token.kind == "operator" and token.text == ")":
            functions.pop()
        refused = {"C", *DATA_DEPENDENT} & set(functions)
        if token.kind == "name" and token.text in variables.numbers and refused:
            raise MeasureError(
                f"The formula groups or standardises the {_name_change(variables, token.text)} "
                f"variable '{token.text}'.",
                hint="this would be learnt from what was released, not from true values; use the "
                "variable itself, powers, log( ), sqrt( ) or exp( ).",
            )


def _name_change(variables: ModelVariables, name: str) -> str:
    is_cell = isinstance(variables.numbers[name], GeneralisedNumber)
    return "generalised" if is_cell else "noised"


@dataclass(frozen=True, eq=False)
class _TermBuilder:
    """Turns columns of the aliased formula into terms."""

    formula: Formula
    variables: ModelVariables

    @cached_property
    def frame(self) -> pd.DataFrame:
        return self.variables.build_frame(self.formula.variables)

    @property
    def numbers(self) -> list[str]:
        return [name for name in self.variables.numbers if name != self.formula.outcome]

    @property
    def categories(self) -> list[str]:
        return [name for name in self.variables.categories if name != self.formula.outcome]

    def build_term(self, column: str, values: Floats) -> Term:
        name = self.formula.name_column(column, self.variables.labels)
        factors = [factor for part in column.split(":") for factor in self._split_factor(part)]
        noised = [factor for factor in factors if self._list_noised_variables(factor)]
        if not noised:
            self._require_finite(column, values)
            return Term(name=name, clean=None if (values == 1).all() else values)
        numbers: list[tuple[int, ScalarFunction | None]] = []
        levels: list[tuple[int, int]] = []
        for factor in noised:
            self._add_noised_factor(column, factor, numbers, levels)
        clean = None
        for factor in factors:
            if factor not in noised:
                column_values = self._evaluate_clean(column, factor)
                clean = column_values if clean is None else clean * column_values
        return Term(name=name, clean=clean, numbers=tuple(numbers), levels=tuple(levels))

    def _split_factor(self, text: str) -> list[str]:
        """The factors of a factor: a product of noised and clean ones inside I( ) is several."""
        several = text.startswith("I(") and len(self._list_variables(text)) > 1
        return split_product(text) if several else [text]

    def _list_variables(self, text: str) -> list[str]:
        indices = dict.fromkeys(int(index) for index in _ALIAS.findall(text))
        return [self.formula.variables[index] for index in indices]

    def _list_noised_variables(self, text: str) -> list[str]:
        noised = {*self.numbers, *self.categories}
        return [name for name in self._list_variables(text) if name in noised]

    def _add_noised_factor(
        self,
        column: str,
        text: str,
        numbers: list[tuple[int, ScalarFunction | None]],
        levels: list[tuple[int, int]],
    ) -> None:
        """Add a noised factor to the numbers or to the levels of its term."""
        name = self._list_noised_variables(text)[0]
        term = self.formula.name_column(column)
        if len(self._list_variables(text)) > 1:
            raise MeasureError(
                f"The term '{term}' mixes the noised '{name}' with other variables in a function.",
                hint="write sums as terms of their own and products with a colon, as in x:z.",
            )
        level = _LEVEL.match(text)
        if name in self.categories:
            as_number = name in self.variables.as_numbers and _ALIAS.fullmatch(text)
            if level is None and not as_number:
                raise MeasureError(
                    f"The term '{term}' is a function of the noised category '{name}'.",
                    hint=f"write C({name}).",
                )
            levels.append((self.categories.index(name), int(level[2]) if level else 1))
            return
        alias = f"v{self.formula.variables.index(name)}"
        try:
            numbers.append((self.numbers.index(name), parse_transformation(text, alias)))
        except (ValueError, SyntaxError):
            raise MeasureError(
                f"The term '{term}' has a function of '{name}' that is not known here.",
                hint="known are powers, + - * / with constants, log, log2, log10, exp and sqrt.",
            ) from None

    def _evaluate_clean(self, column: str, text: str) -> Floats:
        """The values of a clean factor."""
        import formulaic

        # A level of a clean category needs no library: it is where the codes are equal.
        level = _LEVEL.match(text)
        if level is not None and f"v{level[1]}" in self.frame and "C(" not in text[1:]:
            codes = self.variables.columns[self.formula.variables[int(level[1])]]
            return np.asarray(codes == int(level[2]), float)
        expression, _, _ = text.partition("[")
        with np.errstate(all="ignore"):
            matrix = formulaic.Formula(f"0 + {expression}").get_model_matrix(
                self.frame, context={"sqrt": np.sqrt}, na_action="ignore"
            )
        values: Floats = matrix[text if text in matrix.columns else matrix.columns[0]].to_numpy(
            float
        )
        self._require_finite(column, values)
        return values

    def _require_finite(self, column: str, values: Floats) -> None:
        if not np.isfinite(values).all():
            term = self.formula.name_column(column)
            raise MeasureError(
                f"The term '{term}' has no finite value for some records.",
                hint="a logarithm or root takes positive numbers only.",
            )


def _refuse_level_products(terms: list[Term]) -> None:
    """A level times another level of the same variable is always 0."""
    if any(len({category for category, _ in term.levels}) < len(term.levels) for term in terms):
        raise MeasureError(
            "The formula multiplies two levels of one category.", hint="name it once in a term."
        )


def _drop_undone_scales(
    terms: list[Term], numbers: list[NoisyNumber]
) -> tuple[list[Term], list[NoisyNumber]]:
    """Noise added to a logarithm that the model takes as well is noise on the term itself."""
    terms, numbers = list(terms), list(numbers)
    for index, number in enumerate(numbers):
        if number.scale is None or number.scale.shift:
            continue
        uses = [function for term in terms for other, function in term.numbers if other == index]
        if not uses or not all(_is_inverse(function, number) for function in uses):
            continue
        numbers[index] = replace(number, scale=None)
        terms = [
            replace(
                term,
                numbers=tuple(
                    (other, None if other == index else function)
                    for other, function in term.numbers
                ),
            )
            for term in terms
        ]
    return terms, numbers


def _is_inverse(function: ScalarFunction | None, number: NoisyNumber) -> bool:
    call = function.call if isinstance(function, Transformation) else None
    scale = _SCALE_OF_FUNCTION.get(call or "")
    return number.scale is not None and scale == number.scale.name


def _select_independent(terms: Sequence[Term], offset: Floats | None) -> Floats:
    """The clean columns on which true values may depend, the constant first.

    All clean columns and factors and the offset, less linear combinations of earlier ones.
    """
    clean = [term.clean for term in terms if term.clean is not None]
    clean += [] if offset is None else [offset]
    records = len(clean[0]) if clean else 0
    selected: list[Floats] = []
    basis: list[Floats] = []
    for column in [np.ones(records), *clean]:
        residual = column.astype(float)
        length = float(np.sqrt(residual @ residual))
        # Gram-Schmidt, twice: once leaves rounding errors along the basis.
        for direction in [*basis, *basis]:
            residual = residual - (direction @ residual) * direction
        if length and float(np.sqrt(residual @ residual)) > 1e-8 * length:
            selected.append(column)
            basis.append(residual / np.sqrt(residual @ residual))
    return np.column_stack(selected) if selected else np.ones((records, 1))


def _find_factors(
    formula: ModelFormula, variables: ModelVariables, model: ModelTerms
) -> tuple[GroupingFactor, ...]:
    """The grouping factors, in the order of `variables.groups`."""
    several = len(formula.parts) > 1
    factors = tuple(
        GroupingFactor(
            formula.parts[index].name if several else "group",
            groups,
            _find_random_terms(formula, formula.parts[index].effects, variables, model),
        )
        for index, groups in variables.groups.items()
    )
    for index, factor in enumerate(factors):
        for other in factors[:index]:
            if other.name == factor.name and set(other.random) & set(factor.random):
                raise MeasureError(
                    f"The formula has the same effect by '{factor.name}' twice.",
                    hint="name it in one of the parts with groups.",
                )
    return factors


def _find_random_terms(
    formula: ModelFormula, effects: Formula, variables: ModelVariables, model: ModelTerms
) -> tuple[int, ...]:
    """The indices of the terms that differ by group; each must be among the fixed ones."""
    unknown = [name for name in effects.variables if name not in formula.fixed.variables]
    fixed = {term.name: index for index, term in enumerate(model.terms)}
    random: list[str] = []
    if not unknown:
        columns = _build_columns(effects, variables)
        random = [effects.name_column(column, variables.labels) for column in columns]
        unknown = [name for name in random if name not in fixed]
    if unknown:
        # A level is somebody's value, and does not belong in an error.
        names = dict.fromkeys(name.partition("[")[0] for name in unknown)
        raise MeasureError(
            f"What differs by group is not among the fixed terms: {', '.join(names)}.",
            hint="add it to the fixed part: 'y ~ x + (1 + x | school)'.",
        )
    return tuple(fixed[name] for name in random)
