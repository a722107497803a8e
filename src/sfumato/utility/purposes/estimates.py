"""The estimates that a statement asks for, from the original and from the release."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import polars as pl

from sfumato.data import Dataset
from sfumato.errors import MeasureError, SfumatoError
from sfumato.kernels.arrays import Floats, Mask
from sfumato.pairs.alignment import ComparableVariable
from sfumato.pairs.draws import align_variables
from sfumato.utility.models.covariates import align_covariates, format_level
from sfumato.utility.models.fitting import Family
from sfumato.utility.models.formula import read_formula
from sfumato.utility.models.regression import build_matrices, fit_both
from sfumato.utility.purposes.calibration import calibrate_noised
from sfumato.utility.purposes.statements import Kind, PurposeStatement
from sfumato.utility.purposes.survival import estimate_survival, fit_hazards

LEVEL = 0.95
_WIDTH = 1.959963984540054
_SIGNIFICANT = 0.05
_DRAWS = 10
_BINARY = 2
_TIMES = (0.25, 0.5, 0.75)
"""Of the times of all records: where survival curves are compared."""
_MOST_LEVELS = 50
_FEW_LEVELS = 12
_OF_NUMBERS = ("model", "hazards", "survival", "means", "correlation")


@dataclass(frozen=True)
class PurposeItem:
    """One number that somebody wants from the data, as the original and the release give it.

    Parameters
    ----------
    statement : the line of the purpose that asks for it.
    name : which of its numbers it is.
    original, low, high : the original's estimate, and its 95 % interval.
    released : the estimate from the release; NaN where it gives none.
    corrected : the same after the noise was taken out, where there is noise; else NaN.
    significant : whether the original's interval holds no 0, of a term of a model.
    concludes : whether the release says the same of that, and of its sign.
    reason : why the release gives no estimate.
    """

    statement: str
    name: str
    original: float
    low: float
    high: float
    released: float = math.nan
    corrected: float = math.nan
    significant: bool | None = None
    concludes: bool = True
    concludes_corrected: bool = True
    reason: str = ""

    @property
    def kept_as_released(self) -> bool:
        """Whether the release as it is gives the same answer."""
        return bool(self.low <= self.released <= self.high and self.concludes)

    @property
    def kept(self) -> bool:
        """Whether the release gives the same answer, as it is or with the noise taken out."""
        corrected = self.low <= self.corrected <= self.high and self.concludes_corrected
        return bool(self.kept_as_released or corrected)


def estimate_statement(
    statement: PurposeStatement, original: Dataset, released: Dataset
) -> list[PurposeItem]:
    """What a statement asks for, item by item; what cannot be estimated says why."""
    original.schema.require(statement.variables)
    original, released = (_read_numbers(data, statement) for data in (original, released))
    gone = [name for name in statement.variables if name not in released.columns]
    if gone:
        alone = ESTIMATORS[statement.kind](statement, original, original)
        why = f"'{gone[0]}' is not in the release."
        return [replace(item, released=math.nan, corrected=math.nan, reason=why) for item in alone]
    try:
        return ESTIMATORS[statement.kind](statement, original, released)
    except SfumatoError as error:
        alone = ESTIMATORS[statement.kind](statement, original, original)
        return [replace(item, released=math.nan, corrected=math.nan, reason=error.what)
                for item in alone]  # fmt: skip


def _read_numbers(data: Dataset, statement: PurposeStatement) -> Dataset:
    """Codes that are numbers are numbers, as in any program, unless the formula says C(...)."""
    named = {
        name
        for name in statement.variables
        if name in data.columns
        and data.schema[name].kind in ("nominal", "ordinal")
        and data.dtype(name).is_numeric()
        and (statement.kind in _OF_NUMBERS or data.column(name).n_unique() > _FEW_LEVELS)
        and name != statement.by
    }
    if statement.kind == "model":
        named -= read_formula(statement.formula).categories
    changed = data.schema.changed(sorted(named), kind="continuous", domain=None)
    return data.with_schema(changed) if named else data


# Models ------------------------------------------------------------------------------------------


def _estimate_model(
    statement: PurposeStatement, original: Dataset, released: Dataset
) -> list[PurposeItem]:
    formula = read_formula(statement.formula)
    family: Family = statement.family or _guess_family(original, formula.outcome)
    both = fit_both(original, released, formula, family, level=LEVEL)
    again = None
    calibrated = calibrate_noised(original, released, formula.variables, formula.outcome)
    if calibrated is not None:
        again = fit_both(original, calibrated, formula, family, level=LEVEL).released
    items = []
    for index, term in enumerate(both.original.terms):
        if term == "Intercept":
            continue
        truth, shown = both.original, both.released
        significant = bool(truth.p[index] < _SIGNIFICANT)
        items.append(
            PurposeItem(
                statement.text,
                term,
                float(truth.estimate[index]),
                float(truth.low[index]),
                float(truth.high[index]),
                float(shown.estimate[index]),
                math.nan if again is None else float(again.estimate[index]),
                significant,
                _concludes(
                    truth.estimate[index], significant, shown.estimate[index], shown.p[index]
                ),
                again is None
                or _concludes(
                    truth.estimate[index], significant, again.estimate[index], again.p[index]
                ),
            )
        )
    return items


def _concludes(truth: float, significant: bool, estimate: float, p: float) -> bool:  # noqa: FBT001
    """Whether an analyst would say the same: significant with that sign, or not significant."""
    if significant != bool(p < _SIGNIFICANT):
        return False
    return not significant or bool((truth > 0) == (estimate > 0))


def _guess_family(data: Dataset, outcome: str | None) -> Family:
    if outcome is None:
        return "linear"
    values = data.column(outcome).drop_nulls().unique()
    if len(values) != _BINARY:
        return "linear"
    return "logistic" if not values.dtype.is_numeric() or {*values} == {0, 1} else "linear"


def _estimate_hazards(
    statement: PurposeStatement, original: Dataset, released: Dataset
) -> list[PurposeItem]:
    event = statement.variables[1]
    formula = read_formula(f"{statement.formula} + `{event}`")
    prepared = align_covariates(original, released, formula, binary=False)
    matrices = build_matrices(formula, prepared)
    alias = f"v{formula.variables.index(event)}"
    fitted, names = {}, list[str]()
    for side, (outcome, terms) in matrices.items():
        is_event = [column.startswith(alias) for column in terms.columns]
        happened = terms.to_numpy(dtype=float)[:, is_event].sum(axis=1) > 0.5  # noqa: PLR2004
        used = [c for c, named in zip(terms.columns, is_event, strict=True)
                if not named and c != "Intercept"]  # fmt: skip
        names = [formula.name_column(column, prepared.labels) for column in used]
        times = outcome.to_numpy(dtype=float)[:, 0]
        fitted[side] = fit_hazards(times, happened, terms[used].to_numpy(dtype=float))
    items = []
    for index, name in enumerate(names):
        truth, error = fitted["original"].estimate[index], fitted["original"].error[index]
        shown, spread = fitted["released"].estimate[index], fitted["released"].error[index]
        significant = abs(truth) > _WIDTH * error
        same = significant == (abs(shown) > _WIDTH * spread)
        items.append(
            PurposeItem(
                statement.text,
                name,
                float(truth),
                float(truth - _WIDTH * error),
                float(truth + _WIDTH * error),
                float(shown),
                significant=bool(significant),
                concludes=bool(same and (not significant or (truth > 0) == (shown > 0))),
            )
        )
    return items


# Means, shares, curves ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Sides:
    """The variables of a statement on both sides, so many times where cells are drawn from."""

    draws: Mapping[str, Sequence[ComparableVariable]]

    @classmethod
    def of(cls, original: Dataset, released: Dataset, names: Sequence[str]) -> _Sides:
        aligned = align_variables(original, released, names, draws=_DRAWS)
        for name, sides in aligned.items():
            if isinstance(sides, str):
                raise MeasureError(f"'{name}' cannot be compared: {sides}.", hint="leave it out.")
        return cls({n: sides for n, sides in aligned.items() if not isinstance(sides, str)})

    def is_category(self, name: str) -> bool:
        return self.draws[name][0].categories

    def get_original(self, name: str) -> pl.Series:
        return self.draws[name][0].original

    def average(self, function: Callable[[Mapping[str, pl.Series]], float]) -> float:
        """A number of the release, averaged over the draws from its cells."""
        count = max(len(draws) for draws in self.draws.values())
        found = [
            function({n: draws[i % len(draws)].released for n, draws in self.draws.items()})
            for i in range(count)
        ]
        return math.fsum(found) / len(found)


def _compare_shares(
    statement: PurposeStatement, sides: _Sides, chosen: Mapping[str, Mapping[str, object]]
) -> list[PurposeItem]:
    """The share of the records that have certain values, by what it is called."""
    items = []
    for name, values in chosen.items():
        truth, count = _measure_share({n: sides.get_original(n) for n in sides.draws}, values)
        low, high = _find_wilson_interval(truth, count)
        shown = sides.average(partial(_measure_share_alone, values=values))
        items.append(PurposeItem(statement.text, name, truth, low, high, shown))
    return items


def _measure_share(
    columns: Mapping[str, pl.Series], values: Mapping[str, object]
) -> tuple[float, int]:
    frame = pl.DataFrame([column.alias(name) for name, column in columns.items()]).drop_nulls()
    if frame.is_empty():
        return math.nan, 0
    here = frame.select(pl.all_horizontal(pl.col(n) == v for n, v in values.items())).to_series()
    return float(here.mean() or 0.0), len(frame)  # type: ignore[arg-type]


def _measure_share_alone(columns: Mapping[str, pl.Series], values: Mapping[str, object]) -> float:
    return _measure_share(columns, values)[0]


def _find_wilson_interval(share: float, count: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927), which is honest for rare values."""
    if not count:
        return math.nan, math.nan
    z = _WIDTH**2 / count
    middle = (share + z / 2) / (1 + z)
    width = math.sqrt(share * (1 - share) * z + z * z / 4) / (1 + z)
    return middle - width, middle + width


