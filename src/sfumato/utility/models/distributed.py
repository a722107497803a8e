"""Models of records that are not in memory: each pass adds up something small over their parts.

A linear model follows from the triangular factor R of its terms and its outcome: the factors of two
parts, one below the other, have the factor of both. That takes one pass, and loses no more digits
than a fit in memory, as sums of squares would. Models with a link are fitted by such passes, each
with the weights that the one before has found (iteratively reweighted least squares).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from sfumato.cells.pairs import find_type, quote_names, to_text_or_floats
from sfumato.cells.pairs import require_finite as require_finite_values
from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.engines.local import find_positions
from sfumato.engines.summaries import Count, Infinite, Summary
from sfumato.engines.summaries import exact_sum as exact_terms
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats, Mask
from sfumato.kernels.exact_sums import exact_sum, use_one_thread
from sfumato.utility.models.covariates import (
    MOST_LEVELS,
    SIDE_NAMES,
    build_frame,
    find_complete,
    format_level,
    list_categories,
    refuse_variable,
    require_complete,
    require_same_levels,
    sort_levels,
)
from sfumato.utility.models.formula import Formula
from sfumato.utility.models.regression import (
    CONTEXT,
    MOST_STEPS,
    TOLERANCE,
    Family,
    FittedRegression,
    RegressionPair,
    build_terms,
    build_terms_again,
    factorise,
    is_certain,
    refuse_bad_formulas,
    require_enough,
    require_estimates,
    require_family,
    require_finite,
    require_independent,
    require_one_outcome,
    require_residuals,
)

if TYPE_CHECKING:
    import pandas as pd

BLOCK = 1 << 15
"""Records whose terms are made at a time."""
_TINY = float(np.finfo(float).eps)
_ROUNDING = 4 * _TINY
"""A relative change of the deviance that is rounding, where records are many."""


# Variables


@dataclass(frozen=True)
class DistantVariable:
    """A variable of both data sets, whose values are read part by part.

    Parameters
    ----------
    name : its name.
    text : whether values are text; else they are floats.
    categories : whether they are categories.
    """

    name: str
    text: bool
    categories: bool

    def read(self, batch: pl.DataFrame) -> pl.Series:
        """Its values in some records, comparable with those of the other data set."""
        return to_text_or_floats(batch[self.name], text=self.text)


def align_distant_variables(
    original: Dataset, released: Dataset, names: Sequence[str], engine: Engine
) -> dict[str, DistantVariable | str]:
    """What each variable is in both data sets, or the reason why they cannot be compared."""
    shown = [name for name in names if name in released.schema]
    several = [
        name
        for name in shown
        if original.schema[name].generalised or released.schema[name].generalised
    ]
    if several:
        raise refuse_drawing(several)
    wanted: list[Summary] = [Count(), Infinite()]
    before, after = (
        engine.aggregate(data, dict.fromkeys(shown, wanted)) for data in (original, released)
    )
    aligned: dict[str, DistantVariable | str] = {}
    for name in names:
        if name not in shown:
            aligned[name] = "it is not in the release"
            continue
        sides = before[name], after[name]
        declared = find_type(original, released, name, [side["count"] for side in sides])
        if isinstance(declared, str):
            aligned[name] = declared
            continue
        require_finite_values(any(side["infinite"] for side in sides), name)
        aligned[name] = DistantVariable(name, declared.text, declared.categories)
    return aligned


def refuse_drawing(names: Sequence[str]) -> MeasureError:
    """What is said where cells stand for several values, of which one would have to be drawn."""
    return MeasureError(
        "The release has cells that stand for several values, or new names, in "
        f"{quote_names(names)}, and values are drawn from cells in memory only.",
        hint="name variables without such cells, or measure it in memory on a sample.",
    )


def gather_levels(
    data: Dataset, variables: Sequence[DistantVariable], engine: Engine, *, most: int
) -> dict[str, pl.Series]:
    """The levels of some variables in order, missing among them; not all, where beyond `most`."""

    def list_levels(batch: pl.DataFrame) -> list[pl.Series]:
        return [variable.read(batch).unique().sort()[: most + 1] for variable in variables]

    names = [variable.name for variable in variables]
    if not names:
        return {}
    return _join_levels(names, engine.gather(data, list_levels, reads=names))


def _join_levels(
    names: Sequence[str], parts: Sequence[Sequence[pl.Series]]
) -> dict[str, pl.Series]:
    lists = zip(*parts, strict=True)
    return {name: pl.concat(some).unique().sort() for name, some in zip(names, lists, strict=True)}


# The terms of a formula


@dataclass(frozen=True, eq=False)
class _TermReader:
    """Outcome and terms of the complete records of a part.

    Parameters
    ----------
    variables : those of the formula, in its order.
    levels : those of the categories, the reference level first.
    categories : the same as text, of those that are categories in the model.
    spec : how the formula's columns are built.
    """

    variables: tuple[DistantVariable, ...]
    levels: Mapping[str, pl.Series] = field(repr=False)
    categories: Mapping[str, Sequence[str]] = field(repr=False)
    spec: Any = field(default=None, repr=False)

    @property
    def names(self) -> list[str]:
        """The variables that it reads."""
        return [variable.name for variable in self.variables]

    def read(self, batch: pl.DataFrame) -> Iterator[tuple[Floats, Floats]]:
        """Outcome and terms, a block of records after the other."""
        for frame in self.read_frames(batch):
            matrices = build_terms_again(self.spec, frame)
            outcome, terms = (side.to_numpy(dtype=float) for side in matrices)
            yield outcome[:, 0], terms

    def read_frames(self, batch: pl.DataFrame) -> Iterator[pd.DataFrame]:
        """The complete records under aliases, a block after the other."""
        for start in range(0, batch.height, BLOCK):
            block = batch[start : start + BLOCK]
            columns = [variable.read(block) for variable in self.variables]
            complete = find_complete(columns)
            if complete.any():
                values = {
                    column.name: self._code(column.filter(complete)).to_numpy()
                    for column in columns
                }
                yield build_frame(values, self.categories)

    def _code(self, values: pl.Series) -> pl.Series:
        levels = self.levels.get(values.name)
        return values if levels is None else find_positions(values, levels)

    def make_example(self) -> pd.DataFrame:
        """Invented records that have every level, from which a formula learns its columns."""
        rows = np.arange(max(map(len, self.levels.values()), default=2))
        values = {
            name: rows % len(self.levels[name]) if name in self.levels else np.ones(len(rows))
            for name in self.names
        }
        return build_frame(values, self.categories)


def fit_both_by_passes(
    original: Dataset,
    released: Dataset,
    formula: Formula,
    family: Family,
    engine: Engine,
    *,
    level: float,
) -> RegressionPair:
    """`fit_both` where the records are: four passes over each data set, with a link one a step.

    The functions center, scale and poly take a few more over the original. The numbers are those
    of `fit_both` but for rounding.
    """
    original.schema.require(formula.variables)
    variables = _align_variables(original, released, formula.variables, engine)
    sides = {"original": original, "released": released}
    levels, records = _find_levels(sides, variables, formula, engine)
    labels = {name: [format_level(level) for level in some] for name, some in levels.items()}
    categories = list_categories(formula, labels, binary=family == "logistic")
    reader = _TermReader(variables, levels, categories)
    example = build_terms(formula, reader.make_example())
    require_one_outcome(example.lhs)
    reader = replace(reader, spec=example.model_spec)
    _FunctionLearner(original, reader, engine).learn()
    columns = (*example.rhs.columns, *example.lhs.columns)
    regressions = {}
    for side, data in sides.items():
        fit = _DistantFit(
            data, reader, family, engine, SIDE_NAMES[side], records[side],
            tuple(map(formula.name_column, columns)),
        )  # fmt: skip
        names = tuple(formula.name_column(column, labels) for column in example.rhs.columns)
        regressions[side] = fit.run().show(names, level=level)
    return RegressionPair(**regressions)


def _align_variables(
    original: Dataset, released: Dataset, names: Sequence[str], engine: Engine
) -> tuple[DistantVariable, ...]:
    variables = []
    for name, variable in align_distant_variables(original, released, names, engine).items():
        if isinstance(variable, str):
            raise refuse_variable(name, variable)
        variables.append(variable)
    return tuple(variables)


def _find_levels(
    sides: Mapping[str, Dataset],
    variables: Sequence[DistantVariable],
    formula: Formula,
    engine: Engine,
) -> tuple[dict[str, pl.Series], dict[str, int]]:
    """The levels of the categories, and how many records of each data set are complete."""
    categorical = [v for v in variables if v.categories or v.name in formula.categories]

    def list_levels(batch: pl.DataFrame) -> tuple[int, list[pl.Series]]:
        complete = find_complete([variable.read(batch) for variable in variables])
        some = [variable.read(batch).filter(complete).unique() for variable in categorical]
        return int(complete.sum()), [values.sort()[: MOST_LEVELS + 1] for values in some]

    names, categorical_names = [v.name for v in variables], [v.name for v in categorical]
    records, levels = {}, {}
    for side, data in sides.items():
        counts, parts = zip(*engine.gather(data, list_levels, reads=names), strict=True)
        records[side], levels[side] = sum(counts), _join_levels(categorical_names, parts)
        require_complete(records[side] > 0, side)
    ordered = {
        name: sort_levels(sides["original"], name, some)
        for name, some in levels["original"].items()
    }
    for name, some in ordered.items():
        after = levels["released"][name]
        if set(after) - set(some):
            raise refuse_drawing([name])
        require_same_levels(name, some, after)
    return ordered, records


# Functions that learn something from all records


@dataclass(frozen=True, eq=False)
class _FunctionLearner:
    """What center, scale and poly learn from all records of the original."""

    original: Dataset
    reader: _TermReader
    engine: Engine

    def learn(self) -> None:
        """Put it in the place of what the example taught."""
        sides = self.reader.spec.lhs.transform_state, self.reader.spec.rhs.transform_state
        learnt: dict[str, dict[str, Any]] = {}
        # What stands inside another call is shorter, and is learnt first.
        for call, state in sorted((sides[0] | sides[1]).items(), key=lambda item: len(item[0])):
            function, _, argument = call[:-1].partition("(")
            if function == "poly":
                variable, _, degree = argument.partition(",")
                values = self._read_argument(variable, learnt)
                learnt[call] = self._learn_polynomial(values, int(degree))
            else:
                learnt[call] = self._learn_scale(self._read_argument(argument, learnt), state)
        for side in sides:
            side.update(learnt)

    def _read_argument(
        self, argument: str, learnt: Mapping[str, Mapping[str, Any]]
    ) -> Callable[[pl.DataFrame], Floats]:
        """What gives the values of an argument in a part of the records."""
        import formulaic

        reader = self.reader
        with refuse_bad_formulas():
            inner = formulaic.Formula(f"0 + I({argument})")
            spec = inner.get_model_matrix(reader.make_example(), context=CONTEXT).model_spec
        spec.transform_state.update(learnt)

        def read(batch: pl.DataFrame) -> Floats:
            blocks = (build_terms_again(spec, frame) for frame in reader.read_frames(batch))
            return np.concatenate([np.empty(0), *(b.to_numpy(dtype=float)[:, 0] for b in blocks)])

        return read

    def _add_up(self, function: Callable[[pl.DataFrame], Sequence[Floats]]) -> list[float]:
        """Exact sums of what a function makes of the records."""

        def add(batch: pl.DataFrame) -> list[list[float]]:
            return [exact_terms(column) for column in function(batch)]

        parts = self.engine.gather(self.original, add, reads=self.reader.names)
        return [math.fsum(chain.from_iterable(terms)) for terms in zip(*parts, strict=True)]

    def _learn_scale(
        self, values: Callable[[pl.DataFrame], Floats], state: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The mean, and the standard deviation where the example has one."""

        def count(batch: pl.DataFrame) -> list[Floats]:
            return [np.ones(len(values(batch))), values(batch)]

        records, total = self._add_up(count)
        mean, scale = total / records, None
        if state["scale"] is not None:
            squares = self._add_up(lambda batch: [(values(batch) - mean) ** 2])
            scale = math.sqrt(squares[0] / (records - state["ddof"]))
        return {**state, "center": mean, "scale": scale}

    def _learn_polynomial(
        self, values: Callable[[pl.DataFrame], Floats], degree: int
    ) -> dict[str, Any]:
        """The recurrence of polynomials that are orthogonal over the records, degree by degree."""
        alpha: dict[int, float] = {}
        norms: dict[int, float] = {}

        def square(batch: pl.DataFrame) -> list[Floats]:
            x = values(batch)
            before, value = np.zeros(len(x)), np.ones(len(x))
            for k, mean in alpha.items():
                ratio = norms[k] / norms[k - 1] if k else 0.0
                before, value = value, (x - mean) * value - ratio * before
            return [value**2, x * value**2]

        for k in range(degree + 1):
            norms[k], moment = self._add_up(square)
            if k < degree:
                alpha[k] = moment / norms[k] if norms[k] else math.nan
        return {"alpha": alpha, "norms2": norms}


