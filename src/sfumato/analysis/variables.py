"""The variables of a model as columns: noised numbers and categories, clean ones, groups."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.analysis.disjoint_classes import find_partition
from sfumato.analysis.formula import ModelFormula
from sfumato.analysis.generalised_cells import build_cells, build_cut_number, find_single_levels
from sfumato.analysis.group_level import mark_group_level
from sfumato.analysis.measurement_error import (
    build_category,
    build_number,
    covariance_between,
    is_noiseless,
    is_numeric_noise,
    strata_variables,
)
from sfumato.analysis.problem import Category, NoisyNumber, Partition
from sfumato.analysis.release_input import ReleaseInput
from sfumato.analysis.tight_ranges import number_classes
from sfumato.cells.codes import encode, encode_levels
from sfumato.data import Dataset
from sfumato.engines.local import find_positions
from sfumato.errors import DataError
from sfumato.io.frames import is_in_memory, wrap
from sfumato.kernels.arrays import Floats, Integers
from sfumato.kernels.exact_sums import canonical_order
from sfumato.noise.description import CodeNoise, Gaussian, NoiseDescription
from sfumato.utility.models.covariates import MOST_LEVELS, format_level, order_levels

if TYPE_CHECKING:
    import pandas as pd

_TRUTH = ("0", "1")


@dataclass(frozen=True, eq=False, kw_only=True)
class ModelVariables:
    """The records that the model uses, in an order that depends on nothing but their values.

    Parameters
    ----------
    columns : each variable of the formula as it was released: numbers, or indices of levels.
    labels : the levels of each category.
    ordered : the categories whose levels have a declared order, or are numbers.
    numbers, categories : the noised variables.
    as_numbers : noised categories 0 and 1 that the formula takes for a number.
    groups : by random part of the formula, the group of each record. The first are those of which
        noised predictors may have a value in common.
    trials : how many trials each record has.
    left_out : how many records lack a value that is needed.
    rows : where each record stands in the released data.
    released : the released values themselves.
    by : the variables on which the noise of each variable depends.
    partition : which records were cut apart by Mondrian; None where nobody knows.
    """

    columns: Mapping[str, Floats] = field(repr=False)
    labels: Mapping[str, Sequence[str]]
    numbers: Mapping[str, NoisyNumber]
    categories: Mapping[str, Category]
    as_numbers: frozenset[str] = frozenset()
    ordered: frozenset[str] = frozenset()
    groups: Mapping[int, Integers] = field(default_factory=dict, repr=False)
    trials: Floats | None = field(default=None, repr=False)
    left_out: int = 0
    rows: Integers = field(repr=False)
    released: pl.DataFrame = field(repr=False)
    by: Mapping[str, Sequence[str]] = field(default_factory=dict)
    partition: Partition | None = None

    def select_strata(self, name: str) -> pl.DataFrame:
        """The variables on which the noise of a variable depends."""
        return self.released.select(self.by.get(name, []))

    def build_frame(self, variables: Sequence[str]) -> pd.DataFrame:
        """Variables under aliases v0, v1, …; for a noised category the nearest level."""
        import pandas as pd

        frame: dict[str, Any] = {}
        for index, name in enumerate(variables):
            values = self.columns[name]
            if name not in self.labels or name in self.as_numbers:
                frame[f"v{index}"] = values
                continue
            labels = [str(code) for code in range(len(self.labels[name]))]
            codes = np.nan_to_num(values).round().clip(0, len(labels) - 1).astype(int)
            categories = pd.Index(labels)
            frame[f"v{index}"] = pd.Categorical.from_codes(codes.tolist(), categories=categories)
        return pd.DataFrame(frame)


def prepare_variables(
    release: ReleaseInput,
    formula: ModelFormula,
    measured: Mapping[str, float],
    trials: str | None = None,
    weights: str | None = None,
) -> ModelVariables:
    """Turn the variables of a formula into columns, each noised one with its likelihood.

    Parameters
    ----------
    release : the records, and the noise in them.
    formula : the model.
    measured : the variance of the error that true measurements have, by variable.
    trials : the variable that says how many trials a record has.
    weights : the variable of the survey weights.
    """
    noise = {name: kind for name, kind in release.noise.items() if name in formula.variables}
    _require_usable(noise, formula, measured, trials)
    _require_single_values({*release.generalised, *release.cut}, formula, measured, trials)
    by = {name: strata_variables(kind) for name, kind in noise.items()}
    required = [*formula.variables, *(name for name in (trials, weights) if name)]
    names = list(dict.fromkeys([*required, *(name for strata in by.values() for name in strata)]))
    clustered = {
        name: together
        for name, together in release.clustered.items()
        if name in release.generalised and name in formula.fixed.variables
    }
    more = {name for together in clustered.values() for name in together.variables}
    batch = release.data.batch([*names, *sorted(more.difference(names))])
    latent = _find_latent(formula, noise, measured, {*release.generalised, *release.cut})
    complete = _find_complete(batch, [name for name in required if name not in latent])
    released = batch.filter(complete)
    # In canonical order, so that the same records give the same fit whatever order they came in.
    order = canonical_order([_sort_key(released[name]) for name in names])
    released, rows = released[order], np.flatnonzero(complete.to_numpy())[order]
    classes = {
        name: (
            number_classes(batch.select(together.variables), complete.to_numpy())[order],
            together.k,
        )
        for name, together in clustered.items()
    }
    outcome = formula.fixed.outcome
    columns: dict[str, Floats] = {}
    labels: dict[str, Sequence[str]] = {}
    numbers: dict[str, NoisyNumber] = {}
    categories: dict[str, Category] = {}
    for name in dict.fromkeys([*formula.fixed.variables, *formula.offset_variables]):
        kind, own_variance = noise.get(name), measured.get(name, 0.0)
        values = released[name]
        # A measurement error without added noise is noise of variance 0 and this error.
        if kind is None and own_variance:
            kind = Gaussian(variance=0.0)
        if name in release.generalised or name in release.cut:
            cells = _build_cells(values, release, *classes.get(name, ()))
            if isinstance(cells, Category):
                categories[name], labels[name] = cells, cells.levels
                columns[name] = find_single_levels(cells)
            else:
                numbers[name], columns[name] = cells, cells.at_face_value()
        elif (
            kind is not None
            and is_numeric_noise(kind)
            and not (is_noiseless(kind) and not own_variance)
        ):
            strata = released.select(by.get(name, []))
            number = build_number(name, _read_numbers(name, values), kind, own_variance, strata)
            with np.errstate(all="ignore"):
                numbers[name], columns[name] = number, number.at_face_value()
        elif kind is not None and not is_numeric_noise(kind) and not is_noiseless(kind):
            category = build_category(name, values, kind, released.select(by[name]))
            categories[name], labels[name] = category, category.levels
            columns[name] = _find_released_level(category, values, kind)
        elif values.dtype.is_numeric() and name not in formula.fixed.categories:
            columns[name] = _read_numbers(name, values)
        else:
            levels = release.data.schema[name].levels or ()
            declared = _find_declared_levels(release.data, name) if name == outcome else levels
            columns[name], labels[name] = _code_levels(name, values, declared)
    groups = {i: _number_groups(released, part.by) for i, part in enumerate(formula.parts)}
    numbers, categories, groups = mark_group_level(numbers, categories, outcome, groups)
    predictors = {name: number for name, number in numbers.items() if name != outcome}
    return ModelVariables(
        columns=columns,
        labels=labels,
        numbers=numbers,
        categories=categories,
        as_numbers=frozenset(
            name
            for name in categories
            if labels[name] == _TRUTH and name not in formula.fixed.categories
        ),
        ordered=frozenset(
            name
            for name, levels in labels.items()
            if isinstance(noise.get(name), CodeNoise)
            or _have_order(levels, released[name], _find_declared_levels(release.data, name))
        ),
        groups=groups,
        trials=None if trials is None else _read_numbers(trials, released[trials]),
        left_out=batch.height - released.height,
        rows=rows,
        released=released,
        by=by,
        partition=find_partition(
            batch,
            rows,
            clustered,
            release.data.schema,
            predictors,
        ),
    )


def _find_complete(batch: pl.DataFrame, required: Sequence[str]) -> pl.Series:
    """Which records have all values that are needed."""
    known = [pl.repeat(value=True, n=pl.len()), *(pl.col(x).is_not_null() for x in required)]
    complete = batch.select(pl.all_horizontal(known)).to_series()
    if not complete.any():
        raise DataError(
            "No record has all clean variables of the formula and the outcome.",
            hint="leave variables with many missing values out of the formula.",
        )
    return complete


def _build_cells(
    values: pl.Series, release: ReleaseInput, classes: Integers | None = None, k: int = 2
) -> NoisyNumber | Category:
    """A variable of which cells were released, or that was cut off at limits."""
    name, column = values.name, release.data.schema[values.name]
    if name in release.cut:
        return build_cut_number(name, _read_numbers(name, values), release.cut[name], column)
    return build_cells(values, column, classes, k)


def _find_declared_levels(data: Dataset, name: str) -> Sequence[object]:
    """The levels in the order that the schema has, or ordered categories of the frame."""
    levels = data.schema[name].levels
    if levels is None and is_in_memory(data.frame):
        levels = getattr(wrap(data.frame).schema[name], "categories", None)
    return levels or ()


def _have_order(levels: Sequence[str], values: pl.Series, declared: Sequence[object]) -> bool:
    """Whether levels are numbers, or come in a declared order."""
    order = [format_level(level) for level in declared]
    if not order and values.dtype.is_numeric():
        return [float(level) for level in levels] == sorted(float(level) for level in levels)
    positions = [order.index(level) for level in levels if level in order]
    return len(positions) == len(levels) and positions == sorted(positions)


def _number_groups(released: pl.DataFrame, by: Sequence[str]) -> Integers:
    """The group of each record: the combination of some variables."""
    codes = np.column_stack([encode(released[name]).codes.astype(np.int64) for name in by])
    if codes.shape[1] == 1:
        return np.ascontiguousarray(codes[:, 0])
    return np.unique(codes, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _find_latent(
    formula: ModelFormula,
    noise: Mapping[str, NoiseDescription],
    measured: Mapping[str, float],
    generalised: Collection[str],
) -> set[str]:
    """The predictors that may be missing, since the model has a distribution for them."""
    named = [*noise, *measured, *generalised]
    latent = {name for name in named if name in formula.fixed.variables}
    outcome = formula.fixed.outcome
    if outcome is not None:
        latent -= {outcome}
        # Noise that a predictor shares with the outcome is known only where both are.
        latent -= {name for name in latent if covariance_between(noise, outcome, name)}
    return latent


def _require_usable(
    noise: Mapping[str, NoiseDescription],
    formula: ModelFormula,
    measured: Mapping[str, float],
    trials: str | None,
) -> None:
    for name in (*formula.group_variables, trials):
        if name in noise and name is not None and not is_noiseless(noise[name]):
            raise DataError(
                f"Variable '{name}' has noise, so nobody knows the groups or the trials.",
                hint="use a variable that was released as it is.",
            )
    for name in formula.offset_variables:
        if measured.get(name) or (name in noise and not is_noiseless(noise[name])):
            _refuse_offset(name, "has noise")
    unknown = sorted(set(measured) - set(formula.fixed.variables))
    if unknown:
        raise DataError(
            f"`measured` names variables that are not in the formula: {', '.join(unknown)}.",
            hint="name those whose measurement has an error of known variance.",
        )
    for name, variance in measured.items():
        if not 0 <= variance < np.inf or (name in noise and not is_numeric_noise(noise[name])):
            raise DataError(
                f"The error in `measured` of variable '{name}' must be the variance of a number.",
                hint='for instance measured={"x": 0.1}.',
            )


def _refuse_offset(name: str, why: str) -> NoReturn:
    raise DataError(
        f"Variable '{name}' of the offset {why}, and an offset is taken as it is.",
        hint="use a variable that was released as it is; or make it a term of the formula, such "
        f"as log({name}), whose coefficient is estimated with the noise taken out.",
    )


def _require_single_values(
    generalised: Collection[str],
    formula: ModelFormula,
    measured: Mapping[str, float],
    trials: str | None,
) -> None:
    """Refuse cells where a model needs values."""
    for name in sorted(generalised):
        if name in formula.offset_variables:
            _refuse_offset(name, "was generalised or cut off")
        if name == trials or measured.get(name):
            what = "the trials" if name == trials else "values with an error in `measured`"
            raise DataError(
                f"Variable '{name}' was generalised or cut off, and cannot be {what}.",
                hint="use a variable that was released as it is.",
            )


def _sort_key(values: pl.Series) -> npt.NDArray[Any]:
    if values.dtype.is_numeric() or values.dtype == pl.Boolean:
        return values.cast(pl.Float64).to_numpy()
    return encode(values).missing_last.astype(np.float64)


def _read_numbers(name: str, values: pl.Series) -> Floats:
    if not (values.dtype.is_numeric() or values.dtype in (pl.Boolean, pl.Null)):
        raise DataError(
            f"Variable '{name}' holds no numbers.", hint="describe it as a category, or leave it."
        )
    numbers: Floats = values.cast(pl.Float64).fill_null(np.nan).to_numpy().copy()
    if np.isinf(numbers).any():
        raise DataError(f"Variable '{name}' has infinite values.", hint="correct them.")
    return numbers


def _find_released_level(category: Category, values: pl.Series, noise: NoiseDescription) -> Floats:
    """The index of the released level; between two where a number was released."""
    if isinstance(noise, CodeNoise) and noise.ends != "round":
        positions: Floats = values.cast(pl.Float64).fill_null(np.nan).to_numpy() - noise.codes[0]
        return positions
    levels = list(getattr(noise, "levels", category.levels))
    codes = encode_levels(values, levels).astype(float)
    return np.where(codes < 0, np.nan, codes)


def _code_levels(
    name: str, values: pl.Series, declared: Sequence[object]
) -> tuple[Floats, list[str]]:
    """The index of each record's level, and all levels: in declared order, else sorted."""
    if values.dtype.is_temporal():
        raise DataError(
            f"Variable '{name}' holds dates.", hint="turn it into a number or into groups first."
        )
    levels = values.drop_nulls().unique().sort()
    if not 1 < len(levels) <= MOST_LEVELS:
        count = f"more than {MOST_LEVELS} levels" if len(levels) > 1 else "one level at most"
        raise DataError(f"Category '{name}' has {count}.", hint="leave it out of the formula.")
    levels = order_levels(levels, declared)
    codes = find_positions(values, levels).cast(pl.Float64).fill_null(np.nan).to_numpy().copy()
    return codes, [format_level(level) for level in levels]
