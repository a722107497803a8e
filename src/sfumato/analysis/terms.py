"""From a formula to the columns of a model: products of clean values and of what is noised."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.analysis.functions import LEARNT, Of, factors_of, function_of
from sfumato.analysis.prepared import Prepared
from sfumato.analysis.problem import Number, Term
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats
from sfumato.utility.models.formula import Formula, Token

if TYPE_CHECKING:
    import pandas as pd

_ALIAS = re.compile(r"\bv(\d+)\b")
_LEVEL = re.compile(r"^(?:C\()?v(\d+)\)?\[(?:T\.)?(\d+)\]$")
_SAME = {("log", "log"), ("sqrt", "square_root")}
"""A function of the formula, and the scale of noise that it undoes."""


@dataclass(frozen=True, eq=False)
class Made:
    """The columns of a model.

    Parameters
    ----------
    terms : one for each column.
    numbers : the noised predictors that are numbers; where all terms use the logarithm to which
        the noise was added, on that scale.
    clean : the clean columns on which true values may depend, the constant first.
    """

    terms: tuple[Term, ...]
    numbers: tuple[Number, ...]
    clean: Floats = field(repr=False)


def matrices(formula: Formula, ready: Prepared) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Outcome and terms as released, under aliases."""
    import formulaic
    from formulaic.errors import FormulaicError

    try:
        with np.errstate(all="ignore"):
            made = formulaic.Formula(formula.aliased()).get_model_matrix(
                ready.frame(formula.variables), context={"sqrt": np.sqrt}, na_action="ignore"
            )
    except (FormulaicError, TypeError, ValueError, SyntaxError, AttributeError, KeyError):
        raise MeasureError(
            "The formula cannot be turned into terms.",
            hint="do its functions get numbers, and do its brackets hold what they should?",
        ) from None
    return made.lhs, made.rhs


def columns_of(formula: Formula, ready: Prepared) -> dict[str, Floats]:
    """The columns of the terms as released, under aliases."""
    plain = _plain_sum(formula, ready)
    if plain is not None:
        return plain
    _, found = matrices(formula, ready)
    return {name: found[name].to_numpy(dtype=float) for name in found.columns}


def _plain_sum(formula: Formula, ready: Prepared) -> dict[str, Floats] | None:
    """The columns of a sum of numbers, which needs no library; None for all else."""
    right = formula.tokens[formula.tokens.index(Token("operator", "~")) + 1 :]
    alike = all(one.kind == "name" or one.text in ("+", "1") for one in right)
    names = [one.text for one in right if one.kind == "name"]
    numbers = [one not in ready.labels or one in ready.as_numbers for one in names]
    # What stands first may be a sign: "+ x" is left to the library.
    if not alike or not all(numbers) or formula.outcome is None or right[0].text == "+":
        return None
    made = {"Intercept": np.ones(ready.kept.height)}
    return made | {f"v{formula.variables.index(one)}": ready.columns[one] for one in names}


def terms_of(formula: Formula, ready: Prepared) -> Made:
    """The terms of a formula."""
    _refuse_learnt(formula, ready)
    columns = columns_of(formula, ready)
    if not columns:
        raise MeasureError("The formula has no term.", hint="add one, as in 'y ~ x'.")
    maker = _Maker(formula, ready)
    terms = [maker.term(name, values) for name, values in columns.items()]
    _require_once(terms)
    numbers = [ready.numbers[name] for name in maker.numbers]
    terms, numbers = _on_their_scale(terms, numbers)
    return Made(tuple(terms), tuple(numbers), _independent(terms))


def _refuse_learnt(formula: Formula, ready: Prepared) -> None:
    """What is learnt of all values would be learnt of noisy ones; told before any value is seen."""
    opened: list[str] = []
    for before, token in zip((None, *formula.tokens), formula.tokens, strict=False):
        if token.kind == "operator" and token.text == "(":
            opened.append(before.text if before and before.kind == "function" else "")
        elif token.kind == "operator" and token.text == ")":
            opened.pop()
        inside = {"C", *LEARNT} & set(opened)
        if token.kind == "name" and token.text in ready.numbers and inside:
            raise MeasureError(
                f"The formula groups or standardises the noised variable '{token.text}'.",
                hint="this would be learnt from noisy values; use the variable itself, powers, "
                "log( ), sqrt( ) or exp( ).",
            )