# The fit


class FitPart(NamedTuple):
    """What a pass keeps of a part of the records.

    Parameters
    ----------
    factor : the triangular factor of its terms and its outcome, both weighted.
    deviance : of the fitted values with which the pass began.
    low, high : the least and the greatest of these.
    """

    factor: Floats
    deviance: float
    low: float
    high: float


class _Terms(NamedTuple):
    """What the terms and the outcome of a part are like.

    Parameters
    ----------
    finite : for each term, and for the outcome at the end, whether all values are finite.
    largest : the largest absolute value of each.
    outcomes : some outcomes, the least and the greatest among them.
    total : the sum of the outcomes.
    """

    finite: Mask
    largest: Floats
    outcomes: Floats
    total: float


@dataclass(frozen=True, eq=False)
class Solution:
    """Estimates, the inverse of the triangular factor behind them, and what is left over."""

    estimate: Floats
    inverse: Floats
    scale: float
    freedom: float
    records: int

    @property
    def error(self) -> Floats:
        """The standard errors."""
        errors: Floats = np.sqrt((self.inverse**2).sum(axis=1) * self.scale)
        return errors

    def show(self, names: tuple[str, ...], *, level: float) -> FittedRegression:
        """The estimates with their tests and intervals: by t, or by the normal distribution."""
        from scipy import stats

        distribution = stats.t(self.freedom) if math.isfinite(self.freedom) else stats.norm()
        error, statistic = self.error, self.estimate / self.error
        width = distribution.ppf(1 - (1 - level) / 2) * error
        return FittedRegression(
            terms=names,
            estimate=self.estimate,
            error=error,
            statistic=statistic,
            p=2 * distribution.sf(np.abs(statistic)),
            low=self.estimate - width,
            high=self.estimate + width,
            records=self.records,
        )


