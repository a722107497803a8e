"""Models of records that are not in memory: their terms are made part by part, pass after pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.engines import Engine
from sfumato.engines.local import find_positions
from sfumato.engines.summaries import Count, Infinite, Summary
from sfumato.errors import MeasureError
from sfumato.kernels.arrays import Floats
from sfumato.kernels.exact_sums import exact_parts
from sfumato.pairs.alignment import find_type, quote_names, to_text_or_floats
from sfumato.pairs.alignment import require_finite as require_finite_values
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
from sfumato.utility.models.fitting import BLOCK, Family, Look, RegressionFit
from sfumato.utility.models.formula import Formula
from sfumato.utility.models.regression import (
    CONTEXT,
    RegressionPair,
    build_terms,
    build_terms_again,
    refuse_bad_formulas,
    require_one_outcome,
)

if TYPE_CHECKING:
    import pandas as pd


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

        def gather(look: Look, data: Dataset = data) -> list[Any]:
            def read(batch: pl.DataFrame) -> Any:
                return look((*block, None) for block in reader.read(batch))

            return engine.gather(data, read, reads=reader.names)

        fit = RegressionFit(
            gather, family, SIDE_NAMES[side], records[side],
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
            return [exact_parts(column) for column in function(batch)]

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