@dataclass(frozen=True, eq=False)
class _Maker:
    """Turns columns into terms."""

    formula: Formula
    ready: Prepared

    @cached_property
    def frame(self) -> pd.DataFrame:
        return self.ready.frame(self.formula.variables)

    @property
    def numbers(self) -> list[str]:
        return [one for one in self.ready.numbers if one != self.formula.outcome]

    @property
    def categories(self) -> list[str]:
        return [one for one in self.ready.categories if one != self.formula.outcome]

    def term(self, column: str, values: Floats) -> Term:
        name = self.formula.named(column, self.ready.labels)
        parts = [inner for one in column.split(":") for inner in self._factors(one)]
        noised = [one for one in parts if self._noised(one)]
        if not noised:
            self._require_finite(column, values)
            return Term(name=name, clean=None if (values == 1).all() else values)
        numbers: list[tuple[int, Of | None]] = []
        levels: list[tuple[int, int]] = []
        for one in noised:
            self._place(column, one, numbers, levels)
        clean = None
        for one in parts:
            if one not in noised:
                made = self._clean(column, one)
                clean = made if clean is None else clean * made
        return Term(name=name, clean=clean, numbers=tuple(numbers), levels=tuple(levels))

    def _factors(self, text: str) -> list[str]:
        """The factors of a factor: a product of noised and clean ones inside I( ) is several."""
        return factors_of(text) if text.startswith("I(") and len(self._names(text)) > 1 else [text]

    def _names(self, text: str) -> list[str]:
        found = dict.fromkeys(int(one) for one in _ALIAS.findall(text))
        return [self.formula.variables[at] for at in found]

    def _noised(self, text: str) -> list[str]:
        known = {*self.numbers, *self.categories}
        return [name for name in self._names(text) if name in known]

    def _place(
        self,
        column: str,
        text: str,
        numbers: list[tuple[int, Of | None]],
        levels: list[tuple[int, int]],
    ) -> None:
        """Put a noised factor where it belongs."""
        name = self._noised(text)[0]
        said = self.formula.named(column)
        if len(self._names(text)) > 1:
            raise MeasureError(
                f"The term '{said}' mixes the noised '{name}' with other variables in a function.",
                hint="write sums as terms of their own and products with a colon, as in x:z.",
            )
        level = _LEVEL.match(text)
        if name in self.categories:
            plain = name in self.ready.as_numbers and _ALIAS.fullmatch(text)
            if level is None and not plain:
                raise MeasureError(
                    f"The term '{said}' is a function of the noised category '{name}'.",
                    hint=f"write C({name}).",
                )
            levels.append((self.categories.index(name), int(level[2]) if level else 1))
            return
        alias = f"v{self.formula.variables.index(name)}"
        try:
            numbers.append((self.numbers.index(name), function_of(text, alias)))
        except (ValueError, SyntaxError):
            raise MeasureError(
                f"The term '{said}' has a function of '{name}' that is not known here.",
                hint="known are powers, + - * / with constants, log, log2, log10, exp and sqrt.",
            ) from None

    def _clean(self, column: str, text: str) -> Floats:
        """The values of a clean factor."""
        import formulaic

        level = _LEVEL.match(text)
        if level is not None and f"v{level[1]}" in self.frame and "C(" not in text[1:]:
            values = self.ready.columns[self.formula.variables[int(level[1])]]
            return np.asarray(values == int(level[2]), float)
        expression, _, _ = text.partition("[")
        with np.errstate(all="ignore"):
            made = formulaic.Formula(f"0 + {expression}").get_model_matrix(
                self.frame, context={"sqrt": np.sqrt}, na_action="ignore"
            )
        found: Floats = made[text if text in made.columns else made.columns[0]].to_numpy(float)
        self._require_finite(column, found)
        return found

    def _require_finite(self, column: str, values: Floats) -> None:
        if not np.isfinite(values).all():
            raise MeasureError(
                f"The term '{self.formula.named(column)}' has no finite value for some records.",
                hint="a logarithm or root takes positive numbers only.",
            )


def _require_once(terms: list[Term]) -> None:
    """A level times another level of the same variable is always 0."""
    kept = [one for one in terms if len({at for at, _ in one.levels}) == len(one.levels)]
    if len(kept) < len(terms):
        raise MeasureError(
            "The formula multiplies two levels of one category.", hint="name it once in a term."
        )


def _on_their_scale(terms: list[Term], numbers: list[Number]) -> tuple[list[Term], list[Number]]:
    """Noise added to a logarithm that the model takes as well is noise on the term itself."""
    made, changed = list(numbers), list(terms)
    for at, one in enumerate(numbers):
        if one.scale is None or one.scale.shift:
            continue
        uses = [of for term in terms for place, of in term.numbers if place == at]
        if not uses or not all(of is not None and _undoes(of, one) for of in uses):
            continue
        made[at] = replace(one, scale=None)
        changed = [_with_value_itself(term, at) for term in changed]
    return changed, made


def _undoes(of: object, one: Number) -> bool:
    call = of.call if isinstance(of, Of) else None
    return one.scale is not None and (call, one.scale.name) in _SAME


def _with_value_itself(term: Term, at: int) -> Term:
    kept = tuple((place, None if place == at else of) for place, of in term.numbers)
    return replace(term, numbers=kept)


def _independent(terms: list[Term]) -> Floats:
    """The constant and all clean columns and factors, without those that say nothing new."""
    known = [one.clean for one in terms if one.clean is not None]
    records = len(known[0]) if known else 0
    columns = [np.ones(records), *known]
    kept: list[Floats] = []
    basis: list[Floats] = []
    for column in columns:
        left = column.astype(float)
        size = float(np.sqrt(left @ left))
        for one in [*basis, *basis]:
            left = left - (one @ left) * one
        if size and float(np.sqrt(left @ left)) > 1e-8 * size:
            kept.append(column)
            basis.append(left / np.sqrt(left @ left))
    return np.column_stack(kept) if kept else np.ones((records, 1))


def same_terms(found: Mapping[str, int], wanted: list[str]) -> tuple[int, ...]:
    """The places of the terms that differ by group; each must be among the fixed ones."""
    lost = [name for name in wanted if name not in found]
    if lost:
        # A level is a value of somebody, and no word for an error.
        said = dict.fromkeys(name.partition("[")[0] for name in lost)
        raise MeasureError(
            f"What differs by group is not among the fixed terms: {', '.join(said)}.",
            hint="add it to the fixed part: 'y ~ x + (1 + x | school)'.",
        )
    return tuple(found[name] for name in wanted)