@dataclass(frozen=True, eq=False)
class _DistantFit:
    """A regression of one data set.

    Parameters
    ----------
    data, reader, family, engine : what is fitted to what, and where.
    where : the data set in words.
    records : how many of its records are complete.
    names : of the terms, and of the outcome.
    """

    data: Dataset
    reader: _TermReader
    family: Family
    engine: Engine
    where: str
    records: int
    names: tuple[str, ...]

    def run(self) -> Solution:
        """Fit it; fail where that is impossible."""
        terms = self._check_terms()
        unweighted = self._gather(Weighing("linear"))
        factor = unweighted.factor[:-1, :-1]
        size = np.sqrt((factor**2).sum(axis=0))
        scaled = factor / np.where(size > 0, size, 1.0)
        require_independent(factorise(scaled), self.names[:-1], self.where)
        if self.family != "linear":
            return self._iterate(terms)
        freedom = self.records - len(factor)
        residual = float(unweighted.factor[-1, -1] ** 2)
        solution = self._solve(unweighted.factor, residual / freedom, freedom)
        require_estimates(solution.estimate, solution.error, self.where)
        require_residuals(residual, float((unweighted.factor[:, -1] ** 2).sum()), self.where)
        return solution

    def _check_terms(self) -> _Terms:
        """Everything that is wrong with terms and outcome, before they are multiplied."""
        reader, width = self.reader, len(self.names)

        def look(batch: pl.DataFrame) -> _Terms:
            finite, largest = np.ones(width, bool), np.zeros(width)
            outcomes, total = np.empty(0), 0.0
            for y, x in reader.read(batch):
                columns = np.column_stack([x, y])
                finite &= np.isfinite(columns).all(axis=0)
                largest = np.fmax(largest, np.abs(columns).max(axis=0))
                outcomes = np.unique(np.concatenate([outcomes, y]))
                outcomes = np.concatenate([outcomes[:2], outcomes[-1:]])
                total += math.fsum(y)
            return _Terms(finite, largest, outcomes, total)

        parts = self.engine.gather(self.data, look, reads=reader.names)
        finite, largest, outcomes, totals = zip(*parts, strict=True)
        terms = _Terms(
            np.all(finite, axis=0), np.max(largest, axis=0), np.concatenate(outcomes), sum(totals)
        )
        require_finite(terms.finite[:-1].tolist(), self.names[:-1], self.where)
        require_enough(self.records, self.names[:-1], self.where)
        require_finite(terms.finite[-1:].tolist(), self.names[-1:], self.where)
        require_family(terms.outcomes, self.family, self.where)
        return terms

    def _iterate(self, terms: _Terms) -> Solution:
        """Reweighted least squares: the same steps, and the same end, as in memory."""
        part = self._gather(Weighing(self.family, mean=terms.total / self.records))
        solution, deviance, converged = self._solve(part.factor, 1.0, math.inf), math.inf, False
        for _ in range(MOST_STEPS):
            deviance, before = part.deviance, part
            solution = self._solve(before.factor, 1.0, math.inf)
            part = self._gather(Weighing(self.family, beta=solution.estimate))
            change = abs(part.deviance - deviance)
            converged = change <= max(TOLERANCE, _ROUNDING * abs(part.deviance))
            if converged:
                break
        reach = solution.error * terms.largest[:-1]
        certain = is_certain((part.low, part.high), reach, self.family)
        require_estimates(
            solution.estimate, solution.error, self.where, certain=certain, converged=converged
        )
        return solution

    def _gather(self, weighing: Weighing) -> FitPart:
        """One pass over the records."""
        reader, width = self.reader, len(self.names)

        def multiply(batch: pl.DataFrame) -> FitPart:
            with use_one_thread():
                blocks = [weighing.multiply(y, x) for y, x in reader.read(batch)]
            return _join_parts(blocks, width)

        return _join_parts(self.engine.gather(self.data, multiply, reads=reader.names), width)

    def _solve(self, factor: Floats, scale: float, freedom: float) -> Solution:
        return solve_factor(factor, scale, freedom, self.records)