def _list_levels(values: pl.Series) -> list[object]:
    levels = values.drop_nulls().unique().sort().to_list()
    if len(levels) > _MOST_LEVELS:
        raise MeasureError(
            f"A table of more than {_MOST_LEVELS} categories is no table.",
            hint="name a variable with fewer.",
        )
    return levels


def _estimate_margin(
    statement: PurposeStatement, original: Dataset, released: Dataset
) -> list[PurposeItem]:
    (name,) = statement.variables
    sides = _Sides.of(original, released, [name])
    if not sides.is_category(name):
        everybody: dict[object, Mask] = {"": np.ones(len(original), bool)}
        return _compare_means(statement, sides, name, everybody, None)
    levels = _list_levels(sides.get_original(name))
    chosen = {f"{name} = {format_level(level)}": {name: level} for level in levels}
    return _compare_shares(statement, sides, chosen)


def _estimate_table(
    statement: PurposeStatement, original: Dataset, released: Dataset
) -> list[PurposeItem]:
    sides = _Sides.of(original, released, statement.variables)
    first, second = statement.variables
    rows, columns = (_list_levels(sides.get_original(name)) for name in (first, second))
    chosen = {
        f"{first} = {format_level(row)}, {second} = {format_level(column)}": {
            first: row, second: column,
        }
        for row in rows
        for column in columns
    }  # fmt: skip
    return _compare_shares(statement, sides, chosen)


