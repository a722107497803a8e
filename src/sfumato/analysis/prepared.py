"""The variables of a model as columns: noised numbers and categories, clean ones, groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sfumato.analysis.formula import ModelFormula
from sfumato.analysis.measured import (
    category_of,
    is_none,
    is_number,
    number_of,
    shared_noise,
    strata_of,
)
from sfumato.analysis.problem import Category, Number
from sfumato.analysis.received import Received
from sfumato.cells.noise.described import CodeNoise, Gaussian, Noise
from sfumato.data import Dataset
from sfumato.errors import DataError
from sfumato.kernels.arrays import Floats, Integers
from sfumato.kernels.canonical import order_of
from sfumato.utility.models.covariates import MOST_LEVELS

if TYPE_CHECKING:
    import pandas as pd

_TRUTH = ("0", "1")


@dataclass(frozen=True, eq=False, kw_only=True)
class Prepared:
    """The records that the model has, in an order that depends on nothing but their values.

    Parameters
    ----------
    columns : each variable of the formula as it was released: numbers, or places of levels.
    labels : the levels of each category.
    numbers, categories : the noised variables.
    as_numbers : noised categories 0 and 1 that the formula takes for a number.
    groups : the group of each record.
    trials : how many trials each record has.
    left_out : how many records lack a value that is needed.
    kept : the released values themselves.
    by : the variables on which the exchange of each category depends.
    """

    columns: Mapping[str, Floats] = field(repr=False)
    labels: Mapping[str, Sequence[str]]
    numbers: Mapping[str, Number]
    categories: Mapping[str, Category]
    as_numbers: frozenset[str] = frozenset()
    groups: Integers | None = field(default=None, repr=False)
    trials: Floats | None = field(default=None, repr=False)
    left_out: int = 0
    kept: pl.DataFrame = field(repr=False)
    by: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def strata(self, name: str) -> pl.DataFrame:
        """The variables on which the exchange of a category depends."""
        return self.kept.select(self.by.get(name, []))

    def frame(self, variables: Sequence[str]) -> pd.DataFrame:
        """Variables under aliases v0, v1, …; of a noised category a level as good as any."""
        import pandas as pd

        made: dict[str, Any] = {}
        for at, name in enumerate(variables):
            values = self.columns[name]
            if name not in self.labels or name in self.as_numbers:
                made[f"v{at}"] = values
                continue
            codes = [str(code) for code in range(len(self.labels[name]))]
            places = np.nan_to_num(values).round().clip(0, len(codes) - 1).astype(int)
            made[f"v{at}"] = pd.Categorical.from_codes(places.tolist(), categories=pd.Index(codes))
        return pd.DataFrame(made)


def prepared(
    got: Received,
    formula: ModelFormula,
    measured: Mapping[str, float],
    trials: str | None = None,
) -> Prepared:
    """Prepare the variables of a formula.

    Parameters
    ----------
    got : the records, and the noise in them.
    formula : the model.
    measured : the variance of the error that true measurements have, by variable.
    trials : the variable that says how many trials a record has.
    """
    noise = {name: one for name, one in got.noise.items() if name in formula.variables}
    _require_usable(noise, formula, measured, trials)
    wanted = [*formula.variables, *([trials] if trials else [])]
    strata = {name: strata_of(one) for name, one in noise.items()}
    every = list(dict.fromkeys([*wanted, *(one for names in strata.values() for one in names)]))
    batch = got.data.batch(every)
    latent = {name for name in [*noise, *measured] if name in formula.fixed.variables}
    if formula.fixed.outcome is not None:
        # Noise that a predictor shares with the outcome is known only where both are.
        latent -= {formula.fixed.outcome}
        latent -= {name for name in latent if shared_noise(noise, formula.fixed.outcome, name)}
    complete = batch.select(
        pl.all_horizontal([pl.lit(True), *(pl.col(n).is_not_null() for n in wanted
                                           if n not in latent)])
    ).to_series()  # fmt: skip
    kept = batch.filter(complete)
    if not kept.height:
        raise DataError(
            "No record has all clean variables of the formula and the outcome.",
            hint="leave variables with many missing values out of the formula.",
        )
    kept = kept[order_of([_sortable(kept[name]) for name in every])]
    columns: dict[str, Floats] = {}
    labels: dict[str, Sequence[str]] = {}
    numbers: dict[str, Number] = {}
    categories: dict[str, Category] = {}
    for name in dict.fromkeys([*formula.fixed.variables]):
        told, own = noise.get(name), measured.get(name, 0.0)
        values = kept[name]
        if told is None and own:
            told = Gaussian(variance=0.0)
        if told is not None and is_number(told) and not (is_none(told) and not own):
            columns[name] = _numbers(name, values)
            numbers[name] = number_of(name, columns[name], told, own)
            columns[name] = _released(numbers[name])
        elif told is not None and not is_number(told) and not is_none(told):
            made = category_of(name, values, told, kept.select(strata[name]))
            categories[name], labels[name] = made, made.levels
            columns[name] = _nearest(made, values, told)
        elif values.dtype.is_numeric() and name not in formula.fixed.categories:
            columns[name] = _numbers(name, values)
        else:
            columns[name], labels[name] = _levels(got.data, name, values)
    return Prepared(
        columns=columns,
        labels=labels,
        numbers=numbers,
        categories=categories,
        as_numbers=frozenset(
            name
            for name in categories
            if labels[name] == _TRUTH and name not in formula.fixed.categories
        ),
        groups=None if formula.group is None else _groups(kept[formula.group]),
        trials=None if trials is None else _numbers(trials, kept[trials]),
        left_out=batch.height - kept.height,
        kept=kept,
        by=strata,
    )


def _require_usable(
    noise: Mapping[str, Noise],
    formula: ModelFormula,
    measured: Mapping[str, float],
    trials: str | None,
) -> None:
    for name in (formula.group, trials):
        if name in noise and name is not None and not is_none(noise[name]):
            raise DataError(
                f"Variable '{name}' has noise, so nobody knows the groups or the trials.",
                hint="use a variable that was released as it is.",
            )
    odd = sorted(set(measured) - set(formula.fixed.variables))
    if odd:
        raise DataError(
            f"`measured` names variables that are not in the formula: {', '.join(odd)}.",
            hint="name those whose measurement has an error of known variance.",
        )
    for name, own in measured.items():
        if not 0 <= own < np.inf or (name in noise and not is_number(noise[name])):
            raise DataError(
                f"The error in `measured` of variable '{name}' must be the variance of a number.",
                hint='for instance measured={"x": 0.1}.',
            )


def _sortable(values: pl.Series) -> npt.NDArray[Any]:
    if values.dtype.is_numeric() or values.dtype == pl.Boolean:
        return values.cast(pl.Float64).to_numpy()
    return values.rank("dense").cast(pl.Float64).to_numpy()


def _numbers(name: str, values: pl.Series) -> Floats:
    if not (values.dtype.is_numeric() or values.dtype in (pl.Boolean, pl.Null)):
        raise DataError(
            f"Variable '{name}' holds no numbers.", hint="describe it as a category, or leave it."
        )
    made: Floats = values.cast(pl.Float64).fill_null(np.nan).to_numpy().copy()
    if np.isinf(made).any():
        raise DataError(f"Variable '{name}' has values beyond all numbers.", hint="correct them.")
    return made


def _released(one: Number) -> Floats:
    """What an analyst would take who knows of no noise, but of its mean and weight."""
    with np.errstate(all="ignore"):
        return one.true(one.seen)


def _nearest(made: Category, values: pl.Series, noise: Noise) -> Floats:
    """The place of the released level; between two where a number was released."""
    if isinstance(noise, CodeNoise) and noise.ends != "round":
        numbers: Floats = values.cast(pl.Float64).fill_null(np.nan).to_numpy() - noise.codes[0]
        return numbers
    from sfumato.cells.codes import places

    levels = list(getattr(noise, "levels", made.levels))
    at = places(values, levels).astype(float)
    return np.where(at < 0, np.nan, at)


def _levels(data: Dataset, name: str, values: pl.Series) -> tuple[Floats, list[str]]:
    """The place of each record's level, and all levels: in declared order, else sorted."""
    if values.dtype.is_temporal():
        raise DataError(
            f"Variable '{name}' holds dates.", hint="turn it into a number or into groups first."
        )
    found = values.drop_nulls().unique().sort()
    if not 1 < len(found) <= MOST_LEVELS:
        count = f"more than {MOST_LEVELS} levels" if len(found) > 1 else "one level at most"
        raise DataError(f"Category '{name}' has {count}.", hint="leave it out of the formula.")
    declared = {_label(one): at for at, one in enumerate(data.schema[name].levels or ())}
    if all(_label(one) in declared for one in found):
        found = found[sorted(range(len(found)), key=lambda at: declared[_label(found[at])])]
    places = values.replace_strict(found, pl.Series(range(len(found))), return_dtype=pl.Float64)
    return places.fill_null(np.nan).to_numpy().copy(), [_label(one) for one in found]


def _label(level: object) -> str:
    return str(int(level)) if isinstance(level, float) and level.is_integer() else str(level)


def _groups(values: pl.Series) -> Integers:
    # Numbered in the order of the records, which is one of their values.
    made: Integers = values.rank("dense").cast(pl.Int64).to_numpy() - 1
    return made