def solve_factor(factor: Floats, scale: float, freedom: float, records: int) -> Solution:
    """The estimates that follow from the triangular factor of terms and outcome."""
    from scipy.linalg import solve_triangular

    of_terms = factor[:-1, :-1]
    if not np.diag(of_terms).all():
        unknown = np.full(len(of_terms), math.nan)
        return Solution(unknown, of_terms, scale, freedom, records)
    inverse = solve_triangular(of_terms, np.eye(len(of_terms)))
    estimate = solve_triangular(of_terms, factor[:-1, -1])
    return Solution(estimate, inverse, scale, freedom, records)


def _join_parts(parts: Sequence[FitPart], width: int) -> FitPart:
    """The factors of all parts, one below the other, have the factor of all records."""
    stacked = np.concatenate([np.zeros((width, width)), *(part.factor for part in parts)])
    return FitPart(
        factorise(stacked),
        math.fsum(part.deviance for part in parts),
        min((part.low for part in parts), default=math.inf),
        max((part.high for part in parts), default=-math.inf),
    )


@dataclass(frozen=True, eq=False)
class Weighing:
    """How terms and outcome are weighted in a pass.

    Parameters
    ----------
    family : of the model; "linear" weighs nothing.
    beta : the estimates so far; None at the start, which is made from the outcomes.
    mean : of the outcomes, for the start.
    """

    family: Family
    beta: Floats | None = None
    mean: float = 0.0

    def multiply(self, y: Floats, x: Floats) -> FitPart:
        """The factor of some records, and how well the estimates so far fit them."""
        weighted, deviance, (low, high) = self.weigh(y, x)
        return FitPart(factorise(weighted), deviance, low, high)

    def weigh(self, y: Floats, x: Floats) -> tuple[Floats, float, tuple[float, float]]:
        """Terms and outcome weighted, a row a record; the deviance, and the fitted values' ends."""
        if self.family == "linear":
            return np.column_stack([x, y]), 0.0, (0.0, 0.0)
        with np.errstate(over="ignore"):
            predictor, fitted, weight, deviance = _LINKS[self.family](self, y, x)
        outcome = predictor + (y - fitted) / weight
        weighted = np.column_stack([x, outcome]) * np.sqrt(weight)[:, None]
        return weighted, deviance, (float(fitted.min()), float(fitted.max()))

    def follow_logit(self, y: Floats, x: Floats) -> tuple[Floats, Floats, Floats, float]:
        """Predictor, fitted values, weights and deviance of a logistic model."""
        if self.beta is None:
            fitted = (y + 0.5) / 2
            predictor = np.log(fitted / (1 - fitted))
        else:
            predictor = x @ self.beta
            fitted = np.clip(1 / (1 + np.exp(-predictor)), _TINY, 1 - _TINY)
        deviance = -2 * exact_sum(np.log(np.where(y > 0, fitted, 1 - fitted)))
        return predictor, fitted, fitted * (1 - fitted), deviance

    def follow_logarithm(self, y: Floats, x: Floats) -> tuple[Floats, Floats, Floats, float]:
        """The same of a Poisson model."""
        if self.beta is None:
            fitted = (y + self.mean) / 2
            predictor = np.log(fitted)
        else:
            predictor = x @ self.beta
            fitted = np.clip(np.exp(predictor), _TINY, np.finfo(float).max)
        logarithms = np.log(np.where(y > 0, y, 1.0) / fitted)
        deviance = 2 * exact_sum(np.where(y > 0, y * logarithms, 0.0) - (y - fitted))
        return predictor, fitted, fitted, deviance


_LINKS: dict[str, Callable[..., tuple[Floats, Floats, Floats, float]]] = {
    "logistic": Weighing.follow_logit,
    "poisson": Weighing.follow_logarithm,
}