def _estimate_means(
    statement: PurposeStatement, original: Dataset, released: Dataset
) -> list[PurposeItem]:
    name, by = statement.variables
    sides = _Sides.of(original, released, [name, by])
    if sides.is_category(name):
        raise MeasureError(f"'{name}' is a category and has no mean.", hint=f"{name} * {by}")
    groups = sides.get_original(by)
    members = {level: (groups == level).fill_null(value=False).to_numpy()
               for level in _list_levels(groups)}  # fmt: skip
    return _compare_means(statement, sides, name, members, by)


def _compare_means(
    statement: PurposeStatement,
    sides: _Sides,
    name: str,
    members: Mapping[object, Mask],
    by: str | None,
) -> list[PurposeItem]:
    items = []
    for level, mask in members.items():
        values = sides.get_original(name).to_numpy()[mask]
        values = np.sort(values[~np.isnan(values)])  # so that sums do not depend on the order
        if len(values) < 2:  # noqa: PLR2004 - one value has no interval
            continue
        truth = float(values.mean())
        reach = _WIDTH * float(values.std(ddof=1)) / math.sqrt(len(values))

        def average(columns: Mapping[str, pl.Series], level: object = level) -> float:
            shown = columns[name]
            if by is not None:
                shown = shown.filter((columns[by] == level).fill_null(value=False))
            found = shown.drop_nulls().drop_nans().sort().mean()
            return math.nan if found is None else float(found)  # type: ignore[arg-type]

        label = f"mean {name}" if by is None else f"mean {name}, {by} = {format_level(level)}"
        items.append(
            PurposeItem(statement.text, label, truth, truth - reach, truth + reach,
                        sides.average(average))
        )  # fmt: skip
    return items


def _estimate_correlation(
    statement: PurposeStatement, original: Dataset, released: Dataset
) -> list[PurposeItem]:
    first, second = statement.variables
    sides = _Sides.of(original, released, [first, second])
    if sides.is_category(first) or sides.is_category(second):
        raise MeasureError("Only numbers have a correlation.", hint=f"{first} * {second}")
    truth, count = _correlate({name: sides.get_original(name) for name in (first, second)})
    reach = _WIDTH / math.sqrt(max(count - 3, 1))
    low, high = (math.tanh(math.atanh(max(min(truth, 1 - 1e-12), -1 + 1e-12)) + sign * reach)
                 for sign in (-1, 1))  # fmt: skip
    shown = sides.average(lambda columns: _correlate(columns)[0])
    name = f"correlation of {first} and {second}"
    return [PurposeItem(statement.text, name, truth, low, high, shown)]


def _correlate(columns: Mapping[str, pl.Series]) -> tuple[float, int]:
    values = np.column_stack([column.cast(pl.Float64).fill_null(math.nan).to_numpy()
                              for column in columns.values()])  # fmt: skip
    values = values[~np.isnan(values).any(axis=1)]
    values = values[np.lexsort(values.T)]
    if len(values) < 3 or (values.std(axis=0) == 0).any():  # noqa: PLR2004
        return math.nan, len(values)
    return float(np.corrcoef(values.T)[0, 1]), len(values)


def _estimate_survival(
    statement: PurposeStatement, original: Dataset, released: Dataset
) -> list[PurposeItem]:
    time, event = statement.variables[:2]
    sides = _Sides.of(original, released, statement.variables)
    truth = {name: sides.get_original(name) for name in statement.variables}
    at = np.quantile(truth[time].drop_nulls().drop_nans().to_numpy(), _TIMES)
    levels = _list_levels(truth[statement.by]) if statement.by else [None]
    items = []
    for level in levels:
        share, error = _find_curve(truth, statement, level, at)
        for index, share_of in enumerate(_TIMES):

            def survive(
                columns: Mapping[str, pl.Series], level: object = level, index: int = index
            ) -> float:
                return float(_find_curve(columns, statement, level, at)[0][index])

            reach = _WIDTH * float(error[index])
            of_group = f", {statement.by} = {format_level(level)}" if statement.by else ""
            items.append(
                PurposeItem(
                    statement.text,
                    f"without {event} at {share_of:.0%} of the times{of_group}",
                    float(share[index]),
                    float(share[index]) - reach,
                    float(share[index]) + reach,
                    sides.average(survive),
                )
            )
    return items


def _find_curve(
    columns: Mapping[str, pl.Series], statement: PurposeStatement, level: object, at: Floats
) -> tuple[Floats, Floats]:
    time, event = statement.variables[:2]
    frame = pl.DataFrame([column.alias(name) for name, column in columns.items()]).drop_nulls()
    if statement.by:
        frame = frame.filter(pl.col(statement.by) == level)
    if frame.is_empty():
        return np.full(len(at), math.nan), np.full(len(at), math.nan)
    happened = frame[event]
    is_event = happened > happened.min() if happened.n_unique() > 1 else happened == 1
    curve = estimate_survival(frame[time].cast(pl.Float64).to_numpy(), is_event.to_numpy(), at)
    return curve.share, curve.error


ESTIMATORS: Mapping[Kind, Callable[[PurposeStatement, Dataset, Dataset], list[PurposeItem]]] = {
    "model": _estimate_model,
    "hazards": _estimate_hazards,
    "survival": _estimate_survival,
    "means": _estimate_means,
    "table": _estimate_table,
    "correlation": _estimate_correlation,
    "margin": _estimate_margin,
}
